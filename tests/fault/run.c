/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fault/run.h"
#include "scaledefrag/engine.h"
#include "support/image.h"
#include "support/mallocfail.h"
#include "support/recorder.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct chain {
	struct recorder *rec;
	struct faultdev *faulty;
};

/* engine -> faultdev -> recorder -> the image: the recorder sees what really happened */
static int wrap_both(void *ctx, struct device *inner, struct device **out, struct error *err)
{
	struct chain *c = ctx;
	struct device *recorded;

	if (recorder_wrap(c->rec, inner, &recorded, err))
		return -1;
	return faultdev_wrap(c->faulty, recorded, out, err);
}

static void fixed_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void note_trace(const struct recorder *rec, struct outcome *out)
{
	size_t n;
	const struct recorder_event *ev = recorder_trace(rec, &n);

	out->events = n;
	out->flushes = 0;
	for (size_t i = 0; i < n; i++)
		out->flushes += ev[i].kind == RECORDER_FLUSH && !ev[i].failed;
}

static void run_once(const char *path, const struct fault *f, struct outcome *out)
{
	struct chain chain = { recorder_new(), faultdev_new() };
	struct engine_options o = {
		.volume = { .path = path, .wrap = wrap_both, .wrap_ctx = &chain },
		.threads = 1,
		.in_step = true,
		.queue_depth = 4,
		.batch_bytes = 96 << 10,
		.list = 8,
		.names = true,
		.pictures = true,
		.report_only = f->look,
		.advise = f->look,
		.discard = f->discard ? DISCARD_ALL : DISCARD_NONE,
		.clock = fixed_clock,
	};
	struct error err = ERROR_INIT;
	struct report r;
	int rc;

	memset(&r, 0, sizeof(r));
	faultdev_set(chain.faulty, f->device);
	mallocfail_set(f->malloc_nth);
	rc = engine_run(&o, &r, &err);
	out->allocations = mallocfail_count();
	out->fired = faultdev_fired(chain.faulty) || mallocfail_fired();
	mallocfail_set(0);
	out->exit_code = rc ? (int)err.kind : r.exit_code;
	snprintf(out->error, sizeof(out->error), "%s", rc ? err.text : "");
	for (int op = 0; op < FAULT_OPS; op++)
		out->ops[op] = faultdev_count(chain.faulty, (enum fault_op)op);
	note_trace(chain.rec, out);
	out->discard_failed = *r.discard_failed != 0;
	out->bytes_discarded = r.bytes_discarded;
	out->n_dropped = r.n_dropped;
	for (size_t i = 0; i < r.n_dropped && i < 8; i++)
		out->dropped[i] = r.dropped[i].ino;
	out->frag_after = r.after.frag_files;
	out->transactions = r.transactions;
	report_release(&r);
	recorder_free(chain.rec);
	faultdev_free(chain.faulty);
}

static void run_twice(struct judge *j, const void *base, const struct fault *f, struct outcome *out)
{
	int64_t live;
	int fds;

	judge_load(j, base);
	run_once(judge_path(j), f, out);
	live = mallocfail_live();
	fds = count_fds();
	judge_load(j, base);
	run_once(judge_path(j), f, out);
	out->leaked_allocations = mallocfail_live() - live;
	out->leaked_fds = count_fds() - fds;
}

void run_with(struct judge *j, const void *base, const struct fault *f, struct outcome *out)
{
	pid_t pid;

	memset(out, 0, sizeof(*out));
	pid = fork();
	if (pid < 0)
		image_die("fork");
	if (!pid) {
		run_twice(j, base, f, out);
		_exit(0);
	}
	if (waitpid(pid, &out->status, 0) != pid)
		image_die("waitpid");
}
