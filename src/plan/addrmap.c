/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sorted chunks: a search looks at the chunks' first keys, then into one chunk. */
#include "plan_internal.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK 256u

struct addrmap_chunk {
	uint32_t n;
	uint32_t value[CHUNK];
	uint64_t key[CHUNK];
};

/* The last of n ascending keys that isn't above `key`; n if all are. */
static size_t last_not_above(const uint64_t *at, size_t n, uint64_t key)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (at[mid] <= key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? lo - 1 : n;
}

/* A new chunk behind chunk i (or the first one), with what chunk i holds from `from` on. */
static int add_chunk(struct addrmap *m, size_t i, uint32_t from, struct error *err)
{
	struct addrmap_chunk *old = m->n ? m->chunk[i] : NULL, *c = malloc(sizeof(*c));
	size_t at = m->n ? i + 1 : 0;
	if (!c || array_reserve(&m->chunk, &m->cap, m->n + 1, sizeof(*m->chunk), err) ||
	    array_reserve(&m->first, &m->cap_first, m->n + 1, sizeof(*m->first), err)) {
		free(c);
		return error_nomem(err, "planning");
	}
	c->n = old ? old->n - from : 0;
	if (c->n) {
		memcpy(c->key, old->key + from, c->n * sizeof(*c->key));
		memcpy(c->value, old->value + from, c->n * sizeof(*c->value));
		old->n = from;
	}
	memmove(m->chunk + at + 1, m->chunk + at, (m->n - at) * sizeof(*m->chunk));
	memmove(m->first + at + 1, m->first + at, (m->n - at) * sizeof(*m->first));
	m->chunk[at] = c;
	m->first[at] = c->n ? c->key[0] : 0;
	m->n++;
	return 0;
}

int addrmap_put(struct addrmap *m, uint64_t key, uint32_t value, struct error *err)
{
	size_t i = last_not_above(m->first, m->n, key);
	struct addrmap_chunk *c;
	if (i == m->n)
		i = 0;
	if (!m->n && add_chunk(m, 0, 0, err))
		return -1;
	c = m->chunk[i];
	if (c->n == CHUNK) {
		/* Keys that come in order fill their chunks. */
		bool behind = i + 1 == m->n && key > c->key[CHUNK - 1];
		if (add_chunk(m, i, behind ? CHUNK : CHUNK / 2, err))
			return -1;
		if (behind || key >= m->first[i + 1])
			i++;
		c = m->chunk[i];
	}
	size_t at = c->n ? last_not_above(c->key, c->n, key) + 1 : 0;
	if (at > c->n)
		at = 0;
	memmove(c->key + at + 1, c->key + at, (c->n - at) * sizeof(*c->key));
	memmove(c->value + at + 1, c->value + at, (c->n - at) * sizeof(*c->value));
	c->key[at] = key;
	c->value[at] = value;
	c->n++;
	m->first[i] = c->key[0];
	return 0;
}

void addrmap_del(struct addrmap *m, uint64_t key)
{
	size_t i = last_not_above(m->first, m->n, key);
	if (i == m->n)
		return;
	struct addrmap_chunk *c = m->chunk[i];
	size_t at = last_not_above(c->key, c->n, key);
	if (at == c->n || c->key[at] != key)
		return;
	c->n--;
	memmove(c->key + at, c->key + at + 1, (c->n - at) * sizeof(*c->key));
	memmove(c->value + at, c->value + at + 1, (c->n - at) * sizeof(*c->value));
	if (c->n) {
		m->first[i] = c->key[0];
		return;
	}
	free(c);
	m->n--;
	memmove(m->chunk + i, m->chunk + i + 1, (m->n - i) * sizeof(*m->chunk));
	memmove(m->first + i, m->first + i + 1, (m->n - i) * sizeof(*m->first));
}

bool addrmap_floor(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value)
{
	size_t i = last_not_above(m->first, m->n, key);
	if (i == m->n)
		return false;
	const struct addrmap_chunk *c = m->chunk[i];
	size_t at = last_not_above(c->key, c->n, key);
	*found = c->key[at];
	*value = c->value[at];
	return true;
}

bool addrmap_above(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value)
{
	size_t i = last_not_above(m->first, m->n, key), at = 0;
	if (i == m->n) {
		i = 0;
	} else {
		at = last_not_above(m->chunk[i]->key, m->chunk[i]->n, key) + 1;
		if (at == m->chunk[i]->n) {
			i++;
			at = 0;
		}
	}
	if (i >= m->n)
		return false;
	*found = m->chunk[i]->key[at];
	*value = m->chunk[i]->value[at];
	return true;
}

void addrmap_release(struct addrmap *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->chunk[i]);
	free(m->chunk);
	free(m->first);
	*m = (struct addrmap){ 0 };
}
