/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/recipes.h"
#include "support/image.h"
#include <endian.h>
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)

const struct place recipe_every_second = { .order = PLACE_FORWARD };
const struct place recipe_backward = { .order = PLACE_BACKWARD, .len = 2, .step = 5 };
const struct place recipe_shuffled = { .order = PLACE_SHUFFLED, .len = 3, .step = 4 };

/* The usual content: files in a few ways of being fragmented, one contiguous, names and xattrs. */
static void fill_usual(struct image *im)
{
	static const struct place whole = { .len = 12, .step = 12 };
	static const struct place unwritten = { .len = 4, .step = 6, .every_unwritten = 3 };
	uint32_t dir = image_dir(im, IMAGE_ROOT, "dir"), ino;

	image_put(im, IMAGE_ROOT, "contiguous", &whole, 12);
	image_put(im, IMAGE_ROOT, "second", &recipe_every_second, 40);
	ino = image_put(im, dir, "back", &recipe_backward, 60);
	image_xattr(im, ino, "user.small", 20);
	image_xattr(im, ino, "user.block", 600);
	image_put(im, dir, "random", &recipe_shuffled, 150);
	image_put(im, dir, "prealloc", &unwritten, 48);
	image_symlink(im, dir, "fast", "random");
	image_symlink(im, IMAGE_ROOT, "slow",
		      "a/target/longer/than/the/sixty/bytes/that/an/inode/has/room/for/is/kept/in/"
		      "a/block");
}

void recipe_finish(struct image *im, const char *path)
{
	image_close(im);
	image_fsck(path, "-fn", 0);
}

static void usual(const char *path, uint64_t size, const char *features, const char *args)
{
	struct image *im;

	image_mke2fs(path, size, features, args);
	im = image_open(path);
	fill_usual(im);
	recipe_finish(im, path);
}

static void make_base4k(const char *path)
{
	usual(path, 12 * MIB, "", "-b 4096 -N 256 -J size=4");
}

static void make_base1k(const char *path)
{
	usual(path, 6 * MIB, "", "-b 1024 -N 256 -J size=1");
}

static void make_nocsum2k(const char *path)
{
	usual(path, 8 * MIB, "^metadata_csum", "-b 2048 -N 256 -J size=2");
}

static void make_old(const char *path)
{
	usual(path, 6 * MIB, "^64bit", "-b 1024 -N 256 -I 128 -J size=1");
}

static void make_ext3_like(const char *path)
{
	usual(path, 6 * MIB, "^64bit,^metadata_csum,uninit_bg,^flex_bg",
	      "-b 1024 -N 256 -I 128 -J size=1");
}

static void make_meta_bg(const char *path)
{
	usual(path, 17 * MIB, "meta_bg,^resize_inode,sparse_super2", "-b 1024 -N 512 -J size=1");
}

/* More one-block extents than four leaves hold: depth 2 now, 0 when contiguous. */
static void make_shrink(const char *path)
{
	static const struct place thirds = { .len = 1, .step = 3, .order = PLACE_BACKWARD };
	struct image *im;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "deep", &recipe_every_second, 500);
	image_put(im, IMAGE_ROOT, "leaves", &thirds, 100);
	recipe_finish(im, path);
}

/* One long run, which a given plan cuts into many pieces: the tree grows. */
static void make_grow(const char *path)
{
	static const struct place whole = { .len = 800, .step = 800 };
	struct image *im;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "grow", &whole, 800);
	image_put(im, IMAGE_ROOT, "second", &recipe_every_second, 30);
	recipe_finish(im, path);
}

