/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An inner node has for each child a lower bound of its pairs, above all pairs of the child before
 * it; the bound of the first child is not looked at. So a bound may be lower than need be, and only
 * a pair that is changed in place may have to move one.
 *
 * A node that is nearly empty joins a neighbour under the same parent, if they fit in one with room
 * to spare. One that is full is halved, but the last leaf, where it grows at its end, is left full:
 * pairs that come in order fill their leaves.
 */
#include "scaledefrag/pairs.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CAP  64u	     /* of a node */
#define LOW  (CAP / 3)	     /* nearly empty */
#define JOIN (CAP - CAP / 4) /* of two nodes made into one */

struct leaf {
	uint32_t n;
	uint32_t unused; /* next one in the list */
	uint64_t a[CAP], b[CAP];
};

struct inner {
	uint32_t n;
	uint32_t unused;
	uint32_t child[CAP];
	uint64_t a[CAP], b[CAP]; /* bounds */
	uint64_t mask[CAP];	 /* of the children */
};

static struct leaf *leaf_of(const struct pairs *t, uint32_t index)
{
	return (struct leaf *)t->leaf.node + index;
}

static struct inner *inner_of(const struct pairs *t, uint32_t index)
{
	return (struct inner *)t->inner.node + index;
}

static uint64_t bit_of(uint64_t b)
{
	return b && b < PAIRS_SMALL ? 1ull << b : 0;
}

/* ---- pools ---- */

void pairs_release(struct pairs *t)
{
	free(t->leaf.node);
	free(t->inner.node);
	*t = (struct pairs){ 0 };
}

static int clone_pool(const struct pairs_pool *p, struct pairs_pool *out, size_t size,
		      struct error *err)
{
	*out = *p;
	out->cap = p->used;
	out->node = NULL;
	if (!p->used)
		return 0;
	out->node = malloc(p->used * size);
	if (!out->node)
		return error_nomem(err, "copying a set of ranges");
	memcpy(out->node, p->node, p->used * size);
	return 0;
}

int pairs_clone(const struct pairs *t, struct pairs *out, struct error *err)
{
	struct pairs copy = *t;
	if (clone_pool(&t->leaf, &copy.leaf, sizeof(struct leaf), err))
		return -1;
	if (clone_pool(&t->inner, &copy.inner, sizeof(struct inner), err)) {
		free(copy.leaf.node);
		return -1;
	}
	*out = copy;
	return 0;
}

static int reserve(struct pairs_pool *p, uint32_t n, size_t size, struct error *err)
{
	uint64_t want = (uint64_t)p->used + n, cap = (uint64_t)p->cap + p->cap / 4;
	void *node;
	if (p->n_unused >= n || want <= p->cap)
		return 0;
	if (cap < want)
		cap = want;
	if (cap > UINT32_MAX)
		return error_nomem(err, "adding to a set of ranges");
	node = realloc(p->node, (size_t)cap * size);
	if (!node)
		return error_nomem(err, "adding to a set of ranges");
	p->node = node;
	p->cap = (uint32_t)cap;
	return 0;
}

int pairs_reserve(struct pairs *t, uint32_t n, struct error *err)
{
	if (reserve(&t->leaf, n + 1, sizeof(struct leaf), err) ||
	    reserve(&t->inner, n * (t->height + 1), sizeof(struct inner), err))
		return -1;
	if (t->leaf.used) /* there is a root */
		return 0;
	t->leaf.used = 1;
	leaf_of(t, 0)->n = 0;
	return 0;
}

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

/* ---- searches ---- */

/* How many of n ascending numbers are below x. No branch depends on them. */
static uint32_t count_less(const uint64_t *at, uint32_t n, uint64_t x)
{
	uint32_t base = 0;
	while (n) {
		uint32_t half = (n + 1) / 2;
		base += half & -(uint32_t)(at[base + half - 1] < x);
		n -= half;
	}
	return base;
}

/* How many of n ascending pairs are below the key. */
static uint32_t count_below(const uint64_t *a, const uint64_t *b, uint32_t n, struct pair key)
{
	uint32_t first = count_less(a, n, key.a), end = first;
	if (first == n || a[first] != key.a)
		return first;
	end += key.a < UINT64_MAX ? count_less(a + first, n - first, key.a + 1) : n - first;
	return first + count_less(b + first, end - first, key.b);
}

/* How many are not above it. */
static uint32_t count_not_above(const uint64_t *a, const uint64_t *b, uint32_t n, struct pair key)
{
	uint32_t i = count_below(a, b, n, key);
	return i + (i < n && a[i] == key.a && b[i] == key.b);
}

/* A search looks at keys all over the leaf: lets them come from memory at the same time. */
static void fetch_keys(const struct leaf *lf)
{
	const char *end = (const char *)(lf->a + CAP);
	for (const char *at = (const char *)lf; at < end; at += 64)
		__builtin_prefetch(at);
}

