/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Block-mapped files against a naive model: the tree of all possible blocks, walked from the top.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/commit/proof.h"
#include "scaledefrag/indirect.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE 64u
#define PER	   (BLOCK_SIZE / 4)
/* Numbers there are. */
#define S1   (1 + PER)
#define S2   (1 + PER * S1)
#define S3   (1 + PER * S2)
#define ALL  (INDIRECT_DIRECT + S1 + S2 + S3)
#define NONE UINT32_MAX

struct world {
	uint64_t seed, fresh;
	/* The naive model. */
	uint32_t n;
	uint32_t parent[ALL], entry[ALL], level[ALL];
	uint32_t child[ALL][PER]; /* of indirect blocks */
	uint32_t root[INDIRECT_ROOT];
	uint64_t pblk[ALL], then[ALL]; /* before and after the moves; 0: a hole */
	/* What is tested. */
	struct filemap before, after;
	struct filemap_delta delta;
	struct move move[ALL];
	size_t n_move;
};

static uint32_t pick(struct world *w, uint32_t n)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % n;
}

static uint32_t walk(struct world *w, uint32_t level, uint32_t parent, uint32_t entry)
{
	uint32_t me = w->n++;

	w->level[me] = level;
	w->parent[me] = parent;
	w->entry[me] = entry;
	for (uint32_t i = 0; level && i < PER; i++)
		w->child[me][i] = walk(w, level - 1, me, i);
	return me;
}

static struct world *new_world(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->seed = seed;
	w->fresh = 1000;
	for (uint32_t i = 0; i < INDIRECT_ROOT; i++)
		w->root[i] = walk(w, i < 12 ? 0 : i - 11, NONE, i);
	assert_int_equal(w->n, ALL);
	return w;
}

static void free_world(struct world *w)
{
	filemap_release(&w->before);
	filemap_release(&w->after);
	filemap_delta_release(&w->delta);
	free(w);
}

static void test_indirect_find__every_number(void **state)
{
	struct world *w = new_world(1);
	uint32_t lblk = 0;

	(void)state;
	for (uint32_t i = 0; i < ALL; i++) {
		struct indirect_place p;

		if (w->level[i] == 0)
			assert_int_equal(indirect_number(lblk++, BLOCK_SIZE), i);
		indirect_find(i, BLOCK_SIZE, &p);
		assert_int_equal(p.level, w->level[i]);
		assert_int_equal(p.entry, w->entry[i]);
		assert_int_equal(p.in_inode, w->parent[i] == NONE);
		if (!p.in_inode)
			assert_int_equal(p.parent, w->parent[i]);
	}
	for (uint32_t i = 0; i < INDIRECT_ROOT; i++) {
		assert_int_equal(indirect_root_number(i, BLOCK_SIZE), w->root[i]);
		assert_int_equal(indirect_root_level(i), w->level[w->root[i]]);
	}
	assert_int_equal(indirect_root_number(INDIRECT_ROOT, BLOCK_SIZE), ALL);
	assert_int_equal(indirect_number(lblk, BLOCK_SIZE), ALL);
	assert_int_equal(indirect_number(UINT32_MAX, BLOCK_SIZE), ALL);
	free_world(w);
}

static void test_indirect_span__real_block_sizes(void **state)
{
	(void)state;
	assert_int_equal(indirect_span(0, 4096), 1);
	assert_int_equal(indirect_span(1, 4096), 1025);
	assert_int_equal(indirect_span(2, 4096), 1 + 1024 * 1025);
	assert_int_equal(indirect_root_number(13, 1024), 12 + 257);
	/* The last block of a 64 KiB one has no number below 2^32. */
	assert_true(indirect_root_number(INDIRECT_ROOT, 65536) > UINT32_MAX);
	assert_true(indirect_root_number(INDIRECT_ROOT, 4096) < UINT32_MAX);
}

