/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge: says whether an on-disk state is good: recovery succeeds, e2fsck finds nothing, and the
 * content digest equals the original's. One judge a process; its image lies in a file of its own
 * (in memory where /dev/shm is), which is mapped.
 *
 *   judge_new() (judge_want() or the digest of the image as it is), judge_load() a state,
 *   judge_check() one way of recovery; load again before the next check
 */
#ifndef TESTS_JUDGE_H
#define TESTS_JUDGE_H

#include "support/digest.h"
#include <stdatomic.h>

enum judge_how {
	JUDGE_REPLAY, /* e2fsck -p -E journal_only exits 0, then e2fsck -fn */
	JUDGE_PREEN,  /* e2fsck -p exits 0 or 1, then e2fsck -fn */
	JUDGE_MOUNT,  /* (no journal: e2fsck -p, then) the kernel mounts it read-write and unmounts
			 it, then e2fsck -fn */
	JUDGE_RERUN,  /* replay, the program runs to the end on it (exit 0), then e2fsck -fn */
	JUDGE_AGAIN,  /* replay on a state that an earlier replay left when it was cut */
	JUDGE_IN_USE, /* e2fsck -fn knows of no block in use that is free in a bitmap */
	JUDGE_AS_IS,  /* e2fsck -fn */
	JUDGE_HOWS,
};

enum judge_verdict { JUDGE_GOOD, JUDGE_BAD, JUDGE_SKIPPED };

/* Hashes seen; shared by processes when it lies in shared memory. 0 is not a member. */
struct hashset {
	size_t mask;
	atomic_size_t count;
	_Atomic uint64_t *slot;
};

/* Room for `n`, in memory that forked children share. */
struct hashset *hashset_new(size_t n);
bool hashset_has(const struct hashset *set, uint64_t hash);
bool hashset_add(struct hashset *set, uint64_t hash); /* true: it was new */
void hashset_free(struct hashset *set);

struct judge;

/* `size` bytes; `program` is what JUDGE_RERUN runs; `good` (may be NULL) remembers images that were
 * judged good after recovery, by what matters of them (inuse.h). */
struct judge *judge_new(const char *dir, uint64_t size, const char *program, struct hashset *good);
void judge_free(struct judge *j);
/* What every state's content must be: the digest of the file at `path`. */
void judge_want(struct judge *j, const char *path);
/* The file system has no journal: where others are replayed, `e2fsck -p` exits with 0 or 1. */
void judge_ordered(struct judge *j, bool ordered);
const char *judge_path(const struct judge *j);
void judge_load(struct judge *j, const void *image);
const uint8_t *judge_image(const struct judge *j); /* as it is now */
enum judge_verdict judge_check(struct judge *j, enum judge_how how);
/* After JUDGE_BAD: what was wrong, with the output of the program that said so. */
const char *judge_why(const struct judge *j);
const char *judge_how_name(enum judge_how how);

#endif
