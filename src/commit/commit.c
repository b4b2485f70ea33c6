/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The invariants of a run that is never allowed to lose data. Tests cite their numbers.
 *
 * With a journal (without one: N1 to N6 in ordered.c):
 *  I1  A block is written outside the log by a copy only if it is free in the last durable state
 *      and in every state in flight: one of batch N+1 may be written while N is copied and
 *      committed if its target is free before N and after it (plan_early; N's guard looks).
 *  I2  Copies are flushed before the commit block of their transaction is written.
 *  I3  Log blocks are flushed before their commit block; the commit block is flushed before any
 *      home write.
 *  I4  The log is marked empty only after the home writes are flushed; needs_recovery is set and
 *      flushed before the log is used, and cleared last. The superblock is never part of a
 *      transaction, and each superblock write changes one 512-byte sector, so that a torn one is
 *      old or new.
 *  I5  Blocks freed by transaction N are reused or discarded only when N is durable and can no
 *      longer be replayed over them (log emptied first).
 *  I7  A transaction fits the log and the memory limit: the planner sees to it.
 *  I8  Any prefix of the writes, with any subset of the unflushed ones, torn at sectors, replays to
 *      a clean file system with equal content (tests/crash).
 * Always:
 *  I6  Nothing but physical addresses changes: size, flags, unwritten state, holes, times, xattrs,
 *      inode numbers stay. (What does change: i_blocks and free counts by tree blocks,
 *      BLOCK_UNINIT, bitmaps, checksums; the superblock's counts, s_wtime, needs_recovery; the
 *      journal superblock's sequence and features.)
 *  I9  Before the first write, every block claimed by an inode or by metadata is claimed once, and
 *      the claims equal the block bitmaps and the groups' free counts (scan/crosscheck.c).
 *  I10 Same input, same options: same plan, and with SOURCE_DATE_EPOCH the same image bytes,
 *      whatever the threads, the memory of the machine or the time (plan/).
 *  I11 After a run that ended by itself, a second one plans 0 bytes; a run with nothing to move
 *      writes nothing at all (plan/planner.c, engine.c).
 *  I12 A failed flush, or a failed write of log, home block or superblock, stops everything:
 *      nothing more is written, a flush is never retried, and the message names the command.
 *  I13 Before a batch's first write, `from` is what the inode maps now and `to` is free in the
 *      bitmaps, re-read from disk: else stop before anything is written (it is our bug).
 *
 * How they are kept. libext2fs works on an overlay, so that what it writes can only land in memory;
 * the overlay's dirty blocks are the transaction. Barriers: superblock_begin (B) before the first
 * copy; journal_commit's F1, whose flush covers the batch's copies too (I2), F2, F3, F4; after F4
 * the blocks that the batch freed are really free (I5). superblock_end (E) comes last. I1 and I5
 * rest on the plan: each `to` is free when its copy may start (I13 looks), and no block is both
 * given back and taken in one batch (changes_check).
 */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPACITY_FLOOR 64u /* blocks, however little memory is allowed */

int fs_error(const struct commit *c, long code, struct error *err, const char *fmt, ...)
{
	char what[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_set(err, ERROR_OPERATION, "%s of %s: %s; run: e2fsck -f %s", what, c->name,
			 error_message(code), c->name);
}

static uint32_t crc32c(uint32_t seed, const void *buf, size_t len)
{
	return ext2fs_crc32c_le(seed, buf, len);
}

static int open_journal(struct commit *c, struct error *err)
{
	struct journal_place place = {
		.block_size = c->geo->block_size,
		.metadata_csum = c->geo->metadata_csum,
		.is_64bit = ext2fs_has_feature_64bit(c->fs->super),
		.fs_blocks = c->geo->blocks,
		.name = c->name,
		.crc32c = crc32c,
	};
	struct range *run;
	int ret;

	if (c->geo->ordered)
		return ordered_open(c, err);
	if (place_journal(c, &run, &place.n_run, err))
		return -1;
	place.run = run;
	ret = journal_open(c->dev, &place, &c->journal, err);
	free(run);
	return ret;
}

static uint64_t choose_capacity(const struct commit *c)
{
	uint64_t bytes =
		c->o.memory && c->o.memory < COMMIT_MEMORY_MAX ? c->o.memory : COMMIT_MEMORY_MAX;
	/* Without a journal bitmaps are kept twice. */
	uint64_t blocks = bytes / c->geo->block_size / (c->ordered ? 2 : 1);
	uint64_t log;

	if (blocks < CAPACITY_FLOOR)
		blocks = CAPACITY_FLOOR;
	if (c->ordered)
		return blocks;
	log = journal_capacity(c->journal);
	return blocks < log ? blocks : log;
}

int commit_open(struct volume *v, const struct commit_options *o, struct commit **out,
		struct error *err)
{
	struct commit *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err, "the commit");
	c->v = v;
	c->dev = volume_device(v);
	c->geo = volume_geometry(v);
	c->clusters = geometry_in_clusters(c->geo);
	c->name = volume_arg(v);
	c->o = *o;
	if (overlay_new(c->dev, c->geo->block_size, &c->ov, err) ||
	    volume_fs_on(v, overlay_device(c->ov), &c->fs, err) || superblock_fits(c, err) ||
	    open_journal(c, err)) {
		commit_close(c);
		return -1;
	}
	c->capacity = choose_capacity(c);
	*out = c;
	return 0;
}

void commit_close(struct commit *c)
{
	if (!c)
		return;
	journal_close(c->journal);
	ordered_close(c);
	quota_free(c->quota);
	mmp_free(c->mmp);
	if (c->fs) {
		/* Never ext2fs_close: it writes. */
		c->fs->flags &= ~EXT2_FLAG_DIRTY;
		ext2fs_free(c->fs);
	}
	overlay_free(c->ov);
	free(c->built.list);
	free(c);
}

uint64_t commit_capacity(const struct commit *c)
{
	return c->capacity;
}

void commit_get_counters(const struct commit *c, struct commit_counters *out)
{
	struct journal_counters j;

	if (c->ordered) {
		ordered_get_counters(c, out);
	} else {
		journal_get_counters(c->journal, &j);
		*out = (struct commit_counters){
			.blocks_logged = j.blocks_logged,
			.writes = j.writes,
			.flushes = j.flushes,
			.transactions = j.transactions,
		};
	}
	out->updates = c->updates;
	out->writes += c->super_writes;
	out->flushes += c->super_flushes;
}

static int check_alive(struct commit *c, struct error *err)
{
	if (mmp_lost(c, err))
		return -1;
	if (!c->dead)
		return 0;
	return error_set(err, ERROR_OPERATION,
			 "writing to %s failed before, nothing more is written; run: e2fsck -p %s",
			 c->name, c->name);
}

/* Nothing more is written, nor by those who copy meanwhile (I12). */
static void stop_writing(struct commit *c)
{
	c->dead = true;
	atomic_store(&c->dev->dead, true);
}

/* A superblock write or flush that failed (I12). */
static int fail_super(struct commit *c, struct error *err)
{
	struct error why = *err;

	stop_writing(c);
	error_set(err, why.kind, "%s; the superblock of %s may be old; run: e2fsck -p %s", why.text,
		  c->name, c->name);
	err->sys = why.sys;
	return -1;
}

int commit_begin(struct commit *c, struct error *err)
{
	if (check_alive(c, err))
		return -1;
	if (c->begun)
		return 0;
	if (commit_claim(c, err))
		return -1;
	if (superblock_begin(c, err))
		return fail_super(c, err);
	c->begun = true;
	return 0;
}

/* What was built is committed, or given up: the overlay is as new. */
static void clear(struct commit *c)
{
	overlay_reset(c->ov);
	ext2fs_flush_icache(c->fs);
	free(c->built.list);
	c->built = (struct changes){ 0 };
	c->prepared = false;
}

/* Gives up what was built: the descriptors in memory are again what the disk holds. */
static int forget(struct commit *c, struct error *err)
{
	int ret = bitmaps_restore(c, &c->built, err);

	c->updates = c->updates_before;
	clear(c);
	if (ret)
		c->dead = true; /* descriptors in memory no longer match the disk */
	return ret;
}

bool commit_lost(struct commit *c)
{
	struct error err = ERROR_INIT;

	return mmp_lost(c, &err);
}

int commit_end(struct commit *c, struct error *err)
{
	if (check_alive(c, err))
		return -1;
	if (!c->begun)
		return 0;
	if (c->prepared && forget(c, err)) /* the free count is the sum of the descriptors' */
		return -1;
	if ((c->ordered && ordered_end(c, err)) || superblock_end(c, err))
		return fail_super(c, err);
	c->begun = false;
	return 0;
}

int commit_claim(struct commit *c, struct error *err)
{
	return check_alive(c, err) || mmp_claim(c, err) ? -1 : 0;
}

int commit_leave(struct commit *c, struct error *err)
{
	if (mmp_lost(c, err))
		return -1;
	return c->dead ? 0 : mmp_release(c, err);
}

/* The batch's metadata into the overlay; the disk is not touched. */
static int build(struct commit *c, const struct plan *p, const struct plan_batch *b,
		 const bool *skip, const struct state *before, struct error *err)
{
	struct changes *changes = &c->built;

	for (uint64_t i = 0; i < b->n_file; i++) {
		struct remap r;
		size_t groups;
		int rc;

		if (skip && skip[i])
			continue;
		if (remap_compute(c, p, &p->file[b->first_file + i], before, &r, err))
			return -1;
		rc = remap_changes(c, p, &r, changes, &groups, err) || remap_write(c, &r, err);
		remap_release(&r);
		if (rc)
			return -1;
		c->updates += 2 * groups; /* bitmap and descriptor */
	}
	if (changes_check(c, changes, err))
		return -1;
	return c->ordered ? ordered_bitmaps(c, changes, err)
			  : bitmaps_apply(c, changes, false, err);
}

/* The overlay's dirty blocks, in order. free() *out. */
static int collect(const struct commit *c, const struct plan_batch *b, struct journal_block **out,
		   size_t *n, struct error *err)
{
	/* The block that holds the superblock is never part of a transaction (I4). */
	uint64_t super = c->geo->block_size == 1024 ? 1 : 0, from = 0;
	size_t count = overlay_dirty_count(c->ov), i = 0;
	struct journal_block *list;

	if (count > c->capacity || count > b->journal_blocks + quota_blocks(c->quota))
		return error_set(err, ERROR_OPERATION,
				 "internal error: a batch changes %zu metadata blocks of %s, "
				 "planned were %llu of at most %llu",
				 count, c->name, (unsigned long long)b->journal_blocks,
				 (unsigned long long)c->capacity);
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return error_nomem(err, "a transaction");
	while (i < count && overlay_dirty_next(c->ov, from, &list[i].block, &list[i].data)) {
		if (list[i].block <= super) {
			free(list);
			return error_set(err, ERROR_OPERATION,
					 "internal error: a batch changes the superblock of %s",
					 c->name);
		}
		from = list[i++].block + 1;
	}
	*out = list;
	*n = i;
	return 0;
}

static int write_batch(struct commit *c, const struct journal_block *list, size_t n,
		       struct error *err)
{
	uint64_t seconds;
	uint32_t nsec;

	if (c->ordered)
		return ordered_commit(c, list, n, err);
	c->o.clock(c->o.clock_ctx, &seconds, &nsec);
	return journal_commit(c->journal, list, n, seconds, nsec, c->o.queue_depth, err);
}

int commit_prepare(struct commit *c, const struct plan *p, size_t batch, const struct state *before,
		   struct error *err)
{
	struct error why = ERROR_INIT;

	if (check_alive(c, err) || (c->prepared && forget(c, err)))
		return -1;
	c->updates_before = c->updates;
	if (build(c, p, &p->batch[batch], NULL, before, err)) {
		forget(c, &why);
		return -1;
	}
	c->prepared = true;
	c->prepared_batch = batch;
	return 0;
}

static bool leaves_out(const struct plan_batch *b, const bool *skip)
{
	for (uint64_t i = 0; skip && i < b->n_file; i++)
		if (skip[i])
			return true;
	return false;
}

int commit_batch(struct commit *c, const struct plan *p, size_t batch, const bool *skip,
		 const struct state *before, struct error *err)
{
	const struct plan_batch *b = &p->batch[batch];
	struct journal_block *list = NULL;
	struct error why = ERROR_INIT;
	size_t n = 0;
	int ret = 0;

	if (check_alive(c, err))
		return -1;
	if (!c->begun) {
		c->dead = true;
		return error_set(err, ERROR_OPERATION,
				 "internal error: a batch without needs_recovery set on %s; "
				 "nothing was written",
				 c->name);
	}
	if (c->prepared && (c->prepared_batch != batch || leaves_out(b, skip)) && forget(c, err))
		return -1;
	if (!c->prepared) {
		c->updates_before = c->updates;
		ret = build(c, p, b, skip, before, err);
	}
	if (ret || (c->built.n && collect(c, b, &list, &n, err))) {
		forget(c, &why); /* nothing of it is written */
		return -1;
	}
	if (n && write_batch(c, list, n, err)) {
		stop_writing(c); /* and descriptors in memory no longer match the disk */
		ret = -1;
	}
	free(list);
	clear(c);
	return ret;
}
