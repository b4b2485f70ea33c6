/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options: argv and environment -> struct options. One table is the source of parsing, of --help,
 * of the shells' completions (completions/generate.c), and of the check that the man page names
 * every option (tests/unit/test_options.c).
 */
#ifndef SCALEDEFRAG_OPTIONS_H
#define SCALEDEFRAG_OPTIONS_H

#include "scaledefrag.h"
#include "scaledefrag/error.h"

#define VERSION SCALEDEFRAG_VERSION

#define SCOPE_MAX 256 /* paths and globs */

struct option_def {
	int id;		  /* the letter, or a value above 255 where there is none */
	const char *name; /* long name without dashes, or NULL */
	const char *arg;  /* "N", or "[=FILE]" where it may be left out; NULL: takes none */
	const char *help;
	const char *values; /* the words that the argument may be, with blanks between; or NULL */
};

struct options {
	struct scaledefrag_options engine; /* without clock and observer; has pointers to here */
	struct scaledefrag_scope scope[SCOPE_MAX];
	bool help, version; /* then nothing else is checked */
	bool quiet;
	bool no_progress;   /* none until SIGUSR1 */
	bool progress_json; /* on standard error, no bar */
	int verbose;
	const char *front_path; /* --front-list; NULL: none */
	char *front;		/* what it holds */
	unsigned time_limit;	/* seconds; 0: none */
	int lines_fd;		/* -C; -1: none */
	bool json;
	const char *json_path; /* NULL: standard output */
	bool map;
	const char *page_path, *svg_path; /* NULL: none */
	bool dump_snapshot, dump_plan;
	bool has_epoch; /* SOURCE_DATE_EPOCH */
	uint64_t epoch; /* seconds */
};

const struct option_def *options_table(size_t *n);
/* Kind ERROR_USAGE, one line. Strings in `out` point into argv, whose order changes; --partition is
 * taken out of it. Not reentrant (getopt). */
int options_parse(int argc, char **argv, struct options *out, struct error *err);
void options_release(struct options *o);
/* front.c: what a file of text holds, malloc'ed. ERROR_USAGE. */
int front_read(const char *path, char **out, struct error *err);
void options_help(FILE *to);
/* command.c. The option that getopt has just read, which may have its argument in a word of its
 * own, is to be left out; then, when all are read: closes the gaps, and returns the number of words
 * before the device. */
void command_forget(char **argv);
size_t command_words(char **argv);
/* Decimal digits, from min to max; -1 if it is none. These three are in src/values.c. */
int options_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* "90", "90s", "5m", "2h": seconds; -1 if it is none or too long. */
int options_duration(const char *text, unsigned *seconds);
/* "64M", "64MiB", "1g", "4096": bytes; -1 if it is none or too large. */
int options_size(const char *text, uint64_t *bytes);

#endif
