/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranges as pairs (start, length), in which short ranges are found by their length as well; and the
 * long ones once more, as pairs (length, start).
 */
#include "scaledefrag/rangeset.h"
#include "scaledefrag/pairs.h"
#include <assert.h>
#include <stdlib.h>

struct rangeset {
	struct pairs by_address;
	struct pairs by_length; /* those of PAIRS_SMALL blocks and more */
	uint64_t blocks;
};

int rangeset_new(struct rangeset **out, struct error *err)
{
	struct rangeset *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return error_nomem(err, "making a set of ranges");
	*out = rs;
	return 0;
}

void rangeset_free(struct rangeset *rs)
{
	if (!rs)
		return;
	pairs_release(&rs->by_address);
	pairs_release(&rs->by_length);
	free(rs);
}

int rangeset_clone(const struct rangeset *rs, struct rangeset **out, struct error *err)
{
	struct rangeset *copy = NULL;

	if (rangeset_new(&copy, err))
		return -1;
	if (pairs_clone(&rs->by_address, &copy->by_address, err) ||
	    pairs_clone(&rs->by_length, &copy->by_length, err)) {
		rangeset_free(copy);
		return -1;
	}
	copy->blocks = rs->blocks;
	*out = copy;
	return 0;
}

/* ---- changes ---- */

/* Room for one range more, and one that changes its length. */
static int reserve(struct rangeset *rs, struct error *err)
{
	return pairs_reserve(&rs->by_address, 1, err) || pairs_reserve(&rs->by_length, 2, err) ? -1
											       : 0;
}

static void list_length(struct rangeset *rs, struct pair x)
{
	struct pair key = { x.b, x.a };
	struct pairs_place p;

	rs->blocks += x.b;
	if (x.b < PAIRS_SMALL)
		return;
	pairs_seek(&rs->by_length, key, &p);
	pairs_insert(&rs->by_length, &p, key);
}

static void unlist_length(struct rangeset *rs, struct pair x)
{
	struct pair key = { x.b, x.a };
	struct pairs_place p;

	rs->blocks -= x.b;
	if (x.b < PAIRS_SMALL)
		return;
	pairs_seek(&rs->by_length, key, &p);
	pairs_at(&rs->by_length, &p, &key);
	assert(key.a == x.b && key.b == x.a);
	pairs_erase(&rs->by_length, &p);
}

static void attach(struct rangeset *rs, const struct pairs_place *p, struct pair x)
{
	pairs_insert(&rs->by_address, p, x);
	list_length(rs, x);
}

static void detach(struct rangeset *rs, const struct pairs_place *p, struct pair old)
{
	pairs_erase(&rs->by_address, p);
	unlist_length(rs, old);
}

/* New bounds, which keep the range's place in the order of addresses. */
static void change(struct rangeset *rs, const struct pairs_place *p, struct pair old, struct pair x)
{
	unlist_length(rs, old);
	pairs_set(&rs->by_address, p, x);
	list_length(rs, x);
}

int rangeset_add(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len;
	struct pairs_place here, at_prev, at_next;
	struct pair prev, next;
	bool has_prev, has_next;

	assert(len > 0 && end > start);
	if (reserve(rs, err))
		return -1;
	pairs_seek(&rs->by_address, (struct pair){ start, 0 }, &here);
	at_prev = at_next = here;
	has_prev = pairs_before(&rs->by_address, &at_prev, &prev);
	has_next = pairs_at(&rs->by_address, &at_next, &next);
	assert(!has_prev || prev.a + prev.b <= start);
	assert(!has_next || next.a >= end);
	has_prev = has_prev && prev.a + prev.b == start;
	has_next = has_next && next.a == end;
	if (has_prev) {
		change(rs, &at_prev, prev,
		       (struct pair){ prev.a, prev.b + len + (has_next ? next.b : 0) });
		if (has_next)
			detach(rs, &at_next, next);
	} else if (has_next) {
		change(rs, &at_next, next, (struct pair){ start, len + next.b });
	} else {
		attach(rs, &here, (struct pair){ start, len });
	}
	return 0;
}

/* The last range that starts at this block or before it. */
static bool find_floor(const struct rangeset *rs, uint64_t block, struct pairs_place *p,
		       struct pair *out)
{
	pairs_seek(&rs->by_address, (struct pair){ block, UINT64_MAX }, p);
	return pairs_before(&rs->by_address, p, out);
}

