/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/array.h"
#include <stdlib.h>
#include <string.h>

int array_grow(void *array, size_t *cap, size_t want, size_t size, struct error *err)
{
	size_t room = *cap + *cap / 2 + 16;
	void *old, *now;

	if (room < want)
		room = want;
	memcpy(&old, array, sizeof(old)); /* whatever type of pointer it is */
	now = reallocarray(old, room, size);
	if (!now)
		return error_nomem(err, "growing an array");
	memcpy(array, &now, sizeof(now));
	*cap = room;
	/* cppcheck-suppress memleak ; *array has it */
	return 0;
}
