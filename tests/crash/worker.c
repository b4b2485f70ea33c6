/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "crash/worker.h"
#include "support/image.h"
#include "support/xxh.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_VARIANTS 6 /* sweep 0 */
#define MORE_VARIANTS  8 /* each further sweep */
#define MAX_SWEEPS     800
#define MANY_CUTS      24 /* cuts between copies of data, and between discards: a sample */
#define MAX_PRINTED    8

struct cut {
	size_t k;
	bool important;	    /* the last write is a superblock's or a commit block */
	atomic_uint barren; /* sweeps without a new state */
};

/* In shared memory. */
struct board {
	atomic_size_t next, bad;
	char caught[160];
	size_t n_cut;
	struct cut cut[];
};

struct crew {
	struct job *job;
	struct board *board;
	struct hashset *seen, *good;
	/* of one process */
	struct judge *judge;
	uint8_t *base, *durable, *image;
	size_t applied; /* events in `durable` and `image` */
};

void *shared_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		image_die("mmap: %s", strerror(errno));
	return p;
}

/* There may be thousands of these, each as good as another. */
static bool is_many(enum role role)
{
	return role == ROLE_COPY || role == ROLE_DISCARD;
}

/* Every which batch is cut, so that the first sweep alone gives no more states than are wanted. */
static int sample_of_batches(const struct job *job)
{
	const struct trace *t = job->trace;
	size_t writes = 0;

	for (size_t i = 0; i < t->n; i++)
		writes += t->event[i].role != ROLE_FLUSH && !is_many(t->event[i].role);
	return (int)(writes * FIRST_VARIANTS / (job->want + 1)) + 1;
}

static struct board *make_board(const struct job *job)
{
	const struct trace *t = job->trace;
	struct board *b = shared_memory(sizeof(*b) + (t->n + 1) * sizeof(b->cut[0]));
	size_t many[ROLE_FLUSH] = { 0 }, seen[ROLE_FLUSH] = { 0 };
	int each = sample_of_batches(job), first = (int)(job->seed % (uint64_t)each);

	for (size_t i = 0; i < t->n; i++)
		if (is_many(t->event[i].role) && t->event[i].batch % each == first)
			many[t->event[i].role]++;
	b->cut[b->n_cut++].k = 0;
	for (size_t i = 0; i < t->n; i++) {
		enum role role = t->event[i].role;
		int batch = t->event[i].batch;

		if (batch >= 0 && batch + 1 < t->batches && batch % each != first)
			continue;
		if (role == ROLE_FLUSH ||
		    (is_many(role) && seen[role]++ % (many[role] / MANY_CUTS + 1)))
			continue;
		b->cut[b->n_cut].important = role == ROLE_SUPER || role == ROLE_JSB ||
					     role == ROLE_COMMIT || role == ROLE_INODES;
		b->cut[b->n_cut++].k = i + 1;
	}
	return b;
}

static void go_to(struct crew *c, size_t k)
{
	const struct trace *t = c->job->trace;
	size_t durable = trace_durable(t, k);

	if (durable < c->applied) {
		memcpy(c->durable, c->base, t->size);
		memcpy(c->image, c->base, t->size);
		c->applied = 0;
	}
	trace_apply(t, c->applied, durable, c->durable);
	trace_apply(t, c->applied, durable, c->image);
	c->applied = durable;
}

static void found_bad(struct crew *c, const struct cut *cut, unsigned variant, enum judge_how how)
{
	const struct job *job = c->job;
	size_t before = c->board->bad++;
	char text[10240];
	int n;

	job->totals->bad++;
	if (job->first_bad) {
		if (!before)
			snprintf(c->board->caught, sizeof(c->board->caught),
				 "%s:%zu:%u (%s): %.90s", job->scenario, cut->k, variant,
				 judge_how_name(how), judge_why(c->judge));
		return;
	}
	if (before >= MAX_PRINTED)
		return;
	n = snprintf(text, sizeof(text),
		     "BAD %s:%zu:%u (%s): %s\n  to see it again: crash --seed %llu --repro "
		     "%s:%zu:%u\n",
		     job->scenario, cut->k, variant, judge_how_name(how), judge_why(c->judge),
		     (unsigned long long)job->seed, job->scenario, cut->k, variant);
	if (write(2, text, (size_t)n) < 0)
		image_die("stderr: %s", strerror(errno));
}

