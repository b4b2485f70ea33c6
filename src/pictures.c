/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pictures: what a report draws, taken at the points of the pipeline where it is known. A courtesy,
 * as names are: where memory is short, the run goes on without.
 */
#include "engine_run.h"
#include <stdlib.h>
#include <string.h>

#define WORST_MAX 100u /* each file is compared with them */

/* Keeps `v`, which has most runs first and room for `cap`, so with one more. */
static size_t keep_worst(struct report_file *v, size_t n, size_t cap, const struct report_file *f)
{
	size_t at = n;

	while (at && v[at - 1].runs < f->runs)
		at--;
	if (at == cap)
		return n;
	n = n < cap ? n + 1 : n;
	memmove(&v[at + 1], &v[at], (n - at - 1) * sizeof(*v));
	v[at] = *f;
	return n;
}

static void find_worst(struct run *run)
{
	size_t cap = run->o->list < WORST_MAX ? run->o->list : WORST_MAX;
	struct report_file *v = cap ? calloc(cap, sizeof(*v)) : NULL;

	if (!v)
		return;
	for (size_t i = 0; i < run->s->n_file; i++) {
		struct report_file f = figures_file(run, i);

		if (f.runs > f.ideal_runs)
			run->r->n_worst = keep_worst(v, run->r->n_worst, cap, &f);
	}
	run->r->worst = v;
}

static void take(struct run *run, const struct state *st, struct picture **out)
{
	struct error ignored = ERROR_INIT;

	if (run->o->pictures)
		picture_new(st, run->ideal, out, &ignored);
}

void pictures_before(struct run *run)
{
	picture_free_sizes(run->st->free, &run->r->free_before);
	take(run, run->st, &run->r->picture_before);
	if (run->o->pictures)
		find_worst(run);
}

void pictures_after(struct run *run, const struct state *st)
{
	free(run->r->picture_after); /* of an earlier round */
	run->r->picture_after = NULL;
	picture_free_sizes(st->free, &run->r->free_after);
	run->r->has_free_after = true;
	take(run, st, &run->r->picture_after);
	if (run->r->picture_after && run->rounds > 1) /* the snapshot is not from before the run */
		memset(run->r->picture_after->flow, 0, sizeof(run->r->picture_after->flow));
}
