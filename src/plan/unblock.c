/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unblock: the part of permute that finds work when little is ready: in long chains, in slides by a
 * few blocks, and where there is nothing but cycles.
 *
 * Parts are cut where enough of their target is open, as long as the tree blocks that the pieces
 * need are few: this costs no copies, but more requests, so that the pieces must be long unless
 * free blocks are scarce. Then targets that are nearly open are cleared: what lies on them is
 * bounced, that is, moved to free space for the time being. Free space is what nobody waits for;
 * where it is short, targets that are mostly occupied lend what is open of them. If nothing can be
 * cleared, parts are cut wherever their target is open.
 */
#include "permute.h"
#include <stdlib.h>
#include <string.h>

/* What a batch is thin against: free blocks, blocks still to be moved. */
#define THIN 4u
/* Share of the blocks still to be moved that a thin batch may bounce. */
#define BOUNCE 4u
/* Share of the free blocks that a thin batch may bounce. */
#define SPREE 32u
/* And so many blocks at least. */
#define SPREE_LEAST 32u
/* Share of the free blocks that is kept for tree blocks. */
#define RESERVE 16u
/* Blocks of a piece that is worth a cut, where there is something else to do. */
#define PIECE 4u
/* The same where free blocks are not scarce: a request costs as much as some 20 KiB more. */
#define LONG_PIECE 16u
/* Share of all that has to be moved; fewer free blocks are scarce. */
#define SCARCE 3u
/* Parts that a thin batch looks at. */
#define LOOK 1024u
/* Share of all that had to be moved which is little: as much may be written twice at the end. */
#define REST 4u
/* Batches that may look at all parts for that. */
#define REST_BATCHES 4u

/* Records that a leaf holds. */
static uint32_t leaf_records(const struct permute *pm)
{
	return pm->sc->snap->geo.block_size / 12 - 1;
}

uint32_t permute_tree_room(const struct permute *pm, const struct filemap *m)
{
	size_t n, most = EXTENT_ROOT_RECORDS;
	if (m->indirect)
		return UINT32_MAX;
	filemap_records(m, &n);
	if (m->depth)
		most = m->tree->n_node[0] * leaf_records(pm);
	return most > n ? (uint32_t)(most - n) : 0;
}

/* May the part be cut so often, for the tree blocks that it takes? Then that is counted. */
static bool may_cut(struct permute *pm, uint32_t i, uint32_t cuts)
{
	struct job_file *j = &pm->job[pm->part[i].job];
	if (j->room < cuts) {
		if (!pm->nodes)
			return false;
		pm->nodes--;
		j->room += leaf_records(pm) / 2;
	}
	j->room -= cuts;
	return true;
}

/* The first blocks of the part's target that are open, from `skip` on. */
static bool open_stretch(const struct permute *pm, const struct part *p, uint64_t skip,
			 uint64_t *at, uint64_t *end)
{
	struct range r;
	if (skip >= p->len || !rangeset_next(pm->open, p->to + skip, &r) ||
	    r.start >= p->to + p->len)
		return false;
	*at = r.start > p->to + skip ? r.start - p->to : skip;
	*end = r.start + r.len - p->to;
	*end = *end < p->len ? *end : p->len;
	return true;
}

/*
 * Cuts a part where `least` blocks of its target, or more, are open in one piece: those are ready
 * then. `early`: only as far as tree blocks allow.
 */
static int split_open(struct permute *pm, uint32_t i, uint64_t least, bool early, struct error *err)
{
	uint64_t at, end, skip = 0;
	uint32_t rest;
	while (pm->part[i].open && pm->part[i].open < pm->part[i].len &&
	       open_stretch(pm, &pm->part[i], skip, &at, &end)) {
		uint64_t len = pm->part[i].len;
		skip = end;
		/* To bounce what is in the way of the rest takes a move too. */
		if (end - at < least && (least > PIECE || (end - at) * 2 < len))
			continue;
		if (early && !may_cut(pm, i, (at > 0) + (end < len)))
			break;
		if (at) {
			if (permute_split(pm, i, at, &rest, err) || permute_look(pm, i, err))
				return -1;
			i = rest;
		}
		if (end < len) {
			if (permute_split(pm, i, end - at, &rest, err) || permute_look(pm, i, err))
				return -1;
			i = rest;
		}
		skip = 0;
	}
	return permute_look(pm, i, err);
}

