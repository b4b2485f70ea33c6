/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verify: it accepts every plan that the planner makes, and no plan with one thing changed. */
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

/* Two fragmented files, 8 free blocks at 20 and 10 at 40; one of them has a tree block. */
static const char *const two_files = "geometry block_size 1024 first_data_block 1 blocks 100 "
				     "groups 2 blocks_per_group 64 inodes_per_group 16 "
				     "inode_size 128 desc_per_block 1\n"
				     "limits journal_blocks 50 copy_blocks 50\n"
				     "file 12 file depth 0\n"
				     "ext 0 2 10\n"
				     "ext 2 2 14\n"
				     "file 13 file depth 1\n"
				     "ext 0 1 60\n"
				     "ext 1 1 62\n"
				     "ext 2 1 64\n"
				     "ext 3 1 66\n"
				     "ext 4 1 68\n"
				     "node 0 70 5\n"
				     "free 20 8\n"
				     "free 40 10\n"
				     "fixed 1 5\n";

struct fixture {
	struct snapshot *s;
	struct plan *p;
	struct error err;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct planner_options o = { .mode = PLAN_FILES };
	assert_non_null(f);
	assert_int_equal(snapshot_parse(two_files, &f->s, &f->err), 0);
	assert_int_equal(planner_make(f->s, &o, &f->p, &f->err), 0);
	assert_int_equal(f->p->n_batch, 1);
	assert_int_equal(f->p->n_file, 2);
	assert_int_equal(planner_verify(f->s, f->p, 1, &f->err), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	plan_free(f->p);
	snapshot_free(f->s);
	free(f);
	return 0;
}

static void rejected(struct fixture *f, const char *why)
{
	assert_int_equal(planner_verify(f->s, f->p, 1, &f->err), -1);
	assert_int_equal(f->err.kind, ERROR_OPERATION);
	if (!strstr(f->err.text, why))
		fail_msg("wanted \"%s\", got \"%s\"", why, f->err.text);
}

static struct move *first_move(struct fixture *f, size_t file)
{
	return f->p->move + f->p->file[file].first_move;
}

static void test_verify__wrong_from(void **state)
{
	first_move(*state, 0)->from++;
	rejected(*state, "plan: batch 0, inode 12: file block 0 is at block 10, not 11");
}

static void test_verify__wrong_state(void **state)
{
	first_move(*state, 0)->unwritten = 1;
	rejected(*state, "file block 0 is written");
}

static void test_verify__unmapped_source(void **state)
{
	struct fixture *f = *state;
	f->p->move[f->p->file[0].first_move + f->p->file[0].n_move - 1].lblk = 90;
	rejected(f, "plan: batch 0, inode 12: file block 90 is not mapped");
}

static void test_verify__target_not_free(void **state)
{
	first_move(*state, 0)->to = 80;
	rejected(*state, "plan: batch 0, inode 12: target 80 is not free");
}

static void test_verify__target_outside(void **state)
{
	first_move(*state, 0)->to = 99;
	rejected(*state, "block 99 is outside the file system");
}

static void test_verify__target_fixed(void **state)
{
	first_move(*state, 0)->to = 3;
	rejected(*state, "plan: batch 0, inode 12: target 3 is fixed");
}

static void test_verify__target_to_be_avoided(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(rangeset_add(f->s->avoid, first_move(f, 0)->to, 1, &f->err), 0);
	rejected(f, "is to be avoided");
}

static void test_verify__target_used_twice(void **state)
{
	first_move(*state, 1)->to = first_move(*state, 0)->to;
	rejected(*state, "is used twice");
}

static void test_verify__target_freed_by_the_same_batch(void **state)
{
	first_move(*state, 0)->to = 60;
	rejected(*state, "plan: batch 0, inode 12: target 60 is freed by this very batch");
}

static void test_verify__swapped_targets(void **state)
{
	struct move *m = first_move(*state, 1);
	uint64_t to = m[0].to;
	m[0].to = m[1].to;
	m[1].to = to;
	rejected(*state, "plan: it ends with 1 fragmented files, not 0 as predicted");
}

static void test_verify__file_gets_more_runs(void **state)
{
	struct fixture *f = *state;
	struct move *m = first_move(f, 0);
	/* One block where nothing adjoins: two runs become three. */
	f->p->file[0].n_move = 1;
	m->to = 47;
	m->from = 11;
	m->lblk = 1;
	m->len = 1;
	f->p->batch[0].copy_blocks = 6;
	rejected(f, "plan: batch 0, inode 12: it has 3 runs, more than in the beginning, where a "
		    "run may stop");
}

static void test_verify__no_rest_at_the_end(void **state)
{
	struct fixture *f = *state;
	f->p->batch[0].rest = false;
	rejected(f, "plan: batch 0: it is the last one, and a run may not stop there");
}

static void test_verify__too_many_journal_blocks(void **state)
{
	struct fixture *f = *state;
	f->s->limits.journal_blocks = f->p->batch[0].journal_blocks - 1;
	rejected(f, "plan: batch 0: it journals");
}

static void test_verify__wrong_count_of_journal_blocks(void **state)
{
	struct fixture *f = *state;
	f->p->batch[0].journal_blocks--;
	rejected(f, "plan: batch 0: it journals");
}

/* N5: pieces of a file, between which its tree block stays or is replaced. */
static void test_verify__tree_block_in_use_is_rewritten(void **state)
{
	const struct planner_options o = { .mode = PLAN_FILES };
	struct fixture f = { .s = NULL };
	(void)state;
	assert_int_equal(snapshot_parse("geometry block_size 1024 blocks 100\n"
					"limits journal_blocks 50 copy_blocks 3\n"
					"file 13 file depth 1\n"
					"ext 0 1 60\next 1 1 62\next 2 1 64\next 3 1 66\n"
					"ext 4 1 68\next 5 1 72\next 6 1 74\next 7 1 76\n"
					"node 0 70 8\nfree 20 20\n",
					&f.s, &f.err),
			 0);
	assert_int_equal(planner_make(f.s, &o, &f.p, &f.err), 0);
	assert_true(f.p->n_batch > 1 && f.p->file[0].n_kept == 1);
	f.s->geo.ordered = true;
	rejected(&f, "plan: batch 0, inode 13: a tree block in use is rewritten");
	plan_free(f.p);
	assert_int_equal(planner_make(f.s, &o, &f.p, &f.err), 0);
	assert_int_equal(planner_verify(f.s, f.p, 1, &f.err), 0);
	assert_true(f.p->n_batch > 1 && f.p->file[0].n_taken == 1 && f.p->file[0].n_freed == 1);
	for (size_t i = 0; i < f.p->n_file; i++)
		assert_int_equal(f.p->file[i].n_kept, 0);
	plan_free(f.p);
	snapshot_free(f.s);
}

static void test_verify__copies_too_much(void **state)
{
	struct fixture *f = *state;
	f->s->limits.copy_blocks = f->p->batch[0].copy_blocks - 1;
	rejected(f, "plan: batch 0: it copies");
}

static void test_verify__tree_block_not_freed(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(f->p->file[1].n_freed, 1);
	f->p->file[1].n_freed = 0;
	rejected(f, "plan: batch 0, inode 13: its tree has 1 blocks in the end, not 0");
}

static void test_verify__foreign_tree_block_freed(void **state)
{
	struct fixture *f = *state;
	f->p->node[f->p->file[1].first_freed] = 80;
	rejected(f, "inode 13: block 80 is not a tree block of it");
}

static void test_verify__file_twice_in_a_batch(void **state)
{
	struct fixture *f = *state;
	f->p->file[1].ino = 12;
	rejected(f, "inode 12: it is out of order, or twice in the batch");
}

static void test_verify__unknown_file(void **state)
{
	struct fixture *f = *state;
	f->p->file[1].ino = 14;
	rejected(f, "inode 14: the snapshot has no such file");
}

static void test_verify__wrong_prediction(void **state)
{
	struct fixture *f = *state;
	f->p->predicted.free_runs++;
	rejected(f, "free runs, not");
}

/* Six records don't fit the inode: they need a leaf. */
static void test_verify__taken_tree_block_missing(void **state)
{
	struct fixture *f = *state;
	struct snapshot *s;
	struct plan *p;
	struct error err = ERROR_INIT;
	const char *text = "geometry block_size 1024 blocks 100 blocks_per_group 8192 groups 1 "
			   "inodes_per_group 16 inode_size 128 desc_per_block 32\n"
			   "limits journal_blocks 50 copy_blocks 50\n"
			   "file 12 file depth 0\n"
			   "ext 0 3 10\next 10 3 14\next 20 3 18\next 30 3 22\n"
			   "free 40 10\n";
	const char *plan = "plan 1\nbatch 0 copy 1 journal 4 rest\nfile 12\nmove 1 1 11 41\n%s"
			   "predicted files 1 frag_files 1 dirs 0 frag_dirs 0 runs 6 ideal_runs 1 "
			   "blocks 12 frag_blocks 12 tree_blocks 1 free_blocks 9 free_runs 3 "
			   "longest_free 7\n";
	const char *why[] = { "inode 12: 0 tree blocks can't hold its mapping, which needs 1",
			      "inode 12: it has 6 runs, more than in the beginning" };
	char full[600];
	(void)f;
	assert_int_equal(snapshot_parse(text, &s, &err), 0);
	for (int with = 0; with < 2; with++) {
		snprintf(full, sizeof(full), plan, with ? "take 45\n" : "");
		assert_int_equal(plan_parse(full, &p, &err), 0);
		assert_int_equal(planner_verify(s, p, 1, &err), -1);
		if (!strstr(err.text, why[with]))
			fail_msg("wanted \"%s\", got \"%s\"", why[with], err.text);
		plan_free(p);
	}
	snapshot_free(s);
}

/* A block-mapped file: the indirect blocks that the commit writes are named, and no others. */
static void test_verify__indirect_blocks(void **state)
{
	const char *text = "geometry block_size 1024 blocks 1000 blocks_per_group 8192 groups 1 "
			   "inodes_per_group 16 inode_size 128 desc_per_block 32\n"
			   "limits journal_blocks 50 copy_blocks 500\n"
			   "file 12 file depth 0 indirect\n"
			   "ext 5 5 10\next 12 3 18\next 269 2 30\next 271 2 42\n"
			   "free 100 20\n";
	const char *plan = "plan 1\nbatch 0 copy %u journal %u rest\nfile 12\n%s%s"
			   "predicted files 1 frag_files 1 dirs 0 frag_dirs 0 runs 3 ideal_runs 1 "
			   "blocks 12 frag_blocks 12 tree_blocks 0 free_blocks 20 free_runs 3 "
			   "longest_free 8\n";
	/* Number 12 is the indirect block, 269 the double one, 270 the one below it. */
	static const struct {
		const char *moves, *nodes, *why;
		unsigned copy, journal;
	} c[] = {
		{ "move 271 2 42 102\n", "keep 31\n", "predict", 2, 4 },
		{ "move 271 2 42 102\n", "", "indirect blocks to be written differ at block 31", 2,
		  3 },
		{ "move 271 2 42 102\n", "keep 30\n", "differ at block 31", 2, 4 },
		{ "move 271 2 42 102\n", "keep 30\nkeep 31\n", "differ at block 31", 2, 5 },
		{ "move 271 2 42 102\n", "keep 31\nkeep 31\n", "differ at block 31", 2, 4 },
		{ "move 270 1 31 102\n", "keep 30\nkeep 102\n", "it has 5 runs", 1, 5 },
		{ "move 270 1 31 102\n", "keep 102\n", "differ at block 30", 1, 4 },
		{ "move 270 1 31 102\n", "keep 30\nkeep 31\n", "differ at block 102", 1, 5 },
		{ "move 269 1 30 102\n", "keep 102\n", "it has 5 runs", 1, 4 },
		{ "move 5 2 10 102\n", "", "it has 5 runs", 2, 3 },
		{ "move 5 2 10 102\n", "keep 18\n", "differ at block 18", 2, 4 },
		{ "move 271 2 42 102\n", "take 110\nkeep 31\n", "no tree blocks", 2, 5 },
		{ "move 271 2 42 102\n", "free 30\nkeep 31\n", "no tree blocks", 2, 4 },
		{ "move 271 2 42 102 u\n", "keep 31\n", "is written", 0, 4 },
		{ "move 11 2 17 102\n", "keep 102\n", "file block 11 is not mapped", 2, 4 },
	};
	struct snapshot *s;
	struct error err = ERROR_INIT;
	struct plan *p;
	char full[600];
	(void)state;
	assert_int_equal(snapshot_parse(text, &s, &err), 0);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		snprintf(full, sizeof(full), plan, c[i].copy, c[i].journal, c[i].moves, c[i].nodes);
		assert_int_equal(plan_parse(full, &p, &err), 0);
		assert_int_equal(planner_verify(s, p, 1, &err), -1);
		if (!strstr(err.text, c[i].why))
			fail_msg("%zu: wanted \"%s\", got \"%s\"", i, c[i].why, err.text);
		plan_free(p);
	}
	snapshot_free(s);
}

