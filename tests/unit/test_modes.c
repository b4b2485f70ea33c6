/* SPDX-License-Identifier: GPL-2.0-or-later */
/* planner: the modes besides files: text in, text out, and many random small volumes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/planner.h"
#include "support/plancheck.h"
#include "support/randomvol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each mode. Sanitizers make it several times slower, and look for other things. */
#if defined(__SANITIZE_ADDRESS__)
#define RANDOM_VOLUMES 300u
#elif defined(__clang__) /* thread sanitizer */
#define RANDOM_VOLUMES 100u
#else
#define RANDOM_VOLUMES 3500u
#endif

static const struct planner_options gather = { .mode = PLAN_FREE };
static const struct planner_options in_order = { .mode = PLAN_LAYOUT };
static const struct planner_options lower = { .mode = PLAN_SHRINK };

#define VOLUME                                                                                     \
	"geometry block_size 1024 first_data_block 1 blocks 200 groups 1 blocks_per_group 8192 "   \
	"inodes_per_group 64 inode_size 128 desc_per_block 32\n"                                   \
	"limits journal_blocks 100 copy_blocks 100\n"

/* The moves of a plan, as text; the plan is proven. */
static void moves(const char *snapshot, const struct planner_options *o, const char *want)
{
	struct snapshot *s;
	struct plan *p = plancheck_plan(snapshot, o, &s);
	char text[1000] = "";
	size_t n = 0;
	for (size_t i = 0; i < p->n_move; i++)
		n = plancheck_move(text, sizeof(text), n, &p->move[i]);
	assert_string_equal(text, want);
	plan_free(p);
	snapshot_free(s);
}

#define FILE_(ino, len, at) "file " #ino " file depth 0\next 0 " #len " " #at "\n"

static void test_shrink__moves_only_what_is_above(void **state)
{
	(void)state;
	moves(VOLUME FILE_(12, 5, 20) FILE_(13, 4, 60)
		      FILE_(14, 6, 110) "fixed 1 19\nfree 25 35\nfree 64 46\nfree 116 84\n",
	      &lower, "4@60>31 6@110>25 ");
}

static void test_shrink__fills_gaps(void **state)
{
	(void)state;
	moves(VOLUME FILE_(12, 5, 20) FILE_(13, 4, 31)
		      FILE_(14, 6, 110) "fixed 1 19\nfree 25 6\nfree 35 75\nfree 116 84\n",
	      &lower, "6@110>25 ");
}

static void test_shrink__nothing_to_do(void **state)
{
	(void)state;
	moves(VOLUME FILE_(12, 5, 20) FILE_(13, 4, 25) "fixed 1 19\nfree 29 171\n", &lower, "");
}

static void test_free__moves_the_least(void **state)
{
	(void)state;
	moves(VOLUME FILE_(12, 5, 20) FILE_(13, 4, 60)
		      FILE_(14, 6, 194) "fixed 1 19\nfree 25 35\nfree 64 130\n",
	      &gather, "4@60>25 ");
}

static void test_free__fills_what_fits(void **state)
{
	(void)state;
	moves(VOLUME FILE_(12, 5, 20) FILE_(13, 4, 60)
		      FILE_(14, 6, 90) "fixed 1 19\nfree 25 4\nfixed 29 1\nfree 30 30\nfree 64 "
				       "26\nfree 96 104\n",
	      &gather, "4@60>25 6@90>30 ");
}

/* A file in two runs, and a gap that it fits where free space isn't wanted. */
#define TWO_RUNS                                                                                   \
	VOLUME FILE_(12, 5, 20) FILE_(13, 10, 33) "file 14 file depth 0\next 0 4 60\n"             \
						  "ext 4 4 100\nfixed 1 19\nfree 25 8\n"           \
						  "free 43 17\nfree 64 36\nfree 104 96\n"

/* To follow its first run, it would copy less, but for the time being. */
static void test_free__moves_once(void **state)
{
	(void)state;
	moves(TWO_RUNS, &gather, "4@60>25 4@100>29 ");
}

static void test_shrink__moves_once(void **state)
{
	(void)state;
	moves(TWO_RUNS, &lower, "4@60>25 4@100>29 ");
}

static void test_free__slabs(void **state)
{
	const struct planner_options o = { PLAN_FREE, .slab_blocks = 20, .slab_offset = 5 };
	(void)state;
	/* The first slab holds something fixed; behind the last one there are 15 blocks. */
	moves(VOLUME FILE_(12, 5, 30) FILE_(13, 4, 67) FILE_(
		      14, 3, 100) "fixed 1 18\nfree 19 11\nfree 35 32\nfree 71 29\nfree 103 97\n",
	      &o, "5@30>189 4@67>185 3@100>19 ");
}

#define THREE	     FILE_(12, 5, 40) FILE_(13, 4, 60) FILE_(14, 6, 80)
#define AROUND_THREE "fixed 1 19\nfree 20 20\nfree 45 15\nfree 64 16\nfree 86 114\n"

