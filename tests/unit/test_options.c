/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options: the parser, and that table, --help and man page agree. Run from the root of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/command.c"
#include "../../src/front.c"
#include "../../src/library_options.c"
#include "../../src/options.c"
#include "../../src/values.c"

#define MAN_PAGE "man/scaledefrag-offline.8"

static int parse(struct options *o, struct error *err, const char *line)
{
	static char copy[256]; /* options point into it */
	char *argv[32] = { (char *)"scaledefrag-offline" }, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	*err = ERROR_INIT;
	return options_parse(argc, argv, o, err);
}

static void refused(const char *line, const char *part)
{
	struct options o;
	struct error err;

	assert_int_equal(parse(&o, &err, line), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	if (!strstr(err.text, part) || strchr(err.text, '\n'))
		fail_msg("'%s' gives '%s', not '%s'", line, err.text, part);
}

static void test_options_parse__defaults(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err, "disk.img?offset=4096"), 0);
	assert_string_equal(o.engine.path, "disk.img?offset=4096");
	assert_in_range(o.engine.threads, 1, 16);
	assert_int_equal(o.engine.queue_depth, 128);
	assert_int_equal(o.engine.memory, 0);
	assert_int_equal(o.engine.batch_bytes, ENGINE_BATCH_DEFAULT);
	assert_int_equal(o.engine.list, 10);
	assert_int_equal(o.lines_fd, -1);
	assert_true(o.engine.names);
	assert_false(o.engine.dry_run || o.engine.report_only || o.engine.verify || o.json ||
		     o.quiet || o.engine.preen);
}

static void test_options_parse__everything(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err,
			       "-nyvv -C 1 --threads 3 --queue-depth=7 --memory 64MiB --batch-size "
			       "2m --mode files --verify --json=x.json --progress never --list 0 "
			       "--partition 2 --dump-plan --dump-snapshot img"),
			 0);
	assert_true(o.engine.dry_run && o.engine.verify);
	assert_true(o.json && o.no_progress && o.dump_plan && o.dump_snapshot);
	assert_int_equal(o.verbose, 2);
	assert_int_equal(o.lines_fd, 1);
	assert_int_equal(o.engine.threads, 3);
	assert_int_equal(o.engine.queue_depth, 7);
	assert_int_equal(o.engine.memory, 64 << 20);
	assert_int_equal(o.engine.batch_bytes, 2 << 20);
	assert_string_equal(o.json_path, "x.json");
	assert_int_equal(o.engine.partition, 2);
	assert_false(o.engine.names);
	assert_int_equal(parse(&o, &err, "img -p -q --json"), 0); /* options may follow */
	assert_true(o.engine.preen && o.quiet && o.json && !o.json_path);
	assert_int_equal(parse(&o, &err, "-C -1 --progress=json img"), 0);
	assert_true(o.lines_fd == 1 && o.progress_json && !o.no_progress);
	assert_int_equal(parse(&o, &err, "--progress=json -C -1 img"), 0); /* before SIGUSR1 */
	assert_true(o.lines_fd == 1 && o.progress_json && o.no_progress);
	assert_int_equal(parse(&o, &err, "-c -- -img"), 0);
	assert_string_equal(o.engine.path, "-img");
}

static void test_options_parse__least_writes(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err, "img"), 0);
	assert_true(!o.engine.min_extent && !o.engine.min_runs && !o.engine.budget);
	assert_int_equal(o.time_limit, 0);
	assert_int_equal(
		parse(&o, &err, "--min-extent 1M --min-runs 3 --budget 2G --time-limit 5m img"), 0);
	assert_int_equal(o.engine.min_extent, 1 << 20);
	assert_int_equal(o.engine.min_runs, 3);
	assert_int_equal(o.engine.budget, 2ull << 30);
	assert_int_equal(o.time_limit, 300);
	assert_int_equal(o.engine.mode, SCALEDEFRAG_MODE_FILES);
	assert_int_equal(parse(&o, &err, "--mode shrink img"), 0);
	assert_int_equal(o.engine.mode, SCALEDEFRAG_MODE_SHRINK);
	assert_int_equal(parse(&o, &err, "--mode free --slab 2M img"), 0);
	assert_int_equal(o.engine.mode, SCALEDEFRAG_MODE_FREE);
	assert_int_equal(o.engine.slab, 2 << 20);
}

