/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal: writes transactions into the file system's own JBD2 log. Knows bytes, space, sequence
 * numbers and the order of writes; knows nothing of extents or bitmaps. Kernel
 * include/linux/jbd2.h, fs/jbd2/recovery.c.
 *
 *   journal_open()      decodes the journal superblock, refuses what is not ours to write; nothing
 *                       is written
 *   journal_commit() *  one transaction: E1 F1 E2 F2 E3 F3 E4 F4; afterwards the log is empty and
 *                       clean
 *   journal_close()
 *
 * The caller has set needs_recovery in the ext4 superblock durably before the first journal_commit
 * (I4). After a failed journal_commit nothing more may be written (I12), and every later one fails;
 * the text names `e2fsck -p`. Thread rule: one thread.
 */
#ifndef SCALEDEFRAG_JOURNAL_H
#define SCALEDEFRAG_JOURNAL_H

#include "scaledefrag/device.h"
#include "scaledefrag/rangeset.h"

struct journal_place {
	uint32_t block_size; /* bytes */
	/* Physical runs of the journal inode in logical order (copied); the first block is the
	 * journal superblock. */
	const struct range *run;
	size_t n_run;
	/* Of the file system: which features to switch on while the log is empty. */
	bool metadata_csum, is_64bit;
	uint64_t fs_blocks; /* home blocks must be below */
	const char *name;   /* of the device, for messages; must outlive the journal */
	/* CRC32C, reflected, no final inversion: what ext2fs_crc32c_le does. A parameter because
	 * libext2fs is not visible here. */
	uint32_t (*crc32c)(uint32_t seed, const void *buf, size_t len);
};

struct journal_block {
	uint64_t block;	  /* home, in blocks */
	const void *data; /* block_size bytes */
};

struct journal_counters {
	uint64_t transactions, blocks_logged, writes, flushes; /* writes: requests, log and home */
};

struct journal;

/* ERROR_FSCK: log not empty, s_errno set, damaged. ERROR_USAGE: v1, shared, unknown features, too
 * small. */
int journal_open(struct device *dev, const struct journal_place *place, struct journal **out,
		 struct error *err);
void journal_close(struct journal *j); /* NULL is fine */

/* Blocks that one transaction may hold: what half of the usable log has room for, beside
 * descriptors, the commit block and the zeroed block behind it. */
uint64_t journal_capacity(const struct journal *j);

/*
 * `blocks` in block order, n in 1..capacity. `seconds`/`nsec`: the time for the commit block.
 * `depth`: requests in flight.
 */
int journal_commit(struct journal *j, const struct journal_block *blocks, size_t n,
		   uint64_t seconds, uint32_t nsec, unsigned depth, struct error *err);
/* Room for these blocks, in order, below a sparse image (device_reserve). Needs no journal. */
int journal_reserve(struct device *dev, uint64_t block_size, const struct journal_block *blocks,
		    size_t n, struct error *err);
void journal_get_counters(const struct journal *j, struct journal_counters *out);

#endif
