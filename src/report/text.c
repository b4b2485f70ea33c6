/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text: the report for people. */
#include "names.h"
#include "numbers.h"
#include <stdlib.h>
#include <string.h>

static void print_name(FILE *to, const char *name)
{
	char *safe = report_escape(name);

	fputs(safe ? safe : "?", to);
	free(safe);
}

void report_intro(FILE *to, const struct report *r)
{
	const struct summary *b = &r->before;
	char n[4][NUMBER_LEN];

	print_name(to, r->name);
	fprintf(to, ": %s; %s of %s fragmented (%s); ", r->what,
		number_grouped(b->frag_files, n[0]), number_of(b->files, "file", n[1]),
		number_of(b->runs - b->ideal_runs, "excess run", n[2]));
	if (r->plan_moves == 0)
		fprintf(to, r->left_out_batches ? "nothing that fits the budget\n"
						: "nothing to move\n");
	else
		fprintf(to, "%s%s to write, %s; nothing written yet\n",
			r->pass < r->passes ? "in the first pass " : "",
			number_size(r->plan_bytes, n[0]),
			number_lasting(r->estimate_seconds, n[3]));
	if (r->mmp && r->plan_moves)
		fprintf(to, "multi-mount protection: it is claimed first, which takes 11 "
			    "seconds or more\n");
	if (!r->ordered || r->plan_moves == 0)
		return;
	fprintf(to, "no journal: it is marked as not clean while blocks move; if that ends too "
		    "early, run: e2fsck -p ");
	print_name(to, r->name);
	fputc('\n', to);
}

/* One row; `after` NULL: a table of one column. */
static void row(FILE *to, const char *label, uint64_t before, const uint64_t *after)
{
	char a[NUMBER_LEN], b[NUMBER_LEN];

	if (after)
		fprintf(to, "%-27s %14s %14s\n", label, number_grouped(before, a),
			number_grouped(*after, b));
	else
		fprintf(to, "%-27s %14s\n", label, number_grouped(before, a));
}

/* The rows of mode layout. */
static void reading_rows(FILE *to, const struct reading *before, const struct reading *after)
{
	fprintf(to, "%-27s %14.4f", "layout score", reading_score(before));
	fprintf(to, after ? " %14.4f\n" : "\n", after ? reading_score(after) : 0);
	row(to, "requests of a cold scan", before->requests, after ? &after->requests : NULL);
}

/* --measure. The second reading may be missing: nothing was changed, or it was stopped. */
static void measured_rows(FILE *to, const struct report *r)
{
	const struct report_measure *b = &r->measured_before, *a = &r->measured_after;
	uint64_t failed = b->failed + a->failed;
	char n[NUMBER_LEN];

	if (!b->known)
		return;
	row(to, "cold read: requests", b->requests, a->known ? &a->requests : NULL);
	fprintf(to, "%-27s %14.2f", "cold read: seconds", b->seconds);
	fprintf(to, a->known ? " %14.2f\n" : "\n", a->known ? a->seconds : 0);
	if (failed)
		fprintf(to, "cold read: %s failed\n", number_of(failed, "request", n));
}

static uint64_t average_kib(const struct summary *s, uint32_t block_size)
{
	return s->runs ? (uint64_t)((double)s->blocks / (double)s->runs * block_size / 1024 + 0.5)
		       : 0;
}

static void print_table(FILE *to, const struct report *r)
{
	const struct summary *b = &r->before, *a = NULL;
	bool planned = r->outcome == OUTCOME_PLANNED;
	uint64_t kib_b, kib_a;

	if (r->has_after || planned)
		a = planned ? &r->predicted : &r->after;
#define ROW(label, field) row(to, label, b->field, a ? &a->field : NULL)
	fprintf(to, a ? "%-27s %14s %14s\n" : "%-27s %14s\n", "", a ? "before" : "now",
		planned ? "planned" : "after");
	ROW("files", files);
	ROW("fragmented files", frag_files);
	ROW("  of these directories", frag_dirs);
	ROW("runs", runs);
	kib_b = b->runs - b->ideal_runs;
	kib_a = a ? a->runs - a->ideal_runs : 0;
	row(to, "excess runs", kib_b, a ? &kib_a : NULL);
	kib_b = average_kib(b, r->block_size);
	kib_a = a ? average_kib(a, r->block_size) : 0;
	row(to, "average run (KiB)", kib_b, a ? &kib_a : NULL);
	row(to, "e4defrag score", r->score_before.now, r->has_after ? &r->score_after.now : NULL);
	ROW("free runs", free_runs);
	kib_b = b->longest_free * (r->block_size / 1024);
	kib_a = a ? a->longest_free * (r->block_size / 1024) : 0;
	row(to, "longest free run (KiB)", kib_b, a ? &kib_a : NULL);
	if (r->read_before.blocks)
		reading_rows(to, &r->read_before,
			     !a	       ? NULL
			     : planned ? &r->read_predicted
				       : &r->read_after);
	measured_rows(to, r);
#undef ROW
	if (r->score_before.verdict)
		fprintf(to, "e4defrag -c would say: %s%s%s\n", r->score_before.verdict,
			r->has_after ? "; now: " : "", r->has_after ? r->score_after.verdict : "");
}

