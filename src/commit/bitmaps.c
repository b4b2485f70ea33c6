/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Block bitmaps and group descriptors of the groups that a batch touches; never those of the whole
 * volume. Kernel fs/ext4/balloc.c, e2fsprogs lib/ext2fs/rw_bitmaps.c. With bigalloc a bit, and a
 * unit of the free counts, is a cluster; and so are all numbers here but those of metadata.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static int append(struct changes *ch, struct change x, struct error *err)
{
	if (array_reserve(&ch->list, &ch->cap, ch->n + 1, sizeof(*ch->list), err))
		return -1;
	ch->list[ch->n++] = x;
	return 0;
}

/* The first one of a cluster. */
static uint64_t real_block(const struct commit *c, uint64_t cluster)
{
	return cluster * c->geo->cluster_blocks;
}

int changes_add(const struct commit *c, struct changes *ch, uint64_t start, uint64_t len, bool use,
		struct error *err)
{
	if (len == 0 || start < c->clusters.first_data_block || start >= c->clusters.blocks ||
	    len > c->clusters.blocks - start)
		return error_set(err, ERROR_OPERATION,
				 "internal error: a batch uses block %llu, outside of %s",
				 (unsigned long long)real_block(c, start), c->name);
	while (len) {
		uint32_t group = geometry_group_of(&c->clusters, start);
		uint64_t left = geometry_group_first(&c->clusters, group) +
				geometry_group_blocks(&c->clusters, group) - start;
		uint64_t part = len < left ? len : left;
		struct change x = { .start = start, .len = part, .group = group, .use = use };

		if (append(ch, x, err))
			return -1;
		start += part;
		len -= part;
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

size_t changes_sort(struct change *list, size_t n)
{
	size_t groups = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_start);
	for (size_t i = 0; i < n; i++)
		groups += i == 0 || list[i].group != list[i - 1].group;
	return groups;
}

int changes_check(const struct commit *c, struct changes *ch, struct error *err)
{
	changes_sort(ch->list, ch->n);
	for (size_t i = 1; i < ch->n; i++)
		if (ch->list[i - 1].start + ch->list[i - 1].len > ch->list[i].start)
			return error_set(err, ERROR_OPERATION,
					 "internal error: a batch uses block %llu of %s twice",
					 (unsigned long long)real_block(c, ch->list[i].start),
					 c->name);
	return 0;
}

bool bitmap_is_uninit(const struct commit *c, uint32_t group)
{
	return ext2fs_has_group_desc_csum(c->fs) &&
	       ext2fs_bg_flags_test(c->fs, group, EXT2_BG_BLOCK_UNINIT);
}

uint64_t descriptor_block(const struct commit *c, uint32_t group)
{
	return ext2fs_descriptor_block_loc2(c->fs, c->fs->super->s_first_data_block,
					    group / EXT2_DESC_PER_BLOCK(c->fs->super));
}

static void set_bits(uint8_t *map, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		map[i / 8] |= (uint8_t)(1u << i % 8);
}

static bool test_bit(const uint8_t *map, uint64_t i)
{
	return map[i / 8] >> i % 8 & 1;
}

/* Marks what of the clusters of blocks [start, start + len) lies in the group. */
static void mark(const struct commit *c, uint32_t group, uint8_t *map, uint64_t start, uint64_t len)
{
	uint64_t first = geometry_group_first(&c->clusters, group);
	uint64_t end = first + geometry_group_blocks(&c->clusters, group);
	uint64_t ratio = c->geo->cluster_blocks;
	uint64_t from = start / ratio, to = (start + len - 1) / ratio + 1;

	from = from < first ? first : from;
	to = to > end ? end : to;
	if (from < to)
		set_bits(map, from - first, to - first);
}

/* What the bitmap of a BLOCK_UNINIT group would hold: its own metadata (kernel
 * ext4_init_block_bitmap). The group's free count says whether that is all. */
static void synthesise(const struct commit *c, uint32_t group, uint8_t *map)
{
	const struct ext2_super_block *sb = c->fs->super;
	blk64_t super = 0, old_desc = 0, new_desc = 0;
	uint64_t old_blocks = ext2fs_has_feature_meta_bg(c->fs->super)
				      ? sb->s_first_meta_bg
				      : c->fs->desc_blocks + sb->s_reserved_gdt_blocks;

	memset(map, 0, c->geo->block_size);
	ext2fs_super_and_bgd_loc2(c->fs, group, &super, &old_desc, &new_desc, NULL);
	if (super || group == 0)
		mark(c, group, map, super, 1);
	if (old_desc)
		mark(c, group, map, old_desc, old_blocks);
	if (new_desc)
		mark(c, group, map, new_desc, 1);
	mark(c, group, map, ext2fs_block_bitmap_loc(c->fs, group), 1);
	mark(c, group, map, ext2fs_inode_bitmap_loc(c->fs, group), 1);
	mark(c, group, map, ext2fs_inode_table_loc(c->fs, group), c->fs->inode_blocks_per_group);
}

static int bad_group(const struct commit *c, uint32_t group, const char *what, struct error *err)
{
	return error_set(err, ERROR_OPERATION, "group %u of %s: %s; run: e2fsck -f %s", group,
			 c->name, what, c->name);
}

/* The group's bitmap, padded with ones to the end of the block; checked against the descriptor. */
static int load(struct commit *c, uint32_t group, uint8_t *map, struct error *err)
{
	uint64_t at = ext2fs_block_bitmap_loc(c->fs, group), bits = 8ull * c->geo->block_size;
	uint64_t used;

	if (at < c->geo->first_data_block || at >= c->geo->blocks)
		return bad_group(c, group, "its block bitmap lies outside the file system", err);
	if (bitmap_is_uninit(c, group)) {
		synthesise(c, group, map);
	} else {
		errcode_t rc = io_channel_read_blk64(c->fs->io, at, 1, map);

		if (rc)
			return fs_error(c, rc, err, "block bitmap of group %u", group);
		if (!ext2fs_block_bitmap_csum_verify(c->fs, group, (char *)map,
						     (int)(c->clusters.blocks_per_group / 8)))
			return bad_group(c, group, "its block bitmap has a wrong checksum", err);
	}
	set_bits(map, geometry_group_blocks(&c->clusters, group), bits);
	used = ext2fs_bitcount(map, c->geo->block_size);
	if (bits - used != ext2fs_bg_free_blocks_count(c->fs, group))
		return bad_group(c, group, "its free count differs from its block bitmap", err);
	return 0;
}

/* Bits [from, to) of the group must all be in the state before the change; then they get the other.
 */
static int flip(const struct commit *c, uint32_t group, uint8_t *map, uint64_t from, uint64_t to,
		bool use, struct error *err)
{
	for (uint64_t i = from; i < to; i++) {
		if (test_bit(map, i) == use)
			return error_set(err, ERROR_OPERATION,
					 "internal error: block %llu of %s should be %s but is not",
					 (unsigned long long)real_block(
						 c, geometry_group_first(&c->clusters, group) + i),
					 c->name, use ? "free" : "in use");
		map[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	return 0;
}

/* Bitmap checksum before descriptor checksum: the one lies in the other. */
static int store(struct commit *c, uint32_t group, uint8_t *map, struct error *err)
{
	uint64_t left = 8ull * c->geo->block_size - ext2fs_bitcount(map, c->geo->block_size);
	errcode_t rc;

	ext2fs_bg_free_blocks_count_set(c->fs, group, (blk_t)left);
	ext2fs_bg_flags_clear(c->fs, group, EXT2_BG_BLOCK_UNINIT);
	rc = ext2fs_block_bitmap_csum_set(c->fs, group, (char *)map,
					  (int)(c->clusters.blocks_per_group / 8));
	if (!rc)
		rc = io_channel_write_blk64(c->fs->io, ext2fs_block_bitmap_loc(c->fs, group), 1,
					    map);
	if (rc)
		return fs_error(c, rc, err, "block bitmap of group %u", group);
	ext2fs_group_desc_csum_set(c->fs, group);
	return 0;
}

void *descriptor_memory(const struct commit *c, uint32_t group)
{
	size_t index = group / EXT2_DESC_PER_BLOCK(c->fs->super);

	return (char *)c->fs->group_desc + index * c->geo->block_size;
}

static int store_descriptors(struct commit *c, uint32_t group, struct error *err)
{
	errcode_t rc = io_channel_write_blk64(c->fs->io, descriptor_block(c, group), 1,
					      descriptor_memory(c, group));

	return rc ? fs_error(c, rc, err, "group descriptors of group %u", group) : 0;
}

/* The n changes of one group. */
static int apply_group(struct commit *c, const struct change *x, size_t n, bool dry, uint8_t *map,
		       struct error *err)
{
	uint32_t group = x->group;
	uint64_t first = geometry_group_first(&c->clusters, group);

	if (load(c, group, map, err))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (flip(c, group, map, x[i].start - first, x[i].start + x[i].len - first, x[i].use,
			 err))
			return -1;
	return dry ? 0 : store(c, group, map, err);
}

int bitmaps_apply(struct commit *c, const struct changes *ch, bool dry, struct error *err)
{
	uint8_t *map = malloc(c->geo->block_size);
	uint32_t per = EXT2_DESC_PER_BLOCK(c->fs->super);
	size_t i = 0, end;
	int ret = -1;

	if (!map)
		return error_nomem(err, "a block bitmap");
	for (; i < ch->n; i = end) {
		uint32_t group = ch->list[i].group;

		for (end = i + 1; end < ch->n && ch->list[end].group == group;)
			end++;
		if (apply_group(c, ch->list + i, end - i, dry, map, err))
			goto out;
		/* A block of descriptors is written after the last of its groups. */
		if (!dry && (end == ch->n || ch->list[end].group / per != group / per) &&
		    store_descriptors(c, group, err))
			goto out;
	}
	ret = 0;
out:
	free(map);
	return ret;
}

int bitmaps_restore(struct commit *c, const struct changes *ch, struct error *err)
{
	uint32_t per = EXT2_DESC_PER_BLOCK(c->fs->super);

	for (size_t i = 0; i < ch->n; i++) {
		uint32_t group = ch->list[i].group;

		if (i && ch->list[i - 1].group / per == group / per)
			continue;
		if (device_read(c->dev, descriptor_memory(c, group),
				descriptor_block(c, group) * c->geo->block_size, c->geo->block_size,
				err))
			return -1;
	}
	return 0;
}
