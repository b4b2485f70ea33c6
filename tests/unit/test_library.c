/* SPDX-License-Identifier: GPL-2.0-or-later */
/* library: libscaledefrag as a stranger uses it, by the installed header alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct seen {
	unsigned ready, log, progress;
	bool phase[SCALEDEFRAG_PHASE_MEASURE + 1];
	bool text_bad;
	uint64_t bytes;
	int cancel, decline; /* what the callbacks return */
	int after;	     /* cancel once so many batches are on their way */
	bool planned;	     /* ready() had figures */
};

static int on_ready(void *ctx, const struct scaledefrag_report *r)
{
	struct seen *s = ctx;
	struct scaledefrag_result res;

	s->ready++;
	s->planned = scaledefrag_result(r, &res) == 0 && res.bytes_to_move &&
		     res.planned.fragmented_files < res.before.fragmented_files;
	return s->decline;
}

static void on_progress(void *ctx, enum scaledefrag_phase phase, uint64_t done, uint64_t total,
			uint64_t bytes)
{
	struct seen *s = ctx;

	s->progress++;
	s->phase[phase] = true;
	s->text_bad |= done > total;
	s->bytes = bytes;
}

static void on_log(void *ctx, const char *line)
{
	struct seen *s = ctx;

	s->log++;
	s->text_bad |= !*line || strchr(line, '\n');
}

static int on_cancel(void *ctx)
{
	const struct seen *s = ctx;

	return s->bytes || !s->after ? s->cancel : 0;
}

static void fixed_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

static char path[64];

static struct scaledefrag_options options(const char *recipe, struct seen *s)
{
	*s = (struct seen){ 0 };
	recipe_make(recipe, path);
	return (struct scaledefrag_options){ .path = path,
					     .threads = 2,
					     .clock = fixed_clock,
					     .ready = on_ready,
					     .progress = on_progress,
					     .log = on_log,
					     .cancel = on_cancel,
					     .ctx = s };
}

static char *contents(size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *all;

	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	all = malloc(*n);
	assert_non_null(all);
	assert_int_equal(fread(all, 1, *n, f), *n);
	fclose(f);
	return all;
}

static void test_scaledefrag_run__does_it_and_tells(void **state)
{
	struct seen s;
	struct scaledefrag_options o = options("demo", &s);
	struct scaledefrag_report *r;
	struct scaledefrag_result res;

	(void)state;
	o.measure = true;
	assert_int_equal(scaledefrag_run(&o, &r), SCALEDEFRAG_OK);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.outcome, SCALEDEFRAG_DONE);
	assert_int_equal(res.code, 0);
	assert_null(res.error);
	assert_true(res.before.fragmented_files > 100);
	assert_int_equal(res.after.fragmented_files, 0);
	assert_int_equal(res.planned.runs, res.after.runs);
	assert_true(res.after.free_bytes >= res.before.free_bytes); /* trees got smaller */
	assert_true(res.bytes_moved == res.bytes_to_move && res.bytes_moved == s.bytes);
	/* the same data in fewer requests; tree blocks may have gone */
	assert_true(res.cold_after.bytes <= res.cold_before.bytes);
	assert_true(res.cold_after.requests && res.cold_after.requests < res.cold_before.requests);
	assert_int_equal(s.ready, 1);
	assert_true(s.planned && s.log >= 2 && !s.text_bad);
	for (int p = SCALEDEFRAG_PHASE_SCAN; p <= SCALEDEFRAG_PHASE_MEASURE; p++)
		if (p != SCALEDEFRAG_PHASE_GUARD && !s.phase[p])
			fail_msg("no progress in phase %d", p);
	scaledefrag_free(r);
	image_fsck(path, "-fn", 0);
}

static void test_scaledefrag_run__defaults_without_callbacks(void **state)
{
	struct seen s;
	struct scaledefrag_options o = options("demo", &s);
	struct scaledefrag_report *r;
	struct scaledefrag_result res;

	(void)state;
	o = (struct scaledefrag_options){ .path = path };
	assert_int_equal(scaledefrag_run(&o, &r), 0);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.outcome, SCALEDEFRAG_DONE);
	scaledefrag_free(r);
	assert_int_equal(scaledefrag_run(&o, &r), 0);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.outcome, SCALEDEFRAG_NOTHING);
	assert_memory_equal(&res.before, &res.after, sizeof(res.before));
	scaledefrag_free(r);
}

static void test_scaledefrag_run__nothing_is_written(void **state)
{
	for (int k = 0; k < 4; k++) {
		struct seen s;
		struct scaledefrag_options o = options("demo", &s);
		struct scaledefrag_report *r;
		struct scaledefrag_result res;
		size_t n, m;
		char *before = contents(&n), *after;
		int code;

		(void)state;
		o.report_only = k == 0;
		o.dry_run = k == 1;
		s.decline = k == 2;
		s.cancel = k == 3 ? 2 : 0;
		code = scaledefrag_run(&o, &r);
		assert_int_equal(code, k < 2 ? SCALEDEFRAG_OK : SCALEDEFRAG_INCOMPLETE);
		scaledefrag_result(r, &res);
		assert_int_equal(res.outcome, k == 0   ? SCALEDEFRAG_REPORTED
					      : k == 1 ? SCALEDEFRAG_PLANNED
						       : SCALEDEFRAG_STOPPED);
		assert_int_equal(res.bytes_moved, 0);
		scaledefrag_free(r);
		after = contents(&m);
		assert_int_equal(n, m);
		if (k < 2) /* else the superblock's time may have been written */
			assert_memory_equal(before, after, n);
		free(before);
		free(after);
		image_fsck(path, "-fn", 0);
	}
}

