/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What order.c and order_goal.c share: the stream of files, and what it is worth. */
#ifndef SCALEDEFRAG_PLAN_ORDER_H
#define SCALEDEFRAG_PLAN_ORDER_H

#include "plan_internal.h"

#define NOWHERE UINT64_MAX

struct item {
	size_t file;
	uint64_t blocks, runs;
	uint64_t first, end; /* its first block; behind its last one */
	uint64_t home, kept; /* where it begins if most of it stays, and how much that is */
	uint64_t at;	     /* where it shall begin, or NOWHERE */
	uint64_t room;	     /* blocks to be left behind it */
	bool roomy;	     /* they are, about */
	bool left;	     /* too long for any place: stays as it is */
};

struct order {
	const struct state *st;
	struct item *item; /* the stream */
	size_t n, n_front;
	uint64_t good; /* blocks */
	double share;  /* of the room wanted that there is */
	struct rangeset *usable;
	struct ranges given; /* scratch */
	struct runs runs;
};

/* order_goal.c */

/* Blocks of a good neighbourhood. */
uint64_t order_good(const struct state *st, const struct planner_options *opt);
/* The share of the room wanted behind files that grow that so many per cent of the free blocks
 * allow; the room behind one file then. */
double order_room_share(const struct state *st, unsigned percent);
uint64_t order_room(const struct state *st, size_t file, double share);
/* The block below which the front list has to be, and its files that aren't: now, and where they
 * shall be. */
uint64_t order_front_limit(const struct state *st, uint64_t good);
uint64_t order_front_astray(const struct state *st, uint64_t limit);
uint64_t order_front_misses(const struct order *o, uint64_t limit);
/* Is at least a seek saved for each good neighbourhood's worth of blocks moved? */
bool order_pays(const struct order *o);

#endif
