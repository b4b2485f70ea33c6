/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that can't be read is dropped when its batch's metadata is made already: the batch goes on
 * without it, and what was counted for it (free blocks, quotas) is as if it had never been there.
 * e2fsck is the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/commit.h"
#include "scaledefrag/engine.h"
#include "scaledefrag/planner.h"
#include "scaledefrag/scan.h"
#include "support/faultdev.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

/* The file to be dropped, and where it can't be read. */
struct victim {
	uint32_t ino;
	uint32_t lblk; /* in blocks */
	uint64_t pblk; /* in blocks */
	uint32_t block_size, cluster;
	uint64_t n_file; /* of its batch */
};

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

/* Of the batches of the plan that a run will make: one of several files, in which a file with tree
 * blocks that become free moves what is written. */
static bool find(const struct snapshot *s, const struct plan *p, struct victim *v)
{
	for (size_t b = 0; b < p->n_batch; b++) {
		const struct plan_batch *batch = &p->batch[b];

		for (uint64_t i = 0; batch->n_file > 1 && i < batch->n_file; i++) {
			const struct plan_file *f = &p->file[batch->first_file + i];
			const struct move *m = &p->move[f->first_move];

			if (!f->n_freed || f->n_freed == f->n_taken || m->unwritten ||
			    snapshot_find(s, f->ino)->kind != FILE_REGULAR)
				continue;
			v->ino = f->ino;
			v->lblk = m->lblk * v->cluster;
			v->pblk = m->from * v->cluster;
			v->n_file = batch->n_file;
			return true;
		}
	}
	return false;
}

static void choose(struct victim *v)
{
	const struct volume_options vo = { .path = path, .read_only = true };
	const struct planner_options po = { .mode = PLAN_FILES };
	const struct commit_options co = { .queue_depth = 4, .clock = the_clock };
	struct scan_options so = { .threads = 1, .queue_depth = 4 };
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct volume *vol;
	struct commit *c;
	struct plan *p;

	if (volume_open(&vo, &vol, &err) || commit_open(vol, &co, &c, &err))
		fail_msg("%s", err.text);
	so.limits.journal_blocks = commit_capacity(c);
	so.limits.copy_blocks = 100000;
	if (scan_volume(vol, &so, &s, &err) || planner_make(s, &po, &p, &err))
		fail_msg("%s", err.text);
	*v = (struct victim){ .block_size = volume_geometry(vol)->block_size,
			      .cluster = volume_geometry(vol)->cluster_blocks };
	assert_true(find(s, p, v));
	plan_free(p);
	snapshot_free(s);
	commit_close(c);
	volume_close(vol);
}

static uint64_t block_of(const struct victim *v)
{
	struct image *im = image_open(path);
	uint64_t block = image_file_block(im, v->ino, v->lblk);

	image_close(im);
	return block;
}

static void drop_one(const char *recipe)
{
	struct faultdev *fd = faultdev_new();
	const struct engine_options o = {
		.volume = { .path = path, .wrap = faultdev_wrap, .wrap_ctx = fd },
		.threads = 1,
		.queue_depth = 4,
		.clock = the_clock,
	};
	struct error err = ERROR_INIT;
	struct report r;
	struct victim v;

	snprintf(path, sizeof(path), "%s/dropped-%d.img",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
	recipe_make(recipe, path);
	choose(&v);
	assert_int_equal(block_of(&v), v.pblk);
	faultdev_set(fd, (struct fault_plan){ .bad_op = FAULT_READ,
					      .bad_from = v.pblk * v.block_size,
					      .bad_len = v.block_size });
	if (engine_run(&o, &r, &err))
		fail_msg("%s: %s", recipe, err.text);
	assert_true(faultdev_fired(fd) > 0);
	assert_int_equal(r.n_dropped, 1);
	assert_int_equal(r.dropped[0].ino, v.ino);
	assert_true(r.bytes_moved > 0);
	report_release(&r);
	faultdev_free(fd);
	assert_int_equal(block_of(&v), v.pblk);
	image_fsck(path, "-fn", 0);
	unlink(path);
}

static void test_dropped__quota(void **state)
{
	(void)state;
	drop_one("quota");
}

static void test_dropped__quota_and_clusters(void **state)
{
	(void)state;
	drop_one("quotaclusters");
}

static void test_dropped__no_journal(void **state)
{
	(void)state;
	drop_one("nojournal");
}

static void test_dropped__clusters(void **state)
{
	(void)state;
	drop_one("bigalloc");
}

static void test_dropped__clusters_no_journal(void **state)
{
	(void)state;
	drop_one("bigallocbare");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dropped__quota),
		cmocka_unit_test(test_dropped__quota_and_clusters),
		cmocka_unit_test(test_dropped__no_journal),
		cmocka_unit_test(test_dropped__clusters),
		cmocka_unit_test(test_dropped__clusters_no_journal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
