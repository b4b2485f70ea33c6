/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One file's new mapping: computed anew from the moves and held against the plan, then written as
 * tree nodes and inode. Kernel fs/ext4/ext4_extents.h.
 *
 * bigalloc: plan and state are in clusters. From remap_compute on mappings and tree blocks are in
 * blocks, as they are read and written; the moves stay in clusters, and so do the bitmaps.
 */
#include "internal.h"
#include "proof.h"

#include <stdlib.h>
#include <string.h>

static bool same(const uint64_t *a, size_t n, const uint64_t *node, uint64_t first, uint64_t n_plan)
{
	return n == n_plan && (n == 0 || memcmp(a, node + first, n * sizeof(*a)) == 0);
}

static size_t changed_nodes(const struct filemap *map)
{
	size_t n = 0;

	for (uint32_t level = 0; level < map->depth; level++)
		for (size_t i = 0; i < map->tree->n_node[level]; i++)
			n += map->tree->node[level][i].changed != 0;
	return n;
}

/* Is the mapping that will be written right, whoever computed it? */
static int prove(const struct commit *c, const struct plan *p, const struct remap *r,
		 struct error *err)
{
	const char *wrong = filemap_check(&r->after, c->geo->block_size);
	const struct move *m = p->move + r->file->first_move;

	if (!wrong && r->before->indirect != r->after.indirect)
		wrong = "it is of another kind";
	if (!wrong && c->geo->ordered && !r->after.indirect && r->delta.n_kept)
		wrong = "a tree block in use is written";
	if (!wrong)
		wrong = proof_mapping(r->before, m, r->file->n_move, c->geo->cluster_blocks,
				      &r->after);
	if (!wrong &&
	    (r->after.indirect ? proof_indirect(&r->after, m, r->file->n_move, c->geo->block_size,
						&r->delta, &wrong, err)
			       : proof_nodes(r->before, &r->after, &r->delta, &wrong, err)))
		return -1;
	return wrong ? error_set(err, ERROR_OPERATION,
				 "internal error: the new map of inode %u of %s is wrong: %s",
				 r->file->ino, c->name, wrong)
		     : 0;
}

static void to_blocks(uint64_t *at, size_t n, uint64_t ratio)
{
	for (size_t i = 0; i < n; i++)
		at[i] *= ratio;
}

/* bigalloc: both mappings and the tree blocks in blocks. */
static int in_blocks(const struct commit *c, struct remap *r, struct error *err)
{
	struct filemap after;

	if (!r->before->in_clusters)
		return 0;
	if (filemap_in_blocks(r->before, &r->in_blocks, err) ||
	    filemap_in_blocks(&r->after, &after, err))
		return -1;
	filemap_release(&r->after);
	r->after = after;
	r->before = &r->in_blocks;
	to_blocks(r->delta.kept, r->delta.n_kept, c->geo->cluster_blocks);
	to_blocks(r->delta.taken, r->delta.n_taken, c->geo->cluster_blocks);
	to_blocks(r->delta.freed, r->delta.n_freed, c->geo->cluster_blocks);
	return 0;
}

int remap_compute(const struct commit *c, const struct plan *p, const struct plan_file *file,
		  const struct state *before, struct remap *out, struct error *err)
{
	const struct snapshot_file *sf = snapshot_find(before->snap, file->ino);
	struct remap r = { .file = file };
	size_t need;

	if (!sf)
		return error_set(err, ERROR_OPERATION,
				 "internal error: inode %u of %s is in the plan but can't be moved",
				 file->ino, c->name);
	r.before = state_map(before, (size_t)(sf - before->snap->file));
	if (filemap_move(r.before, p->move + file->first_move, file->n_move, c->geo->block_size,
			 plan_how(file, c->geo->ordered), p->node + file->first_taken,
			 file->n_taken, &need, &r.after, &r.delta, err)) {
		struct error why = *err;

		if (why.kind == ERROR_USAGE)
			error_set(err, ERROR_OPERATION,
				  "internal error: inode %u of %s needs %zu tree blocks, the plan "
				  "has %llu",
				  file->ino, c->name, need, (unsigned long long)file->n_taken);
		else
			error_set(err, ERROR_OPERATION,
				  "internal error: inode %u of %s can't be moved as planned: %s",
				  file->ino, c->name, why.text);
		err->sys = why.sys;
		return -1;
	}
	if (!same(r.delta.freed, r.delta.n_freed, p->node, file->first_freed, file->n_freed) ||
	    !same(r.delta.taken, r.delta.n_taken, p->node, file->first_taken, file->n_taken) ||
	    !same(r.delta.kept, r.delta.n_kept, p->node, file->first_kept, file->n_kept) ||
	    (!r.after.indirect && changed_nodes(&r.after) != r.delta.n_kept + r.delta.n_taken)) {
		remap_release(&r);
		return error_set(err, ERROR_OPERATION,
				 "internal error: the tree blocks of inode %u of %s differ from "
				 "the plan's",
				 file->ino, c->name);
	}
	if (in_blocks(c, &r, err) || prove(c, p, &r, err)) {
		remap_release(&r);
		return -1;
	}
	*out = r;
	if (r.in_blocks.ext)
		out->before = &out->in_blocks;
	return 0;
}

void remap_release(struct remap *r)
{
	filemap_release(&r->after);
	filemap_release(&r->in_blocks);
	filemap_delta_release(&r->delta);
}

int remap_changes(const struct commit *c, const struct plan *p, const struct remap *r,
		  struct changes *to, size_t *groups, struct error *err)
{
	const struct move *m = p->move + r->file->first_move;
	uint64_t ratio = c->geo->cluster_blocks;
	size_t first = to->n;

