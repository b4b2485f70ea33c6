/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: what the resize inode lists. libext2fs walks it; its handle is for one thread. */
#include "scan_internal.h"

#include <inttypes.h>

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
	if (r->budget && is_metadata(r->claims, source_cluster(r->src, *block))) {
		r->budget--;
		return 0;
	}
	r->wrong = *block;
	r->failed = true;
	return BLOCK_ABORT;
}

int resize_check(const struct source *src, const struct claims *claims, struct error *err)
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