/* A file: stretches of data, and the indirect blocks that it needs; some empty ones besides. */
static void make_file(struct world *w)
{
	struct extent *piece = calloc(ALL, sizeof(*piece));
	size_t n = 0;
	uint32_t fill = 1 + pick(w, 100), jump = pick(w, 40), to = 20 + pick(w, ALL - 20);
	struct error err = ERROR_INIT;

	for (uint32_t i = 0; i < to; i++) {
		bool want = w->level[i] ? pick(w, 50) == 0 : pick(w, 100) < fill;

		for (uint32_t k = i; want && k != NONE && !w->pblk[k]; k = w->parent[k])
			w->pblk[k] = 1;
		if (jump && pick(w, 200) == 0)
			i += pick(w, 1u << pick(w, 10));
	}
	if (!w->pblk[0])
		w->pblk[0] = 1;
	for (uint32_t i = 0; i < ALL; i++) {
		if (!w->pblk[i])
			continue;
		if (pick(w, 4) == 0)
			w->fresh += 1 + pick(w, 5);
		w->pblk[i] = w->fresh++;
		piece[n++] = (struct extent){ .pblk = w->pblk[i], .lblk = i, .len = 1 };
	}
	if (indirect_build(piece, n, &w->before, &err))
		fail_msg("%s", err.text);
	free(piece);
	assert_null(filemap_check(&w->before, BLOCK_SIZE));
}

static void make_moves(struct world *w)
{
	uint32_t often = 1 + pick(w, 60);

	memcpy(w->then, w->pblk, sizeof(w->then));
	w->n_move = 0;
	for (size_t i = 0; i < w->before.n_ext; i++) {
		const struct extent *e = &w->before.ext[i];

		for (uint32_t at = 0; at < e->len;) {
			uint32_t len = 1 + pick(w, e->len - at);
			struct move m = { .from = e->pblk + at, .lblk = e->lblk + at, .len = len };

			at += len;
			if (pick(w, 60) >= often)
				continue;
			w->fresh += pick(w, 3);
			m.to = w->fresh;
			w->fresh += len;
			for (uint32_t k = 0; k < len; k++)
				w->then[m.lblk + k] = m.to + k;
			w->move[w->n_move++] = m;
		}
	}
	if (!w->n_move) {
		const struct extent *e = &w->before.ext[0];

		w->move[w->n_move++] =
			(struct move){ .from = e->pblk, .to = w->fresh, .lblk = e->lblk, .len = 1 };
		w->then[e->lblk] = w->fresh++;
	}
}

static void do_moves(struct world *w)
{
	struct error err = ERROR_INIT;

	if (filemap_move(&w->before, w->move, w->n_move, BLOCK_SIZE, true, NULL, 0, NULL, &w->after,
			 &w->delta, &err))
		fail_msg("%s", err.text);
}

/* Is the mapping block by block that of the model? */
static void check_map(const struct filemap *m, const uint64_t *pblk)
{
	assert_null(filemap_check(m, BLOCK_SIZE));
	for (uint32_t i = 0; i < ALL; i++)
		assert_int_equal(indirect_block(m, i), pblk[i]);
	for (size_t i = 1; i < m->n_ext; i++)
		assert_false(m->ext[i].lblk == m->ext[i - 1].lblk + m->ext[i - 1].len &&
			     m->ext[i].pblk == m->ext[i - 1].pblk + m->ext[i - 1].len);
}

static void check_bytes(const struct world *w, const struct filemap *m, const uint64_t *pblk)
{
	uint32_t buf[PER], root[INDIRECT_ROOT];

	for (uint32_t i = 0; i < ALL; i++) {
		if (!w->level[i] || !pblk[i])
			continue;
		indirect_encode(m, i, BLOCK_SIZE, (uint8_t *)buf);
		for (uint32_t k = 0; k < PER; k++)
			assert_int_equal(buf[k], pblk[w->child[i][k]]);
	}
	indirect_encode_root(m, BLOCK_SIZE, (uint8_t *)root);
	for (uint32_t k = 0; k < INDIRECT_ROOT; k++)
		assert_int_equal(root[k], pblk[w->root[k]]);
}

