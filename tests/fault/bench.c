/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fault/bench.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_result(struct bench *b, bool good, const char *name, const char *fmt, ...)
{
	va_list ap;

	b->failed += !good;
	printf("%s %s: ", good ? "ok" : "not ok", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

bool bench_wanted(const struct bench *b, const char *name)
{
	return !b->only || strstr(name, b->only);
}

static void own_outcome(struct bench *b)
{
	b->out = mmap(NULL, sizeof(*b->out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (b->out == MAP_FAILED)
		image_die("mmap");
}

static void own_judge(struct bench *b)
{
	b->judge = judge_new(b->dir, b->size, b->program, b->good);
	judge_want(b->judge, b->image);
}

void bench_take(struct bench *b, const char *recipe)
{
	static const struct fault none = { .malloc_nth = 0 };
	struct image *im;

	snprintf(b->image, sizeof(b->image), "%s/base-%d.img", b->dir, (int)getpid());
	recipe_make(recipe, b->image);
	im = image_open(b->image);
	b->size = image_blocks(im) * image_block_size(im);
	image_close(im);
	b->base = malloc(b->size);
	if (!b->base)
		image_die("out of memory");
	image_read(b->image, 0, b->base, b->size);
	b->good = hashset_new(MAX_RUNS);
	own_judge(b);
	own_outcome(b);
	run_with(b->judge, b->base, &none, b->out);
	b->clean_frag = b->out->frag_after;
	if (b->out->status || b->out->exit_code)
		image_die("%s: the run fails without faults: %s", recipe, b->out->error);
}

void bench_drop(struct bench *b)
{
	judge_free(b->judge);
	hashset_free(b->good);
	free(b->base);
	munmap(b->out, sizeof(*b->out));
	unlink(b->image);
}

static void work(struct bench *b, void (*job)(struct bench *, unsigned, void *), unsigned worker,
		 void *ctx)
{
	own_judge(b);
	own_outcome(b);
	job(b, worker, ctx);
	judge_free(b->judge);
}

bool bench_workers(struct bench *b, unsigned n, void (*job)(struct bench *, unsigned, void *),
		   void *ctx)
{
	bool good = true;

	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			image_die("fork");
		if (!pid) {
			work(b, job, i, ctx);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		int status;

		good &= wait(&status) > 0 && status == 0;
	}
	return good;
}

static bool known_code(int code)
{
	return code == 0 || code == 4 || code == 8 || code == 16 || code == 32;
}

/* The image is judged last: it is changed by that. */
static const char *complaint(struct bench *b)
{
	const struct outcome *o = b->out;

	if (o->status)
		return "the run crashed";
	if (!known_code(o->exit_code))
		return "undocumented exit code";
	/* a failed read or copy may be made good by a second try */
	if (o->exit_code == 0 && (o->n_dropped || o->frag_after != b->clean_frag))
		return "exit code 0 although it is not done";
	if (o->fired && o->exit_code == 4)
		return "an I/O error or a lack of memory is taken for damage";
	if (!o->fired && o->exit_code != 0)
		return "fails although nothing was made to fail";
	if (o->exit_code && !*o->error && !o->n_dropped)
		return "no error text and no file listed";
	if (strchr(o->error, '\n'))
		return "the error text has more than one line";
	if (o->leaked_fds > 0)
		return "descriptors leaked";
	if (o->leaked_allocations > 0)
		return "memory leaked";
	if (judge_check(b->judge, JUDGE_PREEN) == JUDGE_BAD)
		return judge_why(b->judge);
	return NULL;
}

const char *bench_run(struct bench *b, const struct fault *f)
{
	run_with(b->judge, b->base, f, b->out);
	return complaint(b);
}
