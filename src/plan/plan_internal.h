/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the halves of the planner share.
 *
 *   planner.c    tries several orders of the policies, keeps the best plan
 *   placement.c  policy: where a file should end up, given its mapping and the free blocks
 *   room.c       carries out what makes room, if that is an improvement
 *   budget.c     what a limited number of blocks is spent on
 *   rounds.c     one attempt: files in rounds until nothing improves
 *   sweep.c      the order of files that empties window after window
 *   partial.c    the part of the policy for files that can't become contiguous at once
 *   targets.c    runs of a file; lists of targets: claims, moves
 *   pack.c       policy: makes room where files don't fit as they are
 *   layout.c     where files would lie
 *   goal.c       what a mode aims at besides; by
 *   clear.c      where free space will be
 *   gather.c     policy: few free runs, free slabs
 *   shrink.c     policy: everything low
 *   order.c      policy: files in the order of a recursive scan
 *   order_goal.c and what that is worth
 *   trees.c      tree blocks beside what they map
 *   permute.c    the same for every policy: wants that lie on each other's blocks -> an order of
 * moves, through free space
 *   permute_start.c  how that begins
 *   unblock.c    the part of it that finds work when little is ready
 *   schedule.c   the same for every policy: targets -> batches that obey the limits
 *   journal_count.c  metadata blocks that a batch journals
 *   map64.c      hash table
 *   addrmap.c    map in order of addresses
 *
 * A placement claims its targets, that is, takes them out of the set of free blocks, so that no
 * other file is placed on them; schedule keeps the claim or gives it back.
 */
#ifndef SCALEDEFRAG_PLAN_INTERNAL_H
#define SCALEDEFRAG_PLAN_INTERNAL_H

#include "scaledefrag/array.h"
#include "scaledefrag/pairs.h"
#include "scaledefrag/planner.h"

static inline unsigned planner_threads(const struct planner_options *o)
{
	return o->threads ? o->threads : 1;
}

/* ---- map64.c: uint64_t keys (not ~0) -> uint32_t; insert and look up only ---- */
struct map64 {
	uint64_t *key;
	uint32_t *value;
	size_t n, cap; /* cap: a power of two, or 0 */
};

int map64_set(struct map64 *m, uint64_t key, uint32_t value, struct error *err);
bool map64_get(const struct map64 *m, uint64_t key, uint32_t *value);
void map64_clear(struct map64 *m);
void map64_release(struct map64 *m);

struct weighted {
	uint64_t weight;
	size_t index;
};

/* ---- addrmap.c: addresses in order -> uint32_t; O(log n) ---- */
struct addrmap {
	struct pairs at; /* key, value */
};

int addrmap_put(struct addrmap *m, uint64_t key, uint32_t value, struct error *err); /* a new key */
/* Fills an empty map; the weights are the keys, in order, the indices the values. */
int addrmap_fill(struct addrmap *m, const struct weighted *w, size_t n, struct error *err);
void addrmap_del(struct addrmap *m, uint64_t key);
/* The last key that isn't above `key`; the first one above it. false: there is none. */
bool addrmap_floor(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value);
bool addrmap_above(const struct addrmap *m, uint64_t key, uint64_t *found, uint32_t *value);
/*
 * The keys in order, from the last one that isn't above `key`, if there is one. No key may be put
 * or taken away meanwhile.
 */
struct addrmap_cursor {
	const struct addrmap *m;
	struct pairs_place p;
};

void addrmap_seek(const struct addrmap *m, uint64_t key, struct addrmap_cursor *c);
bool addrmap_next(struct addrmap_cursor *c, uint64_t *found, uint32_t *value);
int addrmap_clone(const struct addrmap *m, struct addrmap *out, struct error *err);
void addrmap_release(struct addrmap *m);

/* ---- targets.c ---- */

/* Blocks of a file that adjoin on the disk and in the file (holes not counted). */
struct run {
	uint64_t pblk, blocks;
	uint64_t offset; /* data blocks of the file before this run */
};

/* Data blocks [offset, offset + len) of the file go to `to`. */
struct target {
	uint64_t offset, len, to;
};

