/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mkscale_files: the names, inodes and extent trees, in the order of their inodes. */
#include "mkscale.h"
#include "support/image.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME 1700000000u

void must(errcode_t ret, const char *what)
{
	if (ret)
		image_die("%s: %s", what, error_message(ret));
}

static uint64_t random64(struct maker *m)
{
	uint64_t z = m->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint32_t below(struct maker *m, uint32_t n)
{
	return (uint32_t)(random64(m) >> 32) % n;
}

static bool is_used(const struct maker *m, uint64_t at, uint32_t len)
{
	for (uint64_t b = at; b < at + len; b++)
		if (m->used[b / 8] >> (b % 8) & 1)
			return true;
	return false;
}

static uint64_t take(struct maker *m, uint32_t len)
{
	for (uint32_t tries = 0; tries < 1u << 22; tries++) {
		uint64_t *at = &m->place[below(m, PLACES)];
		uint64_t got = *at;

		if (got + len > m->end) {
			*at = 1;
			continue;
		}
		if (is_used(m, got, len)) {
			*at += 8;
			continue;
		}
		for (uint64_t b = got; b < got + len; b++)
			m->used[b / 8] |= (uint8_t)(1u << b % 8);
		*at = got + len + (below(m, 4) ? 0 : 1 + below(m, 4));
		m->n_run++;
		return got;
	}
	image_die("no room: fewer runs, or a larger volume");
}

/* Inodes: made in order, and written group by group. */

static void write_table(struct maker *m)
{
	uint32_t per = m->fs->super->s_inodes_per_group, first = m->group * per + 1;
	uint32_t blocks = (m->n_inode * INODE_SIZE + BLOCK - 1) / BLOCK;
	uint8_t *bits;

	if (!m->n_inode)
		return;
	must(io_channel_write_blk64(m->fs->io, ext2fs_inode_table_loc(m->fs, m->group), (int)blocks,
				    m->table),
	     "writing inodes");
	bits = calloc(1, per / 8 + 1);
	if (!bits)
		image_die("no memory");
	for (uint32_t i = 0; i < m->n_inode; i++)
		bits[i / 8] |= (uint8_t)(1u << i % 8);
	must(ext2fs_set_inode_bitmap_range2(m->fs->inode_map, first, per, bits), "inode bitmap");
	free(bits);
	ext2fs_bg_flags_clear(m->fs, m->group, EXT2_BG_INODE_UNINIT);
	ext2fs_bg_free_inodes_count_set(m->fs, m->group, per - m->n_inode);
	ext2fs_bg_itable_unused_set(m->fs, m->group, per - m->n_inode);
}

static void start_table(struct maker *m, uint32_t group)
{
	uint32_t per = m->fs->super->s_inodes_per_group;

	memset(m->table, 0, (size_t)per * INODE_SIZE);
	m->group = group;
	m->n_inode = 0;
}

static uint32_t next_ino(struct maker *m)
{
	if (m->n_inode == m->fs->super->s_inodes_per_group) {
		write_table(m);
		start_table(m, m->group + 1);
	}
	return m->group * m->fs->super->s_inodes_per_group + m->n_inode + 1;
}

static void put_inode(struct maker *m, uint32_t ino, const struct ext2_inode_large *in)
{
	uint8_t *at = m->table + (size_t)m->n_inode++ * INODE_SIZE;
	struct ext2_inode_large *to = (struct ext2_inode_large *)at;

	*to = *in;
	to->i_atime = to->i_ctime = to->i_mtime = TIME;
	to->i_flags = EXT4_EXTENTS_FL;
	to->i_extra_isize = 32;
	must(ext2fs_inode_csum_set(m->fs, ino, to), "inode checksum");
	m->ino = ino;
}

static void put_header(uint8_t *at, uint32_t n, uint32_t max, uint32_t depth)
{
	uint16_t h[4] = { 0xf30a, (uint16_t)n, (uint16_t)max, (uint16_t)depth };

	memcpy(at, h, sizeof(h)); /* the generation stays 0 */
}

static void put_extent(uint8_t *at, uint32_t lblk, uint32_t len, uint64_t pblk)
{
	uint16_t l[2] = { (uint16_t)len, (uint16_t)(pblk >> 32) };
	uint32_t low = (uint32_t)pblk;

	memcpy(at, &lblk, 4);
	memcpy(at + 4, l, 4);
	memcpy(at + 8, &low, 4);
}

static void put_index(uint8_t *at, uint32_t lblk, uint64_t pblk)
{
	uint32_t low[2] = { lblk, (uint32_t)pblk };
	uint16_t high[2] = { (uint16_t)(pblk >> 32), 0 };

	memcpy(at, low, 8);
	memcpy(at + 8, high, 4);
}

/* `n` runs as records; returns the blocks. */
static uint32_t put_runs(struct maker *m, uint8_t *at, uint32_t n, uint32_t lblk)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = 1 + below(m, m->longest);

		put_extent(at + 12 * (size_t)i, lblk, len, take(m, len));
		lblk += len;
	}
	return lblk;
}

