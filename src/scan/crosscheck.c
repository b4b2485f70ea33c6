/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the proof that the metadata hangs together (I9): every block is claimed at most once, and
 * what is claimed is exactly what the block bitmaps mark as in use. The groups' free counts have
 * been compared with the bitmaps while those were read.
 *
 * Claims are marked in a bitmap of a window of blocks, window after window: nothing has to be
 * sorted, or kept for it. A block marked twice is claimed twice; what is marked in the end must be
 * what is not free. Which window or thread finds something first doesn't matter: the lowest block
 * counts, double claims before others, and who claims it is looked up only then.
 *
 * bigalloc: all is in clusters, but for the metadata of groups. That is packed without regard to
 * clusters, so it is compared with itself by blocks, and claims the clusters it lies in after that.
 */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MOST  (1ull << 28) /* blocks, a multiple of 64 */
#define WINDOW_LEAST (1ull << 19)
#define SLICE	     (1ull << 20)
#define NOWHERE	     UINT64_MAX

struct check {
	const struct source *src;
	const struct harvest *h;
	uint64_t from, to; /* the window, in blocks (bigalloc: clusters), like all claims */
	_Atomic uint64_t *bits;
	/* The lowest block that is claimed twice, and the lowest that is claimed and free, or
	 * neither; NOWHERE: none so far. */
	_Atomic uint64_t twice, differs;
};

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

/* Metadata alone. `unit`: blocks of what is claimed. */
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

/* ---- marking ---- */

static void note(_Atomic uint64_t *lowest, uint64_t block)
{
	uint64_t was = atomic_load_explicit(lowest, memory_order_relaxed);

	while (block < was && !atomic_compare_exchange_weak(lowest, &was, block))
		;
}

/* Any thread. */
static void mark(struct check *k, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, at = start < k->from ? k->from : start;

	if (end > k->to)
		end = k->to;
	while (at < end) {
		uint64_t bit = at - k->from, n = 64 - bit % 64;
		uint64_t mask, both;

		if (n > end - at)
			n = end - at;
		mask = ~0ull >> (64 - n) << bit % 64;
		both = mask &
		       atomic_fetch_or_explicit(&k->bits[bit / 64], mask, memory_order_relaxed);
		if (both)
			note(&k->twice, at - bit % 64 + (uint64_t)__builtin_ctzll(both));
		at += n;
	}
}

static void mark_file(struct check *k, const struct filemap *m)
{
	for (uint32_t l = 0; l < m->depth; l++)
		for (size_t i = 0; i < m->tree->n_node[l]; i++)
			mark(k, m->tree->node[l][i].pblk, 1);
	for (size_t i = 0; i < m->n_ext; i++)
		mark(k, m->ext[i].pblk, m->ext[i].len);
}

/* ---- comparing ---- */

