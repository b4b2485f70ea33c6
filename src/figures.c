/* SPDX-License-Identifier: GPL-2.0-or-later */
/* figures: fills the report's numbers at the points of the pipeline where they are known. */
#include "engine_run.h"
#include "scaledefrag/array.h"
#include "scaledefrag/scan.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void figures_options(struct run *run)
{
	struct report *r = run->r;

	r->name = run->o->volume.path;
	r->mode = "files";
	r->threads = run->o->threads;
	r->queue_depth = run->o->queue_depth;
}

void figures_volume(struct run *run)
{
	struct report *r = run->r;

	snprintf(r->what, sizeof r->what, "%s", volume_what(run->v));
	r->block_size = run->block_size;
	r->direct = volume_device(run->v)->direct;
}

void figures_before(struct run *run)
{
	struct report *r = run->r;

	state_summary(run->st, run->ideal, &r->before);
	report_score_state(run->st, &r->score_before);
	memcpy(r->left, run->s->count, sizeof r->left);
	r->longest_gap = ideal_longest_gap(run->ideal);
}

void figures_plan(struct run *run)
{
	struct report *r = run->r;

	r->predicted = run->p->predicted;
	r->plan_batches = run->p->n_batch;
	r->plan_moves = run->p->n_move;
	r->plan_bytes = plan_copy_blocks(run->p) * run->block_size;
	/*
	 * A rough guess, and said to be one: 200 MB/s of copying, a random read each 25 us at
	 * depth, and four flushes of 5 ms a batch.
	 */
	r->estimate_seconds = (double)r->plan_bytes / 200e6 + (double)r->plan_moves * 25e-6 +
			      (double)r->plan_batches * 0.02;
}

static int more_runs_first(const void *a, const void *b)
{
	const struct report_file *x = a, *y = b;

	if (x->runs != y->runs)
		return x->runs < y->runs ? 1 : -1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool listed(const uint32_t *inos, size_t n, uint32_t ino)
{
	return n && bsearch(&ino, inos, n, sizeof(*inos), cmp_u32);
}

static const char *why_fragmented(const struct report_file *f, bool planned, uint64_t longest_free)
{
	if (planned)
		return "a run would move it";
	return f->blocks > longest_free ? "no free run is long enough for it"
					: "no move would make it better";
}

/* Files that stay fragmented: counted all, listed at most `list` of them, the worst first. */
static int list_stay(struct run *run)
{
	struct report *r = run->r;
	struct report_file *v = NULL;
	size_t n = 0, cap = 0, n_planned = 0;
	uint32_t *planned = NULL; /* only where the plan was not carried out */
	struct range longest = { 0, 0 };
	struct error nomem = ERROR_INIT;

	if ((run->o->dry_run || run->o->report_only) && run->p &&
	    run_planned(run, &planned, &n_planned))
		return -1;

	rangeset_longest(run->st->free, &longest);
	for (size_t i = 0; i < run->s->n_file; i++) {
		const struct filemap *m = state_map(run->st, i);
		struct report_file f = { .ino = run->s->file[i].ino };

		f.runs = filemap_runs(m->ext, m->n_ext);
		f.blocks = filemap_blocks(m->ext, m->n_ext);
		f.ideal_runs = ideal_runs(run->ideal, f.blocks);
		if (f.runs <= f.ideal_runs)
			continue;
		f.why = why_fragmented(&f, listed(planned, n_planned, f.ino), longest.len);
		if (array_reserve(&v, &cap, n + 1, sizeof(*v), &nomem)) {
			free(planned);
			free(v);
			return -1;
		}
		v[n++] = f;
	}
	free(planned);
	if (n)
		qsort(v, n, sizeof *v, more_runs_first);
	r->n_stay_all = n;
	r->n_stay = n < run->o->list ? n : run->o->list;
	r->stay = v;
	return 0;
}

static void name_them(struct report_file *v, size_t n, const uint32_t *inos, char *const *paths,
		      size_t total)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t *at = bsearch(&v[i].ino, inos, total, sizeof *inos, cmp_u32);

		if (at && paths[at - inos])
			v[i].path = strdup(paths[at - inos]);
	}
}

/* Names are a courtesy: a failure to read them is no failure of the run. */
static void look_up_names(struct run *run)
{
	struct report *r = run->r;
	size_t n = r->n_stay + r->n_dropped, k = 0;
	uint32_t *inos = calloc(n + 1, sizeof *inos);
	char **paths = calloc(n + 1, sizeof *paths);
	struct error ignored = ERROR_INIT;

	if (!n || !inos || !paths)
		goto out;
	for (size_t i = 0; i < r->n_stay; i++)
		inos[k++] = r->stay[i].ino;
	for (size_t i = 0; i < r->n_dropped; i++)
		inos[k++] = r->dropped[i].ino;
	qsort(inos, n, sizeof *inos, cmp_u32);
	if (scan_names(run->v, inos, n, paths, &ignored) == 0) {
		name_them(r->stay, r->n_stay, inos, paths, n);
		name_them(r->dropped, r->n_dropped, inos, paths, n);
	}
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
out:
	free(inos);
	free(paths);
}

int figures_end(struct run *run)
{
	struct report *r = run->r;
	struct rusage u;

	if (run->c) {
		struct commit_counters c;

		commit_get_counters(run->c, &c);
		r->transactions = c.transactions;
		r->updates = c.updates;
		r->blocks_logged = c.blocks_logged;
		r->meta_writes = c.writes;
		r->flushes = c.flushes;
	}
	if (getrusage(RUSAGE_SELF, &u) == 0)
		r->memory_peak = (uint64_t)u.ru_maxrss * 1024;
	if (!run->st || !run->ideal)
		return 0;
	if (r->has_after) {
		state_summary(run->st, run->ideal, &r->after);
		report_score_state(run->st, &r->score_after);
	}
	if (list_stay(run))
		return -1;
	if (run->o->names && run->v)
		look_up_names(run);
	return 0;
}
