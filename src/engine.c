/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * engine: the pipeline. See engine.h; the order of things is in engine_run(), and for the batches
 * in run_batches() (batches.c).
 */
#include "scaledefrag/engine.h"
#include "engine_run.h"
#include "scaledefrag/scan.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void run_phase(struct run *run, enum report_phase phase)
{
	double t = now();

	run->r->seconds[run->phase] += t - run->phase_start;
	run->phase = phase;
	run->phase_start = t;
}

/* With `telling` held. */
static void poll_cancel(struct run *run)
{
	int asked = run->o->cancel ? run->o->cancel(run->o->observer_ctx) : 0;

	if (asked > run->stop)
		run->stop = asked;
	run->stop_now = run->stop > 1;
}

static void tell(struct run *run, enum report_phase phase, uint64_t done, uint64_t total)
{
	if (run->o->progress)
		run->o->progress(run->o->observer_ctx, phase, done, total, run->bytes_so_far);
	poll_cancel(run);
}

void run_poll(struct run *run)
{
	pthread_mutex_lock(&run->telling);
	poll_cancel(run);
	pthread_mutex_unlock(&run->telling);
}

void run_log(struct run *run, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!run->o->log)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&run->telling);
	run->o->log(run->o->observer_ctx, line);
	pthread_mutex_unlock(&run->telling);
}

void run_tell(struct run *run, uint64_t done, uint64_t total)
{
	pthread_mutex_lock(&run->telling);
	tell(run, run->phase, done, total);
	pthread_mutex_unlock(&run->telling);
}

void run_tell_bytes(struct run *run, enum report_phase phase, uint64_t copied)
{
	pthread_mutex_lock(&run->telling);
	run->bytes_so_far += copied;
	tell(run, phase, run->bytes_so_far, run->bytes_to_move);
	pthread_mutex_unlock(&run->telling);
}

static void scan_progress(void *ctx, uint64_t done, uint64_t total)
{
	run_tell(ctx, done, total);
}

static int is_stopped(void *ctx)
{
	struct run *run = ctx;

	run_poll(run);
	return run->stop;
}

static int open_all(struct run *run, struct error *err)
{
	struct volume_options volume = run->o->volume;
	const struct commit_options co = {
		.queue_depth = run->o->queue_depth,
		.memory = run_commit_memory(run),
		.clock = run->o->clock,
		.clock_ctx = run->o->clock_ctx,
	};

	volume.cancel = is_stopped;
	volume.cancel_ctx = run;
	if (volume_open(&volume, &run->v, err))
		return -1;
	run->block_size = geometry_cluster_size(volume_geometry(run->v));
	figures_volume(run);
	run_log(run, "opened: %s, %s", volume_what(run->v),
		run->r->direct ? "direct I/O" : "buffered I/O");
	return commit_open(run->v, &co, &run->c, err);
}

/* Each thread holds a plan of its own, so what is to keep to --memory has one. */
static unsigned plan_threads(const struct run *run)
{
	return run->o->memory ? 1 : run->o->threads;
}

int run_make_plan(struct run *run, enum plan_mode mode, struct plan **out, struct error *err)
{
	struct planner_options po = run->o->plan;

	po.mode = mode;
	if (mode == PLAN_FREE && slab_choose(run->o->slab, volume_place(run->v),
					     volume_geometry(run->v), volume_arg(run->v), &po, err))
		return -1;
	if (mode == PLAN_LAYOUT)
		slab_align(volume_place(run->v), volume_geometry(run->v), &po);
	if (mode == run->o->plan.mode)
		run->r->slab = po.slab_blocks * run->block_size;
	po.min_runs = run->o->min_runs;
	po.threads = plan_threads(run);
	po.cancel = is_stopped;
	po.cancel_ctx = run;
	if (run->o->budget) {
		if (run->o->budget > run->spent)
			po.budget_blocks = (run->o->budget - run->spent) / run->block_size;
		if (!po.budget_blocks)
			po.budget_blocks = 1; /* 0 would mean any number */
	}
	po.min_extent_blocks =
		run->o->min_extent / run->block_size + (run->o->min_extent % run->block_size != 0);
	if (!planner_make(run->s, &po, out, err))
		return 0;
	return err->kind != ERROR_STOPPED
		       ? -1
		       : error_set(err, ERROR_STOPPED, "%s: stopped while planning",
				   volume_arg(run->v));
}

/* Bytes of a batch. A budget is kept batch by batch, so it has to be many of them. */
static uint64_t batch_bytes(const struct engine_options *o)
{
	uint64_t batch = o->batch_bytes ? o->batch_bytes : ENGINE_BATCH_DEFAULT;
	uint64_t part = o->budget / 16;

	if (part < ENGINE_BATCH_MIN)
		part = ENGINE_BATCH_MIN;
	return o->budget && part < batch ? part : batch;
}

