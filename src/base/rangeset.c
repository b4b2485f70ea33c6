/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two treaps over one pool of nodes: one in order of the address, one in order of (length, start).
 * Priorities are hashed from a node's index (splitmix64 is a bijection, so they never tie), so that
 * a range can grow and shrink in place in the first one; no answer depends on the shape. Children
 * are 32-bit indexes into the pool; index 0 is "none". No function recurses, so a tree of any shape
 * needs no stack.
 */
#include "scaledefrag/rangeset.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BY_ADDRESS, BY_LENGTH, ORDERS };
enum { LEFT, RIGHT, SIDES };

struct node {
	uint64_t start, len;
	uint32_t child[ORDERS][SIDES];
};

struct rangeset {
	struct node *pool;  /* [0] is not used */
	uint32_t used, cap; /* nodes of the pool taken so far, nodes allocated */
	uint32_t unused;    /* list of nodes given back, linked by child[0][0] */
	uint32_t root[ORDERS];
	uint32_t count;
	uint64_t blocks;
};

/* splitmix64's finalizer */
static uint64_t priority(uint32_t idx)
{
	uint64_t z = idx * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static bool before(int order, const struct node *n, uint64_t start, uint64_t len)
{
	if (order == BY_LENGTH && n->len != len)
		return n->len < len;
	return n->start < start;
}

static uint64_t end_of(const struct node *n)
{
	return n->start + n->len;
}

int rangeset_new(struct rangeset **out, struct error *err)
{
	struct rangeset *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return error_nomem(err, "making a set of ranges");
	rs->used = 1;
	*out = rs;
	return 0;
}

void rangeset_free(struct rangeset *rs)
{
	if (!rs)
		return;
	free(rs->pool);
	free(rs);
}

int rangeset_clone(const struct rangeset *rs, struct rangeset **out, struct error *err)
{
	struct rangeset *copy = malloc(sizeof(*copy));

	if (!copy)
		goto nomem;
	*copy = *rs;
	copy->cap = rs->pool ? rs->used : 0;
	copy->pool = NULL;
	if (copy->cap) {
		copy->pool = malloc(copy->cap * sizeof(*copy->pool));
		if (!copy->pool)
			goto nomem;
		memcpy(copy->pool, rs->pool, copy->cap * sizeof(*copy->pool));
	}
	*out = copy;
	return 0;
nomem:
	free(copy);
	return error_nomem(err, "copying a set of ranges");
}

/* Sees to it that one more node can be taken without failing. */
static int reserve(struct rangeset *rs, struct error *err)
{
	struct node *pool;
	uint64_t cap;

	if (rs->unused || rs->used < rs->cap)
		return 0;
	/* Grows by a quarter: 40 bytes a range at the most. */
	cap = (uint64_t)rs->cap + rs->cap / 4 + 16;
	if (cap > UINT32_MAX)
		cap = UINT32_MAX;
	if (cap <= rs->cap)
		return error_nomem(err, "adding to a set of 2^32 ranges");
	pool = realloc(rs->pool, (size_t)cap * sizeof(*pool));
	if (!pool)
		return error_nomem(err, "adding to a set of ranges");
	if (!rs->pool)
		memset(&pool[0], 0, sizeof(pool[0]));
	rs->pool = pool;
	rs->cap = (uint32_t)cap;
	return 0;
}

static void insert(struct rangeset *rs, int order, uint32_t idx)
{
	struct node *pool = rs->pool, *n = &pool[idx];
	uint32_t *link = &rs->root[order], cur;
	uint32_t *left = &n->child[order][LEFT], *right = &n->child[order][RIGHT];
	uint64_t prio = priority(idx);

	while (*link && priority(*link) > prio)
		link = &pool[*link].child[order][before(order, &pool[*link], n->start, n->len)];
	/* Split what hangs there into the parts before and after n. */
	cur = *link;
	*link = idx;
	while (cur) {
		if (before(order, &pool[cur], n->start, n->len)) {
			*left = cur;
			left = &pool[cur].child[order][RIGHT];
			cur = *left;
		} else {
			*right = cur;
			right = &pool[cur].child[order][LEFT];
			cur = *right;
		}
	}
	*left = *right = 0;
}

static void erase(struct rangeset *rs, int order, uint32_t idx)
{
	struct node *pool = rs->pool, *n = &pool[idx];
	uint32_t *link = &rs->root[order];
	uint32_t a = n->child[order][LEFT], b = n->child[order][RIGHT];

	while (*link != idx) {
		assert(*link);
		link = &pool[*link].child[order][before(order, &pool[*link], n->start, n->len)];
	}
	while (a && b) {
		bool a_up = priority(a) > priority(b);

		*link = a_up ? a : b;
		link = &pool[*link].child[order][a_up ? RIGHT : LEFT];
		if (a_up)
			a = *link;
		else
			b = *link;
	}
	*link = a ? a : b;
}

/* Needs a reserved node. */
static void attach(struct rangeset *rs, uint64_t start, uint64_t len)
{
	uint32_t idx = rs->unused;

	if (idx)
		rs->unused = rs->pool[idx].child[0][0];
	else
		idx = rs->used++;
	assert(idx < rs->cap);
	rs->pool[idx].start = start;
	rs->pool[idx].len = len;
	for (int order = 0; order < ORDERS; order++)
		insert(rs, order, idx);
	rs->count++;
	rs->blocks += len;
}

static void detach(struct rangeset *rs, uint32_t idx)
{
	for (int order = 0; order < ORDERS; order++)
		erase(rs, order, idx);
	rs->count--;
	rs->blocks -= rs->pool[idx].len;
	rs->pool[idx].child[0][0] = rs->unused;
	rs->unused = idx;
}

/* The first node that ends behind `from`; 0 if none. */
static uint32_t find_next(const struct rangeset *rs, uint64_t from)
{
	uint32_t cur = rs->root[BY_ADDRESS], found = 0;

	while (cur) {
		const struct node *n = &rs->pool[cur];

		if (end_of(n) > from)
			found = cur;
		cur = n->child[BY_ADDRESS][end_of(n) > from ? LEFT : RIGHT];
	}
	return found;
}

/* The last node whose key is below (start, len), or the first that isn't; 0 if none. */
static uint32_t find_side(const struct rangeset *rs, int order, uint64_t start, uint64_t len,
			  bool below)
{
	uint32_t cur = rs->root[order], found = 0;

	while (cur) {
		const struct node *n = &rs->pool[cur];
		bool is_below = before(order, n, start, len);

		if (is_below == below)
			found = cur;
		cur = n->child[order][is_below ? RIGHT : LEFT];
	}
	return found;
}

/* Gives a node new bounds, which keep its place in the order of addresses. */
static void change(struct rangeset *rs, uint32_t idx, uint64_t start, uint64_t len)
{
	struct node *n = &rs->pool[idx];

	erase(rs, BY_LENGTH, idx);
	rs->blocks = rs->blocks - n->len + len;
	n->start = start;
	n->len = len;
	insert(rs, BY_LENGTH, idx);
}

int rangeset_add(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len;
	uint32_t prev = find_side(rs, BY_ADDRESS, start, 0, true), next = find_next(rs, start);
	struct node *p = prev ? &rs->pool[prev] : NULL, *n = next ? &rs->pool[next] : NULL;

	assert(len > 0 && end > start);
	assert(!p || end_of(p) <= start);
	assert(!n || n->start >= end);
	if (p && end_of(p) == start) {
		if (n && n->start == end) {
			end = end_of(n);
			detach(rs, next);
		}
		change(rs, prev, p->start, end - p->start);
	} else if (n && n->start == end) {
		change(rs, next, start, end_of(n) - start);
	} else {
		if (reserve(rs, err))
			return -1;
		attach(rs, start, len);
	}
	return 0;
}

int rangeset_remove(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len, old_start, old_end;
	uint32_t idx = find_next(rs, start);

	assert(len > 0 && end > start && idx);
	old_start = rs->pool[idx].start;
	old_end = end_of(&rs->pool[idx]);
	assert(old_start <= start && end <= old_end);
	if (old_start == start && end == old_end) {
		detach(rs, idx);
	} else if (old_start == start) {
		change(rs, idx, end, old_end - end);
	} else {
		/* Taking from the middle makes two of one. */
		if (end < old_end && reserve(rs, err))
			return -1;
		change(rs, idx, old_start, start - old_start);
		if (end < old_end)
			attach(rs, end, old_end - end);
	}
	return 0;
}

bool rangeset_contains(const struct rangeset *rs, uint64_t start, uint64_t len)
{
	struct range r;

	if (len == 0)
		return true;
	return rangeset_next(rs, start, &r) && r.start <= start && len <= r.len - (start - r.start);
}

bool rangeset_overlaps(const struct rangeset *rs, uint64_t start, uint64_t len)
{
	struct range r;

	if (len == 0)
		return false;
	return rangeset_next(rs, start, &r) && (r.start <= start || r.start - start < len);
}

static bool give(const struct rangeset *rs, uint32_t idx, struct range *out)
{
	if (!idx)
		return false;
	*out = (struct range){ .start = rs->pool[idx].start, .len = rs->pool[idx].len };
	return true;
}

bool rangeset_next(const struct rangeset *rs, uint64_t from, struct range *out)
{
	return give(rs, find_next(rs, from), out);
}

bool rangeset_prev(const struct rangeset *rs, uint64_t before_block, struct range *out)
{
	return give(rs, find_side(rs, BY_ADDRESS, before_block, 0, true), out);
}

bool rangeset_best_fit(const struct rangeset *rs, uint64_t len, uint64_t near, struct range *out)
{
	uint32_t idx = find_side(rs, BY_LENGTH, 0, len, false), below;
	uint64_t fit;

	if (!idx)
		return false;
	fit = rs->pool[idx].len;
	idx = find_side(rs, BY_LENGTH, near, fit, false);
	below = find_side(rs, BY_LENGTH, near, fit, true);
	if (idx && rs->pool[idx].len != fit)
		idx = 0;
	if (below && rs->pool[below].len != fit)
		below = 0;
	if (!idx || (below && near - rs->pool[below].start <= rs->pool[idx].start - near))
		idx = below;
	return give(rs, idx, out);
}

bool rangeset_longest(const struct rangeset *rs, struct range *out)
{
	uint32_t idx = find_side(rs, BY_LENGTH, UINT64_MAX, UINT64_MAX, true);

	if (idx)
		idx = find_side(rs, BY_LENGTH, 0, rs->pool[idx].len, false);
	return give(rs, idx, out);
}

size_t rangeset_count(const struct rangeset *rs)
{
	return rs->count;
}

uint64_t rangeset_blocks(const struct rangeset *rs)
{
	return rs->blocks;
}
