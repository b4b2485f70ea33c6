/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench-limit: what the device takes for a given set of reads and writes when nothing else is done:
 * no thinking, no copying in memory, no order between batches, no metadata, one flush at the end.
 * DESTROYS what is on the device.
 *
 *   bench-limit [--depth N] [--window MIB] [--gap KIB] plan|copy SNAPSHOT PLAN DEVICE
 *
 *   plan  the copies of the plan: its sources read, its destinations written where the plan has
 *         them
 *   copy  all fragmented files read, as much written one after the other from the device's start
 *
 * SNAPSHOT, PLAN: the text forms (--dump-snapshot, --dump-plan). Reads and writes are sorted by
 * address within each window (1024 MiB) and merged, reads across gaps of up to --gap (0 KiB) too,
 * up to 1 MiB a request. N reads (128) and 8 writes are in flight; one window is written while the
 * next one is read.
 */
#include "scaledefrag/plan.h"
#include "scaledefrag/snapshot.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libaio.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX (1u << 20) /* bytes */
#define WRITES_MAX  8u

struct span {
	uint64_t offset, len; /* bytes */
};

struct spans {
	struct span *v;
	size_t n, room;
};

struct window {
	struct spans read, write;
	size_t read_done; /* requests */
};

struct args {
	unsigned depth;
	uint64_t window, gap; /* bytes */
	bool copy;
	const char *snapshot, *plan, *device;
};

struct bench {
	struct args a;
	uint64_t block_size, device_size, bytes;
	struct window *win;
	size_t n_win;
	uint64_t filled; /* bytes of the last window */
	uint64_t written_to;
	uint64_t reads, writes;
	double seconds;
};

static void die(const char *what, int sys)
{
	fprintf(stderr, "bench-limit: %s%s%s\n", what, sys ? ": " : "", sys ? strerror(sys) : "");
	exit(8);
}

