/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: the inode table of one group, in large pieces. */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

int scratch_new(const struct source *src, struct scratch *s, struct error *err)
{
	s->table = device_buffer(SCRATCH_TABLE);
	s->bitmap = device_buffer(src->geo->block_size);
	if (!s->table || !s->bitmap) {
		scratch_free(s);
		return error_nomem(err, "reading inode tables");
	}
	return 0;
}

void scratch_free(struct scratch *s)
{
	free(s->table);
	free(s->bitmap);
	*s = (struct scratch){ 0 };
}

static int add_left(struct harvest *h, uint32_t ino, const struct verdict *v, size_t file,
		    struct error *err)
{
	if (array_reserve(&h->left, &h->cap_left, h->n_left + 1, sizeof(*h->left), err))
		return -1;
	h->left[h->n_left++] = (struct left){ .ino = ino, .why = v->why, .file = file };
	return 0;
}

/* Unused quota inodes and that of bad blocks have none, whatever is there; e2fsck doesn't look. */
static bool has_xattr(uint32_t ino, const struct ext2_inode *inode)
{
	bool quota = ino == EXT4_USR_QUOTA_INO || ino == EXT4_GRP_QUOTA_INO;

	return ino != EXT2_BAD_INO && (inode->i_mode || !quota);
}

static int add_xattr(const struct source *src, uint32_t ino, const struct ext2_inode *inode,
		     struct harvest *h, struct error *err)
{
	uint64_t block = ext2fs_file_acl_block((ext2_filsys)&src->fs, inode);

	if (!block)
		return 0;
	if (block < src->geo->first_data_block || block >= src->geo->blocks)
		return source_damage(src, err, "inode %u: its xattr block %llu lies outside", ino,
				     (unsigned long long)block);
	if (h->n_xattr && h->xattr[h->n_xattr - 1].block == block)
		return 0; /* neighbours often share one */
	if (array_reserve(&h->xattr, &h->cap_xattr, h->n_xattr + 1, sizeof(*h->xattr), err))
		return -1;
	h->xattr[h->n_xattr++] = (struct xattr_ref){ .block = block, .ino = ino };
	return 0;
}

/* The entries of a deep root, each with the logical blocks up to the next one's. */
static int add_root(uint32_t gen, uint32_t eof, const struct tree_child *child, uint32_t n,
		    struct harvest *h, struct error *err)
{
	if (array_reserve(&h->root, &h->cap_root, h->n_root + n, sizeof(*h->root), err))
		return -1;
	for (uint32_t i = 0; i < n; i++)
		h->root[h->n_root++] = (struct tree_entry){
			.pblk = child[i].pblk,
			.lo = child[i].lblk,
			.last = i + 1 < n ? child[i + 1].lblk - 1 : UINT32_MAX,
			.file = h->n_file,
			.gen = gen,
			.eof = eof,
		};
	return 0;
}

static int add_records(const struct extent *ext, size_t n, struct harvest *h, struct error *err)
{
	if (array_reserve(&h->ext, &h->cap_ext, h->n_ext + n, sizeof(*h->ext), err))
		return -1;
	memcpy(h->ext + h->n_ext, ext, n * sizeof(*ext));
	h->n_ext += n;
	return 0;
}

static int take_extents(const struct source *src, uint32_t ino, const struct ext2_inode *inode,
			const struct verdict *v, struct harvest *h, struct error *err)
{
	const uint8_t *bytes = (const uint8_t *)inode->i_block;
	struct extent ext[EXTENT_ROOT_RECORDS];
	struct tree_child child[EXTENT_ROOT_RECORDS];
	int depth = filemap_decode_depth(bytes);
	const char *wrong;
	uint32_t n = 0;
	struct snapshot_file f = { .ino = ino,
				   .kind = v->kind,
				   .swap = !v->why && may_be_swap(inode) };

	if (depth < 0 || depth > (int)EXTENT_MAX_DEPTH)
		return source_damage(src, err, "inode %u: the root of its extent tree is damaged",
				     ino);
	wrong = filemap_decode(bytes, sizeof(inode->i_block), (uint32_t)depth, 0,
			       (uint64_t)UINT32_MAX + 1, src->geo->first_data_block,
			       src->geo->blocks, ext, child, &n);
	if (wrong)
		return source_damage(src, err, "inode %u: root of its extent tree: %s", ino, wrong);
	wrong = depth ? NULL : classify_records(ext, n, v->end);
	if (wrong)
		return source_damage(src, err, "inode %u: %s", ino, wrong);
	if (!n) {
		h->nothing++;
		return 0;
	}
	if (array_reserve(&h->file, &h->cap_file, h->n_file + 1, sizeof(*h->file), err) ||
	    (v->why && add_left(h, ino, v, h->n_file, err)))
		return -1;
	f.map.depth = (uint8_t)depth;
	if (depth) {
		if (add_root(inode->i_generation, v->eof, child, n, h, err))
			return -1;
	} else {
		if (add_records(ext, n, h, err))
			return -1;
		f.map.n_ext = n;
		f.map.pooled = true;
	}
	h->file[h->n_file++] = f;
	return 0;
}

