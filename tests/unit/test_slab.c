/* SPDX-License-Identifier: GPL-2.0-or-later */
/* slab: sizes, alignment to the disk, and the disk's own units. What sysfs says: test_volume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/slab.c"
#include <string.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

static const struct geometry geo = { .block_size = 4096,
				     .cluster_blocks = 1,
				     .blocks = 25600 }; /* 100 MiB */

static void check(uint64_t wish, struct volume_place place, uint64_t blocks, uint64_t offset)
{
	struct planner_options po = { .mode = PLAN_FREE };
	struct error err;

	assert_int_equal(slab_choose(wish, &place, &geo, "x", &po, &err), 0);
	assert_int_equal(po.slab_blocks, blocks);
	assert_int_equal(po.slab_offset, offset);
}

static void refused(uint64_t wish, struct volume_place place, const char *words)
{
	struct planner_options po = { .mode = PLAN_FREE };
	struct error err;

	assert_int_equal(slab_choose(wish, &place, &geo, "x", &po, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_non_null(strstr(err.text, words));
}

static void aligned(struct volume_place place, uint64_t blocks, uint64_t offset)
{
	struct planner_options po = { .mode = PLAN_LAYOUT };

	slab_align(&place, &geo, &po);
	assert_int_equal(po.align_blocks, blocks);
	assert_int_equal(po.align_offset, offset);
}

static void test_slab_align__where_the_device_s_2_mib_begin(void **state)
{
	(void)state;
	aligned((struct volume_place){ .start = 0 }, 512, 0);
	aligned((struct volume_place){ .start = 4 * MIB }, 512, 0);
	aligned((struct volume_place){ .disk = true, .start = MIB }, 512, 256);
	aligned((struct volume_place){ .disk = true, .start = 63 * 512, .align = 7 * 512 }, 512,
		505);
	/* no block begins there */
	aligned((struct volume_place){ .disk = true, .start = 63 * 512 }, 0, 0);
}

static void test_slab_choose__asked_for(void **state)
{
	(void)state;
	check(0, (struct volume_place){ .disk = true, .unit = MIB }, 0, 0);
	check(MIB, (struct volume_place){ .start = 0 }, 256, 0);
	check(MIB, (struct volume_place){ .start = 3 * MIB }, 256, 0);
	/* the next slab begins where the disk's megabyte does */
	check(MIB, (struct volume_place){ .start = 3 * MIB + 64 * KIB }, 256, 240);
	check(4096, (struct volume_place){ .start = 512 * KIB }, 1, 0);
	/* a partition from sector 63 on, on a disk shifted by seven sectors */
	check(MIB, (struct volume_place){ .disk = true, .start = 63 * 512, .align = 7 * 512 }, 256,
	      249);
	refused(MIB, (struct volume_place){ .disk = true, .start = 63 * 512 }, "not aligned");
	refused(6 * KIB, (struct volume_place){ .start = 0 }, "block size, 4096");
	refused(1, (struct volume_place){ .start = 0 }, "block size");
}

static void test_slab_choose__the_disk_s_own(void **state)
{
	const uint64_t own = ENGINE_SLAB_DEVICE;

	(void)state;
	check(own, (struct volume_place){ .disk = true, .unit = MIB }, 256, 0);
	check(own, (struct volume_place){ .disk = true, .unit = MIB, .align = 8 * KIB }, 256, 2);
	check(own, (struct volume_place){ .disk = true, .unit = 64 * KIB, .start = 4096 }, 16, 15);
	/* never refused: then slabs don't count */
	check(own, (struct volume_place){ .disk = true }, 0, 0);
	check(own, (struct volume_place){ .disk = true, .unit = 4096 }, 0, 0);
	check(own, (struct volume_place){ .disk = true, .unit = 66 * KIB }, 0, 0);
	check(own, (struct volume_place){ .disk = true, .unit = 64 * MIB }, 0, 0);
	check(own, (struct volume_place){ .disk = true, .unit = MIB, .start = 63 * 512 }, 0, 0);
	/* I10: an image's plan does not depend on where it lies */
	check(own, (struct volume_place){ .unit = MIB }, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slab_align__where_the_device_s_2_mib_begin),
		cmocka_unit_test(test_slab_choose__asked_for),
		cmocka_unit_test(test_slab_choose__the_disk_s_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
