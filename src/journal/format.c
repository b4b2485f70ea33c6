/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JBD2 bytes: see format.h. */
#include "format.h"

#include <assert.h>
#include <string.h>

enum {
	HEADER_SIZE = 12,
	UUID_SIZE = 16,
	TAIL_SIZE = 4, /* struct jbd2_journal_block_tail */
	/* journal_superblock_s */
	SUPER_BLOCKSIZE = 0x0C,
	SUPER_MAXLEN = 0x10,
	SUPER_FIRST = 0x14,
	SUPER_SEQUENCE = 0x18,
	SUPER_START = 0x1C,
	SUPER_ERRNO = 0x20,
	SUPER_COMPAT = 0x24,
	SUPER_INCOMPAT = 0x28,
	SUPER_RO_COMPAT = 0x2C,
	SUPER_UUID = 0x30,
	SUPER_USERS = 0x40,
	SUPER_CHECKSUM_TYPE = 0x50,
	SUPER_FC_BLOCKS = 0x54,
	SUPER_CHECKSUM = 0xFC,
	/* commit_header */
	COMMIT_CHECKSUM = 0x10,
	COMMIT_SECONDS = 0x30,
	COMMIT_NSEC = 0x38,
};

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

static void put_header(uint8_t *buf, enum jbd2_block type, uint32_t tid)
{
	put32(buf, JBD2_MAGIC);
	put32(buf + 4, type);
	put32(buf + 8, tid);
}

bool format_header(const uint8_t *buf, uint32_t *type, uint32_t *tid)
{
	if (get32(buf) != JBD2_MAGIC)
		return false;
	*type = get32(buf + 4);
	*tid = get32(buf + 8);
	return true;
}

void format_super_decode(const uint8_t *buf, struct jsb *out)
{
	*out = (struct jsb){
		.block_size = get32(buf + SUPER_BLOCKSIZE),
		.maxlen = get32(buf + SUPER_MAXLEN),
		.first = get32(buf + SUPER_FIRST),
		.sequence = get32(buf + SUPER_SEQUENCE),
		.start = get32(buf + SUPER_START),
		.error = get32(buf + SUPER_ERRNO),
		.compat = get32(buf + SUPER_COMPAT),
		.incompat = get32(buf + SUPER_INCOMPAT),
		.ro_compat = get32(buf + SUPER_RO_COMPAT),
		.users = get32(buf + SUPER_USERS),
		.checksum_type = buf[SUPER_CHECKSUM_TYPE],
		.fc_blocks = get32(buf + SUPER_FC_BLOCKS),
	};
	memcpy(out->uuid, buf + SUPER_UUID, UUID_SIZE);
}

uint32_t format_super_csum(const uint8_t *buf, crc32c_fn crc32c)
{
	static const uint8_t zero[4];
	uint32_t crc = crc32c(~0u, buf, SUPER_CHECKSUM);

	crc = crc32c(crc, zero, sizeof(zero));
	return crc32c(crc, buf + SUPER_CHECKSUM + 4, JBD2_SUPER_SIZE - SUPER_CHECKSUM - 4);
}

bool format_super_csum_ok(const uint8_t *buf, crc32c_fn crc32c)
{
	return get32(buf + SUPER_CHECKSUM) == format_super_csum(buf, crc32c);
}

void format_super_update(uint8_t *buf, const struct jsb *from, crc32c_fn crc32c)
{
	put32(buf + SUPER_SEQUENCE, from->sequence);
	put32(buf + SUPER_START, from->start);
	put32(buf + SUPER_COMPAT, from->compat);
	put32(buf + SUPER_INCOMPAT, from->incompat);
	buf[SUPER_CHECKSUM_TYPE] = from->checksum_type;
	if (from->incompat & JBD2_INCOMPAT_CSUM_ANY)
		put32(buf + SUPER_CHECKSUM, format_super_csum(buf, crc32c));
}

void format_init(struct log_format *f, const struct jsb *jsb, crc32c_fn crc32c)
{
	*f = (struct log_format){
		.block_size = jsb->block_size,
		.incompat = jsb->incompat,
		.seed = crc32c(~0u, jsb->uuid, UUID_SIZE),
		.crc32c = crc32c,
	};
	memcpy(f->uuid, jsb->uuid, UUID_SIZE);
}

