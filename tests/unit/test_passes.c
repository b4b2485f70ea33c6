/* SPDX-License-Identifier: GPL-2.0-or-later */
/* passes: files planned in parts, as where --memory is short. What is planned is done, what is told
 * is true, nothing is lost, and a second run has nothing to do. e2fsck is the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/engine.h"
#include "support/digest.h"
#include "support/faultdev.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64], other[64];

struct job {
	uint64_t records, budget, batch_bytes;
	unsigned threads;
	bool dry;
	int stop_at; /* asked to stop when this batch (from 1) is committed; 0: never */
	struct faultdev *fd;
	int batches, ready;
};

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

static void no_pause(void *ctx, unsigned seconds)
{
	(void)ctx;
	(void)seconds;
}

static void on_progress(void *ctx, enum report_phase phase, uint64_t done, uint64_t total,
			uint64_t bytes)
{
	struct job *j = ctx;

	(void)done;
	(void)total;
	(void)bytes;
	j->batches += phase == PHASE_COMMIT;
}

static int on_cancel(void *ctx)
{
	const struct job *j = ctx;

	return j->stop_at && j->batches >= j->stop_at;
}

static void on_ready(void *ctx, const struct report *r, const struct snapshot *s,
		     const struct plan *p)
{
	struct job *j = ctx;

	(void)s;
	(void)p;
	assert_int_equal(r->pass, ++j->ready);
}

/* Exit code. */
static int run(const char *image, struct job *j, struct report *r)
{
	const struct engine_options o = {
		.volume = { .path = image,
			    .read_only = j->dry,
			    .pause = no_pause,
			    .wrap = j->fd ? faultdev_wrap : NULL,
			    .wrap_ctx = j->fd },
		.threads = j->threads ? j->threads : 1,
		.queue_depth = 4,
		.clock = the_clock,
		.dry_run = j->dry,
		.budget = j->budget,
		.batch_bytes = j->batch_bytes,
		.list = 5,
		.pass_records = j->records,
		.discard = DISCARD_FREED,
		.ready = on_ready,
		.progress = on_progress,
		.cancel = on_cancel,
		.observer_ctx = j,
	};
	struct error err = ERROR_INIT;

	if (engine_run(&o, r, &err))
		fail_msg("%s", err.text);
	return r->exit_code;
}

static void setup(const char *recipe)
{
	const char *dir = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";

	snprintf(path, sizeof(path), "%s/passes-%d.img", dir, (int)getpid());
	snprintf(other, sizeof(other), "%s/passes-%d.too", dir, (int)getpid());
	recipe_make(recipe, path);
}

static void copy_image(void)
{
	char command[200];

	snprintf(command, sizeof(command), "cp --sparse=always %s %s", path, other);
	assert_int_equal(system(command), 0);
}

static void same_images(void)
{
	char command[200];

	snprintf(command, sizeof(command), "cmp %s %s", path, other);
	assert_int_equal(system(command), 0);
}

static uint64_t excess(const struct summary *s)
{
	return s->runs - s->ideal_runs;
}

/* What the report said is there now is there: by a look at everything at once. */
static void is_true(const struct report *r)
{
	struct job look = { .dry = true };
	struct report now;

	assert_int_equal(run(path, &look, &now), 0);
	assert_int_equal(now.passes, 1);
	assert_true(r->has_after);
	assert_memory_equal(&now.before, &r->after, sizeof(now.before));
	assert_int_equal(now.score_before.now, r->score_after.now);
	assert_int_equal(r->worse, 0);
	report_release(&now);
}

static void digest(const char *image, struct digest *d)
{
	char why[200];

	if (digest_image(image, false, d, why, sizeof(why)))
		fail_msg("%s", why);
}

static void by_passes(const char *recipe, uint64_t records, unsigned least)
{
	struct job dry = { .records = records, .dry = true }, j = { .records = records },
		   more = { .records = records, .threads = 3 }, again = { .records = records };
	struct report planned, r, same, nothing;
	struct digest before, after;

	setup(recipe);
	digest(path, &before);
	copy_image();
	assert_int_equal(run(path, &dry, &planned), 0);
	same_images();
	assert_true(planned.passes >= least);
	assert_int_equal(dry.ready, planned.passes);
	assert_int_equal(run(path, &j, &r), 0);
	assert_int_equal(j.ready, 1);
	assert_int_equal(r.passes, planned.passes);
	assert_int_equal(r.plan_bytes, planned.plan_bytes);
	assert_int_equal(r.plan_batches, planned.plan_batches);
	assert_memory_equal(&r.predicted, &planned.predicted, sizeof(r.predicted));
	assert_true(excess(&r.after) <= excess(&r.predicted));
	assert_true(excess(&r.after) < excess(&r.before));
	assert_int_equal(r.n_stay_all, r.after.frag_files);
	is_true(&r);
	image_fsck(path, "-fn", 0);
	digest(path, &after);
	assert_true(digest_equal(&before, &after));
	assert_int_equal(run(other, &more, &same), 0);
	same_images();
	assert_int_equal(run(path, &again, &nothing), 0);
	assert_int_equal(nothing.outcome, OUTCOME_NOTHING);
	same_images();
	digest_release(&before);
	digest_release(&after);
	report_release(&planned);
	report_release(&r);
	report_release(&same);
	report_release(&nothing);
	unlink(path);
	unlink(other);
}

