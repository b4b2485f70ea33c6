/* SPDX-License-Identifier: GPL-2.0-or-later */
/* snapshot: text form, ideal runs, states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/report.h"
#include "scaledefrag/snapshot.h"
#include <stdlib.h>
#include <string.h>

#define GEO "geometry blocks 10000 inodes_per_group 512\n"

static const char sample[] =
	"# a comment\n"
	"geometry block_size 1024 blocks 10000 inodes_per_group 512 align_blocks 16\n"
	"\n"
	"limits journal_blocks 100 copy_blocks 2000 # another one\n"
	"count movable 2\n"
	"count nothing 7\n"
	"file 12 file depth 0\n"
	"ext 0 10 2000\n"
	"  ext 10 5 2100 u\n"
	"file 13 dir depth 1 grows\n"
	"ext 0 1 3000\n"
	"ext 1 1 3002\n"
	"ext 2 1 3004\n"
	"ext 3 1 3006\n"
	"ext 4 1 3008\n"
	"node 0 3010 5\n"
	"free 4000 100\n"
	"free 5000 1000\n"
	"fixed 0 1000\n"
	"fixed 9000 10\n"
	"avoid 5010 5\n"
	"left 20 boot 3\n"
	"left 21 blockmapped 0\n"
	"front 13\n"
	"order 12";

static struct snapshot *parse(const char *text)
{
	struct snapshot *s = NULL;
	struct error err = ERROR_INIT;

	if (snapshot_parse(text, &s, &err))
		fail_msg("%s", err.text);
	return s;
}

static char *dump(const struct snapshot *s)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	assert_non_null(to);
	assert_int_equal(report_snapshot(to, s), 0);
	fclose(to);
	return text;
}

static void test_snapshot_parse__sample(void **state)
{
	struct snapshot *s = parse(sample);
	const struct snapshot_file *f;

	(void)state;
	assert_int_equal(s->geo.block_size, 1024);
	assert_int_equal(s->geo.first_data_block, 1);
	assert_int_equal(s->geo.blocks_per_group, 8192);
	assert_int_equal(s->geo.groups, 2);
	assert_int_equal(s->limits.copy_blocks, 2000);
	assert_int_equal(s->n_file, 2);
	assert_int_equal(s->count[LEAVE_NOTHING], 7);
	assert_null(snapshot_find(s, 11));
	assert_null(snapshot_find(s, 14));
	f = snapshot_find(s, 13);
	assert_non_null(f);
	assert_int_equal(f->kind, FILE_DIRECTORY);
	assert_int_equal(f->map.tree->node[0][0].pblk, 3010);
	assert_int_equal(s->file[0].map.ext[1].unwritten, 1);
	assert_int_equal(rangeset_blocks(s->free), 1100);
	assert_int_equal(s->left_why[0], LEAVE_BOOT);
	assert_int_equal(s->left_runs[0], 3);
	assert_int_equal(s->n_front, 1);
	assert_int_equal(s->order[0], 1);
	assert_int_equal(s->order[1], 0);
	snapshot_free(s);
}

static void test_snapshot_write__parses_back(void **state)
{
	struct snapshot *a = parse(sample), *b;
	char *first = dump(a), *second;

	(void)state;
	b = parse(first);
	second = dump(b);
	assert_string_equal(first, second);
	free(first);
	free(second);
	snapshot_free(a);
	snapshot_free(b);
}

static void test_snapshot_write__block_mapped(void **state)
{
	struct snapshot *s = parse(GEO "file 12 dir depth 0\next 0 1 5\n"
				       "file 13 file depth 0 indirect\n"
				       "ext 0 14 100\next 269 3 200\n");
	struct filemap copy;
	struct error err = ERROR_INIT;
	char *text = dump(s);

	(void)state;
	assert_false(s->file[0].map.indirect);
	assert_true(s->file[1].map.indirect);
	assert_non_null(
		strstr(text, "file 13 file depth 0 indirect\next 0 14 100\next 269 3 200\n"));
	assert_int_equal(filemap_copy(&s->file[1].map, &copy, &err), 0);
	assert_true(copy.indirect);
	filemap_release(&copy);
	free(text);
	snapshot_free(s);
}

static void test_snapshot_parse__malformed(void **state)
{
	static const char *const bad[] = {
		"",
		"free 1 2\n",
		"geometry\n",
		"geometry blocks 10 blocks_per_group 0\n",
		"geometry blocks 10 block_size 12\n",
		"geometry blocks 10 groups 2\n",
		"geometry blocks 99999999999999999999999\n",
		"geometry blocks 281474976710656 blocks_per_group 1\n",
		"geometry blocks -1\n",
		"geometry blocks 10 colour 3\n",
		GEO GEO,
		GEO "what\n",
		GEO "free\n",
		GEO "free 1\n",
		GEO "free 1 0\n",
		GEO "free 1 2 3\n",
		GEO "free 9999 2\n",
		GEO "free 18446744073709551615 2\n",
		GEO "free 1 0x10\n",
		GEO "free 1 5\nfixed 5 1\n",
		GEO "free 1 5\nfree 5 1\n",
		GEO "ext 0 1 5\n",
		GEO "node 0 1 5\n",
		GEO "file 0 file depth 0\next 0 1 5\n",
		GEO "file 513 file depth 0\next 0 1 5\n",
		GEO "file 12 file depth 0\n",
		GEO "file 12 pipe depth 0\next 0 1 5\n",
		GEO "file 12 file depth 6\next 0 1 5\n",
		GEO "file 12 file depth 0\next 0 1 5 x\n",
		GEO "file 12 file depth 0\next 0 0 5\n",
		GEO "file 12 file depth 0\next 0 32769 5\n",
		GEO "file 12 file depth 0\next 0 32768 5 u\n",
		GEO "file 12 file depth 0\next 4294967296 1 5\n",
		GEO "file 12 file depth 0\next 4294967295 2 5\n",
		GEO "file 12 file depth 0\next 0 2 9999\n",
		GEO "file 12 file depth 0\next 5 1 5\next 4 1 9\n",
		GEO "file 12 file depth 0\next 0 1 5\nnode 0 6 1\n",
		GEO "file 12 file depth 1\next 0 1 5\nnode 0 6 2\n",
		GEO "file 12 file depth 1\next 0 1 5\nnode 1 6 1\n",
		GEO "file 12 file depth 1\next 0 1 5\nnode 0 5 1\n",
		GEO "file 12 file depth 1\next 0 1 5\n",
		GEO "file 12 file depth 0\next 0 1 5\nfile 12 file depth 0\next 0 1 6\n",
		GEO "file 12 file depth 0\next 0 1 5\nfree 5 1\n",
		GEO "file 12 file depth 0 indirekt\next 0 1 5\n",
		GEO "file 12 file depth 1 indirect\next 0 1 5\n",
		GEO "file 12 file depth 1 indirect\next 0 1 5\nnode 0 6 1\n",
		GEO "file 12 file depth 0 indirect\next 0 1 5 u\n",
		GEO "file 12 file depth 0 indirect\next 5 1 5\next 4 1 9\n",
		GEO "file 12 file depth 0 indirect\next 1075842062 2 5\n", /* one too many */
		"geometry blocks 100000\nfile 12 file depth 0 indirect\next 0 8193 5\n",
		GEO "left 12 nosuch 1\n",
		GEO "left 12 boot 1\nleft 12 boot 1\n",
		GEO "count nosuch 1\n",
		GEO "order 12\nfile 12 file depth 0\next 0 1 5\n",
		GEO "file 12 file depth 0\next 0 1 5\norder\n",
		GEO "file 12 file depth 0\next 0 1 5\norder 12 13\n",
		GEO "file 12 file depth 0\next 0 1 5\norder 12\nfront 12\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct snapshot *s = NULL;
		struct error err = ERROR_INIT;

		if (snapshot_parse(bad[i], &s, &err) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_non_null(strstr(err.text, "line "));
		assert_null(s);
	}
}

