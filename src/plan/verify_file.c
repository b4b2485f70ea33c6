/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verify, one file of a batch: its moves against its mapping, its tree blocks. */
#include "scaledefrag/sort.h"
#include "verify.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int verify_wrong(struct check *c, uint32_t ino, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!ino)
		return error_set(c->err, ERROR_OPERATION, "plan: batch %zu: %s", c->batch, text);
	return error_set(c->err, ERROR_OPERATION, "plan: batch %zu, inode %" PRIu32 ": %s",
			 c->batch, ino, text);
}

int verify_more(struct check *c, void *array, size_t want, size_t *cap, size_t size)
{
	void *at;
	if (want <= *cap)
		return 0;
	want += want / 2 + 64;
	memcpy(&at, array, sizeof(at));
	at = reallocarray(at, want, size);
	if (!at)
		return error_nomem(c->err, "verifying the plan");
	memcpy(array, &at, sizeof(at));
	*cap = want;
	return 0;
}

bool verify_sort(struct check *c, uint64_t *at, size_t n)
{
	if (sort_by_key(at, n, sizeof(*at)))
		return true;
	error_nomem(c->err, "verifying the plan");
	return false;
}

/* ---- a file's mapping ---- */

void verify_push(struct image *im, struct piece p)
{
	struct piece *last = im->n_piece ? &im->piece[im->n_piece - 1] : NULL;
	if (!p.len)
		return;
	if (last && last->lblk + last->len == p.lblk && last->pblk + last->len == p.pblk &&
	    last->unwritten == p.unwritten)
		last->len += p.len;
	else
		im->piece[im->n_piece++] = p;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static bool among(const uint64_t *at, size_t n, uint64_t block)
{
	return n && bsearch(&block, at, n, sizeof(*at), by_number);
}

static int reserve(struct check *c, struct draft *d, size_t pieces, size_t nodes)
{
	d->im.n_piece = d->im.n_node = 0;
	if (verify_more(c, &d->im.piece, pieces, &d->cap_piece, sizeof(*d->im.piece)))
		return -1;
	return verify_more(c, &d->im.node, nodes, &d->cap_node, sizeof(*d->im.node));
}

/* The file as the plan has made it so far; NULL: no memory. */
static const struct image *image_of(struct check *c, size_t file)
{
	const struct filemap *map = &c->snap->file[file].map;
	struct image *im = &c->old.im;
	const struct extent *e;
	size_t n;
	if (c->image[file])
		return c->image[file];
	e = filemap_records(map, &n);
	if (reserve(c, &c->old, n, filemap_nodes(map)))
		return NULL;
	for (; n; n--, e++) {
		verify_push(im, (struct piece){ e->lblk, e->len, e->pblk, e->unwritten });
	}
	for (uint32_t l = 0; l < map->depth; l++) {
		for (size_t i = 0; i < map->tree->n_node[l]; i++)
			im->node[im->n_node++] = map->tree->node[l][i].pblk;
	}
	return verify_sort(c, im->node, im->n_node) ? im : NULL;
}

/* Keeps the draft. */
static int set_image(struct check *c, size_t file, const struct image *draft)
{
	size_t pieces = draft->n_piece * sizeof(*draft->piece);
	struct image *im = malloc(sizeof(*im) + pieces + draft->n_node * sizeof(*draft->node));
	if (!im)
		return error_nomem(c->err, "verifying the plan");
	im->n_piece = draft->n_piece;
	im->n_node = draft->n_node;
	im->piece = (struct piece *)(im + 1);
	im->node = (uint64_t *)(im->piece + draft->n_piece);
	memcpy(im->piece, draft->piece, pieces);
	if (im->n_node)
		memcpy(im->node, draft->node, im->n_node * sizeof(*im->node));
	free(c->image[file]);
	c->image[file] = im;
	return 0;
}

/* The least number of records that hold the mapping. */
static uint64_t least_records(const struct image *im)
{
	uint64_t n = 0;
	for (size_t i = 0; i < im->n_piece; i++) {
		uint64_t most = im->piece[i].unwritten ? EXTENT_MAX_UNWRITTEN : EXTENT_MAX_INIT;
		n += (im->piece[i].len - 1) / most + 1;
	}
	return n;
}

/* ---- one file of a batch ---- */

static int check_inside(struct check *c, uint32_t ino, uint64_t start, uint64_t len)
{
	if (!len || start < c->snap->geo.first_data_block || start >= c->snap->geo.blocks ||
	    len > c->snap->geo.blocks - start)
		return verify_wrong(c, ino, "block %" PRIu64 " is outside the file system", start);
	return 0;
}

/* Splits piece p of the old mapping at the moves that lie in it; *at is the next move. */
static int move_piece(struct check *c, uint32_t ino, const struct piece *p, const struct move *m,
		      size_t n, size_t *at, struct image *to)
{
	uint64_t pos = p->lblk, end = p->lblk + p->len;
	for (; *at < n && m[*at].lblk < end; (*at)++) {
		const struct move *v = &m[*at];
		if (v->lblk < pos || v->len > end - v->lblk)
			return verify_wrong(
				c, ino, "file block %" PRIu32 " is not mapped like this", v->lblk);
		if (p->pblk + (v->lblk - p->lblk) != v->from)
			return verify_wrong(c, ino,
					    "file block %" PRIu32 " is at block %" PRIu64
					    ", not %" PRIu64,
					    v->lblk, p->pblk + (v->lblk - p->lblk), v->from);
		if (p->unwritten != (v->unwritten != 0))
			return verify_wrong(c, ino, "file block %" PRIu32 " is %swritten", v->lblk,
					    p->unwritten ? "un" : "");
		verify_push(to, (struct piece){ pos, v->lblk - pos, p->pblk + (pos - p->lblk),
						p->unwritten });
		verify_push(to, (struct piece){ v->lblk, v->len, v->to, p->unwritten });
		pos = (uint64_t)v->lblk + v->len;
	}
	verify_push(to, (struct piece){ pos, end - pos, p->pblk + (pos - p->lblk), p->unwritten });
	return 0;
}

static int check_moves(struct check *c, const struct plan_file *f, const struct image *im)
{
	const struct move *m = c->plan->move + f->first_move;
	struct image *next = &c->next.im;
	size_t at = 0;
	uint64_t end = 0;
	for (size_t i = 0; i < f->n_move; i++) {
		if (!m[i].len || m[i].lblk < end)
			return verify_wrong(c, f->ino,
					    "moves are empty, overlap or are out of order");
		end = (uint64_t)m[i].lblk + m[i].len;
		if (check_inside(c, f->ino, m[i].to, m[i].len))
			return -1;
	}
	if (c->snap->geo.cluster_blocks > 1)
		return verify_clusters(c, f, im, next);
	for (size_t i = 0; i < im->n_piece; i++) {
		if (move_piece(c, f->ino, &im->piece[i], m, f->n_move, &at, next))
			return -1;
	}
	if (at < f->n_move)
		return verify_wrong(c, f->ino, "file block %" PRIu32 " is not mapped", m[at].lblk);
	return 0;
}

/* Tree blocks that the file gives up or rewrites are its own, each named once. */
static int check_own_nodes(struct check *c, const struct plan_file *f, const struct image *im)
{
	const uint64_t *node = c->plan->node;
	size_t n = f->n_freed + f->n_kept;
	if (c->snap->geo.ordered && f->n_kept)
		return verify_wrong(c, f->ino, "a tree block in use is rewritten");
	if (verify_more(c, &c->own, n, &c->cap_own, sizeof(*c->own)))
		return -1;
	for (size_t i = 0; i < f->n_freed; i++)
		c->own[i] = node[f->first_freed + i];
	for (size_t i = 0; i < f->n_kept; i++)
		c->own[f->n_freed + i] = node[f->first_kept + i];
	if (!verify_sort(c, c->own, n))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!among(im->node, im->n_node, c->own[i]) || (i && c->own[i] == c->own[i - 1]))
			return verify_wrong(c, f->ino,
					    "block %" PRIu64
					    " is not a tree block of it, or named twice",
					    c->own[i]);
	}
	return 0;
}

