/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evict: room for a few files at a time, where hardly any blocks are free.
 *
 * With all files on their way at once, as permute.c has them, tree blocks for files in pieces would
 * use up what is free. Here what lies in a window moves away, each run as a whole to a gap that
 * fits best, and then a file moves in as a whole; what it leaves are gaps for the next ones. No
 * file gets more runs at any time, so a run may stop after every batch.
 *
 * A round: windows for as many files as the gaps allow; one batch, or more, moves away what lies
 * in them, the next one moves the files in.
 */
#include "layout.h"
#include "rounds.h"
#include <stdlib.h>

/* Blocks that may have to move away for each block of a file. */
#define EFFORT 16u
/* Passes over the files that are left, while the one before found some. */
#define PASSES 8
/* Share of the runs in excess that a pass has to remove. */
#define GAIN 4096u
/* With more fragmented files than that it takes too long. */
#define MOST_FILES 20000u
/* Gaps are merged, in so many batches at most, where this share of the blocks is free, or less. */
#define SCARCE 32u
#define MERGES 64

/* A window for a file. */
struct place {
	size_t cand;
	uint64_t start, len;
};

struct evict {
	struct planner *p;
	struct layout l; /* its objects are runs */
	size_t *first;	 /* by file: its first object */
	struct place *place;
	size_t n_place, cap_place;
	uint32_t *moved; /* objects that move away in this round */
	size_t n_moved, cap_moved;
	uint64_t cost; /* blocks copied in this round */
	struct targets targets;
	bool stale; /* the layout isn't what the state is */
};

