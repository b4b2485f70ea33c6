/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: the collector. Threads take block groups one by one; what each group gives is appended in
 * group order as soon as all groups before it are done, so result and error are the same for any
 * number of threads. Trees, block maps and the cross-check follow on the whole.
 */
#include "scan_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct part {
	struct harvest h;
	struct error err;
	bool done, failed;
};

struct collector {
	const struct source *src;
	bool free_only;		     /* block bitmaps alone */
	bool files_only;	     /* inode tables alone */
	const struct rangeset *near; /* of groups that hold some of these blocks; NULL: of all */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	struct part **part; /* per group, while it waits for groups before it */
	uint32_t merged;    /* groups appended so far */
	struct footprint size;
	struct harvest all;
	struct error err;
	atomic_bool failed;
};

/* The inodes that the source asks for. */
static bool has_inodes(const struct source *src, uint32_t group)
{
	return group >= geometry_inode_group(src->geo, src->first_ino) &&
	       group <= geometry_inode_group(src->geo, src->last_ino);
}

static void scan_group(const struct collector *c, uint32_t group, struct scratch *s, struct part *p)
{
	const struct source *src = c->src;

	if (c->files_only) {
		p->failed = source_stopped(src, &p->err) ||
			    (has_inodes(src, group) &&
			     (inodes_scan_group(src, group, s, &p->h, &p->err) ||
			      harvest_settle(&p->h, source_is_bigalloc(src), &p->err)));
		return;
	}
	if (c->near && !rangeset_overlaps(c->near, geometry_group_first(&src->clusters, group),
					  geometry_group_blocks(&src->clusters, group)))
		return;
	p->failed = source_stopped(src, &p->err) ||
		    freespace_scan_group(src, group, s->bitmap, &p->h, &p->err);
	if (p->failed || c->free_only)
		return;
	p->failed = freespace_claim_metadata(src, group,
					     source_is_bigalloc(src) ? &p->h.meta : &p->h.claims,
					     &p->err) ||
		    inodes_scan_group(src, group, s, &p->h, &p->err) ||
		    harvest_settle(&p->h, source_is_bigalloc(src), &p->err);
}

static void part_free(struct part *p)
{
	if (p)
		harvest_release(&p->h);
	free(p);
}

/* Parts that memory does not suffice for are counted only, so that it can be said what would. */
static int append(struct collector *c, struct part *p)
{
	footprint_add(&c->size, &p->h);
	if (!c->src->memory || c->size.bytes <= c->src->memory)
		return harvest_append(&c->all, &p->h, &p->err);
	harvest_release(&c->all);
	return 0;
}

/* Appends all parts that are due. One thread at a time. */
static void merge(struct collector *c, uint32_t group, struct part *p)
{
	uint32_t groups = c->src->geo->groups;

	c->part[group] = p;
	while (c->merged < groups && c->part[c->merged] && !atomic_load(&c->failed)) {
		struct part *due = c->part[c->merged];

		if (due->failed || append(c, due)) {
			c->err = due->err;
			atomic_store(&c->failed, true);
			return;
		}
		c->part[c->merged++] = NULL;
		part_free(due);
		if (c->progress)
			c->progress(c->ctx, c->merged, groups);
	}
}

static void work(struct collector *c, uint32_t group, struct scratch *s)
{
	struct part *p = calloc(1, sizeof(*p));

	if (p)
		scan_group(c, group, s, p);
#pragma omp critical(scan_merge)
	{
		if (p) {
			merge(c, group, p);
		} else if (!atomic_load(&c->failed)) {
			error_nomem(&c->err, "reading metadata");
			atomic_store(&c->failed, true);
		}
	}
}

/* Groups are handed out in order, so all before a failed one have been taken and are finished. */
static int collect(struct collector *c, unsigned threads, struct error *err)
{
	uint32_t groups = c->src->geo->groups;
	atomic_uint_fast64_t next = 0;

	c->part = calloc(groups, sizeof(struct part *));
	if (!c->part)
		return error_nomem(err, "reading metadata");
#pragma omp parallel num_threads(threads ? threads : 1)
	{
		struct scratch s = { 0 };
		struct error mine = ERROR_INIT;
		uint64_t group;

		if (scratch_new(c->src, &s, &mine)) {
#pragma omp critical(scan_merge)
			if (!atomic_load(&c->failed)) {
				c->err = mine;
				atomic_store(&c->failed, true);
			}
		}
		while (s.table && !atomic_load(&c->failed) &&
		       (group = atomic_fetch_add(&next, 1)) < groups)
			work(c, (uint32_t)group, &s);
		scratch_free(&s);
	}
	for (uint32_t g = 0; g < groups; g++)
		part_free(c->part[g]);
	free(c->part);
	c->part = NULL;
	if (!atomic_load(&c->failed))
		return footprint_check(c->src, &c->size, err);
	*err = c->err;
	return -1;
}