struct targets {
	struct target *at; /* by offset, once sorted */
	size_t n, cap;
	uint64_t blocks; /* sum of len */
	size_t runs;	 /* of the file afterwards, at most */
};

struct moves {
	struct move *at;
	size_t n, cap;
};

struct runs {
	struct run *at;
	size_t n, cap;
	uint64_t blocks; /* of the file */
};

struct ranges {
	struct range *at;
	size_t n, cap;
};

/* Empties the list into the set, which has none of it. */
int ranges_join(struct ranges *r, struct rangeset *into, struct error *err);

int runs_of(const struct filemap *map, struct runs *out, struct error *err);

void targets_reset(struct targets *t);
/* Appends a target and takes its blocks out of `avail`. */
int targets_claim(struct targets *t, uint64_t offset, uint64_t len, uint64_t to,
		  struct rangeset *avail, struct error *err);
int targets_give_back(const struct targets *t, struct rangeset *avail, struct error *err);
int targets_take_again(const struct targets *t, struct rangeset *avail, struct error *err);
void targets_sort(struct targets *t);
/* One move for each record and target. */
int targets_moves(const struct targets *t, const struct filemap *map, struct moves *out,
		  struct error *err);

/* By weight, then by index. */
void weighted_sort(struct weighted *at, size_t n);
/* The greatest weight first, then by index. */
void weighted_sort_down(struct weighted *at, size_t n);

/* Free blocks right behind the block before `block`, that is, from `block` on; right before it. */
uint64_t room_from(const struct rangeset *avail, uint64_t block);
uint64_t room_before(const struct rangeset *avail, uint64_t block);

/* ---- placement.c, partial.c ---- */

/* A stretch of a file while it is put together: one run, or several made into one. */
struct stretch {
	uint64_t pblk, blocks, offset;
	size_t prev, next; /* neighbours in the file; SIZE_MAX: none */
	bool fixed;	   /* blocks were put beside it: it must stay; or it was moved itself */
	bool gone;	   /* became part of a neighbour */
};

struct partial {
	struct stretch *at;
	size_t n, cap;
	struct weighted *order;
	size_t cap_order;
};

/* LAYOUT: long files that move begin at a multiple of `unit`, counted from `offset` on; 0: they
 * don't. */
struct align {
	uint64_t unit, offset;
	uint64_t least; /* blocks of a long file */
	/* Blocks that alignment may leave free before them, still; before those that are aligned
	 * already and move. */
	uint64_t holes, kept_holes;
};

/* How far from `start` on a file of so many blocks begins aligned. */
static inline uint64_t align_hole(const struct align *a, uint64_t start, uint64_t blocks)
{
	if (!a->unit || blocks < a->least)
		return 0;
	return (a->unit + a->offset - start % a->unit) % a->unit;
}

/* May there be such a hole before a file that lies at `now`? Takes it, if so. */
static inline bool align_take(struct align *a, uint64_t hole, uint64_t now)
{
	if (hole > (now % a->unit == a->offset ? a->kept_holes : a->holes))
		return false;
	a->kept_holes -= hole < a->kept_holes ? hole : a->kept_holes;
	a->holes -= hole < a->holes ? hole : a->holes;
	return true;
}

/* Scratch of the policy, reused from file to file; zero it first. */
struct placer {
	const struct geometry *geo;
	struct runs runs;
	struct targets a, b; /* candidates */
	struct partial part;
	struct weighted *fixed; /* runs by the place where the file began if they stayed */
	size_t cap_fixed;
	struct align align;
};

/*
 * Policy `files`. `parts`: fewer runs will do, if the file can't become contiguous. *out: NULL if
 * nothing improves the file, else its targets (claimed; they belong to the placer and hold until
 * the next call). Every answer has fewer runs than the file has now.
 */
int placement_files(struct placer *p, const struct filemap *map, uint32_t ino, uint64_t ideal,
		    bool parts, struct rangeset *avail, struct targets **out, struct error *err);
void placement_release(struct placer *p);
/* The shortest free run that surely improves the file with these runs: its least two neighbours. */
uint64_t placement_need(const struct runs *r);

