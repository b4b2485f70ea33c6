/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: the mappings of a few files, read anew. The same code as the full scan takes the inodes and
 * their trees apart. */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

struct reread {
	const struct source *src;
	const uint32_t *inos;
	size_t n;
	struct want *want;  /* one per inode: its block of the inode table; sorted */
	struct harvest all; /* in the order in which inodes come in */
	size_t *file;	    /* per inode: its place there */
};

/* Byte offset of an inode. */
static uint64_t inode_place(const struct source *src, uint32_t ino)
{
	const struct geometry *geo = src->geo;
	uint64_t table =
		ext2fs_inode_table_loc((ext2_filsys)&src->fs, geometry_inode_group(geo, ino));

	return table * geo->block_size +
	       (uint64_t)((ino - 1) % geo->inodes_per_group) * geo->inode_size;
}

static int take_inode(struct reread *r, size_t index, uint8_t *block, struct error *err)
{
	uint32_t ino = r->inos[index];
	uint8_t *raw = block + inode_place(r->src, ino) % r->src->geo->block_size;
	struct harvest *h = &r->all;
	size_t before = h->n_file;

	if (!((struct ext2_inode *)raw)->i_links_count)
		return source_damage(r->src, err, "inode %u is no longer in use", ino);
	if (inodes_take(r->src, ino, raw, h, err))
		return -1;
	h->claims.n = 0; /* not compared with anything here */
	if (h->n_file != before + 1 || h->n_left)
		return source_damage(r->src, err, "inode %u is no longer a file to be moved", ino);
	r->file[index] = before;
	return 0;
}

/* `first` is the first want of this block. */
static int take_inodes(void *ctx, size_t first, uint8_t *block, struct error *err)
{
	struct reread *r = ctx;

	for (size_t i = first; i < r->n && r->want[i].block == r->want[first].block; i++)
		if (take_inode(r, r->want[i].index, block, err))
			return -1;
	return 0;
}

static int read_inodes(struct reread *r, struct error *err)
{
	struct want *blocks = reallocarray(NULL, r->n, sizeof(*blocks));
	size_t n = 0;
	int ret = -1;

	if (!blocks)
		return error_nomem(err, "reading inodes");
	for (size_t i = 0; i < r->n; i++) {
		uint32_t ino = r->inos[i];
		uint64_t block;

		if (!ino || geometry_inode_group(r->src->geo, ino) >= r->src->geo->groups) {
			error_set(err, ERROR_OPERATION, "inode %u does not exist", ino);
			goto out;
		}
		block = inode_place(r->src, ino) / r->src->geo->block_size;
		if (block >= r->src->geo->blocks) {
			source_damage(r->src, err, "inode %u lies outside", ino);
			goto out;
		}
		r->want[i] = (struct want){ .block = block, .index = i };
	}
	qsort(r->want, r->n, sizeof(*r->want), want_compare);
	for (size_t i = 0; i < r->n; i++)
		if (!i || r->want[i].block != r->want[i - 1].block)
			blocks[n++] = (struct want){ .block = r->want[i].block, .index = i };
	ret = source_read_blocks(r->src, blocks, n, take_inodes, r, err);
out:
	free(blocks);
	return ret;
}

int scan_files(struct volume *v, const uint32_t *inos, size_t n, unsigned queue_depth,
	       struct filemap *maps, struct error *err)
{
	struct source src;
	struct reread r = { .src = &src, .inos = inos, .n = n };
	int ret = -1;

	if (!n)
		return 0;
	if (source_open(v, queue_depth, NULL, &src, err))
		return -1;
	r.want = calloc(n, sizeof(*r.want));
	r.file = calloc(n, sizeof(*r.file));
	if (!r.want || !r.file) {
		error_nomem(err, "reading inodes");
		goto out;
	}
	if (read_inodes(&r, err) || harvest_settle(&r.all, true, err) ||
	    trees_read(&src, r.all.file, r.all.root, r.all.n_root, err) ||
	    mapped_read(&src, r.all.file, r.all.mapped, r.all.n_mapped, err) ||
	    clusters_of_files(&src, r.all.file, r.all.n_file, err))
		goto out;
	for (size_t i = 0; i < n; i++)
		maps[i] = r.all.file[r.file[i]].map;
	r.all.n_file = 0; /* handed over */
	ret = 0;
out:
	harvest_release(&r.all);
	free(r.want);
	free(r.file);
	source_close(&src);
	return ret;
}