void pairs_seek(const struct pairs *t, struct pair key, struct pairs_place *p)
{
	uint32_t node = t->root;
	for (uint32_t l = t->height; l > 0; l--) {
		const struct inner *in = inner_of(t, node);
		p->node[l] = node;
		p->at[l] = count_not_above(in->a + 1, in->b + 1, in->n - 1, key);
		node = in->child[p->at[l]];
	}
	if (t->height)
		fetch_keys(leaf_of(t, node));
	p->node[0] = node;
	p->at[0] = 0;
	if (t->count) {
		const struct leaf *lf = leaf_of(t, node);
		p->at[0] = count_below(lf->a, lf->b, lf->n, key);
	}
}

static uint32_t size_of(const struct pairs *t, uint32_t level, uint32_t node)
{
	return level ? inner_of(t, node)->n : leaf_of(t, node)->n;
}

/* Goes down from the inner node at this level, along its child `at`, to the first or last pair. */
static void go_down(const struct pairs *t, struct pairs_place *p, uint32_t level, uint32_t at,
		    bool first)
{
	p->at[level] = at;
	for (uint32_t l = level; l > 0; l--) {
		p->node[l - 1] = inner_of(t, p->node[l])->child[p->at[l]];
		p->at[l - 1] = first ? 0 : size_of(t, l - 1, p->node[l - 1]) - 1;
	}
}

static void get(const struct pairs *t, const struct pairs_place *p, struct pair *out)
{
	const struct leaf *lf = leaf_of(t, p->node[0]);
	*out = (struct pair){ lf->a[p->at[0]], lf->b[p->at[0]] };
}

bool pairs_at(const struct pairs *t, struct pairs_place *p, struct pair *out)
{
	uint32_t l = 1;
	if (!t->count)
		return false;
	if (p->at[0] == leaf_of(t, p->node[0])->n) {
		while (l <= t->height && p->at[l] + 1 == inner_of(t, p->node[l])->n)
			l++;
		if (l > t->height)
			return false;
		go_down(t, p, l, p->at[l] + 1, true);
	}
	get(t, p, out);
	return true;
}

bool pairs_before(const struct pairs *t, struct pairs_place *p, struct pair *out)
{
	uint32_t l = 1;
	if (!t->count)
		return false;
	if (p->at[0]) {
		p->at[0]--;
	} else {
		while (l <= t->height && !p->at[l])
			l++;
		if (l > t->height)
			return false;
		go_down(t, p, l, p->at[l] - 1, false);
	}
	get(t, p, out);
	return true;
}

/* The first or last of [from, end) that has one of the bits, or that is b; `end` if there is none.
 */
static uint32_t pick_mask(const uint64_t *mask, uint32_t from, uint32_t end, uint64_t bit,
			  bool forward)
{
	for (uint32_t k = 0; k < end - from; k++) {
		uint32_t i = forward ? from + k : end - 1 - k;
		if (mask[i] & bit)
			return i;
	}
	return end;
}

static uint32_t pick_equal(const uint64_t *at, uint32_t from, uint32_t end, uint64_t b,
			   bool forward)
{
	for (uint32_t k = 0; k < end - from; k++) {
		uint32_t i = forward ? from + k : end - 1 - k;
		if (at[i] == b)
			return i;
	}
	return end;
}

bool pairs_find(const struct pairs *t, const struct pairs_place *p, bool forward, uint64_t b,
		struct pair *out)
{
	uint64_t bit = bit_of(b);
	uint32_t l = 0, node = p->node[0], i, end;
	if (!(t->mask & bit))
		return false;
	for (;; l++) {
		if (l > t->height)
			return false;
		uint32_t n = size_of(t, l, p->node[l]), from = forward ? p->at[l] + (l > 0) : 0;
		end = forward ? n : p->at[l];
		i = l ? pick_mask(inner_of(t, p->node[l])->mask, from, end, bit, forward)
		      : pick_equal(leaf_of(t, node)->b, from, end, b, forward);
		if (i != end)
			break;
	}
	for (node = p->node[l]; l > 0; l--) {
		node = inner_of(t, node)->child[i];
		end = size_of(t, l - 1, node);
		i = l > 1 ? pick_mask(inner_of(t, node)->mask, 0, end, bit, forward)
			  : pick_equal(leaf_of(t, node)->b, 0, end, b, forward);
	}
	*out = (struct pair){ leaf_of(t, node)->a[i], b };
	return true;
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
		bound = (struct pair){ to->a[0], to->b[0] };
	} else {
		right = take_inner(t);
		struct inner *to = inner_of(t, right), *from = inner_of(t, node);
		move_inner(to, 0, from, keep, CAP - keep);
		to->n = CAP - keep;
		from->n = keep;
		bound = (struct pair){ to->a[0], to->b[0] };
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
	in->n--;
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
	lf->n--;
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