void recipe_dirs(const char *path, const char *features, const char *args, int hashed_names,
		 int linear_names, bool xattr)
{
	static const struct place apart = { .len = 1, .step = 3, .order = PLACE_BACKWARD };
	uint32_t linear, hashed, file;
	char name[128];
	struct image *im;

	image_mke2fs(path, 6 * MIB, features, args);
	im = image_open(path);
	hashed = image_dir(im, IMAGE_ROOT, "hashed");
	for (int i = 0; i < hashed_names; i++) {
		snprintf(name, sizeof(name), "a-name-that-takes-some-room-in-the-directory-%04d",
			 i);
		image_symlink(im, hashed, name, "x");
	}
	image_close(im);
	image_fsck(path, "-fyD", 1); /* gives it an index */
	im = image_open(path);
	linear = image_dir(im, IMAGE_ROOT, "linear");
	for (int i = 0; i < linear_names; i++) {
		snprintf(name, sizeof(name), "another-name-that-takes-some-room-%04d", i);
		image_symlink(im, linear, name, "y");
	}
	file = image_put(im, linear, "file", &recipe_every_second, 50);
	if (xattr)
		image_xattr(im, file, "user.one", 40);
	image_shatter(im, hashed, &apart);
	image_shatter(im, linear, &apart);
	recipe_finish(im, path);
}

static void make_dirs(const char *path)
{
	recipe_dirs(path, "", "-b 1024 -N 512 -J size=1", 200, 60, true);
}

static void make_sparse(const char *path)
{
	static const struct place holes = { .len = 2, .step = 5, .hole = 3 };
	static const struct place mixed = { .len = 3, .step = 7, .hole = 1, .every_unwritten = 2 };
	static const struct place unwritten = {
		.order = PLACE_SHUFFLED, .len = 5, .step = 9, .every_unwritten = 1
	};
	struct piece beyond[2] = { { .lblk = 0, .len = 4 }, { .lblk = 4, .len = 4 } };
	struct image *im;
	struct piece *p;
	uint32_t ino;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "holes", &holes, 80);
	image_put(im, IMAGE_ROOT, "mixed", &mixed, 120);
	image_put(im, IMAGE_ROOT, "unwritten", &unwritten, 60);
	image_pick(im, &(struct place){ .len = 4, .step = 11 }, 8, &p);
	beyond[0].pblk = p[0].pblk;
	beyond[1].pblk = p[1].pblk;
	beyond[1].unwritten = true;
	ino = image_file(im, IMAGE_ROOT, "beyond-the-end"); /* as fallocate -n makes them */
	image_map(im, ino, beyond, 2, NULL, 4000);
	free(p);
	recipe_finish(im, path);
}

uint64_t recipe_room(const struct image *im, uint64_t len)
{
	uint64_t run = 0;

	for (uint64_t at = 0; at < image_blocks(im); at++) {
		run = image_is_free(im, at) ? run + 1 : 0;
		if (run == len)
			return at + 1 - len;
	}
	image_die("no %llu blocks in a row", (unsigned long long)len);
}

static void put_run(struct image *im, const char *name, uint64_t at, uint32_t len)
{
	struct piece p = { .pblk = at, .len = len };

	image_map(im, image_file(im, IMAGE_ROOT, name), &p, 1, NULL, 0);
}

static void put_two(struct image *im, const char *name, uint64_t a, uint32_t len_a, uint64_t b,
		    uint32_t len_b)
{
	struct piece p[2] = { { .pblk = a, .len = len_a },
			      { .pblk = b, .lblk = len_a, .len = len_b } };

	image_map(im, image_file(im, IMAGE_ROOT, name), p, 2, NULL, 0);
}

/* Takes every free block outside [from, to), each free run as a file of its own. */
void recipe_wall(struct image *im, uint64_t from, uint64_t to)
{
	uint64_t start = 0, end = image_blocks(im);
	char name[32];

	for (uint64_t at = 0; at <= end; at++) {
		bool take = at < end && (at < from || at >= to) && image_is_free(im, at);

		if (take && !start)
			start = at;
		if (take || !start)
			continue;
		snprintf(name, sizeof(name), "wall%llu", (unsigned long long)start);
		put_run(im, name, start, (uint32_t)(at - start));
		start = 0;
	}
}

/*
 * Tight: the only hole that is long enough is taken by the first file, and the second one fits only
 * where the first one was; many small files beside them in the same transactions.
 *   0 free 100 wall 105 free 155 b1 225 wall 230 b2 260 wall 265 a1 325 wall 330 a2 390 wall 400
 */
