/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * defraggers: the threads that copy, and what their caller sees. They are plain threads, not an
 * OpenMP team: the caller goes on, to commit one batch while the next ones are read.
 */
#include "mover.h"
#include <stdlib.h>
#include <string.h>

#define WINDOW_MIN (1u << 20) /* bytes */
#define WINDOW_MAX (1u << 30) /* bytes; keeps block counts of a window in 32 bits */
#define LISTS_MIN  (256u << 10)
#define PIECES_MIN (1u << 20)

static uint64_t window_min(uint32_t block_size)
{
	return block_size > WINDOW_MIN ? block_size : WINDOW_MIN;
}

unsigned move_threads(unsigned threads, unsigned queue_depth, bool rotational)
{
	if (rotational)
		return 1;
	threads = threads < queue_depth ? threads : queue_depth;
	return threads ? threads : 1;
}

uint64_t move_memory_floor(unsigned threads, uint32_t block_size)
{
	return PIECES_MIN + threads * (window_min(block_size) + 2 * BOUNCE_SIZE + LISTS_MIN);
}

void mover_changed(struct mover *m)
{
	atomic_fetch_add(&m->changes, 1);
	pthread_cond_broadcast(&m->change);
}

/* How much memory goes to what. The lists of two batches stand beside the buffers. */
static void share_memory(struct mover *m)
{
	const struct move_options *o = &m->o;
	uint64_t floor = move_memory_floor(m->threads, o->block_size) - PIECES_MIN;
	uint64_t left, each, window, most, lists;
	size_t n_move;

	jobs_measure(m->p, &most, &n_move);
	lists = (uint64_t)n_move * 2 * sizeof(struct piece);
	left = o->memory > floor + lists ? o->memory - lists : floor;
	each = left / m->threads;
	m->slots = (unsigned)(each / 8 / BOUNCE_SIZE);
	m->slots = m->slots > m->depth ? m->depth : m->slots;
	m->slots = m->slots < 1 ? 1 : m->slots;
	window = each - m->slots * BOUNCE_SIZE - each / 128; /* each / 128: order[] and the like */
	m->streams =
		m->threads > 1 ? STREAMS_MAX / 2 : STREAMS_MAX; /* few, so that they are long */
	if (o->rotational)
		m->streams = 1;
	while (m->streams > 1 && window / m->streams < window_min(o->block_size))
		m->streams--;
	window /= m->streams;
	window = window < WINDOW_MIN ? WINDOW_MIN : window;
	window = window > WINDOW_MAX ? WINDOW_MAX : window;
	m->window_blocks = (uint32_t)(window / o->block_size);
	if (m->window_blocks > most)
		m->window_blocks = (uint32_t)most;
}

/* The first failure is the one that counts. */
static void fail(struct mover *m, const struct error *err)
{
	pthread_mutex_lock(&m->lock);
	if (!m->failed)
		m->err = *err;
	m->failed = true;
	atomic_store(&m->ending, true);
	mover_changed(m);
	pthread_mutex_unlock(&m->lock);
}

static void *defragger(void *arg)
{
	struct mover *m = arg;
	struct error err = ERROR_INIT;
	struct worker w;

	if (worker_open(&w, m, &err)) {
		fail(m, &err);
		return NULL;
	}
	if (worker_run(&w, &err))
		fail(m, &err);
	worker_close(&w);
	return NULL;
}

/* Fewer threads than asked for are slower, but do. */
static int start_team(struct mover *m, struct error *err)
{
	m->team = calloc(m->threads, sizeof(*m->team));
	if (!m->team)
		return error_nomem(err, "copying files");
	while (m->n_team < m->threads) {
		int rc = pthread_create(&m->team[m->n_team], NULL, defragger, m);

		if (rc && !m->n_team)
			return error_sys(err, ERROR_OPERATION, rc, "cannot start a thread");
		if (rc)
			break;
		m->n_team++;
	}
	return 0;
}

