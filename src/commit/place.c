/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the log lies: the journal inode's blocks as physical runs. */
#include "internal.h"

#include <stdlib.h>

struct walk {
	struct range *run;
	size_t n, cap;
	uint64_t blocks, nodes; /* of data, of the mapping */
	uint64_t most;		/* blocks of the file system */
	bool hole, nomem, endless;
};

static int visit(ext2_filsys fs, blk64_t *block, e2_blkcnt_t lblk, blk64_t ref_block,
		 int ref_offset, void *priv)
{
	struct walk *w = priv;
	struct range *last = w->n ? &w->run[w->n - 1] : NULL;

	(void)fs;
	(void)ref_block;
	(void)ref_offset;
	/*
	 * libext2fs follows whatever a damaged map says, round and round. In a sound one each block
	 * of data has one of the map above it at each level, at the most.
	 */
	if (lblk < 0) {
		w->endless = ++w->nodes > EXTENT_MAX_DEPTH * (w->blocks + 1);
		return w->endless ? BLOCK_ABORT : 0;
	}
	if (w->blocks == w->most) {
		w->endless = true;
		return BLOCK_ABORT;
	}
	if ((uint64_t)lblk != w->blocks) {
		w->hole = true;
		return BLOCK_ABORT;
	}
	w->blocks++;
	if (last && last->start + last->len == *block) {
		last->len++;
		return 0;
	}
	if (array_reserve(&w->run, &w->cap, w->n + 1, sizeof(*w->run), &ERROR_INIT)) {
		w->nomem = true;
		return BLOCK_ABORT;
	}
	w->run[w->n++] = (struct range){ .start = *block, .len = 1 };
	return 0;
}

static int check_internal(const struct commit *c, struct error *err)
{
	const struct ext2_super_block *sb = c->fs->super;

	for (size_t i = 0; i < sizeof(sb->s_journal_uuid); i++)
		if (sb->s_journal_uuid[i] || sb->s_journal_dev)
			return error_set(err, ERROR_USAGE,
					 "the journal of %s lies on another device, which is not "
					 "supported",
					 c->name);
	if (sb->s_journal_inum == 0 || sb->s_journal_inum > sb->s_inodes_count)
		return error_set(err, ERROR_FSCK,
				 "the journal inode of %s has the wrong number %u; run: e2fsck -f "
				 "%s",
				 c->name, sb->s_journal_inum, c->name);
	return 0;
}

/*
 * ext2fs_block_iterate3 forgets a failed read of the single indirect block when the double indirect
 * one can be read (e2fsprogs lib/ext2fs/block.c, ctx.errcode). So where blocks are missing, the
 * first of them is looked up once more: is it there?
 */
static errcode_t find_missed(const struct commit *c, const struct walk *w)
{
	uint32_t ino = c->fs->super->s_journal_inum;
	struct ext2_inode inode;
	blk64_t block = 0;
	errcode_t rc = ext2fs_read_inode(c->fs, ino, &inode);

	if (rc || w->blocks >= EXT2_I_SIZE(&inode) / c->geo->block_size)
		return rc;
	rc = ext2fs_bmap2(c->fs, ino, &inode, NULL, 0, w->blocks, NULL, &block);
	return rc || !block ? rc : EXT2_ET_SHORT_READ;
}

int place_journal(const struct commit *c, struct range **run, size_t *n, struct error *err)
{
	struct walk w = { .most = c->geo->blocks };
	errcode_t rc;

	if (check_internal(c, err))
		return -1;
	rc = ext2fs_block_iterate3(c->fs, c->fs->super->s_journal_inum, BLOCK_FLAG_READ_ONLY, NULL,
				   visit, &w);
	if (!rc && !w.nomem && !w.endless)
		rc = find_missed(c, &w);
	if (rc)
		error_set(err, volume_error_kind(rc),
			  "cannot read the map of the journal of %s: %s; run: "
			  "e2fsck -f %s",
			  c->name, error_message(rc), c->name);
	else if (w.nomem)
		error_nomem(err, "the journal's map");
	else if (w.hole)
		error_set(err, ERROR_FSCK,
			  "the journal of %s has a hole at its block %llu; run: e2fsck -f %s",
			  c->name, (unsigned long long)w.blocks, c->name);
	else if (w.endless)
		error_set(err, ERROR_FSCK,
			  "the map of the journal of %s is damaged; run: e2fsck -f %s", c->name,
			  c->name);
	if (rc || w.nomem || w.hole || w.endless) {
		free(w.run);
		return -1;
	}
	*run = w.run;
	*n = w.n;
	return 0;
}