static void test_scaledefrag_run__cancelled_on_the_way(void **state)
{
	struct seen s;
	struct scaledefrag_options o = options("demo", &s);
	struct scaledefrag_report *r;
	struct scaledefrag_result res;

	(void)state;
	o.batch_bytes = 1 << 20;
	s.cancel = 1;
	s.after = 1;
	assert_int_equal(scaledefrag_run(&o, &r), SCALEDEFRAG_INCOMPLETE);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.outcome, SCALEDEFRAG_STOPPED);
	assert_true(res.bytes_moved > 0 && res.bytes_moved < res.bytes_to_move);
	scaledefrag_free(r);
	image_fsck(path, "-fn", 0);
	s = (struct seen){ 0 };
	assert_int_equal(scaledefrag_run(&o, &r), SCALEDEFRAG_OK);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.after.fragmented_files, 0);
	scaledefrag_free(r);
}

static void refused(const struct scaledefrag_options *o, int code, const char *part)
{
	struct scaledefrag_report *r;
	struct scaledefrag_result res;

	assert_int_equal(scaledefrag_run(o, &r), code);
	assert_int_equal(scaledefrag_result(r, &res), -1);
	assert_int_equal(res.code, code);
	assert_int_equal(res.outcome, SCALEDEFRAG_FAILED);
	if (!res.error || !strstr(res.error, part))
		fail_msg("'%s', not '%s'", res.error ? res.error : "no error", part);
	scaledefrag_free(r);
}

static void test_scaledefrag_run__refusals(void **state)
{
	struct seen s;
	struct scaledefrag_options good = options("demo", &s), o = { 0 };
	struct scaledefrag_scope scope = { SCALEDEFRAG_PATH, "/no/such/path" };

	(void)state;
	refused(&o, SCALEDEFRAG_USAGE, "no device or image");
	o.path = "/no/such/image";
	refused(&o, SCALEDEFRAG_USAGE, "cannot find");
	o = good;
	o.dry_run = o.report_only = true;
	refused(&o, SCALEDEFRAG_USAGE, "don't go together");
	o = good;
	o.memory = 1;
	refused(&o, SCALEDEFRAG_USAGE, "need at least");
	o = good;
	o.batch_bytes = 1;
	refused(&o, SCALEDEFRAG_USAGE, "at least 1M");
	o = good;
	o.slab = 1 << 20;
	refused(&o, SCALEDEFRAG_USAGE, "--mode free");
	o = good;
	o.scope = &scope;
	o.n_scope = 1;
	refused(&o, SCALEDEFRAG_USAGE, "/no/such/path");
	assert_int_equal(s.ready, 0);
}

static void test_scaledefrag_run__scope_and_names(void **state)
{
	struct seen s;
	struct scaledefrag_options o = options("demo", &s);
	struct scaledefrag_scope scope = { SCALEDEFRAG_EXCLUDE, "*" };
	struct scaledefrag_report *r;
	struct scaledefrag_result res;
	char *text = NULL;
	size_t n = 0;
	FILE *f;

	(void)state;
	o.scope = &scope;
	o.n_scope = 1;
	assert_int_equal(scaledefrag_run(&o, &r), 0);
	assert_int_equal(scaledefrag_result(r, &res), 0);
	assert_int_equal(res.bytes_to_move, 0);
	scaledefrag_free(r);

	o.n_scope = 0;
	o.report_only = o.names = true;
	o.list = 3;
	assert_int_equal(scaledefrag_run(&o, &r), 0);
	f = open_memstream(&text, &n);
	assert_non_null(f);
	assert_int_equal(scaledefrag_json(r, f), 0);
	assert_int_equal(scaledefrag_text(r, f, 1), 0);
	fclose(f);
	assert_non_null(strstr(text, "\"schema\": 1"));
	assert_non_null(strstr(text, "\"path\": \"/"));
	assert_non_null(strstr(text, "fragmented files"));
	free(text);
	scaledefrag_free(r);
}

static void test_scaledefrag_result__without_a_report(void **state)
{
	struct scaledefrag_result res;

	(void)state;
	assert_int_equal(scaledefrag_result(NULL, &res), -1);
	assert_int_equal(res.code, SCALEDEFRAG_OPERATION);
	assert_non_null(res.error);
	assert_int_equal(scaledefrag_json(NULL, stdout), -1);
	assert_int_equal(scaledefrag_text(NULL, stdout, 0), -1);
	scaledefrag_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scaledefrag_run__does_it_and_tells),
		cmocka_unit_test(test_scaledefrag_run__defaults_without_callbacks),
		cmocka_unit_test(test_scaledefrag_run__nothing_is_written),
		cmocka_unit_test(test_scaledefrag_run__cancelled_on_the_way),
		cmocka_unit_test(test_scaledefrag_run__refusals),
		cmocka_unit_test(test_scaledefrag_run__scope_and_names),
		cmocka_unit_test(test_scaledefrag_result__without_a_report),
	};
	int fd, failed;

	snprintf(path, sizeof(path), "%s/test_library-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	fd = mkstemp(path);

	if (fd < 0)
		return 99;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
