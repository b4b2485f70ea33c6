/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * window: one worker copies one window.
 *
 *   gather  read the sources, sorted by address; neighbours across small gaps as one request
 *   write   the destinations in long runs, straight from the window's buffer
 *   check   (verify) read the destinations back, compare hashes
 *
 * The buffer is laid out in destination order, so a run that is put together from many small
 * sources leaves as one write. A read lands in its final place where that is possible; a read that
 * spans a gap, or whose pieces lie apart in the buffer, goes through a bounce slot.
 */
#include "window.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/*
 * A request costs about as much as reading this much further (bytes): measured, queue depth 64,
 * 4 KiB reads of a virtio disk at 50,000 a second and 600 to 900 MB/s.
 */
#define GAP_MAX	    (8u << 10)
#define REQUEST_MAX (1u << 20)	/* bytes of a direct request */
#define RETRY_STEP  (64u << 10) /* bytes; a failed request is done again in such steps */

enum pass { PASS_GATHER, PASS_WRITE, PASS_CHECK };

struct io {
	struct device_request req;
	size_t first, n; /* pieces touched, counted in the order of the pass */
	int slot;	 /* bounce slot, -1: none */
};

/* Blocks that failed, from the first one on. */
struct bad {
	uint64_t block, len;
	int sys;
};

static struct piece *piece_in(const struct worker *w, enum pass pass, size_t k)
{
	return &w->piece[pass == PASS_GATHER ? w->order[k] : k];
}

static uint64_t address(const struct piece *p, enum pass pass)
{
	return pass == PASS_GATHER ? p->from : p->to;
}

static uint8_t *buffer_at(const struct worker *w, uint64_t blocks)
{
	return w->data + blocks * w->c->o->block_size;
}

/* ---- failures ---- */

/* A file fails as a whole; of several failures the lowest is kept, so that timing doesn't matter.
 */
static void drop_file(struct worker *w, const struct piece *p, enum move_drop why,
		      const struct bad *bad)
{
	struct move_dropped *d = &w->c->dropped[p->file];
	struct move_dropped new = { .why = (uint8_t)why, .block = bad->block, .sys = bad->sys };

	if (why != MOVE_SOURCE_FAILED) {
		new.bad_target = bad->block;
		new.bad_len = bad->len;
	}
#pragma omp critical(move_drop)
	if (!d->why || new.why < d->why || (new.why == d->why &&new.block < d->block))
		*d = new;
	for (size_t i = 0; i < w->n_piece; i++)
		if (w->piece[i].file == p->file)
			w->piece[i].skip = 1;
}

/* One synchronous try. */
static bool try_blocks(struct worker *w, enum device_op op, uint64_t pblk, uint8_t *buf,
		       uint32_t blocks, int *sys)
{
	uint32_t bs = w->c->o->block_size;
	struct error err = ERROR_INIT;
	int rc;

	if (op == DEVICE_READ) {
		rc = device_read(w->c->dev, buf, pblk * bs, (size_t)blocks * bs, &err);
		w->count.reads++;
	} else {
		rc = device_write(w->c->dev, buf, pblk * bs, (size_t)blocks * bs, &err);
		w->count.writes++;
	}
	if (rc)
		*sys = err.sys ? err.sys : EIO;
	return rc == 0;
}

/*
 * Does a part again in small steps, then block by block. True if all of it went well now; else
 * *bad is the first failed range. A source needs no more than its first bad block: its file is
 * dropped.
 */
static bool redo(struct worker *w, enum device_op op, uint64_t pblk, uint8_t *buf, uint32_t blocks,
		 struct bad *bad)
{
	uint32_t bs = w->c->o->block_size;
	uint32_t step = RETRY_STEP > bs ? RETRY_STEP / bs : 1;
	int sys = 0;

	*bad = (struct bad){ 0 };
	for (uint32_t i = 0; i < blocks; i += step) {
		uint32_t n = blocks - i < step ? blocks - i : step;

		if (try_blocks(w, op, pblk + i, buf + (size_t)i * bs, n, &sys)) {
			if (bad->len)
				return false;
			continue;
		}
		for (uint32_t k = i; k < i + n; k++) {
			if (try_blocks(w, op, pblk + k, buf + (size_t)k * bs, 1, &sys)) {
				if (bad->len)
					return false;
				continue;
			}
			if (!bad->len)
				*bad = (struct bad){ .block = pblk + k, .sys = sys };
			bad->len++;
			if (op == DEVICE_READ)
				return false;
		}
	}
	return bad->len == 0;
}

