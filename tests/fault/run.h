/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run: one engine run on a judge's image, in a child, with something made to fail. */
#ifndef TESTS_RUN_H
#define TESTS_RUN_H

#include "support/faultdev.h"
#include "support/judge.h"

struct outcome { /* in shared memory */
	int exit_code;
	char error[800];
	bool fired;
	uint64_t ops[FAULT_OPS]; /* of the run, per kind */
	uint64_t allocations;
	size_t events, flushes; /* that reached the device */
	uint32_t dropped[8];	/* inodes */
	size_t n_dropped;
	uint64_t frag_after;
	uint64_t transactions;
	bool discard_failed;
	uint64_t bytes_discarded;
	/* after two equal runs in one process: what the second one left behind */
	int leaked_fds;
	int64_t leaked_allocations;
	int status; /* of the child, as wait gives it */
};

struct fault {
	struct fault_plan device;
	uint64_t malloc_nth;
	bool look;    /* -c, with advice */
	bool discard; /* all free space */
};

/* Runs the engine on the judge's image twice, each time from `base`; the image of the second run
 * stays, to be judged. */
void run_with(struct judge *j, const void *base, const struct fault *f, struct outcome *out);

#endif
