/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pairs_nodes.h"
#include <stdlib.h>
#include <string.h>

/* ---- pools ---- */

void pairs_release(struct pairs *t)
{
	free(t->leaf.node);
	free(t->inner.node);
	*t = (struct pairs){ 0 };
}

size_t pairs_bytes(const struct pairs *t)
{
	return t->leaf.used * sizeof(struct leaf) + t->inner.used * sizeof(struct inner);
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
	fill_up(leaf_of(t, 0)->a, 0);
	return 0;
}

/* ---- searches ---- */

/*
 * How many keys of a node are below x. No branch depends on them, and they come from memory at the
 * same time: first every eighth one, then the eight between two of these.
 */
static inline uint32_t count_less(const uint64_t *at, uint64_t x)
{
	uint32_t part = 0, n = 0;
	for (uint32_t i = PART - 1; i < CAP - PART; i += PART)
		part += at[i] < x;
	at += part * PART;
	for (uint32_t i = 0; i < PART; i++)
		n += at[i] < x;
	return part * PART + n;
}

/* The child of the inner node where the key belongs. */
static inline uint32_t child_of(const struct inner *in, struct pair key)
{
	uint32_t i = count_less(in->a, key.a);
	while (i < in->n && in->a[i] == key.a && in->b[i] <= key.b)
		i++;
	return i - 1;
}

void pairs_seek(const struct pairs *t, struct pair key, struct pairs_place *p)
{
	uint32_t node = t->root;
	for (uint32_t l = t->height; l > 0; l--) {
		p->node[l] = node;
		p->at[l] = child_of(inner_of(t, node), key);
		node = inner_of(t, node)->child[p->at[l]];
	}
	p->node[0] = node;
	p->at[0] = 0;
	if (t->count) {
		const struct leaf *lf = leaf_of(t, node);
		uint32_t i = count_less(lf->a, key.a);
		while (i < lf->n && lf->a[i] == key.a && lf->b[i] < key.b)
			i++;
		p->at[0] = i;
	}
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
