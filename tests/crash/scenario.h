/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scenario: one kind of image and of run, and the recording of that run. */
#ifndef TESTS_SCENARIO_H
#define TESTS_SCENARIO_H

#include "crash/trace.h"
#include "scaledefrag/engine.h"

enum given_plan { PLAN_OWN, PLAN_GROW, PLAN_WRONG };

struct scenario {
	const char *name, *recipe;
	uint64_t batch_bytes; /* 0: the default */
	enum given_plan plan;
	int min_batches; /* the scenario is pointless with fewer */
	int stop;	 /* 1, 2: asked to stop so often ... */
	int stop_at;	 /* ... while this batch (from 1) is committed */
	bool copying;	 /* ... or while the one after it is copied */
	enum plan_mode mode;
	const char *front; /* engine_options.front */
	uint64_t slab;	   /* bytes */
	enum engine_discard discard;
	bool early;	       /* the scenario is pointless without early copies */
	uint64_t pass_records; /* engine_options.pass_records */
	unsigned min_passes;   /* of the first round */
	bool late;	       /* much like another one: only with --all, or by name */
};

extern const struct scenario scenarios[]; /* ends with name NULL */
const struct scenario *scenario_find(const char *name);

/*
 * Runs the engine on the image at `path`, in a child, and records what it writes: the same trace
 * each time. `before`: a copy of the image as it was. The run must end with exit code 0 (32 if it
 * is stopped), an image that e2fsck has nothing to do on, and nothing unflushed, unless `plan` is
 * PLAN_WRONG.
 */
void scenario_record(const struct scenario *s, enum given_plan plan, const char *before,
		     const char *path, struct trace *t);

#endif