/* Puts runs beside their neighbours where there is room, the smallest first. Claims. */
int partial_extend(struct partial *pt, const struct runs *r, struct targets *out,
		   struct rangeset *avail, struct error *err);
/* Goes on after partial_extend: moves neighbouring runs together into free runs. Claims. */
int partial_gather(struct partial *pt, uint64_t near, struct targets *out, struct rangeset *avail,
		   struct error *err);

/* ---- journal_count.c ---- */

/* When a bitmap or block of descriptors was met last. */
struct journal_mark {
	uint64_t batch, look;
};

/* The metadata blocks of a batch, each once: inode table, bitmaps, descriptors, tree blocks. */
struct journal_count {
	const struct geometry *geo;
	struct journal_mark *bitmap, *descriptors; /* by number; one allocation */
	uint64_t batch, look;			   /* the present ones */
	size_t n_groups;			   /* bitmaps and descriptors of the batch */
	struct map64 set;			   /* the other blocks of the batch */
	/* Of the piece looked at last, what the batch hasn't had: */
	uint64_t *key;
	size_t n_key, cap_key;
	struct journal_mark **fresh;
	size_t n_fresh, cap_fresh;
};

/* Collects the blocks of a piece; *fresh: those that the batch hasn't had yet. */
int journal_count_look(struct journal_count *jc, uint32_t ino, const struct move *moves, size_t n,
		       const struct filemap_delta *delta, uint64_t *fresh, struct error *err);
/* Takes in the piece looked at last. */
int journal_count_add(struct journal_count *jc, struct error *err);
uint64_t journal_count_blocks(const struct journal_count *jc);
void journal_count_clear(struct journal_count *jc);
void journal_count_release(struct journal_count *jc);

/* ---- schedule.c ---- */

struct schedule {
	const struct snapshot *snap;
	struct state
		*st; /* its `free`: blocks free when the open batch starts, less what is used */
	struct plan *plan; /* the open batch is its last one */
	size_t n_file;	   /* of the open batch; 0: none is open */
	size_t first_node; /* of the open batch */
	struct journal_count journal;
	struct ranges freeing; /* by the open batch */
	struct ranges freed;   /* by closed batches, since the planner emptied the list */
	bool hold;	       /* what they free isn't put into the state's free set */
	uint64_t *take;	       /* tree blocks, scratch */
	size_t cap_take;
	bool beside;	       /* a file that is in place has its tree right before its data */
	uint32_t *runs_before; /* by file: runs in the snapshot + 1, or 0: not counted yet */
	bool *worse;	       /* by file: it has more runs than in the snapshot */
	size_t n_worse;
	const struct planner_options *opt; /* whose cancel() is asked; may be NULL */
};

int schedule_init(struct schedule *sc, struct state *st, struct plan *p, struct error *err);
/* -1 with ERROR_STOPPED, if planning is to end. */
int schedule_stopped(const struct schedule *sc, struct error *err);
/*
 * Puts the moves of a file into batches and applies them to the state. Their targets are claimed.
 * *done = false: it can't be done within the limits; the claims are given back and nothing is
 * changed (but the open batch may have been closed).
 */
int schedule_file(struct schedule *sc, size_t file, const struct move *moves, size_t n, bool *done,
		  struct error *err);
/*
 * Puts as many of the moves, from the first one on, into the open batch as it holds; never closes
 * it. The targets are claimed, and what isn't done stays claimed. `more`: others of this file are
 * to follow, besides. *full: with an empty batch, more might be possible.
 */
int schedule_some(struct schedule *sc, size_t file, const struct move *moves, size_t n, bool more,
		  size_t *n_done, bool *full, struct error *err);
/*
 * Puts the file's tree, n blocks of it, to [start, start + n), which are free; nothing of the file
 * is in the open batch. *done = false: it doesn't fit any batch.
 */
int schedule_tree(struct schedule *sc, size_t file, uint64_t start, size_t n, bool *done,
		  struct error *err);
/* Ends the open batch: what it frees is free from now on. */
int schedule_close(struct schedule *sc, struct error *err);
/* After the state was set back to one where no file is worse than in the snapshot. */
void schedule_forget(struct schedule *sc);
void schedule_release(struct schedule *sc);

