/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench-threads: the real mover (move.h) carries out a plan's copies on models of devices, in
 * simulated time, or on a real file or device. Prints Markdown tables.
 *
 *   bench-threads [--threads LIST] [--depths LIST] [--memory MIB] flash|disk|seeks SNAPSHOT PLAN
 *   bench-threads [...] FILE SNAPSHOT PLAN      DESTROYS what is in FILE
 *
 *   flash, disk   seconds of the mover by threads and requests in flight (support/slowdev.h);
 *                 nothing but requests takes time there
 *   seeks         what the head of the disk does: copies in the order of the files, one request at
 *                 a time and 32 that the drive sorts, and by the mover, as on flash and as on disks
 */
#include "scaledefrag/move.h"
#include "scaledefrag/snapshot.h"
#include "simthreads.h"
#include "support/slowdev.h"
#include "support/wrap.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX 16
#define REQUEST	 (1u << 20) /* bytes of a request in the order of the files */

struct args {
	unsigned threads[LIST_MAX], depths[LIST_MAX];
	size_t n_threads, n_depths;
	uint64_t memory; /* bytes */
	const char *what, *snapshot, *plan;
};

struct bench {
	struct args a;
	struct snapshot *s;
	struct plan *p;
	uint64_t bytes; /* to copy */
};

struct result {
	double seconds;
	struct slowdev_figures f; /* simulation only */
	uint64_t reads, writes;
};

static size_t parse_list(const char *text, unsigned *out)
{
	size_t n = 0;

	for (char *end; *text && n < LIST_MAX; text = *end ? end + 1 : end) {
		out[n++] = (unsigned)strtoul(text, &end, 10);
		if (end == text || !out[n - 1])
			return 0;
	}
	return n;
}

static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = { { "threads", required_argument, NULL, 't' },
						 { "depths", required_argument, NULL, 'd' },
						 { "memory", required_argument, NULL, 'm' },
						 { NULL, 0, NULL, 0 } };
	int c;

	*a = (struct args){ .memory = 144ull << 20 }; /* three quarters of --memory's default */
	a->n_threads = parse_list("1,2,4,8,16", a->threads);
	a->n_depths = parse_list("1,4,16,64,128,256", a->depths);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't')
			a->n_threads = parse_list(optarg, a->threads);
		else if (c == 'd')
			a->n_depths = parse_list(optarg, a->depths);
		else if (c == 'm')
			a->memory = strtoull(optarg, NULL, 10) << 20;
		else
			return -1;
	}
	if (argc - optind != 3 || !a->n_threads || !a->n_depths)
		return -1;
	a->what = argv[optind];
	a->snapshot = argv[optind + 1];
	a->plan = argv[optind + 2];
	return 0;
}

static void check(int rc, const struct error *err)
{
	if (!rc)
		return;
	fprintf(stderr, "bench-threads: %s\n", err->text);
	exit(8);
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t n = 0;

	if (!f || getdelim(&text, &n, '\0', f) < 0) {
		fprintf(stderr, "bench-threads: %s can't be read\n", path);
		exit(8);
	}
	fclose(f);
	return text;
}

static void load(struct bench *b)
{
	struct error err = ERROR_INIT;
	char *text = read_text(b->a.snapshot);

	check(snapshot_parse(text, &b->s, &err), &err);
	free(text);
	text = read_text(b->a.plan);
	check(plan_parse(text, &b->p, &err), &err);
	free(text);
	b->bytes = plan_copy_blocks(b->p) * b->s->geo.block_size;
}

static uint64_t volume_size(const struct bench *b)
{
	return b->s->geo.blocks * b->s->geo.block_size;
}

/* All batches; each one's copies are flushed, as the commit does. */
static void move_all(const struct bench *b, struct device *dev, unsigned threads, unsigned depth,
		     bool rotational)
{
	const struct move_options o = { .threads = threads,
					.queue_depth = depth,
					.rotational = rotational,
					.memory = b->a.memory,
					.block_size = b->s->geo.block_size };
	struct error err = ERROR_INIT;
	struct mover *m;

	check(move_open(dev, b->p, &o, &m, &err), &err);
	for (size_t i = 0; i < b->p->n_batch; i++) {
		struct move_dropped *dropped = must_alloc(b->p->batch[i].n_file, sizeof(*dropped));
		struct move_result r;

		check(move_batch(m, i, dropped, &r, &err), &err);
		check(device_flush(dev, &err), &err);
		free(dropped);
	}
	move_close(m);
}

/* As a defragmenter that takes one file after the other: reads it all, writes it all. */
static void in_file_order(const struct bench *b, struct device *dev, unsigned depth)
{
	uint64_t bs = b->s->geo.block_size;
	char *buf = must_alloc(1, REQUEST);
	struct device_request *reqs = NULL;
	struct error err = ERROR_INIT;

	for (size_t f = 0; f < b->p->n_file; f++) {
		const struct plan_file *file = &b->p->file[f];
		size_t n = 0, room = 0;

		for (int op = DEVICE_READ; op <= DEVICE_WRITE; op++) {
			n = 0;
			for (uint64_t i = 0; i < file->n_move; i++) {
				const struct move *m = &b->p->move[file->first_move + i];
				uint64_t at = (op == DEVICE_READ ? m->from : m->to) * bs;
				uint64_t left = m->unwritten ? 0 : m->len * bs;

				while (left) {
					uint64_t len = left < REQUEST ? left : REQUEST;
					struct device_request *last = n ? &reqs[n - 1] : NULL;

					if (last && last->offset + last->len == at &&
					    last->len + len <= REQUEST) {
						last->len += len;
					} else {
						if (n == room) {
							room = 2 * room + 64;
							reqs = realloc(reqs, room * sizeof(*reqs));
							if (!reqs)
								abort();
						}
						reqs[n++] = (struct device_request){ .op = op,
										     .offset = at,
										     .len = len,
										     .buf = buf };
					}
					at += len;
					left -= len;
				}
			}
			check(n ? device_run(dev, depth, reqs, n, &err) : 0, &err);
		}
	}
	free(reqs);
	free(buf);
}

