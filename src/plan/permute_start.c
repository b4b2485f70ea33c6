/* SPDX-License-Identifier: GPL-2.0-or-later */
/* permute, the start: from wants to parts, what lies where, and what is open of the targets. */
#include "permute.h"
#include <stdlib.h>

static int by_file(const void *a, const void *b)
{
	const struct want *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The parts of one file: its wants against its runs, both in the order of the file. */
static int add_file(struct permute *pm, const struct want *w, size_t n, struct error *err)
{
	const struct run *r;
	uint32_t index;
	if (runs_of(state_map(pm->sc->st, w->file), &pm->runs, err) ||
	    array_reserve(&pm->job, &pm->cap_job, pm->n_job + 1, sizeof(*pm->job), err))
		return -1;
	pm->job[pm->n_job++] =
		(struct job_file){ .file = w->file,
				   .first = NONE,
				   .bounce = NONE,
				   .room = permute_tree_room(pm, state_map(pm->sc->st, w->file)) };
	r = pm->runs.at;
	for (size_t i = 0; i < n; i++) {
		for (uint64_t done = 0; done < w[i].len;) {
			uint64_t offset = w[i].offset + done;
			while (r->offset + r->blocks <= offset)
				r++;
			uint64_t skip = offset - r->offset, len = r->blocks - skip;
			if (len > w[i].len - done)
				len = w[i].len - done;
			struct part p = { .offset = offset,
					  .len = len,
					  .from = r->pblk + skip,
					  .to = w[i].to + done,
					  .job = (uint32_t)(pm->n_job - 1) };
			done += len;
			if (p.from == p.to)
				continue;
			pm->pending_blocks += len;
			if (permute_add_part(pm, p, &index, err))
				return -1;
		}
	}
	return 0;
}

/* Wants in the order of files; most lists come like that. */
static int sort_wants(const struct want *wants, size_t n, struct want **out, struct error *err)
{
	struct want *w = malloc((n + 1) * sizeof(*w));
	bool sorted = true;
	if (!w)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < n; i++) {
		w[i] = wants[i];
		sorted = sorted && (!i || by_file(&w[i - 1], &w[i]) < 0);
	}
	if (!sorted)
		qsort(w, n, sizeof(*w), by_file);
	*out = w;
	return 0;
}

/* Fills a map, in the order of its keys. */
static int fill_map(struct permute *pm, struct addrmap *m, bool target, struct weighted *w,
		    struct error *err)
{
	for (size_t i = 0; i < pm->n_part; i++)
		w[i] = (struct weighted){ target ? pm->part[i].to : pm->part[i].from, i };
	weighted_sort(w, pm->n_part);
	return addrmap_fill(m, w, pm->n_part, err);
}

/* Opens what is free of the targets, which are listed in order. */
static int open_targets(struct permute *pm, const struct weighted *w, struct error *err)
{
	struct rangeset *avail = pm->sc->st->free;
	struct range r = { 0 }; /* the next free one */
	for (size_t i = 0; i < pm->n_part; i++) {
		struct part *p = &pm->part[w[i].index];
		uint64_t end = p->to + p->len;
		for (uint64_t at = p->to; at < end;) {
			if (r.start + r.len <= at && !rangeset_next(avail, at, &r))
				return 0;
			if (r.start >= end)
				break;
			at = r.start > at ? r.start : at;
			uint64_t z = r.start + r.len < end ? r.start + r.len : end;
			if (rangeset_remove(avail, at, z - at, err) ||
			    permute_claim(pm, p, at, z - at, err))
				return -1;
			at = z;
		}
	}
	return 0;
}

/* Finds what lies where, and what is open of the targets. */
static int fill_maps(struct permute *pm, struct error *err)
{
	struct weighted *w = malloc((pm->n_part + 1) * sizeof(*w));
	int rc;
	if (!w)
		return error_nomem(err, "planning");
	rc = fill_map(pm, &pm->source, false, w, err);
	if (!rc)
		rc = fill_map(pm, &pm->target, true, w, err);
	if (!rc)
		rc = open_targets(pm, w, err);
	for (size_t i = 0; i < pm->n_part && !rc; i++)
		rc = permute_look(pm, (uint32_t)i, err);
	free(w);
	return rc;
}

int permute_start(struct permute *pm, const struct want *wants, size_t n, struct error *err)
{
	struct want *w = NULL;
	int rc = rangeset_new(&pm->open, err) || sort_wants(wants, n, &w, err) ? -1 : 0;
	pm->nodes = rangeset_blocks(pm->sc->st->free) / PERMUTE_CUT_NODES;
	for (size_t i = 0, k; i < n && !rc; i = k) {
		for (k = i + 1; k < n && w[k].file == w[i].file; k++)
			;
		rc = add_file(pm, w + i, k - i, err);
	}
	free(w);
	return rc ? -1 : fill_maps(pm, err);
}
