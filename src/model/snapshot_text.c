/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * snapshot_text: the text form of a snapshot. One line a thing:
 *
 *   geometry NAME N ...            first; names as in struct geometry; only `blocks` has no default
 *   limits NAME N ...              names as in struct snapshot_limits
 *   count WHY N                    inodes by reason; default: only the movable files are counted
 *   file INO KIND depth D [indirect] [grows]   KIND: file dir symlink ea; in inode order; then its
 *   ext LBLK LEN PBLK [u]            records (u: unwritten), in blocks also where all other
 *                                    numbers are clusters, and
 *   node LEVEL PBLK COUNT            tree blocks, by level, each in logical order
 *   free START LEN                 free blocks
 *   fixed START LEN                blocks that can't move
 *   avoid START LEN                bad ones among the free blocks
 *   left INO WHY RUNS              a file left alone, in inode order
 *   front INO                      a file of the front list, and
 *   order INO                        the others, in the order of a recursive scan; if there is any,
 *                                    files that aren't named come last
 *
 * Every block may be named once by ext, node, free and fixed.
 */
#include "snapshot_text.h"
#include "scaledefrag/array.h"
#include <stdlib.h>
#include <string.h>

struct parser {
	struct text t;
	struct snapshot *s;
	struct rangeset *claimed;   /* by ext, node, free and fixed */
	struct snapshot_file *file; /* whose lines may follow, or NULL */
	bool counted;
	size_t cap_file, cap_ext, cap_node[EXTENT_MAX_DEPTH];
	size_t cap_left_ino, cap_left_why, cap_left_runs;
	uint32_t *order; /* inodes */
	size_t n_order, cap_order, n_front;
};

static int derive_geometry(struct parser *p, struct error *err)
{
	struct geometry *g = &p->s->geo;
	uint64_t groups;

	if (g->block_size < 48)
		return text_error(&p->t, "block_size is below 48", err);
	if (g->blocks <= g->first_data_block)
		return text_error(&p->t, "blocks is missing or too small", err);
	if (!g->cluster_blocks || (g->cluster_blocks & (g->cluster_blocks - 1)))
		return text_error(&p->t, "cluster_blocks is no power of 2", err);
	if (!g->blocks_per_group || !g->inodes_per_group || !g->inode_size || !g->desc_per_block ||
	    !g->flex_size)
		return text_error(&p->t, "a size or count is 0", err);
	groups = (g->blocks - g->first_data_block - 1) / g->blocks_per_group + 1;
	if (!g->groups && groups <= UINT32_MAX)
		g->groups = (uint32_t)groups;
	if (g->groups != groups)
		return text_error(&p->t, "groups differs from blocks / blocks_per_group", err);
	return 0;
}

static int parse_geometry(struct parser *p, struct error *err)
{
	struct geometry *g = &p->s->geo;
	struct text_field f[GEO_FIELDS];

	if (g->blocks)
		return text_error(&p->t, "geometry again", err);
	*g = (struct geometry){ .block_size = 4096,
				.cluster_blocks = 1,
				.inodes_per_group = 8192,
				.inode_size = 256,
				.desc_per_block = 64,
				.flex_size = 16,
				.metadata_csum = true };
	snapshot_geometry_fields(g, f);
	f[GEO_FIRST].value = f[GEO_BPG].value = UINT64_MAX;
	if (text_get_fields(&p->t, f, GEO_FIELDS, err))
		return -1;
	if (f[GEO_FIRST].value == UINT64_MAX)
		f[GEO_FIRST].value = f[GEO_BLOCK_SIZE].value == 1024 && f[GEO_CLUSTER].value == 1;
	if (f[GEO_BPG].value == UINT64_MAX)
		f[GEO_BPG].value = 8 * f[GEO_BLOCK_SIZE].value;
	*g = (struct geometry){ .block_size = (uint32_t)f[GEO_BLOCK_SIZE].value,
				.cluster_blocks = (uint32_t)f[GEO_CLUSTER].value,
				.first_data_block = (uint32_t)f[GEO_FIRST].value,
				.blocks = f[GEO_BLOCKS].value,
				.groups = (uint32_t)f[GEO_GROUPS].value,
				.blocks_per_group = (uint32_t)f[GEO_BPG].value,
				.inodes_per_group = (uint32_t)f[GEO_IPG].value,
				.inode_size = (uint32_t)f[GEO_INODE_SIZE].value,
				.desc_per_block = (uint32_t)f[GEO_DESC].value,
				.flex_size = (uint32_t)f[GEO_FLEX].value,
				.align_blocks = f[GEO_ALIGN].value,
				.metadata_csum = f[GEO_CSUM].value != 0,
				.ordered = f[GEO_ORDERED].value != 0 };
	return derive_geometry(p, err);
}

