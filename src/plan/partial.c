/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For files that don't become contiguous at once: make of their runs as few as the free blocks
 * allow, the cheapest gains first. A run that others were put beside stays where it is; a run is
 * moved at most once.
 */
#include "plan_internal.h"
#include <stdlib.h>

#define NONE SIZE_MAX

static uint64_t end_of(const struct stretch *s)
{
	return s->pblk + s->blocks;
}

static int load(struct partial *pt, const struct runs *r, struct error *err)
{
	if (array_reserve(&pt->at, &pt->cap, r->n, sizeof(*pt->at), err) ||
	    array_reserve(&pt->order, &pt->cap_order, r->n, sizeof(*pt->order), err))
		return -1;
	pt->n = r->n;
	for (size_t i = 0; i < r->n; i++) {
		pt->at[i] = (struct stretch){ .pblk = r->at[i].pblk,
					      .blocks = r->at[i].blocks,
					      .offset = r->at[i].offset,
					      .prev = i ? i - 1 : NONE,
					      .next = i + 1 < r->n ? i + 1 : NONE };
		pt->order[i] = (struct weighted){ r->at[i].blocks, i };
	}
	return 0;
}

/* Stretch i becomes part of the one before it. */
static void absorb(struct partial *pt, size_t i)
{
	struct stretch *s = &pt->at[i], *before = &pt->at[s->prev];
	before->blocks += s->blocks;
	before->fixed = true;
	before->next = s->next;
	if (s->next != NONE)
		pt->at[s->next].prev = s->prev;
	s->gone = true;
}

/* Puts the unmoved run i beside a neighbour, if there is room. */
static int put_beside(struct partial *pt, size_t i, struct targets *out, struct rangeset *avail,
		      struct error *err)
{
	struct stretch *s = &pt->at[i];
	struct stretch *before = s->prev != NONE ? &pt->at[s->prev] : NULL;
	struct stretch *after = s->next != NONE ? &pt->at[s->next] : NULL;
	bool behind = before && room_from(avail, end_of(before)) >= s->blocks;
	uint64_t to;
	if (behind)
		to = end_of(before);
	else if (after && room_before(avail, after->pblk) >= s->blocks)
		to = after->pblk - s->blocks;
	else
		return 0;
	if (targets_claim(out, s->offset, s->blocks, to, avail, err))
		return -1;
	s->pblk = to;
	out->runs--;
	if (behind)
		absorb(pt, i);
	s = behind ? before : s;
	s->fixed = true;
	if (!behind)
		absorb(pt, s->next);
	else if (after && end_of(s) == after->pblk) { /* it filled the gap between them */
		absorb(pt, s->next);
		out->runs--;
	}
	return 0;
}

int partial_extend(struct partial *pt, const struct runs *r, struct targets *out,
		   struct rangeset *avail, struct error *err)
{
	struct range longest = { 0 };
	targets_reset(out);
	out->runs = r->n;
	if (load(pt, r, err))
		return -1;
	weighted_sort(pt->order, pt->n);
	rangeset_longest(avail, &longest);
	for (size_t k = 0; k < pt->n; k++) {
		size_t i = pt->order[k].index;
		if (pt->at[i].gone || pt->at[i].fixed)
			continue;
		if (pt->at[i].blocks > longest.len)
			break; /* the others are longer still */
		if (put_beside(pt, i, out, avail, err))
			return -1;
	}
	targets_sort(out);
	return 0;
}

/* From stretch i on: how many unmoved neighbours `room` blocks hold, and their blocks. */
static size_t fitting(const struct partial *pt, size_t i, uint64_t room, uint64_t *blocks)
{
	size_t n = 0;
	*blocks = 0;
	for (; i != NONE && !pt->at[i].fixed && pt->at[i].blocks <= room - *blocks;
	     i = pt->at[i].next) {
		*blocks += pt->at[i].blocks;
		n++;
	}
	return n;
}

/*
 * For each unmoved stretch: the most neighbours from it on that `room` blocks hold, weighted by
 * blocks a run gained. Two pointers: each stretch enters and leaves once. Gives how many there are.
 */
static size_t weigh(struct partial *pt, uint64_t room)
{
	size_t found = 0, n = 0, end = 0;
	uint64_t blocks = 0;
	for (size_t i = 0; i != NONE; i = pt->at[i].next) {
		if (!n)
			end = i;
		if (pt->at[i].fixed || pt->at[i].blocks > room)
			continue;
		while (end != NONE && !pt->at[end].fixed && pt->at[end].blocks <= room - blocks) {
			blocks += pt->at[end].blocks;
			n++;
			end = pt->at[end].next;
		}
		if (n >= 2) {
			/* Scaled, so that the order is kept among many neighbours. */
			uint64_t scaled = blocks > UINT64_MAX >> 12 ? UINT64_MAX : blocks << 12;
			pt->order[found++] = (struct weighted){ scaled / (n - 1), i };
		}
		blocks -= pt->at[i].blocks;
		n--;
	}
	return found;
}

int partial_gather(struct partial *pt, uint64_t near, struct targets *out, struct rangeset *avail,
		   struct error *err)
{
	struct range longest, fit;
	if (!pt->n || !rangeset_longest(avail, &longest))
		return 0;
	size_t found = weigh(pt, longest.len);
	weighted_sort(pt->order, found);
	for (size_t k = 0; k < found && rangeset_longest(avail, &longest); k++) {
		size_t first = pt->order[k].index;
		uint64_t blocks;
		if (pt->at[first].gone)
			continue;
		size_t n = fitting(pt, first, longest.len, &blocks);
		if (n < 2 || !rangeset_best_fit(avail, blocks, near, &fit))
			continue;
		if (targets_claim(out, pt->at[first].offset, blocks, fit.start, avail, err))
			return -1;
		pt->at[first].pblk = fit.start;
		for (size_t i = 1; i < n; i++)
			absorb(pt, pt->at[first].next);
		pt->at[first].fixed = true;
		out->runs -= n - 1;
	}
	targets_sort(out);
	return 0;
}
