/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault: makes the first, second, third ... operation fail, until a run passes unharmed; and kills
 * the program at any moment. After each: a documented exit code, recovery by e2fsck -p, nothing
 * found by e2fsck -fn, equal content, nothing leaked, nothing written after a failure that must
 * stop everything (I12).
 *
 *   fault [--all] [--kills N] [--program P] [--only NAME]      prints "ok NAME ..." or "not ok NAME
 * ..."
 */
#include "fault/run.h"
#include "support/image.h"
#include "support/recipes.h"
#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RUNS 20000

struct bench {
	char dir[64], image[96];
	const char *program, *only;
	unsigned kills;
	struct outcome *out;
	/* the image at hand */
	struct judge *judge;
	struct hashset *good;
	uint8_t *base;
	uint64_t size;
	uint64_t clean_frag; /* fragmented files after a run without faults */
	size_t failed;
	bool all; /* every allocation in all sweeps of them */
};

static const struct sweep {
	const char *name;
	struct fault_plan plan;
} sweeps[] = {
	{ "read", { .op = FAULT_READ } },
	{ "write", { .op = FAULT_WRITE } },
	{ "write-short", { .op = FAULT_WRITE, .torn = true } },
	{ "write-ENOSPC", { .op = FAULT_WRITE, .sys = ENOSPC } },
	{ "flush", { .op = FAULT_FLUSH } },
	{ "submit", { .op = FAULT_SUBMIT } },
	{ "discard", { .op = FAULT_DISCARD } },
	{ "discard-unknown", { .op = FAULT_DISCARD, .sys = EOPNOTSUPP } },
	{ "device-gone", { .op = FAULT_ANY, .sticky = true, .torn = true } },
};