/* threads 0: in the order of the files */
static struct result simulate(const struct bench *b, const struct slowdev_model *model,
			      unsigned threads, unsigned depth, bool rotational)
{
	struct simclock *c = simclock_new();
	struct slowdev *sd = slowdev_new(model, c);
	struct device *dev = slowdev_open(sd, NULL, volume_size(b));
	struct result r;

	simthreads_use(c);
	if (threads)
		move_all(b, dev, threads, depth, rotational);
	else
		in_file_order(b, dev, depth);
	simclock_lock(c);
	r.seconds = (double)simclock_now(c) / 1e9;
	simclock_unlock(c);
	r.f = slowdev_figures(sd);
	r.reads = r.f.reads;
	r.writes = r.f.writes;
	simthreads_use(NULL);
	device_close(dev);
	slowdev_free(sd);
	simclock_free(c);
	return r;
}

static struct result really(const struct bench *b, unsigned threads, unsigned depth)
{
	struct error err = ERROR_INIT;
	struct device *dev = NULL;
	struct timespec t[2];
	struct result r = { 0 };
	int fd = open(b->a.what, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "bench-threads: %s can't be opened\n", b->a.what);
		exit(8);
	}
	check(device_open_file(fd, 0, 0, b->s->geo.block_size, false, &dev, &err), &err);
	clock_gettime(CLOCK_MONOTONIC, &t[0]);
	move_all(b, dev, threads, depth, false);
	clock_gettime(CLOCK_MONOTONIC, &t[1]);
	r.seconds =
		(double)(t[1].tv_sec - t[0].tv_sec) + (double)(t[1].tv_nsec - t[0].tv_nsec) / 1e9;
	device_close(dev);
	return r;
}

static void print_table(const struct bench *b, const struct slowdev_model *model)
{
	double first = 0;

	printf("| defraggers |");
	for (size_t d = 0; d < b->a.n_depths; d++)
		printf(" depth %u |", b->a.depths[d]);
	printf("\n|---:|");
	for (size_t d = 0; d < b->a.n_depths; d++)
		printf("---:|");
	printf("\n");
	for (size_t t = 0; t < b->a.n_threads; t++) {
		printf("| %u |", b->a.threads[t]);
		for (size_t d = 0; d < b->a.n_depths; d++) {
			struct result r =
				model ? simulate(b, model, b->a.threads[t], b->a.depths[d], false)
				      : really(b, b->a.threads[t], b->a.depths[d]);

			first = first > 0 ? first : r.seconds;
			printf(" %.2f s (%.1f×) |", r.seconds, first / r.seconds);
			fflush(stdout);
		}
		printf("\n");
	}
}

static void print_row(const char *name, const struct result *r, const struct result *base)
{
	printf("| %s | %llu | %llu | %llu | %.0f | %.1f× | %.0f | %.2f | %.1f× |\n", name,
	       (unsigned long long)r->reads, (unsigned long long)r->writes,
	       (unsigned long long)r->f.seeks, (double)r->f.seek_ns / 1e6,
	       (double)base->f.seek_ns / (double)(r->f.seek_ns ? r->f.seek_ns : 1),
	       (double)r->f.turn_ns / 1e6, r->seconds, base->seconds / r->seconds);
	fflush(stdout);
}

static void print_seeks(const struct bench *b)
{
	struct result base = simulate(b, &slowdev_disk, 0, 1, false), r;

	printf("| order | reads | writes | seeks | seek ms | fewer | waiting for the platter, ms | "
	       "seconds | faster |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
	print_row("files, one request at a time", &base, &base);
	r = simulate(b, &slowdev_disk, 0, 32, false);
	print_row("files, 32 requests, sorted by the drive", &r, &base);
	for (size_t t = 0; t < b->a.n_threads; t++)
		for (size_t d = 0; d < b->a.n_depths; d++) {
			char name[64];

			snprintf(name, sizeof(name), "mover, %u defraggers, depth %u",
				 b->a.threads[t], b->a.depths[d]);
			r = simulate(b, &slowdev_disk, b->a.threads[t], b->a.depths[d], false);
			print_row(name, &r, &base);
		}
	for (size_t d = 0; d < b->a.n_depths; d++) {
		char name[64];

		snprintf(name, sizeof(name), "mover for disks, depth %u", b->a.depths[d]);
		r = simulate(b, &slowdev_disk, 1, b->a.depths[d], true);
		print_row(name, &r, &base);
	}
}

int main(int argc, char **argv)
{
	struct bench b = { 0 };

	if (parse_args(argc, argv, &b.a)) {
		fprintf(stderr, "bench-threads: see the head of tests/bench/threads.c\n");
		return 16;
	}
	load(&b);
	if (!strcmp(b.a.what, "seeks"))
		print_seeks(&b);
	else
		print_table(&b, !strcmp(b.a.what, "flash")  ? &slowdev_flash
				: !strcmp(b.a.what, "disk") ? &slowdev_disk
							    : NULL);
	plan_free(b.p);
	snapshot_free(b.s);
	return 0;
}
