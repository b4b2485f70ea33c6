/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/pairs.h"
#include "scaledefrag/rangeset.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPACE 400000 /* most blocks of a model */

/* The model: one flag a block. */
struct model {
	uint64_t space;
	bool in[SPACE + 1]; /* in[space] stays false */
};

static struct rangeset *new_set(void)
{
	struct error err = ERROR_INIT;
	struct rangeset *rs;

	assert_int_equal(rangeset_new(&rs, &err), 0);
	return rs;
}

static void add(struct rangeset *rs, uint64_t start, uint64_t len)
{
	struct error err = ERROR_INIT;

	assert_int_equal(rangeset_add(rs, start, len, &err), 0);
}

static void take(struct rangeset *rs, uint64_t start, uint64_t len)
{
	struct error err = ERROR_INIT;

	assert_int_equal(rangeset_remove(rs, start, len, &err), 0);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

/* The model's first range that ends behind `from`. */
static bool model_next(const struct model *m, uint64_t from, struct range *out)
{
	uint64_t start = from, end;

	while (start < m->space && !m->in[start])
		start++;
	if (start >= m->space)
		return false;
	while (start > 0 && m->in[start - 1])
		start--;
	for (end = start; m->in[end];)
		end++;
	*out = (struct range){ start, end - start };
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void check_range(bool expected, bool got, const struct range *want, const struct range *have)
{
	assert_int_equal(expected, got);
	if (!expected)
		return;
	assert_int_equal(want->start, have->start);
	assert_int_equal(want->len, have->len);
}

static void check_searches(const struct rangeset *rs, const struct model *m, uint64_t at,
			   uint64_t len)
{
	struct range r, got, fit = { 0 }, longest = { 0 }, prev = { 0 };
	size_t count = 0;
	uint64_t blocks = 0;
	bool all = true, any = false;

	for (uint64_t from = 0; model_next(m, from, &r); from = r.start + r.len) {
		check_range(true, rangeset_next(rs, from, &got), &r, &got);
		count++;
		blocks += r.len;
		if (r.len > longest.len)
			longest = r;
		if (r.start < at)
			prev = r;
		if (r.len >= len &&
		    (!fit.len || r.len < fit.len ||
		     (r.len == fit.len && distance(r.start, at) < distance(fit.start, at))))
			fit = r;
	}
	for (uint64_t b = at; b < at + len; b++) {
		bool in = b < m->space && m->in[b];

		all = all && in;
		any = any || in;
	}
	assert_int_equal(rangeset_count(rs), count);
	assert_int_equal(rangeset_blocks(rs), blocks);
	assert_int_equal(rangeset_contains(rs, at, len), all);
	assert_int_equal(rangeset_overlaps(rs, at, len), any);
	check_range(model_next(m, at, &r), rangeset_next(rs, at, &got), &r, &got);
	check_range(prev.len > 0, rangeset_prev(rs, at, &got), &prev, &got);
	check_range(longest.len > 0, rangeset_longest(rs, &got), &longest, &got);
	check_range(fit.len > 0, rangeset_best_fit(rs, len, at, &got), &fit, &got);
}

/* Turns up to `most` blocks from `start` on over, as far as they are alike. */
static void change(struct rangeset *rs, struct model *m, uint64_t start, uint64_t most)
{
	bool in = m->in[start];
	uint64_t len = 0;

	while (len < most && start + len < m->space && m->in[start + len] == in)
		len++;
	if (in)
		take(rs, start, len);
	else
		add(rs, start, len);
	memset(&m->in[start], !in, len);
}

static void test_rangeset__random_operations_match_a_model(void **state)
{
	static struct model m;

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct rangeset *rs = new_set();
		uint64_t random = seed;

		m = (struct model){ .space = 300 };
		for (int i = 0; i < 2500; i++) {
			uint64_t start = next_random(&random) % m.space;

			change(rs, &m, start, 1 + next_random(&random) % 12);
			check_searches(rs, &m, next_random(&random) % (m.space + 20),
				       1 + next_random(&random) % 20);
		}
		rangeset_free(rs);
	}
}

/* One of so many steps in which the set gets many ranges, then few again. */
static void grow_or_shrink(struct rangeset *rs, struct model *m, uint64_t *random, bool grow)
{
	uint64_t start = next_random(random) % m->space;
	uint64_t most = next_random(random) % 4 ? 1 + next_random(random) % 6
						: 1 + next_random(random) % 300;
	struct range r;

	if (grow == m->in[start] && next_random(random) % 8)
		return;
	if (!grow && rangeset_next(rs, start, &r)) { /* often all of a range */
		start = r.start;
		most = next_random(random) % 3 ? r.len : 1 + next_random(random) % r.len;
	}
	change(rs, m, start, most);
}

/* Enough ranges for several levels of tree, short and long ones; the copy is checked too. */
static void test_rangeset__many_random_ranges_match_a_model(void **state)
{
	static struct model m;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rangeset *rs = new_set(), *copy;
		struct error err = ERROR_INIT;
		uint64_t random = seed, most = 0;

		m = (struct model){ .space = SPACE };
		for (int i = 0; i < 600000; i++) {
			bool grow = i % 300000 < 120000;

			grow_or_shrink(rs, &m, &random, grow);
			most = rangeset_count(rs) > most ? rangeset_count(rs) : most;
			if (i % 5000)
				continue;
			assert_int_equal(rangeset_clone(rs, &copy, &err), 0);
			for (uint64_t k = 0; k < 3; k++)
				check_searches(k ? rs : copy, &m,
					       next_random(&random) % (m.space + 20),
					       1 + next_random(&random) % (k == 2 ? 400 : 20));
			rangeset_free(copy);
		}
		assert_true(most > 10000); /* three levels at the least */
		assert_true(rangeset_count(rs) < most / 4);
		rangeset_free(rs);
	}
}