/* A tree that moves alone. */
static void test_verify__tree_made_anew(void **state)
{
	const char *text = "geometry block_size 1024 blocks 1000 blocks_per_group 8192 groups 1 "
			   "inodes_per_group 16 inode_size 128 desc_per_block 32\n"
			   "limits journal_blocks 50 copy_blocks 500\n"
			   "file 12 file depth 1\n"
			   "ext 0 2 10\next 3 2 12\next 6 2 14\next 9 2 16\next 12 2 18\n"
			   "node 0 50 5\n"
			   "free 100 20\n";
	const char *plan = "plan 1\nbatch 0 copy 0 journal 4 rest\nfile 12 %s"
			   "predicted files 1 frag_files 0 dirs 0 frag_dirs 0 runs 1 ideal_runs 1 "
			   "blocks 10 frag_blocks 0 tree_blocks 1 free_blocks 20 free_runs 2 "
			   "longest_free 19\n";
	static const struct {
		const char *tree, *why;
	} c[] = {
		{ "last together\nfree 50\ntake 100\n", NULL },
		{ "last\nfree 50\ntake 100\n", "it has no moves" },
		{ "last together\nkeep 50\n", "it has no moves" },
		{ "together\nfree 50\ntake 100\n", "isn't made anew as a whole" },
		{ "last together\ntake 100\n", "its tree has 2 blocks in the end, not 1" },
		{ "together\ntake 100\n", "isn't made anew as a whole" },
		{ "last together\nfree 50\ntake 10\n", "tree block 10 is not free" },
		{ "last together\nfree 51\ntake 100\n", "block 51 is not a tree block of it" },
	};
	struct snapshot *s;
	struct error err = ERROR_INIT;
	struct plan *p;
	char full[600];
	(void)state;
	assert_int_equal(snapshot_parse(text, &s, &err), 0);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int rc;
		snprintf(full, sizeof(full), plan, c[i].tree);
		assert_int_equal(plan_parse(full, &p, &err), 0);
		rc = planner_verify(s, p, 1, &err);
		if (!c[i].why && rc)
			fail_msg("%zu: %s", i, err.text);
		if (c[i].why && (!rc || !strstr(err.text, c[i].why)))
			fail_msg("%zu: wanted \"%s\", got \"%s\"", i, c[i].why, err.text);
		plan_free(p);
	}
	snapshot_free(s);
}

