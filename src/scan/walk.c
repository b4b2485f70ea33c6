/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: all names of the file system, by walking the directories breadth first. Directories are
 * kept as (parent, name): a path is put together only where it is asked for. Each directory is
 * visited once, so a loop of directories ends.
 */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

#define PATH_LONGEST ((size_t)1 << 16) /* bytes */

struct dir {
	uint32_t ino;
	uint32_t name_len;
	uint32_t bits; /* struct named */
	size_t parent; /* index, lower than its own */
	size_t name;   /* offset into names */
};

struct walk {
	ext2_filsys fs;
	const struct volume *v;
	name_fn fn;
	void *ctx;
	struct dir *dir;
	size_t n_dir, cap_dir, at; /* `at`: the one being read */
	char *names;
	size_t n_names, cap_names;
	ext2fs_inode_bitmap seen; /* directories */
	struct error *err;
	bool strict; /* "." and ".." count */
	bool failed, enough;
};

char *named_path(const struct named *n, bool *too_long)
{
	const struct walk *w = n->walk;
	size_t total = n->len + 1, end;
	char *path;

	for (size_t d = w->at; d && total < PATH_LONGEST; d = w->dir[d].parent)
		total += w->dir[d].name_len + 1;
	*too_long = total >= PATH_LONGEST;
	if (*too_long)
		return NULL;
	path = malloc(total + 1);
	if (!path)
		return NULL;
	path[total] = '\0';
	end = total - n->len;
	memcpy(path + end, n->name, n->len);
	path[--end] = '/';
	for (size_t d = w->at; d; d = w->dir[d].parent) {
		end -= w->dir[d].name_len;
		memcpy(path + end, w->names + w->dir[d].name, w->dir[d].name_len);
		path[--end] = '/';
	}
	return path;
}

static int add_dir(struct walk *w, const struct named *n)
{
	if (ext2fs_mark_inode_bitmap2(w->seen, n->ino))
		return 0;
	if (array_reserve(&w->dir, &w->cap_dir, w->n_dir + 1, sizeof(*w->dir), w->err) ||
	    array_reserve(&w->names, &w->cap_names, w->n_names + n->len + 1, 1, w->err))
		return -1;
	w->dir[w->n_dir++] = (struct dir){ .ino = n->ino,
					   .name_len = (uint32_t)n->len,
					   .bits = n->bits,
					   .parent = w->at,
					   .name = w->n_names };
	memcpy(w->names + w->n_names, n->name, n->len);
	w->n_names += n->len;
	return 0;
}

/* One that the scan has checked. */
static int enter_later(struct walk *w, const struct named *n)
{
	bool checked;
	errcode_t ret = inode_is_checked(w->fs, n->ino, &checked);

	if (ret)
		return library_error(w->v, ret, n->ino, w->err);
	return checked ? add_dir(w, n) : 0;
}

/* Without the filetype feature the entry does not say what it names. */
static bool is_directory(const struct walk *w, const struct ext2_dir_entry *e)
{
	struct ext2_inode inode;

	if (ext2fs_has_feature_filetype(w->fs->super))
		return ext2fs_dirent_file_type(e) == EXT2_FT_DIR;
	return !ext2fs_read_inode(w->fs, e->inode, &inode) && LINUX_S_ISDIR(inode.i_mode);
}

/* "." and ".." are what e2fsck would make of them? */
static bool dots_fit(const struct walk *w, int entry, uint32_t ino)
{
	const struct dir *d = &w->dir[w->at];

	if (entry == DIRENT_DOT_FILE)
		return ino == d->ino;
	return entry != DIRENT_DOT_DOT_FILE || ino == w->dir[d->parent].ino;
}

static int visit(ext2_ino_t dir, int entry, struct ext2_dir_entry *e, int offset, int blocksize,
		 char *buf, void *priv)
{
	struct walk *w = priv;
	struct named n = { .ino = e->inode,
			   .name = e->name,
			   .len = (size_t)ext2fs_dirent_name_len(e),
			   .bits = w->dir[w->at].bits,
			   .walk = w };

	(void)offset;
	(void)blocksize;
	(void)buf;
	if (w->strict && !dots_fit(w, entry, e->inode)) {
		error_set(w->err, ERROR_FSCK,
			  "%s: inode %u: its . or .. names inode %u; run: e2fsck -f %s",
			  volume_arg(w->v), dir, e->inode, volume_arg(w->v));
		w->failed = true;
		return DIRENT_ABORT;
	}
	if (entry != DIRENT_OTHER_FILE || !n.len || !e->inode ||
	    e->inode > w->fs->super->s_inodes_count)
		return 0;
	if (w->fn(w->ctx, &n, &w->enough, w->err) || (is_directory(w, e) && enter_later(w, &n))) {
		w->failed = true;
		return DIRENT_ABORT;
	}
	return w->enough ? DIRENT_ABORT : 0;
}

static int start(struct walk *w)
{
	struct named root = { .ino = EXT2_ROOT_INO, .name = "", .walk = w };

	if (ext2fs_allocate_inode_bitmap(w->fs, "directories seen", &w->seen))
		return error_nomem(w->err, "looking up names");
	return w->fn(w->ctx, &root, &w->enough, w->err) || add_dir(w, &root) ? -1 : 0;
}

int walk_tree(struct volume *v, dir_fn enter, name_fn fn, void *ctx, struct error *err)
{
	struct walk w = {
		.fs = volume_fs(v), .v = v, .fn = fn, .ctx = ctx, .strict = enter, .err = err
	};
	int rc;

	ext2fs_flush_icache(w.fs); /* it may be older than a commit */
	rc = start(&w);
	for (; !rc && w.at < w.n_dir && !w.enough; w.at++) {
		errcode_t ret;

		rc = enter ? enter(ctx, w.dir[w.at].ino, err) : 0;
		if (rc)
			break;
		ret = ext2fs_dir_iterate2(w.fs, w.dir[w.at].ino, 0, NULL, visit, &w);
		if (w.failed)
			rc = -1;
		else if (ret)
			rc = library_error(v, ret, w.dir[w.at].ino, err);
	}
	free(w.dir);
	free(w.names);
	if (w.seen)
		ext2fs_free_inode_bitmap(w.seen);
	return rc;
}

int walk_names(struct volume *v, name_fn fn, void *ctx, struct error *err)
{
	return walk_tree(v, NULL, fn, ctx, err);
}
