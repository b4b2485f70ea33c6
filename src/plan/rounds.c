/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rounds.h"
#include <stdlib.h>

/* Keys of the edge table: the first block behind a run, or the first of it. */
static uint64_t edge_key(uint64_t block, bool start)
{
	return block << 1 | start;
}

static bool all_long(const struct runs *r, uint64_t least)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->at[i].blocks < least)
			return false;
	}
	return true;
}

/* Looks at the file's mapping anew. */
static int look(struct planner *p, struct candidate *c, struct error *err)
{
	const struct filemap *map = state_map(p->st, c->file);
	uint64_t ideal, least = p->opt->min_extent_blocks;
	c->bad = false;
	c->listed = false;
	c->woken[ROUND_WHOLE] = c->woken[ROUND_PARTS] = true;
	if (map->n_ext < 2)
		return 0;
	if (runs_of(map, &p->runs, err))
		return -1;
	ideal = ideal_runs(p->ideal, p->runs.blocks);
	if (p->runs.n <= ideal || p->runs.n < p->opt->min_runs ||
	    (least && all_long(&p->runs, least)))
		return 0;
	c->bad = true;
	c->need = placement_need(&p->runs);
	c->blocks = p->runs.blocks;
	c->excess = p->runs.n - ideal;
	return 0;
}

int rounds_find(struct planner *p, struct error *err)
{
	p->n_cand = 0;
	map64_clear(&p->edge);
	for (size_t i = 0; i < p->snap->n_file; i++) {
		struct candidate c = { .file = i };
		if (look(p, &c, err))
			return -1;
		if (!c.bad)
			continue;
		if (array_reserve(&p->cand, &p->cap_cand, p->n_cand + 1, sizeof(c), err))
			return -1;
		p->cand[p->n_cand++] = c;
	}
	free(p->round);
	free(p->file);
	free(p->order);
	p->round = malloc((p->n_cand + 1) * sizeof(*p->round));
	p->file = malloc((p->n_cand + 1) * sizeof(*p->file));
	p->order = malloc((p->n_cand + 1) * sizeof(*p->order));
	return p->round && p->file && p->order ? 0 : error_nomem(err, "planning");
}

/* Remembers the ends of the file's runs, to wake it when blocks beside them become free. */
static int set_aside(struct planner *p, size_t index, enum round kind, struct error *err)
{
	struct candidate *c = &p->cand[index];
	c->woken[ROUND_WHOLE] = false;
	if (kind != ROUND_WHOLE)
		c->woken[ROUND_PARTS] = false;
	if (c->listed)
		return 0;
	if (runs_of(state_map(p->st, c->file), &p->runs, err))
		return -1;
	for (size_t i = 0; i < p->runs.n; i++) {
		const struct run *r = &p->runs.at[i];
		if (map64_set(&p->edge, edge_key(r->pblk, true), (uint32_t)index, err) ||
		    map64_set(&p->edge, edge_key(r->pblk + r->blocks, false), (uint32_t)index, err))
			return -1;
	}
	c->listed = true;
	return 0;
}

bool rounds_spend(struct planner *p, uint64_t blocks)
{
	if (!p->limited)
		return true;
	if (blocks > p->left)
		return false;
	p->left -= blocks;
	return true;
}

int rounds_carry_out(struct planner *p, size_t file, const struct targets *t, bool *done,
		     struct error *err)
{
	uint64_t copied = 0;
	*done = false;
	if (targets_moves(t, state_map(p->st, file), &p->moves, err))
		return -1;
	for (size_t i = 0; i < p->moves.n; i++)
		copied += p->moves.at[i].unwritten ? 0 : p->moves.at[i].len;
	if (!rounds_spend(p, copied))
		return targets_give_back(t, p->st->free, err);
	return schedule_file(&p->sched, file, p->moves.at, p->moves.n, done, err);
}

static int try_file(struct planner *p, size_t index, enum round kind, bool *changed,
		    struct error *err)
{
	struct candidate *c = &p->cand[index];
	const struct filemap *map = state_map(p->st, c->file);
	uint64_t ideal = ideal_runs(p->ideal, filemap_blocks(map->ext, map->n_ext));
	struct targets *t;
	bool done = false;
	if (placement_files(&p->placer, map, p->snap->file[c->file].ino, ideal, kind != ROUND_WHOLE,
			    p->st->free, &t, err))
		return -1;
	if (t && rounds_carry_out(p, c->file, t, &done, err))
		return -1;
	if (!done)
		return set_aside(p, index, kind, err);
	*changed = true;
	return look(p, c, err);
}

