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
/* Room behind a file that grows, in bytes. */
#define ROOM_LEAST (64u << 10)
#define ROOM_MOST  (8u << 20)

uint64_t order_good(const struct state *st, const struct planner_options *opt)
{
	return opt->min_extent_blocks ? opt->min_extent_blocks
				      : GOOD / geometry_cluster_size(&st->snap->geo);
}

/* ---- room behind files that grow ---- */

/* As much as there is of the file, within limits. */
static uint64_t room_wanted(const struct state *st, size_t file)
{
	const struct filemap *m = state_map(st, file);
	uint64_t blocks = filemap_blocks(m->ext, m->n_ext);
	uint64_t bs = geometry_cluster_size(&st->snap->geo);
	if (!st->snap->file[file].grows)
		return 0;
	blocks = blocks < ROOM_MOST / bs ? blocks : ROOM_MOST / bs;
	return blocks > ROOM_LEAST / bs ? blocks : ROOM_LEAST / bs;
}

/*
 * The share of it that so many per cent of the free blocks allow. Tree blocks count as free: so a
 * second run comes to the same.
 */
double order_room_share(const struct state *st, unsigned percent)
{
	double most = (double)rangeset_blocks(st->snap->free), want = 0;
	for (size_t i = 0; percent && i < st->snap->n_file; i++) {
		want += (double)room_wanted(st, i);
		most += (double)filemap_nodes(&st->snap->file[i].map);
	}
	most = most * percent / 100;
	return !percent ? 0 : want <= most ? 1 : most / want;
}

uint64_t order_room(const struct state *st, size_t file, double share)
{
	return (uint64_t)((double)room_wanted(st, file) * share);
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

/*
 * Seeks between the files in their order, and within them. Behind a file that grows, there is one
 * only if there is no room.
 */
static uint64_t seeks_now(const struct state *st, double share)
{
	uint64_t seeks = 0, end = 0, room = 0;
	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, st->snap->order[i]);
		const struct extent *last = &m->ext[m->n_ext - 1];
		seeks += filemap_runs(m->ext, m->n_ext) - 1;
		seeks += room ? room_from(st->free, end) < room / 2 : m->ext[0].pblk != end;
		end = last->pblk + last->len;
		room = order_room(st, st->snap->order[i], share);
	}
	return seeks + (room && room_from(st->free, end) < room / 2);
}

/* The same, where they shall be. */
static uint64_t seeks_then(const struct order *o)
{
	uint64_t seeks = 0, end = 0, room = 0;
	bool roomy = false;
	for (size_t i = 0; i < o->n; i++) {
		const struct item *it = &o->item[i];
		seeks += it->left ? it->runs - 1 : 0;
		seeks += room ? !roomy : (it->left ? it->first : it->at) != end;
		end = it->left ? it->end : it->at + it->blocks;
		room = order_room(o->st, it->file, o->share);
		roomy = it->roomy;
	}
	return seeks + (room && !roomy);
}

bool order_pays(const struct order *o)
{
	uint64_t before = seeks_now(o->st, o->share), after = seeks_then(o), moved = 0;
	for (size_t i = 0; i < o->n; i++) {
		const struct item *it = &o->item[i];
		if (!it->left)
			moved += it->at == it->home ? it->blocks - it->kept : it->blocks;
	}
	return before > after && moved / (before - after) <= o->good;
}

uint64_t order_goal(const struct state *st, const struct planner_options *opt)
{
	if (!st->snap->order)
		return 0;
	return order_front_astray(st, order_front_limit(st, order_good(st, opt))) * FRONT_FIRST +
	       seeks_now(st, order_room_share(st, opt->reserve));
}
