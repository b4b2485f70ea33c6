/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inuse: a hash of what matters of an image: every block that its bitmaps call in use, and what has
 * no bitmap. Left out are free blocks (a cut between copies leaves any content there), and the log
 * where its superblock says that it is empty (s_start 0, as after a replay). Two images that agree
 * in the rest are the same to e2fsck and to every reader, as long as one of them is known to be
 * sound: its files own no free block, and the other one has the same metadata.
 */
#ifndef TESTS_INUSE_H
#define TESTS_INUSE_H

#include <stdbool.h>
#include <stdint.h>

struct inuse;

/* Where the bitmaps and the log of the file system in the file `path` are; they don't move. */
struct inuse *inuse_new(const char *path);
void inuse_free(struct inuse *u);
/* Of an image of that file system; never 0. */
uint64_t inuse_hash(const struct inuse *u, const uint8_t *image);

#endif
