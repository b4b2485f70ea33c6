/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * picture: a state as a report draws it, in a fixed amount of memory however large the volume is:
 * cells of equal numbers of blocks, each with counts of what they hold; where data went, by bands;
 * and free runs by size. Pure; a report keeps one before and one after. Units: blocks.
 */
#ifndef SCALEDEFRAG_PICTURE_H
#define SCALEDEFRAG_PICTURE_H

#include "scaledefrag/snapshot.h"

#define PICTURE_CELLS 4096u
#define PICTURE_BANDS 64u
#define PICTURE_SIZES 48u

enum cell_class {
	CELL_FREE,
	CELL_WHOLE,	 /* of files in no more runs than the ideal number, tree blocks too */
	CELL_FRAGMENTED, /* of files in more */
	CELL_FIXED,	 /* the rest: metadata, files that are left alone */
	CELL_CLASSES
};

/* How a cell, or several, is drawn: one glance has one answer. */
enum cell_look {
	LOOK_WHOLE,	 /* 5. none of those */
	LOOK_FRAGMENTED, /* 3. at least 1/8 of what is in files is in fragmented ones */
	LOOK_MIXED,	 /* 4. at least 1/8 free */
	LOOK_FREE,	 /* 1. at least 7/8 free */
	LOOK_FIXED,	 /* 2. at least half fixed */
	LOOKS
};

struct free_sizes { /* [k]: free runs of 2^k to 2^(k+1) - 1 blocks; the last one: and longer */
	uint64_t runs[PICTURE_SIZES], blocks[PICTURE_SIZES];
};

struct picture {
	uint64_t cell_blocks; /* the last cell may have fewer */
	uint32_t n_cells;     /* at most PICTURE_CELLS */
	uint64_t count[PICTURE_CELLS][CELL_CLASSES];
	uint64_t band_blocks; /* blocks of a band of `flow` */
	/* [from][to]: blocks that were elsewhere in the snapshot; free of detours */
	uint64_t flow[PICTURE_BANDS][PICTURE_BANDS];
};

/* O(records + free runs); free(*out). */
int picture_new(const struct state *st, const struct ideal *id, struct picture **out,
		struct error *err);
/* Of cells [first, first + n), as far as they are there; n > 0. */
enum cell_look picture_look(const struct picture *p, uint32_t first, uint32_t n);
/* Free runs by size. O(free runs). */
void picture_free_sizes(const struct rangeset *free_blocks, struct free_sizes *out);

#endif
