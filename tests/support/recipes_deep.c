/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The deepest trees of extents that the format has: 5 levels below the inode. Whoever writes full
 * nodes needs billions of blocks for one; but nodes may have as few entries as one, as when most of
 * a file was cut out of the middle.
 */
#include "support/image.h"
#include "support/recipes.h"
#include <ext2fs/ext2fs.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 12, ENTRY = 12, ROOT_ENTRIES = 4 };

/* Entries of a level, from left to right: of leaves, and then of the indexes above them. */
struct level {
	uint8_t (*entry)[ENTRY];
	size_t n;
};

static void must(errcode_t rc, const char *what)
{
	if (rc)
		image_die("%s: %s", what, error_message(rc));
}

/* The file's extents; the blocks of the tree that it has are given back. */
static struct level take_apart(ext2_filsys fs, uint32_t ino)
{
	struct level all = { 0 };
	struct ext2fs_extent e;
	ext2_extent_handle_t h;
	struct ext2_inode in;
	blk64_t freed = 0;
	errcode_t rc;

	must(ext2fs_extent_open(fs, ino, &h), "extents");
	for (rc = ext2fs_extent_get(h, EXT2_EXTENT_ROOT, &e); !rc;
	     rc = ext2fs_extent_get(h, EXT2_EXTENT_NEXT, &e)) {
		struct ext3_extent x = { .ee_block = (uint32_t)e.e_lblk,
					 .ee_start = (uint32_t)e.e_pblk };

		if (e.e_flags & EXT2_EXTENT_FLAGS_SECOND_VISIT)
			continue;
		if (!(e.e_flags & EXT2_EXTENT_FLAGS_LEAF)) {
			ext2fs_block_alloc_stats2(fs, e.e_pblk, -1);
			freed++;
			continue;
		}
		x.ee_len =
			(uint16_t)(e.e_len +
				   (e.e_flags & EXT2_EXTENT_FLAGS_UNINIT ? EXT_INIT_MAX_LEN : 0));
		all.entry = reallocarray(all.entry, all.n + 1, sizeof(*all.entry));
		if (!all.entry)
			image_die("out of memory");
		memcpy(all.entry[all.n++], &x, sizeof(x));
	}
	if (rc != EXT2_ET_EXTENT_NO_NEXT)
		image_die("extents: %s", error_message(rc));
	ext2fs_extent_free(h);
	must(ext2fs_read_inode(fs, ino, &in), "inode");
	must(ext2fs_iblk_sub_blocks(fs, &in, freed), "i_blocks");
	must(ext2fs_write_inode(fs, ino, &in), "inode");
	return all;
}

static void put_node(uint8_t *at, const struct level *l, size_t first, size_t n, size_t max,
		     unsigned depth)
{
	const struct ext3_extent_header h = { .eh_magic = EXT3_EXT_MAGIC,
					      .eh_entries = (uint16_t)n,
					      .eh_max = (uint16_t)max,
					      .eh_depth = (uint16_t)depth };

	memcpy(at, &h, sizeof(h));
	memcpy(at + HEADER, l->entry[first], n * ENTRY);
}

/* Nodes of `fan` entries each over the level, which becomes the one of the entries of those. */
static void build_level(ext2_filsys fs, uint32_t ino, struct level *l, size_t fan, unsigned depth)
{
	size_t max = (fs->blocksize - HEADER) / ENTRY, n = 0;
	uint8_t *node = malloc(fs->blocksize);

	if (!node)
		image_die("out of memory");
	for (size_t i = 0; i < l->n; i += fan) {
		struct ext3_extent_idx x = { 0 };
		blk64_t at;

		must(ext2fs_new_block2(fs, 0, NULL, &at), "a block");
		ext2fs_block_alloc_stats2(fs, at, +1);
		memset(node, 0, fs->blocksize);
		put_node(node, l, i, fan < l->n - i ? fan : l->n - i, max, depth);
		must(ext2fs_extent_block_csum_set(fs, ino, (struct ext3_extent_header *)node),
		     "checksum");
		must(io_channel_write_blk64(fs->io, at, 1, node), "node");
		memcpy(&x.ei_block, l->entry[i], sizeof(x.ei_block));
		x.ei_leaf = (uint32_t)at;
		memcpy(l->entry[n++], &x, sizeof(x));
	}
	l->n = n;
	free(node);
}

/* The file's tree anew: `depth` levels of nodes of `fan` entries. */
static void deepen(ext2_filsys fs, uint32_t ino, size_t fan, unsigned depth)
{
	struct level l = take_apart(fs, ino);
	struct ext2_inode in;
	blk64_t taken = 0;

	for (unsigned d = 0; d < depth; d++) {
		build_level(fs, ino, &l, fan, d);
		taken += l.n;
	}
	if (l.n > ROOT_ENTRIES)
		image_die("too many extents for a tree of depth %u", depth);
	must(ext2fs_read_inode(fs, ino, &in), "inode");
	memset(in.i_block, 0, sizeof(in.i_block));
	put_node((uint8_t *)in.i_block, &l, 0, l.n, ROOT_ENTRIES, depth);
	must(ext2fs_iblk_add_blocks(fs, &in, taken), "i_blocks");
	must(ext2fs_write_inode(fs, ino, &in), "inode");
	free(l.entry);
}

static void make(const char *path, const char *features, const char *args, unsigned depth)
{
	static const struct place backward = { .len = 1, .step = 3, .order = PLACE_BACKWARD };
	static const struct place mixed = { .len = 2, .step = 5, .hole = 9, .every_unwritten = 3 };
	struct image *im;
	ext2_filsys fs;
	uint32_t full, holes, chain;

	image_mke2fs(path, 6 << 20, features, args);
	im = image_open(path);
	full = image_put(im, IMAGE_ROOT, "full", &backward, 128);
	holes = image_put(im, IMAGE_ROOT, "holes", &mixed, 128);
	chain = image_put(im, IMAGE_ROOT, "chain", &recipe_every_second, 3);
	image_close(im);
	must(ext2fs_open(path, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs), path);
	must(ext2fs_read_bitmaps(fs), "bitmaps");
	fs->now = fs->super->s_wtime;
	deepen(fs, full, 2, depth);
	deepen(fs, holes, 2, depth);
	deepen(fs, chain, 3, depth); /* one child each */
	must(ext2fs_close_free(&fs), "close");
	image_fsck(path, "-fn", 0);
}

void recipe_deepest(const char *path)
{
	make(path, "", "-b 1024 -N 128 -J size=1", 5);
}

void recipe_deepestbare(const char *path)
{
	make(path, "^has_journal", "-b 1024 -N 128", 5);
}

/* A level more than the kernel takes. */
void recipe_toodeep(const char *path)
{
	make(path, "", "-b 1024 -N 128 -J size=1", 6);
}
