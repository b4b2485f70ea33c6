/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * requests: those of one window.
 *
 *   gather  read the sources, sorted by address; neighbours across small gaps as one request
 *   write   the destinations in long runs, straight from the window's buffer
 *   check   (verify) read the destinations back
 *
 * The buffer is laid out in destination order, so a run that is put together from many small
 * sources leaves as one write. A read lands in its final place where that is possible; a read that
 * spans a gap, or whose pieces lie apart in the buffer, goes through a bounce slot.
 */
#include "mover.h"
#include <string.h>

/*
 * A request costs about as much as reading this much further (bytes): measured, queue depth 64,
 * 4 KiB reads of a virtio disk at 50,000 a second and 600 to 900 MB/s.
 */
#define GAP_MAX (8u << 10)
/* A head that passes over so much loses half a millisecond, one that comes too late a turn of 8 ms.
 * More would cost too much where it is flash that doesn't say so, behind a bridge. */
#define GAP_DISK    (64u << 10)
#define REQUEST_MAX (1u << 20) /* bytes of a direct request */

struct piece *piece_in(const struct stream *s, size_t k)
{
	return &s->piece[s->pass == PASS_GATHER ? s->order[k] : k];
}

uint64_t piece_address(const struct stream *s, const struct piece *p)
{
	return s->pass == PASS_GATHER ? p->from : p->to;
}

uint8_t *stream_buffer(const struct worker *w, const struct stream *s, uint64_t blocks)
{
	return s->data + blocks * w->m->o.block_size;
}

void stream_start(struct stream *s, enum pass pass)
{
	s->pass = pass;
	s->pos = 0;
	s->off = 0;
}

bool stream_all_made(struct stream *s)
{
	while (s->pos < s->n_piece && piece_in(s, s->pos)->skip) {
		s->pos++;
		s->off = 0;
	}
	return s->pos == s->n_piece;
}

/* Moves on by `blocks` of the pieces in the order of the pass. */
static void advance(struct stream *s, uint32_t blocks)
{
	while (blocks) {
		uint32_t left = piece_in(s, s->pos)->len - s->off;

		if (blocks < left) {
			s->off += blocks;
			return;
		}
		blocks -= left;
		s->pos++;
		s->off = 0;
	}
}

/* From here on, what follows each other on the device and in the buffer alike. */
static void make_direct(struct worker *w, struct stream *s, struct io *io)
{
	uint32_t bs = w->m->o.block_size, max = REQUEST_MAX / bs;
	struct piece *p = piece_in(s, s->pos);
	uint64_t len = p->len - s->off;

	io->first = s->pos;
	io->n = 1;
	io->slot = -1;
	io->req.offset = (piece_address(s, p) + s->off) * bs;
	io->req.buf = stream_buffer(w, s, (uint64_t)p->at + s->off);
	while (len < max && s->pos + io->n < s->n_piece) {
		struct piece *next = piece_in(s, s->pos + io->n);

		if (next->skip || piece_address(s, next) != piece_address(s, p) + p->len ||
		    next->at != p->at + p->len)
			break;
		len += next->len;
		p = next;
		io->n++;
	}
	len = len < max ? len : max;
	io->req.len = (size_t)len * bs;
	advance(s, (uint32_t)len);
}

/*
 * Several small sources that lie near each other, but not so that one direct read would do.
 * Returns the number of pieces, or 0 if there is no such group here.
 */
static size_t find_group(const struct worker *w, const struct stream *s, uint64_t *blocks)
{
	uint32_t bs = w->m->o.block_size;
	uint32_t gap = w->m->o.rotational ? GAP_DISK : GAP_MAX;
	const struct piece *p = piece_in(s, s->pos);
	uint64_t lo = p->from, hi = p->from + p->len;
	bool scattered = false;
	size_t n = 1;

	for (; s->pos + n < s->n_piece; n++) {
		const struct piece *next = piece_in(s, s->pos + n);

		if (next->from < hi || (next->from - hi) * bs > gap ||
		    (next->from + next->len - lo) * bs > BOUNCE_SIZE)
			break;
		if (next->from != hi || next->at != p->at + p->len)
			scattered = true;
		hi = next->from + next->len;
		p = next;
	}
	*blocks = hi - lo;
	return scattered ? n : 0;
}

bool request_make(struct worker *w, struct stream *s, struct io *io)
{
	uint32_t bs = w->m->o.block_size;
	uint64_t blocks;
	size_t n = 0;

	if (stream_all_made(s))
		return false;
	if (s->pass == PASS_GATHER && s->off == 0)
		n = find_group(w, s, &blocks);
	if (n && w->n_slot == 0)
		return false;
	io->s = s;
	io->req.op = s->pass == PASS_WRITE ? DEVICE_WRITE : DEVICE_READ;
	io->req.owner = io;
	if (n == 0) {
		make_direct(w, s, io);
		return true;
	}
	io->slot = (int)w->slot[--w->n_slot];
	io->first = s->pos;
	io->n = n;
	io->req.offset = piece_in(s, s->pos)->from * bs;
	io->req.len = (size_t)blocks * bs;
	io->req.buf = w->bounce + (size_t)io->slot * BOUNCE_SIZE;
	s->pos += n;
	return true;
}

void request_scatter(struct worker *w, const struct io *io)
{
	uint32_t bs = w->m->o.block_size;
	uint64_t lo = io->req.offset / bs;

	for (size_t k = io->first; k < io->first + io->n; k++) {
		const struct piece *p = piece_in(io->s, k);

		memcpy(stream_buffer(w, io->s, p->at), (uint8_t *)io->req.buf + (p->from - lo) * bs,
		       (size_t)p->len * bs);
	}
}
