/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images without room: a strip of blocks whose owners are given one by one, and no free block
 * outside of it. What is fragmented in there is put in order only by making room.
 */
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>

#define MIB  (1ull << 20)
#define FREE 0u

struct bit {
	uint32_t file; /* 1.., or FREE */
	uint32_t lblk, len;
	bool unwritten;
};

struct strip {
	struct bit bit[1024];
	size_t n;
	uint64_t blocks;
	uint32_t files;
	bool mapped;	    /* they are block-mapped */
	uint32_t next[256]; /* of each file: the logical block after its last one */
};

static void add(struct strip *s, struct bit b)
{
	if (s->n == sizeof(s->bit) / sizeof(s->bit[0]) || b.file >= 256)
		image_die("the strip is full");
	s->bit[s->n++] = b;
	s->blocks += b.len;
	if (b.file > s->files)
		s->files = b.file;
	if (b.file && b.lblk + b.len > s->next[b.file])
		s->next[b.file] = b.lblk + b.len;
}

/* The next blocks of a file, or free ones. */
static void more(struct strip *s, uint32_t file, uint32_t len)
{
	if (file >= 256)
		image_die("no file %u", file);
	add(s, (struct bit){ .file = file, .lblk = file ? s->next[file] : 0, .len = len });
}

static int by_lblk(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return (x->lblk > y->lblk) - (x->lblk < y->lblk);
}

static void map_one(struct image *im, const struct strip *s, uint64_t at, uint32_t file,
		    uint32_t ino)
{
	struct piece p[1024];
	size_t n = 0;

	for (size_t i = 0; i < s->n; at += s->bit[i++].len) {
		const struct bit *b = &s->bit[i];

		if (b->file != file)
			continue;
		image_reserve(im, at, b->len, false);
		p[n++] = (struct piece){
			.pblk = at, .lblk = b->lblk, .len = b->len, .unwritten = b->unwritten
		};
	}
	qsort(p, n, sizeof(p[0]), by_lblk);
	image_map(im, ino, p, n, NULL, 0);
}

/* Makes the files of the strip; tree blocks come from its free blocks, first file first. */
static void lay(struct image *im, const struct strip *s)
{
	uint32_t ino[256], dir = image_dir(im, IMAGE_ROOT, "strip");
	uint64_t at, end;
	char name[32];

	for (uint32_t f = 1; f <= s->files; f++) {
		snprintf(name, sizeof(name), "file%03u", f);
		ino[f] = s->mapped ? image_mapped_file(im, dir, name) : image_file(im, dir, name);
	}
	at = end = recipe_room(im, s->blocks);
	recipe_wall(im, at, at + s->blocks);
	for (size_t i = 0; i < s->n; end += s->bit[i++].len)
		if (s->bit[i].file)
			image_reserve(im, end, s->bit[i].len, true);
	for (uint32_t f = 1; f <= s->files; f++)
		map_one(im, s, at, f, ino[f]);
}

static void finish(const char *path, const struct strip *s, uint64_t size, const char *features,
		   const char *args)
{
	struct image *im;

	image_mke2fs(path, size, features, args);
	im = image_open(path);
	lay(im, s);
	image_close(im);
	image_fsck(path, "-fn", 0);
}

/* a b a b ... in pieces of one block; twelve blocks for the trees, which leaves one free. */
void recipe_onefree(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t i = 0; i < 400; i++) {
		more(&s, 1, 1);
		more(&s, 2, 1);
	}
	more(&s, FREE, 13);
	finish(path, &s, 6 * MIB, "", "-b 1024 -N 64 -J size=1");
}

void recipe_fullmail(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t turn = 0; turn < 5; turn++)
		for (uint32_t f = 1; f <= 60; f++)
			if (turn < 2 || f % 5 >= turn)
				more(&s, (f * 17 + turn * 7) % 60 + 1, 1 + (f + turn) % 3);
	more(&s, FREE, 8);
	finish(path, &s, 10 * MIB, "", "-b 4096 -N 128 -J size=4");
}

/* The pieces of five files in an order that turns round and round; three free blocks beside the
 * trees. */