/* One random change to a plan, by which it must become wrong. */
static bool mutate(struct plan *p, uint64_t how)
{
	struct move *m = &p->move[how / 8 % p->n_move];
	struct plan_file *f = &p->file[how / 8 % p->n_file];
	switch (how % 8) {
	case 0:
		m->from++;
		return true;
	case 1:
		m->to = m->from;
		return true;
	case 2:
		m->lblk++;
		return true;
	case 3:
		m->len++;
		return true;
	case 4:
		m->unwritten ^= 1;
		return true;
	case 5:
		f->n_freed--;
		return f->n_freed != UINT64_MAX;
	case 6:
		f->n_taken--;
		return f->n_taken != UINT64_MAX;
	default:
		f->n_kept--;
		return f->n_kept != UINT64_MAX;
	}
}

static void test_verify__random_mutants(void **state)
{
	const struct planner_options o = { .mode = PLAN_FILES };
	unsigned tried = 0;
	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct snapshot *s = randomvol_make(seed);
		struct error err = ERROR_INIT;
		struct plan *p;
		assert_int_equal(planner_make(s, &o, &p, &err), 0);
		if (p->n_batch && mutate(p, seed * 7919)) {
			tried++;
			if (!planner_verify(s, p, 1, &err))
				fail_msg("seed %u: the mutant is accepted", (unsigned)seed);
		}
		plan_free(p);
		snapshot_free(s);
	}
	assert_true(tried > 500);
}

