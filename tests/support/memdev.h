/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memdev: a device over a buffer of the caller. A queued request is carried out when it is waited
 * for (or when the queue is closed), so that a test sees what overtakes what.
 */
#ifndef SUPPORT_MEMDEV_H
#define SUPPORT_MEMDEV_H

#include "scaledefrag/device.h"

#define MEMDEV_DISCARDED 0xdb /* what discarded bytes read as */

/* `align` in bytes, 1: any. The buffer stays the caller's; end with device_close(). */
struct device *memdev_new(void *buf, size_t size, uint32_t align);
/* From now on queued requests complete in an order drawn from `seed`, and no more than asked for
 * come back at a time; 0: in order. */
void memdev_shuffle(struct device *dev, uint64_t seed);

#endif