/* Does the part belong in the list still? It may have become ready since, or have been split. */
static bool still_partial(struct permute *pm, uint32_t i)
{
	struct part *p = &pm->part[i];
	if (p->partial && !p->done && !p->ready && p->open)
		return true;
	p->partial = false;
	return false;
}

/* Drops those that are done from the list; what is the most blocks that is open of one? */
static uint64_t most_open(struct permute *pm)
{
	uint64_t best = 1;
	size_t kept = 0;
	for (size_t k = 0; k < pm->partial.n; k++) {
		uint32_t i = pm->partial.at[k];
		if (!still_partial(pm, i))
			continue;
		pm->partial.at[kept++] = i;
		best = pm->part[i].open > best ? pm->part[i].open : best;
	}
	pm->partial.n = kept;
	return best;
}

/* The parts that have the most blocks of their target open, or the largest share, are cut there. */
static int split_partials(struct permute *pm, uint64_t least, bool early, struct error *err)
{
	uint64_t best = most_open(pm);
	struct list *l = &pm->partial;
	size_t n = l->n, kept = 0;
	for (size_t k = 0; k < n; k++) {
		uint32_t i = l->at[k];
		const struct part *p = &pm->part[i];
		if (p->bouncing ||
		    (p->open < best / 4 && permute_class(p->len) - permute_class(p->open) >= 3)) {
			l->at[kept++] = i;
			continue;
		}
		pm->part[i].partial = false;
		if (split_open(pm, i, least, early, err))
			return -1;
	}
	for (size_t k = n; k < l->n; k++) /* what was listed meanwhile */
		l->at[kept++] = l->at[k];
	l->n = kept;
	return 0;
}

/* Puts part i on its way to free space. `cut`: a piece of it, if there is no room for all.
 * *ok = false: no room. */
static int bounce(struct permute *pm, uint32_t i, bool cut, bool *ok, struct error *err)
{
	struct rangeset *avail = pm->sc->st->free;
	uint32_t rest;
	struct range r;
	*ok = rangeset_best_fit(avail, pm->part[i].len, pm->part[i].to, &r);
	if (!*ok && cut && rangeset_longest(avail, &r)) {
		*ok = true;
		if (permute_split(pm, i, r.len, &rest, err) || permute_look(pm, rest, err) ||
		    permute_look(pm, i, err))
			return -1;
		if (pm->part[i].ready)
			return 0;
	}
	if (!*ok)
		return 0;
	struct part *p = &pm->part[i];
	struct job_file *j = &pm->job[p->job];
	p->dest = r.start;
	p->bouncing = true;
	p->next = j->bounce;
	j->bounce = i;
	if (rangeset_remove(avail, r.start, p->len, err))
		return -1;
	return permute_queue(pm, p->job, err);
}

/* The first part, if any, that lies on [at, end) and doesn't leave in the next batch. */
static bool next_blocker(const struct permute *pm, uint64_t *at, uint64_t end, uint32_t *i)
{
	uint64_t key;
	bool have = addrmap_floor(&pm->source, *at, &key, i);
	if (!have || key + pm->part[*i].len <= *at)
		have = addrmap_above(&pm->source, *at, &key, i);
	for (; have && key < end; have = addrmap_above(&pm->source, key, &key, i)) {
		const struct part *b = &pm->part[*i];
		*at = key + b->len;
		if (!b->ready && !b->bouncing)
			return true;
	}
	return false;
}

static uint64_t longest_free(const struct permute *pm)
{
	struct range r = { 0 };
	rangeset_longest(pm->sc->st->free, &r);
	return r.len;
}

