/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bench: an image, runs on it with something made to fail, and what none of them may do. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "fault/run.h"

#define MAX_RUNS 20000 /* of one sweep */

struct bench {
	char dir[64], image[96];
	const char *program, *only;
	unsigned kills, jobs;
	struct outcome *out; /* of the last run */
	/* the image at hand */
	struct judge *judge;
	struct hashset *good;
	uint8_t *base;
	uint64_t size;
	uint64_t clean_frag; /* fragmented files after a run without faults */
	size_t failed;
	bool all; /* every allocation in all sweeps of them */
};

/* Makes the image, and runs on it without faults. */
void bench_take(struct bench *b, const char *recipe);
void bench_drop(struct bench *b);
/* Runs job(bench, 0 to n - 1, ctx) in so many processes, each with a judge and an outcome of its
 * own; what they hand back lies in shared memory. False: one of them didn't end well. */
bool bench_workers(struct bench *b, unsigned n, void (*job)(struct bench *, unsigned, void *),
		   void *ctx);
bool bench_wanted(const struct bench *b, const char *name);
/* Runs with this fault; what is wrong with the run, or NULL. */
const char *bench_run(struct bench *b, const struct fault *f);
/* Prints "ok NAME: ..." or "not ok NAME: ...". */
void bench_result(struct bench *b, bool good, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
