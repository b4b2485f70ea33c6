/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proof: what filemap_move made of a file's mapping, looked at by code of its own, before anything
 * is written. planner_verify knows blocks, not records and nodes, and the guard knows what is on
 * the disk, not what will be; a mistake in between would be written, checksums and all.
 */
#include "proof.h"
#include "scaledefrag/sort.h"

#include <stdlib.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Clusters of blocks [pos, pos + len) of the file that weren't counted: *next is the first one. */
static uint64_t fresh_clusters(uint64_t pos, uint64_t len, uint64_t ratio, uint64_t *next)
{
	uint64_t first = pos / ratio, end = len ? (pos + len - 1) / ratio + 1 : first;
	uint64_t from = first > *next ? first : *next;

	*next = end > *next ? end : *next;
	return end > from ? end - from : 0;
}

const char *proof_mapping(const struct filemap *before, const struct move *m, uint64_t n,
			  uint64_t ratio, const struct filemap *after)
{
	uint64_t k = 0, off = 0, moved = 0, to_move = 0; /* off: blocks of record j behind us */
	uint64_t next = 0;
	size_t j = 0;

	for (uint64_t i = 0; i < n; i++)
		to_move += m[i].len;
	for (size_t i = 0; i < before->n_ext; i++) {
		const struct extent *e = &before->ext[i];
		uint64_t pos = e->lblk, end = pos + e->len, len;

		for (; pos < end; pos += len) {
			const struct extent *a = j < after->n_ext ? &after->ext[j] : NULL;
			uint64_t want = e->pblk + (pos - e->lblk), stop = end;

			while (k < n && (m[k].lblk + (uint64_t)m[k].len) * ratio <= pos)
				k++;
			if (k < n && m[k].lblk * ratio <= pos) {
				uint64_t in = pos - m[k].lblk * ratio;

				/* A cluster may be unwritten in part. */
				if (m[k].from * ratio + in != want ||
				    (ratio == 1 ? (m[k].unwritten != 0) != e->unwritten
						: m[k].unwritten && !e->unwritten))
					return "a move begins elsewhere";
				want = m[k].to * ratio + in;
				stop = least(end, (m[k].lblk + (uint64_t)m[k].len) * ratio);
				moved += fresh_clusters(
					pos, least(stop - pos, a ? a->len - off : 0), ratio, &next);
			} else if (k < n) {
				stop = least(end, m[k].lblk * ratio);
			}
			if (!a || a->lblk + off != pos || a->pblk + off != want ||
			    a->unwritten != e->unwritten)
				return "a record is wrong";
			len = least(stop - pos, a->len - off);
			off += len;
			if (off == a->len) {
				j++;
				off = 0;
			}
		}
	}
	if (j != after->n_ext)
		return "there are records for blocks that the file doesn't have";
	return moved == to_move ? NULL : "a move is not done, or not wholly";
}

/* One level of the tree before or after, and where its items (records, child nodes) are. */
struct side {
	const struct filemap *map;
	uint32_t *first; /* file block that each node of the level starts with */
	uint32_t *below; /* the same for the level below; NULL: level 0 */
	size_t node, item;
};

/* Goes up to `level`. False: no memory. */
static bool raise(struct side *s, uint32_t level)
{
	size_t n = level < s->map->depth ? s->map->tree->n_node[level] : 0, item = 0;

	free(s->below);
	s->below = s->first;
	s->first = malloc((n + 1) * sizeof(*s->first));
	s->node = s->item = 0;
	for (size_t i = 0; s->first && i < n; i++) {
		s->first[i] = s->below ? s->below[item] : s->map->ext[item].lblk;
		item += s->map->tree->node[level][i].count;
	}
	return s->first != NULL;
}

static bool same_items(const struct side *a, const struct side *b, uint32_t level, uint32_t n)
{
	for (size_t i = a->item, k = b->item; n--; i++, k++) {
		const struct extent *x = &a->map->ext[i], *y = &b->map->ext[k];

		if (level ? a->below[i] != b->below[k] ||
				    a->map->tree->node[level - 1][i].pblk !=
					    b->map->tree->node[level - 1][k].pblk
			  : x->lblk != y->lblk || x->pblk != y->pblk || x->len != y->len ||
				    x->unwritten != y->unwritten)
			return false;
	}
	return true;
}

struct blocks {
	uint64_t *at;
	size_t n;
};

static void add(struct blocks *l, const uint64_t *from, size_t n)
{
	if (n)
		memcpy(l->at + l->n, from, n * sizeof(*from));
	l->n += n;
}

/* Are they the same blocks, each once? Sorts both. */
static bool same_blocks(struct blocks *a, struct blocks *b)
{
	if (a->n)
		qsort(a->at, a->n, sizeof(*a->at), sort_compare_u64);
	if (b->n)
		qsort(b->at, b->n, sizeof(*b->at), sort_compare_u64);
	for (size_t i = 0; i < a->n && a->n == b->n; i++)
		if (a->at[i] != b->at[i] || (i && a->at[i] == a->at[i - 1]))
			return false;
	return a->n == b->n;
}

/* The nodes of one level: those that stay must hold on the disk what they shall hold. */
static bool check_level(struct side *a, struct side *b, uint32_t level, struct blocks *written,
			struct blocks *stay)
{
	size_t n_old = level < b->map->depth ? b->map->tree->n_node[level] : 0;

