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
#include "support/image.h"
#include <et/com_err.h>
#include <ext2fs/ext2fs.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	   4096u
#define PLACES	   64u
#define PER_DIR	   220u /* names of a directory: one block */
#define BIG_EVERY  1000u
#define LEAF_EXT   ((BLOCK - 12) / 12 - 1) /* less than a leaf holds; enough for the checksum */
#define ROOT_EXT   4u
#define INODE_SIZE 256u
#define TIME	   1700000000u

/* Today's, whatever mke2fs.conf says. */
#define FEATURES                                                                                   \
	"none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,"          \
	"sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"

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

static void must(errcode_t ret, const char *what)
{
	if (ret)
		image_die("%s: %s", what, error_message(ret));
}

static uint64_t random64(struct maker *m)
{
	uint64_t z = m->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint32_t below(struct maker *m, uint32_t n)
{
	return (uint32_t)(random64(m) >> 32) % n;
}

static bool is_used(const struct maker *m, uint64_t at, uint32_t len)
{
	for (uint64_t b = at; b < at + len; b++)
		if (m->used[b / 8] >> (b % 8) & 1)
			return true;
	return false;
}

static uint64_t take(struct maker *m, uint32_t len)
{
	for (uint32_t tries = 0; tries < 1u << 22; tries++) {
		uint64_t *at = &m->place[below(m, PLACES)];
		uint64_t got = *at;

		if (got + len > m->end) {
			*at = 1;
			continue;
		}
		if (is_used(m, got, len)) {
			*at += 8;
			continue;
		}
		for (uint64_t b = got; b < got + len; b++)
			m->used[b / 8] |= (uint8_t)(1u << b % 8);
		*at = got + len + (below(m, 4) ? 0 : 1 + below(m, 4));
		m->n_run++;
		return got;
	}
	image_die("no room: fewer runs, or a larger volume");
}

/* Inodes: made in order, and written group by group. */

static void write_table(struct maker *m)
{
	uint32_t per = m->fs->super->s_inodes_per_group, first = m->group * per + 1;
	uint32_t blocks = (m->n_inode * INODE_SIZE + BLOCK - 1) / BLOCK;
	uint8_t *bits;

	if (!m->n_inode)
		return;
	must(io_channel_write_blk64(m->fs->io, ext2fs_inode_table_loc(m->fs, m->group), (int)blocks,
				    m->table),
	     "writing inodes");
	bits = calloc(1, per / 8 + 1);
	if (!bits)
		image_die("no memory");
	for (uint32_t i = 0; i < m->n_inode; i++)
		bits[i / 8] |= (uint8_t)(1u << i % 8);
	must(ext2fs_set_inode_bitmap_range2(m->fs->inode_map, first, per, bits), "inode bitmap");
	free(bits);
	ext2fs_bg_flags_clear(m->fs, m->group, EXT2_BG_INODE_UNINIT);
	ext2fs_bg_free_inodes_count_set(m->fs, m->group, per - m->n_inode);
	ext2fs_bg_itable_unused_set(m->fs, m->group, per - m->n_inode);
}

static void start_table(struct maker *m, uint32_t group)
{
	uint32_t per = m->fs->super->s_inodes_per_group;

	memset(m->table, 0, (size_t)per * INODE_SIZE);
	m->group = group;
	m->n_inode = 0;
}

static uint32_t next_ino(struct maker *m)
{
	if (m->n_inode == m->fs->super->s_inodes_per_group) {
		write_table(m);
		start_table(m, m->group + 1);
	}
	return m->group * m->fs->super->s_inodes_per_group + m->n_inode + 1;
}

static void put_inode(struct maker *m, uint32_t ino, const struct ext2_inode_large *in)
{
	uint8_t *at = m->table + (size_t)m->n_inode++ * INODE_SIZE;
	struct ext2_inode_large *to = (struct ext2_inode_large *)at;

	*to = *in;
	to->i_atime = to->i_ctime = to->i_mtime = TIME;
	to->i_flags = EXT4_EXTENTS_FL;
	to->i_extra_isize = 32;
	must(ext2fs_inode_csum_set(m->fs, ino, to), "inode checksum");
	m->ino = ino;
}

static void put_header(uint8_t *at, uint32_t n, uint32_t max, uint32_t depth)
{
	uint16_t h[4] = { 0xf30a, (uint16_t)n, (uint16_t)max, (uint16_t)depth };

	memcpy(at, h, sizeof(h)); /* the generation stays 0 */
}

static void put_extent(uint8_t *at, uint32_t lblk, uint32_t len, uint64_t pblk)
{
	uint16_t l[2] = { (uint16_t)len, (uint16_t)(pblk >> 32) };
	uint32_t low = (uint32_t)pblk;

	memcpy(at, &lblk, 4);
	memcpy(at + 4, l, 4);
	memcpy(at + 8, &low, 4);
}

static void put_index(uint8_t *at, uint32_t lblk, uint64_t pblk)
{
	uint32_t low[2] = { lblk, (uint32_t)pblk };
	uint16_t high[2] = { (uint16_t)(pblk >> 32), 0 };

	memcpy(at, low, 8);
	memcpy(at + 8, high, 4);
}

/* `n` runs as records; returns the blocks. */
static uint32_t put_runs(struct maker *m, uint8_t *at, uint32_t n, uint32_t lblk)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = 1 + below(m, m->longest);

		put_extent(at + 12 * (size_t)i, lblk, len, take(m, len));
		lblk += len;
	}
	return lblk;
}

