/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault: makes the first, second, third ... operation fail, until a run passes unharmed; and kills
 * the program at any moment. After each: a documented exit code, recovery by e2fsck -p, nothing
 * found by e2fsck -fn, equal content, nothing leaked, nothing written after a failure that must
 * stop everything (I12).
 *
 *   fault [--all] [--jobs J] [--kills N] [--program P] [--only NAME]
 *                                                 prints "ok NAME ..." or "not ok NAME ..."
 */
#include "fault/bench.h"
#include "fault/sweep.h"
#include "support/image.h"
#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The device's operations, and then the allocations of some. */
static const struct sweep sweeps[] = {
	{ "read", .plan = { .op = FAULT_READ } },
	{ "write", .plan = { .op = FAULT_WRITE } },
	{ "write-short", .plan = { .op = FAULT_WRITE, .torn = true } },
	{ "write-ENOSPC", .plan = { .op = FAULT_WRITE, .sys = ENOSPC } },
	{ "flush", .plan = { .op = FAULT_FLUSH } },
	{ "submit", .plan = { .op = FAULT_SUBMIT } },
	{ "discard", .plan = { .op = FAULT_DISCARD } },
	{ "discard-unknown", .plan = { .op = FAULT_DISCARD, .sys = EOPNOTSUPP } },
	{ "device-gone", .plan = { .op = FAULT_ANY, .sticky = true, .torn = true } },
	{ "malloc", .allocations = true },
	{ "malloc-look", .allocations = true, .look = true, .step = 5 },
};
static const struct sweep fewer[] = { { "malloc", .allocations = true, .step = 3 } };
enum { SWEEPS = sizeof(sweeps) / sizeof(*sweeps), ALLOCATIONS = 2 };

static uint32_t inode_of(const struct bench *b, const char *path)
{
	ext2_filsys fs;
	ext2_ino_t ino = 0;

	if (ext2fs_open(b->image, 0, 0, 0, unix_io_manager, &fs) ||
	    ext2fs_namei(fs, EXT2_ROOT_INO, EXT2_ROOT_INO, path, &ino))
		image_die("no %s in the image", path);
	ext2fs_close_free(&fs);
	return ino;
}

/* A bad sector under one file costs that file, not the run. */
static void bad_source(struct bench *b)
{
	static const char name[] = "bad-source-sector";
	struct fault f = { .device = { .bad_op = FAULT_READ, .bad_len = 512 } };
	uint32_t ino, bs;
	struct image *im;
	const char *why;

	if (!bench_wanted(b, name))
		return;
	ino = inode_of(b, "/dir/random");
	im = image_open(b->image);
	bs = image_block_size(im);
	f.device.bad_from = image_file_block(im, ino, 75) * bs + 512;
	image_close(im);
	why = bench_run(b, &f);
	if (!why && b->out->exit_code != 8)
		why = "exit code is not 8";
	if (!why && (b->out->n_dropped != 1 || b->out->dropped[0] != ino))
		why = "the file is not listed, or others are";
	if (!why && (b->out->frag_after > b->clean_frag + 1 || !b->out->transactions))
		why = "the other files were not defragmented";
	bench_result(b, !why, name, "%s (%zu dropped, %llu fragmented)",
		     why ? why : "one file dropped, the others done", b->out->n_dropped,
		     (unsigned long long)b->out->frag_after);
}

