/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clusters: bigalloc. A file's records are in blocks and may begin, end and leave holes inside of a
 * cluster; two of them may share one. Here they become stretches of whole clusters, which all else
 * works with, and the moves of such stretches become moves of records.
 */
#include "tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Records in one stretch, but for those of a single cluster: a stretch moves in one transaction,
 * and with it all of the leaves that hold its records. */
#define STRETCH_RECORDS 256u

struct filemap tree_in_blocks(const struct filemap *map)
{
	struct filemap blocks = *map;

	blocks.ext = map->tree->rec->at;
	blocks.n_ext = (uint32_t)map->tree->rec->n;
	blocks.in_clusters = false;
	return blocks;
}

/* Stretches being made. The last cluster waits: the next record may lie in it too. */
struct maker {
	struct extent *ext;
	size_t n;
	uint32_t ratio, most; /* most: clusters of a stretch */
	size_t records;	      /* that began in the last stretch */
	struct extent last;   /* the cluster that waits; len 0: none */
};

/* Clusters of one state that adjoin, of one record. */
static void emit(struct maker *k, struct extent e)
{
	while (e.len) {
		struct extent *to = k->n ? &k->ext[k->n - 1] : NULL;
		uint32_t n = e.len < k->most ? e.len : k->most;

		if (to && to->unwritten == e.unwritten && to->lblk + to->len == e.lblk &&
		    to->pblk + to->len == e.pblk && to->len < k->most &&
		    k->records <= STRETCH_RECORDS) {
			if (n > k->most - to->len)
				n = k->most - to->len;
			to->len = (to->len + n) & 0x7fffffffu;
		} else {
			k->ext[k->n] = e;
			k->ext[k->n++].len = n & 0x7fffffffu;
			k->records = 1;
		}
		e.lblk += n;
		e.pblk += n;
		e.len = (e.len - n) & 0x7fffffffu;
	}
}

static const char *add_record(struct maker *k, const struct extent *e)
{
	uint32_t first = e->lblk / k->ratio, last = (e->lblk + (e->len - 1)) / k->ratio;
	uint64_t at = e->pblk / k->ratio;
	struct extent inner = { .unwritten = e->unwritten };

	if (e->pblk % k->ratio != e->lblk % k->ratio)
		return "a record does not fit its cluster";
	k->records++;
	if (k->last.len && k->last.lblk == first) {
		if (k->last.pblk != at)
			return "blocks of one cluster lie in two";
		k->last.unwritten &= e->unwritten;
		if (first == last)
			return NULL;
		first++;
		at++;
	}
	emit(k, k->last);
	inner.lblk = first;
	inner.pblk = at;
	inner.len = (last - first) & 0x7fffffffu;
	emit(k, inner);
	inner.lblk = last;
	inner.pblk = at + (last - first);
	inner.len = 1;
	k->last = inner;
	return NULL;
}

/* Stretches from records: `map->ext` becomes `tree->rec`. */
static int make_stretches(struct filemap *map, uint32_t ratio, const char **wrong,
			  struct error *err)
{
	uint32_t most = EXTENT_MAX_INIT / ratio;
	struct maker k = { .ratio = ratio, .most = most ? most : 1 };
	struct records *rec = malloc(sizeof(*rec) + map->n_ext * sizeof(*rec->at));

	*wrong = NULL;
	/* A record gives its inner clusters, over two stretches at most, and its last one. */
	k.ext = reallocarray(NULL, map->n_ext + 1, 4 * sizeof(*k.ext));
	if (!rec || !k.ext || filemap_need_tree(map, err)) {
		free(rec);
		free(k.ext);
		return error_nomem(err, "clusters of a file");
	}
	for (size_t i = 0; i < map->n_ext && !*wrong; i++)
		*wrong = add_record(&k, &map->ext[i]);
	if (*wrong) {
		free(rec);
		free(k.ext);
		return -1;
	}
	emit(&k, k.last);
	rec->ratio = ratio;
	rec->n = map->n_ext;
	if (rec->n)
		memcpy(rec->at, map->ext, rec->n * sizeof(*rec->at));
	if (!map->pooled)
		free(map->ext);
	map->pooled = false;
	map->ext = realloc(k.ext, (k.n + 1) * sizeof(*k.ext));
	if (!map->ext)
		map->ext = k.ext;
	map->n_ext = (uint32_t)k.n;
	map->tree->rec = rec;
	map->in_clusters = true;
	return 0;
}

