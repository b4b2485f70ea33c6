/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slab: the pieces of a device that --mode free empties as wholes. They begin at multiples of their
 * size on the whole disk, not on the volume, shifted as the disk itself is (volume_into). And where
 * --mode layout lets long files begin, likewise.
 */
#include "engine_run.h"

/* Below, few long free runs are worth more than many free pieces. */
#define LEAST_DEFAULT (64u << 10)
/* What long files are aligned to: a large page of memory, an erase block of most flash. */
#define ALIGN (2u << 20)

/* The disk's own units, if they are of use as slabs; else 0. */
static uint64_t of_disk(const struct volume_place *place, const struct geometry *geo)
{
	uint64_t bs = geometry_cluster_size(geo), slab = place->unit;

	if (!place->disk || slab < LEAST_DEFAULT || slab % bs || volume_into(place, slab) % bs ||
	    slab > geo->blocks * geo->block_size / 2)
		return 0;
	return slab;
}

int slab_choose(uint64_t wish, const struct volume_place *place, const struct geometry *geo,
		const char *name, struct planner_options *out, struct error *err)
{
	uint64_t slab = wish == ENGINE_SLAB_DEVICE ? of_disk(place, geo) : wish;
	uint64_t bs = geometry_cluster_size(geo), into;

	if (!slab)
		return 0;
	into = volume_into(place, slab);
	if (slab % bs)
		return error_set(err, ERROR_USAGE,
				 "%s: --slab: not a multiple of the block size, %llu bytes", name,
				 (unsigned long long)bs);
	if (into % bs)
		return error_set(err, ERROR_USAGE,
				 "%s: --slab: the blocks of the file system are not aligned with "
				 "the device's slabs",
				 name);
	out->slab_blocks = slab / bs;
	out->slab_offset = (slab - into) % slab / bs;
	return 0;
}

void slab_align(const struct volume_place *place, const struct geometry *geo,
		struct planner_options *out)
{
	uint64_t bs = geometry_cluster_size(geo), into = volume_into(place, ALIGN);

	if (ALIGN % bs || into % bs || ALIGN / bs < 2)
		return;
	out->align_blocks = ALIGN / bs;
	out->align_offset = (ALIGN - into) % ALIGN / bs;
}
