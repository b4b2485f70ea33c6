/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * planner: snapshot in, plan out; pure and deterministic (invariant I10): no clock, no threads'
 * timing, no machine.
 *
 *   planner_make()    placement (where each file should end up) and schedule (in which batches), on
 * simulated states, until nothing improves; so a second plan made from the result is empty (I11)
 *   planner_verify()  proof of a plan by code of its own: shares nothing with planner_make but
 * filemap_min_nodes and the two documents
 */
#ifndef SCALEDEFRAG_PLANNER_H
#define SCALEDEFRAG_PLANNER_H

#include "scaledefrag/plan.h"

/*
 * FILES: files in as few runs as can be, for the least blocks written
 * FREE: that, and then the free space in as few, as long runs as can be; or with slab_blocks as
 * many wholly free slabs as can be SHRINK: FILES, and then all files as low as they go, so that the
 * volume can be made smaller
 * LAYOUT: FILES, and files in the snapshot's order, low, but for those that are near it already
 */
enum plan_mode { PLAN_FILES, PLAN_FREE, PLAN_SHRINK, PLAN_LAYOUT };

struct planner_options {
	enum plan_mode mode;
	/*
	 * A fragment at least this long counts as good; 0: none does. LAYOUT: the same of
	 * neighbourhoods; 0: those of a MiB.
	 */
	uint64_t min_extent_blocks;
	/*
	 * FREE: blocks of a slab of the device, 0: slabs don't count; and the first block of the
	 * volume that begins a slab (below slab_blocks).
	 */
	uint64_t slab_blocks, slab_offset;
	/*
	 * LAYOUT: files of so many blocks at least that are to move begin at a multiple of that, as
	 * the device counts (0: they don't), and the first block of the volume that is one (below
	 * align_blocks).
	 */
	uint64_t align_blocks, align_offset;
	/* LAYOUT: per cent of the free blocks that may be left behind files that grow. */
	unsigned reserve;
	uint64_t min_runs; /* files with fewer runs are good enough */
	/*
	 * A run will stop at the last `rest` before it has copied more than so many blocks; 0: any
	 * number. Then what gains most for each block comes first.
	 */
	uint64_t budget_blocks;
	unsigned threads; /* 0: one; the plan is the same for any number of them */
	/* Asked with each batch, by any thread: not 0 ends planning with ERROR_STOPPED; may be
	 * NULL. */
	int (*cancel)(void *ctx);
	void *cancel_ctx;
};

int planner_make(const struct snapshot *s, const struct planner_options *o, struct plan **out,
		 struct error *err);

/*
 * Checks, batch by batch: every `from` is what the file maps then; every `to` and every taken tree
 * block is free when the batch starts and used once in it; nothing freed by a batch is written by
 * it; fixed and avoided blocks are never touched; lengths and order; batch limits (journal blocks
 * counted anew, copy blocks); tree blocks freed/kept/taken add up and suffice; after a batch marked
 * as `rest`, and the last one is, no file has more runs than it began with; the prediction equals
 * the result. `threads`: two are of use. -1 with ERROR_OPERATION and "plan: batch B, inode I: ..."
 * for the first violation.
 */
int planner_verify(const struct snapshot *s, const struct plan *p, unsigned threads,
		   struct error *err);

#endif