/*
 * Only regular files have holes and unwritten extents. A directory's block that is flagged
 * unwritten still holds names, which e2fsck brings back by clearing the flag; to move it without a
 * copy, as unwritten blocks are, would lose them. (Block-mapped ones have no unwritten blocks.)
 */
static int check_solid(const struct source *src, const struct harvest *h, struct error *err)
{
	for (size_t i = 0; i < h->n_file; i++) {
		const struct filemap *m = &h->file[i].map;
		uint64_t at = 0;

		if (m->indirect || h->file[i].kind == FILE_REGULAR)
			continue;
		for (size_t k = 0; k < m->n_ext; k++) {
			const struct extent *e = &m->ext[k];

			if (e->unwritten || e->lblk != at)
				return source_damage(
					src, err, "inode %u: %s, though it is no regular file",
					h->file[i].ino,
					e->unwritten ? "its extents have an unwritten block"
						     : "its extents leave a hole");
			at += e->len;
		}
	}
	return 0;
}

static int compare_xattr(const void *a, const void *b)
{
	const struct xattr_ref *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* An xattr block may be shared by many inodes: the lowest claims it. */
static int claim_xattrs(const struct source *src, struct harvest *h, struct error *err)
{
	if (h->n_xattr > 1)
		qsort(h->xattr, h->n_xattr, sizeof(*h->xattr), compare_xattr);
	for (size_t i = 0; i < h->n_xattr; i++) {
		if (i && h->xattr[i].block == h->xattr[i - 1].block)
			continue;
		if (claims_add(&h->claims, source_cluster(src, h->xattr[i].block), 1, OWNER_FIXED,
			       h->xattr[i].ino, err))
			return -1;
	}
	return 0;
}

/* The files to move, all but those that `left` holds, go to the snapshot. Sets the others' runs. */
static void hand_over_files(struct harvest *h, struct snapshot *s)
{
	size_t kept = 0, from = 0;

	for (size_t i = 0; i < h->n_left; i++) {
		struct left *l = &h->left[i];
		struct filemap *m;

		if (l->file == NO_FILE)
			continue;
		m = &h->file[l->file].map;
		l->runs = filemap_runs(m->ext, m->n_ext);
		filemap_release(m);
		memmove(h->file + kept, h->file + from, (l->file - from) * sizeof(*h->file));
		kept += l->file - from;
		from = l->file + 1;
	}
	if (h->n_file > from)
		memmove(h->file + kept, h->file + from, (h->n_file - from) * sizeof(*h->file));
	s->file = h->file;
	s->n_file = kept + h->n_file - from;
	s->pool = h->pool;
	s->n_pool = h->n_pool;
	h->file = NULL;
	h->pool = NULL;
	h->n_file = h->cap_file = h->n_pool = h->cap_pool = 0;
}

static void sort_out_files(struct harvest *h, struct snapshot *s)
{
	hand_over_files(h, s);
	for (size_t i = 0; i < h->n_left; i++) {
		const struct left *l = &h->left[i];

		s->left_ino[i] = l->ino;
		s->left_why[i] = l->why;
		s->left_runs[i] = l->runs;
		s->count[l->why]++;
	}
	s->n_left = h->n_left;
	s->count[LEAVE_NONE] = s->n_file;
	s->count[LEAVE_NOTHING] = h->nothing;
}

/* What a file that is left alone has. */
static int add_left(struct rangeset *fixed, const struct filemap *m, struct error *err)
{
	for (uint32_t l = 0; l < m->depth; l++)
		for (size_t k = 0; k < m->tree->n_node[l]; k++)
			if (rangeset_add(fixed, m->tree->node[l][k].pblk, 1, err))
				return -1;
	for (size_t k = 0; k < m->n_ext; k++)
		if (rangeset_add(fixed, m->ext[k].pblk, m->ext[k].len, err))
			return -1;
	return 0;
}

static int fill_fixed(const struct harvest *h, struct rangeset *fixed, struct error *err)
{
	for (size_t i = 0; i < h->claims.n; i++)
		if (rangeset_add(fixed, h->claims.c[i].start, h->claims.c[i].len, err))
			return -1;
	for (size_t i = 0; i < h->n_left; i++)
		if (h->left[i].file != NO_FILE &&
		    add_left(fixed, &h->file[h->left[i].file].map, err))
			return -1;
	return 0;
}

static int fill_sets(struct harvest *h, const struct scan_options *o, struct snapshot *s,
		     struct error *err)
{
	if (rangeset_new(&s->fixed, err) || rangeset_new(&s->avoid, err) ||
	    fill_fixed(h, s->fixed, err))
		return -1;
	for (size_t i = 0; i < o->n_avoid; i++)
		if (rangeset_add(s->avoid, o->avoid[i].start, o->avoid[i].len, err))
			return -1;
	s->free = h->space;
	h->space = NULL;
	return 0;
}

static int make_snapshot(const struct source *src, struct harvest *h, const struct scan_options *o,
			 struct snapshot **out, struct error *err)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err, "the snapshot");
	s->geo = src->clusters;
	s->limits = o->limits;
	s->limits.journal_blocks -= h->quota_blocks;
	memcpy(s->quota_ino, h->quota_ino, sizeof(s->quota_ino));
	s->left_ino = calloc(h->n_left + 1, sizeof(*s->left_ino));
	s->left_why = calloc(h->n_left + 1, sizeof(*s->left_why));
	s->left_runs = calloc(h->n_left + 1, sizeof(*s->left_runs));
	if (!s->left_ino || !s->left_why || !s->left_runs) {
		error_nomem(err, "the snapshot");
		goto fail;
	}
	if (fill_sets(h, o, s, err))
		goto fail;
	sort_out_files(h, s);
	*out = s;
	return 0;