static void test_rangeset__empty(void **state)
{
	struct rangeset *rs = new_set();
	struct range r;

	(void)state;
	assert_false(rangeset_next(rs, 0, &r));
	assert_false(rangeset_prev(rs, UINT64_MAX, &r));
	assert_false(rangeset_best_fit(rs, 1, 0, &r));
	assert_false(rangeset_longest(rs, &r));
	assert_false(rangeset_contains(rs, 0, 1));
	assert_false(rangeset_overlaps(rs, 0, UINT64_MAX));
	assert_true(rangeset_contains(rs, 5, 0));
	assert_false(rangeset_overlaps(rs, 5, 0));
	rangeset_free(rs);
	rangeset_free(NULL);
}

static void test_rangeset_add__joins_both_neighbours(void **state)
{
	struct rangeset *rs = new_set();
	struct range r;

	(void)state;
	add(rs, 10, 5);
	add(rs, 20, 5);
	add(rs, 15, 5);
	assert_int_equal(rangeset_count(rs), 1);
	assert_true(rangeset_next(rs, 0, &r));
	assert_int_equal(r.start, 10);
	assert_int_equal(r.len, 15);
	rangeset_free(rs);
}

static void test_rangeset__addresses_at_the_very_end(void **state)
{
	struct rangeset *rs = new_set();
	const uint64_t top = UINT64_MAX - 10;
	struct range r;

	(void)state;
	add(rs, top, 10);
	add(rs, 0, 1);
	assert_true(rangeset_contains(rs, top, 10));
	assert_false(rangeset_contains(rs, top, UINT64_MAX));
	assert_true(rangeset_overlaps(rs, 1, UINT64_MAX));
	assert_false(rangeset_overlaps(rs, 1, top - 1));
	assert_true(rangeset_best_fit(rs, 2, 0, &r));
	assert_int_equal(r.start, top);
	take(rs, top + 3, 7);
	assert_int_equal(rangeset_blocks(rs), 4);
	rangeset_free(rs);
}

