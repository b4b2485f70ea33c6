/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/device.h"
#include "support/faultdev.h"
#include "support/memdev.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE  ((size_t)3 << 20)
#define BASE  ((size_t)1 << 20)
#define BLOCK 4096
#define DEPTH 16

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

/* A file of `size` bytes, already unlinked, in the named place. */
static int temp_file(const char *place, size_t size)
{
	char dir[64], path[80];
	int fd;

	snprintf(dir, sizeof(dir), "%s/test_device.XXXXXX", place);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/image", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static struct device *open_file(int fd, uint64_t base, uint64_t size, uint32_t block_size)
{
	struct device *dev;
	struct error err = ERROR_INIT;

	assert_int_equal(device_open_file(fd, base, size, block_size, false, &dev, &err), 0);
	return dev;
}

/* ---- wrappers ---- */

static void check_refused(struct device *dev, uint64_t offset, size_t len)
{
	unsigned char buf[512];
	struct error err = ERROR_INIT;

	assert_int_equal(device_read(dev, buf, offset, len, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	assert_int_equal(err.kind, ERROR_OPERATION);
	assert_int_equal(device_write(dev, buf, offset, len, &err), -1);
	assert_int_equal(err.sys, EINVAL);
}

static void test_device_read__out_of_bounds(void **state)
{
	unsigned char disk[8192], buf[512];
	struct device *dev = memdev_new(disk, sizeof(disk), 1);
	struct error err = ERROR_INIT;

	(void)state;
	check_refused(dev, 8192, 1);
	check_refused(dev, 8191, 2);
	check_refused(dev, 0, 8193);
	check_refused(dev, UINT64_MAX, 1);
	check_refused(dev, UINT64_MAX - 510, 512);
	check_refused(dev, 1, SIZE_MAX);
	assert_int_equal(device_read(dev, buf, 8192 - 512, 512, &err), 0);
	assert_int_equal(device_read(dev, buf, 8192, 0, &err), 0);
	assert_int_equal(dev->count.reads, 1);
	assert_int_equal(dev->count.writes, 0);
	device_close(dev);
	device_close(NULL);
}

static void test_device_write__read_only(void **state)
{
	unsigned char disk[4096] = { 0 };
	struct device *dev = memdev_new(disk, sizeof(disk), 1);
	struct device_request req = { .op = DEVICE_WRITE, .len = 512, .buf = disk };
	struct error err = ERROR_INIT;

	(void)state;
	dev->read_only = true;
	assert_int_equal(device_write(dev, "x", 0, 1, &err), -1);
	assert_int_equal(err.sys, EROFS);
	assert_int_equal(device_run(dev, 2, &req, 1, &err), -1);
	assert_int_equal(err.sys, EROFS);
	assert_int_equal(device_flush(dev, &err), 0);
	device_close(dev);
}

/* I12 */
static void test_device_flush__failed_once_kills_the_device(void **state)
{
	unsigned char disk[4096] = { 0 };
	struct faultdev *fd = faultdev_new();
	struct device_request req = { .op = DEVICE_WRITE, .len = 512, .buf = disk };
	struct device *dev;
	struct error err = ERROR_INIT;
	char c;

	(void)state;
	faultdev_wrap(fd, memdev_new(disk, sizeof(disk), 1), &dev, &err);
	faultdev_set(fd, (struct fault_plan){ .op = FAULT_FLUSH, .nth = 2, .sys = ENOSPC });
	assert_int_equal(device_flush(dev, &err), 0);
	assert_int_equal(device_flush(dev, &err), -1);
	assert_int_equal(err.sys, ENOSPC);
	assert_non_null(strstr(err.text, "flush"));
	assert_int_equal(device_flush(dev, &err), -1);
	assert_int_equal(device_write(dev, "x", 0, 1, &err), -1);
	assert_int_equal(device_run(dev, 1, &req, 1, &err), -1);
	assert_int_equal(device_read(dev, &c, 0, 1, &err), 0);
	assert_int_equal(faultdev_count(fd, FAULT_FLUSH), 2);
	assert_int_equal(faultdev_count(fd, FAULT_WRITE), 0);
	device_close(dev);
	faultdev_free(fd);
}

static void test_device_queue_submit__refusals(void **state)
{
	unsigned char *disk = device_buffer(8192);
	struct device *dev = memdev_new(disk, 8192, 512);
	struct device_request r[3] = { { .op = DEVICE_READ, .len = 512, .buf = disk },
				       { .op = DEVICE_READ, .len = 512, .buf = disk },
				       { .op = DEVICE_READ, .len = 512, .buf = disk } };
	struct device_request *list[3] = { &r[0], &r[1], &r[2] };
	struct device_queue *q;
	struct error err = ERROR_INIT;
	size_t n = 0;

	(void)state;
	assert_int_equal(device_queue_open(dev, 0, &q, &err), -1);
	assert_int_equal(device_queue_open(dev, 2, &q, &err), 0);
	assert_int_equal(device_queue_submit(q, list, 3, &err), -1);
	r[1].offset = 100;
	assert_int_equal(device_queue_submit(q, list, 2, &err), -1);
	r[1].offset = 8192;
	assert_int_equal(device_queue_submit(q, list, 2, &err), -1);
	r[1].offset = 512;
	r[1].buf = disk + 1;
	assert_int_equal(device_queue_submit(q, list, 2, &err), -1);
	assert_int_equal(device_queue_room(q), 2);
	assert_int_equal(device_queue_submit(q, list, 1, &err), 0);
	assert_int_equal(device_queue_room(q), 1);
	assert_int_equal(device_queue_wait(q, 2, 2, list, &n, &err), -1);
	assert_int_equal(device_queue_wait(q, 1, 2, list, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_ptr_equal(list[0], &r[0]);
	device_queue_close(q);
	device_queue_close(NULL);
	device_close(dev);
	free(disk);
}

/* ---- devices against a model ---- */

static void random_synchronous(struct device *dev, unsigned char *model, uint64_t seed)
{
	unsigned char *buf = device_buffer(SIZE + 4096);
	struct error err = ERROR_INIT;

	assert_non_null(buf);
	for (int i = 0; i < 150; i++) {
		uint64_t offset = next_random(&seed) % dev->size;
		size_t len = 1 + next_random(&seed) % (i % 10 ? 20000 : 2000000);
		unsigned char *at = buf + (i % 2 ? next_random(&seed) % 600 : 0);

		if (i % 3 == 0) {
			offset -= offset % dev->align;
			len += dev->align - len % dev->align;
		}
		if (len > dev->size - offset)
			len = (size_t)(dev->size - offset);
		if (i % 3 == 0 && len % dev->align == 0) {
			memset(at, (int)next_random(&seed), len);
			memcpy(model + offset, at, len);
			assert_int_equal(device_write(dev, at, offset, len, &err), 0);
		} else {
			assert_int_equal(device_read(dev, at, offset, len, &err), 0);
			assert_memory_equal(at, model + offset, len);
		}
	}
	assert_int_equal(device_flush(dev, &err), 0);
	free(buf);
}

/* Requests in flight must not overlap: each slot keeps to its own stripe of the device. */
static void prepare(struct device_request *r, size_t slot, size_t size, unsigned char *model,
		    uint64_t *seed)
{
	size_t stripe = size / DEPTH / BLOCK * BLOCK;
	size_t len = BLOCK * (1 + next_random(seed) % 4);

	r->op = next_random(seed) % 2 ? DEVICE_WRITE : DEVICE_READ;
	r->offset = slot * stripe + next_random(seed) % (stripe - len) / BLOCK * BLOCK;
	r->len = len;
	r->owner = model + r->offset;
	if (r->op == DEVICE_WRITE) {
		memset(r->buf, (int)next_random(seed), len);
		memcpy(r->owner, r->buf, len);
	}
}

static void random_queued(struct device *dev, unsigned char *model, uint64_t seed)
{
	struct device_request reqs[DEPTH] = { 0 }, *list[DEPTH];
	struct error err = ERROR_INIT;
	struct device_queue *q;
	size_t n = DEPTH, total = 0;

	assert_int_equal(device_queue_open(dev, DEPTH, &q, &err), 0);
	assert_int_equal(q->depth, DEPTH);
	for (size_t i = 0; i < DEPTH; i++) {
		reqs[i].buf = device_buffer(4 * BLOCK);
		assert_non_null(reqs[i].buf);
		list[i] = &reqs[i];
	}
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < n; i++)
			prepare(list[i], (size_t)(list[i] - reqs), dev->size, model, &seed);
		assert_int_equal(device_queue_submit(q, list, n, &err), 0);
		total += n;
		assert_int_equal(device_queue_room(q), 0);
		assert_int_equal(
			device_queue_wait(q, 1 + next_random(&seed) % 4, DEPTH, list, &n, &err), 0);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(list[i]->result, 0);
			assert_int_equal(list[i]->done, list[i]->len);
			assert_memory_equal(list[i]->buf, list[i]->owner, list[i]->len);
		}
	}
	device_queue_close(q); /* with requests in flight */
	assert_true(dev->count.reads + dev->count.writes >= total);
	for (size_t i = 0; i < DEPTH; i++)
		free(reqs[i].buf);
}

/* Synchronous and queued requests on `dev` against a model in memory. */
static void exercise(struct device *dev, uint64_t seed)
{
	unsigned char *model = device_buffer((size_t)dev->size);
	struct error err = ERROR_INIT;

	assert_non_null(model);
	assert_int_equal(device_read(dev, model, 0, (size_t)dev->size, &err), 0);
	random_synchronous(dev, model, seed);
	random_queued(dev, model, seed);
	random_synchronous(dev, model, seed + 1);
	free(model);
}

static void test_device_open_file__random_requests_match_a_model(void **state)
{
	const char *places[] = { "/var/tmp", "/tmp", "/dev/shm" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct device *dev;

		if (access(places[i], W_OK))
			continue;
		dev = open_file(temp_file(places[i], SIZE + BASE + 700), BASE, 0, BLOCK);
		assert_int_equal(dev->size, SIZE + 700);
		assert_int_equal(dev->direct ? dev->align > 1 : dev->align, 1);
		exercise(dev, i + 1);
		device_close(dev);
		/* Starts at sector 63, as old partitions do: buffered where 4096 is needed. */
		dev = open_file(temp_file(places[i], SIZE), 32256, SIZE - 40000, 1024);
		assert_int_equal(dev->size, SIZE - 40000);
		assert_true(!dev->direct || dev->align <= 512);
		exercise(dev, i + 10);
		device_close(dev);
	}
}

static void test_memdev__random_requests_match_a_model(void **state)
{
	unsigned char *disk = device_buffer(SIZE);

	(void)state;
	assert_non_null(disk);
	memset(disk, 3, SIZE);
	for (uint64_t seed = 0; seed < 4; seed++) {
		struct device *dev = memdev_new(disk, SIZE, seed % 2 ? 512 : 1);

		memdev_shuffle(dev, seed);
		exercise(dev, seed);
		device_close(dev);
	}
	free(disk);
}

/* ---- the file device ---- */

static void test_device_open_file__sizes(void **state)
{
	int fd = temp_file("/dev/shm", 10000), pipes[2];
	struct device *dev;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(device_open_file(fd, 0, 10001, 1024, false, &dev, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_int_equal(device_open_file(fd, 10000, 0, 1024, false, &dev, &err), -1);
	assert_int_equal(device_open_file(fd, UINT64_MAX, 2, 1024, false, &dev, &err), -1);
	assert_int_equal(device_open_file(fd, 4096, UINT64_MAX, 1024, false, &dev, &err), -1);
	dev = open_file(fd, 4096, 5904, 1024);
	assert_int_equal(dev->size, 5904);
	assert_int_equal(dev->sector, 512);
	device_close(dev);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(device_open_file(pipes[0], 0, 0, 1024, false, &dev, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_device_write__unaligned_is_refused_when_direct(void **state)
{
	struct device *dev = open_file(temp_file("/var/tmp", SIZE), 0, 0, BLOCK);
	struct error err = ERROR_INIT;

	(void)state;
	if (!dev->direct) {
		device_close(dev);
		skip();
	}
	assert_int_equal(device_write(dev, "x", 0, 1, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	assert_int_equal(device_write(dev, "x", 1, BLOCK, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	device_close(dev);
}

static void test_device_read__truncated_under_our_feet(void **state)
{
	const char *places[] = { "/var/tmp", "/dev/shm" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		int fd = temp_file(places[i], SIZE);
		struct device *dev = open_file(fd, 0, 0, BLOCK);
		unsigned char *buf = device_buffer(2 * BLOCK);
		struct device_request r = {
			.op = DEVICE_READ, .offset = SIZE / 2 - BLOCK, .len = 2 * BLOCK, .buf = buf
		};
		struct error err = ERROR_INIT;

		assert_int_equal(ftruncate(fd, SIZE / 2), 0);
		assert_int_equal(device_read(dev, buf, SIZE / 2 - BLOCK, 2 * BLOCK, &err), -1);
		assert_int_equal(err.sys, EIO);
		assert_int_equal(device_read(dev, buf, SIZE / 2 + 1, 7, &err), -1);
		assert_int_equal(err.sys, EIO);
		assert_int_equal(device_run(dev, 4, &r, 1, &err), -1);
		assert_int_equal(err.sys, EIO);
		device_close(dev);
		free(buf);
	}
}

struct worker {
	pthread_t thread;
	struct device *dev;
	unsigned char fill;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned char *buf = device_buffer(BLOCK), *back = device_buffer(BLOCK);
	struct error err = ERROR_INIT;
	bool good = buf && back;

	for (uint64_t i = 0; good && i < 50; i++) {
		uint64_t offset = (i * 4 + w->fill) * BLOCK;

		memset(buf, w->fill, BLOCK);
		good = !device_write(w->dev, buf, offset, BLOCK, &err) &&
		       !device_read(w->dev, back, offset, BLOCK, &err) && !memcmp(buf, back, BLOCK);
	}
	free(buf);
	free(back);
	return good ? w : NULL;
}

static void test_device__threads_share_it(void **state)
{
	struct device *dev = open_file(temp_file("/dev/shm", SIZE), 0, 0, BLOCK);
	struct worker w[4];
	void *result;

	(void)state;
	for (unsigned char i = 0; i < 4; i++) {
		w[i] = (struct worker){ .dev = dev, .fill = i };
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(w[i].thread, &result), 0);
		assert_non_null(result);
	}
	assert_int_equal(dev->count.writes, 200);
	assert_int_equal(dev->count.read_bytes, 200 * BLOCK);
	device_close(dev);
}

static void test_device_reserve__fills_holes(void **state)
{
	int fd = temp_file("/tmp", SIZE), watch = dup(fd);
	struct device *dev = open_file(fd, 0, 0, BLOCK);
	unsigned char buf[BLOCK], zero[BLOCK] = { 0 };
	struct error err = ERROR_INIT;
	struct stat st;

	(void)state;
	assert_int_equal(device_reserve(dev, 10 * BLOCK, 4 * BLOCK, &err), 0);
	assert_int_equal(fstat(watch, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	/* Where the file system below can't do it, it does nothing. */
	assert_true(st.st_blocks == 0 || st.st_blocks * 512 >= 4 * BLOCK);
	assert_int_equal(device_read(dev, buf, 11 * BLOCK, BLOCK, &err), 0);
	assert_memory_equal(buf, zero, BLOCK);
	assert_int_equal(device_reserve(dev, SIZE, 1, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	device_close(dev);
	close(watch);
}

static void test_device_discard__makes_holes(void **state)
{
	int fd = temp_file("/dev/shm", BASE + SIZE), copy;
	unsigned char buf[BLOCK], old[BLOCK];
	struct error err = ERROR_INIT;
	struct stat before, after;
	struct device *dev;

	(void)state;
	memset(old, 0xa5, sizeof(old));
	for (size_t at = 0; at < BASE + SIZE; at += BLOCK)
		assert_int_equal(pwrite(fd, old, BLOCK, (off_t)at), BLOCK);
	copy = dup(fd);
	assert_int_equal(fstat(copy, &before), 0);
	dev = open_file(fd, BASE, SIZE, BLOCK);
	assert_false(dev->sparse);
	assert_int_equal(device_discard(dev, 3 * BLOCK, 5 * BLOCK, &err), 0);
	assert_int_equal(fstat(copy, &after), 0);
	assert_int_equal(after.st_blocks, before.st_blocks - 5 * BLOCK / 512);
	assert_int_equal(after.st_size, before.st_size);
	for (size_t i = 0; i < SIZE / BLOCK; i++) {
		assert_int_equal(device_read(dev, buf, i * BLOCK, BLOCK, &err), 0);
		assert_int_equal(buf[0], i >= 3 && i < 8 ? 0 : 0xa5);
		assert_int_equal(buf[BLOCK - 1], i >= 3 && i < 8 ? 0 : 0xa5);
	}
	assert_int_equal(device_discard(dev, 0, 0, &err), 0);
	assert_int_equal(device_discard(dev, SIZE, BLOCK, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	assert_int_equal(device_discard(dev, BLOCK, UINT64_MAX, &err), -1);
	assert_int_equal(err.sys, EINVAL);
	assert_int_equal(dev->count.discards, 1);
	assert_int_equal(dev->count.discard_bytes, 5 * BLOCK);
	device_close(dev);
	assert_int_equal(device_open_file(copy, BASE, SIZE, BLOCK, false, &dev, &err), 0);
	assert_true(dev->sparse);
	device_close(dev);
}

static void test_device_discard__refusals(void **state)
{
	static const struct device_ops none = { .read = NULL };
	struct device bare = { .ops = &none, .size = SIZE, .align = 1 };
	unsigned char disk[2 * BLOCK] = { 0 };
	struct faultdev *fd = faultdev_new();
	struct error err = ERROR_INIT;
	struct device *dev;

	(void)state;
	assert_int_equal(device_discard(&bare, 0, BLOCK, &err), -1);
	assert_int_equal(err.sys, EOPNOTSUPP);
	faultdev_wrap(fd, memdev_new(disk, sizeof(disk), 1), &dev, &err);
	assert_int_equal(device_discard(dev, BLOCK, BLOCK, &err), 0);
	assert_int_equal(disk[BLOCK - 1], 0);
	assert_int_equal(disk[BLOCK], MEMDEV_DISCARDED);
	faultdev_set(fd, (struct fault_plan){ .op = FAULT_DISCARD, .nth = 1 });
	assert_int_equal(device_discard(dev, 0, BLOCK, &err), -1);
	assert_int_equal(err.sys, EIO);
	assert_non_null(strstr(err.text, "cannot discard 4096 bytes at byte 0"));
	assert_int_equal(disk[0], 0);
	faultdev_set(fd, (struct fault_plan){ .op = FAULT_FLUSH, .nth = 1 });
	assert_int_equal(device_flush(dev, &err), -1);
	assert_int_equal(device_discard(dev, 0, BLOCK, &err), -1); /* I12 */
	assert_int_equal(disk[0], 0);
	device_close(dev);
	faultdev_free(fd);
	dev = memdev_new(disk, sizeof(disk), 1);
	dev->read_only = true;
	assert_int_equal(device_discard(dev, 0, BLOCK, &err), -1);
	assert_int_equal(err.sys, EROFS);
	device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_read__out_of_bounds),
		cmocka_unit_test(test_device_write__read_only),
		cmocka_unit_test(test_device_flush__failed_once_kills_the_device),
		cmocka_unit_test(test_device_queue_submit__refusals),
		cmocka_unit_test(test_device_open_file__random_requests_match_a_model),
		cmocka_unit_test(test_memdev__random_requests_match_a_model),
		cmocka_unit_test(test_device_open_file__sizes),
		cmocka_unit_test(test_device_write__unaligned_is_refused_when_direct),
		cmocka_unit_test(test_device_read__truncated_under_our_feet),
		cmocka_unit_test(test_device__threads_share_it),
		cmocka_unit_test(test_device_reserve__fills_holes),
		cmocka_unit_test(test_device_discard__makes_holes),
		cmocka_unit_test(test_device_discard__refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
