/* SPDX-License-Identifier: GPL-2.0-or-later */
/* move: copies of a batch on a device in memory, whole and with every fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/move.h"
#include "support/faultdev.h"
#include "support/memdev.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOVES_MAX 20000

struct rig {
	uint32_t bs;
	uint64_t blocks;
	uint8_t *mem, *before;
	struct device *dev;
	struct faultdev *fault;
	struct plan *plan;
	struct move_dropped *dropped;
	struct move_options o;
	struct move_result res;
	uint64_t told; /* bytes, by progress */
	/* on_progress flips a byte here once everything is copied; 0: doesn't */
	uint64_t spoil, spoil_when;
};

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void on_progress(void *ctx, uint64_t bytes)
{
	struct rig *r = ctx;

	r->told += bytes;
	if (r->spoil && r->told == r->spoil_when)
		r->mem[r->spoil * r->bs] ^= 1;
}

static void rig_open(struct rig *r, uint32_t bs, uint64_t blocks, uint32_t align)
{
	struct error err = ERROR_INIT;
	uint64_t seed = 88172645463325252u;
	struct device *mem;

	*r = (struct rig){ .bs = bs, .blocks = blocks };
	r->mem = device_buffer(bs * blocks);
	r->before = malloc(bs * blocks);
	assert_true(r->mem && r->before);
	for (size_t i = 0; i < bs * blocks; i += 8) {
		uint64_t n = next_random(&seed);

		memcpy(r->mem + i, &n, 8);
	}
	memcpy(r->before, r->mem, bs * blocks);
	mem = memdev_new(r->mem, bs * blocks, align);
	r->fault = faultdev_new();
	assert_int_equal(faultdev_wrap(r->fault, mem, &r->dev, &err), 0);
	assert_int_equal(plan_new(&r->plan, &err), 0);
	assert_int_equal(plan_begin_batch(r->plan, &err), 0);
	r->o = (struct move_options){ .threads = 2,
				      .queue_depth = 16,
				      .memory = move_memory_floor(2, bs),
				      .block_size = bs,
				      .progress = on_progress,
				      .ctx = r };
}

static void rig_close(struct rig *r)
{
	device_close(r->dev);
	faultdev_free(r->fault);
	plan_free(r->plan);
	free(r->dropped);
	free(r->mem);
	free(r->before);
}

static void add_file(struct rig *r, const struct move *moves, size_t n)
{
	struct filemap_delta none = { 0 };
	struct error err = ERROR_INIT;
	uint32_t ino = (uint32_t)r->plan->n_file + 12;

	assert_int_equal(plan_add_file(r->plan, ino, true, moves, n, &none, &err), 0);
}

/*
 * Files whose pieces lie shuffled in the lower half, with small and large gaps, and go to the upper
 * half, mostly side by side.
 */
static void random_plan(struct rig *r, uint64_t seed, uint32_t longest)
{
	uint64_t at = 1, to = r->blocks / 2, s = seed * 2654435761u + 1;
	struct move *m = calloc(MOVES_MAX, sizeof(*m));
	size_t n = 0, used = 0;

	assert_non_null(m);
	while (n < MOVES_MAX) {
		uint32_t len = (uint32_t)(next_random(&s) % longest + 1);
		uint64_t gap = next_random(&s) % 4 ? next_random(&s) % 3 : next_random(&s) % 60;

		if (at + gap + len > r->blocks / 2)
			break;
		at += gap;
		m[n++] = (struct move){ .from = at, .len = len };
		at += len;
	}
	for (size_t i = n - 1; i > 0; i--) {
		size_t k = next_random(&s) % (i + 1);
		struct move tmp = m[i];

		if (next_random(&s) % 3 == 0) /* some neighbours stay neighbours */
			continue;
		m[i] = m[k];
		m[k] = tmp;
	}
	while (used < n) {
		size_t pieces = next_random(&s) % 30 + 1;
		uint32_t lblk = 0;

		pieces = pieces > n - used ? n - used : pieces;
		for (size_t i = 0; i < pieces; i++) {
			struct move *x = &m[used + i];

			if (next_random(&s) % 10 == 0 && to + x->len + 3 < r->blocks)
				to += 3;
			if (to + x->len > r->blocks) { /* no room: as if unwritten */
				x->unwritten = 1;
				continue;
			}
			x->to = to;
			x->lblk = lblk;
			x->unwritten = next_random(&s) % 20 == 0;
			to += x->len;
			lblk += x->len + 1;
		}
		add_file(r, m + used, pieces);
		used += pieces;
	}
	free(m);
}

