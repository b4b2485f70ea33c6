/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gather: free space in as few runs as can be, or as many free slabs as can be.
 *
 * Where files are fragmented, pack.c puts them aside of the region that is to be free first.
 * What lies between two gaps is moved away as a whole, the least blocks first: into other gaps
 * where it fits best, or beside its neighbour. Either way one gap less is left, and where
 * something fills a gap, two. In the end there is at most one gap between two fixed blocks.
 *
 * For slabs: those with the least data in them, and nothing fixed, are emptied into those with
 * something fixed or the most data, so nothing moves twice. Where merging gaps gives more free
 * slabs, that is done instead.
 */
#include "layout.h"
#include <stdlib.h>

/* Passes over the clusters; each but the last leaves fewer gaps. */
#define PASSES 32
/* Room is plenty if it is so many times what has to be moved. */
#define PLENTY 4u

struct cluster {
	uint64_t start, end;
};

struct clusters {
	struct cluster *at;
	struct weighted *order;
	size_t n;
};

/* Do objects fill [start, end)? */
static bool all_objects(const struct layout *l, uint64_t start, uint64_t end)
{
	uint32_t i;
	while (start < end && layout_object(l, start, &i))
		start += l->blocks[i];
	return start == end;
}

/* Blocks that have to be written to move what is in it. */
static uint64_t cost_of(const struct layout *l, uint64_t start, uint64_t end)
{
	uint64_t cost = 0;
	uint32_t i;
	for (; start < end && layout_object(l, start, &i); start += l->blocks[i])
		cost += l->at[i] == l->home[i] ? l->blocks[i] : 0;
	return cost;
}

/* What lies between two gaps, the cheapest first. */
static int find_clusters(const struct layout *l, struct clusters *c, struct error *err)
{
	size_t most = rangeset_count(l->gap) + 1;
	struct range last, r;
	c->n = 0;
	c->at = malloc(most * sizeof(*c->at));
	c->order = malloc(most * sizeof(*c->order));
	if (!c->at || !c->order)
		return error_nomem(err, "planning");
	if (!rangeset_next(l->gap, 0, &last))
		return 0;
	for (; rangeset_next(l->gap, last.start + last.len, &r); last = r) {
		uint64_t start = last.start + last.len;
		if (!all_objects(l, start, r.start))
			continue;
		c->order[c->n] = (struct weighted){ cost_of(l, start, r.start), c->n };
		c->at[c->n++] = (struct cluster){ start, r.start };
	}
	weighted_sort(c->order, c->n);
	return 0;
}

/* Puts what was lifted into the gaps that fit best. *ok = false: not all of it fits. */
static int put_best(struct layout *l, size_t n, uint64_t near, bool *ok, struct error *err)
{
	*ok = true;
	weighted_sort_down(l->file, n);
	for (size_t i = 0; i < n && *ok; i++) {
		struct range r;
		*ok = rangeset_best_fit(l->gap, l->file[i].weight, near, &r);
		if (*ok && layout_put(l, l->file[i].index, r.start, err))
			return -1;
	}
	return 0;
}

