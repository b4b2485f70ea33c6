/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The crash judge's hash: what may differ without mattering, and what may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/image.h"
#include "support/inuse.h"
#include "support/recipes.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL	  8
#define SOME_FILE 13

struct parts {
	uint64_t size, block_size, data, free, log, jsb;
};

static void find_parts(const char *path, struct parts *p)
{
	struct image *im = image_open(path);
	p->block_size = image_block_size(im);
	p->size = image_blocks(im) * p->block_size;
	p->jsb = image_file_block(im, JOURNAL, 0) * p->block_size;
	p->log = image_file_block(im, JOURNAL, 1) * p->block_size;
	p->data = image_file_block(im, SOME_FILE, 0) * p->block_size;
	for (uint64_t b = image_blocks(im) - 1; b && !p->free; b--)
		p->free = image_is_free(im, b) ? b * p->block_size : 0;
	image_close(im);
}

static void what_is_in_use_matters(void **state)
{
	char path[] = "/tmp/inuse-XXXXXX";
	int fd = mkstemp(path);
	struct inuse *u;
	struct parts p = { 0 };
	uint8_t *image;
	uint64_t first;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	recipe_make("base1k", path);
	find_parts(path, &p);
	image = malloc(p.size);
	assert_non_null(image);
	image_read(path, 0, image, p.size);
	assert_true(p.data && p.free);
	u = inuse_new(path);
	first = inuse_hash(u, image);
	image[p.free + 5] ^= 1;
	image[p.log + 5] ^= 1;
	assert_true(inuse_hash(u, image) == first);
	image[p.data + 5] ^= 1;
	assert_true(inuse_hash(u, image) != first);
	image[p.data + 5] ^= 1;
	assert_true(inuse_hash(u, image) == first);
	image[p.jsb + 31] = 1; /* s_start: the log is not empty, so what is in it matters */
	first = inuse_hash(u, image);
	image[p.log + 5] ^= 1;
	assert_true(inuse_hash(u, image) != first);
	inuse_free(u);
	free(image);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_in_use_matters) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
