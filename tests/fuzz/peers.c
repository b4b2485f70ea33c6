/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * peers [--flips N] [--seed N] IMAGE...
 *
 * Runs the engine on other people's images, as they are and with one byte changed (N times each).
 * Right is: done, and then e2fsck -fn finds no more than before and the content digest is equal; or
 * refused, and then no byte has changed. Each image has a process of its own, so that a crash or an
 * endless loop is one image's. scripts/peer-images gets the images.
 */
#include "images.h"
#include "scaledefrag/engine.h"
#include "scaledefrag/move.h"
#include "support/digest.h"
#include "support/image.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 120 }; /* seconds for one run */

struct tally { /* shared with the child */
	uint64_t run, done, refused, worse, at;
};

struct peer {
	const char *name;
	char path[64];		      /* the copy that is worked on */
	uint8_t *mem, *good, *before; /* before: the run */
	size_t size;
	struct tally *tally;
};

static void clock_fixed(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000001;
	*nsec = 0;
}

/* Lines that e2fsck -fn prints, and its exit code. */
static int look(const char *path, unsigned *lines)
{
	const char *const argv[] = { "e2fsck", "-fn", path, NULL };
	FILE *out = tmpfile();
	int rc, c;

	if (!out)
		image_die("no temporary file");
	rc = image_run(argv, fileno(out));
	rewind(out);
	for (*lines = 0; (c = fgetc(out)) != EOF;)
		*lines += c == '\n';
	fclose(out);
	return rc;
}

static void say_worse(const struct peer *p, const char *what, const char *why)
{
	p->tally->worse++;
	printf("not ok peer %s, flip %llu: %s%s%s\n", p->name, (unsigned long long)p->tally->at,
	       what, *why ? ": " : "", why);
	fflush(stdout);
}

/* After exit code 0. `before` as a file, to be judged in the same way. */
static void judge_done(const struct peer *p, bool known, const struct digest *was)
{
	char other[80], why[512], differ[128];
	unsigned lines[2];
	struct digest is;
	int rc[2], fd;

	rc[1] = look(p->path, &lines[1]);
	if (rc[1]) {
		snprintf(other, sizeof(other), "%s.before", p->path);
		fd = open(other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, p->before, p->size) != (ssize_t)p->size)
			image_die("cannot write %s", other);
		close(fd);
		rc[0] = look(other, &lines[0]);
		unlink(other);
		if (rc[1] > rc[0] || lines[1] > lines[0]) {
			snprintf(why, sizeof(why), "exit code %d, %u lines; before %d, %u", rc[1],
				 lines[1], rc[0], lines[0]);
			say_worse(p, "e2fsck -fn finds more", why);
		}
	}
	if (!known)
		return;
	if (digest_image(p->path, true, &is, why, sizeof(why))) {
		say_worse(p, "no digest afterwards", why);
		return;
	}
	if (!digest_equal(was, &is)) {
		digest_differ(was, &is, differ, sizeof(differ));
		say_worse(p, "other content", differ);
	}
	digest_release(&is);
}

