/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file system without a journal: each batch is written in three phases. The invariants, in the
 * place of I2 to I5, I7 and I8 (commit.c):
 *
 *  N1  Before the first write of a run, s_state loses VALID, flushed: after a crash `e2fsck -p`
 *      checks everything. VALID comes back last, when all else is flushed. Each of the two writes
 *      changes one sector.
 *  N2  Phase 1 writes only to blocks that the batch takes, and marks them used: copies, tree blocks
 *      and indirect blocks in their new places, bitmaps and descriptors in which what the batch
 *      takes *and* what it gives up is used. It is flushed before phase 2 begins. A bitmap that
 *      nobody reads yet (BLOCK_UNINIT) is written and flushed before the descriptor that says that
 *      it counts.
 *  N3  Phase 2 switches the mappings: inodes, and indirect blocks that stay where they are. In any
 *      part of it, in units of a sector, each pointer is the old or the new one, and what either
 *      leads to is there, with equal content. It is flushed before anything that the batch gave up
 *      is written or discarded.
 *  N4  Phase 3, bitmaps and descriptors without what was given up, comes after that flush. So no
 *      block in use is ever free in a bitmap on the disk. It is flushed before VALID is set.
 *  N5  A block of an extent tree that is in use is never written: torn, it would be of neither
 *      kind. (With filemap_move's `anew`, what changes in a tree goes to new blocks up to the root,
 *      which lies in the inode.)
 *  N6  Any prefix of the writes, with any subset of the unflushed ones, torn at sectors, becomes a
 *      clean file system with equal content by `e2fsck -p` alone, which exits with 0 or 1
 *      (tests/crash).
 *
 * Why N3 holds. The first 512 bytes of an inode, with its mapping and its checksum, lie in one
 * sector. An indirect block has no checksum and its pointers have 4 bytes, so a torn one has some
 * old and some new pointers; what the old ones lead to is not written before the next flush.
 *
 * Why phase 3 has no flush of its own. If it is lost, blocks that nobody uses are marked used, and
 * e2fsck corrects that; the next batch, which may write to them, marks them used in its phase 1.
 */
#include "internal.h"
#include "scaledefrag/sort.h"

#include <stdlib.h>
#include <string.h>

/* A bitmap, or a block of descriptors. `first`: what phase 1 writes, malloc'ed; NULL: nothing. */
struct accounts {
	uint64_t block;
	void *first;
	bool unread; /* a bitmap of a BLOCK_UNINIT group */
};

struct ordered {
	struct commit_counters count;
	bool unflushed; /* phase 3 of the last batch */
	/* Of the batch that is in the overlay. */
	struct changes uses;
	struct accounts *accounts; /* in block order */
	size_t n_accounts, cap_accounts;
};

/* Phase 1 has two parts. */
enum { FIRST_UNREAD, FIRST, SECOND, THIRD, PHASES_ALL };

/* A phase: blocks in order. */
struct phase {
	struct blockwriter_block *list;
	size_t n;
};

/* All memory of a batch's writes; taken before the first of them. */
struct writes {
	struct phase phase[PHASES_ALL];
	struct blockwriter writer;
};

int ordered_open(struct commit *c, struct error *err)
{
	c->ordered = calloc(1, sizeof(*c->ordered));
	return c->ordered ? 0 : error_nomem(err, "the commit");
}

static void forget_batch(struct ordered *o)
{
	for (size_t i = 0; i < o->n_accounts; i++)
		free(o->accounts[i].first);
	o->n_accounts = 0;
	o->uses.n = 0;
}

void ordered_close(struct commit *c)
{
	if (!c->ordered)
		return;
	forget_batch(c->ordered);
	free(c->ordered->accounts);
	free(c->ordered->uses.list);
	free(c->ordered);
}

void ordered_get_counters(const struct commit *c, struct commit_counters *out)
{
	*out = c->ordered->count;
}

/* ---- bitmaps and descriptors, twice ---- */

static int add_account(struct ordered *o, uint64_t block, bool unread, struct error *err)
{
	if (array_reserve(&o->accounts, &o->cap_accounts, o->n_accounts + 1, sizeof(*o->accounts),
			  err))
		return -1;
	o->accounts[o->n_accounts++] = (struct accounts){ .block = block, .unread = unread };
	return 0;
}

static int by_block(const void *a, const void *b)
{
	const struct accounts *x = a, *y = b;

	return (x->block > y->block) - (x->block < y->block);
}

/* Those of the groups that the batch touches. */
static int list_accounts(struct commit *c, const struct changes *ch, struct error *err)
{
	struct ordered *o = c->ordered;
	size_t n = 0;

	for (size_t i = 0; i < ch->n; i++) {
		uint32_t group = ch->list[i].group;

		if (i && group == ch->list[i - 1].group)
			continue;
		if (add_account(o, ext2fs_block_bitmap_loc(c->fs, group),
				bitmap_is_uninit(c, group), err) ||
		    add_account(o, descriptor_block(c, group), false, err))
			return -1;
	}
	if (o->n_accounts)
		qsort(o->accounts, o->n_accounts, sizeof(*o->accounts), by_block);
	for (size_t i = 0; i < o->n_accounts; i++)
		if (n == 0 || o->accounts[n - 1].block != o->accounts[i].block)
			o->accounts[n++] = o->accounts[i];
	o->n_accounts = n;
	return 0;
}

/* What the overlay has of them now is what phase 1 writes. */
static int keep_first(struct commit *c, struct error *err)
{
	struct ordered *o = c->ordered;

	for (size_t i = 0; i < o->n_accounts; i++) {
		struct accounts *a = &o->accounts[i];
		const void *data;
		uint64_t block;

		if (!overlay_dirty_next(c->ov, a->block, &block, &data) || block != a->block)
			continue;
		a->first = malloc(c->geo->block_size);
		if (!a->first)
			return error_nomem(err, "a batch");
		memcpy(a->first, data, c->geo->block_size);
	}
	return 0;
}

