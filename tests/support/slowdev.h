/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slowdev: a model of a flash drive or of a disk, in front of a device or of none, in simulated
 * time (simclock). What it says is the model's, not a real drive's.
 *
 *   slowdev_new(), slowdev_open(), work, slowdev_figures(), device_close(), slowdev_free()
 *
 * Flash: `channels` that work at the same time. The address space is dealt out to them by stripes
 * of 32 KiB, and each part of a request that lies in one stripe keeps its channel busy for
 * `request_ns`; a channel does one after the other. A request is done when all its parts are.
 *
 * Disk: one head. A request waits for the head to come to its track (seek_least_ns, and
 * seek_more_ns times the root of the distance over the size; nothing for less than a track), for
 * the platter to turn to its first byte, and for its bytes to pass. A track is 1 MiB and takes
 * 8.4 ms (7,150 turns a minute, 125 MB/s). Of the `sorted` oldest requests that wait, the one is
 * next that can be reached first; with 1 they are done as they came.
 *
 * There is no write cache: a flush takes no time. Thread rule: as a device.
 */
#ifndef SUPPORT_SLOWDEV_H
#define SUPPORT_SLOWDEV_H

#include "scaledefrag/device.h"
#include "simclock.h"

#define SLOWDEV_TRACK	(1u << 20) /* bytes */
#define SLOWDEV_BYTE_NS 8u
#define SLOWDEV_STRIPE	(32u << 10) /* bytes */

struct slowdev_model {
	/* Flash, if not 0. */
	unsigned channels;
	uint64_t request_ns;
	/* Disk. */
	unsigned sorted;
	uint64_t seek_least_ns, seek_more_ns;
};

extern const struct slowdev_model slowdev_flash; /* 8 channels of 100 us */
extern const struct slowdev_model slowdev_disk;	 /* 1 ms + up to 14 ms, 32 sorted */

struct slowdev_figures {
	uint64_t reads, writes, seeks;
	uint64_t seek_ns, turn_ns, transfer_ns; /* disk only */
};

struct slowdev;

/* `c` stays the caller's. */
struct slowdev *slowdev_new(const struct slowdev_model *model, struct simclock *c);
/* A device of `size` bytes. `inner`, if any, is where the data are, and is closed with *out;
 * without it nothing is read or kept. */
struct device *slowdev_open(struct slowdev *sd, struct device *inner, uint64_t size);
struct slowdev_figures slowdev_figures(struct slowdev *sd);
void slowdev_free(struct slowdev *sd); /* after device_close() */

#endif
