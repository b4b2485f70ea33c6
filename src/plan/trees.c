/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trees: the tree blocks of a file beside its data, for mode `layout`. (Indirect blocks lie among
 * the data that they map already: indirect.h.)
 *
 * A reader comes to a file's tree and then to its data; so the tree belongs right before the data,
 * the top level first. Where a file moves, its tree goes there in the same batch, if those blocks
 * are free by then (schedule.c). What is left then moves alone: right before the data, or else to
 * the nearest free run, if that at least halves its distance and takes no more seeks. Room that was
 * left for other files to grow isn't used. So seeks never become more, and the distance less each
 * time: there is an end.
 */
#include "order.h"
#include "rounds.h"

/* Free runs looked at on either side of the data. */
#define LOOK 64

/* Blocks of the least tree as the file lies, or (`whole`) as if it lay in one piece. */
static uint64_t least(const struct filemap *m, bool whole, uint32_t block_size)
{
	size_t n;
	const struct extent *e = filemap_records(m, &n);
	uint64_t records = 0, len = 0;
	if (m->indirect)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct extent *last = i ? &e[i - 1] : NULL;
		uint64_t most = e[i].unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT;
		bool same = last && last->unwritten == e[i].unwritten &&
			    (uint64_t)last->lblk + last->len == e[i].lblk &&
			    (whole || last->pblk + last->len == e[i].pblk);
		len = same ? len + e[i].len : e[i].len;
		records += !same;
		for (; len > most; len -= most)
			records++;
	}
	return filemap_min_nodes(records, block_size);
}

uint64_t trees_least(const struct state *st, size_t file)
{
	return least(state_map(st, file), true, st->snap->geo.block_size);
}

bool trees_lie_at(const struct filemap *m, uint64_t start)
{
	for (uint32_t l = m->depth; l-- > 0;) {
		for (size_t i = 0; i < m->tree->n_node[l]; i++) {
			if (m->tree->node[l][i].pblk != start++)
				return false;
		}
	}
	return true;
}

uint64_t trees_seeks(const struct filemap *m, uint64_t *first)
{
	uint64_t seeks = 0, next = 0;
	bool any = false;
	for (uint32_t l = m->depth; l-- > 0;) {
		for (size_t i = 0; i < m->tree->n_node[l]; i++) {
			uint64_t at = m->tree->node[l][i].pblk;
			if (!any)
				*first = at;
			seeks += any && at != next;
			next = at + 1;
			any = true;
		}
	}
	if (!any)
		*first = m->ext[0].pblk;
	return seeks + (any && m->ext[0].pblk != next);
}

int trees_remake(struct schedule *sc, size_t file, const struct move *moves, size_t n_move,
		 uint64_t start, size_t n, struct filemap *map, struct filemap_delta *delta,
		 struct error *err)
{
	size_t need;
	if (array_reserve(&sc->take, &sc->cap_take, n, sizeof(*sc->take), err) ||
	    rangeset_remove(sc->st->free, start, n, err))
		return -1;
	for (size_t i = 0; i < n; i++)
		sc->take[i] = start + i;
	filemap_release(map);
	filemap_delta_release(delta);
	return filemap_move(state_map(sc->st, file), moves, n_move, sc->snap->geo.block_size,
			    FILEMAP_TOGETHER, sc->take, n, &need, map, delta, err);
}

static int give_back(struct schedule *sc, const struct filemap_delta *d, bool give,
		     struct error *err)
{
	for (size_t i = 0; i < d->n_taken; i++) {
		if (give ? rangeset_add(sc->st->free, d->taken[i], 1, err)
			 : rangeset_remove(sc->st->free, d->taken[i], 1, err))
			return -1;
	}
	return 0;
}

int trees_put_beside(struct schedule *sc, size_t file, const struct move *moves, size_t n_move,
		     struct filemap *map, struct filemap_delta *delta, struct error *err)
{
	size_t n = filemap_nodes(map);
	uint64_t data = map->ext[0].pblk;
	if (!n || data < n || trees_lie_at(map, data - n))
		return 0;
	if (give_back(sc, delta, true, err))
		return -1;
	if (rangeset_contains(sc->st->free, data - n, n))
		return trees_remake(sc, file, moves, n_move, data - n, n, map, delta, err);
	return give_back(sc, delta, false, err);
}

