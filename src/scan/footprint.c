/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: how much memory the scan takes. The figures are those of glibc's malloc, and of the scan's
 * greediest moment: while claims are compared, or the pieces of block-mapped files are sorted.
 */
#include "scan_internal.h"

#define RANGE_BYTES 18u /* of a free range in a set, added in order */

static uint64_t on_heap(uint64_t bytes)
{
	return bytes ? bytes <= 24 ? 32 : (bytes + 8 + 15) / 16 * 16 : 0;
}

static uint64_t map_bytes(const struct filemap *m)
{
	uint64_t sum = m->pooled ? m->n_ext * sizeof(*m->ext) : on_heap(m->n_ext * sizeof(*m->ext));

	if (!m->tree)
		return sum;
	sum += on_heap(sizeof(*m->tree));
	for (uint32_t l = 0; l < m->depth; l++)
		sum += on_heap(m->tree->n_node[l] * sizeof(*m->tree->node[l]));
	if (m->in_clusters)
		sum += on_heap(sizeof(*m->tree->rec) + m->tree->rec->n * sizeof(*m->tree->rec->at));
	return sum;
}

/* But for maps and free space. The few claims are there twice while they are sorted. */
static uint64_t list_bytes(const struct harvest *h)
{
	return h->n_file * sizeof(*h->file) + h->n_root * sizeof(*h->root) +
	       h->n_mapped * sizeof(*h->mapped) + h->n_left * sizeof(*h->left) +
	       h->n_xattr * sizeof(*h->xattr) + 2 * h->claims.n * sizeof(*h->claims.c) +
	       2 * h->meta.n * sizeof(*h->meta.c);
}

void footprint_add(struct footprint *f, const struct harvest *part)
{
	f->bytes += list_bytes(part) + part->n_free * RANGE_BYTES;
	for (size_t i = 0; i < part->n_file; i++)
		f->bytes += map_bytes(&part->file[i].map);
	f->leaves += part->n_root + part->n_mapped;
}

int footprint_refuse(const struct source *src, uint64_t need, struct error *err)
{
	return error_set(err, ERROR_USAGE,
			 "%s: --memory %lluM is too little for what is on it; give at least "
			 "--memory %lluM",
			 volume_arg(src->v), (unsigned long long)(src->memory >> 20),
			 (unsigned long long)(need >> 20) + 1);
}

int footprint_check(const struct source *src, const struct footprint *f, struct error *err)
{
	/* A leaf holds half of what it could, say. */
	uint64_t leaf = geometry_node_records(src->geo->block_size) / 2 * RECORD_BYTES;

	if (!src->memory || f->bytes <= src->memory)
		return 0;
	return footprint_refuse(src, f->bytes + f->leaves * leaf, err);
}

int footprint_check_all(const struct source *src, const struct harvest *h, struct error *err)
{
	uint64_t need =
		src->others + list_bytes(h) + rangeset_bytes(h->space) + crosscheck_window(src);

	if (!src->memory)
		return 0;
	for (size_t i = 0; i < h->n_file; i++)
		need += map_bytes(&h->file[i].map);
	return need <= src->memory ? 0 : footprint_refuse(src, need, err);
}

/* The state has a pointer for each file. */
uint64_t scan_file_memory(const struct snapshot_file *f)
{
	return sizeof(*f) + sizeof(void *) + map_bytes(&f->map);
}

uint64_t scan_memory(const struct snapshot *s)
{
	/* The state has the free space once more. */
	uint64_t sum = 2 * rangeset_bytes(s->free) + rangeset_bytes(s->fixed) +
		       (s->order ? s->n_file * sizeof(*s->order) : 0);

	for (size_t i = 0; i < s->n_file; i++)
		sum += scan_file_memory(&s->file[i]);
	return sum;
}
