/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The models of slow devices say what their manual says, and pass the data on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/memdev.h"
#include "support/slowdev.h"
#include <stdlib.h>
#include <string.h>

#define SIZE	  (64u << 20)
#define BLOCK	  4096u
#define NOWHERE	  ((void *)(uintptr_t)BLOCK) /* without an inner device no byte is touched */
#define TURN	  ((uint64_t)SLOWDEV_TRACK * SLOWDEV_BYTE_NS)
#define CHANNEL	  slowdev_flash.request_ns
#define MS	  1000000u
#define MANY	  64u
#define ALL_BYTES ((uint64_t)BLOCK * SLOWDEV_BYTE_NS)

struct rig {
	struct simclock *clock;
	struct slowdev *sd;
	struct device *dev;
};

static void rig_open(struct rig *r, const struct slowdev_model *model, struct device *inner)
{
	r->clock = simclock_new();
	r->sd = slowdev_new(model, r->clock);
	r->dev = slowdev_open(r->sd, inner, SIZE);
}

static void rig_close(struct rig *r)
{
	device_close(r->dev);
	slowdev_free(r->sd);
	simclock_free(r->clock);
}

/* Reads blocks at these places, `depth` at a time; the time it takes. */
static uint64_t read_all(struct rig *r, unsigned depth, const uint64_t *offset, size_t n)
{
	struct device_request reqs[MANY];
	struct error err = ERROR_INIT;
	uint64_t now;

	simclock_lock(r->clock);
	now = simclock_now(r->clock);
	simclock_unlock(r->clock);
	for (size_t i = 0; i < n; i++)
		reqs[i] = (struct device_request){
			.op = DEVICE_READ, .offset = offset[i], .len = BLOCK, .buf = NOWHERE
		};
	assert_int_equal(device_run(r->dev, depth, reqs, n, &err), 0);
	simclock_lock(r->clock);
	now = simclock_now(r->clock) - now;
	simclock_unlock(r->clock);
	return now;
}

static void test_slowdev__flash_channels(void **state)
{
	uint64_t apart[MANY], same[MANY];
	struct rig r;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		apart[i] = i * SLOWDEV_STRIPE;
		same[i] = i * SLOWDEV_STRIPE * slowdev_flash.channels;
	}
	rig_open(&r, &slowdev_flash, NULL);
	assert_int_equal(read_all(&r, 1, apart, MANY), MANY * CHANNEL);
	assert_int_equal(read_all(&r, 4, apart, MANY), MANY / 4 * CHANNEL);
	assert_int_equal(read_all(&r, MANY, apart, MANY), MANY / 8 * CHANNEL);
	assert_int_equal(read_all(&r, MANY, same, MANY), MANY * CHANNEL);
	assert_int_equal(slowdev_figures(r.sd).reads, 4 * MANY);
	rig_close(&r);
}

static void test_slowdev__flash_long_request(void **state)
{
	struct device_request a = { .op = DEVICE_WRITE, .len = 16 * SLOWDEV_STRIPE };
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	a.buf = NOWHERE;
	rig_open(&r, &slowdev_flash, NULL);
	assert_int_equal(device_run(r.dev, 1, &a, 1, &err), 0);
	assert_int_equal(read_all(&r, 1, (const uint64_t[]){ 0 }, 1), CHANNEL);
	simclock_lock(r.clock);
	assert_int_equal(simclock_now(r.clock), 3 * CHANNEL); /* 16 parts on 8 channels */
	simclock_unlock(r.clock);
	rig_close(&r);
}

static void test_slowdev__disk_streams_and_turns(void **state)
{
	uint64_t place[MANY];
	struct rig r;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++)
		place[i] = i * BLOCK;
	rig_open(&r, &slowdev_disk, NULL);
	assert_int_equal(read_all(&r, 8, place, MANY), MANY * ALL_BYTES);
	/* Back to the start of the track: the rest of the turn. */
	assert_int_equal(read_all(&r, 1, place, 1), TURN - MANY * ALL_BYTES + ALL_BYTES);
	assert_int_equal(slowdev_figures(r.sd).seeks, 0);
	assert_int_equal(slowdev_figures(r.sd).turn_ns, TURN - MANY * ALL_BYTES);
	rig_close(&r);
}

static void test_slowdev__disk_seeks(void **state)
{
	const uint64_t there = SIZE / 4 - BLOCK; /* the head is at BLOCK then; a quarter less 2 */
	struct slowdev_figures f;
	struct rig r;

	(void)state;
	rig_open(&r, &slowdev_disk, NULL);
	read_all(&r, 1, (const uint64_t[]){ 0, there + 2 * BLOCK }, 2);
	f = slowdev_figures(r.sd);
	assert_int_equal(f.seeks, 1);
	assert_int_equal(f.seek_ns, 1 * MS + 14 * MS / 2);
	assert_true(f.turn_ns < TURN);
	assert_int_equal(f.transfer_ns, 2 * ALL_BYTES);
	rig_close(&r);
}

/* To and fro: a drive that sorts passes over the disk once. */
static void test_slowdev__disk_sorts(void **state)
{
	struct slowdev_model as_they_come = slowdev_disk;
	uint64_t place[32], sorted, unsorted;
	struct rig r;

	(void)state;
	as_they_come.sorted = 1;
	for (uint64_t i = 0; i < 32; i++)
		place[i] = (i % 2 ? 63 - i : i) * SLOWDEV_TRACK;
	rig_open(&r, &slowdev_disk, NULL);
	read_all(&r, 32, place, 32);
	sorted = slowdev_figures(r.sd).seek_ns;
	rig_close(&r);
	rig_open(&r, &as_they_come, NULL);
	read_all(&r, 32, place, 32);
	unsorted = slowdev_figures(r.sd).seek_ns;
	rig_close(&r);
	assert_true(sorted * 2 < unsorted);
}

static void test_slowdev__data_pass(void **state)
{
	uint8_t *disk = calloc(1, SIZE), out[BLOCK], in[BLOCK];
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	assert_non_null(disk);
	memset(out, 7, sizeof(out));
	rig_open(&r, &slowdev_disk, memdev_new(disk, SIZE, 1));
	assert_int_equal(device_write(r.dev, out, 3 * BLOCK, BLOCK, &err), 0);
	assert_int_equal(device_flush(r.dev, &err), 0);
	assert_int_equal(device_read(r.dev, in, 3 * BLOCK, BLOCK, &err), 0);
	assert_memory_equal(in, out, BLOCK);
	assert_memory_equal(disk + 3 * BLOCK, out, BLOCK);
	rig_close(&r);
	free(disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slowdev__flash_channels),
		cmocka_unit_test(test_slowdev__flash_long_request),
		cmocka_unit_test(test_slowdev__disk_streams_and_turns),
		cmocka_unit_test(test_slowdev__disk_seeks),
		cmocka_unit_test(test_slowdev__disk_sorts),
		cmocka_unit_test(test_slowdev__data_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
