/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The queue against a kernel that behaves badly: libaio's calls are replaced here by ones that take
 * requests in part, refuse, are interrupted and finish short, as a seed says.
 */
#include "scaledefrag/device.h"
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK  4096
#define BLOCKS 256
#define DEPTH  8

/* The one place for state: the replaced calls get no pointer of ours. */
static struct {
	int setup_limit; /* deepest io_setup that works; 0: none; -1: ENOSYS */
	uint64_t seed;	 /* 0: well-behaved */
	int fail_after;	 /* the nth submitted request is refused with EINVAL, from 1 on; 0: none */
	struct iocb *held[DEPTH];
	int held_n, seen, made, destroyed, kernel_transfers;
} kernel;

static uint64_t draw(uint64_t n)
{
	kernel.seed = kernel.seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (kernel.seed >> 33) % n;
}

int io_setup(int depth, io_context_t *ctx)
{
	if (kernel.setup_limit < 0)
		return -ENOSYS;
	if (depth > kernel.setup_limit)
		return -EAGAIN;
	kernel.made++;
	*ctx = (io_context_t)&kernel;
	return 0;
}

int io_destroy(io_context_t ctx)
{
	assert_ptr_equal(ctx, &kernel);
	kernel.destroyed++;
	kernel.held_n = 0;
	return 0;
}

int io_submit(io_context_t ctx, long n, struct iocb **cbs)
{
	int taken = 0;

	assert_ptr_equal(ctx, &kernel);
	if (kernel.seed) {
		switch (draw(5)) {
		case 0:
			return -EAGAIN;
		case 1:
			return -EINTR;
		case 2:
			n = (long)draw((uint64_t)n + 1);
			break;
		}
	}
	while (taken < n && kernel.held_n < DEPTH) {
		if (++kernel.seen == kernel.fail_after) {
			if (taken)
				kernel.seen--; /* it is offered again, then as the first */
			return taken ? taken : -EINVAL;
		}
		kernel.held[kernel.held_n++] = cbs[taken++];
	}
	return taken;
}

static unsigned long carry_out(const struct iocb *cb)
{
	size_t len = cb->u.c.nbytes;
	ssize_t r;

	kernel.kernel_transfers++;
	if (kernel.seed) {
		uint64_t fate = draw(8);

		if (fate == 0)
			return (unsigned long)-EINTR;
		if (fate == 1)
			return (unsigned long)-EAGAIN;
		if (fate <= 4)
			len = 1 + draw(len);
	}
	r = cb->aio_lio_opcode == IO_CMD_PWRITE
		    ? pwrite(cb->aio_fildes, cb->u.c.buf, len, cb->u.c.offset)
		    : pread(cb->aio_fildes, cb->u.c.buf, len, cb->u.c.offset);
	return (unsigned long)(r < 0 ? -errno : r);
}

int io_getevents(io_context_t ctx, long min, long max, struct io_event *events,
		 struct timespec *timeout)
{
	int n = 0;

	assert_ptr_equal(ctx, &kernel);
	assert_null(timeout);
	assert_true(min <= kernel.held_n); /* else the real one would block for ever */
	if (kernel.seed && draw(4) == 0)
		return -EINTR;
	if (kernel.seed && min < max)
		max = min + (long)draw((uint64_t)(max - min + 1));
	while (n < max && kernel.held_n) {
		size_t i = kernel.seed ? draw((uint64_t)kernel.held_n) : 0;

		events[n++] = (struct io_event){ .obj = kernel.held[i],
						 .res = carry_out(kernel.held[i]) };
		kernel.held[i] = kernel.held[--kernel.held_n];
	}
	return n;
}

struct fixture {
	struct device *dev;
	unsigned char *buf;
	struct device_request reqs[BLOCKS];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err = ERROR_INIT;
	int fd = memfd_create("image", MFD_CLOEXEC);

	memset(&kernel, 0, sizeof(kernel));
	kernel.setup_limit = DEPTH;
	if (!f || fd < 0 || ftruncate(fd, BLOCKS * BLOCK) ||
	    device_open_file(fd, 0, 0, BLOCK, false, &f->dev, &err))
		return -1;
	f->dev->align = 1; /* whatever this file system says: short transfers stop anywhere */
	f->buf = device_buffer(BLOCKS * BLOCK);
	*state = f;
	return f->buf ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	device_close(f->dev);
	free(f->buf);
	free(f);
	return kernel.destroyed != kernel.made;
}

static void fill(struct fixture *f, enum device_op op)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		f->reqs[i] = (struct device_request){
			.op = op, .offset = i * BLOCK, .len = BLOCK, .buf = f->buf + i * BLOCK
		};
		memset(f->reqs[i].buf, op == DEVICE_WRITE ? (int)(i * 7 + 1) : 0, BLOCK);
	}
}

static void check_pattern(const struct fixture *f)
{
	for (size_t i = 0; i < (size_t)BLOCKS * BLOCK; i++)
		if (f->buf[i] != (unsigned char)(i / BLOCK * 7 + 1))
			fail_msg("byte %zu differs", i);
}

/* Writes and reads back everything. */
static void run_all(struct fixture *f)
{
	struct error err = ERROR_INIT;

	fill(f, DEVICE_WRITE);
	assert_int_equal(device_run(f->dev, DEPTH, f->reqs, BLOCKS, &err), 0);
	fill(f, DEVICE_READ);
	assert_int_equal(device_run(f->dev, DEPTH, f->reqs, BLOCKS, &err), 0);
	check_pattern(f);
	assert_int_equal(kernel.held_n, 0);
}