	for (; a->node < a->map->tree->n_node[level]; a->node++) {
		const struct tree_node *t = &a->map->tree->node[level][a->node], *old;

		if (t->changed) {
			written->at[written->n++] = t->pblk;
			a->item += t->count;
			continue;
		}
		for (; b->node < n_old; b->item += old->count, b->node++) {
			old = &b->map->tree->node[level][b->node];
			if (old->pblk == t->pblk)
				break;
		}
		if (b->node == n_old || b->map->tree->node[level][b->node].count != t->count ||
		    !same_items(a, b, level, t->count))
			return false;
		stay->at[stay->n++] = t->pblk;
		a->item += t->count;
	}
	return true;
}

/* Every tree block from before stays, is rewritten or is freed; every one written is one of those
 * or a new one. */
static const char *check_accounts(const struct filemap *before, const struct filemap_delta *d,
				  struct blocks *written, struct blocks *stay, struct blocks *other)
{
	add(other, d->kept, d->n_kept);
	add(other, d->taken, d->n_taken);
	if (!same_blocks(written, other))
		return "the tree blocks that are written are not those that are named";
	add(stay, d->kept, d->n_kept);
	add(stay, d->freed, d->n_freed);
	other->n = 0;
	for (uint32_t l = 0; l < before->depth; l++)
		for (size_t i = 0; i < before->tree->n_node[l]; i++)
			other->at[other->n++] = before->tree->node[l][i].pblk;
	return same_blocks(stay, other) ? NULL : "a tree block is lost, or comes from nowhere";
}

static bool has_number(const struct filemap_delta *d, uint64_t number)
{
	size_t lo = 0, hi = d->n_kept;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->number[mid] < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < d->n_kept && d->number[lo] == number;
}

/* Is this block, or one that it points to, among those that move? */
static bool touched(const struct move *m, uint64_t n, uint64_t number, uint32_t block_size)
{
	struct indirect_place p;
	uint64_t k = 0, end = n, span, last;

	indirect_find(number, block_size, &p);
	if (!p.level)
		return false;
	span = indirect_span(p.level - 1, block_size);
	last = number + 1 + (block_size / 4 - 1) * span;
	while (k < end) { /* to the first move that ends behind it */
		uint64_t mid = k + (end - k) / 2;

		if ((uint64_t)m[mid].lblk + m[mid].len <= number)
			k = mid + 1;
		else
			end = mid;
	}
	for (; k < n && m[k].lblk <= last; k++) {
		uint64_t child = number + 1;

		if (m[k].lblk <= number)
			return true;
		/* The first block that it points to and that isn't before the move. */
		child += (m[k].lblk - child + span - 1) / span * span;
		if (child < (uint64_t)m[k].lblk + m[k].len)
			return true;
	}
	return false;
}

/* Is every indirect block that has to be written among the numbers? */
static const char *check_written(const struct move *m, uint64_t n, uint32_t block_size,
				 const struct filemap_delta *d)
{
	struct indirect_place p;

	for (uint64_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < m[i].len; k++) {
			uint64_t number = (uint64_t)m[i].lblk + k;

			indirect_find(number, block_size, &p);
			if ((!p.in_inode && !has_number(d, p.parent)) ||
			    (p.level && !has_number(d, number)))
				return "an indirect block is not written";
		}
	}
	return NULL;
}

int proof_indirect(const struct filemap *after, const struct move *m, uint64_t n,
		   uint32_t block_size, const struct filemap_delta *d, const char **wrong,
		   struct error *err)
{
	struct blocks named = { .at = malloc((d->n_kept + 1) * sizeof(uint64_t)) };
	struct blocks kept = { .at = malloc((d->n_kept + 1) * sizeof(uint64_t)) };
	int ret = -1;

	*wrong = NULL;
	if (!named.at || !kept.at) {
		error_nomem(err, "checking a new mapping");
		goto out;
	}
	ret = 0;
	if (d->n_freed || d->n_taken || (d->n_kept && !d->number)) {
		*wrong = "tree blocks of a block-mapped file";
		goto out;
	}
	for (size_t i = 0; i < d->n_kept && !*wrong; i++) {
		named.at[named.n++] = indirect_block(after, d->number[i]);
		if ((i && d->number[i] <= d->number[i - 1]) || !named.at[i] ||
		    !touched(m, n, d->number[i], block_size))
			*wrong = "an indirect block is written without need";
	}
	add(&kept, d->kept, d->n_kept);
	if (!*wrong && !same_blocks(&named, &kept))
		*wrong = "an indirect block is written elsewhere";
	if (!*wrong)
		*wrong = check_written(m, n, block_size, d);
out:
	free(named.at);
	free(kept.at);
	return ret;
}

int proof_nodes(const struct filemap *before, const struct filemap *after,
		const struct filemap_delta *d, const char **wrong, struct error *err)
{
	size_t n = filemap_nodes(before) + filemap_nodes(after) + d->n_kept + d->n_taken +
		   d->n_freed + 1;
	struct blocks written = { .at = malloc(n * sizeof(uint64_t)) };
	struct blocks stay = { .at = malloc(n * sizeof(uint64_t)) };
	struct blocks other = { .at = malloc(n * sizeof(uint64_t)) };
	struct side a = { .map = after }, b = { .map = before };
	int ret = 0;

	*wrong = NULL;
	if (!written.at || !stay.at || !other.at)
		ret = error_nomem(err, "checking a new mapping");
	for (uint32_t l = 0; !ret && !*wrong && l < after->depth; l++) {
		if (!raise(&a, l) || !raise(&b, l))
			ret = error_nomem(err, "checking a new mapping");
		else if (!check_level(&a, &b, l, &written, &stay))
			*wrong = "a tree block that is not rewritten would have to be";
	}
	if (!ret && !*wrong)
		*wrong = check_accounts(before, d, &written, &stay, &other);
	free(a.first);
	free(a.below);
	free(b.first);
	free(b.below);
	free(written.at);
	free(stay.at);
	free(other.at);
	return ret;
}
