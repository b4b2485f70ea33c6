/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The library's options: defaults, and what does not go together. */
#include "library.h"
#include "scaledefrag/move.h"
#include <unistd.h>

#define THREADS_DEFAULT_MAX 16
#define QUEUE_DEPTH_DEFAULT 128

void library_defaults(struct scaledefrag_options *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	cpus = cpus < 1 ? 1 : cpus > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX : cpus;
	if (!o->threads)
		o->threads = (unsigned)cpus;
	if (!o->queue_depth)
		o->queue_depth = QUEUE_DEPTH_DEFAULT;
	if (!o->batch_bytes)
		o->batch_bytes = ENGINE_BATCH_DEFAULT;
}

static int check_memory(const struct scaledefrag_options *o, struct error *err)
{
	unsigned threads = o->threads < o->queue_depth ? o->threads : o->queue_depth;
	/* Of what the program leaves, the engine gives half to copies. */
	uint64_t need = ENGINE_MEMORY_PROGRAM + 2 * move_memory_floor(threads, 65536);

	if (o->memory && o->memory < need)
		return error_set(err, ERROR_USAGE,
				 "--memory: %u threads need at least %lluM; give more, or fewer "
				 "--threads",
				 threads, (unsigned long long)((need + (1 << 20) - 1) >> 20));
	return 0;
}

int library_check(const struct scaledefrag_options *o, struct error *err)
{
	if (!o->path || !*o->path)
		return error_set(err, ERROR_USAGE, "no device or image given");
	if (o->dry_run && o->report_only)
		return error_set(err, ERROR_USAGE, "-n and -c don't go together");
	if (o->preen && (o->dry_run || o->report_only))
		return error_set(err, ERROR_USAGE, "-p writes, -n and -c don't: give one of them");
	if (o->slab && o->mode != SCALEDEFRAG_MODE_FREE)
		return error_set(err, ERROR_USAGE, "--slab needs --mode free");
	if (o->front && o->mode != SCALEDEFRAG_MODE_LAYOUT)
		return error_set(err, ERROR_USAGE, "--front-list needs --mode layout");
	if (o->reserve && o->mode != SCALEDEFRAG_MODE_LAYOUT)
		return error_set(err, ERROR_USAGE, "--reserve needs --mode layout");
	if (o->reserve > SCALEDEFRAG_RESERVE_MOST)
		return error_set(err, ERROR_USAGE, "--reserve: more than %d per cent",
				 SCALEDEFRAG_RESERVE_MOST);
	if (o->batch_bytes < ENGINE_BATCH_MIN)
		return error_set(err, ERROR_USAGE, "--batch-size: at least 1M");
	return check_memory(o, err);
}
