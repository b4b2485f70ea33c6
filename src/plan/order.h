/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What order.c and order_goal.c share: the stream of files, and what it is worth. */
#ifndef SCALEDEFRAG_PLAN_ORDER_H
#define SCALEDEFRAG_PLAN_ORDER_H

#include "plan_internal.h"

#define NOWHERE UINT64_MAX

struct item {
	size_t file;
	uint64_t blocks, runs;
	uint64_t first, end;  /* its first block; behind its last one */
	uint64_t home, kept;  /* where it begins if most of it stays, and how much that is */
	uint64_t at;	      /* where it shall begin, or NOWHERE */
	uint64_t begin, hops; /* where a reader begins; seeks from there on to its data */
	uint64_t lead;	      /* blocks of its tree, which belong right before its data */
	bool led;	      /* there is room for them */
	uint64_t room;	      /* blocks to be left behind it */
	bool roomy;	      /* they are, about */
	bool left;	      /* too long for any place: stays as it is */
};

struct order {
	const struct state *st;
	struct align align;
	bool dense;	   /* no room for trees, and nothing is aligned */
	struct item *item; /* the stream */
	size_t n, n_front;
	uint64_t good;	/* blocks */
	uint64_t limit; /* the most room for a file */
	uint64_t looks; /* items that leave_too_long() looked at, for tests */
	struct rangeset *usable;
	struct ranges given; /* scratch */
	struct runs runs;
};

/* order.c: the stream as it is now, with the files that are too long left as they are. To be
 * released on failure, too. */
int order_load(struct order *o, const struct state *st, const struct planner_options *opt,
	       struct error *err);
void order_release(struct order *o); /* zeroed is fine */

/* order_goal.c */

/* Blocks of a good neighbourhood. */
uint64_t order_good(const struct state *st, const struct planner_options *opt);
/* Room behind files that grow is for those that want least, as many as so many per cent of the free
 * blocks allow: the most that one gets; what a file gets then. */
uint64_t order_room_limit(const struct state *st, unsigned percent);
uint64_t order_room(const struct state *st, size_t file, uint64_t limit);
/* Are the blocks from `end` to `begin` what alignment leaves before this data? */
bool order_is_hole(const struct align *a, const struct rangeset *avail, uint64_t end,
		   uint64_t begin, uint64_t data, uint64_t blocks);
/* The block below which the front list has to be, and its files that aren't: now, and where they
 * shall be. */
uint64_t order_front_limit(const struct state *st, uint64_t good);
uint64_t order_front_astray(const struct state *st, uint64_t limit);
uint64_t order_front_misses(const struct order *o, uint64_t limit);
/* Is at least a seek saved for each good neighbourhood's worth of blocks moved? */
bool order_pays(const struct order *o);

#endif
