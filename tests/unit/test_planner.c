/* SPDX-License-Identifier: GPL-2.0-or-later */
/* planner: text in, text out for each branch of the policy, and many random small volumes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/planner.h"
#include "scaledefrag/report.h"
#include "support/plancheck.h"
#include "support/randomvol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct planner_options files = { .mode = PLAN_FILES };

static char *plan_text(const struct plan *p)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	assert_non_null(f);
	assert_int_equal(report_plan(f, p), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

#define GEO                                                                                        \
	"geometry block_size 1024 first_data_block 1 blocks 1000 groups 1 blocks_per_group 8192 "  \
	"inodes_per_group 64 inode_size 128 desc_per_block 32"
#define LIMITS "limits journal_blocks 100 copy_blocks 100\n"

/* Plans the snapshot, proves the plan, and compares it with what is wanted, prediction left out. */
static void plans_with(const char *snapshot, const char *want, const struct planner_options *o)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct plan *p = NULL;
	char *text;
	if (snapshot_parse(snapshot, &s, &err) || planner_make(s, o, &p, &err))
		fail_msg("%s", err.text);
	if (planner_verify(s, p, 1, &err))
		fail_msg("%s", err.text);
	text = plan_text(p);
	assert_non_null(strstr(text, "predicted"));
	*strstr(text, "predicted") = 0;
	assert_string_equal(text, want);
	free(text);
	plan_free(p);
	snapshot_free(s);
}

static void plans(const char *snapshot, const char *want)
{
	plans_with(snapshot, want, &files);
}

static void test_planner_make__nothing_fragmented(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 2 10\next 5 2 12\nfree 20 50\n",
	      "plan 1\n");
}

static void test_planner_make__follows_its_largest_run(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS
		  "file 12 file depth 0\next 0 9 10\next 9 2 40\nfree 19 5\nfree 100 11\n",
	      "plan 1\nbatch 0 copy 2 journal 3 rest\nfile 12 last\nmove 9 2 40 19\n");
}

static void test_planner_make__precedes_and_follows(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 1 50\next 1 9 10\next 10 2 40\n"
		  "free 9 1\nfree 19 5\nfree 100 12\n",
	      "plan 1\nbatch 0 copy 3 journal 3 rest\nfile 12 last\nmove 0 1 50 9\nmove 10 2 40 "
	      "19\n");
}

static void test_planner_make__fills_the_gap_between_two_runs(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 5 10\next 5 2 40\next 7 5 17\n"
		  "free 15 2\nfree 100 12\n",
	      "plan 1\nbatch 0 copy 2 journal 3 rest\nfile 12 last\nmove 5 2 40 15\n");
}

static void test_planner_make__best_fit(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 3 10\next 3 3 20\n"
		  "free 100 20\nfree 200 6\nfree 300 7\n",
	      "plan 1\nbatch 0 copy 6 journal 3 rest\nfile 12 last\nmove 0 3 10 200\nmove 3 3 20 "
	      "203\n");
}

static void test_planner_make__keeps_alignment(void **state)
{
	(void)state;
	plans(GEO " align_blocks 16\n" LIMITS "file 12 file depth 0\next 0 3 16\next 3 3 20\n"
		  "free 201 6\nfree 300 30\n",
	      "plan 1\nbatch 0 copy 6 journal 3 rest\nfile 12 last\nmove 0 3 16 304\nmove 3 3 20 "
	      "307\n");
}

static void test_planner_make__holes_and_unwritten_blocks(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 3 3 10\next 90 3 20 u\n"
		  "free 100 6\n",
	      "plan 1\nbatch 0 copy 3 journal 3 rest\nfile 12 last\n"
	      "move 3 3 10 100\nmove 90 3 20 103 u\n");
}

/* No free run holds the file; two of its runs fit one. */
static void test_planner_make__gathers_neighbours(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 9 10\next 9 1 20\next 10 1 30\n"
		  "ext 11 9 40\nfree 100 2\n",
	      "plan 1\nbatch 0 copy 2 journal 3 rest\nfile 12 last\nmove 9 1 20 100\nmove 10 1 30 "
	      "101\n");
}