/* A request failed: finds out which of its files are hit. */
static void redo_request(struct worker *w, enum pass pass, const struct io *io)
{
	static const enum move_drop why[] = { [PASS_GATHER] = MOVE_SOURCE_FAILED,
					      [PASS_WRITE] = MOVE_TARGET_FAILED,
					      [PASS_CHECK] = MOVE_VERIFY_FAILED };
	uint32_t bs = w->c->o->block_size;
	uint64_t lo = io->req.offset / bs, hi = lo + io->req.len / bs;

	for (size_t k = io->first; k < io->first + io->n; k++) {
		struct piece *p = piece_in(w, pass, k);
		uint64_t start = address(p, pass), end = start + p->len;
		struct bad bad;

		if (p->skip)
			continue;
		start = start < lo ? lo : start;
		end = end > hi ? hi : end;
		if (!redo(w, io->req.op, start, buffer_at(w, p->at + start - address(p, pass)),
			  (uint32_t)(end - start), &bad))
			drop_file(w, p, why[pass], &bad);
		else if (pass == PASS_WRITE)
			w->count.bytes += (end - start) * bs;
	}
}

/* ---- making requests ---- */

/* Moves on by `blocks` of the pieces in the order of the pass. */
static void advance(struct worker *w, enum pass pass, uint32_t blocks)
{
	while (blocks) {
		uint32_t left = piece_in(w, pass, w->pos)->len - w->off;

		if (blocks < left) {
			w->off += blocks;
			return;
		}
		blocks -= left;
		w->pos++;
		w->off = 0;
	}
}

/* From here on, what follows each other on the device and in the buffer alike. */
static void make_direct(struct worker *w, enum pass pass, struct io *io)
{
	uint32_t bs = w->c->o->block_size, max = REQUEST_MAX / bs;
	struct piece *p = piece_in(w, pass, w->pos);
	uint64_t len = p->len - w->off;

	io->first = w->pos;
	io->n = 1;
	io->slot = -1;
	io->req.offset = (address(p, pass) + w->off) * bs;
	io->req.buf = buffer_at(w, (uint64_t)p->at + w->off);
	while (len < max && w->pos + io->n < w->n_piece) {
		struct piece *next = piece_in(w, pass, w->pos + io->n);

		if (next->skip || address(next, pass) != address(p, pass) + p->len ||
		    next->at != p->at + p->len)
			break;
		len += next->len;
		p = next;
		io->n++;
	}
	len = len < max ? len : max;
	io->req.len = (size_t)len * bs;
	advance(w, pass, (uint32_t)len);
}

/*
 * Several small sources that lie near each other, but not so that one direct read would do.
 * Returns the number of pieces, or 0 if there is no such group here.
 */
static size_t find_group(const struct worker *w, uint64_t *blocks)
{
	uint32_t bs = w->c->o->block_size;
	const struct piece *p = piece_in(w, PASS_GATHER, w->pos);
	uint64_t lo = p->from, hi = p->from + p->len;
	bool scattered = false;
	size_t n = 1;

	for (; w->pos + n < w->n_piece; n++) {
		const struct piece *next = piece_in(w, PASS_GATHER, w->pos + n);

		if (next->from < hi || (next->from - hi) * bs > GAP_MAX ||
		    (next->from + next->len - lo) * bs > BOUNCE_SIZE)
			break;
		if (next->from != hi || next->at != p->at + p->len)
			scattered = true;
		hi = next->from + next->len;
		p = next;
	}
	*blocks = hi - lo;
	return scattered ? n : 0;
}

/* False: nothing left, or (gather) no bounce slot free now. */
static bool make_request(struct worker *w, enum pass pass, struct io *io)
{
	uint32_t bs = w->c->o->block_size;
	uint64_t blocks;
	size_t n = 0;

	while (w->pos < w->n_piece && piece_in(w, pass, w->pos)->skip) {
		w->pos++;
		w->off = 0;
	}
	if (w->pos == w->n_piece)
		return false;
	io->req.op = pass == PASS_WRITE ? DEVICE_WRITE : DEVICE_READ;
	io->req.owner = io;
	io->req.result = 0;
	io->req.done = 0;
	if (pass == PASS_GATHER && w->off == 0)
		n = find_group(w, &blocks);
	if (n == 0) {
		make_direct(w, pass, io);
		return true;
	}
	if (w->n_slot == 0)
		return false;
	io->slot = (int)w->slot[--w->n_slot];
	io->first = w->pos;
	io->n = n;
	io->req.offset = piece_in(w, pass, w->pos)->from * bs;
	io->req.len = (size_t)blocks * bs;
	io->req.buf = w->bounce + (size_t)io->slot * BOUNCE_SIZE;
	w->pos += n;
	return true;
}

/* ---- running them ---- */

static void scatter(struct worker *w, const struct io *io)
{
	uint32_t bs = w->c->o->block_size;
	uint64_t lo = io->req.offset / bs;

	for (size_t k = io->first; k < io->first + io->n; k++) {
		const struct piece *p = piece_in(w, PASS_GATHER, k);

		memcpy(buffer_at(w, p->at), (uint8_t *)io->req.buf + (p->from - lo) * bs,
		       (size_t)p->len * bs);
	}
}

