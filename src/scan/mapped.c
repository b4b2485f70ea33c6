/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: blocks of block-mapped (ext2/ext3 style) inodes. They stay where they are; here they are
 * only claimed. libext2fs walks them; its handle is for one thread.
 *
 * ext2fs_block_iterate3 forgets a failed read of the single indirect block when the double indirect
 * one can be read (e2fsprogs lib/ext2fs/block.c, ctx.errcode). The blocks are then without a claim,
 * and the cross-check refuses: the right answer, for a less helpful reason.
 */
#include "scan_internal.h"

#include <inttypes.h>

struct walk {
	const struct source *src;
	struct harvest *h;
	struct left *left;
	uint64_t *budget; /* blocks that all walks together may still visit */
	uint64_t end;	  /* block behind the last data block seen */
	bool failed;
	struct error *err;
};

static int visit(ext2_filsys fs, blk64_t *block, e2_blkcnt_t blockcnt, blk64_t ref, int ref_offset,
		 void *priv)
{
	struct walk *w = priv;
	uint64_t b = *block;

	(void)fs;
	(void)ref;
	(void)ref_offset;
	if (!b)
		return 0;
	w->failed = true;
	if (b < w->src->geo->first_data_block || b >= w->src->geo->blocks) {
		source_damage(w->src, w->err, "inode %u: block %" PRIu64 " lies outside",
			      w->left->ino, b);
		return BLOCK_ABORT;
	}
	if (!*w->budget) {
		source_damage(w->src, w->err,
			      "inode %u: more blocks are claimed than the file system has",
			      w->left->ino);
		return BLOCK_ABORT;
	}
	(*w->budget)--;
	if (claims_add(&w->h->claims, b, 1, OWNER_FIXED, w->left->ino, w->err))
		return BLOCK_ABORT;
	w->failed = false;
	if (blockcnt >= 0) {
		if (b != w->end)
			w->left->runs++;
		w->end = b + 1;
	}
	return 0;
}

int mapped_walk(const struct source *src, struct harvest *h, struct error *err)
{
	uint64_t budget = src->geo->blocks;
	ext2_filsys fs = volume_fs(src->v);

	for (size_t i = 0; i < h->n_left; i++) {
		struct walk w = {
			.src = src, .h = h, .left = &h->left[i], .budget = &budget, .err = err
		};
		errcode_t ret;

		if (!h->left[i].walk)
			continue;
		if (source_stopped(src, err))
			return -1;
		ret = ext2fs_block_iterate3(fs, h->left[i].ino, BLOCK_FLAG_READ_ONLY, NULL, visit,
					    &w);
		if (w.failed)
			return -1;
		if (ret)
			return library_error(src->v, ret, h->left[i].ino, err);
	}
	return 0;
}

struct resize {
	const struct source *src;
	const struct claims *claims; /* sorted, disjoint */
	uint64_t budget;
	uint64_t wrong; /* block that is none of the reserved ones */
	bool failed;
};

static bool is_metadata(const struct claims *cl, uint64_t block)
{
	size_t lo = 0, hi = cl->n;

	while (lo < hi) { /* to the first claim behind the block */
		size_t mid = lo + (hi - lo) / 2;

		if (cl->c[mid].start <= block)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && cl->c[lo - 1].owner == OWNER_META &&
	       block - cl->c[lo - 1].start < cl->c[lo - 1].len;
}

static int visit_resize(ext2_filsys fs, blk64_t *block, e2_blkcnt_t blockcnt, blk64_t ref,
			int ref_offset, void *priv)
{
	struct resize *r = priv;

	(void)fs;
	(void)ref;
	(void)ref_offset;
	if (!*block || blockcnt == BLOCK_COUNT_DIND)
		return 0;
	if (r->budget && is_metadata(r->claims, *block)) {
		r->budget--;
		return 0;
	}
	r->wrong = *block;
	r->failed = true;
	return BLOCK_ABORT;
}

int mapped_check_resize(const struct source *src, const struct claims *claims, struct error *err)
{
	struct resize r = { .src = src, .claims = claims, .budget = src->geo->blocks };
	errcode_t ret;

	if (!ext2fs_has_feature_resize_inode(src->fs.super))
		return 0;
	ret = ext2fs_block_iterate3(volume_fs(src->v), EXT2_RESIZE_INO, BLOCK_FLAG_READ_ONLY, NULL,
				    visit_resize, &r);
	if (r.failed)
		return source_damage(src, err,
				     "inode %u, for resizing: block %" PRIu64
				     " is no reserved descriptor block",
				     EXT2_RESIZE_INO, r.wrong);
	if (ret)
		return library_error(src->v, ret, EXT2_RESIZE_INO, err);
	return 0;
}
