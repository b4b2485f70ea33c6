/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report: figures in, text or JSON out. Knows neither volume nor device. All figures are in `struct
 * report`, filled by the engine; report/ and main.c are the only places that print. File names are
 * hostile: they are escaped (report_escape) before they reach a terminal or JSON.
 */
#ifndef SCALEDEFRAG_REPORT_H
#define SCALEDEFRAG_REPORT_H

#include "scaledefrag/picture.h"
#include "scaledefrag/plan.h"
#include "scaledefrag/snapshot.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum report_outcome {
	OUTCOME_NOTHING, /* nothing to do, nothing written */
	OUTCOME_DONE,
	OUTCOME_REPORTED, /* -c */
	OUTCOME_PLANNED,  /* -n */
	OUTCOME_STOPPED,
	OUTCOME_DROPPED, /* done, but files were dropped for I/O errors: exit 8 */
	OUTCOME_FAILED,
};

enum report_phase {
	PHASE_OPEN,
	PHASE_SCAN,
	PHASE_PLAN,
	PHASE_VERIFY,
	PHASE_GUARD,
	PHASE_MOVE,
	PHASE_COMMIT,
	PHASE_RESCAN,
	PHASE_DISCARD,
	PHASE_MEASURE,
	PHASES
};

struct report_file { /* a file that stays fragmented, was left alone, or was dropped */
	uint32_t ino;
	char *path; /* NULL: not asked for or not found; malloc'ed */
	uint64_t runs, ideal_runs, blocks;
	/* dropped files: the first block (pblk) that failed; swap files: resume_offset, in pages */
	uint64_t block;
	const char *why; /* static text */
};

/* What e4defrag -c would say: (e2fsprogs misc/e4defrag.c, get_file_score) */
struct report_score {
	uint64_t now;
	const char *verdict;
};

struct report_mode { /* what a run in this mode would do, by its plan */
	const char *name;
	bool known; /* else the volume is too large to find out by the way */
	uint64_t bytes, moves, batches;
	double seconds; /* estimate */
	struct summary predicted;
	uint64_t files_end; /* the first block behind all movable files */
};

/* --measure: a cold read of all files that can be moved (src/measure.c says how). */
struct report_measure {
	bool known;
	uint64_t requests, failed; /* of the requests */
	uint64_t bytes;
	double seconds;
};

#define REPORT_MODES 4

struct report {
	const char *name;    /* as it was given */
	char what[160];	     /* volume_what */
	uint32_t block_size; /* bytes; with bigalloc of a cluster, as all blocks here */
	bool ordered;	     /* it has no journal */
	bool mmp;	     /* claiming it takes a while */
	enum report_outcome outcome;
	int exit_code;
	const char *mode;
	bool has_after; /* `after` was re-read from the disk */
	struct summary before, predicted, after;
	struct report_score score_before, score_after;
	struct reading read_before, read_predicted, read_after; /* all 0: names weren't read */
	struct report_measure measured_before, measured_after;
	uint64_t front;	     /* files of the front list that can be moved */
	uint64_t data_bytes; /* of all movable files: what a full rewrite would copy */
	uint64_t left[LEAVE_REASONS];
	uint64_t longest_gap;			       /* blocks; the ideal formula's first term */
	uint64_t plan_bytes, plan_batches, plan_moves; /* to be copied */
	/* Files were planned in so many parts, for want of memory; 1: all at once. Of the first
	 * round, and so are the plan's figures and `predicted`: up to this part. */
	unsigned passes, pass;
	double estimate_seconds;
	uint64_t left_out_batches, left_out_bytes; /* of the plan, for the budget */
	uint64_t worse;				   /* files with more runs than before the run */
	const char *stopped_by;			   /* what stopped it: static text, or NULL */
	uint64_t bytes_moved, transactions, updates, blocks_logged, meta_writes, flushes;
	uint64_t data_reads, data_writes; /* requests */
	uint64_t slab;			  /* bytes; 0: slabs did not count */
	uint64_t bytes_discarded;
	char discard_failed[256]; /* why not all of it was; empty: it was, or can't be there */
	double seconds[PHASES], seconds_total;
	bool direct;
	unsigned threads, queue_depth;
	uint64_t memory_peak; /* bytes, getrusage */
	struct report_file
		*stay; /* still fragmented (most runs first), at most what was asked for */
	size_t n_stay;
	uint64_t n_stay_all;
	struct report_file *dropped;
	size_t n_dropped;
	struct report_file *swap; /* swap files that were moved */
	size_t n_swap;
	const char *error; /* text of the error that ended it, or NULL */
	struct free_sizes free_before, free_after;
	bool has_free_after; /* after the run, or with -n as planned */
	/* Where asked for, else NULL; malloc'ed. `after`: re-read, or with -n as planned. */
	struct picture *picture_before, *picture_after;
	struct report_file *worst; /* before the run, most runs first; where asked for */
	size_t n_worst;
	struct report_mode modes[REPORT_MODES]; /* -c */
	size_t n_modes;
	const struct report_mode *recommended; /* one of them, or NULL */
	uint64_t files_end;		       /* as of a mode, now */
};

void report_release(struct report *r); /* frees the arrays and paths */

void report_intro(FILE *to, const struct report *r);		 /* some lines before the start */
void report_text(FILE *to, const struct report *r, int verbose); /* before/after */
int report_json(FILE *to, const struct report *r); /* one document, "schema": 1; -1: write error */

struct report_map_style {
	unsigned columns;     /* width of the page */
	bool unicode, colour; /* else ASCII, plain */
};

/* The text forms of snapshot and plan (--dump-snapshot, --dump-plan). -1: write error. */
int report_snapshot(FILE *to, const struct snapshot *s);
int report_plan(FILE *to, const struct plan *p);

/* The pictures as characters, at most 8 lines each; nothing if there are none. */
void report_map(FILE *to, const struct report *r, const struct report_map_style *style);
/*
 * One self-contained page, and one image of its maps: no script, nothing loaded from elsewhere;
 * names are escaped. Both have REPORT_MARK in their first 128 bytes. -1: write error.
 */
#define REPORT_MARK "<!-- scaledefrag-offline -->"
int report_html(FILE *to, const struct report *r);
int report_svg(FILE *to, const struct report *r);
/* "name with \x1b escaped"; malloc'ed, NULL: no memory. Valid UTF-8 printables stay; the rest
 * becomes \xHH. */
char *report_escape(const char *name);

/* Progress: a bar with ETA on a terminal, e2fsck's -C lines ("pass done total name\n") on a
 * descriptor. */
struct progress;
int progress_new(int bar_fd /* -1: none */, int lines_fd /* -1: none */, const char *name,
		 struct progress **out);
void progress_set(struct progress *p, enum report_phase phase, uint64_t done, uint64_t total,
		  uint64_t bytes);
/* Besides, one JSON object a line on this descriptor: phase, done, total, bytes copied, seconds. */
void progress_json(struct progress *p, int fd);
/* Shows or hides all of it, as SIGUSR1 and SIGUSR2 ask e2fsck to; shown at first. */
void progress_show(struct progress *p, bool show);
void progress_clear(struct progress *p); /* wipes the bar: before anything else is printed */
void progress_free(struct progress *p);	 /* clears the bar; NULL is fine */

/* e4defrag's score of a snapshot or state (FORMAT: e2fsprogs misc/e4defrag.c); in
 * src/report/score.c. */
void report_score_state(const struct state *st, struct report_score *out);

#endif
