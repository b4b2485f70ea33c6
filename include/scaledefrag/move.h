/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * move: the defraggers. Copies the data of one batch, many files at a time, many requests in
 * flight. Writes only to blocks that are free in the last durable state (invariant I1; the planner
 * proved it, the guard checked it). Does not flush: the commit's F1 does.
 *
 * The batch's moves, in the order of their destinations, are cut into windows; each defragger
 * (OpenMP thread) claims the next window by an atomic fetch-and-add, reads its sources sorted by
 * physical address and merged across small gaps, then writes the destinations in long runs. A large
 * file goes in slices, by several threads.
 */
#ifndef SCALEDEFRAG_MOVE_H
#define SCALEDEFRAG_MOVE_H

#include "scaledefrag/device.h"
#include "scaledefrag/plan.h"

struct move_options {
	unsigned threads;     /* defraggers, 1.. */
	unsigned queue_depth; /* requests in flight, shared by all */
	uint64_t memory; /* bytes for all buffers; the list of pieces (40 bytes each) counts too,
			    but may exceed it */
	uint32_t block_size; /* bytes */
	bool verify; /* read each copy back after a flush of the batch's copies and compare hashes
		      */
	const volatile int *stop; /* non-zero: give up, *stopped = true; may be NULL */
	void (*progress)(
		void *ctx,
		uint64_t bytes); /* bytes copied since the last call; any thread, one at a time */
	/* Called by each defragger between reading a window and writing it: the reads may begin
	 * before the writes are allowed. May wait; non-zero: give up, *stopped = true. May be NULL.
	 */
	int (*gate)(void *ctx);
	void *ctx;
};

enum move_drop { MOVE_KEPT, MOVE_SOURCE_FAILED, MOVE_TARGET_FAILED, MOVE_VERIFY_FAILED };

struct move_dropped {		      /* per file of the batch */
	uint8_t why;		      /* enum move_drop */
	uint64_t block;		      /* the first block (pblk) that failed */
	uint64_t bad_target, bad_len; /* MOVE_TARGET_FAILED, MOVE_VERIFY_FAILED: blocks (pblk) not
					 to be used again */
	int sys;		      /* errno */
};

struct move_result {
	uint64_t bytes;		/* copied */
	uint64_t reads, writes; /* requests */
	size_t n_dropped;
	bool stopped;
};

/*
 * `dropped`: n_file entries of this batch, zeroed by the caller; files dropped are marked. -1 only
 * for what ends the run (no memory, a queue that can't be opened, a failed flush under verify).
 */
int move_batch(struct device *dev, const struct plan *p, size_t batch, const struct move_options *o,
	       struct move_dropped *dropped, struct move_result *res, struct error *err);

/* The least `memory` that works for this many threads and this block size (bytes). */
uint64_t move_memory_floor(unsigned threads, uint32_t block_size);

#endif