#define WITH_PLAN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PLAN(test_verify__wrong_from),
		WITH_PLAN(test_verify__wrong_state),
		WITH_PLAN(test_verify__unmapped_source),
		WITH_PLAN(test_verify__target_not_free),
		WITH_PLAN(test_verify__target_outside),
		WITH_PLAN(test_verify__target_fixed),
		WITH_PLAN(test_verify__target_to_be_avoided),
		WITH_PLAN(test_verify__target_used_twice),
		WITH_PLAN(test_verify__target_freed_by_the_same_batch),
		WITH_PLAN(test_verify__swapped_targets),
		WITH_PLAN(test_verify__file_gets_more_runs),
		WITH_PLAN(test_verify__no_rest_at_the_end),
		cmocka_unit_test(test_verify__tree_block_in_use_is_rewritten),
		WITH_PLAN(test_verify__too_many_journal_blocks),
		WITH_PLAN(test_verify__wrong_count_of_journal_blocks),
		WITH_PLAN(test_verify__copies_too_much),
		WITH_PLAN(test_verify__tree_block_not_freed),
		WITH_PLAN(test_verify__foreign_tree_block_freed),
		WITH_PLAN(test_verify__file_twice_in_a_batch),
		WITH_PLAN(test_verify__unknown_file),
		WITH_PLAN(test_verify__wrong_prediction),
		WITH_PLAN(test_verify__taken_tree_block_missing),
		cmocka_unit_test(test_verify__indirect_blocks),
		cmocka_unit_test(test_verify__tree_made_anew),
		cmocka_unit_test(test_verify__random_mutants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
