/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * B and E: the two writes of the ext4 superblock (I4, N1). They set and clear needs_recovery, or,
 * without a journal, clear and set VALID in s_state.
 *
 * The superblock is 1,024 bytes at byte 1024, two sectors. All that we change lies in the first,
 * but its checksum lies in the second, and a superblock torn between them is refused by the kernel
 * and by `e2fsck -p`. CRC32C is affine over GF(2): for any change of the first sector there is
 * exactly one value of four other bytes in it that leaves the checksum as it is. So we solve for
 * four unused bytes, and write one sector, which is old or new. The same bytes are solved anew each
 * time: when E undoes B's change and makes none of its own, they come back as they were.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	SUPER_AT = 1024,
	SUPER_SIZE = 1024,
	/* struct ext2_super_block, e2fsprogs lib/ext2fs/ext2_fs.h */
	FREE_BLOCKS_LO = 0x0C,
	WTIME = 0x30,
	MAGIC = 0x38,
	STATE = 0x3A,
	INCOMPAT = 0x60,
	LAST_MOUNTED = 0x88,
	FREE_BLOCKS_HI = 0x158,
	ERROR_COUNT = 0x194,
	FIRST_ERROR_TIME = 0x198,
	FIRST_ERROR_FUNC = 0x1A8,
	WTIME_HI = 0x274,
	CHECKSUM = 0x3FC,
	/* Where four bytes may be free. */
	SLOT_MOUNTED = LAST_MOUNTED + 60,
	SLOT_ERROR = FIRST_ERROR_FUNC + 28,
};

static uint32_t get32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

/* Offset of four bytes that nobody reads; 0 if there are none. */
static size_t find_slot(const uint8_t *super)
{
	/* A string that ends before: the bytes behind its NUL are never looked at. */
	if (memchr(super + LAST_MOUNTED, 0, SLOT_MOUNTED - LAST_MOUNTED))
		return SLOT_MOUNTED;
	/* Without errors recorded, so is the name of the function of the first one. */
	if (get32(super + ERROR_COUNT) == 0 && get32(super + FIRST_ERROR_TIME) == 0)
		return SLOT_ERROR;
	return 0;
}

uint32_t sector_crc(const uint8_t *sector)
{
	return ext2fs_crc32c_le(~0u, sector, SECTOR_SIZE);
}

/*
 * Sets the four bytes at `slot` so that the sector's CRC becomes `want`. With them as a vector x of
 * 32 bits, crc = A x + b; A is invertible, as any 32 bits in a row of a CRC are.
 */
bool sector_solve(uint8_t *sector, size_t slot, uint32_t want)
{
	uint32_t column[32], mask[32], x = 0, rest;

	put32(sector + slot, 0);
	rest = sector_crc(sector) ^ want;
	for (int i = 0; i < 32; i++) {
		put32(sector + slot, 1u << i);
		column[i] = sector_crc(sector) ^ rest ^ want;
		mask[i] = 1u << i;
	}
	/* Elimination: each column gets a pivot bit that no other column has. */
	for (int i = 0; i < 32; i++) {
		uint32_t pivot = column[i] & -column[i];

		if (!pivot)
			return false;
		for (int k = 0; k < 32; k++) {
			if (k != i && column[k] & pivot) {
				column[k] ^= column[i];
				mask[k] ^= mask[i];
			}
		}
		if (rest & pivot) {
			rest ^= column[i];
			x ^= mask[i];
		}
	}
	put32(sector + slot, x);
	return sector_crc(sector) == want;
}

static int read_super(const struct commit *c, uint8_t *super, struct error *err)
{
	if (device_read(c->dev, super, SUPER_AT, SUPER_SIZE, err))
		return -1;
	if ((super[MAGIC] | super[MAGIC + 1] << 8) != EXT2_SUPER_MAGIC ||
	    (c->geo->metadata_csum &&
	     get32(super + CHECKSUM) != ext2fs_crc32c_le(~0u, super, CHECKSUM)))
		return error_set(err, ERROR_FSCK,
				 "the superblock of %s changed or is damaged; run: e2fsck -f %s",
				 c->name, c->name);
	return 0;
}

static int no_slot(const struct commit *c, struct error *err)
{
	return error_set(
		err, ERROR_USAGE,
		"the superblock of %s has no room to be changed safely: its \"last mounted "
		"on\" text is longer than 59 bytes and errors are recorded; run: tune2fs "
		"-M / %s",
		c->name, c->name);
}