/* No two of its runs fit one free run; all of it fits two. */
static void test_planner_make__spreads_over_the_longest(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 4 10\next 4 4 20\next 8 4 30\n"
		  "ext 12 4 40\nfree 100 10\nfree 200 6\n",
	      "plan 1\nbatch 0 copy 16 journal 3 rest\nfile 12 last\nmove 0 4 10 100\n"
	      "move 4 4 20 104\nmove 8 2 30 108\nmove 10 2 32 200\nmove 12 4 40 202\n");
}

/* What one file frees makes room for another, in the next batch. */
static void test_planner_make__uses_freed_blocks_in_the_next_batch(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 0\next 0 2 10\next 2 2 14\next 4 2 18\n"
		  "file 13 file depth 0\next 0 4 6\next 4 2 60\nfree 100 6\n",
	      "plan 1\nbatch 0 copy 6 journal 3 rest\nfile 12 last\nmove 0 2 10 100\n"
	      "move 2 2 14 102\nmove 4 2 18 104\n"
	      "batch 1 copy 2 journal 3 rest\nfile 13 last\nmove 4 2 60 10\n");
}

/* A file that is larger than a batch goes in pieces, cut between records. */
static void test_planner_make__pieces(void **state)
{
	(void)state;
	plans(GEO "\nlimits journal_blocks 100 copy_blocks 7\n"
		  "file 12 file depth 0\next 0 3 10\next 3 3 20\next 6 3 30\next 9 1 40\n"
		  "free 100 10\n",
	      "plan 1\nbatch 0 copy 6 journal 3 rest\nfile 12\nmove 0 3 10 100\nmove 3 3 20 103\n"
	      "batch 1 copy 4 journal 3 rest\nfile 12 last\nmove 6 3 30 106\nmove 9 1 40 109\n");
}

static void test_planner_make__frees_the_tree(void **state)
{
	(void)state;
	plans(GEO "\n" LIMITS "file 12 file depth 1\next 0 1 10\next 1 1 20\next 2 1 30\n"
		  "ext 3 1 40\next 4 1 50\nnode 0 60 5\nfree 100 5\n",
	      "plan 1\nbatch 0 copy 5 journal 3 rest\nfile 12 last\nmove 0 1 10 100\n"
	      "move 1 1 20 101\nmove 2 1 30 102\nmove 3 1 40 103\nmove 4 1 50 104\nfree 60\n");
}

static void test_planner_make__too_small_a_journal(void **state)
{
	(void)state;
	plans(GEO "\nlimits journal_blocks 2 copy_blocks 100\n"
		  "file 12 file depth 0\next 0 1 10\next 1 1 20\nfree 100 5\n",
	      "plan 1\n");
}

/* Spread over two runs, records are cut so that they don't fit the inode any more. */
#define FOUR_STATES                                                                                \
	GEO "\n" LIMITS "file 12 file depth 0\next 0 4 10\next 4 4 20 u\next 8 4 30\n"             \
	    "ext 12 4 40 u\nfree 100 10\nfree 200 6\n"

static void test_planner_make__takes_a_tree_block(void **state)
{
	(void)state;
	plans(FOUR_STATES "free 300 1\n",
	      "plan 1\nbatch 0 copy 8 journal 4 rest\nfile 12 last\nmove 0 4 10 100\n"
	      "move 4 4 20 104 u\nmove 8 2 30 108\nmove 10 2 32 200\nmove 12 4 40 202 u\n"
	      "take 300\n");
}

/* No other block is free; so it goes in two pieces, and what the first frees is taken. */
static void test_planner_make__no_free_tree_block(void **state)
{
	(void)state;
	plans(FOUR_STATES, "plan 1\nbatch 0 copy 4 journal 3 rest\nfile 12\nmove 0 4 10 100\n"
			   "move 4 4 20 104 u\n"
			   "batch 1 copy 4 journal 4 rest\nfile 12 last\nmove 8 2 30 108\n"
			   "move 10 2 32 200\nmove 12 4 40 202 u\ntake 20\n");
}

/* The first piece fits the journal, the second doesn't; and the first alone is no gain. */
static void test_planner_make__takes_back_useless_pieces(void **state)
{
	(void)state;
	plans("geometry block_size 1024 first_data_block 1 blocks 200 groups 2 "
	      "blocks_per_group 100 inodes_per_group 64 inode_size 128 desc_per_block 1\n"
	      "limits journal_blocks 4 copy_blocks 4\n"
	      "file 12 file depth 1\n"
	      "ext 0 1 10\next 1 1 11\next 2 1 12\next 3 1 13\next 4 1 150\n"
	      "node 0 20 2\nnode 0 22 3\nfree 60 5\n",
	      "plan 1\n");
}

