/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of scan/: what it finds is compared with libext2fs' own walks over a second handle, and
 * images damaged on purpose must be refused with the place named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/scan/scan_internal.h"
#include "scaledefrag/indirect.h"
#include "scaledefrag/report.h"
#include "scaledefrag/scan.h"
#include "support/faultdev.h"
#include "support/image.h"

#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct layout {
	const char *name, *features, *args;
	uint64_t size;
} shapes[] = {
	{ "1 KiB blocks", "", "-b 1024", 24 << 20 },
	{ "4 KiB blocks", "", "-b 4096", 64 << 20 },
	{ "no checksums", "^metadata_csum,^uninit_bg", "-b 1024", 24 << 20 },
	{ "uninit_bg", "^metadata_csum,uninit_bg", "-b 1024 -g 2048", 24 << 20 },
	{ "32 bit", "^64bit", "-b 2048", 24 << 20 },
	{ "inline data, EA inodes", "inline_data,ea_inode", "-b 1024", 24 << 20 },
	{ "orphan file", "orphan_file", "-b 4096", 32 << 20 },
	{ "small inodes", "", "-b 1024 -I 128", 24 << 20 },
	{ "meta_bg", "meta_bg,^resize_inode", "-b 1024 -g 1024", 40 << 20 },
	{ "sparse_super2", "sparse_super2", "-b 1024 -g 1024", 24 << 20 },
	{ "no resize inode", "^resize_inode", "-b 1024", 24 << 20 },
	{ "no flex_bg", "^flex_bg", "-b 1024 -g 2048", 24 << 20 },
	{ "flex_bg", "", "-b 1024 -g 1024 -G 8", 48 << 20 },
	{ "short last group", "", "-b 1024 -g 1024", (20 << 20) + (300 << 10) },
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static char path[64];

static void new_path(void)
{
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/test_scan.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
}

static int remove_image(void **state)
{
	(void)state;
	if (path[0])
		unlink(path);
	path[0] = '\0';
	return 0;
}

static void populate(struct image *im, bool inline_data)
{
	uint32_t dir = image_dir(im, IMAGE_ROOT, "dir"), deep = image_dir(im, dir, "deeper"), ino;
	char name[64], target[200];

	image_put(im, dir, "one run", &(struct place){ .len = 50 }, 50);
	image_put(im, dir, "deep", &(struct place){ .order = PLACE_SHUFFLED }, 700);
	image_put(im, deep, "holes", &(struct place){ .len = 2, .hole = 3 }, 60);
	image_put(im, deep, "back", &(struct place){ .order = PLACE_BACKWARD }, 30);
	image_put(im, deep, "unwritten", &(struct place){ .len = 3, .every_unwritten = 2 }, 30);
	image_file(im, deep, "empty");
	image_put_mapped(im, deep, "mapped", &(struct place){ .order = PLACE_FORWARD }, 300);
	image_put_mapped(im, deep, "mapped far",
			 &(struct place){ .order = PLACE_BACKWARD, .len = 4, .hole = 30000 }, 20);
	image_symlink(im, deep, "fast", "target");
	memset(target, 't', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	image_symlink(im, deep, "slow", target);
	ino = image_put(im, deep, "xattr", &(struct place){ .len = 1 }, 3);
	image_xattr(im, ino, "user.big", 600);
	if (inline_data)
		image_inline(im, dir, "inline", 40);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "a rather long name of file number %d", i);
		image_put(im, deep, name, &(struct place){ .len = 1 }, 1);
	}
	image_shatter(im, deep, &(struct place){ .order = PLACE_SHUFFLED });
}

static void make_image(const struct layout *s)
{
	struct image *im;

	new_path();
	image_mke2fs(path, s->size, s->features, s->args);
	im = image_open(path);
	populate(im, strstr(s->features, "inline_data") != NULL);
	image_close(im);
	image_fsck(path, "-fn", 0);
}

static struct volume *open_volume(void)
{
	struct volume_options o = { .path = path, .read_only = true };
	struct error err = ERROR_INIT;
	struct volume *v = NULL;

	if (volume_open(&o, &v, &err))
		fail_msg("%s", err.text);
	return v;
}

static struct snapshot *scan(struct volume *v, unsigned threads)
{
	struct scan_options o = { .threads = threads, .queue_depth = 8 };
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;

	if (scan_volume(v, &o, &s, &err))
		fail_msg("%s", err.text);
	return s;
}

/* --- libext2fs' view ---------------------------------------------------------------------- */

static ext2_filsys open_fs(int flags)
{
	ext2_filsys fs;

	assert_int_equal(
		ext2fs_open2(path, "", EXT2_FLAG_64BITS | flags, 0, 0, unix_io_manager, &fs), 0);
	assert_int_equal(ext2fs_read_bitmaps(fs), 0);
	return fs;
}

static void close_fs(ext2_filsys fs)
{
	assert_int_equal(ext2fs_close_free(&fs), 0);
}

/* Compares a file's records and counts its tree blocks; gives the number of records. */
static size_t compare_map(ext2_filsys fs, uint32_t ino, const struct filemap *m)
{
	ext2_extent_handle_t h;
	struct ext2fs_extent e;
	size_t n = 0, at[EXTENT_MAX_DEPTH] = { 0 };
	struct ext2_extent_info info;
	int op = EXT2_EXTENT_ROOT;

	assert_int_equal(ext2fs_extent_open(fs, ino, &h), 0);
	for (; !ext2fs_extent_get(h, op, &e); op = EXT2_EXTENT_NEXT) {
		assert_int_equal(ext2fs_extent_get_info(h, &info), 0);
		if (e.e_flags & EXT2_EXTENT_FLAGS_LEAF) {
			if (m) {
				assert_true(n < m->n_ext);
				assert_int_equal(m->ext[n].lblk, e.e_lblk);
				assert_int_equal(m->ext[n].pblk, e.e_pblk);
				assert_int_equal(m->ext[n].len, e.e_len);
				assert_int_equal(m->ext[n].unwritten,
						 !!(e.e_flags & EXT2_EXTENT_FLAGS_UNINIT));
			}
			n++;
		} else if (m && !(e.e_flags & EXT2_EXTENT_FLAGS_SECOND_VISIT)) {
			uint32_t level = (uint32_t)(info.max_depth - info.curr_level - 1);

			assert_true(level < m->depth && at[level] < m->tree->n_node[level]);
			assert_int_equal(m->tree->node[level][at[level]++].pblk, e.e_pblk);
		}
	}
	if (m) {
		assert_int_equal(n, m->n_ext);
		assert_int_equal(m->depth, info.max_depth);
		for (uint32_t l = 0; l < m->depth; l++)
			assert_int_equal(at[l], m->tree->n_node[l]);
	}
	ext2fs_extent_free(h);
	return n;
}

/* Where a data block stands among all blocks of a block-mapped file: behind the indirect blocks
 * that a reader has come through. */
static uint64_t number_of(uint64_t lblk, uint64_t per)
{
	uint64_t k, n = lblk;

	if (lblk < 12)
		return n;
	k = (lblk - 12) / per;
	n += k + 1; /* single ones */
	if (k >= 1)
		n += 1;
	if (k > per)
		n += 1 + (k - 1 - per) / per + 1;
	return n;
}

