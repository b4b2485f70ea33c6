/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan: the container, and its batches applied to a state. Its text form is in plan_text.c. */
#include "scaledefrag/plan.h"

#include "scaledefrag/array.h"
#include "scaledefrag/sort.h"
#include <stdlib.h>
#include <string.h>

int plan_new(struct plan **out, struct error *err)
{
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err, "starting a plan");
	*out = p;
	return 0;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	free(p->batch);
	free(p->file);
	free(p->move);
	free(p->node);
	free(p);
}

uint64_t plan_copy_blocks(const struct plan *p)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < p->n_batch; i++)
		blocks += p->batch[i].copy_blocks;
	return blocks;
}

int plan_begin_batch(struct plan *p, struct error *err)
{
	if (array_reserve(&p->batch, &p->cap_batch, p->n_batch + 1, sizeof(*p->batch), err))
		return -1;
	p->batch[p->n_batch++] = (struct plan_batch){ .first_file = p->n_file };
	return 0;
}

static void add_nodes(struct plan *p, const uint64_t *node, size_t n, uint64_t *first,
		      uint64_t *count)
{
	*first = p->n_node;
	*count = n;
	if (n)
		memcpy(p->node + p->n_node, node, n * sizeof(*node));
	p->n_node += n;
}

int plan_add_file(struct plan *p, uint32_t ino, bool last, const struct move *moves, size_t n_moves,
		  const struct filemap_delta *delta, struct error *err)
{
	size_t nodes = delta->n_freed + delta->n_taken + delta->n_kept;
	struct plan_file f = { .ino = ino, .last = last, .together = delta->together };
	struct plan_batch *b;

	if (!p->n_batch)
		return error_set(err, ERROR_OPERATION, "plan: a file before the first batch");
	if (array_reserve(&p->file, &p->cap_file, p->n_file + 1, sizeof(*p->file), err) ||
	    array_reserve(&p->move, &p->cap_move, p->n_move + n_moves, sizeof(*p->move), err) ||
	    array_reserve(&p->node, &p->cap_node, p->n_node + nodes, sizeof(*p->node), err))
		return -1;
	b = &p->batch[p->n_batch - 1];
	f.first_move = p->n_move;
	f.n_move = n_moves;
	for (size_t i = 0; i < n_moves; i++) {
		p->move[p->n_move++] = moves[i];
		b->copy_blocks += moves[i].unwritten ? 0 : moves[i].len;
	}
	add_nodes(p, delta->freed, delta->n_freed, &f.first_freed, &f.n_freed);
	add_nodes(p, delta->taken, delta->n_taken, &f.first_taken, &f.n_taken);
	add_nodes(p, delta->kept, delta->n_kept, &f.first_kept, &f.n_kept);
	p->file[p->n_file++] = f;
	b->n_file++;
	return 0;
}

/* To sort by inode. */
struct place {
	uint64_t ino;
	size_t index;
};

static void put_in_order(struct plan *p, const struct place *to, const struct plan_file *file,
			 const struct move *move)
{
	struct plan_batch *b = &p->batch[p->n_batch - 1];
	struct plan_file *f = p->file + b->first_file;
	uint64_t first = file[0].first_move, at = first;

	for (size_t i = 0; i < b->n_file; i++) {
		f[i] = file[to[i].index];
		if (f[i].n_move)
			memcpy(p->move + at, move + (f[i].first_move - first),
			       f[i].n_move * sizeof(*move));
		f[i].first_move = at;
		at += f[i].n_move;
	}
}

int plan_sort_batch(struct plan *p, struct error *err)
{
	const struct plan_batch *b = &p->batch[p->n_batch - 1];
	size_t n_move, n = b->n_file;
	const struct plan_file *f = p->file + b->first_file;
	const struct move *m = plan_moves(p, p->n_batch - 1, &n_move);
	struct plan_file *file = malloc((n + 1) * sizeof(*file));
	struct move *move = malloc((n_move + 1) * sizeof(*move));
	struct place *to = malloc((n + 1) * sizeof(*to));
	int rc = file && move && to ? 0 : error_nomem(err, "planning");

	for (size_t i = 0; i < n && !rc; i++) {
		file[i] = f[i];
		to[i] = (struct place){ f[i].ino, i };
	}
	if (!rc && n_move)
		memcpy(move, m, n_move * sizeof(*move));
	if (!rc && !sort_by_key(to, n, sizeof(*to)))
		rc = error_nomem(err, "planning");
	if (!rc && n)
		put_in_order(p, to, file, move);
	free(file);
	free(move);
	free(to);
	return rc;
}

const struct move *plan_moves(const struct plan *p, size_t batch, size_t *n)
{
	const struct plan_batch *b = &p->batch[batch];
	const struct plan_file *f = p->file + b->first_file;

	*n = b->n_file ? (size_t)(f[b->n_file - 1].first_move + f[b->n_file - 1].n_move -
				  f->first_move)
		       : 0;
	return b->n_file ? p->move + f->first_move : p->move;
}

/* What the batch gives back, sorted; free() it. NULL: no memory. */
static struct range *given_back(const struct plan *p, size_t batch, size_t *n)
{
	const struct plan_batch *b = &p->batch[batch];
	size_t n_move, n_node = 0;
	const struct move *m = plan_moves(p, batch, &n_move);
	struct range *out;

	for (uint64_t i = 0; i < b->n_file; i++)
		n_node += p->file[b->first_file + i].n_freed;
	out = malloc((n_move + n_node + 1) * sizeof(*out));
	*n = 0;
	if (!out)
		return NULL;
	for (size_t i = 0; i < n_move; i++)
		out[(*n)++] = (struct range){ m[i].from, m[i].len };
	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &p->file[b->first_file + i];

		for (uint64_t k = 0; k < f->n_freed; k++)
			out[(*n)++] = (struct range){ p->node[f->first_freed + k], 1 };
	}
	if (sort_by_key(out, *n, sizeof(*out)))
		return out;
	free(out);
	return NULL;
}

/* `sorted`: ranges that don't overlap each other. */
static bool overlaps(const struct range *sorted, size_t n, uint64_t start, uint64_t len)
{
	size_t low = 0, high = n;

	while (low < high) { /* low: the number of ranges that start before the end */
		size_t mid = low + (high - low) / 2;

		if (sorted[mid].start < start + len)
			low = mid + 1;
		else
			high = mid;
	}
	return low && sorted[low - 1].start + sorted[low - 1].len > start;
}

int plan_early(const struct plan *p, size_t batch, bool **early, struct error *err)
{
	size_t n, n_back = 0;
	const struct move *m = plan_moves(p, batch, &n);
	bool *out = calloc(n + 1, sizeof(*out));
	struct range *back = out && batch ? given_back(p, batch - 1, &n_back) : NULL;

	if (!out || (batch && !back)) {
		free(out);
		return error_nomem(err, "what may be copied early");
	}
	for (size_t i = 0; batch && i < n; i++)
		out[i] = !overlaps(back, n_back, m[i].to, m[i].len);
	free(back);
	*early = out;
	return 0;
}
