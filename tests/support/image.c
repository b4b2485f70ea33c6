/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/image_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_TIME 1700000000

/* splitmix64: seeded, the same everywhere */
static uint64_t next_random(struct image *im)
{
	uint64_t z = (im->random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct image *image_open(const char *path)
{
	struct image *im = need(calloc(1, sizeof(*im)));

	must(ext2fs_open2(path, "", EXT2_FLAG_RW | EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP, 0, 0,
			  unix_io_manager, &im->fs),
	     path);
	must(ext2fs_read_bitmaps(im->fs), "bitmaps");
	im->fs->now = IMAGE_TIME;
	im->random = 1;
	return im;
}

void image_close(struct image *im)
{
	im->fs->super->s_wtime = IMAGE_TIME;
	must(ext2fs_close_free(&im->fs), "close");
	free(im);
}

uint32_t image_block_size(const struct image *im)
{
	return im->fs->blocksize;
}

uint64_t image_blocks(const struct image *im)
{
	return ext2fs_blocks_count(im->fs->super);
}

uint64_t image_free_blocks(const struct image *im)
{
	return ext2fs_free_blocks_count(im->fs->super);
}

bool image_is_free(const struct image *im, uint64_t block)
{
	return block >= im->fs->super->s_first_data_block && block < image_blocks(im) &&
	       !ext2fs_test_block_bitmap2(im->fs->block_map, block);
}

void image_reserve(struct image *im, uint64_t at, uint32_t len, bool taken)
{
	ext2fs_block_alloc_stats_range(im->fs, at, len, taken ? +1 : -1);
}

static void link_name(struct image *im, uint32_t dir, const char *name, uint32_t ino, int type)
{
	errcode_t rc = ext2fs_link(im->fs, dir, name, ino, type);

	if (rc == EXT2_ET_DIR_NO_SPACE) {
		must(ext2fs_expand_dir(im->fs, dir), "expand directory");
		rc = ext2fs_link(im->fs, dir, name, ino, type);
	}
	must(rc, name);
}

uint32_t image_dir(struct image *im, uint32_t parent, const char *name)
{
	ext2_ino_t ino;
	errcode_t rc = ext2fs_mkdir(im->fs, parent, 0, name);

	if (rc == EXT2_ET_DIR_NO_SPACE) {
		must(ext2fs_expand_dir(im->fs, parent), "expand directory");
		rc = ext2fs_mkdir(im->fs, parent, 0, name);
	}
	must(rc, name);
	must(ext2fs_lookup(im->fs, parent, name, (int)strlen(name), NULL, &ino), name);
	return ino;
}

/* An inode with a name and without blocks; `flags`: EXT4_EXTENTS_FL, EXT4_INLINE_DATA_FL or 0. */
static uint32_t new_file(struct image *im, uint32_t dir, const char *name, uint32_t flags)
{
	struct ext2_inode_large in;
	ext2_ino_t ino;
	struct ext3_extent_header *root = (struct ext3_extent_header *)in.i_block;

	must(ext2fs_new_inode(im->fs, dir, LINUX_S_IFREG | 0644, NULL, &ino), "new inode");
	memset(&in, 0, sizeof(in));
	in.i_mode = LINUX_S_IFREG | 0640;
	in.i_uid = (uint16_t)(1000 + ino % 7);
	in.i_atime = in.i_mtime = in.i_ctime = in.i_crtime = IMAGE_TIME + ino;
	in.i_links_count = 1;
	in.i_generation = ino * 2654435761u;
	in.i_flags = flags;
	in.i_extra_isize = sizeof(in) - EXT2_GOOD_OLD_INODE_SIZE;
	in.i_mtime_extra = ino << 2; /* nanoseconds */
	if (flags & EXT4_EXTENTS_FL) {
		root->eh_magic = ext2fs_cpu_to_le16(EXT3_EXT_MAGIC);
		root->eh_max = ext2fs_cpu_to_le16(4);
	}
	must(ext2fs_write_inode_full(im->fs, ino, (struct ext2_inode *)&in, sizeof(in)), "inode");
	ext2fs_inode_alloc_stats2(im->fs, ino, +1, 0);
	link_name(im, dir, name, ino, EXT2_FT_REG_FILE);
	return ino;
}

uint32_t image_file(struct image *im, uint32_t dir, const char *name)
{
	return new_file(im, dir, name,
			ext2fs_has_feature_extents(im->fs->super) ? EXT4_EXTENTS_FL : 0);
}

uint32_t image_mapped_file(struct image *im, uint32_t dir, const char *name)
{
	return new_file(im, dir, name, 0);
}

void image_symlink(struct image *im, uint32_t dir, const char *name, const char *target)
{
	errcode_t rc = ext2fs_symlink(im->fs, dir, 0, name, target);

	if (rc == EXT2_ET_DIR_NO_SPACE) {
		must(ext2fs_expand_dir(im->fs, dir), "expand directory");
		rc = ext2fs_symlink(im->fs, dir, 0, name, target);
	}
	must(rc, name);
}

void image_xattr(struct image *im, uint32_t ino, const char *name, size_t len)
{
	struct ext2_xattr_handle *h;
	char *value = need(malloc(len + 1));

	for (size_t i = 0; i < len; i++)
		value[i] = (char)('a' + (i + ino) % 26);
	must(ext2fs_xattrs_open(im->fs, ino, &h), "xattrs");
	must(ext2fs_xattrs_read(h), "xattrs");
	must(ext2fs_xattr_set(h, name, value, len), name);
	must(ext2fs_xattrs_close(&h), "xattrs");
	free(value);
}

void image_owner(struct image *im, uint32_t ino, uint32_t uid, uint32_t gid, uint32_t project)
{
	struct ext2_inode_large in;

	must(ext2fs_read_inode_full(im->fs, ino, (struct ext2_inode *)&in, sizeof(in)), "inode");
	ext2fs_set_i_uid_high(in, (uint16_t)(uid >> 16));
	ext2fs_set_i_gid_high(in, (uint16_t)(gid >> 16));
	in.i_uid = (uint16_t)uid;
	in.i_gid = (uint16_t)gid;
	in.i_projid = project;
	must(ext2fs_write_inode_full(im->fs, ino, (struct ext2_inode *)&in, sizeof(in)), "inode");
}

void image_inline(struct image *im, uint32_t dir, const char *name, size_t len)
{
	uint32_t ino = new_file(im, dir, name, EXT4_INLINE_DATA_FL);
	struct ext2_inode in;
	char text[256];

	memset(text, 'i', sizeof(text));
	must(ext2fs_inline_data_init(im->fs, ino), "inline data");
	must(ext2fs_read_inode(im->fs, ino, &in), "inode");
	in.i_size = (uint32_t)len;
	must(ext2fs_write_inode(im->fs, ino, &in), "inode");
	must(ext2fs_inline_data_set(im->fs, ino, &in, text, len), "inline data");
}

/* Lines that name inode, block and place in the block: readable, and each sector is different. */
static void pattern(uint8_t *buf, uint32_t bs, uint32_t ino, uint32_t lblk)
{
	for (uint32_t at = 0; at < bs; at += 32) {
		char line[33];

		snprintf(line, sizeof(line), "i %08x b %08x at %04x\n\n\n", ino, lblk, at & 0xffff);
		memcpy(buf + at, line, 32);
	}
}

static bool run_is_free(const struct image *im, uint64_t at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (!image_is_free(im, at + i))
			return false;
	return true;
}

static void reorder(struct image *im, struct piece *p, size_t n, enum place_order order)
{
	for (size_t i = 0; order == PLACE_BACKWARD && i < n / 2; i++) {
		struct piece swap = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = swap;
	}
	for (size_t i = n; order == PLACE_SHUFFLED && i > 1; i--) {
		size_t j = (size_t)(next_random(im) % i);
		struct piece swap = p[i - 1];

		p[i - 1] = p[j];
		p[j] = swap;
	}
}

size_t image_pick(struct image *im, const struct place *p, uint32_t blocks, struct piece **out)
{
	uint32_t len = p->len ? p->len : 1, lblk = 0;
	uint64_t step = cluster_up(im, p->step ? p->step : 2 * len);
	uint64_t to = p->to ? p->to : image_blocks(im);
	size_t want = (blocks + len - 1) / len, n = 0, cap = 0;
	struct piece *list = NULL;

	for (uint64_t at = cluster_up(im, p->from); at + len <= to;) {
		if (p->order != PLACE_SHUFFLED && n == want)
			break;
		if (!run_is_free(im, at, len)) {
			at = cluster_up(im, at + 1);
			continue;
		}
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			list = need(reallocarray(list, cap, sizeof(*list)));
		}
		list[n++] = (struct piece){ .pblk = at, .len = len };
		at += step;
	}
	if (n < want)
		image_die("no room for %u blocks in runs of %u", blocks, len);
	reorder(im, list, n, p->order);
	n = want;
	for (size_t i = 0; i < n; i++) {
		if (i == n - 1)
			list[i].len = blocks - (uint32_t)(n - 1) * len;
		list[i].lblk = lblk;
		list[i].unwritten = p->every_unwritten == 1 ||
				    (p->every_unwritten && i % p->every_unwritten == 1);
		lblk = (uint32_t)cluster_up(im, lblk + list[i].len + p->hole);
	}
	*out = list;
	return n;
}

static void write_block(struct image *im, uint64_t pblk, const uint8_t *buf)
{
	must(io_channel_write_blk64(im->fs->io, pblk, 1, buf), "write block");
}

static void fill_piece(struct image *im, uint32_t ino, const struct piece *p, const uint8_t *data)
{
	uint32_t bs = im->fs->blocksize;
	uint8_t buf[EXT2_MAX_BLOCK_SIZE];

	for (uint32_t i = 0; i < p->len; i++) {
		if (p->unwritten) /* stale bytes that must never show up */
			memset(buf, 0xee, bs);
		else if (!data)
			pattern(buf, bs, ino, p->lblk + i);
		write_block(im, p->pblk + i, data && !p->unwritten ? data + (size_t)i * bs : buf);
	}
}

static void map_extents(struct image *im, uint32_t ino, const struct piece *piece, size_t n)
{
	ext2_extent_handle_t h;

	must(ext2fs_extent_open(im->fs, ino, &h), "extents");
	for (size_t i = 0; i < n; i++) {
		struct ext2fs_extent e = { .e_pblk = piece[i].pblk,
					   .e_lblk = piece[i].lblk,
					   .e_len = piece[i].len,
					   .e_flags = EXT2_EXTENT_FLAGS_LEAF |
						      (piece[i].unwritten ? EXT2_EXTENT_FLAGS_UNINIT
									  : 0) };

		must(ext2fs_extent_insert(h, i ? EXT2_EXTENT_INSERT_AFTER : 0, &e), "extent");
		must(ext2fs_extent_fix_parents(h), "extent");
	}
	ext2fs_extent_free(h);
}

/* The indirect blocks come from wherever blocks are free. */
static void map_pointers(struct image *im, uint32_t ino, struct ext2_inode *in,
			 const struct piece *piece, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < piece[i].len; k++) {
			blk64_t pblk = piece[i].pblk + k;

			must(ext2fs_bmap2(im->fs, ino, in, NULL, BMAP_SET | BMAP_ALLOC,
					  piece[i].lblk + k, NULL, &pblk),
			     "bmap");
		}
	}
}

