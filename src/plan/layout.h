/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout: where files would lie; see layout.c. */
#ifndef SCALEDEFRAG_PLAN_LAYOUT_H
#define SCALEDEFRAG_PLAN_LAYOUT_H

#include "plan_internal.h"

#define NOWHERE UINT64_MAX

/* The run is this part of a file. */
struct run_owner {
	size_t file;
	uint64_t offset; /* data blocks of the file before it */
};

struct layout_undo {
	size_t file;
	uint64_t was;
};

struct layout_window {
	uint64_t start, end;
	uint64_t cost; /* blocks that have to move for it */
	uint64_t room; /* gaps in it */
};

struct layout {
	const struct state *st;
	size_t n_file, cap;    /* objects: files, or runs */
	struct run_owner *own; /* by run; NULL: objects are files */
	struct rangeset *gap;
	uint64_t *at;	       /* by file: where it would lie in one piece, or NOWHERE */
	uint64_t *home;	       /* by file: where it lies now in one piece, or NOWHERE */
	uint64_t *blocks;      /* by file */
	struct addrmap object; /* start -> file; made when it is first needed */
	bool indexed;
	struct layout_undo *undo;
	size_t n_undo, cap_undo;
	struct weighted *file; /* scratch */
	size_t cap_file;
};

/* As the files lie now: those in one piece are objects, the free blocks are gaps. */
int layout_init(struct layout *l, const struct state *st, struct error *err);
/* The same, but each run of a file is an object. */
int layout_init_runs(struct layout *l, const struct state *st, struct error *err);
/* The runs of a file that lies in several become objects as well; not after layout_index(). */
int layout_add_runs(struct layout *l, size_t file, const struct runs *r, struct error *err);
/* A copy, without what may be undone. */
int layout_clone(const struct layout *l, struct layout *out, struct error *err);
void layout_release(struct layout *l);
int layout_lift(struct layout *l, size_t file, struct error *err);
/* Appends a want for each object that would move. */
int layout_wants(const struct layout *l, struct want **want, size_t *n, size_t *cap,
		 struct error *err);
/* Takes changes back, to when n_undo was `mark`. */
int layout_take_back(struct layout *l, size_t mark, struct error *err);
/* The object that begins at this block. */
bool layout_object(const struct layout *l, uint64_t block, uint32_t *object);
/* Lifts what begins in [start, end); l->file lists it by address, weighted by its blocks. */
int layout_lift_all(struct layout *l, uint64_t start, uint64_t end, size_t *n, struct error *err);
/* By address; from now on objects are found by it. */
int layout_index(struct layout *l, struct error *err);
int layout_put(struct layout *l, size_t file, uint64_t start, struct error *err);
/*
 * Makes room for a file that no gap holds, and puts it there. `own`: where it lies now; `limit`:
 * blocks of others that may have to move for it. *ok = false: nothing is changed.
 */
int layout_make_room(struct layout *l, size_t file, const struct runs *own, uint64_t limit,
		     bool *ok, struct error *err);
/* The cheapest window of so many blocks, out of gaps and objects. */
int layout_find_window(struct layout *l, uint64_t blocks, const struct runs *own, uint64_t limit,
		       struct layout_window *out, bool *found, struct error *err);

/* ---- clear.c: a region that is to be free ---- */

struct clearing {
	struct weighted *object; /* what was lifted */
	size_t n;
	struct ranges closed; /* blocks that are no gap meanwhile */
};

/*
 * Where free space is to be: as much as is left of the gaps and objects for `need` blocks besides
 * the objects, less 1 / slack of all data (0: nothing). The objects are indexed.
 */
int clear_choose(const struct layout *l, const struct planner_options *o, uint64_t need,
		 uint64_t slack, struct range *out, bool *found, struct error *err);
/* Lifts what lies in the region, and closes it. */
int clear_lift(struct layout *l, const struct range *region, struct clearing *c, struct error *err);
/* Its blocks are gaps from now on. */
int clear_end(struct layout *l, struct clearing *c, struct error *err);
void clear_release(struct clearing *c);

/* ---- gather.c ---- */

/* The part of the gaps in [start, end) is no place to put things; `closed` (may be NULL): it is
 * added there. */
int layout_close_gaps(struct layout *l, uint64_t start, uint64_t end, struct ranges *closed,
		      struct error *err);
/* Fewer gaps. */
int gather_merge(struct layout *l, struct error *err);
/* What the mode aims at, if these were the free blocks; less is better. */
uint64_t gather_goal(const struct rangeset *free, const struct geometry *g,
		     const struct planner_options *o);

#endif