static int start(struct evict *e, struct planner *p, struct error *err)
{
	size_t n = p->snap->n_file, k = 0;

	*e = (struct evict){ .p = p };
	e->first = malloc((n + 1) * sizeof(*e->first));
	if (!e->first)
		return error_nomem(err, "planning");
	if (layout_init_runs(&e->l, p->st, err) || layout_index(&e->l, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		e->first[i] = k;
		while (k < e->l.n_file && e->l.own[k].file == i)
			k++;
	}
	e->first[n] = k;
	return 0;
}

static void release(struct evict *e)
{
	layout_release(&e->l);
	free(e->first);
	free(e->place);
	free(e->moved);
	free(e->targets.at);
}

/* ---- a window ---- */

static int note_moved(struct evict *e, size_t object, struct error *err)
{
	if (array_reserve(&e->moved, &e->cap_moved, e->n_moved + 1, sizeof(*e->moved), err))
		return -1;
	e->moved[e->n_moved++] = (uint32_t)object;
	return 0;
}

/* What lies in the window goes to gaps outside of it. *ok = false: nothing is changed. */
static int clear(struct evict *e, const struct layout_window *w, bool *ok, struct error *err)
{
	struct layout *l = &e->l;
	size_t n, mark = l->n_undo;

	if (layout_lift_all(l, w->start, w->end, &n, err) ||
	    rangeset_remove(l->gap, w->start, w->end - w->start, err))
		return -1;
	weighted_sort_down(l->file, n);
	*ok = true;
	for (size_t i = 0; i < n && *ok; i++) {
		struct range r;

		*ok = rangeset_best_fit(l->gap, l->file[i].weight, w->start, &r);
		if (*ok && layout_put(l, l->file[i].index, r.start, err))
			return -1;
	}
	for (size_t i = 0; i < n && *ok; i++) {
		if (note_moved(e, l->file[i].index, err))
			return -1;
	}
	if (*ok)
		return 0;
	return rangeset_add(l->gap, w->start, w->end - w->start, err) ||
			       layout_take_back(l, mark, err)
		       ? -1
		       : 0;
}

static int find_window(struct evict *e, size_t cand, bool *ok, struct error *err)
{
	struct candidate *c = &e->p->cand[cand];
	uint64_t limit = EFFORT * c->blocks;
	struct layout_window w;

	*ok = false;
	if (ideal_runs(e->p->ideal, c->blocks) > 1)
		return 0;
	if (e->p->limited && e->p->left < e->cost + c->blocks)
		return 0;
	if (e->p->limited && limit > e->p->left - e->cost - c->blocks)
		limit = e->p->left - e->cost - c->blocks;
	if (runs_of(state_map(e->p->st, c->file), &e->p->runs, err) ||
	    layout_find_window(&e->l, c->blocks, &e->p->runs, limit, &w, ok, err))
		return -1;
	if (!*ok)
		return 0;
	if (array_reserve(&e->place, &e->cap_place, e->n_place + 1, sizeof(*e->place), err) ||
	    clear(e, &w, ok, err))
		return -1;
	if (*ok) {
		e->place[e->n_place++] = (struct place){ cand, w.start, w.end - w.start };
		e->cost += w.cost + c->blocks;
	}
	return 0;
}

/* ---- a round ---- */

static int by_object(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Claims a place, if it is free. */
static int claim(struct evict *e, uint64_t offset, uint64_t len, uint64_t to, struct error *err)
{
	if (!rangeset_contains(e->p->st->free, to, len)) {
		e->stale = true; /* a tree block is there */
		return 0;
	}
	return targets_claim(&e->targets, offset, len, to, e->p->st->free, err);
}

/* Those of a file, from moved[i] on. */
static int move_runs(struct evict *e, size_t *i, struct error *err)
{
	struct layout *l = &e->l;
	size_t file = l->own[e->moved[*i]].file;
	bool done = true;

	targets_reset(&e->targets);
	for (; *i < e->n_moved && l->own[e->moved[*i]].file == file; ++*i) {
		uint32_t k = e->moved[*i];

		if (l->at[k] != l->home[k] &&
		    claim(e, l->own[k].offset, l->blocks[k], l->at[k], err))
			return -1;
		l->home[k] = l->at[k];
	}
	if (e->targets.n && rounds_carry_out(e->p, file, &e->targets, &done, err))
		return -1;
	e->stale |= !done;
	return 0;
}

static int move_away(struct evict *e, struct error *err)
{
	size_t n = 0;

	if (e->n_moved)
		qsort(e->moved, e->n_moved, sizeof(*e->moved), by_object);
	for (size_t i = 0; i < e->n_moved; i++) { /* one may have moved twice */
		if (!i || e->moved[i] != e->moved[i - 1])
			e->moved[n++] = e->moved[i];
	}
	e->n_moved = n;
	for (size_t i = 0; i < e->n_moved;) {
		if (move_runs(e, &i, err))
			return -1;
	}
	return schedule_close(&e->p->sched, err);
}

/* The file is one object from now on. */
static int join(struct evict *e, const struct place *pl, struct error *err)
{
	const struct candidate *c = &e->p->cand[pl->cand];
	struct layout *l = &e->l;

	for (size_t k = e->first[c->file]; k < e->first[c->file + 1]; k++) {
		if (l->at[k] != NOWHERE && layout_lift(l, k, err))
			return -1;
	}
	size_t k = e->first[c->file];
	l->blocks[k] = c->blocks;
	if (layout_put(l, k, pl->start, err))
		return -1;
	l->home[k] = pl->start;
	return 0;
}

static int move_in(struct evict *e, bool *any, struct error *err)
{
	for (size_t i = 0; i < e->n_place; i++) {
		struct place *pl = &e->place[i];
		struct candidate *c = &e->p->cand[pl->cand];
		bool done = false;

		targets_reset(&e->targets);
		if (claim(e, 0, c->blocks, pl->start, err) ||
		    (e->targets.n && rounds_carry_out(e->p, c->file, &e->targets, &done, err)))
			return -1;
		c->bad = c->bad && !done;
		*any |= done;
		e->stale |= !done;
	}
	if (schedule_close(&e->p->sched, err))
		return -1;
	for (size_t i = 0; i < e->n_place && !e->stale; i++) {
		const struct place *pl = &e->place[i];

		if (rangeset_add(e->l.gap, pl->start, pl->len, err) || join(e, pl, err))
			return -1;
	}
	return 0;
}

static int run_round(struct evict *e, bool *any, struct error *err)
{
	if (move_away(e, err) || move_in(e, any, err))
		return -1;
	e->n_place = e->n_moved = e->l.n_undo = 0;
	e->cost = 0;
	return 0;
}

/* ---- gaps ---- */

/* A gap for this object, of exactly its length, or any if behind the object there is a gap too:
 * either way there is one gap less. */
static bool find_gap(const struct evict *e, uint32_t object, uint64_t end, struct range *r)
{
	const struct rangeset *gap = e->l.gap;
	uint64_t len = e->l.blocks[object];

	return rangeset_best_fit(gap, len, end, r) && (r->len == len || room_from(gap, end + len));
}

/* Moves away what lies behind the gap, which is taken out of the gaps. */
static int grow(struct evict *e, struct range *g, struct error *err)
{
	struct layout *l = &e->l;
	uint64_t end = g->start + g->len;
	uint32_t k;
	struct range r;

	while (layout_object(l, end, &k) && find_gap(e, k, end, &r)) {
		uint64_t len = l->blocks[k];

		if (layout_lift(l, k, err) || rangeset_remove(l->gap, end, len, err) ||
		    layout_put(l, k, r.start, err) || note_moved(e, k, err))
			return -1;
		end += len;
		if (!rangeset_next(l->gap, end, &r) || r.start != end)
			continue;
		if (rangeset_remove(l->gap, r.start, r.len, err))
			return -1;
		end += r.len;
	}
	g->len = end - g->start;
	return 0;
}

/* Fewer and longer gaps: runs that lie beside one go to others that they fill. */
static int merge_gaps(struct evict *e, struct error *err)
{
	struct ranges grown = { 0 };
	struct range r;
	int rc = -1;

	for (int i = 0; i < MERGES && !e->stale; i++) {
		for (uint64_t at = 0; rangeset_next(e->l.gap, at, &r); at = r.start + r.len) {
			if (array_reserve(&grown.at, &grown.cap, grown.n + 1, sizeof(r), err) ||
			    rangeset_remove(e->l.gap, r.start, r.len, err))
				goto out;
			uint64_t len = r.len;
			if (grow(e, &r, err))
				goto out;
			if (r.len > len)
				grown.at[grown.n++] = r;
			else if (rangeset_add(e->l.gap, r.start, r.len, err))
				goto out;
		}
		if (!e->n_moved)
			break;
		if (move_away(e, err) || ranges_join(&grown, e->l.gap, err))
			goto out;
		e->n_moved = e->l.n_undo = 0;
	}
	rc = 0;
out:
	free(grown.at);
	return rc;
}

/* ---- all files ---- */

/* *any: some were made whole. */
static int run_pass(struct planner *p, bool merge, bool *any, struct error *err)
{
	struct evict e;
	size_t n = rounds_by_price(p);
	int rc = -1;

	*any = false;
	if (start(&e, p, err) || (merge && merge_gaps(&e, err)))
		goto out;
	for (size_t i = 0; i < n && !e.stale; i++) {
		bool ok;

		if (find_window(&e, p->round[i].index, &ok, err))
			goto out;
		if (ok || !e.n_place)
			continue;
		/* The gaps are used up: what those files leave may do. */
		if (run_round(&e, any, err))
			goto out;
		i -= !e.stale;
	}
	rc = e.n_place ? run_round(&e, any, err) : 0;
out:
	release(&e);
	return rc ? -1 : rounds_find(p, err);
}

/* A pass that is taken back as a whole if it is no gain to speak of. */
static int try_pass(struct planner *p, bool merge, bool *any, struct error *err)
{
	struct room_mark mark;
	uint64_t excess = rounds_excess(p);
	int rc = -1;

	if (room_set_mark(p, &mark, err))
		return -1;
	if (run_pass(p, merge, any, err))
		goto out;
	*any = *any && !p->sched.n_worse && rounds_excess(p) < excess - excess / GAIN;
	rc = *any ? 0 : room_take_back(p, &mark, err);
out:
	room_forget(&mark);
	return rc;
}

int evict_make_room(struct planner *p, bool *better, struct error *err)
{
	bool scarce = rangeset_blocks(p->st->free) <= p->snap->geo.blocks / SCARCE, any = true;
	size_t n = rounds_by_price(p);

	*better = false;
	for (int i = 0; i < PASSES && any && n && n <= MOST_FILES; i++) {
		if (try_pass(p, false, &any, err) ||
		    (!any && scarce && try_pass(p, true, &any, err)))
			return -1;
		*better |= any;
		n = rounds_by_price(p);
	}
	return 0;
}
