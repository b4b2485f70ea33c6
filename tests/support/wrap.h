/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What devices that stand in front of another one share. */
#ifndef SUPPORT_WRAP_H
#define SUPPORT_WRAP_H

#include "scaledefrag/device.h"
#include <errno.h>
#include <stdlib.h>

/* Test code has no use for a NULL. */
static inline void *must_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

static inline void wrap_init(struct device *dev, const struct device *inner,
			     const struct device_ops *ops)
{
	dev->ops = ops;
	dev->size = inner->size;
	dev->align = inner->align;
	dev->sector = inner->sector;
	dev->direct = inner->direct;
	dev->fuse = inner->fuse;
	dev->read_only = inner->read_only;
	dev->sparse = inner->sparse;
}

/* The errno that an implementation returns for a failed wrapper call. */
static inline int wrap_errno(int rc, const struct error *err)
{
	if (!rc)
		return 0;
	return err->sys ? err->sys : EIO;
}

#endif
