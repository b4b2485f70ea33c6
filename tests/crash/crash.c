/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crash: cuts the power at every point of recorded runs and judges what is left on the disk.
 *
 *   crash [--states N] [--jobs J] [--scenario S] [--seed X] [--all] [--judge full|sample]
 * [--program P] crash --mutants             every broken protocol must be found out crash --mutant
 * M crash --repro S:CUT:VARIANT one state, with words (--mutant M: of that mutant) crash --dump S
 * the trace of a scenario
 */
#include "crash/scenario.h"
#include "crash/worker.h"
#include "support/image.h"
#include "support/recipes.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct setup {
	size_t states;
	unsigned jobs;
	const char *scenario, *mutant, *repro, *dump, *program;
	bool mutants, all_judges, all;
	uint64_t seed;
	char dir[64], base[80], run[80];
	struct totals *totals;
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void copy_file(const char *from, const char *to)
{
	const char *const cp[] = { "cp", "--sparse=always", from, to, NULL };

	if (image_run(cp, -1))
		image_die("cannot copy %s", from);
}

/* Makes the image and records the run on it. False: this mutant does not apply. */
static bool prepare(const struct setup *o, const struct scenario *s, enum mutant m, struct trace *t)
{
	enum given_plan plan = m == MUTANT_WRONG_PLAN ? PLAN_WRONG : s->plan;

	recipe_make(s->recipe, o->base);
	copy_file(o->base, o->run);
	scenario_record(s, plan, o->base, o->run, t);
	if (m == MUTANT_NONE)
		trace_scatter(t, o->seed);
	return mutant_apply(t, m, o->base);
}

static struct job make_job(const struct setup *o, const struct scenario *s, const struct trace *t)
{
	return (struct job){ .scenario = s->name,
			     .dir = o->dir,
			     .base = o->base,
			     .program = o->program,
			     .trace = t,
			     .seed = o->seed,
			     .processes = o->jobs,
			     .all_judges = o->all_judges,
			     .totals = o->totals };
}

static size_t run_scenario(const struct setup *o, const struct scenario *s, size_t states)
{
	double start = seconds();
	size_t before = o->totals->states, bad, early;
	struct trace t;
	struct job job;

	prepare(o, s, MUTANT_NONE, &t);
	early = t.early;
	job = make_job(o, s, &t);
	job.want = states;
	bad = job_run(&job);
	printf("%s %-13s %5zu states, %4zu events, %2d batches, %3zu early copies, %zu bad, %.1f "
	       "s\n",
	       bad ? "not ok" : "ok", s->name, o->totals->states - before, t.n, t.batches, early,
	       bad, seconds() - start);
	fflush(stdout);
	trace_release(&t);
	return bad;
}

static bool run_mutant(const struct setup *o, enum mutant m)
{
	static const char *const usual[] = { "base1k", "batches", "frees", "stale", NULL };
	static const char *const tight[] = { "onefree", "frees", "batches", NULL };
	/* without checksums the damage is silent, with them replay fails */
	static const char *const logs[] = { "chain", "stale", "ext3like", "batches", NULL };
	static const char *const discards[] = { "discard", "discard-free", NULL };
	static const char *const ordered[] = { "ext2", "nojournal", NULL };
	static const char *const short_one[] = { "ordereduninit", NULL }; /* one batch */
	static const char *const sums[] = { "nojournal", NULL };
	static const char *const shared[] = { "mmp", NULL };
	const char *const *list =
		m == MUTANT_DROP_N0 || m == MUTANT_DROP_N3 || m == MUTANT_EARLY_GIVE ? short_one
		: m == MUTANT_WIDE_STATE					     ? sums
		: mutant_mmp(m)							     ? shared
		: mutant_ordered(m)						     ? ordered
		: m == MUTANT_EARLY_DISCARD					     ? discards
		: m == MUTANT_EARLY_REUSE					     ? tight
		: m == MUTANT_DROP_F4 || m == MUTANT_EARLY_LOG			     ? logs
										     : usual;

	for (; *list; list++) {
		const struct scenario *s = scenario_find(*list);
		struct trace t;
		struct job job;
		bool applies = prepare(o, s, m, &t);
		const char *mmp = mutant_mmp(m) ? trace_mmp_wrong(&t) : NULL;

		job = make_job(o, s, &t);
		job.want = 2500;
		job.first_bad = true;
		if (mmp)
			snprintf(job.caught, sizeof(job.caught), "%s: the MMP block %s", s->name,
				 mmp);
		if (applies && (*job.caught || job_run(&job))) {
			job.caught[strcspn(job.caught, "\n")] = 0;
			printf("ok mutant %-13s caught: %s\n", mutant_name(m), job.caught);
			trace_release(&t);
			return true;
		}
		trace_release(&t);
	}
	printf("not ok mutant %s: not caught\n", mutant_name(m));
	return false;
}

static enum mutant find_mutant(const char *name)
{
	for (int m = 0; m < MUTANTS; m++)
		if (!strcmp(name, mutant_name((enum mutant)m)))
			return (enum mutant)m;
	image_die("no mutant %s", name);
}

