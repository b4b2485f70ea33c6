/* SPDX-License-Identifier: GPL-2.0-or-later */
/* filemap against a naive model: one entry for each block of the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/filemap.h"
#include "scaledefrag/geometry.h"
#include <stdlib.h>
#include <string.h>

#define SPAN	   4000u /* blocks of a test file, holes counted */
#define FIRST_NODE (1ull << 40)
#define FIRST_TAKE (1ull << 41)
#define END	   (1ull << 42)

struct cell { /* of the naive model; pblk 0: a hole */
	uint64_t pblk;
	bool unwritten;
};

struct world {
	uint64_t seed;
	uint32_t block_size;
	struct filemap map;
	struct cell cell[SPAN];
	uint64_t next_pblk, next_take;
};

static uint32_t pick(struct world *w, uint32_t below)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return (uint32_t)((w->seed >> 11) % below);
}

static uint64_t new_blocks(struct world *w, uint32_t len, bool adjoin)
{
	uint64_t at;

	if (!adjoin)
		w->next_pblk += 1 + pick(w, 20);
	at = w->next_pblk;
	w->next_pblk += len;
	return at;
}

/* A tree of nodes that are filled anyhow, as a kernel may leave it. */
static void make_tree(struct world *w, bool full)
{
	struct filemap *m = &w->map;
	uint32_t per = geometry_node_records(w->block_size);
	size_t items = m->n_ext;
	uint64_t pblk = FIRST_NODE;

	while (items > EXTENT_ROOT_RECORDS || (!m->depth && items && pick(w, 4) == 0)) {
		struct tree_node *t = calloc(items, sizeof(*t));
		size_t n = 0;

		assert_non_null(t);
		assert_true(m->depth < EXTENT_MAX_DEPTH);
		while (items) {
			uint32_t count = full ? per : per - pick(w, (per + 1) / 2);

			if (count > items)
				count = (uint32_t)items;
			t[n++] = (struct tree_node){ .pblk = pblk, .count = count, .changed = 1 };
			pblk += 1 + pick(w, 3);
			items -= count;
		}
		assert_int_equal(filemap_need_tree(m, &ERROR_INIT), 0);
		m->tree->node[m->depth] = t;
		m->tree->n_node[m->depth++] = n;
		items = n;
	}
}

static void make_file(struct world *w, size_t records, uint32_t block_size, uint64_t seed)
{
	uint64_t lblk = 0, pblk = 0;

	memset(w, 0, sizeof(*w));
	w->seed = seed * 0x9e3779b97f4a7c15ull + 1;
	w->block_size = block_size;
	w->next_pblk = 1000;
	w->next_take = FIRST_TAKE;
	w->map.ext = calloc(records, sizeof(struct extent));
	assert_non_null(w->map.ext);
	for (size_t i = 0; i < records; i++) {
		uint32_t len = 1 + pick(w, 5);
		bool unwritten = pick(w, 4) == 0;

		if (pick(w, 3) == 0)
			lblk += 1 + pick(w, 3);
		if (lblk + len > SPAN)
			break;
		pblk = new_blocks(w, len, pick(w, 3) == 0);
		w->map.ext[w->map.n_ext++] = (struct extent){ .pblk = pblk,
							      .lblk = (uint32_t)lblk,
							      .len = len & 0x7fffffffu,
							      .unwritten = unwritten };
		for (uint32_t k = 0; k < len; k++)
			w->cell[lblk + k] = (struct cell){ pblk + k, unwritten };
		lblk += len;
	}
	make_tree(w, pick(w, 2) == 0);
	assert_null(filemap_check(&w->map, block_size));
}

/* Blocks from lblk on that are contiguous in every way, at most `max`. */
static uint32_t run_at(const struct world *w, uint32_t lblk, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && lblk + n < SPAN && w->cell[lblk + n].pblk &&
	       w->cell[lblk + n].pblk == w->cell[lblk].pblk + n &&
	       w->cell[lblk + n].unwritten == w->cell[lblk].unwritten)
		n++;
	return n;
}

