/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>

#define MIB (1ull << 20)

/* Some users' directories with fragmented files: an hour in the life of a mail server, in small. */
static void mail(const char *path, uint64_t size, uint32_t files, uint32_t mailbox)
{
	struct place shapes[] = {
		{ .len = 1, .step = 2 },
		{ .order = PLACE_BACKWARD, .len = 2, .step = 3 },
		{ .order = PLACE_SHUFFLED, .len = 4, .step = 7 },
		{ .order = PLACE_SHUFFLED, .len = 1, .step = 3 },
		{ .len = 8, .step = 8 },
	};
	uint32_t dirs[6];
	struct image *im;
	char name[32];

	image_mke2fs(path, size, "", "-b 4096 -N 1024 -J size=4");
	im = image_open(path);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		shapes[i].to = image_blocks(im) * 2 / 3; /* room for what is large */
	for (uint32_t i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "user%u", i);
		dirs[i] = image_dir(im, IMAGE_ROOT, name);
	}
	image_put(im, dirs[0], "mailbox", &shapes[3], mailbox);
	for (uint32_t i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "message-%04u", i);
		image_put(im, dirs[i % 6], name, &shapes[i % 5], 3 + i * 7 % 40);
	}
	image_shatter(im, dirs[1], &shapes[1]);
	image_close(im);
	image_fsck(path, "-fn", 0);
}

void recipe_churn(const char *path)
{
	mail(path, 24 * MIB, 60, 400);
}

void recipe_demo(const char *path)
{
	mail(path, 64 * MIB, 220, 900);
}

/* A log of 1 MiB, and one file of 40,000 extents in 482 leaves. */
void recipe_tinylog(const char *path)
{
	struct image *im;

	image_mke2fs(path, 90 * MIB, "", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "leaves",
		  &(struct place){ .len = 1, .step = 1, .every_unwritten = 2 }, 16000);
	image_put(im, IMAGE_ROOT, "shattered", &(struct place){ .len = 1, .step = 2 }, 24000);
	image_close(im);
	image_fsck(path, "-fn", 0);
}
