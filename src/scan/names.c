/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: names of inodes, by walking the directories breadth first. Directories are kept as (parent,
 * name): a path is put together only for the inodes that were asked for. Each directory is visited
 * once, so a loop of directories ends.
 */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

#define PATH_LONGEST ((size_t)1 << 16) /* bytes; a name deeper down stays unknown */

struct dir {
	uint32_t ino;
	uint32_t name_len;
	size_t parent; /* index, lower than its own */
	size_t name;   /* offset into names */
};

struct finder {
	ext2_filsys fs;
	const uint32_t *inos;
	size_t n, missing;
	char **paths;
	struct dir *dir;
	size_t n_dir, cap_dir, at; /* `at`: the one being read */
	char *names;
	size_t n_names, cap_names;
	ext2fs_inode_bitmap seen; /* directories */
	struct error *err;
	bool failed;
};

static int compare_ino(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* "/a/b/name", or NULL (err set) / *too_long. */
static char *make_path(const struct finder *f, const char *name, size_t len, bool *too_long)
{
	size_t total = len + 1, end;
	char *path;

	for (size_t d = f->at; d && total < PATH_LONGEST; d = f->dir[d].parent)
		total += f->dir[d].name_len + 1;
	*too_long = total >= PATH_LONGEST;
	if (*too_long)
		return NULL;
	path = malloc(total + 1);
	if (!path)
		return NULL;
	path[total] = '\0';
	end = total - len;
	memcpy(path + end, name, len);
	path[--end] = '/';
	for (size_t d = f->at; d; d = f->dir[d].parent) {
		end -= f->dir[d].name_len;
		memcpy(path + end, f->names + f->dir[d].name, f->dir[d].name_len);
		path[--end] = '/';
	}
	return path;
}

static int found(struct finder *f, uint32_t ino, const char *name, size_t len)
{
	const uint32_t *hit = bsearch(&ino, f->inos, f->n, sizeof(ino), compare_ino);
	bool too_long;
	char *path;

	if (!hit || f->paths[hit - f->inos])
		return 0;
	path = make_path(f, name, len, &too_long);
	if (too_long)
		return 0;
	if (!path)
		return error_nomem(f->err, "looking up names");
	f->paths[hit - f->inos] = path;
	f->missing--;
	return 0;
}

static int add_dir(struct finder *f, uint32_t ino, const char *name, size_t len)
{
	if (ext2fs_mark_inode_bitmap2(f->seen, ino))
		return 0;
	if (array_reserve(&f->dir, &f->cap_dir, f->n_dir + 1, sizeof(*f->dir), f->err) ||
	    array_reserve(&f->names, &f->cap_names, f->n_names + len + 1, 1, f->err))
		return -1;
	f->dir[f->n_dir++] = (struct dir){
		.ino = ino, .name_len = (uint32_t)len, .parent = f->at, .name = f->n_names
	};
	memcpy(f->names + f->n_names, name, len);
	f->n_names += len;
	return 0;
}

/* Without the filetype feature the entry does not say what it names. */
static bool is_directory(const struct finder *f, const struct ext2_dir_entry *e)
{
	struct ext2_inode inode;

	if (ext2fs_has_feature_filetype(f->fs->super))
		return ext2fs_dirent_file_type(e) == EXT2_FT_DIR;
	return !ext2fs_read_inode(f->fs, e->inode, &inode) && LINUX_S_ISDIR(inode.i_mode);
}

static int visit(ext2_ino_t dir, int entry, struct ext2_dir_entry *e, int offset, int blocksize,
		 char *buf, void *priv)
{
	struct finder *f = priv;
	size_t len = (size_t)ext2fs_dirent_name_len(e);

	(void)dir;
	(void)offset;
	(void)blocksize;
	(void)buf;
	if (entry != DIRENT_OTHER_FILE || !len || !e->inode ||
	    e->inode > f->fs->super->s_inodes_count)
		return 0;
	if (found(f, e->inode, e->name, len) ||
	    (is_directory(f, e) && add_dir(f, e->inode, e->name, len))) {
		f->failed = true;
		return DIRENT_ABORT;
	}
	return f->missing ? 0 : DIRENT_ABORT;
}

static int walk(struct finder *f, struct volume *v)
{
	for (f->at = 0; f->at < f->n_dir && f->missing; f->at++) {
		errcode_t ret = ext2fs_dir_iterate2(f->fs, f->dir[f->at].ino, 0, NULL, visit, f);

		if (f->failed)
			return -1;
		if (ret)
			return library_error(v, ret, f->dir[f->at].ino, f->err);
	}
	return 0;
}

static int start(struct finder *f)
{
	const uint32_t root = EXT2_ROOT_INO;
	const uint32_t *hit = bsearch(&root, f->inos, f->n, sizeof(root), compare_ino);

	if (ext2fs_allocate_inode_bitmap(f->fs, "directories seen", &f->seen))
		return error_nomem(f->err, "looking up names");
	if (hit) {
		f->paths[hit - f->inos] = strdup("/");
		if (!f->paths[hit - f->inos])
			return error_nomem(f->err, "looking up names");
		f->missing--;
	}
	return add_dir(f, root, "", 0);
}

int scan_names(struct volume *v, const uint32_t *inos, size_t n, char **paths, struct error *err)
{
	struct finder f = { .fs = volume_fs(v), .inos = inos, .n = n, .missing = n, .err = err };
	int ret = -1;

	if (!n)
		return 0;
	f.paths = calloc(n, sizeof(*f.paths));
	if (!f.paths)
		return error_nomem(err, "looking up names");
	ext2fs_flush_icache(f.fs); /* it may be older than a commit */
	if (start(&f) || walk(&f, v))
		goto out;
	memcpy(paths, f.paths, n * sizeof(*paths));
	memset(f.paths, 0, n * sizeof(*f.paths));
	ret = 0;
out:
	for (size_t i = 0; i < n; i++)
		free(f.paths[i]);
	free(f.paths);
	free(f.dir);
	free(f.names);
	if (f.seen)
		ext2fs_free_inode_bitmap(f.seen);
	return ret;
}