static uint32_t put_leaves(struct maker *m, uint32_t ino, uint8_t *root, uint32_t n,
			   uint32_t *leaves)
{
	uint8_t leaf[BLOCK];
	uint32_t lblk = 0, k = 0;

	for (; n && k < ROOT_EXT; k++) {
		uint32_t part = n < LEAF_EXT ? n : LEAF_EXT;
		uint64_t at = take(m, 1);

		m->n_run--; /* not of the file */
		memset(leaf, 0, sizeof(leaf));
		put_header(leaf, part, (BLOCK - 12) / 12, 0);
		put_index(root + 12 * (size_t)k, lblk, at);
		lblk = put_runs(m, leaf + 12, part, lblk);
		must(ext2fs_extent_block_csum_set(m->fs, ino, (struct ext3_extent_header *)leaf),
		     "leaf checksum");
		must(io_channel_write_blk64(m->fs->io, at, 1, leaf), "writing a leaf");
		n -= part;
	}
	*leaves = k;
	return lblk;
}

static uint32_t make_file(struct maker *m)
{
	struct ext2_inode_large in = { .i_mode = LINUX_S_IFREG | 0644, .i_links_count = 1 };
	uint8_t *root = (uint8_t *)in.i_block;
	uint32_t ino = next_ino(m), blocks, leaves = 0;
	uint64_t size;

	if (m->big_runs && m->n_file % BIG_EVERY == BIG_EVERY - 1) {
		blocks = put_leaves(m, ino, root + 12, m->big_runs, &leaves);
		put_header(root, leaves, ROOT_EXT, 1);
	} else {
		uint32_t n = 1 + below(m, m->small_runs);

		blocks = put_runs(m, root + 12, n, 0);
		put_header(root, n, ROOT_EXT, 0);
	}
	size = (uint64_t)blocks * BLOCK - below(m, BLOCK);
	in.i_size = (uint32_t)size;
	in.i_size_high = (uint32_t)(size >> 32);
	in.i_blocks = (blocks + leaves) * (BLOCK / 512);
	put_inode(m, ino, &in);
	m->n_file++;
	return ino;
}

/* Directories of one block; made before what is in them, written after. */

struct dir {
	uint32_t ino, at, last, subdirs;
	uint8_t block[BLOCK];
};

static void add_name(struct dir *d, uint32_t ino, const char *name, int type)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)(d->block + d->at);
	uint32_t len = (uint32_t)strlen(name);

	e->inode = ino;
	e->rec_len = (uint16_t)EXT2_DIR_REC_LEN((uint8_t)len);
	ext2fs_dirent_set_name_len(e, (int)len);
	ext2fs_dirent_set_file_type(e, type);
	memcpy(e->name, name, len);
	d->last = d->at;
	d->at += e->rec_len;
	d->subdirs += type == EXT2_FT_DIR;
}

static void start_dir(struct dir *d, uint32_t ino, uint32_t parent)
{
	memset(d, 0, sizeof(*d));
	d->ino = ino;
	add_name(d, ino, ".", EXT2_FT_DIR);
	add_name(d, parent, "..", EXT2_FT_DIR);
	d->subdirs = 0;
}

