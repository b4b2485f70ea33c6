/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The nodes of pairs: pairs.c (searches) and pairs_change.c share them.
 *
 * An inner node has for each child a lower bound of its pairs, above all pairs of the child before
 * it; the bound of the first child is (0, 0). So a bound may be lower than need be, and only a pair
 * that is changed in place may have to move one.
 *
 * Keys behind the last one are UINT64_MAX: searches look at all CAP of them.
 */
#ifndef SCALEDEFRAG_BASE_PAIRS_NODES_H
#define SCALEDEFRAG_BASE_PAIRS_NODES_H

#include "scaledefrag/pairs.h"

#define CAP  64u /* of a node */
#define PART 8u	 /* keys that are looked at together */

struct leaf {
	uint32_t n;
	uint32_t unused; /* next one in the list */
	uint64_t a[CAP], b[CAP];
};

struct inner {
	uint32_t n;
	uint32_t unused;
	uint32_t child[CAP];
	uint64_t a[CAP], b[CAP]; /* bounds */
	uint64_t mask[CAP];	 /* of the children */
};

static inline struct leaf *leaf_of(const struct pairs *t, uint32_t index)
{
	return (struct leaf *)t->leaf.node + index;
}

static inline struct inner *inner_of(const struct pairs *t, uint32_t index)
{
	return (struct inner *)t->inner.node + index;
}

/* Sets the keys of a node that has n of them behind the last one. */
static inline void fill_up(uint64_t *a, uint32_t n)
{
	for (; n < CAP; n++)
		a[n] = UINT64_MAX;
}

static inline uint64_t bit_of(uint64_t b)
{
	return b && b < PAIRS_SMALL ? 1ull << b : 0;
}

static inline uint32_t size_of(const struct pairs *t, uint32_t level, uint32_t node)
{
	return level ? inner_of(t, node)->n : leaf_of(t, node)->n;
}

/* The first or last of [from, end) that has one of the bits, or that is b; `end` if there is none.
 */
static inline uint32_t pick_mask(const uint64_t *mask, uint32_t from, uint32_t end, uint64_t bit,
				 bool forward)
{
	for (uint32_t k = 0; k < end - from; k++) {
		uint32_t i = forward ? from + k : end - 1 - k;
		if (mask[i] & bit)
			return i;
	}
	return end;
}

static inline uint32_t pick_equal(const uint64_t *at, uint32_t from, uint32_t end, uint64_t b,
				  bool forward)
{
	for (uint32_t k = 0; k < end - from; k++) {
		uint32_t i = forward ? from + k : end - 1 - k;
		if (at[i] == b)
			return i;
	}
	return end;
}

#endif
