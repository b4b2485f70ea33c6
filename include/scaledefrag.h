/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scaledefrag: makes the files of an unmounted ext4 file system contiguous. The only header of
 * libscaledefrag, and its manual; the program scaledefrag-offline is made with it.
 *
 * One call does one run: open, scan, plan, prove, (copy, commit)*, read back. It prints nothing,
 * never exits, keeps no state between calls, and asks nothing: it runs, or it refuses with the
 * reason and the next command. Whatever ends it, a power cut too, the file system stays whole, at
 * most after an ordinary journal replay (a mount, or e2fsck -p); without a journal, after e2fsck
 * -p.
 *
 * A program that uses it; to build: cc example.c $(pkg-config --cflags --libs scaledefrag)
 *
 * example.c:
 *     #include <scaledefrag.h>
 *     #include <signal.h>
 *     #include <stdio.h>
 *     #include <syslog.h>
 *
 *     static volatile sig_atomic_t interrupted;
 *
 *     static void on_interrupt(int sig)
 *     {
 *         (void)sig;
 *         interrupted = 1;
 *     }
 *
 *     static void on_log(void *ctx, const char *line)
 *     {
 *         (void)ctx;
 *         syslog(LOG_INFO, "%s", line);
 *     }
 *
 *     static int on_cancel(void *ctx)
 *     {
 *         (void)ctx;
 *         return interrupted;
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct scaledefrag_options o = {
 *             .path = argc > 1 ? argv[1] : "",
 *             .log = on_log,
 *             .cancel = on_cancel,
 *         };
 *         struct scaledefrag_report *r = NULL;
 *         struct scaledefrag_result res;
 *         int code;
 *
 *         openlog("example", LOG_PERROR, LOG_USER);
 *         signal(SIGINT, on_interrupt);
 *         code = scaledefrag_run(&o, &r);
 *         if (scaledefrag_result(r, &res))
 *             syslog(LOG_ERR, "%s", res.error);
 *         else if (res.bytes_moved)
 *             scaledefrag_text(r, stdout, 0);
 *         scaledefrag_free(r);
 *         return code;
 *     }
 *
 * Callbacks. Each may be NULL. They are called by one thread at a time, but not always the same
 * one, and must not call the library. While one takes its time, the run waits.
 *
 * What the library expects of its program: descriptors 0, 1 and 2 are open (else the file system
 * could become one of them); SIGXFSZ is ignored where a limit on file sizes may be met. The OpenMP
 * library ends the program with exit(1) where it can't start a thread: for the file system that is
 * like a power cut. Runs on different file systems may go on at once.
 */
#ifndef SCALEDEFRAG_H
#define SCALEDEFRAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCALEDEFRAG_VERSION "0.1.0"

/* What a run returns, as fsck(8). */
enum scaledefrag_code {
	SCALEDEFRAG_OK = 0,	    /* done, or nothing to do */
	SCALEDEFRAG_FSCK = 4,	    /* refused: e2fsck has to run first; nothing was written */
	SCALEDEFRAG_OPERATION = 8,  /* in use, I/O error, no memory; or files were dropped for it */
	SCALEDEFRAG_USAGE = 16,	    /* wrong options, or not supported; nothing was written */
	SCALEDEFRAG_INCOMPLETE = 32 /* cancelled, or the budget is spent; another run goes on */
};

enum scaledefrag_outcome {
	SCALEDEFRAG_NOTHING, /* nothing to do, nothing written */
	SCALEDEFRAG_DONE,
	SCALEDEFRAG_REPORTED, /* report_only */
	SCALEDEFRAG_PLANNED,  /* dry_run */
	SCALEDEFRAG_STOPPED,
	SCALEDEFRAG_DROPPED, /* done, but files were dropped for I/O errors */
	SCALEDEFRAG_FAILED
};

enum scaledefrag_phase {
	SCALEDEFRAG_PHASE_OPEN,
	SCALEDEFRAG_PHASE_SCAN,
	SCALEDEFRAG_PHASE_PLAN,
	SCALEDEFRAG_PHASE_VERIFY, /* of the plan */
	SCALEDEFRAG_PHASE_GUARD,
	SCALEDEFRAG_PHASE_MOVE,
	SCALEDEFRAG_PHASE_COMMIT,
	SCALEDEFRAG_PHASE_RESCAN,
	SCALEDEFRAG_PHASE_DISCARD,
	SCALEDEFRAG_PHASE_MEASURE
};

/* See --mode, and "Which files", in scaledefrag-offline(8). */
#define SCALEDEFRAG_RESERVE_MOST 50 /* per cent */
enum scaledefrag_mode {
	SCALEDEFRAG_MODE_FILES,
	SCALEDEFRAG_MODE_FREE,
	SCALEDEFRAG_MODE_SHRINK,
	SCALEDEFRAG_MODE_LAYOUT
};

/* What is given back to the device at the end: see --discard. */
enum scaledefrag_discard {
	SCALEDEFRAG_DISCARD_FREED, /* of an image file with holes, what this run freed */
	SCALEDEFRAG_DISCARD_NONE,
	SCALEDEFRAG_DISCARD_ALL /* all free space */
};

#define SCALEDEFRAG_SLAB_NONE UINT64_MAX

enum scaledefrag_scope_kind {
	SCALEDEFRAG_PATH,
	SCALEDEFRAG_INCLUDE,
	SCALEDEFRAG_EXCLUDE,
	SCALEDEFRAG_PIN
};