static void add(struct spans *s, uint64_t offset, uint64_t len)
{
	for (; len;) {
		uint64_t part = len < REQUEST_MAX ? len : REQUEST_MAX;

		if (s->n == s->room) {
			s->room = s->room ? 2 * s->room : 1024;
			s->v = realloc(s->v, s->room * sizeof(*s->v));
			if (!s->v)
				die("no memory", 0);
		}
		s->v[s->n++] = (struct span){ offset, part };
		offset += part;
		len -= part;
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void merge(struct spans *s, uint64_t gap)
{
	size_t k = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_offset);
	for (size_t i = 1; i < s->n; i++) {
		uint64_t end = s->v[k].offset + s->v[k].len;
		uint64_t far = s->v[i].offset + s->v[i].len;

		if (s->v[i].offset <= end + gap && far - s->v[k].offset <= REQUEST_MAX)
			s->v[k].len = (far > end ? far : end) - s->v[k].offset;
		else
			s->v[++k] = s->v[i];
	}
	s->n = k + 1;
}

/* One copy; `to` is UINT64_MAX: wherever the writing goes on. */
static void add_copy(struct bench *b, uint64_t from, uint64_t to, uint64_t len)
{
	struct window *w;

	if (!b->n_win || b->filled >= b->a.window) {
		b->win = realloc(b->win, (b->n_win + 1) * sizeof(*b->win));
		if (!b->win)
			die("no memory", 0);
		b->win[b->n_win++] = (struct window){ 0 };
		b->filled = 0;
	}
	w = &b->win[b->n_win - 1];
	if (to == UINT64_MAX) {
		if (b->written_to + len > b->device_size)
			b->written_to = 0;
		to = b->written_to;
		b->written_to += len;
	}
	add(&w->read, from, len);
	add(&w->write, to, len);
	b->filled += len;
	b->bytes += len;
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t n = 0;

	if (!f || getdelim(&text, &n, '\0', f) < 0)
		die(path, 0);
	fclose(f);
	return text;
}

static void load(struct bench *b)
{
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;
	struct plan *p = NULL;
	char *text = read_text(b->a.snapshot);

	if (snapshot_parse(text, &s, &err))
		die(err.text, 0);
	free(text);
	text = read_text(b->a.plan);
	if (plan_parse(text, &p, &err))
		die(err.text, 0);
	free(text);
	b->block_size = s->geo.block_size;
	for (size_t f = 0; b->a.copy && f < s->n_file; f++) {
		const struct filemap *map = &s->file[f].map;

		for (size_t i = 0; filemap_runs(map->ext, map->n_ext) > 1 && i < map->n_ext; i++)
			if (!map->ext[i].unwritten)
				add_copy(b, map->ext[i].pblk * b->block_size, UINT64_MAX,
					 map->ext[i].len * b->block_size);
	}
	for (size_t i = 0; !b->a.copy && i < p->n_move; i++)
		if (!p->move[i].unwritten)
			add_copy(b, p->move[i].from * b->block_size, p->move[i].to * b->block_size,
				 p->move[i].len * b->block_size);
	for (size_t i = 0; i < b->n_win; i++) {
		merge(&b->win[i].read, b->a.gap);
		merge(&b->win[i].write, 0);
		b->reads += b->win[i].read.n;
		b->writes += b->win[i].write.n;
	}
	plan_free(p);
	snapshot_free(s);
}

/* All slots of one kind; a request's slot says to which window it belongs. */
struct slots {
	struct iocb *cb;
	size_t *window, *spare, n_spare;
	char *buf;
	size_t next, next_window; /* the next request to make */
};

static void slots_open(struct slots *s, size_t n)
{
	*s = (struct slots){ .cb = calloc(n, sizeof(*s->cb)),
			     .window = calloc(n, sizeof(*s->window)),
			     .spare = calloc(n, sizeof(*s->spare)) };
	if (!s->cb || !s->window || !s->spare ||
	    posix_memalign((void **)&s->buf, 4096, n * REQUEST_MAX))
		die("no memory", 0);
	memset(s->buf, 1, n * REQUEST_MAX); /* not the shared page of zeros */
	while (s->n_spare < n) {
		s->spare[s->n_spare] = s->n_spare;
		s->n_spare++;
	}
}

static void slots_close(struct slots *s)
{
	free(s->cb);
	free(s->window);
	free(s->spare);
	free(s->buf);
}

/* Reads may be one window ahead of the writes; a window is written when all of it is read. */
static bool may_start(const struct bench *b, const struct slots *s, bool write, size_t writing)
{
	const struct window *w = &b->win[s->next_window];

	return write ? w->read_done == w->read.n : s->next_window <= writing + 1;
}

static size_t make(struct bench *b, struct slots *s, bool write, size_t writing, int fd,
		   struct iocb **out)
{
	size_t n = 0;

	while (s->n_spare && s->next_window < b->n_win && may_start(b, s, write, writing)) {
		struct window *w = &b->win[s->next_window];
		const struct spans *list = write ? &w->write : &w->read;
		size_t slot;

		if (s->next == list->n) {
			s->next_window++;
			s->next = 0;
			continue;
		}
		slot = s->spare[--s->n_spare];
		s->window[slot] = s->next_window;
		if (write)
			io_prep_pwrite(&s->cb[slot], fd, s->buf + slot * REQUEST_MAX,
				       list->v[s->next].len, (long long)list->v[s->next].offset);
		else
			io_prep_pread(&s->cb[slot], fd, s->buf + slot * REQUEST_MAX,
				      list->v[s->next].len, (long long)list->v[s->next].offset);
		s->next++;
		out[n++] = &s->cb[slot];
	}
	return n;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void carry_out(struct bench *b, int fd)
{
	size_t all = b->a.depth + WRITES_MAX, in_flight = 0;
	struct iocb **list = calloc(all, sizeof(*list));
	struct io_event *event = calloc(all, sizeof(*event));
	struct slots r, w;
	io_context_t ctx = NULL;
	int rc;

	slots_open(&r, b->a.depth);
	slots_open(&w, WRITES_MAX);
	rc = io_setup((int)all, &ctx);
	if (rc < 0 || !list || !event)
		die("io_setup", -rc);
	b->seconds = -now();
	do {
		size_t n = make(b, &w, true, 0, fd, list), done = 0;

		n += make(b, &r, false, w.next_window, fd, list + n);
		for (; done < n; done += (size_t)rc) {
			rc = io_submit(ctx, (long)(n - done), list + done);
			if (rc < 0)
				die("io_submit", -rc);
		}
		in_flight += n;
		rc = io_getevents(ctx, in_flight ? 1 : 0, (long)all, event, NULL);
		if (rc < 0)
			die("io_getevents", -rc);
		in_flight -= (size_t)rc;
		for (int i = 0; i < rc; i++) {
			bool write = event[i].obj >= w.cb && event[i].obj < w.cb + WRITES_MAX;
			struct slots *s = write ? &w : &r;
			size_t slot = (size_t)(event[i].obj - s->cb);

			if (event[i].res != event[i].obj->u.c.nbytes)
				die("a request failed", 0);
			if (!write)
				b->win[s->window[slot]].read_done++;
			s->spare[s->n_spare++] = slot;
		}
	} while (in_flight || w.next_window < b->n_win);
	if (fdatasync(fd))
		die("flush", errno);
	b->seconds += now();
	io_destroy(ctx);
	slots_close(&r);
	slots_close(&w);
	free(list);
	free(event);
}

static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = { { "depth", required_argument, NULL, 'd' },
						 { "window", required_argument, NULL, 'w' },
						 { "gap", required_argument, NULL, 'g' },
						 { NULL, 0, NULL, 0 } };
	int c;

	*a = (struct args){ .depth = 128, .window = 1024ull << 20 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			a->depth = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'w')
			a->window = strtoull(optarg, NULL, 10) << 20;
		else if (c == 'g')
			a->gap = strtoull(optarg, NULL, 10) << 10;
		else
			return -1;
	}
	if (argc - optind != 4 || !a->depth || !a->window)
		return -1;
	a->copy = !strcmp(argv[optind], "copy");
	a->snapshot = argv[optind + 1];
	a->plan = argv[optind + 2];
	a->device = argv[optind + 3];
	return a->copy || !strcmp(argv[optind], "plan") ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct bench b = { 0 };
	struct stat st;
	int fd;

	if (parse_args(argc, argv, &b.a)) {
		fprintf(stderr, "bench-limit: see the head of tests/bench/limit.c\n");
		return 16;
	}
	fd = open(b.a.device, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die(b.a.device, errno);
	b.device_size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &b.device_size))
		die(b.a.device, errno);
	load(&b);
	carry_out(&b, fd);
	printf("{\"seconds\": %.4f, \"bytes\": %llu, \"reads\": %llu, \"writes\": %llu}\n",
	       b.seconds, (unsigned long long)b.bytes, (unsigned long long)b.reads,
	       (unsigned long long)b.writes);
	for (size_t i = 0; i < b.n_win; i++) {
		free(b.win[i].read.v);
		free(b.win[i].write.v);
	}
	free(b.win);
	close(fd);
	return 0;
}
