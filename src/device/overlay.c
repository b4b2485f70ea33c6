/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks live in a chained hash table. An array beside it lists the dirty ones for iteration in
 * block order; its room grows when a block becomes dirty, so that iterating can't fail. It is
 * sorted when it is next asked for, not on each write, and a forgotten block leaves a hole.
 */
#include "scaledefrag/overlay.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 256
#define WINDOW	      ((size_t)4 << 20) /* bytes that a prefetch reads at a time */
#define MAX_REQUEST   ((size_t)1 << 20)

struct entry {
	struct entry *next; /* of the same bucket */
	uint64_t block;
	bool dirty;
	size_t place;	      /* in the order, when dirty */
	unsigned char data[]; /* block_size bytes */
};

struct dirty {
	uint64_t block;
	struct entry *entry; /* NULL: a hole, where one was forgotten */
};

struct order {
	struct dirty *list;
	size_t n, cap, holes;
	bool sorted;
};

struct overlay {
	struct device dev; /* what libext2fs sees */
	struct device *real;
	uint32_t block_size;
	struct entry **buckets;
	size_t buckets_n, entries; /* buckets_n is a power of two */
	struct order *order;	   /* apart: a const overlay may sort it */
	uint64_t updates;
};

static struct overlay *overlay_of(struct device *dev)
{
	return (struct overlay *)dev; /* dev is its first member */
}

static struct entry **bucket_of(const struct overlay *ov, uint64_t block)
{
	return &ov->buckets[(block * 0x9e3779b97f4a7c15ULL >> 32) & (ov->buckets_n - 1)];
}

static struct entry *find(const struct overlay *ov, uint64_t block)
{
	struct entry *e = *bucket_of(ov, block);

	while (e && e->block != block)
		e = e->next;
	return e;
}

/* More buckets are only faster: without memory for them the old ones stay. */
static void grow(struct overlay *ov)
{
	struct entry **old = ov->buckets, **bigger;
	size_t n = ov->buckets_n;

	bigger = calloc(n * 2, sizeof(*bigger));
	if (!bigger)
		return;
	ov->buckets = bigger;
	ov->buckets_n = n * 2;
	for (size_t i = 0; i < n; i++) {
		for (struct entry *e = old[i], *next; e; e = next) {
			struct entry **bucket = bucket_of(ov, e->block);

			next = e->next;
			e->next = *bucket;
			*bucket = e;
		}
	}
	free(old);
}

/* A clean entry with `from` as its content (NULL: zeroes); NULL: no memory. */
static struct entry *add(struct overlay *ov, uint64_t block, const void *from)
{
	struct entry *e = malloc(sizeof(*e) + ov->block_size), **bucket;

	if (!e)
		return NULL;
	if (ov->entries >= ov->buckets_n)
		grow(ov);
	bucket = bucket_of(ov, block);
	e->block = block;
	e->dirty = false;
	e->next = *bucket;
	if (from)
		memcpy(e->data, from, ov->block_size);
	else
		memset(e->data, 0, ov->block_size);
	*bucket = e;
	ov->entries++;
	return e;
}

static int mark_dirty(struct overlay *ov, struct entry *e)
{
	struct order *o = ov->order;

	if (e->dirty)
		return 0;
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 64;
		struct dirty *list = reallocarray(o->list, cap, sizeof(*list));

		if (!list)
			return ENOMEM;
		o->list = list;
		o->cap = cap;
	}
	if (o->n && o->list[o->n - 1].block >= e->block)
		o->sorted = false;
	e->place = o->n;
	e->dirty = true;
	o->list[o->n++] = (struct dirty){ .block = e->block, .entry = e };
	return 0;
}

static int by_block(const void *a, const void *b)
{
	const struct dirty *x = a, *y = b;

	return x->block < y->block ? -1 : x->block > y->block;
}

/* In block order afterwards, perhaps with some holes left. */
static void sort(struct order *o)
{
	size_t n = 0;

	if (o->sorted && o->holes <= o->n / 2)
		return;
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].entry)
			o->list[n++] = o->list[i];
	o->n = n;
	o->holes = 0;
	if (!o->sorted && n > 1)
		qsort(o->list, n, sizeof(*o->list), by_block);
	o->sorted = true;
	for (size_t i = 0; i < n; i++)
		o->list[i].entry->place = i;
}

