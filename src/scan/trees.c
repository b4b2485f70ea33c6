/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: extent tree blocks. All files' trees are read together, level by level from the roots: the
 * blocks of one level are sorted by address and read by one deep queue. The entries themselves stay
 * in file and logical order, so a finished level is put in place in one pass.
 *
 * Bounds: a block may occur once a level and there are at most EXTENT_MAX_DEPTH levels, so a
 * hostile tree costs no more than reading the file system's blocks five times, and can't loop.
 */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

struct span { /* what a tree block held, in the pool of records or of children */
	size_t at;
	uint32_t count;
};

struct level {
	const struct source *src;
	struct snapshot_file *file;
	uint32_t down; /* levels below the roots */
	const struct tree_entry *entry;
	size_t n;
	struct span *span; /* n */
	struct extent *ext;
	size_t n_ext, cap_ext;
	struct tree_child *child;
	size_t n_child, cap_child;
	uint32_t per; /* most records of a block */
	size_t done;  /* blocks */
};

static uint32_t entry_level(const struct level *l, const struct tree_entry *e)
{
	return l->file[e->file].map.depth - 1 - l->down;
}

/*
 * As libext2fs's ext2fs_extent_block_csum_verify, which would read the inode anew for every tree
 * block just for its generation (e2fsprogs lib/ext2fs/csum.c).
 */
static bool checksum_right(const struct source *src, uint32_t ino, uint32_t gen,
			   const uint8_t *data)
{
	const struct ext3_extent_header *eh = (const struct ext3_extent_header *)data;
	size_t size = sizeof(*eh) + eh->eh_max * sizeof(struct ext3_extent);
	uint32_t crc, told;

	if (!ext2fs_has_feature_metadata_csum(src->fs.super))
		return true;
	crc = ext2fs_crc32c_le(src->fs.csum_seed, (const unsigned char *)&ino, sizeof(ino));
	crc = ext2fs_crc32c_le(crc, (const unsigned char *)&gen, sizeof(gen));
	crc = ext2fs_crc32c_le(crc, data, size);
	memcpy(&told, data + size, sizeof(told));
	return crc == told;
}

/* All blocks will hold as many records as those so far, say. */
static int check_memory(const struct level *l, struct error *err)
{
	const struct source *src = l->src;

	if (!src->memory || src->taken + l->n_ext * RECORD_BYTES <= src->memory)
		return 0;
	return footprint_refuse(src, src->taken + l->n_ext / l->done * l->n * RECORD_BYTES, err);
}

/* e2fsck's bound comes from the index above, and is none where that begins at the end. */
static uint32_t leaf_end(const struct tree_entry *e)
{
	return e->eof < UINT32_MAX && (e->eof <= 1 || e->lo >= e->eof) ? e->eof + 1 : e->eof;
}

static int take_block(void *ctx, size_t index, uint8_t *data, struct error *err)
{
	struct level *l = ctx;
	const struct tree_entry *e = &l->entry[index];
	const struct geometry *geo = l->src->geo;
	uint32_t ino = l->file[e->file].ino, depth = entry_level(l, e), count = 0;
	const char *wrong;

	if (array_reserve(&l->ext, &l->cap_ext, l->n_ext + l->per, sizeof(*l->ext), err) ||
	    array_reserve(&l->child, &l->cap_child, l->n_child + l->per, sizeof(*l->child), err))
		return -1;
	wrong = filemap_decode(data, geo->block_size, depth, e->lo, (uint64_t)e->last + 1,
			       geo->first_data_block, geo->blocks, l->ext + l->n_ext,
			       l->child + l->n_child, &count);
	if (!wrong && !checksum_right(l->src, ino, e->gen, data))
		wrong = "its checksum is wrong";
	if (!wrong && !depth)
		wrong = classify_records(l->ext + l->n_ext, count, leaf_end(e));
	if (wrong)
		return source_damage(l->src, err, "inode %u, extent tree block %llu: %s", ino,
				     (unsigned long long)e->pblk, wrong);
	l->span[index] = (struct span){ .at = depth ? l->n_child : l->n_ext, .count = count };
	if (depth)
		l->n_child += count;
	else
		l->n_ext += count;
	l->done++;
	return check_memory(l, err);
}

int trees_read_once(const struct source *src, struct want *want, size_t n,
		    uint32_t (*ino_of)(const void *ctx, size_t index), block_fn fn, void *ctx,
		    struct error *err)
{
	if (n > 1)
		qsort(want, n, sizeof(*want), want_compare);
	for (size_t i = 1; i < n; i++)
		if (want[i].block == want[i - 1].block)
			return source_damage(
				src, err, "inode %u: tree block %llu is also claimed by inode %u",
				ino_of(ctx, want[i - 1].index), (unsigned long long)want[i].block,
				ino_of(ctx, want[i].index));
	return source_read_blocks(src, want, n, fn, ctx, err);
}

