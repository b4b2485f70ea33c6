/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * discard: the last step of a run gives free space back to the device, or makes holes of it in an
 * image file. A sparse one gets holes between batches, too, so that it never grows by more than a
 * batch, its journal, and a block of its host for each run.
 *
 * A discarded block has lost its content for good, so (I5) this comes when no state that a crash
 * can bring back has a use for it: after the last transaction's blocks are home and the log was
 * emptied, each of it flushed; at the end, after needs_recovery was cleared, too, and what was
 * touched has been read again. What is free is then read anew from the bitmaps on the disk, and
 * must be free in the run's own state, too, which began with a check of every claim (I9). Bitmaps,
 * descriptors and inode tables are not free in either, those of groups whose bitmap was never
 * written (BLOCK_UNINIT) included.
 *
 * Only whole units of the device are discarded: part of one would be zeroed at best, next to the
 * living.
 */
#include "engine_run.h"
#include "scaledefrag/scan.h"
#include <errno.h>
#include <stdio.h>

#define CHUNK (1ull << 30) /* bytes at a time: a second signal is heeded between them */

/* What may be discarded: whole units that are free in both sets. Bytes but for the sets. */
struct space {
	const struct rangeset *disk, *state; /* free ranges, in blocks */
	const struct rangeset *only;	     /* units without any of these stay; NULL: none does */
	uint64_t block_size;
	uint64_t unit, first; /* units begin at first, first + unit, ... */
};

typedef int (*space_fn)(void *ctx, uint64_t offset, uint64_t len, struct error *err);

/* The start of the first unit at or behind `at`; of the last one at or before it (0: of none). */
static uint64_t unit_up(const struct space *s, uint64_t at)
{
	uint64_t into = at > s->first ? (at - s->first) % s->unit : 0;

	if (at <= s->first)
		return s->first;
	return into ? at + (s->unit - into) : at;
}

static uint64_t unit_down(const struct space *s, uint64_t at)
{
	return at < s->first ? 0 : at - (at - s->first) % s->unit;
}

/* The units of [from, to), which are free, that hold something of `only`. */
static int each_used(const struct space *s, uint64_t from, uint64_t to, space_fn fn, void *ctx,
		     struct error *err)
{
	uint64_t begin = from, end = from, block = from / s->block_size;
	struct range r;

	while (rangeset_next(s->only, block, &r) && r.start * s->block_size < to) {
		uint64_t a = unit_down(s, r.start * s->block_size);
		uint64_t b = unit_up(s, (r.start + r.len) * s->block_size);

		block = r.start + r.len;
		a = a < from ? from : a;
		b = b > to ? to : b;
		if (a > end) {
			if (end > begin && fn(ctx, begin, end - begin, err))
				return -1;
			begin = a;
		}
		end = b > end ? b : end;
	}
	return end > begin ? fn(ctx, begin, end - begin, err) : 0;
}

/* Calls fn for the longest ranges, in order; ends when it fails. */
static int space_each(const struct space *s, space_fn fn, void *ctx, struct error *err)
{
	struct range a, b;
	uint64_t at = 0;

	while (rangeset_next(s->disk, at, &a) && rangeset_next(s->state, at, &b)) {
		uint64_t start = a.start > b.start ? a.start : b.start;
		uint64_t end =
			a.start + a.len < b.start + b.len ? a.start + a.len : b.start + b.len;
		uint64_t from, to;

		at = end;
		if (start >= end)
			continue;
		from = unit_up(s, start * s->block_size);
		to = unit_down(s, end * s->block_size);
		if (from >= to)
			continue;
		if (s->only ? each_used(s, from, to, fn, ctx, err) : fn(ctx, from, to - from, err))
			return -1;
	}
	return 0;
}

/* Adds what of the range is not in the set. */
static int cover(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len;
	struct range r;

	while (start < end) {
		bool more = rangeset_next(rs, start, &r) && r.start < end;
		uint64_t stop = more ? r.start : end;

		if (stop > start && rangeset_add(rs, start, stop - start, err))
			return -1;
		start = more ? r.start + r.len : end;
	}
	return 0;
}

static int cover_nodes(struct rangeset *rs, const struct plan *p, uint64_t first, uint64_t n,
		       struct error *err)
{
	for (uint64_t i = 0; i < n; i++)
		if (cover(rs, p->node[first + i], 1, err))
			return -1;
	return 0;
}

