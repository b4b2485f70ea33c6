/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"
#include "library.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX	1024
#define QUEUE_DEPTH_MAX 8192
#define RESERVE_DEFAULT 5 /* per cent */
#define LIST_DEFAULT	10
#define LIST_MAX	1000000000

enum {
	OPT_THREADS = 256,
	OPT_QUEUE_DEPTH,
	OPT_MEMORY,
	OPT_BATCH_SIZE,
	OPT_MODE,
	OPT_VERIFY,
	OPT_MEASURE,
	OPT_JSON,
	OPT_PROGRESS,
	OPT_LIST,
	OPT_MAP,
	OPT_REPORT,
	OPT_SVG,
	OPT_SLAB,
	OPT_FRONT_LIST,
	OPT_RESERVE,
	OPT_DISCARD,
	OPT_NO_DISCARD,
	OPT_MIN_EXTENT,
	OPT_MIN_RUNS,
	OPT_BUDGET,
	OPT_TIME_LIMIT,
	OPT_PATH,
	OPT_INCLUDE,
	OPT_EXCLUDE,
	OPT_PIN,
	OPT_PARTITION,
	OPT_DUMP_SNAPSHOT,
	OPT_DUMP_PLAN,
};

static const struct option_def table[] = {
	{ 'n', NULL, NULL, "dry run: show the plan, write nothing", NULL },
	{ 'c', NULL, NULL, "report fragmentation, write nothing", NULL },
	{ 'p', NULL, NULL, "run e2fsck -p first", NULL },
	{ 'y', NULL, NULL, "accepted; no question is ever asked", NULL },
	{ 'q', NULL, NULL, "print errors only", NULL },
	{ 'v', NULL, NULL, "print more", NULL },
	{ 'C', NULL, "FD", "write progress lines to descriptor FD, as e2fsck", NULL },
	{ OPT_MODE, "mode", "MODE", "files (default), free, shrink or layout, see man page",
	  "files free shrink layout" },
	{ OPT_SLAB, "slab", "SIZE", "mode free: empty whole aligned slabs of this size", NULL },
	{ OPT_FRONT_LIST, "front-list", "FILE", "mode layout: these files first, in this order",
	  NULL },
	{ OPT_RESERVE, "reserve", "[=PCT]", "mode layout: leave room behind files that grow",
	  NULL },
	{ OPT_DISCARD, "discard", NULL, "at the end, discard all free space", NULL },
	{ OPT_NO_DISCARD, "no-discard", NULL, "make no holes in a sparse image", NULL },
	{ OPT_PATH, "path", "PATH", "only this file, or this directory's; may be repeated", NULL },
	{ OPT_INCLUDE, "include", "GLOB", "only files that match; may be repeated", NULL },
	{ OPT_EXCLUDE, "exclude", "GLOB", "not files that match; may be repeated", NULL },
	{ OPT_PIN, "pin", "GLOB", "don't move files that match; may be repeated", NULL },
	{ OPT_MIN_EXTENT, "min-extent", "SIZE", "leave files whose runs are all this long", NULL },
	{ OPT_MIN_RUNS, "min-runs", "N", "leave files with fewer runs", NULL },
	{ OPT_BUDGET, "budget", "SIZE", "copy at most so much", NULL },
	{ OPT_TIME_LIMIT, "time-limit", "TIME", "stop after this time: 90s, 5m, 2h", NULL },
	{ OPT_VERIFY, "verify", NULL, "read every copy back before it counts", NULL },
	{ OPT_MEASURE, "measure", NULL, "read all files cold before and after, take the time",
	  NULL },
	{ OPT_PARTITION, "partition", "N", "use partition N of a whole-disk image", NULL },
	{ OPT_JSON, "json", "[=FILE]", "report as JSON, on standard output or to FILE", NULL },
	{ OPT_LIST, "list", "N", "list at most N files that stay fragmented (10)", NULL },
	{ OPT_MAP, "map", NULL, "draw where files and free space are", NULL },
	{ OPT_REPORT, "report", "FILE", "report as an HTML page with maps", NULL },
	{ OPT_SVG, "svg", "FILE", "the maps as an SVG image", NULL },
	{ OPT_PROGRESS, "progress", "WHEN", "auto (default): a bar on a terminal; never; json",
	  "auto never json" },
	{ OPT_THREADS, "threads", "N", "threads (default: processors, at most 16)", NULL },
	{ OPT_QUEUE_DEPTH, "queue-depth", "N", "requests in flight (default 128)", NULL },
	{ OPT_MEMORY, "memory", "SIZE", "all it may take (default: 192M for buffers)", NULL },
	{ OPT_BATCH_SIZE, "batch-size", "SIZE", "bytes copied per transaction (default 256M)",
	  NULL },
	{ OPT_DUMP_SNAPSHOT, "dump-snapshot", NULL, "with -n or -c: print what was found", NULL },
	{ OPT_DUMP_PLAN, "dump-plan", NULL, "with -n or -c: print the plan", NULL },
	{ 'V', "version", NULL, "print the version", NULL },
	{ 'h', "help", NULL, "print this", NULL },
};

