/* SPDX-License-Identifier: GPL-2.0-or-later */
/* failures: which files a failed request hits. */
#include "mover.h"
#include <errno.h>

#define RETRY_STEP (64u << 10) /* bytes; a failed request is done again in such steps */

/* Blocks that failed, from the first one on. */
struct bad {
	uint64_t block, len;
	int sys;
};

/* Of several failures the lowest is kept, so that timing doesn't matter. */
void drop_file(struct worker *w, struct stream *s, const struct piece *p,
	       const struct move_dropped *why)
{
	struct move_dropped *d = &s->job->dropped[p->file];

	pthread_mutex_lock(&w->m->lock);
	if (!d->why || why->why < d->why || (why->why == d->why && why->block < d->block))
		*d = *why;
	pthread_mutex_unlock(&w->m->lock);
	for (size_t i = 0; i < s->n_piece; i++)
		if (s->piece[i].file == p->file)
			s->piece[i].skip = 1;
}

/* One synchronous try. */
static bool try_blocks(struct mover *m, struct stream *s, enum device_op op, uint64_t pblk,
		       uint8_t *buf, uint32_t blocks, int *sys)
{
	uint32_t bs = m->o.block_size;
	struct error err = ERROR_INIT;
	int rc;

	if (op == DEVICE_READ) {
		rc = device_read(m->dev, buf, pblk * bs, (size_t)blocks * bs, &err);
		s->count.reads++;
	} else {
		rc = device_write(m->dev, buf, pblk * bs, (size_t)blocks * bs, &err);
		s->count.writes++;
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
static bool redo(struct mover *m, struct stream *s, enum device_op op, uint64_t pblk, uint8_t *buf,
		 uint32_t blocks, struct bad *bad)
{
	uint32_t bs = m->o.block_size;
	uint32_t step = RETRY_STEP > bs ? RETRY_STEP / bs : 1;
	int sys = 0;

	*bad = (struct bad){ 0 };
	for (uint32_t i = 0; i < blocks; i += step) {
		uint32_t n = blocks - i < step ? blocks - i : step;

		if (try_blocks(m, s, op, pblk + i, buf + (size_t)i * bs, n, &sys)) {
			if (bad->len)
				return false;
			continue;
		}
		for (uint32_t k = i; k < i + n; k++) {
			if (try_blocks(m, s, op, pblk + k, buf + (size_t)k * bs, 1, &sys)) {
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

void request_redo(struct worker *w, const struct io *io)
{
	static const enum move_drop why[] = { [PASS_GATHER] = MOVE_SOURCE_FAILED,
					      [PASS_WRITE] = MOVE_TARGET_FAILED,
					      [PASS_CHECK] = MOVE_VERIFY_FAILED };
	struct stream *s = io->s;
	uint32_t bs = w->m->o.block_size;
	uint64_t lo = io->req.offset / bs, hi = lo + io->req.len / bs;

	for (size_t k = io->first; k < io->first + io->n; k++) {
		struct piece *p = piece_in(s, k);
		uint64_t start = piece_address(s, p), end = start + p->len;
		uint8_t *buf = stream_buffer(w, s, p->at);
		struct move_dropped drop = { .why = (uint8_t)why[s->pass] };
		struct bad bad;

		if (p->skip)
			continue;
		buf += start < lo ? (lo - start) * bs : 0;
		start = start < lo ? lo : start;
		end = end > hi ? hi : end;
		if (redo(w->m, s, io->req.op, start, buf, (uint32_t)(end - start), &bad)) {
			if (s->pass == PASS_WRITE)
				w->written += (end - start) * bs;
			continue;
		}
		drop.block = bad.block;
		drop.sys = bad.sys;
		if (s->pass != PASS_GATHER) {
			drop.bad_target = bad.block;
			drop.bad_len = bad.len;
		}
		drop_file(w, s, p, &drop);
	}
}