/* The tree blocks that the file has afterwards, sorted. */
static int next_nodes(struct check *c, const struct plan_file *f, const struct image *im)
{
	const uint64_t *node = c->plan->node;
	struct image *next = &c->next.im;
	if (verify_more(c, &c->own, f->n_freed, &c->cap_own, sizeof(*c->own)))
		return -1;
	for (size_t i = 0; i < f->n_freed; i++)
		c->own[i] = node[f->first_freed + i];
	if (!verify_sort(c, c->own, f->n_freed))
		return -1;
	for (size_t i = 0; i < im->n_node; i++) {
		if (!among(c->own, f->n_freed, im->node[i]))
			next->node[next->n_node++] = im->node[i];
	}
	for (size_t i = 0; i < f->n_taken; i++)
		next->node[next->n_node++] = node[f->first_taken + i];
	return verify_sort(c, next->node, next->n_node) ? 0 : -1;
}

/* Tree blocks: what the file has of them afterwards suffices. */
static int check_nodes(struct check *c, const struct plan_file *f, const struct image *im)
{
	const struct image *next = &c->next.im;
	uint64_t least = filemap_min_nodes(least_records(next), c->snap->geo.block_size);
	size_t n;
	if (check_own_nodes(c, f, im) || next_nodes(c, f, im))
		return -1;
	for (size_t i = 0; i < f->n_taken; i++) {
		if (check_inside(c, f->ino, c->plan->node[f->first_taken + i], 1))
			return -1;
	}
	n = next->n_node;
	if (n < least)
		return verify_wrong(c, f->ino,
				    "%zu tree blocks can't hold its mapping, which needs %" PRIu64,
				    n, least);
	if (f->last && n != least)
		return verify_wrong(c, f->ino, "its tree has %zu blocks in the end, not %" PRIu64,
				    n, least);
	if (f->together && (f->n_freed != im->n_node || f->n_taken != n || !f->last))
		return verify_wrong(c, f->ino, "its tree isn't made anew as a whole");
	if (n && !f->n_kept && !f->n_taken)
		return verify_wrong(c, f->ino, "none of its tree blocks is rewritten");
	return 0;
}

