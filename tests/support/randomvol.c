/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/randomvol.h"
#include "scaledefrag/indirect.h"
#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS  1200u
#define MOST_RECORDS 220u

struct maker {
	uint64_t seed;
	struct snapshot *s;
	bool used[MOST_BLOCKS];
	uint32_t blocks, left; /* left: free blocks that files may still take */
	uint32_t at;	       /* where the last record ended */
	uint32_t scatter;      /* per cent of records that start anywhere */
	uint32_t ratio;	       /* blocks of a cluster */
};

static uint32_t pick(struct maker *m, uint32_t below)
{
	uint64_t z = m->seed += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 33) % below;
}

static bool chance(struct maker *m, uint32_t percent)
{
	return pick(m, 100) < percent;
}

static void must(int rc)
{
	if (rc)
		abort();
}

static void *room(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

static void make_geometry(struct maker *m)
{
	struct geometry *g = &m->s->geo;
	struct snapshot_limits *l = &m->s->limits;
	m->blocks = 60 + pick(m, MOST_BLOCKS - 60);
	*g = (struct geometry){ .block_size = 1024,
				.cluster_blocks = m->ratio,
				.first_data_block = 1,
				.blocks = m->blocks,
				.blocks_per_group = 64u << pick(m, 4),
				.inodes_per_group = 16,
				.inode_size = 128u << pick(m, 2),
				.desc_per_block = 1 + pick(m, 4),
				.flex_size = 1,
				.align_blocks = chance(m, 30) ? 4u << pick(m, 3) : 0,
				.metadata_csum = true };
	g->groups = (uint32_t)((g->blocks - 2) / g->blocks_per_group + 1);
	l->journal_blocks = chance(m, 80) ? 1000 : 3 + pick(m, 25);
	l->copy_blocks = chance(m, 50) ? 1000 : 1 + pick(m, 60);
}

static void make_fixed(struct maker *m)
{
	const struct geometry *g = &m->s->geo;
	struct error err = ERROR_INIT;
	m->used[0] = true;
	for (uint32_t i = 0; i < g->groups; i++) {
		uint64_t first = geometry_group_first(g, i);
		uint32_t n = pick(m, 6);
		uint32_t skip = chance(m, 80) ? 0 : pick(m, 20);
		for (uint64_t b = first + skip; b < first + skip + n && b < g->blocks; b++)
			m->used[b] = true;
	}
	for (uint32_t b = 1; b < m->blocks; b++) {
		if (m->used[b])
			must(rangeset_add(m->s->fixed, b, 1, &err));
	}
	m->left = 0;
	for (uint32_t b = 1; b < m->blocks; b++)
		m->left += !m->used[b];
}

/* Takes up to `want` free blocks in a row; there is at least one. */
static uint32_t take(struct maker *m, uint32_t want, uint64_t *start)
{
	uint32_t b = chance(m, m->scatter) ? 1 + pick(m, m->blocks - 1) : m->at, n = 0;
	while (b >= m->blocks || m->used[b])
		b = b + 1 < m->blocks ? b + 1 : 1;
	*start = b;
	for (; n < want && b < m->blocks && !m->used[b]; n++)
		m->used[b++] = true;
	m->left -= n;
	m->at = b;
	return n;
}

/* A tree over the records, its nodes filled more or less; false: no room for it. */
static bool make_tree(struct maker *m, struct filemap *map)
{
	uint32_t per = geometry_node_records(1024), fill = 50 + pick(m, 51);
	uint32_t least = map->n_ext > 4 ? 1 : chance(m, 10);
	size_t items = map->n_ext;
	while (items > EXTENT_ROOT_RECORDS || map->depth < least) {
		uint32_t each = items > EXTENT_ROOT_RECORDS * per * fill / 100 && !map->depth
					? per
					: per * fill / 100;
		size_t n = (items - 1) / each + 1, done = 0;
		struct tree_node *node = room(n, sizeof(*node));
		if (m->left < n || map->depth == EXTENT_MAX_DEPTH) {
			free(node);
			return false;
		}
		for (size_t i = 0; i < n; i++) {
			take(m, 1, &node[i].pblk);
			node[i].count =
				(uint32_t)(items - done < each ? items - done : (size_t)each);
			done += node[i].count;
		}
		must(filemap_need_tree(map, &ERROR_INIT));
		map->tree->node[map->depth] = node;
		map->tree->n_node[map->depth++] = n;
		items = n;
	}
	return true;
}

static void give_back(struct maker *m, struct filemap *map)
{
	for (size_t i = 0; i < map->n_ext; i++) {
		for (uint32_t k = 0; k < map->ext[i].len; k++)
			m->used[map->ext[i].pblk + k] = false;
		m->left += map->ext[i].len;
	}
	for (uint32_t l = 0; l < map->depth; l++) {
		for (size_t i = 0; i < map->tree->n_node[l]; i++)
			m->used[map->tree->node[l][i].pblk] = false;
		m->left += (uint32_t)map->tree->n_node[l];
	}
	filemap_release(map);
}

/* One block more for a block-mapped file. */
static void add_mapped(struct maker *m, struct filemap *map, uint64_t number)
{
	struct extent *last = map->n_ext ? &map->ext[map->n_ext - 1] : NULL;
	struct extent e = { .lblk = (uint32_t)number };
	e.len = take(m, 1, &e.pblk) & 0x7fffffffu;
	if (last && last->lblk + last->len == e.lblk && last->pblk + last->len == e.pblk)
		last->len = (last->len + 1) & 0x7fffffffu;
	else
		map->ext[map->n_ext++] = e;
}

/* Data of a block-mapped file, and the indirect blocks above it that it lacks yet. */
static bool make_mapped(struct maker *m, struct filemap *map, uint32_t want, uint32_t keep)
{
	uint64_t number = chance(m, 50) ? pick(m, 300) : chance(m, 10) ? 66000 + pick(m, 3000) : 0;
	uint32_t scatter = m->scatter, holes = chance(m, 20) ? 10 : 0;
	map->indirect = true;
	map->ext = room(5 * (size_t)want + 5, sizeof(*map->ext));
	for (uint32_t n = 0; n < want; number++) {
		uint64_t above[INDIRECT_LEVELS];
		struct indirect_place p;
		size_t n_above = 0;
		m->scatter = n % 8 ? 0 : scatter;
		number += chance(m, holes) ? 1 + pick(m, 300) : 0;
		indirect_find(number, 1024, &p);
		if (p.level) /* it comes with the data on it, or not at all */
			continue;
		while (!p.in_inode && !indirect_block(map, p.parent)) {
			above[n_above++] = p.parent;
			indirect_find(p.parent, 1024, &p);
		}
		if (m->left < keep + n_above + 1)
			break;
		while (n_above)
			add_mapped(m, map, above[--n_above]);
		add_mapped(m, map, number);
		n++;
	}
	m->scatter = scatter;
	return map->n_ext;
}

/* ---- clusters ---- */

static void add_record(struct filemap *map, struct extent e)
{
	struct extent *last = map->n_ext ? &map->ext[map->n_ext - 1] : NULL;
	if (!e.len)
		return;
	if (last && last->lblk + last->len == e.lblk && last->pblk + last->len == e.pblk &&
	    last->unwritten == e.unwritten)
		last->len = (last->len + e.len) & 0x7fffffffu;
	else
		map->ext[map->n_ext++] = e;
}

/* What a file has of the cluster: all of it, or parts with holes between them. If the cluster is
 * written, one of them is; the others may be not. */
static void fill_cluster(struct maker *m, struct filemap *map, struct extent c, uint32_t whole)
{
	uint32_t at = 0, end = m->ratio;
	bool must_write = !c.unwritten;
	c.lblk *= m->ratio;
	c.pblk *= m->ratio;
	if (chance(m, whole)) {
		c.len = m->ratio & 0x7fffffffu;
		add_record(map, c);
		return;
	}
	at = pick(m, end);
	while (at < end) {
		struct extent e = c;
		e.len = (1 + pick(m, end - at)) & 0x7fffffffu;
		e.lblk += at;
		e.pblk += at;
		e.unwritten = c.unwritten || (!must_write && chance(m, 50));
		must_write = false;
		add_record(map, e);
		at += e.len + pick(m, 3);
	}
}

/* The stretches of the file become records, in blocks. */
static void make_records(struct maker *m, struct filemap *map)
{
	uint32_t whole = 40 + pick(m, 61);
	struct filemap to = { 0 };
	size_t clusters = 0;
	for (size_t i = 0; i < map->n_ext; i++)
		clusters += map->ext[i].len;
	to.ext = room(clusters * m->ratio, sizeof(*to.ext));
	for (size_t i = 0; i < map->n_ext; i++) {
		for (uint32_t k = 0; k < map->ext[i].len; k++) {
			struct extent c = map->ext[i];
			c.lblk += k;
			c.pblk += k;
			fill_cluster(m, &to, c, whole);
		}
	}
	filemap_release(map);
	*map = to;
}

static void to_clusters(struct maker *m, struct filemap *map)
{
	struct error err = ERROR_INIT;
	const char *wrong;
	for (uint32_t l = 0; l < map->depth; l++) {
		for (size_t i = 0; i < map->tree->n_node[l]; i++)
			map->tree->node[l][i].pblk *= m->ratio;
	}
	must(filemap_to_clusters(map, m->ratio, &wrong, &err));
}

/* ---- files ---- */

/* The stretches in blocks of the volume, and the tree blocks; records of clusters give back less
 * than all of their blocks. */
static void give_back_stretches(struct maker *m, struct filemap *map, const struct filemap *was)
{
	struct filemap nodes = *map;
	nodes.ext = NULL;
	nodes.n_ext = 0;
	for (size_t i = 0; i < was->n_ext; i++) {
		for (uint32_t k = 0; k < was->ext[i].len; k++)
			m->used[was->ext[i].pblk + k] = false;
		m->left += was->ext[i].len;
	}
	free(map->ext);
	give_back(m, &nodes);
}

/* The file, which has stretches, gets its records and a tree of them. */
static bool make_clustered(struct maker *m, struct filemap *map, uint32_t keep)
{
	struct error err = ERROR_INIT;
	struct filemap was;
	bool ok;
	must(filemap_copy(map, &was, &err));
	make_records(m, map);
	ok = make_tree(m, map) && m->left >= keep;
	if (ok)
		to_clusters(m, map);
	else
		give_back_stretches(m, map, &was);
	filemap_release(&was);
	m->s->n_file += ok;
	return ok;
}

/* `keep`: free blocks that must stay. */
static bool make_file(struct maker *m, uint32_t ino, uint32_t keep)
{
	struct snapshot_file *f = &m->s->file[m->s->n_file];
	struct filemap *map = &f->map;
	uint32_t want = chance(m, 15) ? 1 + pick(m, MOST_RECORDS) : 1 + pick(m, 12);
	uint32_t longest = 1u << pick(m, 6), lblk = chance(m, 10) ? pick(m, 1000) : 0;
	bool holes = chance(m, 20), unwritten = chance(m, 20);
	*f = (struct snapshot_file){ .ino = ino,
				     .kind = chance(m, 15) ? FILE_DIRECTORY : FILE_REGULAR };
	if (m->ratio == 1 && chance(m, 25)) {
		if (!make_mapped(m, map, want, keep)) {
			give_back(m, map);
			return false;
		}
		m->s->n_file++;
		return true;
	}
	map->ext = room(want, sizeof(*map->ext));
	while (map->n_ext < want && m->left > keep) {
		struct extent *e = &map->ext[map->n_ext];
		uint32_t len = 1 + pick(m, longest);
		if (len > m->left - keep)
			len = m->left - keep;
		if (holes && chance(m, 30))
			lblk += 1 + pick(m, 5);
		e->lblk = lblk;
		e->len = take(m, len, &e->pblk) & 0x7fffffffu;
		e->unwritten = unwritten && chance(m, 40);
		lblk += e->len;
		map->n_ext++;
	}
	if (m->ratio > 1 && map->n_ext)
		return make_clustered(m, map, keep);
	if (!map->n_ext || !make_tree(m, map) || m->left < keep) {
		give_back(m, map);
		return false;
	}
	m->s->n_file++;
	return true;
}

static void make_free(struct maker *m)
{
	struct error err = ERROR_INIT;
	for (uint32_t b = 1; b < m->blocks; b++) {
		if (m->used[b])
			continue;
		must(rangeset_add(m->s->free, b, 1, &err));
		if (chance(m, 1))
			must(rangeset_add(m->s->avoid, b, 1, &err));
	}
}

/* Some order, with a front list at times. */
static void make_order(struct maker *m)
{
	uint32_t n = (uint32_t)m->s->n_file, *ino = room(n, sizeof(*ino));
	struct error err = ERROR_INIT;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = chance(m, 50) ? pick(m, i + 1) : i;
		ino[i] = ino[k];
		ino[k] = m->s->file[i].ino;
		m->s->file[i].grows = chance(m, 10);
	}
	must(snapshot_set_order(m->s, ino, n, n && chance(m, 30) ? pick(m, n) : 0, &err));
	free(ino);
}

