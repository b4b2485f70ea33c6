/* SPDX-License-Identifier: GPL-2.0-or-later */
/* snapshot: the container. Its text form is in snapshot_text.c. */
#include "scaledefrag/snapshot.h"

#include <stdlib.h>

void snapshot_drop_files(struct snapshot *s)
{
	for (size_t i = 0; i < s->n_file; i++)
		filemap_release(&s->file[i].map);
	free(s->file);
	for (size_t i = 0; i < s->n_pool; i++)
		free(s->pool[i]);
	free(s->pool);
	free(s->order);
	s->file = NULL;
	s->pool = NULL;
	s->order = NULL;
	s->n_file = s->n_pool = s->n_front = 0;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	snapshot_drop_files(s);
	free(s->left_ino);
	free(s->left_why);
	free(s->left_runs);
	rangeset_free(s->free);
	rangeset_free(s->fixed);
	rangeset_free(s->avoid);
	free(s);
}

const struct snapshot_file *snapshot_find(const struct snapshot *s, uint32_t ino)
{
	size_t lo = 0, hi = s->n_file;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->file[mid].ino < ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_file && s->file[lo].ino == ino ? &s->file[lo] : NULL;
}
