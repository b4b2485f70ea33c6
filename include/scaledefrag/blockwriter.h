/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blockwriter: writes lists of single blocks from memory, adjoining ones as one request, many in
 * flight. For metadata: a journal's transaction, a phase without a journal.
 *
 *   blockwriter_open()    takes all memory, so that none is missing once something is written
 *   blockwriter_write() * one list; returns when all of it is written (not flushed)
 *   blockwriter_close()
 *
 * Thread rule: one thread.
 */
#ifndef SCALEDEFRAG_BLOCKWRITER_H
#define SCALEDEFRAG_BLOCKWRITER_H

#include "scaledefrag/device.h"

struct blockwriter_block {
	uint64_t block;	  /* its number */
	const void *data; /* block_size bytes; not read where `blank` says that all are zeros */
	uint32_t blank;	  /* so many bytes at its start are written as zeros, whatever data says */
};

struct blockwriter {
	struct device *dev;
	size_t block_size, stage_size; /* bytes; the latter a multiple of the first */
	uint8_t *stage;		       /* blocks are copied here, aligned and in a row */
	struct device_request *request;
	unsigned depth;
	uint64_t writes; /* requests so far */
};

/* `most`: blocks of the longest list, > 0; a longer one only takes more steps. `depth`: requests in
 * flight. -1: no memory; blockwriter_close() is fine then. */
int blockwriter_open(struct blockwriter *w, struct device *dev, size_t block_size, uint64_t most,
		     unsigned depth, struct error *err);
/* Blocks in any order; best ascending. The device gets them in any order. */
int blockwriter_write(struct blockwriter *w, const struct blockwriter_block *list, size_t n,
		      struct error *err);
void blockwriter_close(struct blockwriter *w); /* a zeroed one is fine */

#endif
