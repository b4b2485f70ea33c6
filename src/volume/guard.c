/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every reason to refuse that the file system itself gives. In this order:
 *   features  unknown or never supported              ERROR_USAGE
 *   mmp       another node uses it                    ERROR_OPERATION
 *   size      the file or device is shorter           ERROR_FSCK
 *   checksum, state, orphans                          ERROR_FSCK
 *   not yet   known, but this version can't do it     ERROR_USAGE
 *   bounds    superblock.c                            ERROR_FSCK
 *   memory    absurd size of the group descriptors    ERROR_OPERATION
 *   groups    descriptors, once libext2fs has them    ERROR_FSCK
 * A log that is not empty is journal_open's to refuse: needs_recovery with an empty log is what our
 * own killed run leaves, and it goes on.
 *
 * Who uses it: holders.c, lock.c; mmp.c for the MMP block. What else it is: content.c.
 */
#include "internal.h"
#include <endian.h>
#include <stdio.h>
#include <string.h>

#define CLUSTER_MAX (1u << 20) /* bytes; the mover's requests are no longer than this */

enum verdict { FINE, NEVER };

struct feature {
	uint32_t mask;
	enum verdict verdict;
	const char *name;
};

/* Names as in e2fsprogs lib/e2p/feature.c. What is not listed is unknown and refused. */
static const struct feature compat_features[] = {
	{ EXT2_FEATURE_COMPAT_DIR_PREALLOC, FINE, "dir_prealloc" },
	{ EXT2_FEATURE_COMPAT_IMAGIC_INODES, NEVER, "imagic_inodes" },
	{ EXT3_FEATURE_COMPAT_HAS_JOURNAL, FINE, "has_journal" },
	{ EXT2_FEATURE_COMPAT_EXT_ATTR, FINE, "ext_attr" },
	{ EXT2_FEATURE_COMPAT_RESIZE_INODE, FINE, "resize_inode" },
	{ EXT2_FEATURE_COMPAT_DIR_INDEX, FINE, "dir_index" },
	{ EXT2_FEATURE_COMPAT_LAZY_BG, NEVER, "lazy_bg" },
	{ 0x0080, NEVER, "snapshot (exclude_inode)" },
	{ EXT2_FEATURE_COMPAT_EXCLUDE_BITMAP, NEVER, "snapshot_bitmap" },
	{ EXT4_FEATURE_COMPAT_SPARSE_SUPER2, FINE, "sparse_super2" },
	{ EXT4_FEATURE_COMPAT_FAST_COMMIT, FINE, "fast_commit" },
	{ EXT4_FEATURE_COMPAT_STABLE_INODES, FINE, "stable_inodes" },
	{ EXT4_FEATURE_COMPAT_ORPHAN_FILE, FINE, "orphan_file" },
	{ 0, FINE, NULL },
};

static const struct feature incompat_features[] = {
	{ EXT2_FEATURE_INCOMPAT_COMPRESSION, NEVER, "compression" },
	{ EXT2_FEATURE_INCOMPAT_FILETYPE, FINE, "filetype" },
	{ EXT3_FEATURE_INCOMPAT_RECOVER, FINE, "needs_recovery" },
	{ EXT3_FEATURE_INCOMPAT_JOURNAL_DEV, NEVER, "journal_dev (an external journal)" },
	{ EXT2_FEATURE_INCOMPAT_META_BG, FINE, "meta_bg" },
	{ EXT3_FEATURE_INCOMPAT_EXTENTS, FINE, "extent" },
	{ EXT4_FEATURE_INCOMPAT_64BIT, FINE, "64bit" },
	{ EXT4_FEATURE_INCOMPAT_MMP, FINE, "mmp" },
	{ EXT4_FEATURE_INCOMPAT_FLEX_BG, FINE, "flex_bg" },
	{ EXT4_FEATURE_INCOMPAT_EA_INODE, FINE, "ea_inode" },
	{ EXT4_FEATURE_INCOMPAT_DIRDATA, NEVER, "dirdata" },
	{ EXT4_FEATURE_INCOMPAT_CSUM_SEED, FINE, "metadata_csum_seed" },
	{ EXT4_FEATURE_INCOMPAT_LARGEDIR, FINE, "large_dir" },
	{ EXT4_FEATURE_INCOMPAT_INLINE_DATA, FINE, "inline_data" },
	{ EXT4_FEATURE_INCOMPAT_ENCRYPT, FINE, "encrypt" },
	{ EXT4_FEATURE_INCOMPAT_CASEFOLD, FINE, "casefold" },
	{ 0, FINE, NULL },
};

