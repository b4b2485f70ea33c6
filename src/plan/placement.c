/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy `files`: every file contiguous, for the least bytes written.
 *
 *  1. Keep the place of one run, or of several that lie right to each other, and put the rest
 *     beside and between, if that makes the file contiguous;
 *  2. else move the whole file to the free run that fits best, near its inode's group; aligned if
 *     it was, or in mode `layout` if it is a long one;
 *  3. else as few runs as can be: neighbours put beside each other or together (partial.c), or the
 * whole file spread over the longest free runs.
 */
#include "plan_internal.h"
#include <stdlib.h>

#define HUGE_PAGE (2u << 20) /* bytes */

uint64_t placement_need(const struct runs *r)
{
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i + 1 < r->n; i++) {
		uint64_t two = r->at[i].blocks + r->at[i + 1].blocks;
		if (two < least)
			least = two;
	}
	return least;
}

/* A place where some of the file's blocks are already. */
struct place {
	uint64_t start;
	size_t first, n; /* those runs, in placer.fixed */
	uint64_t kept;	 /* their blocks */
};

/*
 * The gaps that the runs of `pl` leave in its place: gap `i` comes before its run i, the last one
 * behind all. Gives its length, which may be 0.
 */
static uint64_t gap_at(const struct placer *p, const struct place *pl, size_t i, uint64_t *offset)
{
	const struct run *before = i ? &p->runs.at[p->fixed[pl->first + i - 1].index] : NULL;
	*offset = before ? before->offset + before->blocks : 0;
	if (i == pl->n)
		return p->runs.blocks - *offset;
	return p->runs.at[p->fixed[pl->first + i].index].offset - *offset;
}

static bool gaps_are_free(const struct placer *p, const struct place *pl, uint64_t longest,
			  const struct rangeset *avail)
{
	for (int look = 0; look < 2; look++) { /* first without looking up any */
		for (size_t i = 0; i <= pl->n; i++) {
			uint64_t offset, len = gap_at(p, pl, i, &offset);
			if (len > longest ||
			    (look && len && !rangeset_contains(avail, pl->start + offset, len)))
				return false;
		}
	}
	return true;
}

/* Where the file can be whole while most of its blocks stay; best->kept == 0: nowhere. */
static int find_place(struct placer *p, const struct rangeset *avail, struct place *best,
		      struct error *err)
{
	const struct runs *r = &p->runs;
	struct range longest = { 0 };
	size_t n = 0;
	*best = (struct place){ 0 };
	if (array_reserve(&p->fixed, &p->cap_fixed, r->n, sizeof(*p->fixed), err))
		return -1;
	for (size_t i = 0; i < r->n; i++) {
		if (r->at[i].pblk > r->at[i].offset)
			p->fixed[n++] = (struct weighted){ r->at[i].pblk - r->at[i].offset, i };
	}
	weighted_sort(p->fixed, n);
	rangeset_longest(avail, &longest);
	for (size_t i = 0; i < n;) {
		struct place pl = { .start = p->fixed[i].weight, .first = i };
		for (; i < n && p->fixed[i].weight == pl.start; i++, pl.n++)
			pl.kept += r->at[p->fixed[i].index].blocks;
		if (pl.kept > best->kept && gaps_are_free(p, &pl, longest.len, avail))
			*best = pl;
	}
	return 0;
}

static int claim_gaps(struct placer *p, const struct place *pl, struct rangeset *avail,
		      struct error *err)
{
	targets_reset(&p->a);
	p->a.runs = 1;
	for (size_t i = 0; i <= pl->n; i++) {
		uint64_t offset, len = gap_at(p, pl, i, &offset);
		if (len && targets_claim(&p->a, offset, len, pl->start + offset, avail, err))
			return -1;
	}
	return 0;
}

/* The first block of `in`, aligned if the file's first block `now` was and there is room for it. */
static bool start_in(const struct range *in, uint64_t blocks, uint64_t align, uint64_t now,
		     uint64_t *start)
{
	*start = in->start;
	if (align < 2 || now % align || in->start % align == 0)
		return true;
	uint64_t skip = align - in->start % align;
	if (in->len < skip || in->len - skip < blocks)
		return false;
	*start += skip;
	return true;
}

