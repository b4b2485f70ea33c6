/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/agedvol.h"
#include "scaledefrag/array.h"
#include <stdlib.h>

#define GROUP	32768u /* blocks */
#define FLEX	16u    /* groups that have their metadata side by side */
#define INODES	8192u  /* of a group */
#define WRITERS 64u    /* files that grow at the same time, run by run */

struct maker {
	uint64_t seed;
	struct snapshot *s;
	size_t cap_file;
	uint64_t at;	  /* the first block that isn't taken yet */
	uint64_t extents; /* made so far */
};

/* A file that grows. */
struct writer {
	size_t file;
	size_t want; /* records; 0: none is open */
};

static uint32_t pick(struct maker *m, uint32_t below)
{
	uint64_t z = m->seed += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 33) % below;
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void add(struct rangeset *rs, uint64_t start, uint64_t len)
{
	struct error err = ERROR_INIT;
	must(!rangeset_add(rs, start, len, &err));
}

/* The next blocks; metadata lies at the start of each flex group. */
static uint64_t take(struct maker *m, uint32_t len)
{
	const uint64_t flex = (uint64_t)FLEX * GROUP, meta = FLEX * (INODES / 16 + 2) + 1;
	uint64_t next = (m->at / flex + 1) * flex;
	if (m->at % flex == 0 || m->at + len > next) {
		if (m->at % flex) {
			add(m->s->free, m->at, next - m->at);
			m->at = next;
		}
		add(m->s->fixed, m->at, meta);
		m->at += meta;
	}
	m->at += len;
	return m->at - len;
}

static void leave_free(struct maker *m, uint32_t len)
{
	add(m->s->free, take(m, len), len);
}

/* A gap now and then, so that 28 % of the blocks stay free. */
static void maybe_leave_free(struct maker *m)
{
	if (pick(m, 10) < 3)
		leave_free(m, 1 + pick(m, 10));
	else if (!pick(m, 600))
		leave_free(m, 200 + pick(m, 3000));
}

static void open_file(struct maker *m, struct writer *w)
{
	struct snapshot *s = m->s;
	struct error err = ERROR_INIT;
	must(!array_reserve(&s->file, &m->cap_file, s->n_file + 1, sizeof(*s->file), &err));
	w->want = 1;
	if (pick(m, 2))
		w->want = pick(m, 500) ? 2 + pick(m, 17) : 400 + pick(m, 400);
	w->file = s->n_file;
	s->file[s->n_file] =
		(struct snapshot_file){ .ino = 12 + (uint32_t)s->n_file,
					.kind = pick(m, 12) ? FILE_REGULAR : FILE_DIRECTORY };
	s->file[s->n_file].map.ext = malloc(w->want * sizeof(struct extent));
	must(s->file[s->n_file++].map.ext);
}

static void write_run(struct maker *m, struct writer *w)
{
	struct filemap *map = &m->s->file[w->file].map;
	uint32_t len = w->want > 1 ? 1 + pick(m, 12) : 1 + pick(m, 20);
	map->ext[map->n_ext++] = (struct extent){ .pblk = take(m, len),
						  .len = len & 0x7fffffffu,
						  .unwritten = !pick(m, 100) };
	m->extents++;
	maybe_leave_free(m);
}

/* Tree blocks, written when the file is complete. */
static void make_tree(struct maker *m, struct filemap *map)
{
	size_t per = geometry_node_records(m->s->geo.block_size), left = map->n_ext;
	if (left <= EXTENT_ROOT_RECORDS)
		return;
	map->depth = 1;
	must(!filemap_need_tree(map, &ERROR_INIT));
	map->tree->n_node[0] = (left - 1) / per + 1;
	map->tree->node[0] = malloc(map->tree->n_node[0] * sizeof(struct tree_node));
	must(map->tree->node[0]);
	for (size_t i = 0; i < map->tree->n_node[0]; i++, left -= per)
		map->tree->node[0][i] =
			(struct tree_node){ .pblk = take(m, 1),
					    .count = (uint32_t)(left < per ? left : per) };
}

/* Gives the runs their places in the file: one file in four is overwritten at random. */
static void close_file(struct maker *m, struct writer *w)
{
	struct filemap *map = &m->s->file[w->file].map;
	bool shuffle = !pick(m, 4);
	uint32_t lblk = 0;
	for (size_t i = 0; i < map->n_ext; i++) {
		size_t k = i + (shuffle ? pick(m, (uint32_t)(map->n_ext - i)) : 0);
		struct extent e = map->ext[k];
		map->ext[k] = map->ext[i];
		lblk += pick(m, 20) ? 0 : 1 + pick(m, 30); /* a hole */
		e.lblk = lblk;
		lblk += e.len;
		map->ext[i] = e;
	}
	make_tree(m, map);
	w->want = 0;
}

static void make_files(struct maker *m, uint64_t extents)
{
	struct writer w[WRITERS] = { 0 };
	for (bool open = true; open;) {
		struct writer *x = &w[pick(m, WRITERS)];
		if (!x->want && m->extents < extents)
			open_file(m, x);
		if (x->want)
			write_run(m, x);
		if (x->want && m->s->file[x->file].map.n_ext == x->want)
			close_file(m, x);
		open = m->extents < extents;
		for (size_t i = 0; i < WRITERS && !open; i++)
			open = w[i].want;
	}
}

struct snapshot *agedvol_make(uint64_t extents, uint64_t seed)
{
	struct maker m = { .seed = seed, .s = calloc(1, sizeof(*m.s)) };
	struct error err = ERROR_INIT;
	struct geometry *g;
	must(m.s && !rangeset_new(&m.s->free, &err) && !rangeset_new(&m.s->fixed, &err) &&
	     !rangeset_new(&m.s->avoid, &err));
	g = &m.s->geo;
	*g = (struct geometry){ .block_size = 4096,
				.cluster_blocks = 1,
				.blocks_per_group = GROUP,
				.inodes_per_group = INODES,
				.inode_size = 256,
				.desc_per_block = 64,
				.flex_size = FLEX,
				.metadata_csum = true };
	m.s->limits = (struct snapshot_limits){ .journal_blocks = 8156, .copy_blocks = 65536 };
	make_files(&m, extents);
	leave_free(&m, GROUP - (uint32_t)(m.at % GROUP));
	g->blocks = m.at;
	g->groups = (uint32_t)((g->blocks - 1) / GROUP + 1);
	m.s->count[LEAVE_NONE] = m.s->n_file;
	return m.s;
}
