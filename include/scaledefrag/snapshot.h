/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * snapshot: what is on the disk. Made by scan (or parsed from text in planner tests), const
 * afterwards.
 *
 * It holds every movable file with its mapping, the free ranges, the fixed ranges (what no plan may
 * move: metadata, journal, pinned files, tree blocks are not among them), counts of what is left
 * alone and why, and the limits that batches must respect. Units: blocks unless said otherwise;
 * with bigalloc they are clusters (geometry.h).
 *
 * state: a snapshot that batches have been applied to (plan simulates on one, the engine follows
 * the disk with another).
 */
#ifndef SCALEDEFRAG_SNAPSHOT_H
#define SCALEDEFRAG_SNAPSHOT_H

#include "scaledefrag/error.h"
#include "scaledefrag/filemap.h"
#include "scaledefrag/geometry.h"
#include "scaledefrag/rangeset.h"

/* What an inode is, and what happens to it. The table with names and reasons is in
 * src/scan/classify.c. */
enum file_kind { FILE_REGULAR, FILE_DIRECTORY, FILE_SYMLINK, FILE_EA_INODE, FILE_KINDS };

enum leave_reason {
	LEAVE_NONE,	    /* it can be moved */
	LEAVE_NOTHING,	    /* no blocks: empty, fast symlink, device, inline data */
	LEAVE_BLOCK_MAPPED, /* ext2/ext3 style mapping: not all blocks fit its 32-bit pointers */
	LEAVE_RESERVED, /* journal, resize, bad blocks, boot loader inode, other reserved inodes */
	LEAVE_ORPHAN_FILE,
	LEAVE_EXCLUDED,	  /* dropped earlier in this run: its blocks can't be read or written */
	LEAVE_BOOT,	  /* known to boot code by block number */
	LEAVE_SCOPE,	  /* not among the files that the user chose */
	LEAVE_PINNED,	  /* the user wants it to stay */
	LEAVE_SWAP,	  /* swap space in one run, or that no move makes better */
	LEAVE_HIBERNATED, /* swap space with the memory of a hibernated system in it */
	LEAVE_QUOTA,	  /* a quota file: commits write to it */
	LEAVE_REASONS
};

/* 32 bytes, and 16 for each record: there may be many millions. */
struct snapshot_file {
	struct filemap map;
	uint32_t ino;
	uint8_t kind; /* enum file_kind */
	bool grows;   /* it is expected to */
	bool swap;    /* swap space: the place of its first block may be written down elsewhere */
};

/* Limits for one batch. Constants or read from the disk, never from the machine (invariant I10). */
struct snapshot_limits {
	uint64_t journal_blocks; /* distinct metadata blocks that one transaction may hold */
	uint64_t copy_blocks; /* blocks that one batch may copy; a single record may exceed it once
			       */
};

enum { SNAPSHOT_QUOTAS = 3 };

struct snapshot {
	struct geometry geo;
	struct snapshot_file *file; /* movable files with at least one block, in inode order */
	size_t n_file;
	struct extent **pool; /* blocks of records that `pooled` maps point into; owned */
	size_t n_pool;
	uint32_t *left_ino; /* files left alone that have blocks and a reason other than
			       LEAVE_NOTHING, inode order */
	uint8_t *left_why;
	uint64_t *left_runs; /* their runs, where known, else 0 */
	size_t n_left;
	uint64_t count[LEAVE_REASONS]; /* inodes in use by reason; LEAVE_NONE counts the movable
					  ones */
	struct rangeset *free;	       /* free blocks */
	struct rangeset *fixed; /* blocks that can't move: metadata, reserved and pinned inodes,
				   xattr blocks */
	struct rangeset *avoid; /* free blocks that a failed write showed to be bad: never a target;
				   may be empty */
	struct snapshot_limits limits;
	/*
	 * The order in which a recursive scan reads the movable files, as indices of `file`, each
	 * once: each directory and then what is in it, directories breadth first; before them the
	 * user's front list. NULL: names weren't read.
	 */
	uint32_t *order;
	size_t n_front; /* files of the front list */
	/*
	 * Inodes of the quota files of users, groups and projects, in this order; 0: none. What
	 * they say of an owner follows the number of tree blocks of the owner's files.
	 */
	uint32_t quota_ino[SNAPSHOT_QUOTAS];
};