static struct snapshot *make_empty(void)
{
	struct snapshot *s = room(1, sizeof(*s));
	struct error err = ERROR_INIT;
	must(rangeset_new(&s->free, &err) || rangeset_new(&s->fixed, &err) ||
	     rangeset_new(&s->avoid, &err));
	return s;
}

static struct snapshot *make_volume(uint64_t seed, uint32_t ratio)
{
	struct maker *m = room(1, sizeof(*m));
	struct snapshot *s = make_empty();
	uint32_t keep, inodes;
	m->seed = seed;
	m->s = s;
	m->at = 1;
	m->ratio = ratio;
	m->scatter = pick(m, 101);
	make_geometry(m);
	make_fixed(m);
	keep = chance(m, 30) ? 1 + pick(m, 3) : pick(m, m->left / 2 + 1);
	inodes = s->geo.groups * s->geo.inodes_per_group;
	s->file = room(inodes, sizeof(*s->file));
	for (uint32_t ino = 11, failed = 0; ino <= inodes && m->left > keep && failed < 20; ino++)
		failed += !make_file(m, ino, keep);
	make_free(m);
	s->count[LEAVE_NONE] = s->n_file;
	s->geo.ordered = seed % 4 == 3; /* no journal */
	make_order(m);
	free(m);
	return s;
}

