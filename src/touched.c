/* SPDX-License-Identifier: GPL-2.0-or-later */
/* touched: what a run has changed, what it had to drop, and reading it again at the end. */
#include "engine_run.h"
#include "scaledefrag/array.h"
#include "scaledefrag/scan.h"
#include "scaledefrag/sort.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void run_drop_plan(struct run *run)
{
	run_stop_mover(run);
	plan_free(run->made);
	state_free(run->st);
	ideal_free(run->ideal);
	snapshot_free(run->s);
	run->made = NULL;
	run->n_do = run->n_done = run->n_noted = 0;
	run->p = NULL;
	run->st = NULL;
	run->ideal = NULL;
	run->s = NULL;
	run->partial = false;
}

void run_release(struct run *run)
{
	run_drop_plan(run);
	free(run->pass);
	commit_close(run->c);
	volume_close(run->v);
	free(run->bad_ino);
	free(run->bad_block);
	free(run->touched);
	rangeset_free(run->near);
	rangeset_free(run->written);
}

static int cmp_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int add_bad_ino(struct run *run, uint32_t ino)
{
	uint32_t *v = realloc(run->bad_ino, (run->n_bad_ino + 1) * sizeof *v);

	if (!v)
		return -1;
	run->bad_ino = v;
	v[run->n_bad_ino++] = ino;
	qsort(v, run->n_bad_ino, sizeof *v, sort_compare_u32);
	return 0;
}

static int add_bad_blocks(struct run *run, uint64_t start, uint64_t len)
{
	struct range *v;
	size_t k = 0;

	v = realloc(run->bad_block, (run->n_bad_block + 1) * sizeof *v);
	if (!v)
		return -1;
	run->bad_block = v;
	v[run->n_bad_block++] = (struct range){ start, len };
	qsort(v, run->n_bad_block, sizeof *v, cmp_range);
	for (size_t i = 1; i < run->n_bad_block; i++) { /* two files may have hit the same sector */
		uint64_t end = v[i].start + v[i].len;

		if (v[i].start <= v[k].start + v[k].len) {
			if (end > v[k].start + v[k].len)
				v[k].len = end - v[k].start;
		} else {
			v[++k] = v[i];
		}
	}
	run->n_bad_block = k + 1;
	return 0;
}

static const char *drop_text(const struct move_dropped *d)
{
	switch (d->why) {
	case MOVE_SOURCE_FAILED:
		return "its data can't be read";
	case MOVE_TARGET_FAILED:
		if (d->sys == ENOSPC || d->sys == EDQUOT) /* a sparse image */
			return "no space is left where the image lies for its copy";
		return "the free blocks it was to move to can't be written";
	case MOVE_VERIFY_FAILED:
		return "its copy did not read back equal";
	default:
		return "dropped";
	}
}

/* As e2fsck and debugfs count them. */
static uint64_t real_block(const struct run *run, uint64_t block)
{
	return block * volume_geometry(run->v)->cluster_blocks;
}

static int list_dropped(struct run *run, uint32_t ino, const struct move_dropped *d)
{
	struct report_file *v;
	const struct snapshot_file *f = snapshot_find(run->s, ino);

	v = realloc(run->r->dropped, (run->r->n_dropped + 1) * sizeof *v);
	if (!v)
		return -1;
	run->r->dropped = v;
	v[run->r->n_dropped++] = (struct report_file){
		.ino = ino,
		.runs = f ? filemap_runs(f->map.ext, f->map.n_ext) : 0,
		.blocks = f ? filemap_blocks(f->map.ext, f->map.n_ext) : 0,
		.block = real_block(run, d->block),
		.why = drop_text(d),
	};
	return 0;
}

int run_note_dropped(struct run *run, size_t batch, const struct move_dropped *dropped, bool *skip,
		     struct error *err)
{
	const struct plan_batch *b = &run->p->batch[batch];

	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct move_dropped *d = &dropped[i];
		uint32_t ino = run->p->file[b->first_file + i].ino;

		skip[i] = d->why != MOVE_KEPT;
		if (!skip[i])
			continue;
		if (add_bad_ino(run, ino) || list_dropped(run, ino, d))
			return error_nomem(err, "the list of dropped files");
		run_log(run, "inode %u stays where it is: %s (block %llu)", ino, drop_text(d),
			(unsigned long long)real_block(run, d->block));
		if (d->why != MOVE_SOURCE_FAILED && d->bad_len &&
		    add_bad_blocks(run, d->bad_target, d->bad_len))
			return error_nomem(err, "the list of bad blocks");
	}
	return 0;
}

