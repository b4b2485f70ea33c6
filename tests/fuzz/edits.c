/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * images: edits by place, and checksums. Sizes and places are those of the good image, as far as
 * this code uses them; checksums are seeded by what stands in the edited one. Fields: e2fsprogs
 * lib/ext2fs/ext2_fs.h; what a checksum covers: its lib/ext2fs/csum.c.
 */
#include "images.h"
#include <endian.h>
#include <ext2fs/ext2fs.h>
#include <string.h>

enum place {
	PLACE_SUPER,
	PLACE_DESC,
	PLACE_BLOCK_MAP,
	PLACE_INODE_MAP,
	PLACE_INODE,
	PLACE_TREE,
	PLACE_DIR,
	PLACE_LOG,
	PLACE_ANY,
	PLACE_ROOT, /* i_block of an inode in use */
	PLACES
};

static uint64_t desc_at(const struct base *b, uint32_t group)
{
	uint32_t per = b->block_size / b->desc_size, i = group / per;
	uint64_t block = b->sb.s_first_data_block + 1 + i;

	/* meta_bg: in the first group of its own (e2fsprogs lib/ext2fs/openfs.c) */
	if (b->sb.s_feature_incompat & EXT2_FEATURE_INCOMPAT_META_BG) {
		block = b->sb.s_first_data_block + (uint64_t)i * per * b->sb.s_blocks_per_group;
		block += i == 0; /* the superblock is there */
	}
	return block * b->block_size + group % per * b->desc_size;
}

/* Of the good image: an edited one may point anywhere. */
static const struct ext4_group_desc *good_desc(const struct base *b, uint32_t group)
{
	return (const void *)(b->good + desc_at(b, group));
}

static uint64_t inode_at(const struct base *b, uint32_t ino)
{
	uint32_t group = (ino - 1) / b->sb.s_inodes_per_group;

	return (uint64_t)good_desc(b, group)->bg_inode_table * b->block_size +
	       (ino - 1) % b->sb.s_inodes_per_group * b->inode_size;
}

/* Where the edit goes, and how long the thing is. */
static uint64_t find(const struct base *b, unsigned place, uint32_t index, size_t *len)
{
	*len = b->block_size;
	switch (place) {
	case PLACE_DESC:
		*len = b->desc_size;
		return desc_at(b, index % b->groups);
	case PLACE_BLOCK_MAP:
		return (uint64_t)good_desc(b, index % b->groups)->bg_block_bitmap * b->block_size;
	case PLACE_INODE_MAP:
		return (uint64_t)good_desc(b, index % b->groups)->bg_inode_bitmap * b->block_size;
	case PLACE_INODE:
		*len = b->inode_size;
		return inode_at(b, index % b->sb.s_inodes_count + 1);
	case PLACE_ROOT:
		*len = sizeof(((struct ext2_inode *)0)->i_block);
		return inode_at(b, b->used[index % b->n_used]) +
		       offsetof(struct ext2_inode, i_block);
	case PLACE_TREE:
		if (b->n_tree)
			return b->tree[index % b->n_tree].block * b->block_size;
		break;
	case PLACE_DIR:
		if (b->n_dir)
			return b->dir[index % b->n_dir].block * b->block_size;
		break;
	case PLACE_LOG:
		return b->log * b->block_size;
	case PLACE_ANY:
		return (uint64_t)index * b->block_size % b->size;
	}
	*len = SUPERBLOCK_SIZE;
	return SUPERBLOCK_OFFSET;
}

void images_edit(struct base *b, struct bytes *in, uint8_t flags)
{
	while (in->left) {
		unsigned place = bytes_u8(in) % PLACES;
		uint32_t index = bytes_u16(in), offset = bytes_u16(in);
		size_t len = bytes_u8(in) % 64u, whole;
		uint64_t at = find(b, place, index, &whole);
		const uint8_t *data = bytes_take(in, &len);

		offset %= (uint32_t)whole;
		if (len > whole - offset)
			len = whole - offset;
		images_write(b, at + offset, data, len);
	}
	images_repair(b, flags);
}

static uint32_t crc(uint32_t seed, const void *p, size_t len)
{
	return ext2fs_crc32c_le(seed, p, len);
}