static int rig_run(struct rig *r, struct error *err)
{
	struct mover *m;
	int rc;

	free(r->dropped);
	r->dropped = calloc(r->plan->n_file, sizeof(*r->dropped));
	assert_non_null(r->dropped);
	r->told = 0;
	r->res = (struct move_result){ 0 };
	if (move_open(r->dev, r->plan, &r->o, &m, err))
		return -1;
	rc = move_batch(m, 0, r->dropped, &r->res, err);
	move_close(m);
	return rc;
}

/* Every file that was kept is copied; nothing but targets has changed. `complete`: the run did not
 * fail or stop. Puts the old bytes back. */
static void check_content(struct rig *r, bool complete)
{
	const struct plan *p = r->plan;

	for (size_t f = 0; f < p->n_file; f++) {
		for (uint64_t i = 0; i < p->file[f].n_move; i++) {
			const struct move *m = &p->move[p->file[f].first_move + i];
			uint8_t *to = r->mem + m->to * r->bs;
			size_t len = (size_t)m->len * r->bs;

			if (m->unwritten)
				continue;
			if (complete && !r->dropped[f].why)
				assert_memory_equal(to, r->before + m->from * r->bs, len);
			memcpy(to, r->before + m->to * r->bs, len);
		}
	}
	assert_memory_equal(r->mem, r->before, r->blocks * r->bs);
}

static uint64_t written_bytes(const struct rig *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->plan->n_move; i++)
		n += r->plan->move[i].unwritten ? 0 : (uint64_t)r->plan->move[i].len * r->bs;
	return n;
}

static void run_well(struct rig *r)
{
	struct error err = ERROR_INIT;

	assert_int_equal(rig_run(r, &err), 0);
	assert_int_equal(r->res.n_dropped, 0);
	assert_false(r->res.stopped);
	assert_int_equal(r->res.bytes, written_bytes(r));
	assert_int_equal(r->told, r->res.bytes);
	check_content(r, true);
}

static void test_move_batch__random_plans(void **state)
{
	static const struct {
		uint32_t bs, align, longest;
		unsigned threads, depth;
		uint64_t memory; /* 0: the floor */
		bool verify, rotational;
	} t[] = {
		{ 4096, 512, 3, 1, 1, 0, false, false },
		{ 4096, 4096, 40, 2, 128, 0, true, false },
		{ 4096, 1, 600, 4, 16, 64 << 20, false, false },
		{ 1024, 1024, 8, 3, 7, 0, true, false },
		{ 1024, 1, 2, 2, 128, 64 << 20, false, false },
		{ 65536, 4096, 30, 2, 4, 0, true, false },
		{ 4096, 512, 9, 2, 32, 0, true, true },
		{ 1024, 1, 5, 4, 64, 64 << 20, false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct rig r;

		rig_open(&r, t[i].bs, (24 << 20) / t[i].bs, t[i].align);
		random_plan(&r, i + 1, t[i].longest);
		r.o.threads = t[i].threads;
		r.o.queue_depth = t[i].depth;
		r.o.memory = t[i].memory ? t[i].memory : move_memory_floor(t[i].threads, t[i].bs);
		r.o.verify = t[i].verify;
		r.o.rotational = t[i].rotational;
		run_well(&r);
		rig_close(&r);
	}
}

static void test_move_batch__completions_out_of_order(void **state)
{
	struct error err = ERROR_INIT;
	struct rig r;
	struct device *mem;

	(void)state;
	rig_open(&r, 4096, 4096, 512);
	random_plan(&r, 7, 5);
	device_close(r.dev);
	mem = memdev_new(r.mem, r.blocks * r.bs, 512);
	memdev_shuffle(mem, 42);
	assert_int_equal(faultdev_wrap(r.fault, mem, &r.dev, &err), 0);
	r.o.verify = true;
	run_well(&r);
	rig_close(&r);
}

static void test_move_batch__large_file_in_slices(void **state)
{
	struct rig r;
	struct move m = { .from = 1, .to = 3501, .len = 3333 };

	(void)state;
	rig_open(&r, 4096, 7000, 4096);
	add_file(&r, &m, 1);
	run_well(&r);
	assert_true(r.res.reads <= 3333 * 4096 / (1 << 20) + 14 + 2);
	rig_close(&r);
}

static void test_move_batch__interleaved_files_take_few_requests(void **state)
{
	struct move a[200], b[200];
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 2000, 4096);
	for (uint32_t i = 0; i < 200; i++) {
		a[i] = (struct move){ .from = 10 + 2 * i, .to = 1000 + i, .lblk = i, .len = 1 };
		b[i] = (struct move){ .from = 11 + 2 * i, .to = 1200 + i, .lblk = i, .len = 1 };
	}
	add_file(&r, a, 200);
	add_file(&r, b, 200);
	r.o.threads = 1;
	r.o.memory = 64 << 20;
	run_well(&r);
	assert_true(r.res.reads <= 8);
	assert_true(r.res.writes <= 3);
	rig_close(&r);
}

