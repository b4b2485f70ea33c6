/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report: escaping, e4defrag's score, text, JSON, progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/report.h"
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void escapes(const char *in, const char *want)
{
	char *out = report_escape(in);

	assert_non_null(out);
	assert_string_equal(out, want);
	free(out);
}

static void test_report_escape__hostile_names(void **state)
{
	(void)state;
	escapes("", "");
	escapes("plain name", "plain name");
	escapes("\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80", "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80");
	escapes("\x1b[2J\n\t\x7f", "\\x1b[2J\\x0a\\x09\\x7f");
	escapes("back\\slash", "back\\x5cslash");
	escapes("\xff\xfe", "\\xff\\xfe");
	escapes("\xc3", "\\xc3");
	escapes("\xe6\x97", "\\xe6\\x97");
	escapes("\xe6\x97z", "\\xe6\\x97z");
	escapes("\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"); /* overlong */
	escapes("\xed\xa0\x80", "\\xed\\xa0\\x80");		      /* surrogate */
	escapes("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");	      /* above U+10FFFF */
	escapes("\xc2\x9b", "\\xc2\\x9b");			      /* C1: CSI */
	escapes("\xe2\x80\xae", "\\xe2\\x80\\xae");		      /* right-to-left override */
}

/* What comes out is always something that JSON takes. */
static void test_report_escape__any_bytes_make_json(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char name[8] = { 0 }, *out;
		json_t *j;

		for (int k = 0; k < 7; k++) {
			seed = seed * 1664525 + 1013904223;
			name[k] = (char)(seed >> 24);
		}
		out = report_escape(name);
		assert_non_null(out);
		j = json_string(out);
		assert_non_null(j);
		json_decref(j);
		free(out);
	}
}

/* Two regular files, of 10 and 1000 blocks, and a directory, which does not count. */
static void test_report_score_state__as_e4defrag(void **state)
{
	static const struct {
		size_t extra; /* records that the second file has beyond one */
		uint64_t score;
		const char *verdict;
	} t[] = {
		{ 0, 0, "no problem" },
		{ 60, 48, "a little bit fragmented" }, /* 60 of 1010 blocks: 5.94 %, times 8 */
		{ 90, 71, "needs defrag" },
		{ 120, 82, "needs defrag" }, /* above 10 %: 80 + a fifth */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct extent one = { .pblk = 100, .len = 10 }, many[200];
		struct snapshot_file file[3] = {
			{ .ino = 12, .kind = FILE_REGULAR, .map = { .ext = &one, .n_ext = 1 } },
			{ .ino = 13, .kind = FILE_REGULAR, .map = { .ext = many } },
			{ .ino = 14, .kind = FILE_DIRECTORY, .map = { .ext = many, .n_ext = 50 } },
		};
		struct snapshot s = { .geo = { .blocks_per_group = 32768, .flex_size = 16 },
				      .file = file,
				      .n_file = 3 };
		struct filemap *none[3] = { NULL };
		struct state st = { .snap = &s, .map = none };
		struct report_score score;
		size_t n = t[i].extra + 1;

		for (size_t k = 0; k < 200; k++)
			many[k] = (struct extent){ .pblk = 1000 + 20 * k,
						   .lblk = (uint32_t)(9 * k),
						   .len = 1 };
		many[n - 1].len = (uint32_t)(1000 - (n - 1)) & 0x7fffffff;
		file[1].map.n_ext = (uint32_t)n;
		report_score_state(&st, &score);
		assert_int_equal(score.now, t[i].score);
		assert_string_equal(score.verdict, t[i].verdict);
	}
}

