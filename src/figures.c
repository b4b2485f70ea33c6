/* SPDX-License-Identifier: GPL-2.0-or-later */
/* figures: fills the report's numbers at the points of the pipeline where they are known. */
#include "engine_run.h"
#include "scaledefrag/array.h"
#include "scaledefrag/scan.h"
#include "scaledefrag/sort.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void figures_options(struct run *run)
{
	static const char *const mode[] = { [PLAN_FILES] = "files",
					    [PLAN_FREE] = "free",
					    [PLAN_SHRINK] = "shrink",
					    [PLAN_LAYOUT] = "layout" };
	struct report *r = run->r;

	r->name = run->o->volume.path;
	r->mode = mode[run->o->plan.mode];
	r->threads = run->o->threads;
	r->queue_depth = run->o->queue_depth;
}

void figures_volume(struct run *run)
{
	struct report *r = run->r;

	snprintf(r->what, sizeof r->what, "%s", volume_what(run->v));
	r->block_size = run->block_size;
	r->ordered = volume_geometry(run->v)->ordered;
	r->mmp = volume_mmp(run->v) != 0;
	r->direct = volume_device(run->v)->direct;
}

void figures_before(struct run *run)
{
	struct report *r = run->r;

	state_summary(run->st, run->ideal, &r->before);
	report_score_state(run->st, &r->score_before);
	if (run->o->plan.mode == PLAN_LAYOUT)
		state_reading(run->st, &r->read_before);
	r->front = run->s->n_front;
	r->data_bytes = r->before.blocks * run->block_size;
	memcpy(r->left, run->s->count, sizeof r->left);
	r->longest_gap = ideal_longest_gap(run->ideal);
	pictures_before(run);
}

void figures_after(struct run *run)
{
	struct report *r = run->r;

	state_summary(run->st, run->ideal, &r->after);
	report_score_state(run->st, &r->score_after);
	if (run->o->plan.mode == PLAN_LAYOUT)
		state_reading(run->st, &r->read_after);
	pictures_after(run, run->st);
}

void figures_left_out(struct run *run)
{
	run->r->left_out_batches = run->p->n_batch - run->n_do;
	run->r->left_out_bytes = run_batch_bytes(run, run->n_do, run->p->n_batch);
}

/* Files that the state leaves with more runs than the snapshot has. */
static uint64_t worse_in(const struct state *st)
{
	uint64_t n = 0;

	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *was = &st->snap->file[i].map, *is = state_map(st, i);

		n += filemap_runs(is->ext, is->n_ext) > filemap_runs(was->ext, was->n_ext);
	}
	return n;
}

/* Where the plan is not carried out to its end, its own prediction does not hold. */
static int predict(struct run *run, struct summary *out, struct reading *reading, struct error *err)
{
	struct state *st;
	int rc;

	*out = run->p->predicted;
	if (run->n_do == run->p->n_batch && !run->o->dry_run && run->o->plan.mode != PLAN_LAYOUT)
		return 0;
	rc = state_new(run->s, &st, err);
	if (rc)
		return rc;
	for (size_t b = 0; b < run->n_do && !rc; b++)
		rc = plan_apply(run->p, b, NULL, st, err);
	if (!rc)
		rc = state_summary(st, run->ideal, out);
	if (!rc && run->o->plan.mode == PLAN_LAYOUT)
		state_reading(st, reading);
	if (!rc && run->o->dry_run)
		run->r->worse += worse_in(st);
	if (!rc && run->o->dry_run && !run->by_passes)
		pictures_after(run, st);
	state_free(st);
	return rc;
}

/* A pass makes this of its files; free space is everyone's. */
static void replace(struct summary *sum, const struct summary *was, const struct summary *is)
{
	sum->files += is->files - was->files;
	sum->frag_files += is->frag_files - was->frag_files;
	sum->dirs += is->dirs - was->dirs;
	sum->frag_dirs += is->frag_dirs - was->frag_dirs;
	sum->runs += is->runs - was->runs;
	sum->ideal_runs += is->ideal_runs - was->ideal_runs;
	sum->blocks += is->blocks - was->blocks;
	sum->frag_blocks += is->frag_blocks - was->frag_blocks;
	sum->tree_blocks += is->tree_blocks - was->tree_blocks;
	sum->free_blocks = is->free_blocks;
	sum->free_runs = is->free_runs;
	sum->longest_free = is->longest_free;
}