void run_scan_options(struct run *run, struct scan_options *so)
{
	*so = (struct scan_options){
		.threads = run->o->threads,
		.queue_depth = run->o->queue_depth,
		.limits = { .journal_blocks = commit_capacity(run->c),
			    .copy_blocks = batch_bytes(run->o) / run->block_size },
		.exclude = run->bad_ino,
		.n_exclude = run->n_bad_ino,
		.avoid = run->bad_block,
		.n_avoid = run->n_bad_block,
		.scope = run->o->scope,
		.n_scope = run->o->n_scope,
		.order = run->o->plan.mode == PLAN_LAYOUT || run->o->measure,
		.front = run->o->front,
		.growth = run->o->plan.reserve > 0,
		.memory = run->o->memory,
		.taken = ENGINE_MEMORY_PROGRAM,
		.progress = scan_progress,
		.ctx = run,
		.stop = &run->stop,
	};
	if (so->limits.copy_blocks == 0)
		so->limits.copy_blocks = 1;
}

/* scan: the first part of a round. */
static int look(struct run *run, struct error *err)
{
	struct scan_options so;

	run->rounds++;
	run_scan_options(run, &so);
	run_drop_plan(run);
	run_phase(run, PHASE_SCAN);
	if (scan_volume(run->v, &so, &run->s, err) || commit_quota(run->c, run->s, err) ||
	    run_choose_passes(run, err) || ideal_new(run->s, &run->ideal, err) ||
	    (run->by_passes ? state_view : state_new)(run->s, &run->st, err))
		return -1;
	if (run->rounds == 1) {
		figures_before(run);
		if (run->o->measure && run_measure(run, &run->r->measured_before, err))
			return -1;
	} else if (run->by_passes) {
		figures_after(run); /* if this round changes nothing more */
	}
	if (run->by_passes && run->o->advise)
		advice_now(run);
	return run->by_passes && figures_stay(run) ? error_nomem(err, "the report") : 0;
}

static int make_plan(struct run *run, struct error *err)
{
	run_phase(run, PHASE_PLAN);
	run_tell(run, run->at_pass, run->n_pass);
	if (run->o->given_plan)
		run->p = run->o->given_plan;
	else if (run_make_plan(run, run->o->plan.mode, &run->made, err))
		return -1;
	else
		run->p = run->made;
	run_trim_memory(run); /* planning took more than the plan */
	return run->by_passes ? state_new(run->s, &run->st, err) : 0;
}

/*
 * The proof of the plan. Our own plan is read ahead meanwhile, unless memory is short: a proof
 * takes some. Nothing is written before it is proven.
 */
static int verify_plan(struct run *run, struct error *err)
{
	bool ours = run->p == run->made && run->p->n_batch;
	bool ahead = !run->o->memory && !run->o->dry_run && !run->o->report_only;

	run_phase(run, PHASE_VERIFY);
	run_tell(run, run->at_pass, run->n_pass);
	if (ours && (ahead ? run_start_mover(run, err) : run_could_move(run, err)))
		return -1;
	if (run->o->skip_verify)
		return 0;
	/* Two threads don't take more memory than one. */
	if (planner_verify(run->s, run->p, run->o->threads, err))
		return -1;
	run_trim_memory(run);
	return 0;
}

/* The plan is known, and nothing of it is written yet. Of passes, those of the first round count.
 */
static int show_plan(struct run *run, struct error *err)
{
	bool shown = run->o->dry_run || run->o->report_only;

	if (run->rounds != run->shown)
		return 0;
	run->r->pass = (unsigned)run->at_pass + 1;
	if (figures_plan(run, err))
		return -1;
	if (run->o->advise && !run->by_passes && advice_modes(run, err))
		return -1;
	if (run->o->ready && (shown || !run->at_pass))
		run->o->ready(run->o->observer_ctx, run->r, run->s, run->p);
	return 0;
}

/* plan -> verify -> batches, of all files or those of a pass. *again: a new round is needed. */
static int run_plan(struct run *run, bool *again, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc;

	if (make_plan(run, err) || verify_plan(run, err))
		return -1;
	run->n_do = run_within_budget(run);
	run->n_done = 0;
	run->cut = run->n_do < run->p->n_batch;
	figures_left_out(run);
	if (show_plan(run, err))
		return -1;
	if (run->o->dry_run || run->o->report_only)
		return 0;
	run->bytes_to_move = run->bytes_so_far + run_batch_bytes(run, 0, run->n_do);
	run_log(run, "plan %u: %zu transactions, %llu bytes to copy", run->rounds, run->n_do,
		(unsigned long long)run_batch_bytes(run, 0, run->n_do));
	rc = run_batches(run, again, err);
	/* Also after a failure: what was moved up to then has its new number. */
	return figures_swap(run, rc ? &ignored : err) || rc || run_note_written(run, err) ? -1 : 0;
}

