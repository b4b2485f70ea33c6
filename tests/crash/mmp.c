/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "crash/mmp.h"
#include "support/image.h"
#include <ext2fs/ext2fs.h>
#include <stdlib.h>
#include <string.h>

static bool is_clean(const struct event *e)
{
	const struct mmp_struct *b = (const struct mmp_struct *)e->data;

	return b->mmp_seq == EXT4_MMP_SEQ_CLEAN;
}

static bool touches(const struct trace *t, const struct event *e)
{
	uint64_t start = t->mmp * t->block_size;

	return e->role != ROLE_FLUSH && e->offset < start + t->block_size &&
	       start < e->offset + e->len;
}

const char *trace_mmp_wrong(const struct trace *t)
{
	const struct event *ev = t->event;

	if (!t->mmp)
		return NULL;
	if (t->n < 4 || ev[0].role != ROLE_MMP || is_clean(&ev[0]))
		return "is not claimed before all else";
	if (ev[1].role != ROLE_FLUSH)
		return "is claimed, and more is written before that is flushed";
	if (ev[t->n - 2].role != ROLE_MMP || ev[t->n - 1].role != ROLE_FLUSH ||
	    !is_clean(&ev[t->n - 2]))
		return "is not given back after all else";
	if (ev[t->n - 3].role != ROLE_FLUSH)
		return "is given back while something is not flushed";
	for (size_t i = 0; i < t->n; i++) {
		if (!touches(t, &ev[i]))
			continue;
		if (ev[i].offset != t->mmp * t->block_size || ev[i].len != SECTOR)
			return "is written as something larger than its first sector";
		if (i < t->n - 2 && is_clean(&ev[i]))
			return "is given back, and more is written";
	}
	return NULL;
}

/* ---- mutants ---- */

static void forget(struct trace *t, size_t at)
{
	if (t->event[at].role != ROLE_FLUSH)
		free(t->event[at].data);
	memmove(&t->event[at], &t->event[at + 1], (--t->n - at) * sizeof(t->event[at]));
}

static void swap(struct trace *t, size_t a, size_t b)
{
	struct event e = t->event[a];

	t->event[a] = t->event[b];
	t->event[b] = e;
}

/* Before the first batch's home blocks, a copy of the event at `from`, of so many bytes. */
static void insert(struct trace *t, size_t from, uint64_t len)
{
	struct event e = t->event[from], *event = realloc(t->event, (t->n + 1) * sizeof(e));
	uint8_t *data = calloc(1, len);
	size_t at = 0;

	if (!event || !data)
		image_die("out of memory");
	t->event = event;
	memcpy(data, e.data, e.len < len ? e.len : len);
	e.data = data;
	e.len = len;
	while (event[at].role != ROLE_HOME) /* there is one */
		at++;
	memmove(&event[at + 1], &event[at], (t->n++ - at) * sizeof(e));
	event[at] = e;
}

bool mmp_mutant(struct trace *t, enum mutant m)
{
	if (!t->mmp || trace_mmp_wrong(t))
		image_die("the MMP block is not written as it should be");
	switch (m) {
	case MUTANT_MMP_UNCLAIMED:
		forget(t, 0);
		break;
	case MUTANT_MMP_LATE: /* B's write, its flush, and then the claim */
		swap(t, 0, 2);
		break;
	case MUTANT_MMP_UNFLUSHED:
		forget(t, 1);
		break;
	case MUTANT_MMP_IN_BATCH:
		insert(t, 0, t->block_size);
		break;
	case MUTANT_MMP_BETWEEN:
		insert(t, t->n - 2, SECTOR);
		break;
	case MUTANT_MMP_EARLY: /* before the superblock's last write */
		swap(t, t->n - 4, t->n - 2);
		break;
	case MUTANT_MMP_DROP_E:
		forget(t, t->n - 3);
		break;
	case MUTANT_MMP_KEPT:
		forget(t, t->n - 2);
		break;
	default:
		return false;
	}
	return true;
}
