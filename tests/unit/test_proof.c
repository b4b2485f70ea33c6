/* SPDX-License-Identifier: GPL-2.0-or-later */
/* proof: new mappings by filemap_move are accepted, also near the length limit of a record, where
 * its own tests don't go; with anything changed in them they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/commit/proof.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE 96u /* 7 records a node */
#define PER	   7u
#define MOST	   200u

struct world {
	uint64_t seed, fresh;
	struct filemap before, after;
	struct filemap_delta delta;
	struct move move[2 * MOST];
	size_t n_move;
};

static uint32_t pick(struct world *w, uint32_t n)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % n;
}

static uint64_t fresh(struct world *w, uint64_t n)
{
	uint64_t at = w->fresh;

	w->fresh += n + 1;
	return at;
}

static uint32_t pick_len(struct world *w, uint32_t most)
{
	static const uint32_t near[] = { 0, 1, 2, 300, 20000 };

	return pick(w, 2) ? 1 + pick(w, 5) : most - near[pick(w, 5)];
}

/* Records that often adjoin, in nodes that are not all full. */
static void make_file(struct world *w)
{
	struct filemap *m = &w->before;
	size_t items = 1 + pick(w, MOST);
	uint64_t lblk = 0, pblk = fresh(w, 1);

	m->ext = calloc(items, sizeof(*m->ext));
	for (; m->n_ext < items; m->n_ext++) {
		bool unwritten = pick(w, 3) == 0;
		uint32_t len = pick_len(w, unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT);

		lblk += pick(w, 6) ? 0 : 1 + pick(w, 5);
		pblk = pick(w, 2) ? pblk : fresh(w, 40000);
		m->ext[m->n_ext] = (struct extent){ .pblk = pblk,
						    .lblk = (uint32_t)lblk,
						    .len = len & 0x7fffffffu,
						    .unwritten = unwritten };
		lblk += len;
		pblk += len;
		w->fresh = w->fresh > pblk ? w->fresh : pblk + 1;
	}
	while (items > EXTENT_ROOT_RECORDS) {
		size_t n = 0, left = items;
		struct tree_node *node = calloc(items, sizeof(*node));

		for (; left; n++) {
			uint32_t count = pick(w, 3) ? PER : PER - pick(w, 3);

			count = count < left ? count : (uint32_t)left;
			node[n] = (struct tree_node){ .pblk = fresh(w, 1), .count = count };
			left -= count;
		}
		assert_int_equal(filemap_need_tree(m, &ERROR_INIT), 0);
		m->tree->n_node[m->depth] = n;
		m->tree->node[m->depth++] = node;
		items = n;
	}
	assert_null(filemap_check(m, BLOCK_SIZE));
}

/* Parts of some records, often to right behind where the one before went. */
static void make_moves(struct world *w)
{
	uint64_t to = 0;

	w->n_move = 0;
	for (size_t i = 0; i < w->before.n_ext; i++) {
		const struct extent *e = &w->before.ext[i];
		uint32_t skip = pick(w, 3) ? 0 : pick(w, e->len);
		uint32_t len = e->len - skip;

		if (pick(w, 3) == 0 && w->n_move + 1 < w->before.n_ext)
			continue;
		len = pick(w, 3) ? len : 1 + pick(w, len);
		to = to && pick(w, 4) ? to : fresh(w, 0);
		w->move[w->n_move++] = (struct move){ .from = e->pblk + skip,
						      .to = to,
						      .lblk = e->lblk + skip,
						      .len = len,
						      .unwritten = e->unwritten };
		to += len;
		w->fresh = w->fresh > to ? w->fresh : to + 1;
	}
}

static void move(struct world *w, bool minimal)
{
	uint64_t take[2 * MOST];
	struct error err = ERROR_INIT;
	size_t need = 0;

	for (size_t i = 0; i < 2 * MOST; i++)
		take[i] = fresh(w, 1);
	assert_int_equal(filemap_move(&w->before, w->move, w->n_move, BLOCK_SIZE, minimal, take,
				      2 * MOST, &need, &w->after, &w->delta, &err),
			 0);
}

static const char *prove(const struct world *w)
{
	struct error err = ERROR_INIT;
	const char *wrong = filemap_check(&w->after, BLOCK_SIZE);

	if (!wrong)
		wrong = proof_mapping(&w->before, w->move, w->n_move, 1, &w->after);
	if (!wrong)
		assert_int_equal(proof_nodes(&w->before, &w->after, &w->delta, &wrong, &err), 0);
	return wrong;
}

static void start(struct world *w, uint64_t seed)
{
	*w = (struct world){ .seed = seed, .fresh = 1000 };
	make_file(w);
	make_moves(w);
	if (w->n_move)
		move(w, pick(w, 3) == 0);
}