/* Random moves, also applied to the naive model. */
static size_t make_moves(struct world *w, struct move *move, size_t max, uint32_t gap)
{
	size_t n = 0;

	for (uint32_t l = pick(w, gap); n < max && l < SPAN;) {
		uint32_t len = run_at(w, l, 1 + pick(w, 12));
		bool adjoin = pick(w, 3) != 0;

		if (!len) {
			l++;
			continue;
		}
		move[n] = (struct move){ .from = w->cell[l].pblk,
					 .lblk = l,
					 .len = len,
					 .unwritten = w->cell[l].unwritten };
		move[n].to = new_blocks(w, len, adjoin);
		if (l && w->cell[l - 1].pblk && pick(w, 4) == 0) /* onto the neighbour's end */
			move[n].to = w->cell[l - 1].pblk + 1;
		for (uint32_t k = 0; k < len; k++)
			w->cell[l + k].pblk = move[n].to + k;
		n++;
		l += len + (pick(w, 2) ? 0 : pick(w, gap));
	}
	return n;
}

static void check_mapping(const struct world *w, const struct filemap *m)
{
	uint32_t l = 0;

	for (size_t i = 0; i < m->n_ext; i++) {
		const struct extent *e = &m->ext[i];

		for (; l < e->lblk; l++)
			assert_int_equal(w->cell[l].pblk, 0);
		for (uint32_t k = 0; k < e->len; k++, l++) {
			assert_int_equal(w->cell[l].pblk, e->pblk + k);
			assert_int_equal(w->cell[l].unwritten, e->unwritten);
		}
	}
	for (; l < SPAN; l++)
		assert_int_equal(w->cell[l].pblk, 0);
}

/* Where is this node block? */
static const struct tree_node *find_node(const struct filemap *m, uint64_t pblk, uint32_t *level,
					 size_t *index)
{
	for (*level = 0; *level < m->depth; ++*level)
		for (*index = 0; *index < m->tree->n_node[*level]; ++*index)
			if (m->tree->node[*level][*index].pblk == pblk)
				return &m->tree->node[*level][*index];
	return NULL;
}

static bool listed(const uint64_t *list, size_t n, uint64_t pblk)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == pblk)
			return true;
	return false;
}

/* Is the delta what became of the node blocks, and do nodes said to be unchanged have the same
 * bytes? */
static void check_delta(const struct world *w, const struct filemap *in, const struct filemap *out,
			const struct filemap_delta *d)
{
	uint8_t old[1024], now[1024];
	size_t changed = 0, old_index = 0;
	uint32_t old_level = 0;

	assert_int_equal(filemap_nodes(in) + d->n_taken, filemap_nodes(out) + d->n_freed);
	for (uint32_t l = 0; l < out->depth; l++) {
		for (size_t i = 0; i < out->tree->n_node[l]; i++) {
			const struct tree_node *t = &out->tree->node[l][i];
			bool taken = listed(d->taken, d->n_taken, t->pblk);
			bool known = find_node(in, t->pblk, &old_level, &old_index) != NULL;

			assert_true(t->changed <= 1 && taken != known);
			assert_int_equal(t->changed, taken || listed(d->kept, d->n_kept, t->pblk));
			assert_false(listed(d->freed, d->n_freed, t->pblk));
			changed += t->changed;
			if (t->changed)
				continue;
			assert_int_equal(l, old_level);
			filemap_encode_node(in, l, old_index, w->block_size, old);
			filemap_encode_node(out, l, i, w->block_size, now);
			assert_memory_equal(old, now, w->block_size);
		}
	}
	assert_int_equal(changed, d->n_kept + d->n_taken);
	for (size_t i = 0; i < d->n_freed; i++)
		assert_non_null(find_node(in, d->freed[i], &old_level, &old_index));
	for (size_t i = 1; i < d->n_freed; i++)
		assert_true(d->freed[i - 1] < d->freed[i]);
	for (size_t i = 1; i < d->n_kept; i++)
		assert_true(d->kept[i - 1] < d->kept[i]);
}

