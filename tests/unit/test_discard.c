/* SPDX-License-Identifier: GPL-2.0-or-later */
/* discard: which bytes are given back. The step as a whole: tests/crash, tests/e2e/65-discard.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/discard.c"
#include <stdlib.h>
#include <string.h>

/* Of engine.c, batches.c and commit/, which are not linked here. */
void run_phase(struct run *run, enum report_phase phase)
{
	(void)run;
	(void)phase;
}

void run_tell(struct run *run, uint64_t done, uint64_t total)
{
	(void)run;
	(void)done;
	(void)total;
}

int commit_claim(struct commit *c, struct error *err)
{
	(void)c;
	(void)err;
	return 0;
}

uint64_t run_batch_bytes(const struct run *run, size_t from, size_t to)
{
	(void)run;
	(void)from;
	(void)to;
	return 0;
}

/* "3+4 10+1": start and length of each range */
static struct rangeset *set(const char *text)
{
	struct rangeset *rs;
	struct error err;
	unsigned start, len;
	int n;

	assert_int_equal(rangeset_new(&rs, &err), 0);
	for (; sscanf(text, " %u+%u%n", &start, &len, &n) == 2; text += n)
		assert_int_equal(rangeset_add(rs, start, len, &err), 0);
	return rs;
}

static int note(void *ctx, const struct piece *p, struct error *err)
{
	char *out = ctx;

	(void)err;
	sprintf(out + strlen(out), " %llu+%llu", (unsigned long long)p->offset,
		(unsigned long long)p->len);
	if (p->used != p->len)
		sprintf(out + strlen(out), "(%llu)", (unsigned long long)p->used);
	return 0;
}

struct wish {
	const char *disk, *state, *only; /* blocks of 10 bytes; only: NULL for all */
	uint64_t unit, first;
	const char *want; /* bytes */
};

static void check(const struct wish *w)
{
	struct rangeset *disk = set(w->disk), *state = set(w->state);
	struct rangeset *only = w->only ? set(w->only) : NULL;
	struct space s = { .disk = disk,
			   .state = state,
			   .only = only,
			   .block_size = 10,
			   .unit = w->unit,
			   .first = w->first };
	char got[512] = "";
	struct error err;

	assert_int_equal(space_each(&s, note, got, &err), 0);
	assert_string_equal(*got ? got + 1 : got, w->want);
	rangeset_free(disk);
	rangeset_free(state);
	rangeset_free(only);
}

