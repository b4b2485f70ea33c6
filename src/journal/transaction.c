/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One transaction, start to end. The order of writes and flushes is what makes a run safe:
 *
 *   E1  log data and descriptors, zeros in the commit slot and the block behind it, journal
 *       superblock {s_start = first, s_sequence = tid}                                  F1
 *   E2  commit block                                                                    F2
 *   E3  home blocks                                                                     F3
 *   E4  journal superblock {s_start = 0, s_sequence = tid + 1}                          F4
 *
 * F1: the commit block must not be durable before file data, log and superblock (I2, I3).
 * F2: no home block may change before the commit block is durable (I3).
 * F3: the log must not be emptied before the home blocks are durable (I4).
 * F4: the next transaction overwrites the same log blocks and may reuse freed blocks (I5).
 *
 * The zeros: a torn commit block is then absent or valid, and an old block behind ours can't be
 * taken for the next transaction. We always start at the first log block and never wrap: e2fsck and
 * the kernel disagree on where a log with fast commits wraps.
 */
#include "log.h"
#include "scaledefrag/blockwriter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All memory of a transaction; taken before the first write, so that none can be missing later. */
struct transaction {
	struct blockwriter_block *piece;
	struct log_tag *tag;
	uint8_t *descriptor; /* all of them, in a row */
	uint8_t *commit;
	struct blockwriter writer;
	uint64_t need; /* log blocks */
	uint32_t tid;
};

static void transaction_release(struct transaction *t)
{
	free(t->piece);
	free(t->tag);
	free(t->descriptor);
	free(t->commit);
	blockwriter_close(&t->writer);
}

static int transaction_init(const struct journal *j, struct transaction *t, size_t n,
			    unsigned depth, struct error *err)
{
	size_t bs = j->format.block_size;

	*t = (struct transaction){ .need = log_need(j, n) };
	t->piece = calloc(t->need, sizeof(*t->piece));
	t->tag = calloc(n, sizeof(*t->tag));
	t->descriptor = malloc((t->need - n - 2) * bs);
	t->commit = malloc(bs);
	if (t->piece && t->tag && t->descriptor && t->commit &&
	    !blockwriter_open(&t->writer, j->dev, bs, t->need, depth, err))
		return 0;
	transaction_release(t);
	return error_nomem(err, "a journal transaction");
}

/* I12: the journal is of no more use, and the user must know what brings the disk back in order. */
static int fail(struct journal *j, struct error *err)
{
	struct error why = *err;

	j->dead = true;
	error_set(err, ERROR_OPERATION,
		  "%s; nothing more was written, the file system is safe but needs its journal "
		  "replayed; run: e2fsck -p %s",
		  why.text, j->name);
	err->sys = why.sys;
	return -1;
}

static int flush(struct journal *j, struct error *err)
{
	j->count.flushes++;
	return device_flush(j->dev, err);
}

static int write_pieces(struct journal *j, struct transaction *t, size_t n, struct error *err)
{
	uint64_t before = t->writer.writes;
	int ret = blockwriter_write(&t->writer, t->piece, n, err);

	j->count.writes += t->writer.writes - before;
	return ret;
}

/* The whole block is written, but only bytes of its first sector change: torn, it is old or new. */
static int write_super(struct journal *j, uint32_t start, uint32_t sequence, struct error *err)
{
	size_t bs = j->format.block_size;

	j->super.start = start;
	j->super.sequence = sequence;
	format_super_update(j->super_buf, &j->super, j->format.crc32c);
	j->count.writes++;
	return device_write(j->dev, j->super_buf, j->run[0].block * bs, bs, err);
}

/*
 * A clean log still holds old transactions. Ours must have a tid after all of them that lie where
 * it goes, and in the block behind; serial arithmetic, since tids wrap.
 */
static int look_for_old_tids(struct journal *j, struct transaction *t, struct error *err)
{
	size_t bs = j->format.block_size;
	uint64_t end = j->first + t->need + 1;
	uint64_t most = t->writer.stage_size / bs;

	if (end > j->last)
		end = j->last;
	while (j->scanned < end) {
		uint64_t left, at = log_block(j, j->scanned, &left);
		uint64_t n = end - j->scanned;

		n = n < left ? n : left;
		n = n < most ? n : most;
		if (device_read(j->dev, t->writer.stage, at * bs, n * bs, err))
			return -1;
		for (uint64_t i = 0; i < n; i++) {
			uint32_t type, tid;

			if (format_header(t->writer.stage + i * bs, &type, &tid) &&
			    (int32_t)(tid - j->newest) > 0)
				j->newest = tid;
		}
		j->scanned += (uint32_t)n;
	}
	return 0;
}