#define N_OPTIONS (sizeof(table) / sizeof(table[0]))

const struct option_def *options_table(size_t *n)
{
	*n = N_OPTIONS;
	return table;
}

void options_help(FILE *to)
{
	fprintf(to, "Usage: scaledefrag-offline [OPTION]... DEVICE|IMAGE[?offset=BYTES]\n"
		    "Makes the files of an unmounted ext4 file system contiguous.\n\n");
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_def *d = &table[i];
		char left[64];
		int n = 0;

		if (d->id < 256)
			n = snprintf(left, sizeof(left), "  -%c", d->id);
		if (d->name)
			n += snprintf(left + n, sizeof(left) - (size_t)n, "%s--%s",
				      n ? ", " : "      ", d->name);
		if (d->arg)
			snprintf(left + n, sizeof(left) - (size_t)n, "%s%s",
				 *d->arg == '[' ? "" : " ", d->arg);
		fprintf(to, "%-26s%s\n", left, d->help);
	}
	fprintf(to,
		"\nSIZE is bytes, or a number with K, M, G or T (powers of 1024).\n"
		"Exit code: 0 done or nothing to do, 4 run e2fsck first, 8 error, 16 usage or\n"
		"not supported, 32 stopped (run again to go on). See scaledefrag-offline(8).\n");
}

/* The option as the user knows it: "-n" or "--threads". */
static const char *shown(int id, char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (table[i].id != id)
			continue;
		if (table[i].name)
			snprintf(out, size, "--%s", table[i].name);
		else
			snprintf(out, size, "-%c", id);
	}
	return out;
}

static int set_number(int id, const char *text, uint64_t min, uint64_t max, unsigned *out,
		      struct error *err)
{
	char name[32];
	uint64_t n;

	if (options_number(text, min, max, &n))
		return error_set(err, ERROR_USAGE, "%s: '%s' is not a number from %llu to %llu",
				 shown(id, name, sizeof(name)), text, (unsigned long long)min,
				 (unsigned long long)max);
	*out = (unsigned)n;
	return 0;
}

static int set_size(int id, const char *text, uint64_t *out, struct error *err)
{
	char name[32];

	if (options_size(text, out) || (*out == 0 && id != OPT_SLAB))
		return error_set(err, ERROR_USAGE, "%s: '%s' is not a size (try 64M)",
				 shown(id, name, sizeof(name)), text);
	return 0;
}

static int set_time_limit(const char *text, unsigned *seconds, struct error *err)
{
	if (options_duration(text, seconds) || *seconds == 0)
		return error_set(err, ERROR_USAGE,
				 "--time-limit: '%s' is not a time (try 90s, 5m or 2h)", text);
	return 0;
}

/*
 * As e2fsck: a negative number is its absolute value, and nothing is written before SIGUSR1. The
 * descriptor must be open now: later its number could be the file system's own.
 */
static int set_lines_fd(const char *text, struct options *o, struct error *err)
{
	bool hidden = *text == '-';
	unsigned n;

	if (set_number('C', text + hidden, 0, 1 << 20, &n, err))
		return -1;
	if (n && fcntl((int)n, F_GETFD) < 0)
		return error_sys(err, ERROR_USAGE, errno, "-C: descriptor %u", n);
	o->lines_fd = n ? (int)n : -1;
	o->no_progress = hidden;
	return 0;
}

static int set_progress(const char *text, struct options *o, struct error *err)
{
	if (strcmp(text, "auto") && strcmp(text, "never") && strcmp(text, "json"))
		return error_set(err, ERROR_USAGE,
				 "--progress: '%s' is none of auto, never and json", text);
	o->no_progress = strcmp(text, "never") == 0;
	o->progress_json = strcmp(text, "json") == 0;
	return 0;
}

/* 0: none, which the library has a word for. */
static int set_slab(const char *text, struct scaledefrag_options *e, struct error *err)
{
	if (set_size(OPT_SLAB, text, &e->slab, err))
		return -1;
	if (!e->slab)
		e->slab = SCALEDEFRAG_SLAB_NONE;
	return 0;
}

static int set_mode(const char *text, struct options *o, struct error *err)
{
	static const char *const name[] = { [SCALEDEFRAG_MODE_FILES] = "files",
					    [SCALEDEFRAG_MODE_FREE] = "free",
					    [SCALEDEFRAG_MODE_SHRINK] = "shrink",
					    [SCALEDEFRAG_MODE_LAYOUT] = "layout" };

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		if (strcmp(text, name[i]))
			continue;
		o->engine.mode = (enum scaledefrag_mode)i;
		return 0;
	}
	return error_set(err, ERROR_USAGE,
			 "--mode: '%s' is no mode; there are: files, free, shrink, layout", text);
}