/* Blocks that have to bounce so that the target of p is open; UINT64_MAX: it isn't worth it. */
static uint64_t cost_of(const struct permute *pm, const struct part *p)
{
	uint64_t cost = 0, longest = longest_free(pm);
	uint32_t i;
	for (uint64_t at = p->to; next_blocker(pm, &at, p->to + p->len, &i);) {
		const struct part *b = &pm->part[i];
		if (b->away || (!pm->n_rest && b->len > 4 * p->len + 16) || b->len > 4 * longest)
			return UINT64_MAX;
		cost += b->len;
	}
	return cost;
}

/* Bounces what lies on the target of part i. */
static int clear_target(struct permute *pm, uint32_t i, uint64_t *budget, bool *any,
			struct error *err)
{
	uint64_t end = pm->part[i].to + pm->part[i].len, cost = cost_of(pm, &pm->part[i]);
	bool ok = true;
	uint32_t k;
	if (!cost || cost > *budget)
		return 0;
	*budget -= cost;
	for (uint64_t at = pm->part[i].to; ok && next_blocker(pm, &at, end, &k);) {
		uint64_t next = at;
		at = pm->part[k].from > pm->part[i].to ? pm->part[k].from : pm->part[i].to;
		if (bounce(pm, k, true, &ok, err))
			return -1;
		*any |= ok;
		if (ok && pm->part[k].from + pm->part[k].len >= next)
			at = next;
	}
	return 0;
}

/* Lets others use [start, end), which are open of a part's target. */
static int lend_range(struct permute *pm, struct part *p, uint64_t start, uint64_t end,
		      struct error *err)
{
	if (array_reserve(&pm->lent.at, &pm->lent.cap, pm->lent.n + 1, sizeof(*pm->lent.at), err) ||
	    rangeset_add(pm->sc->st->free, start, end - start, err))
		return -1;
	pm->lent.at[pm->lent.n++] = (struct range){ start, end - start };
	p->open -= end - start;
	pm->open_blocks -= end - start;
	return 0;
}

/* Lets others use what is open of a part's target meanwhile. */
static int lend(struct permute *pm, uint32_t i, struct error *err)
{
	struct part *p = &pm->part[i];
	uint64_t end = p->to + p->len;
	struct range r;
	if (!still_partial(pm, i))
		return 0;
	if (p->open == p->len)
		return lend_range(pm, p, p->to, end, err);
	for (uint64_t at = p->to; p->open && rangeset_next(pm->open, at, &r) && r.start < end;) {
		uint64_t a = r.start > at ? r.start : at;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		if (rangeset_remove(pm->open, a, z - a, err) || lend_range(pm, p, a, z, err))
			return -1;
		at = z;
	}
	return 0;
}

static uint64_t spare_blocks(const struct permute *pm)
{
	return rangeset_blocks(pm->sc->st->free);
}

/*
 * Clears the targets that have the least share still occupied. Where free blocks are short, those
 * that have the largest share occupied lend what is open of them.
 */
static int clear_partials(struct permute *pm, uint64_t reserve, uint64_t *budget, bool *any,
			  struct error *err)
{
	struct weighted w[LOOK];
	size_t kept = 0, n = 0;
	for (size_t k = 0; k < pm->partial.n; k++) {
		uint32_t i = pm->partial.at[k];
		const struct part *p = &pm->part[i];
		if (!still_partial(pm, i))
			continue;
		pm->partial.at[kept++] = i;
		if (n < LOOK)
			w[n++] = (struct weighted){ ((p->len - p->open) << 16) / p->len, i };
	}
	pm->partial.n = kept;
	weighted_sort(w, n);
	while (spare_blocks(pm) < reserve && n > (pm->starved ? 0 : 1)) {
		if (lend(pm, (uint32_t)w[--n].index, err))
			return -1;
	}
	for (size_t k = 0; k < n && *budget; k++) {
		uint32_t i = (uint32_t)w[k].index;
		uint64_t cost = cost_of(pm, &pm->part[i]);
		if (cost > *budget)
			continue;
		while (spare_blocks(pm) < reserve + cost && n > k + 1) {
			if (lend(pm, (uint32_t)w[--n].index, err))
				return -1;
		}
		if (spare_blocks(pm) >= reserve + cost && clear_target(pm, i, budget, any, err))
			return -1;
	}
	return 0;
}

