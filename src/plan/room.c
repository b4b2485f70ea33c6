/* SPDX-License-Identifier: GPL-2.0-or-later */
/* room: places that others have to make room for, carried out if that is an improvement. */
#include "rounds.h"
#include <stdlib.h>

/* With more runs in excess, to move them all in chains takes too long. */
#define MOST_RUNS 1000000u

int room_set_mark(struct planner *p, struct room_mark *m, struct error *err)
{
	*m = (struct room_mark){ .plan = *p->plan, .left = p->left };
	return state_clone(p->st, &m->state, err);
}

int room_take_back(struct planner *p, struct room_mark *m, struct error *err)
{
	struct plan *plan = p->plan;
	struct state st = *p->st;
	*p->st = *m->state;
	*m->state = st;
	plan->n_batch = m->plan.n_batch;
	plan->n_file = m->plan.n_file;
	plan->n_move = m->plan.n_move;
	plan->n_node = m->plan.n_node;
	p->left = m->left;
	schedule_forget(&p->sched);
	return rounds_find(p, err);
}

void room_forget(struct room_mark *m)
{
	state_free(m->state);
}

/* *better: it is, by runs or at the same number of runs by the goal; else nothing is changed. */
static int carry_out(struct planner *p, const struct packing *pk, bool by_goal, bool *better,
		     struct error *err)
{
	struct room_mark mark;
	uint64_t excess = rounds_excess(p), goal = goal_of(p->st, p->opt);
	uint64_t copied = plan_copy_blocks(p->plan);
	bool done;
	int rc = -1;
	*better = false;
	if (room_set_mark(p, &mark, err))
		return -1;
	if (permute(&p->sched, pk->want, pk->n, &done, err) || rounds_find(p, err))
		goto out;
	*better = !p->sched.n_worse &&
		  (by_goal ? rounds_excess(p) <= excess && goal_of(p->st, p->opt) < goal
			   : rounds_excess(p) < excess) &&
		  rounds_spend(p, plan_copy_blocks(p->plan) - copied);
	rc = *better ? 0 : room_take_back(p, &mark, err);
out:
	room_forget(&mark);
	return rc;
}

/* Runs more than needed of the first n files listed. */
static uint64_t excess_of(const struct planner *p, size_t n)
{
	uint64_t excess = 0;
	for (size_t i = 0; i < n; i++) {
		const struct filemap *m = state_map(p->st, p->file[i]);
		excess += filemap_runs(m->ext, m->n_ext) -
			  ideal_runs(p->ideal, filemap_blocks(m->ext, m->n_ext));
	}
	return excess;
}

int room_make_for(struct planner *p, size_t n, bool *better, struct error *err)
{
	struct packing pk = { 0 };
	int rc = pack_find(p->st, p->ideal, p->file, n, planner_threads(p->opt), &pk, err);
	*better = false;
	if (!rc && pk.excess < excess_of(p, n))
		rc = carry_out(p, &pk, false, better, err);
	free(pk.want);
	return rc;
}

/* Lists the fragmented files; gives how many they are. */
static size_t list_bad(struct planner *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_cand; i++) {
		if (p->cand[i].bad)
			p->file[n++] = p->cand[i].file;
	}
	return n;
}

int room_make(struct planner *p, bool *better, struct error *err)
{
	size_t n = list_bad(p);
	*better = false;
	return n ? room_make_for(p, n, better, err) : 0;
}

int room_gather(struct planner *p, bool *better, struct error *err)
{
	struct packing pk = { 0 };
	size_t n = list_bad(p);
	int rc = 0;
	*better = false;
	if (!n || (p->opt->mode != PLAN_FREE && p->opt->mode != PLAN_SHRINK) ||
	    rounds_excess(p) > MOST_RUNS)
		return 0;
	rc = pack_gather(p->st, p->ideal, p->file, n, p->opt, &pk, err);
	if (!rc && pk.excess < excess_of(p, n))
		rc = carry_out(p, &pk, true, better, err);
	free(pk.want);
	return rc;
}

int room_near_goal(struct planner *p, bool *better, struct error *err)
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