static const struct feature ro_compat_features[] = {
	{ EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER, FINE, "sparse_super" },
	{ EXT2_FEATURE_RO_COMPAT_LARGE_FILE, FINE, "large_file" },
	{ 0x0004, NEVER, "btree_dir" },
	{ EXT4_FEATURE_RO_COMPAT_HUGE_FILE, FINE, "huge_file" },
	{ EXT4_FEATURE_RO_COMPAT_GDT_CSUM, FINE, "uninit_bg" },
	{ EXT4_FEATURE_RO_COMPAT_DIR_NLINK, FINE, "dir_nlink" },
	{ EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE, FINE, "extra_isize" },
	{ EXT4_FEATURE_RO_COMPAT_HAS_SNAPSHOT, NEVER, "snapshot" },
	{ EXT4_FEATURE_RO_COMPAT_QUOTA, FINE, "quota" },
	{ EXT4_FEATURE_RO_COMPAT_BIGALLOC, FINE, "bigalloc" },
	{ EXT4_FEATURE_RO_COMPAT_METADATA_CSUM, FINE, "metadata_csum" },
	{ EXT4_FEATURE_RO_COMPAT_REPLICA, NEVER, "replica" },
	{ EXT4_FEATURE_RO_COMPAT_READONLY, NEVER, "read-only" },
	{ EXT4_FEATURE_RO_COMPAT_PROJECT, FINE, "project" },
	{ EXT4_FEATURE_RO_COMPAT_SHARED_BLOCKS, NEVER, "shared_blocks" },
	{ EXT4_FEATURE_RO_COMPAT_VERITY, FINE, "verity" },
	{ EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT, FINE, "orphan_present" }, /* see state */
	{ 0, FINE, NULL },
};

static void append(char *out, size_t size, const char *name)
{
	size_t len = strlen(out);
	snprintf(out + len, size - len, "%s%s", len ? ", " : "", name);
}

/* Adds the names of the set bits that nothing can be done about; unknown ones are among them. */
static void collect(uint32_t bits, const struct feature *table, char letter, char *out, size_t size)
{
	char number[24];

	for (unsigned i = 0; i < 32; i++) {
		const struct feature *f = table;
		if (!(bits & 1u << i))
			continue;
		while (f->name && f->mask != 1u << i)
			f++;
		snprintf(number, sizeof(number), "FEATURE_%c%u", letter, i);
		if (!f->name || f->verdict == NEVER)
			append(out, size, f->name ? f->name : number);
	}
}

static void collect_all(const struct superblock *sb, char *out, size_t size)
{
	collect(sb->compat, compat_features, 'C', out, size);
	collect(sb->incompat, incompat_features, 'I', out, size);
	collect(sb->ro_compat, ro_compat_features, 'R', out, size);
}

int guard_features(const struct target *tg, const struct superblock *sb, struct error *err)
{
	char names[384] = "";

	if (le32toh(sb->raw.s_rev_level) > EXT2_MAX_SUPP_REV)
		return error_set(err, ERROR_USAGE, "%s: revision %u of the format is not supported",
				 tg->shown, le32toh(sb->raw.s_rev_level));
	collect_all(sb, names, sizeof(names));
	if (le32toh(sb->raw.s_creator_os) == EXT2_OS_HURD)
		append(names, sizeof(names), "a file system of GNU Hurd");
	if (sb->ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM &&
	    sb->raw.s_checksum_type != EXT2_CRC32C_CHKSUM)
		append(names, sizeof(names), "a checksum type other than crc32c");
	if (*names)
		return error_set(err, ERROR_USAGE, "%s: not supported: %s", tg->shown, names);
	return 0;
}

