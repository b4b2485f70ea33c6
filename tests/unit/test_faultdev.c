/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The test devices themselves, and how device_run meets their faults. */
#include "support/faultdev.h"
#include "support/memdev.h"
#include "support/recorder.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK 4096

struct stack {
	unsigned char *disk;
	struct faultdev *fd;
	struct recorder *rec;
	struct device *dev; /* faultdev, recorder, memdev */
};

static void open_stack(struct stack *s, uint64_t shuffle)
{
	struct error err = ERROR_INIT;
	struct device *dev;

	s->disk = device_buffer(64 * BLOCK);
	assert_non_null(s->disk);
	memset(s->disk, 0, 64 * BLOCK);
	s->fd = faultdev_new();
	s->rec = recorder_new();
	dev = memdev_new(s->disk, 64 * BLOCK, 512);
	memdev_shuffle(dev, shuffle);
	assert_int_equal(recorder_wrap(s->rec, dev, &dev, &err), 0);
	assert_int_equal(faultdev_wrap(s->fd, dev, &s->dev, &err), 0);
}

static void close_stack(struct stack *s)
{
	device_close(s->dev);
	faultdev_free(s->fd);
	recorder_free(s->rec);
	free(s->disk);
}

static void fill_requests(struct device_request *reqs, size_t n, enum device_op op,
			  unsigned char *buf)
{
	for (size_t i = 0; i < n; i++) {
		reqs[i] = (struct device_request){
			.op = op, .offset = i * BLOCK, .len = BLOCK, .buf = buf + i * BLOCK
		};
		if (op == DEVICE_WRITE)
			memset(reqs[i].buf, (int)i + 1, BLOCK);
	}
}

static void test_device_run__nth_request_fails_until_all_pass(void **state)
{
	unsigned char *buf = device_buffer(32 * BLOCK);
	struct device_request reqs[32];
	struct error err = ERROR_INIT;
	struct stack s;
	uint64_t nth = 0;
	int rc;

	(void)state;
	open_stack(&s, 5);
	do {
		faultdev_set(s.fd, (struct fault_plan){ .op = FAULT_WRITE, .nth = ++nth });
		fill_requests(reqs, 32, DEVICE_WRITE, buf);
		rc = device_run(s.dev, 4, reqs, 32, &err);
		assert_int_equal(rc ? err.sys : 0, rc ? EIO : 0);
		assert_int_equal(faultdev_fired(s.fd), rc ? 1 : 0);
	} while (rc);
	assert_int_equal(nth, 33);
	assert_memory_equal(s.disk, buf, 32 * BLOCK);
	for (nth = 1; nth <= 3; nth++) {
		faultdev_set(s.fd,
			     (struct fault_plan){ .op = FAULT_SUBMIT, .nth = nth, .sys = ENOMEM });
		assert_int_equal(device_run(s.dev, 4, reqs, 32, &err), -1);
		assert_int_equal(err.sys, ENOMEM);
	}
	assert_int_equal(device_run(s.dev, 4, reqs, 0, &err), 0);
	close_stack(&s);
	free(buf);
}

static void test_faultdev__bad_sector_and_sticky(void **state)
{
	unsigned char *buf = device_buffer(8 * BLOCK);
	struct device_request reqs[8];
	struct error err = ERROR_INIT;
	struct stack s;

	(void)state;
	open_stack(&s, 0);
	faultdev_set(s.fd, (struct fault_plan){
				   .bad_op = FAULT_READ, .bad_from = 3 * BLOCK, .bad_len = 512 });
	fill_requests(reqs, 8, DEVICE_READ, buf);
	assert_int_equal(device_run(s.dev, 8, reqs, 8, &err), -1);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(reqs[i].result, i == 3 ? EIO : 0);
	assert_int_equal(device_read(s.dev, buf, 3 * BLOCK + 512, 10, &err), 0);
	assert_int_equal(device_read(s.dev, buf, 3 * BLOCK + 511, 10, &err), -1);
	assert_int_equal(device_write(s.dev, buf, 3 * BLOCK, BLOCK, &err), 0);

	faultdev_set(s.fd, (struct fault_plan){ .op = FAULT_ANY, .nth = 2, .sticky = true });
	assert_int_equal(device_read(s.dev, buf, 0, 1, &err), 0);
	assert_int_equal(device_write(s.dev, buf, 0, BLOCK, &err), -1);
	assert_int_equal(device_read(s.dev, buf, 0, 1, &err), -1);
	assert_int_equal(device_flush(s.dev, &err), -1);
	assert_int_equal(faultdev_fired(s.fd), 3);
	close_stack(&s);
	free(buf);
}

