/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of image.h share that look into the file system by libext2fs. */
#ifndef SUPPORT_IMAGE_INTERNAL_H
#define SUPPORT_IMAGE_INTERNAL_H

#include "support/image.h"
#include <ext2fs/ext2fs.h>

struct image {
	ext2_filsys fs;
	uint64_t random;
};

static inline void must(errcode_t rc, const char *what)
{
	if (rc)
		image_die("%s: %s", what, error_message(rc));
}

static inline void *need(void *p)
{
	if (!p)
		image_die("out of memory");
	return p;
}

/* To the start of a cluster; nothing changes without bigalloc. */
static inline uint64_t cluster_up(const struct image *im, uint64_t block)
{
	uint64_t ratio = (uint64_t)EXT2FS_CLUSTER_RATIO(im->fs);

	return (block + ratio - 1) / ratio * ratio;
}

#endif
