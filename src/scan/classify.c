/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: what an inode is and what happens to it. The two tables are the whole policy: `kinds` says
 * which inodes have blocks at all, `rules` which of those stay where they are, and why.
 */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <stdlib.h>

static const struct kind_row {
	uint16_t format; /* i_mode & S_IFMT */
	uint8_t kind;	 /* enum file_kind */
	bool blocks;	 /* may have blocks */
} kinds[] = {
	{ LINUX_S_IFREG, FILE_REGULAR, true },	 { LINUX_S_IFDIR, FILE_DIRECTORY, true },
	{ LINUX_S_IFLNK, FILE_SYMLINK, true },	 { LINUX_S_IFCHR, FILE_REGULAR, false },
	{ LINUX_S_IFBLK, FILE_REGULAR, false },	 { LINUX_S_IFIFO, FILE_REGULAR, false },
	{ LINUX_S_IFSOCK, FILE_REGULAR, false },
};

/*
 * Journal, quota and the other inodes that superblock or kernel know by number. The journal is also
 * mirrored in s_jnl_blocks; the rest are found by block number or never opened by a path.
 */
static bool is_reserved(const struct source *src, uint32_t ino)
{
	const struct ext2_super_block *sb = src->fs.super;

	return (ino < EXT2_FIRST_INODE(sb) && ino != EXT2_ROOT_INO) || ino == sb->s_journal_inum ||
	       ino == sb->s_usr_quota_inum || ino == sb->s_grp_quota_inum ||
	       ino == sb->s_prj_quota_inum;
}

/* Checksums of the orphan file's blocks hold their physical place (kernel fs/ext4/orphan.c). */
static bool is_orphan_file(const struct source *src, uint32_t ino)
{
	return ext2fs_has_feature_orphan_file(src->fs.super) &&
	       ino == src->fs.super->s_orphan_file_inum;
}

static bool is_excluded(const struct source *src, uint32_t ino)
{
	return src->n_exclude &&
	       bsearch(&ino, src->exclude, src->n_exclude, sizeof(ino), sort_compare_u32);
}

/* The first rule that matches decides. */
static const struct rule {
	uint8_t why; /* enum leave_reason */
	bool (*match)(const struct source *src, uint32_t ino);
} rules[] = {
	{ LEAVE_RESERVED, is_reserved },
	{ LEAVE_ORPHAN_FILE, is_orphan_file },
	{ LEAVE_EXCLUDED, is_excluded },
};

static bool has_pointers(const struct ext2_inode *inode)
{
	for (unsigned i = 0; i < EXT2_N_BLOCKS; i++)
		if (inode->i_block[i])
			return true;
	return false;
}

/* Inode 7: its double indirect block is its own; what that lists are the reserved descriptor
 * blocks (e2fsprogs lib/ext2fs/res_gdt.c), claimed with the groups' metadata. */
static const char *classify_resize(const struct source *src, const struct ext2_inode *inode,
				   struct verdict *out)
{
	for (unsigned i = 0; i < EXT2_N_BLOCKS; i++)
		if (inode->i_block[i] &&
		    (i != EXT2_DIND_BLOCK || !ext2fs_has_feature_resize_inode(src->fs.super)))
			return "the resize inode is damaged";
	if (inode->i_block[EXT2_DIND_BLOCK])
		out->shape = SHAPE_RESIZE;
	return NULL;
}

static const struct kind_row *find_kind(uint16_t mode)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].format == (mode & LINUX_S_IFMT))
			return &kinds[i];
	return NULL;
}

static enum shape find_shape(const struct source *src, struct ext2_inode *inode, bool reserved)
{
	if (inode->i_flags & EXT4_INLINE_DATA_FL)
		return SHAPE_NOTHING;
	if (inode->i_flags & EXT4_EXTENTS_FL)
		return SHAPE_EXTENTS;
	/* A reserved inode may have no mode (bad blocks); a fast symlink's target is in i_block. */
	if (!reserved && !ext2fs_inode_has_valid_blocks2((ext2_filsys)&src->fs, inode))
		return SHAPE_NOTHING;
	return has_pointers(inode) ? SHAPE_BLOCKS : SHAPE_NOTHING;
}