static int parse_limits(struct parser *p, struct error *err)
{
	struct text_field f[2];

	snapshot_limits_fields(&p->s->limits, f);
	if (text_get_fields(&p->t, f, 2, err))
		return -1;
	p->s->limits =
		(struct snapshot_limits){ .journal_blocks = f[0].value, .copy_blocks = f[1].value };
	return 0;
}

static int parse_count(struct parser *p, struct error *err)
{
	int why = text_choice(&p->t, snapshot_why_name, LEAVE_REASONS);

	if (why < 0)
		return text_error(&p->t, "unknown reason", err);
	p->counted = true;
	return text_number(&p->t, "count", 0, UINT32_MAX, &p->s->count[why], err);
}

static int parse_ino(struct parser *p, uint64_t above, uint32_t *ino, struct error *err)
{
	uint64_t max = (uint64_t)p->s->geo.groups * p->s->geo.inodes_per_group, v;

	if (text_number(&p->t, "inode", above + 1, max < UINT32_MAX ? max : UINT32_MAX, &v, err))
		return -1;
	*ino = (uint32_t)v;
	return 0;
}

/* A place within the file system of `blocks`, so that start + len can't wrap. */
static int parse_place(struct parser *p, uint64_t len, uint64_t blocks, uint64_t *start,
		       struct error *err)
{
	if (text_number(&p->t, "block", p->s->geo.first_data_block, blocks - 1, start, err))
		return -1;
	if (len > blocks - *start)
		return text_error(&p->t, "it ends beyond the file system", err);
	return 0;
}

static int claim(struct parser *p, uint64_t start, uint64_t len, struct error *err)
{
	if (rangeset_overlaps(p->claimed, start, len))
		return text_error(&p->t, "a block named twice", err);
	return rangeset_add(p->claimed, start, len, err);
}

static int parse_file(struct parser *p, struct error *err)
{
	struct snapshot *s = p->s;
	uint64_t above = s->n_file ? s->file[s->n_file - 1].ino : 0, depth;
	struct snapshot_file f = { 0 };
	int kind;

	if (parse_ino(p, above, &f.ino, err))
		return -1;
	kind = text_choice(&p->t, snapshot_kind_name, FILE_KINDS);
	if (kind < 0 || !text_word(&p->t, "depth"))
		return text_error(&p->t, "unknown kind, or depth is missing", err);
	if (text_number(&p->t, "depth", 0, EXTENT_MAX_DEPTH, &depth, err) ||
	    array_reserve(&s->file, &p->cap_file, s->n_file + 1, sizeof(*s->file), err))
		return -1;
	f.kind = (uint8_t)kind;
	f.map.depth = (uint8_t)depth;
	f.map.indirect = text_word(&p->t, "indirect");
	f.grows = text_word(&p->t, "grows");
	s->file[s->n_file] = f;
	p->file = &s->file[s->n_file++];
	if (depth && filemap_need_tree(&p->file->map, err))
		return -1;
	p->cap_ext = 0;
	memset(p->cap_node, 0, sizeof(p->cap_node));
	return 0;
}