/* Those of one kind; their order stays. */
static int select_changes(const struct changes *ch, bool use, struct changes *out,
			  struct error *err)
{
	out->n = 0;
	if (array_reserve(&out->list, &out->cap, ch->n + 1, sizeof(*out->list), err))
		return -1;
	for (size_t i = 0; i < ch->n; i++)
		if (ch->list[i].use == use)
			out->list[out->n++] = ch->list[i];
	return 0;
}

int ordered_bitmaps(struct commit *c, const struct changes *ch, struct error *err)
{
	struct ordered *o = c->ordered;
	struct changes frees = { 0 };
	int ret = -1;

	forget_batch(o);
	if (select_changes(ch, true, &o->uses, err) || select_changes(ch, false, &frees, err) ||
	    list_accounts(c, ch, err) || bitmaps_apply(c, &o->uses, false, err) ||
	    keep_first(c, err) || bitmaps_apply(c, &frees, false, err))
		goto out;
	ret = 0;
out:
	free(frees.list);
	return ret;
}

/* ---- the phases ---- */

static const struct accounts *find_account(const struct ordered *o, uint64_t block)
{
	const struct accounts key = { .block = block };

	return o->n_accounts ? bsearch(&key, o->accounts, o->n_accounts, sizeof(key), by_block)
			     : NULL;
}

/* Does the batch take this block, with its cluster? */
static bool is_taken(const struct commit *c, uint64_t block)
{
	const struct ordered *o = c->ordered;
	uint64_t cluster = block / c->geo->cluster_blocks;
	size_t lo = 0, hi = o->uses.n;

	while (lo < hi) { /* to the first range behind it */
		size_t mid = lo + (hi - lo) / 2;

		if (o->uses.list[mid].start <= cluster)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && cluster - o->uses.list[lo - 1].start < o->uses.list[lo - 1].len;
}

static void push(struct phase *p, uint64_t block, const void *data)
{
	p->list[p->n++] = (struct blockwriter_block){ .block = block, .data = data };
}

/* `list`: the batch's blocks as they shall be in the end, in order. */
static void share_out(const struct commit *c, const struct journal_block *list, size_t n,
		      struct phase phase[PHASES_ALL])
{
	for (size_t i = 0; i < n; i++) {
		uint64_t block = list[i].block;
		const struct accounts *a = find_account(c->ordered, block);

		if (!a) {
			push(&phase[is_taken(c, block) ? FIRST : SECOND], block, list[i].data);
			continue;
		}
		if (a->first)
			push(&phase[a->unread ? FIRST_UNREAD : FIRST], block, a->first);
		if (!a->first || memcmp(a->first, list[i].data, c->geo->block_size) != 0)
			push(&phase[THIRD], block, list[i].data);
	}
}

static void writes_release(struct writes *w)
{
	for (int i = 0; i < PHASES_ALL; i++)
		free(w->phase[i].list);
	blockwriter_close(&w->writer);
}

static int writes_init(const struct commit *c, struct writes *w, size_t n, struct error *err)
{
	bool ok = true;

	*w = (struct writes){ 0 };
	for (int i = 0; i < PHASES_ALL; i++) {
		w->phase[i].list = calloc(n, sizeof(*w->phase[i].list));
		ok &= w->phase[i].list != NULL;
	}
	if (ok &&
	    !blockwriter_open(&w->writer, c->dev, c->geo->block_size, n, c->o.queue_depth, err))
		return 0;
	writes_release(w);
	return error_nomem(err, "a batch");
}

static int write_phase(struct commit *c, struct writes *w, const struct phase *p, struct error *err)
{
	uint64_t before = w->writer.writes;
	int ret = blockwriter_write(&w->writer, p->list, p->n, err);

	c->ordered->count.writes += w->writer.writes - before;
	c->ordered->count.blocks_logged += p->n;
	return ret;
}

static int flush(struct commit *c, struct error *err)
{
	c->ordered->count.flushes++;
	if (device_flush(c->dev, err))
		return -1;
	c->ordered->unflushed = false;
	return 0;
}

/* I12: what brings the disk back in order. */
static int fail(const struct commit *c, struct error *err)
{
	struct error why = *err;

	error_set(
		err, ERROR_OPERATION,
		"%s; nothing more was written, all files are safe but %s has no journal and has to "
		"be checked; run: e2fsck -p %s",
		why.text, c->name, c->name);
	err->sys = why.sys;
	return -1;
}

int ordered_commit(struct commit *c, const struct journal_block *list, size_t n, struct error *err)
{
	struct writes w;
	int ret = -1;

	if (writes_init(c, &w, n, err))
		return fail(c, err); /* VALID is not set yet */
	share_out(c, list, n, w.phase);
	if (journal_reserve(c->dev, c->geo->block_size, list, n, err) ||
	    write_phase(c, &w, &w.phase[FIRST_UNREAD], err) ||
	    (w.phase[FIRST_UNREAD].n && flush(c, err)) ||
	    write_phase(c, &w, &w.phase[FIRST], err) || flush(c, err) ||
	    write_phase(c, &w, &w.phase[SECOND], err) || flush(c, err) ||
	    write_phase(c, &w, &w.phase[THIRD], err)) {
		fail(c, err);
		goto out;
	}
	c->ordered->unflushed = true;
	c->ordered->count.transactions++;
	ret = 0;
out:
	writes_release(&w);
	forget_batch(c->ordered);
	return ret;
}

int ordered_end(struct commit *c, struct error *err)
{
	return c->ordered->unflushed ? flush(c, err) : 0;
}
