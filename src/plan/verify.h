/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the two halves of verify share: verify_file.c (one file of a batch), verify.c (batches).
 * Nothing here is known to the rest of the planner.
 */
#ifndef SCALEDEFRAG_PLAN_VERIFY_H
#define SCALEDEFRAG_PLAN_VERIFY_H

#include "scaledefrag/planner.h"

/* Blocks that adjoin in the file and on the disk, of one state. */
struct piece {
	uint64_t lblk, len, pblk;
	bool unwritten;
};

/* What the plan has made of a file so far. */
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

struct check {
	const struct snapshot *snap;
	const struct plan *plan;
	struct image **image; /* by file; NULL: as in the snapshot */
	bool *worse;	      /* by file: it has more runs than in the snapshot */
	size_t n_worse;
	struct rangeset *free;
	size_t batch;
	struct used *used;
	size_t n_used, cap_used;
	struct range *freed;
	size_t n_freed, cap_freed;
	uint64_t *key; /* metadata blocks */
	size_t n_key, cap_key;
	uint64_t copied, copies;
	struct error *err;
};

int verify_wrong(struct check *c, uint32_t ino, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Room for one more in an array. */
int verify_more(struct check *c, void *array, size_t n, size_t *cap, size_t size);
void verify_sort(uint64_t *at, size_t n);

static inline bool verify_inside(uint64_t first, uint64_t n, size_t all)
{
	return first <= all && n <= all - first;
}

/* The file as the plan has made it so far; NULL: no memory. */
struct image *verify_image(struct check *c, size_t file);
void verify_image_free(struct image *im); /* NULL is fine */
uint64_t verify_runs(const struct image *im);
uint64_t verify_blocks(const struct image *im);
/* Checks what the batch does to this file, and does it to its image. */
int verify_file(struct check *c, const struct plan_file *f, struct image *im);

#endif
