/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text: what the text forms of snapshot and plan share. A line is words between blanks; the first
 * one says what it is. '#' starts a comment, empty lines don't count. Hostile text is refused with
 * its line number (ERROR_USAGE).
 */
#ifndef SCALEDEFRAG_MODEL_TEXT_H
#define SCALEDEFRAG_MODEL_TEXT_H

#include "scaledefrag/error.h"
#include "scaledefrag/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	const char *at;	  /* the next word is behind this, on the present line */
	const char *next; /* the next line */
	size_t line;	  /* number of the present line, from 1 */
};

/* Goes to the next line that has words; false at the end. `t` starts as { .next = text }. */
bool text_line(struct text *t);
/* Is the next word this one? Then it is consumed. */
bool text_word(struct text *t, const char *word);
/* The place of the next word in a table of n names, consumed; -1 if it is none of them. */
int text_choice(struct text *t, const char *const *name, int n);
bool text_end(struct text *t); /* no more words on this line */
/* Consumes a decimal number in [min, max]. */
int text_number(struct text *t, const char *what, uint64_t min, uint64_t max, uint64_t *out,
		struct error *err);
int text_error(const struct text *t, const char *what, struct error *err); /* returns -1 */

/* The rest of a line as pairs of name and number. Parsing takes any order and leaves what isn't
 * there as it is. */
struct text_field {
	const char *name;
	uint64_t value, max;
};
int text_get_fields(struct text *t, struct text_field *field, size_t n, struct error *err);

/* Text on its way out. After a failure nothing more is handed on. */
struct text_out {
	text_fn put;
	void *ctx;
	int failed; /* what put returned */
};
void text_put(struct text_out *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_put_fields(struct text_out *to, const char *word, const struct text_field *field,
		     size_t n);

#endif