static void test_planner_make__long_fragments_are_good(void **state)
{
	const struct planner_options o = { .mode = PLAN_FILES, .min_extent_blocks = 3 };
	(void)state;
	plans_with(GEO "\n" LIMITS "file 12 file depth 0\next 0 3 10\next 3 3 20\n"
		       "file 13 file depth 0\next 0 3 30\next 3 2 40\nfree 100 30\n",
		   "plan 1\nbatch 0 copy 5 journal 3 rest\nfile 13 last\nmove 0 3 30 100\n"
		   "move 3 2 40 103\n",
		   &o);
}

static void test_planner_make__one_free_block(void **state)
{
	(void)state;
	/* Nothing helps here; but behind a run, one block is something. */
	plans(GEO "\n" LIMITS
		  "file 12 file depth 0\next 0 1 10\next 1 1 20\next 2 1 30\nfree 50 1\n",
	      "plan 1\n");
	plans(GEO "\n" LIMITS
		  "file 12 file depth 0\next 0 1 10\next 1 1 20\next 2 1 30\nfree 21 1\n",
	      "plan 1\nbatch 0 copy 1 journal 3 rest\nfile 12 last\nmove 2 1 30 21\n");
}

static void test_planner_make__random_volumes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10000; seed++) {
		const struct planner_options o = { .mode = PLAN_FILES,
						   .min_extent_blocks = seed % 10 ? 0 : seed % 7 };
		plancheck_run(randomvol_make(seed), &o, seed, NULL);
	}
}

/* Runs more than needed where a run stops that may copy so many blocks. */
static uint64_t excess_within(const struct snapshot *s, const struct plan *p, uint64_t blocks)
{
	struct error err = ERROR_INIT;
	struct summary sum;
	struct state *st;
	struct ideal *id;
	uint64_t copied = 0, least;
	assert_int_equal(state_new(s, &st, &err), 0);
	assert_int_equal(ideal_new(s, &id, &err), 0);
	state_summary(st, id, &sum);
	least = sum.runs - sum.ideal_runs;
	for (size_t i = 0; i < p->n_batch; i++) {
		copied += p->batch[i].copy_blocks;
		if (copied > blocks)
			break;
		assert_int_equal(plan_apply(p, i, NULL, st, &err), 0);
		state_summary(st, id, &sum);
		if (p->batch[i].rest)
			least = sum.runs - sum.ideal_runs;
	}
	ideal_free(id);
	state_free(st);
	return least;
}

/* For the same blocks, at least what the plan that knows no budget gains; and often more. */
static void test_planner_make__budget(void **state)
{
	unsigned better = 0;
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct snapshot *s = randomvol_make(seed);
		struct planner_options o = files;
		struct error err = ERROR_INIT;
		struct plan *p, *q;
		uint64_t plain, with;
		assert_int_equal(planner_make(s, &o, &p, &err), 0);
		o.budget_blocks = plan_copy_blocks(p) / 3 + 1;
		assert_int_equal(planner_make(s, &o, &q, &err), 0);
		if (planner_verify(s, q, 1, &err))
			fail_msg("seed %u: %s", (unsigned)seed, err.text);
		plain = excess_within(s, p, o.budget_blocks);
		with = excess_within(s, q, o.budget_blocks);
		if (with > plain)
			fail_msg("seed %u: it gains less with a budget", (unsigned)seed);
		better += with < plain;
		plan_free(p);
		plan_free(q);
		snapshot_free(s);
	}
	assert_true(better > 50);
}

/* File 12 needs 12 blocks for one run, file 13 needs one. */
static void test_planner_make__budget_takes_the_better_one(void **state)
{
	struct planner_options o = files;
	(void)state;
	o.budget_blocks = 5;
	plans_with(GEO "\n" LIMITS "file 12 file depth 0\next 0 12 10\next 12 12 40\n"
		       "file 13 file depth 0\next 0 6 60\next 6 1 70\nfree 22 12\nfree 66 1\n",
		   "plan 1\nbatch 0 copy 1 journal 3 rest\nfile 13 last\nmove 6 1 70 66\n"
		   "batch 1 copy 12 journal 3 rest\nfile 12 last\nmove 12 12 40 22\n",
		   &o);
}

/*
 * 50 files of 10 blocks, each block somewhere else, and 10 single free blocks: all become whole,
 * and a run may stop at any time.
 */