/* Several records a file, several files a pass, tree blocks that move with them. */
static void test_passes__files(void **state)
{
	(void)state;
	by_passes("base1k", 40, 3);
	by_passes("many", 100, 3);
}

static void test_passes__tight(void **state)
{
	(void)state;
	by_passes("fullmail", 50, 3);
}

/* A pass for each fragmented file, and where one has more records than a pass may have. */
static void test_passes__one_file_each(void **state)
{
	(void)state;
	by_passes("dirs", 1, 2);
}

static void test_passes__other_kinds(void **state)
{
	(void)state;
	by_passes("bigalloc", 30, 2);
	by_passes("ext3", 100, 2);
	by_passes("nojournal", 50, 2);
	by_passes("quota", 30, 2);
}

/* Asked to stop in the middle: what is told then is what is there. */
static void test_passes__stopped(void **state)
{
	struct job j = { .records = 100, .batch_bytes = 64 << 10, .stop_at = 3 };
	struct report r;

	(void)state;
	setup("many");
	assert_int_equal(run(path, &j, &r), ERROR_STOPPED);
	assert_int_equal(r.outcome, OUTCOME_STOPPED);
	assert_true(excess(&r.after) < excess(&r.before) && excess(&r.after) > 0);
	assert_true(r.n_stay_all > 0);
	assert_string_equal(r.stay[0].why, "left for another run");
	is_true(&r);
	image_fsck(path, "-fn", 0);
	report_release(&r);
	unlink(path);
}

/* It holds for all passes together, in the plan as in the run. */
static void test_passes__budget(void **state)
{
	const uint64_t budget = 300 << 10;
	struct job dry = { .records = 100, .budget = budget, .dry = true };
	struct job j = { .records = 100, .budget = budget };
	struct report planned, r;

	(void)state;
	setup("many");
	assert_int_equal(run(path, &dry, &planned), 0);
	assert_int_equal(run(path, &j, &r), ERROR_STOPPED);
	assert_string_equal(r.stopped_by, "the budget");
	assert_true(r.bytes_moved > budget / 2 && r.bytes_moved <= budget);
	assert_int_equal(r.bytes_moved, planned.plan_bytes);
	assert_memory_equal(&r.predicted, &r.after, sizeof(r.after));
	is_true(&r);
	image_fsck(path, "-fn", 0);
	report_release(&planned);
	report_release(&r);
	unlink(path);
}

/* A file that can't be read: its pass ends, and a new round goes around it. */
static void test_passes__dropped(void **state)
{
	struct job j = { .records = 100, .fd = faultdev_new() };
	struct image *im;
	struct report r;
	uint32_t ino = 40;
	uint64_t bad;

	(void)state;
	setup("many");
	im = image_open(path);
	bad = image_file_block(im, ino, 0) * image_block_size(im);
	faultdev_set(j.fd, (struct fault_plan){ .bad_op = FAULT_READ,
						.bad_from = bad,
						.bad_len = image_block_size(im) });
	image_close(im);
	assert_int_equal(run(path, &j, &r), ERROR_OPERATION);
	assert_int_equal(r.outcome, OUTCOME_DROPPED);
	assert_int_equal(r.n_dropped, 1);
	assert_int_equal(r.dropped[0].ino, ino);
	assert_int_equal(excess(&r.after), 0);
	assert_int_equal(r.after.files, r.before.files - 1);
	image_fsck(path, "-fn", 0);
	report_release(&r);
	faultdev_free(j.fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes__files),
		cmocka_unit_test(test_passes__tight),
		cmocka_unit_test(test_passes__one_file_each),
		cmocka_unit_test(test_passes__other_kinds),
		cmocka_unit_test(test_passes__stopped),
		cmocka_unit_test(test_passes__budget),
		cmocka_unit_test(test_passes__dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
