/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pack: makes room where files don't fit as they are.
 *
 * The blocks of all fragmented files, and the tree blocks that they won't need any more, count as
 * gaps, and the files are put into the gaps anew, the largest first: where most of a file lies
 * already, else where it fits best, else where room can be made at the cost of files that are in
 * one piece (layout.c), else in fewer pieces. A file for which there is no way stays as it is, and
 * the whole is done again without its blocks. Then permute() brings about what was found.
 *
 * In the modes that gather free space, a region is cleared before that (clear.c), and what lies in
 * it gets a place like a file. Where not all have one, the region is made smaller. In the end gaps
 * elsewhere are merged (gather.c): so all of it costs one move.
 */
#include "layout.h"
#include "scaledefrag/sort.h"
#include <stdlib.h>

/* Blocks of other files that may have to move to make room for a block. */
#define EFFORT 64u
/* Attempts, each without the files that had no place in the one before. */
#define ATTEMPTS 6

/* With free space gathered: shares of the data that gaps elsewhere may be; 0: none. */
static const uint64_t slacks[ATTEMPTS] = { 0, 1024, 128, 32, 8, 3 };

/* When a file goes where some of it lies already: always, if that leaves no small gaps, never. */
enum keep { KEEP_ANY, KEEP_FLUSH, KEEP_NONE, KEEPS };

struct pack {
	const struct state *st;
	const struct ideal *ideal;
	struct layout lay;
	struct layout *first; /* where no file is frozen: how attempts begin */
	int *left;	      /* ways that haven't begun with it; the last one takes it */
	struct runs runs;
	struct ranges given;	/* scratch */
	struct weighted *begin; /* scratch: where a file would begin if a run stayed */
	size_t cap_begin;
	const struct weighted *item; /* files, the largest first */
	size_t n_item;
	bool *frozen;			   /* by item's index in `file`; NULL: none */
	const struct planner_options *aim; /* free space is gathered; NULL: it isn't */
	struct clearing clear;
	const size_t *file;
	struct want *want;
	size_t n_want, cap_want;
	uint64_t excess, goal, blocks; /* afterwards; to be moved */
};

uint64_t pack_least_records(const struct filemap *m)
{
	uint64_t n = 0, len = 0;
	for (size_t i = 0; i < m->n_ext; i++) {
		const struct extent *e = &m->ext[i], *last = i ? e - 1 : NULL;
		bool same = last && last->unwritten == e->unwritten &&
			    (uint64_t)last->lblk + last->len == e->lblk;
		len = same ? len + e->len : e->len;
		n += !same;
		for (uint64_t most = e->unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT;
		     len > most; len -= most)
			n++;
	}
	return n;
}

static int add_range(struct ranges *r, uint64_t start, uint64_t len, struct error *err)
{
	if (array_reserve(&r->at, &r->cap, r->n + 1, sizeof(*r->at), err))
		return -1;
	r->at[r->n++] = (struct range){ start, len };
	return 0;
}

/* Lists what the file gives up: its blocks, and the tree blocks that it won't need. */
static int give_up_place(struct pack *pk, size_t file, struct error *err)
{
	const struct filemap *m = state_map(pk->st, file);
	if (runs_of(m, &pk->runs, err))
		return -1;
	for (size_t i = 0; i < pk->runs.n; i++) {
		const struct run *r = &pk->runs.at[i];
		if (add_range(&pk->given, r->pblk, r->blocks, err))
			return -1;
	}
	pk->lay.at[file] = pk->lay.home[file] = NOWHERE;
	if (!m->depth || pack_least_records(m) > EXTENT_ROOT_RECORDS)
		return 0;
	for (uint32_t l = 0; l < m->depth; l++) {
		for (size_t i = 0; i < m->tree->n_node[l]; i++) {
			if (add_range(&pk->given, m->tree->node[l][i].pblk, 1, err))
				return -1;
		}
	}
	return 0;
}

/* Would the file at `start` leave nothing beside it, or as much as itself at least? */
static bool flush(const struct pack *pk, uint64_t start, uint64_t blocks)
{
	uint64_t before = room_before(pk->lay.gap, start);
	uint64_t behind = room_from(pk->lay.gap, start + blocks);
	return (!before || before >= blocks) && (!behind || behind >= blocks);
}

