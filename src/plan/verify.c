/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify: proof that a plan is right, before anything is written.
 *
 * Shares no code with the rest of the planner. A file's mapping is kept as stretches, as long as
 * they can be (no limit of a record's length), so that the number of records computed here is the
 * least possible one. The free blocks are a rangeset, used as a container; everything that concerns
 * one batch is in sorted arrays.
 *
 * Two halves, which run at the same time: files against their mappings, blocks against the free
 * ones.
 */
#include "verify.h"
#include "scaledefrag/sort.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Moves that are worth a second thread. */
#define MANY 10000u

/* ---- metadata blocks ---- */

/* Counts block i of this kind, once a batch. */
static void count(struct check *c, struct seen *s, uint64_t i)
{
	uint32_t now = (uint32_t)c->batch + 1;
	assert(i < s->n);
	c->metadata += s->batch[i] != now;
	s->batch[i] = now;
}

/* Bitmaps and descriptors of the groups of these blocks, which lie in the file system. */
static void count_groups(struct check *c, uint64_t start, uint64_t len)
{
	const struct geometry *g = &c->snap->geo;
	for (uint64_t i = geometry_group_of(g, start); i <= geometry_group_of(g, start + len - 1);
	     i++) {
		count(c, &c->bitmap, i);
		count(c, &c->descriptors, i / g->desc_per_block);
	}
}

static int list_nodes(struct check *c, uint64_t first, uint64_t n)
{
	if (verify_more(c, &c->node, c->n_node + n, &c->cap_node, sizeof(*c->node)))
		return -1;
	for (uint64_t i = 0; i < n; i++)
		c->node[c->n_node++] = c->plan->node[first + i];
	return 0;
}

/* Files of a batch come in inode order, so their inode table blocks do. */
static int count_file_blocks(struct check *c, const struct plan_file *f)
{
	const struct geometry *g = &c->snap->geo;
	uint64_t group = geometry_inode_group(g, f->ino);
	uint64_t byte = (uint64_t)((f->ino - 1) % g->inodes_per_group) * g->inode_size;
	uint64_t block = group << 24 | byte / g->block_size;
	c->metadata += block != c->last_inodes;
	c->last_inodes = block;
	return list_nodes(c, f->first_kept, f->n_kept) || list_nodes(c, f->first_taken, f->n_taken)
		       ? -1
		       : 0;
}

/* All metadata blocks of the batch. */
static int count_blocks(struct check *c, uint64_t *n)
{
	for (size_t i = 0; i < c->n_used; i++)
		count_groups(c, c->used[i].start, c->used[i].len);
	for (size_t i = 0; i < c->n_freed; i++)
		count_groups(c, c->freed[i].start, c->freed[i].len);
	if (!verify_sort(c, c->node, c->n_node))
		return -1;
	*n = c->metadata;
	for (size_t i = 0; i < c->n_node; i++)
		*n += !i || c->node[i] != c->node[i - 1];
	return 0;
}

static int check_limits(struct check *c, const struct plan_batch *b)
{
	const struct snapshot_limits *l = &c->snap->limits;
	uint64_t n;
	if (count_blocks(c, &n))
		return -1;
	if (n != b->journal_blocks)
		return verify_wrong(c, 0, "it journals %" PRIu64 " blocks, not %" PRIu64, n,
				    b->journal_blocks);
	if (n > l->journal_blocks)
		return verify_wrong(c, 0, "it journals %" PRIu64 " blocks, more than %" PRIu64, n,
				    l->journal_blocks);
	if (c->copied != b->copy_blocks)
		return verify_wrong(c, 0, "it copies %" PRIu64 " blocks, not %" PRIu64, c->copied,
				    b->copy_blocks);
	if (c->copied > l->copy_blocks && c->copies > 1)
		return verify_wrong(c, 0, "it copies %" PRIu64 " blocks, more than %" PRIu64,
				    c->copied, l->copy_blocks);
	return 0;
}

/* ---- one batch ---- */

static const char *name_of(enum use use)
{
	return use == USE_NODE ? "tree block" : "target";
}

/* Why isn't this free? */
static int not_free(struct check *c, const struct used *u)
{
	const char *what = name_of(u->use);
	for (size_t i = 0; i < c->n_freed; i++) {
		const struct range *f = &c->freed[i];
		if (f->start < u->start + u->len && u->start < f->start + f->len)
			return verify_wrong(c, u->ino, "%s %" PRIu64 " is freed by this very batch",
					    what, u->start);
	}
	if (rangeset_overlaps(c->snap->fixed, u->start, u->len))
		return verify_wrong(c, u->ino, "%s %" PRIu64 " is fixed", what, u->start);
	return verify_wrong(c, u->ino, "%s %" PRIu64 " is not free", what, u->start);
}

/* Looks up ascending blocks in a set: asks it only where the last answer doesn't do. */
struct cursor {
	const struct rangeset *rs;
	struct range r;
	bool end;
};

/* The first range that ends behind `from`, or NULL. */
static const struct range *seek(struct cursor *c, uint64_t from)
{
	if (!c->end && c->r.start + c->r.len <= from)
		c->end = !c->rs || !rangeset_next(c->rs, from, &c->r);
	return c->end ? NULL : &c->r;
}

static bool overlaps(struct cursor *c, uint64_t start, uint64_t len)
{
	const struct range *r = seek(c, start);
	return r && r->start < start + len;
}

static bool holds(struct cursor *c, uint64_t start, uint64_t len)
{
	const struct range *r = seek(c, start);
	return r && r->start <= start && start + len <= r->start + r->len;
}

/* All that is written to is free when the batch starts, and used once. */
static int check_used(struct check *c)
{
	struct cursor avoid = { .rs = c->snap->avoid }, space = { .rs = c->free };
	if (!sort_by_key(c->used, c->n_used, sizeof(*c->used)))
		return error_nomem(c->err, "verifying the plan");
	for (size_t i = 0; i < c->n_used; i++) {
		const struct used *u = &c->used[i];
		if (i && u->start < u[-1].start + u[-1].len)
			return verify_wrong(c, u->ino, "%s %" PRIu64 " is used twice",
					    name_of(u->use), u->start);
		if (overlaps(&avoid, u->start, u->len))
			return verify_wrong(c, u->ino, "%s %" PRIu64 " is to be avoided",
					    name_of(u->use), u->start);
		if (!holds(&space, u->start, u->len))
			return not_free(c, u);
	}
	return 0;
}

/* All that is freed is in use when the batch starts, and freed once. */
static int check_freed(struct check *c)
{
	struct cursor fixed = { .rs = c->snap->fixed }, space = { .rs = c->free };
	if (!sort_by_key(c->freed, c->n_freed, sizeof(*c->freed)))
		return error_nomem(c->err, "verifying the plan");
	for (size_t i = 0; i < c->n_freed; i++) {
		const struct range *f = &c->freed[i];
		if (i && f->start < f[-1].start + f[-1].len)
			return verify_wrong(c, 0, "block %" PRIu64 " is freed twice", f->start);
		if (overlaps(&space, f->start, f->len) || overlaps(&fixed, f->start, f->len))
			return verify_wrong(c, 0, "block %" PRIu64 " is freed, but no file's",
					    f->start);
	}
	return 0;
}

static bool was_freed(const struct check *c, uint64_t start, uint64_t len)
{
	size_t lo = 0, hi = c->n_was_freed;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->was_freed[mid].start + c->was_freed[mid].len <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->n_was_freed && c->was_freed[lo].start < start + len;
}

/* What may be copied while the batch before is committed goes to blocks that are free before that
 * one, too: they are free now, and it didn't free them. */
static int check_early(struct check *c)
{
	size_t n;
	const struct move *m = plan_moves(c->plan, c->batch, &n);
	bool *early, wrong = false;
	size_t i = 0;
	if (plan_early(c->plan, c->batch, &early, c->err))
		return -1;
	for (; i < n && !wrong; i++)
		wrong = early[i] && (!c->batch || was_freed(c, m[i].to, m[i].len));
	free(early);
	return wrong ? verify_wrong(c, 0,
				    "target %" PRIu64 " is early, but freed by the batch before",
				    m[i - 1].to)
		     : 0;
}

/* For the next batch's check_early(). */
static void keep_freed(struct check *c)
{
	struct range *list = c->was_freed;
	size_t cap = c->cap_was_freed;
	c->was_freed = c->freed;
	c->cap_was_freed = c->cap_freed;
	c->n_was_freed = c->n_freed;
	c->freed = list;
	c->cap_freed = cap;
	c->n_freed = 0;
}

/* The free blocks after the batch; what adjoins is taken or given at once. */
static int update_free(struct check *c)
{
	for (size_t i = 0; i < c->n_used;) {
		uint64_t start = c->used[i].start, end = start;
		for (; i < c->n_used && c->used[i].start == end; i++)
			end += c->used[i].len;
		if (rangeset_remove(c->free, start, end - start, c->err))
			return -1;
	}
	for (size_t i = 0; i < c->n_freed;) {
		uint64_t start = c->freed[i].start, end = start;
		for (; i < c->n_freed && c->freed[i].start == end; i++)
			end += c->freed[i].len;
		if (rangeset_add(c->free, start, end - start, c->err))
			return -1;
	}
	return 0;
}

/* Keeps count of the files that have more runs than they began with. */
static void note_runs(struct check *c, size_t file)
{
	const struct filemap *was = &c->snap->file[file].map;
	bool worse = verify_runs(c->image[file], c->snap->geo.cluster_blocks) >
		     filemap_runs(was->ext, was->n_ext);
	c->n_worse += worse;
	c->n_worse -= c->worse[file];
	c->worse[file] = worse;
}

/* Where a run may stop, and at the end, no file has more runs than it began with. */
static int check_rest(struct check *c, const struct plan_batch *b)
{
	size_t i = 0;
	if (c->batch + 1 == c->plan->n_batch && !b->rest)
		return verify_wrong(c, 0, "it is the last one, and a run may not stop there");
	if (!b->rest || !c->n_worse)
		return 0;
	while (!c->worse[i])
		i++;
	return verify_wrong(c, c->snap->file[i].ino,
			    "it has %" PRIu64 " runs, more than in the beginning, where a run may "
			    "stop",
			    verify_runs(c->image[i], c->snap->geo.cluster_blocks));
}

/* The file's index in the snapshot; n_file: there is none. */
static size_t find_file(const struct check *c, uint32_t ino)
{
	size_t lo = 0, hi = c->snap->n_file;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->ino[mid] < ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->snap->n_file && c->ino[lo] == ino ? lo : c->snap->n_file;
}

/* The files of a batch against their mappings. */
static int check_files(struct check *c, const struct plan_batch *b)
{
	const struct plan *p = c->plan;
	if (!b->n_file || !verify_inside(b->first_file, b->n_file, p->n_file))
		return verify_wrong(c, 0, "it has no files");
	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &p->file[b->first_file + i];
		size_t file = find_file(c, f->ino);
		if (file == c->snap->n_file)
			return verify_wrong(c, f->ino, "the snapshot has no such file");
		if (i && f->ino <= f[-1].ino)
			return verify_wrong(c, f->ino, "it is out of order, or twice in the batch");
		if (verify_file(c, f, file))
			return -1;
		note_runs(c, file);
	}
	return check_rest(c, b);
}

