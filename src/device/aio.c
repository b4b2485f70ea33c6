/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue of asynchronous requests on libaio. A request is in one of three places: waiting to be
 * taken by the kernel, at the kernel, or ready to be handed back. What the kernel has no room for
 * stays waiting and is offered again after a completion; what it refuses becomes the result of that
 * request. So submit never fails half way.
 *
 * To destroy a context costs the kernel some 30 ms, whatever its size. So a closed queue is kept
 * by its device, and used again by the next one that opens a queue.
 */
#include "file.h"
#include <errno.h>
#include <libaio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_DEPTH 32 /* contexts are made for at least as many requests, to be used again */
#define MAX_DEPTH 32768

struct aio_queue {
	struct device_queue q;
	struct aio_queue *next; /* in the device's list, when idle */
	unsigned max_depth;
	io_context_t ctx; /* NULL: the kernel gives none, all is done synchronously */
	size_t waiting_n, kernel_n, ready_n, spare_n;
	struct iocb *slots;  /* depth of them */
	struct iocb **spare; /* slots without a request */
	struct iocb **waiting;
	struct device_request **ready;
	struct io_event *events;
};

static struct aio_queue *aio_of(struct device_queue *q)
{
	return (struct aio_queue *)q; /* q is its first member */
}

/* Describes the rest of the slot's request, and puts it in line. */
static void line_up(struct aio_queue *a, struct iocb *cb, struct device_request *r)
{
	struct file_device *f = file_of(a->q.dev);
	char *buf = (char *)r->buf + r->done;
	long long offset = (long long)(f->base + r->offset + r->done);

	if (r->op == DEVICE_WRITE)
		io_prep_pwrite(cb, f->fd, buf, r->len - r->done, offset);
	else
		io_prep_pread(cb, f->fd, buf, r->len - r->done, offset);
	cb->data = r;
	a->waiting[a->waiting_n++] = cb;
}

static void finish(struct aio_queue *a, struct iocb *cb, int result)
{
	struct device_request *r = cb->data;

	r->result = result;
	if (!result)
		r->done = r->len;
	a->ready[a->ready_n++] = r;
	a->spare[a->spare_n++] = cb;
}

static void finish_synchronously(struct aio_queue *a, struct iocb *cb)
{
	struct device *dev = a->q.dev;
	struct device_request *r = cb->data;
	char *buf = (char *)r->buf + r->done;
	uint64_t offset = r->offset + r->done;
	size_t len = r->len - r->done;

	finish(a, cb,
	       r->op == DEVICE_WRITE ? dev->ops->write(dev, buf, offset, len)
				     : dev->ops->read(dev, buf, offset, len));
}

static struct iocb *drop_first(struct aio_queue *a, size_t n)
{
	struct iocb *first = a->waiting[0];

	a->waiting_n -= n;
	memmove(a->waiting, a->waiting + n, a->waiting_n * sizeof(*a->waiting));
	return first;
}

/* Offers what is waiting to the kernel. Afterwards nothing waits, or something is at the kernel. */
static void push(struct aio_queue *a)
{
	while (a->waiting_n) {
		int rc = a->ctx ? io_submit(a->ctx, (long)a->waiting_n, a->waiting) : -ENOSYS;

		if (rc > 0) {
			a->kernel_n += (size_t)rc;
			drop_first(a, (size_t)rc);
		} else if (rc == 0 || rc == -EAGAIN || rc == -ENOMEM) {
			if (a->kernel_n)
				return;
			finish_synchronously(a, drop_first(a, 1));
		} else if (rc == -ENOSYS) {
			finish_synchronously(a, drop_first(a, 1));
		} else if (rc != -EINTR) {
			finish(a, drop_first(a, 1), -rc); /* the first one is what it means */
		}
	}
}

/* The kernel is done with a request, wholly or in part. */
static void take_event(struct aio_queue *a, const struct io_event *ev)
{
	struct iocb *cb = ev->obj;
	struct device_request *r = cb->data;
	/* libaio declares res unsigned */
	long long res = (long long)ev->res;
	size_t done;

	if (res == -EINTR || res == -EAGAIN) {
		finish_synchronously(a, cb);
	} else if (res < 0) {
		finish(a, cb, (int)-res);
	} else if ((size_t)res >= r->len - r->done) {
		finish(a, cb, 0);
	} else {
		/* Short: go on from the last aligned byte; without progress, give up. */
		done = (r->done + (size_t)res) & ~((size_t)a->q.dev->align - 1);
		if (done <= r->done) {
			finish(a, cb, EIO);
			return;
		}
		r->done = done;
		line_up(a, cb, r);
	}
}

/* Blocks for at least `min` events. */
static int reap(struct aio_queue *a, size_t min)
{
	int n;

	if (min > a->kernel_n)
		min = a->kernel_n;
	do {
		n = io_getevents(a->ctx, (long)min, (long)a->kernel_n, a->events, NULL);
	} while (n == -EINTR);
	if (n < 0)
		return -n;
	a->kernel_n -= (size_t)n;
	for (int i = 0; i < n; i++)
		take_event(a, &a->events[i]);
	return 0;
}

