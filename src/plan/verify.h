/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the two halves of verify share: verify_file.c (one file of a batch), verify.c (batches).
 * Nothing here is known to the rest of the planner.
 */
#ifndef SCALEDEFRAG_PLAN_VERIFY_H
#define SCALEDEFRAG_PLAN_VERIFY_H

#include "scaledefrag/planner.h"

/* Blocks (with bigalloc too, where all else is in clusters) that adjoin in the file and on the
 * disk, of one state. */
struct piece {
	uint64_t lblk, len, pblk;
	bool unwritten;
};

/* What the plan has made of a file so far. Both arrays lie behind it, in the same allocation. */
struct image {
	struct piece *piece;
	size_t n_piece;
	uint64_t *node; /* sorted */
	size_t n_node;
};

enum use { USE_TARGET, USE_NODE };

/* Blocks that a batch writes to. */
struct used {
	uint64_t start, len;
	uint32_t ino;
	enum use use;
};

/* A file while a batch is checked: scratch, reused from file to file. */
struct draft {
	struct image im;
	size_t cap_piece, cap_node;
};

/* Which blocks of one kind a batch changes: by number, the last batch that did, plus 1. */
struct seen {
	uint32_t *batch;
	size_t n;
};

/* Each half has one of its own, and uses its part of it. */
struct check {
	const struct snapshot *snap;
	const struct plan *plan;
	uint32_t *ino;	      /* by file: sorted, and close together */
	struct image **image; /* by file; NULL: as in the snapshot */
	bool *worse;	      /* by file: it has more runs than in the snapshot */
	size_t n_worse;
	struct rangeset *free;
	size_t batch;
	struct used *used;
	size_t n_used, cap_used;
	struct range *freed, *was_freed; /* by this batch, and by the one before it */
	size_t n_freed, cap_freed, n_was_freed, cap_was_freed;
	struct seen bitmap, descriptors; /* by group; by block of descriptors */
	uint64_t last_inodes;		 /* block of the inode table, of the file before */
	uint64_t *node;			 /* tree blocks that the batch changes */
	size_t n_node, cap_node;
	uint64_t metadata; /* blocks counted, besides `node` */
	struct draft old, next;
	uint64_t *own; /* scratch */
	size_t cap_own;
	uint64_t copied, copies;
	struct error *err;
};

int verify_wrong(struct check *c, uint32_t ino, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Room for `want` items in an array. */
int verify_more(struct check *c, void *array, size_t want, size_t *cap, size_t size);
/* Without memory false. */
bool verify_sort(struct check *c, uint64_t *at, size_t n);

static inline bool verify_inside(uint64_t first, uint64_t n, size_t all)
{
	return first <= all && n <= all - first;
}

/* In clusters, of `ratio` blocks. */
uint64_t verify_runs(const struct image *im, uint64_t ratio);
uint64_t verify_blocks(const struct image *im, uint64_t ratio);
/* Lists the blocks that the batch takes and frees for this file. */
int verify_list_file(struct check *c, const struct plan_file *f);
/* Checks what the batch does to this file, and makes its new image. */
int verify_file(struct check *c, const struct plan_file *f, size_t file);
void verify_push(struct image *im, struct piece p);
/* bigalloc: its moves of whole clusters; makes the pieces of `to`. */
int verify_clusters(struct check *c, const struct plan_file *f, const struct image *im,
		    struct image *to);
/* Block-mapped: its indirect blocks, with its moves done. */
int verify_indirect(struct check *c, const struct plan_file *f, const struct image *im);

#endif