/* Flags that don't go together, or need a feature: e2fsck would change the one or the other. */
static const char *wrong_flags(const struct source *src, const struct ext2_inode *inode)
{
	bool extents = inode->i_flags & EXT4_EXTENTS_FL;
	bool inline_data = inode->i_flags & EXT4_INLINE_DATA_FL;

	if (inline_data && extents)
		return "it has both inline data and extents";
	if (extents && !ext2fs_has_feature_extents(src->fs.super))
		return "it has extents, but the file system does not have that feature";
	if (inline_data && !ext2fs_has_feature_inline_data(src->fs.super))
		return "it has inline data, but the file system does not have that feature";
	return NULL;
}

/* Verity keeps its hashes there. The size of a symbolic link says nothing of its blocks. */
static void find_end(const struct source *src, const struct ext2_inode *inode, struct verdict *out)
{
	uint64_t size = EXT2_I_SIZE(inode), whole = size / src->geo->block_size;
	uint64_t end = UINT32_MAX, eof = UINT32_MAX;

	if (LINUX_S_ISDIR(inode->i_mode)) {
		end = eof = whole + src->fs.super->s_prealloc_dir_blocks;
	} else if (LINUX_S_ISREG(inode->i_mode) && !(inode->i_flags & EXT4_VERITY_FL)) {
		end = whole + 1;
		eof = whole + (size % src->geo->block_size != 0);
	}
	out->end = end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
	out->eof = eof < UINT32_MAX ? (uint32_t)eof : UINT32_MAX;
}

const char *classify_records(const struct extent *ext, size_t n, uint32_t end)
{
	for (size_t i = 0; i < n; i++)
		if (!ext[i].unwritten && (uint64_t)ext[i].lblk + ext[i].len > end)
			return BEYOND_SIZE;
	return NULL;
}

const char *classify_inode(const struct source *src, uint32_t ino, struct ext2_inode *inode,
			   struct verdict *out)
{
	const char *wrong;
	const struct kind_row *kind = find_kind(inode->i_mode);
	bool reserved = is_reserved(src, ino);

	*out = (struct verdict){ .kind = FILE_REGULAR, .shape = SHAPE_NOTHING };
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !out->why; i++)
		if (rules[i].match(src, ino))
			out->why = rules[i].why;
	if (ino == EXT2_RESIZE_INO)
		return classify_resize(src, inode, out);
	if (!kind && !reserved)
		return "its mode is no known kind of file";
	/* Nothing that is in it counts, for e2fsck neither, which would leave it there for ever. */
	if (!inode->i_mode && ino != EXT2_BAD_INO)
		return NULL;
	if (kind)
		out->kind = kind->kind;
	if (out->kind == FILE_REGULAR && (inode->i_flags & EXT4_EA_INODE_FL))
		out->kind = FILE_EA_INODE;
	wrong = wrong_flags(src, inode);
	if (wrong)
		return wrong;
	if (kind && !kind->blocks) {
		if (inode->i_flags & (EXT4_EXTENTS_FL | EXT4_INLINE_DATA_FL))
			return "it is a device, fifo or socket with data";
		return NULL;
	}
	find_end(src, inode, out);
	out->shape = find_shape(src, inode, reserved);
	if (out->shape == SHAPE_BLOCKS && source_is_bigalloc(src))
		return "it is block-mapped, which bigalloc does not allow";
	/* Its pointers don't reach all of the blocks that a plan may choose. */
	if (out->shape == SHAPE_BLOCKS && !out->why && src->geo->blocks > INDIRECT_MAX_PBLK)
		out->why = LEAVE_BLOCK_MAPPED;
	return NULL;
}