static int aio_submit(struct device_queue *q, struct device_request **reqs, size_t n)
{
	struct aio_queue *a = aio_of(q);

	for (size_t i = 0; i < n; i++)
		line_up(a, a->spare[--a->spare_n], reqs[i]);
	push(a);
	return 0;
}

static int aio_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		    size_t *n)
{
	struct aio_queue *a = aio_of(q);
	size_t take;

	push(a);
	if (a->kernel_n && a->ready_n < max && min == 0) {
		int sys = reap(a, 0);

		if (sys)
			return sys;
		push(a);
	}
	while (a->ready_n < min) {
		int sys = reap(a, min - a->ready_n);

		if (sys)
			return sys;
		push(a);
	}
	take = a->ready_n < max ? a->ready_n : max;
	memcpy(done, a->ready, take * sizeof(*done));
	a->ready_n -= take;
	memmove(a->ready, a->ready + take, a->ready_n * sizeof(*a->ready));
	*n = take;
	return 0;
}

/* Everything empty, room for `depth` requests. */
static void reset(struct aio_queue *a, unsigned depth)
{
	a->q.depth = depth;
	a->q.in_flight = 0;
	a->waiting_n = a->kernel_n = a->ready_n = a->spare_n = 0;
	for (unsigned i = 0; i < depth; i++)
		a->spare[a->spare_n++] = &a->slots[i];
}

static void release(struct aio_queue *a)
{
	if (a->ctx)
		io_destroy(a->ctx); /* waits for all that is at the kernel */
	free(a->slots);
	free(a->spare);
	free(a->waiting);
	free(a->ready);
	free(a->events);
	free(a);
}

void aio_free_idle(struct file_device *f)
{
	while (f->idle) {
		struct aio_queue *a = f->idle;

		f->idle = a->next;
		release(a);
	}
}

static void aio_close(struct device_queue *q)
{
	struct aio_queue *a = aio_of(q);
	struct file_device *f = file_of(q->dev);
	int n = 0;

	while (a->kernel_n && n >= 0) {
		n = io_getevents(a->ctx, (long)a->kernel_n, (long)a->kernel_n, a->events, NULL);
		if (n == -EINTR)
			n = 0;
		else if (n > 0)
			a->kernel_n -= (size_t)n;
	}
	if (n < 0 || !a->ctx) {
		release(a);
		return;
	}
	pthread_mutex_lock(&f->lock);
	a->next = f->idle;
	f->idle = a;
	pthread_mutex_unlock(&f->lock);
}

static const struct device_queue_ops aio_queue_ops = {
	.submit = aio_submit,
	.wait = aio_wait,
	.close = aio_close,
};

/*
 * Others may have used up fs.aio-max-nr: a shorter queue, or a synchronous one, is slower but
 * right.
 */
static int set_up(struct aio_queue *a, unsigned depth)
{
	unsigned n = depth > MIN_DEPTH ? depth : MIN_DEPTH;
	int rc;

	while ((rc = io_setup((int)n, &a->ctx)) == -EAGAIN && n > 1)
		n /= 2;
	if (rc == -ENOMEM)
		return ENOMEM;
	if (rc < 0)
		a->ctx = NULL;
	a->max_depth = n;
	return 0;
}

static int make(struct device *dev, unsigned depth, struct aio_queue **out)
{
	struct aio_queue *a = calloc(1, sizeof(*a));
	int sys;

	if (!a)
		return ENOMEM;
	sys = set_up(a, depth);
	if (sys)
		goto fail;
	a->q.ops = &aio_queue_ops;
	a->q.dev = dev;
	a->slots = calloc(a->max_depth, sizeof(*a->slots));
	a->spare = calloc(a->max_depth, sizeof(*a->spare));
	a->waiting = calloc(a->max_depth, sizeof(*a->waiting));
	a->ready = calloc(a->max_depth, sizeof(*a->ready));
	a->events = calloc(a->max_depth, sizeof(*a->events));
	sys = ENOMEM;
	if (!a->slots || !a->spare || !a->waiting || !a->ready || !a->events)
		goto fail;
	*out = a;
	return 0;
fail:
	release(a);
	return sys;
}

/* An idle queue that is long enough; NULL if there is none. */
static struct aio_queue *take_idle(struct file_device *f, unsigned depth)
{
	struct aio_queue **link, *a;

	pthread_mutex_lock(&f->lock);
	link = &f->idle;
	while (*link && (*link)->max_depth < depth)
		link = &(*link)->next;
	a = *link;
	if (a)
		*link = a->next;
	pthread_mutex_unlock(&f->lock);
	return a;
}

int aio_queue_open(struct device *dev, unsigned depth, struct device_queue **out)
{
	struct aio_queue *a, *kept;
	int sys;

	if (depth > MAX_DEPTH)
		depth = MAX_DEPTH;
	a = take_idle(file_of(dev), depth);
	if (!a) {
		sys = make(dev, depth, &a);
		if (sys)
			return sys;
		/* When contexts run short, an idle one that is no worse will do. */
		kept = a->max_depth < depth ? take_idle(file_of(dev), a->max_depth) : NULL;
		if (kept) {
			release(a);
			a = kept;
		}
	}
	reset(a, depth < a->max_depth ? depth : a->max_depth);
	*out = &a->q;
	return 0;
}
