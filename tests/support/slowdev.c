/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "slowdev.h"
#include "wrap.h"
#include <math.h>
#include <string.h>

const struct slowdev_model slowdev_flash = { .channels = 8, .request_ns = 100000 };
const struct slowdev_model slowdev_disk = { .sorted = 32,
					    .seek_least_ns = 1000000,
					    .seek_more_ns = 14000000 };

struct slowqueue;

struct waiting {
	struct device_request *r;
	struct slowqueue *q;
};

/* All under the clock's lock. */
struct slowdev {
	struct slowdev_model model;
	struct simclock *clock;
	struct slowdev_figures figures;
	uint64_t size;
	uint64_t *busy_until; /* per channel */
	/* Disk: where the head is, and who waits for it, the oldest first. */
	uint64_t head;
	bool moving, called;
	struct waiting *line, current;
	size_t n_line, room;
};

struct slowwrap {
	struct device dev;
	struct device *inner;
	struct slowdev *sd;
};

struct slowqueue {
	struct device_queue q;
	struct slowdev *sd;
	struct device_request **ready;
	size_t n_ready, in_flight, wanted; /* wanted: by the thread that waits */
	struct simclock_waiter waiter;
};

struct slowdev *slowdev_new(const struct slowdev_model *model, struct simclock *c)
{
	struct slowdev *sd = must_alloc(1, sizeof(*sd));

	sd->model = *model;
	sd->clock = c;
	sd->busy_until = must_alloc(model->channels, sizeof(*sd->busy_until));
	return sd;
}

void slowdev_free(struct slowdev *sd)
{
	if (!sd)
		return;
	free(sd->busy_until);
	free(sd->line);
	free(sd);
}

struct slowdev_figures slowdev_figures(struct slowdev *sd)
{
	struct slowdev_figures f;

	simclock_lock(sd->clock);
	f = sd->figures;
	simclock_unlock(sd->clock);
	return f;
}

static void complete(struct slowqueue *q, struct device_request *r)
{
	q->ready[q->n_ready++] = r;
	q->in_flight--;
	if (q->n_ready >= q->wanted)
		simclock_wake(q->sd->clock, &q->waiter);
}

static void flight_over(void *arg)
{
	struct waiting *f = arg;

	complete(f->q, f->r);
	free(f);
}

static void to_flash(struct slowdev *sd, struct slowqueue *q, struct device_request *r)
{
	struct waiting *f = must_alloc(1, sizeof(*f)); /* on its way */
	uint64_t now = simclock_now(sd->clock), over = now;

	*f = (struct waiting){ r, q };
	for (uint64_t s = r->offset / SLOWDEV_STRIPE;
	     s <= (r->offset + r->len - 1) / SLOWDEV_STRIPE; s++) {
		uint64_t *busy = &sd->busy_until[s % sd->model.channels];

		*busy = (*busy > now ? *busy : now) + sd->model.request_ns;
		over = *busy > over ? *busy : over;
	}
	simclock_at(sd->clock, over, flight_over, f);
}

static uint64_t seek_time(const struct slowdev *sd, uint64_t to)
{
	uint64_t distance = to > sd->head ? to - sd->head : sd->head - to;

	if (distance < SLOWDEV_TRACK)
		return 0;
	return sd->model.seek_least_ns + (uint64_t)((double)sd->model.seek_more_ns *
						    sqrt((double)distance / (double)sd->size));
}

/* Until the first byte of `to` comes by, after the seek. */
static uint64_t turn_time(uint64_t at, uint64_t to)
{
	const uint64_t turn = (uint64_t)SLOWDEV_TRACK * SLOWDEV_BYTE_NS;

	return (to % SLOWDEV_TRACK * SLOWDEV_BYTE_NS + turn - at % turn) % turn;
}

static size_t choose(const struct slowdev *sd, uint64_t now)
{
	uint64_t best = UINT64_MAX;
	size_t chosen = 0;

	for (size_t i = 0; i < sd->n_line && i < sd->model.sorted; i++) {
		uint64_t to = sd->line[i].r->offset, seek = seek_time(sd, to);
		uint64_t cost = seek + turn_time(now + seek, to);

		if (cost < best) {
			best = cost;
			chosen = i;
		}
	}
	return chosen;
}

static void head_is_free(void *arg);

static void serve_next(struct slowdev *sd)
{
	uint64_t now = simclock_now(sd->clock), seek, turn, transfer;
	size_t i = choose(sd, now);

	sd->current = sd->line[i];
	sd->n_line--;
	memmove(sd->line + i, sd->line + i + 1, (sd->n_line - i) * sizeof(*sd->line));
	seek = seek_time(sd, sd->current.r->offset);
	turn = turn_time(now + seek, sd->current.r->offset);
	transfer = sd->current.r->len * SLOWDEV_BYTE_NS;
	sd->figures.seeks += seek > 0;
	sd->figures.seek_ns += seek;
	sd->figures.turn_ns += turn;
	sd->figures.transfer_ns += transfer;
	sd->head = sd->current.r->offset + sd->current.r->len;
	sd->moving = true;
	simclock_at(sd->clock, now + seek + turn + transfer, head_is_free, sd);
}

static void head_is_free(void *arg)
{
	struct slowdev *sd = arg;

	sd->called = false;
	if (sd->moving)
		complete(sd->current.q, sd->current.r);
	sd->moving = false;
	if (sd->n_line)
		serve_next(sd);
}