static void cycles(const char *path, bool mapped)
{
	struct strip s = { .mapped = mapped };

	for (uint32_t turn = 0; turn < 8; turn++)
		for (uint32_t f = 0; f < 5; f++) {
			uint32_t file = (f + turn) % 5 + 1;

			add(&s, (struct bit){ .file = file,
					      .lblk = (turn * 3 + file) % 8 * 6,
					      .len = 6 });
		}
	more(&s, FREE, 8);
	finish(path, &s, 8 * MIB, "^metadata_csum", "-b 2048 -N 64 -J size=2");
}

void recipe_cycles(const char *path)
{
	cycles(path, false);
}

void recipe_mappedcycles(const char *path)
{
	cycles(path, true);
}

/* Each file's second half lies where the next one could go. */
void recipe_chain(const char *path)
{
	struct strip s = { .n = 0 };

	more(&s, FREE, 6);
	for (uint32_t f = 1; f <= 24; f++) {
		more(&s, f, 6);
		if (f > 2)
			more(&s, f - 2, 6);
	}
	more(&s, 23, 6);
	more(&s, 24, 6);
	finish(path, &s, 6 * MIB, "^64bit,^metadata_csum,uninit_bg,^flex_bg",
	       "-b 1024 -N 96 -I 128 -J size=1");
}

/* Free space comes in small holes, with whole files between. */
void recipe_slide(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t f = 1; f <= 8; f++) {
		more(&s, FREE, 5);
		more(&s, f, 30 + f);
		more(&s, 9, 9);
		more(&s, 10, 3);
	}
	finish(path, &s, 6 * MIB, "", "-b 1024 -N 64 -J size=1");
}

/* Extent tree blocks lie all over the strip: they go away when their files become whole. */
void recipe_treeway(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t i = 0; i < 96; i++) {
		for (uint32_t f = 1; f <= 4; f++)
			more(&s, f, 1 + (i + f) % 2);
		if (i % 12 == 5)
			more(&s, FREE, 1);
	}
	more(&s, FREE, 4);
	finish(path, &s, 6 * MIB, "", "-b 1024 -N 64 -J size=1");
}

void recipe_packedholes(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t i = 0; i < 24; i++)
		for (uint32_t f = 1; f <= 4; f++)
			add(&s,
			    (struct bit){ .file = f,
					  .lblk = (i * 5 + f) % 24 * 4 + (i * 5 + f) % 24 / 3 * f,
					  .len = 4,
					  .unwritten = (i + f) % 3 == 0 });
	more(&s, FREE, 11);
	finish(path, &s, 6 * MIB, "", "-b 1024 -N 64 -J size=1");
}

/* Directories of several blocks, which lie between the pieces of files. */
void recipe_packeddirs(const char *path)
{
	static const struct place apart = { .len = 1, .step = 4, .order = PLACE_BACKWARD };
	uint32_t dir[3];
	char name[128];
	struct strip s = { .n = 0 };
	struct image *im;

	image_mke2fs(path, 6 * MIB, "", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	for (uint32_t d = 0; d < 3; d++) {
		snprintf(name, sizeof(name), "dir%u", d);
		dir[d] = image_dir(im, IMAGE_ROOT, name);
		for (uint32_t i = 0; i < 60 + 10 * d; i++) {
			snprintf(name, sizeof(name), "a-name-that-takes-some-room-in-here-%u-%04u",
				 d, i);
			image_symlink(im, dir[d], name, "x");
		}
	}
	image_close(im);
	image_fsck(path, "-fyD", 1); /* gives them an index */
	im = image_open(path);
	for (uint32_t d = 0; d < 3; d++)
		image_shatter(im, dir[d], &apart);
	for (uint32_t i = 0; i < 12; i++)
		for (uint32_t f = 1; f <= 4; f++)
			more(&s, f, 2 + (i + f) % 3);
	more(&s, FREE, 7);
	lay(im, &s);
	image_close(im);
	image_fsck(path, "-fn", 0);
}

/* The smallest one: two files in two pieces each, and two free blocks. */
void recipe_tight(const char *path)
{
	struct strip s = { .n = 0 };

	for (uint32_t turn = 0; turn < 2; turn++)
		for (uint32_t f = 1; f <= 2; f++)
			more(&s, f, 4);
	more(&s, FREE, 2);
	finish(path, &s, 4 * MIB, "", "-b 1024 -N 32 -J size=1");
}