static int pool_records(struct filemap *m, struct harvest *h, struct error *err)
{
	if (add_records(m->ext, m->n_ext, h, err))
		return -1;
	free(m->ext);
	m->ext = NULL;
	m->pooled = true;
	return 0;
}

/* i_block as an array of pointers; what hangs on indirect blocks is read later. */
static int take_pointers(const struct source *src, uint32_t ino, const struct ext2_inode *inode,
			 const struct verdict *v, struct harvest *h, struct error *err)
{
	struct snapshot_file f = { .ino = ino,
				   .kind = v->kind,
				   .swap = !v->why && may_be_swap(inode) };
	struct extent piece[INDIRECT_ROOT];
	uint64_t end = indirect_number(v->end, src->geo->block_size);
	size_t n = 0;
	bool whole = true; /* all is in i_block */

	for (uint32_t i = 0; i < INDIRECT_ROOT; i++) {
		uint64_t number = indirect_root_number(i, src->geo->block_size);
		uint32_t pblk = inode->i_block[i];
		const char *wrong = pblk ? mapped_pointer(src, number, pblk) : NULL;

		if (!wrong && pblk && i < INDIRECT_DIRECT && i >= v->end)
			wrong = BEYOND_SIZE;
		if (wrong)
			return source_damage(src, err, "inode %u: block %u: %s", ino, pblk, wrong);
		if (!pblk)
			continue;
		piece[n++] = (struct extent){ .pblk = pblk, .lblk = (uint32_t)number, .len = 1 };
		if (i < INDIRECT_DIRECT)
			continue;
		whole = false;
		if (array_reserve(&h->mapped, &h->cap_mapped, h->n_mapped + 1, sizeof(*h->mapped),
				  err))
			return -1;
		h->mapped[h->n_mapped++] =
			(struct mapped_entry){ .pblk = pblk,
					       .number = (uint32_t)number,
					       .level = (uint8_t)indirect_root_level(i),
					       .end = end < UINT32_MAX ? (uint32_t)end : UINT32_MAX,
					       .file = h->n_file };
	}
	if (array_reserve(&h->file, &h->cap_file, h->n_file + 1, sizeof(*h->file), err) ||
	    (v->why && add_left(h, ino, v, h->n_file, err)) ||
	    indirect_build(piece, n, &f.map, err))
		return -1;
	if (whole && pool_records(&f.map, h, err)) {
		filemap_release(&f.map);
		return -1;
	}
	h->file[h->n_file++] = f;
	return 0;
}

static int take_resize(const struct source *src, uint32_t ino, const struct ext2_inode *inode,
		       const struct verdict *v, struct harvest *h, struct error *err)
{
	uint64_t block = inode->i_block[EXT2_DIND_BLOCK];

	if (block < src->geo->first_data_block || block >= src->geo->blocks)
		return source_damage(src, err, "inode %u: block %llu lies outside", ino,
				     (unsigned long long)block);
	if (claims_add(&h->claims, source_cluster(src, block), 1, OWNER_FIXED, ino, err))
		return -1;
	return add_left(h, ino, v, NO_FILE, err);
}

int inodes_take(const struct source *src, uint32_t ino, uint8_t *raw, struct harvest *h,
		struct error *err)
{
	struct ext2_inode *inode = (struct ext2_inode *)raw;
	struct verdict v;
	const char *wrong;

	if (!ext2fs_inode_csum_verify((ext2_filsys)&src->fs, ino, (struct ext2_inode_large *)raw))
		return source_damage(src, err, "inode %u: its checksum is wrong", ino);
	wrong = classify_inode(src, ino, inode, &v);
	if (wrong)
		return source_damage(src, err, "inode %u: %s", ino, wrong);
	if (has_xattr(ino, inode) && add_xattr(src, ino, inode, h, err))
		return -1;
	switch (v.shape) {
	case SHAPE_EXTENTS:
		return take_extents(src, ino, inode, &v, h, err);
	case SHAPE_BLOCKS:
		return take_pointers(src, ino, inode, &v, h, err);
	case SHAPE_RESIZE:
		return take_resize(src, ino, inode, &v, h, err);
	case SHAPE_NOTHING:
		break;
	}
	if (inode->i_links_count)
		h->nothing++;
	return 0;
}