int guard_not_yet(const struct target *tg, const struct superblock *sb, struct error *err)
{
	static const uint8_t none[16];

	if (sb->compat & EXT3_FEATURE_COMPAT_HAS_JOURNAL &&
	    (sb->raw.s_journal_dev || memcmp(sb->raw.s_journal_uuid, none, sizeof(none))))
		return error_set(err, ERROR_USAGE,
				 "%s: not supported: an external journal; give it one of its own; "
				 "run: tune2fs -O ^has_journal %s && tune2fs -j %s",
				 tg->shown, tg->arg, tg->arg);
	if (sb->cluster_blocks && sb->blocks % sb->cluster_blocks)
		return error_set(err, ERROR_USAGE,
				 "%s: not supported yet: bigalloc with a last cluster that is not "
				 "whole; copy its files to a new file system",
				 tg->shown);
	if ((uint64_t)sb->cluster_blocks * sb->block_size > CLUSTER_MAX)
		return error_set(err, ERROR_USAGE,
				 "%s: not supported yet: bigalloc with clusters of more than 1 "
				 "MiB; copy its files to a new file system with smaller ones",
				 tg->shown);
	return 0;
}

int guard_size(const struct target *tg, const struct superblock *sb, struct error *err)
{
	unsigned long long have = tg->room, want = sb->blocks * sb->block_size;

	/* blocks may be any 64-bit number here; bounds are judged later */
	if (!sb->block_size || sb->blocks <= have / sb->block_size)
		return 0;
	if (sb->blocks > UINT64_MAX / sb->block_size)
		want = UINT64_MAX;
	return error_set(
		err, ERROR_FSCK,
		"%s is shorter than its file system: %llu bytes of %llu; get a whole copy, or see "
		"what is lost by: e2fsck -fn %s",
		tg->shown, have, want, tg->arg);
}

int guard_state(const struct target *tg, const struct superblock *sb, struct error *err)
{
	uint16_t state = le16toh(sb->raw.s_state);
	const uint16_t fc_replay = 0x0020; /* kernel EXT4_FC_REPLAY */
	uint32_t errors = le32toh(sb->raw.s_error_count);

	if (!sb->csum_ok)
		return error_set(err, ERROR_FSCK,
				 "%s: the superblock's checksum is wrong; run: e2fsck -f %s",
				 tg->shown, tg->arg);
	if (state & EXT2_ERROR_FS && errors)
		return error_set(
			err, ERROR_FSCK,
			"%s: the kernel has found errors in it (%u counted); run: e2fsck -f %s",
			tg->shown, errors, tg->arg);
	/* By e2fsck, debugfs, or a kernel without a counter (before 2.6.36). */
	if (state & EXT2_ERROR_FS)
		return error_set(err, ERROR_FSCK,
				 "%s is marked as having errors; run: e2fsck -f %s", tg->shown,
				 tg->arg);
	if (!(state & EXT2_VALID_FS) || state & (EXT3_ORPHAN_FS | fc_replay))
		return error_set(err, ERROR_FSCK, "%s was not cleanly unmounted; run: e2fsck -p %s",
				 tg->shown, tg->arg);
	if (sb->incompat & EXT3_FEATURE_INCOMPAT_RECOVER &&
	    !(sb->compat & EXT3_FEATURE_COMPAT_HAS_JOURNAL))
		return error_set(err, ERROR_FSCK,
				 "%s: a journal is to be replayed, but there is none; run: e2fsck "
				 "-p %s",
				 tg->shown, tg->arg);
	if (sb->raw.s_last_orphan)
		return error_set(
			err, ERROR_FSCK,
			"%s: deleted files wait to be freed (orphan inode %u); run: e2fsck -p %s",
			tg->shown, le32toh(sb->raw.s_last_orphan), tg->arg);
	if (sb->ro_compat & EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT)
		return error_set(
			err, ERROR_FSCK,
			"%s: deleted files wait to be freed (orphan_present); run: e2fsck -p %s",
			tg->shown, tg->arg);
	return 0;
}

