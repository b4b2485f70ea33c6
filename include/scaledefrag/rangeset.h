/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rangeset: a set of disjoint ranges of blocks, with search by address and by length.
 *
 * Ranges are maximal: adjoining ranges merge. Units: blocks. Every search is deterministic: same
 * content, same answers. All operations are O(log ranges) unless said otherwise. Memory: 17 bytes a
 * range where they are added in order, 25 as a rule, 50 at worst; twice that for ranges of 64
 * blocks and more.
 *
 * Thread rule: readers may share a set that nobody changes.
 */
#ifndef SCALEDEFRAG_RANGESET_H
#define SCALEDEFRAG_RANGESET_H

#include "scaledefrag/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start; /* first block */
	uint64_t len;	/* blocks, > 0 */
};

struct rangeset;

int rangeset_new(struct rangeset **out, struct error *err);
void rangeset_free(struct rangeset *rs); /* NULL is fine */
int rangeset_clone(const struct rangeset *rs, struct rangeset **out, struct error *err); /* O(n) */

/* Adds [start, start+len). It must not overlap the set (asserted). Fails only for memory. */
int rangeset_add(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err);
/* Removes [start, start+len), which must be wholly in the set (asserted). */
int rangeset_remove(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err);

/* Is [start, start+len) wholly inside the set? Does it overlap the set at all? */
bool rangeset_contains(const struct rangeset *rs, uint64_t start, uint64_t len);
bool rangeset_overlaps(const struct rangeset *rs, uint64_t start, uint64_t len);

/* The first range that ends behind block `from` (so it holds `from` or lies after it). */
bool rangeset_next(const struct rangeset *rs, uint64_t from, struct range *out);
/* The last range that starts before block `before`. */
bool rangeset_prev(const struct rangeset *rs, uint64_t before, struct range *out);
/*
 * The shortest range of at least `len` blocks; among equals the one whose start is nearest to
 * `near` (the lower one of two at the same distance).
 */
bool rangeset_best_fit(const struct rangeset *rs, uint64_t len, uint64_t near, struct range *out);
/* The longest range (the lowest of equals). */
bool rangeset_longest(const struct rangeset *rs, struct range *out);

size_t rangeset_count(const struct rangeset *rs);    /* ranges; O(1) */
size_t rangeset_bytes(const struct rangeset *rs);    /* of memory; O(1) */
uint64_t rangeset_blocks(const struct rangeset *rs); /* blocks in all; O(1) */

#endif