static void run(const struct peer *p)
{
	const struct engine_options o = {
		.volume = { .path = p->path,
			    .proc_root = images_roots()->proc,
			    .sys_root = images_roots()->sys },
		.threads = 2,
		.queue_depth = 8,
		.memory = 2 * move_memory_floor(2, 65536),
		.clock = clock_fixed,
	};
	struct error err = ERROR_INIT;
	struct digest was;
	struct report r;
	char why[512];
	bool known, failed;

	alarm(LIMIT);
	failed = engine_run(&o, &r, &err);
	alarm(0);
	p->tally->run++;
	if (failed) {
		p->tally->refused++;
		fuzz_say("%s: %s", p->name, err.text);
		if (memcmp(p->before, p->mem, p->size))
			say_worse(p, "refused, but written to", err.text);
	} else {
		uint8_t *after = malloc(p->size);

		if (!after)
			image_die("out of memory");
		p->tally->done++;
		fuzz_say("%s: outcome %d", p->name, (int)r.outcome);
		memcpy(after, p->mem, p->size);
		memcpy(p->mem, p->before, p->size);
		known = !digest_image(p->path, true, &was, why, sizeof(why));
		memcpy(p->mem, after, p->size);
		free(after);
		judge_done(p, known, &was);
		if (known)
			digest_release(&was);
		memcpy(p->mem, p->before, p->size);
	}
	report_release(&r);
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static bool is_zero(const uint8_t *b, size_t len)
{
	return !len || (!*b && !memcmp(b, b + 1, len - 1));
}

/* 1 KiB pieces that hold something: where a flip may matter. */
static size_t list_used(const struct peer *p, size_t **out)
{
	size_t n = 0;

	*out = calloc(p->size / 1024 + 1, sizeof(**out));
	if (!*out)
		image_die("out of memory");
	for (size_t i = 0; i < p->size / 1024; i++)
		if (!is_zero(p->good + i * 1024, 1024))
			(*out)[n++] = i;
	return n;
}

static void run_image(struct peer *p, uint64_t flips, uint64_t seed)
{
	size_t *used, n = list_used(p, &used);

	run(p);
	for (p->tally->at = 1; n && p->tally->at <= flips; p->tally->at++) {
		uint64_t random = seed + p->tally->at;
		size_t at = used[next_random(&random) % n] * 1024 + next_random(&random) % 1024;

		p->mem[at] ^= (uint8_t)(next_random(&random) % 255 + 1);
		p->before[at] = p->mem[at];
		run(p);
		p->mem[at] = p->before[at] = p->good[at];
	}
	free(used);
}

static void load(struct peer *p)
{
	struct stat st;
	int fd = open(p->name, O_RDONLY | O_CLOEXEC);
	void *from;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0)
		image_die("cannot open %s", p->name);
	p->size = (size_t)st.st_size;
	from = mmap(NULL, p->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	snprintf(p->path, sizeof(p->path), "/dev/shm/peer-%d.img", (int)getpid());
	fd = open(p->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (from == MAP_FAILED || fd < 0 || ftruncate(fd, st.st_size))
		image_die("cannot make %s", p->path);
	p->mem = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	p->good = malloc(p->size);
	p->before = malloc(p->size);
	if (p->mem == MAP_FAILED || !p->good || !p->before)
		image_die("out of memory");
	memcpy(p->good, from, p->size);
	memcpy(p->before, from, p->size);
	memcpy(p->mem, from, p->size);
	munmap(from, p->size);
}

static void one(const char *name, uint64_t flips, uint64_t seed, struct tally *t)
{
	struct peer p = { .name = name, .tally = t };
	char left[64];
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		load(&p);
		run_image(&p, flips, seed);
		unlink(p.path);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		image_die("%s", strerror(errno));
	snprintf(left, sizeof(left), "/dev/shm/peer-%d.img", (int)pid);
	unlink(left);
	p.name = name;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		say_worse(&p, "it doesn't end", "");
	else if (status)
		say_worse(&p, "it ends with",
			  WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit code");
}

int main(int argc, char **argv)
{
	uint64_t flips = 0, seed = 1;
	struct tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			       -1, 0),
		     all = { 0 };

	if (t == MAP_FAILED)
		image_die("no memory");
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--flips") && i + 1 < argc) {
			flips = strtoull(argv[++i], NULL, 0);
		} else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
			seed = strtoull(argv[++i], NULL, 0);
		} else {
			*t = (struct tally){ 0 };
			one(argv[i], flips, seed, t);
			if (!t->worse)
				printf("ok peer %s: %llu done, %llu refused\n", argv[i],
				       (unsigned long long)t->done, (unsigned long long)t->refused);
			all.run += t->run;
			all.done += t->done;
			all.refused += t->refused;
			all.worse += t->worse;
		}
	}
	printf("%llu run, %llu done, %llu refused, %llu worse\n", (unsigned long long)all.run,
	       (unsigned long long)all.done, (unsigned long long)all.refused,
	       (unsigned long long)all.worse);
	return all.worse ? 1 : 0;
}