struct mapped_blocks {
	const struct filemap *map;
	uint32_t per;
	uint64_t at; /* blocks seen */
	size_t ext;
	uint32_t within;
};

static int compare_block(ext2_filsys fs, blk64_t *block, e2_blkcnt_t lblk, blk64_t ref, int off,
			 void *priv)
{
	struct mapped_blocks *m = priv;
	const struct extent *e = &m->map->ext[m->ext];

	(void)fs;
	(void)ref;
	(void)off;
	assert_true(m->ext < m->map->n_ext);
	assert_int_equal(*block, e->pblk + m->within);
	assert_false(e->unwritten);
	if (lblk >= 0)
		assert_int_equal(number_of((uint64_t)lblk, m->per), e->lblk + m->within);
	if (++m->within == e->len) {
		m->ext++;
		m->within = 0;
	}
	return 0;
}

/* libext2fs visits the blocks in the order of their numbers. */
static void compare_mapped(ext2_filsys fs, uint32_t ino, const struct filemap *map)
{
	struct mapped_blocks m = { .map = map, .per = fs->blocksize / 4 };

	assert_true(map->indirect);
	assert_int_equal(map->depth, 0);
	assert_null(filemap_check(map, fs->blocksize));
	assert_int_equal(
		ext2fs_block_iterate3(fs, ino, BLOCK_FLAG_READ_ONLY, NULL, compare_block, &m), 0);
	assert_int_equal(m.ext, map->n_ext);
	for (size_t i = 1; i < map->n_ext; i++) /* records are as long as they can be */
		assert_false(map->ext[i].lblk == map->ext[i - 1].lblk + map->ext[i - 1].len &&
			     map->ext[i].pblk == map->ext[i - 1].pblk + map->ext[i - 1].len &&
			     map->ext[i - 1].len < INDIRECT_MAX_LEN);
}

static bool is_left(const struct snapshot *s, uint32_t ino, enum leave_reason why)
{
	for (size_t i = 0; i < s->n_left; i++)
		if (s->left_ino[i] == ino)
			return s->left_why[i] == why;
	return false;
}

static void compare_files(ext2_filsys fs, const struct snapshot *s)
{
	ext2_inode_scan scan_handle;
	struct ext2_inode in;
	ext2_ino_t ino;
	size_t files = 0, mapped = 0;

	assert_int_equal(ext2fs_open_inode_scan(fs, 0, &scan_handle), 0);
	while (!ext2fs_get_next_inode(scan_handle, &ino, &in) && ino) {
		const struct snapshot_file *f = snapshot_find(s, ino);

		if (!in.i_links_count || (ino < EXT2_FIRST_INODE(fs->super) && ino != 2) ||
		    ino == fs->super->s_orphan_file_inum) {
			assert_null(f);
			continue;
		}
		if (!(in.i_flags & EXT4_EXTENTS_FL)) {
			bool blocks = ext2fs_inode_has_valid_blocks2(fs, &in) && in.i_blocks &&
				      !(in.i_flags & EXT4_INLINE_DATA_FL);

			assert_int_equal(blocks, f != NULL);
			if (blocks)
				compare_mapped(fs, ino, &f->map);
			mapped += blocks;
			continue;
		}
		if (!compare_map(fs, ino, f ? &f->map : NULL)) {
			assert_null(f);
			continue;
		}
		assert_non_null(f);
		files++;
	}
	ext2fs_close_inode_scan(scan_handle);
	assert_int_equal(files + mapped, s->n_file);
	assert_int_equal(files + mapped, s->count[LEAVE_NONE]);
	assert_int_equal(0, s->count[LEAVE_BLOCK_MAPPED]);
}

static void compare_free(ext2_filsys fs, const struct rangeset *rs)
{
	for (blk64_t b = fs->super->s_first_data_block; b < ext2fs_blocks_count(fs->super); b++)
		if (rangeset_contains(rs, b, 1) == !!ext2fs_test_block_bitmap2(fs->block_map, b))
			fail_msg("block %llu", (unsigned long long)b);
	assert_int_equal(rangeset_blocks(rs), ext2fs_free_blocks_count(fs->super));
}

/* Fixed, free and the movable files' own blocks are all there is, and apart. */
static void check_partition(const struct snapshot *s)
{
	uint64_t own = 0;

	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *m = &s->file[i].map;

		own += filemap_blocks(m->ext, m->n_ext) + filemap_nodes(m);
		for (size_t k = 0; k < m->n_ext; k++)
			assert_false(rangeset_overlaps(s->fixed, m->ext[k].pblk, m->ext[k].len));
	}
	assert_int_equal(own + rangeset_blocks(s->fixed) + rangeset_blocks(s->free),
			 s->geo.blocks - s->geo.first_data_block);
}

/* --- good images --------------------------------------------------------------------------- */

static void test_scan_volume__agrees_with_libext2fs(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct volume *v;
		struct snapshot *s;
		ext2_filsys fs;

		make_image(&shapes[i]);
		v = open_volume();
		s = scan(v, 2);
		fs = open_fs(0);
		print_message("  %s: %zu files, %zu left\n", shapes[i].name, s->n_file, s->n_left);
		compare_files(fs, s);
		compare_free(fs, s->free);
		check_partition(s);
		assert_true(is_left(s, EXT2_JOURNAL_INO, LEAVE_RESERVED));
		if (ext2fs_has_feature_orphan_file(fs->super))
			assert_true(is_left(s, fs->super->s_orphan_file_inum, LEAVE_ORPHAN_FILE));
		close_fs(fs);
		snapshot_free(s);
		volume_close(v);
		unlink(path);
	}
}

static char *dump(const struct snapshot *s)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	assert_int_equal(report_snapshot(to, s), 0);
	fclose(to);
	return text;
}

static void test_scan_volume__same_text_for_any_thread_count(void **state)
{
	static const unsigned threads[] = { 1, 4, 9 };
	char *first = NULL;

	(void)state;
	make_image(&shapes[12]);
	for (size_t i = 0; i < 3; i++) {
		struct volume *v = open_volume();
		struct snapshot *s = scan(v, threads[i]);
		char *text = dump(s);

		if (first)
			assert_string_equal(first, text);
		else
			first = strdup(text);
		free(text);
		snapshot_free(s);
		volume_close(v);
	}
	free(first);
}

/* All inodes, and then some and the others: what is in their tables, as the scan of all has it. */
static void check_parts(struct volume *v, struct snapshot *s)
{
	const struct scan_options o = { .threads = 2, .queue_depth = 8 };
	struct error err = ERROR_INIT;
	char *all = dump(s), *text;
	size_t n = s->n_file, lower;
	uint32_t middle = s->file[n / 2].ino;

	if (scan_part(v, &o, 1, UINT32_MAX, s, &err))
		fail_msg("%s", err.text);
	text = dump(s);
	assert_string_equal(all, text);
	free(text);
	free(all);
	if (scan_part(v, &o, 1, middle - 1, s, &err))
		fail_msg("%s", err.text);
	lower = s->n_file;
	assert_int_equal(lower, n / 2);
	assert_true(!lower || s->file[lower - 1].ino < middle);
	if (scan_part(v, &o, middle, UINT32_MAX, s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(s->n_file, n - lower);
	assert_int_equal(s->file[0].ino, middle);
}

static void test_scan_part__the_same_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i += 3) {
		struct volume *v;
		struct snapshot *s;

		make_image(&shapes[i]);
		v = open_volume();
		s = scan(v, 2);
		check_parts(v, s);
		snapshot_free(s);
		volume_close(v);
		unlink(path);
	}
}