static void test_move_batch__a_head_passes_over_gaps(void **state)
{
	struct move m[100];
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 4000, 4096);
	for (uint32_t i = 0; i < 100; i++) /* gaps of 60 KiB, 4 sources in 256 KiB */
		m[i] = (struct move){ .from = 10 + 16 * i, .to = 2000 + i, .lblk = i, .len = 1 };
	add_file(&r, m, 100);
	r.o.memory = 64 << 20;
	run_well(&r);
	assert_int_equal(r.res.reads, 100);
	r.o.rotational = true;
	run_well(&r);
	assert_int_equal(r.res.reads, 25);
	rig_close(&r);
}

static void test_move_batch__unwritten_copies_nothing(void **state)
{
	struct move m = { .from = 1, .to = 50, .len = 20, .unwritten = 1 };
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 100, 512);
	add_file(&r, &m, 1);
	run_well(&r);
	assert_int_equal(r.res.reads + r.res.writes, 0);
	rig_close(&r);
}

static void test_move_batch__too_little_memory(void **state)
{
	struct move m = { .from = 1, .to = 50, .len = 20 };
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 100, 512);
	add_file(&r, &m, 1);
	r.o.memory = move_memory_floor(2, 4096) - 1;
	assert_int_equal(rig_run(&r, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	rig_close(&r);
}

static void test_move_batch__stopped(void **state)
{
	struct move m = { .from = 1, .to = 50, .len = 20 };
	struct error err = ERROR_INIT;
	volatile int stop = 2;
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 100, 512);
	add_file(&r, &m, 1);
	r.o.stop = &stop;
	assert_int_equal(rig_run(&r, &err), 0);
	assert_true(r.res.stopped);
	assert_int_equal(r.res.bytes, 0);
	check_content(&r, false);
	rig_close(&r);
}

/* The file with this block as source or target; the test plans have no block twice. */
static size_t file_of(const struct rig *r, uint64_t block)
{
	for (size_t f = 0; f < r->plan->n_file; f++)
		for (uint64_t i = 0; i < r->plan->file[f].n_move; i++) {
			const struct move *m = &r->plan->move[r->plan->file[f].first_move + i];
			uint64_t lo = block < r->blocks / 2 ? m->from : m->to;

			if (!m->unwritten && block >= lo && block < lo + m->len)
				return f;
		}
	fail_msg("no file has block %llu", (unsigned long long)block);
	return 0;
}