static void test_planner_make__hardly_any_free_blocks(void **state)
{
	char text[32768];
	int n = snprintf(text, sizeof(text), "%s\n" LIMITS, GEO);
	unsigned at = 0;
	struct snapshot *s;
	struct error err = ERROR_INIT;
	struct plan *p;
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		n += snprintf(text + n, sizeof(text) - (size_t)n, "file %u file depth 1\n", 12 + i);
		for (unsigned k = 0; k < 10; k++) {
			at = (at + 37) % 510;
			if (at % 51 == 0)
				at = (at + 37) % 510;
			n += snprintf(text + n, sizeof(text) - (size_t)n, "ext %u 1 %u\n", k,
				      20 + at);
		}
		n += snprintf(text + n, sizeof(text) - (size_t)n, "node 0 %u 10\n", 650 + 2 * i);
	}
	for (unsigned i = 0; i < 10; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "free %u 1\n", 20 + 51 * i);
	if (snapshot_parse(text, &s, &err) || planner_make(s, &files, &p, &err) ||
	    planner_verify(s, p, 1, &err))
		fail_msg("%s", err.text);
	assert_int_equal(p->predicted.frag_files, 0);
	for (size_t i = 0; i < p->n_batch; i++)
		assert_true(p->batch[i].rest);
	plan_free(p);
	snapshot_free(s);
}

/* A row: files of up to `runs` runs of up to `len` blocks, one behind the other in random order,
 * with `gaps` free runs of up to `gap` blocks among them. */
struct nearly_full {
	unsigned files, runs, len, gaps, gap, seed;
	uint64_t frag_files; /* at most so many are left */
};

struct scattered {
	unsigned file, lblk, len, pblk;
};

static unsigned random_below(uint64_t *x, unsigned n)
{
	*x = *x * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(*x >> 33) % n;
}

/* Those of one file follow each other; the last `gaps` are free. Returns the end of the last. */
static unsigned scatter(const struct nearly_full *v, struct scattered *part, size_t *n_part)
{
	uint64_t x = v->seed;
	unsigned at = 20, *order;
	size_t n = 0;
	for (unsigned f = 0; f < v->files; f++) {
		unsigned runs = 1 + random_below(&x, v->runs), lblk = 0;
		for (unsigned i = 0; i < runs; i++, lblk += part[n++].len)
			part[n] = (struct scattered){ f, lblk, 1 + random_below(&x, v->len), 0 };
	}
	for (unsigned i = 0; i < v->gaps; i++)
		part[n++] = (struct scattered){ v->files, 0, 1 + random_below(&x, v->gap), 0 };
	order = calloc(n, sizeof(*order));
	assert_non_null(order);
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = (unsigned)n - 1; i > 0; i--) {
		unsigned j = random_below(&x, i + 1), k = order[i];
		order[i] = order[j];
		order[j] = k;
	}
	for (size_t i = 0; i < n; i++) {
		part[order[i]].pblk = at;
		at += part[order[i]].len;
	}
	free(order);
	*n_part = n;
	return at;
}

static int by_place(const void *a, const void *b)
{
	const struct scattered *x = a, *y = b;
	return (x->pblk > y->pblk) - (x->pblk < y->pblk);
}

static struct snapshot *nearly_full(const struct nearly_full *v)
{
	struct scattered *part = calloc(v->files * v->runs + v->gaps, sizeof(*part));
	struct error err = ERROR_INIT;
	struct snapshot *s;
	unsigned end, last = v->files;
	size_t n, size;
	char *text;
	FILE *f = open_memstream(&text, &size);
	assert_true(part && f);
	end = scatter(v, part, &n);
	qsort(part + n - v->gaps, v->gaps, sizeof(*part), by_place);
	fprintf(f,
		"geometry block_size 1024 first_data_block 1 blocks %u groups 1 blocks_per_group "
		"8192 inodes_per_group 1024 inode_size 128 desc_per_block 32\n"
		"limits journal_blocks 300 copy_blocks 1000\n",
		end);
	for (size_t i = 0; i < n; last = part[i++].file) {
		struct scattered p = part[i];
		if (p.file != last && p.file < v->files)
			fprintf(f, "file %u file depth 0\n", 12 + p.file);
		while (i + 1 < n && part[i + 1].file == p.file &&
		       part[i + 1].pblk == p.pblk + p.len)
			p.len += part[++i].len;
		if (p.file < v->files)
			fprintf(f, "ext %u %u %u\n", p.lblk, p.len, p.pblk);
		else
			fprintf(f, "free %u %u\n", p.pblk, p.len);
	}
	assert_int_equal(fclose(f), 0);
	if (snapshot_parse(text, &s, &err))
		fail_msg("%s", err.text);
	free(text);
	free(part);
	return s;
}