/* Place of the first dirty block (or hole) >= block; o->n if none. */
static size_t lower_bound(struct order *o, uint64_t block)
{
	size_t low = 0, high;

	sort(o); /* may drop holes */
	high = o->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (o->list[mid].block < block)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Bytes of a block that the real device has (the last one may be cut off). */
static size_t block_bytes(const struct overlay *ov, uint64_t block)
{
	uint64_t rest = ov->real->size - block * ov->block_size;

	return rest < ov->block_size ? (size_t)rest : ov->block_size;
}

/* Reads one missing block; sets *e. */
static int load(struct overlay *ov, uint64_t block, struct entry **e)
{
	struct error err = ERROR_INIT;
	unsigned char *buf = device_buffer(ov->block_size);
	int sys = ENOMEM;

	if (!buf)
		return ENOMEM;
	memset(buf, 0, ov->block_size);
	if (device_read(ov->real, buf, block * ov->block_size, block_bytes(ov, block), &err)) {
		sys = err.sys ? err.sys : EIO;
		goto out;
	}
	*e = add(ov, block, buf);
	if (*e)
		sys = 0;
out:
	free(buf);
	return sys;
}

struct prefetch {
	unsigned char *buf;
	struct device_request *reqs;
	size_t reqs_n, reqs_max, used; /* used: bytes of buf */
};

/* Appends one block to the last request, or starts another. */
static void ask(struct overlay *ov, struct prefetch *p, uint64_t block)
{
	uint64_t offset = block * ov->block_size;
	struct device_request *last = p->reqs_n ? &p->reqs[p->reqs_n - 1] : NULL;

	if (!last || last->offset + last->len != offset || last->len >= MAX_REQUEST) {
		last = &p->reqs[p->reqs_n++];
		*last = (struct device_request){ .op = DEVICE_READ,
						 .offset = offset,
						 .buf = p->buf + p->used };
	}
	last->len += ov->block_size;
	p->used += ov->block_size;
}

/* Reads what was asked for and caches it. */
static int fetch(struct overlay *ov, struct prefetch *p, unsigned depth, struct error *err)
{
	if (device_run(ov->real, depth, p->reqs, p->reqs_n, err))
		return -1;
	for (size_t i = 0; i < p->reqs_n; i++) {
		const struct device_request *r = &p->reqs[i];

		for (size_t at = 0; at < r->len; at += ov->block_size) {
			uint64_t block = (r->offset + at) / ov->block_size;

			if (!find(ov, block) && !add(ov, block, (unsigned char *)r->buf + at))
				return error_nomem(err, "caching blocks");
		}
	}
	p->reqs_n = p->used = 0;
	return 0;
}

int overlay_prefetch(struct overlay *ov, const uint64_t *blocks, size_t n, unsigned depth,
		     struct error *err)
{
	uint64_t whole = ov->real->size / ov->block_size;
	struct prefetch p = { .reqs_max = WINDOW / ov->block_size };
	int rc = -1;

	if (p.reqs_max > n)
		p.reqs_max = n;
	p.buf = device_buffer(p.reqs_max * ov->block_size);
	p.reqs = calloc(p.reqs_max + 1, sizeof(*p.reqs));
	if (!p.buf || !p.reqs) {
		error_nomem(err, "reading blocks ahead");
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		/* A block past the end, or cut off by it, is for the one who reads it. */
		if (blocks[i] >= whole || find(ov, blocks[i]))
			continue;
		ask(ov, &p, blocks[i]);
		if (p.used == p.reqs_max * ov->block_size && fetch(ov, &p, depth, err))
			goto out;
	}
	rc = fetch(ov, &p, depth, err);
out:
	free(p.buf);
	free(p.reqs);
	return rc;
}

/* The part of [offset, offset+len) that lies in its first block. */
struct part {
	uint64_t block;
	size_t at, len;
};

static struct part first_part(const struct overlay *ov, uint64_t offset, size_t len)
{
	struct part p = { .block = offset / ov->block_size, .at = offset % ov->block_size };

	p.len = ov->block_size - p.at;
	if (p.len > len)
		p.len = len;
	return p;
}

/* Reads the missing blocks of a long run in long requests. */
static int load_run(struct overlay *ov, uint64_t offset, size_t len)
{
	uint64_t first = offset / ov->block_size;
	size_t n = (size_t)((offset + len - 1) / ov->block_size - first + 1);
	uint64_t *blocks;
	struct error err = ERROR_INIT;
	int sys = 0;

	if (n < 2)
		return 0;
	blocks = calloc(n, sizeof(*blocks));
	if (!blocks)
		return ENOMEM;
	for (size_t i = 0; i < n; i++)
		blocks[i] = first + i;
	if (overlay_prefetch(ov, blocks, n, 1, &err))
		sys = err.sys ? err.sys : EIO;
	free(blocks);
	return sys;
}

static int overlay_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	struct overlay *ov = overlay_of(dev);
	unsigned char *to = buf;
	int sys = load_run(ov, offset, len);

	while (len && !sys) {
		struct part p = first_part(ov, offset, len);
		struct entry *e = find(ov, p.block);

		if (!e)
			sys = load(ov, p.block, &e);
		if (sys)
			break;
		memcpy(to, e->data + p.at, p.len);
		to += p.len;
		offset += p.len;
		len -= p.len;
	}
	return sys;
}

