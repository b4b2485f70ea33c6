/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quota: what a user, a group or a project uses, in bytes, tree blocks included. When a file gets
 * more or fewer of them, its owners' figures change in the same transaction.
 *
 * A quota file (kernel fs/quota/quota_tree.c, quotaio_v2.h) has blocks of 1,024 bytes, without
 * checksums: 0 is the header; 1 is the root of a tree of four levels, indexed by the bytes of the
 * id, highest first; below are blocks of entries. All is read once, before anything is written:
 * afterwards each id's figure has a place on the disk, which stays, as quota files are never moved.
 * An id without an entry isn't counted.
 */
#include "internal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
	UNIT = 1024, /* bytes of a block of a quota file, whatever the file system's are */
	TREE_ROOT = 1,
	LEVELS = 4,
	/* the header */
	VERSION = 4,
	BLOCKS = 8 + 3 * 4,
	/* a block of entries */
	ENTRIES = 16,
	/* an entry, by the version */
	LEN_0 = 48,
	SPACE_0 = 24,
	LEN_1 = 72,
	SPACE_1 = 48,
};

static const uint32_t magic[SNAPSHOT_QUOTAS] = { 0xd9c01f11, 0xd9c01927, 0xd9c03f14 };

struct entry { /* where an id's figure is */
	uint64_t block;
	uint32_t id;
	uint16_t at, id_at; /* bytes in the block */
};

struct kind {
	struct entry *entry; /* by id */
	size_t n, cap;
};

struct quota {
	struct kind kind[SNAPSHOT_QUOTAS];
	uint64_t blocks; /* of the file system, in all files */
};

/* One file while it is read. */
struct quota_file {
	struct commit *c;
	uint32_t ino;
	bool hidden;
	uint8_t *data;
	uint64_t *block; /* of the file system */
	uint32_t units;
	uint8_t *seen; /* per unit: a block of the tree, which has one parent */
	unsigned len, space;
	struct kind *out;
};

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static int broken(const struct quota_file *r, const char *why, struct error *err)
{
	if (r->hidden)
		return error_set(err, ERROR_FSCK,
				 "quota file (inode %u) of %s: %s; run: e2fsck -f %s", r->ino,
				 r->c->name, why, r->c->name);
	return error_set(
		err, ERROR_USAGE,
		"the quota file in the root directory of %s (inode %u) is broken: %s; make "
		"it anew with quotacheck, or delete it if it is no longer used",
		r->c->name, r->ino, why);
}

static int add_entry(struct quota_file *r, uint32_t unit, uint32_t id, struct error *err)
{
	const uint8_t *p = r->data + (size_t)unit * UNIT;
	size_t bs = r->c->geo->block_size, base = (size_t)unit * UNIT;
	unsigned at = ENTRIES;
	struct kind *k = r->out;

	/* An entry of id 0 that is free looks like one of root's: those in use are not all zero. */
	for (; at + r->len <= UNIT; at += r->len)
		if (get32(p + at) == id && (id || memcmp(p + at, p + at + 1, r->len - 1) || p[at]))
			break;
	if (at + r->len > UNIT)
		return broken(r, "an id is not where its tree says", err);
	if (array_reserve(&k->entry, &k->cap, k->n + 1, sizeof(*k->entry), err))
		return -1;
	k->entry[k->n++] = (struct entry){ .block = r->block[base / bs],
					   .id = id,
					   .at = (uint16_t)(base % bs + at + r->space),
					   .id_at = (uint16_t)(base % bs + at) };
	return 0;
}

/* Four levels at most; ids come in ascending order. */
static int read_tree(struct quota_file *r, uint32_t unit, unsigned level, uint32_t id,
		     struct error *err)
{
	if (r->seen[unit]++)
		return broken(r, "a block of its tree has two parents", err);
	for (uint32_t i = 0; i < UNIT / 4; i++) {
		uint32_t below = get32(r->data + (size_t)unit * UNIT + i * 4);
		uint32_t next = id << 8 | i;

		if (!below)
			continue;
		if (below <= TREE_ROOT || below >= r->units)
			return broken(r, "its tree points outside", err);
		if (level + 1 == LEVELS ? add_entry(r, below, next, err)
					: read_tree(r, below, level + 1, next, err))
			return -1;
	}
	return 0;
}

static int read_header(struct quota_file *r, uint32_t want, struct error *err)
{
	uint32_t version = get32(r->data + VERSION), units = get32(r->data + BLOCKS);

	if (get32(r->data) != want || version > 1)
		return broken(r, "its header is not known", err);
	if (units > r->units)
		return broken(r, "it is shorter than its header says", err);
	r->units = units;
	r->len = version ? LEN_1 : LEN_0;
	r->space = version ? SPACE_1 : SPACE_0;
	return 0;
}

/* The file's content, and where its blocks lie. */
static int read_data(struct quota_file *r, struct ext2_inode *inode, uint64_t blocks,
		     struct error *err)
{
	size_t bs = r->c->geo->block_size;

	for (uint64_t i = 0; i < blocks; i++) {
		blk64_t pblk = 0;
		int flags = 0;
		errcode_t rc = ext2fs_bmap2(r->c->fs, r->ino, inode, NULL, 0, i, &flags, &pblk);

		if (!rc && (!pblk || flags & BMAP_RET_UNINIT))
			return broken(r, "it has holes", err);
		if (!rc)
			rc = io_channel_read_blk64(r->c->fs->io, pblk, 1, r->data + i * bs);
		if (rc)
			return fs_error(r->c, rc, err, "inode %u", r->ino);
		r->block[i] = pblk;
	}
	return 0;
}