static bool judge_loaded(struct crew *c, const struct cut *cut, unsigned variant,
			 enum judge_how how)
{
	struct totals *sum = c->job->totals;

	switch (judge_check(c->judge, how)) {
	case JUDGE_GOOD:
		sum->judged[how]++;
		return true;
	case JUDGE_SKIPPED:
		sum->skipped++;
		return true;
	default:
		sum->judged[how]++;
		found_bad(c, cut, variant, how);
		return false;
	}
}

static bool judge_one(struct crew *c, const struct cut *cut, unsigned variant, enum judge_how how)
{
	judge_load(c->judge, c->image);
	return judge_loaded(c, cut, variant, how);
}

/* Which judges see this state, besides the replay that sees all. */
static bool wanted(const struct crew *c, const struct cut *cut, unsigned variant, uint64_t hash,
		   enum judge_how how)
{
	bool near = cut->important && variant < FIRST_VARIANTS;

	if (how == JUDGE_IN_USE)
		return c->job->trace->ordered && (near || hash % 4 == 0);
	if (c->job->all_judges || how == JUDGE_REPLAY)
		return true;
	if (how == JUDGE_PREEN) /* without a journal, that is what a replay is */
		return !c->job->trace->ordered && (near || hash % 16 == 0);
	if (how == JUDGE_MOUNT)
		return near || hash % 32 == 1;
	return hash % 160 == 2; /* JUDGE_RERUN */
}

/*
 * The judge's image is what a replay made of c->image. Makes of it what a cut in the middle of that
 * replay leaves: some sectors of the home blocks, and neither superblock, which come last.
 */
static void cut_replay(struct crew *c, uint64_t random)
{
	const struct trace *t = c->job->trace;
	const uint8_t *done = judge_image(c->judge);
	uint8_t *cut = malloc(t->size);
	uint64_t jsb = 0;

	if (!cut)
		image_die("out of memory");
	memcpy(cut, c->image, t->size);
	for (size_t i = 0; i < t->n; i++)
		if (t->event[i].role == ROLE_JSB)
			jsb = t->event[i].offset;
	for (uint64_t at = 0; at < t->size; at += SECTOR) {
		if (at / 1024 == 1 || at / 1024 == jsb / 1024 ||
		    !memcmp(cut + at, done + at, SECTOR))
			continue;
		random = random * 6364136223846793005u + 1442695040888963407u;
		if (random >> 63)
			memcpy(cut + at, done + at, SECTOR);
	}
	judge_load(c->judge, cut);
	free(cut);
}

static bool judge_again(struct crew *c, const struct cut *cut, unsigned variant, uint64_t hash)
{
	judge_load(c->judge, c->image);
	if (judge_check(c->judge, JUDGE_REPLAY) != JUDGE_GOOD)
		return false;
	cut_replay(c, hash);
	return judge_loaded(c, cut, variant, JUDGE_AGAIN);
}

static bool judge_state(struct crew *c, struct cut *cut, unsigned variant)
{
	static const enum judge_how hows[] = { JUDGE_REPLAY, JUDGE_PREEN, JUDGE_MOUNT, JUDGE_RERUN,
					       JUDGE_IN_USE };
	const struct job *job = c->job;
	uint64_t hash;
	bool is_new;

	trace_state(job->trace, cut->k, variant, job->seed, c->image);
	hash = XXH3_64bits(c->image, job->trace->size);
	is_new = hashset_add(c->seen, hash);
	if (is_new) {
		job->totals->states++;
		for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++)
			if (wanted(c, cut, variant, hash, hows[i]) &&
			    !judge_one(c, cut, variant, hows[i]))
				break;
		if (hash % 40 == 3 || job->all_judges)
			judge_again(c, cut, variant, hash);
	}
	trace_undo(job->trace, cut->k, c->durable, c->image);
	return is_new;
}

