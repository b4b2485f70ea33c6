/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the maps of block-mapped (ext2 and ext3 style) inodes. All files' indirect blocks are read
 * together, the triple ones first, then the double and the single ones: those of one level sorted
 * by address and read by one deep queue. What they point to is collected as it comes and put in
 * order at the end.
 *
 * Bounds: a block may occur once a level, there are three levels, and all pointers together are no
 * more than the file system has blocks.
 */
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

struct stretch { /* adjoining blocks of a file */
	struct extent e;
	size_t file;
};

struct mapped {
	const struct source *src;
	struct snapshot_file *file;
	struct mapped_entry *entry; /* those of the roots, and what was found below them */
	size_t n_entry, cap_entry;
	struct stretch *piece;
	size_t n_piece, cap_piece;
	uint64_t budget; /* pointers that may still be found */
	uint64_t more;	 /* pieces that memory did not suffice for: counted only */
};

const char *mapped_pointer(const struct source *src, uint64_t number, uint64_t pblk)
{
	if (pblk < src->geo->first_data_block || pblk >= src->geo->blocks)
		return "it points outside the file system";
	return number > UINT32_MAX ? "it has more blocks than can be numbered" : NULL;
}

static int add_piece(struct mapped *m, size_t file, uint64_t number, uint64_t pblk,
		     struct error *err)
{
	struct stretch *last = m->n_piece ? &m->piece[m->n_piece - 1] : NULL;

	if (last && last->file == file && last->e.lblk + (uint64_t)last->e.len == number &&
	    last->e.pblk + last->e.len == pblk && last->e.len < INDIRECT_MAX_LEN) {
		last->e.len = (last->e.len + 1) & 0x7fffffffu;
		return 0;
	}
	if (last && m->src->memory &&
	    m->src->taken + (m->n_piece + 1) * STRETCH_BYTES > m->src->memory) {
		m->more++;
		m->n_piece--;
	}
	if (array_reserve(&m->piece, &m->cap_piece, m->n_piece + 1, sizeof(*m->piece), err))
		return -1;
	m->piece[m->n_piece++] =
		(struct stretch){ .e = { .pblk = pblk, .lblk = (uint32_t)number, .len = 1 },
				  .file = file };
	return 0;
}

static int add_entry(struct mapped *m, const struct mapped_entry *e, struct error *err)
{
	if (array_reserve(&m->entry, &m->cap_entry, m->n_entry + 1, sizeof(*m->entry), err))
		return -1;
	m->entry[m->n_entry++] = *e;
	return 0;
}

static int take_block(void *ctx, size_t index, uint8_t *data, struct error *err)
{
	struct mapped *m = ctx;
	const struct mapped_entry e = m->entry[index];
	uint32_t bs = m->src->geo->block_size, ino = m->file[e.file].ino, pblk;
	uint64_t span = indirect_span(e.level - 1u, bs);
	const char *wrong = NULL;

	for (uint32_t i = 0; i < bs / 4 && !wrong; i++) {
		uint64_t number = e.number + 1 + i * span;

		memcpy(&pblk, data + 4 * (size_t)i, 4);
		if (!pblk)
			continue;
		wrong = mapped_pointer(m->src, number, pblk);
		if (!wrong && e.level == 1 && number >= e.end)
			wrong = BEYOND_SIZE;
		if (!wrong && !m->budget)
			wrong = "more blocks are claimed than the file system has";
		if (wrong)
			break;
		m->budget--;
		if (add_piece(m, e.file, number, pblk, err))
			return -1;
		if (e.level > 1 &&
		    add_entry(m,
			      &(struct mapped_entry){ .pblk = pblk,
						      .number = (uint32_t)number,
						      .level = (uint8_t)(e.level - 1),
						      .end = e.end,
						      .file = e.file },
			      err))
			return -1;
	}
	return wrong ? source_damage(m->src, err, "inode %u, indirect block %u: %s", ino, e.pblk,
				     wrong)
		     : 0;
}

static uint32_t ino_of(const void *ctx, size_t index)
{
	const struct mapped *m = ctx;

	return m->file[m->entry[index].file].ino;
}

static int read_level(struct mapped *m, uint32_t level, struct error *err)
{
	struct want *want = reallocarray(NULL, m->n_entry, sizeof(*want));
	size_t n = 0;
	int ret;

	if (!want)
		return error_nomem(err, "reading indirect blocks");
	for (size_t i = 0; i < m->n_entry; i++)
		if (m->entry[i].level == level)
			want[n++] = (struct want){ .block = m->entry[i].pblk, .index = i };
	ret = trees_read_once(m->src, want, n, ino_of, take_block, m, err);
	free(want);
	return ret;
}

static int compare_piece(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->e.lblk < y->e.lblk ? -1 : x->e.lblk > y->e.lblk;
}

/* The pieces of one file, in order, become its mapping. */
static int place(struct snapshot_file *f, const struct stretch *piece, size_t n, struct error *err)
{
	struct extent *e = reallocarray(NULL, n, sizeof(*e));
	int ret;

	if (!e)
		return error_nomem(err, "reading indirect blocks");
	for (size_t i = 0; i < n; i++)
		e[i] = piece[i].e;
	filemap_release(&f->map);
	ret = indirect_build(e, n, &f->map, err);
	free(e);
	return ret;
}

static int place_all(struct mapped *m, struct error *err)
{
	size_t n = m->n_piece;

	qsort(m->piece, n, sizeof(*m->piece), compare_piece);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && m->piece[to].file == m->piece[from].file; to++)
			;
		if (place(&m->file[m->piece[from].file], m->piece + from, to - from, err))
			return -1;
	}
	return 0;
}

/* What the roots hold themselves, and the indirect blocks to begin with. */
static int start(struct mapped *m, const struct mapped_entry *root, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct filemap *map = &m->file[root[i].file].map;

		if (add_entry(m, &root[i], err))
			return -1;
		if (i && root[i - 1].file == root[i].file)
			continue;
		for (size_t k = 0; k < map->n_ext; k++) {
			if (array_reserve(&m->piece, &m->cap_piece, m->n_piece + 1,
					  sizeof(*m->piece), err))
				return -1;
			m->piece[m->n_piece++] =
				(struct stretch){ .e = map->ext[k], .file = root[i].file };
		}
	}
	return 0;
}

int mapped_read(const struct source *src, struct snapshot_file *file,
		const struct mapped_entry *root, size_t n, struct error *err)
{
	struct mapped m = { .src = src, .file = file, .budget = src->geo->blocks };
	int ret = -1;

	if (!n)
		return 0;
	if (start(&m, root, n, err))
		goto out;
	for (uint32_t level = INDIRECT_LEVELS; level > 0; level--)
		if (source_stopped(src, err) || read_level(&m, level, err))
			goto out;
	ret = m.more ? footprint_refuse(src, src->taken + (m.n_piece + m.more) * STRETCH_BYTES, err)
		     : place_all(&m, err);
out:
	free(m.entry);
	free(m.piece);
	return ret;
}
