/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words of a snapshot's text form, which its writer and its parser share. */
#ifndef SCALEDEFRAG_MODEL_SNAPSHOT_TEXT_H
#define SCALEDEFRAG_MODEL_SNAPSHOT_TEXT_H

#include "scaledefrag/snapshot.h"
#include "text.h"

#define MAX_BLOCKS (1ull << 48)

extern const char *const snapshot_kind_name[FILE_KINDS];
extern const char *const snapshot_why_name[LEAVE_REASONS];

enum {
	GEO_BLOCK_SIZE,
	GEO_CLUSTER,
	GEO_FIRST,
	GEO_BLOCKS,
	GEO_GROUPS,
	GEO_BPG,
	GEO_IPG,
	GEO_INODE_SIZE,
	GEO_DESC,
	GEO_FLEX,
	GEO_ALIGN,
	GEO_CSUM,
	GEO_ORDERED,
	GEO_FIELDS
};

/* Names, present values and bounds. */
void snapshot_geometry_fields(const struct geometry *g, struct text_field f[GEO_FIELDS]);
void snapshot_limits_fields(const struct snapshot_limits *l, struct text_field f[2]);

#endif
