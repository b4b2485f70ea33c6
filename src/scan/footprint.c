/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: how much memory the scan takes. The figures are those of glibc's malloc, and of the scan's
 * greediest moment: while claims, or the pieces of block-mapped files, are sorted.
 */
#include "scan_internal.h"

static uint64_t on_heap(uint64_t bytes)
{
	return bytes ? bytes <= 24 ? 32 : (bytes + 8 + 15) / 16 * 16 : 0;
}

static uint64_t map_bytes(const struct filemap *m)
{
	uint64_t sum = on_heap(m->n_ext * sizeof(*m->ext));

	for (uint32_t l = 0; l < m->depth; l++)
		sum += on_heap(m->n_node[l] * sizeof(*m->node[l]));
	if (m->rec)
		sum += on_heap(sizeof(*m->rec)) + on_heap(m->rec->n * sizeof(*m->rec->at));
	return sum;
}

/* But for the maps. A claim is there twice while it is sorted. */
static uint64_t list_bytes(const struct harvest *h)
{
	return h->n_file * sizeof(*h->file) + h->n_root * sizeof(*h->root) +
	       h->n_mapped * sizeof(*h->mapped) + h->n_left * sizeof(*h->left) +
	       h->n_xattr * sizeof(*h->xattr) + 2 * h->claims.n * sizeof(*h->claims.c) +
	       2 * h->meta.n * sizeof(*h->meta.c) + h->n_free * sizeof(*h->free);
}

void footprint_add(struct footprint *f, const struct harvest *part)
{
	f->bytes += list_bytes(part);
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
	uint64_t need = list_bytes(h);

	for (size_t i = 0; i < h->n_file; i++) {
		const struct filemap *m = &h->file[i].map;

		need += map_bytes(m);
		if (m->depth || m->indirect || m->rec)
			need += (m->n_ext + filemap_nodes(m)) * 2 * sizeof(struct claim);
	}
	return !src->memory || need <= src->memory ? 0 : footprint_refuse(src, need, err);
}

uint64_t scan_memory(const struct snapshot *s)
{
	/* A set takes 17 to 25 bytes a range; the state has the free space once more, and a
	 * pointer for each file. */
	uint64_t sum = (2 * rangeset_count(s->free) + rangeset_count(s->fixed)) * 25 +
		       s->n_file * (sizeof(*s->file) + sizeof(void *) +
				    (s->order ? sizeof(*s->order) : 0));

	for (size_t i = 0; i < s->n_file; i++)
		sum += map_bytes(&s->file[i].map);
	return sum;
}
