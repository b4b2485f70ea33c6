/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * planner: which file next.
 *
 * Several orders of the policies are tried on simulated states, and the plan that leaves the fewest
 * runs more than needed wins, then the one that writes least:
 *  - files that fit somewhere as a whole, then making room (pack.c), then files in fewer parts;
 *  - making room first; files in fewer parts first.
 * Each goes on until nothing improves any more. Making room counts only if it lowers the excess of
 * runs; else it is taken back as a whole.
 *
 * Rounds over the files that have more runs than they need, those with most of them first. A file
 * that can't be improved is set aside until there is a reason to look again: a free run long enough
 * for two of its runs, or blocks freed right beside one of them. When no such file is left, a full
 * round looks at all of them once more; it ends the plan if it changes nothing. Each change lowers
 * the number of runs of one file and raises none, so there is an end, and a plan made from the
 * result is empty: it begins with the round that this one ended with.
 */
#include "plan_internal.h"
#include <stdlib.h>

struct candidate {
	uint64_t need;	 /* a free run this long surely helps */
	uint64_t blocks; /* a free run this long makes it contiguous */
	uint64_t excess; /* runs more than it needs */
	size_t file;	 /* index in the snapshot */
	bool bad;	 /* more runs than it needs */
	bool woken[2];	 /* by kind of round: it changed, or blocks beside it became free */
	bool listed;	 /* its edges are in the table */
};

/* Kinds of rounds; the next one begins when the one before changes nothing more. */
enum round {
	ROUND_WHOLE, /* files that become contiguous */
	ROUND_PARTS, /* files that get fewer runs */
	ROUND_ALL    /* the same, whether there is a reason to try them or not */
};

struct planner {
	const struct snapshot *snap;
	const struct planner_options *opt;
	const struct ideal *ideal;
	struct state *st;
	struct plan *plan;
	struct schedule sched;
	struct placer placer;
	struct moves moves;
	struct runs runs;
	struct candidate *cand;
	size_t n_cand, cap_cand;
	struct weighted *round;
	size_t n_round;
	struct map64 edge; /* block at the end or start of a run -> candidate that owns the run */
};

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

static int find_candidates(struct planner *p, struct error *err)
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
	p->round = malloc((p->n_cand + 1) * sizeof(*p->round));
	return p->round ? 0 : error_nomem(err, "planning");
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
	if (t && (targets_moves(t, map, &p->moves, err) ||
		  schedule_file(&p->sched, c->file, p->moves.at, p->moves.n, &done, err)))
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