/* The place that keeps most of the file where it is. */
static int find_kept(struct pack *pk, uint64_t blocks, enum keep keep, uint64_t *start, bool *found,
		     struct error *err)
{
	const struct runs *r = &pk->runs;
	struct weighted *w;
	uint64_t best = 0;
	size_t n = 0;
	*found = false;
	if (array_reserve(&pk->begin, &pk->cap_begin, r->n, sizeof(*pk->begin), err))
		return -1;
	w = pk->begin;
	for (size_t i = 0; i < r->n; i++) {
		if (r->at[i].pblk >= r->at[i].offset)
			w[n++] = (struct weighted){ r->at[i].pblk - r->at[i].offset, i };
	}
	weighted_sort(w, n);
	for (size_t i = 0; i < n;) {
		uint64_t at = w[i].weight, kept = 0;
		for (; i < n && w[i].weight == at; i++)
			kept += r->at[w[i].index].blocks;
		if (kept <= best || !rangeset_contains(pk->lay.gap, at, blocks) ||
		    (keep == KEEP_FLUSH && !flush(pk, at, blocks)))
			continue;
		best = kept;
		*start = at;
		*found = true;
	}
	return 0;
}

static int add_want(struct pack *pk, struct want w, struct error *err)
{
	if (array_reserve(&pk->want, &pk->cap_want, pk->n_want + 1, sizeof(w), err))
		return -1;
	pk->want[pk->n_want++] = w;
	return 0;
}

/* Puts the file into the longest gaps. *ok = false: it would have to be in too many. */
static int spread(struct pack *pk, size_t file, uint64_t near, uint64_t ideal, bool *ok,
		  struct error *err)
{
	const struct filemap *m = state_map(pk->st, file);
	uint64_t left = pk->runs.blocks, most = pk->runs.n - 1, n = 0;
	uint64_t records = pack_least_records(m);
	size_t mark = pk->n_want;
	/* Its tree blocks are given away already. */
	if (m->depth && records <= EXTENT_ROOT_RECORDS && most > EXTENT_ROOT_RECORDS - records + 1)
		most = EXTENT_ROOT_RECORDS - records + 1;
	while (left && n < most) {
		struct range r;
		if (!rangeset_longest(pk->lay.gap, &r))
			break;
		if (r.len >= left)
			rangeset_best_fit(pk->lay.gap, left, near, &r);
		uint64_t len = r.len < left ? r.len : left;
		if (rangeset_remove(pk->lay.gap, r.start, len, err) ||
		    add_want(pk, (struct want){ file, pk->runs.blocks - left, len, r.start }, err))
			return -1;
		left -= len;
		n++;
	}
	*ok = !left;
	if (*ok) {
		pk->excess += n > ideal ? n - ideal : 0;
		return 0;
	}
	for (; pk->n_want > mark; pk->n_want--) {
		const struct want *w = &pk->want[pk->n_want - 1];
		if (rangeset_add(pk->lay.gap, w->to, w->len, err))
			return -1;
	}
	return 0;
}

static int place(struct pack *pk, size_t file, enum keep keep, bool *ok, struct error *err)
{
	const struct geometry *g = &pk->st->snap->geo;
	uint32_t ino = pk->st->snap->file[file].ino;
	uint64_t near = geometry_group_first(g, geometry_inode_group(g, ino)), start = 0;
	uint64_t blocks = pk->lay.blocks[file], ideal = ideal_runs(pk->ideal, blocks);
	struct range r;
	*ok = false;
	if (runs_of(state_map(pk->st, file), &pk->runs, err) ||
	    (keep != KEEP_NONE && find_kept(pk, blocks, keep, &start, ok, err)))
		return -1;
	if (!*ok && rangeset_best_fit(pk->lay.gap, blocks, near, &r)) {
		start = r.start;
		*ok = true;
	}
	if (*ok)
		return layout_put(&pk->lay, file, start, err);
	if (ideal == 1 && layout_make_room(&pk->lay, file, &pk->runs, EFFORT * blocks, ok, err))
		return -1;
	return *ok ? 0 : spread(pk, file, near, ideal, ok, err);
}

/* The runs of files in several that don't give up their places can make room, as they are. */
static int add_others(struct pack *pk, const bool *gives, struct error *err)
{
	size_t n = pk->st->snap->n_file;
	for (size_t i = 0; i < n; i++) {
		if (pk->lay.at[i] != NOWHERE || gives[i])
			continue;
		if (runs_of(state_map(pk->st, i), &pk->runs, err) ||
		    layout_add_runs(&pk->lay, i, &pk->runs, err))
			return -1;
	}
	return 0;
}

