/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * randomvol: small random volumes as snapshots, for tests of the planner. A seed gives the same
 * volume always. They have everything that a plan may trip over: several groups with metadata,
 * shattered free space down to one block, deep and loosely filled trees, holes, unwritten records,
 * bad blocks, and limits so tight that some files can't be moved at all.
 *
 * All functions abort on lack of memory.
 */
#ifndef SCALEDEFRAG_TESTS_RANDOMVOL_H
#define SCALEDEFRAG_TESTS_RANDOMVOL_H

#include "scaledefrag/snapshot.h"

struct snapshot *randomvol_make(uint64_t seed);
/* The same in clusters of 2 to 16 blocks, in which files have holes, unwritten parts, and records
 * that begin and end anywhere. */
struct snapshot *randomvol_clusters(uint64_t seed);
/* The state as a snapshot of its own, as a scan would find it. */
struct snapshot *randomvol_after(const struct state *st);

#endif