/*
 * A rough guess, and said to be one: 200 MB/s of copying, a random read each 25 us at depth, and
 * four flushes of 5 ms a batch.
 */
double figures_estimate(uint64_t bytes, uint64_t moves, uint64_t batches)
{
	return (double)bytes / 200e6 + (double)moves * 25e-6 + (double)batches * 0.02;
}

/* A tree that moves alone counts as one. */
static uint64_t moves_of(const struct plan_file *f)
{
	return f->n_move ? f->n_move : 1;
}

int figures_plan(struct run *run, struct error *err)
{
	struct report *r = run->r;
	struct summary was, is;

	if (predict(run, &is, &r->read_predicted, err))
		return -1;
	if (!run->by_passes) {
		r->predicted = is;
	} else {
		if (!run->at_pass)
			r->predicted = r->before;
		state_summary(run->st, run->ideal, &was);
		replace(&r->predicted, &was, &is);
	}
	r->plan_batches += run->n_do;
	for (size_t b = 0; b < run->n_do; b++)
		for (uint64_t i = 0; i < run->p->batch[b].n_file; i++)
			r->plan_moves += moves_of(&run->p->file[run->p->batch[b].first_file + i]);
	r->plan_bytes += run_batch_bytes(run, 0, run->n_do);
	r->estimate_seconds = figures_estimate(r->plan_bytes, r->plan_moves, r->plan_batches);
	return 0;
}

static int more_runs_first(const void *a, const void *b)
{
	const struct report_file *x = a, *y = b;

	if (x->runs != y->runs)
		return x->runs < y->runs ? 1 : -1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

struct inos {
	uint32_t *at; /* sorted */
	size_t n;
};

static bool listed(const struct inos *v, uint32_t ino)
{
	return v->n && bsearch(&ino, v->at, v->n, sizeof(*v->at), sort_compare_u32);
}

/* Files that the plan moves, which was or was not carried out, and where it ends early. */
struct fate {
	struct inos planned, later;
};

static void free_fate(struct fate *f)
{
	free(f->planned.at);
	free(f->later.at);
}

static int find_fate(const struct run *run, struct fate *f)
{
	bool shown = run->o->dry_run || run->o->report_only;
	size_t end = shown ? run->n_do : run->n_done;

	*f = (struct fate){ 0 };
	if (!run->p)
		return 0;
	if (shown && run_planned(run, 0, end, &f->planned.at, &f->planned.n))
		return -1;
	return run_planned(run, end, run->p->n_batch, &f->later.at, &f->later.n);
}

static const char *why_planned(const struct report_file *f, const struct fate *fate)
{
	if (listed(&fate->planned, f->ino))
		return "a run would move it";
	return listed(&fate->later, f->ino) ? "left for another run" : NULL;
}

static const char *why_fragmented(const struct run *run, const struct report_file *f,
				  const struct fate *fate, uint64_t longest_free)
{
	const char *why = why_planned(f, fate);

	if (why)
		return why;
	if (!run->p && (run->stopped || run->cut)) /* it ended between passes, or in one */
		return "left for another run";
	return f->blocks > longest_free ? "no free run is long enough, and no room could be made"
					: "no move would make it better";
}

struct report_file figures_file(const struct run *run, size_t i)
{
	const struct filemap *m = state_map(run->st, i);
	uint64_t blocks = filemap_blocks(m->ext, m->n_ext);

	return (struct report_file){ .ino = run->s->file[i].ino,
				     .runs = filemap_runs(m->ext, m->n_ext),
				     .blocks = blocks,
				     .ideal_runs = ideal_runs(run->ideal, blocks) };
}

/* Of n files those that are to be listed. */
static size_t keep_worst(struct report_file *v, size_t n, size_t list)
{
	if (n > 1)
		qsort(v, n, sizeof(*v), more_runs_first);
	return n < list ? n : list;
}

/* Counts all, keeps twice as many as are to be listed at most. */
static int collect_fragmented(struct run *run, struct report_file **v, size_t *n)
{
	size_t cap = 0, list = run->o->list;
	struct error nomem = ERROR_INIT;

	for (size_t i = 0; i < run->s->n_file; i++) {
		struct report_file f = figures_file(run, i);

		if (f.runs <= f.ideal_runs)
			continue;
		run->r->n_stay_all++;
		if (*n >= 2 * list)
			*n = keep_worst(*v, *n, list);
		if (!list)
			continue;
		if (array_reserve(v, &cap, *n + 1, sizeof(**v), &nomem))
			return -1;
		(*v)[(*n)++] = f;
	}
	*n = keep_worst(*v, *n, list);
	return 0;
}

int figures_stay(struct run *run)
{
	struct report *r = run->r;
	struct report_file *v = NULL;
	size_t n = 0;
	struct fate fate;
	struct range longest = { 0, 0 };
	int rc = -1;

	free(r->stay); /* of an earlier round: without names */
	r->stay = NULL;
	r->n_stay = r->n_stay_all = 0;
	if (find_fate(run, &fate) || collect_fragmented(run, &v, &n)) {
		free(v);
		goto out;
	}
	rangeset_longest(run->st->free, &longest);
	for (size_t i = 0; i < n; i++)
		v[i].why = why_fragmented(run, &v[i], &fate, longest.len);
	r->n_stay = n;
	r->stay = v;
	rc = 0;
out:
	free_fate(&fate);
	return rc;
}

int figures_stay_planned(struct run *run)
{
	struct report *r = run->r;
	struct fate fate;
	int rc = find_fate(run, &fate);

	for (size_t i = 0; i < r->n_stay && !rc; i++) {
		const char *why = why_planned(&r->stay[i], &fate);

		r->stay[i].why = why ? why : r->stay[i].why;
	}
	free_fate(&fate);
	return rc;
}

static void name_them(struct report_file *v, size_t n, const uint32_t *inos, char *const *paths,
		      size_t total)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t *at =
			bsearch(&v[i].ino, inos, total, sizeof *inos, sort_compare_u32);

		if (at && paths[at - inos])
			v[i].path = strdup(paths[at - inos]);
	}
}

