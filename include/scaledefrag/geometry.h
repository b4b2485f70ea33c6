/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * geometry: the plain numbers of an ext4 file system that planning and committing need. Const after
 * volume_open. Format facts: e2fsprogs lib/ext2fs/ext2_fs.h, struct ext2_super_block.
 *
 * Clusters: with the bigalloc feature space is given out, and counted in bitmaps and descriptors,
 * in clusters of several blocks, and block n of a file lies at the same place of its cluster as n
 * has in the file's. So all that plans, moves and counts space does it in clusters, and knows them
 * as blocks: geometry_in_clusters() gives the numbers for that. Only what reads and writes metadata
 * (volume/, scan/, commit/) knows real blocks too. Without bigalloc they are the same.
 */
#ifndef SCALEDEFRAG_GEOMETRY_H
#define SCALEDEFRAG_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

struct geometry {
	uint32_t block_size;	   /* bytes of a real block: of tree blocks, of inode tables */
	uint32_t cluster_blocks;   /* real blocks of a cluster: 1 without bigalloc */
	uint32_t first_data_block; /* block: 1 with 1 KiB blocks, else 0 */
	uint64_t blocks;	   /* blocks of the file system */
	uint32_t groups;
	uint32_t blocks_per_group;
	uint32_t inodes_per_group;
	uint32_t inode_size;	 /* bytes */
	uint32_t desc_per_block; /* group descriptors in a block */
	uint32_t flex_size;	 /* groups of a flex group, >= 1 */
	uint64_t align_blocks;	 /* stripe width in blocks (0: none) */
	bool metadata_csum;
	/* No journal: a tree block in use is never rewritten in place (src/commit/ordered.c). */
	bool ordered;
};

/* Bytes of a cluster: of a "block" of snapshots, plans and reports. */
static inline uint32_t geometry_cluster_size(const struct geometry *g)
{
	return g->block_size * g->cluster_blocks;
}

/* The same file system with clusters as its blocks. `blocks` is a multiple of them, see guard.c. */
static inline struct geometry geometry_in_clusters(const struct geometry *g)
{
	struct geometry c = *g;

	c.blocks /= g->cluster_blocks;
	c.blocks_per_group /= g->cluster_blocks;
	c.align_blocks =
		g->align_blocks % g->cluster_blocks ? 0 : g->align_blocks / g->cluster_blocks;
	return c;
}

/* Extent records that fit a tree node (kernel fs/ext4/extents.c, ext4_ext_space_block). */
static inline uint32_t geometry_node_records(uint32_t block_size)
{
	return (block_size - 12) / 12;
}

static inline uint32_t geometry_group_of(const struct geometry *g, uint64_t block)
{
	return (uint32_t)((block - g->first_data_block) / g->blocks_per_group);
}

static inline uint64_t geometry_group_first(const struct geometry *g, uint32_t group)
{
	return g->first_data_block + (uint64_t)group * g->blocks_per_group;
}

static inline uint32_t geometry_group_blocks(const struct geometry *g, uint32_t group)
{
	uint64_t left = g->blocks - geometry_group_first(g, group);
	return left < g->blocks_per_group ? (uint32_t)left : g->blocks_per_group;
}

static inline uint32_t geometry_inode_group(const struct geometry *g, uint32_t ino)
{
	return (ino - 1) / g->inodes_per_group;
}

#endif
