/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The input: a snapshot, a zero byte, a plan. */
#include "fuzz.h"
#include "scaledefrag/planner.h"
#include "scaledefrag/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_error(const struct error *err)
{
	if (err->kind == ERROR_NONE || !*err->text || strchr(err->text, '\n'))
		fuzz_wrong("an error without a text of one line");
}

/* What is printed parses, and prints the same again. */
static void snapshot_round(const struct snapshot *s)
{
	char *one = NULL, *two = NULL;
	size_t n_one, n_two;
	FILE *f = open_memstream(&one, &n_one);
	struct snapshot *again;
	struct error err;

	if (!f || report_snapshot(f, s) || fclose(f))
		abort();
	if (snapshot_parse(one, &again, &err))
		fuzz_wrong("a snapshot doesn't parse back: %s", err.text);
	f = open_memstream(&two, &n_two);
	if (!f || report_snapshot(f, again) || fclose(f))
		abort();
	if (strcmp(one, two))
		fuzz_wrong("a snapshot changes when it is parsed back");
	snapshot_free(again);
	free(one);
	free(two);
}

static void plan_round(const struct plan *p)
{
	char *one = NULL, *two = NULL;
	size_t n_one, n_two;
	FILE *f = open_memstream(&one, &n_one);
	struct plan *again;
	struct error err;

	if (!f || report_plan(f, p) || fclose(f))
		abort();
	if (plan_parse(one, &again, &err))
		fuzz_wrong("a plan doesn't parse back: %s", err.text);
	f = open_memstream(&two, &n_two);
	if (!f || report_plan(f, again) || fclose(f))
		abort();
	if (strcmp(one, two))
		fuzz_wrong("a plan changes when it is parsed back");
	plan_free(again);
	free(one);
	free(two);
}

int fuzz_text(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	char *text = bytes_rest(&in);
	size_t len = strlen(text);
	const char *second = len < size ? text + len + 1 : "";
	struct snapshot *s = NULL;
	struct plan *p = NULL;
	struct error err = ERROR_INIT;

	if (snapshot_parse(text, &s, &err))
		check_error(&err);
	else
		snapshot_round(s);
	err = ERROR_INIT;
	if (plan_parse(second, &p, &err))
		check_error(&err);
	else
		plan_round(p);
	err = ERROR_INIT;
	if (s && p && planner_verify(s, p, 1, &err))
		check_error(&err);
	snapshot_free(s);
	plan_free(p);
	free(text);
	return 0;
}
