/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mover: what the files of this module share.
 *
 *   defraggers.c  the threads, and the caller's side: open, batch, close
 *   jobs.c        a batch as a job: cut into pieces and windows, which are handed out
 *   worker.c      one defragger: several windows on their way through one queue
 *   requests.c    the requests of a window
 *   failures.c    a failed request: which files are hit
 */
#ifndef MOVE_MOVER_H
#define MOVE_MOVER_H

#include "scaledefrag/move.h"
#include <pthread.h>

#define BOUNCE_SIZE ((size_t)256 << 10) /* bytes of a bounce buffer; no smaller than a block */
#define STREAMS_MAX 4			/* windows on their way in one worker, at most */

/* A part of a move that lies in one window. */
struct piece {
	uint64_t from, to; /* pblk */
	uint64_t hash;	   /* XXH3 of what was read; only with verify */
	uint32_t len;	   /* blocks */
	uint32_t at;	   /* blocks from the start of the window's buffer */
	uint32_t file;	   /* of the batch, 0.. */
	bool skip;	   /* its file failed in this window; written by the window's worker */
	bool late;	   /* written when its batch may be, not earlier */
};

struct window {
	size_t first, n; /* pieces, sorted by destination */
	uint32_t blocks;
	bool late; /* as its pieces */
};

/* One batch. Its lists exist from the first claim up to the end of its copies. */
struct job {
	struct piece *piece;
	struct window *window;
	size_t n_window, n_early;	/* those that may be written early come first */
	struct move_dropped *dropped;	/* per file; under the mover's lock */
	atomic_size_t next, next_check; /* windows claimed: to copy, to check */
	/* Under the mover's lock. */
	size_t after;		  /* may be read once so many batches are copied */
	size_t finished, checked; /* windows */
	size_t finished_early;	  /* of `finished`: early ones */
	bool checking;
	struct move_result count;
};

struct mover {
	struct device *dev;
	const struct plan *p;
	struct move_options o;
	unsigned threads, depth, slots, streams; /* the last three: of one worker */
	uint32_t window_blocks;			 /* the most that a window holds */
	struct job *job;			 /* per batch of the plan */
	pthread_t *team;			 /* the defraggers */
	unsigned n_team;

	pthread_mutex_t telling; /* the observer is called by one at a time */
	pthread_mutex_t lock;
	pthread_cond_t change;
	atomic_uint changes;		/* counts them; grows under the lock */
	atomic_size_t opened;		/* jobs that have lists, or had; grows under the lock */
	atomic_size_t allowed;		/* batches that may be written */
	atomic_size_t allowed_early;	/* and those of which early windows may */
	atomic_bool ending;		/* stopped, failed or closed: all defraggers leave */
	atomic_uint_fast64_t unflushed; /* bytes written since the last flush */
	/* Under the lock. */
	size_t copied; /* batches whose copies are complete */
	bool stopped, failed;
	struct error err; /* of the first failure */
};

enum pass { PASS_GATHER, PASS_WRITE, PASS_CHECK };

/* A window on its way, in its buffer. */
struct stream {
	enum { STREAM_IDLE, STREAM_GATHER, STREAM_READY, STREAM_WRITE, STREAM_CHECK } state;
	struct job *job;
	size_t batch;
	bool late;    /* its window is */
	uint64_t age; /* the lower, the older */
	struct piece *piece;
	size_t n_piece;
	uint8_t *data;	 /* pieces in destination order, one after the other */
	uint32_t *order; /* the pieces by source */
	/* How far the requests of this pass are made, and how many are in flight. */
	enum pass pass;
	size_t pos;
	uint32_t off; /* blocks of the piece at pos */
	size_t in_flight;
	struct move_result count;
};

struct io {
	struct device_request req;
	struct stream *s;
	size_t first, n; /* pieces touched, counted in the order of the pass */
	int slot;	 /* bounce slot, -1: none */
};

/* One defragger's buffers and queue. */
struct worker {
	struct mover *m;
	struct device_queue *q;
	struct stream stream[STREAMS_MAX];
	uint64_t age;
	uint8_t *bounce; /* slots for reads that span gaps or that are scattered in the buffer */
	unsigned *slot;	 /* free slots, a stack */
	unsigned n_slot;
	struct io *io, **idle;
	size_t depth, n_idle;
	size_t writing, writing_bytes;	 /* writes in flight */
	struct device_request **request; /* to submit, or just completed */
	uint64_t written;		 /* bytes, not told yet */
};

/* ---- jobs.c ---- */

enum claim { CLAIM_WINDOW, CLAIM_LATER, CLAIM_END, CLAIM_FAILED };

/* The most blocks, and the most moves, that one batch of the plan copies. */
void jobs_measure(const struct plan *p, uint64_t *blocks, size_t *n_move);
/* The next window to read, or to check, is put into the idle stream. */
enum claim job_claim(struct mover *m, struct stream *s, struct error *err);
void job_release(struct job *job); /* its lists */

/* ---- defraggers.c ---- */

void mover_changed(struct mover *m); /* wakes who waits; under the lock */

/* ---- worker.c ---- */

int worker_open(struct worker *w, struct mover *m, struct error *err);
void worker_close(struct worker *w); /* waits for what is in flight; fine on a zeroed one */
int worker_run(struct worker *w, struct error *err); /* up to the end of the plan */

/* ---- requests.c ---- */

struct piece *piece_in(const struct stream *s, size_t k); /* k: in the order of the pass */
uint64_t piece_address(const struct stream *s, const struct piece *p);
uint8_t *stream_buffer(const struct worker *w, const struct stream *s, uint64_t blocks);
void stream_start(struct stream *s, enum pass pass);
bool stream_all_made(struct stream *s); /* no request of the pass is left to make */
/* False: nothing left, or (gather) no bounce slot free now. */
bool request_make(struct worker *w, struct stream *s, struct io *io);
/* After completion of a read: from the bounce slot to where it belongs. */
void request_scatter(struct worker *w, const struct io *io);

/* ---- failures.c ---- */

/* A file fails as a whole; what is left of it in this window is skipped. */
void drop_file(struct worker *w, struct stream *s, const struct piece *p,
	       const struct move_dropped *why);
/* A request failed: does it again in small steps and drops the files that are hit. */
void request_redo(struct worker *w, const struct io *io);

#endif
