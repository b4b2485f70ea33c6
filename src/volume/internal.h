/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of volume/ share. Order of use: target (what was asked for) -> lock -> check
 * (holders, content, superblock, guard) -> preen -> one exclusive descriptor -> check again ->
 * channel.
 *
 * All functions: 0, or -1 with `err` filled, unless said otherwise.
 */
#ifndef VOLUME_INTERNAL_H
#define VOLUME_INTERNAL_H

#include "scaledefrag/volume.h"
#include <ext2fs/ext2fs.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SUPERBLOCK_AT	 1024u /* bytes from the start of the file system */
#define SUPERBLOCK_LEN	 1024u
#define TEXT_NAME	 256u		/* bytes for one escaped name in a message */
#define GUARD_DESC_BYTES (128ull << 20) /* the most that group descriptors may take in memory */

/* What the user named, and where in it the file system lies. */
struct target {
	char *name;  /* as given */
	char *path;  /* without ?offset= */
	char *shown; /* path, escaped for messages */
	char *arg;   /* PATH or PATH?offset=N, quoted for a shell: what e2fsck is to be given */
	const char *sys_root, *proc_root;
	const char *const *command; /* n_command words, as in volume_options */
	size_t n_command;
	bool read_only;
	bool is_device;				    /* block device; else a regular file */
	bool has_offset;			    /* given as ?offset=, so believed */
	struct stat st;				    /* of path, symlinks followed */
	uint64_t size;				    /* bytes of the whole file or device */
	uint64_t base;				    /* bytes: where the file system starts */
	void (*pause)(void *ctx, unsigned seconds); /* as in volume_options */
	void *pause_ctx;
	int (*cancel)(void *ctx);
	void *cancel_ctx;
	uint64_t mmp_at;	     /* bytes from base: the MMP block; 0: none */
	uint8_t mmp[VOLUME_MMP_LEN]; /* as it was found */
	uint64_t room; /* bytes from base up to the end of its partition, file or device */
};

int target_init(struct target *tg, const struct volume_options *o, struct error *err);
void target_release(struct target *tg);
/* Size of the open file or device -> size and room. */
int target_measure(struct target *tg, int fd, struct error *err);
/* The file system starts at `base` and has `room` bytes: partition N was chosen. */
int target_set_base(struct target *tg, uint64_t base, uint64_t room, struct error *err);
/* Reads up to `len` bytes at `offset` of the file; bytes read (short at its end), -1 on errors. */
ssize_t target_read(int fd, void *buf, size_t len, uint64_t offset);

/* text.c: names in messages are hostile. Each writes a terminated string into out. */
void text_escape(const char *in, size_t len, char *out, size_t size);
char *text_quote(const char *arg); /* for a shell; malloc'ed, NULL: no memory */
/* Decodes \ooo of the kernel's tables in place. */
void text_unescape_octal(char *s);
/* First line of a small file whose path is the format; false: not there or empty. */
bool text_first_line(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* lock.c: held from before e2fsck to the end. */
struct locks {
	int fd;	     /* flock and OFD locks; -1 */
	int disk_fd; /* flock on the whole disk of a partition; -1 */
};
int lock_take(struct locks *lk, struct target *tg, struct error *err);
/* Does anybody else hold one of qemu's or libvirt's bytes? Asks through lk->fd: own ones don't
 * count. */
int lock_probe(const struct locks *lk, const struct target *tg, struct error *err);
void lock_release(struct locks *lk);
int target_open_error(const struct target *tg, int sys, struct error *err); /* why open failed */

/* mounts.c: every mount of every mount namespace that can be seen. */
struct mount {
	dev_t dev;
	char *where, *type, *source;
	long pid; /* of a process that sees it; 0: we do */
};
struct mounts {
	struct mount *m;
	size_t n, room;
};
int mounts_load(const char *proc_root, struct mounts *out, struct error *err);
void mounts_release(struct mounts *ms);
const struct mount *mounts_find(const struct mounts *ms, dev_t dev);

/* holders.c: ERROR_OPERATION naming who uses it. */
int holders_check(const struct target *tg, struct error *err);
/* "process 123 (name)" that holds a lock on the file, or `otherwise`. */
void holders_process(const struct target *tg, const char *otherwise, char *out, size_t size);

/* content.c, partition.c: ERROR_USAGE naming what else it is. */
int content_check(const struct target *tg, int fd, struct error *err);
int partition_resolve(struct target *tg, int fd, unsigned number, struct error *err);
/*
 * 1, with err listing the ext4 partitions and the command for each, if it is to be taken for a
 * whole disk; else 0. `has_ext`: there is a superblock in front of the table, too.
 */
int partition_list(const struct target *tg, int fd, bool has_ext, struct error *err);
/* Narrows room to the partition that starts at base, if any. */
void partition_limit(struct target *tg, int fd);
bool content_has_ext(int fd, uint64_t base);

/* place.c: cannot fail; what nobody says is 0. */
void place_find(const struct target *tg, struct volume_place *out);

/* superblock.c */
struct superblock {
	struct ext2_super_block raw; /* as on the disk */
	uint32_t compat, incompat, ro_compat;
	uint32_t block_size, inode_size, desc_size; /* bytes; valid after superblock_check */
	uint32_t cluster_blocks;		    /* of a cluster; the same */
	uint64_t blocks;
	uint64_t groups;
	bool csum_ok; /* true too when there is no checksum */
};
int superblock_read(const struct target *tg, int fd, struct superblock *sb, struct error *err);
/* The bounds that the kernel's ext4_fill_super sets: ERROR_FSCK. */
int superblock_check(const struct target *tg, const struct superblock *sb, struct error *err);
void superblock_geometry(const struct superblock *sb, struct geometry *geo);

/* guard.c: every reason to refuse what the file system says of itself. */
int guard_features(const struct target *tg, const struct superblock *sb, struct error *err);
int guard_mmp(struct target *tg, int fd, const struct superblock *sb, bool before_preen,
	      struct error *err);
int guard_state(const struct target *tg, const struct superblock *sb, struct error *err);
int guard_size(const struct target *tg, const struct superblock *sb, struct error *err);
int guard_not_yet(const struct target *tg, const struct superblock *sb, struct error *err);
int guard_memory(const struct target *tg, const struct superblock *sb, struct error *err);
int guard_groups(const struct target *tg, ext2_filsys fs, const struct geometry *geo,
		 struct error *err);
/* All of them that need no libext2fs, in order. `before_preen`: those that e2fsck can't cure. */
int guard_all(struct target *tg, int fd, const struct superblock *sb, bool before_preen,
	      struct error *err);

/* mmp.c */
int mmp_read(const struct target *tg, int fd, uint64_t at, uint8_t *buf, struct error *err);
int mmp_pause(const struct target *tg, unsigned seconds, struct error *err);
/* Seconds after which a block that did not change is nobody's. */
unsigned mmp_patience(const struct mmp_struct *mmp, unsigned update_interval);
int mmp_in_use(const struct target *tg, const struct mmp_struct *mmp, struct error *err);

/* preen.c */
int preen_run(const struct target *tg, const char *e2fsck, struct error *err);

/* channel.c */
int channel_open_fs(struct device *dev, bool writable, const char *shown, ext2_filsys *out,
		    struct error *err);
void channel_close_fs(ext2_filsys fs); /* NULL is fine; writes nothing */

#endif
