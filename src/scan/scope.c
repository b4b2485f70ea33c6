/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: which files the user wants to be looked at. All others become fixed: nothing of them is
 * moved, neither for their own sake nor to make room.
 *
 * What holds for a directory holds for all below it. A file with several names is chosen if one of
 * them is, and left out or pinned if one of them is. Files without a name (extended-attribute
 * inodes) are chosen only if no path and no glob chooses others.
 */
#include "scan_internal.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Of names, and handed down to the names below. A file's are those of all its names. */
enum {
	BELOW_PATH = 1 << SCOPE_PATH,
	INCLUDED = 1 << SCOPE_INCLUDE,
	EXCLUDED = 1 << SCOPE_EXCLUDE,
	PINNED = 1 << SCOPE_PIN,
	CHOSEN = PINNED << 1, /* of files alone: one of their names has all that it takes */
};

struct scope {
	const struct source *src;
	const struct scope_item *item;
	size_t n_item;
	const struct harvest *h;
	uint32_t *path_ino; /* per item, 0 where it is no path */
	uint32_t needed;    /* bits that choose */
	bool whole_paths;   /* some glob has a slash */
	uint8_t *bits;	    /* per file of the harvest */
};

static int compare_file(const void *a, const void *b)
{
	const struct snapshot_file *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* A glob with a slash is for the whole path, another for the last name. `path` may be NULL. */
static bool glob_matches(const char *glob, const char *name, const char *path)
{
	const int flags = FNM_PATHNAME | FNM_EXTMATCH;

	if (!strchr(glob, '/'))
		return fnmatch(glob, name, flags) == 0;
	return path && fnmatch(glob, path + (*glob != '/'), flags) == 0;
}

static uint32_t bits_of(const struct scope *sc, uint32_t ino, const char *name, const char *path)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < sc->n_item; i++) {
		const struct scope_item *it = &sc->item[i];

		if (bits & 1u << it->kind)
			continue;
		if (it->kind == SCOPE_PATH ? ino == sc->path_ino[i]
					   : glob_matches(it->text, name, path))
			bits |= 1u << it->kind;
	}
	return bits;
}

static int on_name(void *ctx, struct named *n, bool *enough, struct error *err)
{
	struct scope *sc = ctx;
	const struct snapshot_file key = { .ino = n->ino }, *hit = NULL;
	bool too_long = false;
	char name[EXT2_NAME_LEN + 1], *path = NULL;

	(void)enough;
	if (source_stopped(sc->src, err))
		return -1;
	memcpy(name, n->name, n->len); /* length: of 8 bits */
	name[n->len] = '\0';
	if (sc->whole_paths) {
		path = named_path(n, &too_long);
		if (!path && !too_long)
			return error_nomem(err, "looking up names");
	}
	/* What can't be compared is not touched. */
	n->bits |= too_long ? PINNED : bits_of(sc, n->ino, name, path);
	free(path);
	if (sc->h->n_file)
		hit = bsearch(&key, sc->h->file, sc->h->n_file, sizeof(key), compare_file);
	if (hit)
		sc->bits[hit - sc->h->file] |=
			(uint8_t)(n->bits | ((n->bits & sc->needed) == sc->needed ? CHOSEN : 0));
	return 0;
}

static enum leave_reason decide(const void *ctx, size_t file)
{
	const struct scope *sc = ctx;

	if (sc->bits[file] & PINNED)
		return LEAVE_PINNED;
	if ((sc->bits[file] & EXCLUDED) || (sc->needed && !(sc->bits[file] & CHOSEN)))
		return LEAVE_SCOPE;
	return LEAVE_NONE;
}

static int find_paths(struct scope *sc, struct error *err)
{
	for (size_t i = 0; i < sc->n_item; i++) {
		const struct scope_item *it = &sc->item[i];
		uint32_t dir = EXT2_ROOT_INO;
		errcode_t ret;

		if (it->kind == SCOPE_PATH || it->kind == SCOPE_INCLUDE)
			sc->needed |= 1u << it->kind;
		if (it->kind != SCOPE_PATH) {
			sc->whole_paths |= strchr(it->text, '/') != NULL;
			continue;
		}
		ret = boot_look_up(volume_fs(sc->src->v), it->text, &dir, &sc->path_ino[i]);
		if (ret)
			return library_error(sc->src->v, ret, dir, err);
		if (!sc->path_ino[i])
			return error_set(err, ERROR_USAGE,
					 "%s: --path: '%s' is not in the file system; paths begin "
					 "at its root, and links are not followed",
					 volume_arg(sc->src->v), it->text);
	}
	return 0;
}

int scope_apply(const struct source *src, const struct scope_item *item, size_t n_item,
		struct harvest *h, struct error *err)
{
	struct scope sc = { .src = src, .item = item, .n_item = n_item, .h = h };
	int rc = -1;

	if (!n_item)
		return 0;
	sc.path_ino = calloc(n_item, sizeof(*sc.path_ino));
	sc.bits = calloc(h->n_file + 1, sizeof(*sc.bits));
	if (!sc.path_ino || !sc.bits)
		error_nomem(err, "the chosen files");
	else if (!find_paths(&sc, err) && !walk_names(src->v, on_name, &sc, err))
		rc = harvest_leave(h, decide, &sc, err);
	free(sc.path_ino);
	free(sc.bits);
	return rc;
}
