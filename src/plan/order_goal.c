/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order_goal: what the order of files is worth: the front list in front, then few seeks. */
#include "order.h"

/* A neighbourhood of so many bytes is good: to seek costs less than to read it. */
#define GOOD (1u << 20)
/* Blocks of the front list that may be free below its end: 1 / SLACK of it, and a good
 * neighbourhood. */
#define SLACK 8
/* In the goal, to the number of seeks. */
#define FRONT_FIRST (1ull << 40)
/* The share of the free blocks that alignment may leave as holes, 1 / HOLES; and with those before
 * files that are aligned already. */
#define HOLES	   8u
#define KEPT_HOLES 2u
/* Blocks of a file too small for room behind it to be of use. */
#define SMALL 16u
/* Room behind a file: where the least of them ends; how much it is expected to grow at most. Bytes.
 */
#define ROOM_FROM   (64u << 10)
#define GROWTH_MOST (4u << 20)
#define ROOM_MOST   (GROWTH_MOST + (8u << 20))

uint64_t order_good(const struct state *st, const struct planner_options *opt)
{
	return opt->min_extent_blocks ? opt->min_extent_blocks
				      : GOOD / geometry_cluster_size(&st->snap->geo);
}

/* ---- room behind files that grow ---- */

/*
 * How much the kernel asks for when it appends to a file of so many bytes, which is the whole of
 * the next power of two up to 1 MiB, and then of 2, 4 or 8 MiB: where the file would end. It goes
 * on behind the last block only if all of that is free there (fs/ext4/mballoc.c,
 * ext4_mb_normalize_request, ext4_mb_find_by_goal).
 */
static uint64_t asked_for(uint64_t bytes)
{
	uint64_t unit = bytes <= 4u << 20 ? 2u << 20 : bytes <= 8u << 20 ? 4u << 20 : 8u << 20;
	uint64_t end = ROOM_FROM;
	while (end < bytes && end < 1u << 20)
		end *= 2;
	return end >= bytes ? end : (bytes + unit - 1) / unit * unit;
}

/* Files that are expected to grow by a quarter. Those of up to 16 blocks get their blocks among
 * other small files, wherever there is room (ext4_mb_group_or_file). */
static uint64_t room_wanted(const struct state *st, size_t file)
{
	const struct filemap *m = state_map(st, file);
	const struct extent *last = &m->ext[m->n_ext - 1];
	uint64_t bs = geometry_cluster_size(&st->snap->geo), more;
	uint64_t bytes = ((uint64_t)last->lblk + last->len) * bs;
	if (!st->snap->file[file].grows || m->indirect || bytes / st->snap->geo.block_size < SMALL)
		return 0;
	more = bytes / 4 < GROWTH_MOST ? bytes / 4 : GROWTH_MOST;
	return (asked_for(bytes + more) - bytes) / bs;
}

/* Blocks wanted by the files that want no more than `limit`. */
static uint64_t all_wanted(const struct state *st, uint64_t limit)
{
	uint64_t all = 0;
	for (size_t i = 0; i < st->snap->n_file; i++)
		all += st->snap->file[i].grows ? order_room(st, i, limit) : 0;
	return all;
}

/* Tree blocks count as free: so a second run comes to the same. */
uint64_t order_room_limit(const struct state *st, unsigned percent)
{
	uint64_t bs = geometry_cluster_size(&st->snap->geo);
	uint64_t lo = 0, hi = ROOM_MOST / bs, most = rangeset_blocks(st->snap->free);
	if (!percent)
		return 0;
	for (size_t i = 0; i < st->snap->n_file; i++)
		most += filemap_nodes(&st->snap->file[i].map);
	most = most / 100 * percent + most % 100 * percent / 100;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo + 1) / 2;
		if (all_wanted(st, mid) <= most)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

uint64_t order_room(const struct state *st, size_t file, uint64_t limit)
{
	uint64_t room = limit ? room_wanted(st, file) : 0;
	return room <= limit ? room : 0;
}

/* ---- alignment ---- */

/* A multiple of 2 MiB of the device is one of the stripe in most cases. */
struct align order_align(const struct state *st, const struct planner_options *opt)
{
	struct align a = { 0 };
	uint64_t stripe = st->snap->geo.align_blocks;
	if (opt->mode == PLAN_LAYOUT)
		a = (struct align){ opt->align_blocks, opt->align_offset, opt->align_blocks,
				    rangeset_blocks(st->free) / HOLES,
				    rangeset_blocks(st->free) / KEPT_HOLES };
	if (!a.unit || stripe < 2 || (a.unit % stripe == 0 && a.offset % stripe == 0))
		return a;
	a.unit = stripe;
	a.offset = 0;
	a.least = a.least > stripe ? a.least : stripe;
	return a;
}

bool order_is_hole(const struct align *a, const struct rangeset *avail, uint64_t end,
		   uint64_t begin, uint64_t data, uint64_t blocks)
{
	return a->unit && blocks >= a->least && data % a->unit == a->offset && begin > end &&
	       begin - end < a->unit && rangeset_contains(avail, end, begin - end);
}