/* The blocks of a batch against the free ones. What check_files() would find wrong does no harm
 * here; it need not be found. */
static int check_blocks(struct check *c, const struct plan_batch *b)
{
	const struct plan *p = c->plan;
	c->n_used = c->n_freed = c->n_node = 0;
	c->copied = c->copies = c->metadata = 0;
	c->last_inodes = UINT64_MAX;
	if (!verify_inside(b->first_file, b->n_file, p->n_file))
		return verify_wrong(c, 0, "it has no files");
	for (uint64_t i = 0; i < b->n_file; i++) {
		const struct plan_file *f = &p->file[b->first_file + i];
		if (verify_list_file(c, f) || count_file_blocks(c, f))
			return -1;
	}
	if (check_used(c) || check_freed(c) || check_early(c) || check_limits(c, b) ||
	    update_free(c))
		return -1;
	keep_freed(c);
	return 0;
}

/* ---- the end ---- */

struct figure {
	const char *name;
	uint64_t is, said;
};

static void count_file(struct check *c, size_t file, const struct ideal *id, struct summary *sum)
{
	const struct snapshot_file *sf = &c->snap->file[file];
	const struct image *im = c->image[file];
	const struct filemap *m = &sf->map;
	uint64_t ratio = c->snap->geo.cluster_blocks;
	uint64_t blocks = im ? verify_blocks(im, ratio) : filemap_blocks(m->ext, m->n_ext);
	uint64_t runs = im ? verify_runs(im, ratio) : filemap_runs(m->ext, m->n_ext);
	uint64_t ideal = blocks ? ideal_runs(id, blocks) : 0;
	sum->files++;
	sum->runs += runs;
	sum->blocks += blocks;
	sum->ideal_runs += ideal;
	sum->tree_blocks += im ? im->n_node : filemap_nodes(m);
	sum->dirs += sf->kind == FILE_DIRECTORY;
	if (runs <= ideal)
		return;
	sum->frag_files++;
	sum->frag_blocks += blocks;
	sum->frag_dirs += sf->kind == FILE_DIRECTORY;
}