static void test_layout__one_behind_the_other(void **state)
{
	(void)state;
	moves(VOLUME THREE AROUND_THREE "order 14\norder 12\norder 13\n", &in_order,
	      "5@40>26 4@60>31 6@80>20 ");
}

static void test_layout__files_without_a_name_come_last(void **state)
{
	(void)state;
	moves(VOLUME THREE AROUND_THREE "order 13\n", &in_order, "5@40>24 4@60>20 6@80>29 ");
}

static void test_layout__without_an_order(void **state)
{
	(void)state;
	moves(VOLUME THREE AROUND_THREE, &in_order, "");
}

static void test_layout__around_what_is_fixed(void **state)
{
	(void)state;
	/* The last one doesn't fit before the fixed block. */
	moves(VOLUME THREE "fixed 1 19\nfree 20 10\nfixed 30 1\nfree 31 9\nfree 45 15\nfree 64 "
			   "16\nfree 86 114\norder 13\norder 14\norder 12\n",
	      &in_order, "5@40>31 4@60>20 6@80>24 ");
}

static void test_layout__on_each_others_blocks(void **state)
{
	(void)state;
	/* All is full but for 3 blocks: they change places by way of those. */
	moves(VOLUME FILE_(12, 3, 20) FILE_(13, 3, 23) "fixed 1 19\nfree 26 3\nfixed 29 171\n"
						       "order 13\norder 12\n",
	      &in_order, "3@20>26 3@23>20 3@26>23 ");
}

/* What is near what it belongs to stays, if there is enough of it. */
static void test_layout__good_neighbourhoods_stay(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 10 };
	(void)state;
	moves(VOLUME FILE_(12, 5, 40) FILE_(13, 6, 45) FILE_(14, 2, 70) FILE_(
		      15, 3, 80) "fixed 1 19\nfree 20 20\nfree 51 19\nfree 72 8\nfree 83 117\n"
				 "order 12\norder 13\norder 14\norder 15\n",
	      &o, "2@70>20 3@80>22 ");
}

/* Twenty blocks for one seek less, where ten would be worth it. */
static void test_layout__what_does_not_pay(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 10 };
	(void)state;
	moves(VOLUME FILE_(12, 9, 40) FILE_(13, 9, 60) "fixed 1 19\nfree 20 20\nfree 49 11\nfree "
						       "69 131\norder 12\norder 13\n",
	      &o, "");
}

/* The front list comes first, whatever it costs, but no longer neighbourhood moves for it. */
static void test_layout__front_list(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 4 };
	(void)state;
	moves(VOLUME FILE_(12, 5, 40) FILE_(13, 4, 60) FILE_(14, 6, 80) AROUND_THREE
	      "front 14\norder 12\norder 13\n",
	      &o, "6@80>20 ");
}

static void test_layout__a_second_plan_with_a_front_list_is_empty(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 4 };
	(void)state;
	moves(VOLUME FILE_(12, 5, 40) FILE_(13, 4, 60)
		      FILE_(14, 6, 20) "fixed 1 19\nfree 26 14\nfree 45 15\nfree 64 136\n"
				       "front 14\norder 12\norder 13\n",
	      &o, "");
}

/* Half of a file stays, the other half comes to it. */
static void test_layout__most_of_a_long_file_stays(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .min_extent_blocks = 10 };
	(void)state;
	moves(VOLUME "file 12 file depth 0\next 0 20 40\next 20 5 100\n"
		     "fixed 1 19\nfree 20 20\nfree 60 40\nfree 105 95\norder 12\n",
	      &o, "5@100>60 ");
}

static void test_layout__room_behind_what_grows(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .reserve = 50 };
	/* The kernel asks for what is missing up to 64 blocks, and wants all of it behind the file;
	 * the other one that grows gets no room, as it would get none from the kernel. */
	const char *growing = VOLUME
		"file 12 file depth 0 grows\next 0 20 40\n"
		"file 13 file depth 0 grows\next 0 4 70\n" FILE_(
			14, 6, 80) "fixed 1 19\nfree 20 20\nfree 60 10\nfree 74 6\nfree 86 114\n"
				   "order 12\norder 13\norder 14\n";
	(void)state;
	moves(growing, &o, "20@40>20 6@80>88 4@70>84 ");
	moves(growing, &in_order, "20@40>20 4@70>40 6@80>44 ");
}

static void test_layout__room_that_is_there(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .reserve = 50 };
	(void)state;
	moves(VOLUME "file 12 file depth 0 grows\next 0 20 20\n" FILE_(13, 4, 84)
		      FILE_(14, 6, 88) "fixed 1 19\nfree 40 44\nfree 94 106\n"
				       "order 12\norder 13\norder 14\n",
	      &o, "");
}

