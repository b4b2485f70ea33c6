/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * worker: one defragger. Several windows are on their way through one queue, each in its own
 * buffer: while one is written, others are read.
 *
 *   idle -> gather -> ready (until its batch may be written) -> write -> idle
 *   idle -> check -> idle, with verify
 */
#include "mover.h"
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

/*
 * Writes may be long: so many bytes of them in flight keep a disk busy, and more would only let
 * reads wait. Short ones take up to half of the queue, all of it when there is nothing to read.
 */
#define WRITING_MAX (4u << 20)

static int by_source(const void *a, const void *b, void *pieces)
{
	const struct piece *p = pieces;
	uint64_t x = p[*(const uint32_t *)a].from, y = p[*(const uint32_t *)b].from;

	return x < y ? -1 : x > y;
}

static uint64_t hash_piece(const struct worker *w, const struct stream *s, const struct piece *p)
{
	return XXH3_64bits(stream_buffer(w, s, p->at), (size_t)p->len * w->m->o.block_size);
}

static void hash_all(const struct worker *w, struct stream *s)
{
	for (size_t i = 0; i < s->n_piece; i++)
		if (!s->piece[i].skip)
			s->piece[i].hash = hash_piece(w, s, &s->piece[i]);
}

static void compare_all(struct worker *w, struct stream *s)
{
	for (size_t i = 0; i < s->n_piece; i++) {
		const struct piece *p = &s->piece[i];
		const struct move_dropped drop = { .why = MOVE_VERIFY_FAILED,
						   .block = p->to,
						   .bad_target = p->to,
						   .bad_len = p->len,
						   .sys = EIO };

		if (!p->skip && hash_piece(w, s, p) != p->hash)
			drop_file(w, s, p, &drop);
	}
}

/* The window is copied, or checked. */
static void window_done(struct mover *m, struct stream *s)
{
	struct job *job = s->job;
	size_t *done = s->state == STREAM_CHECK ? &job->checked : &job->finished;

	pthread_mutex_lock(&m->lock);
	job->count.bytes += s->count.bytes;
	job->count.reads += s->count.reads;
	job->count.writes += s->count.writes;
	job->finished_early += !s->late;
	if (++*done == job->n_window || (!s->late && job->finished_early == job->n_early))
		mover_changed(m);
	pthread_mutex_unlock(&m->lock);
	s->state = STREAM_IDLE;
}

static bool may_write(const struct mover *m, const struct stream *s)
{
	return s->batch < atomic_load(&m->allowed) ||
	       (!s->late && s->batch < atomic_load(&m->allowed_early));
}

/* As far as it goes without another request. */
static void settle(struct worker *w, struct stream *s)
{
	if (s->state == STREAM_GATHER && stream_all_made(s) && !s->in_flight) {
		if (w->m->o.verify)
			hash_all(w, s);
		s->state = STREAM_READY;
	}
	if (s->state == STREAM_READY && may_write(w->m, s)) {
		s->state = STREAM_WRITE;
		stream_start(s, PASS_WRITE);
	}
	if (s->state == STREAM_WRITE && stream_all_made(s) && !s->in_flight)
		window_done(w->m, s);
	if (s->state == STREAM_CHECK && stream_all_made(s) && !s->in_flight) {
		compare_all(w, s);
		window_done(w->m, s);
	}
}

/* Gives the stream a window, if there is one. */
static enum claim start(struct worker *w, struct stream *s, struct error *err)
{
	enum claim answer = job_claim(w->m, s, err);

	if (answer != CLAIM_WINDOW)
		return answer;
	s->age = w->age++;
	stream_start(s, s->state == STREAM_CHECK ? PASS_CHECK : PASS_GATHER);
	if (s->state == STREAM_GATHER) {
		for (size_t i = 0; i < s->n_piece; i++)
			s->order[i] = (uint32_t)i;
		qsort_r(s->order, s->n_piece, sizeof(*s->order), by_source, s->piece);
	}
	return answer;
}

/* Settles all streams and keeps them busy. *over: there is nothing to do any more. */
static int feed(struct worker *w, bool *over, struct error *err)
{
	enum claim answer = CLAIM_WINDOW;
	bool busy = false;

	for (unsigned i = 0; i < w->m->streams; i++) {
		settle(w, &w->stream[i]);
		if (w->stream[i].state == STREAM_IDLE && answer == CLAIM_WINDOW)
			answer = start(w, &w->stream[i], err);
		busy |= w->stream[i].state != STREAM_IDLE;
	}
	*over = answer == CLAIM_END && !busy;
	return answer == CLAIM_FAILED ? -1 : 0;
}

/* The oldest stream that has such requests to make; NULL if none. */
static struct stream *oldest(struct worker *w, bool writes)
{
	struct stream *best = NULL;

	for (unsigned i = 0; i < w->m->streams; i++) {
		struct stream *s = &w->stream[i];

		if ((writes ? s->state == STREAM_WRITE
			    : s->state == STREAM_GATHER || s->state == STREAM_CHECK) &&
		    !stream_all_made(s) && (!best || s->age < best->age))
			best = s;
	}
	return best;
}

/* The stream to make the next request for; NULL if none. */
static struct stream *choose(struct worker *w)
{
	struct stream *write = w->writing_bytes < WRITING_MAX ? oldest(w, true) : NULL;
	struct stream *read;