static int add_scope(int id, enum scaledefrag_scope_kind kind, const char *text, struct options *o,
		     struct error *err)
{
	char name[32];
	size_t len = strlen(text);

	shown(id, name, sizeof(name));
	if (!len)
		return error_set(err, ERROR_USAGE, "%s: empty", name);
	if (kind != SCALEDEFRAG_PATH && text[len - 1] == '/')
		return error_set(err, ERROR_USAGE, "%s: '%s' matches nothing: leave out the last /",
				 name, text);
	if (o->engine.n_scope == SCOPE_MAX)
		return error_set(err, ERROR_USAGE, "%s: at most %d paths and globs", name,
				 SCOPE_MAX);
	o->scope[o->engine.n_scope++] = (struct scaledefrag_scope){ kind, text };
	return 0;
}

/* What is reported, and where to. */
static bool set_output(int id, const char *arg, struct options *o)
{
	switch (id) {
	case OPT_JSON:
		o->json = true;
		/* Standard output under a name: opened anew it would be overwritten by the text. */
		o->json_path = arg && strcmp(arg, "-") && strcmp(arg, "/dev/stdout") ? arg : NULL;
		return true;
	case OPT_MAP:
		o->map = true;
		return true;
	case OPT_REPORT:
		o->page_path = arg;
		return true;
	case OPT_SVG:
		o->svg_path = arg;
		return true;
	case OPT_DUMP_SNAPSHOT:
		o->dump_snapshot = true;
		return true;
	case OPT_DUMP_PLAN:
		o->dump_plan = true;
		return true;
	}
	return false;
}

/* False: not one of those that are there or not. */
static bool set_flag(int id, struct options *o)
{
	struct scaledefrag_options *e = &o->engine;

	switch (id) {
	case 'n':
		e->dry_run = true;
		return true;
	case 'c':
		e->report_only = true;
		return true;
	case 'p':
		e->preen = true;
		return true;
	case 'y':
		return true;
	case 'q':
		o->quiet = true;
		return true;
	case 'v':
		o->verbose++;
		return true;
	case 'V':
		o->version = true;
		return true;
	case 'h':
		o->help = true;
		return true;
	case OPT_VERIFY:
		e->verify = true;
		return true;
	case OPT_MEASURE:
		e->measure = true;
		return true;
	}
	return false;
}

static int set_option(int id, const char *arg, struct options *o, struct error *err)
{
	struct scaledefrag_options *e = &o->engine;

	switch (id) {
	case 'C':
		return set_lines_fd(arg, o, err);
	case OPT_MODE:
		return set_mode(arg, o, err);
	case OPT_SLAB:
		return set_slab(arg, e, err);
	case OPT_DISCARD:
	case OPT_NO_DISCARD:
		e->discard = id == OPT_DISCARD ? SCALEDEFRAG_DISCARD_ALL : SCALEDEFRAG_DISCARD_NONE;
		return 0;
	case OPT_FRONT_LIST:
		o->front_path = arg;
		return 0;
	case OPT_RESERVE:
		e->reserve = RESERVE_DEFAULT;
		return arg ? set_number(id, arg, 1, SCALEDEFRAG_RESERVE_MOST, &e->reserve, err) : 0;
	case OPT_MIN_EXTENT:
		return set_size(id, arg, &e->min_extent, err);
	case OPT_MIN_RUNS:
		return set_number(id, arg, 1, UINT32_MAX, &e->min_runs, err);
	case OPT_BUDGET:
		return set_size(id, arg, &e->budget, err);
	case OPT_TIME_LIMIT:
		return set_time_limit(arg, &o->time_limit, err);
	case OPT_PATH:
		return add_scope(id, SCALEDEFRAG_PATH, arg, o, err);
	case OPT_INCLUDE:
		return add_scope(id, SCALEDEFRAG_INCLUDE, arg, o, err);
	case OPT_EXCLUDE:
		return add_scope(id, SCALEDEFRAG_EXCLUDE, arg, o, err);
	case OPT_PIN:
		return add_scope(id, SCALEDEFRAG_PIN, arg, o, err);
	case OPT_PROGRESS:
		return set_progress(arg, o, err);
	case OPT_THREADS:
		return set_number(id, arg, 1, THREADS_MAX, &e->threads, err);
	case OPT_QUEUE_DEPTH:
		return set_number(id, arg, 1, QUEUE_DEPTH_MAX, &e->queue_depth, err);
	case OPT_LIST:
		return set_number(id, arg, 0, LIST_MAX, &e->list, err);
	case OPT_PARTITION:
		return set_number(id, arg, 1, 4096, &e->partition, err);
	case OPT_MEMORY:
		return set_size(id, arg, &e->memory, err);
	case OPT_BATCH_SIZE:
		return set_size(id, arg, &e->batch_bytes, err);
	}
	if (set_flag(id, o) || set_output(id, arg, o))
		return 0;
	return error_set(err, ERROR_OPERATION, "option %d is in the table but not known", id);
}