static void test_snapshot_parse__any_damage(void **state)
{
	uint64_t seed = 88172645463325252ull;
	char text[sizeof(sample)];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct snapshot *s = NULL;
		struct error err = ERROR_INIT;

		memcpy(text, sample, sizeof(text));
		for (int i = 0; i <= round % 4; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			text[(seed >> 20) % (sizeof(text) - 1)] =
				"0123456789 \nu#-x\xff"[(seed >> 50) % 17];
		}
		if (snapshot_parse(text, &s, &err))
			assert_int_equal(err.kind, ERROR_USAGE);
		snapshot_free(s);
	}
}

static void test_ideal_runs__gaps(void **state)
{
	/* Gaps: blocks 1-100, 111-160, 162-999. */
	struct snapshot *s = parse("geometry blocks 1000 first_data_block 1\n"
				   "fixed 0 1\nfixed 101 10\nfixed 161 1\n");
	struct ideal *id;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(ideal_new(s, &id, &err), 0);
	assert_int_equal(ideal_longest_gap(id), 838);
	assert_int_equal(ideal_runs(id, 1), 1);
	assert_int_equal(ideal_runs(id, 838), 1);
	assert_int_equal(ideal_runs(id, 839), 2);
	assert_int_equal(ideal_runs(id, 938), 2);
	assert_int_equal(ideal_runs(id, 939), 3);
	assert_int_equal(ideal_runs(id, 988), 3);
	assert_int_equal(ideal_runs(id, 5000), 3);
	ideal_free(id);
	snapshot_free(s);
}