static void test_scan_volume__a_tree_of_two_levels(void **state)
{
	struct image *im;
	struct volume *v;
	struct snapshot *s;
	const struct snapshot_file *f;
	ext2_filsys fs;
	uint32_t ino;

	(void)state;
	new_path();
	image_mke2fs(path, 24 << 20, "", "-b 1024");
	im = image_open(path);
	ino = image_put(im, IMAGE_ROOT, "big", &(struct place){ .order = PLACE_SHUFFLED }, 7000);
	image_close(im);
	v = open_volume();
	s = scan(v, 1);
	f = snapshot_find(s, ino);
	assert_non_null(f);
	assert_int_equal(f->map.depth, 2);
	fs = open_fs(0);
	compare_files(fs, s);
	close_fs(fs);
	snapshot_free(s);
	volume_close(v);
}

static void test_scan_volume__excluded_files_stay(void **state)
{
	struct volume *v;
	struct snapshot *s;
	struct scan_options o = { .threads = 1, .queue_depth = 4 };
	struct error err = ERROR_INIT;
	uint32_t drop[2];
	size_t n, deep;
	struct filemap m[2];
	struct range bad[] = { { 0, 0 } };

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	s = scan(v, 1);
	n = s->n_file;
	for (deep = 0; !s->file[deep].map.depth; deep++)
		;
	drop[0] = s->file[deep].ino;
	drop[1] = s->file[n - 1].ino;
	assert_int_equal(filemap_copy(&s->file[deep].map, &m[0], &err), 0);
	assert_int_equal(filemap_copy(&s->file[n - 1].map, &m[1], &err), 0);
	assert_true(rangeset_next(s->free, 0, &bad[0]));
	bad[0].len = 1;
	snapshot_free(s);
	o.exclude = drop;
	o.n_exclude = 2;
	o.avoid = bad;
	o.n_avoid = 1;
	o.limits.copy_blocks = 77;
	assert_int_equal(scan_volume(v, &o, &s, &err), 0);
	assert_int_equal(s->n_file, n - 2);
	assert_int_equal(s->limits.copy_blocks, 77);
	assert_true(rangeset_contains(s->avoid, bad[0].start, 1));
	assert_true(rangeset_contains(s->free, bad[0].start, 1));
	for (int i = 0; i < 2; i++) {
		assert_null(snapshot_find(s, drop[i]));
		assert_true(is_left(s, drop[i], LEAVE_EXCLUDED));
		for (size_t k = 0; k < m[i].n_ext; k++)
			assert_true(rangeset_contains(s->fixed, m[i].ext[k].pblk, m[i].ext[k].len));
		for (size_t k = 0; m[i].depth && k < m[i].tree->n_node[0]; k++)
			assert_true(rangeset_contains(s->fixed, m[i].tree->node[0][k].pblk, 1));
		filemap_release(&m[i]);
	}
	check_partition(s);
	snapshot_free(s);
	volume_close(v);
}

static void test_scan_volume__boot_files_stay(void **state)
{
	struct image *im;
	struct volume *v;
	struct snapshot *s;
	uint32_t boot, ext, pinned[4], free_to_go[2];

	(void)state;
	new_path();
	image_mke2fs(path, 24 << 20, "", "-b 1024");
	im = image_open(path);
	boot = image_dir(im, IMAGE_ROOT, "boot");
	ext = image_dir(im, boot, "extlinux");
	pinned[0] = image_put(im, boot, "vmlinuz", &(struct place){ .len = 1 }, 20);
	pinned[1] = image_put(im, boot, "map", &(struct place){ .len = 1 }, 3);
	pinned[2] = image_put(im, ext, "ldlinux.sys", &(struct place){ .len = 1 }, 6);
	pinned[3] = image_put(im, boot, "initrd", &(struct place){ .order = PLACE_BACKWARD }, 400);
	free_to_go[0] = image_put(im, ext, "ldlinux.c32", &(struct place){ .len = 1 }, 6);
	free_to_go[1] = image_put(im, IMAGE_ROOT, "other", &(struct place){ .len = 1 }, 6);
	image_close(im);
	v = open_volume();
	s = scan(v, 2);
	for (size_t i = 0; i < 4; i++) {
		assert_null(snapshot_find(s, pinned[i]));
		assert_true(is_left(s, pinned[i], LEAVE_BOOT));
	}
	for (size_t i = 0; i < 2; i++)
		assert_non_null(snapshot_find(s, free_to_go[i]));
	assert_non_null(snapshot_find(s, boot));
	assert_int_equal(s->count[LEAVE_BOOT], 4);
	for (size_t i = 1; i < s->n_left; i++)
		assert_true(s->left_ino[i] > s->left_ino[i - 1]);
	check_partition(s);
	snapshot_free(s);
	volume_close(v);
}

/* From one extent of one block to a block pointer, as a directory made under ext3 has it. */
static void make_block_mapped(uint32_t ino)
{
	ext2_filsys fs = open_fs(EXT2_FLAG_RW);
	struct ext2_inode a;
	struct ext3_extent *e = (struct ext3_extent *)&a.i_block[3];
	uint32_t block;

	assert_int_equal(ext2fs_read_inode(fs, ino, &a), 0);
	assert_true(a.i_flags & EXT4_EXTENTS_FL);
	assert_int_equal(e->ee_len, 1);
	block = e->ee_start;
	memset(a.i_block, 0, sizeof(a.i_block));
	a.i_block[0] = block;
	a.i_flags &= ~(uint32_t)EXT4_EXTENTS_FL;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
}

static void test_scan_volume__boot_files_stay_in_old_directories(void **state)
{
	struct image *im;
	struct volume *v;
	struct snapshot *s;
	uint32_t boot, map, pinned[2];

	(void)state;
	new_path();
	image_mke2fs(path, 24 << 20, "", "-b 1024");
	im = image_open(path);
	boot = image_dir(im, IMAGE_ROOT, "boot");
	pinned[0] = image_put(im, boot, "vmlinuz", &(struct place){ .len = 1 }, 20);
	pinned[1] = image_put(im, boot, "ldlinux.sys", &(struct place){ .len = 1 }, 6);
	map = image_put(im, boot, "map", &(struct place){ .len = 1 }, 1);
	image_close(im);
	make_block_mapped(EXT2_ROOT_INO);
	make_block_mapped(boot);
	make_block_mapped(map);
	v = open_volume();
	s = scan(v, 2);
	assert_true(snapshot_find(s, boot)->map.indirect);
	assert_true(is_left(s, map, LEAVE_BOOT));
	for (size_t i = 0; i < 2; i++)
		assert_true(is_left(s, pinned[i], LEAVE_BOOT));
	check_partition(s);
	snapshot_free(s);
	volume_close(v);
}