/* In [from, to) of the window all should be claimed, or nothing. */
static void compare(struct check *k, uint64_t from, uint64_t to, bool claimed)
{
	uint32_t at = (uint32_t)(from - k->from), end = (uint32_t)(to - k->from);

	at = bitmap_next((const uint8_t *)k->bits, at, end, !claimed);
	if (at < end)
		note(&k->differs, k->from + at);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Any thread, when all is marked. */
static void compare_slice(struct check *k, uint64_t at, uint64_t to)
{
	while (at < to) {
		struct range f = { to, 0 };
		uint64_t start, end;

		rangeset_next(k->h->space, at, &f);
		start = least(f.start, to);
		end = least(f.start + f.len, to);
		if (at < start)
			compare(k, at, start, true);
		if (at < end && start < end)
			compare(k, at > start ? at : start, end, false);
		at = end;
	}
}

static void check_window(struct check *k)
{
	const struct harvest *h = k->h;

	memset(k->bits, 0, (size_t)((k->to - k->from + 63) / 64 * sizeof(*k->bits)));
	for (size_t i = 0; i < h->claims.n; i++)
		mark(k, h->claims.c[i].start, h->claims.c[i].len);
#pragma omp parallel for num_threads(k->src->threads) schedule(dynamic, 4096)
	for (size_t i = 0; i < h->n_file; i++)
		mark_file(k, &h->file[i].map);
#pragma omp parallel for num_threads(k->src->threads) schedule(dynamic, 1)
	for (uint64_t at = k->from; at < k->to; at += SLICE)
		compare_slice(k, at, k->to - at < SLICE ? k->to : at + SLICE);
}

/* ---- who it was ---- */

/* The first two of those who claim a block, by compare_claims(). */
struct claimants {
	uint64_t block;
	struct claim c[2];
	size_t n;
};

static void consider(struct claimants *cs, const struct claim *c)
{
	size_t i = cs->n;

	if (cs->block < c->start || cs->block - c->start >= c->len)
		return;
	while (i && compare_claims(c, &cs->c[i - 1]) < 0) {
		if (i < 2)
			cs->c[i] = cs->c[i - 1];
		i--;
	}
	if (i < 2)
		cs->c[i] = *c;
	if (cs->n < 2)
		cs->n++;
}

static void consider_file(struct claimants *cs, const struct snapshot_file *f)
{
	const struct filemap *m = &f->map;
	struct claim c = { .owner = OWNER_MOVABLE, .len = 1, .who = f->ino };

	for (uint32_t l = 0; l < m->depth; l++)
		for (size_t i = 0; i < m->tree->n_node[l]; i++) {
			c.start = m->tree->node[l][i].pblk;
			consider(cs, &c);
		}
	for (size_t i = 0; i < m->n_ext; i++) {
		uint64_t at = m->ext[i].pblk, end = at + m->ext[i].len;

		for (; at < end; at += c.len) { /* a block-mapped run may be longer than a claim */
			c.start = at;
			c.len = least(end - at, CLAIM_MAX_LEN) & CLAIM_MAX_LEN;
			consider(cs, &c);
		}
	}
}

static void find_claimants(const struct harvest *h, uint64_t block, struct claimants *cs)
{
	*cs = (struct claimants){ .block = block };
	for (size_t i = 0; i < h->claims.n; i++)
		consider(cs, &h->claims.c[i]);
	for (size_t i = 0; i < h->n_file; i++)
		consider_file(cs, &h->file[i]);
}

static int tell(const struct check *k, struct error *err)
{
	uint64_t unit = k->src->geo->cluster_blocks;
	struct claimants cs;
	char a[40], b[40];

	if (k->twice != NOWHERE) {
		find_claimants(k->h, k->twice, &cs);
		return source_damage(k->src, err, "block %" PRIu64 " is claimed by %s and by %s",
				     k->twice * unit, name_of(&cs.c[0], a, sizeof(a)),
				     name_of(&cs.c[1], b, sizeof(b)));
	}
	if (k->differs == NOWHERE)
		return 0;
	find_claimants(k->h, k->differs, &cs);
	if (cs.n)
		return source_damage(k->src, err,
				     "block %" PRIu64
				     " is in use by %s but free in the block bitmap",
				     k->differs * unit, name_of(&cs.c[0], a, sizeof(a)));
	return source_damage(k->src, err,
			     "block %" PRIu64
			     " is marked in use in the block bitmap, but nothing claims it",
			     k->differs * unit);
}

/* Blocks of a window: a sixteenth of --memory at most, but for the least. */
static uint64_t window_blocks(const struct source *src)
{
	uint64_t n = src->clusters.blocks - src->clusters.first_data_block;
	uint64_t most = WINDOW_MOST;

	if (src->memory && src->memory / 16 * 8 < most)
		most = src->memory / 16 * 8 / 64 * 64;
	if (most < WINDOW_LEAST)
		most = WINDOW_LEAST;
	return n < most ? n : most;
}

uint64_t crosscheck_window(const struct source *src)
{
	return (window_blocks(src) + 63) / 64 * 8;
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

static int check_claims(const struct source *src, const struct harvest *h, struct error *err)
{
	uint64_t end = src->clusters.blocks, n = window_blocks(src);
	struct check k = { .src = src,
			   .h = h,
			   .from = src->clusters.first_data_block,
			   .bits = malloc((size_t)crosscheck_window(src)),
			   .twice = NOWHERE,
			   .differs = NOWHERE };
	int rc = -1;

	if (!k.bits)
		return error_nomem(err, "comparing claims");
	for (; k.from < end; k.from = k.to) {
		k.to = end - k.from < n ? end : k.from + n;
		if (source_stopped(src, err))
			goto out;
		check_window(&k);
	}
	rc = tell(&k, err);
out:
	free(k.bits);
	return rc;
}

int crosscheck(const struct source *src, struct harvest *h, struct error *err)
{
	if (claim_metadata(src, h, err))
		return -1;
	sort_claims(&h->claims);
	return check_claims(src, h, err);
}