static int check_prediction(struct check *c)
{
	const struct summary *p = &c->plan->predicted;
	struct summary sum = { 0 };
	struct ideal *id;
	struct range longest = { 0 };
	if (ideal_new(c->snap, &id, c->err))
		return -1;
	for (size_t i = 0; i < c->snap->n_file; i++)
		count_file(c, i, id, &sum);
	ideal_free(id);
	rangeset_longest(c->free, &longest);
	const struct figure figure[] = {
		{ "files", sum.files, p->files },
		{ "fragmented files", sum.frag_files, p->frag_files },
		{ "directories", sum.dirs, p->dirs },
		{ "fragmented directories", sum.frag_dirs, p->frag_dirs },
		{ "runs", sum.runs, p->runs },
		{ "ideal runs", sum.ideal_runs, p->ideal_runs },
		{ "blocks", sum.blocks, p->blocks },
		{ "blocks of fragmented files", sum.frag_blocks, p->frag_blocks },
		{ "tree blocks", sum.tree_blocks, p->tree_blocks },
		{ "free blocks", rangeset_blocks(c->free), p->free_blocks },
		{ "free runs", rangeset_count(c->free), p->free_runs },
		{ "blocks in the longest free run", longest.len, p->longest_free },
	};
	for (size_t i = 0; i < sizeof(figure) / sizeof(*figure); i++) {
		if (figure[i].is != figure[i].said)
			return error_set(c->err, ERROR_OPERATION,
					 "plan: it ends with %" PRIu64 " %s, not %" PRIu64
					 " as predicted",
					 figure[i].is, figure[i].name, figure[i].said);
	}
	return 0;
}