/* Moves the cluster to the left end of the gap before it. */
static int slide(struct layout *l, const struct cluster *c, struct error *err)
{
	uint64_t at = c->start - room_before(l->gap, c->start);
	size_t n;
	if (layout_lift_all(l, c->start, c->end, &n, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (layout_put(l, l->file[i].index, at, err))
			return -1;
		at += l->file[i].weight;
	}
	return 0;
}

static int move_away(struct layout *l, const struct cluster *c, struct error *err)
{
	size_t n, mark = l->n_undo, gaps = rangeset_count(l->gap);
	bool ok;
	/* It may have changed since it was listed. */
	if (!room_before(l->gap, c->start) || !room_from(l->gap, c->end) ||
	    !all_objects(l, c->start, c->end))
		return 0;
	if (layout_lift_all(l, c->start, c->end, &n, err) || put_best(l, n, c->start, &ok, err))
		return -1;
	if (ok && rangeset_count(l->gap) < gaps)
		return 0;
	return layout_take_back(l, mark, err) || slide(l, c, err) ? -1 : 0;
}

int gather_merge(struct layout *l, struct error *err)
{
	for (int pass = 0; pass < PASSES; pass++) {
		struct clusters c = { 0 };
		int rc = find_clusters(l, &c, err);
		bool any = c.n > 0;
		for (size_t i = 0; i < c.n && !rc; i++)
			rc = move_away(l, &c.at[c.order[i].index], err);
		free(c.at);
		free(c.order);
		if (rc || !any)
			return rc;
	}
	return 0;
}

/* ---- slabs ---- */

static uint64_t n_slabs(const struct geometry *g, const struct planner_options *o)
{
	return g->blocks > o->slab_offset ? (g->blocks - o->slab_offset) / o->slab_blocks : 0;
}

static uint64_t slab_start(const struct planner_options *o, uint64_t slab)
{
	return o->slab_offset + slab * o->slab_blocks;
}

static uint64_t count_slabs(const struct rangeset *rs, const struct geometry *g,
			    const struct planner_options *o)
{
	uint64_t count = 0, n = n_slabs(g, o);
	struct range r;
	for (uint64_t at = 0; rangeset_next(rs, at, &r); at = r.start + r.len) {
		uint64_t first = r.start > o->slab_offset ? r.start - o->slab_offset : 0;
		uint64_t end = r.start + r.len > o->slab_offset
				       ? (r.start + r.len - o->slab_offset) / o->slab_blocks
				       : 0;
		first = first / o->slab_blocks + (first % o->slab_blocks != 0);
		end = end < n ? end : n;
		count += end > first ? end - first : 0;
	}
	return count;
}

uint64_t gather_goal(const struct rangeset *free, const struct geometry *g,
		     const struct planner_options *o)
{
	return o->slab_blocks ? UINT64_MAX - count_slabs(free, g, o) : rangeset_count(free);
}

/* Blocks that have to be moved to free it; UINT64_MAX: it can't be, or needs not. */
static uint64_t slab_cost(const struct layout *l, uint64_t start, uint64_t end)
{
	uint64_t at = start, cost = 0, key;
	uint32_t i;
	struct range r;
	if (addrmap_floor(&l->object, start, &key, &i) && key + l->blocks[i] > start) {
		cost += l->blocks[i];
		at = key + l->blocks[i];
	}
	while (at < end) {
		if (rangeset_next(l->gap, at, &r) && r.start <= at) {
			at = r.start + r.len;
		} else if (layout_object(l, at, &i)) {
			cost += l->blocks[i];
			at += l->blocks[i];
		} else {
			return UINT64_MAX;
		}
	}
	return cost ? cost : UINT64_MAX;
}

int layout_close_gaps(struct layout *l, uint64_t start, uint64_t end, struct ranges *closed,
		      struct error *err)
{
	struct range r;
	while (rangeset_next(l->gap, start, &r) && r.start < end) {
		uint64_t a = r.start > start ? r.start : start;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		if ((closed && array_reserve(&closed->at, &closed->cap, closed->n + 1,
					     sizeof(*closed->at), err)) ||
		    rangeset_remove(l->gap, a, z - a, err))
			return -1;
		if (closed)
			closed->at[closed->n++] = (struct range){ a, z - a };
	}
	return 0;
}

/* What lies in the slab goes elsewhere. *ok = false: nothing is changed. */
static int empty_slab(struct layout *l, uint64_t start, uint64_t end, bool *ok, struct error *err)
{
	struct ranges closed = { 0 };
	size_t n, mark = l->n_undo;
	uint64_t key, first = start;
	uint32_t i;
	int rc = -1;
	if (addrmap_floor(&l->object, start, &key, &i) && key + l->blocks[i] > start)
		first = key;
	if (layout_lift_all(l, first, end, &n, err) ||
	    layout_close_gaps(l, start, end, &closed, err) || put_best(l, n, start, ok, err))
		goto out;
	rc = 0;
	for (size_t k = 0; k < closed.n && !*ok && !rc; k++)
		rc = rangeset_add(l->gap, closed.at[k].start, closed.at[k].len, err);
	if (!*ok && !rc)
		rc = layout_take_back(l, mark, err);
out:
	free(closed.at);
	return rc;
}

/* What is free of the slab is a place to put things again. */
static int open_slab(struct layout *l, uint64_t start, uint64_t end, struct error *err)
{
	struct range r;
	for (uint64_t at = start;
	     at < end && rangeset_next(l->st->free, at, &r) && r.start < end;) {
		uint64_t a = r.start > at ? r.start : at;
		at = r.start + r.len < end ? r.start + r.len : end;
		if (rangeset_add(l->gap, a, at - a, err))
			return -1;
	}
	return 0;
}

/* Those that can be emptied, the cheapest first; all free ones and they are closed. */
static int list_slabs(struct layout *l, const struct planner_options *o, struct weighted *w,
		      size_t *n, struct error *err)
{
	uint64_t count = n_slabs(&l->st->snap->geo, o);
	*n = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = slab_start(o, i);
		uint64_t cost = slab_cost(l, start, start + o->slab_blocks);
		if (cost != UINT64_MAX)
			w[(*n)++] = (struct weighted){ cost, (size_t)i };
		else if (rangeset_contains(l->gap, start, o->slab_blocks) &&
			 layout_close_gaps(l, start, start + o->slab_blocks, NULL, err))
			return -1;
	}
	weighted_sort(w, *n);
	for (size_t i = 0; i < *n; i++) {
		uint64_t start = slab_start(o, w[i].index);
		if (layout_close_gaps(l, start, start + o->slab_blocks, NULL, err))
			return -1;
	}
	return 0;
}

