/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * apply: one batch of a plan, applied to a state.
 *
 * All that the batch writes to leaves the free set first; what it frees comes back only when every
 * file of the batch is done (I1, I5). Plans come from text too: whatever doesn't fit is an error,
 * never an assertion.
 */
#include "scaledefrag/plan.h"

#include <stdlib.h>
#include <string.h>

struct apply {
	const struct plan *plan;
	size_t batch;
	struct state *st;
};

static int misfit(const struct apply *a, const struct plan_file *f, struct error *err,
		  const char *what, uint64_t block)
{
	return error_set(err, ERROR_OPERATION, "plan: batch %zu, inode %lu: %s (block %llu)",
			 a->batch, (unsigned long)f->ino, what, (unsigned long long)block);
}

static int use_blocks(const struct apply *a, const struct plan_file *f, uint64_t start,
		      uint64_t len, struct error *err)
{
	if (!len || !rangeset_contains(a->st->free, start, len))
		return misfit(a, f, err, "writes to blocks that are not free", start);
	return rangeset_remove(a->st->free, start, len, err);
}

static int give_blocks(const struct apply *a, const struct plan_file *f, uint64_t start,
		       uint64_t len, struct error *err)
{
	if (rangeset_overlaps(a->st->free, start, len))
		return misfit(a, f, err, "frees blocks that are free", start);
	return rangeset_add(a->st->free, start, len, err);
}

/* Is this list of node blocks what the plan says? */
static int check_nodes(const struct apply *a, const struct plan_file *f, const char *what,
		       const uint64_t *node, size_t n, uint64_t first, uint64_t n_plan,
		       struct error *err)
{
	const uint64_t *said = a->plan->node + first;

	if (n != n_plan)
		return misfit(a, f, err, what, n < n_plan ? said[n] : node[n_plan]);
	for (size_t i = 0; i < n; i++)
		if (node[i] != said[i])
			return misfit(a, f, err, what, said[i]);
	return 0;
}

static int check_delta(const struct apply *a, const struct plan_file *f,
		       const struct filemap_delta *d, struct error *err)
{
	if (check_nodes(a, f, "tree blocks freed differ", d->freed, d->n_freed, f->first_freed,
			f->n_freed, err) ||
	    check_nodes(a, f, "tree blocks taken differ", d->taken, d->n_taken, f->first_taken,
			f->n_taken, err) ||
	    check_nodes(a, f, "tree blocks kept differ", d->kept, d->n_kept, f->first_kept,
			f->n_kept, err))
		return -1;
	return 0;
}

/* Targets leave the free set, and the file gets its new mapping. */
static int apply_file(const struct apply *a, const struct plan_file *f, struct error *err)
{
	const struct plan *p = a->plan;
	const struct snapshot *s = a->st->snap;
	const struct snapshot_file *file = snapshot_find(s, f->ino);
	struct filemap_delta d = { 0 };
	struct filemap map = { 0 };
	struct error why = ERROR_INIT;
	size_t index, need = 0;
	int rc = -1;

	if (!file || (!f->n_move && !(f->together && f->n_taken)))
		return misfit(a, f, err, file ? "nothing to move" : "not in the snapshot", 0);
	index = (size_t)(file - s->file);
	for (uint64_t i = f->first_move; i < f->first_move + f->n_move; i++)
		if (use_blocks(a, f, p->move[i].to, p->move[i].len, err))
			return -1;
	for (uint64_t i = f->first_taken; i < f->first_taken + f->n_taken; i++)
		if (use_blocks(a, f, p->node[i], 1, err))
			return -1;
	if (filemap_move(state_map(a->st, index), p->move + f->first_move, f->n_move,
			 s->geo.block_size, plan_how(f, s->geo.ordered), p->node + f->first_taken,
			 f->n_taken, &need, &map, &d, &why))
		return error_set(err, ERROR_OPERATION, "plan: batch %zu, inode %lu: %s", a->batch,
				 (unsigned long)f->ino, why.text);
	if (check_delta(a, f, &d, err) || state_set_map(a->st, index, &map, err))
		goto out;
	rc = 0;
out:
	filemap_release(&map);
	filemap_delta_release(&d);
	return rc;
}

static int free_old(const struct apply *a, const struct plan_file *f, struct error *err)
{
	const struct plan *p = a->plan;

	for (uint64_t i = f->first_move; i < f->first_move + f->n_move; i++)
		if (give_blocks(a, f, p->move[i].from, p->move[i].len, err))
			return -1;
	for (uint64_t i = f->first_freed; i < f->first_freed + f->n_freed; i++)
		if (give_blocks(a, f, p->node[i], 1, err))
			return -1;
	return 0;
}

int plan_apply(const struct plan *p, size_t index, const bool *skip, struct state *st,
	       struct error *err)
{
	struct apply a = { .plan = p, .batch = index, .st = st };
	const struct plan_file *f;
	const struct plan_batch *b;

	if (index >= p->n_batch)
		return error_set(err, ERROR_OPERATION, "plan: there is no batch %zu", index);
	b = &p->batch[index];
	f = p->file + b->first_file;
	for (uint64_t i = 0; i < b->n_file; i++) {
		if (i && f[i].ino <= f[i - 1].ino)
			return misfit(&a, &f[i], err, "files out of order", 0);
		if (!(skip && skip[i]) && apply_file(&a, &f[i], err))
			return -1;
	}
	for (uint64_t i = 0; i < b->n_file; i++)
		if (!(skip && skip[i]) && free_old(&a, &f[i], err))
			return -1;
	return 0;
}
