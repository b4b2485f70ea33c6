/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkscale: a large ext4 image of many fragmented files, of which only the metadata is written.
 *
 *   mkscale [--size 1T] [--files 10M] [--runs 30M] [--seed N] [--room SIZE] IMAGE
 *
 * What e2fsck looks at is all there: names (two levels of directories, one block each), inodes,
 * bitmaps, counts, checksums. The blocks of files are holes of the image. Same arguments, same
 * files.
 *
 * A file has 1 to 4 runs of a few blocks, which fit its inode; one in a thousand has as many more
 * as --runs takes, in leaves of an extent tree. Runs are handed out from 64 places that move
 * through the volume, each run from one by chance, now and then with a gap behind it: so files
 * lie scattered, and the free space too. --room: use the first SIZE bytes of the volume only, so
 * that the same content can be had on volumes of several sizes.
 */
#include "mkscale.h"
#include "support/image.h"
#include <et/com_err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Today's, whatever mke2fs.conf says. */
#define FEATURES                                                                                   \
	"none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,"          \
	"sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
static void set_counts(struct maker *m)
{
	ext2_filsys fs = m->fs;
	uint64_t blocks = ext2fs_blocks_count(fs->super), all = 0, inodes = 0;

	must(ext2fs_set_block_bitmap_range2(fs->block_map, 0, blocks, m->used), "block bitmap");
	for (uint32_t g = 0; g < fs->group_desc_count; g++) {
		uint64_t first = ext2fs_group_first_block2(fs, g);
		uint64_t last = ext2fs_group_last_block2(fs, g);
		uint32_t n = 0;

		for (uint64_t b = first; b <= last; b++)
			n += !(m->used[b / 8] >> (b % 8) & 1);
		if (n != ext2fs_bg_free_blocks_count(fs, g))
			ext2fs_bg_flags_clear(fs, g, EXT2_BG_BLOCK_UNINIT);
		ext2fs_bg_free_blocks_count_set(fs, g, n);
		ext2fs_group_desc_csum_set(fs, g);
		all += n;
		inodes += ext2fs_bg_free_inodes_count(fs, g);
	}
	ext2fs_free_blocks_count_set(fs->super, all);
	fs->super->s_free_inodes_count = (uint32_t)inodes;
	ext2fs_mark_super_dirty(fs);
	ext2fs_mark_bb_dirty(fs);
	ext2fs_mark_ib_dirty(fs);
}

static void make_frame(const struct wish *w)
{
	char inodes[32], blocks[32];
	/* One directory inode for PER_DIR files, and for PER_DIR of those. */
	uint64_t n = w->files + w->files / PER_DIR + w->files / PER_DIR / PER_DIR + 1000;
	const char *const args[] = { "mke2fs",
				     "-q",
				     "-F",
				     "-O",
				     FEATURES,
				     "-b",
				     "4096",
				     "-I",
				     "256",
				     "-N",
				     inodes,
				     "-J",
				     "size=64",
				     "-m",
				     "0",
				     "-U",
				     "5ca1e000-0000-4000-8000-000000000001",
				     "-E",
				     "lazy_itable_init=1,lazy_journal_init=1,nodiscard,"
				     "hash_seed=5ca1e000-0000-4000-8000-000000000002",
				     w->path,
				     blocks,
				     NULL };

	snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)n);
	snprintf(blocks, sizeof(blocks), "%llu", (unsigned long long)(w->size / BLOCK));
	remove(w->path);
	if (image_run(args, -1))
		image_die("mke2fs failed for %s", w->path);
}

static void set_rates(struct maker *m)
{
	const struct wish *w = m->w;
	uint64_t big = w->files / BIG_EVERY, small = w->files - big, rest;
	uint64_t mean = m->end * 7 / 10 / (w->runs + 1);

	m->small_runs = ROOT_EXT;
	if (w->runs < small * 5 / 2) {
		m->small_runs = (uint32_t)(2 * w->runs / (w->files + 1));
		m->small_runs = m->small_runs ? m->small_runs : 1;
	} else if (big) {
		rest = (w->runs - small * 5 / 2) / big;
		m->big_runs = rest > ROOT_EXT * LEAF_EXT ? ROOT_EXT * LEAF_EXT : (uint32_t)rest;
	}
	/* Runs are (longest + 1) / 2 blocks on average. */
	m->longest = mean > 4 ? 8 : mean ? (uint32_t)(2 * mean - 1) : 1;
}

static void make(const struct wish *w)
{
	struct maker m = { .w = w, .rng = w->seed };
	uint64_t blocks;

	make_frame(w);
	must(ext2fs_open2(w->path, NULL, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager,
			  &m.fs),
	     "opening");
	m.fs->default_bitmap_type = EXT2FS_BMAP64_BITARRAY;
	must(ext2fs_read_bitmaps(m.fs), "bitmaps");
	blocks = ext2fs_blocks_count(m.fs->super);
	m.end = w->room && w->room / BLOCK < blocks ? w->room / BLOCK : blocks;
	m.used = calloc(1, blocks / 8 + 1);
	m.table = calloc(m.fs->super->s_inodes_per_group, INODE_SIZE);
	if (!m.used || !m.table)
		image_die("no memory");
	must(ext2fs_get_block_bitmap_range2(m.fs->block_map, 0, blocks, m.used), "block bitmap");
	set_rates(&m);
	for (uint32_t i = 0; i < PLACES; i++)
		m.place[i] = 1 + m.end / PLACES * i;
	/* Group 0's table has mke2fs's own inodes: root, journal, lost+found. */
	must(io_channel_read_blk64(m.fs->io, ext2fs_inode_table_loc(m.fs, 0),
				   (int)m.fs->inode_blocks_per_group, m.table),
	     "the first inodes");
	m.n_inode = m.fs->super->s_inodes_per_group - ext2fs_bg_free_inodes_count(m.fs, 0);
	make_files(&m);
	set_counts(&m);
	printf("%s: %llu files, %llu runs\n", w->path, (unsigned long long)m.n_file,
	       (unsigned long long)m.n_run);
	must(ext2fs_close(m.fs), "closing");
	free(m.used);
	free(m.table);
}

static uint64_t number(const char *text, uint64_t thousand)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (*end && (!unit || end[1]))
		image_die("%s is no number", text);
	for (const char *u = units; unit && u <= unit; u++)
		n *= thousand;
	return n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' }, { "files", required_argument, NULL, 'f' },
		{ "runs", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 'S' },
		{ "room", required_argument, NULL, 'o' }, { NULL, 0, NULL, 0 },
	};
	struct wish w = { .size = 1ull << 40, .files = 10000000, .runs = 30000000, .seed = 1 };

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 's':
			w.size = number(optarg, 1024);
			break;
		case 'f':
			w.files = number(optarg, 1000);
			break;
		case 'r':
			w.runs = number(optarg, 1000);
			break;
		case 'S':
			w.seed = number(optarg, 1000);
			break;
		case 'o':
			w.room = number(optarg, 1024);
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc)
		image_die("mkscale [--size 1T] [--files 10M] [--runs 30M] [--seed N] [--room SIZE] "
			  "IMAGE");
	w.path = argv[optind];
	initialize_ext2_error_table();
	make(&w);
	return 0;
}
