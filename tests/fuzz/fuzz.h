/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fuzz: targets that take hostile bytes in this process. Each is one function that must return,
 * whatever the bytes are; what it finds wrong it says by abort(). The same functions are linked
 * with libFuzzer (make fuzz) and with replay.c, which needs no clang (make check).
 *
 *   volume   a list of edits to a small good image (images.h), its checksums repaired afterwards:
 *            open, journal, scan, names
 *   engine   the same input, and then the whole engine: the content digest must be as before
 *   disk     the same on a disk with a GPT or an MBR, or raw bytes: partitions, ?offset=,
 * containers journal  format.c: encoded blocks are decoded again by code of the test's own; a
 * journal superblock to journal_open, and one transaction through it text     snapshot and plan as
 * text; planner_verify; what is printed parses back to the same options  argv, sizes, times, names
 * in messages
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int fuzz_volume(const uint8_t *data, size_t size);
int fuzz_engine(const uint8_t *data, size_t size);
int fuzz_disk(const uint8_t *data, size_t size);
int fuzz_journal(const uint8_t *data, size_t size);
int fuzz_text(const uint8_t *data, size_t size);
int fuzz_options(const uint8_t *data, size_t size);

/* Says what is wrong, and aborts. */
__attribute__((noreturn, format(printf, 1, 2))) void fuzz_wrong(const char *fmt, ...);

/* A line on standard error, if FUZZ_SAY is set in the environment: what became of an input. */
__attribute__((format(printf, 1, 2))) void fuzz_say(const char *fmt, ...);

/* The input, taken from the front; zeros behind its end. */
struct bytes {
	const uint8_t *at;
	size_t left;
};
uint8_t bytes_u8(struct bytes *b);
uint16_t bytes_u16(struct bytes *b);
uint32_t bytes_u32(struct bytes *b);
uint64_t bytes_u64(struct bytes *b);
/* Up to `len` bytes; *len: how many there are. */
const uint8_t *bytes_take(struct bytes *b, size_t *len);
/* The rest as a string of its own: free() it. */
char *bytes_rest(struct bytes *b);

#endif