static void end(struct world *w)
{
	filemap_release(&w->before);
	filemap_release(&w->after);
	filemap_delta_release(&w->delta);
}

static void test_proof__right_ones(void **state)
{
	struct world w;

	(void)state;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		start(&w, seed);
		if (w.n_move)
			assert_null(prove(&w));
		/* and on from there */
		for (int i = 0; i < 4 && w.n_move; i++) {
			filemap_delta_release(&w.delta);
			filemap_release(&w.before);
			w.before = w.after;
			w.after = (struct filemap){ 0 };
			if (w.before.n_ext > MOST) {
				w.n_move = 0;
				break;
			}
			make_moves(&w);
			if (!w.n_move)
				break;
			move(&w, i == 3);
			assert_null(prove(&w));
		}
		end(&w);
	}
}

static struct tree_node *some_node(struct world *w, bool changed)
{
	struct tree_node *found = NULL;
	uint32_t n = 0;

	for (uint32_t l = 0; l < w->after.depth; l++)
		for (size_t i = 0; i < w->after.tree->n_node[l]; i++)
			if ((w->after.tree->node[l][i].changed != 0) == changed &&
			    pick(w, ++n) == 0)
				found = &w->after.tree->node[l][i];
	return found;
}

/* Changes one thing; false: there is no such thing here. */
static bool spoil(struct world *w, int how)
{
	struct extent *e = &w->after.ext[pick(w, (uint32_t)w->after.n_ext)];
	struct tree_node *t = some_node(w, how != 5);

	switch (how) {
	case 0:
		e->pblk++;
		return true;
	case 1:
		e->len--;
		return true;
	case 2:
		e->unwritten = !e->unwritten;
		return true;
	case 3: /* a block that was a hole, or another record's */
		e->len = (e->len + 1) & 0x7fffffffu;
		return true;
	case 4: /* not rewritten, though it changes */
		if (t)
			t->changed = 0;
		return t;
	case 5: /* rewritten, though nobody counted it */
		if (t)
			t->changed = 1;
		return t;
	case 6: /* in somebody else's block */
		if (t)
			t->pblk = 7;
		return t;
	case 7:
		if (w->delta.n_freed)
			w->delta.n_freed--;
		else if (w->delta.n_kept)
			w->delta.freed = calloc(1, sizeof(uint64_t)), w->delta.n_freed = 1;
		return w->delta.freed;
	case 8:
		w->move[pick(w, (uint32_t)w->n_move)].to++;
		return true;
	case 9:
		w->move[pick(w, (uint32_t)w->n_move)].from++;
		return true;
	default: /* two records the other way round */
		if (e == w->after.ext || e->len != e[-1].len)
			return false;
		e->pblk ^= e[-1].pblk;
		e[-1].pblk ^= e->pblk;
		e->pblk ^= e[-1].pblk;
		return true;
	}
}

static void test_proof__wrong_ones(void **state)
{
	size_t spoilt[11] = { 0 };
	struct world w;

	(void)state;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		int how = (int)(seed % 11);

		start(&w, seed);
		if (w.n_move && spoil(&w, how)) {
			if (!prove(&w))
				fail_msg("seed %llu: change %d was not seen",
					 (unsigned long long)seed, how);
			spoilt[how]++;
		}
		end(&w);
	}
	for (int i = 0; i < 11; i++)
		assert_true(spoilt[i] > 10);
}

/* Moved into a hole's place: what the file did not have before, it must not have after. */
static void test_proof_mapping__filled_hole(void **state)
{
	struct extent was[] = { { .pblk = 100, .lblk = 0, .len = 2 },
				{ .pblk = 200, .lblk = 4, .len = 2 } };
	struct extent is[] = { { .pblk = 100, .lblk = 0, .len = 2 },
			       { .pblk = 300, .lblk = 2, .len = 1 },
			       { .pblk = 400, .lblk = 4, .len = 2 } };
	const struct move m = { .from = 200, .to = 400, .lblk = 4, .len = 2 };
	struct filemap before = { .ext = was, .n_ext = 2 }, after = { .ext = is, .n_ext = 3 };

	(void)state;
	assert_non_null(proof_mapping(&before, &m, 1, 1, &after));
	is[1] = is[2];
	after.n_ext = 2;
	assert_null(proof_mapping(&before, &m, 1, 1, &after));
	after.n_ext = 1;
	assert_non_null(proof_mapping(&before, &m, 1, 1, &after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_proof__right_ones),
		cmocka_unit_test(test_proof__wrong_ones),
		cmocka_unit_test(test_proof_mapping__filled_hole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
