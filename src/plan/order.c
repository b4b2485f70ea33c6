/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * order: files in the order of a recursive scan, and the front list at the lowest addresses.
 *
 * All files in this order, one behind the other, are the stream. First the front list gets the
 * lowest places; then neighbourhoods that are good already keep theirs: parts of the stream that
 * lie in one piece, if they are long, and long files most of which do. The others go, in the order
 * of the stream, into what is left, from the lowest address on. A long file that doesn't fit where
 * the stream is goes to the place that fits best, and the stream goes on behind its predecessor.
 * Before a file there is room for its tree, if it will have one (trees.c), and long files begin
 * aligned, while that leaves no more than a share of the free blocks as holes between files.
 *
 * Where that leaves no room for something, it is tried again with fewer neighbourhoods kept, and
 * densely: the longest files first, and then each free run is filled with what fits of the next
 * ones in the stream.
 */
#include "order.h"
#include <stdlib.h>

/* Attempts: what counts as good, in multiples of that; 0: nothing does. */
static const struct attempt {
	uint64_t times;
	bool dense;
} attempts[] = { { 1, false }, { 16, false }, { 1, true }, { 16, true }, { 0, true } };
/* Densely: the share of the longest free run that makes a file a long one; files of the stream that
 * are looked at to fill a run. No room is left for any then, nor for trees, and nothing is aligned.
 */
#define LONG 4u
#define FILL 256
/* Free runs looked at to go on with the stream. */
#define LOOK 64

/* ---- what there is ---- */

static int add_range(struct order *o, uint64_t start, uint64_t len, struct error *err)
{
	if (array_reserve(&o->given.at, &o->given.cap, o->given.n + 1, sizeof(*o->given.at), err))
		return -1;
	o->given.at[o->given.n++] = (struct range){ start, len };
	return 0;
}

/* Lists the blocks that the file gives up: its data, and tree blocks that it won't need. */
static int give_up(struct order *o, size_t file, struct error *err)
{
	const struct filemap *m = state_map(o->st, file);
	if (runs_of(m, &o->runs, err))
		return -1;
	for (size_t i = 0; i < o->runs.n; i++) {
		if (add_range(o, o->runs.at[i].pblk, o->runs.at[i].blocks, err))
			return -1;
	}
	if (!m->depth || o->runs.n < 2 || pack_least_records(m) > EXTENT_ROOT_RECORDS)
		return 0;
	for (uint32_t l = 0; l < m->depth; l++) {
		for (size_t i = 0; i < m->tree->n_node[l]; i++) {
			if (add_range(o, m->tree->node[l][i].pblk, 1, err))
				return -1;
		}
	}
	return 0;
}

/* The place where its longest run stays, and what else stays then. */
static void find_home(const struct runs *r, struct item *it)
{
	const struct run *longest = &r->at[0];
	for (size_t i = 1; i < r->n; i++) {
		if (r->at[i].blocks > longest->blocks)
			longest = &r->at[i];
	}
	if (longest->pblk < longest->offset)
		return;
	it->home = longest->pblk - longest->offset;
	for (size_t i = 0; i < r->n; i++)
		it->kept += r->at[i].pblk - r->at[i].offset == it->home ? r->at[i].blocks : 0;
}

/* What its tree needs, and what it costs now; it can move alone to where it belongs (trees.c). */
static void find_tree(const struct state *st, struct item *it)
{
	it->lead = trees_least(st, it->file);
	it->hops = trees_seeks(state_map(st, it->file), &it->begin);
	if (it->hops && it->runs == 1 && it->first >= it->lead &&
	    rangeset_contains(st->free, it->first - it->lead, it->lead)) {
		it->begin = it->first - it->lead;
		it->hops = 0;
	}
}

