/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory: what a run needs for what it knows about the volume, compared with --memory before it is
 * asked for. The scan does so for itself (scan_options.memory); here are the plan, which is larger,
 * and the copies, which get what is left.
 *
 * What a planner holds at most is measured (make bench-scale), not computed: bytes for each record
 * that it may move. Where that is too much for all files at once, those of mode `files` go by
 * passes (passes.c), of as many files each as there is memory for; else the run is refused rather
 * than going on with too little: nothing was written yet. Without --memory there is no bound but
 * for the buffers.
 */
#include "engine_run.h"
#include "scaledefrag/array.h"
#include "scaledefrag/scan.h"
#include <malloc.h>
#include <stdlib.h>

#define MIB (1ull << 20)

static const uint64_t plan_bytes[] = {
	[PLAN_FILES] = 150, /* for each record of a file that has several */
	[PLAN_FREE] = 180,  /* in the other modes, for each record and each free run */
	[PLAN_SHRINK] = 180,
	[PLAN_LAYOUT] = 270,
};

/* By passes: of each file while it is planned, of one that was moved, of one that is left alone. */
#define PLAN_FILE_BYTES	 64u
#define MOVED_FILE_BYTES 88u
#define LEFT_FILE_BYTES	 13u
/* How often the planner has what is free: it does not shrink with the passes. */
#define FREE_SETS 4u
/* Threads for which that is enough. */
#define COPY_THREADS 16u

uint64_t run_commit_memory(const struct run *run)
{
	return run->memory / 4 < COMMIT_MEMORY_MAX ? run->memory / 4 : COMMIT_MEMORY_MAX;
}

void run_trim_memory(const struct run *run)
{
#ifdef __GLIBC__
	if (run->o->memory)
		malloc_trim(0);
#else
	(void)run;
#endif
}

static int too_little(const struct run *run, uint64_t need, const char *what, struct error *err)
{
	return error_set(err, ERROR_USAGE,
			 "%s: --memory %lluM is too little for %s; give at least --memory %lluM",
			 volume_arg(run->v), (unsigned long long)(run->memory / MIB), what,
			 (unsigned long long)(need / MIB + 1));
}

/* What the planner may move. */
static uint64_t records(const struct run *run, enum plan_mode mode)
{
	uint64_t n = mode == PLAN_FILES ? 0 : rangeset_count(run->s->free);

	for (size_t i = 0; i < run->s->n_file; i++) {
		size_t ext = run->s->file[i].map.n_ext;

		if (mode != PLAN_FILES || ext > 1)
			n += ext;
	}
	return n;
}

/* ---- passes ---- */

static bool may_go_by_passes(const struct run *run)
{
	return run->o->plan.mode == PLAN_FILES && !run->o->given_plan;
}

