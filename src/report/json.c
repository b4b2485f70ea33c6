/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json: the report for programs: one document, "schema": 1. Keys are stable within a schema; new
 * ones may come. Counts and bytes are integers, seconds are reals. Names are escaped as in text.
 */
#include "names.h"
#include <jansson.h>
#include <stdlib.h>

/* NULL stands for JSON's null. */
static json_t *escaped(const char *text)
{
	char *safe;
	json_t *out;

	if (!text)
		return json_null();
	safe = report_escape(text);
	out = safe ? json_string(safe) : NULL;
	free(safe);
	return out;
}

static json_t *integer(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *summary(const struct summary *s, const struct report_score *score,
		       const struct reading *reading)
{
	json_t *o = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "files",
		(json_int_t)s->files, "fragmented_files", (json_int_t)s->frag_files, "directories",
		(json_int_t)s->dirs, "fragmented_directories", (json_int_t)s->frag_dirs, "runs",
		(json_int_t)s->runs, "ideal_runs", (json_int_t)s->ideal_runs, "excess_runs",
		(json_int_t)(s->runs - s->ideal_runs), "blocks", (json_int_t)s->blocks,
		"fragmented_blocks", (json_int_t)s->frag_blocks, "tree_blocks",
		(json_int_t)s->tree_blocks, "free_blocks", (json_int_t)s->free_blocks, "free_runs",
		(json_int_t)s->free_runs, "longest_free_run", (json_int_t)s->longest_free);

	if (reading && reading->blocks)
		json_object_set_new(o, "layout",
				    json_pack("{s:f, s:I, s:I}", "score", reading_score(reading),
					      "requests", (json_int_t)reading->requests, "seeks",
					      (json_int_t)(reading->blocks - reading->sequential)));
	if (score && score->verdict)
		json_object_set_new(o, "e4defrag",
				    json_pack("{s:I, s:s}", "score", (json_int_t)score->now,
					      "verdict", score->verdict));
	return o;
}

static json_t *files(const struct report_file *f, size_t n, bool dropped)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++, f++) {
		json_t *o = json_pack("{s:I, s:o, s:I, s:I, s:s}", "inode", (json_int_t)f->ino,
				      "path", escaped(f->path), "runs", (json_int_t)f->runs,
				      "blocks", (json_int_t)f->blocks, "why", f->why);

		if (dropped)
			json_object_set_new(o, "failed_block", integer(f->block));
		else
			json_object_set_new(o, "ideal_runs", integer(f->ideal_runs));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *swap_files(const struct report *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_swap; i++)
		json_array_append_new(list, json_pack("{s:I, s:o, s:I}", "inode",
						      (json_int_t)r->swap[i].ino, "path",
						      escaped(r->swap[i].path), "resume_offset",
						      (json_int_t)r->swap[i].block));
	return list;
}

static json_t *left_alone(const struct report *r)
{
	json_t *o = json_object();

	for (int i = LEAVE_NONE + 1; i < LEAVE_REASONS; i++)
		json_object_set_new(o, name_left((enum leave_reason)i), integer(r->left[i]));
	return o;
}

/* Free runs by size: [{"min_blocks": 4, ...}]: of 4 to 7 blocks */
static json_t *sizes(const struct free_sizes *f)
{
	json_t *list = json_array();

	for (unsigned k = 0; k < PICTURE_SIZES; k++)
		if (f->runs[k])
			json_array_append_new(list, json_pack("{s:I, s:I, s:I}", "min_blocks",
							      (json_int_t)1 << k, "runs",
							      (json_int_t)f->runs[k], "blocks",
							      (json_int_t)f->blocks[k]));
	return list;
}

static json_t *modes(const struct report *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_modes; i++) {
		const struct report_mode *m = &r->modes[i];

		if (m->known)
			json_array_append_new(
				list,
				json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:o}", "mode", m->name,
					  "bytes", (json_int_t)m->bytes, "moves",
					  (json_int_t)m->moves, "batches", (json_int_t)m->batches,
					  "estimated_seconds", m->seconds, "files_end_block",
					  (json_int_t)m->files_end, "predicted",
					  summary(&m->predicted, NULL, NULL)));
	}
	return list;
}

static json_t *times(const struct report *r)
{
	json_t *o = json_object();

	for (int i = 0; i < PHASES; i++)
		json_object_set_new(o, name_phase((enum report_phase)i), json_real(r->seconds[i]));
	json_object_set_new(o, "total", json_real(r->seconds_total));
	return o;
}