static void test_options_parse__front_list(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int rc;
	} cases[] = { { "/a\n12\n", 6, 0 }, { "", 0, 0 }, { "/a\0b", 4, -1 }, { "\0", 1, -1 } };
	char name[] = "/dev/shm/test_options.XXXXXX", line[100];
	int fd = mkstemp(name);

	(void)state;
	assert_true(fd >= 0);
	snprintf(line, sizeof(line), "--mode layout --front-list %s img", name);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options o;
		struct error err;

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, cases[i].bytes, cases[i].n, 0), cases[i].n);
		if (cases[i].rc) {
			refused(line, "not a text file");
			continue;
		}
		assert_int_equal(parse(&o, &err, line), 0);
		assert_int_equal(o.engine.mode, SCALEDEFRAG_MODE_LAYOUT);
		assert_string_equal(o.engine.front ? o.engine.front : "", cases[i].bytes);
		options_release(&o);
	}
	close(fd);
	unlink(name);
	refused(line, "No such file");
	refused("--mode layout --front-list / img", "Is a directory");
	refused("--front-list / img", "needs --mode layout");
}

static void test_options_parse__reserve(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err, "--mode layout img"), 0);
	assert_int_equal(o.engine.reserve, 0);
	assert_int_equal(parse(&o, &err, "--mode layout --reserve img"), 0);
	assert_int_equal(o.engine.reserve, 5);
	assert_int_equal(parse(&o, &err, "--mode layout --reserve=10 img"), 0);
	assert_int_equal(o.engine.reserve, 10);
	refused("--mode layout --reserve=0 img", "not a number");
	refused("--mode layout --reserve=51 img", "not a number");
	refused("--reserve img", "needs --mode layout");
}

static void test_options_parse__slab_and_discard(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err, "--mode free img"), 0);
	assert_true(o.engine.slab == 0);
	assert_int_equal(o.engine.discard, SCALEDEFRAG_DISCARD_FREED);
	assert_int_equal(parse(&o, &err, "--mode free --slab 0 --no-discard img"), 0);
	assert_true(o.engine.slab == SCALEDEFRAG_SLAB_NONE);
	assert_int_equal(o.engine.discard, SCALEDEFRAG_DISCARD_NONE);
	assert_int_equal(parse(&o, &err, "--no-discard --discard img"),
			 0); /* the last one counts */
	assert_int_equal(o.engine.discard, SCALEDEFRAG_DISCARD_ALL);
}

