/* SPDX-License-Identifier: GPL-2.0-or-later */
/* measure: which requests a cold reading makes. As part of a run: test_library, tests/e2e. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/measure.c"
#include <errno.h>
#include <string.h>

#define BLOCK 4096u

/* Blocks read, as "START+LEN START+LEN ", and which of them fails. */
static char reads[512];
static uint64_t bad_block;
static int cold, told, stop_at;

static int note_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	size_t n = strlen(reads);

	(void)dev;
	assert_int_equal(cold, 1);
	memset(buf, 0, len);
	snprintf(reads + n, sizeof(reads) - n, "%u+%u ", (unsigned)(offset / BLOCK),
		 (unsigned)(len / BLOCK));
	return bad_block && offset / BLOCK == bad_block ? EIO : 0;
}

static void note_cold(struct device *dev, bool on)
{
	(void)dev;
	cold += on ? 1 : -1;
}

static const struct device_ops ops = { .read = note_read, .cold = note_cold };
static struct device dev = { .ops = &ops, .size = 10000 * BLOCK, .align = 1, .read_only = true };

/* Of engine.c and volume/, which are not linked here. */
void run_phase(struct run *run, enum report_phase phase)
{
	assert_int_equal(phase, PHASE_MEASURE);
	run->phase = phase;
}

void run_tell(struct run *run, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	run->stop = stop_at && ++told == stop_at;
}

struct device *volume_device(struct volume *v)
{
	(void)v;
	return &dev;
}

const char *volume_arg(const struct volume *v)
{
	(void)v;
	return "x";
}

/* A directory; a file with a tree block, a hole, an unwritten part and a run of more than 128 KiB;
 * and one that is read first, though its number is higher. */
static const char text[] = "geometry blocks 10000 block_size 4096\n"
			   "file 11 dir depth 0\n"
			   "ext 0 1 500\n"
			   "file 12 file depth 1\n"
			   "ext 0 2 100\n"
			   "ext 2 3 1000 u\n"
			   "ext 9 1 102\n"
			   "ext 10 70 200\n"
			   "node 0 99 4\n"
			   "file 13 file depth 0\n"
			   "ext 0 1 501\n"
			   "order 11\norder 13\norder 12\n";

static int measure(struct report_measure *out, struct error *err)
{
	struct run run = { .block_size = BLOCK };
	struct snapshot *s;
	int rc;

	reads[0] = '\0';
	told = 0;
	assert_int_equal(snapshot_parse(text, &s, err), 0);
	assert_int_equal(state_new(s, &run.st, err), 0);
	rc = run_measure(&run, out, err);
	assert_int_equal(cold, 0);
	state_free(run.st);
	snapshot_free(s);
	return rc;
}

static void test_run_measure__requests(void **state)
{
	struct report_measure m = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(measure(&m, &err), 0);
	/* files apart, though 501 lies behind 500; so the tree block, though 100 lies behind 99;
	 * 102 behind 101, past the hole */
	assert_string_equal(reads, "500+1 501+1 99+1 100+3 200+32 232+32 264+6 ");
	assert_true(m.known);
	assert_int_equal(m.requests, 7);
	assert_int_equal(m.bytes, 76 * BLOCK);
	assert_int_equal(m.failed, 0);
}

static void test_run_measure__a_bad_block(void **state)
{
	struct report_measure m = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	bad_block = 232;
	assert_int_equal(measure(&m, &err), 0);
	bad_block = 0;
	assert_int_equal(m.requests, 7);
	assert_int_equal(m.failed, 1);
}

static void test_run_measure__stopped(void **state)
{
	struct report_measure m = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	for (stop_at = 1; stop_at <= 7; stop_at++) {
		assert_int_equal(measure(&m, &err), -1);
		assert_int_equal(err.kind, ERROR_STOPPED);
		assert_int_equal(told, stop_at);
		assert_false(m.known);
	}
	stop_at = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_measure__requests),
		cmocka_unit_test(test_run_measure__a_bad_block),
		cmocka_unit_test(test_run_measure__stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
