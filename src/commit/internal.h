/* SPDX-License-Identifier: GPL-2.0-or-later */
/* commit's inside: the session, one file's new mapping, and the block bitmaps. */
#ifndef SCALEDEFRAG_COMMIT_INTERNAL_H
#define SCALEDEFRAG_COMMIT_INTERNAL_H

#include "scaledefrag/array.h"
#include "scaledefrag/blockwriter.h"
#include "scaledefrag/commit.h"
#include "scaledefrag/indirect.h"
#include "scaledefrag/journal.h"
#include "scaledefrag/overlay.h"
#include <ext2fs/ext2fs.h>

/* Group descriptors leave as they lie in libext2fs' memory, which is disk order here alone. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "not ported to big-endian machines"
#endif

/* Clusters that one batch takes from free to used, or back. */
struct change {
	uint64_t start, len; /* in one group */
	uint32_t group;
	bool use;
};

struct changes {
	struct change *list;
	size_t n, cap;
};

struct commit {
	struct volume *v;
	struct device *dev; /* the real one: journal, ordered.c, mmp.c and superblock.c write */
	const struct geometry *geo; /* in blocks */
	struct geometry clusters;   /* the same in clusters, as plan, state and bitmaps */
	const char *name;
	struct overlay *ov;
	ext2_filsys fs;		 /* on the overlay: what it writes stays in memory */
	struct journal *journal; /* or, where there is none: */
	struct ordered *ordered;
	struct quota *quota; /* NULL: nobody counts */
	struct mmp *mmp;     /* NULL: not claimed yet, or there is none */
	struct commit_options o;
	uint64_t capacity; /* blocks of a transaction */
	bool begun;
	bool unclean; /* needs_recovery was set before us: a killed run left the free count old */
	bool dead;    /* I12 */
	uint64_t updates, super_writes, super_flushes;
	/* The batch that the overlay holds: what it takes and gives back. */
	struct changes built;
	bool prepared; /* it was built by commit_prepare() */
	size_t prepared_batch;
	uint64_t updates_before;
};

/* One file of a batch: the mapping it gets, in blocks, as on the disk. `before` belongs to the
 * state, or with bigalloc is `in_blocks`. */
struct remap {
	const struct plan_file *file;
	const struct filemap *before;
	struct filemap after;
	struct filemap_delta delta;
	struct filemap in_blocks;
};

/* "inode 12 of DEV: cannot read it: TEXT" for a libext2fs error code. */
int fs_error(const struct commit *c, long code, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* remap.c */
int remap_compute(const struct commit *c, const struct plan *p, const struct plan_file *file,
		  const struct state *before, struct remap *out, struct error *err);
void remap_release(struct remap *r);
/* Appends the blocks that this file takes and gives back; *groups: how many groups they touch. */
int remap_changes(const struct commit *c, const struct plan *p, const struct remap *r,
		  struct changes *to, size_t *groups, struct error *err);
/* Adds new tree blocks to the inode's count of blocks, or takes freed ones off. ERROR_FSCK: that
 * count can't be right. */
int remap_count(const struct commit *c, const struct remap *r, struct ext2_inode *inode,
		struct error *err);
/* Is the inode one of extents, or block-mapped, as the mapping says? */
bool remap_kind_fits(const struct filemap *map, const struct ext2_inode *inode);
/* Nodes and inode into the overlay, freed nodes out of it. */
int remap_write(struct commit *c, const struct remap *r, struct error *err);
uint64_t inode_block(const struct commit *c, uint32_t ino);

/* bitmaps.c */
/* Appends a range of clusters, cut at the ends of groups; fails if it lies outside the file system.
 */
int changes_add(const struct commit *c, struct changes *ch, uint64_t start, uint64_t len, bool use,
		struct error *err);
/* Sorts by block; returns how many groups are touched. */
size_t changes_sort(struct change *list, size_t n);
/* Sorts all; fails if two overlap: no block is both freed and used by one batch (I5). */
int changes_check(const struct commit *c, struct changes *ch, struct error *err);
/* Checks that each bit is as it should be before the batch, and unless `dry` changes bitmaps, free
 * counts and descriptors in the overlay. `ch` has passed changes_check. */
int bitmaps_apply(struct commit *c, const struct changes *ch, bool dry, struct error *err);
/* Reads the descriptors of the groups that were changed from the disk again. */
int bitmaps_restore(struct commit *c, const struct changes *ch, struct error *err);
bool bitmap_is_uninit(const struct commit *c, uint32_t group);
/* Where the block of descriptors with this group's lies, and what libext2fs has in memory of it. */
uint64_t descriptor_block(const struct commit *c, uint32_t group);
void *descriptor_memory(const struct commit *c, uint32_t group);

/* quota.c */
void quota_free(struct quota *q);	      /* NULL is fine */
uint64_t quota_blocks(const struct quota *q); /* the most that a transaction changes; NULL: 0 */
/* This inode has so many tree blocks more or less: into the overlay. `inode` is of inode_size. */
int quota_count(struct commit *c, const struct ext2_inode *inode, size_t taken, size_t freed,
		struct error *err);

/* place.c: physical runs of the journal inode; free() *run. */
int place_journal(const struct commit *c, struct range **run, size_t *n, struct error *err);

/* ordered.c: without a journal */
int ordered_open(struct commit *c, struct error *err);
void ordered_close(struct commit *c);
/* What bitmaps_apply does, with what the first phase writes kept. */
int ordered_bitmaps(struct commit *c, const struct changes *ch, struct error *err);
/* The batch that ordered_bitmaps() was called for: its blocks as they shall be, in order, n > 0.
 * After a failure nothing more may be written (I12). */
int ordered_commit(struct commit *c, const struct journal_block *list, size_t n, struct error *err);
int ordered_end(struct commit *c, struct error *err); /* before superblock_end */
void ordered_get_counters(const struct commit *c, struct commit_counters *out);

/* mmp.c */
struct mmp;
int mmp_claim(struct commit *c, struct error *err);   /* before B; without an MMP block: nothing */
int mmp_release(struct commit *c, struct error *err); /* after E, and discards */
bool mmp_lost(struct commit *c, struct error *err);   /* another node took over; err says which */
void mmp_free(struct mmp *m);			      /* NULL is fine; writes nothing */
/* What its thread does when the time has come: changes it, or ends all writing. */
void mmp_look_after(struct mmp *m);
int mmp_keep(struct mmp *m, struct error *err); /* the same without `lock` and without an end */

/* superblock.c */
#define SECTOR_SIZE 512
uint32_t sector_crc(const uint8_t *sector);
/* Sets the four bytes at `slot` so that the sector's CRC becomes `want`. */
bool sector_solve(uint8_t *sector, size_t slot, uint32_t want);
/* Writes one sector; of a device with larger ones the others as they are, which is why a block
 * holds nothing else that changes. Any thread. */
int sector_write(struct commit *c, uint64_t at, const uint8_t *sector, struct error *err);
int superblock_fits(const struct commit *c, struct error *err); /* can we write it at all? */
int superblock_begin(struct commit *c, struct error *err);	/* B */
int superblock_end(struct commit *c, struct error *err);	/* E */

#endif