/* Takes the clusters of the pieces, each once; returns how many. */
static uint64_t take_clusters(struct image *im, const struct piece *piece, size_t n)
{
	uint64_t ratio = (uint64_t)EXT2FS_CLUSTER_RATIO(im->fs), taken = 0, last = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t from = piece[i].pblk / ratio * ratio;
		uint64_t end = cluster_up(im, piece[i].pblk + piece[i].len);

		if (from == last) /* the cluster that the piece before ends in */
			from += ratio;
		last = end - ratio;
		if (end <= from)
			continue;
		ext2fs_block_alloc_stats_range(im->fs, from, (blk_t)(end - from), +1);
		taken += (end - from) / ratio;
	}
	return taken;
}

void image_map(struct image *im, uint32_t ino, const struct piece *piece, size_t n,
	       const uint8_t *data, uint64_t size)
{
	uint32_t bs = im->fs->blocksize;
	struct ext2_inode in;
	uint64_t blocks = 0, clusters = take_clusters(im, piece, n);

	for (size_t i = 0; i < n; i++) {
		fill_piece(im, ino, &piece[i], data ? data + blocks * bs : NULL);
		blocks += piece[i].len;
	}
	must(ext2fs_read_inode(im->fs, ino, &in), "inode");
	if (in.i_flags & EXT4_EXTENTS_FL) {
		map_extents(im, ino, piece, n);
		must(ext2fs_read_inode(im->fs, ino, &in), "inode");
	} else {
		map_pointers(im, ino, &in, piece, n);
	}
	must(ext2fs_iblk_add_blocks(im->fs, &in, clusters), "i_blocks");
	if (!size && n)
		size = (uint64_t)(piece[n - 1].lblk + piece[n - 1].len) * bs - bs / 3;
	must(ext2fs_inode_size_set(im->fs, &in, (ext2_off64_t)size), "size");
	must(ext2fs_write_inode(im->fs, ino, &in), "inode");
}

