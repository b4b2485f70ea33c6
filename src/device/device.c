/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wrappers that every device shares: they check bounds, read_only and dead, and count. What an
 * implementation sees is therefore always in bounds.
 */
#include "scaledefrag/device.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define BUFFER_ALIGN 4096

void *device_buffer(size_t len)
{
	if (len == 0)
		len = 1;
	if (len > SIZE_MAX - BUFFER_ALIGN)
		return NULL;
	return aligned_alloc(BUFFER_ALIGN, (len + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN);
}

void device_close(struct device *dev)
{
	if (dev)
		dev->ops->close(dev);
}

static const char *verb(enum device_op op)
{
	return op == DEVICE_WRITE ? "write" : "read";
}

static int place_error(const char *what, uint64_t offset, uint64_t len, int sys, struct error *err)
{
	return error_sys(err, ERROR_OPERATION, sys,
			 "cannot %s %" PRIu64 " bytes at byte %" PRIu64 " (512-byte sector %" PRIu64
			 ")",
			 what, len, offset, offset / 512);
}

static int transfer_error(enum device_op op, uint64_t offset, uint64_t len, int sys,
			  struct error *err)
{
	return place_error(verb(op), offset, len, sys, err);
}

static int check_dead(struct device *dev, const char *what, struct error *err)
{
	if (!atomic_load(&dev->dead))
		return 0;
	error_set(err, ERROR_OPERATION,
		  "%s refused: an earlier write or flush of this device failed", what);
	err->sys = EIO;
	return -1;
}

static int check_range(struct device *dev, enum device_op op, uint64_t offset, uint64_t len,
		       struct error *err)
{
	if (len > dev->size || offset > dev->size - len) {
		error_set(err, ERROR_OPERATION,
			  "cannot %s %" PRIu64 " bytes at byte %" PRIu64
			  ": the device ends at byte %" PRIu64,
			  verb(op), len, offset, dev->size);
		err->sys = EINVAL;
		return -1;
	}
	if (op != DEVICE_WRITE)
		return 0;
	if (dev->read_only)
		return transfer_error(op, offset, len, EROFS, err);
	return check_dead(dev, "write", err);
}

static void count(struct device *dev, enum device_op op, size_t len)
{
	bool writes = op == DEVICE_WRITE;

	atomic_fetch_add(writes ? &dev->count.writes : &dev->count.reads, 1);
	atomic_fetch_add(writes ? &dev->count.write_bytes : &dev->count.read_bytes, len);
}

int device_read(struct device *dev, void *buf, uint64_t offset, size_t len, struct error *err)
{
	int sys;

	if (check_range(dev, DEVICE_READ, offset, len, err))
		return -1;
	if (len == 0)
		return 0;
	count(dev, DEVICE_READ, len);
	sys = dev->ops->read(dev, buf, offset, len);
	return sys ? transfer_error(DEVICE_READ, offset, len, sys, err) : 0;
}

int device_write(struct device *dev, const void *buf, uint64_t offset, size_t len,
		 struct error *err)
{
	int sys;

	if (check_range(dev, DEVICE_WRITE, offset, len, err))
		return -1;
	if (len == 0)
		return 0;
	count(dev, DEVICE_WRITE, len);
	sys = dev->ops->write(dev, buf, offset, len);
	return sys ? transfer_error(DEVICE_WRITE, offset, len, sys, err) : 0;
}

int device_flush(struct device *dev, struct error *err)
{
	int sys;

	if (check_dead(dev, "flush", err))
		return -1;
	if (dev->read_only)
		return 0;
	atomic_fetch_add(&dev->count.flushes, 1);
	sys = dev->ops->flush(dev);
	if (!sys)
		return 0;
	/* What had been written may be lost, and a second flush would not say so (I12). */
	atomic_store(&dev->dead, true);
	return error_sys(err, ERROR_OPERATION, sys, "cannot flush writes to the device");
}

int device_reserve(struct device *dev, uint64_t offset, uint64_t len, struct error *err)
{
	int sys;

	if (!dev->ops->reserve)
		return 0;
	if (check_range(dev, DEVICE_WRITE, offset, len, err))
		return -1;
	sys = dev->ops->reserve(dev, offset, len);
	return sys ? error_sys(err, ERROR_OPERATION, sys,
			       "the file system that holds the image has no room for it to grow")
		   : 0;
}

int device_discard(struct device *dev, uint64_t offset, uint64_t len, struct error *err)
{
	int sys;

	if (check_range(dev, DEVICE_WRITE, offset, len, err))
		return -1;
	if (len == 0)
		return 0;
	sys = dev->ops->discard ? dev->ops->discard(dev, offset, len) : EOPNOTSUPP;
	if (sys)
		return place_error("discard", offset, len, sys, err);
	atomic_fetch_add(&dev->count.discards, 1);
	atomic_fetch_add(&dev->count.discard_bytes, len);
	return 0;
}

void device_cold(struct device *dev, bool on)
{
	if (dev->ops->cold)
		dev->ops->cold(dev, on);
}

bool device_grown(struct device *dev, uint64_t *bytes)
{
	return dev->ops->grown && dev->ops->grown(dev, bytes);
}

int device_queue_open(struct device *dev, unsigned depth, struct device_queue **out,
		      struct error *err)
{
	struct device_queue *q;
	int sys;

	if (!dev->ops->queue_open)
		sys = ENOTSUP;
	else if (depth == 0)
		sys = EINVAL;
	else
		sys = dev->ops->queue_open(dev, depth, &q);
	if (sys)
		return error_sys(err, ERROR_OPERATION, sys,
				 "cannot open a queue of %u asynchronous requests", depth);
	*out = q;
	return 0;
}

static int check_request(struct device *dev, const struct device_request *r, struct error *err)
{
	uint64_t mask = (uint64_t)dev->align - 1;

	if (check_range(dev, r->op, r->offset, r->len, err))
		return -1;
	if (r->len == 0 || ((r->offset | r->len | (uintptr_t)r->buf) & mask))
		return transfer_error(r->op, r->offset, r->len, EINVAL, err);
	return 0;
}

int device_queue_submit(struct device_queue *q, struct device_request **reqs, size_t n,
			struct error *err)
{
	int sys;

	if (n > device_queue_room(q)) {
		error_set(err, ERROR_OPERATION, "%zu requests do not fit the queue's room of %zu",
			  n, device_queue_room(q));
		err->sys = EINVAL;
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (check_request(q->dev, reqs[i], err))
			return -1;
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		reqs[i]->result = 0;
		reqs[i]->done = 0;
	}
	sys = q->ops->submit(q, reqs, n);
	if (sys)
		return error_sys(
			err, ERROR_OPERATION, sys,
			"cannot submit %zu requests, the first a %s of %zu bytes at byte %" PRIu64,
			n, verb(reqs[0]->op), reqs[0]->len, reqs[0]->offset);
	q->in_flight += n;
	for (size_t i = 0; i < n; i++)
		count(q->dev, reqs[i]->op, reqs[i]->len);
	return 0;
}

int device_queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n, struct error *err)
{
	size_t got = 0;
	int sys;

	if (min > q->in_flight || min > max) {
		error_set(err, ERROR_OPERATION,
			  "cannot wait for %zu (at most %zu) requests: %zu are in flight", min, max,
			  q->in_flight);
		err->sys = EINVAL;
		return -1;
	}
	sys = q->ops->wait(q, min, max, done, &got);
	if (sys)
		return error_sys(err, ERROR_OPERATION, sys,
				 "cannot wait for %zu requests in flight", q->in_flight);
	q->in_flight -= got;
	*n = got;
	return 0;
}

