/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What file.c and aio.c share. */
#ifndef DEVICE_FILE_H
#define DEVICE_FILE_H

#include "scaledefrag/device.h"

struct file_device {
	struct device dev;
	int fd;
	uint64_t base; /* bytes: start of the file system in the file */
};

static inline struct file_device *file_of(struct device *dev)
{
	return (struct file_device *)dev; /* dev is its first member */
}

int aio_queue_open(struct device *dev, unsigned depth, struct device_queue **out);

#endif
