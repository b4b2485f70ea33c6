/* SPDX-License-Identifier: GPL-2.0-or-later */
/* filemap: the container and its figures. What a move does to it is in tree.c, bytes in node.c. */
#include "scaledefrag/filemap.h"
#include "scaledefrag/geometry.h"
#include "scaledefrag/indirect.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

static void *copy_array(const void *from, size_t n, size_t size)
{
	void *to = malloc(n * size);

	if (to)
		memcpy(to, from, n * size);
	return to;
}

int filemap_need_tree(struct filemap *map, struct error *err)
{
	if (!map->tree)
		map->tree = calloc(1, sizeof(*map->tree));
	return map->tree ? 0 : error_nomem(err, "a file's tree");
}

static bool copy_tree(const struct filemap *in, struct filemap_tree *out)
{
	for (uint32_t l = 0; l < in->depth; l++) {
		if (!in->tree->n_node[l])
			continue;
		out->node[l] =
			copy_array(in->tree->node[l], in->tree->n_node[l], sizeof(*out->node[l]));
		if (!out->node[l])
			return false;
		out->n_node[l] = in->tree->n_node[l];
	}
	if (in->in_clusters) {
		const struct records *rec = in->tree->rec;

		out->rec = copy_array(rec, 1, sizeof(*rec) + rec->n * sizeof(*rec->at));
	}
	return !in->in_clusters || out->rec;
}

int filemap_copy(const struct filemap *in, struct filemap *out, struct error *err)
{
	struct filemap m = { .n_ext = in->n_ext, .depth = in->depth, .indirect = in->indirect };

	m.in_clusters = in->in_clusters;
	if (in->n_ext) {
		m.ext = copy_array(in->ext, in->n_ext, sizeof(*m.ext));
		if (!m.ext)
			goto nomem;
	}
	if ((in->depth || in->in_clusters) &&
	    (filemap_need_tree(&m, err) || !copy_tree(in, m.tree)))
		goto nomem;
	*out = m;
	return 0;
nomem:
	filemap_release(&m);
	return error_nomem(err, "copying a file's mapping");
}

void filemap_release(struct filemap *map)
{
	if (!map->pooled)
		free(map->ext);
	for (uint32_t l = 0; map->tree && l < EXTENT_MAX_DEPTH; l++)
		free(map->tree->node[l]);
	if (map->tree)
		free(map->tree->rec);
	free(map->tree);
	memset(map, 0, sizeof(*map));
}

void filemap_delta_release(struct filemap_delta *d)
{
	free(d->freed);
	free(d->taken);
	free(d->kept);
	free(d->number);
	memset(d, 0, sizeof(*d));
}

size_t filemap_runs(const struct extent *ext, size_t n)
{
	size_t runs = n ? 1 : 0;

	for (size_t i = 1; i < n; i++)
		if (ext[i].pblk != ext[i - 1].pblk + ext[i - 1].len)
			runs++;
	return runs;
}

uint64_t filemap_blocks(const struct extent *ext, size_t n)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < n; i++)
		blocks += ext[i].len;
	return blocks;
}

size_t filemap_nodes(const struct filemap *map)
{
	size_t nodes = 0;

	for (uint32_t l = 0; l < map->depth; l++)
		nodes += map->tree->n_node[l];
	return nodes;
}

uint64_t filemap_min_nodes(uint64_t n_records, uint32_t block_size)
{
	uint64_t per = geometry_node_records(block_size), nodes = 0;

	for (uint64_t n = n_records; n > EXTENT_ROOT_RECORDS;) {
		n = n / per + (n % per != 0);
		nodes += n;
	}
	return nodes;
}

static uint64_t max_len(const struct filemap *map, const struct extent *e)
{
	if (map->indirect)
		return e->unwritten ? 0 : INDIRECT_MAX_LEN;
	return e->unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT;
}

static const char *check_records(const struct filemap *map, uint64_t last)
{
	uint64_t end = 0;

	for (size_t i = 0; i < map->n_ext; i++) {
		const struct extent *e = &map->ext[i];

		if (!e->len || e->len > max_len(map, e))
			return "a record's length is out of range";
		if (e->lblk < end)
			return "records overlap or are out of order";
		end = (uint64_t)e->lblk + e->len;
		if (end > UINT32_MAX + 1ull || e->pblk > last - e->len)
			return "a record ends beyond the last possible block";
	}
	return NULL;
}

static const char *check_indirect(const struct filemap *map, uint32_t block_size)
{
	uint64_t numbers = indirect_root_number(INDIRECT_ROOT, block_size);
	const struct extent *last = map->n_ext ? &map->ext[map->n_ext - 1] : NULL;

	if (map->depth)
		return "a block-mapped file has no extent tree";
	if (last && (uint64_t)last->lblk + last->len > numbers)
		return "a record ends beyond the last possible block";
	return check_records(map, INDIRECT_MAX_PBLK + 1ull);
}

const char *filemap_check(const struct filemap *map, uint32_t block_size)
{
	uint32_t per = geometry_node_records(block_size);
	size_t items = map->n_ext;

	if (map->in_clusters) {
		const struct filemap blocks = tree_in_blocks(map);

		return filemap_check(&blocks, block_size);
	}
	if (map->indirect)
		return check_indirect(map, block_size);
	if (map->depth > EXTENT_MAX_DEPTH)
		return "the tree is too deep";
	for (uint32_t l = 0; l < map->depth; l++) {
		size_t sum = 0;

		for (size_t i = 0; i < map->tree->n_node[l]; i++) {
			if (!map->tree->node[l][i].count || map->tree->node[l][i].count > per)
				return "a tree block's count is out of range";
			sum += map->tree->node[l][i].count;
		}
		if (sum != items)
			return "tree blocks don't add up";
		items = map->tree->n_node[l];
	}
	if (items > EXTENT_ROOT_RECORDS || (map->depth && !items))
		return "the root's count is out of range";
	return check_records(map, UINT64_MAX);
}
