/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rounds: one attempt at a plan, file after file.
 *
 * Rounds over the files that have more runs than they need. A file that can't be improved is set
 * aside until there is a reason to look again: a free run long enough for two of its runs, or
 * blocks freed right beside one of them. When no such file is left, a full round looks at all of
 * them once more; it ends the attempt if it changes nothing. Each change lowers the number of runs
 * of one file and raises none, so there is an end, and a plan made from the result is empty: it
 * begins with the round that this one ended with.
 */
#ifndef SCALEDEFRAG_PLAN_ROUNDS_H
#define SCALEDEFRAG_PLAN_ROUNDS_H

#include "plan_internal.h"

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
	bool limited; /* by gain for each block copied, as long as so many are left: */
	uint64_t left;
	bool sweep;   /* whole files go window by window; else those with most runs first */
	size_t *file; /* scratch of a sweep, as the next; files that room is made for */
	size_t *order;
	struct map64 edge; /* block at the end or start of a run -> candidate that owns the run */
};

/* Lists the files that have more runs than they need, as the state is now. */
int rounds_find(struct planner *p, struct error *err);
/* Rounds up to this kind, until they change nothing more. *any: something was changed. */
int rounds_run(struct planner *p, enum round most, bool *any, struct error *err);
/* Runs that the listed files have more than they need. */
uint64_t rounds_excess(const struct planner *p);
/* Takes so many blocks out of what may be spent; false: there aren't as many. */
bool rounds_spend(struct planner *p, uint64_t blocks);
/* Puts the file where it shall be, if that is within the budget; else gives the targets back. */
int rounds_carry_out(struct planner *p, size_t file, const struct targets *t, bool *done,
		     struct error *err);
/* What a run gained costs, scaled. */
uint64_t rounds_price(uint64_t blocks, uint64_t gain);
/* Lists the fragmented files in `round`, by that; gives how many they are. */
size_t rounds_by_price(struct planner *p);
void rounds_release(struct planner *p);

/* ---- room.c: *better = false: nothing is changed ---- */

/* Between batches, where no file is worse: what to go back to. */
struct room_mark {
	struct state *state;
	struct plan plan; /* its lengths */
	uint64_t left;
};

int room_set_mark(struct planner *p, struct room_mark *m, struct error *err);
int room_take_back(struct planner *p, struct room_mark *m, struct error *err);
void room_forget(struct room_mark *m);

/* Makes room for all fragmented files; for the first n of `file`. */
int room_make(struct planner *p, bool *better, struct error *err);
int room_make_for(struct planner *p, size_t n, bool *better, struct error *err);
/* The same with free space gathered at once, in the modes that do so. */
int room_gather(struct planner *p, bool *better, struct error *err);
/* Goes nearer to the mode's goal. */
int room_near_goal(struct planner *p, bool *better, struct error *err);

/* ---- evict.c: the same for a few files at a time ---- */

int evict_make_room(struct planner *p, bool *better, struct error *err);

/* ---- trees.c ---- */

/* LAYOUT: tree blocks to their data, or nearer to it. */
int trees_settle(struct planner *p, bool *any, struct error *err);

/* ---- budget.c ---- */

/* Weighs the files of the round by what a run gained costs, and sorts them. */
int budget_sort(struct planner *p, enum round kind, struct error *err);
/* Improves files by no more than the budget. */
int budget_spend(struct planner *p, struct error *err);
/* Runs more than needed where a run of this plan has to stop that may copy so many blocks. */
int budget_excess(const struct plan *plan, const struct snapshot *s, const struct ideal *ideal,
		  uint64_t blocks, uint64_t *excess, struct error *err);

#endif
