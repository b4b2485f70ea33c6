/* SPDX-License-Identifier: GPL-2.0-or-later */
/* planner, mode layout: trees beside their data, alignment, and what sizes nobody has may cost.
 * More of the mode is in test_modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/plan/order.h"
#include "support/plancheck.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOLUME_AT(more)                                                                            \
	"geometry block_size 1024 first_data_block 1 blocks 200 groups 1 blocks_per_group 8192 "   \
	"inodes_per_group 64 inode_size 128 desc_per_block 32" more "\n"                           \
	"limits journal_blocks 100 copy_blocks 100\n"
#define VOLUME		    VOLUME_AT("")
#define FILE_(ino, len, at) "file " #ino " file depth 0\next 0 " #len " " #at "\n"
/* Ten blocks with holes between them: five records, so there is a tree block. */
#define HOLES_(ino, a, b, c, d, e, tree)                                                           \
	"file " #ino " file depth 1\next 0 2 " #a "\next 3 2 " #b "\next 6 2 " #c "\next 9 2 " #d  \
	"\next 12 2 " #e "\nnode 0 " #tree " 5\n"

/* The moves of a plan as text, and behind those of a file its new tree; the plan is proven. */
static void plans(const char *snapshot, const struct planner_options *o, const char *want)
{
	struct snapshot *s;
	struct plan *p = plancheck_plan(snapshot, o, &s);
	char text[1000] = "";
	size_t n = 0;
	for (size_t i = 0; i < p->n_file && n < sizeof(text) - 100; i++) {
		const struct plan_file *f = &p->file[i];
		for (uint64_t k = 0; k < f->n_move; k++)
			n = plancheck_move(text, sizeof(text), n, &p->move[f->first_move + k]);
		for (uint64_t k = 0; k < f->n_taken && n < sizeof(text) - 100; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%u:tree>%u ",
					      (unsigned)f->ino,
					      (unsigned)p->node[f->first_taken + k]);
	}
	assert_string_equal(text, want);
	plan_free(p);
	snapshot_free(s);
}

/* ---- trees ---- */

/* To move the data as well would be worth a seek each 4 blocks. */
static const struct planner_options in_order = { PLAN_LAYOUT, .min_extent_blocks = 4 };

static void test_tree__moves_alone(void **state)
{
	(void)state;
	plans(VOLUME HOLES_(12, 40, 42, 44, 46, 48,
			    150) "fixed 1 19\nfree 20 20\nfree 50 100\nfree 151 49\norder 12\n",
	      &in_order, "12:tree>39 ");
}

static void test_tree__is_there_already(void **state)
{
	(void)state;
	plans(VOLUME HOLES_(12, 40, 42, 44, 46, 48,
			    39) "fixed 1 19\nfree 20 19\nfree 50 150\norder 12\n",
	      &in_order, "");
}

/* In the batch that moves the file. */
static void test_tree__comes_with_its_data(void **state)
{
	const struct planner_options o = { .mode = PLAN_LAYOUT };
	(void)state;
	plans(VOLUME FILE_(11, 5, 20) HOLES_(
		      12, 60, 62, 64, 66, 68,
		      150) "fixed 1 19\nfree 25 35\nfree 70 80\nfree 151 49\norder 11\norder 12\n",
	      &o, "2@60>26 2@62>28 2@64>30 2@66>32 2@68>34 12:tree>25 ");
}

/* What lies before the data is taken: the nearest free run. */
static void test_tree__goes_near(void **state)
{
	(void)state;
	plans(VOLUME FILE_(11, 10, 20)
		      HOLES_(12, 30, 32, 34, 36, 38,
			     150) "fixed 1 19\nfree 40 110\nfree 151 49\norder 11\norder 12\n",
	      &in_order, "12:tree>40 ");
}

/* From 60 to 46 isn't worth it. */
static void test_tree__is_near_enough(void **state)
{
	(void)state;
	plans(VOLUME FILE_(11, 10, 20) HOLES_(
		      12, 30, 32, 34, 36, 38,
		      60) "fixed 1 19\nfixed 40 6\nfree 46 14\nfree 61 139\norder 11\norder 12\n",
	      &in_order, "");
}

/* The room of a file that grows isn't for trees. */
static void test_tree__leaves_room(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 4, .reserve = 50 };
	(void)state;
	plans(VOLUME "file 11 file depth 0 grows\next 0 20 20\n" HOLES_(
		      12, 84, 86, 88, 90, 92, 150) "fixed 1 19\nfree 40 44\nfixed 94 6\nfree 100 "
						   "50\nfree 151 49\norder 11\norder 12\n",
	      &o, "12:tree>100 ");
}

