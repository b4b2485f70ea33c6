/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tree: what a move does to a file's records and to the tree blocks that hold them (filemap_move).
 *
 * From the leaves up, each level is handled alike. A "span" is a stretch of nodes of that level
 * that the moves touch; between spans nodes stay as they are. Within a span the items (records, or
 * child nodes) are packed anew into as few nodes as hold them. Where that changes what a parent
 * holds, the parent belongs to a span of the next level. What is left over at the top goes to the
 * root, under further levels if it doesn't fit there.
 *
 * Items of index nodes are child nodes, written as records of length 0: first lblk, and the child's
 * block. So one piece of code packs and compares both.
 *
 * Cost: O(records + nodes + moves), and sorting the lists of the delta.
 */
#include "tree.h"
#include "scaledefrag/sort.h"

#include "scaledefrag/geometry.h"
#include "scaledefrag/indirect.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Spans and tree blocks that need no memory of their own. */
#define FEW 16u

enum { NODE_SAME = 0, NODE_KEPT = 1, NODE_TAKEN = 2 };

static size_t nodes_for(size_t items, uint32_t per)
{
	return items / per + (items % per != 0);
}

void tree_add_span(struct build *b, size_t first, size_t last)
{
	struct span *s = b->n_span ? &b->span[b->n_span - 1] : NULL;

	if (s && first < s->first + s->n_old) {
		if (last >= s->first + s->n_old)
			s->n_old = last - s->first + 1;
		return;
	}
	b->span[b->n_span++] = (struct span){ .first = first, .n_old = last - first + 1 };
}

/* A block for a new node: given up earlier in this call, or the caller's. */
static struct tree_node new_node(struct build *b, uint32_t count)
{
	struct tree_node t = { .count = count, .changed = NODE_KEPT };

	if (!b->anew && b->next_spare < b->n_spare) {
		t.pblk = b->spare[b->next_spare++];
		return t;
	}
	t.changed = NODE_TAKEN;
	if (b->taken < b->n_take)
		t.pblk = b->take[b->taken];
	b->taken++;
	return t;
}

/* A node gets other items: where it is, or in another block, which its parent then points to. */
static void change_node(struct build *b, struct span *s, uint64_t pblk, struct tree_node *t)
{
	t->changed = NODE_KEPT;
	if (!b->anew)
		return;
	*t = new_node(b, t->count);
	b->spare[b->n_spare++] = pblk;
	s->above = true;
}

/* Makes the new nodes of one span: `old` are its old nodes, old_item/new_item its items. */
static void repack_span(struct build *b, struct span *s, const struct tree_node *old,
			const struct extent *old_item, const struct extent *new_item,
			struct tree_node *out)
{
	size_t left = s->n_items;

	s->above = s->n_new != s->n_old;
	for (size_t i = 0; i < s->n_new; i++) {
		uint32_t n = left < b->per ? (uint32_t)left : b->per;

		if (i >= s->n_old) {
			out[i] = new_node(b, n);
		} else {
			out[i] = (struct tree_node){ .pblk = old[i].pblk, .count = n };
			if (n != old[i].count || memcmp(old_item, new_item, n * sizeof(*new_item)))
				change_node(b, s, old[i].pblk, &out[i]);
			if (old_item->lblk != new_item->lblk)
				s->above = true;
			old_item += old[i].count;
		}
		new_item += n;
		left -= n;
	}
}

