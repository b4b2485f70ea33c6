/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * volume: opening an ext4 file system safely. Every reason to refuse stands in src/volume/guard.c.
 *
 *   volume_open()   path -> locks -> (e2fsck -p) -> one descriptor, exclusive, held to the end ->
 * raw superblock checked -> guard -> libext2fs on top volume_close()
 *
 * Nothing is written by this module, except by the `e2fsck -p` child that `preen` asks for.
 * Errors: ERROR_FSCK (unclean, errors, orphans, log not empty), ERROR_OPERATION (in use: names the
 * holder), ERROR_USAGE (not ext4, not supported: names the feature; a missing path; a directory).
 * Each text ends with the next command where there is one. Thread rule: volume_fs() is for one
 * thread, except that group descriptors may be read by many while nobody writes.
 */
#ifndef SCALEDEFRAG_VOLUME_H
#define SCALEDEFRAG_VOLUME_H

#include "scaledefrag/device.h"
#include "scaledefrag/geometry.h"

struct struct_ext2_filsys; /* <ext2fs/ext2fs.h>, visible in volume/, scan/ and commit/ alone */

struct volume_options {
	const char *path;   /* DEVICE, IMAGE, or IMAGE?offset=N (N in bytes) */
	bool read_only;	    /* -n, -c: opened read-only; locks shared where possible */
	bool preen;	    /* -p: run `e2fsck -p` first; exit 0 and 1 go on, else ERROR_FSCK */
	unsigned partition; /* --partition N, 1-based; 0: none */
	const char *const *command; /* as in scaledefrag_options */
	size_t n_command;
	const char *sys_root, *proc_root; /* NULL: "/sys", "/proc"; tests use fake trees */
	const char *e2fsck;		  /* NULL: "e2fsck" from PATH plus /sbin and /usr/sbin */
	/* Tests: instead of waiting for so many seconds. NULL: waits. */
	void (*pause)(void *ctx, unsigned seconds);
	void *pause_ctx;
	/* Not 0: wait no longer. Asked while waiting, every second and at each signal. */
	int (*cancel)(void *ctx);
	void *cancel_ctx;
	/* Tests: puts a device in front of the real one; closing *out closes `inner`. NULL: none.
	 */
	int (*wrap)(void *ctx, struct device *inner, struct device **out, struct error *err);
	void *wrap_ctx;
};

/*
 * Where the file system lies on the whole disk or image, and in which units that gives space back:
 * they begin at every `unit` bytes, the first one at byte `align` of the disk. Of a disk, from
 * sysfs (what is not there counts as 0); of an image file, the blocks of the file system it lies
 * on.
 */
struct volume_place {
	bool disk;	/* a block device */
	uint64_t start; /* bytes from the start of the disk or image; partitions are counted in */
	uint64_t align; /* bytes */
	uint64_t unit;	/* bytes; 0: not known, or it takes nothing back */
	/* The disk, or the one the image lies on, has a head that must seek. Virtual disks say so
	 * whatever lies below: they are not believed. */
	bool rotational;
};

/* How many bytes behind the start of a slab of `size` bytes the file system begins. */
static inline uint64_t volume_into(const struct volume_place *p, uint64_t size)
{
	return (p->start % size + (size - p->align % size)) % size;
}

struct volume;

int volume_open(const struct volume_options *o, struct volume **out, struct error *err);
void volume_close(struct volume *v); /* NULL is fine; releases locks last */

/* For messages: what e2fsck has to be given, PATH or 'PATH?offset=N', quoted for a shell. With
 * --partition this is not the name. */
const char *volume_arg(const struct volume *v);
const char *
volume_what(const struct volume *v); /* one phrase: "ext4, 4 KiB blocks, 2.0 GiB, 71 % used" */
const struct volume_place *volume_place(const struct volume *v);
struct device *volume_device(struct volume *v);
const struct geometry *volume_geometry(const struct volume *v);
struct struct_ext2_filsys *volume_fs(struct volume *v); /* read-only handle through volume_device */
/* Reads superblock and group descriptors anew: a commit has changed them on the disk. Invalidates
 * volume_fs(). */
int volume_refresh(struct volume *v, struct error *err);
/* Opens another libext2fs handle whose io_manager sits on `dev` (say, an overlay): see channel.c.
 * The caller ends it with ext2fs_free after clearing EXT2_FLAG_DIRTY, never ext2fs_close. */
int volume_fs_on(struct volume *v, struct device *dev, struct struct_ext2_filsys **out,
		 struct error *err);

/*
 * The MMP block, of file systems that another node may use at the same time. Its place in bytes,
 * or 0: there is none.
 */
#define VOLUME_MMP_LEN 1024
/* In the first word of its padding, says that its number (both as on the disk) is one of ours. */
#define VOLUME_MMP_MARK(seq) ((seq) ^ 0x73636465u)
uint64_t volume_mmp(const struct volume *v);
/* Is this what it was when the volume was opened? Else somebody else has used it since. */
bool volume_mmp_same(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN]);
/* Reads it from the disk, past the page cache. Any thread. */
int volume_mmp_read(const struct volume *v, uint8_t buf[VOLUME_MMP_LEN], struct error *err);
/* As long as it takes to see whether somebody else writes it. ERROR_STOPPED: a signal came. */
int volume_mmp_wait(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN], struct error *err);
/* ERROR_OPERATION, naming node and device in this block. Returns -1. */
int volume_mmp_in_use(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN], struct error *err);
/* What the block is to call the device; filled up with zeros. */
void volume_mmp_name(const struct volume *v, char *name, size_t len);

/*
 * What a libext2fs code (errcode_t) means: ERROR_OPERATION for an I/O error or no memory,
 * ERROR_FSCK for everything that speaks of the file system's content. errno values pass through
 * libext2fs; its own codes start far above them.
 */
enum error_kind volume_error_kind(long code);

#endif
