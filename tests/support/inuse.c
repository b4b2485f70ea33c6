/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/inuse.h"
#include "support/image.h"
#include "support/xxh.h"
#include <ext2fs/ext2fs.h>
#include <stdlib.h>
#include <string.h>

#define JSB_START 28 /* s_start, big-endian (include/linux/jbd2.h) */

struct inuse {
	uint64_t blocks, size, jsb; /* jsb: byte offset of the log's superblock, 0: no log */
	uint32_t block_size, first, per_group, cluster;
	uint64_t *bitmap; /* of each group, in bytes; 0: it has none yet */
	uint8_t *is_log;  /* of each block; without its superblock */
};

static void *need(void *p)
{
	if (!p)
		image_die("out of memory");
	return p;
}

static int note_log(ext2_filsys fs, blk64_t *b, e2_blkcnt_t at, blk64_t ref, int offset, void *p)
{
	struct inuse *u = p;

	(void)fs;
	(void)ref;
	(void)offset;
	if (at > 0)
		u->is_log[*b] = 1;
	else if (at == 0)
		u->jsb = *b * u->block_size;
	return 0;
}

struct inuse *inuse_new(const char *path)
{
	struct inuse *u = need(calloc(1, sizeof(*u)));
	ext2_filsys fs;
	errcode_t rc = ext2fs_open2(path, "", EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP, 0, 0,
				    unix_io_manager, &fs);

	if (rc)
		image_die("%s: %s", path, error_message(rc));
	u->blocks = ext2fs_blocks_count(fs->super);
	u->block_size = fs->blocksize;
	u->size = u->blocks * u->block_size;
	u->first = fs->super->s_first_data_block;
	u->per_group = fs->super->s_blocks_per_group;
	u->cluster = (uint32_t)EXT2FS_CLUSTER_RATIO(fs);
	u->is_log = need(calloc(u->blocks, 1));
	u->bitmap = need(calloc(fs->group_desc_count, sizeof(*u->bitmap)));
	for (dgrp_t g = 0; g < fs->group_desc_count; g++)
		if (!ext2fs_bg_flags_test(fs, g, EXT2_BG_BLOCK_UNINIT))
			u->bitmap[g] = ext2fs_block_bitmap_loc(fs, g) * u->block_size;
	if (ext2fs_has_feature_journal(fs->super)) {
		rc = ext2fs_block_iterate3(fs, EXT2_JOURNAL_INO,
					   BLOCK_FLAG_READ_ONLY | BLOCK_FLAG_DATA_ONLY, NULL,
					   note_log, u);
		if (rc)
			image_die("%s: journal: %s", path, error_message(rc));
	}
	ext2fs_close_free(&fs);
	return u;
}

void inuse_free(struct inuse *u)
{
	if (!u)
		return;
	free(u->is_log);
	free(u->bitmap);
	free(u);
}

static bool matters(const struct inuse *u, const uint8_t *image, uint64_t b, bool log)
{
	uint64_t g, bit;

	if (b < u->first)
		return true;
	if (u->is_log[b])
		return log;
	g = (b - u->first) / u->per_group;
	bit = (b - u->first) % u->per_group / u->cluster;
	return !u->bitmap[g] || image[u->bitmap[g] + bit / 8] >> bit % 8 & 1;
}

uint64_t inuse_hash(const struct inuse *u, const uint8_t *image)
{
	bool log = u->jsb && memcmp(image + u->jsb + JSB_START, "\0\0\0\0", 4);
	XXH3_state_t state;
	uint64_t from = 0, b = 0, h;

	XXH3_64bits_reset(&state);
	while (b < u->blocks) {
		for (; b < u->blocks && !matters(u, image, b, log); b++)
			;
		for (from = b; b < u->blocks && matters(u, image, b, log); b++)
			;
		XXH3_64bits_update(&state, image + from * u->block_size,
				   (b - from) * u->block_size);
	}
	h = XXH3_64bits_digest(&state);
	return h ? h : 1;
}
