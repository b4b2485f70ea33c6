/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "crash/trace.h"
#include "support/image.h"
#include "support/recorder.h"
#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JBD2_MAGIC "\xc0\x3b\x39\x98"

static void *need(void *p)
{
	if (!p)
		image_die("out of memory");
	return p;
}

enum known { OTHER, LOG, LOG_SUPER, ACCOUNTS, INODES, MMP };

/* What each block of the image is, as far as it is known by its place. */
static uint8_t *known_blocks(struct trace *t, const char *path)
{
	struct image *im = image_open(path);
	uint8_t *map = need(calloc(1, image_blocks(im)));
	struct ext2_super_block sb;
	uint64_t b;

	t->block_size = image_block_size(im);
	t->size = image_blocks(im) * t->block_size;
	for (uint32_t i = 0; (b = image_file_block(im, EXT2_JOURNAL_INO, i)); i++)
		map[b] = i ? LOG : LOG_SUPER;
	t->ordered = !image_file_block(im, EXT2_JOURNAL_INO, 0);
	for (b = 0; t->ordered && b < image_blocks(im); b++) {
		enum image_kind kind = image_kind(im, b);

		map[b] = kind == IMAGE_ACCOUNTS ? ACCOUNTS : kind == IMAGE_INODES ? INODES : OTHER;
	}
	image_close(im);
	image_read(path, 1024, &sb, sizeof(sb));
	t->mmp = sb.s_feature_incompat & EXT4_FEATURE_INCOMPAT_MMP ? sb.s_mmp_block : 0;
	if (t->mmp)
		map[t->mmp] = MMP;
	return map;
}

static bool is_commit(const struct event *e, uint32_t bs)
{
	return e->len == bs && !memcmp(e->data, JBD2_MAGIC "\0\0\0\2", 8);
}

uint64_t trace_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Each third sector zeroes, the others anything. */
static uint8_t *junk(uint64_t offset, uint64_t len)
{
	uint8_t *data = need(calloc(1, len + sizeof(uint64_t)));

	for (uint64_t at = 0; at < len; at += sizeof(uint64_t)) {
		uint64_t place = offset + at, word = trace_mix(place);

		if (place / SECTOR % 3)
			memcpy(data + at, &word, sizeof(word));
	}
	return data;
}

static void name_role(const struct trace *t, struct event *e, const uint8_t *known)
{
	uint64_t block = e->offset / t->block_size;

	if (e->offset / 1024 == 1 && e->len <= 1024)
		e->role = ROLE_SUPER;
	else if (known[block] == MMP)
		e->role = ROLE_MMP;
	else if (known[block] == LOG_SUPER && e->len <= t->block_size)
		e->role = ROLE_JSB;
	else if (known[block] == LOG || known[block] == LOG_SUPER)
		e->role = is_commit(e, t->block_size) ? ROLE_COMMIT : ROLE_LOG;
	else if (known[block] != OTHER)
		e->role = known[block] == INODES ? ROLE_INODES : ROLE_ACCOUNTS;
	else
		e->role = ROLE_HOME; /* or a copy: name_epoch */
}

/* Events [from, to) end with the flush at `to` (or the end): names it, and what was copied. */
static void name_epoch(struct trace *t, size_t from, size_t to, int *batch)
{
	unsigned seen = 0;
	enum barrier b = BARRIER_NONE;

	for (size_t i = from; i < to; i++)
		seen |= 1u << t->event[i].role;
	if (seen & 1u << ROLE_LOG) {
		b = BARRIER_F1;
		++*batch;
	} else if (seen & 1u << ROLE_COMMIT) {
		b = BARRIER_F2;
	} else if (seen & 1u << ROLE_HOME) {
		b = BARRIER_F3;
	} else if (seen & 1u << ROLE_JSB) {
		b = BARRIER_F4;
	} else if (seen & 1u << ROLE_SUPER) {
		b = *batch < 0 ? BARRIER_B : BARRIER_E;
	}
	for (size_t i = from; i < to; i++) {
		t->event[i].batch = *batch;
		if (b == BARRIER_F1 && t->event[i].role == ROLE_HOME)
			t->event[i].role = ROLE_COPY;
	}
	if (to < t->n) {
		t->event[to].batch = *batch;
		t->event[to].barrier = b;
	}
}

static size_t epoch_end(const struct trace *t, size_t from)
{
	while (from < t->n && t->event[from].role != ROLE_FLUSH)
		from++;
	return from;
}

static bool has_role(const struct trace *t, size_t from, size_t to, enum role role)
{
	while (from < to && t->event[from].role != role)
		from++;
	return from < to;
}

