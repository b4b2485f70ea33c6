/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * batches: guard -> move -> commit, batch after batch.
 *
 * While batch N commits, batch N+1 is already being read, by a mover thread that stops at a gate
 * before its first write. The gate opens when N is durable, its log is empty (F4 has returned), and
 * the guard has found N+1 to fit what is on the disk. So the order of *writes* is the same as
 * without a mover thread, and so are the invariants: reads change nothing, and what N+1 reads are
 * file blocks, which a commit never writes (N's own copies were complete before N+1 was started).
 */
#include "engine_run.h"
#include "scaledefrag/move.h"
#include <stdlib.h>

/* One batch on its way. The mover thread owns dropped, res, err and rc until it is joined. */
struct flight {
	struct run *run;
	size_t batch;
	bool flying; /* the thread is to be joined */
	pthread_t thread;
	pthread_mutex_t lock; /* for gate */
	pthread_cond_t opened;
	enum { GATE_CLOSED, GATE_OPEN, GATE_GIVE_UP } gate;
	struct move_dropped *dropped; /* per file of the batch */
	bool *skip;
	struct move_result res;
	struct error err;
	int rc;
};

static int wait_at_gate(void *ctx)
{
	struct flight *f = ctx;
	bool give_up;

	pthread_mutex_lock(&f->lock);
	while (f->gate == GATE_CLOSED)
		pthread_cond_wait(&f->opened, &f->lock);
	give_up = f->gate == GATE_GIVE_UP;
	pthread_mutex_unlock(&f->lock);
	return give_up;
}

static void open_gate(struct flight *f, bool give_up)
{
	pthread_mutex_lock(&f->lock);
	f->gate = give_up ? GATE_GIVE_UP : GATE_OPEN;
	pthread_cond_broadcast(&f->opened);
	pthread_mutex_unlock(&f->lock);
}

static void move_progress(void *ctx, uint64_t bytes)
{
	struct flight *f = ctx;

	run_tell_bytes(f->run, PHASE_MOVE, bytes);
}

static void *mover(void *arg)
{
	struct flight *f = arg;
	struct run *run = f->run;
	const struct move_options mo = {
		.threads = run->o->threads,
		.queue_depth = run->o->queue_depth,
		.memory = run->memory / 2,
		.block_size = run->block_size,
		.verify = run->o->verify || volume_device(run->v)->fuse,
		.stop = run->o->stop,
		.progress = move_progress,
		.gate = wait_at_gate,
		.ctx = f,
	};

	f->rc = move_batch(volume_device(run->v), run->p, f->batch, &mo, f->dropped, &f->res,
			   &f->err);
	return NULL;
}

static int take_off(struct flight *f, struct run *run, size_t batch, struct error *err)
{
	uint64_t n = run->p->batch[batch].n_file + 1;
	int rc;

	*f = (struct flight){ .run = run, .batch = batch };
	f->dropped = calloc(n, sizeof(*f->dropped));
	f->skip = calloc(n, sizeof(*f->skip));
	if (!f->dropped || !f->skip)
		return error_nomem(err, "the files of a batch");
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->opened, NULL);
	rc = pthread_create(&f->thread, NULL, mover, f);
	if (rc)
		return error_sys(err, ERROR_OPERATION, rc, "cannot start a thread");
	f->flying = true;
	return 0;
}

static void join(struct flight *f)
{
	if (!f->flying)
		return;
	pthread_join(f->thread, NULL);
	f->flying = false;
}

/* Gives up what was not allowed to write yet. Fine on a zeroed one and after joining. */
static void abandon(struct flight *f)
{
	if (f->flying)
		open_gate(f, true);
	join(f);
	free(f->dropped);
	free(f->skip);
	*f = (struct flight){ 0 };
}

/* Up to the end of the batch's copies. *stopped: they are not complete. */
static int land(struct run *run, struct flight *f, bool *stopped, struct error *err)
{
	*stopped = run->o->stop && *run->o->stop;
	run_phase(run, PHASE_GUARD);
	if (*stopped)
		return 0; /* only free blocks may have been written */
	if (!run->o->skip_guard && commit_guard(run->c, run->p, f->batch, run->st, err))
		return -1;
	run_phase(run, PHASE_COMMIT);
	if (commit_begin(run->c, err))
		return -1;
	run_phase(run, PHASE_MOVE);
	open_gate(f, false);
	join(f);
	if (f->rc) {
		*err = f->err;
		return -1;
	}
	*stopped = f->res.stopped;
	run->r->data_reads += f->res.reads;
	run->r->data_writes += f->res.writes;
	return *stopped ? 0 : run_note_dropped(run, f->batch, f->dropped, f->skip, err);
}

static int commit(struct run *run, struct flight *f, struct error *err)
{
	run_phase(run, PHASE_COMMIT);
	run_tell_bytes(run, PHASE_COMMIT, 0);
	if (commit_batch(run->c, run->p, f->batch, f->skip, run->st, err) ||
	    plan_apply(run->p, f->batch, f->skip, run->st, err) ||
	    run_note_touched(run, f->batch, f->skip, err))
		return -1;
	run->r->bytes_moved += f->res.bytes;
	return 0;
}

int run_batches(struct run *run, bool *again, struct error *err)
{
	struct flight flight[2] = { 0 }; /* batch b is flight[b % 2] */
	size_t n = run->p->n_batch;
	bool stopped = false, dropped = false;
	int rc = -1;

	*again = false;
	if (n && take_off(&flight[0], run, 0, err))
		goto out;
	for (size_t b = 0; b < n && !dropped; b++) {
		struct flight *now = &flight[b % 2], *next = &flight[(b + 1) % 2];

		if (land(run, now, &stopped, err))
			goto out;
		if (stopped)
			break;
		dropped = now->res.n_dropped > 0;
		if (!dropped && b + 1 < n && take_off(next, run, b + 1, err))
			goto out;
		if (commit(run, now, err))
			goto out;
		abandon(now);
	}
	run->stopped |= stopped;
	*again = dropped && !run->o->given_plan;
	rc = 0;
out:
	abandon(&flight[0]);
	abandon(&flight[1]);
	return rc;
}