static void test_options_duration__units(void **state)
{
	static const struct {
		const char *text;
		int rc;
		unsigned seconds;
	} cases[] = {
		{ "1", 0, 1 },
		{ "90s", 0, 90 },
		{ "2h", 0, 7200 },
		{ "1m", 0, 60 },
		{ "", -1, 0 },
		{ "m", -1, 0 },
		{ "1 m", -1, 0 },
		{ "1ms", -1, 0 },
		{ "-1", -1, 0 },
		{ "1.5h", -1, 0 },
		{ "2147483647", 0, 2147483647 },
		{ "2147483648", -1, 0 },
		{ "596524h", -1, 0 },
		{ "99999999999999999999s", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned s = 0;

		if (options_duration(cases[i].text, &s) != cases[i].rc || s != cases[i].seconds)
			fail_msg("'%s': %u", cases[i].text, s);
	}
}

static void test_options_parse__scope(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	assert_int_equal(parse(&o, &err, "img"), 0);
	assert_int_equal(o.engine.n_scope, 0);
	assert_int_equal(
		parse(&o, &err, "--path /a --include *.c --path b/ --exclude=x --pin /boot img"),
		0);
	assert_int_equal(o.engine.n_scope, 5);
	assert_ptr_equal(o.engine.scope, o.scope);
	assert_int_equal(o.scope[0].kind, SCALEDEFRAG_PATH);
	assert_string_equal(o.scope[0].text, "/a");
	assert_int_equal(o.scope[1].kind, SCALEDEFRAG_INCLUDE);
	assert_string_equal(o.scope[1].text, "*.c");
	assert_int_equal(o.scope[2].kind, SCALEDEFRAG_PATH);
	assert_int_equal(o.scope[3].kind, SCALEDEFRAG_EXCLUDE);
	assert_int_equal(o.scope[4].kind, SCALEDEFRAG_PIN);
	refused("--slab 1M img", "--slab needs --mode free");
	refused("--mode shrink --slab 0 img", "--slab needs --mode free");
	refused("--mode free --slab 1Q img", "'1Q'");
	refused("--min-runs 0 img", "--min-runs");
	refused("--budget 0 img", "--budget");
	refused("--time-limit 0 img", "'0'");
	refused("--time-limit 5d img", "'5d'");
	refused("--pin /boot/ img", "--pin: '/boot/' matches nothing");
	refused("--include= img", "--include: empty");
	refused("--path", "--path needs an argument");
}

/* What a message repeats: all but name and partition, wherever they stand and however written. */
static void test_options_parse__command(void **state)
{
	static const struct {
		const char *argv[12], *want;
	} cases[] = {
		{ { "prog", "img" }, "prog" },
		{ { "prog", "-n", "--mode", "free", "img" }, "prog|-n|--mode|free" },
		{ { "prog", "img", "-vn", "--json=x y" }, "prog|-vn|--json=x y" },
		{ { "prog", "--partition", "2", "-c", "img" }, "prog|-c" },
		{ { "prog", "-c", "--partition=2", "img" }, "prog|-c" },
		{ { "prog", "img", "-c", "--part", "2", "--path", "/a", "--part=3" },
		  "prog|-c|--path|/a" },
		{ { "prog", "--path", "--partition", "-n", "--", "-img" },
		  "prog|--path|--partition|-n|--" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *argv[13] = { NULL }, got[100] = "";
		struct options o;
		struct error err = ERROR_INIT;
		int argc = 0;

		for (; cases[i].argv[argc]; argc++)
			argv[argc] = (char *)(uintptr_t)cases[i].argv[argc];
		if (options_parse(argc, argv, &o, &err))
			fail_msg("%s", err.text);
		for (size_t k = 0; k < o.engine.n_command; k++) {
			strcat(got, k ? "|" : "");
			strcat(got, o.engine.command[k]);
		}
		assert_string_equal(got, cases[i].want);
		assert_non_null(strstr(o.engine.path, "img"));
	}
}

static void test_options_parse__refusals(void **state)
{
	(void)state;
	refused("", "no device or image");
	refused("a b", "'b'");
	refused("-Z img", "unknown option -Z");
	refused("--frobnicate img", "unknown option --frobnicate");
	refused("--verify=1 img", "--verify takes no argument");
	refused("--threads", "--threads needs an argument");
	refused("-C", "-C needs an argument");
	refused("--threads 0 img", "--threads");
	refused("--threads 1x img", "'1x'");
	refused("--threads -1 img", "'-1'");
	refused("--queue-depth 99999999999999999999 img", "--queue-depth");
	refused("--memory 12Q img", "'12Q'");
	refused("--memory 3M img", "--memory");
	refused("--memory 20M --threads 16 img", "at least 66M");
	refused("--batch-size 4K img", "--batch-size");
	refused("--mode fast img", "'fast'");
	refused("--progress xml img", "'xml'");
	refused("-C -777 img", "-C");
	refused("-C --5 img", "-C");
	refused("-C 777 img", "-C");
	refused("-n -c img", "-n and -c");
	refused("-p -n img", "-p");
	refused("-q -v img", "-q and -v");
	refused("--dump-plan img", "need -n or -c");
	refused("-n --dump-plan --json img", "standard output");
}

/* What completions offer is what the parser takes. */
static void test_options_table__values_are_accepted(void **state)
{
	struct options o;
	struct error err;
	char line[64], values[128], *save = NULL;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (!table[i].values)
			continue;
		snprintf(values, sizeof(values), "%s", table[i].values);
		for (char *w = strtok_r(values, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
			snprintf(line, sizeof(line), "--%s=%s img", table[i].name, w);
			if (parse(&o, &err, line))
				fail_msg("%s: %s", line, err.text);
			n++;
		}
	}
	assert_in_range(n, 6, 100);
}

static void test_options_parse__source_date_epoch(void **state)
{
	struct options o;
	struct error err;

	(void)state;
	setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
	assert_int_equal(parse(&o, &err, "img"), 0);
	assert_true(o.has_epoch);
	assert_int_equal(o.epoch, 1700000000);
	setenv("SOURCE_DATE_EPOCH", "soon", 1);
	refused("img", "SOURCE_DATE_EPOCH");
	unsetenv("SOURCE_DATE_EPOCH");
}

static void test_options_size__units(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes; /* UINT64_MAX: refused */
	} t[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "1k", 1024 },
		{ "64M", 64 << 20 },
		{ "64MiB", 64 << 20 },
		{ "3G", 3ull << 30 },
		{ "2TiB", 2ull << 40 },
		{ "16777215T", 16777215ull << 40 },
		{ "16777216T", UINT64_MAX },
		{ "", UINT64_MAX },
		{ "M", UINT64_MAX },
		{ "1MB", UINT64_MAX },
		{ "1.5M", UINT64_MAX },
		{ "-1", UINT64_MAX },
		{ " 1", UINT64_MAX },
		{ "1P", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t n = 0;
		int rc = options_size(t[i].text, &n);

		assert_int_equal(rc, t[i].bytes == UINT64_MAX ? -1 : 0);
		if (!rc)
			assert_int_equal(n, t[i].bytes);
	}
}

static char *slurp(FILE *f)
{
	char *text = calloc(1, 1 << 16);

	assert_non_null(text);
	assert_in_range(fread(text, 1, (1 << 16) - 1, f), 1, (1 << 16) - 2);
	fclose(f);
	return text;
}

static void must_find(const char *text, const char *where, const char *what)
{
	if (!strstr(text, what))
		fail_msg("%s does not have '%s'", where, what);
}

static void test_options_help__names_every_option(void **state)
{
	char what[64], *text;
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	options_help(f);
	rewind(f);
	text = slurp(f);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (table[i].id < 256) {
			snprintf(what, sizeof(what), "\n  -%c", table[i].id);
			must_find(text, "--help", what);
		}
		if (table[i].name) {
			snprintf(what, sizeof(what), "--%s", table[i].name);
			must_find(text, "--help", what);
		}
	}
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_in_range(strlen(line), 0, 80);
	free(text);
}

