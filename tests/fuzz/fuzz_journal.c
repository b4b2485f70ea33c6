/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input: kind (1 byte), then for
 *   format   the incompat bits (1), block size (1), tid (4), UUID (16), tags: block (6), data (4)
 *   log      the transaction's size (1), edits to a good journal superblock: offset (2), length
 *            (1), bytes; bit 7 of the kind: leave its checksum
 */
#include "../../src/journal/format.h"
#include "fuzz.h"
#include "scaledefrag/journal.h"
#include "support/memdev.h"
#include "support/wrap.h"
#include <ext2fs/ext2fs.h>
#include <string.h>

enum { LOG_BLOCKS = 1100, LOG_AT = 50, DISK_BLOCKS = 1200, BS = 1024 };

static uint32_t crc32c(uint32_t seed, const void *buf, size_t len)
{
	return ext2fs_crc32c_le(seed, buf, len);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* One descriptor, read as recovery does (kernel fs/jbd2/recovery.c): must list these tags. */
static void check_descriptor(const struct log_format *f, uint8_t *buf, uint32_t tid,
			     const struct log_tag *tag, size_t n)
{
	bool v3 = f->incompat & JBD2_INCOMPAT_CSUM_V3, any = f->incompat & JBD2_INCOMPAT_CSUM_ANY;
	size_t size = v3 ? 16 : 8;
	uint8_t *p = buf + 12, *end = buf + f->block_size - (any ? 4 : 0);
	uint32_t told = any ? be32(end) : 0;

	if (!v3 && f->incompat & JBD2_INCOMPAT_64BIT)
		size += 4;
	if (!v3 && f->incompat & JBD2_INCOMPAT_CSUM_V2)
		size += 2;
	if (be32(buf) != JBD2_MAGIC || be32(buf + 4) != JBD2_DESCRIPTOR || be32(buf + 8) != tid)
		fuzz_wrong("a descriptor's header");
	for (size_t i = 0; i < n; i++) {
		uint32_t flags = v3 ? be32(p + 4) : be32(p + 4) & 0xffff;
		uint64_t block = be32(p);

		if (p + size > end)
			fuzz_wrong("a tag behind the end");
		if (v3 || f->incompat & JBD2_INCOMPAT_64BIT)
			block |= (uint64_t)be32(p + 8) << 32;
		else
			block |= tag[i].block >> 32 << 32;
		if (block != tag[i].block)
			fuzz_wrong("a tag's block");
		if (!(flags & JBD2_FLAG_LAST_TAG) != (i + 1 < n) ||
		    !(flags & JBD2_FLAG_SAME_UUID) != (i == 0) ||
		    !(flags & JBD2_FLAG_ESCAPE) != (be32(tag[i].data) != JBD2_MAGIC))
			fuzz_wrong("a tag's flags");
		p += size + (i ? 0 : 16);
	}
	if (p > end)
		fuzz_wrong("more than fits the descriptor");
	if (any) {
		memset(end, 0, 4);
		if (told != crc32c(f->seed, buf, f->block_size))
			fuzz_wrong("a descriptor's checksum");
	}
}

static void try_format(struct bytes *in)
{
	static const uint32_t kinds[] = { 0, JBD2_INCOMPAT_CSUM_V2, JBD2_INCOMPAT_CSUM_V3 };
	uint8_t bits = bytes_u8(in), data[1024 + 16] = { 0 };
	uint32_t bs = 1024u << bytes_u8(in) % 3, tid = bytes_u32(in), most, type, is;
	struct jsb jsb = { .block_size = bs, .incompat = kinds[bits % 3] };
	size_t n = 0, len = sizeof(jsb.uuid);
	struct log_format f;
	struct log_tag *tag;
	const uint8_t *uuid;
	uint8_t *buf, *block;

	if (bits & 0x80)
		jsb.incompat |= JBD2_INCOMPAT_64BIT;
	uuid = bytes_take(in, &len);
	memcpy(jsb.uuid, uuid, len);
	format_init(&f, &jsb, crc32c);
	most = format_tags_per_descriptor(&f);
	tag = must_alloc(most, sizeof(*tag));
	buf = must_alloc(bs, 1); /* exactly: what is written behind it shows */
	block = must_alloc(2 * bs, 1);
	put_be32(block + bs, JBD2_MAGIC);
	do {
		uint64_t at = bytes_u32(in);

		at |= (uint64_t)bytes_u16(in) << 32;
		tag[n++] = (struct log_tag){ at, block + bs * (bytes_u8(in) & 1) };
	} while (n < most && (in->left || bits & 0x40));
	format_descriptor(&f, buf, tid, tag, n);
	check_descriptor(&f, buf, tid, tag, n);
	format_commit(&f, buf, tid, (uint64_t)tid << 8, bits);
	if (!format_header(buf, &type, &is) || type != JBD2_COMMIT || is != tid)
		fuzz_wrong("a commit block's header");
	format_super_decode(data, &jsb);
	free(tag);
	free(buf);
	free(block);
}

/* A good journal superblock, but for checksums. */
static void make_super(uint8_t *p)
{
	static const uint32_t field[][2] = {
		{ 0, JBD2_MAGIC },
		{ 4, JBD2_SUPER_V2 },
		{ 0x0c, BS },
		{ 0x10, LOG_BLOCKS },
		{ 0x14, 1 },
		{ 0x18, 5 },
		{ 0x28, JBD2_INCOMPAT_CSUM_V3 | JBD2_INCOMPAT_REVOKE },
		{ 0x40, 1 },
		{ 0x50, JBD2_CHECKSUM_CRC32C << 24 },
	};

	memset(p, 0, BS);
	for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++)
		put_be32(p + field[i][0], field[i][1]);
}

