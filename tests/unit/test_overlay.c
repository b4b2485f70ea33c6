/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/overlay.h"
#include "support/faultdev.h"
#include "support/memdev.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BS     1024
#define BLOCKS 200

struct fixture {
	unsigned char disk[BLOCKS * BS + 300]; /* its last block is cut off */
	unsigned char before[BLOCKS * BS + 300];
	struct faultdev *fd;
	struct device *real, *dev;
	struct overlay *ov;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err = ERROR_INIT;

	if (!f)
		return -1;
	for (size_t i = 0; i < sizeof(f->disk); i++)
		f->disk[i] = (unsigned char)(i * 31 + i / BS);
	memcpy(f->before, f->disk, sizeof(f->disk));
	f->fd = faultdev_new();
	faultdev_wrap(f->fd, memdev_new(f->disk, sizeof(f->disk), 512), &f->real, &err);
	if (overlay_new(f->real, BS, &f->ov, &err))
		return -1;
	f->dev = overlay_device(f->ov);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int changed = memcmp(f->disk, f->before, sizeof(f->disk));

	overlay_free(f->ov);
	device_close(f->real);
	faultdev_free(f->fd);
	free(f);
	return changed; /* nothing may reach the disk, whatever a test does */
}

static void put(struct fixture *f, const void *buf, uint64_t offset, size_t len)
{
	struct error err = ERROR_INIT;

	assert_int_equal(device_write(f->dev, buf, offset, len, &err), 0);
}

