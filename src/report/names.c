/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "names.h"
#include <stdlib.h>

const char *name_phase(enum report_phase phase)
{
	static const char *const name[PHASES] = {
		[PHASE_OPEN] = "open",	     [PHASE_SCAN] = "scan",	[PHASE_PLAN] = "plan",
		[PHASE_VERIFY] = "verify",   [PHASE_GUARD] = "guard",	[PHASE_MOVE] = "move",
		[PHASE_COMMIT] = "commit",   [PHASE_RESCAN] = "rescan", [PHASE_DISCARD] = "discard",
		[PHASE_MEASURE] = "measure",
	};

	return name[phase];
}

const char *name_outcome(enum report_outcome outcome)
{
	static const char *const name[] = {
		[OUTCOME_NOTHING] = "nothing_to_do", [OUTCOME_DONE] = "done",
		[OUTCOME_REPORTED] = "reported",     [OUTCOME_PLANNED] = "planned",
		[OUTCOME_STOPPED] = "stopped",	     [OUTCOME_DROPPED] = "done_with_errors",
		[OUTCOME_FAILED] = "failed",
	};

	return name[outcome];
}

static const struct {
	const char *key, *text;
} left[LEAVE_REASONS] = {
	[LEAVE_NONE] = { "movable", "movable" },
	[LEAVE_NOTHING] = { "nothing_to_move", "without blocks of their own" },
	[LEAVE_BLOCK_MAPPED] = { "block_mapped", "block-mapped, among 2^32 blocks or more" },
	[LEAVE_RESERVED] = { "reserved", "reserved (journal and the like)" },
	[LEAVE_ORPHAN_FILE] = { "orphan_file", "the orphan file" },
	[LEAVE_EXCLUDED] = { "excluded", "dropped for I/O errors" },
	[LEAVE_BOOT] = { "boot", "known to boot code by block number" },
	[LEAVE_SCOPE] = { "out_of_scope", "outside of the chosen scope" },
	[LEAVE_PINNED] = { "pinned", "pinned" },
	[LEAVE_SWAP] = { "swap", "swap files" },
	[LEAVE_HIBERNATED] = { "hibernated", "swap files that hold a hibernated system" },
	[LEAVE_QUOTA] = { "quota", "quota files" },
};

const char *name_left(enum leave_reason why)
{
	return left[why].key;
}

const char *name_left_long(enum leave_reason why)
{
	return left[why].text;
}

double names_gain(const struct summary *before, const struct summary *after, uint64_t bytes)
{
	double removed = (double)(before->runs - before->ideal_runs) -
			 (double)(after->runs - after->ideal_runs);

	return bytes ? removed / ((double)bytes / (1 << 20)) : 0;
}

static void free_files(struct report_file *file, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(file[i].path);
	free(file);
}

void report_release(struct report *r)
{
	free_files(r->stay, r->n_stay);
	free_files(r->dropped, r->n_dropped);
	free_files(r->worst, r->n_worst);
	free_files(r->swap, r->n_swap);
	free(r->picture_before);
	free(r->picture_after);
	r->stay = r->dropped = r->worst = r->swap = NULL;
	r->n_stay = r->n_dropped = r->n_worst = r->n_swap = 0;
	r->picture_before = r->picture_after = NULL;
}

const char *name_look(enum cell_look k)
{
	static const char *const name[LOOKS] = {
		[LOOK_WHOLE] = "contiguous files",
		[LOOK_FRAGMENTED] = "fragmented files",
		[LOOK_MIXED] = "files, and free space between",
		[LOOK_FREE] = "free",
		[LOOK_FIXED] = "fixed",
	};

	return name[k];
}