/* ".It Fl n" or ".It Fl -threads Ar N" in OPTIONS for each option, and none besides. */
static void test_options_table__agrees_with_man_page(void **state)
{
	FILE *f = fopen(MAN_PAGE, "r");
	char what[64], *text, *end;
	size_t items = 0;

	(void)state;
	if (!f) {
		print_message("%s is not here: run from the root of the tree\n", MAN_PAGE);
		skip();
	}
	text = slurp(f);
	must_find(text, MAN_PAGE, ".Sh OPTIONS\n");
	end = strstr(text, ".Sh EXIT CODE");
	assert_non_null(end);
	*end = '\0';
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_def *d = &table[i];

		if (d->id < 256 && d->name)
			snprintf(what, sizeof(what), "\n.It Fl %c , -%s\n", d->id, d->name);
		else if (d->id < 256)
			snprintf(what, sizeof(what), "\n.It Fl %c%s%s\n", d->id,
				 d->arg ? " Ar " : "", d->arg ? d->arg : "");
		else if (d->arg && *d->arg == '[')
			snprintf(what, sizeof(what), "\n.It Fl -%s Ns Op = Ns Ar ", d->name);
		else
			snprintf(what, sizeof(what), "\n.It Fl -%s%s%s\n", d->name,
				 d->arg ? " Ar " : "", d->arg ? d->arg : "");
		must_find(text, MAN_PAGE, what);
	}
	for (char *p = text; (p = strstr(p, "\n.It Fl")); p++)
		items++;
	assert_int_equal(items, N_OPTIONS);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_parse__defaults),
		cmocka_unit_test(test_options_parse__everything),
		cmocka_unit_test(test_options_parse__least_writes),
		cmocka_unit_test(test_options_parse__front_list),
		cmocka_unit_test(test_options_parse__reserve),
		cmocka_unit_test(test_options_parse__slab_and_discard),
		cmocka_unit_test(test_options_duration__units),
		cmocka_unit_test(test_options_parse__scope),
		cmocka_unit_test(test_options_parse__command),
		cmocka_unit_test(test_options_parse__refusals),
		cmocka_unit_test(test_options_table__values_are_accepted),
		cmocka_unit_test(test_options_parse__source_date_epoch),
		cmocka_unit_test(test_options_size__units),
		cmocka_unit_test(test_options_help__names_every_option),
		cmocka_unit_test(test_options_table__agrees_with_man_page),
	};

	unsetenv("SOURCE_DATE_EPOCH");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