static void wake(struct planner *p, uint64_t block, bool start)
{
	uint32_t index;
	if (map64_get(&p->edge, edge_key(block, start), &index))
		p->cand[index].woken[0] = p->cand[index].woken[1] = true;
}

/* Wakes the files that lie beside blocks freed since the last call. */
static void wake_beside_freed(struct planner *p)
{
	struct ranges *freed = &p->sched.freed;
	struct range r, last = { 0 };
	for (size_t i = 0; i < freed->n && p->edge.n; i++) {
		const struct range *f = &freed->at[i];
		uint64_t at = f->start, end = f->start + f->len;
		if (at >= last.start && end <= last.start + last.len)
			continue; /* done with the one before */
		while (rangeset_next(p->st->free, at, &r) && r.start < end) {
			at = r.start + r.len;
			wake(p, r.start, false);
			wake(p, at, true);
			last = r;
		}
	}
	freed->n = 0;
}

/* Is there a reason to try this file now? What there was may be used up by others. */
static bool worth_a_try(const struct planner *p, const struct candidate *c, enum round kind)
{
	struct range longest = { 0 };
	if (kind == ROUND_ALL || c->woken[kind])
		return true;
	rangeset_longest(p->st->free, &longest);
	return (kind == ROUND_WHOLE ? c->blocks : c->need) <= longest.len;
}

/* The files of the round, in the order in which they empty windows. */
static int sort_by_window(struct planner *p, struct error *err)
{
	for (size_t i = 0; i < p->n_round; i++)
		p->file[i] = p->cand[p->round[i].index].file;
	if (sweep_order(p->st, p->file, p->n_round, p->order, err))
		return -1;
	for (size_t i = 0; i < p->n_round; i++)
		p->file[i] = p->round[i].index;
	for (size_t i = 0; i < p->n_round; i++)
		p->round[i].index = p->file[p->order[i]];
	return 0;
}

static int list_round(struct planner *p, enum round kind, struct error *err)
{
	p->n_round = 0;
	for (size_t i = 0; i < p->n_cand; i++) {
		struct candidate *c = &p->cand[i];
		if (c->bad && worth_a_try(p, c, kind))
			p->round[p->n_round++] = (struct weighted){ UINT64_MAX - c->excess, i };
	}
	if (p->limited)
		return budget_sort(p, kind, err);
	if (p->sweep && kind == ROUND_WHOLE)
		return sort_by_window(p, err);
	weighted_sort(p->round, p->n_round);
	return 0;
}

/* *changed: some file was improved. */
static int run_round(struct planner *p, enum round kind, bool *changed, struct error *err)
{
	*changed = false;
	for (size_t i = 0; i < p->n_round; i++) {
		size_t index = p->round[i].index;
		if (worth_a_try(p, &p->cand[index], kind) && try_file(p, index, kind, changed, err))
			return -1;
	}
	if (schedule_close(&p->sched, err))
		return -1;
	wake_beside_freed(p);
	return 0;
}

int rounds_run(struct planner *p, enum round most, bool *any, struct error *err)
{
	enum round kind = ROUND_WHOLE;
	*any = false;
	for (;;) {
		bool changed;
		if (list_round(p, kind, err) || run_round(p, kind, &changed, err))
			return -1;
		*any |= changed;
		if (changed)
			kind = ROUND_WHOLE;
		else if (kind == most)
			return 0;
		else
			kind++;
	}
}

uint64_t rounds_excess(const struct planner *p)
{
	uint64_t n = 0;
	for (size_t i = 0; i < p->n_cand; i++)
		n += p->cand[i].bad ? p->cand[i].excess : 0;
	return n;
}

uint64_t rounds_price(uint64_t blocks, uint64_t gain)
{
	return (blocks > UINT64_MAX >> 16 ? UINT64_MAX : blocks << 16) / gain;
}

size_t rounds_by_price(struct planner *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_cand; i++) {
		const struct candidate *c = &p->cand[i];
		if (c->bad)
			p->round[n++] = (struct weighted){ rounds_price(c->blocks, c->excess), i };
	}
	weighted_sort(p->round, n);
	return n;
}

void rounds_release(struct planner *p)
{
	schedule_release(&p->sched);
	placement_release(&p->placer);
	state_free(p->st);
	map64_release(&p->edge);
	free(p->moves.at);
	free(p->runs.at);
	free(p->cand);
	free(p->round);
	free(p->file);
	free(p->order);
}
