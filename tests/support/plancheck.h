/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plancheck: what has to hold of every plan, for CMocka tests of random volumes: verify proves it,
 * its result is the prediction, no file has more runs than before, and a second plan of the result
 * is empty. Fails the test with the seed's number. And plans of single volumes as text.
 */
#ifndef SCALEDEFRAG_TESTS_PLANCHECK_H
#define SCALEDEFRAG_TESTS_PLANCHECK_H

#include "scaledefrag/planner.h"

/* The plan of a snapshot given as text (*s: parsed), proven; fails the test where there is none. */
struct plan *plancheck_plan(const char *text, const struct planner_options *o, struct snapshot **s);
/* Appends "LEN@FROM>TO " to the n characters of text[size]; returns how many they are then. */
size_t plancheck_move(char *text, size_t size, size_t n, const struct move *m);

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
