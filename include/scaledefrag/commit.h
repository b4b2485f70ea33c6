/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * commit: makes batches durable. The invariants stand at the head of src/commit/commit.c.
 *
 *   commit_open()     maps the journal inode, opens the journal (refuses: journal_open's reasons);
 *                     nothing is written
 *   commit_quota()    after each scan
 *   commit_begin()    B: needs_recovery set and flushed; once, before the first copy of the first
 *                     batch
 *   per batch:
 *     commit_guard()  I13: `from` is what the inodes map now, `to` is free in the bitmaps, re-read
 *                     from disk
 *     (move_start, move_start_early)
 *     commit_prepare() the batch's metadata is made in memory, while its copies are written; may be
 *                     left out
 *     (move_batch)
 *     commit_batch()  new mappings, bitmaps, descriptors -> overlay -> one transaction ->
 *                     checkpoint -> empty log
 *   commit_end()      E: free count, s_wtime, needs_recovery cleared, flushed
 *   commit_claim()    if anything else is to be written to the device, as discards
 *   commit_leave()    other nodes may use it (its MMP block)
 *   commit_close()
 *
 * Without a journal (src/commit/ordered.c): B clears VALID in s_state, E sets it, and a batch is
 * written in three phases.
 *
 * `before` is the state as it is on the disk; the caller applies the batch to it (plan_apply) after
 * commit_batch succeeded. After an error of commit_batch, commit_begin or commit_end nothing more
 * is written (I12): commit_end then refuses. Thread rule: one thread.
 */
#ifndef SCALEDEFRAG_COMMIT_H
#define SCALEDEFRAG_COMMIT_H

#include "scaledefrag/plan.h"
#include "scaledefrag/volume.h"

/* Bytes that the blocks of a transaction take at most: a constant, so that a plan is the same
 * wherever it is made (I10). */
#define COMMIT_MEMORY_MAX (32ull << 20)

struct commit_options {
	unsigned queue_depth;
	uint64_t memory; /* bytes for the transaction's blocks; 0: COMMIT_MEMORY_MAX */
	/* Wall clock: seconds and nanoseconds. SOURCE_DATE_EPOCH's value where set (see main.c). */
	void (*clock)(void *ctx, uint64_t *seconds, uint32_t *nsec);
	void *clock_ctx;
};

struct commit_counters {
	/* Each inode, node, bitmap, descriptor update of each file, counted once. */
	uint64_t updates;
	uint64_t blocks_logged; /* blocks journaled */
	uint64_t writes;	/* write requests out: log, home, superblock */
	uint64_t flushes;
	uint64_t transactions;
};

struct commit;

int commit_open(struct volume *v, const struct commit_options *o, struct commit **out,
		struct error *err);
/* Blocks one transaction may hold: from the journal's size and a constant cap. For
 * scan_options.limits. */
uint64_t commit_capacity(const struct commit *c);
/*
 * Reads the quota files that the snapshot names, all of them: what they say of an owner is changed
 * in the transactions that change the number of tree blocks of the owner's files. After each scan.
 * ERROR_FSCK, ERROR_USAGE: such a file is broken.
 */
int commit_quota(struct commit *c, const struct snapshot *s, struct error *err);
int commit_begin(struct commit *c, struct error *err); /* a second call does nothing */
/* `ahead`: the next batch's early copies (plan_early) are written while this batch is copied and
 * committed; their targets must be free, too, and of no use to this batch. */
int commit_guard(struct commit *c, const struct plan *p, size_t batch, bool ahead,
		 const struct state *before, struct error *err);
/* Nothing is written; `before` as for commit_batch(), which must follow with the same `before`.
 * What a batch that is not committed leaves in memory is forgotten. */
int commit_prepare(struct commit *c, const struct plan *p, size_t batch, const struct state *before,
		   struct error *err);
/* `skip`: n_file entries or NULL; true = leave this file out. A batch with nothing left writes
 * nothing. */
int commit_batch(struct commit *c, const struct plan *p, size_t batch, const bool *skip,
		 const struct state *before, struct error *err);
int commit_end(struct commit *c, struct error *err); /* without commit_begin: does nothing */
/* Nobody else uses it from now on until commit_leave(); commit_begin() does so too. */
int commit_claim(struct commit *c, struct error *err);
int commit_leave(struct commit *c, struct error *err); /* without a claim: does nothing */
/* Did another node take the file system over (its MMP block)? Then commit_end and commit_leave say
 * which. */
bool commit_lost(struct commit *c);
void commit_get_counters(const struct commit *c, struct commit_counters *out);
void commit_close(struct commit *c); /* NULL is fine; writes nothing */

#endif
