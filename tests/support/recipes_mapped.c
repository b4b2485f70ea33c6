/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Block-mapped files and directories, as ext2 and ext3 have them. */
#include "support/image.h"
#include "support/recipes.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)

/* Direct, single and double indirect blocks: of any file system with 1 KiB blocks. */
static void fill(struct image *im)
{
	uint32_t dir = image_dir(im, IMAGE_ROOT, "mapped"), ino;

	image_put_mapped(im, dir, "direct", &recipe_every_second, 8);
	image_put_mapped(im, dir, "indirect", &recipe_every_second, 120);
	ino = image_put_mapped(im, dir, "double", &recipe_every_second, 400);
	image_xattr(im, ino, "user.block", 600);
	image_put_mapped(im, dir, "back", &recipe_backward, 100);
	image_put_mapped(im, dir, "random", &recipe_shuffled, 300);
	image_symlink(im, dir, "slow",
		      "a/target/longer/than/the/sixty/bytes/that/an/inode/has/room/for/is/kept/in/"
		      "a/block");
}

void recipe_blockmapped(const char *path)
{
	struct image *im;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	fill(im);
	image_put(im, IMAGE_ROOT, "extents", &recipe_every_second, 100);
	recipe_finish(im, path);
}

/* Few blocks: for tests that try everything. */
void recipe_fewmapped(const char *path)
{
	struct image *im;

	image_mke2fs(path, 4 * MIB, "^extent,^64bit", "-b 1024 -N 64 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "single", &recipe_backward, 24);
	image_put(im, IMAGE_ROOT, "double", &(struct place){ .len = 3, .hole = 130 }, 9);
	recipe_finish(im, path);
}

/* Long holes: indirect blocks of every level, some with a single pointer. */
void recipe_triple(const char *path)
{
	struct image *im;

	image_mke2fs(path, 6 * MIB, "^extent,^64bit", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "sparse", &(struct place){ .len = 3, .hole = 7000 }, 60);
	image_put(im, IMAGE_ROOT, "sparser",
		  &(struct place){ .order = PLACE_SHUFFLED, .len = 2, .hole = 40000 }, 20);
	image_put(im, IMAGE_ROOT, "some", &(struct place){ .len = 2, .step = 3, .hole = 5 }, 300);
	image_put(im, IMAGE_ROOT, "dense", &recipe_shuffled, 600);
	recipe_finish(im, path);
}

void recipe_ext3(const char *path)
{
	struct image *im;

	image_mke2fs(path, 6 * MIB,
		     "^extent,^64bit,^metadata_csum,^flex_bg,^huge_file,^dir_nlink,^extra_isize",
		     "-b 1024 -N 256 -I 128 -J size=1");
	im = image_open(path);
	fill(im);
	recipe_finish(im, path);
}

void recipe_ext3dirs(const char *path)
{
	recipe_dirs(path, "^extent,^64bit,^metadata_csum", "-b 1024 -N 768 -J size=1", 300, 250,
		    false);
}

/* Checksums, 64 bit, and 4 KiB blocks: a single indirect block covers 4 MiB. */
void recipe_upgraded(const char *path)
{
	static const struct place far = { .len = 1, .step = 4, .hole = 700 };
	struct image *im;
	char name[32];

	image_mke2fs(path, 16 * MIB, "", "-b 4096 -N 256 -J size=4");
	im = image_open(path);
	for (uint32_t i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "file%02u", i);
		if (i % 2)
			image_put(im, IMAGE_ROOT, name, &recipe_every_second, 10 + 2 * i);
		else
			image_put_mapped(im, IMAGE_ROOT, name, &recipe_every_second, 10 + 2 * i);
	}
	image_put_mapped(im, IMAGE_ROOT, "sparse", &far, 12);
	image_put_mapped(im, IMAGE_ROOT, "large", &recipe_shuffled, 800);
	recipe_finish(im, path);
}

