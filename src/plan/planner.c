/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * planner: which file next.
 *
 * Several orders of the policies are tried on simulated states, and the plan that leaves the fewest
 * runs more than needed wins, then the one that writes least:
 *  - files that fit somewhere as a whole (rounds.c), window by window, then making room (pack.c),
 *    then files in fewer parts;
 *  - the same, those with most runs first;
 *  - making room first; files in fewer parts first;
 *  - with a budget: what gains most for each block copied (budget.c).
 * In the modes that gather free space, making room with the gathered space in view comes before
 * all. Each goes on until nothing improves any more. Making room counts only if it lowers the
 * excess of runs; else it is taken back as a whole.
 */
#include "rounds.h"
#include <stdlib.h>

/* Runs of files above which orders are tried one by one. */
#define MANY 4000000u

/* ---- a plan ---- */

/* In which order the policies are tried. */
enum order { SWEEP_FIRST, CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST, BUDGET_FIRST };

static int improve(struct planner *p, enum order order, struct error *err)
{
	bool rounds, room, nearer;
	if (order == BUDGET_FIRST && budget_spend(p, err))
		return -1;
	/* What gets another place for its neighbours' sake needn't be moved before that. */
	if (p->opt->mode == PLAN_LAYOUT ? room_near_goal(p, &nearer, err)
					: room_gather(p, &nearer, err))
		return -1;
	if ((order == ROOM_FIRST && room_make(p, &room, err)) ||
	    (order == PARTS_FIRST && rounds_run(p, ROUND_ALL, &rounds, err)))
		return -1;
	do {
		nearer = false;
		if (schedule_stopped(&p->sched, err))
			return -1;
		if (rounds_run(p, ROUND_WHOLE, &rounds, err) || room_make(p, &room, err))
			return -1;
		if (!room && evict_make_room(p, &room, err))
			return -1;
		if (!room && rounds_run(p, ROUND_ALL, &rounds, err))
			return -1;
		if (!room && !rounds &&
		    (room_gather(p, &nearer, err) || (!nearer && room_near_goal(p, &nearer, err))))
			return -1;
		if (!room && !rounds && !nearer && p->opt->mode == PLAN_LAYOUT &&
		    trees_settle(p, &nearer, err))
			return -1;
	} while (room || rounds || nearer);
	return 0;
}

struct attempt {
	struct plan *plan;
	uint64_t goal;
};

static int start(struct planner *p, struct error *err)
{
	if (schedule_init(&p->sched, p->st, p->plan, err))
		return -1;
	p->sched.opt = p->opt;
	p->sched.beside = p->opt->mode == PLAN_LAYOUT;
	p->placer.align = order_align(p->st, p->opt);
	return rounds_find(p, err);
}

static int make(const struct snapshot *s, const struct planner_options *o, struct ideal *ideal,
		enum order order, struct attempt *out, struct error *err)
{
	struct planner p = { .snap = s,
			     .opt = o,
			     .ideal = ideal,
			     .placer = { .geo = &s->geo },
			     .sweep = order == SWEEP_FIRST || order == BUDGET_FIRST };
	int rc = -1;
	if (plan_new(&p.plan, err) || state_new(s, &p.st, err) || start(&p, err) ||
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

static const enum order orders[] = { SWEEP_FIRST, CHEAP_FIRST, ROOM_FIRST, PARTS_FIRST };

#define ORDERS ((int)(sizeof(orders) / sizeof(*orders)))

/* Need more orders be tried, from the i-th on? */
static bool go_on(const struct attempt *best, int i, const struct planner_options *o,
		  const struct summary *before)
{
	return !i || !(good_enough(best->plan, o, before) ||
		       (orders[i] == PARTS_FIRST && !excess_after(best->plan)));
}

/*
 * None depends on another. Several at a time, if that doesn't take too much memory; those that
 * would not have been tried one by one don't count.
 */
static int try_orders(const struct snapshot *s, const struct planner_options *o,
		      struct ideal *ideal, const struct summary *before, struct attempt *best,
		      struct error *err)
{
	struct attempt a[ORDERS] = { 0 };
	struct error why[ORDERS] = { ERROR_INIT, ERROR_INIT, ERROR_INIT, ERROR_INIT };
	int threads = before->runs > MANY ? 1 : (int)planner_threads(o), rc[ORDERS] = { 0 },
	    all = 0;
	for (int done = 0, next; done < ORDERS && !all && go_on(best, done, o, before);
	     done = next) {
		next = done ? done + threads : 1;
		next = next < ORDERS ? next : ORDERS;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
		for (int i = done; i < next; i++)
			rc[i] = make(s, o, ideal, orders[i], &a[i], &why[i]);
		for (int i = done; i < next; i++) {
			if (all || !go_on(best, i, o, before)) {
				plan_free(a[i].plan);
			} else if (rc[i]) {
				*err = why[i];
				all = -1;
			} else {
				keep_better(best, &a[i]);
			}
		}
	}
	return all;
}

static int try_all(const struct snapshot *s, const struct planner_options *o, struct ideal *ideal,
		   struct attempt *best, struct error *err)
{
	struct summary before;
	struct state st = { .snap = s, .free = s->free };
	int rc = -1;
	st.map = calloc(s->n_file + 1, sizeof(struct filemap *));
	if (!st.map)
		return error_nomem(err, "planning");
	if (!state_summary(&st, ideal, &before))
		rc = try_orders(s, o, ideal, &before, best, err);
	free(st.map);
	return rc;
}

/* If all of it is more than the budget: is a plan better that begins with what gains most? */
static int try_budget(const struct snapshot *s, const struct planner_options *o,
		      struct ideal *ideal, struct attempt *best, struct error *err)
{
	uint64_t excess, with, budget = o->budget_blocks;
	struct attempt a;
	if (!budget || plan_copy_blocks(best->plan) <= budget)
		return 0;
	if (budget_excess(best->plan, s, ideal, budget, &excess, err) ||
	    make(s, o, ideal, BUDGET_FIRST, &a, err))
		return -1;
	if (budget_excess(a.plan, s, ideal, budget, &with, err)) {
		plan_free(a.plan);
		return -1;
	}
	if (with < excess) {
		plan_free(best->plan);
		*best = a;
	} else {
		plan_free(a.plan);
	}
	return 0;
}

int planner_make(const struct snapshot *s, const struct planner_options *o, struct plan **out,
		 struct error *err)
{
	struct attempt best = { 0 };
	struct ideal *ideal = NULL;
	int rc = -1;
	if (s->n_file >= UINT32_MAX)
		return error_set(err, ERROR_OPERATION, "plan: too many files");
	if (ideal_new(s, &ideal, err) || try_all(s, o, ideal, &best, err) ||
	    try_budget(s, o, ideal, &best, err))
		goto out;
	*out = best.plan;
	best.plan = NULL;
	rc = 0;
out:
	ideal_free(ideal);
	plan_free(best.plan);
	return rc;
}