/* The new nodes of a level: packed anew in the spans, the old ones between them. */
static int repack_level(struct build *b, uint32_t level, const struct extent *old_item,
			const struct extent *new_item, struct error *err)
{
	const struct tree_node *old = b->in->tree->node[level];
	size_t n_old = b->in->tree->n_node[level], n_new = n_old, o = 0;
	struct tree_node *to;

	for (struct span *s = b->span; s < b->span + b->n_span; s++) {
		s->n_new = nodes_for(s->n_items, b->per);
		n_new = n_new - s->n_old + s->n_new;
		for (size_t i = s->n_new; i < s->n_old; i++)
			b->spare[b->n_spare++] = old[s->first + i].pblk;
	}
	to = malloc(n_new * sizeof(*to));
	if (!to)
		return error_nomem(err, "moving a file's mapping");
	if (filemap_need_tree(&b->out, err)) {
		free(to);
		return -1;
	}
	b->out.tree->node[level] = to;
	b->out.tree->n_node[level] = n_new;
	b->out.depth = (uint8_t)(level + 1);
	for (struct span *s = b->span; o < n_old;) {
		if (s < b->span + b->n_span && s->first == o) {
			repack_span(b, s, old + o, old_item, new_item, to);
			for (size_t end = o + s->n_old; o < end; o++)
				old_item += old[o].count;
			new_item += s->n_items;
			to += s->n_new;
			s++;
		} else {
			*to = old[o];
			to++->changed = NODE_SAME;
			old_item += old[o].count;
			new_item += old[o++].count;
		}
	}
	return 0;
}

/* The nodes of a level as items of the level above. In place: `item` are the level's own items. */
static void raise_items(const struct tree_node *node, size_t n, const struct extent *item,
			struct extent *to)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t lblk = item->lblk;

		item += node[i].count;
		to[i] = (struct extent){ .pblk = node[i].pblk, .lblk = lblk };
	}
}

/* Turns the spans of a level into those of the level above; they can only become fewer. */
static void raise_spans(struct build *b, uint32_t level)
{
	const struct tree_node *parent = b->in->tree->node[level + 1];
	size_t n = b->n_span, p = 0, end = parent[0].count;

	b->n_span = 0;
	for (size_t i = 0; i < n; i++) {
		struct span s = b->span[i], *up;
		size_t first;

		if (!s.above)
			continue;
		while (end <= s.first)
			end += parent[++p].count;
		first = p;
		while (end < s.first + s.n_old)
			end += parent[++p].count;
		tree_add_span(b, first, p);
		up = &b->span[b->n_span - 1];
		up->n_items += s.n_new - s.n_old; /* may wrap; the old counts follow */
	}
	for (struct span *s = b->span; s < b->span + b->n_span; s++)
		for (size_t i = 0; i < s->n_old; i++)
			s->n_items += parent[s->first + i].count;
}

/* Puts levels of new nodes on top until the root can hold what is left. */
static int grow(struct build *b, size_t items, struct error *err)
{
	struct filemap *m = &b->out;

	while (items > EXTENT_ROOT_RECORDS) {
		size_t n = nodes_for(items, b->per);

		if (m->depth == EXTENT_MAX_DEPTH)
			return error_set(err, ERROR_OPERATION,
					 "the extent tree would get deeper than %u levels",
					 EXTENT_MAX_DEPTH);
		if (filemap_need_tree(m, err))
			return -1;
		m->tree->node[m->depth] = malloc(n * sizeof(struct tree_node));
		if (!m->tree->node[m->depth])
			return error_nomem(err, "growing an extent tree");
		for (size_t i = 0; i < n; i++, items -= b->per)
			m->tree->node[m->depth][i] =
				new_node(b, items < b->per ? (uint32_t)items : b->per);
		m->tree->n_node[m->depth++] = n;
		items = n;
	}
	return 0;
}

static int make_tree(struct build *b, struct error *err)
{
	const struct filemap *in = b->in;
	size_t leaves = in->depth ? in->tree->n_node[0] : 0, n_new = 0;
	const struct extent *old_item = in->ext, *new_item = b->out.ext;
	struct extent *old_up = NULL, *new_up = NULL;
	int rc = -1;

	if (!in->depth)
		return grow(b, b->out.n_ext, err);
	/* No level has more nodes than there are leaves. */
	old_up = malloc(leaves * sizeof(*old_up));
	for (uint32_t l = 0; l < in->depth; l++) {
		if (repack_level(b, l, old_item, new_item, err))
			goto out;
		n_new = b->out.tree->n_node[l];
		if (!new_up)
			new_up = malloc(n_new * sizeof(*new_up));
		if (!old_up || !new_up) {
			error_nomem(err, "moving a file's mapping");
			goto out;
		}
		raise_items(in->tree->node[l], in->tree->n_node[l], old_item, old_up);
		raise_items(b->out.tree->node[l], n_new, new_item, new_up);
		old_item = old_up;
		new_item = new_up;
		if (l + 1 < in->depth)
			raise_spans(b, l);
	}
	rc = grow(b, n_new, err);
out:
	free(old_up);
	free(new_up);
	return rc;
}