/* Reads the tree back from its bytes, level by level. */
static void check_bytes(const struct world *w, const struct filemap *m)
{
	struct tree_child here[SPAN], below[SPAN];
	struct extent ext[SPAN];
	uint8_t buf[1024], root[60];
	uint32_t n, count;

	filemap_encode_root(m, root);
	assert_int_equal(filemap_decode_depth(root), m->depth);
	assert_null(filemap_decode(root, 60, m->depth, 0, 1ull << 32, 1, END, ext, here, &n));
	for (uint32_t l = m->depth; l-- > 0;) {
		uint32_t next = 0;

		assert_int_equal(n, m->tree->n_node[l]);
		for (uint32_t i = 0; i < n; i++) {
			uint64_t hi = i + 1 < n ? here[i + 1].lblk : 1ull << 32;

			assert_int_equal(here[i].pblk, m->tree->node[l][i].pblk);
			filemap_encode_node(m, l, i, w->block_size, buf);
			assert_null(filemap_decode(buf, w->block_size, l, here[i].lblk, hi, 1, END,
						   ext + next, below + next, &count));
			assert_int_equal(count, m->tree->node[l][i].count);
			next += count;
		}
		n = next;
		memcpy(here, below, sizeof(here));
	}
	assert_int_equal(n, m->n_ext);
	assert_memory_equal(ext, m->ext, n * sizeof(*ext));
}

/* Records of the fully merged mapping. (No test file comes near the length limit.) */
static size_t fewest_records(const struct world *w)
{
	size_t n = 0;

	for (uint32_t l = 0; l < SPAN;) {
		uint32_t len = run_at(w, l, SPAN);

		n += len != 0;
		l += len ? len : 1;
	}
	return n;
}

/* All of the tree is in the blocks given, in the order in which a reader comes to them. */
static void check_together(const struct filemap *in, const struct filemap *out,
			   const struct filemap_delta *d)
{
	size_t k = 0;

	for (uint32_t l = out->depth; l-- > 0;)
		for (size_t i = 0; i < out->tree->n_node[l]; i++)
			assert_int_equal(out->tree->node[l][i].pblk, d->taken[k++]);
	assert_int_equal(k, d->n_taken);
	assert_int_equal(d->n_freed, filemap_nodes(in));
	assert_true(d->together);
}

static void move_once(struct world *w, const struct move *move, size_t n, unsigned how)
{
	struct filemap out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;
	size_t need = 0;
	uint64_t take[SPAN];

	for (size_t i = 0; i < SPAN; i++)
		take[i] = w->next_take + i;
	if (filemap_move(&w->map, move, n, w->block_size, how, NULL, 0, &need, &out, &d, &err)) {
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_true(need > 0);
		assert_int_equal(filemap_move(&w->map, move, n, w->block_size, how, take, need - 1,
					      &need, &out, &d, &err),
				 -1);
		assert_int_equal(filemap_move(&w->map, move, n, w->block_size, how, take, need,
					      &need, &out, &d, &err),
				 0);
		assert_int_equal(d.n_taken, need);
		assert_memory_equal(d.taken, take, need * sizeof(*take));
		w->next_take += need;
	} else {
		assert_int_equal(d.n_taken, 0);
	}
	assert_null(filemap_check(&out, w->block_size));
	check_mapping(w, &out);
	check_delta(w, &w->map, &out, &d);
	check_bytes(w, &out);
	if (how & (FILEMAP_ANEW | FILEMAP_TOGETHER))
		assert_int_equal(d.n_kept, 0);
	if (how & FILEMAP_TOGETHER)
		check_together(&w->map, &out, &d);
	if (how & (FILEMAP_MINIMAL | FILEMAP_TOGETHER))
		assert_int_equal(filemap_nodes(&out),
				 filemap_min_nodes(fewest_records(w), w->block_size));
	filemap_release(&w->map);
	filemap_delta_release(&d);
	w->map = out;
}

static void run_random(uint32_t block_size, size_t records, uint64_t seeds)
{
	struct move move[64];
	struct world *w = malloc(sizeof(*w));

	assert_non_null(w);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		make_file(w, records, block_size, seed);
		for (int step = 0; step < 6; step++) {
			unsigned how = filemap_how(pick(w, 4) == 0, seed % 3 == 0);
			size_t n = 0;

			how |= pick(w, 4) == 0 ? FILEMAP_TOGETHER : 0;
			if (!(how & FILEMAP_TOGETHER) || pick(w, 2))
				n = make_moves(w, move, 1 + pick(w, 64), 1 + pick(w, 300));
			if (n || how & FILEMAP_TOGETHER)
				move_once(w, move, n, how);
		}
		filemap_release(&w->map);
	}
	free(w);
}

static void test_filemap_move__random_small_files(void **state)
{
	(void)state;
	run_random(48, 12, 300);
	run_random(96, 30, 300);
}