size_t device_queue_room(const struct device_queue *q)
{
	return q->depth > q->in_flight ? q->depth - q->in_flight : 0;
}

void device_queue_close(struct device_queue *q)
{
	if (q)
		q->ops->close(q);
}

/* Without a queue, the same work. */
static int run_one_by_one(struct device *dev, struct device_request *reqs, size_t n,
			  struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		struct device_request *r = &reqs[i];
		int rc = r->op == DEVICE_WRITE ? device_write(dev, r->buf, r->offset, r->len, err)
					       : device_read(dev, r->buf, r->offset, r->len, err);

		r->result = rc ? err->sys : 0;
		if (rc)
			return -1;
	}
	return 0;
}

int device_run(struct device *dev, unsigned depth, struct device_request *reqs, size_t n,
	       struct error *err)
{
	struct device_request **list = NULL;
	struct device_queue *q = NULL;
	size_t next = 0, got;
	int rc = -1;

	if (n == 0)
		return 0;
	if (depth > n)
		depth = (unsigned)n;
	if (!dev->ops->queue_open || depth == 1)
		return run_one_by_one(dev, reqs, n, err);
	if (device_queue_open(dev, depth, &q, err))
		return -1;
	list = calloc(q->depth, sizeof(*list)); /* also the room for what comes back */
	if (!list) {
		error_nomem(err, "running a list of requests");
		goto out;
	}
	while (next < n || q->in_flight) {
		size_t take = device_queue_room(q);

		if (take > n - next)
			take = n - next;
		for (size_t i = 0; i < take; i++)
			list[i] = &reqs[next + i];
		if (device_queue_submit(q, list, take, err))
			goto out;
		next += take;
		if (device_queue_wait(q, 1, q->depth, list, &got, err))
			goto out;
		for (size_t i = 0; i < got; i++) {
			const struct device_request *r = list[i];

			if (r->result) {
				transfer_error(r->op, r->offset, r->len, r->result, err);
				goto out;
			}
		}
	}
	rc = 0;
out:
	device_queue_close(q); /* waits for what is still in flight */
	free(list);
	return rc;
}