/* Lays out the log: each descriptor is followed by its blocks; then zeros for commit and end. */
static void build_log(const struct journal *j, struct transaction *t,
		      const struct journal_block *blocks, size_t n)
{
	const struct log_format *f = &j->format;
	uint32_t tags = format_tags_per_descriptor(f);
	uint8_t *descriptor = t->descriptor;
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		t->tag[i] = (struct log_tag){ blocks[i].block, blocks[i].data };
	for (size_t i = 0; i < n; i += tags, descriptor += f->block_size) {
		size_t here = n - i < tags ? n - i : tags;

		format_descriptor(f, descriptor, t->tid, t->tag + i, here);
		t->piece[at++] = (struct blockwriter_block){ .data = descriptor };
		for (size_t k = i; k < i + here; k++)
			t->piece[at++] = (struct blockwriter_block){
				.data = blocks[k].data,
				.blank = format_must_escape(blocks[k].data) ? 4 : 0,
			};
	}
	for (int i = 0; i < 2; i++)
		t->piece[at++] = (struct blockwriter_block){ .blank = f->block_size };
	for (size_t i = 0; i < at; i++)
		t->piece[i].block = log_block(j, j->first + i, NULL);
}

static int write_log(struct journal *j, struct transaction *t, struct error *err) /* E1 F1 */
{
	if (write_pieces(j, t, t->need, err) || write_super(j, j->first, t->tid, err))
		return -1;
	return flush(j, err);
}

static int write_commit(struct journal *j, struct transaction *t, uint64_t seconds, uint32_t nsec,
			struct error *err) /* E2 F2 */
{
	uint64_t slot = j->first + t->need - 2;

	format_commit(&j->format, t->commit, t->tid, seconds, nsec);
	t->piece[0] =
		(struct blockwriter_block){ .block = log_block(j, slot, NULL), .data = t->commit };
	if (write_pieces(j, t, 1, err))
		return -1;
	return flush(j, err);
}

static int write_home(struct journal *j, struct transaction *t, const struct journal_block *blocks,
		      size_t n, struct error *err) /* E3 F3 */
{
	for (size_t i = 0; i < n; i++)
		t->piece[i] = (struct blockwriter_block){ .block = blocks[i].block,
							  .data = blocks[i].data };
	if (write_pieces(j, t, n, err))
		return -1;
	return flush(j, err);
}

static int empty_log(struct journal *j, struct transaction *t, struct error *err) /* E4 F4 */
{
	if (write_super(j, 0, t->tid + 1, err))
		return -1;
	return flush(j, err);
}

/*
 * A sparse image grows by what is written to its holes. That there is room is made sure of before
 * the first write: once the commit block is durable, a home block that can't be written would leave
 * the log to a replay that finds no room either.
 */
int journal_reserve(struct device *dev, uint64_t block_size, const struct journal_block *blocks,
		    size_t n, struct error *err)
{
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && blocks[k].block == blocks[k - 1].block + 1;)
			k++;
		if (device_reserve(dev, blocks[i].block * block_size, (k - i) * block_size, err))
			return -1;
	}
	return 0;
}

static int reserve(const struct journal *j, const struct transaction *t,
		   const struct journal_block *blocks, size_t n, struct error *err)
{
	uint64_t bs = j->format.block_size, left;

	if (journal_reserve(j->dev, bs, blocks, n, err))
		return -1;
	for (uint64_t i = 0; i < t->need; i += left) {
		uint64_t at = log_block(j, j->first + i, &left);

		left = left < t->need - i ? left : t->need - i;
		if (device_reserve(j->dev, at * bs, left * bs, err))
			return -1;
	}
	return 0;
}

/* Our own mistakes, found before anything is written. */
static int check(const struct journal *j, const struct journal_block *blocks, size_t n,
		 struct error *err)
{
	if (j->dead)
		return error_set(err, ERROR_OPERATION,
				 "the journal of %s failed before, nothing more is written; run: "
				 "e2fsck -p %s",
				 j->name, j->name);
	if (n == 0 || n > journal_capacity(j))
		return error_set(err, ERROR_OPERATION,
				 "internal error: a transaction of %zu blocks, the journal of %s "
				 "takes 1 to %llu; nothing was written",
				 n, j->name, (unsigned long long)journal_capacity(j));
	for (size_t i = 0; i < n; i++) {
		uint64_t b = blocks[i].block;

		if (b >= j->fs_blocks || log_owns(j, b) || (i && b <= blocks[i - 1].block) ||
		    (b >> 32 && !(j->format.incompat & JBD2_INCOMPAT_64BIT)))
			return error_set(err, ERROR_OPERATION,
					 "internal error: block %llu can't be in a transaction of "
					 "%s; nothing was written",
					 (unsigned long long)b, j->name);
	}
	return 0;
}

int journal_commit(struct journal *j, const struct journal_block *blocks, size_t n,
		   uint64_t seconds, uint32_t nsec, unsigned depth, struct error *err)
{
	struct transaction t;
	int ret = -1;

	if (check(j, blocks, n, err) || transaction_init(j, &t, n, depth, err))
		return -1;
	if (reserve(j, &t, blocks, n, err) || look_for_old_tids(j, &t, err))
		goto out;
	t.tid = j->newest + 1;
	build_log(j, &t, blocks, n);
	if (write_log(j, &t, err) || write_commit(j, &t, seconds, nsec, err) ||
	    write_home(j, &t, blocks, n, err) || empty_log(j, &t, err)) {
		fail(j, err);
		goto out;
	}
	j->newest = t.tid + 1; /* s_sequence now; the next transaction is numbered after it */
	j->count.transactions++;
	j->count.blocks_logged += n;
	ret = 0;
out:
	transaction_release(&t);
	return ret;
}
