/* SPDX-License-Identifier: GPL-2.0-or-later */
/* jobs: batches as jobs, cut into pieces and windows; handed out in order. */
#include "mover.h"
#include <stdlib.h>

#define WINDOW_SHARE                                                                               \
	(4u << 20)	       /* bytes; windows are made no smaller only to occupy all threads    \
				*/
#define EARLY_MIN (128u << 10) /* bytes that are worth a write of their own */

static int by_target(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

/* The batch's written moves, each one piece so far. Returns their number. `early`: as of
 * plan_early(); NULL: none is. */
static size_t collect(const struct plan *p, const struct plan_batch *b, const bool *early,
		      struct piece *out)
{
	uint64_t first = b->n_file ? p->file[b->first_file].first_move : 0;
	size_t n = 0;

	for (uint64_t f = 0; f < b->n_file; f++) {
		const struct plan_file *file = &p->file[b->first_file + f];

		for (uint64_t i = file->first_move; i < file->first_move + file->n_move; i++) {
			const struct move *m = &p->move[i];

			if (!m->unwritten)
				out[n++] = (struct piece){ .from = m->from,
							   .to = m->to,
							   .len = m->len,
							   .file = (uint32_t)f,
							   .late = !early || !early[i - first] };
		}
	}
	return n;
}

static size_t count(const struct plan *p, size_t batch)
{
	size_t n, written = 0;
	const struct move *m = plan_moves(p, batch, &n);

	for (size_t i = 0; i < n; i++)
		written += !m[i].unwritten;
	return written;
}

void jobs_measure(const struct plan *p, uint64_t *blocks, size_t *n_move)
{
	*blocks = 0;
	*n_move = 0;
	for (size_t b = 0; b < p->n_batch; b++) {
		uint64_t sum = p->batch[b].copy_blocks;
		size_t n = count(p, b);

		*blocks = sum > *blocks ? sum : *blocks;
		*n_move = n > *n_move ? n : *n_move;
	}
}

/*
 * Cuts the sorted pieces src[0..n), n > 0, into windows. `out` may be the start of the array that
 * src is the end of: each window adds at most one piece, and src lies n_window behind.
 */
static void cut(struct window *win, uint32_t window_blocks, const struct piece *src, size_t n,
		struct piece *out)
{
	size_t k = 0;

	*win = (struct window){ .late = src->late };
	for (size_t i = 0; i < n; i++) {
		struct piece p = src[i];

		while (p.len) {
			uint32_t room = window_blocks - win->blocks, len;

			if (!room || p.late != win->late) {
				*++win = (struct window){ .first = k, .late = p.late };
				continue;
			}
			len = p.len < room ? p.len : room;
			out[k] = p;
			out[k].len = len;
			out[k++].at = win->blocks;
			win->n++;
			win->blocks += len;
			p.from += len;
			p.to += len;
			p.len -= len;
		}
	}
}

/* A batch that fits the buffers is spread over all threads. */
static uint32_t window_size(const struct mover *m, uint64_t blocks)
{
	uint64_t share = (blocks + m->threads - 1) / m->threads;
	uint64_t least = WINDOW_SHARE / m->o.block_size;

	share = share < least ? least : share;
	return share < m->window_blocks ? (uint32_t)share : m->window_blocks;
}

/* Do pieces [from, to) of the job, which are sorted by target, write to these blocks? */
static bool writes_to(const struct job *job, size_t from, size_t to, uint64_t start, uint64_t end)
{
	size_t low = from, high = to;

	while (low < high) { /* [from, low) start before `end` */
		size_t mid = low + (high - low) / 2;

		if (job->piece[mid].to < end)
			low = mid + 1;
		else
			high = mid;
	}
	return low > from && job->piece[low - 1].to + job->piece[low - 1].len > start;
}

static size_t pieces_of(const struct job *job)
{
	const struct window *last;

	if (!job->n_window)
		return 0;
	last = &job->window[job->n_window - 1];
	return last->first + last->n;
}

/* Does `job` read what `earlier` writes? */
static bool reads_from(const struct job *job, const struct job *earlier)
{
	size_t n = pieces_of(job), all = pieces_of(earlier);
	size_t early = earlier->n_early < earlier->n_window
			       ? earlier->window[earlier->n_early].first
			       : all;

	for (size_t i = 0; i < n; i++) {
		uint64_t from = job->piece[i].from, end = from + job->piece[i].len;

		if (writes_to(earlier, 0, early, from, end) ||
		    writes_to(earlier, early, all, from, end))
			return true;
	}
	return false;
}

/* How many batches must be copied before this one may be read. */
static size_t wait_for(const struct mover *m, size_t batch)
{
	const struct job *job = &m->job[batch];

	for (size_t b = batch; b > m->copied; b--)
		if (reads_from(job, &m->job[b - 1]))
			return b;
	return 0;
}

static size_t windows(uint64_t blocks, uint32_t size)
{
	return (size_t)((blocks + size - 1) / size);
}

/*
 * An early stretch that adjoins what comes late would else have been one write with it: short ones
 * come late, too. `p`: sorted by target. Returns the blocks that come early.
 */
static uint64_t keep_long(const struct mover *m, struct piece *p, size_t n)
{
	uint64_t least = EARLY_MIN / m->o.block_size, sum = 0;

	for (size_t i = 0, end; i < n; i = end) {
		uint64_t blocks = p[i].len;
		bool adjoins = i && p[i - 1].to + p[i - 1].len == p[i].to;

		end = i + 1;
		if (p[i].late)
			continue;
		for (; end < n && !p[end].late && p[end].to == p[end - 1].to + p[end - 1].len;
		     end++)
			blocks += p[end].len;
		adjoins |= end < n && p[end].to == p[end - 1].to + p[end - 1].len;
		if (adjoins && blocks < least)
			for (size_t k = i; k < end; k++)
				p[k].late = true;
		else
			sum += blocks;
	}
	return sum;
}

/* Early ones first; the order is kept. */
static void part(const struct piece *from, size_t n, struct piece *to)
{
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < n; i++)
			if (from[i].late == late)
				*to++ = from[i];
}