static void test_aio__well_behaved_kernel(void **state)
{
	run_all(*state);
	assert_int_equal(kernel.kernel_transfers, 2 * BLOCKS);
	assert_int_equal(kernel.made, 1); /* the queue of the first run is used again */
	assert_int_equal(kernel.destroyed, 0);
}

static void test_aio__partial_refused_interrupted_and_short(void **state)
{
	struct fixture *f = *state;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		kernel.seed = seed;
		run_all(f);
	}
}

static void test_aio__short_transfers_on_an_aligned_device(void **state)
{
	struct fixture *f = *state;

	f->dev->align = 512;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct error err = ERROR_INIT;
		size_t done = 0;

		/* A kernel that stops within the first sector leaves no progress: EIO then. */
		kernel.seed = seed;
		fill(f, DEVICE_WRITE);
		if (device_run(f->dev, DEPTH, f->reqs, BLOCKS, &err))
			assert_int_equal(err.sys, EIO);
		for (size_t i = 0; i < BLOCKS; i++)
			done += f->reqs[i].done == BLOCK;
		assert_true(done > 0);
		assert_int_equal(kernel.held_n, 0);
	}
}

static void test_aio__refused_request_is_its_own_result(void **state)
{
	struct fixture *f = *state;
	struct device_request *list[DEPTH];
	struct error err = ERROR_INIT;
	struct device_queue *q;
	size_t n, failed = 0;

	for (int nth = 1; nth <= DEPTH; nth++) {
		fill(f, DEVICE_WRITE);
		kernel.seen = 0;
		kernel.fail_after = nth;
		for (size_t i = 0; i < DEPTH; i++)
			list[i] = &f->reqs[i];
		assert_int_equal(device_queue_open(f->dev, DEPTH, &q, &err), 0);
		assert_int_equal(device_queue_submit(q, list, DEPTH, &err), 0);
		assert_int_equal(device_queue_wait(q, DEPTH, DEPTH, list, &n, &err), 0);
		assert_int_equal(n, DEPTH);
		for (int i = 0; i < DEPTH; i++)
			assert_int_equal(f->reqs[i].result, i == nth - 1 ? EINVAL : 0);
		failed++;
		device_queue_close(q);
	}
	assert_int_equal(failed, DEPTH);
}

static void test_aio__fewer_requests_than_asked_for(void **state)
{
	struct fixture *f = *state;
	struct device_queue *q;
	struct error err = ERROR_INIT;

	kernel.setup_limit = 3;
	assert_int_equal(device_queue_open(f->dev, DEPTH, &q, &err), 0);
	assert_int_equal(q->depth, 2);
	device_queue_close(q);
	run_all(f);
	assert_int_equal(kernel.made - kernel.destroyed, 1); /* they do not pile up */
}

static void test_aio__no_context_works_synchronously(void **state)
{
	struct fixture *f = *state;

	for (int limit = -1; limit <= 0; limit++) {
		kernel.setup_limit = limit;
		run_all(f);
	}
	assert_int_equal(kernel.kernel_transfers, 0);
	assert_int_equal(kernel.destroyed, 0);
}

static void test_aio__close_with_requests_in_flight(void **state)
{
	struct fixture *f = *state;
	struct device_request *r = &f->reqs[0];
	struct device_queue *q;
	struct error err = ERROR_INIT;

	fill(f, DEVICE_WRITE);
	assert_int_equal(device_queue_open(f->dev, DEPTH, &q, &err), 0);
	assert_int_equal(device_queue_submit(q, &r, 1, &err), 0);
	device_queue_close(q);
	assert_int_equal(kernel.held_n, 0);
	assert_int_equal(kernel.kernel_transfers, 1);
	run_all(f);
	assert_int_equal(kernel.made, 1);
}

static void test_aio__queues_at_once_have_contexts_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct device_queue *a, *b, *c;
	struct error err = ERROR_INIT;

	kernel.setup_limit = 1000;
	assert_int_equal(device_queue_open(f->dev, 4, &a, &err), 0);
	assert_int_equal(device_queue_open(f->dev, 4, &b, &err), 0);
	device_queue_close(a);
	assert_int_equal(device_queue_open(f->dev, 100, &c, &err), 0);
	assert_int_equal(kernel.made, 3);
	assert_int_equal(c->depth, 100);
	device_queue_close(b);
	device_queue_close(c);
	assert_int_equal(device_queue_open(f->dev, 7, &a, &err), 0);
	assert_int_equal(a->depth, 7);
	assert_int_equal(device_queue_room(a), 7);
	assert_int_equal(kernel.made, 3);
	device_queue_close(a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_aio__well_behaved_kernel),
		TEST(test_aio__partial_refused_interrupted_and_short),
		TEST(test_aio__short_transfers_on_an_aligned_device),
		TEST(test_aio__refused_request_is_its_own_result),
		TEST(test_aio__fewer_requests_than_asked_for),
		TEST(test_aio__no_context_works_synchronously),
		TEST(test_aio__close_with_requests_in_flight),
		TEST(test_aio__queues_at_once_have_contexts_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
