/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What file.c and aio.c share. */
#ifndef DEVICE_FILE_H
#define DEVICE_FILE_H

#include "scaledefrag/device.h"
#include <pthread.h>

struct aio_queue;

struct file_device {
	struct device dev;
	int fd;
	uint64_t base; /* bytes: start of the file system in the file */
	bool block_device;
	int64_t allocated;	/* 512-byte sectors of the host, when it was opened */
	pthread_mutex_t lock;	/* of what follows */
	bool flush_failed;	/* the kernel reports a lost write only once */
	struct aio_queue *idle; /* closed queues, kept: see aio.c */
};

static inline struct file_device *file_of(struct device *dev)
{
	return (struct file_device *)dev; /* dev is its first member */
}

int aio_queue_open(struct device *dev, unsigned depth, struct device_queue **out);
void aio_free_idle(struct file_device *f);

#endif
