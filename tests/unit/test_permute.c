/* SPDX-License-Identifier: GPL-2.0-or-later */
/* permute: what is wanted gets to its place, by a plan that verify proves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/plan/plan_internal.h"
#include "scaledefrag/report.h"
#include "support/randomvol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEO                                                                                        \
	"geometry block_size 1024 first_data_block 1 blocks 100 groups 1 blocks_per_group 8192 "   \
	"inodes_per_group 64 inode_size 128 desc_per_block 32\n"                                   \
	"limits journal_blocks 100 copy_blocks 1000\n"

struct bench {
	struct snapshot *s;
	struct state *st;
	struct plan *p;
	struct schedule sc;
};

static void must(int rc, const struct error *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

static void begin(struct bench *b, struct snapshot *s)
{
	struct error err = ERROR_INIT;
	b->s = s;
	must(state_new(s, &b->st, &err), &err);
	must(plan_new(&b->p, &err), &err);
	must(schedule_init(&b->sc, b->st, b->p, &err), &err);
}

static void end(struct bench *b)
{
	schedule_release(&b->sc);
	state_free(b->st);
	plan_free(b->p);
	snapshot_free(b->s);
}

/* The plan alone, without the prediction. */
static char *text_of(const struct plan *p)
{
	char *text = NULL, *end_of_plan;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	assert_non_null(f);
	assert_int_equal(report_plan(f, p), 0);
	fclose(f);
	end_of_plan = strstr(text, "predicted");
	assert_non_null(end_of_plan);
	*end_of_plan = 0;
	return text;
}

static void gives(const char *snapshot, const struct want *w, size_t n, bool whole,
		  const char *want)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct bench b;
	bool done;
	char *text;
	must(snapshot_parse(snapshot, &s, &err), &err);
	begin(&b, s);
	must(permute(&b.sc, w, n, &done, &err), &err);
	assert_int_equal(done, whole);
	text = text_of(b.p);
	assert_string_equal(text, want);
	free(text);
	end(&b);
}

/* Each takes the place of the one before it; the last one goes to free space. */
static void test_permute__chain(void **state)
{
	const struct want w[] = { { 0, 0, 5, 20 }, { 1, 0, 5, 30 }, { 2, 0, 5, 50 } };
	(void)state;
	gives(GEO "file 12 file depth 0\next 0 5 10\nfile 13 file depth 0\next 0 5 20\n"
		  "file 14 file depth 0\next 0 5 30\nfree 50 5\n",
	      w, 3, true,
	      "plan 1\nbatch 0 copy 5 journal 3 rest\nfile 14 last\nmove 0 5 30 50\n"
	      "batch 1 copy 5 journal 3 rest\nfile 13 last\nmove 0 5 20 30\n"
	      "batch 2 copy 5 journal 3 rest\nfile 12 last\nmove 0 5 10 20\n");
}

/* Two change places: one of them bounces. */
static void test_permute__cycle(void **state)
{
	const struct want w[] = { { 0, 0, 5, 20 }, { 1, 0, 5, 10 } };
	(void)state;
	gives(GEO "file 12 file depth 0\next 0 5 10\nfile 13 file depth 0\next 0 5 20\n"
		  "free 50 5\n",
	      w, 2, true,
	      "plan 1\nbatch 0 copy 5 journal 3 rest\nfile 12 last\nmove 0 5 10 50\n"
	      "batch 1 copy 5 journal 3 rest\nfile 13 last\nmove 0 5 20 10\n"
	      "batch 2 copy 5 journal 3 rest\nfile 12 last\nmove 0 5 50 20\n");
}

static void test_permute__cycle_through_one_free_block(void **state)
{
	const struct want w[] = { { 0, 0, 2, 20 }, { 1, 0, 2, 10 } };
	(void)state;
	gives(GEO "file 12 file depth 0\next 0 2 10\nfile 13 file depth 0\next 0 2 20\n"
		  "free 50 1\n",
	      w, 2, true,
	      "plan 1\nbatch 0 copy 1 journal 3\nfile 12 last\nmove 0 1 10 50\n"
	      "batch 1 copy 1 journal 3\nfile 13 last\nmove 0 1 20 10\n"
	      "batch 2 copy 1 journal 3\nfile 12 last\nmove 0 1 50 20\n"
	      "batch 3 copy 1 journal 3\nfile 12 last\nmove 1 1 11 50\n"
	      "batch 4 copy 1 journal 3\nfile 13 last\nmove 1 1 21 11\n"
	      "batch 5 copy 1 journal 3 rest\nfile 12 last\nmove 1 1 50 21\n");
}

/* A file goes down by one block, with no other free one. */
static void test_permute__slide(void **state)
{
	const struct want w[] = { { 0, 0, 3, 10 } };
	(void)state;
	gives(GEO "file 12 file depth 0\next 0 3 11\nfree 10 1\n", w, 1, true,
	      "plan 1\nbatch 0 copy 1 journal 3\nfile 12 last\nmove 0 1 11 10\n"
	      "batch 1 copy 1 journal 3\nfile 12 last\nmove 1 1 12 11\n"
	      "batch 2 copy 1 journal 3 rest\nfile 12 last\nmove 2 1 13 12\n");
}