/* ---- is it worth it? ---- */

/* The block below which the front list has to be: so many that aren't fixed lie below it. */
uint64_t order_front_limit(const struct state *st, uint64_t good)
{
	uint64_t at = st->snap->geo.first_data_block, want = 0;
	struct range r;
	for (size_t i = 0; i < st->snap->n_front; i++) {
		const struct filemap *m = state_map(st, st->snap->order[i]);
		want += filemap_blocks(m->ext, m->n_ext);
	}
	want += want / SLACK + good;
	while (rangeset_next(st->snap->fixed, at, &r)) {
		if (r.start > at && r.start - at >= want)
			break;
		want -= r.start > at ? r.start - at : 0;
		at = r.start + r.len;
	}
	return at + want;
}

/* Files of the front list that aren't in front. */
uint64_t order_front_astray(const struct state *st, uint64_t limit)
{
	uint64_t n = 0;
	for (size_t i = 0; i < st->snap->n_front; i++) {
		const struct filemap *m = state_map(st, st->snap->order[i]);
		bool below = true;
		for (size_t k = 0; k < m->n_ext; k++)
			below &= m->ext[k].pblk + m->ext[k].len <= limit;
		n += !below;
	}
	return n;
}

/* The same, of where they shall be. */
uint64_t order_front_misses(const struct order *o, uint64_t limit)
{
	uint64_t n = 0;
	for (size_t i = 0; i < o->n_front; i++)
		n += o->item[i].left || o->item[i].at + o->item[i].blocks > limit;
	return n;
}

/* What is read before a file. */
struct reader {
	const struct align *align;
	uint64_t end;  /* the block behind it */
	uint64_t room; /* that shall be behind it */
	bool roomy;
};

/*
 * Seeks to a file that a reader begins at `begin`; data at `data`. Behind a file that grows, there
 * is one only if there is no room; and none over what alignment leaves.
 */
static bool seeks_to(const struct reader *r, const struct rangeset *avail, uint64_t begin,
		     uint64_t data, uint64_t blocks)
{
	if (r->room)
		return !r->roomy;
	return begin != r->end && !order_is_hole(r->align, avail, r->end, begin, data, blocks);
}

/* Seeks between the files in their order, and within them. */
static uint64_t seeks_now(const struct state *st, const struct align *align, uint64_t limit)
{
	struct reader r = { .align = align };
	uint64_t seeks = 0;
	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, st->snap->order[i]);
		const struct extent *last = &m->ext[m->n_ext - 1];
		uint64_t begin;
		seeks += filemap_runs(m->ext, m->n_ext) - 1 + trees_seeks(m, &begin);
		seeks += seeks_to(&r, st->free, begin, m->ext[0].pblk,
				  align->unit ? filemap_blocks(m->ext, m->n_ext) : 0);
		r.end = last->pblk + last->len;
		r.room = order_room(st, st->snap->order[i], limit);
		r.roomy = r.room && room_from(st->free, r.end) >= r.room / 2;
	}
	return seeks + (r.room && !r.roomy);
}

static bool moves(const struct item *it)
{
	return !it->left && (it->at != it->home || it->kept < it->blocks);
}

/*
 * The same as the files lie now but for trees that can move alone, and where they shall be
 * (`then`).
 */
static uint64_t seeks_of(const struct order *o, bool then)
{
	const struct rangeset *avail = then ? o->usable : o->st->free;
	struct reader r = { .align = &o->align };
	uint64_t seeks = 0;
	for (size_t i = 0; i < o->n; i++) {
		const struct item *it = &o->item[i];
		bool placed = then && !it->left, tree = then && moves(it) && (!it->lead || it->led);
		uint64_t data = placed ? it->at : it->first;
		uint64_t begin = tree ? data - it->lead : it->begin;
		seeks += (placed ? 0 : it->runs - 1) + (tree ? 0 : it->hops);
		seeks += seeks_to(&r, avail, begin, data, it->blocks);
		r.end = placed ? it->at + it->blocks : it->end;
		r.room = order_room(o->st, it->file, o->limit);
		r.roomy = placed ? it->roomy : r.room && room_from(avail, r.end) >= r.room / 2;
	}
	return seeks + (r.room && !r.roomy);
}

bool order_pays(const struct order *o)
{
	uint64_t before = seeks_of(o, false), after = seeks_of(o, true), moved = 0;
	for (size_t i = 0; i < o->n; i++) {
		const struct item *it = &o->item[i];
		if (moves(it))
			moved += it->at == it->home ? it->blocks - it->kept : it->blocks;
	}
	return before > after && moved / (before - after) <= o->good;
}

uint64_t order_goal(const struct state *st, const struct planner_options *opt)
{
	struct align align = order_align(st, opt);
	if (!st->snap->order)
		return 0;
	return order_front_astray(st, order_front_limit(st, order_good(st, opt))) * FRONT_FIRST +
	       seeks_now(st, &align, order_room_limit(st, opt->reserve));
}
