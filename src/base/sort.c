/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Few items by insertion, many by one digit of the key after the other, the lowest first. Digits
 * that all keys have in common don't count; addresses on one disk have few others.
 */
#include "scaledefrag/sort.h"
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FEW    48u
#define BITS   11u /* of a digit */
#define VALUES (1u << BITS)
#define LARGE  24u /* bytes of an item */

static inline uint64_t key_of(const char *item)
{
	uint64_t key;
	memcpy(&key, item, sizeof(key));
	return key;
}

static inline void insert_all(char *at, size_t n, size_t size)
{
	for (size_t i = 1; i < n; i++) {
		char one[LARGE];
		size_t k = i;
		memcpy(one, at + i * size, size);
		for (; k > 0 && key_of(at + (k - 1) * size) > key_of(one); k--)
			memcpy(at + k * size, at + (k - 1) * size, size);
		memcpy(at + k * size, one, size);
	}
}

/* By one digit, from one array to another. */
static inline void deal(const char *from, char *to, size_t n, size_t size, unsigned shift)
{
	size_t place[VALUES] = { 0 }, sum = 0;
	for (size_t i = 0; i < n; i++)
		place[key_of(from + i * size) >> shift & (VALUES - 1)]++;
	for (size_t v = 0; v < VALUES; v++) {
		size_t count = place[v];
		place[v] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++, from += size)
		memcpy(to + place[key_of(from) >> shift & (VALUES - 1)]++ * size, from, size);
}

static inline bool sort(char *at, size_t n, size_t size)
{
	uint64_t differ = 0, first = n ? key_of(at) : 0, last = first;
	char *copy, *from = at, *to;
	bool sorted = true;
	for (size_t i = 1; i < n; i++) {
		uint64_t key = key_of(at + i * size);
		differ |= key ^ first;
		sorted &= key >= last;
		last = key;
	}
	if (sorted)
		return true;
	if (n <= FEW) {
		insert_all(at, n, size);
		return true;
	}
	to = copy = malloc(n * size);
	if (!copy)
		return false;
	for (unsigned shift = 0; shift < 64; shift += BITS) {
		char *was = from;
		if (!(differ >> shift & (VALUES - 1)))
			continue;
		deal(from, to, n, size, shift);
		from = to;
		to = was;
	}
	if (from != at)
		memcpy(at, from, n * size);
	free(copy);
	return true;
}

/* For each size a copy of the code that knows it. */
bool sort_by_key(void *items, size_t n, size_t size)
{
	assert(size == 8 || size == 16 || size == 24);
	switch (size) {
	case 8:
		return sort(items, n, 8);
	case 16:
		return sort(items, n, 16);
	default:
		return sort(items, n, 24);
	}
}

int sort_compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int sort_compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}