static void test_scan_volume__quota_files(void **state)
{
	struct scan_options o = { .threads = 1,
				  .queue_depth = 4,
				  .limits = { .journal_blocks = 100, .copy_blocks = 1 << 20 } };
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;
	struct image *im;
	struct volume *v;
	uint32_t ino;

	(void)state;
	new_path();
	image_mke2fs(path, 24 << 20, "", "-b 1024");
	im = image_open(path);
	image_dir(im, IMAGE_ROOT, "quota.user"); /* no file: no quotas */
	ino = image_put(im, IMAGE_ROOT, "aquota.group", &(struct place){ .len = 1 }, 7);
	image_close(im);
	v = open_volume();
	assert_int_equal(scan_volume(v, &o, &s, &err), 0);
	assert_true(is_left(s, ino, LEAVE_QUOTA));
	assert_int_equal(s->quota_ino[0], 0);
	assert_int_equal(s->quota_ino[1], ino);
	assert_int_equal(s->limits.journal_blocks, 100 - 7);
	snapshot_free(s);
	o.limits.journal_blocks = 13;
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_non_null(strstr(err.text, "too many for a transaction of 13"));
	volume_close(v);
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "quota.group", &(struct place){ .len = 1 }, 7);
	image_close(im);
	v = open_volume();
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_non_null(strstr(err.text, "/quota.group"));
	volume_close(v);
}

static void count_progress(void *ctx, uint64_t done, uint64_t total)
{
	uint64_t *last = ctx;

	assert_int_equal(done, *last + 1);
	assert_true(done <= total);
	*last = done;
}

static void test_scan_volume__progress_and_stop(void **state)
{
	volatile int stop = 0;
	uint64_t last = 0;
	struct scan_options o = { .threads = 3,
				  .queue_depth = 4,
				  .progress = count_progress,
				  .ctx = &last,
				  .stop = &stop };
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct volume *v;

	(void)state;
	make_image(&shapes[12]);
	v = open_volume();
	assert_int_equal(scan_volume(v, &o, &s, &err), 0);
	assert_int_equal(last, volume_geometry(v)->groups);
	snapshot_free(s);
	stop = 1;
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_int_equal(err.kind, ERROR_STOPPED);
	volume_close(v);
}