static void fill(struct report *r)
{
	static char path[] = "/a\x1b\xff", other[] = "/b";
	static struct report_file stay[1], dropped[1];

	*stay = (struct report_file){
		.ino = 12, .path = path, .runs = 9, .ideal_runs = 1, .blocks = 99, .why = "tight"
	};
	*dropped = (struct report_file){
		.ino = 13, .path = other, .runs = 2, .blocks = 5, .block = 4711, .why = "unreadable"
	};
	*r = (struct report){
		.name = "disk\n.img",
		.what = "ext4, 4 KiB blocks",
		.block_size = 4096,
		.outcome = OUTCOME_DROPPED,
		.exit_code = 8,
		.mode = "files",
		.has_after = true,
		.before = { .files = 1234,
			    .frag_files = 56,
			    .runs = 5000,
			    .ideal_runs = 1300,
			    .blocks = 50000,
			    .free_runs = 3,
			    .longest_free = 1u << 20 },
		.after = { .files = 1234,
			   .frag_files = 1,
			   .runs = 1301,
			   .ideal_runs = 1300,
			   .blocks = 50000,
			   .free_runs = 2,
			   .longest_free = 1u << 19 },
		.read_before = { .blocks = 50001, .sequential = 40000, .requests = 6000 },
		.read_after = { .blocks = 50001, .sequential = 49999, .requests = 1301 },
		.data_bytes = 10ull << 40,
		.score_before = { 82, "needs defrag" },
		.score_after = { 0, "no problem" },
		.plan_bytes = 5ull << 40,
		.plan_moves = 17,
		.bytes_moved = 5ull << 40,
		.transactions = 2,
		.updates = 900,
		.blocks_logged = 80,
		.meta_writes = 7,
		.stay = stay,
		.n_stay = 1,
		.n_stay_all = 1,
		.dropped = dropped,
		.n_dropped = 1,
	};
	r->left[LEAVE_BLOCK_MAPPED] = 3;
	r->seconds[PHASE_MOVE] = 0.25;
}

static char *captured(const struct report *r, int verbose, bool json)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	if (json) {
		assert_int_equal(report_json(f, r), 0);
	} else {
		report_intro(f, r);
		report_text(f, r, verbose);
	}
	fclose(f);
	return text;
}

static void test_report_text__has_the_figures(void **state)
{
	static const char *const want[] = {
		"disk\\x0a.img: ext4, 4 KiB blocks; 56 of 1,234 files fragmented",
		"5.0 TiB to write",
		"nothing written yet",
		"fragmented files                        56              1\n",
		"excess runs                          3,700              1\n",
		"average run (KiB)                       40            154\n",
		"longest free run (KiB)           4,194,304      2,097,152\n",
		"layout score                        0.8000         1.0000\n",
		"requests of a cold scan              6,000          1,301\n",
		"a full rewrite would copy 10.0 TiB: this is 50 % of it\n",
		"900 updates, merged into 80 blocks journaled, 7 write requests out",
		"inode 12 /a\\x1b\\xff: 9 runs, 1 would do: tight\n",
		"inode 13 /b: unreadable (block 4711)\n",
		"left alone: 3 block-mapped",
		"multi-mount protection: it is claimed first",
	};
	struct report r;
	char *text;

	(void)state;
	fill(&r);
	r.mmp = true;
	text = captured(&r, 0, false);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (!strstr(text, want[i]))
			fail_msg("no '%s' in:\n%s", want[i], text);
	free(text);
}

static void test_report_text__one_of_each(void **state)
{
	static const char *const want[] = {
		"1 of 1 file fragmented (1 excess run); ",
		"(1 read, 1 write)\n",
		"metadata: 1 update, merged into 1 block journaled, 1 write request out; "
		"1 transaction, 1 flush\n",
		"dropped for I/O errors: 1 file\n",
		"worse: 1 file with more runs",
		"still fragmented: 1 file:\n",
		": 1 run, 1 would do",
		"left out for the budget: 1 batch of the plan",
		", 1 thread, queue depth",
		"done, but with 1 file dropped for I/O errors\n",
	};
	struct report r;
	char *text;

	(void)state;
	fill(&r);
	r.before = (struct summary){ .files = 1, .frag_files = 1, .runs = 2, .ideal_runs = 1 };
	r.data_reads = r.data_writes = r.transactions = r.updates = r.blocks_logged = 1;
	r.meta_writes = r.flushes = r.worse = r.left_out_batches = r.threads = 1;
	r.stay[0].runs = 1;
	text = captured(&r, 1, false);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (!strstr(text, want[i]))
			fail_msg("no '%s' in:\n%s", want[i], text);
	free(text);
	r.outcome = OUTCOME_PLANNED;
	r.plan_moves = r.plan_batches = 1;
	text = captured(&r, 0, false);
	assert_non_null(strstr(text, "plan: 1 move in 1 batch, "));
	free(text);
}

