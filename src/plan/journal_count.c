/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan_internal.h"
#include <stdlib.h>

/* Kinds of metadata blocks, in the top bits of a key; block and group numbers stay below. */
enum kind { INODE_TABLE = 1, BITMAP, DESCRIPTOR, TREE };

static int note(struct journal_count *jc, enum kind kind, uint64_t id, struct error *err)
{
	uint64_t key = (uint64_t)kind << 60 | id;
	uint32_t seen;
	if (jc->n_key && jc->key[jc->n_key - 1] == key)
		return 0;
	if (map64_get(&jc->set, key, &seen))
		return 0;
	if (array_reserve(&jc->key, &jc->cap_key, jc->n_key + 1, sizeof(*jc->key), err))
		return -1;
	jc->key[jc->n_key++] = key;
	return 0;
}

/* Bitmaps and descriptors of the groups of these blocks. */
static int note_groups(struct journal_count *jc, uint64_t start, uint64_t len, struct error *err)
{
	uint32_t last = geometry_group_of(jc->geo, start + len - 1);
	for (uint32_t g = geometry_group_of(jc->geo, start); g <= last; g++) {
		if (note(jc, BITMAP, g, err) ||
		    note(jc, DESCRIPTOR, g / jc->geo->desc_per_block, err))
			return -1;
	}
	return 0;
}

static int note_nodes(struct journal_count *jc, const struct filemap_delta *d, struct error *err)
{
	for (size_t i = 0; i < d->n_kept; i++) {
		if (note(jc, TREE, d->kept[i], err))
			return -1;
	}
	for (size_t i = 0; i < d->n_taken; i++) {
		if (note(jc, TREE, d->taken[i], err) || note_groups(jc, d->taken[i], 1, err))
			return -1;
	}
	for (size_t i = 0; i < d->n_freed; i++) {
		if (note_groups(jc, d->freed[i], 1, err))
			return -1;
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

int journal_count_look(struct journal_count *jc, uint32_t ino, const struct move *moves, size_t n,
		       const struct filemap_delta *delta, uint64_t *fresh, struct error *err)
{
	const struct geometry *g = jc->geo;
	uint64_t index =
		(uint64_t)((ino - 1) % g->inodes_per_group) * g->inode_size / g->block_size;
	jc->n_key = 0;
	if (note(jc, INODE_TABLE, (uint64_t)geometry_inode_group(g, ino) << 20 | index, err) ||
	    note_nodes(jc, delta, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (note_groups(jc, moves[i].from, moves[i].len, err) ||
		    note_groups(jc, moves[i].to, moves[i].len, err))
			return -1;
	}
	if (jc->n_key > 1)
		qsort(jc->key, jc->n_key, sizeof(*jc->key), by_key);
	size_t kept = 0;
	for (size_t i = 0; i < jc->n_key; i++) {
		if (!kept || jc->key[i] != jc->key[kept - 1])
			jc->key[kept++] = jc->key[i];
	}
	jc->n_key = kept;
	*fresh = kept;
	return 0;
}

int journal_count_add(struct journal_count *jc, struct error *err)
{
	for (size_t i = 0; i < jc->n_key; i++) {
		if (map64_set(&jc->set, jc->key[i], 1, err))
			return -1;
	}
	jc->n_key = 0;
	return 0;
}

uint64_t journal_count_blocks(const struct journal_count *jc)
{
	return jc->set.n;
}

void journal_count_clear(struct journal_count *jc)
{
	map64_clear(&jc->set);
	jc->n_key = 0;
}

void journal_count_release(struct journal_count *jc)
{
	map64_release(&jc->set);
	free(jc->key);
	*jc = (struct journal_count){ .geo = jc->geo };
}