/* Whichever read fails: an I/O error, and no leak. */
static void test_scan_volume__every_read_may_fail(void **state)
{
	static const enum fault_op ops[] = { FAULT_READ, FAULT_SUBMIT };
	struct faultdev *fd = faultdev_new();
	struct volume_options o = {
		.path = path, .read_only = true, .wrap = faultdev_wrap, .wrap_ctx = fd
	};
	const struct scope_item item = { SCOPE_EXCLUDE, "/dir/deep" };
	struct scan_options so = { .threads = 2, .queue_depth = 3, .scope = &item, .n_scope = 1 };
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;
	struct volume *v;

	(void)state;
	make_image(&shapes[0]);
	if (volume_open(&o, &v, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < 2; i++) {
		uint64_t nth = 1;

		for (;; nth++) {
			faultdev_set(fd, (struct fault_plan){ .op = ops[i], .nth = nth });
			err = ERROR_INIT;
			s = NULL;
			if (!scan_volume(v, &so, &s, &err))
				break;
			assert_null(s);
			if (err.kind != ERROR_OPERATION)
				fail_msg("%s", err.text);
		}
		assert_int_equal(faultdev_fired(fd), 0);
		assert_true(nth > 2);
		snapshot_free(s);
	}
	volume_close(v);
	faultdev_free(fd);
}

static void test_scan_files__reads_the_same_maps(void **state)
{
	struct volume *v;
	struct snapshot *s;
	struct error err = ERROR_INIT;
	uint32_t *inos;
	struct filemap *maps;

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	s = scan(v, 1);
	inos = calloc(s->n_file, sizeof(*inos));
	maps = calloc(s->n_file, sizeof(*maps));
	for (size_t i = 0; i < s->n_file; i++)
		inos[i] = s->file[i].ino;
	if (scan_files(v, inos, s->n_file, 4, maps, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < s->n_file; i++) {
		const struct filemap *a = &s->file[i].map, *b = &maps[i];

		assert_int_equal(a->n_ext, b->n_ext);
		assert_int_equal(a->depth, b->depth);
		assert_int_equal(a->indirect, b->indirect);
		assert_false(memcmp(a->ext, b->ext, a->n_ext * sizeof(*a->ext)));
		for (uint32_t l = 0; l < a->depth; l++) {
			assert_int_equal(a->tree->n_node[l], b->tree->n_node[l]);
			assert_false(memcmp(a->tree->node[l], b->tree->node[l],
					    a->tree->n_node[l] * sizeof(*a->tree->node[l])));
		}
		filemap_release(&maps[i]);
	}
	free(inos);
	free(maps);
	snapshot_free(s);
	volume_close(v);
}

static void test_scan_files__refuses_what_is_no_movable_file(void **state)
{
	static const uint32_t wrong[] = { EXT2_JOURNAL_INO, 4000, 0xffffffffu, 0 };
	struct volume *v;

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	for (size_t i = 0; i < 4; i++) {
		struct error err = ERROR_INIT;
		struct filemap m = { 0 };

		assert_int_equal(scan_files(v, &wrong[i], 1, 4, &m, &err), -1);
		assert_non_null(strstr(err.text, "inode"));
	}
	volume_close(v);
}

static void test_scan_free__reads_descriptors_anew(void **state)
{
	struct volume *v;
	struct rangeset *rs;
	struct error err = ERROR_INIT;
	ext2_filsys fs;
	blk64_t b;

	(void)state;
	make_image(&shapes[12]);
	v = open_volume();
	fs = open_fs(EXT2_FLAG_RW);
	/* A block of the last group: its bitmap, count, flag and checksum change behind v's back.
	 */
	b = ext2fs_blocks_count(fs->super) - 1;
	assert_false(ext2fs_test_block_bitmap2(fs->block_map, b));
	ext2fs_block_alloc_stats2(fs, b, +1);
	close_fs(fs);
	if (scan_free(v, 2, NULL, &rs, &err))
		fail_msg("%s", err.text);
	fs = open_fs(0);
	compare_free(fs, rs);
	close_fs(fs);
	rangeset_free(rs);
	volume_close(v);
}

static uint32_t lookup(const char *name)
{
	ext2_filsys fs = open_fs(0);
	ext2_ino_t ino;

	assert_int_equal(ext2fs_namei(fs, 2, 2, name, &ino), 0);
	close_fs(fs);
	return ino;
}

static void test_scan_names__finds_paths(void **state)
{
	static const char *const want[] = { "/", "/dir", "/dir/deep", "/dir/deeper/slow",
					    "/dir/deeper/a rather long name of file number 199" };
	uint32_t inos[6] = { 2 };
	char *paths[6] = { 0 };
	struct error err = ERROR_INIT;
	struct volume *v;

	(void)state;
	make_image(&shapes[0]);
	for (size_t i = 1; i < 5; i++)
		inos[i] = lookup(want[i]);
	inos[5] = 4000; /* not there */
	for (size_t i = 1; i < 6; i++)
		assert_true(inos[i] > inos[i - 1]);
	v = open_volume();
	if (scan_names(v, inos, 6, paths, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(paths[i], want[i]);
		free(paths[i]);
	}
	assert_null(paths[5]);
	volume_close(v);
}

/* What scope says of a file: LEAVE_NONE if it can be moved. */
static enum leave_reason verdict(const struct snapshot *s, const char *name)
{
	uint32_t ino = lookup(name);

	for (size_t i = 0; i < s->n_left; i++)
		if (s->left_ino[i] == ino)
			return (enum leave_reason)s->left_why[i];
	assert_non_null(snapshot_find(s, ino));
	return LEAVE_NONE;
}

static void test_scan_volume__scope(void **state)
{
#define LONG "/dir/deeper/a rather long name of file number 199"
	static const struct {
		struct scope_item item[3];
		size_t n;
		enum leave_reason dir, deep, slow; /* /dir, /dir/deep, LONG */
	} cases[] = {
#define N LEAVE_NONE
#define S LEAVE_SCOPE
#define P LEAVE_PINNED
		{ { { SCOPE_PATH, "/" } }, 1, N, N, N },
		{ { { SCOPE_PATH, "/dir" } }, 1, N, N, N },
		{ { { SCOPE_PATH, "//dir//deep" } }, 1, S, N, S },
		{ { { SCOPE_PATH, "dir/./deeper/" } }, 1, S, S, N },
		{ { { SCOPE_PATH, "dir/deep" }, { SCOPE_PATH, LONG } }, 2, S, N, N },
		{ { { SCOPE_INCLUDE, "deep" } }, 1, S, N, S },
		{ { { SCOPE_INCLUDE, "deep*" } }, 1, S, N, N },
		{ { { SCOPE_INCLUDE, "/*/deep" } }, 1, S, N, S },
		{ { { SCOPE_INCLUDE, "*/@(deep|none)" } }, 1, S, N, S },
		{ { { SCOPE_INCLUDE, "/deep" } }, 1, S, S, S },
		{ { { SCOPE_INCLUDE, "dir*199" } }, 1, S, S, S },
		{ { { SCOPE_INCLUDE, "*199" }, { SCOPE_PATH, "/dir/deeper" } }, 2, S, S, N },
		{ { { SCOPE_INCLUDE, "deep" }, { SCOPE_PATH, "/dir/deeper" } }, 2, S, S, S },
		{ { { SCOPE_EXCLUDE, "deeper" } }, 1, N, N, S },
		{ { { SCOPE_EXCLUDE, "/dir" } }, 1, S, S, S },
		{ { { SCOPE_EXCLUDE, "deep" }, { SCOPE_PATH, "/dir" } }, 2, N, S, N },
		{ { { SCOPE_PIN, "deep" } }, 1, N, P, N },
		{ { { SCOPE_PIN, "dir/deep" }, { SCOPE_PATH, "dir/deeper" } }, 2, S, P, N },
#undef N
#undef S
#undef P
	};
	struct volume *v;
	struct snapshot *s;
	struct error err = ERROR_INIT;

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scan_options o = { .threads = 2,
					  .queue_depth = 4,
					  .scope = cases[i].item,
					  .n_scope = cases[i].n };

		if (scan_volume(v, &o, &s, &err))
			fail_msg("case %zu: %s", i, err.text);
		if (verdict(s, "/dir") != cases[i].dir ||
		    verdict(s, "/dir/deep") != cases[i].deep || verdict(s, LONG) != cases[i].slow)
			fail_msg("case %zu: %d %d %d", i, verdict(s, "/dir"),
				 verdict(s, "/dir/deep"), verdict(s, LONG));
		assert_int_equal(s->count[LEAVE_NONE], s->n_file);
		check_partition(s);
		snapshot_free(s);
	}
	volume_close(v);
#undef LONG
}

static size_t place_of(const struct snapshot *s, const char *name)
{
	uint32_t ino = lookup(name);

	size_t i = 0;

	while (i < s->n_file && s->file[s->order[i]].ino != ino)
		i++;
	if (i == s->n_file)
		fail_msg("%s has no place", name);
	return i;
}

static struct snapshot *scan_in_order(const char *front)
{
	struct scan_options o = { .threads = 2, .queue_depth = 4, .order = true, .front = front };
	struct volume *v = open_volume();
	struct error err = ERROR_INIT;
	struct snapshot *s;

	if (scan_volume(v, &o, &s, &err))
		fail_msg("%s", err.text);
	assert_non_null(s->order);
	volume_close(v);
	return s;
}

static void test_scan_volume__order(void **state)
{
	struct snapshot *s;
	size_t dir, deeper;

	(void)state;
	make_image(&shapes[0]);
	s = scan_in_order(NULL);
	assert_int_equal(s->n_front, 0);
	assert_int_equal(place_of(s, "/"), 0);
	dir = place_of(s, "/dir");
	deeper = place_of(s, "/dir/deeper");
	assert_int_equal(place_of(s, "/dir/one run"), dir + 1); /* in the order of its names */
	assert_int_equal(place_of(s, "/dir/deep"), dir + 2);
	assert_int_equal(deeper, dir + 3); /* breadth first */
	assert_int_equal(place_of(s, "/dir/deeper/holes"), deeper + 1);
	assert_int_equal(place_of(s, "/dir/deeper/back"), deeper + 2);
	snapshot_free(s);
}

static void test_scan_volume__front_list(void **state)
{
	struct image *im;
	struct snapshot *s;
	char front[400];

	(void)state;
	make_image(&shapes[0]);
	im = image_open(path);
	image_symlink(im, IMAGE_ROOT, "link", "dir/deep");
	image_symlink(im, IMAGE_ROOT, "loop", "/loop");
	image_close(im);
	snprintf(front, sizeof(front),
		 "/dir/deeper/back\n%u\r\n\n/nothing\n/dir/deep/"
		 "x\n4294967296\n99999999999999999999\n"
		 "/loop\nlink\n/dir/deeper/back\n/dir/deeper/mapped\n12 not a number\n/dir",
		 lookup("/dir/one run"));
	s = scan_in_order(front);
	assert_int_equal(s->n_front, 5);
	assert_int_equal(place_of(s, "/dir/deeper/back"), 0);
	assert_int_equal(place_of(s, "/dir/one run"), 1);
	assert_int_equal(place_of(s, "/dir/deep"), 2);
	assert_int_equal(place_of(s, "/dir/deeper/mapped"), 3);
	assert_int_equal(place_of(s, "/dir"), 4);
	snapshot_free(s);
}

/* A free inode that looks like a directory without end: its tree of blocks is one block, again and
 * again. Followed, it would keep us for hours. */
static uint32_t endless_directory(ext2_filsys fs)
{
	uint32_t ino = fs->super->s_inodes_per_group - 1, pointer[256];
	struct ext2_inode inode = { .i_mode = LINUX_S_IFDIR | 0755, .i_size = 4096 };
	blk64_t block;

	assert_false(ext2fs_test_inode_bitmap2(fs->inode_map, ino));
	assert_int_equal(ext2fs_new_block2(fs, 0, NULL, &block), 0);
	for (size_t i = 0; i < 256; i++)
		pointer[i] = (uint32_t)block;
	assert_int_equal(io_channel_write_blk64(fs->io, block, -(int)sizeof(pointer), pointer), 0);
	inode.i_block[EXT2_TIND_BLOCK] = (uint32_t)block;
	assert_int_equal(ext2fs_write_new_inode(fs, ino, &inode), 0);
	inode.i_links_count = 0;
	assert_int_equal(ext2fs_write_inode(fs, ino, &inode), 0);
	return ino;
}

static void test_scan_volume__names_lead_to_free_inodes(void **state)
{
	struct scan_options o = { .threads = 1, .queue_depth = 4, .order = true };
	uint32_t ino, missing;
	struct snapshot *s = NULL;
	struct error err = ERROR_INIT;
	struct volume *v;
	ext2_filsys fs;
	char *path_of;

	(void)state;
	make_image(&shapes[0]);
	fs = open_fs(EXT2_FLAG_RW);
	ino = endless_directory(fs);
	assert_int_equal(ext2fs_link(fs, EXT2_ROOT_INO, "boot", ino, EXT2_FT_DIR), 0);
	close_fs(fs);
	v = open_volume();
	snapshot_free(scan(v, 1)); /* boot files are looked for */
	missing = 4;		   /* no name has it: all are read */
	assert_int_equal(scan_names(v, &missing, 1, &path_of, &err), 0);
	assert_null(path_of);
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	assert_non_null(strstr(err.text, "which is not in use"));
	volume_close(v);
}

static void test_scan_volume__scope_without_its_path(void **state)
{
	static const char *const none[] = { "/nothing", "dir/nothing/x", "/dir/deep/x" };
	struct volume *v;

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	for (size_t i = 0; i < 3; i++) {
		const struct scope_item item = { SCOPE_PATH, none[i] };
		struct scan_options o = {
			.threads = 1, .queue_depth = 4, .scope = &item, .n_scope = 1
		};
		struct error err = ERROR_INIT;
		struct snapshot *s = NULL;

		assert_int_equal(scan_volume(v, &o, &s, &err), -1);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_non_null(strstr(err.text, none[i]));
		assert_null(s);
	}
	volume_close(v);
}

/* --- damaged images ------------------------------------------------------------------------ */

/* The scan must refuse, and its text must hold `what`. */
static void refused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void refused(const char *fmt, ...)
{
	struct volume *v = open_volume();
	struct scan_options o = { .threads = 2, .queue_depth = 4 };
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_null(s);
	if (err.kind != ERROR_FSCK || !strstr(err.text, what) || !strstr(err.text, "e2fsck -f"))
		fail_msg("wanted \"%s\", got: %s", what, err.text);
	volume_close(v);
}

static void test_scan_volume__a_used_block_marked_free(void **state)
{
	ext2_filsys fs;
	blk64_t b = 0;
	uint32_t ino;

	(void)state;
	make_image(&shapes[0]);
	ino = lookup("/dir/one run");
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_bmap2(fs, ino, NULL, NULL, 0, 7, NULL, &b), 0);
	ext2fs_block_alloc_stats2(fs, b, -1);
	close_fs(fs);
	refused("block %llu is in use by inode %u but free", (unsigned long long)b, ino);
}

static void test_scan_volume__a_free_block_marked_used(void **state)
{
	ext2_filsys fs;
	blk64_t b = 0;

	(void)state;
	make_image(&shapes[1]);
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_new_block2(fs, 0, NULL, &b), 0);
	ext2fs_block_alloc_stats2(fs, b, +1);
	close_fs(fs);
	refused("block %llu is marked in use", (unsigned long long)b);
}