static void test_report_text__empty_report(void **state)
{
	struct report r = { .name = "x" };

	(void)state;
	for (int outcome = OUTCOME_NOTHING; outcome <= OUTCOME_FAILED; outcome++) {
		r.outcome = (enum report_outcome)outcome;
		free(captured(&r, 1, false));
		free(captured(&r, 1, true));
	}
}

static void test_report_json__parses_back(void **state)
{
	struct report r;
	json_error_t bad;
	const char *path;
	char *text;
	json_t *j;
	json_int_t before, after, moved, schema, code, left, block, requests, seeks, full;
	double score;

	(void)state;
	fill(&r);
	r.error = "it broke \xff";
	text = captured(&r, 0, true);
	j = json_loads(text, JSON_REJECT_DUPLICATES, &bad);
	assert_non_null(j);
	assert_int_equal(json_unpack(j,
				     "{s:I, s:I, s:{s:I}, s:{s:I}, s:{s:I}, s:{s:I}, "
				     "s:[{s:s}], s:[{s:I}]}",
				     "schema", &schema, "exit_code", &code, "before",
				     "fragmented_files", &before, "after", "excess_runs", &after,
				     "work", "bytes_moved", &moved, "left_alone", "block_mapped",
				     &left, "still_fragmented", "path", &path, "dropped",
				     "failed_block", &block),
			 0);
	assert_int_equal(schema, 1);
	assert_int_equal(code, 8);
	assert_int_equal(before, 56);
	assert_int_equal(after, 1);
	assert_int_equal(moved, 5ll << 40);
	assert_int_equal(left, 3);
	assert_int_equal(block, 4711);
	assert_string_equal(path, "/a\\x1b\\xff");
	assert_string_equal(json_string_value(json_object_get(j, "error")), "it broke \\xff");
	assert_string_equal(json_string_value(json_object_get(j, "outcome")), "done_with_errors");
	assert_true(json_is_real(json_object_get(json_object_get(j, "seconds"), "move")));
	assert_int_equal(json_unpack(j, "{s:{s:{s:F, s:I, s:I}}, s:I}", "before", "layout", "score",
				     &score, "requests", &requests, "seeks", &seeks,
				     "full_rewrite_bytes", &full),
			 0);
	assert_true(score == 0.8);
	assert_int_equal(requests, 6000);
	assert_int_equal(seeks, 10001);
	assert_int_equal(full, 10ll << 40);
	json_decref(j);
	free(text);
}

static void test_report__measured(void **state)
{
	struct report r;
	char *text;
	json_t *j;

	(void)state;
	fill(&r);
	text = captured(&r, 0, false);
	assert_null(strstr(text, "cold read"));
	free(text);
	r.measured_before = (struct report_measure){ true, 7000, 1, 1 << 20, 12.5 };
	text = captured(&r, 0, false); /* the second one was stopped */
	assert_non_null(strstr(text, "cold read: requests                  7,000\n"));
	assert_non_null(strstr(text, "cold read: 1 request failed\n"));
	free(text);
	text = captured(&r, 0, true);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_is_object(json_object_get(j, "measured_before")));
	assert_true(json_is_null(json_object_get(j, "measured_after")));
	json_decref(j);
	free(text);
	r.measured_after = (struct report_measure){ true, 1400, 0, 1 << 20, 1.25 };
	text = captured(&r, 0, false);
	assert_non_null(strstr(text,
			       "cold read: requests                  7,000          1,400\n"
			       "cold read: seconds                   12.50           1.25\n"));
	free(text);
}

