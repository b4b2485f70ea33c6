/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * advice: for -c, what a run would do in each mode, by the plans themselves, and which mode is
 * worth it. The rules stand in the man page too ("What -c recommends"). Pure: the same volume, the
 * same advice.
 */
#include "engine_run.h"
#include <stdlib.h>

/* Records and free runs above which modes that were not asked for are not planned: it takes long.
 */
#define RECORDS_MAX 1000000u

static const struct {
	enum plan_mode mode;
	const char *name;
} candidate[] = { { PLAN_FILES, "files" },
		  { PLAN_FREE, "free" },
		  { PLAN_SHRINK, "shrink" },
		  /* only when it is asked for: its order takes reading every directory */
		  { PLAN_LAYOUT, "layout" } };

#define CANDIDATES (sizeof(candidate) / sizeof(candidate[0]))
_Static_assert(CANDIDATES <= REPORT_MODES, "report.h: too few modes");

static uint64_t records(const struct state *st)
{
	uint64_t n = rangeset_count(st->free);

	for (size_t i = 0; i < st->snap->n_file; i++)
		n += state_map(st, i)->n_ext;
	return n;
}

static uint64_t later(uint64_t end, uint64_t pblk, uint64_t len)
{
	return pblk + len > end ? pblk + len : end;
}

/* The first block behind all of the movable files. */
static uint64_t files_end(const struct state *st)
{
	uint64_t end = 0;

	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, i);

		for (size_t k = 0; k < m->n_ext; k++)
			end = later(end, m->ext[k].pblk, m->ext[k].len);
		for (uint32_t level = 0; level < m->depth; level++)
			for (size_t k = 0; k < m->tree->n_node[level]; k++)
				end = later(end, m->tree->node[level][k].pblk, 1);
	}
	return end;
}

static int measure(const struct run *run, const struct plan *p, struct report_mode *m,
		   struct error *err)
{
	struct state *st;
	int rc = 0;

	if (state_new(run->s, &st, err))
		return -1;
	for (size_t b = 0; b < p->n_batch && !rc; b++)
		rc = plan_apply(p, b, NULL, st, err);
	m->bytes = plan_copy_blocks(p) * run->block_size;
	m->moves = p->n_move;
	m->batches = p->n_batch;
	m->seconds = figures_estimate(m->bytes, m->moves, m->batches);
	m->predicted = p->predicted;
	m->files_end = files_end(st);
	state_free(st);
	return rc;
}

/* Files: a hundredth of them, or of their blocks, is fragmented, and most of that can be mended. */
static bool files_worth_it(const struct summary *now, const struct summary *then)
{
	return (now->frag_files * 100 >= now->files || now->frag_blocks * 100 >= now->blocks) &&
	       now->runs > now->ideal_runs &&
	       (then->runs - then->ideal_runs) * 2 <= now->runs - now->ideal_runs;
}

/*
 * Free space: it is a twentieth of the volume or more, the longest run has less than a quarter of
 * it, and gathering leaves at most half of the free runs that there are now and that mode files
 * would leave.
 */
static bool free_worth_it(uint64_t blocks, const struct summary *now, const struct summary *files,
			  const struct summary *gathered)
{
	return now->free_blocks >= blocks / 20 && now->longest_free * 4 < now->free_blocks &&
	       gathered->free_runs * 2 <= now->free_runs &&
	       gathered->free_runs * 2 <= files->free_runs &&
	       gathered->longest_free > now->longest_free;
}

static void recommend(uint64_t blocks, struct report *r)
{
	const struct report_mode *files = NULL, *gathered = NULL;

	for (size_t i = 0; i < r->n_modes; i++) {
		if (candidate[i].mode == PLAN_FILES && r->modes[i].known)
			files = &r->modes[i];
		if (candidate[i].mode == PLAN_FREE && r->modes[i].known)
			gathered = &r->modes[i];
	}
	if (files && files_worth_it(&r->before, &files->predicted))
		r->recommended = files;
	if (files && gathered &&
	    free_worth_it(blocks, &r->before, &files->predicted, &gathered->predicted))
		r->recommended = gathered;
}

void advice_now(struct run *run)
{
	run->r->files_end = files_end(run->st);
}

/* This mode's figures have been added up; for the others it would take the memory that isn't there.
 */
void advice_pass(struct run *run)
{
	struct report *r = run->r;

	for (size_t i = 0; i < CANDIDATES; i++) {
		struct report_mode *m = &r->modes[i];
		uint64_t end;

		if (candidate[i].mode == PLAN_LAYOUT)
			continue;
		m->name = candidate[i].name;
		r->n_modes = i + 1;
		if (candidate[i].mode != run->o->plan.mode)
			continue;
		end = files_end(run->st);
		m->known = true;
		m->bytes = r->plan_bytes;
		m->moves = r->plan_moves;
		m->batches = r->plan_batches;
		m->seconds = r->estimate_seconds;
		m->predicted = r->predicted;
		m->files_end = end > m->files_end ? end : m->files_end;
	}
	recommend(run->s->geo.blocks, r);
}

int advice_modes(struct run *run, struct error *err)
{
	struct report *r = run->r;
	bool few = records(run->st) <= RECORDS_MAX;

	run_phase(run, PHASE_PLAN);
	r->files_end = files_end(run->st);
	for (size_t i = 0; i < CANDIDATES; i++) {
		struct report_mode *m = &r->modes[i];
		bool asked = candidate[i].mode == run->o->plan.mode;
		struct plan *made = NULL;
		int rc;

		if (candidate[i].mode == PLAN_LAYOUT && !asked)
			continue;
		m->name = candidate[i].name;
		r->n_modes = i + 1;
		if (!asked && !few && candidate[i].mode != PLAN_FILES)
			continue;
		run_poll(run);
		if (run->stop)
			return error_set(err, ERROR_STOPPED, "%s: stopped while planning",
					 volume_arg(run->v));
		if (!asked && run_make_plan(run, candidate[i].mode, &made, err))
			return -1;
		rc = measure(run, asked ? run->p : made, m, err);
		plan_free(made);
		if (rc)
			return -1;
		m->known = true;
	}
	recommend(run->s->geo.blocks, r);
	return 0;
}
