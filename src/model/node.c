/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * node: bytes of tree blocks and of the root in the inode.
 *
 * Format: kernel fs/ext4/ext4_extents.h. A header of 12 bytes {le16 magic, entries, max, depth;
 * le32 generation}, then entries of 12 bytes: at depth 0 {le32 block; le16 len, start_hi; le32
 * start_lo}, above {le32 block, leaf_lo; le16 leaf_hi, unused}.
 */
#include "scaledefrag/filemap.h"
#include "scaledefrag/geometry.h"

#include <assert.h>
#include <string.h>

#define NODE_MAGIC  0xf30a
#define HEADER_SIZE 12
#define ENTRY_SIZE  12
#define ROOT_SIZE   60

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v);
	put16(p + 2, v >> 16);
}

static uint32_t get16(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) | get16(p + 2) << 16;
}

static void put_header(uint8_t *p, uint32_t entries, uint32_t max, uint32_t depth)
{
	put16(p, NODE_MAGIC);
	put16(p + 2, entries);
	put16(p + 4, max);
	put16(p + 6, depth);
	put32(p + 8, 0);
}

static void put_record(uint8_t *p, const struct extent *e)
{
	put32(p, e->lblk);
	put16(p + 4, e->unwritten ? e->len + EXTENT_MAX_INIT : e->len);
	put16(p + 6, (uint32_t)(e->pblk >> 32));
	put32(p + 8, (uint32_t)e->pblk);
}

static void put_index(uint8_t *p, uint32_t lblk, uint64_t pblk)
{
	put32(p, lblk);
	put32(p + 4, (uint32_t)pblk);
	put16(p + 8, (uint32_t)(pblk >> 32));
	put16(p + 10, 0);
}

/* Steps down along first children: at[l + 1] is a node of level l, at[0] a record. Moves the node
 * of level `top` - 1 forward to `target`, and all below it along. */
static void advance(const struct filemap *map, size_t *at, uint32_t top, size_t target)
{
	for (uint32_t l = top; l > 0; l--) {
		size_t child = at[l - 1];

		for (size_t i = at[l]; i < target; i++)
			child += map->tree->node[l - 1][i].count;
		at[l] = target;
		target = child;
	}
	at[0] = target;
}

/* Entries of a node or root of this depth: `n` items from item number `first` on. */
static void put_entries(const struct filemap *map, uint32_t depth, size_t first, size_t n,
			uint8_t *p)
{
	size_t at[EXTENT_MAX_DEPTH + 1] = { 0 };

	for (size_t i = first; i < first + n; i++, p += ENTRY_SIZE) {
		advance(map, at, depth, i);
		if (depth)
			put_index(p, map->ext[at[0]].lblk, map->tree->node[depth - 1][i].pblk);
		else
			put_record(p, &map->ext[i]);
	}
}

void filemap_encode_node(const struct filemap *map, uint32_t level, size_t index,
			 uint32_t block_size, uint8_t *buf)
{
	uint32_t per = geometry_node_records(block_size), count;
	size_t first = 0;

	assert(!map->in_clusters && level < map->depth && index < map->tree->n_node[level]);
	count = map->tree->node[level][index].count;
	assert(count <= per);
	for (size_t i = 0; i < index; i++)
		first += map->tree->node[level][i].count;
	memset(buf, 0, block_size);
	put_header(buf, count, per, level);
	put_entries(map, level, first, count, buf + HEADER_SIZE);
}

void filemap_encode_root(const struct filemap *map, uint8_t root[60])
{
	size_t n = map->depth ? map->tree->n_node[map->depth - 1] : map->n_ext;

	assert(!map->in_clusters && n <= EXTENT_ROOT_RECORDS);
	memset(root, 0, ROOT_SIZE);
	put_header(root, (uint32_t)n, EXTENT_ROOT_RECORDS, map->depth);
	put_entries(map, map->depth, 0, n, root + HEADER_SIZE);
}

static const char *get_record(const uint8_t *p, uint64_t *lo, uint64_t hi, uint64_t first,
			      uint64_t end, struct extent *e)
{
	uint32_t len = get16(p + 4), unwritten = len > EXTENT_MAX_INIT;

	if (unwritten)
		len -= EXTENT_MAX_INIT;
	*e = (struct extent){ .pblk = (uint64_t)get16(p + 6) << 32 | get32(p + 8),
			      .lblk = get32(p),
			      .len = len & 0x7fffffffu,
			      .unwritten = unwritten & 1u };
	if (!len)
		return "a record of length 0";
	if (e->lblk < *lo)
		return "records overlap, are out of order or start before their parent says";
	if (hi < len || e->lblk > hi - len)
		return "a record ends beyond the next one or the largest file";
	if (e->pblk < first || end < len || e->pblk > end - len)
		return "a record points outside the file system";
	*lo = (uint64_t)e->lblk + len;
	return NULL;
}

static const char *get_index(const uint8_t *p, uint64_t *lo, uint64_t hi, uint64_t first,
			     uint64_t end, struct tree_child *c)
{
	c->lblk = get32(p);
	c->pblk = (uint64_t)get16(p + 8) << 32 | get32(p + 4);
	if (c->lblk < *lo)
		return "index entries are out of order or start before their parent says";
	if (c->lblk >= hi)
		return "an index entry starts beyond the next one or the largest file";
	if (c->pblk < first || c->pblk >= end)
		return "an index entry points outside the file system";
	*lo = (uint64_t)c->lblk + 1;
	return NULL;
}

const char *filemap_decode(const uint8_t *buf, size_t size, uint32_t depth, uint64_t lo,
			   uint64_t hi, uint64_t first, uint64_t end, struct extent *ext,
			   struct tree_child *child, uint32_t *count)
{
	uint32_t entries = get16(buf + 2), max = get16(buf + 4);
	bool root = size == ROOT_SIZE;
	const char *wrong = NULL;

	if (get16(buf) != NODE_MAGIC)
		return "bad magic";
	if (get16(buf + 6) != depth)
		return "wrong depth";
	if (!max || max > (size - HEADER_SIZE) / ENTRY_SIZE)
		return "a maximum that doesn't fit";
	if (entries > max)
		return "more entries than the maximum";
	if (!entries && (!root || depth))
		return "no entries";
	if (!root && get32(buf + HEADER_SIZE) != lo)
		return "it doesn't start where its parent says";
	for (uint32_t i = 0; i < entries && !wrong; i++) {
		const uint8_t *p = buf + HEADER_SIZE + i * ENTRY_SIZE;

		wrong = depth ? get_index(p, &lo, hi, first, end, &child[i])
			      : get_record(p, &lo, hi, first, end, &ext[i]);
	}
	if (!wrong)
		*count = entries;
	return wrong;
}

int filemap_decode_depth(const uint8_t *buf)
{
	return get16(buf) == NODE_MAGIC ? (int)get16(buf + 6) : -1;
}