static uint32_t put_leaves(struct maker *m, uint32_t ino, uint8_t *root, uint32_t n,
			   uint32_t *leaves)
{
	uint8_t leaf[BLOCK];
	uint32_t lblk = 0, k = 0;

	for (; n && k < ROOT_EXT; k++) {
		uint32_t part = n < LEAF_EXT ? n : LEAF_EXT;
		uint64_t at = take(m, 1);

		m->n_run--; /* not of the file */
		memset(leaf, 0, sizeof(leaf));
		put_header(leaf, part, (BLOCK - 12) / 12, 0);
		put_index(root + 12 * (size_t)k, lblk, at);
		lblk = put_runs(m, leaf + 12, part, lblk);
		must(ext2fs_extent_block_csum_set(m->fs, ino, (struct ext3_extent_header *)leaf),
		     "leaf checksum");
		must(io_channel_write_blk64(m->fs->io, at, 1, leaf), "writing a leaf");
		n -= part;
	}
	*leaves = k;
	return lblk;
}

static uint32_t make_file(struct maker *m)
{
	struct ext2_inode_large in = { .i_mode = LINUX_S_IFREG | 0644, .i_links_count = 1 };
	uint8_t *root = (uint8_t *)in.i_block;
	uint32_t ino = next_ino(m), blocks, leaves = 0;
	uint64_t size;

	if (m->big_runs && m->n_file % BIG_EVERY == BIG_EVERY - 1) {
		blocks = put_leaves(m, ino, root + 12, m->big_runs, &leaves);
		put_header(root, leaves, ROOT_EXT, 1);
	} else {
		uint32_t n = 1 + below(m, m->small_runs);

		blocks = put_runs(m, root + 12, n, 0);
		put_header(root, n, ROOT_EXT, 0);
	}
	size = (uint64_t)blocks * BLOCK - below(m, BLOCK);
	in.i_size = (uint32_t)size;
	in.i_size_high = (uint32_t)(size >> 32);
	in.i_blocks = (blocks + leaves) * (BLOCK / 512);
	put_inode(m, ino, &in);
	m->n_file++;
	return ino;
}

/* Directories of one block; made before what is in them, written after. */

struct dir {
	uint32_t ino, at, last, subdirs;
	uint8_t block[BLOCK];
};

static void add_name(struct dir *d, uint32_t ino, const char *name, int type)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)(d->block + d->at);
	uint32_t len = (uint32_t)strlen(name);

	e->inode = ino;
	e->rec_len = (uint16_t)EXT2_DIR_REC_LEN((uint8_t)len);
	ext2fs_dirent_set_name_len(e, (int)len);
	ext2fs_dirent_set_file_type(e, type);
	memcpy(e->name, name, len);
	d->last = d->at;
	d->at += e->rec_len;
	d->subdirs += type == EXT2_FT_DIR;
}

static void start_dir(struct dir *d, uint32_t ino, uint32_t parent)
{
	memset(d, 0, sizeof(*d));
	d->ino = ino;
	add_name(d, ino, ".", EXT2_FT_DIR);
	add_name(d, parent, "..", EXT2_FT_DIR);
	d->subdirs = 0;
}

