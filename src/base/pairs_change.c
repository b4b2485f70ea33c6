/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node that is nearly empty joins a neighbour under the same parent, if they fit in one with room
 * to spare. One that is full is halved, but the last leaf, where it grows at its end, is left full:
 * pairs that come in order fill their leaves.
 */
#include "pairs_nodes.h"
#include <assert.h>
#include <string.h>

#define LOW  (CAP / 3)	     /* nearly empty */
#define JOIN (CAP - CAP / 4) /* of two nodes made into one */

/* ---- nodes ---- */

static uint32_t take_leaf(struct pairs *t)
{
	uint32_t i = t->leaf.unused;
	if (!t->leaf.n_unused) {
		assert(t->leaf.used < t->leaf.cap);
		return t->leaf.used++;
	}
	t->leaf.unused = leaf_of(t, i)->unused;
	t->leaf.n_unused--;
	return i;
}

static uint32_t take_inner(struct pairs *t)
{
	uint32_t i = t->inner.unused;
	if (!t->inner.n_unused) {
		assert(t->inner.used < t->inner.cap);
		return t->inner.used++;
	}
	t->inner.unused = inner_of(t, i)->unused;
	t->inner.n_unused--;
	return i;
}

static void give_back(struct pairs *t, uint32_t level, uint32_t i)
{
	struct pairs_pool *p = level ? &t->inner : &t->leaf;
	if (level)
		inner_of(t, i)->unused = p->unused;
	else
		leaf_of(t, i)->unused = p->unused;
	p->unused = i;
	p->n_unused++;
}

/* ---- masks ---- */

static uint64_t mask_of(const struct pairs *t, uint32_t level, uint32_t node)
{
	uint64_t mask = 0;
	for (uint32_t i = 0; i < size_of(t, level, node); i++)
		mask |= level ? inner_of(t, node)->mask[i] : bit_of(leaf_of(t, node)->b[i]);
	return mask;
}

/* b was put into the leaf. */
static void mark(struct pairs *t, const struct pairs_place *p, uint64_t b)
{
	uint64_t bit = bit_of(b);
	t->mask |= bit;
	for (uint32_t l = 1; l <= t->height; l++) {
		uint64_t *mask = &inner_of(t, p->node[l])->mask[p->at[l]];
		if (!(bit & ~*mask))
			return;
		*mask |= bit;
	}
}

/* b was taken out of the leaf. */
static void unmark(struct pairs *t, const struct pairs_place *p, uint64_t b)
{
	const struct leaf *lf = leaf_of(t, p->node[0]);
	uint64_t bit = bit_of(b);
	if (!bit || pick_equal(lf->b, 0, lf->n, b, true) < lf->n)
		return;
	for (uint32_t l = 1; l <= t->height; l++) {
		struct inner *in = inner_of(t, p->node[l]);
		in->mask[p->at[l]] &= ~bit;
		if (pick_mask(in->mask, 0, in->n, bit, true) < in->n)
			return;
	}
	t->mask &= ~bit;
}

/* ---- changes ---- */

/* Moves `n` entries of a node. They may overlap. */
static void move_leaf(struct leaf *to, uint32_t i, const struct leaf *from, uint32_t k, uint32_t n)
{
	memmove(to->a + i, from->a + k, n * sizeof(*to->a));
	memmove(to->b + i, from->b + k, n * sizeof(*to->b));
}

static void move_inner(struct inner *to, uint32_t i, const struct inner *from, uint32_t k,
		       uint32_t n)
{
	memmove(to->child + i, from->child + k, n * sizeof(*to->child));
	memmove(to->a + i, from->a + k, n * sizeof(*to->a));
	memmove(to->b + i, from->b + k, n * sizeof(*to->b));
	memmove(to->mask + i, from->mask + k, n * sizeof(*to->mask));
}

