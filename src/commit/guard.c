/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * I13: before anything of a batch is written, what it rests on is re-read from the disk: the
 * inodes map what the state says, node by node where the batch changes something; every block it
 * takes is free in the bitmaps and every block it gives back is not. A difference is our own bug
 * (or somebody else writing), so the run ends.
 *
 * What is read here stays in the overlay for the commit.
 */
#include "internal.h"
#include "scaledefrag/sort.h"

#include <stdlib.h>
#include <string.h>

struct block_list {
	uint64_t *block;
	size_t n, cap;
};

static int list_add(struct block_list *l, uint64_t block, struct error *err)
{
	if (array_reserve(&l->block, &l->cap, l->n + 1, sizeof(*l->block), err))
		return -1;
	l->block[l->n++] = block;
	return 0;
}

static void list_sort(struct block_list *l)
{
	size_t n = 0;

	if (l->n)
		qsort(l->block, l->n, sizeof(*l->block), sort_compare_u64);
	for (size_t i = 0; i < l->n; i++)
		if (n == 0 || l->block[n - 1] != l->block[i])
			l->block[n++] = l->block[i];
	l->n = n;
}

static bool list_has(const struct block_list *l, uint64_t block)
{
	return l->n && bsearch(&block, l->block, l->n, sizeof(block), sort_compare_u64) != NULL;
}

/* A node of the mapping before the batch that the batch changes, frees or moves records of; or the
 * root, whose level is the depth. */
struct node_view {
	uint64_t pblk; /* of the root: the inode's block */
	uint32_t level, count;
	size_t first;	       /* of its records or child nodes */
	const uint32_t *below; /* first lblk of each node of the level below; NULL: level 0 */
};

typedef int (*node_fn)(void *ctx, const struct node_view *node, struct error *err);

/* Does a move start or end in these records (n > 0)? `ratio`: their blocks of a move's. */
static bool moves_touch(const struct move *m, uint64_t n, uint64_t ratio, const struct extent *ext,
			size_t n_ext)
{
	uint64_t lo = ext[0].lblk, hi = (uint64_t)ext[n_ext - 1].lblk + ext[n_ext - 1].len;
	uint64_t a = 0, b = n;

	while (a < b) {
		uint64_t mid = a + (b - a) / 2;

		if ((m[mid].lblk + (uint64_t)m[mid].len) * ratio <= lo)
			a = mid + 1;
		else
			b = mid;
	}
	return a < n && m[a].lblk * ratio < hi;
}

static bool node_matters(const struct commit *c, const struct plan *p, const struct remap *r,
			 const struct block_list *own, const struct node_view *v)
{
	return list_has(own, v->pblk) ||
	       (v->level == 0 && v->count &&
		moves_touch(p->move + r->file->first_move, r->file->n_move, c->geo->cluster_blocks,
			    r->before->ext + v->first, v->count));
}

/* Calls fn for each node that matters, and last for the root. `own`: tree blocks that the batch
 * changes or frees. */
static int walk_nodes(const struct commit *c, const struct plan *p, const struct remap *r,
		      const struct block_list *own, node_fn fn, void *ctx, struct error *err)
{
	const struct filemap *map = r->before;
	uint32_t *below = NULL, *lblk = NULL;
	struct node_view root = { .level = map->depth, .pblk = inode_block(c, r->file->ino) };
	int ret = -1;

	for (uint32_t level = 0; level < map->depth; level++) {
		struct node_view v = { .level = level, .below = below };

		lblk = calloc(map->tree->n_node[level] + 1, sizeof(*lblk));
		if (!lblk) {
			error_nomem(err, "checking a batch");
			goto out;
		}
		for (size_t i = 0; i < map->tree->n_node[level]; i++) {
			v.pblk = map->tree->node[level][i].pblk;
			v.count = map->tree->node[level][i].count;
			if (v.count)
				lblk[i] = level ? below[v.first] : map->ext[v.first].lblk;
			if (node_matters(c, p, r, own, &v) && fn(ctx, &v, err))
				goto out;
			v.first += v.count;
		}
		free(below);
		below = lblk;
		lblk = NULL;
	}
	root.below = below;
	root.count = (uint32_t)(map->depth ? map->tree->n_node[map->depth - 1] : map->n_ext);
	ret = fn(ctx, &root, err);
out:
	free(below);
	free(lblk);
	return ret;
}