	for (uint64_t i = 0; i < r->file->n_move; i++)
		if (changes_add(c, to, m[i].from, m[i].len, false, err) ||
		    changes_add(c, to, m[i].to, m[i].len, true, err))
			return -1;
	for (size_t i = 0; i < r->delta.n_freed; i++)
		if (changes_add(c, to, r->delta.freed[i] / ratio, 1, false, err))
			return -1;
	for (size_t i = 0; i < r->delta.n_taken; i++)
		if (changes_add(c, to, r->delta.taken[i] / ratio, 1, true, err))
			return -1;
	*groups = changes_sort(to->list + first, to->n - first);
	return 0;
}

uint64_t inode_block(const struct commit *c, uint32_t ino)
{
	uint32_t index = (ino - 1) % c->geo->inodes_per_group;

	return ext2fs_inode_table_loc(c->fs, geometry_inode_group(c->geo, ino)) +
	       (uint64_t)index * c->geo->inode_size / c->geo->block_size;
}

/* The checksum of a node holds inode number and generation, not its place. */
static int write_nodes(struct commit *c, const struct remap *r, uint8_t *buf, struct error *err)
{
	for (uint32_t level = 0; level < r->after.depth; level++) {
		for (size_t i = 0; i < r->after.tree->n_node[level]; i++) {
			const struct tree_node *node = &r->after.tree->node[level][i];
			errcode_t rc;

			if (!node->changed)
				continue;
			memset(buf, 0, c->geo->block_size);
			filemap_encode_node(&r->after, level, i, c->geo->block_size, buf);
			rc = ext2fs_extent_block_csum_set(c->fs, r->file->ino,
							  (struct ext3_extent_header *)buf);
			if (!rc)
				rc = io_channel_write_blk64(c->fs->io, node->pblk, 1, buf);
			if (rc)
				return fs_error(c, rc, err, "tree block %llu of inode %u",
						(unsigned long long)node->pblk, r->file->ino);
		}
	}
	return 0;
}

/* Wherever they were before: nothing of what the mover copied of them is kept. */
static int write_indirect(struct commit *c, const struct remap *r, uint8_t *buf, struct error *err)
{
	for (size_t i = 0; i < r->delta.n_kept; i++) {
		uint32_t number = r->delta.number[i];
		uint64_t pblk = indirect_block(&r->after, number);
		errcode_t rc;

		indirect_encode(&r->after, number, c->geo->block_size, buf);
		rc = io_channel_write_blk64(c->fs->io, pblk, 1, buf);
		if (rc)
			return fs_error(c, rc, err, "indirect block %llu of inode %u",
					(unsigned long long)pblk, r->file->ino);
	}
	return 0;
}

int remap_count(const struct commit *c, const struct remap *r, struct ext2_inode *inode,
		struct error *err)
{
	size_t taken = r->delta.n_taken, freed = r->delta.n_freed;
	errcode_t rc = taken >= freed ? ext2fs_iblk_add_blocks(c->fs, inode, taken - freed)
				      : ext2fs_iblk_sub_blocks(c->fs, inode, freed - taken);

	return rc ? error_set(err, ERROR_FSCK,
			      "inode %u of %s: its count of blocks is wrong; run: e2fsck -f %s",
			      r->file->ino, c->name, c->name)
		  : 0;
}

/* Only the mapping and the block count change (I6). */
static int write_inode(struct commit *c, const struct remap *r, struct ext2_inode *inode, int size,
		       struct error *err)
{
	errcode_t rc;

	if (r->after.indirect)
		indirect_encode_root(&r->after, c->geo->block_size, (uint8_t *)inode->i_block);
	else
		filemap_encode_root(&r->after, (uint8_t *)inode->i_block);
	if (remap_count(c, r, inode, err))
		return -1;
	rc = ext2fs_write_inode_full(c->fs, r->file->ino, inode, size);
	return rc ? fs_error(c, rc, err, "inode %u", r->file->ino) : 0;
}

bool remap_kind_fits(const struct filemap *map, const struct ext2_inode *inode)
{
	return !(inode->i_flags & EXT4_INLINE_DATA_FL) &&
	       !(inode->i_flags & EXT4_EXTENTS_FL) == map->indirect;
}

int remap_write(struct commit *c, const struct remap *r, struct error *err)
{
	int size = (int)c->geo->inode_size, ret = -1;
	struct ext2_inode *inode = malloc((size_t)size);
	uint8_t *buf = malloc(c->geo->block_size);
	errcode_t rc;

	if (!inode || !buf) {
		error_nomem(err, "a new mapping");
		goto out;
	}
	rc = ext2fs_read_inode_full(c->fs, r->file->ino, inode, size);
	if (rc) {
		fs_error(c, rc, err, "inode %u", r->file->ino);
		goto out;
	}
	if (!remap_kind_fits(r->before, inode)) {
		error_set(err, ERROR_OPERATION,
			  "internal error: inode %u of %s is mapped in another way", r->file->ino,
			  c->name);
		goto out;
	}
	if ((r->after.indirect ? write_indirect(c, r, buf, err) : write_nodes(c, r, buf, err)) ||
	    write_inode(c, r, inode, size, err) ||
	    quota_count(c, inode, r->delta.n_taken, r->delta.n_freed, err))
		goto out;
	for (size_t i = 0; i < r->delta.n_freed; i++)
		overlay_forget(c->ov, r->delta.freed[i]);
	c->updates += 1 + r->delta.n_kept + r->delta.n_taken;
	ret = 0;
out:
	free(inode);
	free(buf);
	return ret;
}
