/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names from users, the kernel's tables and disks, made fit for one line of a message. */
#include "internal.h"
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the printable UTF-8 character at s, 0 if it is none. */
static size_t printable(const unsigned char *s, size_t left)
{
	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* C1 controls, overlong forms, surrogates, the bidirectional controls, beyond Unicode */
	if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) ||
	    (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xe2 && (s[1] == 0x80 || s[1] == 0x81)) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

void text_escape(const char *in, size_t len, char *out, size_t size)
{
	const unsigned char *s = (const unsigned char *)in;
	size_t o = 0;

	for (size_t i = 0; i < len && s[i];) {
		size_t n = printable(s + i, len - i);
		if (o + 5 + n > size)
			break;
		if (n) {
			memcpy(out + o, s + i, n);
			i += n;
			o += n;
		} else {
			o += (size_t)snprintf(out + o, size - o, "\\x%02x", s[i++]);
		}
	}
	out[o] = '\0';
}

static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("/._-+:,@%=", *s))
			return false;
	return true;
}

static bool is_printable(const char *arg)
{
	size_t len = strlen(arg);
	for (size_t i = 0, n; i < len; i += n) {
		n = printable((const unsigned char *)arg + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

char *text_quote(const char *arg)
{
	size_t size = strlen(arg) * 4 + 8;
	char *out = malloc(size), *o = out;

	if (!out)
		return NULL;
	if (*arg && is_plain(arg))
		return strcpy(out, arg);
	/* 'text' where it can be read, $'text' of bash and newer shells where it can't */
	bool readable = is_printable(arg);
	o += sprintf(o, readable ? "'" : "$'");
	for (const unsigned char *s = (const unsigned char *)arg; *s; s++) {
		if (readable && *s == '\'')
			o += sprintf(o, "'\\''");
		else if (!readable && (*s < 0x20 || *s > 0x7e || *s == '\'' || *s == '\\'))
			o += sprintf(o, "\\x%02x", *s);
		else
			*o++ = (char)*s;
	}
	strcpy(o, "'");
	return out;
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

void text_unescape_octal(char *s)
{
	char *o = s;

	while (*s) {
		if (*s == '\\' && is_octal(s + 1)) {
			*o++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*o++ = *s++;
		}
	}
	*o = '\0';
}

bool text_first_line(char *out, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(path))
		return false;

	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool ok = fgets(out, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	return ok && *out;
}