int guard_memory(const struct target *tg, const struct superblock *sb, struct error *err)
{
	uint64_t bytes = sb->groups * sb->desc_size; /* 2^32 * 2^10 at most */

	if (bytes > GUARD_DESC_BYTES)
		return error_set(
			err, ERROR_OPERATION,
			"%s: its %llu groups would take %llu MiB of memory for descriptors "
			"alone; %llu MiB is the limit",
			tg->shown, (unsigned long long)sb->groups,
			(unsigned long long)(bytes >> 20), GUARD_DESC_BYTES >> 20);
	return 0;
}

int guard_all(struct target *tg, int fd, const struct superblock *sb, bool before_preen,
	      struct error *err)
{
	/* With a wrong checksum no field can be believed: e2fsck takes a backup. */
	if (before_preen && !sb->csum_ok)
		return 0;
	if (guard_features(tg, sb, err) || guard_mmp(tg, fd, sb, before_preen, err) ||
	    guard_size(tg, sb, err))
		return -1;
	if (before_preen)
		return guard_not_yet(tg, sb, err);
	if (guard_state(tg, sb, err) || guard_not_yet(tg, sb, err) ||
	    superblock_check(tg, sb, err) || guard_memory(tg, sb, err))
		return -1;
	return 0;
}

/* What is wrong with a group's descriptor, or NULL. */
static const char *wrong_group(ext2_filsys fs, const struct geometry *geo, dgrp_t g)
{
	uint64_t end = geo->blocks, first = geo->first_data_block;
	uint64_t block_map = ext2fs_block_bitmap_loc(fs, g);
	uint64_t inode_map = ext2fs_inode_bitmap_loc(fs, g);
	uint64_t table = ext2fs_inode_table_loc(fs, g);
	uint32_t unused = ext2fs_bg_itable_unused(fs, g);

	if (!ext2fs_group_desc_csum_verify(fs, g))
		return "wrong checksum";
	if (block_map <= first || block_map >= end)
		return "its block bitmap lies outside the file system";
	if (inode_map <= first || inode_map >= end)
		return "its inode bitmap lies outside the file system";
	if (table <= first || table >= end || fs->inode_blocks_per_group > end - table)
		return "its inode table lies outside the file system";
	if (ext2fs_bg_free_blocks_count(fs, g) >
	    geometry_group_blocks(geo, g) / geo->cluster_blocks)
		return "more free blocks than blocks";
	if (ext2fs_bg_free_inodes_count(fs, g) > geo->inodes_per_group)
		return "more free inodes than inodes";
	if (ext2fs_has_group_desc_csum(fs) && unused > geo->inodes_per_group)
		return "more unused inodes than inodes";
	return NULL;
}

int guard_groups(const struct target *tg, ext2_filsys fs, const struct geometry *geo,
		 struct error *err)
{
	if (fs->group_desc_count != geo->groups || fs->blocksize != geo->block_size ||
	    ext2fs_blocks_count(fs->super) != geo->blocks)
		return error_set(err, ERROR_OPERATION,
				 "%s changed while it was being opened; start again", tg->shown);
	for (dgrp_t g = 0; g < fs->group_desc_count; g++) {
		const char *wrong = wrong_group(fs, geo, g);
		if (wrong)
			return error_set(err, ERROR_FSCK,
					 "%s: descriptor of group %u: %s; run: e2fsck -f %s",
					 tg->shown, g, wrong, tg->arg);
	}
	return 0;
}