/* Clears the smallest targets. */
static int clear_small(struct permute *pm, uint64_t *budget, bool *any, struct error *err)
{
	for (unsigned c = 0, looked = 0; c < CLASSES && *budget; c++) {
		struct list *l = &pm->size[c];
		for (size_t k = l->n; k > 0 && *budget && looked < LOOK; k--, looked++) {
			uint32_t i = l->at[k - 1];
			const struct part *p = &pm->part[i];
			if (p->done || permute_class(p->len) != c) {
				l->at[k - 1] = l->at[--l->n];
				continue;
			}
			if (!p->ready && clear_target(pm, i, budget, any, err))
				return -1;
		}
	}
	return 0;
}

/* Bounces anything that lies on a target, in pieces if need be. */
static int bounce_any(struct permute *pm, bool *any, struct error *err)
{
	for (unsigned c = 0; c < CLASSES && !*any; c++) {
		struct list *l = &pm->size[c];
		for (size_t k = l->n; k > 0 && !*any; k--) {
			const struct part *p = &pm->part[l->at[k - 1]];
			uint64_t at = p->to;
			uint32_t i;
			bool more = true;
			if (p->done || p->ready || permute_class(p->len) != c)
				continue;
			do {
				more = next_blocker(pm, &at, p->to + p->len, &i);
			} while (more && pm->part[i].away);
			if (more && bounce(pm, i, true, any, err))
				return -1;
			if (!*any && !rangeset_count(pm->sc->st->free))
				return 0;
		}
	}
	return 0;
}

/*
 * Little is left, and free space could take all of it: whatever still lies on a target bounces, so
 * that two batches do what would else be a chain of ever smaller ones. Each batch has its flushes,
 * and these cost more than writing the last few blocks twice.
 */
static int clear_rest(struct permute *pm, bool *any, struct error *err)
{
	uint64_t budget = pm->pending_blocks;
	pm->n_rest++;
	for (uint32_t i = 0; i < pm->n_part && budget; i++) {
		const struct part *p = &pm->part[i];
		if (!p->done && !p->ready && clear_target(pm, i, &budget, any, err))
			return -1;
	}
	return 0;
}

/* *any: there is something for the next batch. */
int permute_prepare(struct permute *pm, bool *any, struct error *err)
{
	uint64_t all = spare_blocks(pm) + pm->open_blocks, reserve = all / RESERVE + (all > 2);
	uint64_t thin = all / THIN, budget = pm->pending_blocks / BOUNCE + 1;
	bool scarce = all < pm->all_blocks / SCARCE, bounced = false;
	bool rest = pm->pending_blocks <= pm->all_blocks / REST && pm->n_rest < REST_BATCHES &&
		    spare_blocks(pm) > reserve + pm->pending_blocks;
	if (budget > all / SPREE + SPREE_LEAST)
		budget = all / SPREE + SPREE_LEAST;
	if (thin > pm->pending_blocks / THIN)
		thin = pm->pending_blocks / THIN;
	if (thin > pm->sc->snap->limits.copy_blocks / 2)
		thin = pm->sc->snap->limits.copy_blocks / 2;
	if (rest && clear_rest(pm, &bounced, err))
		return -1;
	if (!rest && pm->ready_blocks <= thin &&
	    split_partials(pm, scarce ? PIECE : LONG_PIECE, true, err))
		return -1;
	if (!rest && (pm->ready_blocks <= thin || pm->starved) &&
	    clear_partials(pm, reserve, &budget, &bounced, err))
		return -1;
	if (pm->ready_blocks <= thin && !bounced && spare_blocks(pm) > reserve) {
		if (budget > spare_blocks(pm) - reserve)
			budget = spare_blocks(pm) - reserve;
		if (clear_small(pm, &budget, &bounced, err))
			return -1;
	}
	if (!pm->queue.n && split_partials(pm, 1, false, err))
		return -1;
	if (!pm->queue.n && bounce_any(pm, &bounced, err))
		return -1;
	*any = pm->queue.n > 0;
	return 0;
}
