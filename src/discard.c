/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * discard: the last step of a run gives free space back to the device, or makes holes of it in an
 * image file. A sparse one gets holes between batches, too, so that it never grows by more than a
 * batch, its journal, and a block of its host for each run. A hole costs about the same whether it
 * is long or short, so between batches there are as few as keep to that, the longest first: what is
 * written again, or becomes part of a longer free run, is best left for later.
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
#include "scaledefrag/array.h"
#include "scaledefrag/scan.h"
#include "scaledefrag/sort.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK (1ull << 30) /* bytes at a time: a second signal is heeded between them */

/* What may be discarded: whole units that are free in both sets. Bytes but for the sets. */
struct space {
	const struct rangeset *disk, *state; /* free ranges, in blocks */
	/* Of each free run only what lies from the first unit that holds some of these to the last
	 * one; NULL: all of it. */
	const struct rangeset *only;
	uint64_t block_size;
	uint64_t unit, first; /* units begin at first, first + unit, ... */
};

struct piece {
	uint64_t used; /* bytes of the units that hold some of `only`; all, where that is NULL */
	uint64_t offset, len;
};
typedef int (*space_fn)(void *ctx, const struct piece *p, struct error *err);

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

/* What of [from, to), which is free, lies between units that hold something of `only`. */
static struct piece used_part(const struct space *s, uint64_t from, uint64_t to)
{
	uint64_t end = from, block = from / s->block_size;
	struct piece p = { .offset = from };
	struct range r;

	while (rangeset_next(s->only, block, &r) && r.start * s->block_size < to) {
		uint64_t a = unit_down(s, r.start * s->block_size);
		uint64_t b = unit_up(s, (r.start + r.len) * s->block_size);

		block = r.start + r.len;
		a = a < end ? end : a;
		b = b > to ? to : b;
		if (a >= b)
			continue;
		if (!p.used)
			p.offset = a;
		p.used += b - a;
		end = b;
	}
	p.len = p.used ? end - p.offset : 0;
	return p;
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
		struct piece p;

