/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * budget: what a limited number of blocks is spent on.
 *
 * Files in the order of runs gained for each block copied, by the places that they would get as
 * things are; then files in fewer parts, in the same way; then room is made for the best of what is
 * left. Only what fits as a whole is done, so a run may stop when the budget is spent.
 */
#include "rounds.h"
#include <stdlib.h>

/* Attempts to make room, each for half as many blocks as the one before. */
#define ATTEMPTS 7

static int price_of_file(struct planner *p, const struct candidate *c, enum round kind,
			 uint64_t *price, struct error *err)
{
	const struct filemap *map = state_map(p->st, c->file);
	uint64_t ideal = ideal_runs(p->ideal, filemap_blocks(map->ext, map->n_ext));
	struct targets *t;

	*price = UINT64_MAX;
	if (placement_files(&p->placer, map, p->snap->file[c->file].ino, ideal, kind != ROUND_WHOLE,
			    p->st->free, &t, err))
		return -1;
	if (!t)
		return 0;
	*price = rounds_price(t->blocks, p->placer.runs.n - t->runs);
	return targets_give_back(t, p->st->free, err);
}

int budget_sort(struct planner *p, enum round kind, struct error *err)
{
	for (size_t i = 0; i < p->n_round; i++) {
		struct weighted *w = &p->round[i];

		if (price_of_file(p, &p->cand[w->index], kind, &w->weight, err))
			return -1;
	}
	weighted_sort(p->round, p->n_round);
	return 0;
}

static int make_room(struct planner *p, bool *better, struct error *err)
{
	size_t n = rounds_by_price(p);
	uint64_t most = p->left;

	*better = false;
	for (int i = 0; i < ATTEMPTS && !*better; i++, most /= 2) {
		uint64_t blocks = 0;
		size_t k = 0;

		while (k < n && p->cand[p->round[k].index].blocks <= most - blocks) {
			blocks += p->cand[p->round[k].index].blocks;
			p->file[k] = p->cand[p->round[k].index].file;
			k++;
		}
		if (!k)
			return 0;
		if (room_make_for(p, k, better, err))
			return -1;
		if (!*better)
			n = rounds_by_price(p); /* the candidates were listed anew */
	}
	return 0;
}

int budget_spend(struct planner *p, struct error *err)
{
	bool any, room;

	p->limited = true;
	p->left = p->opt->budget_blocks;
	do {
		if (rounds_run(p, ROUND_PARTS, &any, err) || make_room(p, &room, err) ||
		    (!room && evict_make_room(p, &room, err)))
			return -1;
	} while (room);
	p->limited = false;
	return rounds_find(p, err);
}

int budget_excess(const struct plan *plan, const struct snapshot *s, const struct ideal *ideal,
		  uint64_t blocks, uint64_t *excess, struct error *err)
{
	struct state *st = NULL;
	struct summary sum;
	size_t end = 0;
	int rc = -1;

	for (size_t b = 0; b < plan->n_batch && plan->batch[b].copy_blocks <= blocks; b++) {
		blocks -= plan->batch[b].copy_blocks;
		if (plan->batch[b].rest)
			end = b + 1;
	}
	if (state_new(s, &st, err))
		return -1;
	for (size_t b = 0; b < end; b++) {
		if (plan_apply(plan, b, NULL, st, err))
			goto out;
	}
	if (state_summary(st, ideal, &sum))
		goto out;
	*excess = sum.runs - sum.ideal_runs;
	rc = 0;
out:
	state_free(st);
	return rc;
}
