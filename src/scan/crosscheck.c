/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the proof that the metadata hangs together (I9): every block is claimed at most once, and
 * what is claimed is exactly what the block bitmaps mark as in use. The groups' free counts have
 * been compared with the bitmaps while those were read.
 *
 * bigalloc: all is in clusters, but for the metadata of groups. That is packed without regard to
 * clusters, so it is compared with itself by blocks, and claims the clusters it lies in after that.
 */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare_claims(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	if (x->who != y->who)
		return x->who < y->who ? -1 : 1;
	return x->len < y->len ? -1 : x->len > y->len;
}

/* Claims of one start are rare (they are damage), but are named in a fixed order. */
static void sort_claims(struct claims *cl)
{
	if (!cl->n)
		return;
	if (!sort_by_key(cl->c, cl->n, sizeof(*cl->c))) {
		qsort(cl->c, cl->n, sizeof(*cl->c), compare_claims);
		return;
	}
	for (size_t from = 0, to; from < cl->n; from = to) {
		for (to = from + 1; to < cl->n && cl->c[to].start == cl->c[from].start; to++)
			;
		if (to > from + 1)
			qsort(cl->c + from, to - from, sizeof(*cl->c), compare_claims);
	}
}

static const char *name_of(const struct claim *c, char *buf, size_t size)
{
	snprintf(buf, size, c->owner == OWNER_META ? "metadata of group %u" : "inode %u", c->who);
	return buf;
}

/* `unit`: blocks of what is claimed. */
static int check_overlaps(const struct source *src, const struct claims *cl, uint64_t unit,
			  struct error *err)
{
	char a[40], b[40];

	/* None overlaps the one before it, so only neighbours can be the first pair. */
	for (size_t i = 1; i < cl->n; i++)
		if (cl->c[i].start < cl->c[i - 1].start + cl->c[i - 1].len)
			return source_damage(
				src, err, "block %" PRIu64 " is claimed by %s and by %s",
				cl->c[i].start * unit, name_of(&cl->c[i - 1], a, sizeof(a)),
				name_of(&cl->c[i], b, sizeof(b)));
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Walks claims and free ranges side by side: each block must be in exactly one of them. */
static int compare_with_bitmaps(const struct source *src, const struct harvest *h,
				struct error *err)
{
	uint64_t at = src->clusters.first_data_block, end = src->clusters.blocks;
	uint64_t unit = src->geo->cluster_blocks;
	size_t ci = 0, fi = 0;
	char who[40];

	while (at < end) {
		const struct claim *c = ci < h->claims.n ? &h->claims.c[ci] : NULL;
		const struct range *f = fi < h->n_free ? &h->free[fi] : NULL;
		bool claimed = c && c->start <= at, free_here = f && f->start <= at;

		if (claimed && free_here)
			return source_damage(src, err,
					     "block %" PRIu64
					     " is in use by %s but free in the block bitmap",
					     at * unit, name_of(c, who, sizeof(who)));
		if (!claimed && !free_here)
			return source_damage(src, err,
					     "block %" PRIu64
					     " is marked in use in the block bitmap, but nothing "
					     "claims it",
					     at * unit);
		/* On to the end of the one, or to where the other begins inside it. */
		if (claimed)
			at = least(c->start + c->len, f ? f->start : end);
		else
			at = least(f->start + f->len, c ? c->start : end);
		if (c && at >= c->start + c->len)
			ci++;
		if (f && at >= f->start + f->len)
			fi++;
	}
	return 0;
}

/* The clusters of the groups' metadata, each once. */
static int claim_metadata(const struct source *src, struct harvest *h, struct error *err)
{
	uint64_t from = 0;

	sort_claims(&h->meta);
	if (check_overlaps(src, &h->meta, 1, err))
		return -1;
	for (size_t i = 0; i < h->meta.n; i++) {
		const struct claim *c = &h->meta.c[i];
		uint64_t first = source_cluster(src, c->start);
		uint64_t end = source_cluster(src, c->start + c->len - 1) + 1;

		if (first < from)
			first = from;
		if (first < end &&
		    claims_add(&h->claims, first, end - first, OWNER_META, c->who, err))
			return -1;
		from = end > from ? end : from;
	}
	return 0;
}

int crosscheck(const struct source *src, struct harvest *h, struct error *err)
{
	if (claim_metadata(src, h, err))
		return -1;
	sort_claims(&h->claims);
	if (check_overlaps(src, &h->claims, src->geo->cluster_blocks, err))
		return -1;
	return compare_with_bitmaps(src, h, err);
}