static void test_move_batch__bad_places(void **state)
{
	static const struct {
		uint64_t at; /* the at-th copied block of the plan */
		bool target, verify;
	} t[] = { { 0, false, false }, { 100, false, true }, { 300, false, false },
		  { 0, true, false },  { 200, true, true },  { 400, true, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct error err = ERROR_INIT;
		struct fault_plan bad = { 0 };
		uint64_t block = 0, skip = t[i].at;
		struct rig r;
		size_t f;

		rig_open(&r, 4096, 4096, 512);
		random_plan(&r, i + 20, 9);
		for (size_t k = 0; k < r.plan->n_move && !block; k++) {
			const struct move *m = &r.plan->move[k];

			if (m->unwritten || (skip >= m->len && (skip -= m->len, true)))
				continue;
			block = (t[i].target ? m->to : m->from) + skip;
		}
		bad.bad_op = t[i].target ? FAULT_WRITE : FAULT_READ;
		bad.bad_from = block * r.bs + 512;
		bad.bad_len = 512;
		faultdev_set(r.fault, bad);
		r.o.verify = t[i].verify;
		assert_int_equal(rig_run(&r, &err), 0);
		f = file_of(&r, block);
		assert_int_equal(r.res.n_dropped, 1);
		assert_int_equal(r.dropped[f].why,
				 t[i].target ? MOVE_TARGET_FAILED : MOVE_SOURCE_FAILED);
		assert_int_equal(r.dropped[f].block, block);
		assert_int_equal(r.dropped[f].sys, EIO);
		assert_int_equal(r.dropped[f].bad_target, t[i].target ? block : 0);
		assert_int_equal(r.dropped[f].bad_len, t[i].target ? 1 : 0);
		check_content(&r, true);
		rig_close(&r);
	}
}

static void test_move_batch__bad_range_of_several_blocks(void **state)
{
	struct move m = { .from = 1, .to = 600, .len = 300 };
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 1000, 512);
	add_file(&r, &m, 1);
	faultdev_set(r.fault, (struct fault_plan){ .bad_op = FAULT_WRITE,
						   .bad_from = 630 * 4096,
						   .bad_len = 40 * 4096 });
	assert_int_equal(rig_run(&r, &err), 0);
	assert_int_equal(r.dropped[0].why, MOVE_TARGET_FAILED);
	assert_int_equal(r.dropped[0].bad_target, 630);
	assert_int_equal(r.dropped[0].bad_len, 40);
	rig_close(&r);
}

static void test_move_batch__verify_finds_a_changed_copy(void **state)
{
	struct error err = ERROR_INIT;
	struct rig r;
	size_t f;

	(void)state;
	rig_open(&r, 4096, 4096, 512);
	random_plan(&r, 3, 9);
	r.o.verify = true;
	for (size_t k = 0; k < r.plan->n_move; k++)
		if (!r.plan->move[k].unwritten)
			r.spoil = r.plan->move[k].to;
	r.spoil_when = written_bytes(&r);
	assert_int_equal(rig_run(&r, &err), 0);
	f = file_of(&r, r.spoil);
	assert_int_equal(r.res.n_dropped, 1);
	assert_int_equal(r.dropped[f].why, MOVE_VERIFY_FAILED);
	assert_true(r.dropped[f].bad_target <= r.spoil &&
		    r.dropped[f].bad_target + r.dropped[f].bad_len > r.spoil);
	check_content(&r, true);
	rig_close(&r);
}

/* One fault after the other, until the run is too short to reach it. */
static void test_move_batch__every_fault(void **state)
{
	static const enum fault_op op[] = { FAULT_READ, FAULT_WRITE, FAULT_FLUSH, FAULT_SUBMIT };
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 1200, 512);
	random_plan(&r, 11, 6);
	r.o.verify = true;
	r.o.queue_depth = 4;
	for (int how = 0; how < 3; how++) {
		for (size_t i = 0; i < 4; i++) {
			for (uint64_t nth = 1;; nth++) {
				struct error err = ERROR_INIT;
				int rc;

				faultdev_set(r.fault, (struct fault_plan){ .op = op[i],
									   .nth = nth,
									   .sys = how ? ENOSPC : 0,
									   .torn = how == 1,
									   .sticky = how == 2 });
				rc = rig_run(&r, &err);
				if (!faultdev_fired(r.fault)) {
					assert_int_equal(rc, 0);
					break;
				}
				if (rc)
					assert_int_equal(err.kind, ERROR_OPERATION);
				else /* a single failed read or write is healed by the retry */
					assert_int_equal(r.res.n_dropped == 0, how < 2);
				if (op[i] == FAULT_FLUSH || op[i] == FAULT_SUBMIT)
					assert_int_equal(rc, -1);
				check_content(&r, rc == 0);
				atomic_store(&r.dev->dead, false);
			}
		}
	}
	rig_close(&r);
}

