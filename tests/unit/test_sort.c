/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/sort.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST 3000u

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 20;
}

/* Items of `words` numbers, keys below 2^bits: sorted, equals in their order, all still there. */
static void check(uint64_t *random, size_t n, size_t words, unsigned bits)
{
	uint64_t *at = malloc((n * words + 1) * sizeof(*at)), sum = 0;
	assert_non_null(at);
	for (size_t i = 0; i < n; i++) {
		at[i * words] = next_random(random) * 0x9e3779b97f4a7c15u >> (64 - bits);
		sum += at[i * words];
		for (size_t k = 1; k < words; k++)
			at[i * words + k] = i;
	}
	assert_true(sort_by_key(at, n, words * sizeof(*at)));
	for (size_t i = 0; i < n; i++) {
		const uint64_t *x = at + i * words;
		sum -= *x;
		assert_true(!i || x[0] > x[-(ptrdiff_t)words] ||
			    (x[0] == x[-(ptrdiff_t)words] &&
			     (words == 1 || x[1] > x[1 - (ptrdiff_t)words])));
		assert_true(words < 3 || x[1] == x[2]);
	}
	assert_int_equal(sum, 0);
	free(at);
}

static void test_sort_by_key__random_items(void **state)
{
	uint64_t random = 1;
	(void)state;
	for (size_t words = 1; words <= 3; words++) {
		for (unsigned bits = 1; bits <= 64; bits++) {
			for (size_t i = 0; i < 8; i++)
				check(&random, next_random(&random) % (i % 2 ? MOST : 100), words,
				      bits);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sort_by_key__random_items),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