static int start_files(struct check *c)
{
	size_t n = c->snap->n_file;
	c->ino = malloc((n + 1) * sizeof(*c->ino));
	c->image = calloc(n + 1, sizeof(struct image *));
	c->worse = calloc(n + 1, sizeof(*c->worse));
	if (!c->ino || !c->image || !c->worse)
		return error_nomem(c->err, "verifying the plan");
	for (size_t i = 0; i < n; i++)
		c->ino[i] = c->snap->file[i].ino;
	return 0;
}

static int start_blocks(struct check *c)
{
	const struct geometry *g = &c->snap->geo;
	struct state *st;
	c->bitmap.n = g->groups;
	c->bitmap.batch = calloc(c->bitmap.n + 1, sizeof(*c->bitmap.batch));
	c->descriptors.n = g->groups / g->desc_per_block + 1;
	c->descriptors.batch = calloc(c->descriptors.n + 1, sizeof(*c->descriptors.batch));
	if (!c->bitmap.batch || !c->descriptors.batch)
		return error_nomem(c->err, "verifying the plan");
	if (c->plan->n_batch >= UINT32_MAX)
		return error_set(c->err, ERROR_OPERATION, "plan: it has too many batches");
	if (state_new(c->snap, &st, c->err)) /* takes avoided blocks out of the free ones */
		return -1;
	c->free = st->free;
	st->free = NULL;
	state_free(st);
	return 0;
}

static void release(struct check *c)
{
	for (size_t i = 0; c->image && i < c->snap->n_file; i++)
		free(c->image[i]);
	free(c->ino);
	free(c->image);
	free(c->worse);
	rangeset_free(c->free);
	free(c->used);
	free(c->freed);
	free(c->was_freed);
	free(c->bitmap.batch);
	free(c->descriptors.batch);
	free(c->node);
	free(c->old.im.piece);
	free(c->old.im.node);
	free(c->next.im.piece);
	free(c->next.im.node);
	free(c->own);
}

/* One half of the proof, batch by batch, up to the first violation. */
static int check_half(struct check *c, int (*start)(struct check *),
		      int (*batch)(struct check *, const struct plan_batch *))
{
	int rc = start(c);
	while (!rc && c->batch < c->plan->n_batch) {
		rc = batch(c, &c->plan->batch[c->batch]);
		c->batch += !rc;
	}
	return rc;
}

int planner_verify(const struct snapshot *s, const struct plan *p, unsigned threads,
		   struct error *err)
{
	struct error why[2] = { ERROR_INIT, ERROR_INIT };
	struct check half[2] = { { .snap = s, .plan = p, .err = &why[0] },
				 { .snap = s, .plan = p, .err = &why[1] } };
	int rc[2], all = -1;
	/* They know nothing of each other; what is wrong is told as if they took turns. */
#pragma omp parallel for num_threads(2) if (threads > 1 && p->n_move >= MANY)
	for (int i = 0; i < 2; i++)
		rc[i] = check_half(&half[i], i ? start_blocks : start_files,
				   i ? check_blocks : check_files);
	if (rc[0] || rc[1]) {
		*err = why[!rc[0] || (rc[1] && half[1].batch < half[0].batch)];
		goto out;
	}
	half[0].free = half[1].free;
	half[1].free = NULL;
	half[0].err = err;
	all = check_prediction(&half[0]);
out:
	release(&half[0]);
	release(&half[1]);
	return all;
}
