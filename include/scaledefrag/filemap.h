/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filemap: one file's mapping: its extent records and the tree blocks that hold them, and the one
 * pure function that says what a move does to both. Planner, verify and commit all call it, so that
 * they can't disagree about how many tree blocks a mapping needs.
 *
 * Units: lblk = logical block of the file, pblk = physical block of the file system, len = blocks.
 * Format: kernel fs/ext4/ext4_extents.h.
 *
 * The tree: level 0 nodes are leaves; nodes of level k+1 index those of level k; the inode's root
 * holds up to 4 records (depth 0) or up to 4 entries for the nodes of level depth-1. Nodes are kept
 * per level, in logical order; each node holds `count` consecutive records (level 0) or child
 * nodes.
 *
 * With bigalloc (geometry.h) all of these numbers are clusters, and `ext` are the stretches of
 * clusters that the file has, each whole; a cluster is unwritten if nothing in it is written. The
 * records, in blocks, are in `rec` beside them. A move takes whole clusters, and the records
 * follow.
 *
 * A block-mapped file has `indirect` set, depth 0, no tree blocks, any number of records, none
 * unwritten, and numbers of its own in the place of logical blocks: indirect.h.
 */
#ifndef SCALEDEFRAG_FILEMAP_H
#define SCALEDEFRAG_FILEMAP_H

#include "scaledefrag/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXTENT_MAX_INIT	     32768u /* blocks of an initialised record */
#define EXTENT_MAX_UNWRITTEN 32767u /* blocks of an unwritten record */
#define EXTENT_MAX_DEPTH     5u	    /* kernel EXT4_MAX_EXTENT_DEPTH */
#define EXTENT_ROOT_RECORDS  4u

/* One record of a leaf, or of the root of a tree of depth 0, as on disk. 16 bytes. */
struct extent {
	uint64_t pblk;
	uint32_t lblk;
	uint32_t len : 31;
	uint32_t unwritten : 1;
};

struct tree_node {
	uint64_t pblk;
	uint32_t count;	  /* records or children */
	uint32_t changed; /* filemap_move: 1 if its bytes must be written anew */
};

/* bigalloc: the records as they are on the disk, in blocks. */
struct records {
	uint32_t ratio; /* blocks of a cluster, a power of 2 */
	size_t n;
	struct extent at[];
};

/* What few files have: tree blocks; and with bigalloc all. */
struct filemap_tree {
	struct tree_node *node[EXTENT_MAX_DEPTH]; /* node[level]; level < depth */
	size_t n_node[EXTENT_MAX_DEPTH];
	struct records *rec; /* bigalloc */
};

/* 24 bytes: a snapshot has one for each file. */
struct filemap {
	struct extent *ext;	   /* in logical order, not overlapping */
	struct filemap_tree *tree; /* NULL: depth is 0, and no bigalloc */
	uint32_t n_ext;
	uint8_t depth;	  /* 0: everything is in the inode */
	bool indirect;	  /* block-mapped */
	bool in_clusters; /* bigalloc: the records are tree->rec; else `ext` are */
	bool pooled;	  /* `ext` lies in a block of the snapshot's or a state's, which frees it */
};

/* What tree blocks hold. */
static inline const struct extent *filemap_records(const struct filemap *map, size_t *n)
{
	*n = map->in_clusters ? map->tree->rec->n : map->n_ext;
	return map->in_clusters ? map->tree->rec->at : map->ext;
}

/* One interval to move; of one state (written or unwritten) and inside one source record run. 32
 * bytes. */
struct move {
	uint64_t from, to; /* pblk */
	uint32_t lblk;
	uint32_t len;	    /* blocks, > 0 */
	uint32_t unwritten; /* 1: nothing to copy */
};

/* What a move does to the tree blocks. Arrays are malloc'ed; filemap_delta_release frees them. */
struct filemap_delta {
	uint64_t *freed; /* tree blocks no longer used */
	size_t n_freed;
	uint64_t *taken; /* new tree blocks, a prefix of `take` */
	size_t n_taken;
	uint64_t *kept; /* tree blocks rewritten in place; or indirect blocks that the commit
			   writes, where they are then */
	size_t n_kept;
	uint32_t *number; /* block-mapped: the n_kept numbers of these, ascending; else NULL */
	bool together;	  /* the tree was made anew as a whole */
};

int filemap_copy(const struct filemap *in, struct filemap *out, struct error *err);
void filemap_release(
	struct filemap *map); /* frees the arrays and zeroes it; fine on a zeroed one */
void filemap_delta_release(struct filemap_delta *d);
/* Gives the map a `tree` (all zero) if it has none. */
int filemap_need_tree(struct filemap *map, struct error *err);

/* Physical runs: records in logical order whose physical blocks adjoin count as one; holes don't
 * split. */
