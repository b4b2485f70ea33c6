/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: block bitmaps -> free ranges, and the blocks that hold the groups' metadata. */
#include "scan_internal.h"

#include <string.h>

static bool bit(const uint8_t *bitmap, uint32_t i)
{
	return bitmap[i / 8] >> (i % 8) & 1;
}

uint32_t bitmap_next(const uint8_t *bitmap, uint32_t i, uint32_t end, bool set)
{
	while (i < end) {
		uint64_t word;

		if (i % 64 == 0 && end - i >= 64) {
			memcpy(&word, bitmap + i / 8, sizeof(word));
			word = set ? word : ~word;
			if (word)
				return i + (uint32_t)__builtin_ctzll(word);
			i += 64;
		} else {
			if (bit(bitmap, i) == set)
				return i;
			i++;
		}
	}
	return end;
}

int freespace_claim_metadata(const struct source *src, uint32_t group, struct claims *cl,
			     struct error *err)
{
	struct ext2_super_block *sb = src->fs.super;
	ext2_filsys fs = (ext2_filsys)&src->fs;
	blk64_t super, old_desc, new_desc;
	uint64_t n_old = ext2fs_has_feature_meta_bg(sb)
				 ? sb->s_first_meta_bg
				 : (uint64_t)fs->desc_blocks + sb->s_reserved_gdt_blocks;
	struct range r[7];
	size_t n = 0;

	ext2fs_super_and_bgd_loc2(fs, group, &super, &old_desc, &new_desc, NULL);
	if (super || group == 0)
		r[n++] = (struct range){ super, 1 };
	/* A short last group may cut its backup (e2fsprogs lib/ext2fs/alloc_sb.c). */
	if (old_desc && old_desc < src->geo->blocks && n_old > src->geo->blocks - old_desc)
		n_old = src->geo->blocks - old_desc;
	if (old_desc)
		r[n++] = (struct range){ old_desc, n_old };
	if (new_desc)
		r[n++] = (struct range){ new_desc, 1 };
	r[n++] = (struct range){ ext2fs_block_bitmap_loc(fs, group), 1 };
	r[n++] = (struct range){ ext2fs_inode_bitmap_loc(fs, group), 1 };
	r[n++] = (struct range){ ext2fs_inode_table_loc(fs, group), fs->inode_blocks_per_group };
	if (ext2fs_has_feature_mmp(sb) && sb->s_mmp_block >= src->geo->first_data_block &&
	    sb->s_mmp_block < src->geo->blocks &&
	    geometry_group_of(src->geo, sb->s_mmp_block) == group)
		r[n++] = (struct range){ sb->s_mmp_block, 1 };
	for (size_t i = 0; i < n; i++) {
		if (r[i].start < src->geo->first_data_block || r[i].start >= src->geo->blocks ||
		    r[i].len > src->geo->blocks - r[i].start)
			return source_damage(src, err,
					     "metadata of group %u lies outside, at block %llu",
					     group, (unsigned long long)r[i].start);
		if (claims_add(cl, r[i].start, r[i].len, OWNER_META, group, err))
			return -1;
	}
	return 0;
}

/* A group whose bitmap was never written: all is free but the metadata of its own that lies in it
 * (kernel fs/ext4/balloc.c, ext4_init_block_bitmap). */
static int make_bitmap(const struct source *src, uint32_t group, uint8_t *bitmap, struct error *err)
{
	uint64_t first = geometry_group_first(&src->clusters, group);
	uint64_t end = first + geometry_group_blocks(&src->clusters, group);
	struct claims cl = { 0 };
	int ret = freespace_claim_metadata(src, group, &cl, err);

	memset(bitmap, 0, src->geo->block_size);
	for (size_t i = 0; !ret && i < cl.n; i++) {
		uint64_t from = source_cluster(src, cl.c[i].start);
		uint64_t to = source_cluster(src, cl.c[i].start + cl.c[i].len - 1) + 1;

		for (uint64_t b = from < first ? first : from; b < to && b < end; b++)
			bitmap[(b - first) / 8] |= (uint8_t)(1u << (b - first) % 8);
	}
	free(cl.c);
	return ret;
}

static int read_bitmap(const struct source *src, uint32_t group, uint8_t *bitmap, struct error *err)
{
	ext2_filsys fs = (ext2_filsys)&src->fs;
	uint64_t at = ext2fs_block_bitmap_loc(fs, group);

	if (ext2fs_has_group_desc_csum(fs) && ext2fs_bg_flags_test(fs, group, EXT2_BG_BLOCK_UNINIT))
		return make_bitmap(src, group, bitmap, err);
	if (at < src->geo->first_data_block || at >= src->geo->blocks)
		return source_damage(src, err, "the block bitmap of group %u lies outside", group);
	if (device_read(src->dev, bitmap, at * src->geo->block_size, src->geo->block_size, err))
		return -1;
	if (!ext2fs_block_bitmap_csum_verify(fs, group, (char *)bitmap,
					     (int)(src->clusters.blocks_per_group / 8)))
		return source_damage(
			src, err, "the checksum of group %u's block bitmap (block %llu) is wrong",
			group, (unsigned long long)at);
	return 0;
}

int freespace_scan_group(const struct source *src, uint32_t group, uint8_t *bitmap,
			 struct harvest *h, struct error *err)
{
	uint64_t first = geometry_group_first(&src->clusters, group);
	uint32_t n = geometry_group_blocks(&src->clusters, group), count = 0, told;

	if (read_bitmap(src, group, bitmap, err))
		return -1;
	for (uint32_t at = bitmap_next(bitmap, 0, n, false); at < n;) {
		uint32_t end = bitmap_next(bitmap, at, n, true);

		if (harvest_free(h, first + at, end - at, err))
			return -1;
		count += end - at;
		at = bitmap_next(bitmap, end, n, false);
	}
	told = ext2fs_bg_free_blocks_count((ext2_filsys)&src->fs, group);
	if (told != count)
		return source_damage(
			src, err, "group %u: its descriptor counts %u free blocks, its bitmap %u",
			group, told, count);
	return 0;
}