/* ---- alignment ---- */

#define TWO    FILE_(12, 20, 100) FILE_(13, 4, 60)
#define AROUND "fixed 1 19\nfree 20 40\nfree 64 36\nfree 120 80\norder 13\norder 12\n"

static void test_align__long_files(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .align_blocks = 16, .align_offset = 11 };
	(void)state;
	plans(VOLUME TWO AROUND, &o, "20@100>27 4@60>20 ");
}

/* A hole of 15 blocks is more than an eighth of what is free. */
static void test_align__holes_have_a_limit(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .align_blocks = 16, .align_offset = 7 };
	(void)state;
	plans(VOLUME TWO AROUND, &o, "20@100>39 4@60>20 ");
	plans(VOLUME TWO "fixed 1 19\nfree 20 40\nfree 64 36\nfree 120 20\nfixed 140 60\n"
			 "order 13\norder 12\n",
	      &o, "20@100>24 4@60>20 ");
}

static void test_align__not_short_ones(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .align_blocks = 21, .align_offset = 6 };
	(void)state;
	plans(VOLUME TWO AROUND, &o, "20@100>24 4@60>20 ");
}

/* A stripe that doesn't divide the rest. */
static void test_align__stripes(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .align_blocks = 16, .align_offset = 11 };
	(void)state;
	plans(VOLUME_AT(" align_blocks 9") TWO AROUND, &o, "20@100>27 4@60>20 ");
	plans(VOLUME_AT(" align_blocks 7") TWO AROUND, &o, "20@100>28 4@60>20 ");
}

/* Nothing is moved for its sake alone, nor because of the hole. */
static void test_align__what_lies_well_stays(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .align_blocks = 16, .align_offset = 11 };
	(void)state;
	plans(VOLUME FILE_(12, 20, 27) FILE_(13, 4, 20) "fixed 1 19\nfree 24 3\nfree 47 153\n"
							"order 13\norder 12\n",
	      &o, "");
	plans(VOLUME FILE_(12, 20, 24) FILE_(13, 4, 20) "fixed 1 19\nfree 44 156\n"
							"order 13\norder 12\n",
	      &o, "");
}

/* ---- cost ---- */

/*
 * Each file is one block longer than the longest place there is once those longer than it are left
 * as they are: `n` times a look at the longest place.
 */
static void one_by_one(unsigned n)
{
	static const struct planner_options o = { .mode = PLAN_LAYOUT };
	struct error err = ERROR_INIT;
	size_t cap = 200u * n + 1000, k;
	unsigned at = 1, blocks = n * (n + 7) / 2 + 1;
	char *text = malloc(cap);
	struct snapshot *s;
	struct state *st;
	struct order order;
	assert_non_null(text);
	k = (size_t)snprintf(
		text, cap,
		"geometry block_size 1024 first_data_block 1 blocks %u groups %u blocks_per_group "
		"8192 inodes_per_group 8192 inode_size 128 desc_per_block 32\n"
		"limits journal_blocks 100 copy_blocks 100\n",
		blocks, (blocks - 1) / 8192 + 1);
	for (unsigned i = 1; i <= n; i++) {
		k += (size_t)snprintf(text + k, cap - k,
				      "file %u file depth 0\next 0 %u %u\next %u 1 %u\n"
				      "fixed %u 1\nfixed %u 1\n",
				      i + 11, i, at, i, at + i + 1, at + i, at + i + 2);
		at += i + 3;
	}
	if (snapshot_parse(text, &s, &err) || snapshot_set_order(s, NULL, 0, 0, &err) ||
	    state_new(s, &st, &err) || order_load(&order, st, &o, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < order.n; i++)
		assert_true(order.item[i].left);
	assert_true(order.looks <= n);
	order_release(&order);
	state_free(st);
	snapshot_free(s);
	free(text);
}

static void test_leave_too_long__looks_at_each_once(void **state)
{
	(void)state;
	one_by_one(50);
	one_by_one(400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree__moves_alone),
		cmocka_unit_test(test_tree__is_there_already),
		cmocka_unit_test(test_tree__comes_with_its_data),
		cmocka_unit_test(test_tree__goes_near),
		cmocka_unit_test(test_tree__is_near_enough),
		cmocka_unit_test(test_tree__leaves_room),
		cmocka_unit_test(test_align__long_files),
		cmocka_unit_test(test_align__holes_have_a_limit),
		cmocka_unit_test(test_align__not_short_ones),
		cmocka_unit_test(test_align__stripes),
		cmocka_unit_test(test_align__what_lies_well_stays),
		cmocka_unit_test(test_leave_too_long__looks_at_each_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
