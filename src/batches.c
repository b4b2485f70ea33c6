/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * batches: guard -> move -> commit, batch after batch.
 *
 * The mover reads ahead on threads of its own, but writes nothing of a batch before move_start() is
 * called for it: when the batch before is durable, its log is empty (F4 has returned), and the
 * guard has found this one to fit what is on the disk. Its early copies are an exception: they go
 * to blocks that are free before and after the batch before, as the guard of that one has found on
 * the disk, and are written while that one is copied and committed. No state that a power cut can
 * leave uses them (I1), and a flush that batch N waits for may make copies of N+1 durable, which
 * does no harm. Reads change nothing, and what later batches read are file blocks, which a commit
 * never writes and no batch before writes either (the mover waits for the copies of one that does).
 * Indirect blocks of block-mapped files are moved as file blocks and are written by commits; so
 * what the mover read of one is of no consequence: the commit that moves it writes it anew
 * (indirect.h).
 *
 * While a batch is copied, its metadata is made in memory (commit_prepare). Should a file be
 * dropped, or the run be stopped, that is forgotten, and made anew without the file.
 */
#include "engine_run.h"
#include "scaledefrag/move.h"
#include <stdlib.h>

/* While a batch is written, the device is told to make it durable in steps of so many bytes. */
#define FLUSH_STEP (64u << 20)

/* What the move of one batch comes to. */
struct outcome {
	struct move_dropped *dropped; /* per file of the batch */
	bool *skip;
	struct move_result res;
};

static void move_progress(void *ctx, uint64_t bytes)
{
	run_tell_bytes(ctx, PHASE_MOVE, bytes);
}

/* Are copies of a batch written while the one before it is committed? Not where a sparse image must
 * not grow by more than one batch, and where the head would go to and fro. */
static bool goes_ahead(const struct run *run)
{
	return !run->o->verify && !volume_device(run->v)->fuse && !run_wants_holes(run) &&
	       !volume_place(run->v)->rotational && !volume_geometry(run->v)->ordered;
}

int run_start_mover(struct run *run, struct error *err)
{
	struct move_options mo = {
		.threads = run->o->threads,
		.queue_depth = run->o->queue_depth,
		.block_size = run->block_size,
		.rotational = volume_place(run->v)->rotational,
		.verify = run->o->verify || volume_device(run->v)->fuse,
		.early = goes_ahead(run),
		.flush_step = FLUSH_STEP,
		.stop = &run->stop,
		.progress = move_progress,
		.ctx = run,
	};

	if (run_share_memory(run, &mo, err))
		return -1;
	return move_open(volume_device(run->v), run->p, &mo, &run->m, err);
}

void run_stop_mover(struct run *run)
{
	move_close(run->m);
	run->m = NULL;
}

static int outcome_new(struct outcome *o, uint64_t n_file, struct error *err)
{
	*o = (struct outcome){ .dropped = calloc(n_file + 1, sizeof(*o->dropped)),
			       .skip = calloc(n_file + 1, sizeof(*o->skip)) };
	return o->dropped && o->skip ? 0 : error_nomem(err, "the files of a batch");
}

static void outcome_free(struct outcome *o)
{
	free(o->dropped);
	free(o->skip);
	*o = (struct outcome){ 0 };
}

/* Asked to stop once, the run goes on until no file is worse than before it; twice, it stops now.
 */
static bool stop_now(struct run *run, size_t next)
{
	int asked;

	run_poll(run);
	asked = run->stop;
	return asked > 1 || (asked && (next == 0 || run->p->batch[next - 1].rest));
}

uint64_t run_batch_bytes(const struct run *run, size_t from, size_t to)
{
	uint64_t blocks = 0;

	for (size_t b = from; b < to; b++)
		blocks += run->p->batch[b].copy_blocks;
	return blocks * run->block_size;
}

