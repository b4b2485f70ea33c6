/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bitmaps and blocks of descriptors are looked up in tables by their number, which say in which
 * batch, and in which look, they were met last. The other blocks are in a hash table.
 */
#include "plan_internal.h"
#include <stdlib.h>

/* Kinds of the other blocks, in the top bits of a key; block and group numbers stay below. */
enum kind { INODE_TABLE = 1, TREE };

static int add_key(struct journal_count *jc, enum kind kind, uint64_t id, struct error *err)
{
	uint64_t key = (uint64_t)kind << 60 | id;
	uint32_t seen;
	if (map64_get(&jc->set, key, &seen))
		return 0;
	if (array_reserve(&jc->key, &jc->cap_key, jc->n_key + 1, sizeof(*jc->key), err))
		return -1;
	jc->key[jc->n_key++] = key;
	return 0;
}

/* A bitmap or block of descriptors: fresh unless the batch or this look had it. */
static int note(struct journal_count *jc, struct journal_mark *mark, struct error *err)
{
	if (mark->batch == jc->batch || mark->look == jc->look)
		return 0;
	if (array_reserve(&jc->fresh, &jc->cap_fresh, jc->n_fresh + 1, sizeof(*jc->fresh), err))
		return -1;
	mark->look = jc->look;
	jc->fresh[jc->n_fresh++] = mark;
	return 0;
}

/* Those of the groups of these blocks. */
static int note_groups(struct journal_count *jc, uint64_t start, uint64_t len, struct error *err)
{
	uint32_t last = geometry_group_of(jc->geo, start + len - 1);
	for (uint32_t g = geometry_group_of(jc->geo, start); g <= last; g++) {
		if (note(jc, &jc->bitmap[g], err) ||
		    note(jc, &jc->descriptors[g / jc->geo->desc_per_block], err))
			return -1;
	}
	return 0;
}

static int note_nodes(struct journal_count *jc, const struct filemap_delta *d, struct error *err)
{
	for (size_t i = 0; i < d->n_kept; i++) {
		if (add_key(jc, TREE, d->kept[i], err))
			return -1;
	}
	for (size_t i = 0; i < d->n_taken; i++) {
		if (add_key(jc, TREE, d->taken[i], err) || note_groups(jc, d->taken[i], 1, err))
			return -1;
	}
	for (size_t i = 0; i < d->n_freed; i++) {
		if (note_groups(jc, d->freed[i], 1, err))
			return -1;
	}
	return 0;
}

static int make_tables(struct journal_count *jc, struct error *err)
{
	size_t groups = jc->geo->groups, blocks = groups / jc->geo->desc_per_block + 1;
	if (jc->bitmap)
		return 0;
	jc->bitmap = calloc(groups + blocks, sizeof(*jc->bitmap));
	if (!jc->bitmap)
		return error_nomem(err, "planning");
	jc->descriptors = jc->bitmap + groups;
	jc->batch = jc->look = 1;
	return 0;
}

int journal_count_look(struct journal_count *jc, uint32_t ino, const struct move *moves, size_t n,
		       const struct filemap_delta *delta, uint64_t *fresh, struct error *err)
{
	const struct geometry *g = jc->geo;
	uint64_t index =
		(uint64_t)((ino - 1) % g->inodes_per_group) * g->inode_size / g->block_size;
	if (make_tables(jc, err))
		return -1;
	jc->n_key = jc->n_fresh = 0;
	jc->look++;
	if (add_key(jc, INODE_TABLE, (uint64_t)geometry_inode_group(g, ino) << 20 | index, err) ||
	    note_nodes(jc, delta, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (note_groups(jc, moves[i].from, moves[i].len, err) ||
		    note_groups(jc, moves[i].to, moves[i].len, err))
			return -1;
	}
	*fresh = jc->n_key + jc->n_fresh;
	return 0;
}

int journal_count_add(struct journal_count *jc, struct error *err)
{
	for (size_t i = 0; i < jc->n_key; i++) {
		if (map64_set(&jc->set, jc->key[i], 1, err))
			return -1;
	}
	for (size_t i = 0; i < jc->n_fresh; i++)
		jc->fresh[i]->batch = jc->batch;
	jc->n_groups += jc->n_fresh;
	jc->n_key = jc->n_fresh = 0;
	return 0;
}

uint64_t journal_count_blocks(const struct journal_count *jc)
{
	return jc->set.n + jc->n_groups;
}

void journal_count_clear(struct journal_count *jc)
{
	map64_clear(&jc->set);
	jc->batch++;
	jc->n_key = jc->n_fresh = jc->n_groups = 0;
}

void journal_count_release(struct journal_count *jc)
{
	map64_release(&jc->set);
	free(jc->key);
	free(jc->fresh);
	free(jc->bitmap);
	*jc = (struct journal_count){ .geo = jc->geo };
}
