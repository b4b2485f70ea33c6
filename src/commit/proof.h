/* SPDX-License-Identifier: GPL-2.0-or-later */
/* proof: a second opinion on a new mapping; shares no code with filemap_move. Pure. */
#ifndef SCALEDEFRAG_COMMIT_PROOF_H
#define SCALEDEFRAG_COMMIT_PROOF_H

#include "scaledefrag/indirect.h"

/* Is `after` the mapping `before` with these moves done, and nothing else? NULL, or a static text
 * that says what is wrong. The mappings are in blocks, the moves in clusters of `ratio` of them.
 * O(records + moves). */
const char *proof_mapping(const struct filemap *before, const struct move *m, uint64_t n,
			  uint64_t ratio, const struct filemap *after);

/*
 * Tree blocks (both mappings have passed filemap_check): do those that are not rewritten hold on
 * the disk what they shall hold, and do the lists of `d` account for all of them? -1: no memory.
 * *wrong: NULL, or a static text. O(records + nodes log nodes).
 */
int proof_nodes(const struct filemap *before, const struct filemap *after,
		const struct filemap_delta *d, const char **wrong, struct error *err);

/*
 * Block-mapped: does `d` name the indirect blocks that have to be written, and no others: those
 * that moved, and those that point to what moved? As proof_nodes. O(blocks moved).
 */
int proof_indirect(const struct filemap *after, const struct move *m, uint64_t n,
		   uint32_t block_size, const struct filemap_delta *d, const char **wrong,
		   struct error *err);

#endif
