/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * image: makes small ext4 images with any layout, without mounting and without root: mke2fs for the
 * frame, libext2fs for the content. Deterministic: fixed UUID, hash seed and time. Failures end the
 * program with a message (test code only).
 */
#ifndef TESTS_IMAGE_H
#define TESTS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image; /* an open image */

enum place_order { PLACE_FORWARD, PLACE_BACKWARD, PLACE_SHUFFLED };

/* Which free blocks a file gets: runs of `len` blocks, one every `step` blocks, inside [from, to).
 * With bigalloc each run begins a cluster, on the disk and in the file: the rest of its last one
 * is a hole. */
struct place {
	enum place_order order;
	uint32_t len, step;	  /* 0: 1, 2 * len */
	uint64_t from, to;	  /* 0, 0: anywhere */
	uint32_t hole;		  /* logical hole after each run, in blocks */
	uint32_t every_unwritten; /* n: each nth run is unwritten; 0: none */
};

struct piece {
	uint64_t pblk;
	uint32_t lblk, len;
	bool unwritten;
};

#define IMAGE_ROOT 2u

/* A new file of `size` bytes; `features`: added to today's usual ones ("^64bit,meta_bg"); `args`:
 * more arguments for mke2fs, split at blanks. */
void image_mke2fs(const char *path, uint64_t size, const char *features, const char *args);
struct image *image_open(const char *path);
void image_close(struct image *im);
uint32_t image_block_size(const struct image *im);
uint64_t image_free_blocks(const struct image *im);
uint64_t image_blocks(const struct image *im);
bool image_is_free(const struct image *im, uint64_t block);

/* Marks free blocks as taken, or such blocks as free again. */
void image_reserve(struct image *im, uint64_t at, uint32_t len, bool taken);

uint32_t image_dir(struct image *im, uint32_t parent, const char *name);
/* An empty regular file: of extents if the file system has them, or block-mapped in any case. */
uint32_t image_file(struct image *im, uint32_t dir, const char *name);
uint32_t image_mapped_file(struct image *im, uint32_t dir, const char *name);
void image_symlink(struct image *im, uint32_t dir, const char *name, const char *target);
void image_xattr(struct image *im, uint32_t ino, const char *name, size_t len);
void image_owner(struct image *im, uint32_t ino, uint32_t uid, uint32_t gid, uint32_t project);
void image_inline(struct image *im, uint32_t dir, const char *name, size_t len);

/* `n` blocks placed by `p`; returns the pieces (free() them) and their number; dies if there is no
 * room. */
size_t image_pick(struct image *im, const struct place *p, uint32_t n, struct piece **out);
/* Gives an empty file these pieces and fills written ones with its own pattern (data NULL) or with
 * `data`: the blocks of the pieces one after the other. Size: `size`, or 0: up to the last piece.
 */
void image_map(struct image *im, uint32_t ino, const struct piece *piece, size_t n,
	       const uint8_t *data, uint64_t size);
/* image_file or image_mapped_file, and the two above, in one. */
uint32_t image_put(struct image *im, uint32_t dir, const char *name, const struct place *p,
		   uint32_t n);
uint32_t image_put_mapped(struct image *im, uint32_t dir, const char *name, const struct place *p,
			  uint32_t n);
/* Moves an existing file's or directory's blocks to where `p` says; false: it has holes, nothing
 * done. */
bool image_shatter(struct image *im, uint32_t ino, const struct place *p);
/* Does so with every file and directory of two blocks or more; returns how many. Dies where quota
 * files can be seen in the root directory. */
size_t image_shatter_all(struct image *im);
/* Hidden quota files: what changed above changes their counts, which e2fsck -fy puts right. */
bool image_has_quota(const struct image *im);
/* A file over all free blocks but about `keep`, shattered free space left as it is. */
void image_hog(struct image *im, const char *name, uint64_t keep);
uint64_t image_file_block(struct image *im, uint32_t ino, uint32_t lblk); /* 0: a hole */
uint64_t image_inode_table(const struct image *im);			  /* of group 0 */
/* Block bitmaps, group descriptors (not their backups) and inode tables among the blocks. */
enum image_kind { IMAGE_OTHER, IMAGE_ACCOUNTS, IMAGE_INODES };
enum image_kind image_kind(const struct image *im, uint64_t block);
/* e2fsck with these arguments; dies unless the exit code is at most `worst`. */
void image_fsck(const char *path, const char *args, int worst);

/* Raw access for hand-made cases. */
void image_read(const char *path, uint64_t offset, void *buf, size_t len);
void image_write(const char *path, uint64_t offset, const void *buf, size_t len);

__attribute__((noreturn, format(printf, 1, 2))) void image_die(const char *fmt, ...);
/* Runs a program found in PATH, /sbin or /usr/sbin with output to `out_fd` (-1: discard); returns
 * its exit code, or 128 + signal. */
int image_run(const char *const argv[], int out_fd);
bool image_program(const char *name); /* it is there to be run */

#endif
