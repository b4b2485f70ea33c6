/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runs of a sweep are independent of each other, so several processes share them: each takes
 * the next number, until one number is known to be past the end. Most of a run's time is the
 * kernel's, which takes tens of milliseconds to give back a context of asynchronous I/O; so there
 * are more of them than processors.
 */
#include "fault/sweep.h"
#include "support/image.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define EACH_JOB 3 /* processes */

/* One sweep, in shared memory. */
struct board {
	atomic_uint next; /* run, from 0 on */
	atomic_uint end;  /* the first run known to be the last: it passes, or is not right */
	bool wanted;
	uint8_t code[MAX_RUNS]; /* exit codes */
};

/* The first run in which a process saw something wrong. */
struct complaint {
	unsigned run;
	char text[1200];
};

struct work {
	const char *recipe;
	const struct sweep *sweeps;
	size_t n;
	struct board *board;	 /* of each sweep */
	struct complaint *found; /* of each sweep, for each process */
};

static void *shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		image_die("mmap");
	return p;
}

/* A failed discard is a warning, and none at all where the device knows no such thing. */
static const char *discard_complaint(const struct bench *b, const struct fault_plan *plan)
{
	const struct outcome *o = b->out;

	if (o->exit_code)
		return "a failed discard is taken for an error";
	if (o->discard_failed != (o->fired && plan->sys != EOPNOTSUPP))
		return "warned, or not warned, of a failed discard";
	if (!o->fired && o->ops[FAULT_DISCARD] && !o->bytes_discarded)
		return "nothing was discarded";
	return NULL;
}

static const char *run_device(struct bench *b, const struct fault_plan *plan, uint64_t nth)
{
	/* What isn't needed is not done: it would only give more operations to go through. */
	bool discards = plan->op == FAULT_DISCARD || plan->op == FAULT_ANY;
	struct fault f = { .device = *plan, .discard = discards };
	const char *why;

	f.device.nth = nth;
	why = bench_run(b, &f);
	/* nothing is written after a failed flush: of the events before it no more */
	if (!why && b->out->fired && plan->op == FAULT_FLUSH && b->out->flushes >= nth)
		why = "a flush went on after one had failed";
	if (!why && plan->op == FAULT_DISCARD)
		why = discard_complaint(b, plan);
	return why;
}

/* Run number `i`; true where it is the last one. */
static bool run_one(struct bench *b, const struct sweep *s, unsigned i, struct complaint *c)
{
	uint64_t nth = 1 + (uint64_t)i * (b->all || !s->step ? 1 : s->step);
	struct fault f = { .malloc_nth = nth, .look = s->look };
	const char *why = s->allocations ? bench_run(b, &f) : run_device(b, &s->plan, nth);

	if (why && i < c->run) {
		c->run = i;
		snprintf(c->text, sizeof(c->text),
			 "failure %llu: %.200s (status %d, exit code %d, %.800s)",
			 (unsigned long long)nth, why, b->out->status, b->out->exit_code,
			 b->out->error);
	}
	return why || (s->allocations ? b->out->allocations < nth : !b->out->fired);
}

static void end_at(struct board *board, unsigned i)
{
	unsigned end = board->end;

	while (i < end && !atomic_compare_exchange_weak(&board->end, &end, i))
		;
}

static void work(struct bench *b, unsigned worker, void *ctx)
{
	struct work *w = ctx;

	for (size_t s = 0; s < w->n; s++) {
		struct board *board = &w->board[s];
		unsigned i;

		while (board->wanted && (i = board->next++) < board->end) {
			bool last = run_one(b, &w->sweeps[s], i, &w->found[worker * w->n + s]);

			board->code[i] = (uint8_t)b->out->exit_code;
			if (last)
				end_at(board, i);
		}
	}
}

static void name_of(const struct work *w, size_t s, char name[64])
{
	snprintf(name, 64, "%s/%s", w->recipe, w->sweeps[s].name);
}

static void print(struct bench *b, const struct work *w, size_t s, unsigned workers)
{
	const struct board *board = &w->board[s];
	const struct complaint *first = &w->found[s];
	unsigned runs = board->end + 1, codes[256] = { 0 };
	char name[64];

	name_of(w, s, name);
	for (unsigned i = 1; i < workers; i++)
		if (w->found[i * w->n + s].run < first->run)
			first = &w->found[i * w->n + s];
	for (unsigned i = 0; i < runs; i++)
		codes[board->code[i]]++;
	if (first->run != UINT_MAX)
		bench_result(b, false, name, "%s", first->text);
	else if (runs == MAX_RUNS)
		bench_result(b, false, name, "no run passes");
	else
		bench_result(b, true, name, "%u runs (exit code 8: %u, 0: %u)", runs, codes[8],
			     codes[0]);
}

void sweeps_run(struct bench *b, const char *recipe, const struct sweep *sweeps, size_t n)
{
	unsigned workers = EACH_JOB * b->jobs;
	size_t n_found = workers * n;
	struct work w = { .recipe = recipe,
			  .sweeps = sweeps,
			  .n = n,
			  .board = shared(n * sizeof(*w.board)),
			  .found = shared(n_found * sizeof(*w.found)) };
	bool any = false;

	for (size_t i = 0; i < n_found; i++)
		w.found[i].run = UINT_MAX;
	for (size_t s = 0; s < n; s++) {
		char name[64];

		name_of(&w, s, name);
		w.board[s].end = MAX_RUNS - 1;
		w.board[s].wanted = bench_wanted(b, name);
		any |= w.board[s].wanted;
	}
	if (any && !bench_workers(b, workers, work, &w))
		bench_result(b, false, recipe, "a process of the test ended early");
	for (size_t s = 0; s < n; s++)
		if (w.board[s].wanted)
			print(b, &w, s, workers);
	munmap(w.board, n * sizeof(*w.board));
	munmap(w.found, n_found * sizeof(*w.found));
}