int superblock_fits(const struct commit *c, struct error *err)
{
	uint8_t super[SUPER_SIZE];

	if (read_super(c, super, err))
		return -1;
	return c->geo->metadata_csum && !find_slot(super) ? no_slot(c, err) : 0;
}

int sector_write(struct commit *c, uint64_t at, const uint8_t *sector, struct error *err)
{
	size_t unit = c->dev->align > SECTOR_SIZE ? c->dev->align : SECTOR_SIZE;
	uint64_t start = at / unit * unit;
	uint8_t *buf = device_buffer(unit);
	int ret = -1;

	if (!buf)
		return error_nomem(err, "a sector");
	if (!device_read(c->dev, buf, start, unit, err)) {
		memcpy(buf + (at - start), sector, SECTOR_SIZE);
		ret = device_write(c->dev, buf, start, unit, err);
	}
	free(buf);
	return ret;
}

/* Writes the first sector if it changed; `super` is what the disk holds, `sector` what it shall. */
static int write_super(struct commit *c, const uint8_t *super, uint8_t *sector, struct error *err)
{
	if (c->geo->metadata_csum) {
		size_t slot = find_slot(super);

		if (!slot)
			return no_slot(c, err);
		if (!sector_solve(sector, slot, sector_crc(super)))
			return error_set(err, ERROR_OPERATION,
					 "internal error: no checksum for the superblock of %s; "
					 "nothing was written",
					 c->name);
	}
	if (memcmp(super, sector, SECTOR_SIZE) != 0) {
		c->super_writes++;
		if (sector_write(c, SUPER_AT, sector, err))
			return -1;
	}
	/* Also when nothing was written: a killed run may have left it unflushed. */
	c->super_flushes++;
	return device_flush(c->dev, err);
}

static bool needs_recovery(const uint8_t *sector)
{
	return get32(sector + INCOMPAT) & EXT3_FEATURE_INCOMPAT_RECOVER;
}

/* What makes kernel and e2fsck look after it, should this run not come to its end. */
static void set_in_use(const struct commit *c, uint8_t *sector, bool on)
{
	uint32_t incompat = get32(sector + INCOMPAT);

	if (c->ordered && on)
		sector[STATE] &= (uint8_t)~EXT2_VALID_FS;
	else if (c->ordered)
		sector[STATE] |= EXT2_VALID_FS;
	else if (on)
		put32(sector + INCOMPAT, incompat | EXT3_FEATURE_INCOMPAT_RECOVER);
	else
		put32(sector + INCOMPAT, incompat & ~EXT3_FEATURE_INCOMPAT_RECOVER);
}

int superblock_begin(struct commit *c, struct error *err)
{
	uint8_t super[SUPER_SIZE], sector[SECTOR_SIZE];

	if (read_super(c, super, err))
		return -1;
	c->unclean = needs_recovery(super);
	memcpy(sector, super, SECTOR_SIZE);
	set_in_use(c, sector, true);
	return write_super(c, super, sector, err);
}

/* The total is not in any transaction: it is the sum of the groups' counts, which are. */
static void put_counts(const struct commit *c, const uint8_t *super, uint8_t *sector)
{
	uint64_t seconds, total = 0;
	uint32_t nsec;

	for (dgrp_t g = 0; g < c->fs->group_desc_count; g++)
		total += ext2fs_bg_free_blocks_count(c->fs, g);
	total *= c->geo->cluster_blocks; /* groups count clusters, the superblock blocks */
	put32(sector + FREE_BLOCKS_LO, (uint32_t)total);
	if (ext2fs_has_feature_64bit(c->fs->super))
		put32(sector + FREE_BLOCKS_HI, (uint32_t)(total >> 32));
	c->o.clock(c->o.clock_ctx, &seconds, &nsec);
	/* Bits 32 to 39 of the time are in the other sector; they change once in 136 years. */
	if ((seconds >> 32) == super[WTIME_HI])
		put32(sector + WTIME, (uint32_t)seconds);
}

int superblock_end(struct commit *c, struct error *err)
{
	uint8_t super[SUPER_SIZE], sector[SECTOR_SIZE];
	struct commit_counters done;

	if (read_super(c, super, err))
		return -1;
	commit_get_counters(c, &done);
	memcpy(sector, super, SECTOR_SIZE);
	if (done.transactions || c->unclean)
		put_counts(c, super, sector);
	set_in_use(c, sector, false);
	return write_super(c, super, sector, err);
}
