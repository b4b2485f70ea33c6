/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the quota files. With the quota feature the superblock names them, hidden inodes; before it
 * they were files of the root directory. What they count includes tree blocks, whose number changes
 * with a move, so commits write to them (commit/quota.c), and their places are kept.
 */
#include "scan_internal.h"

static enum leave_reason decide(const void *ctx, size_t file)
{
	const struct harvest *h = ctx;

	for (int i = 0; i < SNAPSHOT_QUOTAS; i++)
		if (h->quota_ino[i] == h->file[file].ino)
			return LEAVE_QUOTA;
	return LEAVE_NONE;
}

/* A file of this name in the root directory; 0: there is none. */
static int look_up(const struct source *src, const char *name, uint32_t *ino, struct error *err)
{
	uint32_t dir = 0, at = 0;
	bool found = false;
	errcode_t ret = boot_look_up(volume_fs(src->v), name, &dir, &at);

	if (!ret)
		ret = boot_is_regular(volume_fs(src->v), at, &found);
	*ino = found ? at : 0;
	return ret ? library_error(src->v, ret, dir, err) : 0;
}

static int find_visible(const struct source *src, uint32_t ino[], struct error *err)
{
	static const char *const names[] = { "aquota.user", "aquota.group" };
	static const char *const old[] = { "quota.user", "quota.group", "aquota.project" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (look_up(src, names[i], &ino[i], err))
			return -1;
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
		uint32_t found;

		if (look_up(src, old[i], &found, err))
			return -1;
		if (found)
			return error_set(err, ERROR_USAGE,
					 "%s: not supported yet: quotas kept in the file /%s; if "
					 "they are no longer used, delete it",
					 volume_arg(src->v), old[i]);
	}
	return 0;
}

static int count_blocks(const struct source *src, uint32_t ino, uint64_t *blocks, struct error *err)
{
	struct ext2_inode inode;
	errcode_t ret = ext2fs_read_inode(volume_fs(src->v), ino, &inode);

	if (ret)
		return library_error(src->v, ret, ino, err);
	*blocks += EXT2_I_SIZE(&inode) / src->geo->block_size + 1;
	return 0;
}

int quota_find(const struct source *src, uint64_t room, struct harvest *h, struct error *err)
{
	struct ext2_super_block *sb = src->fs.super;
	uint32_t *ino = h->quota_ino;
	bool any = false;

	if (ext2fs_has_feature_quota(sb)) {
		ino[0] = sb->s_usr_quota_inum;
		ino[1] = sb->s_grp_quota_inum;
		ino[2] = ext2fs_has_feature_project(sb) ? sb->s_prj_quota_inum : 0;
	} else if (find_visible(src, ino, err)) {
		return -1;
	}
	for (int i = 0; i < SNAPSHOT_QUOTAS; i++) {
		bool checked = false;
		errcode_t ret;

		if (!ino[i])
			continue;
		any = true;
		ret = inode_is_checked(volume_fs(src->v), ino[i], &checked);
		if (ret)
			return library_error(src->v, ret, ino[i], err);
		if (!checked)
			return source_damage(src, err, "inode %u is a quota file, but not in use",
					     ino[i]);
		if (count_blocks(src, ino[i], &h->quota_blocks, err))
			return -1;
	}
	/* Usage and inode don't change at one instant; a journal makes it one. Without extents no
	 * number of tree blocks changes, and so no usage does. */
	if (any && src->geo->ordered && ext2fs_has_feature_extents(sb))
		return error_set(
			err, ERROR_USAGE,
			"%s: not supported: quotas without a journal, as a power cut could "
			"leave them wrong; add one, run: tune2fs -j %s",
			volume_arg(src->v), volume_arg(src->v));
	if (h->quota_blocks > room / 2)
		return error_set(err, ERROR_USAGE,
				 "%s: its quota files have %llu blocks, too many for a transaction "
				 "of %llu; turn quotas off, and on again after the run (tune2fs "
				 "-O ^quota, or delete them and run quotacheck)",
				 volume_arg(src->v), (unsigned long long)h->quota_blocks,
				 (unsigned long long)room);
	return any ? harvest_leave(h, decide, h, err) : 0;
}