static size_t run_mutants(const struct setup *o)
{
	size_t missed = 0;

	for (int m = MUTANT_NONE + 1; m < MUTANTS; m++) {
		if (o->mutant && find_mutant(o->mutant) != (enum mutant)m)
			continue;
		missed += !run_mutant(o, (enum mutant)m);
		fflush(stdout);
	}
	return missed;
}

static bool chosen(const struct setup *o, const struct scenario *s)
{
	return o->scenario ? !strcmp(o->scenario, s->name) : o->all || !s->late;
}

static size_t run_all(const struct setup *o)
{
	size_t n = 0, bad = 0, failed = 0, each;
	const struct totals *sum = o->totals;

	for (const struct scenario *s = scenarios; s->name; s++)
		n += chosen(o, s);
	if (!n)
		image_die("no scenario %s", o->scenario);
	each = o->states / n + 1;
	for (const struct scenario *s = scenarios; s->name; s++) {
		if (!chosen(o, s))
			continue;
		bad = run_scenario(o, s, each);
		failed += bad > 0;
	}
	printf("# %zu states: %zu replays, %zu by e2fsck -p, %zu kernel mounts (%zu skipped), %zu "
	       "reruns, %zu replays cut and repeated; %zu bad\n",
	       (size_t)sum->states, (size_t)sum->judged[JUDGE_REPLAY],
	       (size_t)sum->judged[JUDGE_PREEN], (size_t)sum->judged[JUDGE_MOUNT],
	       (size_t)sum->skipped, (size_t)sum->judged[JUDGE_RERUN],
	       (size_t)sum->judged[JUDGE_AGAIN], (size_t)sum->bad);
	return failed;
}

static int one_state(struct setup *o)
{
	char *name = strdup(o->repro), *cut = name ? strchr(name, ':') : NULL;
	char *variant = cut ? strchr(cut + 1, ':') : NULL;
	const struct scenario *s;
	struct trace t;
	struct job job;
	bool good;

	if (!variant)
		image_die("--repro wants SCENARIO:CUT:VARIANT");
	*cut++ = 0;
	*variant++ = 0;
	s = scenario_find(name);
	prepare(o, s, o->mutant ? find_mutant(o->mutant) : MUTANT_NONE, &t);
	job = make_job(o, s, &t);
	good = job_repro(&job, strtoul(cut, NULL, 10), (unsigned)strtoul(variant, NULL, 10));
	trace_release(&t);
	free(name);
	return good ? 0 : 1;
}

static void parse(int argc, char **argv, struct setup *o)
{
	static const struct option options[] = {
		{ "states", 1, NULL, 'n' },   { "jobs", 1, NULL, 'j' },
		{ "scenario", 1, NULL, 's' }, { "seed", 1, NULL, 'x' },
		{ "repro", 1, NULL, 'r' },    { "mutant", 1, NULL, 'm' },
		{ "mutants", 0, NULL, 'M' },  { "judge", 1, NULL, 'f' },
		{ "program", 1, NULL, 'p' },  { "dump", 1, NULL, 'd' },
		{ "all", 0, NULL, 'a' },      { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			o->states = strtoul(optarg, NULL, 10);
			break;
		case 'j':
			o->jobs = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 's':
			o->scenario = optarg;
			break;
		case 'x':
			o->seed = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			o->repro = optarg;
			break;
		case 'm':
			o->mutant = optarg;
			break;
		case 'a':
			o->all = true;
			break;
		case 'M':
			o->mutants = true;
			break;
		case 'f':
			o->all_judges = !strcmp(optarg, "full");
			break;
		case 'p':
			o->program = optarg;
			break;
		case 'd':
			o->dump = optarg;
			break;
		default:
			exit(16);
		}
	}
}

static size_t run(struct setup *o)
{
	if (o->dump) {
		struct trace t;

		prepare(o, scenario_find(o->dump), o->mutant ? find_mutant(o->mutant) : MUTANT_NONE,
			&t);
		trace_dump(&t);
		trace_release(&t);
		return 0;
	}
	if (o->repro)
		return (size_t)one_state(o);
	if (o->mutants || o->mutant)
		return run_mutants(o);
	return run_all(o);
}

int main(int argc, char **argv)
{
	struct setup o = { .states = 23000,
			   .jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN),
			   .seed = 1,
			   .program = "build/scaledefrag-offline" };
	size_t failed;

	parse(argc, argv, &o);
	o.totals = shared_memory(sizeof(*o.totals));
	snprintf(o.dir, sizeof(o.dir), "%s/crash-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(o.dir))
		image_die("cannot make a directory for the images");
	snprintf(o.base, sizeof(o.base), "%s/base.img", o.dir);
	snprintf(o.run, sizeof(o.run), "%s/run.img", o.dir);
	failed = run(&o);
	unlink(o.base);
	unlink(o.run);
	rmdir(o.dir);
	return failed ? 1 : 0;
}
