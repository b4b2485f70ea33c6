/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the report counts as worse, with -n as after a run: by a plan that makes a file so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/engine.h"
#include "scaledefrag/scan.h"
#include "support/recipes.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

static struct snapshot *scan(void)
{
	const struct volume_options vo = { .path = path, .read_only = true };
	const struct scan_options so = { .threads = 1, .queue_depth = 4 };
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct volume *v;

	if (volume_open(&vo, &v, &err) || scan_volume(v, &so, &s, &err))
		fail_msg("%s", err.text);
	volume_close(v);
	return s;
}

/* Of a file in one run, the second block goes elsewhere: then it has three. */
static struct plan *cut(const struct snapshot *s)
{
	const struct snapshot_file *f = s->file;
	struct error err = ERROR_INIT;
	struct filemap_delta delta;
	struct filemap next;
	struct range room;
	struct move m;
	struct plan *p;
	size_t want;

	while (f < s->file + s->n_file && (f->map.n_ext != 1 || f->map.ext[0].len < 3))
		f++;
	assert_true(f < s->file + s->n_file);
	assert_true(rangeset_next(s->free, f->map.ext[0].pblk + f->map.ext[0].len + 1, &room));
	m = (struct move){ .from = f->map.ext[0].pblk + 1,
			   .to = room.start,
			   .lblk = f->map.ext[0].lblk + 1,
			   .len = 1 };
	if (filemap_move(&f->map, &m, 1, s->geo.block_size, true, NULL, 0, &want, &next, &delta,
			 &err) ||
	    plan_new(&p, &err) || plan_begin_batch(p, &err) ||
	    plan_add_file(p, f->ino, true, &m, 1, &delta, &err))
		fail_msg("%s", err.text);
	p->batch[0].journal_blocks = 16;
	p->batch[0].rest = true;
	filemap_delta_release(&delta);
	filemap_release(&next);
	return p;
}

static uint64_t worse(const struct plan *given, bool dry_run)
{
	const struct engine_options o = { .volume = { .path = path, .read_only = dry_run },
					  .threads = 1,
					  .queue_depth = 4,
					  .clock = the_clock,
					  .dry_run = dry_run,
					  .given_plan = given,
					  .skip_verify = given != NULL };
	struct error err = ERROR_INIT;
	struct report r;
	uint64_t n;

	if (engine_run(&o, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.plan_bytes > 0 && (r.bytes_moved > 0) == !dry_run);
	n = r.worse;
	report_release(&r);
	return n;
}

static void test_worse__counted(void **state)
{
	struct snapshot *s;
	struct plan *p;

	(void)state;
	snprintf(path, sizeof(path), "%s/worse-%d.img",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
	recipe_make("grow", path);
	s = scan();
	p = cut(s);
	assert_int_equal(worse(p, true), 1);
	assert_int_equal(worse(p, false), 1);
	/* and what the planner makes of that */
	assert_int_equal(worse(NULL, true), 0);
	assert_int_equal(worse(NULL, false), 0);
	plan_free(p);
	snapshot_free(s);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worse__counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
