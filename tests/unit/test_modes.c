/* SPDX-License-Identifier: GPL-2.0-or-later */
/* planner: the modes besides files: text in, text out, and many random small volumes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/planner.h"
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
static const struct planner_options lower = { .mode = PLAN_SHRINK };

#define VOLUME                                                                                     \
	"geometry block_size 1024 first_data_block 1 blocks 200 groups 1 blocks_per_group 8192 "   \
	"inodes_per_group 64 inode_size 128 desc_per_block 32\n"                                   \
	"limits journal_blocks 100 copy_blocks 100\n"

/* The moves of a plan, as text; the plan is proven. */
static void moves(const char *snapshot, const struct planner_options *o, const char *want)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct plan *p = NULL;
	char text[1000] = "";
	size_t n = 0;
	if (snapshot_parse(snapshot, &s, &err) || planner_make(s, o, &p, &err) ||
	    planner_verify(s, p, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < p->n_move && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u@%u>%u ",
				      (unsigned)p->move[i].len, (unsigned)p->move[i].from,
				      (unsigned)p->move[i].to);
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

static void test_free__slabs(void **state)
{
	const struct planner_options o = { PLAN_FREE, .slab_blocks = 20, .slab_offset = 5 };
	(void)state;
	/* The first slab holds something fixed; behind the last one there are 15 blocks. */
	moves(VOLUME FILE_(12, 5, 30) FILE_(13, 4, 67) FILE_(
		      14, 3, 100) "fixed 1 18\nfree 19 11\nfree 35 32\nfree 71 29\nfree 103 97\n",
	      &o, "5@30>189 4@67>185 3@100>19 ");
}

/* What the mode aims at; less is better. */
static uint64_t goal(const struct state *st, const struct planner_options *o)
{
	uint64_t top = 0, slabs = 0;
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

/* The plan is proven, its result is the prediction, no file is worse, and a second plan is empty.
 * Adds to sum[0] the goal before, to sum[1] the goal after. */
static void check_volume(uint64_t seed, const struct planner_options *o, uint64_t sum[2])
{
	struct snapshot *s = randomvol_make(seed), *after;
	struct error err = ERROR_INIT;
	struct plan *p, *second;
	struct summary now;
	struct state *st;
	struct ideal *id;
	if (planner_make(s, o, &p, &err) || planner_verify(s, p, &err) || state_new(s, &st, &err) ||
	    ideal_new(s, &id, &err))
		fail_msg("seed %u: %s", (unsigned)seed, err.text);
	sum[0] += goal(st, o);
	for (size_t i = 0; i < p->n_batch; i++) {
		if (plan_apply(p, i, NULL, st, &err))
			fail_msg("seed %u: %s", (unsigned)seed, err.text);
	}
	sum[1] += goal(st, o);
	state_summary(st, id, &now);
	if (memcmp(&now, &p->predicted, sizeof(now)))
		fail_msg("seed %u: the result is not the prediction", (unsigned)seed);
	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *was = &s->file[i].map, *is = state_map(st, i);
		if (filemap_runs(is->ext, is->n_ext) > filemap_runs(was->ext, was->n_ext))
			fail_msg("seed %u: inode %u has more runs", (unsigned)seed, s->file[i].ino);
	}
	after = randomvol_after(st);
	if (planner_make(after, o, &second, &err))
		fail_msg("seed %u: %s", (unsigned)seed, err.text);
	if (second->n_batch)
		fail_msg("seed %u: a second plan has %zu batches", (unsigned)seed, second->n_batch);
	plan_free(second);
	plan_free(p);
	snapshot_free(after);
	ideal_free(id);
	state_free(st);
	snapshot_free(s);
}

static void check_volumes(const struct planner_options *fixed)
{
	uint64_t sum[2] = { 0 };
	for (uint64_t seed = 1; seed <= RANDOM_VOLUMES; seed++) {
		struct planner_options o = *fixed;
		if (o.slab_blocks) {
			o.slab_blocks = 4 + seed % 29;
			o.slab_offset = seed % o.slab_blocks;
		}
		check_volume(seed, &o, sum);
	}
	if (sum[1] >= sum[0])
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shrink__moves_only_what_is_above),
		cmocka_unit_test(test_shrink__fills_gaps),
		cmocka_unit_test(test_shrink__nothing_to_do),
		cmocka_unit_test(test_free__moves_the_least),
		cmocka_unit_test(test_free__fills_what_fits),
		cmocka_unit_test(test_free__slabs),
		cmocka_unit_test(test_shrink__random_volumes),
		cmocka_unit_test(test_free__random_volumes),
		cmocka_unit_test(test_slabs__random_volumes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
