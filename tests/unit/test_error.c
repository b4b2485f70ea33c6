/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/error.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_error_set__fills_and_fails(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	err.sys = 7;
	assert_int_equal(error_set(&err, ERROR_FSCK, "inode %d: run e2fsck -f %s", 12, "x"), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	assert_int_equal(err.sys, 0);
	assert_string_equal(err.text, "inode 12: run e2fsck -f x");
}

static void test_error_set__hostile_text_stays_one_line(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	error_set(&err, ERROR_USAGE, "file %s", "a\nb\x1b[2J\x7f\xc3\xa4");
	assert_string_equal(err.text, "file a?b?[2J?\xc3\xa4");
}

static void test_error_set__long_text_is_cut(void **state)
{
	struct error err = ERROR_INIT;
	char name[2000];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	error_sys(&err, ERROR_OPERATION, EIO, "%s", name);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(err.sys, EIO);
}

static void test_error_set__own_text_as_argument(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	error_set(&err, ERROR_USAGE, "inner");
	error_set(&err, ERROR_USAGE, "outer: %s", err.text);
	assert_string_equal(err.text, "outer: inner");
}

static void test_error_sys__appends_the_reason(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(error_sys(&err, ERROR_OPERATION, ENOSPC, "cannot write"), -1);
	assert_int_equal(err.sys, ENOSPC);
	assert_string_equal(err.text, "cannot write: No space left on device");
}

static void test_error_nomem__says_what_for(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(error_nomem(&err, "reading groups"), -1);
	assert_int_equal(err.kind, ERROR_OPERATION);
	assert_int_equal(err.sys, ENOMEM);
	assert_string_equal(err.text, "out of memory while reading groups");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_error_set__fills_and_fails),
		cmocka_unit_test(test_error_set__hostile_text_stays_one_line),
		cmocka_unit_test(test_error_set__long_text_is_cut),
		cmocka_unit_test(test_error_set__own_text_as_argument),
		cmocka_unit_test(test_error_sys__appends_the_reason),
		cmocka_unit_test(test_error_nomem__says_what_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
