/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arrays that grow by doubling. */
#ifndef SCALEDEFRAG_MODEL_ARRAY_H
#define SCALEDEFRAG_MODEL_ARRAY_H

#include "scaledefrag/error.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `n` more elements of `size` bytes behind the `used` ones; `array` is the address
 * of the pointer. */
static inline int array_reserve(void *array, size_t used, size_t n, size_t *cap, size_t size,
				struct error *err)
{
	size_t want = *cap ? *cap : 16;
	void *old, *now;

	if (n <= *cap - used)
		return 0;
	while (want - used < n)
		want *= 2;
	memcpy(&old, array, sizeof(old));
	now = realloc(old, want * size);
	if (!now)
		return error_nomem(err, "growing an array");
	memcpy(array, &now, sizeof(now));
	*cap = want;
	return 0;
}

#endif
