/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan: text form, and batches applied to a state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/plan.h"
#include "scaledefrag/report.h"
#include <stdlib.h>
#include <string.h>

static const char snapshot_text[] = "geometry blocks 10000 inodes_per_group 512\n"
				    "file 12 file depth 0\n"
				    "ext 0 10 2000\n"
				    "ext 10 5 2100\n"
				    "file 13 file depth 1\n"
				    "ext 0 1 3000\n"
				    "ext 1 1 3002\n"
				    "ext 2 1 3004 u\n"
				    "ext 3 1 3006\n"
				    "ext 4 1 3008\n"
				    "node 0 3010 5\n"
				    "free 4000 100\n"
				    "fixed 0 1000\n";

static const char good[] = "plan 1\n"
			   "batch 0 copy 10 journal 6 rest\n"
			   "file 12 last\n"
			   "move 0 10 2000 4000\n"
			   "file 13\n"
			   "move 2 1 3004 4010 u\n"
			   "keep 3010\n"
			   "batch 1 copy 9 journal 6\n"
			   "file 12 last\n"
			   "move 10 5 2100 2000\n"
			   "file 13 last\n"
			   "move 0 2 3000 2005\n" /* not one run */
			   "free 3010\n"
			   "predicted files 2 frag_files 1\n";

static struct plan *parse(const char *text)
{
	struct plan *p = NULL;
	struct error err = ERROR_INIT;

	if (plan_parse(text, &p, &err))
		fail_msg("%s", err.text);
	return p;
}

static char *dump(const struct plan *p)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	assert_non_null(to);
	assert_int_equal(report_plan(to, p), 0);
	fclose(to);
	return text;
}

/* Applies the first n batches of a plan; what the last one gives. */
static int apply(const char *text, size_t n, const bool *skip, struct state **out,
		 struct snapshot **snap, struct error *err)
{
	struct plan *p = parse(text);
	int rc = 0;

	assert_int_equal(snapshot_parse(snapshot_text, snap, err), 0);
	assert_int_equal(state_new(*snap, out, err), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(rc, 0);
		rc = plan_apply(p, i, skip, *out, err);
	}
	plan_free(p);
	return rc;
}

static void test_plan_parse__good(void **state)
{
	struct plan *p = parse(good);

	(void)state;
	assert_int_equal(p->n_batch, 2);
	assert_int_equal(p->n_file, 4);
	assert_int_equal(p->batch[1].first_file, 2);
	assert_int_equal(p->batch[1].journal_blocks, 6);
	assert_int_equal(plan_copy_blocks(p), 19);
	assert_int_equal(p->file[1].n_kept, 1);
	assert_int_equal(p->node[p->file[1].first_kept], 3010);
	assert_int_equal(p->move[1].unwritten, 1);
	assert_int_equal(p->predicted.frag_files, 1);
	plan_free(p);
}

static void test_plan_write__parses_back(void **state)
{
	struct plan *a = parse(good), *b;
	char *first = dump(a), *second;

	(void)state;
	b = parse(first);
	second = dump(b);
	assert_string_equal(first, second);
	free(first);
	free(second);
	plan_free(a);
	plan_free(b);
}

static void test_plan_write__empty_plan(void **state)
{
	struct plan *p = parse("plan 1\n");
	char *text = dump(p);

	(void)state;
	assert_non_null(strstr(text, "plan 1\npredicted files 0"));
	free(text);
	plan_free(p);
}

