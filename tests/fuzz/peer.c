/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "peer.h"
#include "images.h"
#include "scaledefrag/engine.h"
#include "support/digest.h"
#include "support/image.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT = 120 }; /* seconds for one run */
/* For the largest of the images; where it is not enough, a refusal would say nothing of the image.
 */
#define MEMORY (256ull << 20)

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

void peer_worse(const struct peer *p, const char *what, const char *why)
{
	p->tally->worse++;
	printf("not ok peer %s, flip %llu: %s%s%s\n", p->name, (unsigned long long)p->tally->at,
	       what, *why ? ": " : "", why);
	fflush(stdout);
}

/* A file in memory, which another process can open, too. */
static int memory_file(const char *name, size_t size, char *path, size_t n_path)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size))
		image_die("no file in memory: %s", strerror(errno));
	snprintf(path, n_path, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}

uint8_t *peer_map(int fd, size_t size, int flags)
{
	uint8_t *m = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (m == MAP_FAILED)
		image_die("out of memory");
	return m;
}

/* The next part of the file that is no hole; false: there is none. */
static bool next_range(int fd, off_t from, struct span *r)
{
	r->at = lseek(fd, from, SEEK_DATA);
	if (r->at < 0)
		return false;
	r->end = lseek(fd, r->at, SEEK_HOLE);
	return r->end > r->at;
}

/* No byte differs from `before`. As long as the holes are the same ones, they need no look. */
static bool untouched(const struct peer *p)
{
	struct span r = { 0, 0 };
	size_t n = 0;
	bool holes = true;

	while (next_range(p->fd, r.end, &r)) {
		holes = holes && n < p->n_data && p->data[n].at == r.at && p->data[n].end == r.end;
		n++;
		if (memcmp(p->before + r.at, p->mem + r.at, (size_t)(r.end - r.at)))
			return false;
	}
	return (holes && n == p->n_data) || !memcmp(p->before, p->mem, p->size);
}

/* The image as it was before the run, in a file of its own. */
static int file_before(const struct peer *p, char *path, size_t n_path)
{
	int fd = memory_file("before", p->size, path, n_path);

	for (size_t i = 0; i < p->n_data; i++) {
		size_t len = (size_t)(p->data[i].end - p->data[i].at);

		if (pwrite(fd, p->before + p->data[i].at, len, p->data[i].at) != (ssize_t)len)
			image_die("cannot write %s", path);
	}
	return fd;
}

/* And the copy that is worked on is so again, holes too. */
static void restore(const struct peer *p)
{
	if (ftruncate(p->fd, 0) || ftruncate(p->fd, (off_t)p->size))
		image_die("cannot restore %s", p->name);
	for (size_t i = 0; i < p->n_data; i++)
		memcpy(p->mem + p->data[i].at, p->before + p->data[i].at,
		       (size_t)(p->data[i].end - p->data[i].at));
}

/* After a run that has written, and ended well. */
static void judge_done(const struct peer *p)
{
	char path[64], why[512], differ[128];
	struct digest was, is;
	int rc[2], fd = file_before(p, path, sizeof(path));
	unsigned lines[2];

	rc[1] = look(p->path, &lines[1]);
	if (rc[1]) {
		rc[0] = look(path, &lines[0]);
		if (rc[1] > rc[0] || lines[1] > lines[0]) {
			snprintf(why, sizeof(why), "exit code %d, %u lines; before %d, %u", rc[1],
				 lines[1], rc[0], lines[0]);
			peer_worse(p, "e2fsck -fn finds more", why);
		}
	}
	if (!digest_image(path, true, &was, why, sizeof(why))) {
		if (digest_image(p->path, true, &is, why, sizeof(why))) {
			peer_worse(p, "no digest afterwards", why);
		} else {
			if (!digest_equal(&was, &is)) {
				digest_differ(&was, &is, differ, sizeof(differ));
				peer_worse(p, "other content", differ);
			}
			digest_release(&is);
		}
		digest_release(&was);
	}
	close(fd);
}

static void run(const struct peer *p)
{
	const struct engine_options o = {
		.volume = { .path = p->path,
			    .proc_root = images_roots()->proc,
			    .sys_root = images_roots()->sys },
		.threads = 1,
		.queue_depth = 8,
		.memory = MEMORY,
		.clock = clock_fixed,
	};
	struct error err = ERROR_INIT;
	struct report r;
	bool failed, same;

	alarm(LIMIT);
	failed = engine_run(&o, &r, &err);
	alarm(0);
	p->tally->run++;
	same = untouched(p);
	if (failed) {
		p->tally->refused++;
		fuzz_say("%s: %s", p->name, err.text);
		if (!same)
			peer_worse(p, "refused, but written to", err.text);
		if (!p->tally->at && strstr(err.text, "--memory")) /* MEMORY is too little */
			peer_worse(p, "refused for something else than the image", err.text);
	} else {
		p->tally->done++;
		fuzz_say("%s: outcome %d", p->name, (int)r.outcome);
		if (!same) {
			p->tally->written++;
			judge_done(p);
		}
	}
	if (!same)
		restore(p);
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
	for (size_t k = 0; k < p->n_data; k++)
		for (size_t i = (size_t)p->data[k].at / 1024;
		     i < p->size / 1024 && i < ((size_t)p->data[k].end + 1023) / 1024; i++)
			if (!is_zero(p->good + i * 1024, 1024))
				(*out)[n++] = i;
	return n;
}

void peer_flips(struct peer *p, uint64_t first, uint64_t last, uint64_t seed)
{
	size_t *used, n = list_used(p, &used);

	for (uint64_t k = first; k <= last; k++) {
		uint64_t random = seed + k;
		size_t at;

		p->tally->at = k;
		if (!k) {
			run(p);
		} else if (n) {
			at = used[next_random(&random) % n] * 1024 + next_random(&random) % 1024;
			p->before[at] = p->mem[at] ^= (uint8_t)(next_random(&random) % 255 + 1);
			run(p);
			p->mem[at] = p->before[at] = p->good[at];
		}
	}
	free(used);
}

void peer_load(struct peer *p)
{
	int from = open(p->name, O_RDONLY | O_CLOEXEC);
	struct span r = { 0, 0 };
	struct stat st;

	if (from < 0 || fstat(from, &st) || st.st_size <= 0)
		image_die("cannot open %s", p->name);
	p->size = (size_t)st.st_size;
	p->good = peer_map(from, p->size, MAP_PRIVATE);
	close(from);
	p->fd = memory_file("peer", p->size, p->path, sizeof(p->path));
	for (size_t at = 0; at < p->size; at += 4096) {
		size_t len = p->size - at < 4096 ? p->size - at : 4096;

		if (!is_zero(p->good + at, len) &&
		    pwrite(p->fd, p->good + at, len, (off_t)at) != (ssize_t)len)
			image_die("cannot fill %s", p->path);
	}
	p->mem = peer_map(p->fd, p->size, MAP_SHARED);
	p->before = peer_map(-1, p->size, MAP_PRIVATE | MAP_ANONYMOUS);
	while (next_range(p->fd, r.end, &r)) {
		p->data = realloc(p->data, (p->n_data + 1) * sizeof(*p->data));
		if (!p->data)
			image_die("out of memory");
		p->data[p->n_data++] = r;
		memcpy(p->before + r.at, p->good + r.at, (size_t)(r.end - r.at));
	}
}
