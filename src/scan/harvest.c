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
	free(h->root);
	free(h->mapped);
	free(h->left);
	free(h->xattr);
	free(h->claims.c);
	free(h->meta.c);
	free(h->free);
	memset(h, 0, sizeof(*h));
}

static int append_files(struct harvest *h, struct harvest *part, struct error *err)
{
	if (array_reserve(&h->file, &h->cap_file, h->n_file + part->n_file, sizeof(*h->file),
			  err) ||
	    array_reserve(&h->root, &h->cap_root, h->n_root + part->n_root, sizeof(*h->root),
			  err) ||
	    array_reserve(&h->mapped, &h->cap_mapped, h->n_mapped + part->n_mapped,
			  sizeof(*h->mapped), err) ||
	    array_reserve(&h->left, &h->cap_left, h->n_left + part->n_left, sizeof(*h->left), err))
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
	part->n_file = 0; /* their maps belong to h now */
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
	for (size_t i = 0; i < part->n_free; i++)
		if (harvest_free(h, part->free[i].start, part->free[i].len, err))
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

/* Among those from `from` to `to`. */
static bool is_left(const struct harvest *h, size_t from, size_t to, uint32_t ino)
{
	const struct left key = { .ino = ino };

	return to > from && bsearch(&key, h->left + from, to - from, sizeof(key), compare_left);
}

int harvest_leave(struct harvest *h, enum leave_reason (*why)(const void *ctx, size_t file),
		  const void *ctx, struct error *err)
{
	size_t before = h->n_left;

	for (size_t i = 0; i < h->n_file; i++) {
		struct left l = { .ino = h->file[i].ino, .file = i };

		if (is_left(h, 0, before, l.ino))
			continue;
		l.why = (uint8_t)why(ctx, i);
		if (l.why == LEAVE_NONE)
			continue;
		if (array_reserve(&h->left, &h->cap_left, h->n_left + 1, sizeof(*h->left), err))
			return -1;
		h->left[h->n_left++] = l;
	}
	for (size_t i = 0; i < h->claims.n; i++) {
		struct claim *c = &h->claims.c[i];

		if (c->owner == OWNER_MOVABLE && is_left(h, before, h->n_left, c->who))
			c->owner = OWNER_FIXED;
	}
	if (h->n_left > before)
		qsort(h->left, h->n_left, sizeof(*h->left), compare_left);
	return 0;
}
