/* SPDX-License-Identifier: GPL-2.0-or-later */
/* progress: the bar of a terminal, of several widths, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

static double test_time;

static int test_clock(struct timespec *t)
{
	t->tv_sec = (time_t)test_time;
	t->tv_nsec = (long)((test_time - (double)t->tv_sec) * 1e9);
	return 0;
}

#define clock_gettime(id, t) test_clock(t)
#include "../../src/report/progress.c"

struct terminal {
	int master, slave;
};

static struct terminal open_terminal(unsigned short columns)
{
	struct terminal t = { .master = posix_openpt(O_RDWR | O_NOCTTY) };
	struct winsize ws = { .ws_row = 24, .ws_col = columns };

	if (t.master < 0)
		skip(); /* a root without /dev/pts */
	assert_int_equal(grantpt(t.master) | unlockpt(t.master), 0);
	t.slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
	assert_true(t.slave >= 0);
	assert_int_equal(ioctl(t.slave, TIOCSWINSZ, &ws), 0);
	return t;
}

static void close_terminal(const struct terminal *t)
{
	close(t->slave);
	close(t->master);
}

/* What is on the line now: one write, from its '\r' on, without the blanks at its end. */
static void line(const struct terminal *t, char *out, size_t size)
{
	ssize_t n = read(t->master, out, size - 1);

	assert_true(n > 1 && out[0] == '\r');
	while (out[n - 1] == ' ')
		n--;
	memmove(out, out + 1, (size_t)n - 1);
	out[n - 1] = '\0';
}

static void test_bar__speed_and_time_left(void **state)
{
	static const struct {
		unsigned short columns;
		const char *begin, *want;
	} cases[] = {
		{ 80, "move   [----------------------------------------]   0 %",
		  "move   [##########------------------------------]  25 %  10 MB/s  5:00 left" },
		{ 40, "move   [---------------------]   0 %", "move     25 %  10 MB/s  5:00 left" },
		{ 20, "move      0 %", "move     25 %  10 M" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct terminal t = open_terminal(cases[i].columns);
		struct progress *p;
		char text[300];

		test_time = 1000;
		assert_int_equal(progress_new(t.slave, -1, "x", &p), 0);
		progress_set(p, PHASE_MOVE, 0, 4000000000u, 0);
		line(&t, text, sizeof(text));
		assert_string_equal(text, cases[i].begin);
		test_time += 100;
		progress_set(p, PHASE_MOVE, 1000000000, 4000000000u, 0);
		line(&t, text, sizeof(text));
		assert_true(strlen(text) < cases[i].columns);
		assert_string_equal(text, cases[i].want);
		progress_free(p);
		close_terminal(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bar__speed_and_time_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
