/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * layout: where files would lie, before anything is moved.
 *
 * A file that lies in one piece is an object; it can be lifted (its blocks become a gap) and put
 * elsewhere. Everything else is either a gap or stays where it is. Changes can be taken back to a
 * mark. Room for a file is made in two ways: a window of small objects is emptied and they are put
 * into other gaps, or the objects between gaps are shifted together so that the gaps become one.
 */
#include "layout.h"
#include <stdlib.h>
#include <string.h>

/* Where windows are looked for: so many of the longest gaps, and of the file's own places. */
#define SEEDS 12u
/* Objects that a window may hold. */
#define MOST_OBJECTS 200u

int layout_init(struct layout *l, const struct state *st, struct error *err)
{
	const struct snapshot *s = st->snap;
	*l = (struct layout){ .st = st, .n_file = s->n_file, .cap = s->n_file + 1 };
	l->at = malloc((s->n_file + 1) * sizeof(*l->at));
	l->home = malloc((s->n_file + 1) * sizeof(*l->home));
	l->blocks = malloc((s->n_file + 1) * sizeof(*l->blocks));
	if (!l->at || !l->home || !l->blocks)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *m = state_map(st, i);
		l->blocks[i] = filemap_blocks(m->ext, m->n_ext);
		l->at[i] = filemap_runs(m->ext, m->n_ext) == 1 ? m->ext[0].pblk : NOWHERE;
		l->home[i] = l->at[i];
	}
	return rangeset_clone(st->free, &l->gap, err);
}

int layout_add_runs(struct layout *l, size_t file, const struct runs *r, struct error *err)
{
	size_t want = l->n_file + r->n + 1;
	if (want > l->cap) {
		size_t c[4] = { l->cap, l->cap, l->cap, l->own ? l->cap : 0 };
		if (array_reserve(&l->at, &c[0], want, sizeof(*l->at), err) ||
		    array_reserve(&l->home, &c[1], want, sizeof(*l->home), err) ||
		    array_reserve(&l->blocks, &c[2], want, sizeof(*l->blocks), err))
			return -1;
		bool files = !l->own; /* so far, each object is a file */
		if (array_reserve(&l->own, &c[3], c[0], sizeof(*l->own), err))
			return -1;
		l->cap = c[0];
		for (size_t i = 0; files && i < l->n_file; i++)
			l->own[i] = (struct run_owner){ i, 0 };
	}
	for (size_t i = 0; i < r->n; i++, l->n_file++) {
		l->at[l->n_file] = l->home[l->n_file] = r->at[i].pblk;
		l->blocks[l->n_file] = r->at[i].blocks;
		l->own[l->n_file] = (struct run_owner){ file, r->at[i].offset };
	}
	if (l->n_file >= UINT32_MAX)
		return error_set(err, ERROR_OPERATION, "plan: too many runs");
	return 0;
}

int layout_init_runs(struct layout *l, const struct state *st, struct error *err)
{
	struct runs r = { 0 };
	int rc = 0;
	*l = (struct layout){ .st = st };
	for (size_t i = 0; i < st->snap->n_file && !rc; i++) {
		rc = runs_of(state_map(st, i), &r, err);
		if (!rc)
			rc = layout_add_runs(l, i, &r, err);
	}
	free(r.at);
	return rc ? -1 : rangeset_clone(st->free, &l->gap, err);
}

int layout_clone(const struct layout *l, struct layout *out, struct error *err)
{
	size_t size = (l->n_file + 1) * sizeof(*l->at);
	*out = (struct layout){ .st = l->st, .n_file = l->n_file, .cap = l->n_file + 1 };
	out->at = malloc(size);
	out->home = malloc(size);
	out->blocks = malloc(size);
	if (l->own)
		out->own = malloc((l->n_file + 1) * sizeof(*l->own));
	if (!out->at || !out->home || !out->blocks || (l->own && !out->own))
		return error_nomem(err, "planning");
	if (l->own)
		memcpy(out->own, l->own, l->n_file * sizeof(*l->own));
	memcpy(out->at, l->at, size);
	memcpy(out->home, l->home, size);
	memcpy(out->blocks, l->blocks, size);
	out->indexed = l->indexed;
	return addrmap_clone(&l->object, &out->object, err) ||
			       rangeset_clone(l->gap, &out->gap, err)
		       ? -1
		       : 0;
}

void layout_release(struct layout *l)
{
	free(l->own);
	addrmap_release(&l->object);
	rangeset_free(l->gap);
	free(l->at);
	free(l->home);
	free(l->blocks);
	free(l->undo);
	free(l->file);
	*l = (struct layout){ 0 };
}

static int note(struct layout *l, size_t file, struct error *err)
{
	if (array_reserve(&l->undo, &l->cap_undo, l->n_undo + 1, sizeof(*l->undo), err))
		return -1;
	l->undo[l->n_undo++] = (struct layout_undo){ file, l->at[file] };
	return 0;
}

