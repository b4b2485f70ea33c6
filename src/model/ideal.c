/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ideal: the least number of runs that a file of a given size can have on this file system.
 *
 * A run can't cross a fixed block. So the longest runs possible are the gaps between fixed ranges,
 * and a file of B blocks needs at least the least k such that the k longest gaps hold B blocks.
 */
#include "scaledefrag/snapshot.h"

#include <stdlib.h>

struct ideal {
	uint64_t *sum; /* sum[k]: blocks of the k + 1 longest gaps */
	size_t n;
};

static int longer_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

int ideal_new(const struct snapshot *s, struct ideal **out, struct error *err)
{
	struct ideal *id = calloc(1, sizeof(*id));
	uint64_t at = s->geo.first_data_block;
	struct range r;

	if (id)
		id->sum = malloc((rangeset_count(s->fixed) + 1) * sizeof(*id->sum));
	if (!id || !id->sum) {
		ideal_free(id);
		return error_nomem(err, "listing the gaps between fixed blocks");
	}
	while (rangeset_next(s->fixed, at, &r) && r.start < s->geo.blocks) {
		if (r.start > at)
			id->sum[id->n++] = r.start - at;
		at = r.start + r.len;
	}
	if (at < s->geo.blocks)
		id->sum[id->n++] = s->geo.blocks - at;
	qsort(id->sum, id->n, sizeof(*id->sum), longer_first);
	for (size_t i = 1; i < id->n; i++)
		id->sum[i] += id->sum[i - 1];
	*out = id;
	return 0;
}

uint64_t ideal_runs(const struct ideal *id, uint64_t blocks)
{
	size_t lo = 0, hi = id->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (id->sum[mid] < blocks)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == id->n && lo) /* more than there is: it takes them all */
		lo--;
	return lo + 1;
}

uint64_t ideal_longest_gap(const struct ideal *id)
{
	return id->n ? id->sum[0] : 0;
}

void ideal_free(struct ideal *id)
{
	if (!id)
		return;
	free(id->sum);
	free(id);
}
