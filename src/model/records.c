/* SPDX-License-Identifier: GPL-2.0-or-later */
/* records: the first half of filemap_move: are the moves right, which leaves do they touch, and
 * what are the file's records afterwards? */
#include "tree.h"

#include "scaledefrag/indirect.h"

#include <assert.h>
#include <stdlib.h>

static uint64_t lblk_end(const struct extent *e)
{
	return (uint64_t)e->lblk + e->len;
}

static uint32_t max_len(const struct filemap *m, bool unwritten)
{
	if (m->indirect)
		return INDIRECT_MAX_LEN;
	return unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT;
}

void tree_emit(struct filemap *m, size_t floor, struct extent piece)
{
	if (m->n_ext > floor) {
		struct extent *last = &m->ext[m->n_ext - 1];
		uint32_t room = max_len(m, last->unwritten) - last->len;
		uint32_t n = piece.len < room ? piece.len : room;

		if (last->unwritten == piece.unwritten && lblk_end(last) == piece.lblk &&
		    last->pblk + last->len == piece.pblk) {
			last->len = (last->len + n) & 0x7fffffffu;
			piece.lblk += n;
			piece.pblk += n;
			piece.len = (piece.len - n) & 0x7fffffffu;
		}
	}
	if (piece.len)
		m->ext[m->n_ext++] = piece;
}

/* Appends one old record, with what the moves from *at on do to it. */
static void emit_moved(struct build *b, const struct extent *e, size_t floor, size_t *at)
{
	uint64_t pos = e->lblk, end = lblk_end(e);

	while (pos < end) {
		const struct move *m = *at < b->n_move ? &b->move[*at] : NULL;
		uint64_t stop = end, pblk = e->pblk + (pos - e->lblk);

		if (m && m->lblk <= pos) {
			pblk = m->to + (pos - m->lblk);
			if ((uint64_t)m->lblk + m->len < end)
				stop = (uint64_t)m->lblk + m->len;
			if ((uint64_t)m->lblk + m->len == stop)
				(*at)++;
		} else if (m && m->lblk < end) {
			stop = m->lblk;
		}
		tree_emit(&b->out, floor,
			  (struct extent){ .pblk = pblk,
					   .lblk = (uint32_t)pos,
					   .len = (uint32_t)(stop - pos) & 0x7fffffffu,
					   .unwritten = e->unwritten });
		pos = stop;
	}
}

/* Are the blocks of this move mapped as it says? `first` is the record that holds its first block;
 * gives the one that holds its last. */
static int check_move(const struct filemap *in, const struct move *m, size_t first, size_t *last,
		      struct error *err)
{
	uint64_t pos = m->lblk, end = pos + m->len;

	for (size_t i = first; i < in->n_ext && pos < end; i++) {
		const struct extent *e = &in->ext[i];

		if (e->lblk > pos || e->unwritten != (m->unwritten != 0) ||
		    e->pblk + (pos - e->lblk) != m->from + (pos - m->lblk))
			break;
		*last = i;
		pos = lblk_end(e);
	}
	if (pos < end)
		return error_set(
			err, ERROR_OPERATION,
			"move of file block %llu: block %llu is not what the file has there",
			(unsigned long long)m->lblk,
			(unsigned long long)(m->from + (pos - m->lblk)));
	return 0;
}

/* Will the record before `first` be one with the start of move `m`? `prev`: the move before, or
 * NULL. */
static bool joins_before(const struct filemap *in, const struct move *m, const struct move *prev,
			 size_t first)
{
	const struct extent *e;
	uint64_t end;

	if (!first || in->ext[first].lblk != m->lblk)
		return false;
	e = &in->ext[first - 1];
	end = e->pblk + e->len;
	if (prev && (uint64_t)prev->lblk + prev->len == m->lblk)
		end = prev->to + prev->len;
	else if (e->len == max_len(in, e->unwritten))
		return false;
	return lblk_end(e) == m->lblk && e->unwritten == (m->unwritten != 0) && end == m->to;
}

/* Will the record behind `last`, which no move touches, be one with the end of move `m`? */
static bool joins_behind(const struct filemap *in, const struct move *m, size_t last)
{
	uint64_t end = (uint64_t)m->lblk + m->len;
	const struct extent *e = &in->ext[last];

	return last + 1 < in->n_ext && lblk_end(e) == end && e[1].lblk == end &&
	       e[1].unwritten == (m->unwritten != 0) && e[1].pblk == m->to + m->len;
}

int tree_find_spans(struct build *b, struct error *err)
{
	const struct filemap *in = b->in;
	size_t rec = 0, leaf = 0, leaf_end = in->depth ? in->tree->node[0][0].count : in->n_ext;
	uint64_t done = 0;

	for (size_t i = 0; i < b->n_move; i++) {
		const struct move *m = &b->move[i], *prev = i ? m - 1 : NULL;
		size_t last = 0, a, z;

		if (!m->len || m->lblk < done || m->to > UINT64_MAX - m->len ||
		    m->from > UINT64_MAX - m->len)
			return error_set(err, ERROR_OPERATION,
					 "move of file block %llu: empty, out of order or too long",
					 (unsigned long long)m->lblk);
		done = (uint64_t)m->lblk + m->len;
		while (rec < in->n_ext && lblk_end(&in->ext[rec]) <= m->lblk)
			rec++;
		if (check_move(in, m, rec, &last, err))
			return -1;
		a = rec - joins_before(in, m, prev, rec);
		z = last + joins_behind(in, m, last);
		rec = last;
		/* An earlier move may have gone beyond `a` already; its span then holds it. */
		while (leaf_end <= a)
			leaf_end += in->tree->node[0][++leaf].count;
		a = leaf;
		while (leaf_end <= z)
			leaf_end += in->tree->node[0][++leaf].count;
		tree_add_span(b, a, leaf);
	}
	return 0;
}

int tree_make_records(struct build *b, struct error *err)
{
	const struct filemap *in = b->in;
	size_t leaves = in->depth ? in->tree->n_node[0] : 1, rec = 0, at = 0, s = 0;

	/* Each end of a move splits one record at most. */
	b->out.ext = malloc((in->n_ext + 2 * b->n_move) * sizeof(*b->out.ext));
	if (!b->out.ext)
		return error_nomem(err, "moving a file's mapping");
	for (size_t i = 0, floor = 0; i < leaves; i++) {
		size_t n = in->depth ? in->tree->node[0][i].count : in->n_ext;
		struct span *sp = s < b->n_span && b->span[s].first <= i ? &b->span[s] : NULL;

		if (sp && sp->first == i)
			floor = b->out.n_ext;
		for (size_t end = rec + n; rec < end; rec++) {
			if (sp)
				emit_moved(b, &in->ext[rec], floor, &at);
			else
				b->out.ext[b->out.n_ext++] = in->ext[rec];
		}
		if (sp && i + 1 == sp->first + sp->n_old) {
			sp->n_items = b->out.n_ext - floor;
			s++;
		}
	}
	assert(at == b->n_move);
	return 0;
}