static void test_faultdev__torn_write_leaves_its_first_half(void **state)
{
	unsigned char *buf = device_buffer(2 * BLOCK);
	struct device_request r[2] = {
		{ .op = DEVICE_WRITE, .len = BLOCK, .offset = BLOCK, .buf = buf },
		{ .op = DEVICE_READ, .len = BLOCK, .offset = 9 * BLOCK, .buf = buf + BLOCK },
	};
	const struct recorder_event *ev;
	struct error err = ERROR_INIT;
	struct stack s;
	size_t n;

	(void)state;
	memset(buf, 9, 2 * BLOCK);
	open_stack(&s, 0);
	faultdev_set(s.fd, (struct fault_plan){
				   .op = FAULT_WRITE, .nth = 1, .torn = true, .sys = ENOSPC });
	assert_int_equal(device_write(s.dev, buf, 0, BLOCK, &err), -1);
	assert_int_equal(err.sys, ENOSPC);
	faultdev_set(s.fd, (struct fault_plan){ .op = FAULT_WRITE, .nth = 1, .torn = true });
	assert_int_equal(device_run(s.dev, 2, r, 2, &err), -1);
	for (size_t i = 0; i < 2 * BLOCK; i++)
		assert_int_equal(s.disk[i], i % BLOCK < BLOCK / 2 ? 9 : 0);
	ev = recorder_trace(s.rec, &n);
	assert_int_equal(n, 2);
	assert_int_equal(ev[1].offset, BLOCK);
	assert_int_equal(ev[1].len, BLOCK / 2);
	close_stack(&s);
	free(buf);
}

static void test_recorder__flush_covers_completed_writes_only(void **state)
{
	unsigned char *buf = device_buffer(3 * BLOCK);
	struct device_request reqs[3], *list[3] = { &reqs[0], &reqs[1], &reqs[2] };
	const struct recorder_event *ev;
	struct device_queue *q;
	struct error err = ERROR_INIT;
	struct stack s;
	size_t n;

	(void)state;
	open_stack(&s, 1);
	fill_requests(reqs, 3, DEVICE_WRITE, buf);
	assert_int_equal(device_queue_open(s.dev, 3, &q, &err), 0);
	assert_int_equal(device_queue_submit(q, list, 3, &err), 0);
	assert_int_equal(device_queue_wait(q, 1, 1, list, &n, &err), 0);
	assert_int_equal(device_flush(s.dev, &err), 0);
	device_queue_close(q);
	assert_int_equal(device_write(s.dev, buf, 10 * BLOCK, BLOCK, &err), 0);
	ev = recorder_trace(s.rec, &n);
	assert_int_equal(n, 5);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(ev[i].kind, i == 1 ? RECORDER_FLUSH : RECORDER_WRITE);
		assert_false(ev[i].failed);
		if (i != 1)
			assert_memory_equal(ev[i].data, s.disk + ev[i].offset, BLOCK);
	}
	assert_int_equal(ev[0].issued, 0);
	assert_int_equal(ev[1].issued, 1);
	assert_int_equal(ev[3].issued, 0);
	assert_int_equal(ev[4].issued, 4);
	close_stack(&s);
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_run__nth_request_fails_until_all_pass),
		cmocka_unit_test(test_faultdev__bad_sector_and_sticky),
		cmocka_unit_test(test_faultdev__torn_write_leaves_its_first_half),
		cmocka_unit_test(test_recorder__flush_covers_completed_writes_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