/* The taken blocks in the order in which a reader comes to the nodes. */
static void put_together(struct build *b)
{
	size_t k = 0;

	if (b->taken > b->n_take)
		return;
	for (uint32_t l = b->out.depth; l-- > 0;)
		for (size_t i = 0; i < b->out.tree->n_node[l]; i++)
			b->out.tree->node[l][i].pblk = b->take[k++];
}

/* Merges all records and, if that needs fewer nodes or the tree shall be made anew, makes one from
 * the old nodes' blocks, or from others. */
static int minimise(struct build *b, uint32_t block_size, struct error *err)
{
	struct filemap all = { 0 };
	size_t n = b->out.n_ext;

	if (!b->together && !b->out.depth)
		return 0;
	all.ext = malloc(n * sizeof(*all.ext));
	if (!all.ext)
		return error_nomem(err, "merging a file's mapping");
	for (size_t i = 0; i < n; i++)
		tree_emit(&all, 0, b->out.ext[i]);
	if (!b->together && filemap_min_nodes(all.n_ext, block_size) >= filemap_nodes(&b->out)) {
		filemap_release(&all);
		return 0;
	}
	filemap_release(&b->out);
	b->out = all;
	b->n_spare = b->next_spare = b->taken = 0;
	for (uint32_t l = 0; l < b->in->depth; l++)
		for (size_t i = 0; i < b->in->tree->n_node[l]; i++)
			b->spare[b->n_spare++] = b->in->tree->node[l][i].pblk;
	if (grow(b, b->out.n_ext, err))
		return -1;
	if (b->together)
		put_together(b);
	return 0;
}

/* A list of n blocks: NULL if there are none. */
static int copy_blocks(const uint64_t *from, size_t n, uint64_t **to, struct error *err)
{
	if (!n)
		return 0;
	*to = malloc(n * sizeof(**to));
	if (!*to)
		return error_nomem(err, "listing tree blocks");
	memcpy(*to, from, n * sizeof(**to));
	return 0;
}

/* Lists what happened to node blocks, and turns the marks into plain flags. */
static int make_delta(struct build *b, struct filemap_delta *d, struct error *err)
{
	uint64_t *kept = NULL;

	if (b->out.depth) {
		kept = malloc(filemap_nodes(&b->out) * sizeof(*kept));
		if (!kept)
			return error_nomem(err, "listing tree blocks");
	}
	for (uint32_t l = 0; l < b->out.depth; l++) {
		for (size_t i = 0; i < b->out.tree->n_node[l]; i++) {
			struct tree_node *t = &b->out.tree->node[l][i];

			if (t->changed == NODE_KEPT)
				kept[d->n_kept++] = t->pblk;
			t->changed = t->changed != NODE_SAME;
		}
	}
	if (d->n_kept > 1)
		qsort(kept, d->n_kept, sizeof(*kept), sort_compare_u64);
	d->kept = kept;
	d->together = b->together;
	d->n_taken = b->taken;
	d->n_freed = b->n_spare - b->next_spare;
	if (copy_blocks(b->take, d->n_taken, &d->taken, err) ||
	    copy_blocks(b->spare + b->next_spare, d->n_freed, &d->freed, err))
		return -1;
	if (d->n_freed)
		qsort(d->freed, d->n_freed, sizeof(*d->freed), sort_compare_u64);
	return 0;
}

/* Block-mapped: the indirect blocks that the commit writes. */
static int make_indirect_delta(const struct build *b, uint32_t block_size, struct filemap_delta *d,
			       struct error *err)
{
	const char *wrong = filemap_check(&b->out, block_size);