size_t filemap_runs(const struct extent *ext, size_t n);
uint64_t filemap_blocks(const struct extent *ext, size_t n); /* data blocks, unwritten ones too */
size_t filemap_nodes(const struct filemap *map);	     /* tree blocks in all */
/* Tree blocks of a minimal tree for n records (not counting the root). */
uint64_t filemap_min_nodes(uint64_t n_records, uint32_t block_size);
/* NULL if records and tree blocks are well-formed, else a static text that says what is wrong.
 * Physical bounds are the caller's. */
const char *filemap_check(const struct filemap *map, uint32_t block_size);

enum { FILEMAP_MINIMAL = 1, FILEMAP_ANEW = 2, FILEMAP_TOGETHER = 4 };

static inline unsigned filemap_how(bool minimal, bool anew)
{
	return (minimal ? FILEMAP_MINIMAL : 0) | (anew ? FILEMAP_ANEW : 0);
}

/*
 * bigalloc: makes a mapping in blocks, as read from the disk, one in clusters. *wrong (a static
 * text, with -1 and no error set): records that don't fit clusters, or a tree block that doesn't
 * begin one. And back: a copy as it is on the disk.
 */
int filemap_to_clusters(struct filemap *map, uint32_t ratio, const char **wrong, struct error *err);
int filemap_in_blocks(const struct filemap *in, struct filemap *out, struct error *err);

/*
 * Applies `moves` (n > 0 but for `together`; in logical order, disjoint, each exactly backed by
 * records of `in`: same lblk, from and state; else ERROR_OPERATION) and gives the new mapping and
 * what happens to tree blocks.
 *  - Records that end up adjoining logically and physically in the same state are merged (up to the
 * length limit) in the part that the moves touch.
 *  - Leaves outside that part stay; in it, node blocks are kept in place from the front; surplus
 * ones serve where nodes are missing, else they are freed; what is still missing is taken from
 * `take` in order. A node whose bytes stay the same is not rewritten.
 *  - With `minimal`, all records are merged and, if fewer node blocks suffice, the tree is rebuilt
 * with the least number of them (kept blocks first).
 *  - With `anew`, no node block of `in` is written: each node that changes gets a block from
 * `take`, and so do those above it; what they had is freed, and nothing is kept.
 *  - With `together`, the tree is rebuilt like that whether fewer suffice or not, all of it from
 * `take`: the top level first, each in logical order, which is how a reader comes to them. Then n
 * may be 0: nothing but the tree moves. Not for block-mapped files.
 * If n_take is too small: returns -1 with err->kind ERROR_USAGE and *need set to the number wanted;
 * no other failure uses that kind. `out` and `delta` belong to the caller on success. delta->taken
 * is in the order of `take`, freed and kept are sorted. `changed` in `out` speaks of this call
 * alone. Block-mapped files: records are merged throughout; nothing is freed or taken, and `how`
 * means nothing.
 * A move may cross records that adjoin logically and physically in one state. O(records + nodes).
 */
int filemap_move(const struct filemap *in, const struct move *moves, size_t n, uint32_t block_size,
		 unsigned how, const uint64_t *take, size_t n_take, size_t *need,
		 struct filemap *out, struct filemap_delta *delta, struct error *err);

/*
 * Bytes of a node (without the checksum tail) and of the inode's 60-byte i_block root. Pure;
 * little-endian. filemap_encode_node: `index` is the node's place in node[level]; buf has
 * block_size bytes and is filled. O(nodes): it finds its first record by adding up.
 */
void filemap_encode_node(const struct filemap *map, uint32_t level, size_t index,
			 uint32_t block_size, uint8_t *buf);
void filemap_encode_root(const struct filemap *map, uint8_t root[60]);

/*
 * Decodes one node (or root: size 60, max 4) from disk bytes, checking everything: magic, entries
 * <= max <= what fits, depth == `depth`, order, no overlap, lengths, lblk range [lo, hi) and
 * physical bounds [first, end). A node (not a root) must have entries and its first one must start
 * at `lo`, the lblk in its parent's entry, as kernel and e2fsck demand. depth 0 fills ext (size for
 * 5460 entries suffices: block_size/12), else child blocks and their first lblk. Returns NULL or a
 * static text that says what is wrong.
 */
struct tree_child {
	uint64_t pblk;
	uint32_t lblk;
};
const char *filemap_decode(const uint8_t *buf, size_t size, uint32_t depth, uint64_t lo,
			   uint64_t hi, uint64_t first, uint64_t end, struct extent *ext,
			   struct tree_child *child, uint32_t *count);
/* Depth field of a root or node (unchecked beyond the magic); -1 if the magic is wrong. */
int filemap_decode_depth(const uint8_t *buf);

#endif