/* Where one can't be emptied, the dearest one becomes a place to put things. */
static int empty_slabs(struct layout *l, const struct planner_options *o, struct error *err)
{
	struct weighted *w = malloc((n_slabs(&l->st->snap->geo, o) + 1) * sizeof(*w));
	size_t n;
	int rc = -1;
	if (!w)
		return error_nomem(err, "planning");
	if (list_slabs(l, o, w, &n, err))
		goto out;
	for (size_t i = 0; i < n;) {
		uint64_t start = slab_start(o, w[i].index);
		bool ok;
		if (empty_slab(l, start, start + o->slab_blocks, &ok, err))
			goto out;
		if (ok) {
			i++;
			continue;
		}
		/* If there is plenty of room, it is the slab's own fault. */
		size_t give = rangeset_blocks(l->gap) / PLENTY < w[i].weight ? --n : i++;
		start = slab_start(o, w[give].index);
		if (open_slab(l, start, start + o->slab_blocks, err))
			goto out;
	}
	rc = 0;
out:
	free(w);
	return rc;
}

/* The slabs that would be free, and the blocks that have to be moved for it. */
static int rate(const struct layout *l, const struct planner_options *o, uint64_t *slabs,
		uint64_t *moved, struct error *err)
{
	struct rangeset *rs;
	int rc = 0;
	*moved = 0;
	if (rangeset_clone(l->st->free, &rs, err))
		return -1;
	for (int put = 0; put < 2; put++) {
		for (size_t i = 0; i < l->n_file && !rc; i++) {
			if (l->at[i] == l->home[i])
				continue;
			rc = put ? rangeset_remove(rs, l->at[i], l->blocks[i], err)
				 : rangeset_add(rs, l->home[i], l->blocks[i], err);
			*moved += put ? l->blocks[i] : 0;
		}
	}
	*slabs = count_slabs(rs, &l->st->snap->geo, o);
	rangeset_free(rs);
	return rc;
}

/* The layout with the more free slabs, of equals the cheaper one. */
static int find_slabs(struct layout *l, const struct planner_options *o, struct error *err)
{
	struct layout other = { 0 };
	uint64_t slabs[2], moved[2];
	int rc = -1;
	if (empty_slabs(l, o, err) || rate(l, o, &slabs[0], &moved[0], err) ||
	    layout_init_runs(&other, l->st, err) || layout_index(&other, err) ||
	    gather_merge(&other, err) || rate(&other, o, &slabs[1], &moved[1], err))
		goto out;
	if (slabs[1] > slabs[0] || (slabs[1] == slabs[0] && moved[1] < moved[0])) {
		struct layout swap = *l;
		*l = other;
		other = swap;
	}
	rc = 0;
out:
	layout_release(&other);
	return rc;
}

int gather_find(const struct state *st, const struct planner_options *o, struct packing *out,
		bool *found, struct error *err)
{
	struct layout l = { 0 };
	size_t cap = 0;
	int rc = -1;
	if (layout_init_runs(&l, st, err) || layout_index(&l, err) ||
	    (o->slab_blocks ? find_slabs(&l, o, err) : gather_merge(&l, err)) ||
	    layout_wants(&l, &out->want, &out->n, &cap, err))
		goto out;
	*found = out->n > 0;
	rc = 0;
out:
	layout_release(&l);
	return rc;
}