static void judge_cut(struct crew *c, struct cut *cut, size_t sweep)
{
	unsigned from = sweep ? FIRST_VARIANTS + (unsigned)(sweep - 1) * MORE_VARIANTS : 0;
	unsigned to = sweep ? from + MORE_VARIANTS : FIRST_VARIANTS;
	bool any = false;

	if (sweep && cut->barren >= 2)
		return;
	go_to(c, cut->k);
	for (unsigned v = from; v < to; v++) {
		if (c->job->first_bad && c->board->bad)
			return;
		if (sweep && c->seen->count >= c->job->want)
			return;
		any |= judge_state(c, cut, v);
	}
	if (sweep && !any)
		cut->barren++;
}

static bool all_barren(const struct board *b)
{
	for (size_t i = 0; i < b->n_cut; i++)
		if (b->cut[i].barren < 2)
			return false;
	return true;
}

static void start_crew(struct crew *c)
{
	uint64_t size = c->job->trace->size;

	c->judge = judge_new(c->job->dir, size, c->job->program, c->good);
	judge_want(c->judge, c->job->base);
	judge_ordered(c->judge, c->job->trace->ordered);
	c->base = malloc(size);
	c->durable = malloc(size);
	c->image = malloc(size);
	if (!c->base || !c->durable || !c->image)
		image_die("out of memory");
	image_read(c->job->base, 0, c->base, size);
	memcpy(c->durable, c->base, size);
	memcpy(c->image, c->base, size);
	c->applied = 0;
}

static void end_crew(struct crew *c)
{
	judge_free(c->judge);
	free(c->base);
	free(c->durable);
	free(c->image);
}

static void work(struct crew *c)
{
	struct board *b = c->board;

	start_crew(c);
	for (;;) {
		size_t task = b->next++, sweep = task / b->n_cut;

		if (c->job->first_bad && b->bad)
			break;
		if (sweep && (c->seen->count >= c->job->want || sweep > MAX_SWEEPS ||
			      (task % b->n_cut == 0 && all_barren(b))))
			break;
		judge_cut(c, &b->cut[task % b->n_cut], sweep);
	}
	end_crew(c);
}

size_t job_run(struct job *job)
{
	struct crew c = { .job = job,
			  .board = make_board(job),
			  .seen = hashset_new(job->want + 4096),
			  .good = hashset_new(4 * job->want + 4096) };
	size_t bad;

	for (unsigned i = 0; i < job->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			image_die("fork: %s", strerror(errno));
		if (!pid) {
			work(&c);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < job->processes; i++) {
		int status;

		if (wait(&status) < 0 || status)
			image_die("a judge ended with status %d", status);
	}
	bad = c.board->bad;
	memcpy(job->caught, c.board->caught, sizeof(job->caught));
	munmap(c.board, sizeof(*c.board) + (job->trace->n + 1) * sizeof(c.board->cut[0]));
	hashset_free(c.seen);
	hashset_free(c.good);
	return bad;
}

bool job_repro(const struct job *job, size_t k, unsigned variant)
{
	struct job copy = *job;
	struct crew c = { .job = &copy };
	bool good = true;

	if (k > job->trace->n)
		image_die("the trace has only %zu events", job->trace->n);
	start_crew(&c);
	go_to(&c, k);
	trace_state(job->trace, k, variant, job->seed, c.image);
	for (int how = JUDGE_REPLAY; how <= JUDGE_AS_IS; how++) {
		enum judge_verdict v;

		if (how == JUDGE_AGAIN) {
			judge_load(c.judge, c.image);
			judge_check(c.judge, JUDGE_REPLAY);
			cut_replay(&c, job->seed);
		} else {
			judge_load(c.judge, c.image);
		}
		v = judge_check(c.judge, (enum judge_how)how);
		printf("%-7s %s\n", judge_how_name((enum judge_how)how),
		       v == JUDGE_GOOD	    ? "good"
		       : v == JUDGE_SKIPPED ? "skipped: no loop mounts here"
					    : judge_why(c.judge));
		/* unreplayed it may well be inconsistent: for information */
		good &= v != JUDGE_BAD || how == JUDGE_AS_IS;
	}
	end_crew(&c);
	return good;
}