static int run_round(struct run *run, bool *again, struct error *err)
{
	*again = false;
	if (look(run, err))
		return -1;
	for (size_t i = 0; i < run->n_pass && !*again && !run->stopped && !run->cut; i++) {
		if (run->by_passes && run_enter_pass(run, i, err))
			return -1;
		if (run_plan(run, again, err)) {
			if (!run->plan_too_large)
				return -1;
			*again = true;
			return run_shorten_passes(run, err);
		}
		if (run->by_passes && run_leave_pass(run, err))
			return -1;
	}
	/* What one pass left free may be of use to those before it. A new round begins as another
	 * run would. */
	run->too_large = 0;
	*again |= run->by_passes && run->round_changed && !run->stopped && !run->cut;
	return *again ? volume_refresh(run->v, err) : 0;
}

static int run_rounds(struct run *run, struct error *err)
{
	bool again;

	do {
		if (!run_round(run, &again, err))
			continue;
		if (err->kind != ERROR_STOPPED || !run->n_changed)
			return -1;
		run->stopped = true; /* between two passes no file is worse */
		return 0;
	} while (again);
	return 0;
}

/* "After" figures come from the disk: what was touched is read again and compared with what should
 * be there. */
static int rescan(struct run *run, struct error *err)
{
	run_phase(run, PHASE_RESCAN);
	run_tell(run, 0, 1);
	if (run->by_passes)
		return run_end_passes(run, err);
	run_settle_touched(run);
	if (run->n_touched && (volume_refresh(run->v, err) || run_reread(run, err)))
		return -1;
	run->r->has_after = run->n_touched || run->n_changed;
	return 0;
}

/* The second reading, where something has changed. The work is done: a stop cuts it off, no more.
 */
static int measure_after(struct run *run, struct error *err)
{
	struct error stopped = ERROR_INIT;

	if (!run->o->measure || !run->r->has_after || run->stop ||
	    !run_measure(run, &run->r->measured_after, &stopped) || stopped.kind == ERROR_STOPPED)
		return 0;
	*err = stopped;
	return -1;
}

static enum report_outcome outcome_of(const struct run *run)
{
	if (run->o->report_only)
		return OUTCOME_REPORTED;
	if (run->o->dry_run)
		return OUTCOME_PLANNED;
	if (run->stopped)
		return OUTCOME_STOPPED;
	if (run->r->n_dropped)
		return OUTCOME_DROPPED;
	if (run->cut)
		return OUTCOME_STOPPED;
	return run->n_touched || run->n_changed ? OUTCOME_DONE : OUTCOME_NOTHING;
}

static int exit_code_of(enum report_outcome outcome)
{
	switch (outcome) {
	case OUTCOME_STOPPED:
		return ERROR_STOPPED;
	case OUTCOME_DROPPED:
	case OUTCOME_FAILED:
		return ERROR_OPERATION;
	default:
		return 0;
	}
}

/* What is done in any case; of two failures the first one counts, but for a lost file system. */
static int last_step(struct run *run, int (*step)(struct commit *, struct error *), int rc,
		     struct error *err)
{
	struct error failed = ERROR_INIT;

	if (!run->c || !step(run->c, &failed) || (rc && !commit_lost(run->c)))
		return rc;
	*err = failed;
	return -1;
}

int engine_run(const struct engine_options *o, struct report *r, struct error *err)
{
	struct run run = { .o = o,
			   .r = r,
			   .phase = PHASE_OPEN,
			   .phase_start = now(),
			   .shown = 1,
			   .telling = PTHREAD_MUTEX_INITIALIZER };
	double start = run.phase_start;
	int rc;

	memset(r, 0, sizeof *r);
	run.memory = o->memory ? o->memory : ENGINE_MEMORY_DEFAULT;
	figures_options(&run);
	rc = open_all(&run, err) || run_rounds(&run, err) ? -1 : 0;
	/* The session ends in any case: needs_recovery is cleared unless a write or flush failed
	 * (I12). */
	run_phase(&run, PHASE_COMMIT);
	rc = last_step(&run, commit_end, rc, err);
	if (!rc && !o->report_only && !o->dry_run)
		rc = rescan(&run, err) || (run.st && run_discard(&run, err)) ||
				     measure_after(&run, err)
			     ? -1
			     : 0;
	run_phase(&run, PHASE_OPEN);
	rc = last_step(&run, commit_leave, rc, err);
	r->outcome = rc ? OUTCOME_FAILED : outcome_of(&run);
	if (r->outcome == OUTCOME_STOPPED)
		r->stopped_by = run.stopped ? "a signal" : "the budget";
	if (figures_end(&run) && !rc) {
		rc = error_nomem(err, "the report");
		r->outcome = OUTCOME_FAILED;
	}
	r->exit_code = rc ? (int)err->kind : exit_code_of(r->outcome);
	if (rc && err->kind == ERROR_STOPPED)
		r->outcome = OUTCOME_STOPPED;
	run_release(&run);
	pthread_mutex_destroy(&run.telling);
	r->seconds_total = now() - start;
	return rc;
}
