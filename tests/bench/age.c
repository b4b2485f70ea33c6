/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench-age: ages a mounted file system by ordinary system calls, so that the kernel's own
 * allocator makes the fragments.
 *
 *   bench-age [--seed N] PROFILE DIR
 *
 * Many files grow at the same time, by pieces, one of them at random each time. A file that has its
 * size makes place for a new one. When the file system is as full as the profile says, complete
 * files are removed at random. This goes on until some times the file system's size was written.
 * Sizes are drawn evenly on a logarithmic scale. After each piece the kernel is made to give it
 * blocks at once, and the file is closed, as mail servers and logs do; with `late` it may take its
 * time. Prints what it did.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PIECE_MAX ((size_t)4 << 20) /* bytes of one system call */

struct profile {
	const char *name;
	unsigned piece[2], size[2]; /* KiB: least and most */
	unsigned growing;	    /* files that grow at the same time */
	unsigned per_dir;	    /* files in a directory */
	unsigned full;		    /* percent */
	double turnover;	    /* times the file system's size */
	bool late;
	unsigned crumbs; /* percent of the small files, that fill it first, that stay; 0: none */
};

/* After Filebench's and FFSB's workloads of these names, on which ScaleDefrag was measured. */
static const struct profile profiles[] = {
	{ "varmail", { 4, 16 }, { 8, 128 }, 400, 60, 70, 1.5, false, 0 },
	{ "ffsb", { 8, 64 }, { 32, 1024 }, 200, 60, 70, 1.5, false, 0 },
	{ "fileserver", { 16, 256 }, { 64, 4096 }, 100, 60, 70, 1.5, false, 0 },
	{ "oltp", { 512, 2048 }, { 49152, 262144 }, 12, 60, 70, 0.7, false, 0 },
	{ "tree", { 4, 512 }, { 1, 4096 }, 24, 60, 75, 4.0, true, 0 },
	{ "maildir", { 4, 8 }, { 1, 24 }, 100, 20000, 70, 1.5, false, 0 },
	{ "full", { 4, 128 }, { 16, 4096 }, 60, 60, 98, 1.0, false, 55 },
};

struct file {
	uint64_t id;
	uint64_t size, wanted; /* bytes; wanted 0: there is none */
};

struct ager {
	const struct profile *p;
	const char *root;
	uint64_t random, next_id;
	struct file *growing, *complete;
	size_t n_complete, room;
	uint64_t written, unsynced, removed, pieces; /* the first two in bytes */
	char *buf;
};

static void die(const char *what)
{
	fprintf(stderr, "bench-age: %s: %s\n", what, strerror(errno));
	exit(8);
}