static void test_scan_volume__metadata_marked_free(void **state)
{
	ext2_filsys fs;
	blk64_t b;

	(void)state;
	make_image(&shapes[9]);
	fs = open_fs(EXT2_FLAG_RW);
	b = ext2fs_inode_table_loc(fs, 1);
	ext2fs_block_alloc_stats2(fs, b, -1);
	close_fs(fs);
	refused("block %llu is in use by metadata of group 1 but free", (unsigned long long)b);
}

static void test_scan_volume__a_block_claimed_twice(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a, b;
	uint32_t one, two;

	(void)state;
	make_image(&shapes[1]);
	one = lookup("/dir/one run");
	two = lookup("/dir/deeper/holes");
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, one, &a), 0);
	assert_int_equal(ext2fs_read_inode(fs, two, &b), 0);
	memcpy(b.i_block, a.i_block, sizeof(a.i_block));
	assert_int_equal(ext2fs_write_inode(fs, two, &b), 0);
	close_fs(fs);
	refused("is claimed by inode %u and by inode %u", one, two);
}

static void test_scan_volume__metadata_claimed_by_a_file(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	struct ext3_extent *e = (struct ext3_extent *)&a.i_block[3];
	uint32_t one;

	(void)state;
	make_image(&shapes[1]);
	one = lookup("/dir/one run");
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, one, &a), 0);
	e->ee_start = (uint32_t)ext2fs_inode_table_loc(fs, 0);
	assert_int_equal(ext2fs_write_inode(fs, one, &a), 0);
	close_fs(fs);
	refused("is claimed by inode %u and by metadata of group 0", one);
}

/* A tree block, an indirect block, data and an xattr block of others. */
static void test_scan_volume__any_block_claimed_by_a_file(void **state)
{
	static const char *const of[] = { "/dir/deep", "/dir/deeper/mapped", "/dir/deeper/mapped",
					  "/dir/deeper/xattr" };

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct ext2_inode a, b;
		struct ext3_extent *e = (struct ext3_extent *)&a.i_block[3];
		struct ext3_extent_idx *leaf = (struct ext3_extent_idx *)&b.i_block[3];
		uint32_t one, other, block;
		ext2_filsys fs;

		make_image(&shapes[1]);
		one = lookup("/dir/one run");
		other = lookup(of[i]);
		fs = open_fs(EXT2_FLAG_RW);
		assert_int_equal(ext2fs_read_inode(fs, one, &a), 0);
		assert_int_equal(ext2fs_read_inode(fs, other, &b), 0);
		block = i == 0	 ? leaf->ei_leaf
			: i == 3 ? (uint32_t)ext2fs_file_acl_block(fs, &b)
				 : b.i_block[i == 1 ? EXT2_IND_BLOCK : 5];
		assert_true(block > 0);
		e->ee_start = block;
		assert_int_equal(ext2fs_write_inode(fs, one, &a), 0);
		close_fs(fs);
		refused("block %u is claimed by inode ", block);
		refused(" by inode %u", one);
		refused(" by inode %u", other);
		remove_image(NULL);
	}
}

/* A new image, open for writing, and its block-mapped file. */
static ext2_filsys open_mapped(uint32_t *ino, struct ext2_inode *inode)
{
	ext2_filsys fs;

	make_image(&shapes[0]);
	*ino = lookup("/dir/deeper/mapped");
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, *ino, inode), 0);
	return fs;
}

/* Reads the block-mapped file with so much memory, of which `taken` is in use. */
static int read_mapped(uint64_t taken, uint64_t memory, size_t *n_ext, struct error *err)
{
	uint32_t ino = lookup("/dir/deeper/mapped");
	struct volume *v = open_volume();
	struct harvest h = { 0 };
	struct source src;
	uint8_t *raw;
	int rc;

	assert_int_equal(source_open(v, 8, NULL, &src, err), 0);
	raw = calloc(1, src.geo->inode_size);
	assert_non_null(raw);
	assert_int_equal(ext2fs_read_inode_full(volume_fs(v), ino, (struct ext2_inode *)raw,
						(int)src.geo->inode_size),
			 0);
	assert_int_equal(inodes_take(&src, ino, raw, &h, err), 0);
	assert_int_equal(h.n_file, 1);
	assert_true(h.n_mapped > 0);
	src.taken = taken;
	src.memory = memory;
	rc = mapped_read(&src, h.file, h.mapped, h.n_mapped, err);
	*n_ext = h.file[0].map.n_ext;
	free(raw);
	harvest_release(&h);
	source_close(&src);
	volume_close(v);
	return rc;
}