/* Must the commit write this indirect block? */
static bool is_written(const struct world *w, uint32_t i)
{
	bool changed = w->then[i] != w->pblk[i];

	if (!w->level[i] || !w->pblk[i])
		return false;
	for (uint32_t k = 0; k < PER; k++)
		changed |= w->then[w->child[i][k]] != w->pblk[w->child[i][k]];
	return changed;
}

static void check_delta(const struct world *w)
{
	const struct filemap_delta *d = &w->delta;
	size_t n = 0;

	assert_int_equal(d->n_freed, 0);
	assert_int_equal(d->n_taken, 0);
	for (uint32_t i = 0; i < ALL; i++) {
		bool found = false;

		if (!is_written(w, i))
			continue;
		assert_true(n < d->n_kept);
		assert_int_equal(d->number[n++], i);
		for (size_t k = 0; k < d->n_kept; k++)
			found |= d->kept[k] == w->then[i];
		assert_true(found);
	}
	assert_int_equal(n, d->n_kept);
	for (size_t k = 1; k < d->n_kept; k++)
		assert_true(d->kept[k - 1] < d->kept[k]);
}

static const char *proof(const struct world *w, const struct filemap_delta *d)
{
	struct error err = ERROR_INIT;
	const char *wrong = proof_mapping(&w->before, w->move, w->n_move, 1, &w->after);

	if (!wrong && proof_indirect(&w->after, w->move, w->n_move, BLOCK_SIZE, d, &wrong, &err))
		fail_msg("%s", err.text);
	return wrong;
}

static void test_filemap_move__block_mapped_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct world *w = new_world(seed);

		make_file(w);
		check_map(&w->before, w->pblk);
		check_bytes(w, &w->before, w->pblk);
		make_moves(w);
		do_moves(w);
		check_map(&w->after, w->then);
		check_bytes(w, &w->after, w->then);
		check_delta(w);
		assert_null(proof(w, &w->delta));
		free_world(w);
	}
}

/* One of these is done to the delta; then it must be found wrong. */
enum wrong { LOST, INVENTED, ELSEWHERE, TWICE, WRONGS };

/* False: it can't be done to this one. */
static bool spoil(struct world *w, enum wrong how, struct filemap_delta *d)
{
	size_t n = d->n_kept, at = n ? pick(w, (uint32_t)n) : 0;

	if (!n && how != INVENTED)
		return false;
	switch (how) {
	case LOST:
		for (size_t k = 0; k < n; k++)
			if (d->kept[k] == w->then[d->number[at]]) {
				memmove(&d->kept[k], &d->kept[k + 1], (n - k - 1) * 8);
				break;
			}
		memmove(&d->number[at], &d->number[at + 1], (n - at - 1) * 4);
		d->n_kept--;
		return true;
	case INVENTED:
		for (uint32_t i = 0; i < ALL; i++) {
			if (!w->then[i] || !w->level[i] || is_written(w, i))
				continue;
			for (at = n; at && d->number[at - 1] > i; at--)
				d->number[at] = d->number[at - 1];
			d->number[at] = i;
			d->kept[n] = w->then[i];
			d->n_kept++;
			return true;
		}
		return false;
	case ELSEWHERE:
		d->kept[at]++;
		return true;
	default:
		if (n < 2)
			return false;
		d->number[n - 1] = d->number[n - 2];
		return true;
	}
}

static void test_proof_indirect__finds_what_is_wrong(void **state)
{
	size_t done[WRONGS] = { 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct world *w = new_world(seed);
		enum wrong how = (enum wrong)(seed % WRONGS);
		struct filemap_delta d = { 0 };

		make_file(w);
		make_moves(w);
		do_moves(w);
		d.n_kept = w->delta.n_kept;
		d.kept = calloc(d.n_kept + 1, sizeof(*d.kept));
		d.number = calloc(d.n_kept + 1, sizeof(*d.number));
		memcpy(d.kept, w->delta.kept, d.n_kept * sizeof(*d.kept));
		if (d.n_kept)
			memcpy(d.number, w->delta.number, d.n_kept * sizeof(*d.number));
		assert_null(proof(w, &d));
		if (spoil(w, how, &d)) {
			assert_non_null(proof(w, &d));
			done[how]++;
		}
		filemap_delta_release(&d);
		free_world(w);
	}
	for (size_t i = 0; i < WRONGS; i++)
		assert_true(done[i] > 10);
}