/* A file dropped in an earlier round is left alone since, its runs counted by the scan. */
static uint64_t runs_now(const struct run *run, uint32_t ino)
{
	const struct snapshot_file *f = snapshot_find(run->s, ino);
	const struct filemap *m;
	const uint32_t *left;

	if (f) {
		m = state_map(run->st, (size_t)(f - run->s->file));
		return filemap_runs(m->ext, m->n_ext);
	}
	left = run->s->n_left ? bsearch(&ino, run->s->left_ino, run->s->n_left, sizeof(ino),
					sort_compare_u32)
			      : NULL;
	return left ? run->s->left_runs[left - run->s->left_ino] : 0;
}

/* The block groups that the blocks lie in. */
static int note_groups(struct run *run, uint64_t start, uint64_t len, struct error *err)
{
	const struct geometry *geo = &run->s->geo;
	uint32_t last = geometry_group_of(geo, start + len - 1);

	if (!run->near && rangeset_new(&run->near, err))
		return -1;
	for (uint32_t g = geometry_group_of(geo, start); g <= last; g++) {
		uint64_t first = geometry_group_first(geo, g);

		if (!rangeset_contains(run->near, first, 1) &&
		    rangeset_add(run->near, first, geometry_group_blocks(geo, g), err))
			return -1;
	}
	return 0;
}

static int note_file(struct run *run, const struct plan_file *f, struct error *err)
{
	const struct plan *p = run->p;

	for (uint64_t i = 0; i < f->n_move; i++) {
		const struct move *m = &p->move[f->first_move + i];

		if (note_groups(run, m->from, m->len, err) || note_groups(run, m->to, m->len, err))
			return -1;
	}
	for (uint64_t i = 0; i < f->n_freed; i++)
		if (note_groups(run, p->node[f->first_freed + i], 1, err))
			return -1;
	for (uint64_t i = 0; i < f->n_taken; i++)
		if (note_groups(run, p->node[f->first_taken + i], 1, err))
			return -1;
	return 0;
}

int run_note_touched(struct run *run, size_t batch, const bool *skip, struct error *err)
{
	const struct plan_batch *b = &run->p->batch[batch];

	if (array_reserve(&run->touched, &run->cap_touched, run->n_touched + b->n_file,
			  sizeof(*run->touched), err))
		return -1;
	for (uint64_t i = 0; i < b->n_file; i++) {
		struct touched t = { .ino = run->p->file[b->first_file + i].ino,
				     .at = run->n_touched };

		if (skip[i])
			continue;
		if (note_file(run, &run->p->file[b->first_file + i], err))
			return -1;
		t.runs = runs_now(run, t.ino);
		run->touched[run->n_touched++] = t;
	}
	return 0;
}

static int cmp_touched(const void *a, const void *b)
{
	const struct touched *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

void run_settle_touched(struct run *run)
{
	struct touched *v = run->touched;
	size_t k = 0;

	if (run->n_touched)
		qsort(v, run->n_touched, sizeof(*v), cmp_touched);
	for (size_t i = 0; i < run->n_touched; i++)
		if (i == 0 || v[i].ino != v[k - 1].ino)
			v[k++] = v[i];
	run->n_touched = k;
}

uint64_t run_worse(const struct run *run)
{
	uint64_t n = 0;

	for (size_t i = 0; i < run->n_touched; i++)
		n += runs_now(run, run->touched[i].ino) > run->touched[i].runs;
	return n;
}

static size_t sort_unique(uint32_t *v, size_t n)
{
	size_t k = 0;

	qsort(v, n, sizeof *v, sort_compare_u32);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || v[i] != v[i - 1])
			v[k++] = v[i];
	return k;
}

int run_planned(const struct run *run, size_t from, size_t to, uint32_t **inos, size_t *n)
{
	const struct plan_batch *batch = run->p->batch;
	uint32_t *v = malloc((run->p->n_file + 1) * sizeof(*v));
	size_t k = 0;

	if (!v)
		return -1;
	for (size_t b = from; b < to; b++)
		for (uint64_t i = 0; i < batch[b].n_file && k < run->p->n_file; i++)
			v[k++] = run->p->file[batch[b].first_file + i].ino;
	*n = sort_unique(v, k);
	*inos = v;
	return 0;
}

