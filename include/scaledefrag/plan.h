/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan: all batches of a run, in order. Made by planner_make (or parsed from text), const
 * afterwards.
 *
 * Each batch becomes one transaction. Its copies go only to blocks that are free when it starts;
 * blocks it frees count as free from the next batch on (invariants I1, I5). A file appears at most
 * once in a batch; a file larger than a batch appears in several, in pieces; `last` marks pieces
 * after which its tree is minimal. Between batches files may be worse than they were: a run stops
 * after batches that are marked as `rest` only; the last batch is one. Units: blocks, as in
 * snapshots.
 */
#ifndef SCALEDEFRAG_PLAN_H
#define SCALEDEFRAG_PLAN_H

#include "scaledefrag/error.h"
#include "scaledefrag/filemap.h"
#include "scaledefrag/snapshot.h"

struct plan_file {
	uint32_t ino;
	bool last;		       /* minimal tree after this */
	bool together;		       /* all of its tree is made anew (FILEMAP_TOGETHER) */
	uint64_t first_move, n_move;   /* into plan.move, in logical order; 0: its tree alone */
	uint64_t first_freed, n_freed; /* tree blocks freed, into plan.node */
	uint64_t first_taken, n_taken; /* tree blocks taken, in the order filemap_move wants them */
	uint64_t first_kept, n_kept;   /* tree blocks rewritten in place; filemap_delta.kept */
};

struct plan_batch {
	uint64_t first_file, n_file; /* into plan.file, in inode order */
	uint64_t copy_blocks;	     /* blocks to be copied (unwritten ones not counted) */
	uint64_t
		journal_blocks; /* distinct metadata blocks, exactly as the commit will have them */
	bool rest; /* a run may stop after it: no file has more runs than before the plan */
};

struct plan {
	struct plan_batch *batch;
	size_t n_batch;
	struct plan_file *file;
	size_t n_file, cap_file;
	struct move *move;
	size_t n_move, cap_move;
	uint64_t *node;
	size_t n_node, cap_node;
	size_t cap_batch;
	struct summary predicted; /* after the last batch */
};

/* How filemap_move() does this, on a volume with a journal or (`ordered`) without. */
static inline unsigned plan_how(const struct plan_file *f, bool ordered)
{
	return filemap_how(f->last, ordered) | (f->together ? FILEMAP_TOGETHER : 0);
}

int plan_new(struct plan **out, struct error *err);
void plan_free(struct plan *p); /* NULL is fine */
uint64_t plan_copy_blocks(const struct plan *p);
/* Appends; used by the planner and the parser. plan_add_file takes moves and delta by copy and adds
 * to the batch's copy_blocks; journal_blocks is for the caller to set. */
int plan_begin_batch(struct plan *p, struct error *err);
int plan_add_file(struct plan *p, uint32_t ino, bool last, const struct move *moves, size_t n_moves,
		  const struct filemap_delta *delta, struct error *err);
/* Brings the files of the last batch into inode order, and their moves with them. */
int plan_sort_batch(struct plan *p, struct error *err);

/* The moves of all files of a batch, which lie one after the other. */
const struct move *plan_moves(const struct plan *p, size_t batch, size_t *n);
/*
 * Which of a batch's moves can be copied before the batch before it is committed: those whose
 * targets that one doesn't give back, so that they are free before it and after it. *early: one
 * entry for each of plan_moves(); free(). Of the first batch none are.
 */
int plan_early(const struct plan *p, size_t batch, bool **early, struct error *err);

/* Text form, stable; format: src/model/plan_text.c. parse checks the form only. -1: as put said. */
int plan_write(const struct plan *p, text_fn put, void *ctx);
int plan_parse(const char *text, struct plan **out, struct error *err);

/*
 * Applies batch `index` to the state: mappings by filemap_move, data and tree blocks taken from and
 * given back to `free`. `skip` (may be NULL): per file of the batch (0..n_file-1), true = it was
 * dropped and nothing of it happens. ERROR_OPERATION if the batch does not fit the state; the state
 * may then be half changed: drop it.
 */
int plan_apply(const struct plan *p, size_t index, const bool *skip, struct state *st,
	       struct error *err);

#endif
