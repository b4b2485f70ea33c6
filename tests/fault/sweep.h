/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sweep: the first, second, third ... operation of a kind fails, until a run passes unharmed. */
#ifndef TESTS_SWEEP_H
#define TESTS_SWEEP_H

#include "fault/bench.h"

struct sweep {
	const char *name;
	struct fault_plan plan;
	bool allocations; /* these fail, and no operation of the device */
	bool look;	  /* -c, with advice */
	unsigned step;	  /* only every step-th one, unless --all is given */
};

/* All of them, on the bench's image; prints a line for each, named RECIPE/SWEEP. */
void sweeps_run(struct bench *b, const char *recipe, const struct sweep *sweeps, size_t n);

#endif
