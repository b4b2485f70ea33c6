/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The open log: shared by log.c (open, space, where log blocks lie) and transaction.c (the order of
 * writes). */
#ifndef SCALEDEFRAG_JOURNAL_LOG_H
#define SCALEDEFRAG_JOURNAL_LOG_H

#include "format.h"
#include "scaledefrag/journal.h"

/* Log blocks [log, log + len) lie at physical blocks [block, block + len). */
struct log_run {
	uint64_t log, block, len;
};

struct journal {
	struct device *dev;
	const char *name;
	uint64_t fs_blocks;
	struct log_run *run;  /* by log block */
	struct log_run *home; /* the same, by physical block */
	size_t n_run;
	uint32_t first, last;	  /* log blocks [first, last) are ours to use */
	uint8_t *super_buf;	  /* block 0 of the log as on disk, block_size bytes */
	struct jsb super;	  /* with the features that E1 switches on */
	struct log_format format; /* the same features */
	uint32_t newest;	  /* no tid at or before this one is ever used again */
	uint32_t scanned;	  /* log blocks [first, scanned) hold no tid after `newest` */
	bool dead;		  /* I12 */
	struct journal_counters count;
};

/* Log blocks that a transaction of n blocks covers: descriptors, data, commit, one zeroed block. */
uint64_t log_need(const struct journal *j, uint64_t n);
/* Physical place of a log block and, if `left` is not NULL, how many blocks follow there in a row,
 * itself counted. */
uint64_t log_block(const struct journal *j, uint64_t log, uint64_t *left);
/* Is this physical block part of the journal? */
bool log_owns(const struct journal *j, uint64_t block);

#endif