static bool same_map(const struct filemap *a, const struct filemap *b)
{
	size_t n, n_b;
	const struct extent *x = filemap_records(a, &n), *y = filemap_records(b, &n_b);

	if (n != n_b || a->depth != b->depth || a->indirect != b->indirect)
		return false;
	for (size_t i = 0; i < n; i++)
		if (x[i].lblk != y[i].lblk || x[i].pblk != y[i].pblk || x[i].len != y[i].len ||
		    x[i].unwritten != y[i].unwritten)
			return false;
	for (uint32_t l = 0; l < a->depth; l++) {
		if (a->tree->n_node[l] != b->tree->n_node[l])
			return false;
		for (size_t i = 0; i < a->tree->n_node[l]; i++)
			if (a->tree->node[l][i].pblk != b->tree->node[l][i].pblk ||
			    a->tree->node[l][i].count != b->tree->node[l][i].count)
				return false;
	}
	return true;
}

/* The set's next range, of which what lies before `end` counts. */
static bool next_before(const struct rangeset *rs, uint64_t at, uint64_t end, struct range *r)
{
	if (at >= end || !rangeset_next(rs, at, r) || r->start >= end)
		return false;
	if (r->start < at) {
		r->len -= at - r->start;
		r->start = at;
	}
	r->len = r->len < end - r->start ? r->len : end - r->start;
	return true;
}

/* Is the same free in both from `at` on? */
static int compare_free(const struct run *run, const struct rangeset *now, uint64_t at,
			uint64_t end, struct error *err)
{
	struct range a, b;

	while (next_before(now, at, end, &a)) {
		if (!next_before(run->st->free, at, end, &b) || a.start != b.start ||
		    a.len != b.len)
			return error_set(err, ERROR_OPERATION,
					 "%s: free space at block %llu is not what was committed; "
					 "run: e2fsck -fn %s",
					 volume_arg(run->v),
					 (unsigned long long)real_block(run, a.start),
					 volume_arg(run->v));
		at = a.start + a.len;
	}
	if (next_before(run->st->free, at, end, &b))
		return error_set(err, ERROR_OPERATION,
				 "%s: block %llu should be free now and is not; run: e2fsck -fn %s",
				 volume_arg(run->v), (unsigned long long)real_block(run, b.start),
				 volume_arg(run->v));
	return 0;
}

/* The bitmaps of the groups that the run has changed. */
static int check_free(struct run *run, struct error *err)
{
	struct rangeset *now = NULL;
	struct range r;
	int rc;

	if (!run->near)
		return 0;
	rc = scan_free(run->v, run->o->threads, run->near, &now, err);
	/* `avoid` is no target, so it is missing from the state's free space. */
	for (uint64_t at = 0;
	     !rc && rangeset_count(run->s->avoid) == 0 && rangeset_next(run->near, at, &r);
	     at = r.start + r.len)
		rc = compare_free(run, now, r.start, r.start + r.len, err);
	rangeset_free(now);
	return rc;
}

int run_reread(struct run *run, struct error *err)
{
	struct filemap *maps;
	size_t n = run->n_touched;
	uint32_t *inos = calloc(n + 1, sizeof(*inos));
	int rc = -1;

	maps = calloc(n + 1, sizeof *maps);
	if (!maps || !inos) {
		error_nomem(err, "the files to read again");
		n = 0;
		goto out;
	}
	for (size_t i = 0; i < n; i++)
		inos[i] = run->touched[i].ino;
	if (scan_files(run->v, inos, n, run->o->queue_depth, maps, err))
		goto out;
	for (size_t i = 0; i < n; i++) {
		const struct snapshot_file *f = snapshot_find(run->s, inos[i]);

		/* A file dropped in a later round is no longer in the snapshot as movable. */
		if (!f)
			continue;
		size_t index = (size_t)(f - run->s->file);

		if (!same_map(&maps[i], state_map(run->st, index))) {
			error_set(err, ERROR_OPERATION,
				  "%s: inode %u is not mapped as it was committed; run: e2fsck -fn "
				  "%s",
				  volume_arg(run->v), inos[i], volume_arg(run->v));
			goto out;
		}
		if (state_set_map(run->st, index, &maps[i], err))
			goto out;
	}
	rc = check_free(run, err);
out:
	for (size_t i = 0; i < n; i++)
		filemap_release(&maps[i]);
	free(maps);
	free(inos);
	return rc;
}
