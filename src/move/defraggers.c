/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * defraggers: the threads that copy one batch.
 *
 * The batch's moves, sorted by destination, are cut into windows of equal size; each defragger
 * claims the next window by an atomic fetch-and-add. A large file is thus copied in slices by
 * several threads, and a window holds many small files, whose sources are read in one sorted sweep
 * and whose destinations, which the planner likes to put side by side, leave in long writes.
 */
#include "window.h"
#include <stdatomic.h>
#include <stdlib.h>

#define WINDOW_MIN (1u << 20) /* bytes */
#define WINDOW_MAX (1u << 30) /* bytes; keeps block counts of a window in 32 bits */
#define WINDOW_SHARE                                                                               \
	(8u << 20) /* bytes; windows are made no smaller only to occupy all threads                \
		    */
#define LISTS_MIN  (256u << 10)
#define PIECES_MIN (1u << 20)

uint64_t move_memory_floor(unsigned threads, uint32_t block_size)
{
	uint64_t window = block_size > WINDOW_MIN ? block_size : WINDOW_MIN;

	return PIECES_MIN + threads * (window + 2 * BOUNCE_SIZE + LISTS_MIN);
}

static int by_target(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

/* The batch's written moves, each one piece so far. Returns their number; *blocks = their sum. */
static size_t collect(const struct plan *p, const struct plan_batch *b, struct piece *out,
		      uint64_t *blocks)
{
	size_t n = 0;

	*blocks = 0;
	for (uint64_t f = 0; f < b->n_file; f++) {
		const struct plan_file *file = &p->file[b->first_file + f];

		for (uint64_t i = 0; i < file->n_move; i++) {
			const struct move *m = &p->move[file->first_move + i];

			if (m->unwritten)
				continue;
			if (out)
				out[n] = (struct piece){ .from = m->from,
							 .to = m->to,
							 .len = m->len,
							 .file = (uint32_t)f };
			*blocks += m->len;
			n++;
		}
	}
	return n;
}

/* How much memory goes to what. The list of pieces stands beside the windows. */
static void share_memory(struct copy *c, uint64_t blocks, size_t n_move)
{
	const struct move_options *o = c->o;
	uint64_t lists = (uint64_t)n_move * sizeof(struct piece);
	uint64_t floor = move_memory_floor(c->threads, o->block_size) - PIECES_MIN;
	uint64_t left = o->memory > floor + lists ? o->memory - lists : floor;
	uint64_t each = left / c->threads, share, window;

	c->slots = (unsigned)(each / 4 / BOUNCE_SIZE);
	c->slots = c->slots > c->depth ? c->depth : c->slots;
	c->slots = c->slots < 1 ? 1 : c->slots;
	window = each - c->slots * BOUNCE_SIZE - each / 128; /* each / 128: order[] and the like */
	share = (blocks * o->block_size / c->threads + 1) / 2;
	share = share < WINDOW_SHARE ? WINDOW_SHARE : share;
	window = window < share ? window : share;
	window = window < WINDOW_MIN ? WINDOW_MIN : window;
	window = window > WINDOW_MAX ? WINDOW_MAX : window;
	c->window_blocks = (uint32_t)(window / o->block_size);
	if (c->window_blocks > blocks)
		c->window_blocks = (uint32_t)blocks;
}

/*
 * Cuts the sorted pieces src[0..n) into windows. `out` may be the start of the array that src is
 * the end of: each window adds at most one piece, and src lies n_window behind.
 */
static void cut(struct copy *c, const struct piece *src, size_t n, struct piece *out)
{
	struct window *win = c->window;
	size_t k = 0;

	*win = (struct window){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct piece p = src[i];

		while (p.len) {
			uint32_t room = c->window_blocks - win->blocks, len;

			if (!room) {
				*++win = (struct window){ .first = k };
				continue;
			}
			len = p.len < room ? p.len : room;
			out[k] = p;
			out[k].len = len;
			out[k++].at = win->blocks;
			win->n++;
			win->blocks += len;
			p.from += len;
			p.to += len;
			p.len -= len;
		}
	}
}

/* Fills piece, window and the sizes. n_window stays 0 if there is nothing to copy. */
static int copy_init(struct copy *c, const struct plan *p, const struct plan_batch *b,
		     struct error *err)
{
	uint64_t blocks;
	size_t n = collect(p, b, NULL, &blocks), n_window;

	if (!n)
		return 0;
	share_memory(c, blocks, n);
	n_window = (size_t)((blocks + c->window_blocks - 1) / c->window_blocks);
	c->piece = calloc(n + n_window, sizeof(*c->piece));
	c->window = calloc(n_window, sizeof(*c->window));
	if (!c->piece || !c->window)
		return error_nomem(err, "copying files");
	collect(p, b, c->piece + n_window, &blocks);
	qsort(c->piece + n_window, n, sizeof(*c->piece), by_target);
	cut(c, c->piece + n_window, n, c->piece);
	c->n_window = n_window;
	if (c->threads > n_window)
		c->threads = (unsigned)n_window;
	return 0;
}

typedef int (*window_work)(struct worker *w, const struct window *win, struct error *err);

static int defragger(const struct copy *c, window_work work, atomic_size_t *next,
		     atomic_bool *failed, struct move_result *count, struct error *err)
{
	struct worker w;
	int rc = -1;
	size_t i;

	*count = (struct move_result){ 0 };
	if (worker_open(&w, c, err)) {
		atomic_store(failed, true);
		return -1;
	}
	while (!w.count.stopped && (i = atomic_fetch_add(next, 1)) < c->n_window) {
		if (atomic_load(failed))
			break;
		if (c->o->stop && *c->o->stop) {
			w.count.stopped = true;
			break;
		}
		if (work(&w, &c->window[i], err)) {
			atomic_store(failed, true);
			goto out;
		}
	}
	rc = 0;
out:
	worker_close(&w);
	*count = w.count;
	return rc;
}

/* Runs `work` on all windows. The first error wins; the others stop at their next window. */
static int run_all(const struct copy *c, window_work work, struct move_result *res,
		   struct error *err)
{
	atomic_size_t next = 0;
	atomic_bool failed = false;
	int rc = 0;

#pragma omp parallel num_threads(c->threads)
	{
		struct error mine = ERROR_INIT;
		struct move_result count;
		int bad = defragger(c, work, &next, &failed, &count, &mine);

#pragma omp critical(move_sum)
		{
			res->bytes += count.bytes;
			res->reads += count.reads;
			res->writes += count.writes;
			res->stopped |= count.stopped;
			if (bad && !rc) {
				rc = -1;
				*err = mine;
			}
		}
	}
	return rc;
}

int move_batch(struct device *dev, const struct plan *p, size_t batch, const struct move_options *o,
	       struct move_dropped *dropped, struct move_result *res, struct error *err)
{
	const struct plan_batch *b = &p->batch[batch];
	struct copy c = { .dev = dev, .o = o, .dropped = dropped };
	struct move_result sum = { 0 };
	int rc = -1;

	c.threads = o->threads < o->queue_depth ? o->threads : o->queue_depth;
	c.threads = c.threads ? c.threads : 1;
	c.depth = o->queue_depth / c.threads;
	c.depth = c.depth ? c.depth : 1;
	if (o->memory < move_memory_floor(c.threads, o->block_size))
		return error_set(err, ERROR_USAGE,
				 "%llu bytes of memory are too few for %u threads: give --memory "
				 "%llu or more, or fewer --threads",
				 (unsigned long long)o->memory, c.threads,
				 (unsigned long long)move_memory_floor(c.threads, o->block_size));
	if (copy_init(&c, p, b, err))
		goto out;
	if (c.n_window && run_all(&c, worker_copy, &sum, err))
		goto out;
	if (c.n_window && o->verify && !sum.stopped) {
		if (device_flush(dev, err) || run_all(&c, worker_check, &sum, err))
			goto out;
	}
	for (uint64_t f = 0; f < b->n_file; f++)
		sum.n_dropped += dropped[f].why != MOVE_KEPT;
	*res = sum;
	rc = 0;
out:
	free(c.piece);
	free(c.window);
	return rc;
}