static const struct ext2_super_block *super(const struct base *b)
{
	return (const void *)(b->mem + SUPERBLOCK_OFFSET);
}

static uint32_t seed_of(const struct base *b)
{
	if (super(b)->s_feature_incompat & EXT4_FEATURE_INCOMPAT_CSUM_SEED)
		return super(b)->s_checksum_seed;
	return crc(~0u, super(b)->s_uuid, sizeof(super(b)->s_uuid));
}

static bool is_dirty(const struct base *b, uint64_t at)
{
	return b->dirty[at / b->block_size];
}

static uint32_t inode_seed(const struct base *b, uint32_t ino)
{
	const struct ext2_inode *in = (const void *)(b->mem + inode_at(b, ino));
	uint32_t c = crc(seed_of(b), &ino, sizeof(ino));

	return crc(c, &in->i_generation, sizeof(in->i_generation));
}

static void repair_inode(struct base *b, uint32_t ino)
{
	uint64_t at = inode_at(b, ino);
	struct ext2_inode_large *in = (void *)(b->mem + at);
	bool high = b->inode_size > EXT2_GOOD_OLD_INODE_SIZE && in->i_extra_isize >= 4;
	uint32_t c;

	in->i_checksum_lo = 0;
	if (high)
		in->i_checksum_hi = 0;
	c = crc(inode_seed(b, ino), in, b->inode_size);
	in->i_checksum_lo = (uint16_t)c;
	if (high)
		in->i_checksum_hi = (uint16_t)(c >> 16);
}

static void repair_tree(struct base *b, const struct owned *t)
{
	uint8_t *block = b->mem + t->block * b->block_size;
	const struct ext3_extent_header *eh = (const void *)block;
	size_t covered = sizeof(*eh) + (size_t)eh->eh_max * sizeof(struct ext3_extent);
	uint32_t c;

	if (eh->eh_magic != EXT3_EXT_MAGIC || covered + sizeof(c) > b->block_size)
		return;
	c = crc(inode_seed(b, t->ino), block, covered);
	images_write(b, t->block * b->block_size + covered, &c, sizeof(c));
}

static void repair_dir(struct base *b, const struct owned *d)
{
	size_t covered = b->block_size - sizeof(struct ext2_dir_entry_tail);
	uint8_t *block = b->mem + d->block * b->block_size;
	struct ext2_dir_entry_tail *tail = (void *)(block + covered);

	if (tail->det_reserved_zero1 || tail->det_rec_len != sizeof(*tail) ||
	    tail->det_reserved_name_len != EXT2_DIR_NAME_LEN_CSUM)
		return;
	tail->det_checksum = crc(inode_seed(b, d->ino), block, covered);
}

static void repair_bitmaps(struct base *b, uint32_t group, uint8_t flags)
{
	struct ext4_group_desc *d = (void *)(b->mem + desc_at(b, group));
	const uint8_t *blocks =
		b->mem + (uint64_t)good_desc(b, group)->bg_block_bitmap * b->block_size;
	const uint8_t *inodes =
		b->mem + (uint64_t)good_desc(b, group)->bg_inode_bitmap * b->block_size;
	uint32_t first = b->sb.s_first_data_block + group * b->sb.s_blocks_per_group;
	uint32_t per = b->sb.s_clusters_per_group; /* bits; of blocks without bigalloc */
	uint32_t n = (b->sb.s_blocks_count - first) / (b->sb.s_blocks_per_group / per);
	uint32_t left = 0, bc, ic;
	bool high = b->desc_size >= 64;

	if (n > per)
		n = per;
	for (uint32_t i = 0; i < n; i++)
		left += !(blocks[i / 8] >> (i % 8) & 1);
	if (!(flags & EDIT_COUNT) && !(d->bg_flags & EXT2_BG_BLOCK_UNINIT) &&
	    b->dirty[good_desc(b, group)->bg_block_bitmap]) {
		d->bg_free_blocks_count = (uint16_t)left;
		if (high)
			d->bg_free_blocks_count_hi = 0;
	}
	if (!(super(b)->s_feature_ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) ||
	    flags & EDIT_BITMAP)
		return;
	bc = crc(seed_of(b), blocks, per / 8);
	ic = crc(seed_of(b), inodes, b->sb.s_inodes_per_group / 8);
	d->bg_block_bitmap_csum_lo = (uint16_t)bc;
	d->bg_inode_bitmap_csum_lo = (uint16_t)ic;
	if (high) {
		d->bg_block_bitmap_csum_hi = (uint16_t)(bc >> 16);
		d->bg_inode_bitmap_csum_hi = (uint16_t)(ic >> 16);
	}
}