static void list_round(struct planner *p, enum round kind)
{
	p->n_round = 0;
	for (size_t i = 0; i < p->n_cand; i++) {
		struct candidate *c = &p->cand[i];
		if (c->bad && worth_a_try(p, c, kind))
			p->round[p->n_round++] = (struct weighted){ UINT64_MAX - c->excess, i };
	}
	weighted_sort(p->round, p->n_round);
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

/* Rounds up to this kind, until they change nothing more. */
static int run_rounds(struct planner *p, enum round most, bool *any, struct error *err)
{
	enum round kind = ROUND_WHOLE;
	*any = false;
	for (;;) {
		bool changed;
		list_round(p, kind);
		if (run_round(p, kind, &changed, err))
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

/* ---- making room ---- */

static uint64_t excess_of(const struct planner *p)
{
	uint64_t n = 0;
	for (size_t i = 0; i < p->n_cand; i++)
		n += p->cand[i].bad ? p->cand[i].excess : 0;
	return n;
}

static int state_clone(const struct state *st, struct state **out, struct error *err)
{
	struct state *c;
	if (state_new(st->snap, &c, err))
		return -1;
	rangeset_free(c->free);
	c->free = NULL;
	if (rangeset_clone(st->free, &c->free, err))
		goto fail;
	for (size_t i = 0; i < st->snap->n_file; i++) {
		struct filemap m;
		if (!st->map[i])
			continue;
		if (filemap_copy(st->map[i], &m, err))
			goto fail;
		if (state_set_map(c, i, &m, err)) {
			filemap_release(&m);
			goto fail;
		}
	}
	*out = c;
	return 0;
fail:
	state_free(c);
	return -1;
}

/* Back to where the packing began. */
static int take_back(struct planner *p, struct state **before, const struct plan *mark)
{
	struct plan *plan = p->plan;
	struct state st = *p->st;
	*p->st = **before;
	**before = st;
	plan->n_batch = mark->n_batch;
	plan->n_file = mark->n_file;
	plan->n_move = mark->n_move;
	plan->n_node = mark->n_node;
	schedule_forget(&p->sched);
	return 0;
}

/* *better: it is, by runs or at the same number of runs by the goal; else nothing is changed. */
static int carry_out(struct planner *p, const struct packing *pk, bool by_goal, bool *better,
		     struct error *err)
{
	struct plan mark = *p->plan;
	struct state *before = NULL;
	uint64_t excess = excess_of(p), goal = goal_of(p->st, p->opt);
	bool done;
	int rc = -1;
	*better = false;
	if (state_clone(p->st, &before, err) || permute(&p->sched, pk->want, pk->n, &done, err) ||
	    find_candidates(p, err))
		goto out;
	*better = !p->sched.n_worse &&
		  (by_goal ? excess_of(p) <= excess && goal_of(p->st, p->opt) < goal
			   : excess_of(p) < excess);
	rc = *better ? 0 : take_back(p, &before, &mark) || find_candidates(p, err) ? -1 : 0;
out:
	state_free(before);
	return rc;
}

static int make_room(struct planner *p, bool *better, struct error *err)
{
	size_t *file = malloc((p->n_cand + 1) * sizeof(*file)), n = 0;
	uint64_t excess = excess_of(p);
	struct packing pk = { 0 };
	int rc = -1;
	*better = false;
	if (!file)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < p->n_cand; i++) {
		if (p->cand[i].bad)
			file[n++] = p->cand[i].file;
	}
	rc = n ? pack_find(p->st, p->ideal, file, n, &pk, err) : 0;
	if (!rc && n && pk.excess < excess)
		rc = carry_out(p, &pk, false, better, err);
	free(file);
	free(pk.want);
	return rc;
}

static int near_goal(struct planner *p, bool *better, struct error *err)
{
	struct packing pk = { 0 };
	bool found;
	int rc = goal_find(p->st, p->opt, &pk, &found, err);
	*better = false;
	if (!rc && found)
		rc = carry_out(p, &pk, true, better, err);
	free(pk.want);
	return rc;
}

/* ---- a plan ---- */

/* In which order the policies are tried. */
enum order { CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST };

static int improve(struct planner *p, enum order order, struct error *err)
{
	bool rounds, room, nearer;
	if ((order == ROOM_FIRST && make_room(p, &room, err)) ||
	    (order == PARTS_FIRST && run_rounds(p, ROUND_ALL, &rounds, err)))
		return -1;
	do {
		nearer = false;
		if (run_rounds(p, ROUND_WHOLE, &rounds, err) || make_room(p, &room, err))
			return -1;
		if (!room && run_rounds(p, ROUND_ALL, &rounds, err))
			return -1;
		if (!room && !rounds && near_goal(p, &nearer, err))
			return -1;
	} while (room || rounds || nearer);
	return 0;
}

struct attempt {
	struct plan *plan;
	uint64_t goal;
};

static void planner_release(struct planner *p)
{
	schedule_release(&p->sched);
	placement_release(&p->placer);
	state_free(p->st);
	map64_release(&p->edge);
	free(p->moves.at);
	free(p->runs.at);
	free(p->cand);
	free(p->round);
}

static int make(const struct snapshot *s, const struct planner_options *o, struct ideal *ideal,
		enum order order, struct attempt *out, struct error *err)
{
	struct planner p = { .snap = s, .opt = o, .ideal = ideal, .placer = { .geo = &s->geo } };
	int rc = -1;
	if (plan_new(&p.plan, err) || state_new(s, &p.st, err) ||
	    schedule_init(&p.sched, p.st, p.plan, err) || find_candidates(&p, err) ||
	    improve(&p, order, err) || state_summary(p.st, p.ideal, &p.plan->predicted))
		goto out;
	*out = (struct attempt){ p.plan, goal_of(p.st, o) };
	p.plan = NULL;
	rc = 0;
out:
	planner_release(&p);
	plan_free(p.plan);
	return rc;
}

static uint64_t excess_after(const struct plan *p)
{
	return p->predicted.runs - p->predicted.ideal_runs;
}

/* Blocks to be written; what is journaled is written twice. */
static uint64_t price(const struct plan *p)
{
	uint64_t n = plan_copy_blocks(p);
	for (size_t i = 0; i < p->n_batch; i++)
		n += 2 * p->batch[i].journal_blocks;
	return n;
}

static bool better(const struct attempt *a, const struct attempt *b)
{
	if (excess_after(a->plan) != excess_after(b->plan))
		return excess_after(a->plan) < excess_after(b->plan);
	if (a->goal != b->goal)
		return a->goal < b->goal;
	return price(a->plan) < price(b->plan);
}

/* Nothing is better by much than all whole at the price of the fragmented blocks; with other goals
 * than that, at any price. */
static bool good_enough(const struct plan *p, const struct planner_options *o,
			const struct summary *before)
{
	return !p->predicted.frag_files &&
	       (o->mode != PLAN_FILES || plan_copy_blocks(p) <= before->frag_blocks);
}

/* Takes over the better one of two plans. */
static void keep_better(struct attempt *best, struct attempt *a)
{
	if (best->plan && !better(a, best)) {
		plan_free(a->plan);
		return;
	}
	plan_free(best->plan);
	*best = *a;
}

static int try_orders(const struct snapshot *s, const struct planner_options *o,
		      struct ideal *ideal, struct attempt *best, struct error *err)
{
	static const enum order order[] = { CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST };
	struct summary before;
	struct state *st = NULL;
	int rc = -1;
	if (state_new(s, &st, err) || state_summary(st, ideal, &before))
		goto out;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		struct attempt a;
		if (i && (good_enough(best->plan, o, &before) ||
			  (order[i] == PARTS_FIRST && !excess_after(best->plan))))
			break;
		if (make(s, o, ideal, order[i], &a, err))
			goto out;
		keep_better(best, &a);
	}
	rc = 0;
out:
	state_free(st);
	return rc;
}

int planner_make(const struct snapshot *s, const struct planner_options *o, struct plan **out,
		 struct error *err)
{
	struct attempt best = { 0 };
	struct ideal *ideal = NULL;
	int rc = -1;
	if (s->n_file >= UINT32_MAX)
		return error_set(err, ERROR_OPERATION, "plan: too many files");
	if (ideal_new(s, &ideal, err) || try_orders(s, o, ideal, &best, err))
		goto out;
	*out = best.plan;
	best.plan = NULL;
	rc = 0;
out:
	ideal_free(ideal);
	plan_free(best.plan);
	return rc;
}
