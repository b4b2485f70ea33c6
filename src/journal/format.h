/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of a JBD2 log: encode and decode, pure, big-endian. Kernel include/linux/jbd2.h and
 * fs/jbd2/recovery.c; e2fsprogs lib/ext2fs/kernel-jbd.h.
 */
#ifndef SCALEDEFRAG_JOURNAL_FORMAT_H
#define SCALEDEFRAG_JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JBD2_MAGIC	0xC03B3998u
#define JBD2_SUPER_SIZE 1024u /* bytes of the journal superblock that its checksum covers */

enum jbd2_block {
	JBD2_DESCRIPTOR = 1,
	JBD2_COMMIT = 2,
	JBD2_SUPER_V1 = 3,
	JBD2_SUPER_V2 = 4,
	JBD2_REVOKE = 5,
};

#define JBD2_COMPAT_CHECKSUM   0x01u
#define JBD2_INCOMPAT_REVOKE   0x01u
#define JBD2_INCOMPAT_64BIT    0x02u
#define JBD2_INCOMPAT_ASYNC    0x04u
#define JBD2_INCOMPAT_CSUM_V2  0x08u
#define JBD2_INCOMPAT_CSUM_V3  0x10u
#define JBD2_INCOMPAT_FAST     0x20u
#define JBD2_INCOMPAT_CSUM_ANY (JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_CSUM_V3)
#define JBD2_INCOMPAT_KNOWN    0x3Fu

#define JBD2_CHECKSUM_CRC32C   4u
#define JBD2_DEFAULT_FC_BLOCKS 256u
#define JBD2_MIN_BLOCKS	       1024u /* asked for beside fast commit blocks */

#define JBD2_FLAG_ESCAPE    1u
#define JBD2_FLAG_SAME_UUID 2u
#define JBD2_FLAG_LAST_TAG  8u

typedef uint32_t (*crc32c_fn)(uint32_t seed, const void *buf, size_t len);

/* The journal superblock's fields that matter to a writer. */
struct jsb {
	uint32_t block_size, maxlen, first; /* bytes, log blocks, log block */
	uint32_t sequence, start;	    /* tid, log block (0: the log is empty) */
	uint32_t error;			    /* s_errno */
	uint32_t compat, incompat, ro_compat;
	uint8_t uuid[16];
	uint32_t users;
	uint8_t checksum_type;
	uint32_t fc_blocks; /* fast commit blocks at the end of the log */
};

/* How descriptors and commit blocks of this log look. */
struct log_format {
	uint32_t block_size; /* bytes */
	uint32_t incompat;
	uint32_t seed; /* of all checksums but the superblock's */
	uint8_t uuid[16];
	crc32c_fn crc32c;
};

struct log_tag {
	uint64_t block;	  /* home */
	const void *data; /* as it is at home: not escaped */
};

/* True if `buf` (at least 12 bytes) starts with a JBD2 header. */
bool format_header(const uint8_t *buf, uint32_t *type, uint32_t *tid);

/* Pure decode; checks nothing. format_super_csum: the right s_checksum of these 1,024 bytes. */
void format_super_decode(const uint8_t *buf, struct jsb *out);
uint32_t format_super_csum(const uint8_t *buf, crc32c_fn crc32c);
bool format_super_csum_ok(const uint8_t *buf, crc32c_fn crc32c);
/* Puts what a writer changes into the old bytes: features, checksum type, start, sequence,
 * checksum. All of it lies in the first 512 bytes. */
void format_super_update(uint8_t *buf, const struct jsb *from, crc32c_fn crc32c);

void format_init(struct log_format *f, const struct jsb *jsb, crc32c_fn crc32c);
uint32_t format_tag_size(const struct log_format *f);
uint32_t format_tags_per_descriptor(const struct log_format *f);

/* Data that starts with the magic is logged with its first four bytes zeroed. */
bool format_must_escape(const void *data);

/* `buf` has block_size bytes and is filled. n in 1..format_tags_per_descriptor. */
void format_descriptor(const struct log_format *f, uint8_t *buf, uint32_t tid,
		       const struct log_tag *tags, size_t n);
void format_commit(const struct log_format *f, uint8_t *buf, uint32_t tid, uint64_t seconds,
		   uint32_t nsec);

#endif
