/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: arrays that grow, and the harvest made of them. */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

int claims_add(struct claims *cl, uint64_t start, uint64_t len, enum owner owner, uint32_t who,
	       struct error *err)
{
	while (len) {
		struct claim *last = cl->n ? &cl->c[cl->n - 1] : NULL;
		uint32_t piece = len < CLAIM_MAX_LEN ? (uint32_t)len : CLAIM_MAX_LEN;

		if (last && last->who == who && last->owner == owner &&
		    last->start + last->len == start && last->len <= CLAIM_MAX_LEN - piece) {
			last->len = (last->len + piece) & CLAIM_MAX_LEN;
		} else {
			if (array_reserve(&cl->c, &cl->cap, cl->n + 1, sizeof(*cl->c), err))
				return -1;
			cl->c[cl->n++] = (struct claim){ .start = start,
							 .len = piece & CLAIM_MAX_LEN,
							 .owner = owner & 3u,
							 .who = who };
		}
		start += piece;
		len -= piece;
	}
	return 0;
}

int harvest_free(struct harvest *h, uint64_t start, uint64_t len, struct error *err)
{
	struct range *last = h->n_free ? &h->free[h->n_free - 1] : NULL;

	if (last && last->start + last->len == start) {
		last->len += len;
		return 0;
	}
	if (array_reserve(&h->free, &h->cap_free, h->n_free + 1, sizeof(*h->free), err))
		return -1;
	h->free[h->n_free++] = (struct range){ .start = start, .len = len };
	return 0;
}

void harvest_release(struct harvest *h)
{
	for (size_t i = 0; i < h->n_file; i++)
		filemap_release(&h->file[i].map);
	free(h->file);
	free(h->ext);
	for (size_t i = 0; i < h->n_pool; i++)
		free(h->pool[i]);
	free(h->pool);
	free(h->root);
	free(h->mapped);
	free(h->left);
	free(h->xattr);
	free(h->claims.c);
	free(h->meta.c);
	free(h->free);
	rangeset_free(h->space);
	memset(h, 0, sizeof(*h));
}

static int own_records(struct harvest *h, struct error *err)
{
	size_t at = 0;

	for (size_t i = 0; i < h->n_file; i++) {
		struct filemap *m = &h->file[i].map;

		if (!m->pooled)
			continue;
		m->ext = malloc(m->n_ext * sizeof(*m->ext));
		m->pooled = false;
		if (!m->ext)
			return error_nomem(err, "reading inode tables");
		memcpy(m->ext, h->ext + at, m->n_ext * sizeof(*m->ext));
		at += m->n_ext;
	}
	return 0;
}

int harvest_settle(struct harvest *h, bool each, struct error *err)
{
	struct extent *ext;
	size_t at = 0;

	if (each)
		return own_records(h, err);
	if (!h->n_ext)
		return 0;
	if (array_reserve(&h->pool, &h->cap_pool, h->n_pool + 1, sizeof(struct extent *), err))
		return -1;
	ext = realloc(h->ext, h->n_ext * sizeof(*ext));
	if (!ext)
		ext = h->ext;
	for (size_t i = 0; i < h->n_file; i++) {
		if (!h->file[i].map.pooled)
			continue;
		h->file[i].map.ext = ext + at;
		at += h->file[i].map.n_ext;
	}
	h->pool[h->n_pool++] = ext;
	h->n_pooled += h->n_ext;
	h->ext = NULL;
	h->n_ext = h->cap_ext = 0;
	return 0;
}