fail:
	snapshot_free(s);
	return -1;
}

int scan_volume(struct volume *v, const struct scan_options *o, struct snapshot **out,
		struct error *err)
{
	struct source src;
	struct collector c = { .src = &src, .progress = o->progress, .ctx = o->ctx };
	struct snapshot *s = NULL;
	int ret = -1;

	if (source_open(v, o->queue_depth, o->stop, &src, err))
		return -1;
	src.exclude = o->exclude;
	src.n_exclude = o->n_exclude;
	src.memory = o->memory;
	src.others = c.size.bytes = o->taken;
	src.threads = o->threads ? o->threads : 1;
	ext2fs_flush_icache(volume_fs(v)); /* it may be older than a commit */
	if (collect(&c, o->threads, err))
		goto out;
	src.taken = c.size.bytes;
	if (claim_xattrs(&src, &c.all, err) ||
	    trees_read(&src, c.all.file, c.all.root, c.all.n_root, err) ||
	    mapped_read(&src, c.all.file, c.all.mapped, c.all.n_mapped, err) ||
	    check_solid(&src, &c.all, err) ||
	    clusters_of_files(&src, c.all.file, c.all.n_file, err) ||
	    footprint_check_all(&src, &c.all, err) || crosscheck(&src, &c.all, err) ||
	    resize_check(&src, &c.all.claims, err) ||
	    quota_find(&src, o->limits.journal_blocks, &c.all, err) ||
	    swap_find(&src, &c.all, err) || boot_pin(&src, &c.all, err) ||
	    scope_apply(&src, o->scope, o->n_scope, &c.all, err))
		goto out;
	ret = make_snapshot(&src, &c.all, o, &s, err);
	if (!ret && o->order)
		ret = order_read(&src, o->front, o->growth, s, err);
	if (ret)
		snapshot_free(s);
	else
		*out = s;
out:
	harvest_release(&c.all);
	source_close(&src);
	return ret;
}

int scan_part(struct volume *v, const struct scan_options *o, uint32_t first, uint32_t last,
	      struct snapshot *s, struct error *err)
{
	struct source src;
	struct collector c = {
		.src = &src, .files_only = true, .progress = o->progress, .ctx = o->ctx
	};
	int ret = -1;

	snapshot_drop_files(s);
	if (source_open(v, o->queue_depth, o->stop, &src, err))
		return -1;
	src.first_ino = first ? first : 1;
	src.last_ino = last;
	src.skip = s->left_ino;
	src.n_skip = s->n_left;
	src.threads = o->threads ? o->threads : 1;
	ext2fs_flush_icache(volume_fs(v));
	if (collect(&c, o->threads, err) ||
	    trees_read(&src, c.all.file, c.all.root, c.all.n_root, err) ||
	    mapped_read(&src, c.all.file, c.all.mapped, c.all.n_mapped, err) ||
	    check_solid(&src, &c.all, err) ||
	    clusters_of_files(&src, c.all.file, c.all.n_file, err) || swap_find(&src, &c.all, err))
		goto out;
	hand_over_files(&c.all, s);
	ret = 0;
out:
	harvest_release(&c.all);
	source_close(&src);
	return ret;
}

int scan_free(struct volume *v, unsigned threads, const struct rangeset *near,
	      struct rangeset **out, struct error *err)
{
	struct source src;
	struct collector c = { .src = &src, .free_only = true, .near = near };
	int ret;

	if (source_open(v, 32, NULL, &src, err))
		return -1;
	ret = collect(&c, threads, err);
	if (!ret) {
		*out = c.all.space;
		c.all.space = NULL;
	}
	harvest_release(&c.all);
	source_close(&src);
	return ret;
}