static bool passed_over(const struct source *src, uint32_t ino)
{
	return src->last_ino && (ino < src->first_ino || ino > src->last_ino ||
				 (src->n_skip && bsearch(&ino, src->skip, src->n_skip, sizeof(ino),
							 sort_compare_u32)));
}

/* In use: it has links and is set in the inode bitmap. The two must agree. */
static int look_at(const struct source *src, uint32_t ino, bool marked, uint8_t *raw,
		   struct harvest *h, struct error *err)
{
	const struct ext2_inode *inode = (const struct ext2_inode *)raw;
	bool linked = inode->i_links_count > 0;

	if (ino < EXT2_FIRST_INODE(src->fs.super) && ino != EXT2_ROOT_INO)
		return inodes_take(src, ino, raw, h, err); /* set in the bitmap, used or not */
	if (linked != marked)
		return source_damage(src, err,
				     linked ? "inode %u has links but is free in the inode bitmap"
					    : "inode %u is in use in the inode bitmap but has no "
					      "links",
				     ino);
	if (ino == EXT2_ROOT_INO && (!linked || !LINUX_S_ISDIR(inode->i_mode)))
		return source_damage(src, err, "inode %u, the root, is not a directory", ino);
	return linked ? inodes_take(src, ino, raw, h, err) : 0;
}

static int read_table(const struct source *src, uint32_t group, uint32_t used, struct scratch *s,
		      struct harvest *h, struct error *err)
{
	const struct geometry *geo = src->geo;
	uint64_t table = ext2fs_inode_table_loc((ext2_filsys)&src->fs, group);
	uint64_t bytes = (uint64_t)used * geo->inode_size, done = 0;
	uint32_t i = 0;

	bytes = (bytes + geo->block_size - 1) / geo->block_size * geo->block_size;
	if (table < geo->first_data_block || table >= geo->blocks ||
	    bytes / geo->block_size > geo->blocks - table)
		return source_damage(src, err, "the inode table of group %u lies outside", group);
	while (done < bytes) {
		size_t piece =
			bytes - done < SCRATCH_TABLE ? (size_t)(bytes - done) : SCRATCH_TABLE;

		if (device_read(src->dev, s->table, table * geo->block_size + done, piece, err))
			return -1;
		for (size_t at = 0; at < piece && i < used; at += geo->inode_size, i++) {
			uint32_t ino = group * geo->inodes_per_group + i + 1;

			if (passed_over(src, ino))
				continue;
			if (look_at(src, ino, s->bitmap[i / 8] >> (i % 8) & 1, s->table + at, h,
				    err))
				return -1;
		}
		done += piece;
	}
	return 0;
}

static int check_unused(const struct source *src, uint32_t group, uint32_t used,
			const uint8_t *bitmap, struct error *err)
{
	for (uint32_t i = used; i < src->geo->inodes_per_group; i++)
		if (bitmap[i / 8] >> (i % 8) & 1)
			return source_damage(
				src, err,
				"inode %u is in use but lies in the unused part of its table",
				group * src->geo->inodes_per_group + i + 1);
	return 0;
}

int inodes_scan_group(const struct source *src, uint32_t group, struct scratch *s,
		      struct harvest *h, struct error *err)
{
	ext2_filsys fs = (ext2_filsys)&src->fs;
	const struct geometry *geo = src->geo;
	uint64_t at = ext2fs_inode_bitmap_loc(fs, group);
	uint32_t used = geo->inodes_per_group;

	/* Both are only to be trusted where descriptors have checksums. */
	if (ext2fs_has_group_desc_csum(fs)) {
		uint32_t unused = ext2fs_bg_itable_unused(fs, group);

		if (ext2fs_bg_flags_test(fs, group, EXT2_BG_INODE_UNINIT))
			unused = used;
		if (unused > used)
			return source_damage(
				src, err, "group %u: its descriptor's itable_unused is too large",
				group);
		used -= unused;
	}
	if (group == 0 && used < EXT2_ROOT_INO)
		return source_damage(src, err, "the root's inode is in an unused inode table");
	if (ext2fs_has_group_desc_csum(fs) && ext2fs_bg_flags_test(fs, group, EXT2_BG_INODE_UNINIT))
		return 0;
	if (at < geo->first_data_block || at >= geo->blocks)
		return source_damage(src, err, "the inode bitmap of group %u lies outside", group);
	if (device_read(src->dev, s->bitmap, at * geo->block_size, geo->block_size, err))
		return -1;
	if (!ext2fs_inode_bitmap_csum_verify(fs, group, (char *)s->bitmap,
					     (int)(geo->inodes_per_group / 8)))
		return source_damage(
			src, err, "the checksum of group %u's inode bitmap (block %llu) is wrong",
			group, (unsigned long long)at);
	if (check_unused(src, group, used, s->bitmap, err))
		return -1;
	return read_table(src, group, used, s, h, err);
}
