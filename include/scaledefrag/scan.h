/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the collector. Reads all metadata with many threads, classifies every inode, checks the
 * claims against the bitmaps (I9), and gives a snapshot. Same snapshot for any number of threads.
 *
 * Errors: ERROR_FSCK with the first differences ("inode 12: block 4711 also claimed by inode 13;
 * run: e2fsck -f DEV") for anything that e2fsck would repair: bad checksums, corrupt trees, claims
 * that differ from bitmaps or counts.
 */
#ifndef SCALEDEFRAG_SCAN_H
#define SCALEDEFRAG_SCAN_H

#include "scaledefrag/snapshot.h"
#include "scaledefrag/volume.h"

/*
 * One of the user's wishes about files; all together they choose. Globs are fnmatch(3)'s, with
 * FNM_PATHNAME and FNM_EXTMATCH: one with a slash is for the path from the root on, another for the
 * name alone. What holds for a directory holds for all below it.
 */
enum scope_kind { SCOPE_PATH, SCOPE_INCLUDE, SCOPE_EXCLUDE, SCOPE_PIN };
struct scope_item {
	enum scope_kind kind;
	const char *text;
};

struct scan_options {
	unsigned threads;	       /* 1.. */
	unsigned queue_depth;	       /* requests in flight for tree blocks */
	struct snapshot_limits limits; /* copied into the snapshot */
	const uint32_t *exclude;       /* inodes dropped earlier in this run, sorted; may be NULL */
	size_t n_exclude;
	const struct range
		*avoid; /* blocks that failed to be written, sorted, disjoint; may be NULL */
	size_t n_avoid;
	/* Files not chosen are left alone, and their blocks stay. ERROR_USAGE: no such path. */
	const struct scope_item *scope; /* may be NULL */
	size_t n_scope;
	bool order;	   /* read the names, for the snapshot's order */
	const char *front; /* with order: the front list, one path or inode a line; may be NULL */
	bool growth;	   /* with order: find out which files grow */
	/* Bytes, and how many of them others have; ERROR_USAGE, with what is needed, where it takes
	 * more; 0: any. */
	uint64_t memory, taken;
	/* Called by one thread at a time with groups done so far and in all; may be NULL. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	const volatile int *stop; /* non-zero: give up with ERROR_STOPPED; may be NULL */
};

int scan_volume(struct volume *v, const struct scan_options *o, struct snapshot **out,
		struct error *err);

/*
 * Where memory is too short for all files at once: the snapshot's files become those of the inodes
 * first to last, read anew; what it leaves alone, what is free and what is fixed stay as they are.
 * The blocks of all others are then neither free nor anyone's. Of the options: threads,
 * queue_depth, progress, stop. On failure it has no files.
 */
int scan_part(struct volume *v, const struct scan_options *o, uint32_t first, uint32_t last,
	      struct snapshot *s, struct error *err);

/* Bytes that the snapshot takes, and a state of it. */
uint64_t scan_memory(const struct snapshot *s);
uint64_t scan_file_memory(const struct snapshot_file *f); /* a file's share of that */

/*
 * Reads the mappings of these movable inodes (sorted) anew from the disk. `maps` (n zeroed entries)
 * are filled; the caller releases them. The group descriptors are not needed fresh.
 */
int scan_files(struct volume *v, const uint32_t *inos, size_t n, unsigned queue_depth,
	       struct filemap *maps, struct error *err);

/*
 * Free blocks re-read from the block bitmaps on the disk: of the groups that hold some of the
 * blocks `near`, or of all where that is NULL.
 */
int scan_free(struct volume *v, unsigned threads, const struct rangeset *near,
	      struct rangeset **out, struct error *err);

/*
 * One path for each inode (sorted), by walking the directories: the first name found in a
 * breadth-first walk. paths[i] is malloc'ed or NULL where none was found. Reads every directory:
 * only for reports and options that need names.
 */
int scan_names(struct volume *v, const uint32_t *inos, size_t n, char **paths, struct error *err);

#endif
