/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * passes: where --memory does not suffice to plan all files at once, they come in passes: those of
 * one stretch of inodes after the other are read again, planned, proven and moved. All others are
 * blocks that are not free meanwhile.
 *
 * A round is a scan of everything (with the check of every claim, I9) and its passes. What is free
 * goes from pass to pass: each ends by reading again what it has changed, and the bitmaps of those
 * groups, which must be as its state has them. A round in which something was moved is followed by
 * another one; mostly so little is fragmented then that all files are planned at once. So the last
 * round moves nothing, and another run, which begins as it did, moves nothing either (I11).
 *
 * Where the passes end is a matter of --memory and of what the scan found, not of threads (I10).
 * When nothing is to be written, a pass begins with the free space as the plan before leaves it, so
 * -n shows the plans of the first round, exactly.
 */
#include "engine_run.h"
#include "scaledefrag/scan.h"

/* What is free now is what the next pass begins with. */
static void hand_on_free(struct run *run)
{
	struct state *st = run->st;

	if (st && st->map) {
		rangeset_free(run->s->free);
		run->s->free = st->free;
		st->free = NULL;
	}
	state_free(st);
	run->st = NULL;
}

static void drop_pass(struct run *run)
{
	run_stop_mover(run);
	plan_free(run->made);
	run->made = NULL;
	run->p = NULL;
	run->n_do = run->n_done = run->n_noted = 0;
	hand_on_free(run);
}

int run_enter_pass(struct run *run, size_t i, struct error *err)
{
	const struct pass *p = &run->pass[i];
	struct scan_options so;

	run_phase(run, PHASE_SCAN);
	if (!i)
		run->round_changed = false;
	drop_pass(run);
	snapshot_drop_files(run->s);
	run_trim_memory(run);
	run->partial = true;
	run->at_pass = i;
	run_log(run, "pass %zu of %zu: inodes from %u on", i + 1, run->n_pass, p->first);
	run_scan_options(run, &so);
	if (scan_part(run->v, &so, p->first, p->last, run->s, err))
		return -1;
	run->known = scan_memory(run->s) + ENGINE_MEMORY_PROGRAM;
	return 0;
}

int run_shorten_passes(struct run *run, struct error *err)
{
	struct report *r = run->r;

	run_log(run, "the plan takes more than is left for copies: %s",
		run->by_passes ? "in shorter passes" : "by passes");
	if (run->n_changed)
		return volume_refresh(run->v, err);
	run->shown = run->rounds + 1;
	r->plan_bytes = r->plan_batches = r->plan_moves = 0;
	return 0;
}

/* What a run would do is taken as done. */
static int assume_done(struct run *run, struct error *err)
{
	run->spent += run_batch_bytes(run, 0, run->n_do);
	for (size_t b = 0; b < run->n_do; b++)
		if (plan_apply(run->p, b, NULL, run->st, err))
			return -1;
	if (run->o->advise)
		advice_pass(run);
	return figures_stay_planned(run) ? error_nomem(err, "the report") : 0;
}

int run_leave_pass(struct run *run, struct error *err)
{
	if (run->o->dry_run || run->o->report_only)
		return assume_done(run, err);
	run_settle_touched(run);
	if (!run->n_touched)
		return 0;
	run_phase(run, PHASE_RESCAN);
	run_tell(run, run->at_pass, run->n_pass);
	if (volume_refresh(run->v, err) || run_reread(run, err))
		return -1;
	run->r->worse += run_worse(run);
	run->n_changed += run->n_touched;
	run->round_changed = true;
	run->n_touched = 0;
	rangeset_free(run->near);
	run->near = NULL;
	return 0;
}

/* All files, as they are now. Asked to stop twice, there is no time for that. */
static int look_again(struct run *run, struct error *err)
{
	struct scan_options so;

	run_scan_options(run, &so);
	so.stop = &run->stop_now;
	run_drop_plan(run);
	run_trim_memory(run);
	if (volume_refresh(run->v, err) || scan_volume(run->v, &so, &run->s, err) ||
	    ideal_new(run->s, &run->ideal, err) || state_view(run->s, &run->st, err))
		return -1;
	return 0;
}

int run_end_passes(struct run *run, struct error *err)
{
	struct report *r = run->r;
	struct error stopped = ERROR_INIT;

	/* Else the figures of the last round, which has changed nothing, are right. */
	if (run->n_changed && (run->round_changed || run->o->measure) &&
	    look_again(run, &stopped)) {
		run_drop_plan(run);
		r->n_stay = r->n_stay_all = 0;
		if (stopped.kind == ERROR_STOPPED)
			return 0;
		*err = stopped;
		return -1;
	}
	r->has_after = run->n_changed > 0;
	return 0;
}