/* The tree blocks that the batch changes or frees, sorted. */
static int own_nodes(const struct remap *r, struct block_list *own, struct error *err)
{
	for (size_t i = 0; i < r->delta.n_kept; i++)
		if (list_add(own, r->delta.kept[i], err))
			return -1;
	for (size_t i = 0; i < r->delta.n_freed; i++)
		if (list_add(own, r->delta.freed[i], err))
			return -1;
	list_sort(own);
	return 0;
}

/* Block-mapped: the indirect blocks that the batch writes, at their places before it. */
static int want_indirect(const struct commit *c, const struct remap *r, struct block_list *want,
			 struct error *err)
{
	for (size_t i = 0; i < r->delta.n_kept; i++)
		if (list_add(want, indirect_block(r->before, r->delta.number[i]), err))
			return -1;
	return list_add(want, inode_block(c, r->file->ino), err);
}

static int want_node(void *ctx, const struct node_view *v, struct error *err)
{
	return list_add(ctx, v->pblk, err);
}

struct comparison {
	struct commit *c;
	uint32_t ino;
	const struct filemap *map;
	uint8_t *buf, *encoded; /* one block each */
	struct extent *ext;
	struct tree_child *child;
};

static int differs(const struct comparison *k, uint64_t block, const char *why, struct error *err)
{
	return error_set(err, ERROR_OPERATION,
			 "internal error: the map of inode %u of %s is not what was planned for "
			 "(block %llu: %s); nothing of this batch was written",
			 k->ino, k->c->name, (unsigned long long)block, why);
}

/* `buf`: a node or root as on the disk; `block`: where it was read. */
static int compare_node(struct comparison *k, const uint8_t *buf, size_t size, uint64_t block,
			const struct node_view *v, struct error *err)
{
	const struct geometry *geo = k->c->geo;
	uint32_t count = 0;
	uint64_t lo = 0;
	const char *why;

	if (v->count)
		lo = v->level ? v->below[v->first] : k->map->ext[v->first].lblk;
	why = filemap_decode(buf, size, v->level, lo, 1ull << 32, geo->first_data_block,
			     geo->blocks, k->ext, k->child, &count);
	if (why)
		return differs(k, block, why, err);
	if (count != v->count)
		return differs(k, block, "another number of entries", err);
	for (uint32_t i = 0; i < count; i++) {
		const struct extent *e = &k->map->ext[v->first + i];
		bool same;

		if (v->level)
			same = k->child[i].lblk == v->below[v->first + i] &&
			       k->child[i].pblk ==
				       k->map->tree->node[v->level - 1][v->first + i].pblk;
		else
			same = k->ext[i].lblk == e->lblk && k->ext[i].pblk == e->pblk &&
			       k->ext[i].len == e->len && k->ext[i].unwritten == e->unwritten;
		if (!same)
			return differs(k, block, "another entry", err);
	}
	return 0;
}

/* Can the inode's count of blocks change as it will have to? */
static int check_count(struct commit *c, const struct remap *r, struct error *err)
{
	struct ext2_inode inode;
	errcode_t rc = ext2fs_read_inode(c->fs, r->file->ino, &inode);

	return rc ? fs_error(c, rc, err, "inode %u", r->file->ino) : remap_count(c, r, &inode, err);
}

static int check_root(struct comparison *k, const struct node_view *v, struct error *err)
{
	struct ext2_inode inode;
	errcode_t rc = ext2fs_read_inode(k->c->fs, k->ino, &inode);

	if (rc)
		return fs_error(k->c, rc, err, "inode %u", k->ino);
	if (!remap_kind_fits(k->map, &inode))
		return differs(k, v->pblk, "mapped in another way", err);
	return compare_node(k, (const uint8_t *)inode.i_block, sizeof(inode.i_block), v->pblk, v,
			    err);
}