struct snapshot *randomvol_make(uint64_t seed)
{
	return make_volume(seed, 1);
}

struct snapshot *randomvol_clusters(uint64_t seed)
{
	return make_volume(seed, 2u << seed % 4);
}

struct snapshot *randomvol_after(const struct state *st)
{
	const struct snapshot *from = st->snap;
	struct snapshot *s = room(1, sizeof(*s));
	struct error err = ERROR_INIT;
	struct range r;
	s->geo = from->geo;
	s->limits = from->limits;
	s->n_file = from->n_file;
	s->file = room(s->n_file, sizeof(*s->file));
	must(rangeset_clone(st->free, &s->free, &err) ||
	     rangeset_clone(from->fixed, &s->fixed, &err) ||
	     rangeset_clone(from->avoid, &s->avoid, &err));
	for (uint64_t at = 0; rangeset_next(from->avoid, at, &r); at = r.start + r.len)
		must(rangeset_add(s->free, r.start, r.len, &err));
	for (size_t i = 0; i < s->n_file; i++) {
		s->file[i] = from->file[i];
		must(filemap_copy(state_map(st, i), &s->file[i].map, &err));
	}
	s->count[LEAVE_NONE] = s->n_file;
	s->order = room(s->n_file, sizeof(*s->order));
	memcpy(s->order, from->order, s->n_file * sizeof(*s->order));
	s->n_front = from->n_front;
	return s;
}