static void mapped_refused(uint64_t taken, uint64_t memory, const char *least)
{
	struct error err = ERROR_INIT;
	size_t n;

	assert_int_equal(read_mapped(taken, memory, &n, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	if (!strstr(err.text, least))
		fail_msg("wanted \"%s\", got \"%s\"", least, err.text);
}

/* What is needed is said in full, wherever it was too much. */
static void test_mapped_read__memory(void **state)
{
	const uint64_t mib = 1 << 20;
	struct error err = ERROR_INIT;
	uint64_t need;
	size_t n;

	(void)state;
	make_image(&shapes[0]);
	assert_int_equal(read_mapped(0, 0, &n, &err), 0);
	assert_true(n > 20);
	need = n * STRETCH_BYTES;
	assert_int_equal(read_mapped(mib - need, mib, &n, &err), 0);
	assert_int_equal(n * STRETCH_BYTES, need);
	mapped_refused(mib - need, mib - 1, "give at least --memory 2M");
	mapped_refused(mib - need, mib - need + STRETCH_BYTES, "give at least --memory 2M");
	mapped_refused(mib - need, 1, "give at least --memory 2M");
	mapped_refused(mib - need - 1, mib - 2, "give at least --memory 1M");
}

static void test_scan_volume__an_indirect_block_that_points_back(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	uint32_t ino, block[256];

	(void)state;
	fs = open_mapped(&ino, &a);
	for (size_t i = 0; i < 256; i++)
		block[i] = a.i_block[EXT2_IND_BLOCK];
	a.i_block[EXT2_DIND_BLOCK] = a.i_block[EXT2_TIND_BLOCK] = a.i_block[EXT2_IND_BLOCK];
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	assert_int_equal(io_channel_write_blk64(fs->io, a.i_block[EXT2_IND_BLOCK], 1, block), 0);
	close_fs(fs);
	refused("inode %u: tree block %u is also claimed by inode %u", ino,
		a.i_block[EXT2_IND_BLOCK], ino);
}

static void test_scan_volume__indirect_blocks_without_end(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	uint32_t ino, leaf[256], block[256];

	(void)state;
	fs = open_mapped(&ino, &a);
	assert_int_equal(io_channel_read_blk64(fs->io, a.i_block[EXT2_IND_BLOCK], 1, leaf), 0);
	/* What were data blocks are full of pointers to the first of them. */
	for (size_t i = 0; i < 256; i++)
		block[i] = leaf[0];
	for (size_t i = 0; i < 256; i++)
		assert_int_equal(io_channel_write_blk64(fs->io, leaf[i], 1, block), 0);
	a.i_block[EXT2_DIND_BLOCK] = a.i_block[EXT2_IND_BLOCK];
	a.i_block[EXT2_IND_BLOCK] = 0;
	a.i_size = INT32_MAX;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
	refused("more blocks are claimed than the file system has");
}

static void test_scan_volume__a_pointer_that_leads_outside(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	uint32_t ino, block[256];

	(void)state;
	fs = open_mapped(&ino, &a);
	assert_int_equal(io_channel_read_blk64(fs->io, a.i_block[EXT2_IND_BLOCK], 1, block), 0);
	block[255] = 24576;
	assert_int_equal(io_channel_write_blk64(fs->io, a.i_block[EXT2_IND_BLOCK], 1, block), 0);
	close_fs(fs);
	refused("inode %u, indirect block %u: it points outside", ino, a.i_block[EXT2_IND_BLOCK]);
	fs = open_fs(EXT2_FLAG_RW);
	a.i_block[EXT2_TIND_BLOCK] = 0xffffffffu;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
	refused("inode %u: block 4294967295: it points outside", ino);
}

static void test_scan_volume__resize_inode_damaged(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	uint32_t block[256];

	(void)state;
	make_image(&shapes[0]);
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, EXT2_RESIZE_INO, &a), 0);
	assert_int_equal(io_channel_read_blk64(fs->io, a.i_block[EXT2_DIND_BLOCK], 1, block), 0);
	block[100] = 20000;
	assert_int_equal(io_channel_write_blk64(fs->io, a.i_block[EXT2_DIND_BLOCK], 1, block), 0);
	close_fs(fs);
	refused("inode 7, for resizing");
}

static uint64_t tree_block(const char *name, uint32_t *ino)
{
	struct volume *v = open_volume();
	struct snapshot *s = scan(v, 1);
	const struct snapshot_file *f;
	uint64_t b;

	*ino = lookup(name);
	f = snapshot_find(s, *ino);
	assert_non_null(f);
	assert_true(f->map.depth > 0 && f->map.tree->n_node[0] > 1);
	b = f->map.tree->node[0][1].pblk;
	snapshot_free(s);
	volume_close(v);
	return b;
}

static void test_scan_volume__tree_blocks_damaged(void **state)
{
	static const struct {
		size_t at;
		const char *text;
	} damage[] = {
		{ 0, "magic" }, { 1020, "checksum" }, { 6, "depth" }, { 2, "" }, { 13, "" }
	};
	uint32_t ino;
	uint64_t b;

	(void)state;
	make_image(&shapes[0]);
	b = tree_block("/dir/deep", &ino);
	for (size_t i = 0; i < 5; i++) {
		uint8_t old, now;

		image_read(path, b * 1024 + damage[i].at, &old, 1);
		now = old ^ 0xffu;
		image_write(path, b * 1024 + damage[i].at, &now, 1);
		refused("inode %u, extent tree block %llu", ino, (unsigned long long)b);
		refused("%s", damage[i].text);
		image_write(path, b * 1024 + damage[i].at, &old, 1);
	}
}

static void test_scan_volume__a_tree_block_shared(void **state)
{
	struct image *im;
	ext2_filsys fs;
	struct ext2_inode a, b;
	struct ext3_extent_idx *from = (struct ext3_extent_idx *)&a.i_block[3];
	struct ext3_extent_idx *to = (struct ext3_extent_idx *)&b.i_block[3];
	uint32_t one, two;

	(void)state;
	new_path();
	image_mke2fs(path, 24 << 20, "^metadata_csum", "-b 1024");
	im = image_open(path);
	one = image_put(im, IMAGE_ROOT, "one", &(struct place){ .order = PLACE_SHUFFLED }, 200);
	two = image_put(im, IMAGE_ROOT, "two", &(struct place){ .order = PLACE_BACKWARD }, 200);
	image_close(im);
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, one, &a), 0);
	assert_int_equal(ext2fs_read_inode(fs, two, &b), 0);
	to[0].ei_leaf = from[0].ei_leaf;
	assert_int_equal(ext2fs_write_inode(fs, two, &b), 0);
	close_fs(fs);
	refused("inode %u: tree block %u is also claimed by inode %u", one, from[0].ei_leaf, two);
}

/* What e2fsck repairs in a directory must be left for it to repair. */
static void test_scan_volume__a_directory_with_holes_or_unwritten_blocks(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	struct ext3_extent *e = (struct ext3_extent *)&a.i_block[3];
	uint32_t ino;

	(void)state;
	make_image(&shapes[1]);
	ino = lookup("/dir");
	fs = open_fs(EXT2_FLAG_RW);
	assert_int_equal(ext2fs_read_inode(fs, ino, &a), 0);
	assert_true(a.i_flags & EXT4_EXTENTS_FL);
	e->ee_len |= 0x8000;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
	refused("inode %u: its extents have an unwritten block", ino);
	fs = open_fs(EXT2_FLAG_RW);
	e->ee_len &= 0x7fff;
	e->ee_block += 1;
	a.i_size += fs->blocksize;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
	refused("inode %u: its extents leave a hole", ino);
}