static int lift(struct layout *l, size_t file, struct error *err)
{
	if (l->indexed)
		addrmap_del(&l->object, l->at[file]);
	if (rangeset_add(l->gap, l->at[file], l->blocks[file], err))
		return -1;
	l->at[file] = NOWHERE;
	return 0;
}

static int put(struct layout *l, size_t file, uint64_t start, struct error *err)
{
	if (rangeset_remove(l->gap, start, l->blocks[file], err) ||
	    (l->indexed && addrmap_put(&l->object, start, (uint32_t)file, err)))
		return -1;
	l->at[file] = start;
	return 0;
}

int layout_lift(struct layout *l, size_t file, struct error *err)
{
	return note(l, file, err) || lift(l, file, err) ? -1 : 0;
}

int layout_put(struct layout *l, size_t file, uint64_t start, struct error *err)
{
	return note(l, file, err) || put(l, file, start, err) ? -1 : 0;
}

int layout_take_back(struct layout *l, size_t mark, struct error *err)
{
	while (l->n_undo > mark) {
		struct layout_undo u = l->undo[--l->n_undo];
		if (l->at[u.file] != NOWHERE && lift(l, u.file, err))
			return -1;
		if (u.was != NOWHERE && put(l, u.file, u.was, err))
			return -1;
	}
	return 0;
}

int layout_index(struct layout *l, struct error *err)
{
	struct weighted *w;
	size_t n = 0;
	int rc;
	if (l->indexed)
		return 0;
	w = malloc((l->n_file + 1) * sizeof(*w));
	if (!w)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < l->n_file; i++) {
		if (l->at[i] != NOWHERE)
			w[n++] = (struct weighted){ l->at[i], i };
	}
	weighted_sort(w, n);
	rc = addrmap_fill(&l->object, w, n, err);
	free(w);
	l->indexed = !rc;
	return rc;
}

bool layout_object(const struct layout *l, uint64_t block, uint32_t *object)
{
	uint64_t key;
	return addrmap_floor(&l->object, block, &key, object) && key == block;
}

int layout_wants(const struct layout *l, struct want **want, size_t *n, size_t *cap,
		 struct error *err)
{
	for (size_t i = 0; i < l->n_file; i++) {
		struct run_owner o = l->own ? l->own[i] : (struct run_owner){ i, 0 };
		if (l->at[i] == NOWHERE || l->at[i] == l->home[i])
			continue;
		if (array_reserve(want, cap, *n + 1, sizeof(**want), err))
			return -1;
		(*want)[(*n)++] = (struct want){ o.file, o.offset, l->blocks[i], l->at[i] };
	}
	return 0;
}

/* ---- windows ---- */

/* Blocks that have to be written if the object moves: none if it does anyway. */
static uint64_t cost_of(const struct layout *l, size_t file)
{
	return l->at[file] == l->home[file] ? l->blocks[file] : 0;
}

/* What is beside a window: an object, and the gap beyond it. */
struct side {
	bool any;
	uint32_t file;
	uint64_t gap;
};

/* Right behind, or right before, the window. */
static struct side beside(const struct layout *l, const struct layout_window *w, bool behind)
{
	struct side s = { 0 };
	uint64_t key, edge = behind ? w->end : w->start;
	if (!edge || !addrmap_floor(&l->object, behind ? edge : edge - 1, &key, &s.file))
		return s;
	s.any = behind ? key == edge : key + l->blocks[s.file] == edge;
	if (s.any)
		s.gap = behind ? room_from(l->gap, key + l->blocks[s.file])
			       : room_before(l->gap, key);
	return s;
}

/* Extends the window by one object and the gap beyond it, on the better side. */
static bool extend(const struct layout *l, struct layout_window *w, struct side side[2],
		   uint64_t largest)
{
	uint64_t best = 0;
	int better = -1;
	for (int i = 0; i < 2; i++) {
		if (!side[i].any || l->blocks[side[i].file] > largest)
			continue;
		uint64_t cost = cost_of(l, side[i].file);
		/* Blocks gained for each block moved. */
		uint64_t rate = cost ? (side[i].gap << 16) / cost : UINT64_MAX;
		if (better < 0 || rate > best) {
			better = i;
			best = rate;
		}
	}
	if (better < 0)
		return false;
	struct side *s = &side[better];
	w->cost += cost_of(l, s->file);
	w->room += s->gap;
	if (better)
		w->end += l->blocks[s->file] + s->gap;
	else
		w->start -= l->blocks[s->file] + s->gap;
	*s = beside(l, w, better);
	return true;
}

/* The cheapest window that grows out of this gap. */
static bool grow(const struct layout *l, const struct range *gap, uint64_t want, bool shift,
		 uint64_t largest, uint64_t limit, struct layout_window *out)
{
	struct layout_window w = { gap->start, gap->start + gap->len, 0, gap->len };
	struct side side[2] = { beside(l, &w, false), beside(l, &w, true) };
	for (unsigned i = 0; i < MOST_OBJECTS; i++) {
		if ((shift ? w.room : w.end - w.start) >= want) {
			*out = w;
			return true;
		}
		if (!extend(l, &w, side, largest) || w.cost > limit)
			return false;
	}
	return false;
}