static void test_plan_add_file__counts_copies(void **state)
{
	struct move m[2] = { { .from = 1, .to = 2, .lblk = 0, .len = 7 },
			     { .from = 9, .to = 12, .lblk = 7, .len = 3, .unwritten = 1 } };
	uint64_t kept[] = { 44 };
	struct filemap_delta d = { .kept = kept, .n_kept = 1 };
	struct error err = ERROR_INIT;
	struct plan *p;

	(void)state;
	assert_int_equal(plan_new(&p, &err), 0);
	assert_int_equal(plan_add_file(p, 12, true, m, 2, &d, &err), -1);
	assert_int_equal(plan_begin_batch(p, &err), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(plan_add_file(p, 12 + i, true, m, 2, &d, &err), 0);
	assert_int_equal(p->batch[0].copy_blocks, 700);
	assert_int_equal(p->batch[0].n_file, 100);
	assert_int_equal(p->n_move, 200);
	assert_int_equal(p->node[p->file[99].first_kept], 44);
	plan_free(p);
}

static void test_plan_parse__malformed(void **state)
{
	static const char *const bad[] = {
		"",
		"plan\n",
		"plan 2\n",
		"plan 1 1\n",
		"plan 1\nplan 1\n",
		"plan 1\nfile 12\n",
		"plan 1\nbatch 1 copy 0 journal 0\n",
		"plan 1\nbatch 0 copy 0\n",
		"plan 1\nbatch 0 copy 0 journal\n",
		"plan 1\nbatch 0 copy 0 journal 0 test\n",
		"plan 1\nbatch 0 copy 0 journal 0\nmove 0 1 2 3\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12 first\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nmove 0 0 2 3\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nmove 4294967295 1 2 3\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nmove 0 1 2\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nmove 0 1 2 3 u u\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nmove 0 1 2 281474976710657\n",
		"plan 1\nbatch 0 copy 0 journal 0\nfile 12\nfree\n",
		"plan 1\npredicted files x\n",
		"plan 1\npredicted nosuch 1\n",
		"plan 1\npredicted files 1\nbatch 0 copy 0 journal 0\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct plan *p = NULL;
		struct error err = ERROR_INIT;

		if (plan_parse(bad[i], &p, &err) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_non_null(strstr(err.text, "line "));
		assert_null(p);
	}
}

static void test_plan_apply__takes_at_once_and_frees_later(void **state)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct state *st;

	(void)state;
	assert_int_equal(apply(good, 1, NULL, &st, &s, &err), 0);
	assert_int_equal(state_map(st, 0)->ext[0].pblk, 4000);
	assert_int_equal(state_map(st, 1)->ext[2].pblk, 4010);
	assert_false(rangeset_overlaps(st->free, 4000, 11));
	assert_true(rangeset_contains(st->free, 2000, 10));
	assert_true(rangeset_contains(st->free, 3004, 1));
	assert_int_equal(rangeset_blocks(st->free), 100);
	state_free(st);
	snapshot_free(s);
}

static void test_plan_apply__skipped_file_stays(void **state)
{
	static const bool skip[] = { true, false };
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct state *st;

	(void)state;
	assert_int_equal(apply(good, 1, skip, &st, &s, &err), 0);
	assert_int_equal(state_map(st, 0)->ext[0].pblk, 2000);
	assert_int_equal(state_map(st, 1)->ext[2].pblk, 4010);
	assert_true(rangeset_contains(st->free, 4000, 10));
	assert_int_equal(rangeset_blocks(st->free), 100);
	state_free(st);
	snapshot_free(s);
}

static void test_plan_apply__misfits_are_refused(void **state)
{
#define BATCH "plan 1\nbatch 0 copy 10 journal 6\n"
	static const char *const bad[] = {
		BATCH "file 12 last\nmove 0 10 2000 4095\n",
		BATCH "file 12 last\nmove 0 10 2000 2100\n",
		BATCH "file 12 last\nmove 0 10 2001 4000\n",
		BATCH "file 12 last\nmove 0 5 2000 4000\nmove 10 5 2100 4000\n",
		BATCH "file 12 last\nmove 0 10 2000 4000\ntake 4050\n",
		BATCH "file 12 last\nmove 0 10 2000 4000\nfree 4050\n",
		BATCH "file 12 last\nmove 0 10 2000 4000\nkeep 4050\n",
		BATCH "file 12 last\n",
		BATCH "file 12 last together\n",
		BATCH "file 13 last\nfree 3010\ntake 4000\n",
		BATCH "file 13 together\ntake 4000\n",
		BATCH "file 11 last\nmove 0 10 2000 4000\n",
		BATCH "file 13\nmove 0 1 3000 4000\n",
		BATCH "file 13\nmove 0 1 3000 4000\nkeep 3011\n",
		BATCH "file 13\nmove 0 1 3000 2000\nkeep 3010\n",
		/* blocks freed by the batch itself (I5) */
		BATCH "file 12 last\nmove 0 10 2000 4000\nfile 13\nmove 0 1 3000 2000\nkeep 3010\n",
		BATCH "file 12\nmove 0 5 2000 4000\nfile 12\nmove 10 5 2100 4010\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = ERROR_INIT;
		struct snapshot *s;
		struct state *st;

		if (apply(bad[i], 1, NULL, &st, &s, &err) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(err.kind, ERROR_OPERATION);
		assert_non_null(strstr(err.text, "plan: batch 0"));
		state_free(st);
		snapshot_free(s);
	}
}

static void test_plan_apply__move_over_two_runs_is_refused(void **state)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct state *st;

	(void)state;
	assert_int_equal(apply(good, 2, NULL, &st, &s, &err), -1);
	assert_non_null(strstr(err.text, "plan: batch 1, inode 13"));
	state_free(st);
	snapshot_free(s);
}

/* A target that the batch before gives back, data or tree block, is not free before it. */
static void test_plan_early__free_before_and_after(void **state)
{
	static const struct move first[] = { { .lblk = 0, .len = 10, .from = 100, .to = 500 },
					     { .lblk = 10, .len = 5, .from = 300, .to = 510 } };
	static const struct move second[] = {
		{ .lblk = 0, .len = 4, .from = 200, .to = 96 },	  /* up to what is given back */
		{ .lblk = 4, .len = 4, .from = 210, .to = 97 },	  /* one block into it */
		{ .lblk = 8, .len = 2, .from = 220, .to = 104 },  /* in the midst of it */
		{ .lblk = 10, .len = 2, .from = 230, .to = 109 }, /* its last block */
		{ .lblk = 12, .len = 3, .from = 240, .to = 110 }, /* behind it */
		{ .lblk = 15, .len = 9, .from = 250, .to = 297 }, /* all of another, and more */
		{ .lblk = 24, .len = 2, .from = 260, .to = 399 }, /* a tree block */
		{ .lblk = 26, .len = 2, .from = 270, .to = 401 },
	};
	static const bool want[] = { true, false, false, false, true, false, false, true };
	uint64_t node = 400;
	struct filemap_delta frees = { .freed = &node, .n_freed = 1 }, none = { 0 };
	struct error err = ERROR_INIT;
	struct plan *p;
	bool *early;
	size_t n;

	(void)state;
	assert_int_equal(plan_new(&p, &err), 0);
	assert_int_equal(plan_begin_batch(p, &err), 0);
	assert_int_equal(plan_add_file(p, 12, true, first, 2, &frees, &err), 0);
	assert_int_equal(plan_begin_batch(p, &err), 0);
	assert_int_equal(plan_add_file(p, 13, true, second, 3, &none, &err), 0);
	assert_int_equal(plan_add_file(p, 14, true, second + 3, 5, &none, &err), 0);
	assert_ptr_equal(plan_moves(p, 1, &n), p->move + 2);
	assert_int_equal(n, 8);
	assert_int_equal(plan_early(p, 1, &early, &err), 0);
	assert_memory_equal(early, want, sizeof(want));
	free(early);
	assert_int_equal(plan_early(p, 0, &early, &err), 0);
	assert_false(early[0] || early[1]);
	free(early);
	plan_free(p);
}

/* Any text either fails to parse, or fails to apply, or applies: nothing else. */
static void test_plan_apply__any_damage(void **state)
{
	uint64_t seed = 88172645463325252ull;
	char text[sizeof(good)];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct plan *p = NULL;
		struct snapshot *s = NULL;
		struct state *st = NULL;
		struct error err = ERROR_INIT;
		int rc = 0;

		memcpy(text, good, sizeof(text));
		for (int i = 0; i <= round % 3; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			text[(seed >> 20) % (sizeof(text) - 1)] =
				"0123456789 \nu"[(seed >> 50) % 13];
		}
		if (plan_parse(text, &p, &err)) {
			assert_int_equal(err.kind, ERROR_USAGE);
			continue;
		}
		assert_int_equal(snapshot_parse(snapshot_text, &s, &err), 0);
		assert_int_equal(state_new(s, &st, &err), 0);
		for (size_t i = 0; i < p->n_batch && !rc; i++)
			rc = plan_apply(p, i, NULL, st, &err);
		state_free(st);
		snapshot_free(s);
		plan_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_parse__good),
		cmocka_unit_test(test_plan_write__parses_back),
		cmocka_unit_test(test_plan_write__empty_plan),
		cmocka_unit_test(test_plan_add_file__counts_copies),
		cmocka_unit_test(test_plan_parse__malformed),
		cmocka_unit_test(test_plan_apply__takes_at_once_and_frees_later),
		cmocka_unit_test(test_plan_apply__skipped_file_stays),
		cmocka_unit_test(test_plan_apply__misfits_are_refused),
		cmocka_unit_test(test_plan_apply__move_over_two_runs_is_refused),
		cmocka_unit_test(test_plan_apply__any_damage),
		cmocka_unit_test(test_plan_early__free_before_and_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