static size_t unique(uint32_t *v, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (!k || v[k - 1] != v[i])
			v[k++] = v[i];
	return k;
}

/* Names are a courtesy: a failure to read them is no failure of the run. */
static void look_up_names(struct run *run)
{
	struct report *r = run->r;
	size_t n = r->n_stay + r->n_dropped + r->n_worst + r->n_swap, k = 0;
	uint32_t *inos = calloc(n + 1, sizeof *inos);
	char **paths = calloc(n + 1, sizeof *paths);
	struct error ignored = ERROR_INIT;

	if (!n || !inos || !paths)
		goto out;
	for (size_t i = 0; i < r->n_stay; i++)
		inos[k++] = r->stay[i].ino;
	for (size_t i = 0; i < r->n_dropped; i++)
		inos[k++] = r->dropped[i].ino;
	for (size_t i = 0; i < r->n_worst; i++)
		inos[k++] = r->worst[i].ino;
	for (size_t i = 0; i < r->n_swap; i++)
		inos[k++] = r->swap[i].ino;
	qsort(inos, n, sizeof *inos, sort_compare_u32);
	n = unique(inos, n);
	if (scan_names(run->v, inos, n, paths, &ignored) == 0) {
		name_them(r->stay, r->n_stay, inos, paths, n);
		name_them(r->dropped, r->n_dropped, inos, paths, n);
		name_them(r->worst, r->n_worst, inos, paths, n);
		name_them(r->swap, r->n_swap, inos, paths, n);
	}
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
out:
	free(inos);
	free(paths);
}

int figures_swap(struct run *run, struct error *err)
{
	const struct snapshot *s = run->s;
	struct report *r = run->r;

	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *was = &s->file[i].map, *m = state_map(run->st, i);
		struct report_file *v;
		size_t k = 0;

		if (!s->file[i].swap || m->ext[0].pblk == was->ext[0].pblk)
			continue;
		while (k < r->n_swap && r->swap[k].ino != s->file[i].ino)
			k++;
		v = reallocarray(r->swap, k + 1 > r->n_swap ? k + 1 : r->n_swap, sizeof *v);
		if (!v)
			return error_nomem(err, "the report");
		r->swap = v;
		if (k == r->n_swap)
			r->n_swap++;
		v[k] = (struct report_file){ .ino = s->file[i].ino,
					     .block = m->ext[0].pblk * (run->block_size / 4096) };
	}
	return 0;
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
	if (!run->partial) {
		if (r->has_after)
			figures_after(run);
		run_settle_touched(run);
		r->worse += run_worse(run);
		if (figures_stay(run))
			return -1;
	}
	if (run->o->names && run->v)
		look_up_names(run);
	return 0;
}
