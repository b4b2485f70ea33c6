/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * window: what defraggers.c and window.c share. A batch's copies are cut into pieces, sorted by
 * destination, and the pieces into windows; a window is what one worker holds in memory at a time.
 */
#ifndef MOVE_WINDOW_H
#define MOVE_WINDOW_H

#include "scaledefrag/move.h"

/* A part of a move that lies in one window. */
struct piece {
	uint64_t from, to; /* pblk */
	uint64_t hash;	   /* XXH3 of what was read; only with verify */
	uint32_t len;	   /* blocks */
	uint32_t at;	   /* blocks from the start of the window's buffer */
	uint32_t file;	   /* of the batch, 0.. */
	uint32_t skip;	   /* 1: its file failed in this window; written by the window's worker */
};

struct window {
	size_t first, n; /* pieces */
	uint32_t blocks;
};

/* One batch's work, shared by all workers; const while they run, but for dropped (under the
 * critical section move_drop) and each window's own pieces. */
struct copy {
	struct device *dev;
	const struct move_options *o;
	struct piece *piece;
	struct window *window;
	size_t n_window;
	uint32_t window_blocks; /* the most that a window holds */
	unsigned threads;
	unsigned depth; /* requests in flight of one worker */
	unsigned slots; /* bounce buffers of one worker */
	struct move_dropped *dropped;
};

#define BOUNCE_SIZE ((size_t)256 << 10) /* bytes of a bounce buffer; no smaller than a block */

struct io;

/* One defragger's buffers and queue. */
struct worker {
	const struct copy *c;
	struct device_queue *q;
	uint8_t *data;	 /* the window: pieces in destination order, one after the other */
	uint8_t *bounce; /* slots for reads that span gaps or that are scattered in `data` */
	uint32_t *order; /* the window's pieces by source */
	unsigned *slot;	 /* free slots, a stack */
	unsigned n_slot;
	struct io *io, **idle;
	size_t n_idle;
	struct device_request **request; /* to submit, or just completed */
	struct move_result count;	 /* this worker's share */

	struct piece *piece; /* the window at work, and how far its requests are made */
	size_t n_piece;
	size_t pos;
	uint32_t off;
};

int worker_open(struct worker *w, const struct copy *c, struct error *err);
void worker_close(struct worker *w); /* waits for what is in flight; fine on a zeroed one */
/* Reads the window's sources and writes its destinations. */
int worker_copy(struct worker *w, const struct window *win, struct error *err);
/* Reads the destinations back and compares the hashes. */
int worker_check(struct worker *w, const struct window *win, struct error *err);

#endif
