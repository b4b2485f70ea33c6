/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * engine_run: what engine.c (the order of things), batches.c (the same for batches), touched.c
 * (what a run changed and what it dropped), slab.c, discard.c (what is given back to the device),
 * measure.c (cold reading), memory.c and passes.c (what to do where --memory is short) and
 * figures.c (the report's numbers) share: one run's state. Private to src/.
 */
#ifndef SCALEDEFRAG_ENGINE_RUN_H
#define SCALEDEFRAG_ENGINE_RUN_H

#include "scaledefrag/commit.h"
#include "scaledefrag/engine.h"
#include "scaledefrag/move.h"
#include <pthread.h>

struct touched {
	uint32_t ino;
	size_t at;     /* its place in the list, in order of time */
	uint64_t runs; /* before the batch that changed it */
};

/* Files that are planned together: those of the inodes first to last. */
struct pass {
	uint32_t first, last;
};

struct run {
	const struct engine_options *o;
	struct report *r;
	uint64_t memory;     /* bytes; for buffers alone, unless o->memory is set */
	uint64_t known;	     /* bytes of snapshot and state */
	uint32_t block_size; /* bytes; with bigalloc of a cluster */
	struct volume *v;
	struct commit *c;
	struct snapshot *s; /* of this round */
	struct ideal *ideal;
	struct state *st; /* follows the disk, batch by batch */
	struct plan *made;
	const struct plan *p; /* made, or given by a test */
	struct mover *m;      /* of this plan, once it reads; NULL: not yet */
	unsigned rounds;      /* up to the present one */
	unsigned shown; /* the one whose plans are reported: the first, unless it was given up */
	/* Of this round: all files at once, or `by_passes`, see passes.c. */
	struct pass *pass;
	size_t n_pass, at_pass;
	bool by_passes;
	bool partial; /* the snapshot has the files of one pass alone */
	/* Plans of this round were larger than expected, so often; once, and files that were
	 * planned at once go by passes, or else passes are halved. */
	unsigned too_large;
	bool plan_too_large;
	uint64_t n_changed; /* files changed by passes that are over, each as often as it was */
	bool round_changed; /* some were in this round */
	bool cut;	    /* the last plan does not go to its end, for the budget */
	size_t n_do;	    /* batches of this round's plan that the budget allows */
	size_t n_done;	    /* and those that are on the disk */
	uint64_t spent;	    /* bytes copied so far, of all rounds; failed copies count */
	volatile int
		stop; /* what the observer asked for last; polled by many, set under `telling` */
	volatile int stop_now; /* it asked twice */
	bool stopped;
	enum report_phase phase;
	double phase_start;
	uint64_t bytes_so_far, bytes_to_move;
	pthread_mutex_t telling; /* the observer is called by one thread at a time */
	/* Files and blocks that failed in this run, sorted; the files are planned around from the
	 * next round on. */
	uint32_t *bad_ino;
	size_t n_bad_ino;
	struct range *bad_block;
	size_t n_bad_block;
	/* Inodes whose mapping changed in this run; from run_settle_touched() on sorted, unique. */
	struct touched *touched;
	size_t n_touched, cap_touched;
	struct rangeset *near; /* the block groups that lost or gained blocks; NULL: none */
	/* Blocks that this run wrote or freed and did not make holes of; NULL: none, or not asked
	 * for. */
	struct rangeset *written;
	size_t n_noted;	       /* batches of this round that are in `written`, or were */
	uint64_t spent_noted;  /* of `spent`: theirs */
	bool discard_failed;   /* not to be tried again */
	uint64_t spent_holes;  /* of `spent`: what was copied before holes were last made */
	uint64_t left_written; /* bytes that holes could have been made of then, and were not */
	bool unwritten; /* a batch in `written` moved blocks that may be holes in the image */
};

void run_phase(struct run *run, enum report_phase phase);
void run_tell(struct run *run, uint64_t done, uint64_t total); /* progress of the phase */
void run_poll(struct run *run); /* asks the observer whether to stop */
void run_log(struct run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* From here on the plan's files are read ahead; run_batches() or run_drop_plan() ends it. */
int run_start_mover(struct run *run, struct error *err);
void run_stop_mover(struct run *run);
/*
 * Carries out the plan. A batch in which files were dropped (bad sectors) is committed without
 * them; as later batches may build on what those would have freed, *again then asks for a new plan.
 */
int run_batches(struct run *run, bool *again, struct error *err);
/* Batches of the plan that the budget allows, up to a place where a run may stop. */
size_t run_within_budget(const struct run *run);
uint64_t run_batch_bytes(const struct run *run, size_t from, size_t to); /* to be copied */
/* Progress of the batches; any thread. `copied`: bytes since the last call. */
void run_tell_bytes(struct run *run, enum report_phase phase, uint64_t copied);
void run_drop_plan(struct run *run); /* snapshot, state, plan of the last round */
void run_release(struct run *run);

/* Files dropped by the mover: remembered, listed in the report, and marked in skip[]. */
int run_note_dropped(struct run *run, size_t batch, const struct move_dropped *dropped, bool *skip,
		     struct error *err);
/* The inodes that these batches of the plan move, sorted, unique; free(*inos). -1: no memory. */
int run_planned(const struct run *run, size_t from, size_t to, uint32_t **inos, size_t *n);
/* Files whose mapping the batch changes; before the state is changed. */
int run_note_touched(struct run *run, size_t batch, const bool *skip, struct error *err);
/* Sorts the touched files, each with the runs that it had before the run. */
void run_settle_touched(struct run *run);
uint64_t run_worse(const struct run *run); /* files with more runs than then */
/* Reads the touched files and the free space anew and fails if they are not what the state says. */
int run_reread(struct run *run, struct error *err);

/*
 * All files at once, or by passes, if planning the snapshot would take more than --memory; refuses
 * where those can't help.
 */
int run_choose_passes(struct run *run, struct error *err);
/* A plan was larger than expected: the next round has passes, or shorter ones. */
int run_shorten_passes(struct run *run, struct error *err);
/* Before the plan of a pass: its files are read. */
int run_enter_pass(struct run *run, size_t i, struct error *err);
/* After it: what was changed is read again; or, when nothing is written, what would be is assumed.
 */
int run_leave_pass(struct run *run, struct error *err);
/* When no pass follows: the snapshot has all files again, if anything was changed since it had. */
int run_end_passes(struct run *run, struct error *err);
void run_scan_options(struct run *run, struct scan_options *so);
/* What is left of it for copies, and perhaps fewer threads; refuses where that is too little. */
int run_share_memory(struct run *run, struct move_options *mo, struct error *err);
/* -1: it would go by (shorter) passes; or, if something is to be written, be refused. */
int run_could_move(struct run *run, struct error *err);
/* What was freed goes back to the system, for buffers: other threads, or pieces, may have had it.
 */
void run_trim_memory(const struct run *run);
uint64_t run_commit_memory(const struct run *run); /* bytes of a transaction */

/*
 * Slabs for the planner: `wish` bytes each (engine_options.slab), on a volume of this place and
 * geometry. ERROR_USAGE where the user's wish can't be.
 */
int slab_choose(uint64_t wish, const struct volume_place *place, const struct geometry *geo,
		const char *name, struct planner_options *out, struct error *err);
/* Where --mode layout lets long files begin; nowhere in particular, if the blocks don't allow it.
 */
void slab_align(const struct volume_place *place, const struct geometry *geo,
		struct planner_options *out);
/* Is what this run freed to be made holes of? */
bool run_wants_holes(const struct run *run);
/* Remembers which blocks the batches of this round wrote or freed, an abandoned one as well. */
int run_note_written(struct run *run, struct error *err);
/* Between two batches: makes holes of what was freed, before a sparse image grows by more than a
 * batch. */
int run_discard_behind(struct run *run, struct error *err);
/* The last step, after the log was emptied and everything flushed: gives free space back. */
int run_discard(struct run *run, struct error *err);
/* Reads the files as the state has them, cold, in the snapshot's order; see measure.c. *out is set
 * on success only; ERROR_STOPPED where the observer asked for a stop. */
int run_measure(struct run *run, struct report_measure *out, struct error *err);

/* The file at this place of the snapshot, as the state has it now; neither path nor reason. */
struct report_file figures_file(const struct run *run, size_t i);
void figures_options(struct run *run);
void figures_volume(struct run *run);
void figures_before(struct run *run);
void figures_left_out(struct run *run);
void figures_after(struct run *run);		      /* of the state */
int figures_plan(struct run *run, struct error *err); /* adds up over passes */
int figures_stay(struct run *run);	   /* files that are fragmented now; -1: no memory */
int figures_stay_planned(struct run *run); /* those that the plan would move; -1: no memory */
int figures_swap(struct run *run, struct error *err);			   /* after each round */
int figures_end(struct run *run);					   /* -1: no memory */
double figures_estimate(uint64_t bytes, uint64_t moves, uint64_t batches); /* seconds */
/* -c: plans for the modes that were not asked for, and the one to recommend. */
int advice_modes(struct run *run, struct error *err);
/* The same by passes: before them, and after each, of this mode alone. */
void advice_now(struct run *run);
void advice_pass(struct run *run);
/* A plan of this round's snapshot. */
int run_make_plan(struct run *run, enum plan_mode mode, struct plan **out, struct error *err);
void pictures_before(struct run *run);
void pictures_after(struct run *run, const struct state *st); /* or, with -n, as planned */

#endif