static void put_blocks(struct image *im, uint32_t ino, const struct place *p, uint32_t n)
{
	struct piece *list;
	size_t n_list = image_pick(im, p, n, &list);

	image_map(im, ino, list, n_list, NULL, 0);
	free(list);
}

uint32_t image_put(struct image *im, uint32_t dir, const char *name, const struct place *p,
		   uint32_t n)
{
	uint32_t ino = image_file(im, dir, name);

	put_blocks(im, ino, p, n);
	return ino;
}

uint32_t image_put_mapped(struct image *im, uint32_t dir, const char *name, const struct place *p,
			  uint32_t n)
{
	uint32_t ino = image_mapped_file(im, dir, name);

	put_blocks(im, ino, p, n);
	return ino;
}

uint64_t image_file_block(struct image *im, uint32_t ino, uint32_t lblk)
{
	blk64_t pblk = 0;

	must(ext2fs_bmap2(im->fs, ino, NULL, NULL, 0, lblk, NULL, &pblk), "bmap");
	return pblk;
}

uint64_t image_inode_table(const struct image *im)
{
	return ext2fs_inode_table_loc(im->fs, 0);
}

enum image_kind image_kind(const struct image *im, uint64_t block)
{
	for (dgrp_t g = 0; g < im->fs->group_desc_count; g++) {
		uint64_t table = ext2fs_inode_table_loc(im->fs, g);

		if (block == ext2fs_block_bitmap_loc(im->fs, g) ||
		    block == ext2fs_descriptor_block_loc2(im->fs, im->fs->super->s_first_data_block,
							  g / EXT2_DESC_PER_BLOCK(im->fs->super)))
			return IMAGE_ACCOUNTS;
		if (block >= table && block < table + im->fs->inode_blocks_per_group)
			return IMAGE_INODES;
	}
	return IMAGE_OTHER;
}