/* Gaps to begin with: the longest ones, and those where the file itself is. */
static size_t find_seeds(struct layout *l, const struct runs *own, struct range *seed, size_t *n,
			 struct error *err)
{
	int rc = 0;
	size_t k;
	*n = 0;
	while (*n < SEEDS && rangeset_longest(l->gap, &seed[*n])) {
		if (rangeset_remove(l->gap, seed[*n].start, seed[*n].len, err))
			return -1;
		++*n;
	}
	for (k = 0; k < *n && !rc; k++)
		rc = rangeset_add(l->gap, seed[k].start, seed[k].len, err);
	for (size_t i = 0; i < own->n && i < SEEDS && !rc; i++) {
		struct range *r = &seed[*n];
		if (rangeset_next(l->gap, own->at[i].pblk, r) &&
		    r->start < own->at[i].pblk + own->at[i].blocks)
			++*n;
	}
	return rc;
}

int layout_lift_all(struct layout *l, uint64_t start, uint64_t end, size_t *n, struct error *err)
{
	uint64_t at = start, key;
	uint32_t file;
	bool more = addrmap_floor(&l->object, at, &key, &file) && key == at;
	*n = 0;
	if (!more)
		more = addrmap_above(&l->object, at, &key, &file);
	while (more && key < end) {
		if (array_reserve(&l->file, &l->cap_file, *n + 1, sizeof(*l->file), err))
			return -1;
		l->file[(*n)++] = (struct weighted){ l->blocks[file], file };
		at = key;
		if (layout_lift(l, file, err))
			return -1;
		more = addrmap_above(&l->object, at, &key, &file);
	}
	return 0;
}

/* Puts the file into the window, and what was there into the gaps that fit best. */
static int empty(struct layout *l, const struct layout_window *w, size_t file, bool *ok,
		 struct error *err)
{
	size_t n, mark = l->n_undo;
	if (layout_lift_all(l, w->start, w->end, &n, err) || layout_put(l, file, w->start, err))
		return -1;
	weighted_sort_down(l->file, n);
	*ok = true;
	for (size_t i = 0; i < n && *ok; i++) {
		struct range r;
		*ok = rangeset_best_fit(l->gap, l->file[i].weight, w->start, &r);
		if (*ok && layout_put(l, l->file[i].index, r.start, err))
			return -1;
	}
	return *ok ? 0 : layout_take_back(l, mark, err);
}

/* Shifts the objects in the window to its start, and puts the file behind them. */
static int shift(struct layout *l, const struct layout_window *w, size_t file, struct error *err)
{
	uint64_t at = w->start;
	size_t n;
	if (layout_lift_all(l, w->start, w->end, &n, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (layout_put(l, l->file[i].index, at, err))
			return -1;
		at += l->file[i].weight;
	}
	return layout_put(l, file, at, err);
}

/* The cheapest window out of these gaps: for so many blocks in all, or in gaps. */
static bool cheapest(const struct layout *l, const struct range *seed, size_t n, uint64_t blocks,
		     bool gaps, uint64_t largest, uint64_t limit, struct layout_window *best)
{
	bool found = false;
	for (size_t i = 0; i < n; i++) {
		struct layout_window w;
		if (!grow(l, &seed[i], blocks, gaps, largest, limit, &w))
			continue;
		*best = w;
		found = true;
		if (!w.cost)
			break; /* none is cheaper */
		limit = w.cost - 1;
	}
	return found;
}

int layout_find_window(struct layout *l, uint64_t blocks, const struct runs *own, uint64_t limit,
		       struct layout_window *out, bool *found, struct error *err)
{
	struct range seed[2 * SEEDS];
	size_t n;
	*found = false;
	if (layout_index(l, err) || find_seeds(l, own, seed, &n, err))
		return -1;
	if (!n)
		return 0;
	/* What is longer than the longest gap can't go anywhere. */
	*found = cheapest(l, seed, n, blocks, false, seed[0].len, limit, out);
	return 0;
}

int layout_make_room(struct layout *l, size_t file, const struct runs *own, uint64_t limit,
		     bool *ok, struct error *err)
{
	struct range seed[2 * SEEDS];
	struct layout_window best[2];
	bool found[2];
	size_t n;
	*ok = false;
	if (layout_index(l, err) || find_seeds(l, own, seed, &n, err))
		return -1;
	for (int how = 0; how < 2; how++)
		found[how] = cheapest(l, seed, n, l->blocks[file], how,
				      how ? UINT64_MAX : l->blocks[file] - 1, limit, &best[how]);
	if (found[0] && (!found[1] || best[0].cost <= best[1].cost) &&
	    empty(l, &best[0], file, ok, err))
		return -1;
	if (*ok || !found[1])
		return 0;
	*ok = true;
	return shift(l, &best[1], file, err);
}
