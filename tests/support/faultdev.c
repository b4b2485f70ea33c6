/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "faultdev.h"
#include "wrap.h"
#include <pthread.h>

struct faultdev {
	pthread_mutex_t lock; /* of all below */
	struct fault_plan plan;
	uint64_t counts[FAULT_OPS], fired;
	bool broken; /* a sticky fault has fired */
};

struct wrapdev {
	struct device dev;
	struct device *inner;
	struct faultdev *fd;
};

struct faultqueue {
	struct device_queue q;
	struct device_queue *inner;
	struct device_request **failed, **good; /* failed: to be handed back; good: scratch */
	size_t failed_n;
};

static struct wrapdev *wrapdev_of(struct device *dev)
{
	return (struct wrapdev *)dev;
}

struct faultdev *faultdev_new(void)
{
	struct faultdev *fd = must_alloc(1, sizeof(*fd));

	pthread_mutex_init(&fd->lock, NULL);
	return fd;
}

void faultdev_free(struct faultdev *fd)
{
	if (!fd)
		return;
	pthread_mutex_destroy(&fd->lock);
	free(fd);
}

void faultdev_set(struct faultdev *fd, struct fault_plan plan)
{
	pthread_mutex_lock(&fd->lock);
	fd->plan = plan;
	fd->fired = 0;
	fd->broken = false;
	for (int op = 0; op < FAULT_OPS; op++)
		fd->counts[op] = 0;
	pthread_mutex_unlock(&fd->lock);
}

uint64_t faultdev_count(struct faultdev *fd, enum fault_op op)
{
	uint64_t n;

	pthread_mutex_lock(&fd->lock);
	n = fd->counts[op];
	pthread_mutex_unlock(&fd->lock);
	return n;
}

uint64_t faultdev_fired(struct faultdev *fd)
{
	uint64_t n;

	pthread_mutex_lock(&fd->lock);
	n = fd->fired;
	pthread_mutex_unlock(&fd->lock);
	return n;
}

static bool touches_bad(const struct fault_plan *p, enum fault_op op, uint64_t offset, size_t len)
{
	bool kind = p->bad_op == op ||
		    (p->bad_op == FAULT_ANY && (op == FAULT_READ || op == FAULT_WRITE));

	return kind && offset < p->bad_from + p->bad_len && p->bad_from < offset + len;
}

/* Counts an operation. The errno it must fail with, or 0; *torn: write the first half before. */
static int judge(struct faultdev *fd, enum fault_op op, uint64_t offset, size_t len, bool *torn)
{
	const struct fault_plan *p = &fd->plan;
	bool hit;
	int sys = 0;

	pthread_mutex_lock(&fd->lock);
	fd->counts[op]++;
	if (op != FAULT_SUBMIT)
		fd->counts[FAULT_ANY]++;
	hit = p->nth && (p->op == op || (p->op == FAULT_ANY && op != FAULT_SUBMIT)) &&
	      fd->counts[p->op] == p->nth;
	*torn = hit && p->torn && op == FAULT_WRITE;
	if (hit || fd->broken || touches_bad(p, op, offset, len)) {
		sys = p->sys ? p->sys : EIO;
		fd->fired++;
	}
	if (hit && p->sticky)
		fd->broken = true;
	pthread_mutex_unlock(&fd->lock);
	return sys;
}

static int judge_write(struct wrapdev *w, const void *buf, uint64_t offset, size_t len)
{
	struct error err = ERROR_INIT;
	bool torn;
	int sys = judge(w->fd, FAULT_WRITE, offset, len, &torn);
	size_t half = len / 2;

	half -= half % (w->inner->align > 512 ? w->inner->align : 512);
	if (torn && half)
		(void)device_write(w->inner, buf, offset, half, &err);
	return sys;
}

static int fault_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	struct wrapdev *w = wrapdev_of(dev);
	struct error err = ERROR_INIT;
	bool torn;
	int sys = judge(w->fd, FAULT_READ, offset, len, &torn);

	if (sys)
		return sys;
	return wrap_errno(device_read(w->inner, buf, offset, len, &err), &err);
}

static int fault_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	struct wrapdev *w = wrapdev_of(dev);
	struct error err = ERROR_INIT;
	int sys = judge_write(w, buf, offset, len);

	if (sys)
		return sys;
	return wrap_errno(device_write(w->inner, buf, offset, len, &err), &err);
}

