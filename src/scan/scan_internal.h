/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan, inside: what the parts of the collector hand to each other.
 *
 *   source     where everything is read from: device, geometry, freshly read group descriptors
 *   harvest    what was found: files, claims, free ranges. Each group fills one of its own; the
 *              driver appends them in group order, so the result does not depend on threads
 *   crosscheck proves that the claims and the bitmaps agree (I9)
 */
#ifndef SCALEDEFRAG_SCAN_INTERNAL_H
#define SCALEDEFRAG_SCAN_INTERNAL_H

#include "scaledefrag/array.h"
#include "scaledefrag/indirect.h"
#include "scaledefrag/scan.h"

#include <ext2fs/ext2fs.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "structures of the disk are used in place: little-endian machines only"
#endif

struct source {
	struct volume *v;
	struct device *dev;
	const struct geometry *geo; /* in blocks */
	struct geometry clusters;   /* the same in clusters, as all that is harvested */
	unsigned queue_depth;
	const volatile int *stop; /* may be NULL */
	unsigned threads;
	uint64_t memory;	 /* bytes that the scan may take; 0: any */
	uint64_t others;	 /* of them, taken by others */
	uint64_t taken;		 /* of them, when trees are read */
	const uint32_t *exclude; /* sorted */
	size_t n_exclude;
	/* Of the inode tables only first_ino to last_ino, but for `skip`, sorted. last_ino 0: all
	 * of them. */
	uint32_t first_ino, last_ino;
	const uint32_t *skip;
	size_t n_skip;
	/*
	 * A flat copy of the volume's handle whose group descriptors are `desc`: after a commit
	 * those of the handle are old. Only for functions that look at superblock and descriptors.
	 */
	struct struct_ext2_filsys fs;
	void *desc;
};

/* Reads the group descriptors and checks them. `src` needs no close on failure. */
int source_open(struct volume *v, unsigned queue_depth, const volatile int *stop,
		struct source *src, struct error *err);
