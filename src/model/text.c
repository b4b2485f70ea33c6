/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool ends_line(char c)
{
	return c == '\0' || c == '\n' || c == '#';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The next word of the line: its start; *len is 0 at the end of the line. */
static const char *next_word(struct text *t, size_t *len)
{
	while (is_blank(*t->at))
		t->at++;
	*len = 0;
	while (!ends_line(t->at[*len]) && !is_blank(t->at[*len]))
		(*len)++;
	return t->at;
}

bool text_line(struct text *t)
{
	while (*t->next) {
		const char *end = strchr(t->next, '\n');

		t->at = t->next;
		t->next = end ? end + 1 : t->next + strlen(t->next);
		t->line++;
		if (!text_end(t))
			return true;
	}
	return false;
}

bool text_word(struct text *t, const char *word)
{
	size_t len;
	const char *w = next_word(t, &len);

	if (!len || len != strlen(word) || memcmp(w, word, len) != 0)
		return false;
	t->at += len;
	return true;
}

int text_choice(struct text *t, const char *const *name, int n)
{
	for (int i = 0; i < n; i++)
		if (text_word(t, name[i]))
			return i;
	return -1;
}

bool text_end(struct text *t)
{
	size_t len;

	next_word(t, &len);
	return len == 0;
}

int text_error(const struct text *t, const char *what, struct error *err)
{
	return error_set(err, ERROR_USAGE, "line %zu: %s", t->line, what);
}

int text_number(struct text *t, const char *what, uint64_t min, uint64_t max, uint64_t *out,
		struct error *err)
{
	size_t len;
	const char *w = next_word(t, &len);
	uint64_t v = 0;

	if (!len)
		return error_set(err, ERROR_USAGE, "line %zu: %s is missing", t->line, what);
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(w[i] - '0');

		if (w[i] < '0' || w[i] > '9')
			return error_set(err, ERROR_USAGE, "line %zu: %s is not a number", t->line,
					 what);
		if (v > (UINT64_MAX - digit) / 10)
			v = UINT64_MAX;
		else
			v = v * 10 + digit;
	}
	if (v < min || v > max)
		return error_set(err, ERROR_USAGE, "line %zu: %s is not within %llu and %llu",
				 t->line, what, (unsigned long long)min, (unsigned long long)max);
	t->at += len;
	*out = v;
	return 0;
}

int text_get_fields(struct text *t, struct text_field *field, size_t n, struct error *err)
{
	while (!text_end(t)) {
		size_t i = 0;

		while (i < n && !text_word(t, field[i].name))
			i++;
		if (i == n)
			return text_error(t, "unknown name", err);
		if (text_number(t, field[i].name, 0, field[i].max, &field[i].value, err))
			return -1;
	}
	return 0;
}

void text_put(struct text_out *to, const char *fmt, ...)
{
	char text[256]; /* a line of words and numbers, or a part of one */
	va_list ap;
	int len;

	if (to->failed)
		return;
	va_start(ap, fmt);
	len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert(len >= 0 && (size_t)len < sizeof(text));
	to->failed = to->put(to->ctx, text);
}

void text_put_fields(struct text_out *to, const char *word, const struct text_field *field,
		     size_t n)
{
	text_put(to, "%s", word);
	for (size_t i = 0; i < n; i++)
		text_put(to, " %s %llu", field[i].name, (unsigned long long)field[i].value);
	text_put(to, "\n");
}