/* A long file, for mode `layout`: where it begins aligned. */
static bool find_aligned(struct placer *p, uint64_t near, const struct rangeset *avail,
			 uint64_t *start)
{
	struct align *a = &p->align;
	uint64_t blocks = p->runs.blocks, hole = 0;
	struct range r;
	bool ok = a->unit && blocks >= a->least;
	for (int wide = 0; ok && wide < 2; wide++) {
		ok = rangeset_best_fit(avail, blocks + (wide ? a->unit - 1 : 0), near, &r);
		hole = ok ? align_hole(a, r.start, blocks) : 0;
		if (ok && hole + blocks <= r.len)
			break;
	}
	if (!ok || !align_take(a, hole, p->runs.at[0].pblk))
		return false;
	*start = r.start + hole;
	return true;
}

/* Where the whole file fits best. */
static bool find_whole(struct placer *p, uint64_t near, const struct rangeset *avail,
		       uint64_t *start)
{
	struct range fit;
	uint64_t blocks = p->runs.blocks, now = p->runs.at[0].pblk;
	uint64_t align[] = { HUGE_PAGE / geometry_cluster_size(p->geo), p->geo->align_blocks };
	if (!rangeset_best_fit(avail, blocks, near, &fit))
		return false;
	if (find_aligned(p, near, avail, start))
		return true;
	for (size_t i = 0; i < 2; i++) {
		struct range wide;
		if (align[i] < 2 || now % align[i])
			continue;
		if (start_in(&fit, blocks, align[i], now, start))
			return true;
		if (rangeset_best_fit(avail, blocks + align[i] - 1, near, &wide) &&
		    start_in(&wide, blocks, align[i], now, start))
			return true;
	}
	*start = fit.start;
	return true;
}

/* The file spread over the longest free runs, at most `most` of them. *ok: they hold it (claimed).
 */
static int spread(struct placer *p, uint64_t near, size_t most, struct rangeset *avail, bool *ok,
		  struct error *err)
{
	struct range r;
	struct targets *t = &p->b;
	uint64_t left = p->runs.blocks;
	targets_reset(t);
	*ok = false;
	if (!most || left > rangeset_blocks(avail) || !rangeset_longest(avail, &r) ||
	    r.len < (left - 1) / most + 1)
		return 0;
	while (left && t->n < most && rangeset_longest(avail, &r)) {
		if (r.len >= left)
			rangeset_best_fit(avail, left, near, &r);
		uint64_t len = r.len < left ? r.len : left;
		if (r.len < (left - 1) / (most - t->n) + 1)
			break;
		if (targets_claim(t, p->runs.blocks - left, len, r.start, avail, err))
			return -1;
		left -= len;
	}
	t->runs = t->n;
	*ok = !left;
	return left ? targets_give_back(t, avail, err) : 0;
}

/* Step 3. */
static int fewest(struct placer *p, uint64_t near, uint64_t ideal, struct rangeset *avail,
		  struct targets **out, struct error *err)
{
	bool better = false;
	size_t most;
	if (partial_extend(&p->part, &p->runs, &p->a, avail, err) ||
	    partial_gather(&p->part, near, &p->a, avail, err))
		return -1;
	if (p->a.runs > ideal) {
		/* To write the whole file anew and still in parts must halve its runs. */
		most = p->runs.n / 2;
		if (most >= p->a.runs)
			most = p->a.runs - 1;
		if (targets_give_back(&p->a, avail, err) ||
		    spread(p, near, most, avail, &better, err))
			return -1;
		if (!better && targets_take_again(&p->a, avail, err))
			return -1;
	}
	*out = better ? &p->b : p->a.n ? &p->a : NULL;
	return 0;
}

int placement_files(struct placer *p, const struct filemap *map, uint32_t ino, uint64_t ideal,
		    bool parts, struct rangeset *avail, struct targets **out, struct error *err)
{
	uint64_t near = geometry_group_first(p->geo, geometry_inode_group(p->geo, ino));
	struct place place;
	uint64_t start;
	*out = NULL;
	if (runs_of(map, &p->runs, err))
		return -1;
	if (p->runs.n <= ideal || p->runs.n < 2)
		return 0;
	if (find_place(p, avail, &place, err))
		return -1;
	if (place.kept) {
		*out = &p->a;
		return claim_gaps(p, &place, avail, err);
	}
	if (find_whole(p, near, avail, &start)) {
		*out = &p->a;
		targets_reset(&p->a);
		p->a.runs = 1;
		return targets_claim(&p->a, 0, p->runs.blocks, start, avail, err);
	}
	return parts ? fewest(p, near, ideal, avail, out, err) : 0;
}

void placement_release(struct placer *p)
{
	free(p->runs.at);
	free(p->a.at);
	free(p->b.at);
	free(p->part.at);
	free(p->part.order);
	free(p->fixed);
	*p = (struct placer){ .geo = p->geo };
}
