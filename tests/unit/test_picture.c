/* SPDX-License-Identifier: GPL-2.0-or-later */
/* picture: counts, looks, flow, sizes; and the drawings made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/report.h"
#include <stdlib.h>
#include <string.h>

static struct error err;

/* Blocks 0-9 fixed, file 12 in two runs with a tree block, file 13 in one, the rest free. */
struct world {
	struct extent two[2], one[1];
	struct tree_node node;
	struct filemap_tree tree;
	struct snapshot_file file[2];
	struct snapshot s;
	struct state *st;
	struct ideal *id;
};

static void setup(struct world *w, uint64_t blocks)
{
	memset(w, 0, sizeof(*w));
	w->two[0] = (struct extent){ .pblk = 10, .lblk = 0, .len = 10 };
	w->two[1] = (struct extent){ .pblk = 30, .lblk = 10, .len = 10 };
	w->one[0] = (struct extent){ .pblk = 20, .lblk = 0, .len = 10 };
	w->node = (struct tree_node){ .pblk = 40, .count = 2 };
	w->file[0] = (struct snapshot_file){ .ino = 12,
					     .map = { .ext = w->two, .n_ext = 2, .depth = 1 } };
	w->tree = (struct filemap_tree){ .node = { &w->node }, .n_node = { 1 } };
	w->file[0].map.tree = &w->tree;
	w->file[1] = (struct snapshot_file){ .ino = 13, .map = { .ext = w->one, .n_ext = 1 } };
	w->s = (struct snapshot){ .geo = { .block_size = 4096,
					   .blocks = blocks,
					   .groups = 1,
					   .blocks_per_group = 32768,
					   .flex_size = 1 },
				  .file = w->file,
				  .n_file = 2 };
	assert_int_equal(rangeset_new(&w->s.free, &err), 0);
	assert_int_equal(rangeset_new(&w->s.fixed, &err), 0);
	assert_int_equal(rangeset_new(&w->s.avoid, &err), 0);
	assert_int_equal(rangeset_add(w->s.fixed, 0, 10, &err), 0);
	assert_int_equal(rangeset_add(w->s.free, 41, blocks - 41, &err), 0);
	assert_int_equal(state_new(&w->s, &w->st, &err), 0);
	assert_int_equal(ideal_new(&w->s, &w->id, &err), 0);
}

static void teardown(struct world *w)
{
	ideal_free(w->id);
	state_free(w->st);
	rangeset_free(w->s.free);
	rangeset_free(w->s.fixed);
	rangeset_free(w->s.avoid);
}

static struct picture *picture(const struct world *w)
{
	struct picture *p;

	assert_int_equal(picture_new(w->st, w->id, &p, &err), 0);
	return p;
}

/* File 12 whole, at block 50. */
static void move_it(struct world *w)
{
	struct filemap map = { 0 };

	map.ext = calloc(1, sizeof(*map.ext));
	assert_non_null(map.ext);
	map.ext[0] = (struct extent){ .pblk = 50, .len = 20 };
	map.n_ext = 1;
	assert_int_equal(state_set_map(w->st, 0, &map, &err), 0);
	assert_int_equal(rangeset_remove(w->st->free, 50, 20, &err), 0);
	assert_int_equal(rangeset_add(w->st->free, 10, 10, &err), 0);
	assert_int_equal(rangeset_add(w->st->free, 30, 11, &err), 0);
}

static void test_picture_new__every_block_is_in_one_class(void **state)
{
	struct world w;
	struct picture *p;
	uint64_t sum[CELL_CLASSES] = { 0 };

	(void)state;
	setup(&w, 100);
	p = picture(&w);
	assert_int_equal(p->cell_blocks, 1);
	assert_int_equal(p->n_cells, 100);
	for (uint32_t c = 0; c < p->n_cells; c++)
		for (int k = 0; k < CELL_CLASSES; k++)
			sum[k] += p->count[c][k];
	assert_int_equal(sum[CELL_FIXED], 10);
	assert_int_equal(sum[CELL_FRAGMENTED], 21);
	assert_int_equal(sum[CELL_WHOLE], 10);
	assert_int_equal(sum[CELL_FREE], 59);
	assert_int_equal(picture_look(p, 0, 1), LOOK_FIXED);
	assert_int_equal(picture_look(p, 15, 1), LOOK_FRAGMENTED);
	assert_int_equal(picture_look(p, 25, 1), LOOK_WHOLE);
	assert_int_equal(picture_look(p, 99, 1), LOOK_FREE);
	assert_int_equal(picture_look(p, 20, 15), LOOK_FRAGMENTED); /* a third of it */
	assert_int_equal(picture_look(p, 40, 10), LOOK_FREE);	    /* but one block */
	free(p);
	teardown(&w);
}

