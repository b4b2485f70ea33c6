/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recipes with bigalloc: what lies in clusters, and what lies inside of them. */
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>

#define MIB (1ull << 20)

/*
 * A file of `n` clusters far apart, of `ratio` blocks each. In turn a cluster is whole; has a hole
 * at its end; is written, unwritten and a hole; lies behind a hole of three clusters; is unwritten.
 */
static uint32_t put_mixed(struct image *im, uint32_t dir, const char *name, uint32_t ratio,
			  uint32_t n)
{
	const struct place place = { .len = ratio, .step = 3 * ratio, .order = PLACE_SHUFFLED };
	struct piece *whole, *piece = calloc(3 * n, sizeof(*piece));
	uint32_t ino = image_file(im, dir, name), lblk = 0;
	size_t k = 0;

	if (!piece)
		image_die("out of memory");
	image_pick(im, &place, n * ratio, &whole);
	for (uint32_t i = 0; i < n; i++) {
		struct piece p = { .pblk = whole[i].pblk, .lblk = lblk, .len = ratio };

		lblk += ratio;
		if (i % 5 == 1) {
			p.len = ratio - 1;
		} else if (i % 5 == 2) {
			p.len = ratio / 4;
			piece[k++] = p;
			p.pblk += p.len;
			p.lblk += p.len;
			p.unwritten = true;
			piece[k++] = p;
			p.pblk += 2 * p.len;
			p.lblk += 2 * p.len;
			p.unwritten = false;
		} else if (i % 5 == 3) {
			p.lblk += 3 * ratio;
			lblk += 3 * ratio;
		} else if (i % 5 == 4) {
			p.unwritten = true;
		}
		piece[k++] = p;
	}
	image_map(im, ino, piece, k, NULL, 0);
	free(whole);
	free(piece);
	return ino;
}

static void fill(struct image *im, uint32_t ratio)
{
	const struct place whole = { .len = 12 * ratio, .step = 12 * ratio };
	const struct place second = { .len = ratio, .step = 2 * ratio };
	const struct place holes = { .len = ratio - 1, .step = 2 * ratio, .order = PLACE_BACKWARD };
	const struct place few = { .len = 2 * ratio, .step = 3 * ratio };
	uint32_t dir = image_dir(im, IMAGE_ROOT, "dir"), ino;
	char name[32];

	image_put(im, IMAGE_ROOT, "contiguous", &whole, 12 * ratio);
	image_put(im, IMAGE_ROOT, "second", &second, 20 * ratio + 1);
	ino = image_put(im, dir, "holes", &holes, 10 * (ratio - 1));
	image_xattr(im, ino, "user.small", 20);
	image_xattr(im, ino, "user.block", 600);
	put_mixed(im, dir, "mixed", ratio, 40);
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "few%d", i);
		image_put(im, dir, name, &few, 3 * ratio);
	}
	image_symlink(im, IMAGE_ROOT, "slow",
		      "a/target/longer/than/the/sixty/bytes/that/an/inode/has/room/for/is/kept/in/"
		      "a/block");
}

/* The tree of the last file is of depth 1 and 5 leaves, one after the other in its clusters. */
static void make_small(const char *path, const char *features, const char *options)
{
	struct image *im;

	image_mke2fs(path, 12 * MIB, features, options);
	im = image_open(path);
	fill(im, 8);
	put_mixed(im, IMAGE_ROOT, "deep", 8, 220);
	recipe_finish(im, path);
}

void recipe_bigalloc(const char *path)
{
	make_small(path, "bigalloc", "-b 1024 -C 8192 -N 256 -J size=1");
}

void recipe_bigallocbare(const char *path)
{
	make_small(path, "bigalloc,^has_journal", "-b 1024 -C 8192 -N 256");
}

void recipe_bigalloc4k(const char *path)
{
	struct image *im;

	image_mke2fs(path, 16 * MIB, "bigalloc,^metadata_csum",
		     "-b 4096 -C 16384 -N 256 -J size=4");
	im = image_open(path);
	fill(im, 4);
	recipe_finish(im, path);
}

void recipe_bigallocdirs(const char *path)
{
	recipe_dirs(path, "bigalloc", "-b 1024 -C 4096 -N 600 -J size=1", 350, 200, true);
}

/* Room in BLOCK_UNINIT groups alone, whose metadata is not aligned with clusters. */
void recipe_bigallocuninit(const char *path)
{
	const struct place first = { .len = 2, .step = 12, .to = 2048 };
	const struct place holes = { .len = 3, .step = 12, .to = 2048 };
	const struct place third = { .len = 900, .from = 4096, .to = 6144 };
	const struct place last = { .len = 1900, .from = 10240 };
	struct image *im;

	image_mke2fs(path, 12 * MIB, "bigalloc,meta_bg,^resize_inode,^flex_bg",
		     "-b 1024 -C 2048 -g 1024 -N 240 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &first, 301);
	image_put(im, IMAGE_ROOT, "holes", &holes, 75);
	image_put(im, IMAGE_ROOT, "third", &third, 900); /* the groups that are in use */
	image_put(im, IMAGE_ROOT, "last", &last, 1900);
	recipe_finish(im, path);
}

/* Files that lie between each other, and hardly a cluster free. */
void recipe_bigalloctight(const char *path)
{
	const struct place apart = { .len = 4, .step = 12 };
	const struct place holes = { .len = 3, .step = 8 };
	struct image *im;
	char name[32];

	image_mke2fs(path, 8 * MIB, "bigalloc", "-b 1024 -C 4096 -N 128 -J size=1");
	im = image_open(path);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "apart%d", i);
		image_put(im, IMAGE_ROOT, name, &apart, 100);
	}
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "holes%d", i);
		image_put(im, IMAGE_ROOT, name, &holes, 9);
	}
	image_hog(im, "hog", 12);
	recipe_finish(im, path);
}
