/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shrink: everything as low as it goes.
 *
 * A cut is chosen: the lowest one below which all data would fit. What lies above it is put into
 * the gaps below, the largest first, where it fits best, else where room can be made at the cost
 * of what lies there. What lies below stays otherwise. Where that fails, everything is put below
 * the cut anew, and then a higher cut is tried.
 *
 * What resize2fs has to move itself (the journal, tree blocks; resize/resize2fs.c,
 * blocks_to_move) goes block by block into whatever is free, and it counts that in its size
 * (calculate_minimum_resize_size); so no room has to be set aside for it.
 */
#include "layout.h"
#include <stdlib.h>

/* Blocks of others that may have to move to make room for a block. */
#define EFFORT 64u

/* Blocks below the cut that may stay free: a share of the data, 1 / SHARE; 0: none. */
static const uint64_t share[] = { 0, 4096, 1024, 256, 64, 32, 16, 12, 8, 6, 5, 4, 3 };

/* What lies below the cut: stays, unless it is in the way; stays where it can; goes anywhere. */
enum how { SINK, REPACK_KEEP, REPACK, HOWS };

/* Repacking must lower the top by 1 / GAIN of the blocks that it moves. */
#define GAIN 64u

struct item {
	struct weighted *at; /* what is to be put below the cut */
	size_t n;
};

uint64_t shrink_top(const struct state *st)
{
	uint64_t top = 0;
	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, i);
		for (size_t k = 0; k < m->n_ext; k++) {
			uint64_t end = m->ext[k].pblk + m->ext[k].len;
			top = end > top ? end : top;
		}
	}
	return top;
}

/* The block below which there are `want` blocks that are free or hold data. */
static uint64_t find_cut(const struct layout *l, const struct rangeset *usable, uint64_t want)
{
	struct range r;
	for (uint64_t at = 0; want && rangeset_next(usable, at, &r); at = r.start + r.len) {
		if (r.len >= want)
			return r.start + want;
		want -= r.len;
	}
	return want ? l->st->snap->geo.blocks : 0;
}

/* Blocks that are free or hold data. */
static int find_usable(const struct layout *l, struct rangeset **out, struct error *err)
{
	struct rangeset *rs;
	if (rangeset_clone(l->st->free, &rs, err))
		return -1;
	for (size_t i = 0; i < l->n_file; i++) {
		if (rangeset_add(rs, l->home[i], l->blocks[i], err)) {
			rangeset_free(rs);
			return -1;
		}
	}
	*out = rs;
	return 0;
}

/* Takes the gaps above the cut away, and what lies there up, or everything. */
static int cut_off(struct layout *l, uint64_t cut, bool all, struct item *above, struct error *err)
{
	struct range r;
	while (rangeset_next(l->gap, cut, &r)) {
		uint64_t from = r.start > cut ? r.start : cut;
		if (rangeset_remove(l->gap, from, r.start + r.len - from, err))
			return -1;
	}
	above->at = malloc((l->n_file + 1) * sizeof(*above->at));
	if (!above->at)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < l->n_file; i++) {
		uint64_t end = l->at[i] + l->blocks[i];
		if (end <= cut && !all)
			continue;
		end = end < cut ? end : cut;
		if (l->at[i] < end && rangeset_add(l->gap, l->at[i], end - l->at[i], err))
			return -1;
		l->at[i] = NOWHERE;
		above->at[above->n++] = (struct weighted){ l->blocks[i], i };
	}
	weighted_sort_down(above->at, above->n);
	return 0;
}

static int put_below(struct layout *l, const struct item *above, enum how how, bool *ok,
		     struct error *err)
{
	const struct runs none = { 0 };
	*ok = true;
	for (size_t i = 0; i < above->n && *ok; i++) {
		const struct weighted *w = &above->at[i];
		struct range r = { .start = l->home[w->index] };
		uint64_t limit = w->weight > UINT64_MAX / EFFORT ? UINT64_MAX : EFFORT * w->weight;
		bool keep = how == REPACK_KEEP && rangeset_contains(l->gap, r.start, w->weight);
		if (keep || rangeset_best_fit(l->gap, w->weight, 0, &r)) {
			if (layout_put(l, w->index, r.start, err))
				return -1;
		} else if (layout_make_room(l, w->index, &none, limit, ok, err)) {
			return -1;
		}
	}
	return 0;
}

static int try_cut(struct layout *l, uint64_t cut, enum how how, bool *ok, struct error *err)
{
	struct item above = { 0 };
	uint64_t moved = 0;
	int rc = cut_off(l, cut, how != SINK, &above, err) || put_below(l, &above, how, ok, err)
			 ? -1
			 : 0;
	free(above.at);
	if (how == SINK || !*ok)
		return rc;
	for (size_t i = 0; i < l->n_file; i++)
		moved += l->at[i] == l->home[i] ? 0 : l->blocks[i];
	*ok = shrink_top(l->st) - cut >= moved / GAIN;
	return rc;
}

/* The cut for the share-th attempt; 0: that wouldn't be an improvement. */
static int choose_cut(const struct layout *l, unsigned attempt, uint64_t *cut, struct error *err)
{
	struct rangeset *usable;
	uint64_t data = 0;
	if (find_usable(l, &usable, err))
		return -1;
	for (size_t i = 0; i < l->n_file; i++)
		data += l->blocks[i];
	*cut = find_cut(l, usable, data + (share[attempt] ? data / share[attempt] : 0));
	if (*cut >= shrink_top(l->st))
		*cut = 0;
	rangeset_free(usable);
	return 0;
}

int shrink_find(const struct state *st, struct packing *out, bool *found, struct error *err)
{
	struct layout l = { 0 };
	size_t cap = 0;
	int rc = -1;
	*found = false;
	for (unsigned i = 0; i < HOWS * sizeof(share) / sizeof(*share) && !*found; i++) {
		uint64_t cut;
		layout_release(&l);
		if (layout_init_runs(&l, st, err) || choose_cut(&l, i / HOWS, &cut, err))
			goto out;
		if (!cut)
			break;
		if (try_cut(&l, cut, i % HOWS, found, err))
			goto out;
	}
	rc = *found ? layout_wants(&l, &out->want, &out->n, &cap, err) : 0;
out:
	layout_release(&l);
	return rc;
}
