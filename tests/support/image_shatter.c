/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of image.h that scatters what is there already, and fills what is left. */
#include "support/image_internal.h"
#include <stdlib.h>
#include <string.h>

/* The file's blocks in logical order; NULL if there are holes or unwritten ones. */
static uint8_t *read_blocks(struct image *im, uint32_t ino, uint32_t n)
{
	uint32_t bs = im->fs->blocksize;
	uint8_t *data = need(malloc((size_t)n * bs));

	for (uint32_t i = 0; i < n; i++) {
		blk64_t pblk = 0;
		int flags = 0;

		must(ext2fs_bmap2(im->fs, ino, NULL, NULL, 0, i, &flags, &pblk), "bmap");
		if (!pblk || flags & BMAP_RET_UNINIT) {
			free(data);
			return NULL;
		}
		must(io_channel_read_blk64(im->fs->io, pblk, 1, data + (size_t)i * bs), "read");
	}
	return data;
}

bool image_shatter(struct image *im, uint32_t ino, const struct place *p)
{
	struct place whole = *p; /* no holes in the last clusters of runs */
	struct ext2_inode in;
	struct piece *list;
	uint8_t *data;
	size_t n_list;
	uint32_t n;

	must(ext2fs_read_inode(im->fs, ino, &in), "inode");
	n = (uint32_t)((EXT2_I_SIZE(&in) + im->fs->blocksize - 1) / im->fs->blocksize);
	data = read_blocks(im, ino, n);
	if (!data)
		return false;
	must(ext2fs_punch(im->fs, ino, NULL, NULL, 0, ~0ULL), "punch");
	whole.len = (uint32_t)cluster_up(im, p->len ? p->len : 1);
	n_list = image_pick(im, &whole, n, &list);
	image_map(im, ino, list, n_list, data, EXT2_I_SIZE(&in));
	free(list);
	free(data);
	return true;
}

bool image_has_quota(const struct image *im)
{
	return ext2fs_has_feature_quota(im->fs->super);
}

/* e2fsck doesn't look at them: nothing would put their counts right. */
static void refuse_visible_quotas(struct image *im)
{
	static const char *const name[] = { "aquota.user", "aquota.group" };
	ext2_ino_t ino;

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		if (!ext2fs_lookup(im->fs, IMAGE_ROOT, name[i], (int)strlen(name[i]), NULL, &ino))
			image_die("its /%s would be wrong: make it after shattering", name[i]);
}

size_t image_shatter_all(struct image *im)
{
	size_t done = 0;

	refuse_visible_quotas(im);
	for (uint32_t ino = EXT2_FIRST_INO(im->fs->super); ino <= im->fs->super->s_inodes_count;
	     ino++) {
		struct place p = { .order = PLACE_SHUFFLED,
				   .len = 1 + ino % 5,
				   .step = 7 + ino % 5 };
		struct ext2_inode in;
		uint64_t n;

		/* the orphan file's checksum holds its place */
		if (!ext2fs_test_inode_bitmap2(im->fs->inode_map, ino) ||
		    ino == im->fs->super->s_orphan_file_inum)
			continue;
		must(ext2fs_read_inode(im->fs, ino, &in), "inode");
		n = EXT2_I_SIZE(&in) / im->fs->blocksize;
		if ((in.i_flags & EXT4_INLINE_DATA_FL) || n < 2 ||
		    !ext2fs_inode_has_valid_blocks2(im->fs, &in))
			continue;
		if (n > 400) /* shuffling looks at all of free space */
			p.order = PLACE_FORWARD;
		done += image_shatter(im, ino, &p);
	}
	return done;
}

void image_hog(struct image *im, const char *name, uint64_t keep)
{
	uint32_t ino = image_file(im, IMAGE_ROOT, name), lblk = 0;
	uint64_t end = image_blocks(im), room = image_free_blocks(im);
	struct piece *list = NULL;
	size_t n = 0;

	/* its own tree blocks are taken last, from what is kept */
	for (uint64_t at = 0; at < end && room > keep; at++) {
		struct piece *last = n ? &list[n - 1] : NULL;

		if (!image_is_free(im, at))
			continue;
		room--;
		if (last && last->pblk + last->len == at && last->len < 32768) {
			last->len++;
		} else {
			list = need(reallocarray(list, n + 1, sizeof(*list)));
			list[n++] = (struct piece){ .pblk = at, .lblk = lblk, .len = 1 };
		}
		lblk++;
	}
	image_map(im, ino, list, n, NULL, 0);
	free(list);
}
