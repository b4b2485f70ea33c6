/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Broken protocols, made from the trace of a right one: the judge must see through each of them.
 */
#include "crash/mmp.h"
#include "crash/trace.h"
#include "support/image.h"
#include <ext2fs/ext2fs.h>
#include <stdlib.h>
#include <string.h>

const char *mutant_name(enum mutant m)
{
	static const char *const name[MUTANTS] = {
		[MUTANT_NONE] = "none",
		[MUTANT_DROP_B] = "drop-B",
		[MUTANT_DROP_F1] = "drop-F1",
		[MUTANT_DROP_F2] = "drop-F2",
		[MUTANT_DROP_F3] = "drop-F3",
		[MUTANT_DROP_F4] = "drop-F4",
		[MUTANT_DROP_F4_END] = "drop-F4-end",
		[MUTANT_EARLY_REUSE] = "early-reuse",
		[MUTANT_EARLY_LOG] = "early-log",
		[MUTANT_WIDE_SUPER] = "wide-super",
		[MUTANT_EARLY_DISCARD] = "early-discard",
		[MUTANT_DROP_OPEN] = "drop-open",
		[MUTANT_DROP_N0] = "drop-N0",
		[MUTANT_DROP_N1] = "drop-N1",
		[MUTANT_DROP_N2] = "drop-N2",
		[MUTANT_DROP_N3] = "drop-N3",
		[MUTANT_EARLY_FREE] = "early-free",
		[MUTANT_IN_PLACE] = "in-place",
		[MUTANT_WIDE_STATE] = "wide-state",
		[MUTANT_EARLY_GIVE] = "early-give",
		[MUTANT_MMP_UNCLAIMED] = "mmp-unclaimed",
		[MUTANT_MMP_LATE] = "mmp-late",
		[MUTANT_MMP_UNFLUSHED] = "mmp-unflushed",
		[MUTANT_MMP_IN_BATCH] = "mmp-in-batch",
		[MUTANT_MMP_BETWEEN] = "mmp-between",
		[MUTANT_MMP_EARLY] = "mmp-early",
		[MUTANT_MMP_DROP_E] = "mmp-drop-E",
		[MUTANT_MMP_KEPT] = "mmp-kept",
		[MUTANT_WRONG_PLAN] = "wrong-plan",
	};

	return name[m];
}

/* Of the batches in [from, to). */
static bool drop_flush(struct trace *t, enum barrier b, int from, int to)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->event[i].role != ROLE_FLUSH || t->event[i].barrier != b ||
		    t->event[i].batch < from || t->event[i].batch >= to)
			t->event[n++] = t->event[i];
	if (n == t->n)
		return false;
	t->n = n;
	return true;
}

static size_t find(const struct trace *t, enum role role, int batch, size_t from)
{
	while (from < t->n && (t->event[from].role != role || t->event[from].batch != batch))
		from++;
	return from;
}

/* Moves the event at `from` before the one at `to`. */
static void move_event(struct trace *t, size_t from, size_t to)
{
	struct event e = t->event[from];

	memmove(&t->event[to + 1], &t->event[to], (from - to) * sizeof(e));
	t->event[to] = e;
}

/* Writes of `role` of each batch N+1 go before the first event of `before` of batch N. `before`
 * ROLE_JSB: the last one, E4's. */
static bool move_early(struct trace *t, enum role role, enum role before)
{
	bool done = false;

	for (int b = 0; b + 1 < t->batches; b++) {
		size_t to = find(t, before, b, 0), at = to;

		if (before == ROLE_JSB)
			for (size_t i = to; (i = find(t, before, b, i)) < t->n; i++)
				to = i;
		while ((at = find(t, role, b + 1, at)) < t->n) {
			move_event(t, at, to++);
			done = true;
			at++;
		}
	}
	return done;
}

/*
 * All discards go between the last commit block, or the last batch's inodes, and its flush. (Later
 * would do no harm: replay leaves what it frees alone. It's I5 with a margin.)
 */
static bool discard_early(struct trace *t)
{
	size_t to = find(t, t->ordered ? ROLE_INODES : ROLE_COMMIT, t->batches - 1, 0) + 1;
	bool done = false;

	for (size_t i = to; i < t->n; i++) {
		if (t->event[i].role != ROLE_DISCARD)
			continue;
		move_event(t, i, to++);
		done = true;
	}
	return done;
}

static bool widen_super(struct trace *t, const char *path)
{
	uint8_t *image = malloc(t->size);
	bool done = false;

	if (!image)
		image_die("out of memory");
	image_read(path, 0, image, t->size);
	for (size_t i = 0; i < t->n; i++) {
		struct event *e = &t->event[i];
		struct ext2_super_block *sb = (struct ext2_super_block *)(image + 1024);

		if (e->role == ROLE_FLUSH)
			continue;
		memcpy(image + e->offset, e->data, e->len);
		if (e->role != ROLE_SUPER)
			continue;
		memset(sb->s_last_mounted, 0, sizeof(sb->s_last_mounted));
		sb->s_checksum = ext2fs_crc32c_le(~0u, (unsigned char *)sb,
						  offsetof(struct ext2_super_block, s_checksum));
		free(e->data);
		e->offset = 1024;
		e->len = 1024;
		e->data = malloc(1024);
		if (!e->data)
			image_die("out of memory");
		memcpy(e->data, sb, 1024);
		done = true;
	}
	free(image);
	return done;
}