/* What is kept back for copies: the same for any number of threads, so that passes are. */
static uint64_t keep_for_copies(const struct run *run)
{
	uint64_t least = move_memory_floor(1, run->block_size), part = run->memory / 16;
	uint64_t most = move_memory_floor(COPY_THREADS, run->block_size);

	return part < least ? least : part < most ? part : most;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * What the files of a pass may cost. While they are planned, the planner has what is free several
 * times; while they are moved, a plan takes three quarters of what planning took at most.
 */
static uint64_t room_for_pass(const struct run *run)
{
	const struct snapshot *s = run->s;
	uint64_t set = rangeset_bytes(s->free);
	uint64_t always =
		ENGINE_MEMORY_PROGRAM + rangeset_bytes(s->fixed) + s->n_left * LEFT_FILE_BYTES;
	uint64_t planning = less(run->memory, always + FREE_SETS * set);
	uint64_t moving =
		less(run->memory, always + 2 * set + run_commit_memory(run) + keep_for_copies(run));

	moving += moving / 3;
	return planning < moving ? planning : moving;
}

static uint64_t cost_of(const struct run *run, const struct snapshot_file *f)
{
	size_t ext = f->map.n_ext;

	if (run->o->pass_records)
		return ext;
	return scan_file_memory(f) + PLAN_FILE_BYTES + (ext > 1 ? ext * plan_bytes[PLAN_FILES] : 0);
}

static int add_pass(struct run *run, size_t *cap, uint32_t first, struct error *err)
{
	if (array_reserve(&run->pass, cap, run->n_pass + 1, sizeof(*run->pass), err))
		return -1;
	if (run->n_pass)
		run->pass[run->n_pass - 1].last = first - 1;
	run->pass[run->n_pass++] = (struct pass){ first, UINT32_MAX };
	return 0;
}

/* Stretches of whole groups of inodes, or part of one where a group is too much. */
static int cut_passes(struct run *run, uint64_t room, uint64_t *dearest, struct error *err)
{
	const struct geometry *g = &run->s->geo;
	uint64_t sum = 0, of_group = 0; /* of the pass; of it in the group of the file */
	size_t cap = 0;
	uint32_t group = 0;

	free(run->pass);
	run->pass = NULL;
	run->n_pass = 0;
	*dearest = 0;
	if (add_pass(run, &cap, 1, err))
		return -1;
	for (size_t i = 0; i < run->s->n_file; i++) {
		const struct snapshot_file *f = &run->s->file[i];
		uint64_t cost = cost_of(run, f);
		uint32_t first;

		if (geometry_inode_group(g, f->ino) != group) {
			group = geometry_inode_group(g, f->ino);
			of_group = 0;
		}
		*dearest = cost > *dearest ? cost : *dearest;
		first = group * g->inodes_per_group + 1;
		if (sum && sum + cost > room) {
			bool whole = of_group < sum; /* the pass ends before the group */

			if (add_pass(run, &cap, whole ? first : f->ino, err))
				return -1;
			sum = of_group = whole ? of_group : 0;
			if (sum && sum + cost > room) { /* the group alone is too much */
				if (add_pass(run, &cap, f->ino, err))
					return -1;
				sum = of_group = 0;
			}
		}
		sum += cost;
		of_group += cost;
	}
	return 0;
}

/* Says how much would do for the file that takes most. */
static int refuse_passes(const struct run *run, uint64_t dearest, unsigned halvings,
			 struct error *err)
{
	struct run more = { .s = run->s, .block_size = run->block_size, .memory = run->memory };

	while (room_for_pass(&more) >> halvings < dearest)
		more.memory += MIB;
	return too_little(run, more.memory - 1, "planning, even by passes", err);
}

static int choose_passes(struct run *run, struct error *err)
{
	unsigned halvings = run->too_large ? run->too_large - 1 : 0;
	uint64_t room = room_for_pass(run) >> halvings, dearest;

	if (run->o->pass_records)
		room = run->o->pass_records;
	if (cut_passes(run, room, &dearest, err))
		return -1;
	run->by_passes = true;
	if (run->o->pass_records || dearest <= room)
		return 0;
	return refuse_passes(run, dearest, halvings, err);
}

int run_choose_passes(struct run *run, struct error *err)
{
	enum plan_mode mode = run->o->plan.mode;
	uint64_t need;
	int rc = 0;

	run->known = scan_memory(run->s) + ENGINE_MEMORY_PROGRAM;
	run->n_pass = 1;
	run->at_pass = 0;
	run->by_passes = run->plan_too_large = false;
	need = run->o->memory ? run->known + records(run, mode) * plan_bytes[mode] : 0;
	if (run->o->pass_records ? records(run, mode) > run->o->pass_records
				 : need > run->memory || run->too_large)
		rc = may_go_by_passes(run) ? choose_passes(run, err)
					   : too_little(run, need, "planning", err);
	if (run->rounds == run->shown)
		run->r->passes = (unsigned)run->n_pass;
	return rc;
}

/* ---- copies ---- */

static uint64_t plan_memory(const struct plan *p)
{
	return p->cap_move * sizeof(*p->move) + p->cap_file * sizeof(*p->file) +
	       p->cap_node * sizeof(*p->node) + p->cap_batch * sizeof(*p->batch);
}

int run_share_memory(struct run *run, struct move_options *mo, struct error *err)
{
	uint64_t taken = run->known + plan_memory(run->p) + run_commit_memory(run);
	uint64_t moved = run->p->n_file * MOVED_FILE_BYTES;
	unsigned threads = move_threads(mo->threads, mo->queue_depth, mo->rotational);
	uint64_t least = move_memory_floor(threads, run->block_size);

	mo->memory = run->memory - run_commit_memory(run);
	if (!run->o->memory)
		return 0;
	while (threads > 1 && taken + least > run->memory)
		least = move_memory_floor(--threads, run->block_size);
	if (taken + least > run->memory) {
		run->plan_too_large = may_go_by_passes(run);
		if (run->plan_too_large)
			run->too_large += run->by_passes && !run->too_large ? 2 : 1;
		return too_little(run, (taken - run_commit_memory(run) + least) / 3 * 4,
				  "the plan and its copies", err);
	}
	mo->threads = threads;
	mo->memory = run->memory - taken;
	mo->memory = mo->memory > least + moved ? mo->memory - moved : least;
	return 0;
}

int run_could_move(struct run *run, struct error *err)
{
	bool shown = run->o->dry_run || run->o->report_only;
	struct move_options mo = { .threads = 1, .queue_depth = 1 };
	struct error why = ERROR_INIT;

	if (!run_share_memory(run, &mo, &why) || (shown && !run->plan_too_large))
		return 0;
	*err = why;
	return -1;
}
