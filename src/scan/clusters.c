/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: bigalloc: from blocks to clusters. */
#include "scan_internal.h"

/* Nobody makes such a tree block, and e2fsck finds nothing wrong with it. */
static int check_nodes(const struct source *src, const struct snapshot_file *f, struct error *err)
{
	for (uint32_t l = 0; l < f->map.depth; l++)
		for (size_t i = 0; i < f->map.tree->n_node[l]; i++)
			if (f->map.tree->node[l][i].pblk % src->geo->cluster_blocks)
				return error_set(err, ERROR_USAGE,
						 "%s: not supported: tree block %llu of inode %u "
						 "does not begin a cluster",
						 volume_arg(src->v),
						 (unsigned long long)f->map.tree->node[l][i].pblk,
						 f->ino);
	return 0;
}

int clusters_of_files(const struct source *src, struct snapshot_file *file, size_t n,
		      struct error *err)
{
	for (size_t i = 0; i < n && source_is_bigalloc(src); i++) {
		const char *wrong = NULL;

		if (check_nodes(src, &file[i], err))
			return -1;
		if (!filemap_to_clusters(&file[i].map, src->geo->cluster_blocks, &wrong, err))
			continue;
		return wrong ? source_damage(src, err, "inode %u: %s", file[i].ino, wrong) : -1;
	}
	return 0;
}