static uint32_t ino_of(const void *ctx, size_t index)
{
	const struct level *l = ctx;

	return l->file[l->entry[index].file].ino;
}

static int read_level(struct level *l, struct error *err)
{
	struct want *want = reallocarray(NULL, l->n, sizeof(*want));
	int ret;

	if (!want)
		return error_nomem(err, "reading extent trees");
	for (size_t i = 0; i < l->n; i++)
		want[i] = (struct want){ .block = l->entry[i].pblk, .index = i };
	ret = trees_read_once(l->src, want, l->n, ino_of, take_block, l, err);
	free(want);
	return ret;
}

/* Records of the leaves [from, to), all of one file, in logical order. */
static int place_records(struct level *l, struct filemap *map, size_t from, size_t to,
			 struct error *err)
{
	uint32_t ino = l->file[l->entry[from].file].ino;
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		n += l->span[i].count;
	if (n > UINT32_MAX)
		return source_damage(l->src, err, "inode %u: %s", ino,
				     "its tree has too many records");
	map->ext = reallocarray(NULL, n, sizeof(*map->ext));
	if (!map->ext)
		return error_nomem(err, "reading extent trees");
	for (size_t i = from; i < to; i++) {
		memcpy(map->ext + map->n_ext, l->ext + l->span[i].at,
		       l->span[i].count * sizeof(*map->ext));
		map->n_ext += l->span[i].count;
	}
	return 0;
}

struct entries {
	struct tree_entry *e;
	size_t n, cap;
};

static int place_children(const struct level *l, size_t from, size_t to, struct entries *next,
			  struct error *err)
{
	for (size_t i = from; i < to; i++) {
		const struct tree_child *c = l->child + l->span[i].at;
		uint32_t n = l->span[i].count;

		if (array_reserve(&next->e, &next->cap, next->n + n, sizeof(*next->e), err))
			return -1;
		for (uint32_t k = 0; k < n; k++)
			next->e[next->n++] = (struct tree_entry){
				.pblk = c[k].pblk,
				.lo = c[k].lblk,
				.last = k + 1 < n ? c[k + 1].lblk - 1 : l->entry[i].last,
				.file = l->entry[i].file,
				.gen = l->entry[i].gen,
				.eof = l->entry[i].eof,
			};
	}
	return 0;
}

static int place_level(struct level *l, struct entries *next, struct error *err)
{
	for (size_t from = 0, to; from < l->n; from = to) {
		struct filemap *map = &l->file[l->entry[from].file].map;
		uint32_t depth = entry_level(l, &l->entry[from]);
		struct tree_node *node;

		for (to = from; to < l->n && l->entry[to].file == l->entry[from].file; to++)
			;
		node = reallocarray(NULL, to - from, sizeof(*node));
		if (!node || filemap_need_tree(map, err)) {
			free(node);
			return error_nomem(err, "reading extent trees");
		}
		for (size_t i = from; i < to; i++)
			node[i - from] = (struct tree_node){ .pblk = l->entry[i].pblk,
							     .count = l->span[i].count };
		map->tree->node[depth] = node;
		map->tree->n_node[depth] = to - from;
		if (depth ? place_children(l, from, to, next, err)
			  : place_records(l, map, from, to, err))
			return -1;
	}
	return 0;
}

int trees_read(const struct source *src, struct snapshot_file *file, const struct tree_entry *root,
	       size_t n, struct error *err)
{
	struct entries now = { 0 }, next = { 0 };
	struct level l = { .src = src,
			   .file = file,
			   .entry = root,
			   .n = n,
			   .per = geometry_node_records(src->geo->block_size) };
	int ret = -1;

	for (; l.n; l.down++) {
		free(l.span);
		l.span = calloc(l.n, sizeof(*l.span));
		if (!l.span) {
			error_nomem(err, "reading extent trees");
			goto out;
		}
		l.n_ext = l.n_child = l.done = 0;
		if (source_stopped(src, err) || read_level(&l, err) || place_level(&l, &next, err))
			goto out;
		free(now.e);
		now = next;
		next = (struct entries){ 0 };
		l.entry = now.e;
		l.n = now.n;
	}
	ret = 0;
out:
	free(now.e);
	free(next.e);
	free(l.span);
	free(l.ext);
	free(l.child);
	return ret;
}
