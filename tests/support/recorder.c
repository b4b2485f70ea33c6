/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "recorder.h"
#include "wrap.h"
#include <pthread.h>
#include <string.h>

struct recorder {
	pthread_mutex_t lock; /* of all below */
	struct recorder_event *events;
	size_t n, cap;
};

struct recdev {
	struct device dev;
	struct device *inner;
	struct recorder *rec;
};

struct pending {
	const struct device_request *r;
	size_t issued;
};

struct recqueue {
	struct device_queue q;
	struct device_queue *inner;
	struct pending *pending; /* the writes in flight */
	size_t pending_n;
};

static struct recdev *recdev_of(struct device *dev)
{
	return (struct recdev *)dev;
}

struct recorder *recorder_new(void)
{
	struct recorder *rec = must_alloc(1, sizeof(*rec));

	pthread_mutex_init(&rec->lock, NULL);
	return rec;
}

void recorder_free(struct recorder *rec)
{
	if (!rec)
		return;
	for (size_t i = 0; i < rec->n; i++)
		free(rec->events[i].data);
	free(rec->events);
	pthread_mutex_destroy(&rec->lock);
	free(rec);
}

const struct recorder_event *recorder_trace(const struct recorder *rec, size_t *n)
{
	*n = rec->n;
	return rec->events;
}

static size_t now(struct recorder *rec)
{
	size_t n;

	pthread_mutex_lock(&rec->lock);
	n = rec->n;
	pthread_mutex_unlock(&rec->lock);
	return n;
}

/* Returns the place of the event. */
static size_t append(struct recorder *rec, struct recorder_event ev)
{
	size_t place;

	pthread_mutex_lock(&rec->lock);
	if (rec->n == rec->cap) {
		rec->cap = rec->cap ? rec->cap * 2 : 256;
		rec->events = reallocarray(rec->events, rec->cap, sizeof(*rec->events));
		if (!rec->events)
			abort();
	}
	place = rec->n++;
	rec->events[place] = ev;
	pthread_mutex_unlock(&rec->lock);
	return place;
}

static void log_write(struct recorder *rec, const void *buf, uint64_t offset, size_t len,
		      size_t issued)
{
	void *copy = must_alloc(1, len);

	memcpy(copy, buf, len);
	append(rec, (struct recorder_event){ .kind = RECORDER_WRITE,
					     .offset = offset,
					     .len = len,
					     .data = copy,
					     .issued = issued });
}

static int rec_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	struct error err = ERROR_INIT;

	return wrap_errno(device_read(recdev_of(dev)->inner, buf, offset, len, &err), &err);
}

static int rec_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	struct recdev *rd = recdev_of(dev);
	struct error err = ERROR_INIT;
	size_t issued = now(rd->rec);
	int rc = device_write(rd->inner, buf, offset, len, &err);

	if (!rc)
		log_write(rd->rec, buf, offset, len, issued);
	return wrap_errno(rc, &err);
}

static int rec_flush(struct device *dev)
{
	struct recdev *rd = recdev_of(dev);
	struct error err = ERROR_INIT;
	/* Logged first: a write that completes meanwhile is not covered. */
	size_t place = append(
		rd->rec, (struct recorder_event){ .kind = RECORDER_FLUSH, .issued = now(rd->rec) });
	int rc = device_flush(rd->inner, &err);

	if (rc) {
		pthread_mutex_lock(&rd->rec->lock);
		rd->rec->events[place].failed = true;
		pthread_mutex_unlock(&rd->rec->lock);
	}
	return wrap_errno(rc, &err);
}

static int rec_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	struct recdev *rd = recdev_of(dev);
	struct error err = ERROR_INIT;
	size_t issued = now(rd->rec);
	int rc = device_discard(rd->inner, offset, len, &err);

	if (!rc)
		append(rd->rec, (struct recorder_event){ .kind = RECORDER_DISCARD,
							 .offset = offset,
							 .len = (size_t)len,
							 .issued = issued });
	return wrap_errno(rc, &err);
}

static int queue_submit(struct device_queue *q, struct device_request **reqs, size_t n)
{
	struct recqueue *rq = (struct recqueue *)q;
	struct error err = ERROR_INIT;
	size_t issued = now(recdev_of(q->dev)->rec);

	if (device_queue_submit(rq->inner, reqs, n, &err))
		return wrap_errno(-1, &err);
	for (size_t i = 0; i < n; i++)
		if (reqs[i]->op == DEVICE_WRITE)
			rq->pending[rq->pending_n++] =
				(struct pending){ .r = reqs[i], .issued = issued };
	return 0;
}

static void log_request(struct recqueue *rq, const struct device_request *r)
{
	size_t i = 0;

	while (i < rq->pending_n && rq->pending[i].r != r)
		i++;
	if (i == rq->pending_n)
		return; /* a read */
	if (!r->result)
		log_write(recdev_of(rq->q.dev)->rec, r->buf, r->offset, r->len,
			  rq->pending[i].issued);
	rq->pending[i] = rq->pending[--rq->pending_n];
}

static int queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n)
{
	struct recqueue *rq = (struct recqueue *)q;
	struct error err = ERROR_INIT;

	if (device_queue_wait(rq->inner, min, max, done, n, &err))
		return wrap_errno(-1, &err);
	for (size_t i = 0; i < *n; i++)
		log_request(rq, done[i]);
	return 0;
}

/* Whoever closes a queue with writes in flight doesn't know whether they happened, but they are
 * waited for here, so that the log does. */
static void queue_close(struct device_queue *q)
{
	struct recqueue *rq = (struct recqueue *)q;
	struct device_request *r;
	size_t n;

	while (rq->inner->in_flight)
		if (queue_wait(q, 1, 1, &r, &n))
			break;
	device_queue_close(rq->inner);
	free(rq->pending);
	free(rq);
}

static const struct device_queue_ops queue_ops = {
	.submit = queue_submit,
	.wait = queue_wait,
	.close = queue_close,
};

static int rec_queue_open(struct device *dev, unsigned depth, struct device_queue **out)
{
	struct recqueue *rq = must_alloc(1, sizeof(*rq));
	struct error err = ERROR_INIT;

	if (device_queue_open(recdev_of(dev)->inner, depth, &rq->inner, &err)) {
		free(rq);
		return wrap_errno(-1, &err);
	}
	rq->q.ops = &queue_ops;
	rq->q.dev = dev;
	rq->q.depth = rq->inner->depth;
	rq->pending = must_alloc(rq->q.depth, sizeof(*rq->pending));
	*out = &rq->q;
	return 0;
}

static void rec_close(struct device *dev)
{
	device_close(recdev_of(dev)->inner);
	free(recdev_of(dev));
}

static const struct device_ops rec_ops = {
	.read = rec_read,
	.write = rec_write,
	.flush = rec_flush,
	.queue_open = rec_queue_open,
	.discard = rec_discard,
	.close = rec_close,
};

int recorder_wrap(void *recorder, struct device *inner, struct device **out, struct error *err)
{
	struct recdev *rd = must_alloc(1, sizeof(*rd));

	(void)err;
	wrap_init(&rd->dev, inner, &rec_ops);
	rd->inner = inner;
	rd->rec = recorder;
	*out = &rd->dev;
	return 0;
}