static json_t *work(const struct report *r)
{
	return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "bytes_moved",
			 (json_int_t)r->bytes_moved, "excess_runs_removed_per_mib",
			 r->has_after ? names_gain(&r->before, &r->after, r->bytes_moved) : 0.0,
			 "data_reads", (json_int_t)r->data_reads, "data_writes",
			 (json_int_t)r->data_writes, "transactions", (json_int_t)r->transactions,
			 "metadata_updates", (json_int_t)r->updates, "blocks_journaled",
			 (json_int_t)r->blocks_logged, "metadata_writes",
			 (json_int_t)r->meta_writes, "flushes", (json_int_t)r->flushes,
			 "bytes_discarded", (json_int_t)r->bytes_discarded);
}

static json_t *cold(const struct report_measure *m)
{
	return m->known ? json_pack("{s:I, s:I, s:f, s:I}", "requests", (json_int_t)m->requests,
				    "bytes", (json_int_t)m->bytes, "seconds", m->seconds,
				    "failed_requests", (json_int_t)m->failed)
			: json_null();
}

static json_t *document(const struct report *r)
{
	json_t *o = json_object();
	bool scanned = r->score_before.verdict != NULL;

	/* A NULL value (no memory) makes json_object_set_new fail and the key missing: counted. */
	int bad = 0;
#define SET(key, value) bad |= json_object_set_new(o, key, value)
	SET("schema", json_integer(1));
	SET("name", escaped(r->name));
	SET("what", escaped(r->what));
	SET("outcome", json_string(name_outcome(r->outcome)));
	SET("exit_code", json_integer(r->exit_code));
	SET("error", escaped(r->error));
	SET("mode", r->mode ? json_string(r->mode) : json_null());
	SET("block_size", json_integer(r->block_size));
	SET("direct_io", json_boolean(r->direct));
	SET("threads", json_integer(r->threads));
	SET("queue_depth", json_integer(r->queue_depth));
	SET("before",
	    scanned ? summary(&r->before, &r->score_before, &r->read_before) : json_null());
	SET("stopped_by", r->stopped_by ? json_string(r->stopped_by) : json_null());
	SET("worse", integer(r->worse));
	SET("plan", json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I}", "bytes",
			      (json_int_t)r->plan_bytes, "batches", (json_int_t)r->plan_batches,
			      "moves", (json_int_t)r->plan_moves, "estimated_seconds",
			      r->estimate_seconds, "excess_runs_removed_per_mib",
			      names_gain(&r->before, &r->predicted, r->plan_bytes),
			      "left_out_batches", (json_int_t)r->left_out_batches, "left_out_bytes",
			      (json_int_t)r->left_out_bytes, "passes", (json_int_t)r->passes));
	SET("predicted", scanned ? summary(&r->predicted, NULL, &r->read_predicted) : json_null());
	SET("after",
	    r->has_after ? summary(&r->after, &r->score_after, &r->read_after) : json_null());
	SET("measured_before", cold(&r->measured_before));
	SET("measured_after", cold(&r->measured_after));
	SET("free_runs_by_size", scanned ? sizes(&r->free_before) : json_null());
	SET("free_runs_by_size_after", r->has_free_after ? sizes(&r->free_after) : json_null());
	SET("modes", modes(r));
	SET("recommended_mode", r->recommended ? json_string(r->recommended->name) : json_null());
	SET("slab_bytes", integer(r->slab));
	SET("work", work(r));
	SET("discard_warning", escaped(*r->discard_failed ? r->discard_failed : NULL));
	SET("seconds", times(r));
	SET("memory_peak_bytes", integer(r->memory_peak));
	SET("front_files", integer(r->front));
	SET("full_rewrite_bytes", integer(r->data_bytes));
	SET("longest_gap_blocks", integer(r->longest_gap));
	SET("still_fragmented_files", integer(r->n_stay_all));
	SET("still_fragmented", files(r->stay, r->n_stay, false));
	SET("dropped_files", integer(r->n_dropped));
	SET("dropped", files(r->dropped, r->n_dropped, true));
	SET("moved_swap", swap_files(r));
	SET("left_alone", left_alone(r));
#undef SET
	if (bad) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int report_json(FILE *to, const struct report *r)
{
	json_t *o = document(r);
	int rc = -1;

	if (o && json_dumpf(o, to, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 &&
	    fputc('\n', to) != EOF && fflush(to) == 0)
		rc = 0;
	json_decref(o);
	return rc;
}
