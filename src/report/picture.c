/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/picture.h"
#include <stdlib.h>
#include <string.h>

static void add(struct picture *p, uint64_t start, uint64_t len, enum cell_class class)
{
	while (len) {
		uint64_t cell = start / p->cell_blocks;
		uint64_t n = (cell + 1) * p->cell_blocks - start;

		if (cell >= p->n_cells)
			return;
		n = n < len ? n : len;
		p->count[cell][class] += n;
		start += n;
		len -= n;
	}
}

static void add_file(struct picture *p, const struct filemap *m, bool fragmented)
{
	enum cell_class class = fragmented ? CELL_FRAGMENTED : CELL_WHOLE;

	for (size_t i = 0; i < m->n_ext; i++)
		add(p, m->ext[i].pblk, m->ext[i].len, class);
	for (uint32_t level = 0; level < m->depth; level++)
		for (size_t i = 0; i < m->tree->n_node[level]; i++)
			add(p, m->tree->node[level][i].pblk, 1, class);
}

static void add_flow(struct picture *p, uint64_t from, uint64_t to, uint64_t len)
{
	uint64_t n;

	for (; from != to && len; from += n, to += n, len -= n) {
		uint64_t a = from / p->band_blocks, b = to / p->band_blocks;
		uint64_t left = (a + 1) * p->band_blocks - from;

		n = (b + 1) * p->band_blocks - to;
		n = n < left ? n : left;
		n = n < len ? n : len;
		if (a < PICTURE_BANDS && b < PICTURE_BANDS)
			p->flow[a][b] += n;
	}
}

/* Both mappings have the same logical blocks, cut into records differently. */
static void compare(struct picture *p, const struct filemap *was, const struct filemap *is)
{
	size_t i = 0, k = 0;

	while (i < was->n_ext && k < is->n_ext) {
		const struct extent *a = &was->ext[i], *b = &is->ext[k];
		uint64_t lblk = a->lblk > b->lblk ? a->lblk : b->lblk;
		uint64_t end_a = (uint64_t)a->lblk + a->len, end_b = (uint64_t)b->lblk + b->len;
		uint64_t end = end_a < end_b ? end_a : end_b;

		if (lblk < end)
			add_flow(p, a->pblk + (lblk - a->lblk), b->pblk + (lblk - b->lblk),
				 end - lblk);
		i += end_a == end;
		k += end_b == end;
	}
}

static void fill(struct picture *p, const struct state *st, const struct ideal *id)
{
	const struct snapshot *s = st->snap;
	struct range r = { 0, 0 };

	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *m = state_map(st, i);
		uint64_t blocks = filemap_blocks(m->ext, m->n_ext);

		add_file(p, m, filemap_runs(m->ext, m->n_ext) > ideal_runs(id, blocks));
		if (m != &s->file[i].map)
			compare(p, &s->file[i].map, m);
	}
	while (rangeset_next(st->free, r.start + r.len, &r))
		add(p, r.start, r.len, CELL_FREE);
	for (uint32_t c = 0; c < p->n_cells; c++) {
		uint64_t start = c * p->cell_blocks, n = s->geo.blocks - start, known = 0;

		for (int k = 0; k < CELL_FIXED; k++)
			known += p->count[c][k];
		n = n < p->cell_blocks ? n : p->cell_blocks;
		p->count[c][CELL_FIXED] = n > known ? n - known : 0;
	}
}

int picture_new(const struct state *st, const struct ideal *id, struct picture **out,
		struct error *err)
{
	uint64_t blocks = st->snap->geo.blocks;
	struct picture *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err, "the map");
	p->cell_blocks = blocks / PICTURE_CELLS + (blocks % PICTURE_CELLS != 0);
	p->cell_blocks = p->cell_blocks ? p->cell_blocks : 1;
	p->n_cells = (uint32_t)(blocks / p->cell_blocks + (blocks % p->cell_blocks != 0));
	p->band_blocks = blocks / PICTURE_BANDS + 1;
	fill(p, st, id);
	*out = p;
	return 0;
}

enum cell_look picture_look(const struct picture *p, uint32_t first, uint32_t n)
{
	double in[CELL_CLASSES] = { 0 }, all = 0; /* shares: no sum of 2^64 blocks overflows */

	for (uint32_t c = first; c < p->n_cells && c - first < n; c++)
		for (int k = 0; k < CELL_CLASSES; k++) {
			in[k] += (double)p->count[c][k];
			all += (double)p->count[c][k];
		}
	if (in[CELL_FREE] * 8 >= all * 7)
		return LOOK_FREE;
	if (in[CELL_FIXED] * 2 >= all)
		return LOOK_FIXED;
	if (in[CELL_FRAGMENTED] > 0 &&
	    in[CELL_FRAGMENTED] * 8 >= in[CELL_FRAGMENTED] + in[CELL_WHOLE])
		return LOOK_FRAGMENTED;
	return in[CELL_FREE] * 8 >= all ? LOOK_MIXED : LOOK_WHOLE;
}

void picture_free_sizes(const struct rangeset *free_blocks, struct free_sizes *out)
{
	struct range r = { 0, 0 };

	memset(out, 0, sizeof(*out));
	while (rangeset_next(free_blocks, r.start + r.len, &r)) {
		unsigned k = 63u - (unsigned)__builtin_clzll(r.len);

		k = k < PICTURE_SIZES ? k : PICTURE_SIZES - 1;
		out->runs[k]++;
		out->blocks[k] += r.len;
	}
}