static int fault_flush(struct device *dev)
{
	struct wrapdev *w = wrapdev_of(dev);
	struct error err = ERROR_INIT;
	bool torn;
	int sys = judge(w->fd, FAULT_FLUSH, 0, 0, &torn);

	if (sys)
		return sys;
	return wrap_errno(device_flush(w->inner, &err), &err);
}

static int fault_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	struct wrapdev *w = wrapdev_of(dev);
	struct error err = ERROR_INIT;
	bool torn;
	int sys = judge(w->fd, FAULT_DISCARD, offset, (size_t)len, &torn);

	if (sys)
		return sys;
	return wrap_errno(device_discard(w->inner, offset, len, &err), &err);
}

static int judge_request(struct wrapdev *w, const struct device_request *r)
{
	bool torn;

	if (r->op == DEVICE_WRITE)
		return judge_write(w, r->buf, r->offset, r->len);
	return judge(w->fd, FAULT_READ, r->offset, r->len, &torn);
}

static int queue_submit(struct device_queue *q, struct device_request **reqs, size_t n)
{
	struct faultqueue *fq = (struct faultqueue *)q;
	struct wrapdev *w = wrapdev_of(q->dev);
	struct error err = ERROR_INIT;
	size_t good = 0, failed = fq->failed_n;
	bool torn;
	int sys = judge(w->fd, FAULT_SUBMIT, 0, 0, &torn);

	if (sys)
		return sys;
	for (size_t i = 0; i < n; i++) {
		sys = judge_request(w, reqs[i]);
		if (sys) {
			reqs[i]->result = sys;
			fq->failed[failed++] = reqs[i];
		} else {
			fq->good[good++] = reqs[i];
		}
	}
	if (device_queue_submit(fq->inner, fq->good, good, &err))
		return wrap_errno(-1, &err);
	fq->failed_n = failed;
	return 0;
}

static int queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n)
{
	struct faultqueue *fq = (struct faultqueue *)q;
	struct error err = ERROR_INIT;
	size_t mine = 0, more = 0;

	while (mine < max && fq->failed_n)
		done[mine++] = fq->failed[--fq->failed_n];
	if (mine < min &&
	    device_queue_wait(fq->inner, min - mine, max - mine, done + mine, &more, &err))
		return wrap_errno(-1, &err);
	*n = mine + more;
	return 0;
}

static void queue_close(struct device_queue *q)
{
	struct faultqueue *fq = (struct faultqueue *)q;

	device_queue_close(fq->inner);
	free(fq->failed);
	free(fq->good);
	free(fq);
}

static const struct device_queue_ops queue_ops = {
	.submit = queue_submit,
	.wait = queue_wait,
	.close = queue_close,
};

static int fault_queue_open(struct device *dev, unsigned depth, struct device_queue **out)
{
	struct faultqueue *fq = must_alloc(1, sizeof(*fq));
	struct error err = ERROR_INIT;

	if (device_queue_open(wrapdev_of(dev)->inner, depth, &fq->inner, &err)) {
		free(fq);
		return wrap_errno(-1, &err);
	}
	fq->q.ops = &queue_ops;
	fq->q.dev = dev;
	fq->q.depth = fq->inner->depth;
	fq->failed = must_alloc(fq->q.depth, sizeof(struct device_request *));
	fq->good = must_alloc(fq->q.depth, sizeof(struct device_request *));
	*out = &fq->q;
	return 0;
}

static void fault_close(struct device *dev)
{
	device_close(wrapdev_of(dev)->inner);
	free(wrapdev_of(dev));
}

static const struct device_ops fault_ops = {
	.read = fault_read,
	.write = fault_write,
	.flush = fault_flush,
	.queue_open = fault_queue_open,
	.discard = fault_discard,
	.close = fault_close,
};

int faultdev_wrap(void *faultdev, struct device *inner, struct device **out, struct error *err)
{
	struct wrapdev *w = must_alloc(1, sizeof(*w));

	(void)err;
	wrap_init(&w->dev, inner, &fault_ops);
	w->inner = inner;
	w->fd = faultdev;
	*out = &w->dev;
	return 0;
}
