/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace: what a run wrote and discarded, in order, with its flushes; which on-disk states a power
 * cut may leave; and the ways to break the protocol on purpose (mutants).
 *
 * A discard counts as a write of junk, zeroes here and there: that is what it may make of the
 * range, wholly or in part, flushed or not.
 *
 * A cut `k` means: events [0, k) were completed. Writes before the last flush are durable; of those
 * after it, and of those in flight, any part may be on the disk, in units of a sector.
 */
#ifndef TESTS_TRACE_H
#define TESTS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTOR 512u

enum role {
	ROLE_SUPER, /* the ext4 superblock */
	ROLE_JSB,   /* the journal superblock */
	ROLE_LOG,   /* log blocks but the commit block */
	ROLE_COMMIT,
	ROLE_COPY, /* file data into free blocks */
	ROLE_HOME,
	/* without a journal: */
	ROLE_ACCOUNTS, /* bitmaps and group descriptors */
	ROLE_INODES,
	ROLE_MMP, /* the MMP block */
	ROLE_DISCARD,
	ROLE_FLUSH,
};

/* Without a journal: N0 comes before bitmaps of BLOCK_UNINIT groups count; N1 and N2 end phases 1
 * and 2 of a batch, N3 the last one's phase 3. */
enum barrier {
	BARRIER_NONE,
	BARRIER_B,
	BARRIER_F1,
	BARRIER_F2,
	BARRIER_F3,
	BARRIER_F4,
	BARRIER_N0,
	BARRIER_N1,
	BARRIER_N2,
	BARRIER_N3,
	BARRIER_E
};

struct event {
	enum role role;
	enum barrier barrier; /* of flushes */
	int batch;	      /* from 0; -1 before the first log write */
	uint64_t offset, len; /* bytes */
	size_t issued;	      /* number of the event before which it was issued */
	uint8_t *data;
};

struct trace {
	uint64_t size; /* of the image */
	uint32_t block_size;
	bool ordered; /* no journal */
	uint64_t mmp; /* the MMP block's number; 0: there is none */
	struct event *event;
	size_t n;
	int batches;
	size_t early; /* copies that were, of all batches */
	size_t reach; /* events that one event was on its way during, at most */
};

struct recorder_event;

/* Copies a recorder's log. `image`: the path of the image as it was before. */
void trace_from_recorder(struct trace *t, const char *image, const struct recorder_event *ev,
			 size_t n);
/* Copies that begin at event commit[b] are early ones of batch b + 1 (early.c). */
void trace_name_early(struct trace *t, const size_t *commit, size_t n);
/* Early copies come later, at any place where another run may have them; the same for the same
 * seed. */
void trace_scatter(struct trace *t, uint64_t seed);
uint64_t trace_mix(uint64_t z); /* the next random number */
void trace_release(struct trace *t);
void trace_copy(const struct trace *in, struct trace *out);
void trace_dump(const struct trace *t);
/* Write to and read from a descriptor (the run is a child process). */
void trace_save(const struct trace *t, int fd);
void trace_load(struct trace *t, int fd);

/* The first event that is not durable at cut `k`. */
size_t trace_durable(const struct trace *t, size_t k);
void trace_apply(const struct trace *t, size_t from, size_t to, uint8_t *image);

/*
 * Variants of a cut, the same for the same (seed, cut, variant):
 *   0 all kept  1 all lost  2, 3 the last write torn in the middle, first or second half kept
 *   4 the last write alone kept  5 half of it alone
 *   6.. random: by write, by block, by sector
 * Writes the state into `image`, which holds the durable state at `k`.
 */
void trace_state(const struct trace *t, size_t k, unsigned variant, uint64_t seed, uint8_t *image);
/* Puts the durable state back where trace_state wrote. */
void trace_undo(const struct trace *t, size_t k, const uint8_t *durable, uint8_t *image);

enum mutant {
	MUTANT_NONE,
	MUTANT_DROP_B,
	MUTANT_DROP_F1,
	MUTANT_DROP_F2,
	MUTANT_DROP_F3,
	MUTANT_DROP_F4,	      /* between batches: old descriptor and commit, overwritten log */
	MUTANT_DROP_F4_END,   /* the last one: needs_recovery cleared before the log is empty */
	MUTANT_EARLY_REUSE,   /* copies of batch N+1 in batch N */
	MUTANT_EARLY_LOG,     /* log of batch N+1 before F4 of N */
	MUTANT_WIDE_SUPER,    /* superblock written as two sectors */
	MUTANT_EARLY_DISCARD, /* what the last batch frees, before its commit is flushed */
	/* Without a journal: */
	MUTANT_DROP_OPEN, /* as DROP_B */
	MUTANT_DROP_N0,
	MUTANT_DROP_N1,
	MUTANT_DROP_N2,
	MUTANT_DROP_N3,
	MUTANT_EARLY_FREE, /* phase 3 before phase 2 */
	MUTANT_IN_PLACE,   /* the block of a tree that is in use is rewritten in phase 2 */
	MUTANT_WIDE_STATE, /* as WIDE_SUPER */
	MUTANT_EARLY_GIVE, /* as EARLY_DISCARD */
	/* With an MMP block; trace_mmp_wrong() sees them: */
	MUTANT_MMP_UNCLAIMED,
	MUTANT_MMP_LATE,      /* claimed after B */
	MUTANT_MMP_UNFLUSHED, /* B comes before the claim is flushed */
	MUTANT_MMP_IN_BATCH,  /* part of the first batch, and so written by the block */
	MUTANT_MMP_BETWEEN,   /* given back while the first batch is written, and claimed again */
	MUTANT_MMP_EARLY,     /* given back before the last write */
	MUTANT_MMP_DROP_E,    /* given back before that is flushed */
	MUTANT_MMP_KEPT,      /* not given back */
	MUTANT_WRONG_PLAN,    /* made by the run itself, not from the trace */
	MUTANTS,
};

/*
 * What is wrong with the writes to the MMP block; NULL: nothing, or there is none. It is claimed,
 * and that is flushed, before anything else is written, and given back when all else is flushed;
 * each write of it is one sector, and part of nothing larger. What one node's states look like
 * doesn't show it: the harm is done where another one comes.
 */
const char *trace_mmp_wrong(const struct trace *t);

const char *mutant_name(enum mutant m);
bool mutant_ordered(enum mutant m); /* of runs without a journal, and them alone */
bool mutant_mmp(enum mutant m);	    /* of runs with an MMP block */
/* Returns false where the trace has nothing that this mutant could change. */
bool mutant_apply(struct trace *t, enum mutant m, const char *image);

#endif