static int check_node(void *ctx, const struct node_view *v, struct error *err)
{
	struct comparison *k = ctx;
	errcode_t rc;

	if (v->level == k->map->depth)
		return check_root(k, v, err);
	rc = io_channel_read_blk64(k->c->fs->io, v->pblk, 1, k->buf);
	if (rc)
		return fs_error(k->c, rc, err, "tree block %llu of inode %u",
				(unsigned long long)v->pblk, k->ino);
	/* Compared first: the checksum's place follows from the node's header. */
	if (compare_node(k, k->buf, k->c->geo->block_size, v->pblk, v, err))
		return -1;
	if (!ext2fs_extent_block_csum_verify(k->c->fs, k->ino, (struct ext3_extent_header *)k->buf))
		return differs(k, v->pblk, "wrong checksum", err);
	return 0;
}

/* Block-mapped: inode and indirect blocks are as they would be encoded from the mapping. */
static int check_indirect(struct comparison *k, const struct remap *r, struct error *err)
{
	uint32_t size = k->c->geo->block_size;
	uint64_t place = inode_block(k->c, k->ino);
	struct ext2_inode inode;
	uint8_t root[sizeof(inode.i_block)];
	errcode_t rc = ext2fs_read_inode(k->c->fs, k->ino, &inode);

	if (rc)
		return fs_error(k->c, rc, err, "inode %u", k->ino);
	if (!remap_kind_fits(k->map, &inode))
		return differs(k, place, "mapped in another way", err);
	indirect_encode_root(k->map, size, root);
	if (memcmp(root, inode.i_block, sizeof(root)) != 0)
		return differs(k, place, "another pointer", err);
	for (size_t i = 0; i < r->delta.n_kept; i++) {
		uint64_t pblk = indirect_block(k->map, r->delta.number[i]);

		rc = io_channel_read_blk64(k->c->fs->io, pblk, 1, k->buf);
		if (rc)
			return fs_error(k->c, rc, err, "indirect block %llu of inode %u",
					(unsigned long long)pblk, k->ino);
		indirect_encode(k->map, r->delta.number[i], size, k->encoded);
		if (memcmp(k->encoded, k->buf, size) != 0)
			return differs(k, pblk, "another pointer", err);
	}
	return 0;
}

/* The descriptors in memory are those on the disk? They say where bitmaps lie, and how many blocks
 * are free. */
static int check_descriptors(struct commit *c, const struct changes *ch, uint8_t *buf,
			     struct error *err)
{
	uint64_t last = 0;

	for (size_t i = 0; i < ch->n; i++) {
		uint64_t at = descriptor_block(c, ch->list[i].group);
		errcode_t rc;

		if (at == last)
			continue;
		last = at;
		rc = io_channel_read_blk64(c->fs->io, at, 1, buf);
		if (rc)
			return fs_error(c, rc, err, "group descriptors, block %llu",
					(unsigned long long)at);
		if (memcmp(buf, descriptor_memory(c, ch->list[i].group), c->geo->block_size) != 0)
			return error_set(
				err, ERROR_OPERATION,
				"internal error: the group descriptors in block %llu of %s "
				"changed; nothing of this batch was written",
				(unsigned long long)at, c->name);
	}
	return 0;
}

/* All that the checks will read, in as few requests as possible. */
static int prefetch(struct commit *c, struct block_list *want, const struct changes *ch,
		    struct error *err)
{
	for (size_t i = 0; i < ch->n; i++) {
		uint32_t group = ch->list[i].group;

		if (i && group == ch->list[i - 1].group)
			continue;
		if (list_add(want, descriptor_block(c, group), err) ||
		    (!bitmap_is_uninit(c, group) &&
		     list_add(want, ext2fs_block_bitmap_loc(c->fs, group), err)))
			return -1;
	}
	list_sort(want);
	return overlay_prefetch(c->ov, want->block, want->n, c->o.queue_depth, err);
}