static void make_frees(const char *path)
{
	struct image *im;
	uint64_t at;
	char name[32];

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	at = recipe_room(im, 1000);
	put_two(im, "b", at + 155, 70, at + 230, 30);
	put_two(im, "a", at + 265, 60, at + 330, 60);
	put_run(im, "wall-0", at + 100, 5);
	put_run(im, "wall-1", at + 225, 5);
	put_run(im, "wall-2", at + 260, 5);
	put_run(im, "wall-3", at + 325, 5);
	put_run(im, "wall-4", at + 390, 10);
	for (uint32_t i = 0; i < 24; i++) {
		snprintf(name, sizeof(name), "small%02u", i);
		put_two(im, name, at + 400 + 8 * i, 2, at + 600 + 8 * i, 3);
	}
	recipe_wall(im, at, at + 800);
	recipe_finish(im, path);
}

/* One file larger than a batch. */
static void make_large(const char *path)
{
	static const struct place random = { .order = PLACE_SHUFFLED, .len = 4, .step = 6 };
	struct image *im;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "large", &random, 1200);
	image_put(im, IMAGE_ROOT, "small", &recipe_every_second, 20);
	recipe_finish(im, path);
}

static void make_many(const char *path)
{
	struct image *im;
	char name[32];

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 512 -J size=1");
	im = image_open(path);
	for (uint32_t i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "file%02u", i);
		image_put(im, IMAGE_ROOT, name, i % 2 ? &recipe_every_second : &recipe_backward,
			  4 + i % 9);
	}
	recipe_finish(im, path);
}

/* s_last_mounted is in use to its last byte: the superblock's sector needs other spare bytes. */
static void make_torn(const char *path)
{
	struct ext2_super_block sb;

	usual(path, 6 * MIB, "", "-b 1024 -N 128 -J size=1");
	image_read(path, 1024, &sb, sizeof(sb));
	memset(sb.s_last_mounted, 'm', sizeof(sb.s_last_mounted));
	sb.s_checksum = ext2fs_crc32c_le(~0u, (unsigned char *)&sb,
					 offsetof(struct ext2_super_block, s_checksum));
	image_write(path, 1024, &sb, sizeof(sb));
	image_fsck(path, "-fn", 0);
}

static void make_features(const char *path)
{
	struct image *im;
	uint32_t ino;
	char name[32];

	image_mke2fs(path, 8 * MIB, "metadata_csum_seed,orphan_file,inline_data,ea_inode,large_dir",
		     "-b 1024 -N 512 -J size=1");
	im = image_open(path);
	fill_usual(im);
	for (uint32_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "inline%u", i);
		image_inline(im, IMAGE_ROOT, name, 10 + 15 * i);
	}
	ino = image_put(im, IMAGE_ROOT, "with-ea-inode", &recipe_shuffled, 20);
	image_xattr(im, ino, "user.big", 7000);
	image_close(im);
	image_fsck(path, "-fy", 1); /* i_blocks of the EA inode's owner */
	image_fsck(path, "-fn", 0);
}

/* Free space that is long enough lies only in groups whose bitmap was never written. */
static void make_uninit(const char *path)
{
	static const struct place first = { .to = 2048 };
	struct image *im;

	image_mke2fs(path, 7 * MIB, "", "-b 1024 -g 2048 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &first, 400);
	recipe_finish(im, path);
}

/*
 * A block bitmap whose first bytes are JBD2's magic number, so that the log has to escape it: one
 * block files that nobody moves, at the start of a group without metadata.
 */
static void make_escape(const char *path)
{
	static const uint8_t magic[4] = { 0xc0, 0x3b, 0x39, 0x98 };
	struct image *im;
	uint64_t first = 0;
	char name[32];

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -g 1024 -N 192 -J size=1");
	im = image_open(path);
	for (uint64_t g = 1; !first && (g + 1) * 1024 < image_blocks(im); g++) {
		first = g * 1024 + 1;
		for (uint64_t i = 0; first && i < 600; i++)
			if (!image_is_free(im, first + i))
				first = 0;
	}
	if (!first)
		image_die("no group without metadata");
	for (uint32_t i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "bit%02u", i);
		if (magic[i / 8] >> i % 8 & 1)
			put_run(im, name, first + i, 1);
	}
	image_put(im, IMAGE_ROOT, "second",
		  &(struct place){ .len = 2, .step = 4, .from = first + 40, .to = first + 1000 },
		  160);
	image_put(im, IMAGE_ROOT, "random", &recipe_shuffled, 100);
	recipe_finish(im, path);
}

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
}

