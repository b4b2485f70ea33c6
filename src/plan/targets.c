/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan_internal.h"
#include "scaledefrag/sort.h"
#include <stdlib.h>

int runs_of(const struct filemap *map, struct runs *out, struct error *err)
{
	out->n = 0;
	out->blocks = 0;
	for (size_t i = 0; i < map->n_ext; i++) {
		const struct extent *e = &map->ext[i];
		struct run *last = out->n ? &out->at[out->n - 1] : NULL;
		if (last && last->pblk + last->blocks == e->pblk) {
			last->blocks += e->len;
		} else {
			if (array_reserve(&out->at, &out->cap, out->n + 1, sizeof(*out->at), err))
				return -1;
			out->at[out->n++] = (struct run){ e->pblk, e->len, out->blocks };
		}
		out->blocks += e->len;
	}
	return 0;
}

void targets_reset(struct targets *t)
{
	t->n = 0;
	t->blocks = 0;
	t->runs = 0;
}

int targets_claim(struct targets *t, uint64_t offset, uint64_t len, uint64_t to,
		  struct rangeset *avail, struct error *err)
{
	if (array_reserve(&t->at, &t->cap, t->n + 1, sizeof(*t->at), err))
		return -1;
	if (rangeset_remove(avail, to, len, err))
		return -1;
	t->at[t->n++] = (struct target){ offset, len, to };
	t->blocks += len;
	return 0;
}

int targets_give_back(const struct targets *t, struct rangeset *avail, struct error *err)
{
	for (size_t i = 0; i < t->n; i++) {
		if (rangeset_add(avail, t->at[i].to, t->at[i].len, err))
			return -1;
	}
	return 0;
}

int targets_take_again(const struct targets *t, struct rangeset *avail, struct error *err)
{
	for (size_t i = 0; i < t->n; i++) {
		if (rangeset_remove(avail, t->at[i].to, t->at[i].len, err))
			return -1;
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct target *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

void targets_sort(struct targets *t)
{
	if (t->n > 1)
		qsort(t->at, t->n, sizeof(*t->at), by_offset);
}

int targets_moves(const struct targets *t, const struct filemap *map, struct moves *out,
		  struct error *err)
{
	out->n = 0;
	uint64_t offset = 0; /* of record i */
	size_t i = 0;
	for (size_t k = 0; k < t->n; k++) {
		const struct target *g = &t->at[k];
		for (uint64_t done = 0; done < g->len;) {
			uint64_t want = g->offset + done;
			while (offset + map->ext[i].len <= want)
				offset += map->ext[i++].len;
			const struct extent *e = &map->ext[i];
			uint32_t skip = (uint32_t)(want - offset);
			uint32_t len = e->len - skip;
			if (len > g->len - done)
				len = (uint32_t)(g->len - done);
			if (array_reserve(&out->at, &out->cap, out->n + 1, sizeof(*out->at), err))
				return -1;
			out->at[out->n++] = (struct move){ .from = e->pblk + skip,
							   .to = g->to + done,
							   .lblk = e->lblk + skip,
							   .len = len,
							   .unwritten = e->unwritten };
			done += len;
		}
	}
	return 0;
}

static int by_weight(const void *a, const void *b)
{
	const struct weighted *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

void weighted_sort(struct weighted *at, size_t n)
{
	bool listed = true; /* in the order of the index */
	for (size_t i = 1; i < n && listed; i++)
		listed = at[i - 1].index < at[i].index;
	if (n > 1 && !(listed && sort_by_key(at, n, sizeof(*at))))
		qsort(at, n, sizeof(*at), by_weight);
}

static void turn_weights(struct weighted *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i].weight = UINT64_MAX - at[i].weight;
}

void weighted_sort_down(struct weighted *at, size_t n)
{
	turn_weights(at, n);
	weighted_sort(at, n);
	turn_weights(at, n);
}

uint64_t room_from(const struct rangeset *avail, uint64_t block)
{
	struct range r;
	if (!rangeset_next(avail, block, &r) || r.start > block)
		return 0;
	return r.start + r.len - block;
}

uint64_t room_before(const struct rangeset *avail, uint64_t block)
{
	struct range r;
	if (!rangeset_prev(avail, block, &r) || r.start + r.len < block)
		return 0;
	return block - r.start;
}

int ranges_join(struct ranges *r, struct rangeset *into, struct error *err)
{
	if (!sort_by_key(r->at, r->n, sizeof(*r->at)))
		return error_nomem(err, "planning");
	for (size_t i = 0; i < r->n;) {
		uint64_t start = r->at[i].start, end = start;
		for (; i < r->n && r->at[i].start == end; i++)
			end += r->at[i].len;
		if (rangeset_add(into, start, end - start, err))
			return -1;
	}
	r->n = 0;
	return 0;
}