/* ---- those that are somewhere else still ---- */

struct settle {
	struct planner *p;
	struct rangeset *avail; /* free, and no file's room to grow; made when it is needed */
	bool any;
};

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* Of all its tree blocks to the first one of its data. */
static uint64_t distance(const struct filemap *m)
{
	uint64_t sum = 0;
	for (uint32_t l = 0; l < m->depth; l++) {
		for (size_t i = 0; i < m->tree->n_node[l]; i++)
			sum += apart(m->tree->node[l][i].pblk, m->ext[0].pblk);
	}
	return sum;
}

/* The same if n of them lay from `start` on. */
static uint64_t distance_from(uint64_t start, uint64_t n, uint64_t data)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += apart(start + i, data);
	return sum;
}

/* The nearest n free blocks that adjoin. */
static bool find_near(const struct rangeset *avail, uint64_t data, uint64_t n, uint64_t *start)
{
	uint64_t best = UINT64_MAX, at = data;
	struct range r;
	for (int i = 0; i < LOOK && at && rangeset_prev(avail, at, &r); i++) {
		if (r.start + r.len <= data && r.len >= n) {
			*start = r.start + r.len - n;
			best = distance_from(*start, n, data);
			break;
		}
		at = r.start;
	}
	at = data;
	for (int i = 0; i < LOOK && rangeset_next(avail, at, &r); i++) {
		uint64_t d = distance_from(r.start, n, data);
		if (r.start > data && r.len >= n) {
			*start = d < best ? r.start : *start;
			best = d < best ? d : best;
			break;
		}
		at = r.start + r.len;
	}
	return best < UINT64_MAX;
}

static int find_avail(struct settle *s, struct error *err)
{
	const struct state *st = s->p->st;
	uint64_t limit;
	if (s->avail)
		return 0;
	limit = order_room_limit(st, s->p->opt->reserve);
	if (rangeset_clone(st->free, &s->avail, err))
		return -1;
	for (size_t i = 0; i < st->snap->n_file && limit; i++) {
		const struct filemap *m = state_map(st, i);
		const struct extent *last = &m->ext[m->n_ext - 1];
		uint64_t room = order_room(st, i, limit), end = last->pblk + last->len;
		uint64_t is = room ? room_from(s->avail, end) : 0;
		if (is && rangeset_remove(s->avail, end, is < room ? is : room, err))
			return -1;
	}
	return 0;
}

/* `before`: the block behind what is read before the file. */
static int settle(struct settle *s, size_t file, uint64_t before, struct error *err)
{
	const struct state *st = s->p->st;
	const struct filemap *m = state_map(st, file);
	uint64_t data = m->ext[0].pblk, start, first, seeks, was = distance(m);
	uint64_t n = least(m, false, st->snap->geo.block_size);
	bool done;
	if (!n || data < n || (filemap_nodes(m) == n && trees_lie_at(m, data - n)))
		return 0;
	if (find_avail(s, err))
		return -1;
	start = data - n;
	if (!rangeset_contains(s->avail, start, n)) {
		seeks = trees_seeks(m, &first);
		if (seeks + (first != before) < 2 || !find_near(s->avail, data, n, &start) ||
		    distance_from(start, n, data) > was / 2)
			return 0;
	}
	if (schedule_tree(&s->p->sched, file, start, n, &done, err))
		return -1;
	s->any |= done;
	return done ? rangeset_remove(s->avail, start, n, err) : 0;
}

int trees_settle(struct planner *p, bool *any, struct error *err)
{
	struct settle s = { .p = p };
	uint64_t before = 0;
	int rc = schedule_close(&p->sched, err);
	for (size_t i = 0; i < p->snap->n_file && p->snap->order && !rc; i++) {
		size_t file = p->snap->order[i];
		const struct filemap *m = state_map(p->st, file);
		const struct extent *last = &m->ext[m->n_ext - 1];
		uint64_t end = last->pblk + last->len;
		if (m->depth)
			rc = settle(&s, file, before, err);
		before = end;
	}
	if (!rc)
		rc = schedule_close(&p->sched, err);
	rangeset_free(s.avail);
	*any |= s.any;
	return rc;
}