static int parse_ext(struct parser *p, struct error *err)
{
	const struct geometry *g = &p->s->geo;
	uint64_t lblk, len, pblk;
	struct filemap *m;
	struct extent *e;

	if (!p->file)
		return text_error(&p->t, "it belongs to no file", err);
	m = &p->file->map;
	if (text_number(&p->t, "lblk", 0, UINT32_MAX, &lblk, err) ||
	    text_number(&p->t, "length", 1, EXTENT_MAX_INIT, &len, err) ||
	    parse_place(p, len, g->blocks * g->cluster_blocks, &pblk, err) ||
	    (g->cluster_blocks == 1 && claim(p, pblk, len, err)) ||
	    array_reserve(&m->ext, &p->cap_ext, m->n_ext + 1, sizeof(*m->ext), err))
		return -1;
	e = &m->ext[m->n_ext++];
	*e = (struct extent){ .pblk = pblk, .lblk = (uint32_t)lblk, .len = len & 0x7fffffffu };
	e->unwritten = text_word(&p->t, "u");
	return 0;
}

static int parse_node(struct parser *p, struct error *err)
{
	uint64_t level, pblk, count;
	struct filemap *m;

	if (!p->file)
		return text_error(&p->t, "it belongs to no file", err);
	m = &p->file->map;
	if (!m->depth)
		return text_error(&p->t, "a node in a tree of depth 0", err);
	if (text_number(&p->t, "level", 0, m->depth - 1, &level, err) ||
	    parse_place(p, 1, p->s->geo.blocks, &pblk, err) ||
	    text_number(&p->t, "count", 1, geometry_node_records(p->s->geo.block_size), &count,
			err) ||
	    claim(p, pblk, 1, err) ||
	    array_reserve(&m->tree->node[level], &p->cap_node[level], m->tree->n_node[level] + 1,
			  sizeof(*m->tree->node[level]), err))
		return -1;
	m->tree->node[level][m->tree->n_node[level]++] =
		(struct tree_node){ .pblk = pblk, .count = (uint32_t)count };
	return 0;
}

static int parse_range(struct parser *p, struct rangeset *rs, bool claims, struct error *err)
{
	const struct geometry *g = &p->s->geo;
	uint64_t start, len;

	/* Fixed ranges may begin with the boot block, below first_data_block. */
	if (text_number(&p->t, "block", 0, g->blocks - 1, &start, err) ||
	    text_number(&p->t, "length", 1, g->blocks - start, &len, err))
		return -1;
	if (rs == p->s->free && start < g->first_data_block)
		return text_error(&p->t, "a free block before the first data block", err);
	if (claims && claim(p, start, len, err))
		return -1;
	if (rangeset_overlaps(rs, start, len))
		return text_error(&p->t, "a block named twice", err);
	return rangeset_add(rs, start, len, err);
}

static int parse_free(struct parser *p, struct error *err)
{
	return parse_range(p, p->s->free, true, err);
}

static int parse_fixed(struct parser *p, struct error *err)
{
	return parse_range(p, p->s->fixed, true, err);
}

static int parse_avoid(struct parser *p, struct error *err)
{
	return parse_range(p, p->s->avoid, false, err);
}

static int parse_left(struct parser *p, struct error *err)
{
	struct snapshot *s = p->s;
	uint64_t above = s->n_left ? s->left_ino[s->n_left - 1] : 0, runs;
	uint32_t ino;
	int why;

	if (parse_ino(p, above, &ino, err))
		return -1;
	why = text_choice(&p->t, snapshot_why_name, LEAVE_REASONS);
	if (why < 0)
		return text_error(&p->t, "unknown reason", err);
	if (text_number(&p->t, "runs", 0, MAX_BLOCKS, &runs, err) ||
	    array_reserve(&s->left_ino, &p->cap_left_ino, s->n_left + 1, sizeof(*s->left_ino),
			  err) ||
	    array_reserve(&s->left_why, &p->cap_left_why, s->n_left + 1, sizeof(*s->left_why),
			  err) ||
	    array_reserve(&s->left_runs, &p->cap_left_runs, s->n_left + 1, sizeof(*s->left_runs),
			  err))
		return -1;
	s->left_ino[s->n_left] = ino;
	s->left_why[s->n_left] = (uint8_t)why;
	s->left_runs[s->n_left++] = runs;
	return 0;
}