static void test_ideal_runs__no_gap(void **state)
{
	struct snapshot *s = parse("geometry blocks 1000\nfixed 0 1000\n");
	struct ideal *id;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(ideal_new(s, &id, &err), 0);
	assert_int_equal(ideal_longest_gap(id), 0);
	assert_int_equal(ideal_runs(id, 5), 1);
	ideal_free(id);
	snapshot_free(s);
}

static void test_state__copies_on_change(void **state)
{
	struct snapshot *s = parse(sample);
	struct state *st;
	struct filemap map;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(state_new(s, &st, &err), 0);
	assert_int_equal(rangeset_blocks(st->free), 1095); /* without `avoid` */
	assert_false(rangeset_overlaps(st->free, 5010, 5));
	assert_ptr_equal(state_map(st, 0), &s->file[0].map);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(filemap_copy(state_map(st, 0), &map, &err), 0);
		map.ext[0].pblk = 8000 + i;
		assert_int_equal(state_set_map(st, 0, &map, &err), 0);
		assert_int_equal(state_map(st, 0)->ext[0].pblk, 8000 + i);
		filemap_release(&map);
	}
	assert_int_equal(s->file[0].map.ext[0].pblk, 2000);
	state_free(st);
	snapshot_free(s);
}

static void set_first(struct state *st, uint64_t pblk, bool single)
{
	struct error err = ERROR_INIT;
	struct filemap map;

	assert_int_equal(filemap_copy(state_map(st, 0), &map, &err), 0);
	map.ext[0].pblk = pblk;
	map.n_ext = single ? 1 : map.n_ext;
	assert_int_equal(state_set_map(st, 0, &map, &err), 0);
	assert_null(map.ext);
}

static uint64_t first_of(const struct state *st)
{
	return state_map(st, 0)->ext[0].pblk;
}

/* A clone keeps what it was made of, whichever of the two changes; what is held stays. */
static void test_state_clone__keeps_mappings(void **state)
{
	struct snapshot *s = parse(sample);
	struct state *st, *copy;
	struct error err = ERROR_INIT;

	(void)state;
	for (int single = 0; single < 2; single++) {
		assert_int_equal(state_new(s, &st, &err), 0);
		const struct filemap *was = state_hold(st, 0);

		set_first(st, 8000, single);
		assert_int_equal(state_clone(st, &copy, &err), 0);
		assert_int_equal(rangeset_blocks(copy->free), 1095);
		assert_ptr_equal(state_map(copy, 0), state_map(st, 0));
		set_first(st, 8001, single);
		assert_int_equal(first_of(copy), 8000);
		set_first(copy, 8002, single);
		assert_int_equal(first_of(st), 8001);
		const struct filemap *held = state_hold(st, 0);

		set_first(st, 8003, single);
		assert_int_equal(held->ext[0].pblk, 8001);
		state_set_back(st, 0, held);
		state_let_go(st, 0, held);
		assert_int_equal(first_of(st), 8001);
		state_set_back(st, 0, was);
		state_let_go(st, 0, was);
		assert_ptr_equal(state_map(st, 0), &s->file[0].map);
		state_free(st);
		assert_int_equal(first_of(copy), 8002);
		state_free(copy);
	}
	snapshot_free(s);
}

static void test_state_new__avoid_beyond_free(void **state)
{
	struct snapshot *s = parse(GEO "free 100 10\nfree 120 10\navoid 105 20\navoid 200 5\n");
	struct state *st;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(state_new(s, &st, &err), 0);
	assert_int_equal(rangeset_blocks(st->free), 10);
	assert_true(rangeset_contains(st->free, 100, 5));
	assert_true(rangeset_contains(st->free, 125, 5));
	state_free(st);
	snapshot_free(s);
}