/*
 * A clean log full of old transactions (descriptor, one block of junk for the inode table, commit)
 * with numbers just above the one that comes next, as mke2fs leaves them when it makes a file
 * system over an older one without clearing the log. No checksums, so that replay would take them.
 */
static void make_stale(const char *path)
{
	struct image *im;
	uint64_t table, log[1024];
	uint8_t block[1024];

	image_mke2fs(path, 6 * MIB, "^64bit,^metadata_csum", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	fill_usual(im);
	table = image_inode_table(im);
	for (uint32_t i = 0; i < 1024; i++)
		log[i] = image_file_block(im, EXT2_JOURNAL_INO, i);
	recipe_finish(im, path);
	for (uint32_t i = 1; i < 1024; i++) {
		uint32_t tid = 3 + i / 60;

		memset(block, 0, sizeof(block));
		if (i % 3 == 2) {
			memset(block, 0xab, sizeof(block));
		} else {
			put32(block, 0xc03b3998);
			put32(block + 4, i % 3 == 1 ? 1 : 2);
			put32(block + 8, tid);
		}
		if (i % 3 == 1) {
			put32(block + 12, (uint32_t)table);
			put32(block + 16, 8); /* flags: the last tag */
		}
		image_write(path, log[i] * 1024, block, sizeof(block));
	}
}

/* A handful of free blocks: nothing fits anywhere, and nothing may go wrong. */
static void make_full(const char *path)
{
	struct image *im;

	image_mke2fs(path, 4 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &recipe_every_second, 400);
	image_put(im, IMAGE_ROOT, "random", &recipe_shuffled, 60);
	image_hog(im, "hog", 16);
	recipe_finish(im, path);
}

/* Nothing to do. */
static void make_clean(const char *path)
{
	struct image *im;

	image_mke2fs(path, 4 * MIB, "", "-b 1024 -N 128 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "one", &(struct place){ .len = 30, .step = 30 }, 30);
	image_put(im, IMAGE_ROOT, "two", &(struct place){ .len = 40, .step = 40 }, 40);
	recipe_finish(im, path);
}

const struct recipe recipes[] = {
	{ "base4k", "4 KiB blocks, today's features", make_base4k },
	{ "base1k", "1 KiB blocks", make_base1k },
	{ "nocsum2k", "2 KiB blocks, no metadata_csum", make_nocsum2k },
	{ "old", "32-bit, 128-byte inodes", make_old },
	{ "ext3like", "no flex_bg, no 64bit, uninit_bg", make_ext3_like },
	{ "metabg", "meta_bg, sparse_super2", make_meta_bg },
	{ "shrink", "a deep extent tree that shrinks to nothing", make_shrink },
	{ "grow", "one long run, to be cut by a given plan", make_grow },
	{ "dirs", "fragmented directories, hashed and linear", make_dirs },
	{ "sparse", "holes, unwritten extents, blocks beyond the end", make_sparse },
	{ "frees", "a file that fits only where another one was", make_frees },
	{ "large", "one large file", make_large },
	{ "many", "many small files", make_many },
	{ "torn", "s_last_mounted in use to its last byte", make_torn },
	{ "features", "csum_seed, orphan_file, inline_data, ea_inode, large_dir", make_features },
	{ "uninit", "room only in BLOCK_UNINIT groups", make_uninit },
	{ "escape", "a bitmap that begins with JBD2's magic", make_escape },
	{ "stale", "a log full of old transactions", make_stale },
	{ "blockmapped", "block-mapped files beside extents", recipe_blockmapped },
	{ "fewmapped", "two small block-mapped files", recipe_fewmapped },
	{ "triple", "block-mapped files with holes, up to triple indirect blocks", recipe_triple },
	{ "ext3", "an ext3 file system", recipe_ext3 },
	{ "ext3dirs", "block-mapped directories, hashed and linear", recipe_ext3dirs },
	{ "upgraded", "ext3 made ext4: some files of each kind, 4 KiB", recipe_upgraded },
	{ "csumv2", "block-mapped files, an old journal's checksums", recipe_csumv2 },
	{ "ext2", "an ext2 file system", recipe_ext2 },
	{ "ext2large", "ext2, 4 KiB blocks, files larger than a batch", recipe_ext2large },
	{ "ext2dirs", "ext2, directories, hashed and linear", recipe_ext2dirs },
	{ "nojournal", "trees of extents and checksums, no journal", recipe_nojournal },
	{ "fewordered", "no journal, two small files", recipe_fewordered },
	{ "ordereduninit", "no journal, room only in BLOCK_UNINIT groups", recipe_ordereduninit },
	{ "trees", "trees far from data that lie well", recipe_trees },
	{ "treesbare", "the same without a journal", recipe_treesbare },
	{ "mappedcycles", "like cycles, block-mapped", recipe_mappedcycles },
	{ "quota", "the quota feature, files of many owners", recipe_quota },
	{ "quotabare", "the same without a journal or extents", recipe_quotabare },
	{ "quotaclusters", "the quota feature and bigalloc", recipe_quotaclusters },
	{ "mmp", "multi-mount protection", recipe_mmp },
	{ "mmpbare", "multi-mount protection, no journal", recipe_mmpbare },
	{ "deepest", "trees of depth 5, of nodes with one to three entries", recipe_deepest },
	{ "deepestbare", "the same without a journal", recipe_deepestbare },
	{ "toodeep", "trees of depth 6, which no kernel takes", recipe_toodeep },
	{ "bigalloc", "clusters of 8 blocks of 1 KiB, holes inside of them", recipe_bigalloc },
	{ "bigalloc4k", "clusters of 4 blocks of 4 KiB", recipe_bigalloc4k },
	{ "bigallocbare", "bigalloc without a journal", recipe_bigallocbare },
	{ "bigallocdirs", "directories in clusters", recipe_bigallocdirs },
	{ "bigallocuninit", "bigalloc, room only in BLOCK_UNINIT groups", recipe_bigallocuninit },
	{ "bigalloctight", "bigalloc, few free clusters", recipe_bigalloctight },
	{ "full", "a few free blocks", make_full },
	{ "clean", "nothing to do", make_clean },
	{ "onefree", "two interleaved files, one free block", recipe_onefree },
	{ "fullmail", "98 % full, many small files, 4 KiB blocks", recipe_fullmail },
	{ "cycles", "files that lie on each other's places, 2 KiB blocks", recipe_cycles },
	{ "chain", "files that follow each other through a small hole", recipe_chain },
	{ "slide", "whole files between the free blocks", recipe_slide },
	{ "treeway", "tree blocks in the way, few free blocks", recipe_treeway },
	{ "packedholes", "holes and unwritten extents, few free blocks", recipe_packedholes },
	{ "packeddirs", "directories between files, few free blocks", recipe_packeddirs },
	{ "tight", "two files, two free blocks", recipe_tight },
	{ "tinylog", "a tree of more blocks than one transaction holds", recipe_tinylog },
	{ "churn", "like demo, smaller", recipe_churn },
	{ "demo", "what make demo shows", recipe_demo },
	{ NULL, NULL, NULL },
};

void recipe_make(const char *name, const char *path)
{
	const struct recipe *r = recipes;

	while (r->name && strcmp(r->name, name))
		r++;
	if (!r->name)
		image_die("no recipe %s", name);
	r->make(path);
}