void snapshot_free(struct snapshot *s); /* NULL is fine */
/* Forgets the files and their order: all but `free` and what was left alone is as if fixed. */
void snapshot_drop_files(struct snapshot *s);
const struct snapshot_file *snapshot_find(const struct snapshot *s,
					  uint32_t ino); /* O(log n); NULL: none */

/*
 * Sets the order from inodes, the first n_front of them from the front list. Those that are no
 * movable files are left out, repeated ones count at their first place, and files that are missing
 * come last, in inode order.
 */
int snapshot_set_order(struct snapshot *s, const uint32_t *inos, size_t n, size_t n_front,
		       struct error *err);

/* Text form, stable, for planner tests and --dump; parse accepts it. Format:
 * src/model/snapshot_text.c. It is handed to `put` in parts; not 0 ends it. -1: as put said. */
typedef int (*text_fn)(void *ctx, const char *text);
int snapshot_write(const struct snapshot *s, text_fn put, void *ctx);
int snapshot_parse(const char *text, struct snapshot **out, struct error *err);

/*
 * Ideal number of runs of a file of `blocks` blocks: the least k such that the k longest gaps
 * between fixed ranges hold it. Built once per snapshot; ideal_runs is O(log gaps). This is the
 * formula that `-c -v` prints.
 */
struct ideal;
int ideal_new(const struct snapshot *s, struct ideal **out, struct error *err);
uint64_t ideal_runs(const struct ideal *id, uint64_t blocks); /* >= 1 */
uint64_t ideal_longest_gap(const struct ideal *id);
void ideal_free(struct ideal *id);

/* Fragmentation figures of a state; the same code for before, predicted and after. */
struct summary {
	uint64_t files, frag_files; /* movable files; those with more runs than ideal */
	uint64_t dirs, frag_dirs;   /* the directories among them */
	uint64_t runs, ideal_runs;  /* sums; runs - ideal_runs are the excess runs */
	/* Data blocks, and indirect ones; those of fragmented files. */
	uint64_t blocks, frag_blocks;
	uint64_t tree_blocks;
	uint64_t free_blocks, free_runs, longest_free;
};

struct state {
	const struct snapshot *snap; /* not owned */
	struct filemap **map;	     /* per file: NULL = as in the snapshot; state.c owns it */
	struct rangeset *free;	     /* owned, unless it is a view; without `avoid` */
};

int state_new(const struct snapshot *s, struct state **out, struct error *err);
/* A copy. It shares mappings with the first one until they change, so both are one thread's. */
int state_clone(const struct state *st, struct state **out, struct error *err);
/* The snapshot itself as a state, for figures alone: it takes no memory, and can't be changed. */
int state_view(const struct snapshot *s, struct state **out, struct error *err);
void state_free(struct state *st); /* NULL is fine */
const struct filemap *state_map(const struct state *st, size_t file_index);
/* Replaces the mapping of a file; takes over the arrays of *map on success. */
int state_set_map(struct state *st, size_t file_index, struct filemap *map, struct error *err);
/* The file's mapping, which stays after it is replaced, until it is let go. */
const struct filemap *state_hold(struct state *st, size_t file_index);
void state_let_go(struct state *st, size_t file_index, const struct filemap *held);
/* The file has the mapping again that is held. */
void state_set_back(struct state *st, size_t file_index, const struct filemap *held);
int state_summary(const struct state *st, const struct ideal *id, struct summary *out);

/*
 * What a recursive scan that finds nothing in memory has to read, in the snapshot's order: of each
 * file its tree blocks, then its blocks that aren't unwritten.
 *   score     pairs of blocks, one read right after the other, of which the second one lies right
 *             behind the first, over all pairs (dynamic layout score; Conway et al., FAST 2017)
 *   requests  stretches of blocks that lie behind each other, each file and tree block apart
 */
struct reading {
	uint64_t blocks, sequential; /* score: sequential / (blocks - 1) */
	uint64_t requests;
};

/* Without an order: all 0. */
void state_reading(const struct state *st, struct reading *out);
double reading_score(const struct reading *r); /* 1 where there are no pairs */

#endif
