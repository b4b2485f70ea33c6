/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What permute.c, permute_start.c and unblock.c share. */
#ifndef SCALEDEFRAG_PLAN_PERMUTE_H
#define SCALEDEFRAG_PLAN_PERMUTE_H

#include "plan_internal.h"

#define NONE	UINT32_MAX
#define CLASSES 64
/* Share of the free blocks that tree blocks may take so that parts can be cut early. */
#define PERMUTE_CUT_NODES 8u
struct part {
	uint64_t offset, len; /* data blocks of the file */
	uint64_t from, to;
	uint64_t open; /* blocks of its target that are claimed for it */
	uint64_t dest; /* where it bounces to */
	uint32_t job;
	uint32_t next; /* in a list of the job */
	bool ready;    /* all of its target is open; it is in its job's list */
	bool partial;  /* it is listed, as some of its target is open */
	bool bouncing; /* in the next batch */
	bool away;     /* it has bounced */
	bool done;
};

/* A file, and those of its parts that are ready. */
struct job_file {
	size_t file;
	uint32_t first, bounce; /* parts that are ready, that bounce */
	uint32_t pending;	/* parts */
	uint32_t room;		/* records that its tree blocks hold besides */
	bool queued;
};

struct step {
	uint64_t offset;
	uint32_t part;
};

struct list {
	uint32_t *at;
	size_t n, cap;
};

struct permute {
	struct schedule *sc;
	struct part *part;
	size_t n_part, cap_part;
	struct job_file *job;
	size_t n_job, cap_job;
	struct addrmap target; /* of all parts */
	struct addrmap source; /* where they lie meanwhile */
	struct rangeset *open; /* claimed blocks, of parts that have some of theirs, not all */
	uint64_t open_blocks;  /* claimed for all parts */
	struct list queue;     /* jobs with parts to move, from `head` on */
	size_t head;
	struct list partial;	   /* parts with a share of their target open */
	struct list size[CLASSES]; /* parts by the logarithm of their length */
	struct ranges lent;	   /* open blocks that bounces may use */
	struct step *step;
	size_t n_step, cap_step;
	struct targets targets;
	struct moves moves;
	struct runs runs;
	uint64_t ready_blocks, pending_blocks, all_blocks; /* of parts; all: at the start */
	unsigned n_rest; /* batches that cleared all that is left */
	uint64_t moved;	 /* blocks, by the open batch */
	uint64_t nodes;	 /* tree blocks that early cuts may still take */
	bool starved;	 /* the last batch could move nothing */
};

/* permute.c */

int permute_push(struct list *l, uint32_t value, struct error *err);
unsigned permute_class(uint64_t len); /* the logarithm */
/* Queues the part when all of its target is open; lists it when some is. */
int permute_look(struct permute *pm, uint32_t i, struct error *err);
/* Cuts a part that isn't ready: it keeps the first `at` blocks, the rest becomes a new one. */
int permute_split(struct permute *pm, uint32_t i, uint64_t at, uint32_t *rest, struct error *err);
int permute_add_part(struct permute *pm, struct part p, uint32_t *index, struct error *err);
/* Claims [start, start + len) of the part's target, which nobody has any more. */
int permute_claim(struct permute *pm, struct part *p, uint64_t start, uint64_t len,
		  struct error *err);
/* Queues the file. */
int permute_queue(struct permute *pm, uint32_t job, struct error *err);

/* permute_start.c */

int permute_start(struct permute *pm, const struct want *wants, size_t n, struct error *err);

/* unblock.c */

/* Records that the file may get more without another tree block. */
uint32_t permute_tree_room(const struct permute *pm, const struct filemap *m);

/* What to do next, if little is ready. *any: there is something for the next batch. */
int permute_prepare(struct permute *pm, bool *any, struct error *err);

#endif