/* Those that want least get it, as many as the share allows; the others get none. */
static void test_layout__room_for_those_that_want_least(void **state)
{
	const struct planner_options o = { PLAN_LAYOUT, .reserve = 30 };
	(void)state;
	moves(VOLUME
	      "file 12 file depth 0 grows\next 0 17 40\n"
	      "file 13 file depth 0 grows\next 0 46 70\n" FILE_(
		      14, 6, 130) "fixed 1 19\nfree 20 20\nfree 57 13\nfree 116 14\nfree 136 64\n"
				  "order 12\norder 13\norder 14\n",
	      &o, "17@40>20 33@70>37 13@103>70 6@130>101 ");
}

/* What the mode aims at; less is better. */
static uint64_t goal(const struct state *st, const struct planner_options *o)
{
	uint64_t top = 0, slabs = 0;
	struct reading r;
	state_reading(st, &r);
	if (o->mode == PLAN_LAYOUT)
		return r.blocks - r.sequential;
	if (o->mode == PLAN_FREE && !o->slab_blocks)
		return rangeset_count(st->free);
	for (uint64_t at = o->slab_offset; o->slab_blocks; at += o->slab_blocks) {
		if (at + o->slab_blocks > st->snap->geo.blocks)
			return UINT64_MAX - slabs;
		slabs += rangeset_contains(st->free, at, o->slab_blocks);
	}
	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, i);
		for (size_t k = 0; k < m->n_ext; k++) {
			if (m->ext[k].pblk + m->ext[k].len > top)
				top = m->ext[k].pblk + m->ext[k].len;
		}
	}
	return top;
}

/* Of all volumes, the goal before and after. */
struct gain {
	const struct planner_options *o;
	uint64_t before, after;
};

static void add_before(void *ctx, const struct state *st)
{
	struct gain *g = ctx;
	g->before += goal(st, g->o);
}

static void add_after(void *ctx, const struct state *st, const struct snapshot *after)
{
	struct gain *g = ctx;
	(void)after;
	g->after += goal(st, g->o);
}

static void check_volumes(const struct planner_options *fixed)
{
	struct gain gain = { 0 };
	const struct plancheck look = { .start = add_before, .end = add_after, .ctx = &gain };
	for (uint64_t seed = 1; seed <= RANDOM_VOLUMES; seed++) {
		struct planner_options o = *fixed;
		if (o.slab_blocks) {
			o.slab_blocks = 4 + seed % 29;
			o.slab_offset = seed % o.slab_blocks;
		}
		if (o.mode == PLAN_LAYOUT && seed % 4)
			o.min_extent_blocks = 1 + seed % 59;
		if (o.mode == PLAN_LAYOUT && seed % 5 > 2) {
			o.align_blocks = 3 + seed % 30;
			o.align_offset = seed % o.align_blocks;
		}
		if (o.mode == PLAN_LAYOUT && seed % 3 == 0)
			o.reserve = 5 + (unsigned)(seed % 46);
		gain.o = &o;
		plancheck_run(randomvol_make(seed), &o, seed, &look);
	}
	if (gain.after >= gain.before)
		fail_msg("nothing gained");
}

static void test_free__random_volumes(void **state)
{
	(void)state;
	check_volumes(&gather);
}

static void test_slabs__random_volumes(void **state)
{
	const struct planner_options o = { PLAN_FREE, .slab_blocks = 1 };
	(void)state;
	check_volumes(&o);
}

static void test_shrink__random_volumes(void **state)
{
	(void)state;
	check_volumes(&lower);
}

static void test_layout__random_volumes(void **state)
{
	(void)state;
	check_volumes(&in_order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shrink__moves_only_what_is_above),
		cmocka_unit_test(test_shrink__fills_gaps),
		cmocka_unit_test(test_shrink__nothing_to_do),
		cmocka_unit_test(test_free__moves_the_least),
		cmocka_unit_test(test_free__fills_what_fits),
		cmocka_unit_test(test_free__moves_once),
		cmocka_unit_test(test_shrink__moves_once),
		cmocka_unit_test(test_free__slabs),
		cmocka_unit_test(test_shrink__random_volumes),
		cmocka_unit_test(test_free__random_volumes),
		cmocka_unit_test(test_slabs__random_volumes),
		cmocka_unit_test(test_layout__one_behind_the_other),
		cmocka_unit_test(test_layout__files_without_a_name_come_last),
		cmocka_unit_test(test_layout__without_an_order),
		cmocka_unit_test(test_layout__around_what_is_fixed),
		cmocka_unit_test(test_layout__on_each_others_blocks),
		cmocka_unit_test(test_layout__good_neighbourhoods_stay),
		cmocka_unit_test(test_layout__what_does_not_pay),
		cmocka_unit_test(test_layout__front_list),
		cmocka_unit_test(test_layout__a_second_plan_with_a_front_list_is_empty),
		cmocka_unit_test(test_layout__most_of_a_long_file_stays),
		cmocka_unit_test(test_layout__room_behind_what_grows),
		cmocka_unit_test(test_layout__room_that_is_there),
		cmocka_unit_test(test_layout__room_for_those_that_want_least),
		cmocka_unit_test(test_layout__random_volumes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
