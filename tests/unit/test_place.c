/* SPDX-License-Identifier: GPL-2.0-or-later */
/* place: a journal whose map goes round and round is refused, at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/commit.h"
#include "support/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BS	1024u
#define ENTRIES 84u
#define NODES	5000u /* free blocks */

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)v;
	at[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *at, uint32_t v)
{
	put16(at, v);
	put16(at + 2, v >> 16);
}

static void put_header(uint8_t *at, uint32_t entries, uint32_t max, uint32_t depth)
{
	put16(at, 0xf30a);
	put16(at + 2, entries);
	put16(at + 4, max);
	put16(at + 6, depth);
}

/* All entries lead to the same block below. */
static void put_index(uint8_t *at, uint32_t entries, uint32_t depth, uint32_t below)
{
	put_header(at, entries, entries, depth);
	for (uint32_t i = 0; i < entries; i++)
		put32(at + 12 + 12 * i + 4, below);
}

static void test_place_journal__endless_map(void **state)
{
	char dir[] = "/dev/shm/test_place.XXXXXX", path[64];
	const struct commit_options co = { .queue_depth = 8 };
	struct volume_options vo = { .path = path };
	struct error err = ERROR_INIT;
	struct commit *c = NULL;
	struct volume *v = NULL;
	uint8_t buf[BS] = { 0 };
	struct image *im;
	uint64_t table, log;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/image", dir);
	image_mke2fs(path, 8u << 20, "^metadata_csum", "-b 1024 -N 256 -J size=1");
	im = image_open(path);
	table = image_inode_table(im);
	log = image_file_block(im, 8, 0);
	for (uint32_t level = 0; level < 5; level++)
		assert_true(image_is_free(im, NODES + level));
	image_close(im);

	for (uint32_t level = 1; level < 5; level++) {
		put_index(buf, ENTRIES, level, NODES + level - 1);
		image_write(path, (NODES + level) * BS, buf, BS);
	}
	memset(buf, 0, BS);
	put_header(buf, 1, ENTRIES, 0);
	put16(buf + 16, 1);
	put32(buf + 20, (uint32_t)log);
	image_write(path, NODES * BS, buf, BS);
	memset(buf, 0, BS);
	put_index(buf, 4, 5, NODES + 4);
	image_write(path, table * BS + 7 * 256 + 40, buf, 60);

	assert_int_equal(volume_open(&vo, &v, &err), 0);
	assert_int_equal(commit_open(v, &co, &c, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	volume_close(v);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place_journal__endless_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