/*
 * Without a journal. An epoch with inodes is a batch's phase 2. The one before it begins with the
 * batch before's phase 3, up to the first copy, and then has this one's phase 1.
 */
static void name_ordered_epoch(struct trace *t, size_t from, size_t to, int *batch)
{
	size_t next = to < t->n ? epoch_end(t, to + 1) : t->n;
	size_t after = next < t->n ? epoch_end(t, next + 1) : t->n;
	size_t first = from; /* of the next batch */
	enum barrier b = BARRIER_N3;
	bool begins;

	if (has_role(t, from, to, ROLE_INODES))
		b = BARRIER_N2;
	else if (has_role(t, from, to, ROLE_SUPER))
		b = *batch < 0 ? BARRIER_B : BARRIER_E;
	else if (to < t->n && has_role(t, to + 1, next, ROLE_INODES))
		b = BARRIER_N1;
	else if (has_role(t, from, to, ROLE_HOME) && next < t->n &&
		 has_role(t, next + 1, after, ROLE_INODES))
		b = BARRIER_N0;
	/* Not if it is the rest of a phase 1. */
	begins = b == BARRIER_N0 || (b == BARRIER_N1 && t->event[from - 1].barrier != BARRIER_N0);
	while (begins && *batch >= 0 && first < to && t->event[first].role != ROLE_HOME)
		first++;
	for (size_t i = from; i < to; i++) {
		struct event *e = &t->event[i];

		e->batch = *batch + (begins && i >= first);
		if (b != BARRIER_N2 && e->role == ROLE_HOME)
			e->role = ROLE_COPY; /* or an indirect or tree block in its new place */
	}
	*batch += begins;
	if (to < t->n) {
		t->event[to].batch = *batch;
		t->event[to].barrier = b;
	}
}

static void name_all(struct trace *t)
{
	int batch = -1;
	size_t from = 0;

	for (size_t i = 0; i <= t->n; i++) {
		if (i < t->n && t->event[i].role != ROLE_FLUSH)
			continue;
		if (t->ordered)
			name_ordered_epoch(t, from, i, &batch);
		else
			name_epoch(t, from, i, &batch);
		from = i + 1;
	}
	t->batches = batch + 1;
}

void trace_from_recorder(struct trace *t, const char *image, const struct recorder_event *ev,
			 size_t n)
{
	uint8_t *known;

	memset(t, 0, sizeof(*t));
	known = known_blocks(t, image);
	t->event = need(calloc(n + 1, sizeof(*t->event)));
	t->n = n;
	for (size_t i = 0; i < n; i++) {
		struct event *e = &t->event[i];

		e->issued = ev[i].issued;
		t->reach = i - e->issued > t->reach ? i - e->issued : t->reach;
		if (ev[i].kind == RECORDER_FLUSH) {
			if (ev[i].failed)
				image_die("a flush failed in a run without faults");
			e->role = ROLE_FLUSH;
			continue;
		}
		e->offset = ev[i].offset;
		e->len = ev[i].len;
		if (ev[i].kind == RECORDER_DISCARD) {
			e->role = ROLE_DISCARD;
			e->data = junk(e->offset, e->len);
			continue;
		}
		e->data = need(malloc(e->len));
		memcpy(e->data, ev[i].data, e->len);
		name_role(t, e, known);
	}
	name_all(t);
	free(known);
}

void trace_release(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->event[i].data);
	free(t->event);
	memset(t, 0, sizeof(*t));
}

static void copy_event(const struct event *in, struct event *out)
{
	*out = *in;
	if (in->role == ROLE_FLUSH)
		return;
	out->data = need(malloc(in->len));
	memcpy(out->data, in->data, in->len);
}

void trace_copy(const struct trace *in, struct trace *out)
{
	*out = *in;
	out->event = need(calloc(in->n + 1, sizeof(*out->event)));
	for (size_t i = 0; i < in->n; i++)
		copy_event(&in->event[i], &out->event[i]);
}

void trace_dump(const struct trace *t)
{
	static const char *const role[] = { "super",	"jsb",	  "log", "commit",  "copy", "home",
					    "accounts", "inodes", "mmp", "discard", "flush" };
	static const char *const barrier[] = { "",   "B",  "F1", "F2", "F3", "F4",
					       "N0", "N1", "N2", "N3", "E" };

	for (size_t i = 0; i < t->n; i++) {
		const struct event *e = &t->event[i];

		if (e->role == ROLE_FLUSH)
			printf("%4zu %2d flush %s\n", i, e->batch, barrier[e->barrier]);
		else
			printf("%4zu %2d %-8s block %llu, %llu bytes\n", i, e->batch, role[e->role],
			       (unsigned long long)(e->offset / t->block_size),
			       (unsigned long long)e->len);
	}
}

