/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "images.h"
#include "support/image.h"
#include "support/memdev.h"
#include "support/wrap.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)

/* Features off the usual, mke2fs' arguments. A base's number is part of the corpus: append only. */
static const struct format {
	const char *name, *features, *args;
	uint64_t size;
	uint32_t deep; /* blocks of the file with a deep tree; 0: block-mapped files instead */
} formats[] = {
	{ "usual", "inline_data,ea_inode,orphan_file", "-b 1024 -N 64 -g 1024 -J size=1", 4 * MIB,
	  400 },
	{ "ext3", "^64bit,^metadata_csum,^extents,^flex_bg,^huge_file",
	  "-b 1024 -N 64 -I 128 -J size=1", 4 * MIB, 0 },
	{ "uninit", "^64bit,^metadata_csum,uninit_bg", "-b 1024 -N 64 -g 1024 -J size=1", 4 * MIB,
	  100 },
	{ "meta_bg", "meta_bg,^resize_inode,sparse_super2,fast_commit",
	  "-b 1024 -N 256 -g 1024 -J size=2", 10 * MIB, 100 },
	{ "4k", "metadata_csum_seed", "-b 4096 -N 32 -J size=4", 12 * MIB, 100 },
	{ "bigalloc", "bigalloc", "-b 4096 -C 8192 -N 32 -J size=4", 12 * MIB, 100 },
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

static const char *const tree[] = { "", "/proc", "/proc/self", "/sys", "/sys/block" };
enum { N_TREE = sizeof(tree) / sizeof(tree[0]) };
static char root[48];

static const char *below(const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", root, name);
	return buf;
}

static void remove_roots(void)
{
	char name[96];

	unlink(below("/proc/self/mountinfo", name, sizeof(name)));
	for (int i = N_TREE - 1; i >= 0; i--)
		rmdir(below(tree[i], name, sizeof(name)));
}

const struct roots *images_roots(void)
{
	static struct roots r;
	char name[96];
	FILE *f;

	if (*root)
		return &r;
	if (!mkdtemp(strcpy(root, "/dev/shm/fuzz-XXXXXX")) &&
	    !mkdtemp(strcpy(root, "/tmp/fuzz-XXXXXX")))
		image_die("no directory for tests");
	atexit(remove_roots);
	for (int i = 1; i < N_TREE; i++)
		mkdir(below(tree[i], name, sizeof(name)), 0700);
	f = fopen(below("/proc/self/mountinfo", name, sizeof(name)), "w");
	if (!f || fclose(f))
		image_die("cannot make %s", name);
	below("/proc", r.proc, sizeof(r.proc));
	below("/sys", r.sys, sizeof(r.sys));
	return &r;
}

static void populate(const struct format *f, const char *path)
{
	/* many records, and yet free space in one piece */
	static const struct place many = { .len = 1, .step = 1, .hole = 1 };
	static const struct place apart = { .len = 2, .step = 3, .order = PLACE_BACKWARD };
	static const struct place unwritten = { .len = 1, .hole = 1, .every_unwritten = 2 };
	struct image *im = image_open(path);
	uint32_t dir = image_dir(im, IMAGE_ROOT, "dir"), boot, ino;

	image_symlink(im, dir, "fast", "target");
	boot = image_dir(im, IMAGE_ROOT, "boot"); /* what boot code knows by its place */
	if (f->deep) {
		image_put(im, boot, "map", &(struct place){ .len = 1 }, 2);
		image_put(im, boot, "beside", &(struct place){ .len = 1 }, 2);
		image_put(im, boot, "ldlinux.sys", &(struct place){ .len = 1 }, 2);
		image_put(im, dir, "deep", &many, f->deep);
		image_put(im, IMAGE_ROOT, "one", &(struct place){ .len = 5 }, 5);
		image_put(im, dir, "apart", &apart, 12);
		image_put(im, dir, "four", &apart, 8); /* all that a root holds */
		image_put(im, dir, "map", &unwritten, 6);
		ino = image_put(im, dir, "deeper", &(struct place){ .len = 1 }, 30);
		image_xattr(im, ino, "user.block", 500);
		image_shatter(im, dir, &apart);
	} else {
		image_put_mapped(im, boot, "map", &apart, 2);
		image_put_mapped(im, dir, "direct", &apart, 9);
		image_put_mapped(im, IMAGE_ROOT, "double", &apart, 300);
	}
	if (strstr(f->features, "inline_data,"))
		image_inline(im, dir, "inline", 50);
	image_close(im);
}

static void add_owned(struct owned **list, size_t *n, uint64_t block, uint32_t ino)
{
	*list = realloc(*list, (*n + 1) * sizeof(**list));
	if (!*list)
		abort();
	(*list)[(*n)++] = (struct owned){ block, ino };
}

struct walk {
	struct base *b;
	uint32_t ino;
	bool dir;
};

static int visit(ext2_filsys fs, blk64_t *block, e2_blkcnt_t count, blk64_t ref, int offset,
		 void *priv)
{
	struct walk *w = priv;

	(void)fs;
	(void)ref;
	(void)offset;
	if (w->ino == EXT2_JOURNAL_INO && !w->b->log && count == 0)
		w->b->log = *block;
	if (count < 0)
		add_owned(&w->b->tree, &w->b->n_tree, *block, w->ino);
	else if (w->dir)
		add_owned(&w->b->dir, &w->b->n_dir, *block, w->ino);
	return 0;
}

/* Where things are, from the good image. */
static void survey(struct base *b)
{
	ext2_filsys fs;
	struct ext2_inode in;

	if (ext2fs_open2(b->path, "", EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs))
		image_die("cannot open base %s", b->name);
	b->sb = *fs->super;
	b->block_size = fs->blocksize;
	b->inode_size = EXT2_INODE_SIZE(fs->super);
	b->desc_size = EXT2_DESC_SIZE(fs->super);
	b->groups = fs->group_desc_count;
	for (uint32_t ino = 1; ino <= fs->super->s_inodes_count; ino++) {
		struct walk w = { b, ino, false };

		if (ext2fs_read_inode(fs, ino, &in) || !in.i_links_count ||
		    !ext2fs_inode_has_valid_blocks2(fs, &in))
			continue;
		w.dir = LINUX_S_ISDIR(in.i_mode);
		if (b->n_used < sizeof(b->used) / sizeof(b->used[0]))
			b->used[b->n_used++] = ino;
		ext2fs_block_iterate3(fs, ino, BLOCK_FLAG_READ_ONLY, NULL, visit, &w);
		if (ext2fs_file_acl_block(fs, &in))
			add_owned(&b->dir, &b->n_dir, ext2fs_file_acl_block(fs, &in), ino);
	}
	ext2fs_free(fs);
}

static void make(struct base *b, const struct format *f)
{
	int fd = memfd_create(f->name, MFD_CLOEXEC);
	char file[64];

	if (fd < 0)
		image_die("no memory file");
	b->name = f->name;
	b->size = f->size;
	snprintf(b->path, sizeof(b->path), "/proc/self/fd/%d", fd);
	/* mke2fs is another process: it knows the file by ours */
	snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)getpid(), fd);
	image_mke2fs(file, f->size, f->features, f->args);
	populate(f, b->path);
	survey(b);
	b->mem = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b->mem == MAP_FAILED)
		image_die("cannot map base %s", f->name);
	b->good = must_alloc(b->size, 1);
	memcpy(b->good, b->mem, b->size);
	b->before = must_alloc(b->size, 1);
	b->dirty = must_alloc(b->size / b->block_size, sizeof(*b->dirty));
}

struct base *images_get(uint8_t number)
{
	static struct base base[N_FORMATS];
	unsigned i = number % N_FORMATS;

	if (!base[i].mem)
		make(&base[i], &formats[i]);
	return &base[i];
}

void images_write(struct base *b, uint64_t at, const void *data, size_t len)
{
	if (at >= b->size)
		return;
	if (len > b->size - at)
		len = b->size - at;
	if (!len)
		return;
	for (uint64_t blk = at / b->block_size; blk <= (at + len - 1) / b->block_size; blk++)
		b->dirty[blk] = true;
	memcpy(b->mem + at, data, len);
}

void images_restore(struct base *b, bool whole)
{
	size_t bs = b->block_size;

	for (size_t i = 0; i < b->size / bs; i++) {
		if (whole || b->dirty[i])
			memcpy(b->mem + i * bs, b->good + i * bs, bs);
		b->dirty[i] = false;
	}
}

int images_wrap(void *ctx, struct device *inner, struct device **out, struct error *err)
{
	struct base *b = ctx;
	uint64_t size = inner->size < b->size ? inner->size : b->size;

	(void)err;
	device_close(inner);
	*out = memdev_new(b->mem, size, 512);
	return 0;
}
