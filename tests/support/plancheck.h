/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plancheck: what has to hold of every plan, for CMocka tests of random volumes: verify proves it,
 * its result is the prediction, no file has more runs than before, and a second plan of the result
 * is empty. Fails the test with the seed's number.
 */
#ifndef SCALEDEFRAG_TESTS_PLANCHECK_H
#define SCALEDEFRAG_TESTS_PLANCHECK_H

#include "scaledefrag/planner.h"

/* Looks on; each may be NULL. */
struct plancheck {
	void (*start)(void *ctx, const struct state *st); /* nothing is moved yet */
	void (*batch)(void *ctx, const struct plan *p, size_t batch, const struct state *before);
	/* All is moved; `after`: the result as a scan would find it. */
	void (*end)(void *ctx, const struct state *st, const struct snapshot *after);
	void *ctx;
};

/* Frees s. `look` may be NULL. */
void plancheck_run(struct snapshot *s, const struct planner_options *o, uint64_t seed,
		   const struct plancheck *look);

#endif
