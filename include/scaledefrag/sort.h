/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sort: items in order of a number, in O(n); and orders for qsort and bsearch. */
#ifndef SCALEDEFRAG_SORT_H
#define SCALEDEFRAG_SORT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Sorts n items of `size` bytes (8, 16 or 24) by the uint64_t that they begin with; equals keep
 * their order. false: there is no memory; nothing has changed.
 */
bool sort_by_key(void *items, size_t n, size_t size);

int sort_compare_u32(const void *a, const void *b);
int sort_compare_u64(const void *a, const void *b);

#endif