static void commit_some(struct journal *j, uint8_t *disk, size_t n, struct error *err)
{
	struct journal_block block[LOG_AT];
	uint8_t data[BS];

	memset(data, 0x5a, sizeof(data));
	if (n > journal_capacity(j))
		n = journal_capacity(j);
	for (size_t i = 0; i < n; i++)
		block[i] = (struct journal_block){ .block = i, .data = data };
	if (journal_commit(j, block, n, 1700000001, 0, 4, err))
		fuzz_wrong("a transaction failed: %s", err->text);
	for (size_t i = 0; i < n; i++)
		if (memcmp(disk + i * BS, data, BS))
			fuzz_wrong("block %zu was not written", i);
	if (be32(disk + LOG_AT * BS + 0x1c))
		fuzz_wrong("the log is not empty");
}

static void try_log(struct bytes *in, bool leave)
{
	static uint8_t disk[DISK_BLOCKS * BS];
	static const struct range run[] = { { LOG_AT, 600 }, { LOG_AT + 610, 500 } };
	struct journal_place place = { .block_size = BS,
				       .run = run,
				       .n_run = 2,
				       .metadata_csum = true,
				       .is_64bit = true,
				       .fs_blocks = DISK_BLOCKS,
				       .name = "x",
				       .crc32c = crc32c };
	uint8_t *super = disk + LOG_AT * BS;
	size_t n = bytes_u8(in) % LOG_AT + 1;
	struct device *dev = memdev_new(disk, sizeof(disk), 512);
	struct error err = ERROR_INIT;
	struct journal *j = NULL;

	make_super(super);
	while (in->left) {
		uint32_t at = bytes_u16(in) % (BS + LOG_AT * BS);
		size_t len = bytes_u8(in);
		const uint8_t *p = bytes_take(in, &len);

		memcpy(super + at, p, len);
	}
	if (!leave)
		put_be32(super + 0xfc, format_super_csum(super, crc32c));
	if (!journal_open(dev, &place, &j, &err))
		commit_some(j, disk, n, &err);
	else if (!*err.text)
		fuzz_wrong("no text");
	journal_close(j);
	device_close(dev);
}

int fuzz_journal(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	uint8_t kind = bytes_u8(&in);

	if (kind & 1)
		try_log(&in, kind & 0x80);
	else
		try_format(&in);
	return 0;
}
