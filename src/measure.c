/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * measure: reads the files as a recursive scan would that finds nothing in memory, and takes the
 * time (--measure). It writes nothing.
 *
 * The model, which is the same before and after, so that the two can be compared: files in the
 * order of a recursive scan (snapshot.h), one after the other, one request at a time. Of each file
 * first its tree blocks, a request each, then its blocks that aren't unwritten: blocks that lie
 * behind each other are one request, of at most READ_MOST bytes, which is what Linux reads ahead by
 * default. A request that fails is counted and passed over: what can't be read shows when it is to
 * be moved.
 */
#include "engine_run.h"
#include <stdlib.h>
#include <time.h>

#define READ_MOST (128u << 10) /* bytes */

struct reader {
	struct run *run;
	struct device *dev;
	void *buf;
	uint64_t total;	     /* bytes of the movable files, for progress */
	uint64_t start, len; /* blocks to be read next */
	struct report_measure sum;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Reads what is to be read next. 1: asked to stop. */
static int read_next(struct reader *r)
{
	uint64_t size = r->run->block_size;
	uint64_t most = READ_MOST > size ? READ_MOST / size : 1;

	while (r->len) {
		uint64_t part = r->len < most ? r->len : most;
		struct error failed = ERROR_INIT;

		if (device_read(r->dev, r->buf, r->start * size, (size_t)(part * size), &failed))
			r->sum.failed++;
		r->sum.requests++;
		r->sum.bytes += part * size;
		r->start += part;
		r->len -= part;
		run_tell(r->run, r->sum.bytes, r->total);
		if (r->run->stop)
			return 1;
	}
	return 0;
}

/* What lies behind the blocks before it becomes one request with them. */
static int read_on(struct reader *r, uint64_t start, uint64_t len)
{
	if (r->len && r->start + r->len == start) {
		r->len += len;
		return 0;
	}
	if (read_next(r))
		return 1;
	r->start = start;
	r->len = len;
	return 0;
}

static int read_file(struct reader *r, const struct filemap *m)
{
	for (uint32_t l = m->depth; l-- > 0;)
		for (size_t k = 0; k < m->tree->n_node[l]; k++)
			if (read_on(r, m->tree->node[l][k].pblk, 1) || read_next(r))
				return 1;
	for (size_t k = 0; k < m->n_ext; k++)
		if (!m->ext[k].unwritten && read_on(r, m->ext[k].pblk, m->ext[k].len))
			return 1;
	return read_next(r);
}

static uint64_t to_read(const struct state *st)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, i);

		blocks += filemap_nodes(m);
		for (size_t k = 0; k < m->n_ext; k++)
			blocks += m->ext[k].unwritten ? 0 : m->ext[k].len;
	}
	return blocks;
}

int run_measure(struct run *run, struct report_measure *out, struct error *err)
{
	const struct state *st = run->st;
	struct reader r = { .run = run, .dev = volume_device(run->v) };
	double start;
	int stopped = 0;

	/* What others wrote just now must not be in memory only. */
	if (device_flush(r.dev, err))
		return -1;
	r.buf = device_buffer(READ_MOST > run->block_size ? READ_MOST : run->block_size);
	if (!r.buf)
		return error_nomem(err, "measuring");
	run_phase(run, PHASE_MEASURE);
	r.total = to_read(st) * run->block_size;
	device_cold(r.dev, true);
	start = now();
	for (size_t i = 0; i < st->snap->n_file && !stopped; i++)
		stopped = read_file(&r, state_map(st, st->snap->order[i]));
	r.sum.seconds = now() - start;
	device_cold(r.dev, false);
	free(r.buf);
	if (stopped)
		return error_set(err, ERROR_STOPPED, "%s: stopped while measuring",
				 volume_arg(run->v));
	r.sum.known = true;
	*out = r.sum;
	return 0;
}
