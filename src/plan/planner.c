/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * planner: which file next.
 *
 * Several orders of the policies are tried on simulated states, and the plan that leaves the fewest
 * runs more than needed wins, then the one that writes least:
 *  - files that fit somewhere as a whole (rounds.c), window by window, then making room (pack.c),
 *    then files in fewer parts;
 *  - the same, those with most runs first;
 *  - making room first; files in fewer parts first.
 * Each goes on until nothing improves any more. Making room counts only if it lowers the excess of
 * runs; else it is taken back as a whole.
 */
#include "rounds.h"
#include <stdlib.h>

/* ---- making room ---- */

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
	uint64_t excess = rounds_excess(p), goal = goal_of(p->st, p->opt);
	bool done;
	int rc = -1;
	*better = false;
	if (state_clone(p->st, &before, err) || permute(&p->sched, pk->want, pk->n, &done, err) ||
	    rounds_find(p, err))
		goto out;
	*better = !p->sched.n_worse &&
		  (by_goal ? rounds_excess(p) <= excess && goal_of(p->st, p->opt) < goal
			   : rounds_excess(p) < excess);
	rc = *better ? 0 : take_back(p, &before, &mark) || rounds_find(p, err) ? -1 : 0;
out:
	state_free(before);
	return rc;
}

static unsigned threads_of(const struct planner_options *o)
{
	return o->threads ? o->threads : 1;
}

static int make_room(struct planner *p, bool *better, struct error *err)
{
	size_t *file = malloc((p->n_cand + 1) * sizeof(*file)), n = 0;
	uint64_t excess = rounds_excess(p);
	struct packing pk = { 0 };
	int rc = -1;
	*better = false;
	if (!file)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < p->n_cand; i++) {
		if (p->cand[i].bad)
			file[n++] = p->cand[i].file;
	}
	rc = n ? pack_find(p->st, p->ideal, file, n, threads_of(p->opt), &pk, err) : 0;
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
enum order { SWEEP_FIRST, CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST };

static int improve(struct planner *p, enum order order, struct error *err)
{
	bool rounds, room, nearer;
	/* What gets another place for its neighbours' sake needn't be moved before that. */
	if (p->opt->mode == PLAN_LAYOUT && near_goal(p, &nearer, err))
		return -1;
	if ((order == ROOM_FIRST && make_room(p, &room, err)) ||
	    (order == PARTS_FIRST && rounds_run(p, ROUND_ALL, &rounds, err)))
		return -1;
	do {
		nearer = false;
		if (rounds_run(p, ROUND_WHOLE, &rounds, err) || make_room(p, &room, err))
			return -1;
		if (!room && rounds_run(p, ROUND_ALL, &rounds, err))
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

static int make(const struct snapshot *s, const struct planner_options *o, struct ideal *ideal,
		enum order order, struct attempt *out, struct error *err)
{
	struct planner p = { .snap = s,
			     .opt = o,
			     .ideal = ideal,
			     .placer = { .geo = &s->geo },
			     .sweep = order == SWEEP_FIRST };
	int rc = -1;
	if (plan_new(&p.plan, err) || state_new(s, &p.st, err) ||
	    schedule_init(&p.sched, p.st, p.plan, err) || rounds_find(&p, err) ||
	    improve(&p, order, err) || state_summary(p.st, p.ideal, &p.plan->predicted))
		goto out;
	*out = (struct attempt){ p.plan, goal_of(p.st, o) };
	p.plan = NULL;
	rc = 0;
out:
	rounds_release(&p);
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

/*
 * Nothing is better by much than all whole at about the price of the fragmented blocks; with other
 * goals than that, at any price.
 */
static bool good_enough(const struct plan *p, const struct planner_options *o,
			const struct summary *before)
{
	uint64_t fair = before->frag_blocks + before->frag_blocks / 8;

	return !p->predicted.frag_files && (o->mode != PLAN_FILES || plan_copy_blocks(p) <= fair);
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
	static const enum order order[] = { SWEEP_FIRST, CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST };
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
