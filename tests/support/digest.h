/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * digest: a hash of everything that a move must not change, read from an unmounted image through
 * libext2fs' public calls and raw reads. It shares no code with src/: it is the judge.
 *
 * For every inode in use: the whole on-disk inode (mode, owners, size, links, flags, generation,
 * times, xattrs in the inode; a symlink's or device's i_block too), the xattr block, the logical
 * map (lblk, len, written or not, adjoining pieces merged) and all bytes of written blocks. Left
 * out: physical addresses, i_blocks, checksums, the content of the journal and of quota files.
 */
#ifndef TESTS_DIGEST_H
#define TESTS_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct digest_inode {
	uint32_t ino;
	uint64_t meta[2], map[2], data[2];
};

struct digest {
	uint64_t hash[2];
	struct digest_inode *inode; /* by number; NULL unless asked for */
	size_t n_inode;
};

/* `list`: keep the hashes of each inode, for digest_differ. 0, or -1 and `why` filled. */
int digest_image(const char *path, bool list, struct digest *out, char *why, size_t n_why);
void digest_release(struct digest *d);
bool digest_equal(const struct digest *a, const struct digest *b);
/* "inode 12: data" for the first inode that differs; both must have been made with `list`. */
void digest_differ(const struct digest *a, const struct digest *b, char *text, size_t n_text);

#endif
