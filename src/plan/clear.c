/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clear: where free space will be, chosen before files get their places.
 *
 * For `shrink` it is all above a cut; for `free` the region that costs the least to clear: blocks
 * of files that could stay otherwise, and something for each fixed block that would cut the free
 * space. What lies there is lifted, and none of its blocks is a gap until all has a place. So what
 * has to move anyway moves once.
 */
#include "layout.h"
#include <stdlib.h>

/* A break in the free space is worth this share of it. */
#define BREAK 32u

/* A gap, or an object. */
struct piece {
	uint64_t start, len;
	uint64_t cost; /* blocks to move for it */
};

struct pieces {
	struct piece *at; /* by address; between them is what is fixed */
	size_t n;
};

static bool next_object(const struct layout *l, uint64_t at, uint64_t *start, uint32_t *object)
{
	return (at == 0 && addrmap_floor(&l->object, 0, start, object)) ||
	       addrmap_above(&l->object, at ? at - 1 : 0, start, object);
}

/* Gaps and objects, by address. */
static int list_pieces(const struct layout *l, struct pieces *s, struct error *err)
{
	size_t most = rangeset_count(l->gap) + l->n_file + 1;
	uint64_t at = 0, start;
	uint32_t object;

	s->n = 0;
	s->at = malloc(most * sizeof(*s->at));
	if (!s->at)
		return error_nomem(err, "planning");
	for (;;) {
		struct range r;
		bool gap = rangeset_next(l->gap, at, &r);

		if (next_object(l, at, &start, &object) && (!gap || start < r.start))
			s->at[s->n] = (struct piece){ start, l->blocks[object], l->blocks[object] };
		else if (gap)
			s->at[s->n] = (struct piece){ r.start, r.len, 0 };
		else
			return 0;
		at = s->at[s->n].start + s->at[s->n].len;
		s->n++;
	}
}

/* The cheapest region of `want` blocks that are a gap or belong to an object. */
static bool cheapest(const struct pieces *s, uint64_t want, struct range *out)
{
	uint64_t used = 0, price = 0, least = UINT64_MAX;

	for (size_t i = 0, k = 0; i < s->n; i++) {
		for (; k < s->n && used < want; k++) {
			const struct piece *x = &s->at[k];

			used += x->len;
			price += x->cost;
			if (k > i && x->start != x[-1].start + x[-1].len)
				price += want / BREAK;
		}
		if (used < want)
			break;
		if (price < least) {
			const struct piece *last = &s->at[k - 1];

			least = price;
			*out = (struct range){ s->at[i].start, last->start + last->len -
								       (used - want) -
								       s->at[i].start };
		}
		used -= s->at[i].len;
		price -= s->at[i].cost;
		if (i + 1 < k && s->at[i + 1].start != s->at[i].start + s->at[i].len)
			price -= want / BREAK;
	}
	return least != UINT64_MAX;
}

/* Above the block below which there are `want` that are a gap or belong to an object. */
static bool above(const struct layout *l, const struct pieces *s, uint64_t want, struct range *out)
{
	uint64_t blocks = l->st->snap->geo.blocks;

	for (size_t i = 0; i < s->n; i++) {
		if (s->at[i].len >= want) {
			*out = (struct range){ s->at[i].start + want, 0 };
			out->len = blocks - out->start;
			return out->len > 0;
		}
		want -= s->at[i].len;
	}
	return false;
}

int clear_choose(const struct layout *l, const struct planner_options *o, uint64_t need,
		 uint64_t slack, struct range *out, bool *found, struct error *err)
{
	struct pieces s;
	uint64_t all = 0, data = need;

	*found = false;
	if (list_pieces(l, &s, err))
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		all += s.at[i].len;
		data += s.at[i].cost;
	}
	data += slack ? data / slack : 0;
	if (data < all)
		*found = o->mode == PLAN_SHRINK ? above(l, &s, data, out)
						: cheapest(&s, all - data, out);
	free(s.at);
	return 0;
}

int clear_lift(struct layout *l, const struct range *region, struct clearing *c, struct error *err)
{
	uint64_t end = region->start + region->len, first = region->start, key;
	uint32_t i;

	if (addrmap_floor(&l->object, first, &key, &i) && key + l->blocks[i] > first)
		first = key;
	if (layout_lift_all(l, first, end, &c->n, err))
		return -1;
	c->object = malloc((c->n + 1) * sizeof(*c->object));
	if (!c->object)
		return error_nomem(err, "planning");
	for (size_t k = 0; k < c->n; k++)
		c->object[k] = l->file[k];
	return layout_close_gaps(l, region->start, end, &c->closed, err);
}

int clear_end(struct layout *l, struct clearing *c, struct error *err)
{
	return ranges_join(&c->closed, l->gap, err);
}

void clear_release(struct clearing *c)
{
	free(c->object);
	free(c->closed.at);
	*c = (struct clearing){ 0 };
}