static void write_dir(struct maker *m, struct dir *d, uint64_t at)
{
	struct ext2_dir_entry *e = (struct ext2_dir_entry *)(d->block + d->last);
	uint32_t end = BLOCK;

	if (ext2fs_has_feature_metadata_csum(m->fs->super)) {
		end -= (uint32_t)sizeof(struct ext2_dir_entry_tail);
		ext2fs_initialize_dirent_tail(m->fs, EXT2_DIRENT_TAIL(d->block, BLOCK));
	}
	e->rec_len = (uint16_t)(end - d->last);
	must(ext2fs_write_dir_block4(m->fs, at, d->block, 0, d->ino), "writing a directory");
}

static void fill_dir_inode(struct ext2_inode_large *in, const struct dir *d, uint64_t at)
{
	in->i_mode = LINUX_S_IFDIR | 0755;
	in->i_links_count = (uint16_t)(2 + d->subdirs);
	in->i_size = BLOCK;
	in->i_blocks = BLOCK / 512;
	put_header((uint8_t *)in->i_block, 1, ROOT_EXT, 0);
	put_extent((uint8_t *)in->i_block + 12, 0, 1, at);
}

/* Its names are complete. Its inode is the next one: returns that. */
static uint32_t end_dir(struct maker *m, struct dir *d, uint64_t at)
{
	struct ext2_inode_large in = { 0 };

	write_dir(m, d, at);
	fill_dir_inode(&in, d, at);
	if (next_ino(m) != d->ino)
		image_die("inodes out of order");
	put_inode(m, d->ino, &in);
	ext2fs_bg_used_dirs_count_set(m->fs, m->group,
				      ext2fs_bg_used_dirs_count(m->fs, m->group) + 1);
	return d->ino;
}

/* A directory of files. Its inode comes behind theirs. */
static uint32_t make_leaf_dir(struct maker *m, uint32_t parent)
{
	uint64_t left = m->w->files - m->n_file, at = take(m, 1);
	uint32_t n = left < PER_DIR ? (uint32_t)left : PER_DIR;
	uint32_t per = m->fs->super->s_inodes_per_group;
	struct dir d;
	char name[16];

	m->n_run--;
	start_dir(&d, m->group * per + m->n_inode + 1 + n, parent);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		add_name(&d, make_file(m), name, EXT2_FT_REG_FILE);
	}
	return end_dir(m, &d, at);
}

/* One of directories. Its inode has to be known first, so its number is kept free. */
static uint32_t make_top_dir(struct maker *m)
{
	uint64_t left = m->w->files - m->n_file, at = take(m, 1);
	uint64_t dirs = (left + PER_DIR - 1) / PER_DIR;
	uint32_t n = dirs < PER_DIR ? (uint32_t)dirs : PER_DIR;
	uint64_t below_it = left < (uint64_t)n * PER_DIR ? left : (uint64_t)n * PER_DIR;
	uint32_t per = m->fs->super->s_inodes_per_group;
	struct dir d;
	char name[16];

	m->n_run--;
	start_dir(&d, m->group * per + m->n_inode + 1 + n + (uint32_t)below_it, EXT2_ROOT_INO);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		add_name(&d, make_leaf_dir(m, d.ino), name, EXT2_FT_DIR);
	}
	return end_dir(m, &d, at);
}

void make_files(struct maker *m)
{
	struct ext2_inode root;
	char name[16];

	for (uint32_t t = 0; m->n_file < m->w->files; t++) {
		uint32_t ino = make_top_dir(m);

		snprintf(name, sizeof(name), "t%u", t);
		must(ext2fs_link(m->fs, EXT2_ROOT_INO, name, ino, EXT2_FT_DIR), "linking");
	}
	write_table(m);
	/* Its inode is in the first table, which has been written behind libext2fs's back. */
	ext2fs_flush_icache(m->fs);
	must(ext2fs_read_inode(m->fs, EXT2_ROOT_INO, &root), "root");
	root.i_links_count = (uint16_t)(root.i_links_count + (m->w->files + PER_DIR * PER_DIR - 1) /
								     (PER_DIR * PER_DIR));
	must(ext2fs_write_inode(m->fs, EXT2_ROOT_INO, &root), "root");
}