static void test_picture_new__size_does_not_depend_on_the_volume(void **state)
{
	struct world w;
	struct picture *p;
	uint64_t all = 0;

	(void)state;
	setup(&w, (1ull << 48) - 1);
	p = picture(&w);
	assert_in_range(p->n_cells, 1, PICTURE_CELLS);
	for (uint32_t c = 0; c < p->n_cells; c++)
		for (int k = 0; k < CELL_CLASSES; k++)
			all += p->count[c][k];
	assert_true(all == (1ull << 48) - 1);
	assert_int_equal(picture_look(p, 0, 1), LOOK_FREE);
	free(p);
	teardown(&w);
}

static void test_picture_new__flow_is_what_moved(void **state)
{
	struct world w;
	struct picture *p;
	uint64_t all = 0;

	(void)state;
	setup(&w, 128);
	move_it(&w);
	p = picture(&w);
	assert_int_equal(p->band_blocks, 3);
	for (unsigned a = 0; a < PICTURE_BANDS; a++)
		for (unsigned b = 0; b < PICTURE_BANDS; b++)
			all += p->flow[a][b];
	assert_int_equal(all, 20);
	/* blocks 10, 11 went to 50, 51: bands 3 -> 16 and 17 */
	assert_int_equal(p->flow[3][16], 1);
	assert_int_equal(p->flow[3][17], 1);
	assert_int_equal(picture_look(p, 55, 1), LOOK_WHOLE);
	free(p);
	teardown(&w);
}

static void test_picture_free_sizes__powers_of_two(void **state)
{
	struct rangeset *rs;
	struct free_sizes f;

	(void)state;
	assert_int_equal(rangeset_new(&rs, &err), 0);
	assert_int_equal(rangeset_add(rs, 0, 1, &err), 0);
	assert_int_equal(rangeset_add(rs, 10, 2, &err), 0);
	assert_int_equal(rangeset_add(rs, 20, 3, &err), 0);
	assert_int_equal(rangeset_add(rs, 30, 4, &err), 0);
	assert_int_equal(rangeset_add(rs, 1ull << 60, 1ull << 59, &err), 0);
	picture_free_sizes(rs, &f);
	assert_int_equal(f.runs[0], 1);
	assert_int_equal(f.runs[1], 2);
	assert_int_equal(f.blocks[1], 5);
	assert_int_equal(f.runs[2], 1);
	assert_int_equal(f.runs[PICTURE_SIZES - 1], 1);
	assert_true(f.blocks[PICTURE_SIZES - 1] == 1ull << 59);
	rangeset_free(rs);
}

/* A report with pictures before and after. */
static void make_report(struct world *w, struct report *r)
{
	*r = (struct report){ .name = "a<b>&\"'\x1b.img",
			      .what = "ext4",
			      .block_size = 4096,
			      .outcome = OUTCOME_DONE,
			      .mode = "files",
			      .has_after = true,
			      .score_before = { 1, "no problem" },
			      .score_after = { 0, "no problem" } };
	r->picture_before = picture(w);
	picture_free_sizes(w->st->free, &r->free_before);
	move_it(w);
	r->picture_after = picture(w);
	picture_free_sizes(w->st->free, &r->free_after);
	r->has_free_after = true;
	r->worst = calloc(1, sizeof(*r->worst));
	assert_non_null(r->worst);
	r->n_worst = 1;
	r->worst[0] = (struct report_file){ .ino = 12, .runs = 2, .ideal_runs = 1 };
	r->worst[0].path = strdup("/<script>alert(1)</script>");
}

static char *captured(const struct report *r, const struct report_map_style *style, char what)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	if (what == 'm')
		report_map(f, r, style);
	else
		assert_int_equal(what == 'h' ? report_html(f, r) : report_svg(f, r), 0);
	fclose(f);
	return text;
}