/* A second root above the first one. */
static void add_level(struct pairs *t, struct pairs_place *p)
{
	uint32_t node = take_inner(t);
	struct inner *in = inner_of(t, node);
	assert(t->height + 1 < PAIRS_LEVELS);
	in->n = 1;
	in->child[0] = t->root;
	in->a[0] = in->b[0] = 0;
	fill_up(in->a, 1);
	in->mask[0] = t->mask;
	t->root = node;
	t->height++;
	p->node[t->height] = node;
	p->at[t->height] = 0;
}

/* Halves the node of this level on the path, so that it has room where the path goes. The nodes
 * above are halved first if they are full. */
static void split(struct pairs *t, struct pairs_place *p, uint32_t level)
{
	uint32_t node = p->node[level], right, keep = CAP / 2;
	struct pair bound;
	if (level == t->height)
		add_level(t, p);
	if (inner_of(t, p->node[level + 1])->n == CAP)
		split(t, p, level + 1);
	if (!level) {
		bool last = true;
		for (uint32_t l = 1; l <= t->height; l++)
			last &= p->at[l] + 1 == inner_of(t, p->node[l])->n;
		if (last && p->at[0] == CAP)
			keep = CAP - 1;
		right = take_leaf(t);
		struct leaf *to = leaf_of(t, right), *from = leaf_of(t, node);
		move_leaf(to, 0, from, keep, CAP - keep);
		to->n = CAP - keep;
		from->n = keep;
		fill_up(to->a, to->n);
		fill_up(from->a, keep);
		bound = (struct pair){ to->a[0], to->b[0] };
	} else {
		right = take_inner(t);
		struct inner *to = inner_of(t, right), *from = inner_of(t, node);
		move_inner(to, 0, from, keep, CAP - keep);
		to->n = CAP - keep;
		from->n = keep;
		fill_up(to->a, to->n);
		fill_up(from->a, keep);
		bound = (struct pair){ to->a[0], to->b[0] };
		to->a[0] = to->b[0] = 0;
	}
	struct inner *up = inner_of(t, p->node[level + 1]);
	uint32_t i = p->at[level + 1];
	move_inner(up, i + 2, up, i + 1, up->n - i - 1);
	up->n++;
	up->child[i + 1] = right;
	up->a[i + 1] = bound.a;
	up->b[i + 1] = bound.b;
	up->mask[i] = mask_of(t, level, node);
	up->mask[i + 1] = mask_of(t, level, right);
	/* A place right between two leaves is the end of the left one. */
	if (p->at[level] > keep || (level && p->at[level] == keep)) {
		p->node[level] = right;
		p->at[level] -= keep;
		p->at[level + 1]++;
	}
}

void pairs_insert(struct pairs *t, const struct pairs_place *place, struct pair x)
{
	struct pairs_place p = *place;
	if (leaf_of(t, p.node[0])->n == CAP)
		split(t, &p, 0);
	struct leaf *lf = leaf_of(t, p.node[0]);
	uint32_t i = p.at[0];
	move_leaf(lf, i + 1, lf, i, lf->n - i);
	lf->a[i] = x.a;
	lf->b[i] = x.b;
	lf->n++;
	t->count++;
	mark(t, &p, x.b);
}

int pairs_append(struct pairs *t, struct pairs_place *p, struct pair x, struct error *err)
{
	struct leaf *lf = t->count ? leaf_of(t, p->node[0]) : NULL;
	if (!lf || lf->n != p->at[0] || lf->n == CAP) {
		if (pairs_reserve(t, 1, err))
			return -1;
		pairs_seek(t, x, p);
		pairs_insert(t, p, x);
		pairs_seek(t, (struct pair){ UINT64_MAX, UINT64_MAX }, p);
		return 0;
	}
	lf->a[lf->n] = x.a;
	lf->b[lf->n++] = x.b;
	p->at[0] = lf->n;
	t->count++;
	mark(t, p, x.b);
	return 0;
}

