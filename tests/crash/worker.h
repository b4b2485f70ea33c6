/* SPDX-License-Identifier: GPL-2.0-or-later */
/* worker: walks the states of one trace in several processes and judges each distinct one. */
#ifndef TESTS_WORKER_H
#define TESTS_WORKER_H

#include "crash/trace.h"
#include "support/judge.h"

struct totals {
	atomic_size_t states, bad, skipped; /* distinct states judged; mounts not allowed */
	atomic_size_t judged[JUDGE_HOWS];
};

struct job {
	const char *scenario, *dir, *base, *program; /* base: the image before the run */
	const struct trace *trace;
	uint64_t seed;
	size_t want; /* distinct states */
	unsigned processes;
	bool all_judges;       /* else: samples */
	bool first_bad;	       /* stop at the first bad state, print nothing */
	char caught[160];      /* with first_bad: which state, and why */
	struct totals *totals; /* shared memory, added to */
};

/* Returns the number of bad states. */
size_t job_run(struct job *job);
/* One state by its name, all judges, with words. True: good. */
bool job_repro(const struct job *job, size_t cut, unsigned variant);
void *shared_memory(size_t len);

#endif