static int load_items(struct order *o, struct error *err)
{
	const struct snapshot *s = o->st->snap;
	o->item = calloc(s->n_file + 1, sizeof(*o->item));
	if (!o->item)
		return error_nomem(err, "planning");
	o->n = s->n_file;
	o->n_front = s->n_front;
	for (size_t i = 0; i < o->n; i++) {
		struct item *it = &o->item[i];
		it->file = s->order[i];
		it->at = it->home = NOWHERE;
		if (give_up(o, it->file, err))
			return -1;
		const struct run *last = &o->runs.at[o->runs.n - 1];
		it->blocks = o->runs.blocks;
		it->room = order_room(o->st, it->file, o->limit);
		it->runs = o->runs.n;
		it->first = o->runs.at[0].pblk;
		it->end = last->pblk + last->blocks;
		find_home(&o->runs, it);
		find_tree(o->st, it);
	}
	return 0;
}

/* The file stays: its blocks are no place for others. */
static int leave(struct order *o, struct item *it, struct error *err)
{
	it->left = true;
	o->given.n = 0;
	if (give_up(o, it->file, err))
		return -1;
	for (size_t k = 0; k < o->given.n; k++) {
		if (rangeset_remove(o->usable, o->given.at[k].start, o->given.at[k].len, err))
			return -1;
	}
	return 0;
}

/*
 * Files that are longer than any place stay: they can't be in one piece. Then the longest place may
 * be shorter; the longest file goes first, so each is looked at once.
 */
static int leave_too_long(struct order *o, struct error *err)
{
	struct weighted *w = malloc((o->n + 1) * sizeof(*w));
	struct range longest;
	int rc = 0;
	if (!w)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < o->n; i++)
		w[i] = (struct weighted){ o->item[i].blocks, i };
	weighted_sort_down(w, o->n);
	for (size_t i = 0; i < o->n && !rc && rangeset_longest(o->usable, &longest); i++) {
		o->looks++;
		if (w[i].weight <= longest.len)
			break;
		rc = leave(o, &o->item[w[i].index], err);
	}
	free(w);
	return rc;
}

void order_release(struct order *o)
{
	rangeset_free(o->usable);
	free(o->item);
	free(o->given.at);
	free(o->runs.at);
	*o = (struct order){ 0 };
}

int order_load(struct order *o, const struct state *st, const struct planner_options *opt,
	       struct error *err)
{
	*o = (struct order){ .st = st,
			     .good = order_good(st, opt),
			     .limit = order_room_limit(st, opt->reserve),
			     .align = order_align(st, opt) };
	return load_items(o, err) || rangeset_clone(st->free, &o->usable, err) ||
			       ranges_join(&o->given, o->usable, err) || leave_too_long(o, err)
		       ? -1
		       : 0;
}

/* ---- what stays ---- */

/* Blocks to be left before it. */
static uint64_t lead_of(const struct order *o, const struct item *it)
{
	return o->dense ? 0 : it->lead;
}

static int put(struct order *o, struct item *it, uint64_t at, struct error *err)
{
	uint64_t room, lead = lead_of(o, it);
	it->at = at;
	if (rangeset_remove(o->usable, at, it->blocks, err))
		return -1;
	it->led = lead && at >= lead && rangeset_contains(o->usable, at - lead, lead);
	/* Where it stays, that may be the data of one that shall stay too. */
	if (it->led && at == it->home)
		it->led = rangeset_contains(o->st->free, at - lead, lead);
	if (it->led && rangeset_remove(o->usable, at - lead, lead, err))
		return -1;
	room = it->room ? room_from(o->usable, at + it->blocks) : 0;
	room = room < it->room ? room : it->room;
	it->roomy = room && room >= it->room / 2;
	return it->roomy ? rangeset_remove(o->usable, at + it->blocks, room, err) : 0;
}

/* In one piece, and the front list doesn't need its place. */
static bool can_stay(const struct order *o, const struct item *it)
{
	return it->kept == it->blocks && rangeset_contains(o->usable, it->home, it->blocks);
}

/* Does `it` lie where it should, behind the one before and its room, and its own tree? */
static bool follows(const struct order *o, const struct item *before, const struct item *it)
{
	uint64_t gap = it->first - before->end;
	if (it->first < before->end || gap < before->room / 2)
		return false;
	return gap <= 2 * before->room + it->lead ||
	       order_is_hole(&o->align, o->usable, before->end, it->begin, it->first, it->blocks);
}

