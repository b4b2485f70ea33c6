/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * images: small good images of several formats, made once in a process; edits to them by place
 * ("inode 14, byte 40") rather than by address; and the checksums over them, repaired, so that an
 * edit gets to the code behind them.
 *
 *   images_get() a base -> images_edit() an input -> use path and mem -> images_restore()
 */
#ifndef TESTS_FUZZ_IMAGES_H
#define TESTS_FUZZ_IMAGES_H

#include "fuzz.h"
#include "scaledefrag/volume.h"
#include <ext2fs/ext2_fs.h>
#include <stdbool.h>

struct owned {
	uint64_t block;
	uint32_t ino;
};

struct base {
	const char *name;
	char path[32];		      /* /proc/self/fd/N */
	uint8_t *good, *mem, *before; /* before: for the caller */
	size_t size;
	struct ext2_super_block sb; /* of the good one */
	uint32_t block_size, inode_size, desc_size, groups;
	struct owned *tree, *dir; /* extent tree and other mapping blocks; directory blocks */
	size_t n_tree, n_dir;
	uint32_t used[64]; /* some inodes in use */
	size_t n_used;
	uint64_t log; /* block of the journal superblock */
	bool *dirty;  /* per block */
};

/* An empty /proc and /sys: nobody uses the images, and looking is cheap. */
struct roots {
	char proc[64], sys[64];
};
const struct roots *images_roots(void);

struct base *images_get(uint8_t number); /* any number */

enum edit_flags {
	/* what is left broken */
	EDIT_SUPER = 1,
	EDIT_DESC = 2,
	EDIT_INODE = 4,
	EDIT_TREE = 8,
	EDIT_BITMAP = 16,
	EDIT_COUNT = 32,
	EDIT_OTHER = 64,
};
/* Edits, one after the other until the input ends: place (1 byte), index (2), offset (2), length
 * (1), bytes. Then repairs what `flags` doesn't except. */
void images_edit(struct base *b, struct bytes *in, uint8_t flags);
void images_repair(struct base *b, uint8_t flags);
void images_write(struct base *b, uint64_t at, const void *data, size_t len); /* cut at the end */
void images_restore(struct base *b, bool whole); /* !whole: what images_write wrote */

/* volume_options.wrap: a device over b->mem stands for the file. `ctx`: struct base. */
int images_wrap(void *ctx, struct device *inner, struct device **out, struct error *err);

#endif