/* What there is to begin with: the files that aren't frozen have given up their places. */
static int begin(struct pack *pk, struct error *err)
{
	bool *gives;
	int rc = -1;
	if (layout_init(&pk->lay, pk->st, err))
		return -1;
	gives = calloc(pk->st->snap->n_file + 1, sizeof(*gives));
	if (!gives)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < pk->n_item; i++) {
		size_t k = pk->item[i].index;
		if (pk->frozen && pk->frozen[k])
			continue;
		gives[pk->file[k]] = true;
		if (give_up_place(pk, pk->file[k], err))
			goto out;
	}
	if (!add_others(pk, gives, err) && !ranges_join(&pk->given, pk->lay.gap, err))
		rc = 0;
out:
	free(gives);
	return rc;
}

static int take_first(struct pack *pk, struct error *err)
{
	int rc = 0;
#pragma omp critical(pack_first)
	{
		if (--*pk->left) {
			rc = layout_clone(pk->first, &pk->lay, err);
		} else {
			pk->lay = *pk->first;
			*pk->first = (struct layout){ 0 };
		}
	}
	return rc;
}

/* One attempt. *failed: files that had no place; they are frozen now. */
static int attempt(struct pack *pk, enum keep keep, bool first, size_t *failed, struct error *err)
{
	layout_release(&pk->lay);
	pk->n_want = 0;
	pk->excess = 0;
	*failed = 0;
	if (first ? take_first(pk, err) : begin(pk, err))
		return -1;
	for (size_t i = 0; i < pk->n_item; i++) {
		size_t k = pk->item[i].index;
		bool ok;
		if (pk->frozen[k]) {
			const struct filemap *m = state_map(pk->st, pk->file[k]);
			pk->excess += filemap_runs(m->ext, m->n_ext) -
				      ideal_runs(pk->ideal, pk->lay.blocks[pk->file[k]]);
			continue;
		}
		if (place(pk, pk->file[k], keep, &ok, err))
			return -1;
		pk->frozen[k] = !ok;
		*failed += !ok;
	}
	return 0;
}

/* ---- with free space gathered ---- */

/* What was lifted from the region: where it fits best, or where room can be made. */
static int put_lifted(struct pack *pk, size_t object, bool *ok, struct error *err)
{
	const struct runs none = { 0 };
	struct layout *l = &pk->lay;
	struct range r;
	*ok = rangeset_best_fit(l->gap, l->blocks[object], l->home[object], &r);
	if (*ok)
		return layout_put(l, object, r.start, err);
	return layout_make_room(l, object, &none, EFFORT * l->blocks[object], ok, err);
}

/* Everything outside of the region, the largest first. */
static int put_all(struct pack *pk, enum keep keep, bool *ok, struct error *err)
{
	const struct clearing *c = &pk->clear;
	size_t n = pk->n_item + c->n;
	struct weighted *w = malloc((n + 1) * sizeof(*w));
	int rc = 0;
	if (!w)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < n; i++) {
		size_t k = i - pk->n_item;
		uint64_t blocks = i < pk->n_item ? pk->item[i].weight : c->object[k].weight;
		w[i] = (struct weighted){ blocks, i };
	}
	weighted_sort_down(w, n);
	*ok = true;
	for (size_t i = 0; i < n && *ok && !rc; i++) {
		size_t k = w[i].index;
		if (k < pk->n_item)
			rc = place(pk, pk->file[pk->item[k].index], keep, ok, err);
		else
			rc = put_lifted(pk, c->object[k - pk->n_item].index, ok, err);
	}
	free(w);
	return rc;
}

/* The block behind the last object. */
static uint64_t top_of(const struct layout *l)
{
	uint64_t top = 0;
	for (size_t i = 0; i < l->n_file; i++) {
		if (l->at[i] != NOWHERE && l->at[i] + l->blocks[i] > top)
			top = l->at[i] + l->blocks[i];
	}
	return top;
}

static int gather(struct pack *pk, enum keep keep, uint64_t slack, bool *ok, struct error *err)
{
	struct layout *l = &pk->lay;
	struct range region;
	uint64_t need = 0;
	clear_release(&pk->clear);
	layout_release(l);
	pk->n_want = 0;
	pk->excess = 0;
	for (size_t i = 0; i < pk->n_item; i++)
		need += pk->item[i].weight;
	if (layout_clone(pk->first, l, err) ||
	    clear_choose(l, pk->aim, need, slack, &region, ok, err))
		return -1;
	if (!*ok)
		return 0;
	if (clear_lift(l, &region, &pk->clear, err) || put_all(pk, keep, ok, err))
		return -1;
	*ok = *ok && !pk->excess;
	if (!*ok)
		return 0;
	if (pk->aim->mode == PLAN_SHRINK) { /* nothing goes above the cut again */
		if (gather_merge(l, err))
			return -1;
		pk->goal = top_of(l);
		return 0;
	}
	if (clear_end(l, &pk->clear, err) || gather_merge(l, err))
		return -1;
	pk->goal = gather_goal(l->gap, &pk->st->snap->geo, pk->aim);
	return 0;
}