static void destroy(struct mover *m)
{
	for (size_t b = 0; b < m->p->n_batch; b++)
		job_release(&m->job[b]);
	free(m->job);
	free(m->team);
	pthread_mutex_destroy(&m->telling);
	pthread_cond_destroy(&m->change);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

int move_open(struct device *dev, const struct plan *p, const struct move_options *o,
	      struct mover **out, struct error *err)
{
	unsigned threads = move_threads(o->threads, o->queue_depth, o->rotational);
	struct mover *m;

	if (o->memory < move_memory_floor(threads, o->block_size))
		return error_set(err, ERROR_USAGE,
				 "%llu bytes of memory are too few for %u threads: give --memory "
				 "%llu or more, or fewer --threads",
				 (unsigned long long)o->memory, threads,
				 (unsigned long long)move_memory_floor(threads, o->block_size));
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_nomem(err, "copying files");
	m->job = calloc(p->n_batch + 1, sizeof(*m->job));
	if (!m->job) {
		free(m);
		return error_nomem(err, "copying files");
	}
	m->dev = dev;
	m->p = p;
	m->o = *o;
	m->threads = threads;
	m->depth = o->queue_depth / threads;
	m->depth = m->depth ? m->depth : 1;
	share_memory(m);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->change, NULL);
	pthread_mutex_init(&m->telling, NULL);
	if (start_team(m, err)) {
		destroy(m);
		return -1;
	}
	*out = m;
	return 0;
}

void move_close(struct mover *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	atomic_store(&m->ending, true);
	mover_changed(m);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->n_team; i++)
		pthread_join(m->team[i], NULL);
	destroy(m);
}

/* A flush while the defraggers go on; under the lock. */
static int flush(struct mover *m, struct error *err)
{
	int rc;

	atomic_store(&m->unflushed, 0);
	pthread_mutex_unlock(&m->lock);
	rc = device_flush(m->dev, err);
	pthread_mutex_lock(&m->lock);
	return rc;
}

/* Until *done comes to the number of windows, or all is ending; under the lock. */
static int wait_for_windows(struct mover *m, size_t batch, const size_t *done, struct error *err)
{
	const struct job *job = &m->job[batch];

	while (!atomic_load(&m->ending) &&
	       (atomic_load(&m->opened) <= batch || *done < job->n_window)) {
		if (m->o.flush_step && atomic_load(&m->unflushed) >= m->o.flush_step) {
			if (flush(m, err))
				return -1;
			continue;
		}
		pthread_cond_wait(&m->change, &m->lock);
	}
	if (m->failed) {
		*err = m->err;
		return -1;
	}
	return 0;
}

/* Under the lock. */
static void allow(struct mover *m, size_t batch)
{
	if (atomic_load(&m->allowed) > batch)
		return;
	atomic_store(&m->allowed, batch + 1);
	mover_changed(m);
}

void move_start(struct mover *m, size_t batch)
{
	pthread_mutex_lock(&m->lock);
	allow(m, batch);
	pthread_mutex_unlock(&m->lock);
}

void move_start_early(struct mover *m, size_t batch)
{
	pthread_mutex_lock(&m->lock);
	if (m->o.early && atomic_load(&m->allowed_early) <= batch) {
		atomic_store(&m->allowed_early, batch + 1);
		mover_changed(m);
	}
	pthread_mutex_unlock(&m->lock);
}

int move_wait_early(struct mover *m, size_t batch, struct error *err)
{
	const struct job *job = &m->job[batch];
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	while (m->o.early && !atomic_load(&m->ending) &&
	       (atomic_load(&m->opened) <= batch || job->finished_early < job->n_early))
		pthread_cond_wait(&m->change, &m->lock);
	if (m->failed) {
		*err = m->err;
		rc = -1;
	}
	pthread_mutex_unlock(&m->lock);
	return rc;
}

/* Lets the batch be written and, with verify, be read back; under the lock. */
static int copy(struct mover *m, size_t batch, struct error *err)
{
	struct job *job = &m->job[batch];

	allow(m, batch);
	if (wait_for_windows(m, batch, &job->finished, err))
		return -1;
	if (!m->o.verify || atomic_load(&m->ending) || !job->n_window)
		return 0;
	if (flush(m, err))
		return -1;
	job->checking = true;
	mover_changed(m);
	return wait_for_windows(m, batch, &job->checked, err);
}

int move_batch(struct mover *m, size_t batch, struct move_dropped *dropped, struct move_result *res,
	       struct error *err)
{
	struct job *job = &m->job[batch];
	uint64_t n = m->p->batch[batch].n_file;
	int rc;

	pthread_mutex_lock(&m->lock);
	rc = copy(m, batch, err);
	if (rc)
		goto out;
	*res = job->count;
	res->stopped = atomic_load(&m->ending);
	if (res->stopped)
		goto out;
	memcpy(dropped, job->dropped, n * sizeof(*dropped));
	for (uint64_t f = 0; f < n; f++)
		res->n_dropped += dropped[f].why != MOVE_KEPT;
	job_release(job);
	m->copied = batch + 1;
	mover_changed(m);
out:
	pthread_mutex_unlock(&m->lock);
	return rc;
}