static void finish(struct worker *w, enum pass pass, struct io *io)
{
	if (io->req.result)
		redo_request(w, pass, io);
	else if (pass == PASS_WRITE)
		w->count.bytes += io->req.len;
	else if (io->slot >= 0)
		scatter(w, io);
	if (io->slot >= 0)
		w->slot[w->n_slot++] = (unsigned)io->slot;
	w->idle[w->n_idle++] = io;
}

static void tell_progress(const struct worker *w, uint64_t bytes)
{
	const struct move_options *o = w->c->o;

	if (!o->progress || !bytes)
		return;
#pragma omp critical(move_progress)
	o->progress(o->ctx, bytes);
}

static int run_pass(struct worker *w, enum pass pass, struct error *err)
{
	size_t n;

	w->pos = 0;
	w->off = 0;
	for (;;) {
		uint64_t before = w->count.bytes;

		for (n = 0; w->n_idle; n++) {
			struct io *io = w->idle[w->n_idle - 1];

			if (!make_request(w, pass, io))
				break;
			w->n_idle--;
			w->request[n] = &io->req;
		}
		if (n && device_queue_submit(w->q, w->request, n, err))
			return -1;
		*(pass == PASS_WRITE ? &w->count.writes : &w->count.reads) += n;
		if (w->n_idle == w->c->depth)
			return 0;
		if (device_queue_wait(w->q, 1, w->c->depth - w->n_idle, w->request, &n, err))
			return -1;
		for (size_t i = 0; i < n; i++)
			finish(w, pass, w->request[i]->owner);
		tell_progress(w, w->count.bytes - before);
	}
}

static int by_source(const void *a, const void *b, void *pieces)
{
	const struct piece *p = pieces;
	uint64_t x = p[*(const uint32_t *)a].from, y = p[*(const uint32_t *)b].from;

	return x < y ? -1 : x > y;
}

static void take_window(struct worker *w, const struct window *win)
{
	w->piece = w->c->piece + win->first;
	w->n_piece = win->n;
}

static uint64_t hash_piece(const struct worker *w, const struct piece *p)
{
	return XXH3_64bits(buffer_at(w, p->at), (size_t)p->len * w->c->o->block_size);
}

int worker_copy(struct worker *w, const struct window *win, struct error *err)
{
	take_window(w, win);
	for (size_t i = 0; i < w->n_piece; i++)
		w->order[i] = (uint32_t)i;
	qsort_r(w->order, w->n_piece, sizeof(*w->order), by_source, w->piece);
	if (run_pass(w, PASS_GATHER, err))
		return -1;
	for (size_t i = 0; w->c->o->verify && i < w->n_piece; i++)
		if (!w->piece[i].skip)
			w->piece[i].hash = hash_piece(w, &w->piece[i]);
	if (w->c->o->gate && w->c->o->gate(w->c->o->ctx)) {
		w->count.stopped = true;
		return 0;
	}
	return run_pass(w, PASS_WRITE, err);
}

int worker_check(struct worker *w, const struct window *win, struct error *err)
{
	take_window(w, win);
	if (run_pass(w, PASS_CHECK, err))
		return -1;
	for (size_t i = 0; i < w->n_piece; i++) {
		struct piece *p = &w->piece[i];
		struct bad bad = { .block = p->to, .len = p->len, .sys = EIO };

		if (!p->skip && hash_piece(w, p) != p->hash)
			drop_file(w, p, MOVE_VERIFY_FAILED, &bad);
	}
	return 0;
}

int worker_open(struct worker *w, const struct copy *c, struct error *err)
{
	size_t depth = c->depth;

	*w = (struct worker){ .c = c };
	w->data = device_buffer((size_t)c->window_blocks * c->o->block_size);
	w->bounce = device_buffer((size_t)c->slots * BOUNCE_SIZE);
	w->order = malloc(c->window_blocks * sizeof(*w->order));
	w->slot = malloc(c->slots * sizeof(*w->slot));
	w->io = calloc(depth, sizeof(*w->io));
	w->idle = malloc(depth * sizeof(*w->idle));
	w->request = malloc(depth * sizeof(*w->request));
	if (!w->data || !w->bounce || !w->order || !w->slot || !w->io || !w->idle || !w->request) {
		worker_close(w);
		return error_nomem(err, "copying files");
	}
	for (unsigned i = 0; i < c->slots; i++)
		w->slot[w->n_slot++] = i;
	for (size_t i = 0; i < depth; i++)
		w->idle[w->n_idle++] = &w->io[i];
	if (device_queue_open(c->dev, c->depth, &w->q, err)) {
		worker_close(w);
		return -1;
	}
	return 0;
}

void worker_close(struct worker *w)
{
	device_queue_close(w->q);
	free(w->data);
	free(w->bounce);
	free(w->order);
	free(w->slot);
	free(w->io);
	free(w->idle);
	free(w->request);
	w->q = NULL;
	w->data = w->bounce = NULL;
	w->order = NULL;
	w->slot = NULL;
	w->io = NULL;
	w->idle = NULL;
	w->request = NULL;
}