struct scaledefrag_scope {
	enum scaledefrag_scope_kind kind;
	const char *text; /* a path, or a glob */
};

struct scaledefrag_report; /* what a run found and did */

/* All zero but the path is a run with the program's defaults. Sizes are in bytes. */
struct scaledefrag_options {
	const char *path;   /* DEVICE, IMAGE, or IMAGE?offset=BYTES */
	unsigned partition; /* of a whole-disk image, from 1; 0: none */
	/* The words of a command that does this run, but for path and partition. A refusal that
	 * says how to run it again, on a partition, puts them in front. None: the program's name.
	 */
	const char *const *command;
	size_t n_command;
	bool report_only; /* look, write nothing */
	bool dry_run;	  /* plan, write nothing */
	bool preen;	  /* run e2fsck -p first */
	bool verify;	  /* read every copy back before it counts */
	enum scaledefrag_mode mode;
	/* MODE_FREE: bytes of a slab; 0: as the device discards; SCALEDEFRAG_SLAB_NONE: they
	 * don't count. */
	uint64_t slab;
	const char *front; /* MODE_LAYOUT: --front-list, what the file holds; NULL: none */
	unsigned reserve;  /* MODE_LAYOUT: --reserve, per cent; 0: none */
	enum scaledefrag_discard discard;
	const struct scaledefrag_scope *scope; /* which files; none: all */
	size_t n_scope;
	uint64_t min_extent;  /* runs at least this long are good; 0: none is */
	unsigned min_runs;    /* files with fewer runs are left */
	uint64_t budget;      /* bytes that may be copied; 0: any number */
	bool names;	      /* look up the paths of files that the report lists */
	bool advise;	      /* with report_only: figures of all modes, and which to choose */
	bool measure;	      /* read all files cold before and after, and take the time */
	bool pictures;	      /* maps, for scaledefrag_html and _svg */
	unsigned list;	      /* how many files to list as still fragmented */
	unsigned threads;     /* 0: processors, at most 16 */
	unsigned queue_depth; /* requests in flight; 0: 128 */
	uint64_t memory;      /* bytes; 0: 192 MiB for buffers, and what the volume takes */
	uint64_t batch_bytes; /* copied in one transaction, at least 1 MiB; 0: 256 MiB */
	/* The time written to the file system; NULL: the clock's. With the same time, image and
	 * options, the bytes are the same. */
	void (*clock)(void *ctx, uint64_t *seconds, uint32_t *nsec);
	/* The plan is known, nothing is written yet. Not 0: don't go on (STOPPED). Where `memory`
	 * does not suffice to plan all at once, it is the first part's; with dry_run and
	 * report_only this is called for each part. */
	int (*ready)(void *ctx, const struct scaledefrag_report *r);
	/* `done` of `total` units of this phase; `bytes` copied in all. */
	void (*progress)(void *ctx, enum scaledefrag_phase phase, uint64_t done, uint64_t total,
			 uint64_t bytes);
	/* What happens, as a line of text without a newline: for a log, not for parsing. */
	void (*log)(void *ctx, const char *line);
	/* Asked often. 0: go on. 1: stop where no file has more runs than before the run. 2: stop
	 * now; a transaction that has begun is finished. A stop may not be taken back. */
	int (*cancel)(void *ctx);
	void *ctx; /* for all callbacks */
};

struct scaledefrag_figures {
	uint64_t files, fragmented_files; /* that can be moved, directories among them */
	uint64_t runs, ideal_runs;	  /* physical runs of them all; the least possible */
	uint64_t free_bytes, free_runs, longest_free_bytes;
};

/* What `measure` found: all files that can be moved, read by one request after the other. */
struct scaledefrag_cold {
	uint64_t requests; /* 0: not measured */
	uint64_t bytes;
	double seconds;
};

struct scaledefrag_result {
	enum scaledefrag_outcome outcome;
	int code;	   /* what scaledefrag_run() returned */
	const char *error; /* one line with the next command, or NULL; belongs to the report */
	struct scaledefrag_figures before, planned;
	struct scaledefrag_figures after; /* read from the disk; as before, where nothing changed */
	uint64_t bytes_to_move, bytes_moved;
	double estimate_seconds; /* a rough guess */
	struct scaledefrag_cold cold_before, cold_after;
};

/* Returns an exit code (enum scaledefrag_code). *out is set in any case, NULL where there was no
 * memory for it; scaledefrag_free() frees it. */
int scaledefrag_run(const struct scaledefrag_options *o, struct scaledefrag_report **out);

/* The main figures. 0: of a run that came to its end or was stopped; -1: error says why not. NULL
 * stands for a run that had no memory. */
int scaledefrag_result(const struct scaledefrag_report *r, struct scaledefrag_result *out);

/* All figures: one JSON document, "schema": 1, as --json. -1: could not be written. */
int scaledefrag_json(const struct scaledefrag_report *r, FILE *to);
/* The same as a page, and the maps alone; `pictures` has to be asked for. */
int scaledefrag_html(const struct scaledefrag_report *r, FILE *to);
int scaledefrag_svg(const struct scaledefrag_report *r, FILE *to);
/* The same for people; `detail` is how often -v was given. File names are escaped. */
int scaledefrag_text(const struct scaledefrag_report *r, FILE *to, int detail);

void scaledefrag_free(struct scaledefrag_report *r); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
