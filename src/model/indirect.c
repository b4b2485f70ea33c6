/* SPDX-License-Identifier: GPL-2.0-or-later */
/* indirect: numbers and bytes of block-mapped files. */
#include "scaledefrag/indirect.h"
#include "scaledefrag/array.h"
#include "scaledefrag/sort.h"
#include "tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint64_t entries_of(uint32_t block_size)
{
	return block_size / 4;
}

uint64_t indirect_span(uint32_t level, uint32_t block_size)
{
	uint64_t span = 1;

	while (level--)
		span = 1 + entries_of(block_size) * span;
	return span;
}

uint32_t indirect_root_level(uint32_t entry)
{
	return entry < INDIRECT_DIRECT ? 0 : entry - INDIRECT_DIRECT + 1;
}

uint64_t indirect_root_number(uint32_t entry, uint32_t block_size)
{
	uint64_t number = entry;

	for (uint32_t i = INDIRECT_DIRECT; i < entry; i++)
		number += indirect_span(indirect_root_level(i), block_size) - 1;
	return number;
}

uint64_t indirect_number(uint64_t lblk, uint32_t block_size)
{
	uint64_t at, below = 1; /* data blocks on a block of the level */
	uint32_t entry = INDIRECT_DIRECT, level;

	if (lblk < INDIRECT_DIRECT)
		return lblk;
	lblk -= INDIRECT_DIRECT;
	for (; entry < INDIRECT_ROOT; entry++) {
		below *= entries_of(block_size);
		if (lblk < below)
			break;
		lblk -= below;
	}
	at = indirect_root_number(entry, block_size);
	for (level = entry < INDIRECT_ROOT ? indirect_root_level(entry) : 0; level; level--) {
		below /= entries_of(block_size);
		at += 1 + lblk / below * indirect_span(level - 1, block_size);
		lblk %= below;
	}
	return at;
}

void indirect_find(uint64_t number, uint32_t block_size, struct indirect_place *out)
{
	uint32_t entry = INDIRECT_ROOT, level;
	uint64_t at;

	if (number < INDIRECT_DIRECT) {
		*out = (struct indirect_place){ .in_inode = true, .entry = (uint32_t)number };
		return;
	}
	while (number < indirect_root_number(entry, block_size))
		entry--;
	assert(entry < INDIRECT_ROOT);
	at = indirect_root_number(entry, block_size);
	level = indirect_root_level(entry);
	*out = (struct indirect_place){ .level = level, .in_inode = true, .entry = entry };
	while (at != number) { /* down: the block at `at` has it below */
		uint64_t span = indirect_span(--level, block_size);

		*out = (struct indirect_place){ .level = level,
						.parent = at,
						.entry = (uint32_t)((number - at - 1) / span) };
		at += 1 + out->entry * span;
	}
}

uint64_t indirect_block(const struct filemap *map, uint64_t number)
{
	size_t lo = 0, hi = map->n_ext;

	while (lo < hi) { /* to the first record behind the number */
		size_t mid = lo + (hi - lo) / 2;

		if (map->ext[mid].lblk <= number)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || number - map->ext[lo - 1].lblk >= map->ext[lo - 1].len)
		return 0;
	return map->ext[lo - 1].pblk + (number - map->ext[lo - 1].lblk);
}

int indirect_build(const struct extent *piece, size_t n, struct filemap *out, struct error *err)
{
	struct filemap map = { .indirect = true };

	map.ext = malloc((n + 1) * sizeof(*map.ext));
	if (!map.ext)
		return error_nomem(err, "a block-mapped file");
	for (size_t i = 0; i < n; i++)
		tree_emit(&map, 0, piece[i]);
	*out = map;
	return 0;
}

struct numbers {
	uint32_t *at;
	size_t n, cap;
};

static int add_number(struct numbers *l, uint64_t number, struct error *err)
{
	if (l->n && l->at[l->n - 1] == number)
		return 0;
	if (array_reserve(&l->at, &l->cap, l->n + 1, sizeof(*l->at), err))
		return -1;
	l->at[l->n++] = (uint32_t)number;
	return 0;
}

/* What one move makes the commit write. */
static int add_rewritten(struct numbers *l, const struct move *m, uint32_t block_size,
			 struct error *err)
{
	uint64_t pos = m->lblk, end = pos + m->len;
	struct indirect_place p;

	while (pos < end) {
		indirect_find(pos, block_size, &p);
		if ((!p.in_inode && add_number(l, p.parent, err)) ||
		    (p.level && add_number(l, pos, err)))
			return -1;
		/* Data blocks with one parent need one look. */
		if (p.level)
			pos++;
		else
			pos += (p.in_inode ? INDIRECT_DIRECT : entries_of(block_size)) - p.entry;
	}
	return 0;
}

int indirect_rewritten(const struct filemap *after, const struct move *moves, size_t n,
		       uint32_t block_size, uint32_t **number, size_t *n_number, struct error *err)
{
	struct numbers l = { 0 };
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (add_rewritten(&l, &moves[i], block_size, err))
			goto fail;
	if (l.n)
		qsort(l.at, l.n, sizeof(*l.at), sort_compare_u32);
	for (size_t i = 0; i < l.n; i++) {
		if (k && l.at[k - 1] == l.at[i])
			continue;
		if (!indirect_block(after, l.at[i])) {
			error_set(err, ERROR_OPERATION,
				  "a mapping to be moved is damaged: an indirect block is missing");
			goto fail;
		}
		l.at[k++] = l.at[i];
	}
	*number = l.at;
	*n_number = k;
	return 0;
fail:
	free(l.at);
	return -1;
}

/* The pointer to block `number`. */
static void put_pointer(uint8_t *p, const struct filemap *map, uint64_t number)
{
	uint64_t pblk = number <= UINT32_MAX ? indirect_block(map, number) : 0;

	assert(pblk <= INDIRECT_MAX_PBLK);
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(pblk >> (8 * i));
}

void indirect_encode(const struct filemap *map, uint64_t number, uint32_t block_size, uint8_t *buf)
{
	struct indirect_place p;
	uint64_t span;

	indirect_find(number, block_size, &p);
	assert(p.level);
	span = indirect_span(p.level - 1, block_size);
	for (uint32_t i = 0; i < entries_of(block_size); i++)
		put_pointer(buf + 4 * i, map, number + 1 + i * span);
}

void indirect_encode_root(const struct filemap *map, uint32_t block_size, uint8_t root[60])
{
	for (uint32_t i = 0; i < INDIRECT_ROOT; i++)
		put_pointer(root + 4 * i, map, indirect_root_number(i, block_size));
}