/* The leaf begins with x now: its bound is no higher. */
static void lower_bound(struct pairs *t, const struct pairs_place *p, struct pair x)
{
	for (uint32_t l = 1; l <= t->height; l++) {
		struct inner *in = inner_of(t, p->node[l]);
		uint32_t i = p->at[l];
		if (!i)
			continue;
		if (x.a < in->a[i] || (x.a == in->a[i] && x.b < in->b[i])) {
			in->a[i] = x.a;
			in->b[i] = x.b;
		}
		return;
	}
}

/* The leaf ends with x now: the next one's bound is above it. */
static void raise_bound(struct pairs *t, const struct pairs_place *p, struct pair x)
{
	for (uint32_t l = 1; l <= t->height; l++) {
		struct inner *in = inner_of(t, p->node[l]);
		uint32_t i = p->at[l] + 1;
		if (i == in->n)
			continue;
		if (x.a > in->a[i] || (x.a == in->a[i] && x.b >= in->b[i])) {
			in->b[i] = x.b + 1;
			in->a[i] = x.a + !in->b[i];
		}
		return;
	}
}

void pairs_set(struct pairs *t, const struct pairs_place *p, struct pair x)
{
	struct leaf *lf = leaf_of(t, p->node[0]);
	uint64_t was = lf->b[p->at[0]];
	lf->a[p->at[0]] = x.a;
	lf->b[p->at[0]] = x.b;
	if (was != x.b) {
		mark(t, p, x.b);
		unmark(t, p, was);
	}
	if (!p->at[0])
		lower_bound(t, p, x);
	if (p->at[0] + 1 == lf->n)
		raise_bound(t, p, x);
}

/* Takes child i out of the inner node of this level on the path. */
static void drop_child(struct pairs *t, const struct pairs_place *p, uint32_t level, uint32_t i)
{
	struct inner *in = inner_of(t, p->node[level]);
	give_back(t, level - 1, in->child[i]);
	move_inner(in, i, in, i + 1, in->n - i - 1);
	in->a[--in->n] = UINT64_MAX;
	if (!i)
		in->a[0] = in->b[0] = 0;
}

/* Child i + 1 of the inner node of this level becomes part of child i, if they fit. */
static bool join(struct pairs *t, const struct pairs_place *p, uint32_t level, uint32_t i)
{
	struct inner *up = inner_of(t, p->node[level]);
	uint32_t a = up->child[i], b = up->child[i + 1];
	uint32_t n = size_of(t, level - 1, a), m = size_of(t, level - 1, b);
	if (n + m > JOIN)
		return false;
	if (level == 1) {
		move_leaf(leaf_of(t, a), n, leaf_of(t, b), 0, m);
		leaf_of(t, a)->n = n + m;
	} else {
		move_inner(inner_of(t, a), n, inner_of(t, b), 0, m);
		inner_of(t, a)->n = n + m;
		inner_of(t, a)->a[n] = up->a[i + 1];
		inner_of(t, a)->b[n] = up->b[i + 1];
	}
	up->mask[i] |= up->mask[i + 1];
	drop_child(t, p, level, i + 1);
	return true;
}

void pairs_erase(struct pairs *t, const struct pairs_place *p)
{
	struct leaf *lf = leaf_of(t, p->node[0]);
	uint32_t i = p->at[0];
	uint64_t b = lf->b[i];
	move_leaf(lf, i, lf, i + 1, lf->n - i - 1);
	lf->a[--lf->n] = UINT64_MAX;
	t->count--;
	unmark(t, p, b);
	for (uint32_t l = 1; l <= t->height; l++) {
		uint32_t n = size_of(t, l - 1, p->node[l - 1]), k = p->at[l];
		if (n >= LOW)
			break;
		if (!n)
			drop_child(t, p, l, k);
		else if (!(k + 1 < inner_of(t, p->node[l])->n && join(t, p, l, k)) &&
			 !(k && join(t, p, l, k - 1)))
			break;
	}
	while (t->height && inner_of(t, t->root)->n == 1) {
		uint32_t root = t->root;
		t->root = inner_of(t, root)->child[0];
		give_back(t, t->height--, root);
	}
}