/* getopt's two tables from ours. */
static void getopt_tables(char *letters, struct option *longs)
{
	*letters++ = ':'; /* a missing argument is told apart, and nothing is printed */
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_def *d = &table[i];

		if (d->id < 256) {
			*letters++ = (char)d->id;
			if (d->arg)
				*letters++ = ':';
		}
		if (d->name)
			*longs++ = (struct option){ .name = d->name,
						    .has_arg = !d->arg		? no_argument
							       : *d->arg == '[' ? optional_argument
										: required_argument,
						    .val = d->id };
	}
	*letters = '\0';
	*longs = (struct option){ 0 };
}

static int bad_option(int what, char **argv, struct error *err)
{
	char name[32];

	if (what == ':')
		return error_set(err, ERROR_USAGE, "%s needs an argument",
				 shown(optopt, name, sizeof(name)));
	if (optopt && *shown(optopt, name, sizeof(name)))
		return error_set(err, ERROR_USAGE, "%s takes no argument", name);
	if (optopt)
		return error_set(err, ERROR_USAGE, "unknown option -%c", optopt);
	return error_set(err, ERROR_USAGE, "unknown option %s", argv[optind - 1]);
}

static int check(const struct options *o, struct error *err)
{
	const struct scaledefrag_options *e = &o->engine;

	if (o->quiet && o->verbose)
		return error_set(err, ERROR_USAGE, "-q and -v don't go together");
	if ((o->dump_snapshot || o->dump_plan) && !e->dry_run && !e->report_only)
		return error_set(err, ERROR_USAGE, "--dump-snapshot and --dump-plan need -n or -c");
	if ((o->dump_snapshot || o->dump_plan) && o->json && !o->json_path)
		return error_set(err, ERROR_USAGE,
				 "a dump and --json can't both go to standard output");
	if (o->map && (o->quiet || (o->json && !o->json_path) || o->dump_snapshot || o->dump_plan))
		return error_set(err, ERROR_USAGE,
				 "--map goes with the text report: not with -q, a dump, or --json "
				 "without a FILE");
	return library_check(e, err);
}

static int read_epoch(struct options *o, struct error *err)
{
	const char *text = getenv("SOURCE_DATE_EPOCH");

	if (!text || !*text)
		return 0;
	if (options_number(text, 0, UINT32_MAX, &o->epoch))
		return error_set(err, ERROR_USAGE,
				 "SOURCE_DATE_EPOCH: '%s' is not a number of seconds", text);
	o->has_epoch = true;
	return 0;
}

static void set_defaults(struct options *o)
{
	*o = (struct options){ .lines_fd = -1 };
	library_defaults(&o->engine);
	o->engine.list = LIST_DEFAULT;
}

int options_parse(int argc, char **argv, struct options *out, struct error *err)
{
	char letters[2 * N_OPTIONS + 2];
	struct option longs[N_OPTIONS + 1];
	struct options o;
	int c;

	set_defaults(&o);
	getopt_tables(letters, longs);
	optind = 0; /* GNU: start anew */
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (c == '?' || c == ':')
			return bad_option(c, argv, err);
		if (set_option(c, optarg, &o, err))
			return -1;
		if (c == OPT_PARTITION)
			command_forget(argv);
	}
	if (o.help || o.version) {
		*out = o;
		return 0;
	}
	if (optind == argc)
		return error_set(err, ERROR_USAGE, "no device or image given");
	if (optind + 1 < argc)
		return error_set(err, ERROR_USAGE,
				 "one device or image at a time: '%s' is too much",
				 argv[optind + 1]);
	o.engine.path = argv[optind];
	o.engine.n_command = command_words(argv);
	o.engine.command = (const char *const *)argv;
	o.engine.front = o.front_path; /* read last, when all else is fine */
	if (check(&o, err) || read_epoch(&o, err) ||
	    (o.front_path && front_read(o.front_path, &o.front, err)))
		return -1;
	o.engine.front = o.front;
	o.engine.names = o.engine.list && (!o.quiet || o.json || o.page_path);
	o.engine.advise = o.engine.report_only && !o.dump_snapshot && !o.dump_plan &&
			  (!o.quiet || o.json || o.page_path);
	o.engine.pictures = o.map || o.page_path || o.svg_path;
	*out = o;
	out->engine.scope = out->scope;
	return 0;
}
