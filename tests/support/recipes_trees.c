/* SPDX-License-Identifier: GPL-2.0-or-later */
/* recipes: trees of extents far from data that lie well, for mode layout. */
#include "support/image.h"
#include "support/recipes.h"

#define MIB (1ull << 20)

static void make(const char *path, const char *features)
{
	/* Longer than what is worth a seek; 110 records, and 550 in a tree of two levels. */
	static const struct place ten = {
		.len = 10, .step = 10, .from = 2000, .to = 3200, .hole = 1
	};
	static const struct place two = {
		.len = 2, .step = 2, .from = 3300, .to = 4500, .hole = 1, .every_unwritten = 3
	};
	static const struct place apart = { .len = 2, .step = 5, .from = 4600, .hole = 1 };
	struct image *im;

	image_mke2fs(path, 6 * MIB, features, "-b 1024 -N 128");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "ten", &ten, 1100);
	image_put(im, IMAGE_ROOT, "two", &two, 1100);
	image_put(im, IMAGE_ROOT, "apart", &apart, 40);
	recipe_finish(im, path);
}

void recipe_trees(const char *path)
{
	make(path, "");
}

void recipe_treesbare(const char *path)
{
	make(path, "^has_journal");
}
