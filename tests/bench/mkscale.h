/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mkscale's inside: what mkscale.c (command line, empty volume, counts) and mkscale_files.c share.
 */
#ifndef SCALEDEFRAG_TESTS_MKSCALE_H
#define SCALEDEFRAG_TESTS_MKSCALE_H

#include <ext2fs/ext2fs.h>
#include <stdint.h>

#define BLOCK	   4096u
#define PLACES	   64u
#define PER_DIR	   220u /* names of a directory: one block */
#define BIG_EVERY  1000u
#define LEAF_EXT   ((BLOCK - 12) / 12 - 1) /* less than a leaf holds; enough for the checksum */
#define ROOT_EXT   4u
#define INODE_SIZE 256u

struct wish {
	uint64_t size, files, runs, seed, room;
	const char *path;
};

struct maker {
	ext2_filsys fs;
	const struct wish *w;
	uint64_t rng;
	uint8_t *used; /* bit per block */
	uint64_t end;  /* blocks handed out lie before it */
	uint64_t place[PLACES];
	uint32_t longest;  /* run */
	uint32_t big_runs; /* of one in BIG_EVERY files; 0: as all others */
	uint32_t small_runs;
	uint8_t *table; /* of the group of the inodes being made */
	uint32_t group, n_inode;
	uint32_t ino; /* the last one made */
	uint64_t n_file, n_run;
};

/* Dies with `what` unless ret is 0. */
void must(errcode_t ret, const char *what);
/* Makes all directories and files, from m->n_inode on in m->table, which is group 0's. Blocks are
 * only marked in m->used; counts of blocks are left to the caller. */
void make_files(struct maker *m);

#endif