/* Scan has seen to it that the sizes of all of them together are less than a transaction. */
static int read_file(struct commit *c, const struct snapshot *s, int which, struct quota *q,
		     struct error *err)
{
	struct quota_file r = { .c = c,
				.ino = s->quota_ino[which],
				.hidden = ext2fs_has_feature_quota(c->fs->super),
				.out = &q->kind[which] };
	struct ext2_inode inode;
	errcode_t rc = ext2fs_read_inode(c->fs, r.ino, &inode);
	uint64_t blocks, bs = c->geo->block_size;
	int ret = -1;

	if (rc)
		return fs_error(c, rc, err, "inode %u", r.ino);
	if (!LINUX_S_ISREG(inode.i_mode) || inode.i_flags & EXT4_INLINE_DATA_FL ||
	    EXT2_I_SIZE(&inode) < UNIT)
		return broken(&r, "it is no quota file", err);
	blocks = (EXT2_I_SIZE(&inode) + bs - 1) / bs;
	if (blocks > c->capacity)
		return broken(&r, "it is too long", err);
	q->blocks += blocks;
	r.units = (uint32_t)(EXT2_I_SIZE(&inode) / UNIT);
	r.data = malloc(blocks * bs);
	r.block = calloc(blocks, sizeof(*r.block));
	r.seen = calloc(r.units, 1);
	if (!r.data || !r.block || !r.seen)
		error_nomem(err, "a quota file");
	else if (!read_data(&r, &inode, blocks, err) && !read_header(&r, magic[which], err))
		ret = r.units > TREE_ROOT ? read_tree(&r, TREE_ROOT, 0, 0, err) : 0;
	free(r.data);
	free(r.block);
	free(r.seen);
	return ret;
}

int commit_quota(struct commit *c, const struct snapshot *s, struct error *err)
{
	struct quota *q = NULL;
	int ret = 0;

	quota_free(c->quota);
	c->quota = NULL;
	for (int i = 0; i < SNAPSHOT_QUOTAS && !ret; i++) {
		if (!s->quota_ino[i])
			continue;
		if (!q && !(q = calloc(1, sizeof(*q))))
			return error_nomem(err, "quotas");
		ret = read_file(c, s, i, q, err);
	}
	if (ret)
		quota_free(q);
	else
		c->quota = q;
	/* What was read on the way is read anew for each batch. */
	overlay_reset(c->ov);
	ext2fs_flush_icache(c->fs);
	return ret;
}

void quota_free(struct quota *q)
{
	for (int i = 0; q && i < SNAPSHOT_QUOTAS; i++)
		free(q->kind[i].entry);
	free(q);
}

uint64_t quota_blocks(const struct quota *q)
{
	return q ? q->blocks : 0;
}

static int compare_entry(const void *key, const void *item)
{
	uint32_t a = *(const uint32_t *)key, b = ((const struct entry *)item)->id;

	return a < b ? -1 : a > b;
}

static int change_entry(struct commit *c, const struct entry *e, uint64_t more, uint64_t less,
			struct error *err)
{
	uint8_t *buf = malloc(c->geo->block_size);
	uint64_t space;
	errcode_t rc;
	int ret = -1;

	if (!buf)
		return error_nomem(err, "quotas");
	rc = io_channel_read_blk64(c->fs->io, e->block, 1, buf);
	if (!rc && get32(buf + e->id_at) != e->id) {
		error_set(err, ERROR_OPERATION, "internal error: the quota files of %s changed",
			  c->name);
		goto out;
	}
	if (!rc) {
		memcpy(&space, buf + e->at, sizeof(space));
		space = le64toh(space);
		space += more;
		space = htole64(space > less ? space - less : 0); /* as the kernel does */
		memcpy(buf + e->at, &space, sizeof(space));
		rc = io_channel_write_blk64(c->fs->io, e->block, 1, buf);
		c->updates++;
	}
	ret = rc ? fs_error(c, rc, err, "quotas, block %llu", (unsigned long long)e->block) : 0;
out:
	free(buf);
	return ret;
}

int quota_count(struct commit *c, const struct ext2_inode *inode, size_t taken, size_t freed,
		struct error *err)
{
	const struct ext2_inode_large *large = (const struct ext2_inode_large *)inode;
	uint64_t bs = geometry_cluster_size(c->geo); /* what a tree block takes */
	uint32_t id[SNAPSHOT_QUOTAS] = { inode_uid(*inode), inode_gid(*inode), 0 };

	/* An xattr's value in an inode of its own counts by its length. */
	if (!c->quota || taken == freed || inode->i_flags & EXT4_EA_INODE_FL)
		return 0;
	if (c->geo->inode_size > EXT2_GOOD_OLD_INODE_SIZE &&
	    ext2fs_has_feature_project(c->fs->super) &&
	    large->i_extra_isize >=
		    offsetof(struct ext2_inode_large, i_projid) + 4 - EXT2_GOOD_OLD_INODE_SIZE)
		id[2] = large->i_projid;
	for (int i = 0; i < SNAPSHOT_QUOTAS; i++) {
		const struct kind *k = &c->quota->kind[i];
		const struct entry *e =
			k->n ? bsearch(&id[i], k->entry, k->n, sizeof(*e), compare_entry) : NULL;

		if (e && change_entry(c, e, taken * bs, freed * bs, err))
			return -1;
	}
	return 0;
}