/* splitmix64 */
static uint64_t draw(struct ager *a)
{
	uint64_t z = a->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t draw_bytes(struct ager *a, const unsigned range[2])
{
	double u = (double)(draw(a) >> 11) / (double)(1ull << 53);
	double low = log(range[0]), high = log(range[1]);

	return (uint64_t)(1024.0 * exp(low + u * (high - low)));
}

/* Percent in use; *size: bytes of the file system. */
static double used(const struct ager *a, double *size)
{
	struct statvfs v;

	if (statvfs(a->root, &v))
		die(a->root);
	if (size)
		*size = (double)v.f_blocks * (double)v.f_frsize;
	return 100.0 * (1.0 - (double)v.f_bfree / (double)v.f_blocks);
}

static void name_of(const struct ager *a, const struct file *f, char *out, size_t size)
{
	snprintf(out, size, "%s/%05llu/%08llu", a->root,
		 (unsigned long long)(f->id / a->p->per_dir), (unsigned long long)f->id);
}

/* False: the file system is full. */
static bool grow(struct ager *a, struct file *f, uint64_t len)
{
	char path[4096];
	bool fits = true;
	int fd;

	name_of(a, f, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 && errno == ENOENT) {
		*strrchr(path, '/') = '\0';
		if (mkdir(path, 0755) && errno != ENOSPC)
			die(path);
		name_of(a, f, path, sizeof(path));
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	}
	if (fd < 0)
		return errno == ENOSPC || errno == ENOENT ? false : (die(path), false);
	while (len && fits) {
		size_t part = len < PIECE_MAX ? (size_t)len : PIECE_MAX;
		ssize_t n;

		snprintf(a->buf, 64, "file %llu from byte %llu\n", (unsigned long long)f->id,
			 (unsigned long long)f->size);
		n = pwrite(fd, a->buf, part, (off_t)f->size);
		if (n < 0 && errno != ENOSPC)
			die(path);
		fits = n > 0;
		if (!fits)
			break;
		if (!a->p->late)
			sync_file_range(fd, (off_t)f->size, n, SYNC_FILE_RANGE_WRITE);
		f->size += (uint64_t)n;
		a->written += (uint64_t)n;
		a->unsynced += (uint64_t)n;
		len -= (uint64_t)n;
	}
	if (a->p->late && a->unsynced > 64u << 20) {
		syncfs(fd);
		a->unsynced = 0;
	}
	close(fd);
	a->pieces++;
	return fits;
}

static void keep(struct ager *a, const struct file *f)
{
	if (!f->size)
		return;
	if (a->n_complete == a->room) {
		a->room = a->room ? 2 * a->room : 4096;
		a->complete = realloc(a->complete, a->room * sizeof(*a->complete));
		if (!a->complete)
			die("memory");
	}
	a->complete[a->n_complete++] = *f;
}

static void remove_at(struct ager *a, size_t i)
{
	char path[4096];

	name_of(a, &a->complete[i], path, sizeof(path));
	if (unlink(path))
		die(path);
	a->complete[i] = a->complete[--a->n_complete];
	a->removed++;
}

static void thin_out(struct ager *a, double percent)
{
	while (a->n_complete && used(a, NULL) > percent)
		for (int i = 0; i < 16 && a->n_complete; i++)
			remove_at(a, draw(a) % a->n_complete);
}

/* Small files up to the brim, then most of every handful go. */
static void scatter_crumbs(struct ager *a)
{
	static const unsigned size[2] = { 4, 12 };
	bool fits = true;

	while (fits && used(a, NULL) < 99) {
		for (int i = 0; i < 200 && fits; i++) {
			struct file f = { .id = a->next_id++ };

			fits = grow(a, &f, draw_bytes(a, size));
			keep(a, &f);
		}
	}
	sync();
	for (size_t i = a->n_complete; i-- > 0;)
		if (draw(a) % 100 >= a->p->crumbs)
			remove_at(a, i);
	sync();
}

static void age(struct ager *a)
{
	double size;
	uint64_t goal, before = a->written;
	unsigned stuck = 0;

	used(a, &size);
	goal = (uint64_t)(a->p->turnover * size);
	for (uint64_t n = 0; a->written - before < goal && stuck < 100; n++) {
		struct file *f = &a->growing[draw(a) % a->p->growing];
		uint64_t len = draw_bytes(a, a->p->piece);
		bool fits;

		if (!f->wanted)
			*f = (struct file){ a->next_id++, 0, draw_bytes(a, a->p->size) };
		len = len < f->wanted - f->size ? len : f->wanted - f->size;
		fits = grow(a, f, len);
		if (f->size >= f->wanted || !fits) {
			keep(a, f);
			f->wanted = 0;
		}
		if (!fits)
			sync();
		if (!fits || (n % 256 == 0 && used(a, NULL) > a->p->full)) {
			size_t had = a->n_complete;

			thin_out(a, a->p->full - 3);
			stuck = a->n_complete == had ? stuck + 1 : 0;
		}
	}
	for (unsigned i = 0; i < a->p->growing; i++)
		if (a->growing[i].wanted)
			keep(a, &a->growing[i]);
}

/* As full as the profile says. */
static void fill_up(struct ager *a)
{
	bool fits = true;

	while (fits && used(a, NULL) < a->p->full) {
		struct file f = { a->next_id++, 0, draw_bytes(a, a->p->size) };

		while (fits && f.size < f.wanted) {
			uint64_t len = draw_bytes(a, a->p->piece);

			len = len < f.wanted - f.size ? len : f.wanted - f.size;
			fits = grow(a, &f, len);
		}
		keep(a, &f);
	}
	sync();
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "seed", required_argument, NULL, 's' },
						 { NULL, 0, NULL, 0 } };
	struct ager a = { .random = 1 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) == 's')
		a.random = strtoull(optarg, NULL, 10);
	for (size_t i = 0; optind < argc && i < sizeof(profiles) / sizeof(*profiles); i++)
		if (!strcmp(profiles[i].name, argv[optind]))
			a.p = &profiles[i];
	if (c != -1 || argc - optind != 2 || !a.p) {
		fprintf(stderr, "bench-age: see the head of tests/bench/age.c\n");
		return 16;
	}
	a.root = argv[optind + 1];
	a.growing = calloc(a.p->growing, sizeof(*a.growing));
	a.buf = malloc(PIECE_MAX);
	if (!a.growing || !a.buf)
		die("memory");
	for (size_t i = 0; i < PIECE_MAX; i++)
		a.buf[i] = (char)(i % 64 == 63 ? '\n' : 'a' + (i * 7 + i / 64) % 26);
	if (a.p->crumbs)
		scatter_crumbs(&a);
	age(&a);
	fill_up(&a);
	printf("%s: %zu files, %llu removed, %llu pieces, %llu MiB written, %.1f %% used\n",
	       a.p->name, a.n_complete, (unsigned long long)a.removed, (unsigned long long)a.pieces,
	       (unsigned long long)(a.written >> 20), used(&a, NULL));
	free(a.growing);
	free(a.complete);
	free(a.buf);
	return 0;
}