static void put(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			image_die("trace: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

static void get(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n <= 0)
			image_die("trace: %s", n ? strerror(errno) : "too short");
		p += n;
		len -= (size_t)n;
	}
}

void trace_save(const struct trace *t, int fd)
{
	put(fd, t, sizeof(*t));
	put(fd, t->event, t->n * sizeof(*t->event));
	for (size_t i = 0; i < t->n; i++)
		if (t->event[i].role != ROLE_FLUSH)
			put(fd, t->event[i].data, t->event[i].len);
}

void trace_load(struct trace *t, int fd)
{
	get(fd, t, sizeof(*t));
	t->event = need(calloc(t->n + 1, sizeof(*t->event)));
	get(fd, t->event, t->n * sizeof(*t->event));
	for (size_t i = 0; i < t->n; i++) {
		struct event *e = &t->event[i];

		if (e->role == ROLE_FLUSH)
			continue;
		e->data = need(malloc(e->len));
		get(fd, e->data, e->len);
	}
}

size_t trace_durable(const struct trace *t, size_t k)
{
	while (k > 0 && t->event[k - 1].role != ROLE_FLUSH)
		k--;
	return k;
}

void trace_apply(const struct trace *t, size_t from, size_t to, uint8_t *image)
{
	for (size_t i = from; i < to; i++)
		if (t->event[i].role != ROLE_FLUSH)
			memcpy(image + t->event[i].offset, t->event[i].data, t->event[i].len);
}

/* Part of one write, from byte `from` to `to` of it. */
static void write_part(const struct event *e, uint64_t from, uint64_t to, uint8_t *image)
{
	if (to > e->len)
		to = e->len;
	if (from < to)
		memcpy(image + e->offset + from, e->data + from, to - from);
}

/* Each unit of the write is kept with a chance of `chance` in 256. */
static void write_subset(const struct event *e, uint64_t unit, unsigned chance, uint64_t *random,
			 uint8_t *image)
{
	for (uint64_t at = 0; at < e->len; at += unit) {
		*random = trace_mix(*random);
		if (*random % 256 < chance)
			write_part(e, at, at + unit, image);
	}
}

/* No event from there on was on its way at the cut k. */
static size_t in_flight_end(const struct trace *t, size_t k)
{
	return t->n - k < t->reach ? t->n : k + t->reach;
}

/* Was event i completed at the cut k, or on its way? */
static bool begun(const struct trace *t, size_t i, size_t k)
{
	return t->event[i].role != ROLE_FLUSH && (i < k || t->event[i].issued < k);
}

static void random_state(const struct trace *t, size_t k, unsigned variant, uint64_t seed,
			 uint8_t *image)
{
	static const unsigned chances[] = { 128, 128, 32, 224, 128, 12, 244 };
	uint64_t random = trace_mix(seed ^ trace_mix(k ^ trace_mix(variant)));
	unsigned chance = chances[random % 7];
	size_t end = in_flight_end(t, k);

	for (size_t i = trace_durable(t, k); i < end; i++) {
		const struct event *e = &t->event[i];
		uint64_t unit = variant % 3 == 0   ? e->len
				: variant % 3 == 1 ? t->block_size
						   : SECTOR;

		if (begun(t, i, k))
			write_subset(e, unit, chance, &random, image);
	}
}

void trace_state(const struct trace *t, size_t k, unsigned variant, uint64_t seed, uint8_t *image)
{
	size_t durable = trace_durable(t, k);
	const struct event *last = k > durable ? &t->event[k - 1] : NULL;
	uint64_t half = 0;

	if (last && last->len > SECTOR)
		half = last->len / SECTOR / 2 * SECTOR;
	if (!last || variant == 1)
		return;
	if (variant >= 6) {
		random_state(t, k, variant, seed, image);
		return;
	}
	if (variant <= 3)
		trace_apply(t, durable, variant ? k - 1 : k, image);
	if (variant == 2 || variant == 5)
		write_part(last, 0, half, image);
	else if (variant == 3)
		write_part(last, half, last->len, image);
	else if (variant == 4)
		write_part(last, 0, last->len, image);
}

void trace_undo(const struct trace *t, size_t k, const uint8_t *durable, uint8_t *image)
{
	size_t end = in_flight_end(t, k);

	for (size_t i = trace_durable(t, k); i < end; i++) {
		const struct event *e = &t->event[i];

		if (begun(t, i, k))
			memcpy(image + e->offset, durable + e->offset, e->len);
	}
}