	if (write && w->writing <= w->depth / 2)
		return write;
	read = oldest(w, false);
	return read ? read : write;
}

/* Fills the queue. */
static int submit(struct worker *w, struct error *err)
{
	size_t n = 0;

	while (w->n_idle) {
		struct io *io = w->idle[w->n_idle - 1];
		struct stream *s = choose(w);

		if (!s || !request_make(w, s, io))
			break;
		w->n_idle--;
		w->request[n++] = &io->req;
		s->in_flight++;
		if (s->state == STREAM_WRITE) {
			w->writing++;
			w->writing_bytes += io->req.len;
			s->count.writes++;
		} else {
			s->count.reads++;
		}
	}
	return n ? device_queue_submit(w->q, w->request, n, err) : 0;
}

static void finish(struct worker *w, struct io *io)
{
	struct stream *s = io->s;
	uint64_t before = w->written;

	if (io->req.result)
		request_redo(w, io);
	else if (s->state == STREAM_WRITE)
		w->written += io->req.len;
	else if (io->slot >= 0)
		request_scatter(w, io);
	s->count.bytes += w->written - before;
	if (s->state == STREAM_WRITE) {
		w->writing--;
		w->writing_bytes -= io->req.len;
	}
	s->in_flight--;
	if (io->slot >= 0)
		w->slot[w->n_slot++] = (unsigned)io->slot;
	w->idle[w->n_idle++] = io;
}

/* Tells the observer, and who flushes, what was written since the last call. */
static void tell(struct worker *w)
{
	struct mover *m = w->m;
	uint64_t bytes = w->written, before;

	w->written = 0;
	if (!bytes)
		return;
	if (m->o.progress) {
		pthread_mutex_lock(&m->telling);
		m->o.progress(m->o.ctx, bytes);
		pthread_mutex_unlock(&m->telling);
	}
	before = atomic_fetch_add(&m->unflushed, bytes);
	if (before >= m->o.flush_step || before + bytes < m->o.flush_step)
		return;
	pthread_mutex_lock(&m->lock);
	mover_changed(m);
	pthread_mutex_unlock(&m->lock);
}

static void wait_for_change(struct mover *m, unsigned seen)
{
	pthread_mutex_lock(&m->lock);
	while (atomic_load(&m->changes) == seen)
		pthread_cond_wait(&m->change, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

static bool must_leave(struct mover *m)
{
	if (m->o.stop && *m->o.stop > 1 && !atomic_load(&m->ending)) {
		pthread_mutex_lock(&m->lock);
		m->stopped = true;
		atomic_store(&m->ending, true);
		mover_changed(m);
		pthread_mutex_unlock(&m->lock);
	}
	return atomic_load(&m->ending);
}

int worker_run(struct worker *w, struct error *err)
{
	while (!must_leave(w->m)) {
		unsigned seen = atomic_load(&w->m->changes);
		bool over;
		size_t n;

		if (feed(w, &over, err) || submit(w, err))
			return -1;
		if (over)
			return 0;
		if (w->n_idle == w->depth) {
			wait_for_change(w->m, seen);
			continue;
		}
		if (device_queue_wait(w->q, 1, w->depth - w->n_idle, w->request, &n, err))
			return -1;
		for (size_t i = 0; i < n; i++)
			finish(w, w->request[i]->owner);
		tell(w);
	}
	return 0;
}

static bool allocate(struct worker *w)
{
	const struct mover *m = w->m;
	bool ok = true;

	for (unsigned i = 0; i < m->streams; i++) {
		w->stream[i].data = device_buffer((size_t)m->window_blocks * m->o.block_size);
		w->stream[i].order = calloc(m->window_blocks, sizeof(*w->stream[i].order));
		ok = ok && w->stream[i].data && w->stream[i].order;
	}
	w->bounce = device_buffer(m->slots * BOUNCE_SIZE);
	w->slot = calloc(m->slots, sizeof(*w->slot));
	w->io = calloc(m->depth, sizeof(*w->io));
	w->idle = calloc(m->depth, sizeof(*w->idle));
	w->request = calloc(m->depth, sizeof(*w->request));
	return ok && w->bounce && w->slot && w->io && w->idle && w->request;
}

int worker_open(struct worker *w, struct mover *m, struct error *err)
{
	*w = (struct worker){ .m = m };
	if (!allocate(w)) {
		worker_close(w);
		return error_nomem(err, "copying files");
	}
	for (unsigned i = 0; i < m->slots; i++)
		w->slot[w->n_slot++] = i;
	if (device_queue_open(m->dev, m->depth, &w->q, err)) {
		worker_close(w);
		return -1;
	}
	w->depth = w->q->depth < m->depth ? w->q->depth : m->depth;
	for (size_t i = 0; i < w->depth; i++)
		w->idle[w->n_idle++] = &w->io[i];
	return 0;
}

void worker_close(struct worker *w)
{
	device_queue_close(w->q);
	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		free(w->stream[i].data);
		free(w->stream[i].order);
	}
	free(w->bounce);
	free(w->slot);
	free(w->io);
	free(w->idle);
	free(w->request);
	*w = (struct worker){ 0 };
}