/* Where writes fail, somewhere else is used or the file is dropped. */
static void bad_target(struct bench *b)
{
	static const char name[] = "bad-target-sectors";
	struct fault f = { .device = { .bad_op = FAULT_WRITE } };
	const char *why;

	if (!bench_wanted(b, name))
		return;
	/* the last third of the image: nothing but free space */
	f.device.bad_from = b->size / 3 * 2;
	f.device.bad_len = b->size - f.device.bad_from;
	why = bench_run(b, &f);
	bench_result(b, !why, name, "%s", why ? why : "consistent");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Starts the program on the judge's image and kills it after `delay` seconds (< 0: never). */
static int start_and_kill(struct bench *b, double delay)
{
	struct timespec t = { .tv_sec = (time_t)delay,
			      .tv_nsec = (long)((delay - (double)(time_t)delay) * 1e9) };
	pid_t pid;
	int status;

	pid = fork();
	if (pid < 0)
		image_die("fork");
	if (!pid) {
		execl(b->program, b->program, "-q", judge_path(b->judge), (char *)NULL);
		_exit(127);
	}
	if (delay >= 0) {
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
	}
	waitpid(pid, &status, 0);
	return status;
}

struct killed { /* of one process, in shared memory */
	unsigned moments, killed, touched;
	char why[1000];
};

/* Kills the program at that moment of its run, and judges what is left. */
static const char *kill_once(struct bench *b, double moment, struct killed *k, uint8_t *left)
{
	int status;
	bool wrote;

	judge_load(b->judge, b->base);
	status = start_and_kill(b, moment);
	image_read(judge_path(b->judge), 0, left, b->size);
	wrote = WIFSIGNALED(status) && memcmp(left, b->base, b->size);
	k->moments++;
	k->killed += WIFSIGNALED(status);
	k->touched += wrote;
	if (!WIFSIGNALED(status) && status)
		return "the program fails";
	if (judge_check(b->judge, JUDGE_PREEN) == JUDGE_BAD)
		return judge_why(b->judge);
	judge_load(b->judge, left);
	if (judge_check(b->judge, JUDGE_RERUN) == JUDGE_BAD)
		return judge_why(b->judge);
	return NULL;
}

/* Every jobs-th moment. */
static void kill_often(struct bench *b, unsigned worker, void *ctx)
{
	struct killed *k = (struct killed *)ctx + worker;
	double took, start = seconds();
	uint8_t *left = malloc(b->size);
	const char *why = NULL;

	if (!left)
		image_die("out of memory");
	judge_load(b->judge, b->base);
	start = seconds();
	if (start_and_kill(b, -1))
		why = "the program fails without being killed";
	took = seconds() - start;
	for (unsigned i = worker; !why && i < b->kills; i += b->jobs) {
		unsigned killed = k->killed, touched = k->touched;

		why = kill_once(b, took * (i + 0.5) / b->kills, k, left);
		/* Late, and nothing is written yet: the machine has become slower. */
		if (k->killed > killed && k->touched == touched && i > b->kills / 2)
			took *= 1.05;
	}
	if (why)
		snprintf(k->why, sizeof(k->why), "%s", why);
	free(left);
}

static void kills(struct bench *b, const char *recipe)
{
	size_t size = b->jobs * sizeof(struct killed);
	struct killed *k, sum = { .moments = 0 };

	(void)recipe;
	if (!bench_wanted(b, "sigkill"))
		return;
	k = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k == MAP_FAILED)
		image_die("mmap");
	if (!bench_workers(b, b->jobs, kill_often, k))
		snprintf(sum.why, sizeof(sum.why), "a process of the test ended early");
	for (unsigned i = 0; i < b->jobs; i++) {
		sum.moments += k[i].moments;
		sum.killed += k[i].killed;
		sum.touched += k[i].touched;
		if (*k[i].why)
			memcpy(sum.why, k[i].why, sizeof(sum.why));
	}
	if (!*sum.why && !sum.touched)
		snprintf(sum.why, sizeof(sum.why), "it never wrote before it was killed");
	bench_result(b, !*sum.why, "sigkill",
		     "%u moments, %u killed, %u of them while it wrote%s%s", sum.moments,
		     sum.killed, sum.touched, *sum.why ? ": " : "", sum.why);
	munmap(k, size);
}

static void parse(int argc, char **argv, struct bench *b)
{
	static const struct option options[] = {
		{ "kills", 1, NULL, 'k' }, { "jobs", 1, NULL, 'j' }, { "program", 1, NULL, 'p' },
		{ "only", 1, NULL, 'o' },  { "all", 0, NULL, 'a' },  { NULL, 0, NULL, 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'k')
			b->kills = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'j')
			b->jobs = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			b->program = optarg;
		else if (c == 'a')
			b->all = true;
		else if (c == 'o')
			b->only = optarg;
		else
			exit(16);
	}
}

/* A child with an image of its own. */
static pid_t start(struct bench *b, const char *recipe, void (*job)(struct bench *, const char *))
{
	pid_t pid = fork();

	if (pid < 0)
		image_die("fork");
	if (pid)
		return pid;
	bench_take(b, recipe);
	job(b, recipe);
	bench_drop(b);
	_exit(b->failed ? 1 : 0);
}

static void devices(struct bench *b, const char *recipe)
{
	sweeps_run(b, recipe, sweeps, SWEEPS - ALLOCATIONS);
}

static void devices_and_some(struct bench *b, const char *recipe)
{
	devices(b, recipe);
	sweeps_run(b, recipe, fewer, 1);
}

static void everything(struct bench *b, const char *recipe)
{
	bad_source(b);
	bad_target(b);
	sweeps_run(b, recipe, sweeps, SWEEPS);
}

static bool finish(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *recipe;
		void (*job)(struct bench *, const char *);
	} small[] = {
		{ "base1k", everything },
		{ "dirs", devices },
		{ "frees", devices },
		{ "tight", devices },
		{ "fewmapped", devices_and_some },
		{ "fewordered", devices },
	};
	enum { SMALL = sizeof(small) / sizeof(small[0]) };
	struct bench b = { .program = "build/scaledefrag-offline",
			   .kills = 200,
			   .jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) };
	pid_t child[SMALL];
	bool good = true;

	parse(argc, argv, &b);
	snprintf(b.dir, sizeof(b.dir), "%s/fault-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(b.dir))
		image_die("cannot make a directory for the images");
	for (size_t i = 0; i < SMALL; i++)
		child[i] = start(&b, small[i].recipe, small[i].job);
	for (size_t i = 0; i < SMALL; i++)
		good &= finish(child[i]);
	good &= finish(start(&b, "churn", kills)); /* alone: it measures time */
	rmdir(b.dir);
	return good ? 0 : 1;
}