int filemap_to_clusters(struct filemap *map, uint32_t ratio, const char **wrong, struct error *err)
{
	assert(ratio > 1 && !map->in_clusters && !map->indirect);
	for (uint32_t l = 0; l < map->depth; l++) {
		for (size_t i = 0; i < map->tree->n_node[l]; i++) {
			if (map->tree->node[l][i].pblk % ratio) {
				*wrong = "a tree block does not begin a cluster";
				return -1;
			}
		}
	}
	if (make_stretches(map, ratio, wrong, err))
		return -1;
	for (uint32_t l = 0; l < map->depth; l++)
		for (size_t i = 0; i < map->tree->n_node[l]; i++)
			map->tree->node[l][i].pblk /= ratio;
	return 0;
}

int filemap_in_blocks(const struct filemap *in, struct filemap *out, struct error *err)
{
	const struct filemap blocks = tree_in_blocks(in);

	if (filemap_copy(&blocks, out, err))
		return -1;
	for (uint32_t l = 0; l < out->depth; l++)
		for (size_t i = 0; i < out->tree->n_node[l]; i++)
			out->tree->node[l][i].pblk *= in->tree->rec->ratio;
	return 0;
}

/* Are the moves backed by stretches, as they say? */
static int check_moves(const struct filemap *in, const struct move *moves, size_t n,
		       struct error *err)
{
	const struct filemap flat = { .ext = in->ext, .n_ext = in->n_ext };
	struct build b = { .in = &flat, .move = moves, .n_move = n };
	int rc;

	b.span = malloc(n * sizeof(*b.span));
	if (!b.span)
		return error_nomem(err, "moving a file's mapping");
	rc = tree_find_spans(&b, err);
	free(b.span);
	return rc;
}

/* The parts of records that the moves take along, as moves of blocks: malloc'ed. */
static int moves_in_blocks(const struct filemap *in, const struct move *moves, size_t n,
			   struct move **out, size_t *n_out, struct error *err)
{
	uint64_t ratio = in->tree->rec->ratio;
	struct move *to = reallocarray(NULL, in->tree->rec->n + n, sizeof(*to));
	size_t k = 0, rec = 0;

	if (!to)
		return error_nomem(err, "moving a file's mapping");
	for (size_t i = 0; i < n; i++) {
		const struct move *m = &moves[i];
		uint64_t first = m->lblk * ratio, end = first + m->len * ratio;

		for (; rec < in->tree->rec->n; rec++) {
			const struct extent *e = &in->tree->rec->at[rec];
			uint64_t a = e->lblk > first ? e->lblk : first;
			uint64_t z = (uint64_t)e->lblk + e->len;

			if (e->lblk >= end)
				break;
			if (z > first)
				to[k++] = (struct move){
					.from = m->from * ratio + (a - first),
					.to = m->to * ratio + (a - first),
					.lblk = (uint32_t)a,
					.len = (uint32_t)((z < end ? z : end) - a),
					.unwritten = e->unwritten,
				};
			if (z > end)
				break; /* the next move may begin in this record */
		}
	}
	*out = to;
	*n_out = k;
	return 0;
}

int tree_move_clusters(const struct filemap *in, const struct move *moves, size_t n,
		       uint32_t block_size, unsigned how, const uint64_t *take, size_t n_take,
		       size_t *need, struct filemap *out, struct filemap_delta *delta,
		       struct error *err)
{
	const struct filemap blocks = tree_in_blocks(in);
	struct filemap_delta d = { 0 };
	struct filemap next = { 0 };
	struct move *of_blocks = NULL;
	const char *wrong = NULL;
	size_t n_blocks = 0;
	int rc = -1;

	if (check_moves(in, moves, n, err) ||
	    moves_in_blocks(in, moves, n, &of_blocks, &n_blocks, err) ||
	    filemap_move(&blocks, of_blocks, n_blocks, block_size, how, take, n_take, need, &next,
			 &d, err))
		goto out;
	if (make_stretches(&next, in->tree->rec->ratio, &wrong, err)) {
		if (wrong)
			error_set(err, ERROR_OPERATION, "moves that can't be: %s", wrong);
		goto out;
	}
	*out = next;
	*delta = d;
	memset(&next, 0, sizeof(next));
	memset(&d, 0, sizeof(d));
	rc = 0;
out:
	free(of_blocks);
	filemap_release(&next);
	filemap_delta_release(&d);
	return rc;
}