static void write_dir(struct maker *m, struct dir *d, uint64_t at)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)(d->block + d->last);
	uint32_t end = BLOCK;

	if (ext2fs_has_feature_metadata_csum(m->fs->super)) {
		end -= (uint32_t)sizeof(struct ext2_dir_entry_tail);
		ext2fs_initialize_dirent_tail(m->fs, EXT2_DIRENT_TAIL(d->block, BLOCK));
	}
	e->rec_len = (uint16_t)(end - d->last);
	must(ext2fs_write_dir_block4(m->fs, at, d->block, 0, d->ino), "writing a directory");
}

static void fill_dir_inode(struct ext2_inode_large *in, const struct dir *d, uint64_t at)
{
	in->i_mode = LINUX_S_IFDIR | 0755;
	in->i_links_count = (uint16_t)(2 + d->subdirs);
	in->i_size = BLOCK;
	in->i_blocks = BLOCK / 512;
	put_header((uint8_t *)in->i_block, 1, ROOT_EXT, 0);
	put_extent((uint8_t *)in->i_block + 12, 0, 1, at);
}

/* A directory of files. Its inode comes behind theirs. */
static uint32_t make_leaf_dir(struct maker *m, uint32_t parent)
{
	struct ext2_inode_large in = { 0 };
	uint64_t left = m->w->files - m->n_file, at = take(m, 1);
	uint32_t n = left < PER_DIR ? (uint32_t)left : PER_DIR;
	uint32_t per = m->fs->super->s_inodes_per_group;
	struct dir d;
	char name[16];

	m->n_run--;
	start_dir(&d, m->group * per + m->n_inode + 1 + n, parent);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		add_name(&d, make_file(m), name, EXT2_FT_REG_FILE);
	}
	write_dir(m, &d, at);
	fill_dir_inode(&in, &d, at);
	if (next_ino(m) != d.ino)
		image_die("inodes out of order");
	put_inode(m, d.ino, &in);
	ext2fs_bg_used_dirs_count_set(m->fs, m->group,
				      ext2fs_bg_used_dirs_count(m->fs, m->group) + 1);
	return d.ino;
}

/* One of directories. Its inode has to be known first, so its number is kept free. */
static uint32_t make_top_dir(struct maker *m)
{
	struct ext2_inode_large in = { 0 };
	uint64_t left = m->w->files - m->n_file, at = take(m, 1);
	uint64_t dirs = (left + PER_DIR - 1) / PER_DIR;
	uint32_t n = dirs < PER_DIR ? (uint32_t)dirs : PER_DIR;
	uint64_t below_it = left < (uint64_t)n * PER_DIR ? left : (uint64_t)n * PER_DIR;
	uint32_t per = m->fs->super->s_inodes_per_group;
	struct dir d;
	char name[16];

	m->n_run--;
	start_dir(&d, m->group * per + m->n_inode + 1 + n + (uint32_t)below_it, EXT2_ROOT_INO);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		add_name(&d, make_leaf_dir(m, d.ino), name, EXT2_FT_DIR);
	}
	write_dir(m, &d, at);
	fill_dir_inode(&in, &d, at);
	if (next_ino(m) != d.ino)
		image_die("inodes out of order");
	put_inode(m, d.ino, &in);
	ext2fs_bg_used_dirs_count_set(m->fs, m->group,
				      ext2fs_bg_used_dirs_count(m->fs, m->group) + 1);
	return d.ino;
}

static void make_all(struct maker *m)
{
	struct ext2_inode root;
	char name[16];

	for (uint32_t t = 0; m->n_file < m->w->files; t++) {
		uint32_t ino = make_top_dir(m);

		snprintf(name, sizeof(name), "t%u", t);
		must(ext2fs_link(m->fs, EXT2_ROOT_INO, name, ino, EXT2_FT_DIR), "linking");
	}
	write_table(m);
	/* Its inode is in the first table, which has been written behind libext2fs's back. */
	ext2fs_flush_icache(m->fs);
	must(ext2fs_read_inode(m->fs, EXT2_ROOT_INO, &root), "root");
	root.i_links_count = (uint16_t)(root.i_links_count + (m->w->files + PER_DIR * PER_DIR - 1) /
								     (PER_DIR * PER_DIR));
	must(ext2fs_write_inode(m->fs, EXT2_ROOT_INO, &root), "root");
}

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
	make_all(&m);
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