static void add_batch(struct rig *r, struct move m)
{
	struct error err = ERROR_INIT;

	if (r->plan->n_file)
		assert_int_equal(plan_begin_batch(r->plan, &err), 0);
	add_file(r, &m, 1);
}

static bool same(const struct rig *r, uint64_t to, uint64_t from, uint64_t blocks)
{
	return !memcmp(r->mem + to * r->bs, r->before + from * r->bs, blocks * r->bs);
}

/* Each batch moves on what the one before has moved; one in between is free to run ahead. */
static void test_move_batch__reads_what_an_earlier_batch_writes(void **state)
{
	static const struct move m[] = { { .from = 10, .to = 2000, .len = 900 },
					 { .from = 2000, .to = 10, .len = 900 },
					 { .from = 1000, .to = 3000, .len = 700 },
					 { .from = 1, .to = 1, .len = 1, .unwritten = 1 },
					 { .from = 509, .to = 1500, .len = 1 },
					 { .from = 1500, .to = 1000, .len = 1 } };
	const size_t n = sizeof(m) / sizeof(m[0]);

	(void)state;
	for (int verify = 0; verify < 2; verify++) {
		struct error err = ERROR_INIT;
		struct move_dropped dropped;
		struct move_result res;
		struct mover *mover;
		struct rig r;

		rig_open(&r, 4096, 4000, 512);
		for (size_t b = 0; b < n; b++)
			add_batch(&r, m[b]);
		r.o.memory = 64 << 20;
		r.o.verify = verify;
		assert_int_equal(move_open(r.dev, r.plan, &r.o, &mover, &err), 0);
		for (size_t b = 0; b < n; b++) {
			assert_int_equal(move_batch(mover, b, &dropped, &res, &err), 0);
			assert_int_equal(dropped.why, MOVE_KEPT);
			assert_false(res.stopped);
			assert_int_equal(res.bytes, m[b].unwritten ? 0 : m[b].len * r.bs);
			/* the source is free now, and may be used by another */
			if (b == 0)
				memset(r.mem + m[0].from * r.bs, 0xee, m[0].len * r.bs);
		}
		move_close(mover);
		assert_true(same(&r, 10, 10, 900));
		assert_true(same(&r, 2000, 10, 900));
		assert_true(same(&r, 3000, 1000, 700));
		assert_true(same(&r, 1500, 509, 1) && same(&r, 1000, 509, 1));
		rig_close(&r);
	}
}

static void test_move_batch__writes_nothing_of_later_batches(void **state)
{
	struct error err = ERROR_INIT;
	struct move_dropped dropped;
	struct move_result res;
	struct mover *mover;
	struct rig r;

	(void)state;
	rig_open(&r, 4096, 4000, 512);
	for (uint32_t b = 0; b < 4; b++)
		add_batch(&r,
			  (struct move){ .from = 1 + b * 300, .to = 2000 + b * 300, .len = 300 });
	r.o.memory = 64 << 20;
	assert_int_equal(move_open(r.dev, r.plan, &r.o, &mover, &err), 0);
	while (faultdev_count(r.fault, FAULT_READ) < 4 * 2) /* all four are read, 1 MiB at a time */
		usleep(1000);
	assert_int_equal(faultdev_count(r.fault, FAULT_WRITE), 0);
	assert_int_equal(move_batch(mover, 0, &dropped, &res, &err), 0);
	assert_int_equal(move_batch(mover, 1, &dropped, &res, &err), 0);
	usleep(20000);
	assert_int_equal(faultdev_count(r.fault, FAULT_WRITE), 2 * 2);
	move_close(mover);
	assert_int_equal(faultdev_count(r.fault, FAULT_WRITE), 2 * 2);
	assert_true(same(&r, 2000, 1, 600) && same(&r, 2600, 2600, 600));
	rig_close(&r);
}

/* While batch 0 waits for its commit, what of batch 1 doesn't go where batch 0 came from is
 * written; what does comes later. */