/* Where a few blocks in a thousand are free, room for a file is made by what lies in its way going
 * to gaps that it fits, run by run (evict.c): without that, each of these keeps two thirds of its
 * files fragmented. */
static void test_planner_make__evicts_run_by_run(void **state)
{
	static const struct nearly_full rows[] = {
		{ 400, 3, 5, 6, 4, 3, 0 },   /* 17 of 2,464 blocks are free */
		{ 600, 3, 5, 4, 4, 3, 350 }, /* 10 of 3,661 */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct snapshot *s = nearly_full(&rows[i]);
		struct error err = ERROR_INIT;
		struct plan *p;
		if (planner_make(s, &files, &p, &err) || planner_verify(s, p, 1, &err))
			fail_msg("row %zu: %s", i, err.text);
		if (p->predicted.frag_files > rows[i].frag_files)
			fail_msg("row %zu: %u files stay fragmented", i,
				 (unsigned)p->predicted.frag_files);
		plan_free(p);
		snapshot_free(s);
	}
}

/* A budget that nothing fits changes nothing; one that is too small for the best takes the next. */
static void test_planner_make__tiny_budgets(void **state)
{
	static const char *const one = GEO "\n" LIMITS "file 12 file depth 0\next 0 12 10\n"
					   "ext 12 12 40\nfree 22 12\n";
	static const char *const whole =
		"plan 1\nbatch 0 copy 12 journal 3 rest\nfile 12 last\nmove 12 12 40 22\n";
	struct planner_options o = files;
	(void)state;
	for (uint64_t budget = 1; budget <= 12; budget += budget == 1 ? 10 : 1) {
		o.budget_blocks = budget;
		plans_with(one, whole, &o);
	}
	o.budget_blocks = 1;
	plans_with(GEO "\n" LIMITS "file 12 file depth 0\next 0 2 10\next 2 2 40\next 4 2 14\n"
		       "file 13 file depth 0\next 0 6 60\next 6 1 70\nfree 12 2\nfree 66 1\n",
		   "plan 1\nbatch 0 copy 1 journal 3 rest\nfile 13 last\nmove 6 1 70 66\n"
		   "batch 1 copy 2 journal 3 rest\nfile 12 last\nmove 2 2 40 12\n",
		   &o);
	/* no gain to be had, at any price */
	plans_with(GEO "\n" LIMITS "file 12 file depth 0\next 0 2 10\next 5 2 12\nfree 20 50\n",
		   "plan 1\n", &o);
	plans_with(GEO "\nlimits journal_blocks 2 copy_blocks 100\n"
		       "file 12 file depth 0\next 0 1 10\next 1 1 20\nfree 100 5\n",
		   "plan 1\n", &o);
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct snapshot *s = randomvol_make(seed);
		struct error err = ERROR_INIT;
		struct plan *p, *q;
		o.budget_blocks = 0;
		assert_int_equal(planner_make(s, &o, &p, &err), 0);
		o.budget_blocks = 1 + seed % 3;
		assert_int_equal(planner_make(s, &o, &q, &err), 0);
		if (planner_verify(s, q, 1, &err))
			fail_msg("seed %u: %s", (unsigned)seed, err.text);
		if (excess_within(s, q, o.budget_blocks) > excess_within(s, p, o.budget_blocks))
			fail_msg("seed %u: it gains less with a budget", (unsigned)seed);
		plan_free(p);
		plan_free(q);
		snapshot_free(s);
	}
}

static void test_planner_make__same_plan_for_any_threads(void **state)
{
	(void)state;
	static const unsigned threads[] = { 2, 3, 16 };
	for (uint64_t seed = 1; seed <= 120; seed++) {
		struct snapshot *s = seed % 5 ? randomvol_make(seed) : randomvol_clusters(seed);
		struct planner_options o = { .mode = (enum plan_mode)(seed % 4),
					     .budget_blocks = seed % 8 == 4 ? 100 : 0 };
		struct error err = ERROR_INIT;
		struct plan *p, *q;
		char *a, *b;
		assert_int_equal(planner_make(s, &o, &p, &err), 0);
		o.threads = threads[seed % 3];
		assert_int_equal(planner_make(s, &o, &q, &err), 0);
		a = plan_text(p);
		b = plan_text(q);
		assert_string_equal(a, b);
		free(a);
		free(b);
		plan_free(p);
		plan_free(q);
		snapshot_free(s);
	}
}