static int check_lists(struct check *c, const struct plan_file *f)
{
	const struct plan *p = c->plan;
	if ((!f->n_move && !(f->together && f->n_taken)) ||
	    !verify_inside(f->first_move, f->n_move, p->n_move) ||
	    !verify_inside(f->first_freed, f->n_freed, p->n_node) ||
	    !verify_inside(f->first_taken, f->n_taken, p->n_node) ||
	    !verify_inside(f->first_kept, f->n_kept, p->n_node))
		return verify_wrong(c, f->ino, "it has no moves");
	return 0;
}

static int use(struct check *c, uint32_t ino, uint64_t start, uint64_t len, enum use what)
{
	if (check_inside(c, ino, start, len) ||
	    verify_more(c, &c->used, c->n_used + 1, &c->cap_used, sizeof(*c->used)))
		return -1;
	c->used[c->n_used++] = (struct used){ start, len, ino, what };
	return 0;
}

static int release(struct check *c, uint32_t ino, uint64_t start, uint64_t len)
{
	if (check_inside(c, ino, start, len) ||
	    verify_more(c, &c->freed, c->n_freed + 1, &c->cap_freed, sizeof(*c->freed)))
		return -1;
	c->freed[c->n_freed++] = (struct range){ start, len };
	return 0;
}

int verify_list_file(struct check *c, const struct plan_file *f)
{
	const struct move *m = c->plan->move + f->first_move;
	const uint64_t *node = c->plan->node;
	if (check_lists(c, f))
		return -1;
	for (size_t i = 0; i < f->n_move; i++) {
		if (use(c, f->ino, m[i].to, m[i].len, USE_TARGET) ||
		    release(c, f->ino, m[i].from, m[i].len))
			return -1;
		c->copied += m[i].unwritten ? 0 : m[i].len;
		c->copies += !m[i].unwritten;
	}
	for (size_t i = 0; i < f->n_freed; i++) {
		if (release(c, f->ino, node[f->first_freed + i], 1))
			return -1;
	}
	for (size_t i = 0; i < f->n_taken; i++) {
		if (use(c, f->ino, node[f->first_taken + i], 1, USE_NODE))
			return -1;
	}
	return 0;
}

int verify_file(struct check *c, const struct plan_file *f, size_t file)
{
	const struct image *im = image_of(c, file);
	if (check_lists(c, f))
		return -1;
	if (f->together && c->snap->file[file].map.indirect)
		return verify_wrong(c, f->ino, "a block-mapped file has no tree");
	/* Each end of a move splits one piece at most. */
	if (!im || reserve(c, &c->next, im->n_piece + 2 * f->n_move, im->n_node + f->n_taken) ||
	    check_moves(c, f, im))
		return -1;
	if (c->snap->file[file].map.indirect ? verify_indirect(c, f, &c->next.im)
					     : check_nodes(c, f, im))
		return -1;
	return set_image(c, file, &c->next.im);
}
