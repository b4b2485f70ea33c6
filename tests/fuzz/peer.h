/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * peer: one image of somebody else, the engine's runs on it, and their judge.
 *
 *   peer_load() -> peer_flips() -> the process ends
 */
#ifndef TESTS_FUZZ_PEER_H
#define TESTS_FUZZ_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tally { /* shared with the child */
	uint64_t run, done, written, refused, worse, at;
};

struct span {
	off_t at, end;
};

struct peer {
	const char *name;
	int fd;
	char path[64];		      /* the copy that is worked on, in memory, as others see it */
	uint8_t *mem, *good, *before; /* before: the run */
	size_t size;
	struct span *data; /* what is no hole in it */
	size_t n_data;
	struct tally *tally;
};

/* The image `name`, with its zeros as holes. */
void peer_load(struct peer *p);
/* Runs with flips first to last; number 0 is the image as it is. */
void peer_flips(struct peer *p, uint64_t first, uint64_t last, uint64_t seed);
/* Prints it, and counts it. */
void peer_worse(const struct peer *p, const char *what, const char *why);
uint8_t *peer_map(int fd, size_t size, int flags); /* mmap, or the program ends */

#endif
