/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * agedvol: large volumes that look aged, as snapshots, to measure the planner with. 72 % full; half
 * of the files in one piece, the others in 10 on average, some in hundreds; half of the free space
 * in short gaps. A seed gives the same volume always.
 */
#ifndef SCALEDEFRAG_TESTS_AGEDVOL_H
#define SCALEDEFRAG_TESTS_AGEDVOL_H

#include "scaledefrag/snapshot.h"

/* With `extents` records, or a few more. Aborts on lack of memory. */
struct snapshot *agedvol_make(uint64_t extents, uint64_t seed);

#endif