/* The place of a leaf is wanted; it is given up when the file is in the inode again. */
static void test_permute__through_a_tree_block(void **state)
{
	const struct want w[] = { { 0, 0, 5, 50 }, { 1, 0, 3, 70 } };
	(void)state;
	gives(GEO "file 12 file depth 1\next 0 1 10\next 1 1 20\next 2 1 30\next 3 1 40\n"
		  "ext 4 1 45\nnode 0 71 5\n"
		  "file 13 file depth 0\next 0 1 80\next 1 1 84\next 2 1 88\n"
		  "free 50 5\nfree 70 1\nfree 72 1\n",
	      w, 2, true,
	      "plan 1\nbatch 0 copy 7 journal 3 rest\nfile 12 last\nmove 0 1 10 50\n"
	      "move 1 1 20 51\nmove 2 1 30 52\nmove 3 1 40 53\nmove 4 1 45 54\nfree 71\n"
	      "file 13 last\nmove 0 1 80 70\nmove 2 1 88 72\n"
	      "batch 1 copy 1 journal 3 rest\nfile 13 last\nmove 1 1 84 71\n");
}

static void test_permute__no_way(void **state)
{
	const struct want w[] = { { 0, 0, 5, 20 }, { 1, 0, 5, 10 } };
	(void)state;
	gives(GEO "file 12 file depth 0\next 0 5 10\nfile 13 file depth 0\next 0 5 20\n", w, 2,
	      false, "plan 1\n");
}

/* ---- random volumes ---- */

static uint32_t pick(uint64_t *seed, uint32_t below)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 33) % below;
}

/* Makes the blocks of some files free, and gives them places anywhere. */
static size_t random_wants(const struct state *st, uint64_t *seed, struct want *w, bool *all)
{
	const struct snapshot *s = st->snap;
	struct error err = ERROR_INIT;
	struct rangeset *room;
	uint32_t percent = pick(seed, 101);
	size_t n = 0;
	must(rangeset_clone(st->free, &room, &err), &err);
	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *m = &s->file[i].map;
		uint64_t lblk = 0;
		bool flat = filemap_runs(m->ext, m->n_ext) > 1;
		if (pick(seed, 100) >= percent)
			continue;
		for (size_t k = 0; k < m->n_ext; k++) {
			must(rangeset_add(room, m->ext[k].pblk, m->ext[k].len, &err), &err);
			flat &= m->ext[k].lblk == lblk && !m->ext[k].unwritten;
			lblk += m->ext[k].len;
		}
		for (uint32_t l = 0; flat && l < m->depth; l++) {
			for (size_t k = 0; k < m->tree->n_node[l]; k++)
				must(rangeset_add(room, m->tree->node[l][k].pblk, 1, &err), &err);
		}
		w[n++] = (struct want){ .file = i, .len = filemap_blocks(m->ext, m->n_ext) };
	}
	*all = true;
	for (size_t i = n; i-- > 0 && *all;) {
		size_t k = pick(seed, (uint32_t)i + 1);
		struct want v = w[k];
		struct range r;
		w[k] = w[i];
		*all = rangeset_best_fit(room, v.len, pick(seed, 1200), &r);
		v.to = r.start;
		w[i] = v;
		if (*all)
			must(rangeset_remove(room, r.start, v.len, &err), &err);
	}
	rangeset_free(room);
	return n;
}

static void test_permute__random_volumes(void **state)
{
	size_t tried = 0, whole = 0;
	uint64_t moved = 0, copied = 0;
	(void)state;
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct snapshot *s = randomvol_make(seed);
		struct want *w = calloc(s->n_file + 1, sizeof(*w));
		struct error err = ERROR_INIT;
		uint64_t dice = seed;
		struct ideal *id;
		struct bench b;
		bool all, done = false;
		size_t n;
		begin(&b, s);
		s->limits.journal_blocks = 1000;
		n = random_wants(b.st, &dice, w, &all);
		if (all && permute(&b.sc, w, n, &done, &err))
			fail_msg("seed %u: %s", (unsigned)seed, err.text);
		tried += all;
		whole += done;
		if (done) {
			must(ideal_new(s, &id, &err), &err);
			state_summary(b.st, id, &b.p->predicted);
			if (planner_verify(s, b.p, 1, &err))
				fail_msg("seed %u: %s", (unsigned)seed, err.text);
			ideal_free(id);
		}
		for (size_t i = 0; i < n && done; i++) {
			const struct filemap *m = state_map(b.st, w[i].file);
			const struct filemap *was = &s->file[w[i].file].map;
			assert_int_equal(m->ext[0].pblk, w[i].to);
			assert_int_equal(filemap_runs(m->ext, m->n_ext), 1);
			if (filemap_runs(was->ext, was->n_ext) > 1 || was->ext[0].pblk != w[i].to)
				moved += w[i].len;
		}
		copied += done ? plan_copy_blocks(b.p) : 0;
		free(w);
		end(&b);
	}
	print_message("%zu of %zu, %llu blocks for %llu\n", whole, tried,
		      (unsigned long long)copied, (unsigned long long)moved);
	assert_true(whole > tried * 98 / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permute__chain),
		cmocka_unit_test(test_permute__cycle),
		cmocka_unit_test(test_permute__cycle_through_one_free_block),
		cmocka_unit_test(test_permute__slide),
		cmocka_unit_test(test_permute__through_a_tree_block),
		cmocka_unit_test(test_permute__no_way),
		cmocka_unit_test(test_permute__random_volumes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