static void test_report__discard(void **state)
{
	struct report r;
	char *text;
	json_t *j, *work;

	(void)state;
	fill(&r);
	text = captured(&r, 0, false);
	assert_null(strstr(text, "given back"));
	free(text);
	text = captured(&r, 0, true);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_is_null(json_object_get(j, "discard_warning")));
	json_decref(j);
	free(text);
	r.bytes_discarded = 3 << 20;
	r.slab = 1 << 20;
	strcpy(r.discard_failed, "cannot discard \x1b");
	text = captured(&r, 0, false);
	assert_non_null(strstr(text, "given back to the device: 3.0 MiB of free space\n"));
	assert_non_null(strstr(text, "warning: not all free space was given back: cannot discard "
				     "\\x1b\n"));
	free(text);
	text = captured(&r, 0, true);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	work = json_object_get(j, "work");
	assert_int_equal(json_integer_value(json_object_get(work, "bytes_discarded")), 3 << 20);
	assert_int_equal(json_integer_value(json_object_get(j, "slab_bytes")), 1 << 20);
	assert_string_equal(json_string_value(json_object_get(j, "discard_warning")),
			    "cannot discard \\x1b");
	json_decref(j);
	free(text);
}

static void test_report__gain_and_limits(void **state)
{
	static const char *const want[] = {
		"gain: 37.0 excess runs less for each MiB copied\n",
		"worse: 2 files with more runs than before\n",
		"left out for the budget: 7 batches of the plan, 8.0 MiB to write\n",
		"stopped by the budget; the file system is consistent",
		"5 outside of the chosen scope, 6 pinned\n",
	};
	struct report r;
	char *text;
	json_t *j, *plan;

	(void)state;
	fill(&r);
	r.outcome = OUTCOME_STOPPED;
	r.stopped_by = "the budget";
	r.bytes_moved = 100 << 20;
	r.worse = 2;
	r.plan_batches = 3;
	r.left_out_batches = 7;
	r.left_out_bytes = 8 << 20;
	r.left[LEAVE_SCOPE] = 5;
	r.left[LEAVE_PINNED] = 6;
	text = captured(&r, 0, false);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (!strstr(text, want[i]))
			fail_msg("no '%s' in:\n%s", want[i], text);
	free(text);
	text = captured(&r, 0, true);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	plan = json_object_get(j, "plan");
	assert_int_equal(json_integer_value(json_object_get(j, "worse")), 2);
	assert_int_equal(json_integer_value(json_object_get(plan, "left_out_batches")), 7);
	assert_int_equal(json_integer_value(json_object_get(plan, "left_out_bytes")), 8 << 20);
	assert_string_equal(json_string_value(json_object_get(j, "stopped_by")), "the budget");
	assert_float_equal(json_real_value(json_object_get(json_object_get(j, "work"),
							   "excess_runs_removed_per_mib")),
			   36.99, 0.001);
	json_decref(j);
	free(text);
	r.plan_batches = r.plan_moves = 0;
	text = captured(&r, 0, false);
	assert_non_null(strstr(text, "nothing that fits the budget\n"));
	assert_non_null(strstr(text, "the budget is too small for any part of the plan\n"));
	free(text);
}

static void test_report_json__full_disk(void **state)
{
	struct report r;
	FILE *f = fopen("/dev/full", "w");

	(void)state;
	if (!f)
		skip();
	fill(&r);
	assert_int_equal(report_json(f, &r), -1);
	fclose(f);
}