/* ---- what was found ---- */

/* Files in one piece, and those that were put in one. */
static int list_wants(struct pack *pk, struct error *err)
{
	if (layout_wants(&pk->lay, &pk->want, &pk->n_want, &pk->cap_want, err))
		return -1;
	pk->blocks = 0;
	for (size_t i = 0; i < pk->n_want; i++)
		pk->blocks += pk->want[i].len;
	return 0;
}

static int list_items(struct pack *pk, struct weighted **out, struct error *err)
{
	struct weighted *item = malloc((pk->n_item + 1) * sizeof(*item));
	if (!item)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < pk->n_item; i++) {
		const struct filemap *m = state_map(pk->st, pk->file[i]);
		item[i] = (struct weighted){ filemap_blocks(m->ext, m->n_ext), i };
	}
	weighted_sort_down(item, pk->n_item);
	*out = item;
	return 0;
}

static int find_layout(struct pack *pk, enum keep keep, bool *found, struct error *err)
{
	size_t failed = 1;
	pk->frozen = calloc(pk->n_item + 1, sizeof(*pk->frozen));
	if (!pk->frozen)
		return error_nomem(err, "planning");
	for (int i = 0; i < ATTEMPTS && failed; i++) {
		bool ok = false;
		if (pk->aim ? gather(pk, keep, slacks[i], &ok, err)
			    : attempt(pk, keep, i == 0, &failed, err))
			return -1;
		if (ok)
			failed = 0;
	}
	*found = !failed;
	return failed ? 0 : list_wants(pk, err);
}

/* All but what was found. */
static void release(struct pack *pk)
{
	layout_release(&pk->lay);
	free(pk->runs.at);
	free(pk->given.at);
	free(pk->begin);
	free(pk->frozen);
	clear_release(&pk->clear);
}

static bool better(const struct pack *pk, const struct packing *than)
{
	if (pk->excess != than->excess)
		return pk->excess < than->excess;
	if (pk->goal != than->goal)
		return pk->goal < than->goal;
	return pk->blocks < than->blocks;
}

/* Each way to keep files by itself: none depends on another. The first of equals is taken. */
static int find_best(const struct pack *way, unsigned threads, struct packing *out,
		     struct error *err)
{
	struct pack pk[KEEPS];
	struct error why[KEEPS] = { ERROR_INIT, ERROR_INIT, ERROR_INIT };
	bool found[KEEPS] = { false };
	int rc[KEEPS], all = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
	for (int keep = 0; keep < KEEPS; keep++) {
		pk[keep] = *way;
		rc[keep] = find_layout(&pk[keep], (enum keep)keep, &found[keep], &why[keep]);
		release(&pk[keep]);
	}
	for (int keep = 0; keep < KEEPS; keep++) {
		struct pack *k = &pk[keep];
		if (rc[keep] && !all)
			*err = why[keep];
		all |= rc[keep];
		if (all || !found[keep] || !better(k, out)) {
			free(k->want);
			continue;
		}
		free(out->want);
		*out = (struct packing){ k->want, k->n_want, k->excess, k->goal, k->blocks };
	}
	return all;
}

static int find(const struct pack *task, unsigned threads, struct packing *out, struct error *err)
{
	struct pack base = *task, way = *task;
	struct weighted *item = NULL;
	int rc = -1, left = KEEPS;
	*out = (struct packing){ .excess = UINT64_MAX };
	if (list_items(&base, &item, err))
		goto out;
	base.item = way.item = item;
	way.first = &base.lay;
	way.left = &left;
	if (begin(&base, err) || layout_index(&base.lay, err))
		goto out;
	rc = find_best(&way, threads, out, err);
out:
	release(&base);
	free(item);
	return rc;
}

int pack_find(const struct state *st, const struct ideal *ideal, const size_t *file, size_t n,
	      unsigned threads, struct packing *out, struct error *err)
{
	struct pack task = { .st = st, .ideal = ideal, .file = file, .n_item = n };
	return find(&task, threads, out, err);
}

int pack_gather(const struct state *st, const struct ideal *ideal, const size_t *file, size_t n,
		const struct planner_options *o, struct packing *out, struct error *err)
{
	struct pack task = { .st = st, .ideal = ideal, .file = file, .n_item = n, .aim = o };
	return find(&task, planner_threads(o), out, err);
}