static int cover_batch(struct rangeset *rs, const struct plan *p, size_t batch, struct error *err)
{
	const struct plan_batch *b = &p->batch[batch];

	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &p->file[b->first_file + i];

		for (uint64_t k = 0; k < f->n_move; k++) {
			const struct move *m = &p->move[f->first_move + k];

			if (cover(rs, m->from, m->len, err) || cover(rs, m->to, m->len, err))
				return -1;
		}
		if (cover_nodes(rs, p, f->first_freed, f->n_freed, err) ||
		    cover_nodes(rs, p, f->first_taken, f->n_taken, err))
			return -1;
	}
	return 0;
}

/* Is what this run freed to be made holes of? */
static bool wants_holes(const struct run *run)
{
	return run->o->discard != DISCARD_NONE && !run->discard_failed &&
	       volume_device(run->v)->sparse;
}

int run_note_written(struct run *run, struct error *err)
{
	size_t n = run->n_done;

	if (!wants_holes(run))
		return 0;
	/* A batch that was begun and abandoned, or not committed for want of files, wrote as well.
	 */
	if (n < run->n_do && run->spent - run->spent_noted > run_batch_bytes(run, run->n_noted, n))
		n++;
	run->spent_noted = run->spent;
	if (!run->written && rangeset_new(&run->written, err))
		return -1;
	for (; run->n_noted < n; run->n_noted++)
		if (cover_batch(run->written, run->p, run->n_noted, err))
			return -1;
	return 0;
}

struct work {
	struct run *run;
	const struct space *space;
	uint64_t chunk; /* bytes */
	bool cut;
};

/* Stopped twice, a run takes no more time than it must: it discards what it freed, no more. */
static bool in_haste(const struct run *run)
{
	return run->stop > 1;
}

static int give_back(void *ctx, uint64_t offset, uint64_t len, struct error *err)
{
	struct work *w = ctx;
	struct run *run = w->run;

	while (len) {
		uint64_t part = len < w->chunk ? len : w->chunk;

		w->cut = in_haste(run) && !w->space->only;
		if (w->cut || device_discard(volume_device(run->v), offset, part, err))
			return -1;
		run->r->bytes_discarded += part;
		run_tell(run, offset + part, volume_device(run->v)->size);
		offset += part;
		len -= part;
	}
	return 0;
}

static void set_units(const struct run *run, struct space *s)
{
	const struct volume_place *place = volume_place(run->v);
	uint32_t sector = volume_device(run->v)->sector;

	s->block_size = run->block_size;
	s->unit = place->unit && place->unit % sector == 0 ? place->unit : sector;
	s->first = (s->unit - volume_into(place, s->unit)) % s->unit;
}

/* What can't be discarded is no failure of the run; where nothing can be, not even worth a word. */
static void discard_space(struct run *run, const struct space *s)
{
	struct work w = { .run = run, .space = s, .chunk = unit_down(s, s->first + CHUNK) };
	struct error err = ERROR_INIT;

	w.chunk -= s->first;
	if (w.chunk == 0)
		w.chunk = s->unit;
	if (!space_each(s, give_back, &w, &err) || w.cut)
		return;
	run->discard_failed = true;
	if (err.sys != EOPNOTSUPP)
		snprintf(run->r->discard_failed, sizeof(run->r->discard_failed), "%.255s",
			 err.text);
}

/* `only` as in struct space. */
static int discard_free(struct run *run, const struct rangeset *only, struct error *err)
{
	struct space s = { .state = run->st->free, .only = only };
	struct rangeset *disk;

	run_phase(run, PHASE_DISCARD);
	/* What is read next may have been written by others, and not have reached the disk yet. */
	if (device_flush(volume_device(run->v), err) || volume_refresh(run->v, err) ||
	    scan_free(run->v, run->o->threads, &disk, err))
		return -1;
	s.disk = disk;
	set_units(run, &s);
	discard_space(run, &s);
	rangeset_free(disk);
	return 0;
}

int run_discard_behind(struct run *run, struct error *err)
{
	uint64_t copied = run->spent - run->spent_holes;
	uint64_t next = run_batch_bytes(run, run->n_done, run->n_done + 1);
	uint64_t most = run->s->limits.copy_blocks, blocks = run->s->geo.blocks;

	/* Reading bitmaps (1/32768 of the volume) should not cost more than the copying. */
	most = most < blocks / 4096 ? blocks / 4096 : most;
	if (!wants_holes(run) || copied + next <= most * run->block_size)
		return 0;
	if (run_note_written(run, err) || discard_free(run, run->written, err))
		return -1;
	rangeset_free(run->written);
	run->written = NULL;
	run->spent_holes = run->spent;
	return 0;
}

int run_discard(struct run *run, struct error *err)
{
	bool all = run->o->discard == DISCARD_ALL && !in_haste(run);

	if (run->discard_failed || (!all && (!run->written || rangeset_count(run->written) == 0)))
		return 0;
	return discard_free(run, all ? NULL : run->written, err);
}