/* Phase 3 of each batch goes before its phase 2. */
static bool free_early(struct trace *t)
{
	bool done = false;

	for (int b = 0; b < t->batches; b++) {
		size_t to = 0, at;

		while (to < t->n && (t->event[to].barrier != BARRIER_N1 || t->event[to].batch != b))
			to++;
		for (at = ++to; at < t->n && t->event[at].barrier != BARRIER_N2;)
			at++;
		while ((at = find(t, ROLE_ACCOUNTS, b, at)) < t->n) {
			move_event(t, at++, to++);
			done = true;
		}
	}
	return done;
}

static void insert_write(struct trace *t, size_t at, struct event like, uint64_t block,
			 const uint8_t *data)
{
	struct event *event = realloc(t->event, (t->n + 2) * sizeof(*event));

	if (!event)
		image_die("out of memory");
	t->event = event;
	like.role = ROLE_HOME;
	like.offset = block * t->block_size;
	like.len = t->block_size;
	like.data = malloc(like.len);
	if (!like.data)
		image_die("out of memory");
	memcpy(like.data, data, like.len);
	memmove(&event[at + 1], &event[at], (t->n - at) * sizeof(*event));
	event[at] = like;
	t->n++;
	for (size_t i = at + 1; i < t->n; i++)
		event[i].issued += event[i].issued > at;
}

/* The block that the first entry of an inode's tree points to; 0: no tree. */
static uint64_t first_child(const uint8_t *inode)
{
	const struct ext2_inode *raw = (const struct ext2_inode *)inode;
	const struct ext3_extent_header *h = (const struct ext3_extent_header *)raw->i_block;
	const struct ext3_extent_idx *index = (const struct ext3_extent_idx *)(h + 1);

	return raw->i_flags & EXT4_EXTENTS_FL && h->eh_depth ? index->ei_leaf : 0;
}

/*
 * Each tree block that is replaced is also written where it was, in the same phase as the inode, as
 * an implementation would that does not take a new one.
 */
static bool write_in_place(struct trace *t, const char *path)
{
	uint8_t *image = malloc(t->size);
	const struct ext2_super_block *sb = (const struct ext2_super_block *)(image + 1024);
	bool done = false;

	if (!image)
		image_die("out of memory");
	image_read(path, 0, image, t->size);
	for (size_t i = 0; i < t->n; i++) {
		const struct event e = t->event[i];
		uint32_t size = EXT2_INODE_SIZE(sb);

		if (e.role == ROLE_FLUSH)
			continue;
		for (uint64_t at = 0; e.role == ROLE_INODES && at < e.len; at += size) {
			uint64_t was = first_child(image + e.offset + at);
			uint64_t is = first_child(e.data + at);

			if (!was || !is || was == is)
				continue;
			insert_write(t, i++, e, was, image + is * t->block_size);
			done = true;
		}
		memcpy(image + e.offset, e.data, e.len);
	}
	free(image);
	return done;
}

bool mutant_ordered(enum mutant m)
{
	return m >= MUTANT_DROP_OPEN && m <= MUTANT_EARLY_GIVE;
}

bool mutant_mmp(enum mutant m)
{
	return m >= MUTANT_MMP_UNCLAIMED && m <= MUTANT_MMP_KEPT;
}

bool mutant_apply(struct trace *t, enum mutant m, const char *image)
{
	if (m != MUTANT_NONE && mutant_ordered(m) != t->ordered)
		return false;
	if (mutant_mmp(m))
		return mmp_mutant(t, m);
	switch (m) {
	case MUTANT_DROP_B:
	case MUTANT_DROP_OPEN:
		return drop_flush(t, BARRIER_B, -1, 0);
	case MUTANT_DROP_F1:
		return drop_flush(t, BARRIER_F1, 0, t->batches);
	case MUTANT_DROP_F2:
		return drop_flush(t, BARRIER_F2, 0, t->batches);
	case MUTANT_DROP_F3:
		return drop_flush(t, BARRIER_F3, 0, t->batches);
	case MUTANT_DROP_F4:
		return drop_flush(t, BARRIER_F4, 0, t->batches - 1);
	case MUTANT_DROP_F4_END:
		return drop_flush(t, BARRIER_F4, t->batches - 1, t->batches);
	case MUTANT_EARLY_REUSE:
		return move_early(t, ROLE_COPY, ROLE_COPY);
	case MUTANT_EARLY_LOG:
		return move_early(t, ROLE_LOG, ROLE_JSB);
	case MUTANT_DROP_N0:
		return drop_flush(t, BARRIER_N0, 0, t->batches);
	case MUTANT_DROP_N1:
		return drop_flush(t, BARRIER_N1, 0, t->batches);
	case MUTANT_DROP_N2:
		return drop_flush(t, BARRIER_N2, 0, t->batches);
	case MUTANT_DROP_N3:
		return drop_flush(t, BARRIER_N3, 0, t->batches);
	case MUTANT_EARLY_FREE:
		return free_early(t);
	case MUTANT_IN_PLACE:
		return write_in_place(t, image);
	case MUTANT_EARLY_GIVE:
	case MUTANT_EARLY_DISCARD:
		return discard_early(t);
	case MUTANT_WIDE_SUPER:
	case MUTANT_WIDE_STATE:
		return widen_super(t, image);
	default:
		return true;
	}
}