static void print_gain(FILE *to, const struct report *r, const struct summary *after,
		       uint64_t bytes)
{
	fprintf(to, "gain: %.1f excess runs less for each MiB copied\n",
		names_gain(&r->before, after, bytes));
}

static void print_work(FILE *to, const struct report *r)
{
	double spent = r->seconds[PHASE_MOVE];
	char n[4][NUMBER_LEN];

	fprintf(to, "copied %s", number_size(r->bytes_moved, n[0]));
	if (spent > 0 && r->bytes_moved)
		fprintf(to, " at %.0f MB/s", (double)r->bytes_moved / spent / 1e6);
	fprintf(to, " (%s, %s)\n", number_of(r->data_reads, "read", n[1]),
		number_of(r->data_writes, "write", n[2]));
	if (r->has_after && r->bytes_moved)
		print_gain(to, r, &r->after, r->bytes_moved);
	fprintf(to, "metadata: %s, merged into %s%s, %s out;",
		number_of(r->updates, "update", n[0]), number_of(r->blocks_logged, "block", n[1]),
		r->ordered ? "" : " journaled", number_of(r->meta_writes, "write request", n[2]));
	fprintf(to, " %s, %s\n",
		r->ordered ? number_es(r->transactions, "batch", n[0])
			   : number_of(r->transactions, "transaction", n[0]),
		number_es(r->flushes, "flush", n[1]));
}

/* Mode layout: what staying where they were saved. */
static void print_share(FILE *to, const struct report *r)
{
	bool planned = r->outcome == OUTCOME_PLANNED || r->outcome == OUTCOME_REPORTED;
	uint64_t bytes = planned ? r->plan_bytes : r->bytes_moved;
	char n[32];

	if (r->read_before.blocks && bytes)
		fprintf(to, "a full rewrite would copy %s: this is %.0f %% of it\n",
			number_size(r->data_bytes, n),
			100.0 * (double)bytes / (double)r->data_bytes);
}

static void print_discard(FILE *to, const struct report *r)
{
	char n[NUMBER_LEN];

	if (r->bytes_discarded)
		fprintf(to, "given back to the device: %s of free space\n",
			number_size(r->bytes_discarded, n));
	if (!*r->discard_failed)
		return;
	fprintf(to, "warning: not all free space was given back: ");
	print_name(to, r->discard_failed);
	fputc('\n', to);
}

static void print_times(FILE *to, const struct report *r, int verbose)
{
	char n[NUMBER_LEN];

	fprintf(to, "seconds:");
	for (int i = 0; i < PHASES; i++)
		if (r->seconds[i] >= 0.005 || verbose)
			fprintf(to, " %s %.2f,", name_phase((enum report_phase)i), r->seconds[i]);
	fprintf(to, " in all %.2f; memory %s\n", r->seconds_total, number_size(r->memory_peak, n));
	if (verbose)
		fprintf(to, "%s I/O, %s, queue depth %u\n", r->direct ? "direct" : "buffered",
			number_of(r->threads, "thread", n), r->queue_depth);
}

/* A file that was dropped, or one that is fragmented; `why`: and stays so. */
static void print_file(FILE *to, const struct report_file *f, bool dropped, bool why)
{
	char n[2][NUMBER_LEN];

	fprintf(to, "  inode %u", f->ino);
	if (f->path) {
		fputc(' ', to);
		print_name(to, f->path);
	}
	if (dropped)
		fprintf(to, ": %s (block %llu)\n", f->why, (unsigned long long)f->block);
	else
		fprintf(to, ": %s, %s would do%s%s\n", number_of(f->runs, "run", n[0]),
			number_grouped(f->ideal_runs, n[1]), why ? ": " : "", why ? f->why : "");
}

