/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * indirect: block-mapped files (ext2 and ext3 style). Format: kernel
 * Documentation/filesystems/ext4/ ifork.rst, "Direct/Indirect Block Addressing".
 *
 * i_block[0..11] are the file's first blocks; i_block[12..14] an indirect, a double and a triple
 * indirect block. Such a block is an array of block_size / 4 le32 block numbers, 0 for a hole. It
 * has no checksum, and no block number above 2^32 fits.
 *
 * All blocks that such a file may have, data and indirect ones alike, are numbered in the order in
 * which a reader comes to them: an indirect block, and then all that hangs on it. A block's number
 * follows from the format alone. A filemap with `indirect` set has these numbers where one of
 * extents has logical blocks, and no tree blocks. So indirect blocks are placed, moved and counted
 * as the data between which they lie; a file in one run is laid out as mke2fs, kernel and e2fsck
 * like it. The difference is in the commit: it writes every indirect block that was moved, or that
 * points to one that was, as `filemap_delta.kept`; what the mover copied of it is written over.
 */
#ifndef SCALEDEFRAG_INDIRECT_H
#define SCALEDEFRAG_INDIRECT_H

#include "scaledefrag/filemap.h"

#define INDIRECT_ROOT	  15u	/* entries of i_block */
#define INDIRECT_DIRECT	  12u	/* of these, to data */
#define INDIRECT_LEVELS	  3u	/* levels of indirect blocks */
#define INDIRECT_MAX_LEN  8192u /* of a record: so that its move fits any transaction */
#define INDIRECT_MAX_PBLK UINT32_MAX

struct indirect_place {
	uint32_t level;	 /* 0: data; else an indirect block, with blocks of level - 1 on it */
	bool in_inode;	 /* i_block points to it */
	uint64_t parent; /* else: number of the indirect block that does */
	uint32_t entry;	 /* in the one or the other */
};

/* Numbers of a block of this level together with all that may hang on it; 1 for level 0. */
uint64_t indirect_span(uint32_t level, uint32_t block_size);
/* The level of the block that i_block[entry] points to, and its number; for entry ==
 * INDIRECT_ROOT: one more than the last number there is. */
uint32_t indirect_root_level(uint32_t entry);
uint64_t indirect_root_number(uint32_t entry, uint32_t block_size);
/* The number of the file's logical block; one more than the last number there is for all that a
 * block-mapped file can't have. */
uint64_t indirect_number(uint64_t lblk, uint32_t block_size);
/* Number `number` (there is such a block). */
void indirect_find(uint64_t number, uint32_t block_size, struct indirect_place *out);
/* Where a block lies; 0: a hole. O(log records). */
uint64_t indirect_block(const struct filemap *map, uint64_t number);

/* A mapping from its stretches: by number, disjoint, each INDIRECT_MAX_LEN at most. */
int indirect_build(const struct extent *piece, size_t n, struct filemap *out, struct error *err);

/*
 * The indirect blocks that these moves (in order, done in `after`) make the commit write: numbers,
 * ascending, malloc'ed. ERROR_OPERATION: one of them is missing in the mapping.
 */
int indirect_rewritten(const struct filemap *after, const struct move *moves, size_t n,
		       uint32_t block_size, uint32_t **number, size_t *n_number, struct error *err);

/* Bytes of indirect block `number`, and of i_block. Pure; little-endian. */
void indirect_encode(const struct filemap *map, uint64_t number, uint32_t block_size, uint8_t *buf);
void indirect_encode_root(const struct filemap *map, uint32_t block_size, uint8_t root[60]);

#endif
