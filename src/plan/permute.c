/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * permute: wants that lie on each other's blocks -> batches.
 *
 * A part is a stretch of a file that lies in one piece, and its target. Where blocks become free
 * that are targets, they are claimed (they leave the state's free set for `open`), so the free set
 * holds only what nobody waits for: bounces and tree blocks come from there. A part whose target is
 * all open is ready. Each batch moves what is ready; what it frees makes others ready, so chains
 * run backward from free space by themselves.
 *
 * When little is ready, unblock.c finds more to do; among other things it bounces parts, that is,
 * moves them to free space for the time being. A part is bounced at most once, so each batch brings
 * the end nearer.
 *
 * Cost: O(log n) for each part, split and freed range, and what the moves themselves take.
 */
#include "permute.h"
#include "scaledefrag/sort.h"
#include <assert.h>
#include <stdlib.h>

int permute_push(struct list *l, uint32_t value, struct error *err)
{
	if (array_reserve(&l->at, &l->cap, l->n + 1, sizeof(*l->at), err))
		return -1;
	l->at[l->n++] = value;
	return 0;
}

unsigned permute_class(uint64_t len)
{
	unsigned c = 0;
	while (len >>= 1)
		c++;
	return c;
}

int permute_queue(struct permute *pm, uint32_t job, struct error *err)
{
	if (pm->job[job].queued)
		return 0;
	pm->job[job].queued = true;
	return permute_push(&pm->queue, job, err);
}

int permute_look(struct permute *pm, uint32_t i, struct error *err)
{
	struct part *p = &pm->part[i];
	struct job_file *j = &pm->job[p->job];
	if (p->ready || p->bouncing || !p->open) /* what bounces is looked at again */
		return 0;
	if (p->open < p->len) {
		if (p->partial)
			return 0;
		p->partial = true;
		return permute_push(&pm->partial, i, err);
	}
	p->ready = true;
	pm->ready_blocks += p->len;
	p->next = j->first;
	j->first = i;
	return permute_queue(pm, p->job, err);
}

int permute_add_part(struct permute *pm, struct part p, uint32_t *index, struct error *err)
{
	struct list *l = &pm->size[permute_class(p.len)];
	if (pm->n_part >= NONE - 1)
		return error_set(err, ERROR_OPERATION, "plan: too many pieces");
	if (array_reserve(&pm->part, &pm->cap_part, pm->n_part + 1, sizeof(p), err))
		return -1;
	*index = (uint32_t)pm->n_part;
	pm->part[pm->n_part++] = p;
	pm->job[p.job].pending++;
	return p.away ? 0 : permute_push(l, *index, err);
}

/* Blocks of [start, start + len) that are in the set. */
static uint64_t common(const struct rangeset *rs, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, n = 0;
	struct range r;
	for (uint64_t at = start; at < end && rangeset_next(rs, at, &r) && r.start < end;) {
		uint64_t a = r.start > start ? r.start : start;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		n += z - a;
		at = r.start + r.len;
	}
	return n;
}

/* All of the part's target is open: its ranges needn't be known any more. */
static int unlist_open(struct permute *pm, const struct part *p, struct error *err)
{
	uint64_t end = p->to + p->len;
	struct range r;
	for (uint64_t at = p->to; rangeset_next(pm->open, at, &r) && r.start < end;) {
		uint64_t a = r.start > at ? r.start : at;
		at = r.start + r.len < end ? r.start + r.len : end;
		if (rangeset_remove(pm->open, a, at - a, err))
			return -1;
	}
	return 0;
}

int permute_claim(struct permute *pm, struct part *p, uint64_t start, uint64_t len,
		  struct error *err)
{
	p->open += len;
	pm->open_blocks += len;
	if (p->open < p->len)
		return rangeset_add(pm->open, start, len, err);
	return len < p->len ? unlist_open(pm, p, err) : 0;
}

int permute_split(struct permute *pm, uint32_t i, uint64_t at, uint32_t *rest, struct error *err)
{
	struct part *p = &pm->part[i], r = *p;
	assert(at && at < p->len && !p->ready);
	r.offset += at;
	r.from += at;
	r.to += at;
	r.len -= at;
	r.partial = false;
	p->len = at;
	if (p->open) {
		uint64_t open = p->open;
		bool all = open == p->len + r.len;
		p->open = all ? p->len : common(pm->open, p->to, p->len);
		r.open = open - p->open;
		if (!all && ((p->open == p->len && unlist_open(pm, p, err)) ||
			     (r.open == r.len && unlist_open(pm, &r, err))))
			return -1;
	}
	if (!p->away && permute_push(&pm->size[permute_class(at)], i, err))
		return -1;
	return permute_add_part(pm, r, rest, err) || addrmap_put(&pm->target, r.to, *rest, err) ||
			       addrmap_put(&pm->source, r.from, *rest, err)
		       ? -1
		       : 0;
}

/* Gives the waiting parts what they want of [start, start + len), which nobody has; the rest is
 * free. Parts that are done stay in the map; nothing frees their blocks. */
static int open_range(struct permute *pm, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t at = start, end = start + len, key;
	struct rangeset *avail = pm->sc->st->free;
	struct addrmap_cursor c;
	uint32_t i;
	addrmap_seek(&pm->target, start, &c);
	while (addrmap_next(&c, &key, &i) && key < end) {
		struct part *p = &pm->part[i];
		uint64_t z = key + p->len < end ? key + p->len : end;
		if (z <= at)
			continue;
		if (key > at && rangeset_add(avail, at, key - at, err))
			return -1;
		at = key > at ? key : at;
		if (permute_claim(pm, p, at, z - at, err) || permute_look(pm, i, err))
			return -1;
		at = z;
	}
	return at < end ? rangeset_add(avail, at, end - at, err) : 0;
}

/* The same for what is free of [start, start + len). */
static int open_free(struct permute *pm, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t at = start, end = start + len;
	struct range r;
	while (rangeset_next(pm->sc->st->free, at, &r) && r.start < end) {
		uint64_t a = r.start > at ? r.start : at;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		if (rangeset_remove(pm->sc->st->free, a, z - a, err) ||
		    open_range(pm, a, z - a, err))
			return -1;
		at = z;
	}
	return 0;
}

/* ---- a batch ---- */

static int list_steps(struct permute *pm, struct job_file *j, struct error *err)
{
	pm->n_step = 0;
	for (int k = 0; k < 2; k++) {
		for (uint32_t i = k ? j->bounce : j->first; i != NONE; i = pm->part[i].next) {
			struct part *p = &pm->part[i];
			if (array_reserve(&pm->step, &pm->cap_step, pm->n_step + 1,
					  sizeof(*pm->step), err))
				return -1;
			pm->step[pm->n_step++] = (struct step){ p->offset, i };
			if (p->ready)
				pm->ready_blocks -= p->len;
			p->ready = false;
		}
	}
	j->first = j->bounce = NONE;
	return sort_by_key(pm->step, pm->n_step, sizeof(*pm->step)) ? 0
								    : error_nomem(err, "planning");
}

/* What becomes of a part in this batch: all of it has moved, or nothing. */
static int settle(struct permute *pm, uint32_t i, bool moved, struct error *err)
{
	struct part *p = &pm->part[i];
	if (p->bouncing) {
		p->bouncing = false;
		if (moved) {
			addrmap_del(&pm->source, p->from);
			p->from = p->dest;
			p->away = true;
			return addrmap_put(&pm->source, p->from, i, err) || permute_look(pm, i, err)
				       ? -1
				       : 0;
		}
		return rangeset_add(pm->sc->st->free, p->dest, p->len, err) ||
				       permute_push(&pm->size[permute_class(p->len)], i, err) ||
				       permute_look(pm, i, err)
			       ? -1
			       : 0;
	}
	if (!moved)
		return permute_look(pm, i, err);
	p->done = true;
	pm->pending_blocks -= p->len;
	pm->job[p->job].pending--;
	addrmap_del(&pm->source, p->from);
	pm->open_blocks -= p->len;
	return 0;
}

static int settle_all(struct permute *pm, uint64_t done, struct error *err)
{
	for (size_t k = 0; k < pm->n_step; k++) {
		uint32_t i = pm->step[k].part, rest;
		struct part *p = &pm->part[i];
		bool moved = done > 0;
		if (moved && done < p->len) {
			uint64_t dest = p->dest;
			bool bouncing = p->bouncing;
			if (permute_split(pm, i, done, &rest, err))
				return -1;
			pm->part[rest].dest = dest + done;
			if (bouncing && settle(pm, rest, false, err))
				return -1;
			if (!bouncing && permute_look(pm, rest, err))
				return -1;
		}
		done -= pm->part[i].len < done ? pm->part[i].len : done;
		if (settle(pm, i, moved, err))
			return -1;
	}
	return 0;
}

/* Moves what is ready of a file, and what bounces. *full: the batch holds no more. */
static int move_file(struct permute *pm, uint32_t index, bool *full, struct error *err)
{
	struct job_file *j = &pm->job[index];
	size_t finals = 0, n_done;
	uint64_t done = 0;
	j->queued = false;
	if (list_steps(pm, j, err))
		return -1;
	targets_reset(&pm->targets);
	for (size_t k = 0; k < pm->n_step; k++) {
		const struct part *p = &pm->part[pm->step[k].part];
		struct targets *t = &pm->targets;
		if (array_reserve(&t->at, &t->cap, t->n + 1, sizeof(*t->at), err))
			return -1;
		t->at[t->n++] = (struct target){ p->offset, p->len, p->bouncing ? p->dest : p->to };
		finals += !p->bouncing;
	}
	if (targets_moves(&pm->targets, state_map(pm->sc->st, j->file), &pm->moves, err) ||
	    schedule_some(pm->sc, j->file, pm->moves.at, pm->moves.n, j->pending > finals, &n_done,
			  full, err))
		return -1;
	for (size_t k = 0; k < n_done; k++)
		done += pm->moves.at[k].len;
	pm->moved += done;
	return settle_all(pm, done, err);
}

static int run_batch(struct permute *pm, struct error *err)
{
	struct list *q = &pm->queue;
	size_t end = q->n;
	bool full = false;
	pm->moved = 0;
	/* What is queued again meanwhile is for the next batch: a file moves once in each. */
	while (pm->head < end && !full) {
		if (move_file(pm, q->at[pm->head++], &full, err))
			return -1;
	}
	if (pm->head == q->n)
		pm->head = q->n = 0;
	if (schedule_close(pm->sc, err))
		return -1;
	for (size_t i = 0; i < pm->sc->freed.n; i++) {
		const struct range *r = &pm->sc->freed.at[i];
		if (open_range(pm, r->start, r->len, err))
			return -1;
	}
	pm->sc->freed.n = 0;
	for (size_t i = 0; i < pm->lent.n; i++) {
		if (open_free(pm, pm->lent.at[i].start, pm->lent.at[i].len, err))
			return -1;
	}
	pm->lent.n = 0;
	return 0;
}

static int run(struct permute *pm, bool *done, struct error *err)
{
	bool any = true;
	*done = false;
	pm->all_blocks = pm->pending_blocks;
	while (pm->pending_blocks) {
		if (permute_prepare(pm, &any, err))
			return -1;
		if (!any)
			return 0;
		if (run_batch(pm, err))
			return -1;
		/* Nothing could move, so tree blocks are short: once more with more of them. */
		if (!pm->moved && pm->starved)
			return 0;
		pm->starved = !pm->moved;
	}
	*done = true;
	return 0;
}

/* What was claimed and isn't used is free after all. */
static int give_back(struct permute *pm, struct error *err)
{
	struct range r;
	for (uint64_t at = 0; rangeset_next(pm->open, at, &r); at = r.start + r.len) {
		if (rangeset_add(pm->sc->st->free, r.start, r.len, err))
			return -1;
	}
	for (size_t i = 0; i < pm->n_part; i++) {
		const struct part *p = &pm->part[i];
		if (!p->done && p->open == p->len &&
		    rangeset_add(pm->sc->st->free, p->to, p->len, err))
			return -1;
	}
	return 0;
}

static void release(struct permute *pm)
{
	for (unsigned c = 0; c < CLASSES; c++)
		free(pm->size[c].at);
	addrmap_release(&pm->target);
	addrmap_release(&pm->source);
	rangeset_free(pm->open);
	free(pm->part);
	free(pm->job);
	free(pm->queue.at);
	free(pm->partial.at);
	free(pm->lent.at);
	free(pm->step);
	free(pm->targets.at);
	free(pm->moves.at);
	free(pm->runs.at);
}

int permute(struct schedule *sc, const struct want *wants, size_t n, bool *done, struct error *err)
{
	struct permute pm = { .sc = sc };
	int rc = -1;
	sc->hold = true; /* most of it is wanted: run_batch() gives back the rest */
	if (!permute_start(&pm, wants, n, err) && !run(&pm, done, err) && !give_back(&pm, err))
		rc = 0;
	sc->hold = false;
	release(&pm);
	return rc;
}