static void test_scan_volume__group_count_wrong(void **state)
{
	ext2_filsys fs;
	uint32_t n;

	(void)state;
	make_image(&shapes[12]);
	fs = open_fs(EXT2_FLAG_RW);
	n = ext2fs_bg_free_blocks_count(fs, 2);
	ext2fs_bg_free_blocks_count_set(fs, 2, n + 1);
	ext2fs_group_desc_csum_set(fs, 2);
	ext2fs_mark_super_dirty(fs);
	close_fs(fs);
	refused("group 2: its descriptor counts %u free blocks, its bitmap %u", n + 1, n);
}

static void test_scan_volume__inode_bitmap_disagrees(void **state)
{
	ext2_filsys fs;
	uint32_t ino;

	(void)state;
	make_image(&shapes[0]);
	ino = lookup("/dir/one run");
	fs = open_fs(EXT2_FLAG_RW);
	ext2fs_inode_alloc_stats2(fs, ino, -1, 0);
	close_fs(fs);
	refused("inode %u has links but is free", ino);
	fs = open_fs(EXT2_FLAG_RW);
	ext2fs_inode_alloc_stats2(fs, ino, +1, 0);
	ext2fs_inode_alloc_stats2(fs, ino + 400, +1, 0);
	close_fs(fs);
	refused("inode %u is in use", ino + 400);
}

static void test_scan_volume__inode_damaged(void **state)
{
	ext2_filsys fs;
	struct ext2_inode a;
	uint32_t ino;
	uint64_t at;
	uint8_t byte;

	(void)state;
	make_image(&shapes[0]);
	ino = lookup("/dir/one run");
	fs = open_fs(EXT2_FLAG_RW);
	at = ext2fs_inode_table_loc(fs, 0) * 1024 + (ino - 1) * 256u + 4;
	assert_int_equal(ext2fs_read_inode(fs, ino, &a), 0);
	a.i_mode = 0x3000;
	assert_int_equal(ext2fs_write_inode(fs, ino, &a), 0);
	close_fs(fs);
	refused("inode %u: its mode", ino);
	image_read(path, at, &byte, 1);
	byte ^= 1;
	image_write(path, at, &byte, 1);
	refused("inode %u: its checksum", ino);
}

/* Files written while the file system had a feature that it has no more. */
static void test_scan_volume__flags_without_their_feature(void **state)
{
	ext2_filsys fs;
	struct image *im;
	uint32_t ino;

	(void)state;
	new_path();
	image_mke2fs(path, 8 << 20, "inline_data,^64bit", "-b 1024");
	im = image_open(path);
	image_inline(im, IMAGE_ROOT, "inline", 50);
	image_close(im);
	ino = lookup("/inline");
	fs = open_fs(EXT2_FLAG_RW);
	ext2fs_clear_feature_inline_data(fs->super);
	ext2fs_mark_super_dirty(fs);
	close_fs(fs);
	refused("inode %u: it has inline data, but", ino);
	fs = open_fs(EXT2_FLAG_RW);
	ext2fs_set_feature_inline_data(fs->super);
	ext2fs_clear_feature_extents(fs->super);
	ext2fs_mark_super_dirty(fs);
	close_fs(fs);
	refused("inode 2: it has extents, but");
}

static void test_scan_volume__bitmap_checksum_wrong(void **state)
{
	ext2_filsys fs;
	uint64_t block, inode;
	uint8_t byte;

	(void)state;
	make_image(&shapes[0]);
	fs = open_fs(0);
	block = ext2fs_block_bitmap_loc(fs, 0) * 1024 + 1023;
	inode = ext2fs_inode_bitmap_loc(fs, 0) * 1024 + 1;
	close_fs(fs);
	image_read(path, inode, &byte, 1);
	byte ^= 1;
	image_write(path, inode, &byte, 1);
	refused("checksum of group 0's inode bitmap");
	image_read(path, block, &byte, 1);
	byte ^= 1;
	image_write(path, block, &byte, 1);
	refused("checksum of group 0's block bitmap");
}

static void test_scan_volume__descriptor_checksum_wrong(void **state)
{
	struct volume *v;
	struct scan_options o = { .threads = 1, .queue_depth = 4 };
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;
	uint8_t byte;

	(void)state;
	make_image(&shapes[0]);
	v = open_volume();
	image_read(path, 2048 + 64 + 12, &byte, 1);
	byte ^= 1;
	image_write(path, 2048 + 64 + 12, &byte, 1);
	assert_int_equal(scan_volume(v, &o, &s, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	assert_non_null(strstr(err.text, "group 1's descriptor"));
	volume_close(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, remove_image)
		TEST(test_scan_volume__agrees_with_libext2fs),
		TEST(test_scan_volume__same_text_for_any_thread_count),
		TEST(test_scan_part__the_same_files),
		TEST(test_scan_volume__a_tree_of_two_levels),
		TEST(test_scan_volume__excluded_files_stay),
		TEST(test_scan_volume__boot_files_stay),
		TEST(test_scan_volume__boot_files_stay_in_old_directories),
		TEST(test_scan_volume__quota_files),
		TEST(test_scan_volume__progress_and_stop),
		TEST(test_scan_volume__every_read_may_fail),
		TEST(test_scan_files__reads_the_same_maps),
		TEST(test_scan_files__refuses_what_is_no_movable_file),
		TEST(test_scan_free__reads_descriptors_anew),
		TEST(test_scan_names__finds_paths),
		TEST(test_scan_volume__order),
		TEST(test_scan_volume__front_list),
		TEST(test_scan_volume__names_lead_to_free_inodes),
		TEST(test_scan_volume__scope),
		TEST(test_scan_volume__scope_without_its_path),
		TEST(test_scan_volume__a_used_block_marked_free),
		TEST(test_scan_volume__a_free_block_marked_used),
		TEST(test_scan_volume__metadata_marked_free),
		TEST(test_scan_volume__a_block_claimed_twice),
		TEST(test_scan_volume__metadata_claimed_by_a_file),
		TEST(test_scan_volume__any_block_claimed_by_a_file),
		TEST(test_mapped_read__memory),
		TEST(test_scan_volume__an_indirect_block_that_points_back),
		TEST(test_scan_volume__indirect_blocks_without_end),
		TEST(test_scan_volume__a_pointer_that_leads_outside),
		TEST(test_scan_volume__resize_inode_damaged),
		TEST(test_scan_volume__tree_blocks_damaged),
		TEST(test_scan_volume__a_tree_block_shared),
		TEST(test_scan_volume__a_directory_with_holes_or_unwritten_blocks),
		TEST(test_scan_volume__group_count_wrong),
		TEST(test_scan_volume__inode_bitmap_disagrees),
		TEST(test_scan_volume__inode_damaged),
		TEST(test_scan_volume__flags_without_their_feature),
		TEST(test_scan_volume__bitmap_checksum_wrong),
		TEST(test_scan_volume__descriptor_checksum_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
