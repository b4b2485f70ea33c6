/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy `files`: every file contiguous, for the least bytes written.
 *
 *  1. Keep one run and put the rest beside it, or move only the runs that have room beside their
 *     neighbours, if that makes the file contiguous;
 *  2. else move the whole file to the free run that fits best, near its inode's group;
 *  3. else as few runs as can be: neighbours put together (partial.c), or the whole file spread
 *     over the longest free runs.
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

/* The longest run that has room for what precedes and what follows it. */
static const struct run *find_anchor(const struct runs *r, const struct rangeset *avail)
{
	const struct run *best = NULL;
	for (size_t i = 0; i < r->n; i++) {
		const struct run *a = &r->at[i];
		uint64_t before = a->offset, after = r->blocks - a->offset - a->blocks;
		if (best && a->blocks <= best->blocks)
			continue;
		if (before && room_before(avail, a->pblk) < before)
			continue;
		if (after && room_from(avail, a->pblk + a->blocks) < after)
			continue;
		best = a;
	}
	return best;
}

static int claim_beside(const struct runs *r, const struct run *a, struct targets *t,
			struct rangeset *avail, struct error *err)
{
	uint64_t end = a->offset + a->blocks;
	targets_reset(t);
	t->runs = 1;
	if (a->offset && targets_claim(t, 0, a->offset, a->pblk - a->offset, avail, err))
		return -1;
	if (end < r->blocks &&
	    targets_claim(t, end, r->blocks - end, a->pblk + a->blocks, avail, err))
		return -1;
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

/* Where the whole file fits best. */
static bool find_whole(const struct placer *p, uint64_t near, const struct rangeset *avail,
		       uint64_t *start)
{
	struct range fit;
	uint64_t blocks = p->runs.blocks, now = p->runs.at[0].pblk;
	uint64_t align[] = { HUGE_PAGE / p->geo->block_size, p->geo->align_blocks };
	if (!rangeset_best_fit(avail, blocks, near, &fit))
		return false;
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

/* Step 3; p->a holds what partial_extend found (claimed). */
static int fewest(struct placer *p, uint64_t near, uint64_t ideal, struct rangeset *avail,
		  struct targets **out, struct error *err)
{
	bool better = false;
	size_t most;
	if (partial_gather(&p->part, near, &p->a, avail, err))
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
	uint64_t start = 0, least = UINT64_MAX;
	*out = NULL;
	if (runs_of(map, &p->runs, err))
		return -1;
	if (p->runs.n <= ideal || p->runs.n < 2)
		return 0;
	const struct run *anchor = find_anchor(&p->runs, avail);
	bool whole = !anchor && find_whole(p, near, avail, &start);
	if (anchor)
		least = p->runs.blocks - anchor->blocks;
	else if (whole)
		least = p->runs.blocks;
	if (partial_extend(&p->part, &p->runs, &p->a, avail, err))
		return -1;
	if (p->a.runs <= ideal && p->a.blocks <= least) {
		*out = &p->a;
		return 0;
	}
	if (!anchor && !whole && parts)
		return fewest(p, near, ideal, avail, out, err);
	if (targets_give_back(&p->a, avail, err))
		return -1;
	if (!anchor && !whole)
		return 0;
	*out = &p->a;
	if (anchor)
		return claim_beside(&p->runs, anchor, &p->a, avail, err);
	targets_reset(&p->a);
	p->a.runs = 1;
	return targets_claim(&p->a, 0, p->runs.blocks, start, avail, err);
}

void placement_release(struct placer *p)
{
	free(p->runs.at);
	free(p->a.at);
	free(p->b.at);
	free(p->part.at);
	free(p->part.order);
	*p = (struct placer){ .geo = p->geo };
}
