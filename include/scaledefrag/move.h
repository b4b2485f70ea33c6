/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * move: the defraggers. They copy the data of a plan, batch by batch, many files at a time, many
 * requests in flight. A batch is written only to blocks that are free in the last durable state
 * (invariant I1; the planner proved it, the guard checked it). The commit's F1 makes the copies
 * durable.
 *
 *   move_open()      the defraggers (threads) start to read
 *   move_start()     for each batch in turn: lets it be written; may be left out
 *   move_start_early() of the batch after it: lets be written what may be early; may be left out
 *   move_batch()     lets it be written, returns when that is done
 *   move_close()     gives up what was not allowed to be written
 *
 * Reads run ahead of what may be written, over the following batches, as far as the buffers go:
 * while one batch is written and committed, the next ones are read. A batch that reads what an
 * earlier one writes waits for the end of that one's copies. Nothing of a batch is written before
 * move_start() or move_batch() is called for it, but for its early copies (plan_early), which go to
 * blocks that are free before and after the batch before it: these, with move_options.early, are
 * written from move_start_early() on, while that batch is copied and committed.
 *
 * A batch's moves, in the order of their destinations, are cut into windows; each defragger claims
 * the next window by an atomic fetch-and-add, reads its sources sorted by physical address and
 * merged across small gaps, then writes the destinations in long runs, with several windows on
 * their way. A large file goes in slices, by several threads.
 */
#ifndef SCALEDEFRAG_MOVE_H
#define SCALEDEFRAG_MOVE_H

#include "scaledefrag/device.h"
#include "scaledefrag/plan.h"

struct move_options {
	unsigned threads;     /* defraggers, 1.. */
	unsigned queue_depth; /* requests in flight, shared by all */
	uint64_t memory; /* bytes for all buffers; the lists of pieces (40 bytes each) count too,
			    but may exceed it */
	uint32_t block_size; /* bytes; of what the plan counts: with bigalloc a cluster */
	/* One head: one defragger, which reads a window as long as the memory allows and then
	 * writes it, and sources are merged across larger gaps. */
	bool rotational;
	bool verify; /* read each copy back after a flush of the batch's copies and compare hashes
		      */
	bool early;  /* some copies of a batch may be written early; not with verify */
	/* Bytes; 0: never. While a batch is written, what is written so far is flushed each time it
	 * comes to so much: the device then has less to do when the commit waits for it. */
	uint64_t flush_step;
	const volatile int *stop; /* 2 or more: give up, *stopped = true; may be NULL */
	void (*progress)(
		void *ctx,
		uint64_t bytes); /* bytes copied since the last call; any thread, one at a time */
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
	bool stopped; /* not all is copied; no batch will be any more */
};

struct mover;

/* `dev` and `p` must stay as they are until move_close(). */
int move_open(struct device *dev, const struct plan *p, const struct move_options *o,
	      struct mover **out, struct error *err);
/* Batches in their order; the one before was waited for by move_batch(). */
void move_start(struct mover *m, size_t batch);
/* The batch before it was started, and I13 holds for these copies (commit_guard's `ahead`). */
void move_start_early(struct mover *m, size_t batch);
/* Until these are written (tests: so that writes come in the same order in each run). Not before
 * move_batch() of the batch before it. */
int move_wait_early(struct mover *m, size_t batch, struct error *err);
/*
 * Batches in their order, each once. `dropped`: n_file entries of this batch; set if 0 is returned
 * and nothing stopped. -1 only for what ends the run (no memory, a queue that can't be opened, a
 * failed flush). After files were dropped, later batches must not be moved any more if they build
 * on them: that is the caller's to know.
 */
int move_batch(struct mover *m, size_t batch, struct move_dropped *dropped, struct move_result *res,
	       struct error *err);
void move_close(struct mover *m); /* waits for what is in flight; NULL is fine */

/* Defraggers that there will be. */
unsigned move_threads(unsigned threads, unsigned queue_depth, bool rotational);
/* The least `memory` that works for this many of them and this block size (bytes). */
uint64_t move_memory_floor(unsigned threads, uint32_t block_size);

#endif
