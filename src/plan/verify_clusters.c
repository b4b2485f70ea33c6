/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify, bigalloc: a file's pieces are blocks, its moves whole clusters. What of a piece lies in a
 * moved cluster moves by the same distance, so it keeps its place in the cluster; a move must find
 * something of the file in each cluster it takes.
 */
#include "verify.h"
#include <inttypes.h>

/* The clusters of these blocks that begin at *next or behind it; *next: the first one behind all.
 */
static uint64_t fresh(uint64_t start, uint64_t len, uint64_t ratio, uint64_t *next)
{
	uint64_t first = start / ratio, end = (start + len - 1) / ratio + 1, n;
	if (first < *next)
		first = *next;
	n = end > first ? end - first : 0;
	if (end > *next)
		*next = end;
	return n;
}

uint64_t verify_runs(const struct image *im, uint64_t ratio)
{
	const struct piece *p = im->piece;
	uint64_t runs = im->n_piece ? 1 : 0;
	for (size_t i = 1; i < im->n_piece; i++) {
		uint64_t last = (p[i - 1].pblk + p[i - 1].len - 1) / ratio;
		uint64_t at = p[i].pblk / ratio;
		runs += at != last + 1 && (ratio == 1 || at != last);
	}
	return runs;
}

uint64_t verify_blocks(const struct image *im, uint64_t ratio)
{
	uint64_t clusters = 0, next = 0;
	for (size_t i = 0; i < im->n_piece; i++)
		clusters += fresh(im->piece[i].lblk, im->piece[i].len, ratio, &next);
	return clusters;
}

/* The move that the pieces have come to, and what was found for it. */
struct cursor {
	const struct move *m, *end;
	uint64_t ratio, found, next; /* clusters */
	bool written;
};

static uint64_t move_end(const struct cursor *at)
{
	return (at->m->lblk + (uint64_t)at->m->len) * at->ratio;
}

static int close_move(struct check *c, uint32_t ino, struct cursor *at)
{
	const struct move *m = at->m++;
	bool whole = at->found == m->len, written = at->written;
	at->found = 0;
	at->written = false;
	if (!whole)
		return verify_wrong(c, ino, "file block %" PRIu32 " is not mapped like this",
				    m->lblk);
	if (written == (m->unwritten != 0))
		return verify_wrong(c, ino, "file block %" PRIu32 " is %swritten", m->lblk,
				    written ? "" : "un");
	return 0;
}

static int move_piece(struct check *c, uint32_t ino, const struct piece *p, struct cursor *at,
		      struct image *to)
{
	uint64_t pos = p->lblk, end = p->lblk + p->len;
	while (pos < end) {
		struct piece part = { pos, end - pos, p->pblk + (pos - p->lblk), p->unwritten };
		uint64_t first = at->m < at->end ? at->m->lblk * at->ratio : UINT64_MAX;
		if (first <= pos && move_end(at) <= pos) {
			if (close_move(c, ino, at))
				return -1;
			continue;
		}
		if (first <= pos) {
			uint64_t in = pos - first;
			if (move_end(at) < end)
				part.len = move_end(at) - pos;
			if (part.pblk != at->m->from * at->ratio + in)
				return verify_wrong(c, ino,
						    "file block %" PRIu32
						    " is at another place than %" PRIu64,
						    at->m->lblk, at->m->from);
			part.pblk = at->m->to * at->ratio + in;
			at->found += fresh(pos, part.len, at->ratio, &at->next);
			at->written |= !p->unwritten;
		} else if (first < end) {
			part.len = first - pos;
		}
		verify_push(to, part);
		pos += part.len;
	}
	return 0;
}

int verify_clusters(struct check *c, const struct plan_file *f, const struct image *im,
		    struct image *to)
{
	struct cursor at = { .m = c->plan->move + f->first_move,
			     .end = c->plan->move + f->first_move + f->n_move,
			     .ratio = c->snap->geo.cluster_blocks };
	for (size_t i = 0; i < im->n_piece; i++) {
		if (move_piece(c, f->ino, &im->piece[i], &at, to))
			return -1;
	}
	while (at.m < at.end) {
		if (close_move(c, f->ino, &at))
			return -1;
	}
	return 0;
}