static void test_rangeset_best_fit__nearest_of_equals_lower_on_a_tie(void **state)
{
	struct rangeset *rs = new_set();
	struct range r;

	(void)state;
	add(rs, 100, 8);
	add(rs, 200, 8);
	add(rs, 150, 20);
	assert_true(rangeset_best_fit(rs, 5, 150, &r));
	assert_int_equal(r.start, 100);
	assert_true(rangeset_best_fit(rs, 5, 151, &r));
	assert_int_equal(r.start, 200);
	assert_true(rangeset_best_fit(rs, 9, 0, &r));
	assert_int_equal(r.start, 150);
	assert_false(rangeset_best_fit(rs, 21, 0, &r));
	rangeset_free(rs);
}

static void test_rangeset_clone__is_independent(void **state)
{
	struct error err = ERROR_INIT;
	struct rangeset *rs = new_set(), *copy, *empty;

	(void)state;
	assert_int_equal(rangeset_clone(rs, &empty, &err), 0);
	add(empty, 1, 1);
	for (uint64_t i = 0; i < 50; i++)
		add(rs, i * 10, 3);
	take(rs, 100, 3);
	assert_int_equal(rangeset_clone(rs, &copy, &err), 0);
	take(rs, 0, 3);
	add(copy, 100, 3);
	assert_int_equal(rangeset_count(rs), 48);
	assert_int_equal(rangeset_count(copy), 50);
	assert_true(rangeset_contains(copy, 0, 3));
	rangeset_free(rs);
	rangeset_free(copy);
	rangeset_free(empty);
}

/* Ascending, the way a scan fills it, then emptied from the middle: no order is a slow one. */
static void test_rangeset__many_ranges_in_order(void **state)
{
	const uint64_t n = 100000;
	struct rangeset *rs = new_set();
	struct range r;
	uint64_t seen = 0;

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		add(rs, i << 20, 1 + i % 7);
	for (uint64_t from = 0; rangeset_next(rs, from, &r); from = r.start + r.len)
		seen++;
	assert_int_equal(seen, n);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t k = (i + n / 2) % n;

		take(rs, k << 20, 1 + k % 7);
	}
	assert_int_equal(rangeset_count(rs), 0);
	assert_int_equal(rangeset_blocks(rs), 0);
	rangeset_free(rs);
}

/* Appended in order, with other pairs put between, before and after meanwhile. */
static void test_pairs_append__as_inserted(void **state)
{
	struct pairs t = { 0 };
	struct pairs_place end = { 0 }, p;
	struct error err = ERROR_INIT;
	uint64_t last = 0, n = 0;
	struct pair x;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		assert_int_equal(pairs_append(&t, &end, (struct pair){ 3 * i + 1, i % 70 }, &err),
				 0);
		n++;
		if (i % 1000 != 999)
			continue;
		for (uint64_t k = i - 500; k < i; k += 3) {
			x = (struct pair){ 3 * k, 7 };
			assert_int_equal(pairs_reserve(&t, 1, &err), 0);
			pairs_seek(&t, x, &p);
			pairs_insert(&t, &p, x);
			n++;
		}
		pairs_seek(&t, (struct pair){ UINT64_MAX, UINT64_MAX }, &end);
	}
	assert_int_equal(t.count, n);
	pairs_seek(&t, (struct pair){ 0, 0 }, &p);
	for (; pairs_at(&t, &p, &x); p.at[0]++, n--) {
		assert_true(x.a > last);
		assert_int_equal(x.b, x.a % 3 ? x.a / 3 % 70 : 7);
		last = x.a;
		struct pairs_place here;

		pairs_seek(&t, x, &here);
		assert_int_equal(pairs_find(&t, &here, true, 63, &x), last <= 3 * 19943 + 1);
	}
	assert_int_equal(n, 0);
	pairs_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rangeset__random_operations_match_a_model),
		cmocka_unit_test(test_rangeset__many_random_ranges_match_a_model),
		cmocka_unit_test(test_rangeset__empty),
		cmocka_unit_test(test_rangeset_add__joins_both_neighbours),
		cmocka_unit_test(test_rangeset__addresses_at_the_very_end),
		cmocka_unit_test(test_rangeset_best_fit__nearest_of_equals_lower_on_a_tie),
		cmocka_unit_test(test_rangeset_clone__is_independent),
		cmocka_unit_test(test_rangeset__many_ranges_in_order),
		cmocka_unit_test(test_pairs_append__as_inserted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