static int append_files(struct harvest *h, struct harvest *part, struct error *err)
{
	if (array_reserve(&h->file, &h->cap_file, h->n_file + part->n_file, sizeof(*h->file),
			  err) ||
	    array_reserve(&h->root, &h->cap_root, h->n_root + part->n_root, sizeof(*h->root),
			  err) ||
	    array_reserve(&h->mapped, &h->cap_mapped, h->n_mapped + part->n_mapped,
			  sizeof(*h->mapped), err) ||
	    array_reserve(&h->left, &h->cap_left, h->n_left + part->n_left, sizeof(*h->left),
			  err) ||
	    array_reserve(&h->pool, &h->cap_pool, h->n_pool + part->n_pool, sizeof(struct extent *),
			  err))
		return -1;
	for (size_t i = 0; i < part->n_root; i++) {
		h->root[h->n_root + i] = part->root[i];
		h->root[h->n_root + i].file += h->n_file;
	}
	for (size_t i = 0; i < part->n_mapped; i++) {
		h->mapped[h->n_mapped + i] = part->mapped[i];
		h->mapped[h->n_mapped + i].file += h->n_file;
	}
	for (size_t i = 0; i < part->n_left; i++) {
		h->left[h->n_left + i] = part->left[i];
		if (part->left[i].file != NO_FILE)
			h->left[h->n_left + i].file += h->n_file;
	}
	if (part->n_file)
		memcpy(h->file + h->n_file, part->file, part->n_file * sizeof(*h->file));
	h->n_file += part->n_file;
	h->n_root += part->n_root;
	h->n_mapped += part->n_mapped;
	h->n_left += part->n_left;
	if (part->n_pool)
		memcpy(h->pool + h->n_pool, part->pool, part->n_pool * sizeof(*h->pool));
	h->n_pool += part->n_pool;
	h->n_pooled += part->n_pooled;
	part->n_file = part->n_pool = 0; /* their maps belong to h now */
	return 0;
}

static int append_claims(struct claims *cl, const struct claims *part, struct error *err)
{
	if (array_reserve(&cl->c, &cl->cap, cl->n + part->n, sizeof(*cl->c), err))
		return -1;
	if (part->n)
		memcpy(cl->c + cl->n, part->c, part->n * sizeof(*cl->c));
	cl->n += part->n;
	return 0;
}

int harvest_append(struct harvest *h, struct harvest *part, struct error *err)
{
	if (append_files(h, part, err) ||
	    array_reserve(&h->xattr, &h->cap_xattr, h->n_xattr + part->n_xattr, sizeof(*h->xattr),
			  err) ||
	    append_claims(&h->claims, &part->claims, err) ||
	    append_claims(&h->meta, &part->meta, err))
		return -1;
	if (part->n_xattr)
		memcpy(h->xattr + h->n_xattr, part->xattr, part->n_xattr * sizeof(*h->xattr));
	h->n_xattr += part->n_xattr;
	if (!h->space && rangeset_new(&h->space, err))
		return -1;
	for (size_t i = 0; i < part->n_free; i++)
		if (rangeset_add(h->space, part->free[i].start, part->free[i].len, err))
			return -1;
	h->nothing += part->nothing;
	harvest_release(part);
	return 0;
}

static int compare_left(const void *a, const void *b)
{
	const struct left *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Among the first n. */
static bool is_left(const struct harvest *h, size_t n, uint32_t ino)
{
	const struct left key = { .ino = ino };

	return n && bsearch(&key, h->left, n, sizeof(key), compare_left);
}

int harvest_leave(struct harvest *h, enum leave_reason (*why)(const void *ctx, size_t file),
		  const void *ctx, struct error *err)
{
	size_t before = h->n_left;

	for (size_t i = 0; i < h->n_file; i++) {
		struct left l = { .ino = h->file[i].ino, .file = i };

		if (is_left(h, before, l.ino))
			continue;
		l.why = (uint8_t)why(ctx, i);
		if (l.why == LEAVE_NONE)
			continue;
		if (array_reserve(&h->left, &h->cap_left, h->n_left + 1, sizeof(*h->left), err))
			return -1;
		h->left[h->n_left++] = l;
	}
	if (h->n_left > before)
		qsort(h->left, h->n_left, sizeof(*h->left), compare_left);
	return 0;
}