		at = end;
		if (start >= end)
			continue;
		from = unit_up(s, start * s->block_size);
		to = unit_down(s, end * s->block_size);
		if (from >= to)
			continue;
		p = s->only ? used_part(s, from, to)
			    : (struct piece){ .used = to - from, .offset = from, .len = to - from };
		if (p.len && fn(ctx, &p, err))
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

/* Removes what of the range is in the set. */
static int uncover(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len;
	struct range r;

	while (rangeset_next(rs, start, &r) && r.start < end) {
		uint64_t a = r.start < start ? start : r.start;
		uint64_t b = r.start + r.len > end ? end : r.start + r.len;

		if (rangeset_remove(rs, a, b - a, err))
			return -1;
		start = b;
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

static bool moves_unwritten(const struct plan *p, size_t batch)
{
	const struct plan_batch *b = &p->batch[batch];

	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &p->file[b->first_file + i];

		for (uint64_t k = 0; k < f->n_move; k++)
			if (p->move[f->first_move + k].unwritten)
				return true;
	}
	return false;
}

bool run_wants_holes(const struct run *run)
{
	return run->o->discard != DISCARD_NONE && !run->discard_failed &&
	       volume_device(run->v)->sparse;
}

int run_note_written(struct run *run, struct error *err)
{
	size_t n = run->n_done;

	if (!run_wants_holes(run))
		return 0;
	/* A batch that was begun and abandoned, or not committed for want of files, wrote as well.
	 */
	if (n < run->n_do && run->spent - run->spent_noted > run_batch_bytes(run, run->n_noted, n))
		n++;
	run->spent_noted = run->spent;
	if (!run->written && rangeset_new(&run->written, err))
		return -1;
	for (; run->n_noted < n; run->n_noted++) {
		if (cover_batch(run->written, run->p, run->n_noted, err))
			return -1;
		run->unwritten |= moves_unwritten(run->p, run->n_noted);
	}
	return 0;
}

struct pieces {
	struct piece *p;
	size_t n, cap;
	uint64_t used; /* of all */
};

static int add_piece(void *ctx, const struct piece *p, struct error *err)
{
	struct pieces *all = ctx;

	if (array_reserve(&all->p, &all->cap, all->n + 1, sizeof(*all->p), err))
		return -1;
	all->p[all->n++] = *p;
	all->used += p->used;
	return 0;
}

/* Stopped twice, a run takes no more time than it must: it discards what it freed, no more. */
static bool in_haste(const struct run *run)
{
	return run->stop > 1;
}

/* *cut: it was not worth the time any more. */
static int give_back(struct run *run, const struct space *s, const struct piece *p, bool *cut,
		     struct error *err)
{
	struct device *dev = volume_device(run->v);
	uint64_t most = unit_down(s, s->first + CHUNK) - s->first;

	most = most ? most : s->unit;
	for (uint64_t done = 0, len; done < p->len; done += len) {
		len = p->len - done < most ? p->len - done : most;
		*cut = in_haste(run) && !s->only;
		if (*cut || device_discard(dev, p->offset + done, len, err))
			return -1;
		if (!s->only)
			run->r->bytes_discarded += len;
		run_tell(run, p->offset + done + len, dev->size);
	}
	if (s->only)
		run->r->bytes_discarded += p->used;
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

/*
 * By how much the image may have grown at most, in bytes: `left` is what was written and is not
 * needed any more. Some of that may have been allocated before the run, which the host can tell.
 * `again` of the growth does not count.
 */
static uint64_t growth(const struct run *run, uint64_t left, uint64_t again)
{
	uint64_t grown;

	if (!device_grown(volume_device(run->v), &grown))
		return left;
	grown -= grown < again ? grown : again;
	return grown < left ? grown : left;
}

/* How many blocks of the range are in the set. */
static uint64_t overlap(const struct rangeset *rs, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, sum = 0;
	struct range r;

	for (uint64_t at = start; rangeset_next(rs, at, &r) && r.start < end;
	     at = r.start + r.len) {
		uint64_t a = r.start < start ? start : r.start;
		uint64_t b = r.start + r.len > end ? end : r.start + r.len;

		sum += b - a;
	}
	return sum;
}

/*
 * Holes where the next batch writes would be filled at once: its targets are taken out of `disk`.
 * *again: bytes of them that are allocated already, as this run wrote them before.
 */
static int spare_next(const struct run *run, struct rangeset *disk, uint64_t *again,
		      struct error *err)
{
	const struct plan_batch *b = &run->p->batch[run->n_done];

	*again = 0;
	if (run->unwritten)
		return 0;
	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &run->p->file[b->first_file + i];

		for (uint64_t k = 0; k < f->n_move; k++) {
			const struct move *m = &run->p->move[f->first_move + k];

			if (m->unwritten)
				continue;
			*again += overlap(run->written, m->to, m->len) * run->block_size;
			if (uncover(disk, m->to, m->len, err))
				return -1;
		}
	}
	return 0;
}

/* The whole blocks of a piece count as written no more. */
static int forget(struct run *run, const struct piece *p, struct error *err)
{
	uint64_t from = (p->offset + run->block_size - 1) / run->block_size;
	uint64_t to = (p->offset + p->len) / run->block_size;

	return from < to ? uncover(run->written, from, to - from, err) : 0;
}

/* What is to be given back, and when that is enough. */
struct need {
	uint64_t enough; /* bytes that a sparse image may have grown by; 0: all goes */
	uint64_t again;	 /* as of growth() */
};

/*
 * Gives pieces back, the longest first, until it is enough. What can't be discarded is no failure
 * of the run; where nothing can be, not even worth a word.
 */
static int discard_pieces(struct run *run, const struct space *s, struct pieces *all,
			  const struct need *w, struct error *err)
{
	struct error failed = ERROR_INIT;
	bool cut = false;

	if (w->enough && !sort_by_key(all->p, all->n, sizeof(*all->p)))
		return error_nomem(err, "what to make holes of");
	for (size_t i = 0; i < all->n; i++) {
		const struct piece *p = &all->p[w->enough ? all->n - 1 - i : i];

		if (w->enough && growth(run, all->used, w->again) <= w->enough)
			break;
		if (give_back(run, s, p, &cut, &failed))
			goto failed;
		all->used -= p->used;
		if (s->only && forget(run, p, err))
			return -1;
	}
	return 0;
failed:
	run->discard_failed = !cut;
	if (!cut && failed.sys != EOPNOTSUPP)
		snprintf(run->r->discard_failed, sizeof(run->r->discard_failed), "%.255s",
			 failed.text);
	return 0;
}

/* `only` as in struct space; `enough` as in struct need. */
static int discard_free(struct run *run, const struct rangeset *only, uint64_t enough,
			struct error *err)
{
	struct space s = { .state = run->st->free, .only = only };
	struct need w = { .enough = enough };
	struct pieces all = { 0 };
	struct rangeset *disk;
	int rc = -1;

	run_phase(run, PHASE_DISCARD);
	/* What is read next may have been written by others, and not have reached the disk yet. */
	if (device_flush(volume_device(run->v), err) || volume_refresh(run->v, err) ||
	    scan_free(run->v, run->o->threads, only, &disk, err))
		return -1;
	s.disk = disk;
	set_units(run, &s);
	if (enough && spare_next(run, disk, &w.again, err))
		goto out;
	if (space_each(&s, add_piece, &all, err) || discard_pieces(run, &s, &all, &w, err))
		goto out;
	run->left_written = all.used;
	rc = 0;
out:
	free(all.p);
	rangeset_free(disk);
	return rc;
}

int run_discard_behind(struct run *run, struct error *err)
{
	uint64_t most = run->s->limits.copy_blocks * run->block_size;
	uint64_t next = run_batch_bytes(run, run->n_done, run->n_done + 1);
	uint64_t left = run->left_written + (run->spent - run->spent_holes);

	if (!run_wants_holes(run) || growth(run, left, 0) + next <= most)
		return 0;
	if (run_note_written(run, err) ||
	    discard_free(run, run->written, next < most ? most - next : 1, err))
		return -1;
	run->spent_holes = run->spent;
	return 0;
}

int run_discard(struct run *run, struct error *err)
{
	bool all = run->o->discard == DISCARD_ALL && !in_haste(run);

	if (run->discard_failed || (!all && (!run->written || rangeset_count(run->written) == 0)))
		return 0;
	/* A run without anything to move has written nothing so far. */
	if (commit_claim(run->c, err))
		return -1;
	return discard_free(run, all ? NULL : run->written, 0, err);
}
