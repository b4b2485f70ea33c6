/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two halves of filemap_move share this: records.c (records) and tree.c (tree blocks). */
#ifndef SCALEDEFRAG_MODEL_TREE_H
#define SCALEDEFRAG_MODEL_TREE_H

#include "scaledefrag/filemap.h"

/* Nodes [first, first + n_old) of a level become n_new nodes. */
struct span {
	size_t first, n_old, n_new;
	size_t n_items; /* that the new nodes hold */
	bool above;	/* what the parent holds changes */
};

struct build {
	const struct filemap *in;
	const struct move *move;
	size_t n_move;
	uint32_t per;	    /* items a node holds */
	bool anew;	    /* no block of `in` is written */
	bool together;	    /* all of the tree is made anew */
	struct filemap out; /* being made */
	struct span *span;  /* of the present level */
	size_t n_span;
	uint64_t *spare; /* node blocks given up, oldest first */
	size_t n_spare, next_spare;
	const uint64_t *take;
	size_t n_take, taken; /* taken may exceed n_take: that's how many are needed */
};

/* bigalloc: the same mapping with its records, in blocks; borrowed. Tree blocks stay in clusters:
 * here they are names. */
struct filemap tree_in_blocks(const struct filemap *map);
/* filemap_move where `in` has `rec`. */
int tree_move_clusters(const struct filemap *in, const struct move *moves, size_t n,
		       uint32_t block_size, unsigned how, const uint64_t *take, size_t n_take,
		       size_t *need, struct filemap *out, struct filemap_delta *delta,
		       struct error *err);
/* Appends a piece; fills up the record before it first, where they adjoin and that isn't below
 * `floor`. The piece is no longer than a record, so that one record is added at most. */
void tree_emit(struct filemap *m, size_t floor, struct extent piece);
/* Adds nodes [first, last] to the spans, as part of the last one if they overlap. */
void tree_add_span(struct build *b, size_t first, size_t last);
/* Checks the moves and finds the leaves that they touch. At depth 0 there is one "leaf": the root.
 */
int tree_find_spans(struct build *b, struct error *err);
/* Makes the new records, and counts those of each span. */
int tree_make_records(struct build *b, struct error *err);

#endif
