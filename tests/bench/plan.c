/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench-plan: how long planning takes, and what it needs. Nothing is judged here.
 *
 *   bench-plan [--extents N] [--seed N] [--threads N]
 *              [--mode files|free|slabs|shrink] [--dump | --plan] [FILE]
 *
 * FILE: a snapshot as text (--dump-snapshot); else an aged volume is made up. --dump prints the
 * snapshot, --plan the plan, instead of the figures.
 */
#include "scaledefrag/planner.h"
#include "scaledefrag/report.h"
#include "support/agedvol.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct args {
	uint64_t extents, seed;
	struct planner_options plan;
	const char *mode;
	bool dump, dump_plan;
	const char *file;
};

struct clocks {
	double wall, cpu;
};

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct clocks now(void)
{
	return (struct clocks){ seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID) };
}

static long peak_mib(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss / 1024;
}

static int parse_mode(const char *name, struct planner_options *o)
{
	if (!strcmp(name, "free") || !strcmp(name, "slabs"))
		o->mode = PLAN_FREE;
	else if (!strcmp(name, "shrink"))
		o->mode = PLAN_SHRINK;
	else if (strcmp(name, "files") != 0)
		return -1;
	if (!strcmp(name, "slabs"))
		o->slab_blocks = 256;
	return 0;
}

static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = { { "extents", required_argument, NULL, 'e' },
						 { "seed", required_argument, NULL, 's' },
						 { "mode", required_argument, NULL, 'm' },
						 { "threads", required_argument, NULL, 't' },
						 { "dump", no_argument, NULL, 'd' },
						 { "plan", no_argument, NULL, 'p' },
						 { NULL, 0, NULL, 0 } };
	int c;
	*a = (struct args){ .extents = 155000, .seed = 1, .mode = "files", .plan.threads = 2 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'e')
			a->extents = strtoull(optarg, NULL, 10);
		else if (c == 's')
			a->seed = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			a->mode = optarg;
		else if (c == 't')
			a->plan.threads = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'd')
			a->dump = true;
		else if (c == 'p')
			a->dump_plan = true;
		else
			return -1;
	}
	a->file = optind < argc ? argv[optind] : NULL;
	return parse_mode(a->mode, &a->plan);
}

static struct snapshot *read_snapshot(const char *path, struct error *err)
{
	struct snapshot *s = NULL;
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t n = 0;
	if (!f || getdelim(&text, &n, '\0', f) < 0)
		error_set(err, ERROR_USAGE, "%s can't be read", path);
	else
		snapshot_parse(text, &s, err);
	free(text);
	if (f)
		fclose(f);
	return s;
}

static void print(const struct args *a, const struct snapshot *s, const struct plan *p,
		  const struct clocks t[3], long before)
{
	uint64_t extents = 0;
	for (size_t i = 0; i < s->n_file; i++)
		extents += s->file[i].map.n_ext;
	printf("%-6s %9llu extents %8zu files %8zu free runs: plan %7.2f s (CPU %.2f), verify "
	       "%6.2f s (CPU %.2f), peak "
	       "%5ld MiB (snapshot %ld); %zu batches, %zu moves, copies %llu, runs %llu (ideal "
	       "%llu), free runs %llu\n",
	       a->mode, (unsigned long long)extents, s->n_file, rangeset_count(s->free),
	       t[1].wall - t[0].wall, t[1].cpu - t[0].cpu, t[2].wall - t[1].wall,
	       t[2].cpu - t[1].cpu, peak_mib(), before, p->n_batch, p->n_move,
	       (unsigned long long)plan_copy_blocks(p), (unsigned long long)p->predicted.runs,
	       (unsigned long long)p->predicted.ideal_runs,
	       (unsigned long long)p->predicted.free_runs);
}

static int run(const struct args *a, struct error *err)
{
	struct snapshot *s =
		a->file ? read_snapshot(a->file, err) : agedvol_make(a->extents, a->seed);
	struct plan *p = NULL;
	struct clocks t[3];
	long before = peak_mib();
	int rc = s && a->dump ? report_snapshot(stdout, s) : -1;
	if (!s || a->dump)
		goto out;
	t[0] = now();
	if (planner_make(s, &a->plan, &p, err))
		goto out;
	t[1] = now();
	if (planner_verify(s, p, a->plan.threads, err))
		goto out;
	t[2] = now();
	rc = 0;
	if (a->dump_plan)
		rc = report_plan(stdout, p);
	else
		print(a, s, p, t, before);
out:
	plan_free(p);
	snapshot_free(s);
	return rc;
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	struct args a;
	if (parse_args(argc, argv, &a)) {
		fprintf(stderr, "bench-plan: see the head of tests/bench/plan.c\n");
		return 16;
	}
	if (run(&a, &err)) {
		fprintf(stderr, "bench-plan: %s\n", err.text);
		return 8;
	}
	return 0;
}