void source_close(struct source *src);
/* ERROR_FSCK: the volume's name, what is wrong, and the command to run. Returns -1. */
int source_damage(const struct source *src, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A call of libext2fs about this inode failed with `ret`. Returns -1. */
int library_error(const struct volume *v, errcode_t ret, uint32_t ino, struct error *err);
int source_stopped(const struct source *src, struct error *err); /* -1 with ERROR_STOPPED, or 0 */

/*
 * Is it one of the inodes that the scan has checked? A name can point to others, whose maps may be
 * anything: libext2fs must not follow them.
 */
errcode_t inode_is_checked(ext2_filsys fs, uint32_t ino, bool *yes);

/* One block to read. Sorted by block, each block once. */
struct want {
	uint64_t block;
	size_t index; /* the caller's */
};
typedef int (*block_fn)(void *ctx, size_t index, uint8_t *data, struct error *err);
/*
 * Reads blocks through one asynchronous queue, adjoining ones by one request, and calls fn for each
 * as it comes in. If some fail, the error is that of the lowest block.
 */
int source_read_blocks(const struct source *src, const struct want *want, size_t n, block_fn fn,
		       void *ctx, struct error *err);
int want_compare(const void *a, const void *b); /* for qsort: by block, then index */

enum owner {
	OWNER_MOVABLE, /* who = inode */
	OWNER_FIXED,   /* who = inode */
	OWNER_META,    /* who = group whose metadata it is */
};

/*
 * Blocks in use that are in no file's mapping: the groups' metadata, xattr blocks, the resize
 * inode's. What a mapping says is claimed by it, and is not written down again.
 */

#define CLAIM_MAX_LEN ((1u << 30) - 1)

struct claim { /* 16 bytes */
	uint64_t start;
	uint32_t len : 30;
	uint32_t owner : 2;
	uint32_t who;
};

struct claims {
	struct claim *c;
	size_t n, cap;
};

/* Adds a claim, merged with the last one where both are of one owner and adjoin. */
int claims_add(struct claims *cl, uint64_t start, uint64_t len, enum owner owner, uint32_t who,
	       struct error *err);

struct tree_entry { /* a tree block still to be read; 32 bytes */
	uint64_t pblk;
	uint32_t lo, last; /* logical blocks it may map, last one included */
	size_t file;	   /* index into the files */
	uint32_t gen;	   /* i_generation: part of the block's checksum */
	uint32_t eof;	   /* as in the verdict */
};

struct mapped_entry { /* an indirect block still to be read; 24 bytes */
	uint32_t pblk, number;
	uint8_t level; /* of it */
	uint32_t end;  /* data is in numbers below that */
	size_t file;   /* index into the files */
};

#define NO_FILE SIZE_MAX

struct left { /* a file that is left alone */
	uint32_t ino;
	uint8_t why; /* enum leave_reason */
	size_t file; /* its mapping is in harvest.file; or NO_FILE */
	uint64_t runs;
};

struct xattr_ref {
	uint64_t block;
	uint32_t ino;
};

struct harvest {
	struct snapshot_file *file; /* with a mapping, movable or not, in inode order */
	size_t n_file, cap_file;
	struct extent *ext; /* records of `pooled` files, one file's behind the other's */
	size_t n_ext, cap_ext;
	struct extent **pool; /* such records of parts appended: their maps point into them */
	size_t n_pool, cap_pool;
	size_t n_pooled;	 /* records in all of them */
	struct tree_entry *root; /* entries of the roots of deep trees, in order */
	size_t n_root, cap_root;
	struct mapped_entry *mapped; /* indirect blocks that i_block points to, in order */
	size_t n_mapped, cap_mapped;
	struct left *left; /* in inode order */
	size_t n_left, cap_left;
	struct xattr_ref *xattr;
	size_t n_xattr, cap_xattr;
	struct claims claims;
	struct claims meta; /* bigalloc: claims of metadata, in blocks: they share clusters */
	struct range *free; /* of a part: ascending, not adjoining */
	size_t n_free, cap_free;
	struct rangeset *space; /* of the whole, what is free; NULL: nothing was appended */
	uint64_t nothing;	/* inodes in use without blocks of their own */
	uint32_t quota_ino[SNAPSHOT_QUOTAS]; /* see snapshot */
	uint64_t quota_blocks;		     /* a transaction may change all of them */
};

void harvest_release(struct harvest *h);
/* What the harvest holds, and what the checks need beside it. Counted as parts come in. */
struct footprint {
	uint64_t bytes;
	uint64_t leaves; /* tree and indirect blocks still to be read */
};
void footprint_add(struct footprint *f, const struct harvest *part);
/* ERROR_USAGE where it is more than there may be. */
int footprint_check(const struct source *src, const struct footprint *f, struct error *err);
/* The same for the whole, when all trees have been read. */
int footprint_check_all(const struct source *src, const struct harvest *h, struct error *err);
/* ERROR_USAGE, as `need` bytes are needed. Returns -1. */
int footprint_refuse(const struct source *src, uint64_t need, struct error *err);

#define RECORD_BYTES  32u /* of a record of a tree, while trees are read */
#define STRETCH_BYTES 64u /* of adjoining blocks of a block-mapped file, the same */

/*
 * Files taken so far get their records: in one block of memory, or each in one of its own, which
 * can be handed over or changed alone.
 */
int harvest_settle(struct harvest *h, bool each, struct error *err);
/* Appends `part`, which is settled, and empties it (its files now belong to `h`). */
int harvest_append(struct harvest *h, struct harvest *part, struct error *err);
/* Adds a free range behind all others of a part. */
int harvest_free(struct harvest *h, uint64_t start, uint64_t len, struct error *err);

/*
 * Files that could be moved and for which why() gives a reason become left ones, and their blocks
 * fixed. `file`: index in h->file.
 */
int harvest_leave(struct harvest *h, enum leave_reason (*why)(const void *ctx, size_t file),
		  const void *ctx, struct error *err);

/* What an inode in use is. */
enum shape { SHAPE_NOTHING, SHAPE_EXTENTS, SHAPE_BLOCKS, SHAPE_RESIZE };
struct verdict {
	uint8_t kind; /* enum file_kind */
	uint8_t why;  /* enum leave_reason */
	enum shape shape;
	/* Logical blocks from here on lie beyond the size, so that e2fsck allows none that is
	 * written (pass1.c, check_blocks): by the inode alone, and in a deep tree
	 * (scan_extent_node). */
	uint32_t end, eof;
};
/* NULL, or a static text that says what is wrong with the inode. */
const char *classify_inode(const struct source *src, uint32_t ino, struct ext2_inode *inode,
			   struct verdict *out);

#define BEYOND_SIZE "it has written blocks beyond its size"
/* The same for the records of a tree, of which none may be written from `end` on. */
const char *classify_records(const struct extent *ext, size_t n, uint32_t end);

/* Buffers of one thread. */
struct scratch {
	uint8_t *table;	 /* SCRATCH_TABLE bytes */
	uint8_t *bitmap; /* one block */
	struct extent root[EXTENT_ROOT_RECORDS];
};
#define SCRATCH_TABLE ((size_t)1 << 20)
int scratch_new(const struct source *src, struct scratch *s, struct error *err);
void scratch_free(struct scratch *s);

int inodes_scan_group(const struct source *src, uint32_t group, struct scratch *s,
		      struct harvest *h, struct error *err);
/*
 * Takes one inode (its checksum is verified here) into the harvest: a file with its root decoded,
 * its claims, its xattr block.
 */
int inodes_take(const struct source *src, uint32_t ino, uint8_t *raw, struct harvest *h,
		struct error *err);

/* Block bitmap of a group -> free ranges; checksum and the group's count checked. */
int freespace_scan_group(const struct source *src, uint32_t group, uint8_t *bitmap,
			 struct harvest *h, struct error *err);
/* Claims of the metadata of a group, in blocks: backups, descriptors, bitmaps, inode table, MMP
 * block. */
int freespace_claim_metadata(const struct source *src, uint32_t group, struct claims *cl,
			     struct error *err);

/* bigalloc: the files' maps, read in blocks, in clusters (filemap_to_clusters). Else nothing. */
int clusters_of_files(const struct source *src, struct snapshot_file *file, size_t n,
		      struct error *err);

/* Reads the trees below `root` (n entries, in file and logical order) into the files' maps. */
int trees_read(const struct source *src, struct snapshot_file *file, const struct tree_entry *root,
	       size_t n, struct error *err);

/* Reads blocks of which each may be wanted once (else: ERROR_FSCK). Sorts `want`. */
int trees_read_once(const struct source *src, struct want *want, size_t n,
		    uint32_t (*ino_of)(const void *ctx, size_t index), block_fn fn, void *ctx,
		    struct error *err);

/* Reads the indirect blocks below `root` (n entries, a file's adjoin) into the files' maps. */
int mapped_read(const struct source *src, struct snapshot_file *file,
		const struct mapped_entry *root, size_t n, struct error *err);
/* What is wrong with a pointer of a block-mapped file; NULL: nothing. */
const char *mapped_pointer(const struct source *src, uint64_t number, uint64_t pblk);
/* The resize inode may list nothing but reserved descriptor blocks, which are metadata. */
int resize_check(const struct source *src, const struct claims *claims, struct error *err);

/* Files that boot code knows by block number become fixed ones: looked up by their usual paths. */
int boot_pin(const struct source *src, struct harvest *h, struct error *err);
/* Is it there (not 0), and a regular file? */
errcode_t boot_is_regular(ext2_filsys fs, uint32_t ino, bool *yes);
/*
 * Looks one path up, from the root; symlinks are not followed. *ino 0 if it is not there. *dir is
 * the directory it would be in.
 */
errcode_t boot_look_up(ext2_filsys fs, const char *path, uint32_t *dir, uint32_t *ino);

/* By its inode. Candidates are marked in snapshot_file.swap, and swap_find looks at their content.
 */
bool may_be_swap(const struct ext2_inode *inode);
/* After the maps are read: snapshot_file.swap is right, and those that must stay become fixed. */
int swap_find(const struct source *src, struct harvest *h, struct error *err);
/*
 * Finds the quota files; those that can be seen become fixed. ERROR_USAGE where a transaction, of
 * `room` blocks, can't hold them and more, and for quotas of the old format.
 */
int quota_find(const struct source *src, uint64_t room, struct harvest *h, struct error *err);

/* What is not chosen, and what is pinned, becomes a left file. ERROR_USAGE: a path isn't there. */
int scope_apply(const struct source *src, const struct scope_item *item, size_t n_item,
		struct harvest *h, struct error *err);

/*
 * The order of the snapshot's files: `front` (may be NULL), then by a walk. Lines of `front`: paths
 * from the root on, where symlinks are followed, or inode numbers.
 */
int order_read(const struct source *src, const char *front, bool growth, struct snapshot *s,
	       struct error *err);

/* Do files of such a name grow? And those that are written to again and again are marked. */
bool growth_by_name(const char *name, size_t len);
int growth_by_times(const struct source *src, struct snapshot *s, struct error *err);

/* A name in the directory that is being read. */
struct walk;
struct named {
	uint32_t ino;
	const char *name; /* not terminated; "" is the root itself */
	size_t len;
	uint32_t bits; /* in: the directory's, 0 for the root; out: if it is a directory, its own */
	const struct walk *walk;
};
/* *enough: ends the walk. */
typedef int (*name_fn)(void *ctx, struct named *n, bool *enough, struct error *err);
/* Every name, breadth first. */
int walk_names(struct volume *v, name_fn fn, void *ctx, struct error *err);
/*
 * The same; `enter` is called for each directory before its names. A "." or ".." that isn't what it
 * should be is damage here (ERROR_FSCK): paths can be looked up afterwards.
 */
typedef int (*dir_fn)(void *ctx, uint32_t ino, struct error *err);
int walk_tree(struct volume *v, dir_fn enter, name_fn fn, void *ctx, struct error *err);
/* "/a/b/name", malloc'ed; NULL: no memory, or *too_long. Inside a name_fn. */
char *named_path(const struct named *n, bool *too_long);

/* The cluster of a block. */
static inline uint64_t source_cluster(const struct source *src, uint64_t block)
{
	return block / src->geo->cluster_blocks;
}

static inline bool source_is_bigalloc(const struct source *src)
{
	return src->geo->cluster_blocks > 1;
}

/* The first bit at or behind `i` (at most `end`) that is `set`. The bitmap is one of whole 64s. */
uint32_t bitmap_next(const uint8_t *bitmap, uint32_t i, uint32_t end, bool set);

/* Bytes of the bitmap that claims are marked in. */
uint64_t crosscheck_window(const struct source *src);
/* I9. Sorts the claims. */
int crosscheck(const struct source *src, struct harvest *h, struct error *err);

#endif
