/* SPDX-License-Identifier: GPL-2.0-or-later */
/* json: docs/json.md has each key that the program writes, with its type, and no others. Run from
 * the root of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/report.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE	 "docs/json.md"
#define ROWS_MAX 400

struct row {
	char table[32], key[64], type[64];
	bool seen;
};

static struct row rows[ROWS_MAX];
static size_t n_rows;

/* "| `key` | type | meaning |" below "## table" */
static void read_page(void)
{
	char line[512], table[32] = "";
	FILE *f = fopen(PAGE, "r");

	n_rows = 0;
	if (!f) {
		print_message("%s is not here: run from the root of the tree\n", PAGE);
		skip();
	}
	while (fgets(line, sizeof(line), f)) {
		struct row *r = &rows[n_rows];

		if (sscanf(line, "## %31s", table) == 1)
			continue;
		if (sscanf(line, "| `%63[a-z0-9_]` | %63[^|]", r->key, r->type) != 2)
			continue;
		assert_in_range(n_rows, 0, ROWS_MAX - 2);
		snprintf(r->table, sizeof(r->table), "%s", table);
		r->seen = false;
		n_rows++;
	}
	fclose(f);
	assert_in_range(n_rows, 80, ROWS_MAX);
}

static struct row *find(const char *table, const char *key)
{
	for (size_t i = 0; i < n_rows; i++)
		if (strcmp(rows[i].table, table) == 0 && strcmp(rows[i].key, key) == 0)
			return &rows[i];
	fail_msg("%s: table %s does not have '%s'", PAGE, table, key);
	return NULL;
}

static bool type_fits(const char *type, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return *type == '*';
	case JSON_ARRAY:
		return strncmp(type, "list of *", 9) == 0;
	case JSON_STRING:
		return strncmp(type, "string", 6) == 0;
	case JSON_INTEGER:
		return strncmp(type, "integer", 7) == 0;
	case JSON_REAL:
		return strncmp(type, "real", 4) == 0;
	case JSON_TRUE:
	case JSON_FALSE:
		return strncmp(type, "boolean", 7) == 0;
	case JSON_NULL:
		return strstr(type, "null") != NULL;
	}
	return false;
}

static void check_object(const char *table, const json_t *object)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)object, key, v)
	{
		struct row *r = find(table, key);
		char sub[32];

		r->seen = true;
		if (!type_fits(r->type, v))
			fail_msg("%s: %s of table %s is not of type %s", PAGE, key, table, r->type);
		if (sscanf(strchr(r->type, '*') ? strchr(r->type, '*') : "", "*%31[a-z0-9]*",
			   sub) != 1)
			continue;
		if (json_is_object(v))
			check_object(sub, v);
		for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++)
			check_object(sub, json_array_get(v, i));
	}
}

static void check_report(const struct report *r)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_t *j;

	assert_non_null(f);
	assert_int_equal(report_json(f, r), 0);
	fclose(f);
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	check_object("document", j);
	json_decref(j);
	free(text);
}

static void check_progress(void)
{
	struct progress *p;
	char text[512];
	int fd[2];
	ssize_t n;
	json_t *j;

	assert_int_equal(pipe(fd), 0);
	assert_int_equal(progress_new(-1, -1, "x", &p), 0);
	progress_json(p, fd[1]);
	progress_set(p, PHASE_MOVE, 1, 2, 3);
	progress_free(p);
	n = read(fd[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	check_object("progress", j);
	json_decref(j);
	close(fd[0]);
	close(fd[1]);
}

/* A report that has everything, one that has nothing, and a line of progress. */
static void test_report_json__every_key_is_documented(void **state)
{
	static char path[] = "/a";
	struct report_file file = { .ino = 12, .path = path, .runs = 2, .why = "tight" };
	struct report r = { .name = "x" }, full = {
		.name = "x",
		.mode = "files",
		.has_after = true,
		.has_free_after = true,
		.read_before = { 10, 5, 3 },
		.measured_before = { .known = true },
		.score_before = { 1, "no problem" },
		.score_after = { 0, "no problem" },
		.stopped_by = "a signal",
		.error = "it broke",
		.stay = &file,
		.n_stay = 1,
		.dropped = &file,
		.n_dropped = 1,
		.swap = &file,
		.n_swap = 1,
		.modes = { { .name = "files", .known = true }, { .name = "free" } },
		.n_modes = 2,
	};

	(void)state;
	full.recommended = &full.modes[0];
	full.free_before.runs[3] = full.free_after.runs[3] = 1;
	read_page();
	r.mode = "files"; /* as the engine sets it before anything else */
	check_report(&full);
	check_report(&r);
	check_progress();
	for (size_t i = 0; i < n_rows; i++)
		if (!rows[i].seen)
			fail_msg("%s: %s of table %s is nowhere written", PAGE, rows[i].key,
				 rows[i].table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report_json__every_key_is_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
