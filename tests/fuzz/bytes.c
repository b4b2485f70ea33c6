/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fuzz.h"
#include "support/wrap.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void fuzz_wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("wrong: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

void fuzz_say(const char *fmt, ...)
{
	static int wanted = -1;
	va_list ap;

	if (wanted < 0)
		wanted = getenv("FUZZ_SAY") != NULL;
	if (!wanted)
		return;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

const uint8_t *bytes_take(struct bytes *b, size_t *len)
{
	const uint8_t *p = b->at;

	if (*len > b->left)
		*len = b->left;
	b->at += *len;
	b->left -= *len;
	return p;
}

/* Little-endian. */
static uint64_t number(struct bytes *b, size_t len)
{
	const uint8_t *p = bytes_take(b, &len);
	uint64_t v = 0;

	for (size_t i = 0; i < len; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

uint8_t bytes_u8(struct bytes *b)
{
	return (uint8_t)number(b, 1);
}

uint16_t bytes_u16(struct bytes *b)
{
	return (uint16_t)number(b, 2);
}

uint32_t bytes_u32(struct bytes *b)
{
	return (uint32_t)number(b, 4);
}

uint64_t bytes_u64(struct bytes *b)
{
	return number(b, 8);
}

char *bytes_rest(struct bytes *b)
{
	size_t len = b->left;
	const uint8_t *p = bytes_take(b, &len);
	char *s = must_alloc(len + 1, 1);

	if (len)
		memcpy(s, p, len);
	return s;
}