/* CRC16 as libext2fs has it, bit by bit: its own is not in the headers. */
static uint16_t crc16(uint16_t c, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len--) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = (uint16_t)(c >> 1 ^ (c & 1 ? 0xa001 : 0));
	}
	return c;
}

static void repair_desc(struct base *b, uint32_t group)
{
	const uint32_t at = offsetof(struct ext2_group_desc, bg_checksum);
	uint8_t *d = b->mem + desc_at(b, group);
	const uint16_t zero = 0;
	uint16_t sum;

	if (super(b)->s_feature_ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) {
		uint32_t c = crc(seed_of(b), &group, sizeof(group));

		c = crc(c, d, at);
		c = crc(c, &zero, sizeof(zero));
		sum = (uint16_t)crc(c, d + at + 2, b->desc_size - at - 2);
	} else {
		sum = crc16(0xffff, super(b)->s_uuid, sizeof(super(b)->s_uuid));
		sum = crc16(sum, &group, sizeof(group));
		sum = crc16(sum, d, at);
		if (b->sb.s_feature_incompat & EXT4_FEATURE_INCOMPAT_64BIT)
			sum = crc16(sum, d + at + 2, b->desc_size - at - 2);
	}
	memcpy(d + at, &sum, sizeof(sum));
}

static void repair_log(struct base *b)
{
	enum { CHECKSUM = 0xFC, INCOMPAT = 0x28, CSUM_V2_V3 = 0x18 };
	uint8_t *jsb = b->mem + b->log * b->block_size;
	uint32_t sum = 0;

	if (!(jsb[INCOMPAT + 3] & CSUM_V2_V3))
		return;
	memcpy(jsb + CHECKSUM, &sum, sizeof(sum));
	sum = htobe32(crc(~0u, jsb, SUPERBLOCK_SIZE));
	memcpy(jsb + CHECKSUM, &sum, sizeof(sum));
}

/* Order: what a checksum covers may hold another one. */
void images_repair(struct base *b, uint8_t flags)
{
	bool csum = super(b)->s_feature_ro_compat & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM;
	uint32_t desc_block = (uint32_t)(desc_at(b, 0) / b->block_size);

	for (size_t i = 0; csum && !(flags & EDIT_TREE) && i < b->n_tree; i++)
		if (b->dirty[b->tree[i].block])
			repair_tree(b, &b->tree[i]);
	for (size_t i = 0; csum && !(flags & EDIT_OTHER) && i < b->n_dir; i++)
		if (b->dirty[b->dir[i].block])
			repair_dir(b, &b->dir[i]);
	for (uint32_t ino = 1; csum && !(flags & EDIT_INODE) && ino <= b->sb.s_inodes_count; ino++)
		if (is_dirty(b, inode_at(b, ino)))
			repair_inode(b, ino);
	if (b->dirty[b->log] && !(flags & EDIT_OTHER))
		repair_log(b);
	for (uint32_t g = 0; g < b->groups; g++) {
		const struct ext4_group_desc *d = good_desc(b, g);
		bool map = b->dirty[d->bg_block_bitmap] || b->dirty[d->bg_inode_bitmap];

		b->dirty[desc_block] |= map;
		b->dirty[desc_at(b, g) / b->block_size] |= map;
		if (map)
			repair_bitmaps(b, g, flags);
		if (is_dirty(b, desc_at(b, g)) && !(flags & EDIT_DESC))
			repair_desc(b, g);
	}
	if (csum && is_dirty(b, SUPERBLOCK_OFFSET) && !(flags & EDIT_SUPER)) {
		struct ext2_super_block *sb = (void *)(b->mem + SUPERBLOCK_OFFSET);

		sb->s_checksum = crc(~0u, sb, offsetof(struct ext2_super_block, s_checksum));
	}
}