size_t run_within_budget(const struct run *run)
{
	uint64_t budget = run->o->budget, sum = run->spent;
	size_t n = 0;

	if (!budget)
		return run->p->n_batch;
	for (size_t b = 0; b < run->p->n_batch; b++) {
		sum += run->p->batch[b].copy_blocks * run->block_size;
		if (sum > budget)
			break;
		if (run->p->batch[b].rest)
			n = b + 1;
	}
	return n;
}

/* A flush that failed while copying ended the run (I12): what the user does next. */
static int copy_failed(const struct run *run, struct error *err)
{
	struct error why = *err;

	if (!atomic_load(&volume_device(run->v)->dead))
		return -1;
	error_set(err, ERROR_OPERATION, "%s; nothing more is written; run: e2fsck -p %s", why.text,
		  volume_arg(run->v));
	err->sys = why.sys;
	return -1;
}

/* Up to the end of the batch's copies. *stopped: they are not complete. */
static int copy(struct run *run, size_t batch, struct outcome *o, bool *stopped, struct error *err)
{
	bool ahead = goes_ahead(run) && batch + 1 < run->n_do;

	*stopped = stop_now(run, batch);
	run_phase(run, PHASE_GUARD);
	if (*stopped)
		return 0; /* nothing of it is written, but for early copies */
	if (!run->o->skip_guard && commit_guard(run->c, run->p, batch, ahead, run->st, err))
		return -1;
	run_phase(run, PHASE_COMMIT);
	if (commit_begin(run->c, err))
		return -1;
	run_phase(run, PHASE_MOVE);
	run->spent += run_batch_bytes(run, batch, batch + 1);
	move_start(run->m, batch);
	if (ahead && !run->o->in_step)
		move_start_early(run->m, batch + 1);
	/* It would notice much of what the guard does, and a test wants to see that missed. */
	if (!run->o->skip_guard && commit_prepare(run->c, run->p, batch, run->st, err))
		return -1;
	if (move_batch(run->m, batch, o->dropped, &o->res, err))
		return copy_failed(run, err);
	*stopped = o->res.stopped;
	run->r->data_reads += o->res.reads;
	run->r->data_writes += o->res.writes;
	return *stopped ? 0 : run_note_dropped(run, batch, o->dropped, o->skip, err);
}

static int commit(struct run *run, size_t batch, const struct outcome *o, struct error *err)
{
	run_phase(run, PHASE_COMMIT);
	run_tell_bytes(run, PHASE_COMMIT, 0);
	if (run->o->in_step && goes_ahead(run) && batch + 1 < run->n_do && !o->res.n_dropped) {
		move_start_early(run->m, batch + 1);
		if (move_wait_early(run->m, batch + 1, err))
			return -1;
	}
	if (commit_batch(run->c, run->p, batch, o->skip, run->st, err) ||
	    run_note_touched(run, batch, o->skip, err) ||
	    plan_apply(run->p, batch, o->skip, run->st, err))
		return -1;
	run->n_done = batch + 1;
	run->r->bytes_moved += o->res.bytes;
	return 0;
}

int run_batches(struct run *run, bool *again, struct error *err)
{
	bool stopped = false, dropped = false;
	struct outcome o = { 0 };
	int rc = -1;

	*again = false;
	if (run->n_do && !run->m && run_start_mover(run, err))
		goto out;
	for (size_t b = 0; b < run->n_do && !dropped; b++) {
		if (outcome_new(&o, run->p->batch[b].n_file, err) ||
		    copy(run, b, &o, &stopped, err))
			goto out;
		if (stopped)
			break;
		dropped = o.res.n_dropped > 0;
		if (commit(run, b, &o, err) || (b + 1 < run->n_do && run_discard_behind(run, err)))
			goto out;
		outcome_free(&o);
	}
	run->stopped |= stopped;
	*again = dropped && !run->o->given_plan;
	rc = 0;
out:
	run_stop_mover(run);
	outcome_free(&o);
	return rc;
}