/* The batch's n > 0 pieces `p`, sorted by target, in windows. */
static int make_windows(struct mover *m, size_t batch, struct piece *p, size_t n, struct error *err)
{
	struct job *job = &m->job[batch];
	uint64_t early = keep_long(m, p, n), late = m->p->batch[batch].copy_blocks - early;
	uint32_t size = window_size(m, late > early ? late : early);
	size_t n_window = windows(early, size) + windows(late, size);

	job->piece = calloc(n + n_window, sizeof(*job->piece));
	job->window = calloc(n_window, sizeof(*job->window));
	if (!job->piece || !job->window)
		return error_nomem(err, "copying files");
	part(p, n, job->piece + n_window);
	cut(job->window, size, job->piece + n_window, n, job->piece);
	job->n_early = windows(early, size);
	job->n_window = n_window;
	return 0;
}

/* The n > 0 pieces of the batch, sorted by target. */
static int make_pieces(struct mover *m, size_t batch, size_t n, struct error *err)
{
	struct piece *p = malloc(n * sizeof(*p));
	bool *early = NULL;
	int rc = -1;

	if (!p)
		error_nomem(err, "copying files");
	if (!p || (m->o.early && plan_early(m->p, batch, &early, err)))
		goto out;
	collect(m->p, &m->p->batch[batch], early, p);
	qsort(p, n, sizeof(*p), by_target);
	rc = make_windows(m, batch, p, n, err);
out:
	free(early);
	free(p);
	return rc;
}

/* The lists of a batch. n_window stays 0 if there is nothing to copy. */
static int make_lists(struct mover *m, size_t batch, struct error *err)
{
	struct job *job = &m->job[batch];
	size_t n = count(m->p, batch);

	job->dropped = calloc(m->p->batch[batch].n_file + 1, sizeof(*job->dropped));
	if (!job->dropped)
		return error_nomem(err, "copying files");
	/* With verify one batch at a time, also when there is nothing to copy: what is read back
	 * takes buffers, which must not be full of what may not be written. */
	job->after = m->o.verify ? batch : 0;
	if (!n)
		return 0;
	if (make_pieces(m, batch, n, err)) {
		job_release(job);
		return -1;
	}
	if (!m->o.verify)
		job->after = wait_for(m, batch);
	return 0;
}

void job_release(struct job *job)
{
	free(job->piece);
	free(job->window);
	free(job->dropped);
	job->piece = NULL;
	job->window = NULL;
	job->dropped = NULL;
}

/*
 * All windows of the jobs opened so far are claimed: opens the next job, if it may be read.
 * CLAIM_WINDOW: look again.
 */
static enum claim open_next(struct mover *m, size_t opened, struct error *err)
{
	struct job *job = &m->job[opened];

	if (atomic_load(&m->opened) != opened)
		return CLAIM_WINDOW;
	if (opened == m->p->n_batch)
		return m->o.verify && m->copied < opened ? CLAIM_LATER : CLAIM_END;
	if (!job->dropped && make_lists(m, opened, err))
		return CLAIM_FAILED;
	if (m->copied < job->after)
		return CLAIM_LATER;
	atomic_store(&m->opened, opened + 1);
	mover_changed(m);
	return CLAIM_WINDOW;
}

static void take(struct mover *m, struct stream *s, size_t batch, size_t i)
{
	struct job *job = &m->job[batch];

	s->job = job;
	s->batch = batch;
	s->piece = job->piece + job->window[i].first;
	s->n_piece = job->window[i].n;
	s->late = job->window[i].late;
	s->count = (struct move_result){ 0 };
}

/* With verify there is one job at a time: the last one opened. */
static bool claim_check(struct mover *m, struct stream *s)
{
	size_t opened = atomic_load(&m->opened), i;
	bool checking;

	if (!opened)
		return false;
	pthread_mutex_lock(&m->lock);
	checking = m->job[opened - 1].checking;
	pthread_mutex_unlock(&m->lock);
	if (!checking)
		return false;
	i = atomic_fetch_add(&m->job[opened - 1].next_check, 1);
	if (i >= m->job[opened - 1].n_window)
		return false;
	take(m, s, opened - 1, i);
	s->state = STREAM_CHECK;
	return true;
}

enum claim job_claim(struct mover *m, struct stream *s, struct error *err)
{
	enum claim answer;

	if (m->o.verify && claim_check(m, s))
		return CLAIM_WINDOW;
	do {
		size_t opened = atomic_load(&m->opened), i;

		if (opened) {
			i = atomic_fetch_add(&m->job[opened - 1].next, 1);
			if (i < m->job[opened - 1].n_window) {
				take(m, s, opened - 1, i);
				s->state = STREAM_GATHER;
				return CLAIM_WINDOW;
			}
		}
		pthread_mutex_lock(&m->lock);
		answer = open_next(m, opened, err);
		pthread_mutex_unlock(&m->lock);
	} while (answer == CLAIM_WINDOW);
	return answer;
}