__attribute__((format(printf, 4, 5))) static void result(struct bench *b, bool good,
							 const char *name, const char *fmt, ...)
{
	va_list ap;

	b->failed += !good;
	printf("%s %s: ", good ? "ok" : "not ok", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

static bool wanted(const struct bench *b, const char *name)
{
	return !b->only || strstr(name, b->only);
}

static void take_image(struct bench *b, const char *recipe)
{
	static const struct fault none = { .malloc_nth = 0 };
	struct image *im;

	recipe_make(recipe, b->image);
	im = image_open(b->image);
	b->size = image_blocks(im) * image_block_size(im);
	image_close(im);
	b->base = malloc(b->size);
	if (!b->base)
		image_die("out of memory");
	image_read(b->image, 0, b->base, b->size);
	b->good = hashset_new(MAX_RUNS);
	b->judge = judge_new(b->dir, b->size, b->program, b->good);
	judge_want(b->judge, b->image);
	run_with(b->judge, b->base, &none, b->out);
	b->clean_frag = b->out->frag_after;
	if (b->out->status || b->out->exit_code)
		image_die("%s: the run fails without faults: %s", recipe, b->out->error);
}

static void drop_image(struct bench *b)
{
	judge_free(b->judge);
	hashset_free(b->good);
	free(b->base);
	b->judge = NULL;
	b->base = NULL;
}

static bool known_code(int code)
{
	return code == 0 || code == 4 || code == 8 || code == 16 || code == 32;
}

/* What is wrong with this run, or NULL. The image is judged last: it is changed by that. */
static const char *complaint(struct bench *b)
{
	const struct outcome *o = b->out;

	if (o->status)
		return "the run crashed";
	if (!known_code(o->exit_code))
		return "undocumented exit code";
	/* a failed read or copy may be made good by a second try */
	if (o->exit_code == 0 && (o->n_dropped || o->frag_after != b->clean_frag))
		return "exit code 0 although it is not done";
	if (o->fired && o->exit_code == 4)
		return "an I/O error or a lack of memory is taken for damage";
	if (!o->fired && o->exit_code != 0)
		return "fails although nothing was made to fail";
	if (o->exit_code && !*o->error && !o->n_dropped)
		return "no error text and no file listed";
	if (strchr(o->error, '\n'))
		return "the error text has more than one line";
	if (o->leaked_fds > 0)
		return "descriptors leaked";
	if (o->leaked_allocations > 0)
		return "memory leaked";
	if (judge_check(b->judge, JUDGE_PREEN) == JUDGE_BAD)
		return judge_why(b->judge);
	return NULL;
}

/* A failed discard is a warning, and none at all where the device knows no such thing. */
static const char *discard_complaint(const struct bench *b, const struct sweep *s)
{
	const struct outcome *o = b->out;

	if (o->exit_code)
		return "a failed discard is taken for an error";
	if (o->discard_failed != (o->fired && s->plan.sys != EOPNOTSUPP))
		return "warned, or not warned, of a failed discard";
	if (!o->fired && o->ops[FAULT_DISCARD] && !o->bytes_discarded)
		return "nothing was discarded";
	return NULL;
}

static void sweep_device(struct bench *b, const char *recipe, const struct sweep *s)
{
	char name[64];
	const char *why = NULL;
	uint64_t n = 0, codes[64] = { 0 };
	/* What isn't needed is not done: it would only give more operations to go through. */
	bool discards = s->plan.op == FAULT_DISCARD || s->plan.op == FAULT_ANY;
	struct fault f = { .device = s->plan, .discard = discards };

	snprintf(name, sizeof(name), "%s/%s", recipe, s->name);
	if (!wanted(b, name))
		return;
	do {
		f.device.nth = ++n;
		run_with(b->judge, b->base, &f, b->out);
		why = complaint(b);
		/* nothing is written after a failed flush: of the events before it no more */
		if (!why && b->out->fired && s->plan.op == FAULT_FLUSH && b->out->flushes >= n)
			why = "a flush went on after one had failed";
		if (!why && s->plan.op == FAULT_DISCARD)
			why = discard_complaint(b, s);
		codes[b->out->exit_code & 63]++;
	} while (!why && b->out->fired && n < MAX_RUNS);
	if (why)
		result(b, false, name, "failure %llu: %s (exit code %d, %s)", (unsigned long long)n,
		       why, b->out->exit_code, b->out->error);
	else
		result(b, true, name, "%llu runs (exit code 8: %llu, 0: %llu)",
		       (unsigned long long)n, (unsigned long long)codes[8],
		       (unsigned long long)codes[0]);
}

/* Every step-th allocation fails. */
static void sweep_malloc(struct bench *b, const char *recipe, bool look, unsigned step)
{
	char name[64];
	const char *why = NULL;
	struct fault f = { .malloc_nth = 1, .look = look };
	uint64_t n = 0;

	snprintf(name, sizeof(name), "%s/malloc%s", recipe, look ? "-look" : "");
	if (!wanted(b, name))
		return;
	for (;; f.malloc_nth += step) {
		n++;
		run_with(b->judge, b->base, &f, b->out);
		why = complaint(b);
		if (why || b->out->allocations < f.malloc_nth || n == MAX_RUNS)
			break;
	}
	if (why)
		result(b, false, name, "allocation %llu: %s (status %d, exit code %d, %s)",
		       (unsigned long long)f.malloc_nth, why, b->out->status, b->out->exit_code,
		       b->out->error);
	else
		result(b, true, name, "%llu runs", (unsigned long long)n);
}

static uint32_t inode_of(const struct bench *b, const char *path)
{
	ext2_filsys fs;
	ext2_ino_t ino = 0;

	if (ext2fs_open(b->image, 0, 0, 0, unix_io_manager, &fs) ||
	    ext2fs_namei(fs, EXT2_ROOT_INO, EXT2_ROOT_INO, path, &ino))
		image_die("no %s in the image", path);
	ext2fs_close_free(&fs);
	return ino;
}

/* A bad sector under one file costs that file, not the run. */
static void bad_source(struct bench *b)
{
	static const char name[] = "bad-source-sector";
	struct fault f = { .device = { .bad_op = FAULT_READ, .bad_len = 512 } };
	uint32_t ino, bs;
	struct image *im;
	const char *why;

	if (!wanted(b, name))
		return;
	ino = inode_of(b, "/dir/random");
	im = image_open(b->image);
	bs = image_block_size(im);
	f.device.bad_from = image_file_block(im, ino, 75) * bs + 512;
	image_close(im);
	run_with(b->judge, b->base, &f, b->out);
	why = complaint(b);
	if (!why && b->out->exit_code != 8)
		why = "exit code is not 8";
	if (!why && (b->out->n_dropped != 1 || b->out->dropped[0] != ino))
		why = "the file is not listed, or others are";
	if (!why && (b->out->frag_after > b->clean_frag + 1 || !b->out->transactions))
		why = "the other files were not defragmented";
	result(b, !why, name, "%s (%zu dropped, %llu fragmented)",
	       why ? why : "one file dropped, the others done", b->out->n_dropped,
	       (unsigned long long)b->out->frag_after);
}

/* Where writes fail, somewhere else is used or the file is dropped. */
static void bad_target(struct bench *b)
{
	static const char name[] = "bad-target-sectors";
	struct fault f = { .device = { .bad_op = FAULT_WRITE } };
	const char *why;

	if (!wanted(b, name))
		return;
	/* the last third of the image: nothing but free space */
	f.device.bad_from = b->size / 3 * 2;
	f.device.bad_len = b->size - f.device.bad_from;
	run_with(b->judge, b->base, &f, b->out);
	if (!b->out->fired)
		b->out->exit_code = 0; /* nothing was put there */
	why = complaint(b);
	result(b, !why, name, "%s", why ? why : "consistent");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Starts the program on the judge's image and kills it after `delay` seconds (< 0: never). */
static int start_and_kill(struct bench *b, double delay)
{
	struct timespec t = { .tv_sec = (time_t)delay,
			      .tv_nsec = (long)((delay - (double)(time_t)delay) * 1e9) };
	pid_t pid;
	int status;

	pid = fork();
	if (pid < 0)
		image_die("fork");
	if (!pid) {
		execl(b->program, b->program, "-q", judge_path(b->judge), (char *)NULL);
		_exit(127);
	}
	if (delay >= 0) {
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void kill_often(struct bench *b)
{
	static const char name[] = "sigkill";
	double took, start;
	unsigned killed = 0, touched = 0, i;
	uint8_t *left = malloc(b->size);
	int fd = open(judge_path(b->judge), O_RDONLY | O_CLOEXEC);
	const char *why = NULL;

	if (!left || fd < 0)
		image_die("%s", strerror(errno));
	judge_load(b->judge, b->base);
	start = seconds();
	if (start_and_kill(b, -1))
		why = "the program fails without being killed";
	took = seconds() - start;
	for (i = 0; !why && i < b->kills; i++) {
		bool wrote;
		int status;

		judge_load(b->judge, b->base);
		status = start_and_kill(b, took * (i + 0.5) / b->kills);
		killed += WIFSIGNALED(status);
		if (pread(fd, left, b->size, 0) != (ssize_t)b->size)
			image_die("%s", strerror(errno));
		wrote = WIFSIGNALED(status) && memcmp(left, b->base, b->size);
		touched += wrote;
		/* Late, and nothing is written yet: the machine has become slower. */
		if (WIFSIGNALED(status) && !wrote && i > b->kills / 2)
			took *= 1.05;
		if (!WIFSIGNALED(status) && status)
			why = "the program fails";
		else if (judge_check(b->judge, JUDGE_PREEN) == JUDGE_BAD)
			why = judge_why(b->judge);
		if (why)
			break;
		judge_load(b->judge, left);
		if (judge_check(b->judge, JUDGE_RERUN) == JUDGE_BAD)
			why = judge_why(b->judge);
	}
	if (!why && !touched)
		why = "it never wrote before it was killed";
	result(b, !why, name, "%u moments, %u killed, %u of them while it wrote%s%s", i, killed,
	       touched, why ? ": " : "", why ? why : "");
	close(fd);
	free(left);
}

static void parse(int argc, char **argv, struct bench *b)
{
	static const struct option options[] = { { "kills", 1, NULL, 'k' },
						 { "program", 1, NULL, 'p' },
						 { "only", 1, NULL, 'o' },
						 { "all", 0, NULL, 'a' },
						 { NULL, 0, NULL, 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'k')
			b->kills = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			b->program = optarg;
		else if (c == 'a')
			b->all = true;
		else if (c == 'o')
			b->only = optarg;
		else
			exit(16);
	}
}

/* A child with image, judge and outcome of its own; most of the time is spent waiting. */
static pid_t start(struct bench *b, const char *recipe, void (*job)(struct bench *, const char *))
{
	pid_t pid = fork();

	if (pid < 0)
		image_die("fork");
	if (pid)
		return pid;
	snprintf(b->image, sizeof(b->image), "%s/base-%d.img", b->dir, (int)getpid());
	b->out = mmap(NULL, sizeof(*b->out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (b->out == MAP_FAILED)
		image_die("mmap");
	take_image(b, recipe);
	job(b, recipe);
	drop_image(b);
	unlink(b->image);
	_exit(b->failed ? 1 : 0);
}

static void all_devices(struct bench *b, const char *recipe)
{
	for (size_t s = 0; s < sizeof(sweeps) / sizeof(*sweeps); s++)
		sweep_device(b, recipe, &sweeps[s]);
}

static void the_rest(struct bench *b, const char *recipe)
{
	bad_source(b);
	bad_target(b);
	sweep_malloc(b, recipe, false, 1);
	sweep_malloc(b, recipe, true, b->all ? 1 : 5);
}

static void allocations(struct bench *b, const char *recipe)
{
	sweep_malloc(b, recipe, false, b->all ? 1 : 3);
}

static void kills(struct bench *b, const char *recipe)
{
	(void)recipe;
	if (wanted(b, "sigkill"))
		kill_often(b);
}

static bool finish(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	static const char *const small[] = { "base1k", "dirs",	    "frees",
					     "tight",  "fewmapped", "fewordered" };
	enum { SMALL = sizeof(small) / sizeof(small[0]) };
	struct bench b = { .program = "build/scaledefrag-offline", .kills = 200 };
	pid_t child[SMALL + 2];
	bool good = true;

	parse(argc, argv, &b);
	snprintf(b.dir, sizeof(b.dir), "%s/fault-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(b.dir))
		image_die("cannot make a directory for the images");
	for (size_t i = 0; i < SMALL; i++)
		child[i] = start(&b, small[i], all_devices);
	child[SMALL] = start(&b, "base1k", the_rest);
	child[SMALL + 1] = start(&b, "fewmapped", allocations);
	for (size_t i = 0; i < SMALL + 2; i++)
		good &= finish(child[i]);
	good &= finish(start(&b, "churn", kills)); /* alone: it measures time */
	rmdir(b.dir);
	return good ? 0 : 1;
}