static void test_move_start_early__no_more_than_may_be(void **state)
{
	static const struct move m[] = {
		{ .from = 1, .to = 2000, .len = 300 },
		{ .from = 400, .to = 100, .len = 100 },	 /* within what batch 0 leaves */
		{ .from = 600, .to = 2300, .len = 100 }, /* beside where it went */
		{ .from = 800, .to = 3000, .len = 100 },
		{ .from = 2010, .to = 3100, .len = 100 }, /* reads what batch 0 writes */
		{ .from = 1000, .to = 250, .len = 60 },	  /* partly */
	};
	struct error err = ERROR_INIT;
	struct move_dropped dropped[6];
	struct move_result res;
	struct mover *mover;
	struct rig r;

	(void)state;
	for (int early = 0; early < 2; early++) {
		rig_open(&r, 4096, 4000, 512);
		add_batch(&r, m[0]);
		add_batch(&r, m[1]);
		for (size_t i = 2; i < sizeof(m) / sizeof(m[0]); i++)
			add_file(&r, &m[i], 1);
		add_batch(&r, (struct move){ .from = 1200, .to = 3500, .len = 9 });
		r.o.early = early;
		r.o.memory = 64 << 20;
		assert_int_equal(move_open(r.dev, r.plan, &r.o, &mover, &err), 0);
		assert_int_equal(move_batch(mover, 0, dropped, &res, &err), 0);
		move_start_early(mover, 1);
		assert_int_equal(move_wait_early(mover, 1, &err), 0);
		assert_true(same(&r, 2300, 600, 100) == early);
		assert_true(same(&r, 3000, 800, 100) == early);
		assert_true(same(&r, 3100, 11, 100) == early);
		assert_true(same(&r, 100, 100, 100) && same(&r, 250, 250, 60));
		assert_true(same(&r, 3500, 3500, 9));
		assert_int_equal(move_batch(mover, 1, dropped, &res, &err), 0);
		assert_int_equal(res.bytes, 460 * r.bs);
		assert_true(same(&r, 2300, 600, 100) && same(&r, 3000, 800, 100));
		assert_true(same(&r, 3100, 11, 100) && same(&r, 100, 400, 100));
		assert_true(same(&r, 250, 1000, 60) && same(&r, 3500, 3500, 9));
		assert_int_equal(move_batch(mover, 2, dropped, &res, &err), 0);
		assert_true(same(&r, 3500, 1200, 9));
		move_close(mover);
		rig_close(&r);
	}
}

static void test_move_batch__flushes_on_the_way(void **state)
{
	struct move m = { .from = 1, .to = 3501, .len = 3333 };
	struct error err = ERROR_INIT;
	struct rig r;
	int rc = 0;

	(void)state;
	rig_open(&r, 4096, 7000, 4096);
	add_file(&r, &m, 1);
	r.o.flush_step = 1 << 20;
	/* Whether the copies are faster than who flushes is a matter of timing: not every time. */
	for (int i = 0; i < 1000 && !faultdev_count(r.fault, FAULT_FLUSH); i++)
		run_well(&r);
	assert_in_range(faultdev_count(r.fault, FAULT_FLUSH), 1, 13);
	faultdev_set(r.fault, (struct fault_plan){ .op = FAULT_FLUSH, .nth = 1 });
	for (int i = 0; i < 1000 && !rc; i++) {
		rc = rig_run(&r, &err);
		check_content(&r, !rc);
	}
	assert_int_equal(rc, -1);
	assert_int_equal(err.kind, ERROR_OPERATION);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_move_batch__random_plans),
		cmocka_unit_test(test_move_batch__completions_out_of_order),
		cmocka_unit_test(test_move_batch__large_file_in_slices),
		cmocka_unit_test(test_move_batch__interleaved_files_take_few_requests),
		cmocka_unit_test(test_move_batch__a_head_passes_over_gaps),
		cmocka_unit_test(test_move_batch__unwritten_copies_nothing),
		cmocka_unit_test(test_move_batch__too_little_memory),
		cmocka_unit_test(test_move_batch__stopped),
		cmocka_unit_test(test_move_batch__bad_places),
		cmocka_unit_test(test_move_batch__bad_range_of_several_blocks),
		cmocka_unit_test(test_move_batch__verify_finds_a_changed_copy),
		cmocka_unit_test(test_move_batch__every_fault),
		cmocka_unit_test(test_move_batch__reads_what_an_earlier_batch_writes),
		cmocka_unit_test(test_move_batch__writes_nothing_of_later_batches),
		cmocka_unit_test(test_move_start_early__no_more_than_may_be),
		cmocka_unit_test(test_move_batch__flushes_on_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
