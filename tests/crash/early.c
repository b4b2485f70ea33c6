/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Early copies: those of a batch that are written while the batch before it is copied and
 * committed, by other threads. In the recorded run (engine_options.in_step) they come at one place,
 * before the log of that batch, so that the trace is the same each time; any other order that a
 * run may have is made from it here.
 */
#include "crash/trace.h"
#include <string.h>

void trace_name_early(struct trace *t, const size_t *commit, size_t n)
{
	for (size_t b = 0; b < n; b++) {
		for (size_t i = commit[b]; i < t->n && t->event[i].role == ROLE_COPY; i++) {
			t->event[i].batch = (int)b + 1;
			t->early++;
		}
	}
}

static bool is_early(const struct trace *t, size_t i)
{
	const struct event *e = &t->event[i];

	/* What ends its epoch belongs to the batch before. */
	for (size_t k = i; e->role == ROLE_COPY && k < t->n; k++)
		if (t->event[k].role == ROLE_FLUSH)
			return t->event[k].batch < e->batch;
	return false;
}

/* The first event of the batch that is not one of its early copies. */
static size_t own_start(const struct trace *t, size_t from, int batch)
{
	size_t i = from;

	while (i < t->n && (t->event[i].batch < batch || is_early(t, i)))
		i++;
	return i;
}

/* Event `from` comes to stand before the one at `to`, later. `at_once`: it was issued there, too;
 * else it was on its way all the time. */
static void move_later(struct trace *t, size_t from, size_t to, bool at_once)
{
	struct event e = t->event[from];

	memmove(&t->event[from], &t->event[from + 1], (to - from - 1) * sizeof(e));
	t->event[to - 1] = e;
	for (size_t i = from; i < t->n; i++)
		if (i != to - 1 && t->event[i].issued > from && t->event[i].issued < to)
			t->event[i].issued--;
	if (at_once)
		t->event[to - 1].issued = to - 1;
	if (to - 1 - t->event[to - 1].issued > t->reach)
		t->reach = to - 1 - t->event[to - 1].issued;
}

void trace_scatter(struct trace *t, uint64_t seed)
{
	/* From the last one on: what was moved is not met again. */
	for (size_t i = t->n; i-- > 0;) {
		size_t end;

		if (!is_early(t, i))
			continue;
		end = own_start(t, i, t->event[i].batch);
		seed = trace_mix(seed);
		move_later(t, i, i + 1 + seed % (end - i), seed >> 32 & 1);
	}
}