static void print_stay(FILE *to, const struct report *r)
{
	char n[NUMBER_LEN];

	/* -c changes nothing, so every fragmented file "stays": they are just the worst ones. */
	if (r->n_stay && r->outcome == OUTCOME_REPORTED)
		fprintf(to, "most fragmented files:\n");
	else if (r->n_stay_all && r->outcome != OUTCOME_PLANNED && r->outcome != OUTCOME_REPORTED)
		fprintf(to, "still fragmented: %s%s\n", number_of(r->n_stay_all, "file", n),
			r->n_stay == 0		    ? ""
			: r->n_stay < r->n_stay_all ? "; those with most runs:"
						    : ":");
	else
		return;
	for (size_t i = 0; i < r->n_stay; i++)
		print_file(to, &r->stay[i], false, r->outcome != OUTCOME_REPORTED);
}

static void print_swap(FILE *to, const struct report *r)
{
	for (size_t i = 0; i < r->n_swap; i++) {
		char *path = r->swap[i].path ? report_escape(r->swap[i].path) : NULL;

		fprintf(to,
			"swap file moved: inode %u%s%s; if a kernel command line names it, set "
			"resume_offset=%llu\n",
			r->swap[i].ino, path ? " " : "", path ? path : "",
			(unsigned long long)r->swap[i].block);
		free(path);
	}
}

static void print_left_out(FILE *to, const struct report *r)
{
	char n[2][NUMBER_LEN];

	if (r->left_out_batches)
		fprintf(to, "left out for the budget: %s of the plan, %s to write\n",
			number_es(r->left_out_batches, "batch", n[0]),
			number_size(r->left_out_bytes, n[1]));
}

static void print_left(FILE *to, const struct report *r, int verbose)
{
	const char *sep = "left alone: ";
	char n[NUMBER_LEN];

	for (int i = LEAVE_NONE + 1; i < LEAVE_REASONS; i++) {
		if (!r->left[i] || (!verbose && (i == LEAVE_NOTHING || i == LEAVE_RESERVED)))
			continue;
		fprintf(to, "%s%s %s", sep, number_grouped(r->left[i], n),
			name_left_long((enum leave_reason)i));
		sep = ", ";
	}
	if (sep[0] == ',')
		fputc('\n', to);
}

static void print_passes(FILE *to, const struct report *r)
{
	bool planned = r->outcome == OUTCOME_PLANNED || r->outcome == OUTCOME_REPORTED;

	if (r->passes > 1)
		fprintf(to,
			"by passes: %u parts of the files, one after the other, for want of "
			"memory%s\n",
			r->passes,
			planned ? "; a run begins anew then, until nothing gets better" : "");
}

static void print_end(FILE *to, const struct report *r)
{
	char n[2][NUMBER_LEN];

	switch (r->outcome) {
	case OUTCOME_NOTHING:
		fprintf(to, "nothing to do, nothing written\n");
		break;
	case OUTCOME_DONE:
		fprintf(to, "done\n");
		break;
	case OUTCOME_REPORTED:
	case OUTCOME_PLANNED:
		if (r->plan_bytes)
			print_gain(to, r, &r->predicted, r->plan_bytes);
		fprintf(to, "plan: %s in %s", number_of(r->plan_moves, "move", n[0]),
			number_es(r->plan_batches, "batch", n[1]));
		fprintf(to, ", %s to write, %s; nothing was written\n",
			number_size(r->plan_bytes, n[0]),
			number_lasting(r->estimate_seconds, n[1]));
		break;
	case OUTCOME_STOPPED:
		if (r->left_out_batches && !r->plan_batches) {
			fprintf(to, "nothing was written: the budget is too small for any part of "
				    "the plan\n");
			break;
		}
		fprintf(to, "stopped%s%s; the file system is consistent, another run goes on\n",
			r->stopped_by ? " by " : "", r->stopped_by ? r->stopped_by : "");
		break;
	case OUTCOME_DROPPED:
		fprintf(to, "done, but with %s dropped for I/O errors\n",
			number_of(r->n_dropped, "file", n[0]));
		break;
	case OUTCOME_FAILED:
		break;
	}
}