int rangeset_remove(struct rangeset *rs, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len, old_end;
	struct pair old = { 0 }, rest;
	struct pairs_place p;
	bool found = find_floor(rs, start, &p, &old);

	assert(len > 0 && end > start && found);
	(void)found;
	old_end = old.a + old.b;
	assert(end <= old_end);
	if (reserve(rs, err))
		return -1;
	rest = (struct pair){ end, old_end - end };
	if (old.a == start && end == old_end) {
		detach(rs, &p, old);
	} else if (old.a == start) {
		change(rs, &p, old, rest);
	} else {
		change(rs, &p, old, (struct pair){ old.a, start - old.a });
		if (!rest.b)
			return 0;
		/* Taking from the middle makes two of one. */
		pairs_seek(&rs->by_address, rest, &p);
		attach(rs, &p, rest);
	}
	return 0;
}

/* ---- searches ---- */

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

static bool give(bool found, const struct pair *x, struct range *out)
{
	if (found)
		*out = (struct range){ x->a, x->b };
	return found;
}

bool rangeset_next(const struct rangeset *rs, uint64_t from, struct range *out)
{
	struct pairs_place p, behind;
	struct pair x;

	pairs_seek(&rs->by_address, (struct pair){ from, UINT64_MAX }, &behind);
	p = behind;
	if (pairs_before(&rs->by_address, &p, &x) && x.a + x.b > from)
		return give(true, &x, out);
	return give(pairs_at(&rs->by_address, &behind, &x), &x, out);
}

bool rangeset_prev(const struct rangeset *rs, uint64_t before_block, struct range *out)
{
	struct pairs_place p;
	struct pair x;

	pairs_seek(&rs->by_address, (struct pair){ before_block, 0 }, &p);
	return give(pairs_before(&rs->by_address, &p, &x), &x, out);
}

/* The nearer one of two ranges on both sides of `near`, the lower one of two at the same distance.
 */
static bool nearer(bool has_low, uint64_t low, bool has_high, uint64_t high, uint64_t near,
		   uint64_t len, struct range *out)
{
	bool take_low = has_low && (!has_high || near - low <= high - near);
	struct pair x = { take_low ? low : high, len };

	return give(has_low || has_high, &x, out);
}

/* Of the ranges of exactly this length, which is short, the nearest one. */
static bool nearest_short(const struct rangeset *rs, uint64_t len, uint64_t near, struct range *out)
{
	struct pair low = { 0 }, high = { 0 };
	struct pairs_place p;
	bool has_low, has_high;

	pairs_seek(&rs->by_address, (struct pair){ near, 0 }, &p);
	has_low = pairs_find(&rs->by_address, &p, false, len, &low);
	has_high = pairs_find(&rs->by_address, &p, true, len, &high);
	return nearer(has_low, low.a, has_high, high.a, near, len, out);
}

/* The same for a long one. */
static bool nearest_long(const struct rangeset *rs, uint64_t len, uint64_t near, struct range *out)
{
	struct pair low = { 0 }, high = { 0 };
	struct pairs_place p, before;
	bool has_low, has_high;

	pairs_seek(&rs->by_length, (struct pair){ len, near }, &p);
	before = p;
	has_low = pairs_before(&rs->by_length, &before, &low) && low.a == len;
	has_high = pairs_at(&rs->by_length, &p, &high) && high.a == len;
	return nearer(has_low, low.b, has_high, high.b, near, len, out);
}

bool rangeset_best_fit(const struct rangeset *rs, uint64_t len, uint64_t near, struct range *out)
{
	struct pairs_place p;
	struct pair x;

	if (len < PAIRS_SMALL) {
		uint64_t fits = rs->by_address.mask & ~0ull << len;
		if (fits)
			return nearest_short(rs, (uint64_t)__builtin_ctzll(fits), near, out);
	}
	pairs_seek(&rs->by_length, (struct pair){ len, 0 }, &p);
	return pairs_at(&rs->by_length, &p, &x) && nearest_long(rs, x.a, near, out);
}

bool rangeset_longest(const struct rangeset *rs, struct range *out)
{
	struct pairs_place p;
	struct pair x;

	pairs_seek(&rs->by_length, (struct pair){ UINT64_MAX, UINT64_MAX }, &p);
	if (pairs_before(&rs->by_length, &p, &x))
		return nearest_long(rs, x.a, 0, out);
	if (!rs->by_address.mask)
		return false;
	return nearest_short(rs, 63 - (uint64_t)__builtin_clzll(rs->by_address.mask), 0, out);
}

size_t rangeset_count(const struct rangeset *rs)
{
	return rs->by_address.count;
}

size_t rangeset_bytes(const struct rangeset *rs)
{
	return sizeof(*rs) + pairs_bytes(&rs->by_address) + pairs_bytes(&rs->by_length);
}

uint64_t rangeset_blocks(const struct rangeset *rs)
{
	return rs->blocks;
}
