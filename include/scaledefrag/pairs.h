/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairs: pairs of numbers in order of (a, b): a B+ tree. Sets of ranges are made of it, and maps by
 * address.
 *
 * Each subtree knows which small numbers b occur in it, so that the nearest pair with a given small
 * b is found in O(log n) too.
 *
 * A place is a path from the root to a pair, or to where one would be inserted. It holds until the
 * next pairs_insert or pairs_erase.
 */
#ifndef SCALEDEFRAG_PAIRS_H
#define SCALEDEFRAG_PAIRS_H

#include "scaledefrag/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIRS_SMALL  64u /* b below this is small; 0 isn't */
#define PAIRS_LEVELS 10u

struct pair {
	uint64_t a, b;
};

/* Nodes of one kind; the first `used` of them are or were in use. */
struct pairs_pool {
	void *node;
	uint32_t used, cap;
	uint32_t unused, n_unused; /* list of those given back */
};

struct pairs {
	struct pairs_pool leaf, inner;
	uint32_t root, height; /* height 0: the root is a leaf */
	size_t count;
	uint64_t mask; /* bit b: it occurs */
};

struct pairs_place {
	uint32_t node[PAIRS_LEVELS]; /* by level; 0 is the leaf */
	uint32_t at[PAIRS_LEVELS];
};

size_t pairs_bytes(const struct pairs *t); /* of memory that its nodes take */
void pairs_release(struct pairs *t);	   /* fine on a zeroed one, which is an empty tree */
int pairs_clone(const struct pairs *t, struct pairs *out, struct error *err);
/* After it pairs_insert works `n` times, whatever is erased meanwhile. */
int pairs_reserve(struct pairs *t, uint32_t n, struct error *err);

/* The place of the first pair that isn't below (a, b); it may be behind the last one of its leaf.
 */
void pairs_seek(const struct pairs *t, struct pair key, struct pairs_place *p);
/* The pair at the place, or behind it if it is the end of a leaf; the one before it. The place goes
 * there. false: there is none; the place has not changed. */
bool pairs_at(const struct pairs *t, struct pairs_place *p, struct pair *out);
bool pairs_before(const struct pairs *t, struct pairs_place *p, struct pair *out);
/* The nearest pair with this small b, from the place on or before it. */
bool pairs_find(const struct pairs *t, const struct pairs_place *p, bool forward, uint64_t b,
		struct pair *out);

/* The place must be what pairs_seek gives for this pair. Needs a reservation. */
void pairs_insert(struct pairs *t, const struct pairs_place *p, struct pair x);
/* Adds one above all others; p is zeroed before the first of them, and holds while nothing else is
 * done to the tree. Makes its own reservations. */
int pairs_append(struct pairs *t, struct pairs_place *p, struct pair x, struct error *err);
/* The pair at the place. The new one must have the same place in the order. */
void pairs_set(struct pairs *t, const struct pairs_place *p, struct pair x);
void pairs_erase(struct pairs *t, const struct pairs_place *p);

#endif