static void test_progress_set__lines(void **state)
{
	struct progress *p;
	char text[512];
	int fd[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(progress_new(fd[1], fd[1], "a\nb", &p), 0); /* a pipe gets no bar */
	progress_set(p, PHASE_SCAN, 0, 16, 0);
	progress_set(p, PHASE_SCAN, 1, 16, 0); /* too soon */
	progress_set(p, PHASE_SCAN, 16, 16, 0);
	progress_set(p, PHASE_PLAN, 0, 1, 0);
	progress_set(p, PHASE_MOVE, 5, 1ull << 40, 5);
	progress_set(p, PHASE_MEASURE, 7, 7, 5); /* no pass of its own */
	progress_free(p);
	n = read(fd[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, "1 0 16 a\\x0ab\n1 16 16 a\\x0ab\n2 0 1 a\\x0ab\n"
				  "4 5 1099511627776 a\\x0ab\n4 7 7 a\\x0ab\n");
	close(fd[0]);
	close(fd[1]);
}

static void test_progress_show__hides_and_shows(void **state)
{
	struct progress *p;
	char text[512];
	int fd[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(progress_new(-1, fd[1], "x", &p), 0);
	progress_show(p, false);
	progress_set(p, PHASE_SCAN, 0, 16, 0);
	progress_show(p, true);
	progress_set(p, PHASE_PLAN, 0, 1, 0);
	progress_show(p, false);
	progress_set(p, PHASE_VERIFY, 0, 1, 0);
	progress_free(p);
	n = read(fd[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, "2 0 1 x\n");
	close(fd[0]);
	close(fd[1]);
}

static void test_progress_json__lines(void **state)
{
	struct progress *p;
	char text[512], *end;
	int fd[2];
	ssize_t n;
	json_t *j;
	const char *phase;
	json_int_t pass, done, total, bytes;
	double seconds;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(progress_new(-1, -1, "x", &p), 0);
	progress_json(p, fd[1]);
	progress_set(p, PHASE_MOVE, UINT64_MAX / 2, UINT64_MAX / 2, 4096);
	progress_free(p);
	n = read(fd[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	end = strchr(text, '\n');
	assert_ptr_equal(end, text + n - 1);
	j = json_loads(text, 0, NULL);
	assert_non_null(j);
	assert_int_equal(json_unpack(j, "{s:s, s:I, s:I, s:I, s:I, s:f !}", "phase", &phase, "pass",
				     &pass, "done", &done, "total", &total, "bytes", &bytes,
				     "seconds", &seconds),
			 0);
	assert_string_equal(phase, "move");
	assert_true(pass == 4 && done == total && bytes == 4096 && seconds >= 0);
	json_decref(j);
	close(fd[0]);
	close(fd[1]);
}

static void test_progress_set__bar_on_a_terminal(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), tty;
	struct progress *p;
	char text[1024];
	ssize_t n;

	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master))
		skip();
	tty = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (tty < 0)
		skip();
	setenv("COLUMNS", "60", 1);
	assert_int_equal(progress_new(tty, -1, "x", &p), 0);
	progress_set(p, PHASE_MOVE, 50, 100, 0);
	n = read(master, text, sizeof(text) - 1);
	assert_int_equal(n, 60); /* \r and one column less than the width */
	text[n] = '\0';
	assert_non_null(strstr(text, "\rmove   [####"));
	assert_non_null(strstr(text, " 50 %"));
	setenv("COLUMNS", "7", 1); /* too narrow for a bar */
	progress_set(p, PHASE_RESCAN, 1, 0, 0);
	assert_int_equal(read(master, text, sizeof(text) - 1), 7);
	progress_free(p);
	assert_int_equal(read(master, text, sizeof(text) - 1), 8);
	close(tty);
	close(master);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_escape__hostile_names),
		cmocka_unit_test(test_report_escape__any_bytes_make_json),
		cmocka_unit_test(test_report_score_state__as_e4defrag),
		cmocka_unit_test(test_report_text__has_the_figures),
		cmocka_unit_test(test_report_text__one_of_each),
		cmocka_unit_test(test_report_text__empty_report),
		cmocka_unit_test(test_report_json__parses_back),
		cmocka_unit_test(test_report__measured),
		cmocka_unit_test(test_report__discard),
		cmocka_unit_test(test_report__gain_and_limits),
		cmocka_unit_test(test_report_json__full_disk),
		cmocka_unit_test(test_progress_set__lines),
		cmocka_unit_test(test_progress_set__bar_on_a_terminal),
		cmocka_unit_test(test_progress_show__hides_and_shows),
		cmocka_unit_test(test_progress_json__lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