/* Parts of the stream that lie in one piece. */
static int keep_neighbourhoods(struct order *o, uint64_t good, struct error *err)
{
	for (size_t i = o->n_front, k; i < o->n; i = k) {
		const struct item *last = NULL;
		uint64_t blocks = 0;
		for (k = i; k < o->n; k++) {
			const struct item *it = &o->item[k];
			if (it->left)
				continue;
			if (!can_stay(o, it) || (last && !follows(o, last, it)))
				break;
			blocks += it->blocks;
			last = it;
		}
		/* From behind: so they keep to the room that there is. */
		for (size_t m = k; m > i && blocks >= good; m--) {
			struct item *it = &o->item[m - 1];
			if (!it->left && put(o, it, it->home, err))
				return -1;
		}
		k += !last;
	}
	return 0;
}

/* Long files most of which can stay. */
static int keep_long_files(struct order *o, uint64_t good, struct error *err)
{
	struct weighted *w = malloc((o->n + 1) * sizeof(*w));
	size_t n = 0;
	int rc = 0;
	if (!w)
		return error_nomem(err, "planning");
	for (size_t i = o->n_front; i < o->n; i++) {
		const struct item *it = &o->item[i];
		if (!it->left && it->at == NOWHERE && it->kept >= good &&
		    it->kept >= it->blocks / 2)
			w[n++] = (struct weighted){ it->kept, i };
	}
	weighted_sort_down(w, n);
	for (size_t i = 0; i < n && !rc; i++) {
		struct item *it = &o->item[w[i].index];
		if (rangeset_contains(o->usable, it->home, it->blocks))
			rc = put(o, it, it->home, err);
	}
	free(w);
	return rc;
}

/* ---- the others ---- */

/* Where the stream goes on: the first of the next free runs that holds so many blocks. */
static bool go_on(const struct order *o, uint64_t cursor, uint64_t blocks, struct range *r)
{
	for (int i = 0; i < LOOK && rangeset_next(o->usable, cursor, r); i++) {
		if (r->len >= blocks)
			return true;
		if (blocks >= o->good && r->len >= o->good)
			return false; /* others fit here */
		cursor = r->start + r->len;
	}
	return false;
}

/*
 * Where the file's data begin in the free run, which holds so many blocks of its tree, its data and
 * its room: aligned, if it holds them like that too and the hole isn't too large for all that there
 * may be.
 */
static uint64_t place_in(struct order *o, const struct item *it, const struct range *r,
			 uint64_t blocks)
{
	uint64_t start = r->start + lead_of(o, it);
	uint64_t hole = o->dense ? 0 : align_hole(&o->align, start, it->blocks);
	if (!hole || hole + blocks > r->len || !align_take(&o->align, hole, it->first))
		return start;
	return start + hole;
}

/* The place that fits best, behind `near` if there are several; *at: where the data begin. */
static bool find_elsewhere(struct order *o, const struct item *it, uint64_t near, uint64_t *at)
{
	uint64_t blocks = lead_of(o, it) + it->blocks;
	struct range r;
	if (rangeset_best_fit(o->usable, blocks, near, &r)) {
		*at = place_in(o, it, &r, blocks);
		return true;
	}
	*at = rangeset_best_fit(o->usable, it->blocks, near, &r) ? r.start : NOWHERE;
	return *at != NOWHERE;
}

/* *ok = false: there is no room. */
static int put_in_order(struct order *o, size_t from, size_t to, bool *ok, struct error *err)
{
	uint64_t cursor = 0;
	for (size_t i = from; i < to && *ok; i++) {
		struct item *it = &o->item[i];
		uint64_t at, blocks = lead_of(o, it) + it->blocks + it->room;
		struct range r;
		if (it->left || it->at != NOWHERE)
			continue;
		if (go_on(o, cursor, blocks, &r)) {
			at = place_in(o, it, &r, blocks);
			cursor = at + it->blocks + it->room;
		} else {
			*ok = find_elsewhere(o, it, cursor, &at);
		}
		if (*ok && put(o, it, at, err))
			return -1;
	}
	return 0;
}

