/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The 1,024 bytes of the superblock, judged before libext2fs sees them: its open divides by some of
 * the fields and sizes buffers by others. Bounds as in the kernel's fs/ext4/super.c
 * (__ext4_fill_super), and e2fsck/super.c (check_super_block): with what e2fsck gives up on, it
 * would be no help after a power cut; fields: e2fsprogs lib/ext2fs/ext2_fs.h.
 */
#include "internal.h"
#include <endian.h>
#include <errno.h>
#include <string.h>

#define MAX_BLOCKS (1ull << 48) /* what an extent can address */

static uint64_t join(uint32_t lo, uint32_t hi)
{
	return (uint64_t)le32toh(hi) << 32 | le32toh(lo);
}

/* The field may come from hostile bytes: only used after the range was checked. */
static uint32_t block_size_of(const struct ext2_super_block *raw)
{
	uint32_t log = le32toh(raw->s_log_block_size);
	return log <= 6 ? 1024u << log : 0;
}

static bool is_bigalloc(const struct superblock *sb)
{
	return sb->ro_compat & EXT4_FEATURE_RO_COMPAT_BIGALLOC;
}

/* Real blocks of a cluster; 0: it can't be so. As block_size_of. */
static uint32_t cluster_blocks_of(const struct superblock *sb)
{
	uint32_t block = le32toh(sb->raw.s_log_block_size);
	uint32_t cluster = le32toh(sb->raw.s_log_cluster_size);

	if (!is_bigalloc(sb))
		return cluster == block;
	return block <= cluster && cluster <= 19 ? 1u << (cluster - block) : 0;
}

static bool checksum_fits(const struct ext2_super_block *raw)
{
	const size_t covered = offsetof(struct ext2_super_block, s_checksum);
	return ext2fs_crc32c_le(~0u, (const unsigned char *)raw, covered) ==
	       le32toh(raw->s_checksum);
}

int superblock_read(const struct target *tg, int fd, struct superblock *sb, struct error *err)
{
	_Static_assert(sizeof(sb->raw) == SUPERBLOCK_LEN, "superblock");
	ssize_t n = target_read(fd, &sb->raw, SUPERBLOCK_LEN, tg->base + SUPERBLOCK_AT);
	if (n < 0)
		return error_sys(err, ERROR_OPERATION, errno, "cannot read the superblock of %s",
				 tg->shown);
	if (n < (ssize_t)SUPERBLOCK_LEN)
		return error_set(err, ERROR_USAGE, "%s is too short to hold a file system",
				 tg->shown);
	const struct ext2_super_block *raw = &sb->raw;
	sb->compat = le32toh(raw->s_feature_compat);
	sb->incompat = le32toh(raw->s_feature_incompat);
	sb->ro_compat = le32toh(raw->s_feature_ro_compat);
	sb->block_size = block_size_of(raw);
	sb->cluster_blocks = cluster_blocks_of(sb);
	sb->inode_size = le32toh(raw->s_rev_level) == EXT2_GOOD_OLD_REV
				 ? EXT2_GOOD_OLD_INODE_SIZE
				 : le16toh(raw->s_inode_size);
	sb->desc_size = sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT ? le16toh(raw->s_desc_size)
								   : EXT2_MIN_DESC_SIZE;
	sb->blocks = join(raw->s_blocks_count, raw->s_blocks_count_hi);
	sb->groups = 0;
	uint32_t per_group = le32toh(raw->s_blocks_per_group);
	uint32_t first = le32toh(raw->s_first_data_block);
	if (per_group && sb->blocks > first)
		sb->groups = (sb->blocks - first - 1) / per_group + 1;
	sb->csum_ok = !(sb->ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) || checksum_fits(raw);
	return 0;
}

/* What is wrong with the sizes, or NULL. */
static const char *wrong_size(const struct superblock *sb)
{
	const struct ext2_super_block *raw = &sb->raw;
	uint32_t bs = sb->block_size;

	if (!bs)
		return "the block size is not between 1 KiB and 64 KiB";
	if (!sb->cluster_blocks)
		return "the cluster size is impossible";
	if (sb->inode_size < 128 || sb->inode_size > bs || (sb->inode_size & (sb->inode_size - 1)))
		return "the inode size is impossible";
	if (sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT &&
	    (sb->desc_size < EXT2_MIN_DESC_SIZE_64BIT || sb->desc_size > EXT2_MAX_DESC_SIZE ||
	     (sb->desc_size & (sb->desc_size - 1))))
		return "the group descriptor size is impossible";
	/* Without 64bit nobody uses it, but e2fsck gives up, and so could not replay our journal.
	 */
	uint16_t told = le16toh(raw->s_desc_size);
	if (told > EXT2_MAX_DESC_SIZE || (told & (told - 1)))
		return "the group descriptor size is impossible";
	if (le32toh(raw->s_first_data_block) != (bs == 1024 && !is_bigalloc(sb)))
		return "the first data block is wrong";
	if (le16toh(raw->s_reserved_gdt_blocks) > bs / 4)
		return "too many reserved descriptor blocks";
	return NULL;
}