static int parse_order(struct parser *p, struct error *err)
{
	uint32_t ino;

	if (parse_ino(p, 0, &ino, err) ||
	    array_reserve(&p->order, &p->cap_order, p->n_order + 1, sizeof(*p->order), err))
		return -1;
	if (!snapshot_find(p->s, ino))
		return text_error(&p->t, "no such file before it", err);
	p->order[p->n_order++] = ino;
	return 0;
}

static int parse_front(struct parser *p, struct error *err)
{
	if (p->n_front < p->n_order)
		return text_error(&p->t, "front must come before order", err);
	p->n_front++;
	return parse_order(p, err);
}

/* Its records were read in blocks, its tree blocks in clusters. */
static int close_clusters(struct parser *p, const char **wrong, struct error *err)
{
	struct filemap *m = &p->file->map;
	uint32_t ratio = p->s->geo.cluster_blocks;

	if (m->indirect) {
		*wrong = "it is block-mapped, in a file system of clusters";
		return 0;
	}
	for (uint32_t l = 0; l < m->depth; l++)
		for (size_t i = 0; i < m->tree->n_node[l]; i++)
			m->tree->node[l][i].pblk *= ratio;
	if (filemap_to_clusters(m, ratio, wrong, err))
		return *wrong ? 0 : -1;
	for (size_t i = 0; i < m->n_ext; i++)
		if (claim(p, m->ext[i].pblk, m->ext[i].len, err))
			return -1;
	return 0;
}

/* The file's lines are over. */
static int close_file(struct parser *p, struct error *err)
{
	const char *wrong;

	if (!p->file)
		return 0;
	wrong = p->file->map.n_ext ? filemap_check(&p->file->map, p->s->geo.block_size)
				   : "it has no blocks";
	if (!wrong && p->s->geo.cluster_blocks > 1 && close_clusters(p, &wrong, err))
		return -1;
	if (wrong)
		return error_set(err, ERROR_USAGE, "line %zu: inode %lu, before this line: %s",
				 p->t.line, (unsigned long)p->file->ino, wrong);
	p->file = NULL;
	return 0;
}

static int parse_line(struct parser *p, struct error *err)
{
	static const char *const word[] = {
		"ext",	"node",	 "geometry", "limits", "count", "file",
		"free", "fixed", "avoid",    "left",   "front", "order"
	};
	static int (*const parse[])(struct parser *, struct error *) = {
		parse_ext,  parse_node,	 parse_geometry, parse_limits, parse_count, parse_file,
		parse_free, parse_fixed, parse_avoid,	 parse_left,   parse_front, parse_order
	};
	int i = text_choice(&p->t, word, sizeof(word) / sizeof(word[0]));

	if (i < 0)
		return text_error(&p->t, "unknown word", err);
	if (parse[i] != parse_geometry && !p->s->geo.blocks)
		return text_error(&p->t, "geometry must come first", err);
	if (parse[i] != parse_ext && parse[i] != parse_node && close_file(p, err))
		return -1;
	if (parse[i](p, err))
		return -1;
	return text_end(&p->t) ? 0 : text_error(&p->t, "more words than expected", err);
}

int snapshot_parse(const char *text, struct snapshot **out, struct error *err)
{
	struct parser p = { .t = { .next = text } };
	int rc = -1;

	p.s = calloc(1, sizeof(*p.s));
	if (!p.s)
		return error_nomem(err, "reading a snapshot");
	if (rangeset_new(&p.s->free, err) || rangeset_new(&p.s->fixed, err) ||
	    rangeset_new(&p.s->avoid, err) || rangeset_new(&p.claimed, err))
		goto out;
	while (text_line(&p.t))
		if (parse_line(&p, err))
			goto out;
	if (close_file(&p, err))
		goto out;
	if (!p.s->geo.blocks) {
		text_error(&p.t, "no geometry", err);
		goto out;
	}
	if (p.n_order && snapshot_set_order(p.s, p.order, p.n_order, p.n_front, err))
		goto out;
	if (!p.counted)
		p.s->count[LEAVE_NONE] = p.s->n_file;
	*out = p.s;
	p.s = NULL;
	rc = 0;
out:
	snapshot_free(p.s);
	free(p.order);
	rangeset_free(p.claimed);
	return rc;
}
