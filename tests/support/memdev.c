/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memdev.h"
#include "wrap.h"
#include <string.h>

struct memdev {
	struct device dev;
	unsigned char *buf;
	uint64_t seed; /* 0: no shuffling */
};

struct memdev_queue {
	struct device_queue q;
	uint64_t random;
	size_t n;
	struct device_request **waiting;
};

static struct memdev *memdev_of(struct device *dev)
{
	return (struct memdev *)dev;
}

static int memdev_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	memcpy(buf, memdev_of(dev)->buf + offset, len);
	return 0;
}

static int memdev_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	if ((offset | len) & (dev->align - 1))
		return EINVAL;
	memcpy(memdev_of(dev)->buf + offset, buf, len);
	return 0;
}

static int memdev_flush(struct device *dev)
{
	(void)dev;
	return 0;
}

static int memdev_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	memset(memdev_of(dev)->buf + offset, MEMDEV_DISCARDED, len);
	return 0;
}

static int queue_submit(struct device_queue *q, struct device_request **reqs, size_t n)
{
	struct memdev_queue *mq = (struct memdev_queue *)q;

	memcpy(mq->waiting + mq->n, reqs, n * sizeof(*reqs));
	mq->n += n;
	return 0;
}

/* xorshift64 */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct device_request *carry_out_one(struct memdev_queue *mq)
{
	size_t i = mq->random ? next_random(&mq->random) % mq->n : 0;
	struct device_request *r = mq->waiting[i];

	mq->n--;
	memmove(mq->waiting + i, mq->waiting + i + 1, (mq->n - i) * sizeof(*mq->waiting));
	if (r->op == DEVICE_WRITE)
		r->result = memdev_write(mq->q.dev, r->buf, r->offset, r->len);
	else
		r->result = memdev_read(mq->q.dev, r->buf, r->offset, r->len);
	if (!r->result)
		r->done = r->len;
	return r;
}

static int queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n)
{
	struct memdev_queue *mq = (struct memdev_queue *)q;
	size_t want = mq->random ? min : max, got = 0;

	while (got < want && mq->n)
		done[got++] = carry_out_one(mq);
	*n = got;
	return 0;
}

static void queue_close(struct device_queue *q)
{
	struct memdev_queue *mq = (struct memdev_queue *)q;

	while (mq->n)
		carry_out_one(mq);
	free(mq->waiting);
	free(mq);
}

static const struct device_queue_ops queue_ops = {
	.submit = queue_submit,
	.wait = queue_wait,
	.close = queue_close,
};

static int memdev_queue_open(struct device *dev, unsigned depth, struct device_queue **out)
{
	struct memdev_queue *mq = must_alloc(1, sizeof(*mq));

	mq->q.ops = &queue_ops;
	mq->q.dev = dev;
	mq->q.depth = depth;
	mq->random = memdev_of(dev)->seed;
	mq->waiting = must_alloc(depth, sizeof(*mq->waiting));
	*out = &mq->q;
	return 0;
}

static void memdev_close(struct device *dev)
{
	free(memdev_of(dev));
}

static const struct device_ops memdev_ops = {
	.read = memdev_read,
	.write = memdev_write,
	.flush = memdev_flush,
	.queue_open = memdev_queue_open,
	.discard = memdev_discard,
	.close = memdev_close,
};

struct device *memdev_new(void *buf, size_t size, uint32_t align)
{
	struct memdev *m = must_alloc(1, sizeof(*m));

	m->buf = buf;
	m->dev.ops = &memdev_ops;
	m->dev.size = size;
	m->dev.align = align;
	m->dev.sector = 512;
	return &m->dev;
}

void memdev_shuffle(struct device *dev, uint64_t seed)
{
	memdev_of(dev)->seed = seed;
}
