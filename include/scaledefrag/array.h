/* SPDX-License-Identifier: GPL-2.0-or-later */
/* array: arrays that grow. */
#ifndef SCALEDEFRAG_ARRAY_H
#define SCALEDEFRAG_ARRAY_H

#include "scaledefrag/error.h"
#include <stddef.h>

int array_grow(void *array, size_t *cap, size_t want, size_t size, struct error *err);

/*
 * Makes room for `want` items of `size` bytes. `array` is the address of the pointer to the items
 * (malloc'ed or NULL), *cap the items that it has room for. Grows by half at the least, so that
 * adding one by one costs O(1) each. On failure nothing has changed.
 */
static inline int array_reserve(void *array, size_t *cap, size_t want, size_t size,
				struct error *err)
{
	return want <= *cap ? 0 : array_grow(array, cap, want, size, err);
}

#endif
