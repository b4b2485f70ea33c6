/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout: where files would lie; see layout.c. */
#ifndef SCALEDEFRAG_PLAN_LAYOUT_H
#define SCALEDEFRAG_PLAN_LAYOUT_H

#include "plan_internal.h"

#define NOWHERE UINT64_MAX

struct layout_undo {
	size_t file;
	uint64_t was;
};

struct layout {
	const struct state *st;
	size_t n_file;
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
void layout_release(struct layout *l);
int layout_lift(struct layout *l, size_t file, struct error *err);
int layout_put(struct layout *l, size_t file, uint64_t start, struct error *err);
/*
 * Makes room for a file that no gap holds, and puts it there. `own`: where it lies now; `limit`:
 * blocks of others that may have to move for it. *ok = false: nothing is changed.
 */
int layout_make_room(struct layout *l, size_t file, const struct runs *own, uint64_t limit,
		     bool *ok, struct error *err);

#endif