static void print_sizes(FILE *to, const struct report *r)
{
	const struct free_sizes *f = &r->free_before;
	char n[4][NUMBER_LEN];

	if (!r->before.free_blocks)
		return;
	fprintf(to, "%-27s %14s %14s\n", "free runs by size", "runs", "blocks");
	for (unsigned k = 0; k < PICTURE_SIZES; k++)
		if (f->runs[k])
			fprintf(to, "  %8s to %-13s %14s %14s %5.1f %%\n",
				number_round_size((uint64_t)r->block_size << k, n[0]),
				number_round_size((uint64_t)r->block_size << (k + 1), n[1]),
				number_grouped(f->runs[k], n[2]),
				number_grouped(f->blocks[k], n[3]),
				100.0 * (double)f->blocks[k] / (double)r->before.free_blocks);
}

static void mode_row(FILE *to, const struct report *r, const struct summary *s, uint64_t end)
{
	char n[5][NUMBER_LEN];

	fprintf(to, " %10s %11s %9s %11s %11s\n", number_grouped(s->frag_files, n[0]),
		number_grouped(s->runs - s->ideal_runs, n[1]), number_grouped(s->free_runs, n[2]),
		number_size(s->longest_free * r->block_size, n[3]),
		number_size(end * r->block_size, n[4]));
}

/* -c: what each mode would do. 80 columns. */
static void print_modes(FILE *to, const struct report *r)
{
	char n[NUMBER_LEN];

	if (!r->n_modes)
		return;
	fprintf(to, "%-8s %11s %10s %11s %9s %11s %11s\n", "mode", "to copy", "frag.files",
		"excess runs", "free runs", "longest", "files' end");
	fprintf(to, "%-8s %11s", "(now)", "");
	mode_row(to, r, &r->before, r->files_end);
	for (size_t i = 0; i < r->n_modes; i++) {
		const struct report_mode *m = &r->modes[i];

		fprintf(to, "%-8s ", m->name);
		if (!m->known) {
			fprintf(to, "%11s (this large, only by: -c --mode %s)\n", "?", m->name);
			continue;
		}
		fprintf(to, "%11s", number_size(m->bytes, n));
		mode_row(to, r, &m->predicted, m->files_end);
	}
}

static void print_advice(FILE *to, const struct report *r)
{
	const struct report_mode *m = r->recommended;
	char n[5][NUMBER_LEN];

	if (!r->n_modes)
		return;
	if (!m) {
		fprintf(to, "recommended: none; little would be gained\n");
		return;
	}
	fprintf(to, "recommended: --mode %s; fragmented files %s -> %s, free runs %s -> %s, for %s",
		m->name, number_grouped(r->before.frag_files, n[0]),
		number_grouped(m->predicted.frag_files, n[1]),
		number_grouped(r->before.free_runs, n[2]),
		number_grouped(m->predicted.free_runs, n[3]), number_size(m->bytes, n[4]));
	fprintf(to, " copied, %s\n", number_lasting(m->seconds, n[0]));
}

void report_text(FILE *to, const struct report *r, int verbose)
{
	char n[NUMBER_LEN];

	if (r->block_size && r->before.files)
		print_table(to, r);
	if (r->bytes_moved || r->transactions)
		print_work(to, r);
	print_share(to, r);
	print_discard(to, r);
	if (r->n_dropped) {
		fprintf(to, "dropped for I/O errors: %s\n", number_of(r->n_dropped, "file", n));
		for (size_t i = 0; i < r->n_dropped; i++)
			print_file(to, &r->dropped[i], true, true);
	}
	if (r->worse)
		fprintf(to, "worse: %s with more runs than before\n",
			number_of(r->worse, "file", n));
	print_stay(to, r);
	if (r->outcome == OUTCOME_REPORTED)
		print_sizes(to, r);
	print_modes(to, r);
	print_swap(to, r);
	print_left_out(to, r);
	print_left(to, r, verbose);
	if (verbose && r->longest_gap)
		fprintf(to,
			"ideal runs of a file: the least k such that the k longest gaps between "
			"fixed blocks hold it; the longest gap has %llu blocks\n",
			(unsigned long long)r->longest_gap);
	print_passes(to, r);
	print_times(to, r, verbose);
	print_end(to, r);
	print_advice(to, r);
}
