/* SPDX-License-Identifier: GPL-2.0-or-later */
/* escape: makes hostile names fit for terminals and JSON. */
#include "scaledefrag/report.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at s and its code point; 0: not valid (RFC 3629: no overlong forms,
 * no surrogates, at most U+10FFFF). */
static size_t decode(const unsigned char *s, uint32_t *code)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80   ? 1
		   : *s < 0xc2 ? 0
		   : *s < 0xe0 ? 2
		   : *s < 0xf0 ? 3
		   : *s < 0xf5 ? 4
			       : 0;

	if (n == 0)
		return 0;
	*code = n == 1 ? *s : *s & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) /* the final zero is none either */
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return n;
}

/* Not controls, not what reorders or hides text (Unicode Cf that terminals obey). */
static bool harmless(uint32_t c)
{
	return c >= 0x20 && c != '\\' && !(c >= 0x7f && c < 0xa0) && c != 0xad && c != 0x61c &&
	       !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff && !(c >= 0xfff9 && c <= 0xfffb) &&
	       (c & 0xfffe) != 0xfffe && !(c >= 0xe0000 && c <= 0xe0fff);
}

char *report_escape(const char *name)
{
	const unsigned char *s = (const unsigned char *)name;
	char *out = malloc(4 * strlen(name) + 1), *o = out;

	if (!out)
		return NULL;
	while (*s) {
		uint32_t code;
		size_t n = decode(s, &code);

		if (n && harmless(code)) {
			memcpy(o, s, n);
			o += n;
			s += n;
			continue;
		}
		for (n = n ? n : 1; n; n--)
			o += sprintf(o, "\\x%02x", *s++);
	}
	*o = '\0';
	return out;
}