static void to_disk(struct slowdev *sd, struct slowqueue *q, struct device_request *r)
{
	if (sd->n_line == sd->room) {
		sd->room = sd->room ? 2 * sd->room : 256;
		sd->line = realloc(sd->line, sd->room * sizeof(*sd->line));
		if (!sd->line)
			abort();
	}
	sd->line[sd->n_line++] = (struct waiting){ r, q };
	/* An idle head looks when all threads have said what they want at this time. */
	if (!sd->moving && !sd->called) {
		sd->called = true;
		simclock_at(sd->clock, simclock_now(sd->clock), head_is_free, sd);
	}
}

/* Under the lock; the data have been moved. */
static void take(struct slowqueue *q, struct device_request *r)
{
	struct slowdev *sd = q->sd;

	q->in_flight++;
	if (r->op == DEVICE_WRITE)
		sd->figures.writes++;
	else
		sd->figures.reads++;
	if (sd->model.channels)
		to_flash(sd, q, r);
	else
		to_disk(sd, q, r);
}

static void wait_for(struct slowqueue *q, size_t n)
{
	q->wanted = n;
	if (q->n_ready < n)
		simclock_wait(q->sd->clock, &q->waiter);
}

static int transfer_data(struct slowwrap *w, struct device_request *r)
{
	struct error err = ERROR_INIT;

	if (!w->inner)
		return 0;
	return wrap_errno(r->op == DEVICE_WRITE
				  ? device_write(w->inner, r->buf, r->offset, r->len, &err)
				  : device_read(w->inner, r->buf, r->offset, r->len, &err),
			  &err);
}

static int queue_submit(struct device_queue *q, struct device_request **reqs, size_t n)
{
	struct slowqueue *sq = (struct slowqueue *)q;

	for (size_t i = 0; i < n; i++) {
		reqs[i]->result = transfer_data((struct slowwrap *)q->dev, reqs[i]);
		reqs[i]->done = reqs[i]->len;
	}
	simclock_lock(sq->sd->clock);
	for (size_t i = 0; i < n; i++)
		take(sq, reqs[i]);
	simclock_unlock(sq->sd->clock);
	return 0;
}

static int queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n)
{
	struct slowqueue *sq = (struct slowqueue *)q;

	simclock_lock(sq->sd->clock);
	wait_for(sq, min);
	*n = sq->n_ready < max ? sq->n_ready : max;
	memcpy(done, sq->ready, *n * sizeof(*done));
	sq->n_ready -= *n;
	memmove(sq->ready, sq->ready + *n, sq->n_ready * sizeof(*done));
	simclock_unlock(sq->sd->clock);
	return 0;
}

static void queue_close(struct device_queue *q)
{
	struct slowqueue *sq = (struct slowqueue *)q;

	simclock_lock(sq->sd->clock);
	wait_for(sq, sq->n_ready + sq->in_flight);
	simclock_unlock(sq->sd->clock);
	free(sq->ready);
	free(sq);
}

static const struct device_queue_ops queue_ops = {
	.submit = queue_submit,
	.wait = queue_wait,
	.close = queue_close,
};

static int slow_queue_open(struct device *dev, unsigned depth, struct device_queue **out)
{
	struct slowqueue *sq = must_alloc(1, sizeof(*sq));

	sq->q.ops = &queue_ops;
	sq->q.dev = dev;
	sq->q.depth = depth;
	sq->sd = ((struct slowwrap *)dev)->sd;
	sq->ready = must_alloc(depth, sizeof(struct device_request *));
	*out = &sq->q;
	return 0;
}

/* The synchronous calls are a queue for one. */
static int alone(struct device *dev, enum device_op op, void *buf, uint64_t offset, size_t len)
{
	struct device_request r = { .op = op, .buf = buf, .offset = offset, .len = len };
	struct device_request *list = &r;
	struct device_queue *q;
	size_t n;

	slow_queue_open(dev, 1, &q);
	queue_submit(q, &list, 1);
	queue_wait(q, 1, 1, &list, &n);
	queue_close(q);
	return r.result;
}

static int slow_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	return alone(dev, DEVICE_READ, buf, offset, len);
}

static int slow_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	return alone(dev, DEVICE_WRITE, (void *)(uintptr_t)buf, offset, len);
}

static int slow_flush(struct device *dev)
{
	struct slowwrap *w = (struct slowwrap *)dev;
	struct error err = ERROR_INIT;

	return w->inner ? wrap_errno(device_flush(w->inner, &err), &err) : 0;
}

static void slow_close(struct device *dev)
{
	device_close(((struct slowwrap *)dev)->inner);
	free(dev);
}

static const struct device_ops slow_ops = {
	.read = slow_read,
	.write = slow_write,
	.flush = slow_flush,
	.queue_open = slow_queue_open,
	.close = slow_close,
};

struct device *slowdev_open(struct slowdev *sd, struct device *inner, uint64_t size)
{
	struct slowwrap *w = must_alloc(1, sizeof(*w));

	w->dev.ops = &slow_ops;
	w->dev.size = size;
	w->dev.align = 1;
	w->dev.sector = 512;
	if (inner)
		wrap_init(&w->dev, inner, &slow_ops);
	w->inner = inner;
	w->sd = sd;
	sd->size = w->dev.size;
	return &w->dev;
}