static bool has_csum(const struct log_format *f)
{
	return f->incompat & JBD2_INCOMPAT_CSUM_ANY;
}

uint32_t format_tag_size(const struct log_format *f)
{
	if (f->incompat & JBD2_INCOMPAT_CSUM_V3)
		return 16;
	return 8 + (f->incompat & JBD2_INCOMPAT_64BIT ? 4 : 0) +
	       (f->incompat & JBD2_INCOMPAT_CSUM_V2 ? 2 : 0);
}

uint32_t format_tags_per_descriptor(const struct log_format *f)
{
	uint32_t room = f->block_size - HEADER_SIZE - (has_csum(f) ? TAIL_SIZE : 0) - UUID_SIZE;

	return room / format_tag_size(f);
}

bool format_must_escape(const void *data)
{
	return get32(data) == JBD2_MAGIC;
}

/* Over the tid and the block as it stands in the log, that is, after escaping. */
static uint32_t data_csum(const struct log_format *f, uint32_t tid, const uint8_t *data)
{
	static const uint8_t zero[4];
	uint8_t be[4];
	uint32_t crc;

	put32(be, tid);
	crc = f->crc32c(f->seed, be, sizeof(be));
	crc = f->crc32c(crc, format_must_escape(data) ? zero : data, 4);
	return f->crc32c(crc, data + 4, f->block_size - 4);
}

static void put_tag(const struct log_format *f, uint8_t *p, uint32_t tid, const struct log_tag *tag,
		    uint32_t flags)
{
	uint32_t high = (uint32_t)(tag->block >> 32);
	uint32_t csum = has_csum(f) ? data_csum(f, tid, tag->data) : 0;

	if (format_must_escape(tag->data))
		flags |= JBD2_FLAG_ESCAPE;
	put32(p, (uint32_t)tag->block);
	if (f->incompat & JBD2_INCOMPAT_CSUM_V3) {
		put32(p + 4, flags);
		put32(p + 8, high);
		put32(p + 12, csum);
		return;
	}
	put16(p + 4, csum); /* v2 keeps the low half */
	put16(p + 6, flags);
	if (f->incompat & JBD2_INCOMPAT_64BIT)
		put32(p + 8, high);
}

void format_descriptor(const struct log_format *f, uint8_t *buf, uint32_t tid,
		       const struct log_tag *tags, size_t n)
{
	uint8_t *p = buf + HEADER_SIZE;

	assert(n > 0 && n <= format_tags_per_descriptor(f));
	memset(buf, 0, f->block_size);
	put_header(buf, JBD2_DESCRIPTOR, tid);
	for (size_t i = 0; i < n; i++) {
		put_tag(f, p, tid, &tags[i],
			(i ? JBD2_FLAG_SAME_UUID : 0) | (i + 1 == n ? JBD2_FLAG_LAST_TAG : 0));
		p += format_tag_size(f);
		if (i == 0) {
			memcpy(p, f->uuid, UUID_SIZE);
			p += UUID_SIZE;
		}
	}
	if (has_csum(f))
		put32(buf + f->block_size - TAIL_SIZE, f->crc32c(f->seed, buf, f->block_size));
}

void format_commit(const struct log_format *f, uint8_t *buf, uint32_t tid, uint64_t seconds,
		   uint32_t nsec)
{
	memset(buf, 0, f->block_size);
	put_header(buf, JBD2_COMMIT, tid);
	/* Checksum type and size stay 0: with the old whole-transaction checksum (compat 1)
	 * recovery takes that for "not used" (kernel fs/jbd2/recovery.c). */
	put32(buf + COMMIT_SECONDS, (uint32_t)(seconds >> 32));
	put32(buf + COMMIT_SECONDS + 4, (uint32_t)seconds);
	put32(buf + COMMIT_NSEC, nsec);
	if (has_csum(f))
		put32(buf + COMMIT_CHECKSUM, f->crc32c(f->seed, buf, f->block_size));
}
