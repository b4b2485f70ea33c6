/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan_internal.h"

int addrmap_put(struct addrmap *m, uint64_t key, uint32_t value, struct error *err)
{
	struct pair x = { key, value };
	struct pairs_place p;
	if (pairs_reserve(&m->at, 1, err))
		return -1;
	pairs_seek(&m->at, x, &p);
	pairs_insert(&m->at, &p, x);
	return 0;
}

int addrmap_fill(struct addrmap *m, const struct weighted *w, size_t n, struct error *err)
{
	struct pairs_place p = { 0 };
	for (size_t i = 0; i < n; i++) {
		if (pairs_append(&m->at, &p, (struct pair){ w[i].weight, w[i].index }, err))
			return -1;
	}
	return 0;
}

void addrmap_del(struct addrmap *m, uint64_t key)
{
	struct pair x = { key, 0 };
	struct pairs_place p;
	pairs_seek(&m->at, x, &p);
	if (pairs_at(&m->at, &p, &x) && x.a == key)
		pairs_erase(&m->at, &p);
}

static bool give(bool have, const struct pair *x, uint64_t *found, uint32_t *value)
{
	if (!have)
		return false;
	*found = x->a;
	*value = (uint32_t)x->b;
	return true;
}

bool addrmap_floor(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value)
{
	struct pairs_place p;
	struct pair x;
	pairs_seek(&m->at, (struct pair){ key, UINT64_MAX }, &p);
	return give(pairs_before(&m->at, &p, &x), &x, found, value);
}

bool addrmap_above(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value)
{
	struct pairs_place p;
	struct pair x;
	pairs_seek(&m->at, (struct pair){ key, UINT64_MAX }, &p);
	return give(pairs_at(&m->at, &p, &x), &x, found, value);
}

void addrmap_seek(const struct addrmap *m, uint64_t key, struct addrmap_cursor *c)
{
	struct pair x;
	c->m = m;
	pairs_seek(&m->at, (struct pair){ key, UINT64_MAX }, &c->p);
	pairs_before(&m->at, &c->p, &x);
}

bool addrmap_next(struct addrmap_cursor *c, uint64_t *found, uint32_t *value)
{
	struct pair x;
	bool have = pairs_at(&c->m->at, &c->p, &x);
	c->p.at[0] += have;
	return give(have, &x, found, value);
}

int addrmap_clone(const struct addrmap *m, struct addrmap *out, struct error *err)
{
	return pairs_clone(&m->at, &out->at, err);
}

void addrmap_release(struct addrmap *m)
{
	pairs_release(&m->at);
}
