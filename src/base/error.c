/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/error.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names from a hostile disk may end up in a text: it stays one line and moves no cursor. */
static void keep_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static void fill(struct error *err, enum error_kind kind, int sys, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

static void fill(struct error *err, enum error_kind kind, int sys, const char *fmt, va_list ap)
{
	/* An argument may be the old text of the same error ("%s: and more"). */
	char text[sizeof(err->text)];

	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		snprintf(text, sizeof(text), "%s", fmt);
	if (sys) {
		char buf[128];
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, ": %s",
			 strerror_r(sys, buf, sizeof(buf)));
	}
	keep_one_line(text);
	err->kind = kind;
	err->sys = sys;
	memcpy(err->text, text, sizeof(text));
}

int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, kind, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int error_sys(struct error *err, enum error_kind kind, int sys, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(err, kind, sys, fmt, ap);
	va_end(ap);
	return -1;
}

int error_nomem(struct error *err, const char *what)
{
	error_set(err, ERROR_OPERATION, "out of memory while %s", what);
	err->sys = ENOMEM;
	return -1;
}