static void test_space_each__free_in_both(void **state)
{
	static const struct wish wishes[] = {
		{ "0+10", "0+10", NULL, 10, 0, "0+100" },
		{ "0+10", "", NULL, 10, 0, "" },
		{ "", "0+10", NULL, 10, 0, "" },
		{ "0+10", "3+2 7+9", NULL, 10, 0, "30+20 70+30" },
		{ "3+2 7+9", "0+10", NULL, 10, 0, "30+20 70+30" },
		{ "0+2 5+1 8+4", "1+5 9+1 11+5", NULL, 10, 0, "10+10 50+10 90+10 110+10" },
		{ "1+2", "3+4", NULL, 10, 0, "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		check(&wishes[i]);
}

static void test_space_each__whole_units(void **state)
{
	static const struct wish wishes[] = {
		{ "0+10", "0+10", NULL, 40, 0, "0+80" },
		{ "1+10", "1+10", NULL, 40, 0, "40+40" },
		{ "0+10", "0+10", NULL, 40, 20, "20+80" },
		{ "0+1", "0+1", NULL, 40, 20, "" }, /* before the first unit */
		{ "0+9", "0+9", NULL, 40, 30, "30+40" },
		{ "1+3 5+3", "0+9", NULL, 40, 0, "" },
		{ "0+9", "0+9", NULL, 25, 5, "5+75" }, /* units not of whole blocks */
		{ "0+9", "0+9", NULL, 1000, 0, "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		check(&wishes[i]);
}

static void test_space_each__what_was_freed(void **state)
{
	static const struct wish wishes[] = {
		{ "0+20", "0+20", "", 10, 0, "" },
		/* one piece of each free run: what is between is free as well */
		{ "0+20", "0+20", "3+2 9+1", 10, 0, "30+70(30)" },
		{ "0+8 9+9", "0+20", "3+2 7+1 9+1", 10, 0, "30+50(30) 90+10" },
		{ "0+20", "0+20", "3+2 9+1", 40, 0, "0+120" }, /* units that hold some of it */
		{ "0+20", "0+20", "3+1 12+1", 40, 0, "0+160(80)" },
		{ "2+18", "0+20", "3+1 12+1", 40, 0, "120+40" }, /* the first is not wholly free */
		{ "0+3 5+10", "0+20", "1+10", 10, 0, "10+20 50+60" },
		{ "5+2", "0+20", "0+20", 10, 0, "50+20" },
		{ "0+20", "0+20", "0+1", 40, 20, "" }, /* before the first unit */
		{ "0+20", "0+20", "0+3", 40, 20, "20+40" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		check(&wishes[i]);
}

static void test_cover__overlaps(void **state)
{
	struct rangeset *rs = set("3+2 8+2");
	struct error err;
	struct range r;

	(void)state;
	assert_int_equal(cover(rs, 0, 4, &err), 0);
	assert_int_equal(cover(rs, 4, 1, &err), 0);
	assert_int_equal(rangeset_blocks(rs), 7);
	assert_int_equal(cover(rs, 2, 20, &err), 0);
	assert_int_equal(rangeset_count(rs), 1);
	assert_true(rangeset_next(rs, 0, &r));
	assert_int_equal(r.start, 0);
	assert_int_equal(r.len, 22);
	rangeset_free(rs);
}

static void test_uncover__what_is_there(void **state)
{
	struct rangeset *rs = set("3+2 8+4 20+1");
	struct error err;

	(void)state;
	assert_int_equal(uncover(rs, 0, 3, &err), 0);
	assert_int_equal(rangeset_blocks(rs), 7);
	assert_int_equal(uncover(rs, 4, 6, &err), 0);
	assert_int_equal(rangeset_blocks(rs), 4);
	assert_true(rangeset_contains(rs, 3, 1) && rangeset_contains(rs, 10, 2) &&
		    rangeset_contains(rs, 20, 1));
	rangeset_free(rs);
}

static void test_cover_batch__data_and_tree_blocks(void **state)
{
	struct move moves[] = { { .from = 10, .to = 50, .len = 3 },
				{ .from = 20, .to = 53, .len = 2 } };
	uint64_t nodes[] = { 30, 60 };
	struct plan_file file = {
		.n_move = 2, .first_freed = 0, .n_freed = 1, .first_taken = 1, .n_taken = 1
	};
	struct plan_batch batch = { .n_file = 1 };
	struct plan p = { .batch = &batch, .file = &file, .move = moves, .node = nodes };
	struct rangeset *rs = set("");
	struct error err;

	(void)state;
	assert_int_equal(cover_batch(rs, &p, 0, &err), 0);
	assert_int_equal(rangeset_blocks(rs), 12);
	assert_true(rangeset_contains(rs, 10, 3) && rangeset_contains(rs, 20, 2) &&
		    rangeset_contains(rs, 50, 5) && rangeset_contains(rs, 30, 1) &&
		    rangeset_contains(rs, 60, 1));
	rangeset_free(rs);
}

/* Targets of the batch that is next, of which what is moved as unwritten isn't written. */
static struct move next_moves[] = {
	{ .from = 10, .to = 50, .len = 3 },
	{ .from = 20, .to = 60, .len = 2, .unwritten = 1 },
	{ .from = 22, .to = 70, .len = 4 },
};
static struct plan_file next_files[] = {
	{ .first_move = 0, .n_move = 0 }, /* of the batch before */
	{ .first_move = 0, .n_move = 2 },
	{ .first_move = 2, .n_move = 1 },
};
static struct plan_batch next_batches[] = {
	{ .first_file = 0, .n_file = 1 },
	{ .first_file = 1, .n_file = 2 },
};
static const struct plan next_plan = {
	.batch = next_batches, .n_batch = 2, .file = next_files, .move = next_moves
};

/* What holes are made of, in blocks, before the second batch. */
static void holes_are(const char *on_disk, const char *state, const char *written, bool unwritten,
		      const char *want, uint64_t again)
{
	struct run run = { .p = &next_plan,
			   .n_done = 1,
			   .block_size = 10,
			   .unwritten = unwritten,
			   .written = set(written) };
	struct rangeset *disk = set(on_disk), *own = set(state);
	struct space s = {
		.disk = disk, .state = own, .only = run.written, .block_size = 10, .unit = 10
	};
	char got[512] = "";
	struct error err;
	uint64_t told;

	assert_int_equal(spare_next(&run, disk, &told, &err), 0);
	assert_int_equal(space_each(&s, note, got, &err), 0);
	assert_string_equal(*got ? got + 1 : got, want);
	assert_int_equal(told, again);
	rangeset_free(disk);
	rangeset_free(own);
	rangeset_free(run.written);
}

static void test_spare_next__targets_get_no_holes(void **state)
{
	(void)state;
	/* nothing of the next batch's targets, though it lies between what was freed */
	holes_are("40+40", "40+40", "45+30", false, "450+50 530+170 740+10", 70);
	/* allocated already are those that this run has written */
	holes_are("40+40", "40+40", "48+3 72+1", false, "480+20", 20);
	holes_are("40+40", "40+40", "40+3", false, "400+30", 0);
	holes_are("50+3 70+4", "40+40", "40+40", false, "", 70);
	/* a target that is not free on the disk, or not in the state */
	holes_are("40+11 75+5", "40+40", "40+40", false, "400+100 750+50", 70);
	holes_are("40+40", "40+11 75+5", "40+40", false, "400+100 750+50", 70);
	/* where what was written may be holes already, it can't be told what is: all goes */
	holes_are("40+40", "40+40", "45+30", true, "450+300", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_each__free_in_both),
		cmocka_unit_test(test_space_each__whole_units),
		cmocka_unit_test(test_space_each__what_was_freed),
		cmocka_unit_test(test_cover__overlaps),
		cmocka_unit_test(test_uncover__what_is_there),
		cmocka_unit_test(test_cover_batch__data_and_tree_blocks),
		cmocka_unit_test(test_spare_next__targets_get_no_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