/* Columns of a line: bytes that don't go on with a character, without escape sequences. */
static size_t columns(const char *line, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (line[i] == '\x1b')
			while (line[i] != 'm')
				i++;
		else
			n += (line[i] & 0xc0) != 0x80;
	}
	return n;
}

static void test_report_map__fits_any_width(void **state)
{
	struct world w;
	struct report r;

	(void)state;
	setup(&w, 5000);
	make_report(&w, &r);
	for (unsigned width = 36; width < 200; width += 7)
		for (unsigned how = 0; how < 4; how++) {
			struct report_map_style style = { width, how & 1, how & 2 };
			char *text = captured(&r, &style, 'm');
			size_t lines = 0;

			for (char *l = text, *end; (end = strchr(l, '\n')); l = end + 1, lines++)
				assert_in_range(columns(l, (size_t)(end - l)), 0, width);
			assert_in_range(lines, 5, 2 * 8 + 8);
			assert_int_equal(!!strchr(text, '\x1b'), !!(how & 2));
			if (!(how & 1))
				for (char *c = text; *c; c++)
					assert_true((unsigned char)*c < 0x80);
			free(text);
		}
	report_release(&r);
	teardown(&w);
}

static void test_report_map__shapes_tell_without_colour(void **state)
{
	const struct report_map_style style = { 102, false, false };
	struct world w;
	struct report r;
	char *text;

	(void)state;
	setup(&w, 100);
	make_report(&w, &r);
	text = captured(&r, &style, 'm');
	assert_non_null(strstr(text, "before\n  ==========xxxxxxxxxx##########xxxxxxxxxxx....."));
	assert_non_null(
		strstr(text, "after\n  ==========..........##########....................####"));
	assert_non_null(strstr(text, "one cell is 1 block, 4.0 KiB\n"));
	free(text);
	report_release(&r);
	teardown(&w);
}

static void test_report_html__hostile_names_are_text(void **state)
{
	struct world w;
	struct report r;
	char *text;

	(void)state;
	setup(&w, 100);
	make_report(&w, &r);
	text = captured(&r, NULL, 'h');
	assert_null(strstr(text, "<script"));
	assert_null(strstr(text, "\x1b"));
	assert_null(strstr(text, "a<b>"));
	assert_non_null(strstr(text, "a&lt;b&gt;&amp;&quot;&#39;\\x1b.img"));
	assert_non_null(strstr(text, "/&lt;script&gt;alert(1)&lt;/script&gt;"));
	assert_non_null(memmem(text, 128, REPORT_MARK, strlen(REPORT_MARK)));
	free(text);
	text = captured(&r, NULL, 's');
	assert_null(strstr(text, "a<b>"));
	assert_non_null(memmem(text, 128, REPORT_MARK, strlen(REPORT_MARK)));
	free(text);
	report_release(&r);
	teardown(&w);
}

static void test_report_html__empty_report(void **state)
{
	struct report r = { .name = "x", .error = "it <broke>" };
	char *text;

	(void)state;
	for (int outcome = OUTCOME_NOTHING; outcome <= OUTCOME_FAILED; outcome++) {
		r.outcome = (enum report_outcome)outcome;
		text = captured(&r, NULL, 'h');
		assert_non_null(strstr(text, "it &lt;broke&gt;"));
		free(text);
		text = captured(&r, NULL, 's');
		assert_non_null(strstr(text, "no map: it &lt;broke&gt;"));
		free(text);
	}
	text = captured(&r, &(struct report_map_style){ 80, false, false }, 'm');
	assert_string_equal(text, "");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_picture_new__every_block_is_in_one_class),
		cmocka_unit_test(test_picture_new__size_does_not_depend_on_the_volume),
		cmocka_unit_test(test_picture_new__flow_is_what_moved),
		cmocka_unit_test(test_picture_free_sizes__powers_of_two),
		cmocka_unit_test(test_report_map__fits_any_width),
		cmocka_unit_test(test_report_map__shapes_tell_without_colour),
		cmocka_unit_test(test_report_html__hostile_names_are_text),
		cmocka_unit_test(test_report_html__empty_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