/* The journal has the checksums that came before today's: version 2. */
void recipe_csumv2(const char *path)
{
	enum { INCOMPAT = 0x28, TYPE = 0x50, SUM = 0xfc };
	uint8_t jsb[1024];
	struct image *im;
	uint64_t at;
	uint32_t crc;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	fill(im);
	at = image_file_block(im, EXT2_JOURNAL_INO, 0) * 1024;
	image_close(im);
	image_read(path, at, jsb, sizeof(jsb));
	jsb[INCOMPAT + 3] |= 8;
	jsb[TYPE] = 4; /* crc32c */
	memset(jsb + SUM, 0, 4);
	crc = ext2fs_crc32c_le(~0u, jsb, sizeof(jsb));
	for (int i = 0; i < 4; i++)
		jsb[SUM + i] = (uint8_t)(crc >> (24 - 8 * i));
	image_write(path, at, jsb, sizeof(jsb));
	image_fsck(path, "-fn", 0);
}

#define EXT2                                                                                       \
	"^has_journal,^extent,^64bit,^metadata_csum,^flex_bg,^huge_file,^dir_nlink,^extra_isize"

void recipe_ext2(const char *path)
{
	struct image *im;

	image_mke2fs(path, 6 * MIB, EXT2, "-b 1024 -N 256 -I 128");
	im = image_open(path);
	fill(im);
	recipe_finish(im, path);
}

/* Indirect blocks stay where they are while pieces of the file move. */
void recipe_ext2large(const char *path)
{
	static const struct place far = { .len = 1, .step = 4, .hole = 700 };
	struct image *im;

	image_mke2fs(path, 10 * MIB, EXT2, "-b 4096 -N 256");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "sparse", &far, 12);
	image_put(im, IMAGE_ROOT, "large", &recipe_shuffled, 1100);
	image_put(im, IMAGE_ROOT, "small", &recipe_every_second, 20);
	recipe_finish(im, path);
}

void recipe_ext2dirs(const char *path)
{
	/* of three blocks, e2fsck would give the linear one an index */
	recipe_dirs(path, EXT2, "-b 1024 -N 768", 300, 40, false);
}

/* Trees of depth 1 and 2, in whole and, where batches are small, in pieces. */
void recipe_nojournal(const char *path)
{
	static const struct place mixed = { .len = 3, .step = 7, .hole = 1, .every_unwritten = 2 };
	struct image *im;

	image_mke2fs(path, 6 * MIB, "^has_journal", "-b 1024 -N 256");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "deep", &recipe_every_second, 500);
	image_put(im, IMAGE_ROOT, "back", &recipe_backward, 100);
	image_put(im, IMAGE_ROOT, "mixed", &mixed, 120);
	image_put(im, IMAGE_ROOT, "large", &recipe_shuffled, 700);
	image_put_mapped(im, IMAGE_ROOT, "mapped", &recipe_every_second, 60);
	recipe_finish(im, path);
}

/* Few blocks, a tree and an indirect block: for tests that try everything. */
void recipe_fewordered(const char *path)
{
	struct image *im;

	image_mke2fs(path, 4 * MIB, "^has_journal", "-b 1024 -N 64");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "tree", &recipe_backward, 24);
	image_put_mapped(im, IMAGE_ROOT, "mapped", &recipe_backward, 24);
	recipe_finish(im, path);
}

/* Without flex_bg: the groups have bitmaps and an inode table of their own. */
void recipe_ordereduninit(const char *path)
{
	static const struct place first = { .to = 2048 };
	static const struct place last = { .len = 900, .step = 900, .from = 6145, .to = 7168 };
	struct image *im;

	image_mke2fs(path, 7 * MIB, "^has_journal,^flex_bg,^resize_inode",
		     "-b 1024 -g 2048 -N 128");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &first, 800);
	image_put(im, IMAGE_ROOT, "whole", &last, 900); /* the last group is never BLOCK_UNINIT */
	recipe_finish(im, path);
}