	if (wrong)
		return error_set(err, ERROR_OPERATION, "moves that can't be: %s", wrong);
	if (indirect_rewritten(&b->out, b->move, b->n_move, block_size, &d->number, &d->n_kept,
			       err))
		return -1;
	d->kept = malloc((d->n_kept + 1) * sizeof(*d->kept));
	if (!d->kept)
		return error_nomem(err, "listing indirect blocks");
	for (size_t i = 0; i < d->n_kept; i++)
		d->kept[i] = indirect_block(&b->out, d->number[i]);
	qsort(d->kept, d->n_kept, sizeof(*d->kept), sort_compare_u64);
	return 0;
}

/* The tree blocks that hold the new records, and what happens to those there were. */
static int make_nodes(struct build *b, uint32_t block_size, bool minimal, size_t *need,
		      struct filemap_delta *d, struct error *err)
{
	if (b->in->indirect)
		return make_indirect_delta(b, block_size, d, err);
	if (make_tree(b, err) || (minimal && minimise(b, block_size, err)))
		return -1;
	if (b->taken > b->n_take) {
		if (need)
			*need = b->taken;
		return error_set(err, ERROR_USAGE,
				 "a move needs %zu new tree blocks, %zu are given", b->taken,
				 b->n_take);
	}
	return make_delta(b, d, err);
}

/* Gives memory back: a file moved to one run has few records where it had thousands. (A state
 * keeps a single one elsewhere.) */
static void trim(struct filemap *m)
{
	struct extent *e = m->n_ext > 1 ? realloc(m->ext, m->n_ext * sizeof(*e)) : NULL;

	if (e)
		m->ext = e;
}

int filemap_move(const struct filemap *in, const struct move *moves, size_t n, uint32_t block_size,
		 unsigned how, const uint64_t *take, size_t n_take, size_t *need,
		 struct filemap *out, struct filemap_delta *delta, struct error *err)
{
	struct build b = { .in = in,
			   .move = moves,
			   .n_move = n,
			   .per = geometry_node_records(block_size),
			   .anew = how & (FILEMAP_ANEW | FILEMAP_TOGETHER),
			   .together = how & FILEMAP_TOGETHER,
			   .take = take,
			   .n_take = n_take,
			   .out = { .indirect = in->indirect } };
	struct filemap_delta d = { 0 };
	struct span span[FEW];
	uint64_t spare[FEW];
	size_t spans = in->depth ? n + 1 : 1, nodes;
	const char *wrong;
	int rc = -1;

	if (in->in_clusters)
		return tree_move_clusters(in, moves, n, block_size, how, take, n_take, need, out,
					  delta, err);
	wrong = filemap_check(in, block_size);
	assert((n || b.together) && b.per > 1);
	if (wrong || !in->n_ext || (b.together && in->indirect))
		return error_set(err, ERROR_OPERATION, "a mapping to be moved is damaged: %s",
				 wrong	      ? wrong
				 : !in->n_ext ? "it is empty"
					      : "it has no tree");
	nodes = filemap_nodes(in);
	b.span = spans > FEW ? malloc(spans * sizeof(*b.span)) : span;
	b.spare = nodes > FEW ? malloc(nodes * sizeof(*b.spare)) : spare;
	if (!b.span || !b.spare) {
		error_nomem(err, "moving a file's mapping");
		goto out;
	}
	if (tree_find_spans(&b, err) || tree_make_records(&b, err) ||
	    make_nodes(&b, block_size, how & (FILEMAP_MINIMAL | FILEMAP_TOGETHER), need, &d, err))
		goto out;
	trim(&b.out);
	*out = b.out;
	*delta = d;
	memset(&b.out, 0, sizeof(b.out));
	memset(&d, 0, sizeof(d));
	rc = 0;
out:
	filemap_release(&b.out);
	filemap_delta_release(&d);
	if (b.span != span)
		free(b.span);
	if (b.spare != spare)
		free(b.spare);
	return rc;
}