/* ---- permute.c ---- */

/* Data blocks [offset, offset + len) of a file shall lie at `to`. */
struct want {
	size_t file;
	uint64_t offset, len, to;
};

/*
 * Brings what is wanted to its place, in as many batches as it takes. The targets are disjoint,
 * and each of their blocks is free now, or data that is wanted elsewhere, or a tree block that its
 * owner gives up when it is in place. No batch may be open. *done = false: something stays where it
 * can't be moved from; the state is valid, but files may be worse than they were.
 */
int permute(struct schedule *sc, const struct want *wants, size_t n, bool *done, struct error *err);

/* ---- sweep.c ---- */

/*
 * The order in which to move these files (indices in the snapshot, each with blocks) so that what
 * they leave makes long free runs: order[] are n indices in file[]. n < UINT32_MAX.
 */
int sweep_order(const struct state *st, const size_t *file, size_t n, size_t *order,
		struct error *err);

/* ---- pack.c ---- */

struct packing {
	struct want *want; /* malloc'ed */
	size_t n;
	uint64_t excess; /* of these files afterwards: runs more than they need */
	uint64_t goal;	 /* of the mode, if it aims at something besides */
	uint64_t blocks; /* to be moved, at most */
};

/* Places for these fragmented files, and for others that have to make room. excess == UINT64_MAX:
 * there are none. The same for any number of threads. */
int pack_find(const struct state *st, const struct ideal *ideal, const size_t *file, size_t n,
	      unsigned threads, struct packing *out, struct error *err);
/* The same with free space gathered as the mode wants it (FREE, SHRINK); all become whole. */
int pack_gather(const struct state *st, const struct ideal *ideal, const size_t *file, size_t n,
		const struct planner_options *o, struct packing *out, struct error *err);

/* Records of the file if it lay in one piece. */
uint64_t pack_least_records(const struct filemap *m);

/* ---- trees.c ---- */

/* Blocks of the file's tree if the file lay in one piece. */
uint64_t trees_least(const struct state *st, size_t file);
/* Does the tree lie in one piece from `start` on, in the order in which a reader comes to it? */
bool trees_lie_at(const struct filemap *m, uint64_t start);
/* Seeks within the tree and on to the data; *first: where a reader of the file begins, which is at
 * its tree if it has one. */
uint64_t trees_seeks(const struct filemap *m, uint64_t *first);
/* The new mapping with a tree of n blocks from `start` on, which are free, and the moves done. What
 * was in map and delta is released. */
int trees_remake(struct schedule *sc, size_t file, const struct move *moves, size_t n_move,
		 uint64_t start, size_t n, struct filemap *map, struct filemap_delta *delta,
		 struct error *err);
/* The file will be in place as in `map`: its tree goes right before its data, if that is free. */
int trees_put_beside(struct schedule *sc, size_t file, const struct move *moves, size_t n_move,
		     struct filemap *map, struct filemap_delta *delta, struct error *err);

/* ---- shrink.c, gather.c, order.c: what a mode wants besides ---- */

/* The block behind the last data. */
uint64_t shrink_top(const struct state *st);
/* Places with a lower top; *found = false: none. `excess` and `blocks` aren't set. */
int shrink_find(const struct state *st, struct packing *out, bool *found, struct error *err);

/* Places that leave fewer gaps, or more free slabs. */
int gather_find(const struct state *st, const struct planner_options *o, struct packing *out,
		bool *found, struct error *err);

/* Places of the front list that aren't in front, and then seeks. */
uint64_t order_goal(const struct state *st, const struct planner_options *o);
/* How long files are aligned; in other modes not. */
struct align order_align(const struct state *st, const struct planner_options *opt);
/* Places nearer to the snapshot's order, if that is worth it. */
int order_find(const struct state *st, const struct planner_options *o, struct packing *out,
	       bool *found, struct error *err);

/* ---- goal.c ---- */

/* What the mode aims at when no file can be improved: less is better. */
uint64_t goal_of(const struct state *st, const struct planner_options *o);
/* Places that may come nearer to it. */
int goal_find(const struct state *st, const struct planner_options *o, struct packing *out,
	      bool *found, struct error *err);

#endif