static void test_filemap_move__random_deep_trees(void **state)
{
	(void)state;
	run_random(48, 60, 100);
	run_random(96, 800, 30);
}

static void test_filemap_move__random_1k_nodes(void **state)
{
	(void)state;
	run_random(1024, 900, 30);
}

/* A file of n single blocks, each on its own. */
static void make_shattered(struct filemap *m, size_t n, uint32_t per)
{
	size_t items = n;
	uint64_t pblk = FIRST_NODE;

	memset(m, 0, sizeof(*m));
	m->n_ext = (uint32_t)n;
	m->ext = calloc(n, sizeof(*m->ext));
	assert_non_null(m->ext);
	for (size_t i = 0; i < n; i++)
		m->ext[i] = (struct extent){ .pblk = 100 + 2 * i, .lblk = (uint32_t)i, .len = 1 };
	while (items > EXTENT_ROOT_RECORDS) {
		size_t k = (items + per - 1) / per;

		assert_int_equal(filemap_need_tree(m, &ERROR_INIT), 0);
		m->tree->node[m->depth] = calloc(k, sizeof(struct tree_node));
		assert_non_null(m->tree->node[m->depth]);
		for (size_t i = 0; i < k; i++, items -= per)
			m->tree->node[m->depth][i] =
				(struct tree_node){ .pblk = pblk++,
						    .count = items < per ? (uint32_t)items : per };
		m->tree->n_node[m->depth++] = k;
		items = k;
	}
}

static void test_filemap_move__large_file_in_pieces(void **state)
{
	enum { RECORDS = 40000, PIECE = 500, BLOCK = 1024 };
	struct move *move = calloc(PIECE, sizeof(*move));
	uint32_t per = geometry_node_records(BLOCK);
	struct filemap map, out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;

	(void)state;
	assert_non_null(move);
	make_shattered(&map, RECORDS, per);
	for (uint32_t at = 0; at < RECORDS; at += PIECE) {
		bool last = at + PIECE == RECORDS;

		for (uint32_t i = 0; i < PIECE; i++)
			move[i] = (struct move){ .from = 100 + 2 * (uint64_t)(at + i),
						 .to = 1000000 + at + i,
						 .lblk = at + i,
						 .len = 1 };
		assert_int_equal(
			filemap_move(&map, move, PIECE, BLOCK, last, NULL, 0, NULL, &out, &d, &err),
			0);
		if (!last)
			assert_true(d.n_kept <= PIECE / per + 4);
		filemap_delta_release(&d);
		filemap_release(&map);
		map = out;
	}
	assert_int_equal(filemap_runs(map.ext, map.n_ext), 1);
	assert_int_equal(filemap_blocks(map.ext, map.n_ext), RECORDS);
	assert_int_equal(map.depth, 0);
	assert_int_equal(map.n_ext, 2); /* 32768 and the rest */
	filemap_release(&map);
	free(move);
}

