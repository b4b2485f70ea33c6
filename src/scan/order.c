/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: in which order a recursive scan reads the files: each directory, then what is in it, in the
 * order of its entries, directories breadth first. What the user wants first comes before.
 */
#include "scan_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct order {
	const struct source *src;
	struct snapshot *s;
	bool growth;
	uint32_t *ino;
	size_t n, cap;
};

static int add(struct order *o, uint32_t ino, struct error *err)
{
	if (array_reserve(&o->ino, &o->cap, o->n + 1, sizeof(*o->ino), err))
		return -1;
	o->ino[o->n++] = ino;
	return 0;
}

static int on_directory(void *ctx, uint32_t ino, struct error *err)
{
	struct order *o = ctx;

	return source_stopped(o->src, err) || add(o, ino, err) ? -1 : 0;
}

/* Directories have a turn of their own. */
static int on_name(void *ctx, struct named *n, bool *enough, struct error *err)
{
	struct order *o = ctx;
	const struct snapshot_file *f = snapshot_find(o->s, n->ino);
	bool checked = true;
	errcode_t ret;

	(void)enough;
	if (o->growth && f && f->kind == FILE_REGULAR && growth_by_name(n->name, n->len))
		o->s->file[f - o->s->file].grows = true;
	if (!f && (ret = inode_is_checked(volume_fs(o->src->v), n->ino, &checked)))
		return library_error(o->src->v, ret, n->ino, err);
	if (!checked)
		return source_damage(o->src, err, "a name of inode %u, which is not in use",
				     n->ino);
	return f && f->kind != FILE_DIRECTORY ? add(o, n->ino, err) : 0;
}

/* A line of the front list -> its inode, 0: not there. */
static errcode_t look_up(const struct order *o, const char *line, uint32_t *ino)
{
	ext2_filsys fs = volume_fs(o->src->v);
	unsigned long long number;
	ext2_ino_t found = 0;
	errcode_t ret;
	char *end;

	*ino = 0;
	number = isdigit((unsigned char)*line) ? strtoull(line, &end, 10) : 0;
	if (number && !*end) {
		*ino = number <= fs->super->s_inodes_count ? (uint32_t)number : 0;
		return 0;
	}
	ret = ext2fs_namei_follow(fs, EXT2_ROOT_INO, EXT2_ROOT_INO, line, &found);
	if (ret == EXT2_ET_FILE_NOT_FOUND || ret == EXT2_ET_NO_DIRECTORY ||
	    ret == EXT2_ET_SYMLINK_LOOP)
		return 0;
	*ino = ret ? 0 : found;
	return ret;
}

static int add_front(struct order *o, const char *front, struct error *err)
{
	int rc = 0;

	while (*front && !rc) {
		size_t len = strcspn(front, "\r\n");
		char *line = strndup(front, len);
		uint32_t ino = 0;
		errcode_t ret;

		if (!line)
			return error_nomem(err, "the front list");
		ret = len ? look_up(o, line, &ino) : 0;
		free(line);
		if (ret)
			return library_error(o->src->v, ret, EXT2_ROOT_INO, err);
		rc = source_stopped(o->src, err) || (ino && add(o, ino, err)) ? -1 : 0;
		front += len;
		front += strspn(front, "\r\n");
	}
	return rc;
}

int order_read(const struct source *src, const char *front, bool growth, struct snapshot *s,
	       struct error *err)
{
	struct order o = { .src = src, .s = s, .growth = growth };
	struct order first = { .src = src };
	size_t n_front;
	int rc = -1;

	/* Paths are looked up when all that names lead to is known to be sound. */
	if (walk_tree(src->v, on_directory, on_name, &o, err) ||
	    (front && add_front(&first, front, err)))
		goto out;
	n_front = first.n;
	for (size_t i = 0; i < o.n; i++) {
		if (add(&first, o.ino[i], err))
			goto out;
	}
	if (snapshot_set_order(s, first.ino, first.n, n_front, err) ||
	    (growth && growth_by_times(src, s, err)))
		goto out;
	rc = 0;
out:
	free(o.ino);
	free(first.ino);
	return rc;
}
