/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recipes of file systems with bookkeeping of their own. */
#include "support/image.h"
#include "support/recipes.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>

/* Files of several owners, whose trees become smaller. */
static void make_quota(const char *path, const char *features, const char *args)
{
	static const struct place thirds = { .len = 1, .step = 3, .order = PLACE_BACKWARD };
	struct image *im;
	char name[16];

	image_mke2fs(path, 6 << 20, features, args);
	im = image_open(path);
	image_owner(im, image_put(im, IMAGE_ROOT, "deep", &recipe_every_second, 500), 1000, 7, 0);
	image_owner(im, image_put(im, IMAGE_ROOT, "leaves", &thirds, 100), 1000, 70000, 5);
	image_owner(im, image_put_mapped(im, IMAGE_ROOT, "mapped", &thirds, 60), 12, 7, 5);
	for (int i = 0; i < 20; i++) { /* more owners than a block has entries */
		snprintf(name, sizeof(name), "one%d", i);
		image_owner(im, image_put(im, IMAGE_ROOT, name, &recipe_every_second, 6 + 2 * i),
			    100u + 300u * (unsigned)i, 0, 5);
	}
	image_close(im);
	image_fsck(path, "-fy", 1); /* counts */
	image_fsck(path, "-fn", 0);
}

#define QUOTA_TYPES "-E quotatype=usrquota:grpquota:prjquota"

void recipe_quota(const char *path)
{
	make_quota(path, "quota,project", "-b 1024 -N 128 -J size=1 " QUOTA_TYPES);
}

/* Block-mapped files alone: their indirect blocks are as many as before. */
void recipe_quotabare(const char *path)
{
	make_quota(path, "quota,project,^has_journal,^extent,^64bit",
		   "-b 1024 -N 128 " QUOTA_TYPES);
}

/* The same with clusters of 8 blocks, of which a tree block takes one. */
void recipe_quotaclusters(const char *path)
{
	static const struct place apart = { .len = 8, .step = 16 };
	static const struct place thirds = { .len = 8, .step = 24, .order = PLACE_BACKWARD };
	struct image *im;
	char name[16];

	image_mke2fs(path, 12 << 20, "bigalloc,quota,project",
		     "-b 1024 -C 8192 -N 128 -J size=1 -E quotatype=usrquota:grpquota:prjquota");
	im = image_open(path);
	image_owner(im, image_put(im, IMAGE_ROOT, "deep", &apart, 8 * 200), 1000, 7, 0);
	image_owner(im, image_put(im, IMAGE_ROOT, "leaves", &thirds, 8 * 100), 1000, 70000, 5);
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "one%d", i);
		image_owner(im, image_put(im, IMAGE_ROOT, name, &apart, 8 * (4u + (unsigned)i)),
			    100u + 300u * (unsigned)i, 0, 5);
	}
	image_close(im);
	image_fsck(path, "-fy", 1);
	image_fsck(path, "-fn", 0);
}

/* The interval is long: a run is over before its number would change. */
static void make_mmp(const char *path, const char *features, const char *args)
{
	struct image *im;

	image_mke2fs(path, 6 << 20, features, args);
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &recipe_every_second, 60);
	image_put(im, IMAGE_ROOT, "back", &recipe_backward, 90);
	recipe_finish(im, path);
}

#define MMP_ARGS "-b 1024 -N 128 -E mmp_update_interval=200"

void recipe_mmp(const char *path)
{
	make_mmp(path, "mmp", MMP_ARGS " -J size=1");
}

void recipe_mmpbare(const char *path)
{
	make_mmp(path, "mmp,^has_journal", MMP_ARGS);
}
