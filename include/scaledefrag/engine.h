/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * engine: the pipeline, in order, on one screen:
 *   open -> scan -> plan -> verify -> (guard -> move -> commit)* -> rescan -> discard -> report
 * (with `measure`, cold reading after the first scan and at the end; where `memory` does not
 * suffice to plan all files at once, all but open and discard pass after pass: src/passes.c)
 *
 * engine_run() does one volume. It never prints and never exits; what the user sees goes through
 * the observer. The result (report) is filled as far as the run came, also on failure. The
 * observer may ask for a stop: 1 = after the next batch where no file is worse than before the run
 * (plan.h: rest), 2 = now: a batch that is still being copied is abandoned, a transaction that has
 * begun is finished.
 */
#ifndef SCALEDEFRAG_ENGINE_H
#define SCALEDEFRAG_ENGINE_H

#include "scaledefrag/planner.h"
#include "scaledefrag/report.h"
#include "scaledefrag/scan.h"
#include "scaledefrag/volume.h"

/*
 * What is given back to the device at the end, when everything is durable and the log is empty. The
 * default of the program is FREED.
 */
enum engine_discard {
	DISCARD_NONE,
	DISCARD_FREED, /* on an image file with holes: what this run freed */
	DISCARD_ALL,   /* all free space */
};

#define ENGINE_SLAB_DEVICE UINT64_MAX

struct engine_options {
	struct volume_options volume;
	struct planner_options plan;
	const struct scope_item *scope; /* which files; none: all */
	size_t n_scope;
	const char *front;   /* PLAN_LAYOUT: scan_options.front; may be NULL */
	uint64_t min_extent; /* bytes: runs at least this long are good; 0: none is */
	/* Bytes of a slab of the device; 0: slabs don't count. ENGINE_SLAB_DEVICE: what the disk
	 * discards at least, if that is not too small (0 for image files). */
	uint64_t slab;
	enum engine_discard discard;
	unsigned min_runs; /* files with fewer runs are left */
	uint64_t budget;   /* bytes that may be copied; 0: any number */
	bool report_only;  /* -c */
	bool dry_run;	   /* -n */
	bool verify;	   /* --verify */
	bool names;	   /* look up paths for the files listed in the report */
	bool advise;	   /* with report_only: figures for all modes, and which to choose */
	bool measure;	   /* read all files cold before and after, see report.h */
	bool pictures;	   /* maps, and the worst files before, for the report */
	unsigned threads, queue_depth;
	uint64_t memory;      /* bytes for all; 0: the default for buffers, more for the rest */
	uint64_t batch_bytes; /* 0: default */
	unsigned list;	      /* how many files to list as still fragmented */
	void (*clock)(void *ctx, uint64_t *seconds, uint32_t *nsec);
	void *clock_ctx;
	/* Observer; each may be NULL. Called by one thread at a time. By passes, `ready` is called
	 * for the first one; when nothing is to be written, for each, with its part of the
	 * snapshot. */
	void (*ready)(void *ctx, const struct report *r, const struct snapshot *s,
		      const struct plan *p);
	void (*progress)(void *ctx, enum report_phase phase, uint64_t done, uint64_t total,
			 uint64_t bytes);
	void (*log)(void *ctx, const char *line); /* what happens, without a newline */
	int (*cancel)(void *ctx);		  /* 0: go on; see above */
	void *observer_ctx;
	/* Tests: use this plan instead of planner_make; leave out verify or the guard (mutants). */
	const struct plan *given_plan;
	bool skip_verify, skip_guard;
	/* Tests: early copies are written between the copies and the commit of the batch before, so
	 * that a run's writes come in the same order each time. */
	bool in_step;
	uint64_t pass_records; /* plan no more records at once; 0: as the memory has it */
};

#define ENGINE_MEMORY_DEFAULT (192ull << 20) /* bytes */
/* Of --memory: code, libraries, and what is not counted. */
#define ENGINE_MEMORY_PROGRAM (8ull << 20)
#define ENGINE_BATCH_MIN      (1ull << 20)
#define ENGINE_BATCH_DEFAULT  (256ull << 20) /* bytes copied in one batch */

/* 0: report->outcome says what happened (exit_code set). -1: error set, report->exit_code =
 * err->kind. */
int engine_run(const struct engine_options *o, struct report *r, struct error *err);

#endif
