/* SPDX-License-Identifier: GPL-2.0-or-later */
/* reading: the order of files, and what it costs to read them in it. See snapshot.h. */
#include "scaledefrag/snapshot.h"

#include <stdlib.h>

int snapshot_set_order(struct snapshot *s, const uint32_t *inos, size_t n, size_t n_front,
		       struct error *err)
{
	uint32_t *order = malloc((s->n_file + 1) * sizeof(*order));
	bool *seen = calloc(s->n_file + 1, sizeof(*seen));
	size_t k = 0;

	if (!order || !seen || s->n_file >= UINT32_MAX) {
		free(order);
		free(seen);
		return error_nomem(err, "the order of files");
	}
	s->n_front = 0;
	for (size_t i = 0; i < n; i++) {
		const struct snapshot_file *f = snapshot_find(s, inos[i]);

		if (!f || seen[f - s->file])
			continue;
		seen[f - s->file] = true;
		order[k++] = (uint32_t)(f - s->file);
		s->n_front += i < n_front;
	}
	for (size_t i = 0; i < s->n_file; i++)
		if (!seen[i])
			order[k++] = (uint32_t)i;
	free(seen);
	free(s->order);
	s->order = order;
	return 0;
}

struct reader {
	struct reading sum;
	uint64_t last; /* block read last */
};

static void read_blocks(struct reader *r, uint64_t start, uint64_t len, bool apart)
{
	bool behind = r->sum.blocks && r->last + 1 == start;

	r->sum.sequential += len - !behind;
	r->sum.requests += apart || !behind;
	r->sum.blocks += len;
	r->last = start + len - 1;
}

void state_reading(const struct state *st, struct reading *out)
{
	struct reader r = { 0 };

	for (size_t i = 0; st->snap->order && i < st->snap->n_file; i++) {
		const struct filemap *m = state_map(st, st->snap->order[i]);
		bool first = true;

		for (uint32_t l = m->depth; l-- > 0;)
			for (size_t k = 0; k < m->tree->n_node[l]; k++)
				read_blocks(&r, m->tree->node[l][k].pblk, 1, true);
		for (size_t k = 0; k < m->n_ext; k++) {
			if (m->ext[k].unwritten)
				continue;
			read_blocks(&r, m->ext[k].pblk, m->ext[k].len, first);
			first = false;
		}
	}
	*out = r.sum;
}

double reading_score(const struct reading *r)
{
	return r->blocks > 1 ? (double)r->sequential / (double)(r->blocks - 1) : 1;
}
