/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify, block-mapped files: which indirect blocks has the commit to write? Found from the top
 * down, by code of its own: down from each pointer of the inode, where a move is.
 */
#include "verify.h"
#include <inttypes.h>
#include <stdlib.h>

struct hunt {
	struct check *c;
	const struct image *im; /* with the moves done */
	uint32_t ino;
	const struct move *m;
	size_t n;
	uint64_t entries; /* of an indirect block */
	uint64_t *found;
	size_t n_found, cap_found;
};

/* The first move that ends behind `pos`. */
static size_t move_behind(const struct hunt *h, uint64_t pos)
{
	size_t lo = 0, hi = h->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if ((uint64_t)h->m[mid].lblk + h->m[mid].len <= pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool any_moves(const struct hunt *h, uint64_t from, uint64_t len)
{
	size_t k = move_behind(h, from);
	return k < h->n && h->m[k].lblk < from + len;
}

static int find_block(struct hunt *h, uint64_t pos)
{
	const struct piece *p = h->im->piece;
	size_t lo = 0, hi = h->im->n_piece;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (p[mid].lblk + p[mid].len <= pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == h->im->n_piece || p[lo].lblk > pos)
		return verify_wrong(h->c, h->ino, "it lacks indirect block number %" PRIu64, pos);
	if (verify_more(h->c, &h->found, h->n_found + 1, &h->cap_found, sizeof(*h->found)))
		return -1;
	h->found[h->n_found++] = p[lo].pblk + (pos - p[lo].lblk);
	return 0;
}

/* The indirect block `pos`; `below`: numbers that what hangs on one of its entries takes. */
static int hunt_block(struct hunt *h, uint64_t pos, uint64_t below)
{
	bool write = any_moves(h, pos, 1);
	uint64_t first = pos + 1, end = first + h->entries * below, next = first;
	if (!any_moves(h, pos, end - pos))
		return 0;
	for (size_t k = move_behind(h, first); k < h->n && h->m[k].lblk < end; k++) {
		uint64_t from = h->m[k].lblk > first ? h->m[k].lblk : first;
		uint64_t to = (uint64_t)h->m[k].lblk + h->m[k].len;
		if (to > end)
			to = end;
		/* Of what hangs on an entry, the first block is what it points to. */
		uint64_t at = first + (from - first) / below * below;
		if (below == 1) {
			write = true;
			break;
		}
		for (at = at > next ? at : next; at < to; at = next) {
			write |= at >= from;
			if (hunt_block(h, at, (below - 1) / h->entries))
				return -1;
			next = at + below;
		}
	}
	return write ? find_block(h, pos) : 0;
}

int verify_indirect(struct check *c, const struct plan_file *f, const struct image *im)
{
	const struct plan *p = c->plan;
	struct hunt h = { .c = c,
			  .im = im,
			  .ino = f->ino,
			  .m = p->move + f->first_move,
			  .n = f->n_move,
			  .entries = c->snap->geo.block_size / 4 };
	uint64_t pos = 12, below = 1;
	size_t n = 0;
	int rc = -1;
	if (f->n_freed || f->n_taken)
		return verify_wrong(c, f->ino, "a block-mapped file has no tree blocks");
	for (int level = 0; level < 3; level++) {
		if (hunt_block(&h, pos, below))
			goto out;
		below = 1 + h.entries * below;
		pos += below;
	}
	if (!verify_sort(c, h.found, h.n_found))
		goto out;
	for (size_t i = 0; i < h.n_found; i++) {
		if (!i || h.found[i] != h.found[i - 1])
			h.found[n++] = h.found[i];
	}
	for (size_t i = 0; i < n || i < f->n_kept; i++) {
		if (i < n && i < f->n_kept && p->node[f->first_kept + i] == h.found[i])
			continue;
		verify_wrong(c, f->ino,
			     "the indirect blocks to be written differ at block %" PRIu64,
			     i < n ? h.found[i] : p->node[f->first_kept + i]);
		goto out;
	}
	rc = 0;
out:
	free(h.found);
	return rc;
}