static void test_filemap_move__split_grows_the_root(void **state)
{
	struct extent ext[4];
	struct filemap map = { .ext = ext, .n_ext = 4 }, out;
	struct move m = { .from = 105, .to = 9000, .lblk = 5, .len = 2 };
	struct filemap_delta d;
	struct error err = ERROR_INIT;
	uint64_t take[] = { 77 };
	size_t need = 0;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		ext[i] = (struct extent){ .pblk = 100 + i * 1000, .lblk = i * 20, .len = 10 };
	assert_int_equal(filemap_move(&map, &m, 1, 4096, false, take, 0, &need, &out, &d, &err),
			 -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_int_equal(need, 1);
	assert_int_equal(filemap_move(&map, &m, 1, 4096, false, take, 1, &need, &out, &d, &err), 0);
	assert_int_equal(out.depth, 1);
	assert_int_equal(out.n_ext, 6);
	assert_int_equal(out.tree->node[0][0].pblk, 77);
	assert_int_equal(d.n_taken, 1);
	assert_int_equal(d.n_kept + d.n_freed, 0);
	filemap_release(&out);
	filemap_delta_release(&d);
}

static void test_filemap_move__leaves_far_away_stay(void **state)
{
	uint32_t per = geometry_node_records(4096);
	struct filemap map, out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;
	const uint64_t take[3] = { 9001, 9002, 9003 };
	/* Two moves, in the second leaf and in the fourth one. */
	struct move m[2] = { { .from = 100 + 2 * 400, .to = 7000, .lblk = 400, .len = 1 },
			     { .from = 100 + 2 * 1100, .to = 8000, .lblk = 1100, .len = 1 } };

	(void)state;
	make_shattered(&map, 5 * per, per);
	assert_int_equal(map.depth, 2);
	assert_int_equal(filemap_move(&map, m, 2, 4096, false, NULL, 0, NULL, &out, &d, &err), 0);
	assert_int_equal(d.n_kept, 2); /* not the index node: nothing it holds has changed */
	assert_int_equal(d.kept[0], FIRST_NODE + 1);
	assert_int_equal(d.kept[1], FIRST_NODE + 3);
	filemap_release(&out);
	filemap_delta_release(&d);
	/* Anew: these two, and the index node, which points to them. */
	assert_int_equal(
		filemap_move(&map, m, 2, 4096, FILEMAP_ANEW, take, 3, NULL, &out, &d, &err), 0);
	assert_int_equal(d.n_kept, 0);
	assert_int_equal(d.n_taken, 3);
	assert_int_equal(d.n_freed, 3);
	assert_int_equal(d.freed[0], FIRST_NODE + 1);
	assert_int_equal(d.freed[1], FIRST_NODE + 3);
	assert_int_equal(d.freed[2], FIRST_NODE + 5);
	assert_int_equal(out.tree->node[1][0].pblk, take[2]);
	filemap_release(&map);
	filemap_release(&out);
	filemap_delta_release(&d);
}

static void test_filemap_move__merges_up_to_the_limit(void **state)
{
	struct extent ext[3] = {
		{ .pblk = 100000, .lblk = 0, .len = 32767, .unwritten = 1 },
		{ .pblk = 500, .lblk = 32767, .len = 5, .unwritten = 1 },
		{ .pblk = 132772, .lblk = 32772, .len = 32767, .unwritten = 1 },
	};
	struct filemap map = { .ext = ext, .n_ext = 3 }, out;
	struct move m = { .from = 500, .to = 132767, .lblk = 32767, .len = 5, .unwritten = 1 };
	struct filemap_delta d;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(filemap_move(&map, &m, 1, 4096, false, NULL, 0, NULL, &out, &d, &err), 0);
	assert_null(filemap_check(&out, 4096));
	assert_int_equal(filemap_runs(out.ext, out.n_ext), 1);
	assert_int_equal(out.n_ext, 3);
	assert_int_equal(out.ext[1].len, 32767);
	assert_int_equal(out.ext[2].len, 5);
	filemap_release(&out);
	filemap_delta_release(&d);
}

static void refuse(const struct filemap *map, struct move a, struct move b, size_t n)
{
	struct move m[2] = { a, b };
	struct filemap out;
	struct filemap_delta d;
	struct error err = ERROR_INIT;

	assert_int_equal(filemap_move(map, m, n, 4096, false, NULL, 0, NULL, &out, &d, &err), -1);
	assert_int_equal(err.kind, ERROR_OPERATION);
}

static void test_filemap_move__wrong_moves_are_refused(void **state)
{
	struct extent ext[2] = { { .pblk = 100, .lblk = 10, .len = 10 },
				 { .pblk = 110, .lblk = 20, .len = 10, .unwritten = 1 } };
	struct filemap map = { .ext = ext, .n_ext = 2 };
	struct move ok = { .from = 100, .to = 500, .lblk = 10, .len = 5 }, m;

	(void)state;
	refuse(&map, (struct move){ .from = 101, .to = 500, .lblk = 10, .len = 5 }, ok, 1);
	refuse(&map, (struct move){ .from = 99, .to = 500, .lblk = 9, .len = 5 }, ok, 1);
	refuse(&map, (struct move){ .from = 105, .to = 500, .lblk = 15, .len = 10 }, ok, 1);
	refuse(&map, (struct move){ .from = 110, .to = 500, .lblk = 20, .len = 5 }, ok, 1);
	refuse(&map, (struct move){ .from = 130, .to = 500, .lblk = 40, .len = 5 }, ok, 1);
	refuse(&map, (struct move){ .from = 100, .to = 500, .lblk = 10 }, ok, 1);
	refuse(&map, (struct move){ .from = 100, .to = 500, .lblk = 10, .len = UINT32_MAX }, ok, 1);
	refuse(&map, ok, ok, 2);
	m = ok;
	m.to = UINT64_MAX - 2;
	refuse(&map, m, ok, 1);
}

static void test_filemap_min_nodes__boundaries(void **state)
{
	(void)state;
	assert_int_equal(filemap_min_nodes(0, 4096), 0);
	assert_int_equal(filemap_min_nodes(4, 4096), 0);
	assert_int_equal(filemap_min_nodes(5, 4096), 1);
	assert_int_equal(filemap_min_nodes(340 * 4, 4096), 4);
	assert_int_equal(filemap_min_nodes(340 * 4 + 1, 4096), 6);
	assert_int_equal(filemap_min_nodes(84 * 84 * 4 + 1, 1024), 84 * 4 + 1 + 5 + 1);
}

static void test_filemap_runs__holes_dont_split(void **state)
{
	struct extent ext[3] = { { .pblk = 100, .lblk = 0, .len = 10 },
				 { .pblk = 110, .lblk = 50, .len = 10, .unwritten = 1 },
				 { .pblk = 121, .lblk = 60, .len = 1 } };

	(void)state;
	assert_int_equal(filemap_runs(ext, 0), 0);
	assert_int_equal(filemap_runs(ext, 2), 1);
	assert_int_equal(filemap_runs(ext, 3), 2);
}

/* A good leaf of two records, with one byte changed. */
static const char *decode_with(size_t at, uint8_t value)
{
	struct extent ext[2] = { { .pblk = 100, .lblk = 10, .len = 10 },
				 { .pblk = 400, .lblk = 20, .len = 10 } };
	struct tree_node node = { .pblk = 50, .count = 2 };
	struct filemap_tree tree = { .node = { &node }, .n_node = { 1 } };
	struct filemap map = { .ext = ext, .n_ext = 2, .depth = 1, .tree = &tree };
	struct extent got[5];
	struct tree_child child[5];
	uint8_t buf[72];
	uint32_t count;

	filemap_encode_node(&map, 0, 0, sizeof(buf), buf);
	buf[at] = value;
	return filemap_decode(buf, sizeof(buf), 0, 10, 30, 1, 500, got, child, &count);
}

static void test_filemap_decode__damage_is_refused(void **state)
{
	static const struct {
		uint8_t at, value;
	} bad[] = {
		{ 0, 0 },  { 2, 0 },  { 2, 6 },	  { 4, 1 },   { 4, 6 },	  { 4, 0 },
		{ 6, 1 },  { 12, 9 }, { 12, 11 }, { 16, 0 },  { 16, 11 }, { 17, 1 },
		{ 18, 1 }, { 20, 0 }, { 24, 19 }, { 28, 11 }, { 33, 2 },  { 30, 1 },
	};

	(void)state;
	assert_null(decode_with(0, 0x0a));
	assert_null(decode_with(4, 2));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(decode_with(bad[i].at, bad[i].value));
}

static void test_filemap_decode__empty_root(void **state)
{
	struct filemap map = { 0 };
	uint8_t root[60];
	uint32_t count = 9;

	(void)state;
	filemap_encode_root(&map, root);
	assert_null(filemap_decode(root, 60, 0, 0, 1ull << 32, 1, 100, NULL, NULL, &count));
	assert_int_equal(count, 0);
	root[6] = 1;
	assert_non_null(filemap_decode(root, 60, 1, 0, 1ull << 32, 1, 100, NULL, NULL, &count));
	root[0] = 0;
	assert_int_equal(filemap_decode_depth(root), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filemap_move__random_small_files),
		cmocka_unit_test(test_filemap_move__random_deep_trees),
		cmocka_unit_test(test_filemap_move__random_1k_nodes),
		cmocka_unit_test(test_filemap_move__large_file_in_pieces),
		cmocka_unit_test(test_filemap_move__split_grows_the_root),
		cmocka_unit_test(test_filemap_move__leaves_far_away_stay),
		cmocka_unit_test(test_filemap_move__merges_up_to_the_limit),
		cmocka_unit_test(test_filemap_move__wrong_moves_are_refused),
		cmocka_unit_test(test_filemap_min_nodes__boundaries),
		cmocka_unit_test(test_filemap_runs__holes_dont_split),
		cmocka_unit_test(test_filemap_decode__damage_is_refused),
		cmocka_unit_test(test_filemap_decode__empty_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
