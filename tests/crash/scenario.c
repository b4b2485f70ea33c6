/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "crash/scenario.h"
#include "scaledefrag/scan.h"
#include "support/image.h"
#include "support/recorder.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const struct scenario *scenario_find(const char *name)
{
	for (const struct scenario *s = scenarios; s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	image_die("no scenario %s", name);
}

static void fixed_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
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

/* The start of `len` free blocks at the end of the file system. */
static uint64_t room_at_end(const struct snapshot *s, uint64_t len)
{
	for (uint64_t at = s->geo.blocks - len; at > 0; at--)
		if (rangeset_contains(s->free, at, len))
			return at;
	image_die("no room");
}

static void add_file(struct plan *p, const struct snapshot *s, uint32_t ino, struct filemap *map,
		     const struct move *moves, size_t n, bool last, uint64_t take_from)
{
	uint64_t take[16];
	struct filemap next;
	struct filemap_delta delta;
	struct error err;
	size_t want = 0;

	for (size_t i = 0; i < 16; i++)
		take[i] = take_from + i;
	if (filemap_move(map, moves, n, s->geo.block_size, last, take, 16, &want, &next, &delta,
			 &err) ||
	    plan_begin_batch(p, &err) || plan_add_file(p, ino, last, moves, n, &delta, &err))
		image_die("given plan: %s", err.text);
	p->batch[p->n_batch - 1].journal_blocks = 64;
	filemap_delta_release(&delta);
	filemap_release(map);
	*map = next;
}

static const struct snapshot_file *largest(const struct snapshot *s)
{
	const struct snapshot_file *best = &s->file[0];

	for (size_t i = 1; i < s->n_file; i++)
		if (s->file[i].map.ext[0].len > best->map.ext[0].len)
			best = &s->file[i];
	return best;
}

/* The one run of the largest file is cut into pieces of two blocks, in reverse, in two batches. */
static void plan_grow(const struct snapshot *s, struct plan *p)
{
	const struct snapshot_file *f = largest(s);
	uint32_t n = f->map.ext[0].len / 2, half = n / 2;
	uint64_t to = room_at_end(s, 2 * n + 32);
	struct move *m = calloc(n, sizeof(*m));
	struct filemap map;
	struct error err;

	if (!m || filemap_copy(&f->map, &map, &err))
		image_die("out of memory");
	for (uint32_t i = 0; i < n; i++)
		m[i] = (struct move){ .from = f->map.ext[0].pblk + 2 * i,
				      .to = to + 2 * (n - 1 - i),
				      .lblk = f->map.ext[0].lblk + 2 * i,
				      .len = 2 };
	add_file(p, s, f->ino, &map, m, half, false, to + 2 * n);
	add_file(p, s, f->ino, &map, m + half, n - half, true, to + 2 * n + 16);
	filemap_release(&map);
	free(m);
}

/* One file's first record is moved onto another file's blocks. */
static void plan_wrong(const struct snapshot *s, struct plan *p)
{
	const struct snapshot_file *victim = largest(s), *f = NULL;
	struct filemap map;
	struct error err;
	struct move m;

	for (size_t i = 0; i < s->n_file; i++)
		if (s->file[i].kind == FILE_REGULAR && s->file[i].map.n_ext > 4 &&
		    &s->file[i] != victim)
			f = &s->file[i];
	if (!f || filemap_copy(&f->map, &map, &err))
		image_die("no file for the wrong plan");
	m = (struct move){ .from = f->map.ext[0].pblk,
			   .to = victim->map.ext[0].pblk,
			   .lblk = f->map.ext[0].lblk,
			   .len = f->map.ext[0].len };
	if (m.len > victim->map.ext[0].len)
		m.len = victim->map.ext[0].len;
	add_file(p, s, f->ino, &map, &m, 1, false, room_at_end(s, 16));
	filemap_release(&map);
}

static struct snapshot *scan(const char *path)
{
	const struct volume_options vo = { .path = path, .read_only = true };
	const struct scan_options so = { .threads = 1,
					 .queue_depth = 4,
					 .limits = { .journal_blocks = 400,
						     .copy_blocks = 1 << 20 } };
	struct snapshot *s = NULL;
	struct volume *v = NULL;
	struct error err;

	if (volume_open(&vo, &v, &err) || scan_volume(v, &so, &s, &err))
		image_die("%s: %s", path, err.text);
	volume_close(v);
	return s;
}

static struct plan *make_plan(enum given_plan which, const char *path)
{
	struct snapshot *s = scan(path);
	struct plan *p = NULL;
	struct error err;

	if (plan_new(&p, &err))
		image_die("given plan: %s", err.text);
	if (which == PLAN_GROW)
		plan_grow(s, p);
	else
		plan_wrong(s, p);
	snapshot_free(s);
	return p;
}

/* No file has more runs than before. */
static void check_runs(const struct scenario *s, const char *before, const char *after)
{
	struct snapshot *a = scan(before), *b = scan(after);

	if (a->n_file != b->n_file)
		image_die("%s: other files than before", s->name);
	for (size_t i = 0; i < a->n_file; i++) {
		const struct filemap *x = &a->file[i].map, *y = &b->file[i].map;

		if (a->file[i].ino != b->file[i].ino ||
		    filemap_runs(y->ext, y->n_ext) > filemap_runs(x->ext, x->n_ext))
			image_die("%s: inode %u is worse than before", s->name, a->file[i].ino);
	}
	snapshot_free(a);
	snapshot_free(b);
}

/* e2fsck would replay the log, but a run ends with an empty one. */
static void check_image(const struct scenario *s, const char *path)
{
	struct ext2_super_block sb;

	image_read(path, 1024, &sb, sizeof(sb));
	if (sb.s_feature_incompat & EXT3_FEATURE_INCOMPAT_RECOVER)
		image_die("%s: needs_recovery is set after the run", s->name);
	if (!(sb.s_state & EXT2_VALID_FS))
		image_die("%s: it is not marked as clean after the run", s->name);
	image_fsck(path, "-fn", 0);
}

static void check_end(const struct scenario *s, int rc, const struct report *r,
		      const struct error *err, const struct trace *t)
{
	size_t end = t->n;

	if (rc || r->exit_code != (s->stop ? 32 : 0))
		image_die("%s: the run itself fails (%d, exit code %d): %s", s->name, rc,
			  r->exit_code, rc ? err->text : "no error");
	while (end && t->event[end - 1].role == ROLE_DISCARD)
		end--;
	if (end && t->event[end - 1].role != ROLE_FLUSH)
		image_die("%s: exit code 0 with writes that were not flushed", s->name);
	if (s->discard != DISCARD_NONE && (end == t->n || *r->discard_failed))
		image_die("%s: nothing was discarded %s", s->name, r->discard_failed);
	if (trace_mmp_wrong(t))
		image_die("%s: the MMP block %s", s->name, trace_mmp_wrong(t));
	if (s->early && !t->early)
		image_die("%s: no copy is early", s->name);
	if (r->passes < s->min_passes)
		image_die("%s: %u passes, the scenario needs %u", s->name, r->passes,
			  s->min_passes);
	if (t->batches < s->min_batches)
		image_die("%s: %d batches, the scenario needs %d", s->name, t->batches,
			  s->min_batches);
}

#define BATCHES_MAX 1024

struct stopper {
	const struct scenario *s;
	struct recorder *rec;
	int stop;
	int batches;		    /* whose commit has begun */
	size_t commit[BATCHES_MAX]; /* events before it */
};

static void note_commit(struct stopper *st)
{
	if (st->batches < BATCHES_MAX)
		recorder_trace(st->rec, &st->commit[st->batches]);
	st->batches++;
}

static void stop_in_time(void *ctx, enum report_phase phase, uint64_t done, uint64_t total,
			 uint64_t bytes)
{
	struct stopper *st = ctx;

	(void)done;
	(void)total;
	(void)bytes;
	if (phase == PHASE_COMMIT)
		note_commit(st);
	if (st->batches == st->s->stop_at && (phase == PHASE_MOVE || !st->s->copying))
		st->stop = st->s->stop;
}

static int asked_to_stop(void *ctx)
{
	const struct stopper *st = ctx;

	return st->stop;
}

static void run_engine(const struct scenario *s, enum given_plan plan, const char *before,
		       const char *path, int fd)
{
	struct plan *given = plan == PLAN_OWN ? NULL : make_plan(plan, path);
	struct recorder *rec = recorder_new();
	struct stopper stopper = { .s = s, .rec = rec };
	struct engine_options o = {
		.volume = { .path = path,
			    .wrap = recorder_wrap,
			    .wrap_ctx = rec,
			    .pause = no_pause },
		.threads = 1,
		.queue_depth = 8,
		.in_step = true,
		.plan.mode = s->mode,
		.slab = s->slab,
		.discard = s->discard,
		.pass_records = s->pass_records,
		.front = s->front,
		.batch_bytes = s->batch_bytes,
		.clock = fixed_clock,
		.cancel = asked_to_stop,
		.progress = stop_in_time,
		.observer_ctx = &stopper,
		.given_plan = given,
		.skip_verify = plan != PLAN_OWN,
		.skip_guard = plan == PLAN_WRONG,
	};
	struct report r;
	struct error err = ERROR_INIT;
	const struct recorder_event *ev;
	struct trace t;
	size_t n;
	int rc;

	memset(&r, 0, sizeof(r));
	rc = engine_run(&o, &r, &err);
	ev = recorder_trace(rec, &n);
	trace_from_recorder(&t, before, ev, n);
	if (!t.ordered)
		trace_name_early(
			&t, stopper.commit,
			(size_t)(stopper.batches < BATCHES_MAX ? stopper.batches : BATCHES_MAX));
	if (plan != PLAN_WRONG) {
		check_end(s, rc, &r, &err, &t);
		check_image(s, path);
		if (s->plan == PLAN_OWN && s->stop < 2)
			check_runs(s, before, path);
	}
	trace_save(&t, fd);
	trace_release(&t);
	report_release(&r);
	recorder_free(rec);
	plan_free(given);
}

void scenario_record(const struct scenario *s, enum given_plan plan, const char *before,
		     const char *path, struct trace *t)
{
	int fd = memfd_create("trace", MFD_CLOEXEC), status;
	pid_t pid = fork(); /* OpenMP's threads must not be alive when the judges are forked */

	if (fd < 0 || pid < 0)
		image_die("cannot start the run");
	if (!pid) {
		run_engine(s, plan, before, path, fd);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		image_die("%s: the run ended with status %d", s->name, status);
	if (lseek(fd, 0, SEEK_SET))
		image_die("memfd");
	trace_load(t, fd);
	close(fd);
}