static void test_planner_make__same_plan_twice(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct snapshot *s = randomvol_make(seed), *again = randomvol_make(seed);
		struct error err = ERROR_INIT;
		struct plan *p, *q, *parsed;
		char *a, *b, *c;
		assert_int_equal(planner_make(s, &files, &p, &err), 0);
		assert_int_equal(planner_make(again, &files, &q, &err), 0);
		a = plan_text(p);
		b = plan_text(q);
		assert_string_equal(a, b);
		assert_int_equal(plan_parse(a, &parsed, &err), 0);
		c = plan_text(parsed);
		assert_string_equal(a, c);
		assert_int_equal(planner_verify(s, parsed, 1, &err), 0);
		free(a);
		free(b);
		free(c);
		plan_free(p);
		plan_free(q);
		plan_free(parsed);
		snapshot_free(s);
		snapshot_free(again);
	}
}

/* Says no so often, and then yes. */
static int after_some(void *ctx)
{
	int *left = ctx;
	return (*left)-- <= 0;
}

/* Wherever it is stopped: an error of that kind, no plan, nothing leaked. */
static void test_planner_make__stops(void **state)
{
	static const enum plan_mode modes[] = { PLAN_FILES, PLAN_FREE, PLAN_SHRINK, PLAN_LAYOUT };
	size_t stopped = 0;
	(void)state;
	for (size_t m = 0; m < sizeof(modes) / sizeof(*modes); m++) {
		struct snapshot *s = randomvol_make(7);
		for (int n = 0;; n++) {
			int left = n;
			const struct planner_options o = { .mode = modes[m],
							   .cancel = after_some,
							   .cancel_ctx = &left };
			struct error err = ERROR_INIT;
			struct plan *p = NULL;
			if (!planner_make(s, &o, &p, &err)) {
				plan_free(p);
				break;
			}
			assert_int_equal(err.kind, ERROR_STOPPED);
			assert_null(p);
			stopped++;
		}
		snapshot_free(s);
	}
	assert_true(stopped > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planner_make__nothing_fragmented),
		cmocka_unit_test(test_planner_make__follows_its_largest_run),
		cmocka_unit_test(test_planner_make__precedes_and_follows),
		cmocka_unit_test(test_planner_make__fills_the_gap_between_two_runs),
		cmocka_unit_test(test_planner_make__best_fit),
		cmocka_unit_test(test_planner_make__keeps_alignment),
		cmocka_unit_test(test_planner_make__holes_and_unwritten_blocks),
		cmocka_unit_test(test_planner_make__gathers_neighbours),
		cmocka_unit_test(test_planner_make__spreads_over_the_longest),
		cmocka_unit_test(test_planner_make__uses_freed_blocks_in_the_next_batch),
		cmocka_unit_test(test_planner_make__pieces),
		cmocka_unit_test(test_planner_make__frees_the_tree),
		cmocka_unit_test(test_planner_make__too_small_a_journal),
		cmocka_unit_test(test_planner_make__takes_a_tree_block),
		cmocka_unit_test(test_planner_make__no_free_tree_block),
		cmocka_unit_test(test_planner_make__takes_back_useless_pieces),
		cmocka_unit_test(test_planner_make__long_fragments_are_good),
		cmocka_unit_test(test_planner_make__one_free_block),
		cmocka_unit_test(test_planner_make__budget_takes_the_better_one),
		cmocka_unit_test(test_planner_make__budget),
		cmocka_unit_test(test_planner_make__hardly_any_free_blocks),
		cmocka_unit_test(test_planner_make__evicts_run_by_run),
		cmocka_unit_test(test_planner_make__tiny_budgets),
		cmocka_unit_test(test_planner_make__same_plan_for_any_threads),
		cmocka_unit_test(test_planner_make__same_plan_twice),
		cmocka_unit_test(test_planner_make__random_volumes),
		cmocka_unit_test(test_planner_make__stops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