/* What is wrong with the groups, or NULL. */
static const char *wrong_groups(const struct superblock *sb)
{
	const struct ext2_super_block *raw = &sb->raw;
	uint32_t bs = sb->block_size, per_group = le32toh(raw->s_blocks_per_group);
	uint32_t clusters = le32toh(raw->s_clusters_per_group);
	uint32_t inodes = le32toh(raw->s_inodes_per_group);

	if (!clusters || clusters % 8 || clusters > bs * 8)
		return "the number of blocks a group is impossible";
	if ((uint64_t)clusters * sb->cluster_blocks != per_group)
		return "clusters and blocks a group don't go together";
	if (!inodes || inodes % 8 || inodes > bs * 8 || inodes < bs / sb->inode_size)
		return "the number of inodes a group is impossible";
	uint64_t table = ((uint64_t)inodes * sb->inode_size + bs - 1) / bs;
	if (table >= per_group)
		return "the inode table does not fit its group";
	if (sb->blocks <= le32toh(raw->s_first_data_block) || sb->blocks > MAX_BLOCKS)
		return "the number of blocks is impossible";
	if (!(sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT) && raw->s_blocks_count_hi)
		return "more than 2^32 blocks without the 64bit feature";
	if (sb->groups > UINT32_MAX || sb->groups * inodes != le32toh(raw->s_inodes_count))
		return "the number of inodes does not match the number of groups";
	uint64_t desc_blocks = (sb->groups - 1) / (bs / sb->desc_size) + 1;
	if (sb->incompat & EXT2_FEATURE_INCOMPAT_META_BG
		    ? le32toh(raw->s_first_meta_bg) > desc_blocks
		    : desc_blocks > per_group)
		return "the group descriptors do not fit";
	return NULL;
}

/* What is wrong with the rest, or NULL. */
static const char *wrong_fields(const struct superblock *sb)
{
	const struct ext2_super_block *raw = &sb->raw;
	uint32_t rev = le32toh(raw->s_rev_level), inodes = le32toh(raw->s_inodes_count);
	uint32_t first_ino = rev ? le32toh(raw->s_first_ino) : EXT2_GOOD_OLD_FIRST_INO;
	uint32_t free_hi = sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT ? raw->s_free_blocks_hi : 0;
	uint32_t both = EXT4_FEATURE_RO_COMPAT_METADATA_CSUM | EXT4_FEATURE_RO_COMPAT_GDT_CSUM;

	if (!rev && (sb->compat | sb->incompat | sb->ro_compat))
		return "features are set, but it is of revision 0";
	if (first_ino < EXT2_GOOD_OLD_FIRST_INO || first_ino > inodes)
		return "the first inode is impossible";
	if (join(raw->s_free_blocks_count, free_hi) > sb->blocks)
		return "more free blocks than blocks";
	uint32_t reserved_hi =
		sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT ? raw->s_r_blocks_count_hi : 0;
	if (join(raw->s_r_blocks_count, reserved_hi) > sb->blocks / 2)
		return "more than half of the blocks are reserved";
	if (le32toh(raw->s_free_inodes_count) > inodes)
		return "more free inodes than inodes";
	if (sb->incompat & EXT4_FEATURE_INCOMPAT_64BIT &&
	    !(sb->incompat & EXT3_FEATURE_INCOMPAT_EXTENTS))
		return "64bit is set without extents";
	if ((sb->ro_compat & both) == both)
		return "metadata_csum and uninit_bg are both set";
	if (raw->s_log_groups_per_flex > 31)
		return "the flex group size is impossible";
	if (sb->compat & EXT3_FEATURE_COMPAT_HAS_JOURNAL &&
	    (!raw->s_journal_inum || le32toh(raw->s_journal_inum) > inodes))
		return "the journal has no inode";
	return NULL;
}

int superblock_check(const struct target *tg, const struct superblock *sb, struct error *err)
{
	const char *wrong = wrong_size(sb);

	if (!wrong)
		wrong = wrong_groups(sb);
	if (!wrong)
		wrong = wrong_fields(sb);
	if (wrong)
		return error_set(err, ERROR_FSCK, "%s: broken superblock: %s; run: e2fsck -f %s",
				 tg->shown, wrong, tg->arg);
	return 0;
}

void superblock_geometry(const struct superblock *sb, struct geometry *geo)
{
	const struct ext2_super_block *raw = &sb->raw;
	uint32_t stripe = le32toh(raw->s_raid_stripe_width);

	*geo = (struct geometry){
		.block_size = sb->block_size,
		.cluster_blocks = sb->cluster_blocks,
		.first_data_block = le32toh(raw->s_first_data_block),
		.blocks = sb->blocks,
		.groups = (uint32_t)sb->groups,
		.blocks_per_group = le32toh(raw->s_blocks_per_group),
		.inodes_per_group = le32toh(raw->s_inodes_per_group),
		.inode_size = sb->inode_size,
		.desc_per_block = sb->block_size / sb->desc_size,
		.flex_size = 1,
		.align_blocks = stripe ? stripe : le16toh(raw->s_raid_stride),
		.metadata_csum = sb->ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM,
		.ordered = !(sb->compat & EXT3_FEATURE_COMPAT_HAS_JOURNAL),
	};
	if (sb->incompat & EXT4_FEATURE_INCOMPAT_FLEX_BG)
		geo->flex_size = 1u << raw->s_log_groups_per_flex;
}
