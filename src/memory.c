/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory: what a run needs for what it knows about the volume, compared with --memory before it is
 * asked for. The scan does so for itself (scan_options.memory); here are the plan, which is larger,
 * and the copies, which get what is left.
 *
 * What a planner holds at most is measured (make bench-scale), not computed: bytes for each record
 * that it may move. A run refuses rather than going on with too little: nothing was written yet.
 * Without --memory there is no bound but for the buffers.
 */
#include "engine_run.h"
#include "scaledefrag/scan.h"

#define MIB (1ull << 20)

static const uint64_t plan_bytes[] = {
	[PLAN_FILES] = 150, /* for each record of a file that has several */
	[PLAN_FREE] = 180,  /* in the other modes, for each record and each free run */
	[PLAN_SHRINK] = 180,
	[PLAN_LAYOUT] = 270,
};

uint64_t run_commit_memory(const struct run *run)
{
	return run->memory / 4 < COMMIT_MEMORY_MAX ? run->memory / 4 : COMMIT_MEMORY_MAX;
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

int run_check_plan_memory(struct run *run, enum plan_mode mode, struct error *err)
{
	uint64_t need;

	run->known = scan_memory(run->s) + ENGINE_MEMORY_PROGRAM;
	if (!run->o->memory)
		return 0;
	need = run->known + records(run, mode) * plan_bytes[mode];
	return need <= run->memory ? 0 : too_little(run, need, "planning", err);
}

int run_share_memory(struct run *run, uint64_t *copies, struct error *err)
{
	const struct plan *p = run->p;
	uint64_t known = run->known + p->cap_move * sizeof(*p->move) +
			 p->cap_file * sizeof(*p->file) + p->cap_node * sizeof(*p->node) +
			 p->cap_batch * sizeof(*p->batch);
	unsigned threads = move_threads(run->o->threads, run->o->queue_depth,
					volume_place(run->v)->rotational);
	uint64_t least = move_memory_floor(threads, run->block_size);
	uint64_t commit = run_commit_memory(run);

	*copies = run->memory - commit;
	if (!run->o->memory)
		return 0;
	if (known + commit + least > run->memory)
		return too_little(run, (known + least) / 3 * 4, "the plan and its copies", err);
	*copies -= known;
	return 0;
}