/* On failure the blocks before the failing one are changed: the caller drops the transaction. */
static int overlay_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	struct overlay *ov = overlay_of(dev);
	const unsigned char *from = buf;

	while (len) {
		struct part p = first_part(ov, offset, len);
		struct entry *e = find(ov, p.block);
		int sys = 0;

		if (!e && p.len == ov->block_size) {
			e = add(ov, p.block, NULL);
			/* A clean entry must hold what the disk holds. */
			if (!e || mark_dirty(ov, e)) {
				overlay_forget(ov, p.block);
				return ENOMEM;
			}
		} else if (!e) {
			sys = load(ov, p.block, &e);
		}
		if (!sys)
			sys = mark_dirty(ov, e);
		if (sys)
			return sys;
		memcpy(e->data + p.at, from, p.len);
		ov->updates++;
		from += p.len;
		offset += p.len;
		len -= p.len;
	}
	return 0;
}

static int overlay_flush(struct device *dev)
{
	(void)dev;
	return 0;
}

static void overlay_close(struct device *dev)
{
	(void)dev; /* the overlay owns it: overlay_free() */
}

static const struct device_ops overlay_ops = {
	.read = overlay_read,
	.write = overlay_write,
	.flush = overlay_flush,
	.close = overlay_close,
};

int overlay_new(struct device *real, uint32_t block_size, struct overlay **out, struct error *err)
{
	struct overlay *ov = calloc(1, sizeof(*ov));

	if (!ov)
		goto nomem;
	assert(block_size > 0 && block_size <= MAX_REQUEST);
	ov->dev.ops = &overlay_ops;
	ov->dev.size = real->size;
	ov->dev.align = 1;
	ov->dev.sector = real->sector;
	ov->dev.fuse = real->fuse;
	ov->real = real;
	ov->block_size = block_size;
	ov->buckets_n = FIRST_BUCKETS;
	ov->buckets = calloc(ov->buckets_n, sizeof(*ov->buckets));
	ov->order = calloc(1, sizeof(*ov->order));
	if (!ov->buckets || !ov->order)
		goto nomem;
	*out = ov;
	return 0;
nomem:
	overlay_free(ov);
	return error_nomem(err, "making an overlay");
}

void overlay_free(struct overlay *ov)
{
	if (!ov)
		return;
	overlay_reset(ov);
	free(ov->buckets);
	free(ov->order);
	free(ov);
}

struct device *overlay_device(struct overlay *ov)
{
	return &ov->dev;
}

size_t overlay_dirty_count(const struct overlay *ov)
{
	return ov->order->n - ov->order->holes;
}

uint64_t overlay_updates(const struct overlay *ov)
{
	return ov->updates;
}

bool overlay_dirty_next(const struct overlay *ov, uint64_t from, uint64_t *block, const void **data)
{
	size_t i = lower_bound(ov->order, from);

	while (i < ov->order->n && !ov->order->list[i].entry)
		i++;
	if (i == ov->order->n)
		return false;
	*block = ov->order->list[i].block;
	*data = ov->order->list[i].entry->data;
	return true;
}

void overlay_forget(struct overlay *ov, uint64_t block)
{
	struct entry **link = bucket_of(ov, block), *e;

	while (*link && (*link)->block != block)
		link = &(*link)->next;
	e = *link;
	if (!e)
		return;
	if (e->dirty) {
		ov->order->list[e->place].entry = NULL;
		ov->order->holes++;
	}
	*link = e->next;
	ov->entries--;
	free(e);
}

void overlay_reset(struct overlay *ov)
{
	if (ov->buckets) {
		for (size_t i = 0; i < ov->buckets_n; i++) {
			for (struct entry *e = ov->buckets[i], *next; e; e = next) {
				next = e->next;
				free(e);
			}
			ov->buckets[i] = NULL;
		}
	}
	ov->entries = 0;
	if (ov->order) {
		free(ov->order->list);
		*ov->order = (struct order){ .sorted = true };
	}
}
