/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: files known by their places.
 *
 * Files that boot code finds by block number, so that moving them would leave a machine that
 * does not start: extlinux' ldlinux.sys, GRUB's blocklists, and with LILO and zipl a map file and
 * whatever it lists, which are files beside it. They are known by their usual places; symlinks are
 * not followed.
 */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

static const struct boot_file {
	const char *path;
	bool beside; /* all files in its directory too: kernels and initrds that it lists */
} boot_files[] = {
	{ "ldlinux.sys", false },
	{ "boot/ldlinux.sys", false },
	{ "extlinux/ldlinux.sys", false },
	{ "syslinux/ldlinux.sys", false },
	{ "boot/extlinux/ldlinux.sys", false },
	{ "boot/syslinux/ldlinux.sys", false },
	{ "grub/i386-pc/core.img", false },
	{ "grub2/i386-pc/core.img", false },
	{ "boot/grub/i386-pc/core.img", false },
	{ "boot/grub2/i386-pc/core.img", false },
	{ "grub/stage2", false },
	{ "boot/grub/stage2", false },
	{ "map", true },
	{ "boot/map", true },
	{ "bootmap", true },
	{ "boot/bootmap", true },
};

struct pins {
	uint32_t *ino;
	size_t n, cap;
	struct error *err;
	bool failed;
};

static int add_pin(struct pins *p, uint32_t ino)
{
	if (array_reserve(&p->ino, &p->cap, p->n + 1, sizeof(*p->ino), p->err))
		return -1;
	p->ino[p->n++] = ino;
	return 0;
}

static int visit(ext2_ino_t dir, int entry, struct ext2_dir_entry *e, int offset, int blocksize,
		 char *buf, void *priv)
{
	struct pins *p = priv;

	(void)dir;
	(void)offset;
	(void)blocksize;
	(void)buf;
	if (entry != DIRENT_OTHER_FILE)
		return 0;
	p->failed = add_pin(p, e->inode) != 0;
	return p->failed ? DIRENT_ABORT : 0;
}

errcode_t boot_look_up(ext2_filsys fs, const char *path, uint32_t *dir, uint32_t *ino)
{
	errcode_t ret;

	*ino = EXT2_ROOT_INO;
	for (const char *end; *path; path = *end ? end + 1 : end) {
		ext2_ino_t next = 0;
		bool checked;

		end = strchrnul(path, '/');
		if (end == path)
			continue;
		*dir = *ino;
		*ino = 0;
		ret = ext2fs_check_directory(fs, *dir);
		if (ret == EXT2_ET_NO_DIRECTORY)
			return 0;
		if (ret)
			return ret;
		ret = ext2fs_lookup(fs, *dir, path, (int)(end - path), NULL, &next);
		if (ret == EXT2_ET_FILE_NOT_FOUND)
			return 0;
		if (ret)
			return ret;
		ret = inode_is_checked(fs, next, &checked);
		if (ret || !checked)
			return ret;
		*ino = next;
	}
	return 0;
}

/* Is it there, and a regular file? Block-mapped ones count: a map file lists what lies beside it.
 */
errcode_t boot_is_regular(ext2_filsys fs, uint32_t ino, bool *yes)
{
	struct ext2_inode inode;
	errcode_t ret;

	*yes = false;
	if (!ino)
		return 0;
	ret = ext2fs_read_inode(fs, ino, &inode);
	*yes = !ret && LINUX_S_ISREG(inode.i_mode);
	return ret;
}

static int find_pins(const struct source *src, struct pins *p)
{
	ext2_filsys fs = volume_fs(src->v);

	for (size_t i = 0; i < sizeof(boot_files) / sizeof(boot_files[0]); i++) {
		uint32_t dir = 0, ino = 0;
		bool found = false;
		errcode_t ret = boot_look_up(fs, boot_files[i].path, &dir, &ino);

		if (!ret)
			ret = boot_is_regular(fs, ino, &found);
		if (found) {
			if (add_pin(p, ino))
				return -1;
			if (boot_files[i].beside)
				ret = ext2fs_dir_iterate2(fs, dir, 0, NULL, visit, p);
		}
		if (p->failed)
			return -1;
		if (ret)
			return library_error(src->v, ret, dir, p->err);
	}
	return 0;
}

struct chosen {
	const struct harvest *h;
	const struct pins *p;
};

static enum leave_reason decide(const void *ctx, size_t file)
{
	const struct chosen *c = ctx;
	const struct snapshot_file *f = &c->h->file[file];

	return f->kind == FILE_REGULAR && bsearch(&f->ino, c->p->ino, c->p->n, sizeof(f->ino),
						  sort_compare_u32)
		       ? LEAVE_BOOT
		       : LEAVE_NONE;
}

int boot_pin(const struct source *src, struct harvest *h, struct error *err)
{
	struct pins p = { .err = err };
	int ret = find_pins(src, &p);

	if (!ret && p.n) {
		qsort(p.ino, p.n, sizeof(*p.ino), sort_compare_u32);
		ret = harvest_leave(h, decide, &(struct chosen){ h, &p }, err);
	}
	free(p.ino);
	return ret;
}