/* Everything that one batch rests on. */
struct batch_check {
	struct remap *file;
	struct block_list *own; /* per file */
	size_t n;
	struct changes changes;
	struct block_list want;
	struct comparison with;
};

/* The targets of copies that are written while the batch before theirs is committed: free on the
 * disk now, and of no use to that batch. */
static int add_early(const struct commit *c, const struct plan *p, size_t batch,
		     struct changes *changes, struct error *err)
{
	size_t n;
	const struct move *m = plan_moves(p, batch, &n);
	bool *early;
	int rc;

	rc = plan_early(p, batch, &early, err);
	if (rc)
		return -1;
	for (size_t i = 0; i < n && !rc; i++)
		if (early[i] && !m[i].unwritten)
			rc = changes_add(c, changes, m[i].to, m[i].len, true, err);
	free(early);
	return rc;
}

static int collect(struct commit *c, const struct plan *p, size_t batch, bool ahead,
		   const struct state *before, struct batch_check *k, struct error *err)
{
	const struct plan_batch *b = &p->batch[batch];

	for (uint64_t i = 0; i < b->n_file; i++) {
		struct remap *r = &k->file[i];
		size_t groups;

		if (remap_compute(c, p, &p->file[b->first_file + i], before, r, err))
			return -1;
		k->n++; /* from here on release_check frees it */
		if (remap_changes(c, p, r, &k->changes, &groups, err))
			return -1;
		if (r->before->indirect
			    ? want_indirect(c, r, &k->want, err)
			    : own_nodes(r, &k->own[i], err) ||
				      walk_nodes(c, p, r, &k->own[i], want_node, &k->want, err))
			return -1;
	}
	if (ahead && batch + 1 < p->n_batch && add_early(c, p, batch + 1, &k->changes, err))
		return -1;
	return changes_check(c, &k->changes, err);
}

static int compare_all(struct commit *c, const struct plan *p, struct batch_check *k,
		       struct error *err)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct remap *r = &k->file[i];

		k->with.ino = r->file->ino;
		k->with.map = r->before;
		if (r->before->indirect
			    ? check_indirect(&k->with, r, err)
			    : walk_nodes(c, p, r, &k->own[i], check_node, &k->with, err))
			return -1;
		if (check_count(c, r, err))
			return -1;
	}
	if (check_descriptors(c, &k->changes, k->with.buf, err))
		return -1;
	return bitmaps_apply(c, &k->changes, true, err);
}

static void release_check(struct batch_check *k)
{
	for (size_t i = 0; i < k->n; i++) {
		remap_release(&k->file[i]);
		free(k->own[i].block);
	}
	free(k->file);
	free(k->own);
	free(k->changes.list);
	free(k->want.block);
	free(k->with.buf);
	free(k->with.encoded);
	free(k->with.ext);
	free(k->with.child);
}

int commit_guard(struct commit *c, const struct plan *p, size_t batch, bool ahead,
		 const struct state *before, struct error *err)
{
	const struct plan_batch *b = &p->batch[batch];
	size_t entries = c->geo->block_size / 12 + 1;
	struct batch_check k = { .with = { .c = c } };
	int ret = -1;

	/* Nothing from earlier: neither in the overlay nor in libext2fs' cache of inodes. */
	overlay_reset(c->ov);
	ext2fs_flush_icache(c->fs);
	k.file = calloc(b->n_file + 1, sizeof(*k.file));
	k.own = calloc(b->n_file + 1, sizeof(*k.own));
	k.with.buf = malloc(c->geo->block_size);
	k.with.encoded = malloc(c->geo->block_size);
	k.with.ext = calloc(entries, sizeof(*k.with.ext));
	k.with.child = calloc(entries, sizeof(*k.with.child));
	if (!k.file || !k.own || !k.with.buf || !k.with.encoded || !k.with.ext || !k.with.child)
		error_nomem(err, "checking a batch");
	else if (!collect(c, p, batch, ahead, before, &k, err) &&
		 !prefetch(c, &k.want, &k.changes, err))
		ret = compare_all(c, p, &k, err);
	release_check(&k);
	return ret;
}