/* Files so long that they don't fit in everywhere, the longest ones first. */
static int put_long(struct order *o, bool *ok, struct error *err)
{
	struct weighted *w = malloc((o->n + 1) * sizeof(*w));
	struct range r = { 0 };
	size_t n = 0;
	int rc = 0;
	if (!w)
		return error_nomem(err, "planning");
	rangeset_longest(o->usable, &r);
	for (size_t i = o->n_front; i < o->n; i++) {
		const struct item *it = &o->item[i];
		if (!it->left && it->at == NOWHERE && it->blocks > r.len / LONG)
			w[n++] = (struct weighted){ it->blocks, i };
	}
	weighted_sort_down(w, n);
	for (size_t i = 0; i < n && *ok && !rc; i++) {
		*ok = rangeset_best_fit(o->usable, w[i].weight, 0, &r);
		if (*ok)
			rc = put(o, &o->item[w[i].index], r.start, err);
	}
	free(w);
	return rc;
}

/* Free run by free run. */
static int fill(struct order *o, bool *ok, struct error *err)
{
	size_t *next = malloc((o->n + 1) * sizeof(*next)), *link = next;
	uint64_t cursor = 0;
	struct range r;
	int rc = 0;
	if (!next)
		return error_nomem(err, "planning");
	/* A list of those that have no place: next[0] is the first, next[i + 1] the one after i. */
	for (size_t i = o->n_front; i < o->n; i++) {
		if (o->item[i].left || o->item[i].at != NOWHERE)
			continue;
		*link = i;
		link = &next[i + 1];
	}
	*link = o->n;
	while (!rc && next[0] < o->n && rangeset_next(o->usable, cursor, &r)) {
		cursor = r.start;
		link = next;
		for (int skipped = 0; skipped < FILL && *link < o->n && !rc;) {
			struct item *it = &o->item[*link];
			if (it->blocks > r.start + r.len - cursor) {
				link = &next[*link + 1];
				skipped++;
				continue;
			}
			rc = put(o, it, cursor, err);
			cursor += it->blocks;
			*link = next[*link + 1];
		}
		cursor = r.start + r.len;
	}
	*ok = next[0] == o->n;
	free(next);
	return rc;
}

static int attempt(struct order *o, const struct attempt *a, bool *ok, struct error *err)
{
	uint64_t good = o->good * a->times;
	*ok = true;
	for (size_t i = 0; i < o->n && a->dense; i++)
		o->item[i].room = 0;
	o->dense = a->dense;
	if (put_in_order(o, 0, o->n_front, ok, err))
		return -1;
	if (good && (keep_neighbourhoods(o, good, err) || keep_long_files(o, good, err)))
		return -1;
	if (!a->dense)
		return put_in_order(o, o->n_front, o->n, ok, err);
	if (*ok && put_long(o, ok, err))
		return -1;
	return *ok ? fill(o, ok, err) : 0;
}

static int add_wants(const struct order *o, struct packing *out, struct error *err)
{
	out->want = malloc((o->n + 1) * sizeof(*out->want));
	if (!out->want)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < o->n; i++) {
		const struct item *it = &o->item[i];
		if (!it->left && (it->at != it->home || it->kept < it->blocks))
			out->want[out->n++] = (struct want){ it->file, 0, it->blocks, it->at };
	}
	return 0;
}

int order_find(const struct state *st, const struct planner_options *opt, struct packing *out,
	       bool *found, struct error *err)
{
	uint64_t good = order_good(st, opt), limit = order_front_limit(st, good);
	struct order o = { 0 };
	bool ok = false;
	int rc = -1;
	*found = false;
	for (size_t i = 0; i < sizeof(attempts) / sizeof(*attempts) && !ok; i++) {
		order_release(&o);
		if (order_load(&o, st, opt, err) || attempt(&o, &attempts[i], &ok, err))
			goto out;
	}
	*found = ok &&
		 (order_front_misses(&o, limit) < order_front_astray(st, limit) || order_pays(&o));
	rc = *found ? add_wants(&o, out, err) : 0;
out:
	order_release(&o);
	return rc;
}
