/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan: the container, and its batches applied to a state. Its text form is in plan_text.c. */
#include "scaledefrag/plan.h"

#include "scaledefrag/array.h"
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