static void refused(const struct filemap *map, const struct move *m, const char *what)
{
	struct filemap out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;

	assert_int_equal(filemap_move(map, m, 1, 1024, true, NULL, 0, NULL, &out, &d, &err), -1);
	assert_int_equal(err.kind, ERROR_OPERATION);
	if (!strstr(err.text, what))
		fail_msg("%s", err.text);
}

static void test_filemap_move__block_mapped_refuses(void **state)
{
	struct extent orphan = { .pblk = 50, .lblk = 20, .len = 3 };
	struct extent sound = { .pblk = 50, .lblk = 3, .len = 3 };
	struct filemap map = { .ext = &orphan, .n_ext = 1, .indirect = true };
	struct move m = { .from = 50, .to = 90, .lblk = 20, .len = 3 };

	(void)state;
	refused(&map, &m, "an indirect block is missing");
	map.ext = &sound;
	m.lblk = 3;
	m.to = 0xfffffffe;
	refused(&map, &m, "beyond the last possible block");
	m.to = 90;
	m.from = 51;
	refused(&map, &m, "not what the file has there");
	m.from = 50;
	sound.unwritten = 1;
	refused(&map, &m, "a record's length");
	sound.unwritten = 0;
	sound.len = INDIRECT_MAX_LEN + 1;
	refused(&map, &m, "a record's length");
	sound.len = 3;
	map.depth = 1;
	refused(&map, &m, "no extent tree");
	map.depth = 0;
	sound.lblk = (uint32_t)indirect_root_number(INDIRECT_ROOT, 1024) - 2;
	refused(&map, &m, "beyond the last possible block");
}

static void test_filemap_move__block_mapped_long_records(void **state)
{
	struct extent piece[3];
	struct filemap map, out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;
	/* 12 data blocks, an indirect block, 8192 - 13 of its data, and the rest. */
	struct move m[2] = { { .from = 100, .to = 100000, .lblk = 0, .len = INDIRECT_MAX_LEN },
			     { .from = 100 + INDIRECT_MAX_LEN,
			       .to = 100000 + INDIRECT_MAX_LEN,
			       .lblk = INDIRECT_MAX_LEN,
			       .len = 100 } };

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		piece[i] = (struct extent){ .pblk = 100 + i * 4000, .lblk = i * 4000, .len = 4000 };
	piece[2].len = 292;
	assert_int_equal(indirect_build(piece, 3, &map, &err), 0);
	assert_int_equal(map.n_ext, 2);
	assert_int_equal(map.ext[0].len, INDIRECT_MAX_LEN);
	assert_int_equal(filemap_runs(map.ext, map.n_ext), 1);
	assert_int_equal(filemap_move(&map, m, 2, 65536, true, NULL, 0, NULL, &out, &d, &err), 0);
	assert_int_equal(out.n_ext, 2);
	assert_int_equal(out.ext[0].len, INDIRECT_MAX_LEN);
	assert_int_equal(d.n_kept, 1);
	assert_int_equal(d.kept[0], 100012);
	filemap_release(&map);
	filemap_release(&out);
	filemap_delta_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_indirect_find__every_number),
		cmocka_unit_test(test_indirect_span__real_block_sizes),
		cmocka_unit_test(test_filemap_move__block_mapped_random),
		cmocka_unit_test(test_filemap_move__block_mapped_refuses),
		cmocka_unit_test(test_filemap_move__block_mapped_long_records),
		cmocka_unit_test(test_proof_indirect__finds_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
