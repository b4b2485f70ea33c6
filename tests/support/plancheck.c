/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/plancheck.h"
#include "support/randomvol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan *plancheck_plan(const char *text, const struct planner_options *o, struct snapshot **s)
{
	struct error err = ERROR_INIT;
	struct plan *p = NULL;

	if (snapshot_parse(text, s, &err) || planner_make(*s, o, &p, &err) ||
	    planner_verify(*s, p, 1, &err))
		fail_msg("%s", err.text);
	return p;
}

size_t plancheck_move(char *text, size_t size, size_t n, const struct move *m)
{
	int len = snprintf(text + n, size - n, "%u@%u>%u ", (unsigned)m->len, (unsigned)m->from,
			   (unsigned)m->to);

	assert_true(len > 0 && n + (size_t)len < size);
	return n + (size_t)len;
}

static void check_files(const struct state *st, uint64_t seed)
{
	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *was = &st->snap->file[i].map, *is = state_map(st, i);

		if (filemap_runs(is->ext, is->n_ext) > filemap_runs(was->ext, was->n_ext))
			fail_msg("seed %u: inode %u has more runs", (unsigned)seed,
				 st->snap->file[i].ino);
	}
}

static void check_second(const struct snapshot *after, const struct planner_options *o,
			 uint64_t seed)
{
	struct error err = ERROR_INIT;
	struct plan *p;

	if (planner_make(after, o, &p, &err))
		fail_msg("seed %u: %s", (unsigned)seed, err.text);
	if (p->n_batch)
		fail_msg("seed %u: a second plan has %zu batches", (unsigned)seed, p->n_batch);
	plan_free(p);
}

void plancheck_run(struct snapshot *s, const struct planner_options *o, uint64_t seed,
		   const struct plancheck *look)
{
	static const struct plancheck nobody;
	struct error err = ERROR_INIT;
	struct snapshot *after;
	struct summary sum;
	struct state *st;
	struct ideal *id;
	struct plan *p;

	look = look ? look : &nobody;
	if (planner_make(s, o, &p, &err) || planner_verify(s, p, 1, &err) ||
	    state_new(s, &st, &err) || ideal_new(s, &id, &err))
		fail_msg("seed %u: %s", (unsigned)seed, err.text);
	if (look->start)
		look->start(look->ctx, st);
	for (size_t b = 0; b < p->n_batch; b++) {
		if (look->batch)
			look->batch(look->ctx, p, b, st);
		if (plan_apply(p, b, NULL, st, &err))
			fail_msg("seed %u: %s", (unsigned)seed, err.text);
	}
	state_summary(st, id, &sum);
	if (memcmp(&sum, &p->predicted, sizeof(sum)))
		fail_msg("seed %u: the result is not the prediction", (unsigned)seed);
	check_files(st, seed);
	after = randomvol_after(st);
	if (look->end)
		look->end(look->ctx, st, after);
	check_second(after, o, seed);
	plan_free(p);
	snapshot_free(after);
	ideal_free(id);
	state_free(st);
	snapshot_free(s);
}
