/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan_internal.h"
#include <stdlib.h>
#include <string.h>

#define EMPTY UINT64_MAX

/* Finaliser of splitmix64: neighbours in address get far apart. */
static size_t slot_of(const struct map64 *m, uint64_t key)
{
	uint64_t h = key;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	size_t i = (size_t)(h ^ (h >> 31)) & (m->cap - 1);
	while (m->key[i] != EMPTY && m->key[i] != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static int grow(struct map64 *m, struct error *err)
{
	struct map64 big = { .cap = m->cap ? m->cap * 2 : 64 };
	big.key = malloc(big.cap * sizeof(*big.key));
	big.value = malloc(big.cap * sizeof(*big.value));
	if (!big.key || !big.value) {
		map64_release(&big);
		return error_nomem(err, "planning");
	}
	map64_clear(&big);
	for (size_t i = 0; i < m->cap; i++) {
		if (m->key[i] == EMPTY)
			continue;
		size_t to = slot_of(&big, m->key[i]);
		big.key[to] = m->key[i];
		big.value[to] = m->value[i];
	}
	big.n = m->n;
	map64_release(m);
	*m = big;
	return 0;
}

int map64_set(struct map64 *m, uint64_t key, uint32_t value, struct error *err)
{
	if (m->n + 1 > m->cap / 2 && grow(m, err))
		return -1;
	size_t i = slot_of(m, key);
	m->n += m->key[i] == EMPTY;
	m->key[i] = key;
	m->value[i] = value;
	return 0;
}

bool map64_get(const struct map64 *m, uint64_t key, uint32_t *value)
{
	if (!m->n)
		return false;
	size_t i = slot_of(m, key);
	if (m->key[i] == EMPTY)
		return false;
	*value = m->value[i];
	return true;
}

void map64_clear(struct map64 *m)
{
	if (m->cap)
		memset(m->key, 0xff, m->cap * sizeof(*m->key));
	m->n = 0;
}

void map64_release(struct map64 *m)
{
	free(m->key);
	free(m->value);
	*m = (struct map64){ 0 };
}