static void test_state_summary__figures(void **state)
{
	struct snapshot *s = parse(sample);
	struct state *st;
	struct ideal *id;
	struct summary sum;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(state_new(s, &st, &err), 0);
	assert_int_equal(ideal_new(s, &id, &err), 0);
	assert_int_equal(state_summary(st, id, &sum), 0);
	assert_int_equal(sum.files, 2);
	assert_int_equal(sum.frag_files, 2);
	assert_int_equal(sum.dirs, 1);
	assert_int_equal(sum.frag_dirs, 1);
	assert_int_equal(sum.runs, 7);
	assert_int_equal(sum.ideal_runs, 2);
	assert_int_equal(sum.blocks, 20);
	assert_int_equal(sum.frag_blocks, 20);
	assert_int_equal(sum.tree_blocks, 1);
	assert_int_equal(sum.free_blocks, 1095);
	assert_int_equal(sum.free_runs, 3);
	assert_int_equal(sum.longest_free, 985);
	ideal_free(id);
	state_free(st);
	snapshot_free(s);
}

static void test_snapshot_set_order__unknown_repeated_and_missing(void **state)
{
	static const uint32_t inos[] = { 14, 99, 14, 12, 13, 12 };
	struct snapshot *s = parse(GEO "file 11 file depth 0\next 0 1 1\nfile 12 file depth 0\n"
				       "ext 0 1 2\nfile 13 file depth 0\next 0 1 3\n"
				       "file 14 file depth 0\next 0 1 4\n");
	struct error err = ERROR_INIT;

	(void)state;
	assert_null(s->order);
	assert_int_equal(snapshot_set_order(s, inos, 6, 4, &err), 0);
	assert_int_equal(s->n_front, 2);
	assert_int_equal(s->order[0], 3);
	assert_int_equal(s->order[1], 1);
	assert_int_equal(s->order[2], 2);
	assert_int_equal(s->order[3], 0);
	snapshot_free(s);
}

static void check_reading(const char *text, uint64_t blocks, uint64_t sequential, uint64_t requests)
{
	struct snapshot *s = parse(text);
	struct state *st;
	struct reading r;
	struct error err = ERROR_INIT;

	assert_int_equal(state_new(s, &st, &err), 0);
	state_reading(st, &r);
	assert_int_equal(r.blocks, blocks);
	assert_int_equal(r.sequential, sequential);
	assert_int_equal(r.requests, requests);
	state_free(st);
	snapshot_free(s);
}

static void test_state_reading__stretches(void **state)
{
#define TWO GEO "file 12 file depth 0\next 0 10 100\nfile 13 file depth 0\next 5 10 110\n"
	(void)state;
	check_reading(TWO, 0, 0, 0);
	check_reading(TWO "order 12\norder 13\n", 20, 19, 2);
	check_reading(TWO "order 13\norder 12\n", 20, 18, 2);
#undef TWO
	/* The hole doesn't count, and what is unwritten isn't read. */
	check_reading(GEO "file 12 file depth 0\next 0 3 100\next 9 4 103\next 13 5 107 u\n"
			  "ext 18 6 112\norder 12\n",
		      13, 11, 2);
	/* The tree block first, and it is right before the data. */
	check_reading(GEO "file 12 file depth 1\nnode 0 99 5\next 0 1 100\next 1 1 101\n"
			  "ext 2 1 103\next 3 1 105\next 4 1 107\norder 12\n",
		      6, 2, 5);
}

static void test_reading_score__no_pairs(void **state)
{
	(void)state;
	assert_true(reading_score(&(struct reading){ 0 }) == 1);
	assert_true(reading_score(&(struct reading){ 1, 0, 1 }) == 1);
	assert_true(reading_score(&(struct reading){ 3, 1, 2 }) == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_parse__sample),
		cmocka_unit_test(test_snapshot_write__parses_back),
		cmocka_unit_test(test_snapshot_write__block_mapped),
		cmocka_unit_test(test_snapshot_set_order__unknown_repeated_and_missing),
		cmocka_unit_test(test_state_reading__stretches),
		cmocka_unit_test(test_reading_score__no_pairs),
		cmocka_unit_test(test_snapshot_parse__malformed),
		cmocka_unit_test(test_snapshot_parse__any_damage),
		cmocka_unit_test(test_ideal_runs__gaps),
		cmocka_unit_test(test_ideal_runs__no_gap),
		cmocka_unit_test(test_state__copies_on_change),
		cmocka_unit_test(test_state_clone__keeps_mappings),
		cmocka_unit_test(test_state_new__avoid_beyond_free),
		cmocka_unit_test(test_state_summary__figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
