/* SPDX-License-Identifier: GPL-2.0-or-later */
/* snapshot_write: a snapshot as text; the form is described in snapshot_text.c. */
#include "snapshot_text.h"

const char *const snapshot_kind_name[FILE_KINDS] = { [FILE_REGULAR] = "file",
						     [FILE_DIRECTORY] = "dir",
						     [FILE_SYMLINK] = "symlink",
						     [FILE_EA_INODE] = "ea" };

const char *const snapshot_why_name[LEAVE_REASONS] = {
	[LEAVE_NONE] = "movable",
	[LEAVE_NOTHING] = "nothing",
	[LEAVE_BLOCK_MAPPED] = "blockmapped",
	[LEAVE_RESERVED] = "reserved",
	[LEAVE_ORPHAN_FILE] = "orphanfile",
	[LEAVE_EXCLUDED] = "excluded",
	[LEAVE_BOOT] = "boot",
	[LEAVE_SCOPE] = "scope",
	[LEAVE_PINNED] = "pinned",
	[LEAVE_SWAP] = "swap",
	[LEAVE_HIBERNATED] = "hibernated",
	[LEAVE_QUOTA] = "quota",
};

void snapshot_geometry_fields(const struct geometry *g, struct text_field f[GEO_FIELDS])
{
	f[GEO_BLOCK_SIZE] = (struct text_field){ "block_size", g->block_size, 65536 };
	f[GEO_CLUSTER] =
		(struct text_field){ "cluster_blocks", g->cluster_blocks, EXTENT_MAX_INIT };
	f[GEO_FIRST] = (struct text_field){ "first_data_block", g->first_data_block, 1 };
	f[GEO_BLOCKS] = (struct text_field){ "blocks", g->blocks, MAX_BLOCKS };
	f[GEO_GROUPS] = (struct text_field){ "groups", g->groups, UINT32_MAX };
	f[GEO_BPG] = (struct text_field){ "blocks_per_group", g->blocks_per_group, 8 * 65536 };
	f[GEO_IPG] = (struct text_field){ "inodes_per_group", g->inodes_per_group, 8 * 65536 };
	f[GEO_INODE_SIZE] = (struct text_field){ "inode_size", g->inode_size, 65536 };
	f[GEO_DESC] = (struct text_field){ "desc_per_block", g->desc_per_block, 65536 / 32 };
	f[GEO_FLEX] = (struct text_field){ "flex_size", g->flex_size, 1u << 31 };
	f[GEO_ALIGN] = (struct text_field){ "align_blocks", g->align_blocks, MAX_BLOCKS };
	f[GEO_CSUM] = (struct text_field){ "metadata_csum", g->metadata_csum, 1 };
	f[GEO_ORDERED] = (struct text_field){ "ordered", g->ordered, 1 };
}

void snapshot_limits_fields(const struct snapshot_limits *l, struct text_field f[2])
{
	f[0] = (struct text_field){ "journal_blocks", l->journal_blocks, MAX_BLOCKS };
	f[1] = (struct text_field){ "copy_blocks", l->copy_blocks, MAX_BLOCKS };
}

static void dump_file(const struct snapshot_file *f, struct text_out *to)
{
	const struct filemap *m = &f->map;
	const struct extent *e;
	size_t n;

	e = filemap_records(m, &n);
	text_put(to, "file %lu %s depth %lu%s%s\n", (unsigned long)f->ino,
		 snapshot_kind_name[f->kind], (unsigned long)m->depth,
		 m->indirect ? " indirect" : "", f->grows ? " grows" : "");
	for (size_t i = 0; i < n; i++)
		text_put(to, "ext %lu %lu %llu%s\n", (unsigned long)e[i].lblk,
			 (unsigned long)e[i].len, (unsigned long long)e[i].pblk,
			 e[i].unwritten ? " u" : "");
	for (uint32_t l = 0; l < m->depth; l++)
		for (size_t i = 0; i < m->tree->n_node[l]; i++)
			text_put(to, "node %lu %llu %lu\n", (unsigned long)l,
				 (unsigned long long)m->tree->node[l][i].pblk,
				 (unsigned long)m->tree->node[l][i].count);
}

static void dump_ranges(const char *word, const struct rangeset *rs, struct text_out *to)
{
	struct range r;

	for (uint64_t at = 0; rs && rangeset_next(rs, at, &r); at = r.start + r.len)
		text_put(to, "%s %llu %llu\n", word, (unsigned long long)r.start,
			 (unsigned long long)r.len);
}

int snapshot_write(const struct snapshot *s, text_fn put, void *ctx)
{
	struct text_out to = { .put = put, .ctx = ctx };
	struct text_field geo[GEO_FIELDS], limits[2];

	snapshot_geometry_fields(&s->geo, geo);
	snapshot_limits_fields(&s->limits, limits);
	text_put_fields(&to, "geometry", geo, GEO_FIELDS);
	text_put_fields(&to, "limits", limits, 2);
	for (int i = 0; i < LEAVE_REASONS; i++)
		text_put(&to, "count %s %llu\n", snapshot_why_name[i],
			 (unsigned long long)s->count[i]);
	for (size_t i = 0; i < s->n_file; i++)
		dump_file(&s->file[i], &to);
	dump_ranges("free", s->free, &to);
	dump_ranges("fixed", s->fixed, &to);
	dump_ranges("avoid", s->avoid, &to);
	for (size_t i = 0; i < s->n_left; i++)
		text_put(&to, "left %lu %s %llu\n", (unsigned long)s->left_ino[i],
			 snapshot_why_name[s->left_why[i]], (unsigned long long)s->left_runs[i]);
	for (size_t i = 0; s->order && i < s->n_file; i++)
		text_put(&to, "%s %lu\n", i < s->n_front ? "front" : "order",
			 (unsigned long)s->file[s->order[i]].ino);
	return to.failed ? -1 : 0;
}