static void expect(struct fixture *f, const void *want, uint64_t offset, size_t len)
{
	struct error err = ERROR_INIT;
	unsigned char *buf = malloc(len);

	assert_non_null(buf);
	assert_int_equal(device_read(f->dev, buf, offset, len, &err), 0);
	assert_memory_equal(buf, want, len);
	free(buf);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static void test_overlay__random_bytes_match_a_model(void **state)
{
	struct fixture *f = *state;
	const size_t size = sizeof(f->disk);
	unsigned char *model = malloc(size), junk[5000];
	bool dirty[BLOCKS + 1] = { 0 };
	uint64_t random = 7, at = 0, block;
	size_t n = 0;
	const void *data;

	assert_non_null(model);
	memcpy(model, f->disk, size);
	for (int i = 0; i < 2000; i++) {
		uint64_t offset = next_random(&random) % size;
		size_t len = 1 + next_random(&random) % sizeof(junk);

		if (len > size - offset)
			len = size - offset;
		if (i % 3 == 0) {
			expect(f, model + offset, offset, len);
			continue;
		}
		if (offset > size / 2) /* leave some blocks clean */
			continue;
		memset(junk, (int)random, len);
		put(f, junk, offset, len);
		memcpy(model + offset, junk, len);
		for (uint64_t b = offset / BS; b <= (offset + len - 1) / BS; b++)
			dirty[b] = true;
	}
	expect(f, model, 0, size);
	for (; overlay_dirty_next(f->ov, at, &block, &data); at = block + 1) {
		for (; at < block; at++)
			assert_false(dirty[at]);
		assert_true(dirty[block]);
		assert_memory_equal(data, model + block * BS, BS);
		n++;
	}
	assert_int_equal(n, overlay_dirty_count(f->ov));
	free(model);
}

static void test_overlay__flush_does_nothing(void **state)
{
	struct fixture *f = *state;
	struct error err = ERROR_INIT;

	put(f, "abc", 5, 3);
	assert_int_equal(device_flush(f->dev, &err), 0);
	assert_int_equal(faultdev_count(f->fd, FAULT_FLUSH), 0);
	assert_int_equal(faultdev_count(f->fd, FAULT_WRITE), 0);
}

static void test_overlay__caches_what_it_read(void **state)
{
	struct fixture *f = *state;

	expect(f, f->disk + 3 * BS + 10, 3 * BS + 10, 20);
	expect(f, f->disk + 3 * BS + 90, 3 * BS + 90, 20);
	assert_int_equal(faultdev_count(f->fd, FAULT_READ), 1);
	expect(f, f->disk, 0, 8 * BS); /* 0-2 and 4-7 */
	assert_int_equal(faultdev_count(f->fd, FAULT_READ), 3);
}

static void test_overlay__whole_block_write_reads_nothing(void **state)
{
	struct fixture *f = *state;
	unsigned char block[2 * BS];

	memset(block, 0x5a, sizeof(block));
	put(f, block, 8 * BS, sizeof(block));
	assert_int_equal(faultdev_count(f->fd, FAULT_READ), 0);
	assert_int_equal(overlay_dirty_count(f->ov), 2);
	assert_int_equal(overlay_updates(f->ov), 2);
	put(f, block, 8 * BS + 100, 10);
	assert_int_equal(overlay_dirty_count(f->ov), 2);
	assert_int_equal(overlay_updates(f->ov), 3);
}

static void test_overlay__failed_read_leaves_the_block_clean(void **state)
{
	struct fixture *f = *state;
	struct error err = ERROR_INIT;
	unsigned char buf[3 * BS];

	faultdev_set(f->fd,
		     (struct fault_plan){ .bad_op = FAULT_READ, .bad_from = 9 * BS, .bad_len = 1 });
	assert_int_equal(device_write(f->dev, "x", 9 * BS + 1, 1, &err), -1);
	assert_int_equal(err.sys, EIO);
	assert_int_equal(device_read(f->dev, buf, 8 * BS, sizeof(buf), &err), -1);
	assert_int_equal(overlay_dirty_count(f->ov), 0);
	faultdev_set(f->fd, (struct fault_plan){ 0 });
	expect(f, f->disk + 8 * BS, 8 * BS, 3 * BS);
}

static void test_overlay_prefetch__adjoining_blocks_in_one_request(void **state)
{
	const uint64_t blocks[] = { 2, 3, 4, 10, 11, 50, BLOCKS, BLOCKS + 1, UINT64_MAX };
	struct fixture *f = *state;
	struct error err = ERROR_INIT;

	put(f, "x", 3 * BS, 1); /* one read; 3 must stay as written */
	assert_int_equal(overlay_prefetch(f->ov, blocks, 9, 4, &err), 0);
	assert_int_equal(faultdev_count(f->fd, FAULT_READ), 5); /* 3, 2, 4, 10-11, 50 */
	expect(f, "x", 3 * BS, 1);
	expect(f, f->disk + 10 * BS, 10 * BS, 2 * BS);
	expect(f, f->disk + 50 * BS, 50 * BS, BS);
	assert_int_equal(faultdev_count(f->fd, FAULT_READ), 5);
	assert_int_equal(overlay_prefetch(f->ov, blocks, 0, 4, &err), 0);
}

static void test_overlay_prefetch__failure(void **state)
{
	const uint64_t blocks[] = { 2, 3, 4, 10 };
	struct fixture *f = *state;
	struct error err = ERROR_INIT;

	for (uint64_t n = 1; n <= 2; n++) {
		faultdev_set(f->fd, (struct fault_plan){ .op = FAULT_READ, .nth = n });
		assert_int_equal(overlay_prefetch(f->ov, blocks, 4, 4, &err), -1);
		assert_int_equal(err.sys, EIO);
	}
	faultdev_set(f->fd, (struct fault_plan){ .op = FAULT_SUBMIT, .nth = 1, .sys = EAGAIN });
	assert_int_equal(overlay_prefetch(f->ov, blocks, 4, 4, &err), -1);
	assert_int_equal(overlay_prefetch(f->ov, blocks, 4, 4, &err), 0);
	expect(f, f->disk + 2 * BS, 2 * BS, 3 * BS);
}

static void test_overlay_forget__block_shows_the_disk_again(void **state)
{
	struct fixture *f = *state;
	unsigned char block[BS];
	const void *data;
	uint64_t b;

	memset(block, 1, sizeof(block));
	for (uint64_t i = 40; i-- > 20;)
		put(f, block, i * BS, BS);
	for (uint64_t i = 20; i < 39; i++) {
		overlay_forget(f->ov, i);
		overlay_forget(f->ov, i); /* twice is fine */
		assert_int_equal(overlay_dirty_count(f->ov), 39 - i);
		assert_true(overlay_dirty_next(f->ov, 0, &b, &data));
		assert_int_equal(b, i + 1);
	}
	expect(f, f->disk + 20 * BS, 20 * BS, 19 * BS);
	put(f, block, 25 * BS, BS); /* dirty anew where a hole was */
	assert_true(overlay_dirty_next(f->ov, 21, &b, &data));
	assert_int_equal(b, 25);
	assert_true(overlay_dirty_next(f->ov, 26, &b, &data));
	assert_int_equal(b, 39);
	assert_false(overlay_dirty_next(f->ov, 40, &b, &data));
}

static void test_overlay_reset__drops_everything(void **state)
{
	struct fixture *f = *state;
	const void *data;
	uint64_t b;

	put(f, "abc", 5000, 3);
	overlay_reset(f->ov);
	assert_int_equal(overlay_dirty_count(f->ov), 0);
	assert_false(overlay_dirty_next(f->ov, 0, &b, &data));
	expect(f, f->disk, 0, sizeof(f->disk));
	put(f, "abc", 5000, 3);
	assert_int_equal(overlay_dirty_count(f->ov), 1);
}

static void test_overlay__queue_is_not_supported(void **state)
{
	struct fixture *f = *state;
	struct device_queue *q;
	struct error err = ERROR_INIT;

	assert_int_equal(device_queue_open(f->dev, 4, &q, &err), -1);
	assert_int_equal(err.sys, ENOTSUP);
}

static void test_overlay_dirty_next__many_blocks_forgotten_and_written_in_turn(void **state)
{
	struct fixture *f = *state;
	bool dirty[BLOCKS] = { 0 };
	unsigned char block[BS] = { 0 };
	uint64_t random = 3;

	for (int i = 0; i < 3000; i++) {
		uint64_t b = next_random(&random) % BLOCKS, from = next_random(&random) % BLOCKS;
		uint64_t got, want = from;
		const void *data;
		bool any;

		if (next_random(&random) % 2) {
			put(f, block, b * BS, BS);
			dirty[b] = true;
		} else {
			overlay_forget(f->ov, b);
			dirty[b] = false;
		}
		while (want < BLOCKS && !dirty[want])
			want++;
		any = overlay_dirty_next(f->ov, from, &got, &data);
		assert_int_equal(any, want < BLOCKS);
		if (any)
			assert_int_equal(got, want);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_overlay__random_bytes_match_a_model),
		TEST(test_overlay__flush_does_nothing),
		TEST(test_overlay__caches_what_it_read),
		TEST(test_overlay__whole_block_write_reads_nothing),
		TEST(test_overlay__failed_read_leaves_the_block_clean),
		TEST(test_overlay_prefetch__adjoining_blocks_in_one_request),
		TEST(test_overlay_prefetch__failure),
		TEST(test_overlay_forget__block_shows_the_disk_again),
		TEST(test_overlay_reset__drops_everything),
		TEST(test_overlay__queue_is_not_supported),
		TEST(test_overlay_dirty_next__many_blocks_forgotten_and_written_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
