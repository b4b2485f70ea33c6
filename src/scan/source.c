/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: where metadata is read from, many blocks at a time. */
#include "scan_internal.h"

#include <et/com_err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_BYTES      ((size_t)128 << 10) /* longest single request */
#define READ_DEPTH_MAX 64u		   /* requests in flight; times RUN_BYTES: 8 MiB */

int source_damage(const struct source *src, struct error *err, const char *fmt, ...)
{
	char what[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_set(err, ERROR_FSCK, "%s: %s; run: e2fsck -f %s", volume_arg(src->v), what,
			 volume_arg(src->v));
}

int library_error(const struct volume *v, errcode_t ret, uint32_t ino, struct error *err)
{
	if (volume_error_kind(ret) == ERROR_OPERATION)
		return error_set(err, ERROR_OPERATION, "%s: inode %u can't be read: %s",
				 volume_arg(v), ino, error_message(ret));
	return error_set(err, ERROR_FSCK, "%s: inode %u can't be read: %s; run: e2fsck -f %s",
			 volume_arg(v), ino, error_message(ret), volume_arg(v));
}

errcode_t inode_is_checked(ext2_filsys fs, uint32_t ino, bool *yes)
{
	uint32_t per_group = fs->super->s_inodes_per_group;
	struct ext2_inode inode;
	errcode_t ret;
	dgrp_t group;

	*yes = false;
	if (!ino || ino > fs->super->s_inodes_count)
		return 0;
	group = ext2fs_group_of_ino(fs, ino);
	if (ext2fs_has_group_desc_csum(fs) &&
	    (ext2fs_bg_flags_test(fs, group, EXT2_BG_INODE_UNINIT) ||
	     (ino - 1) % per_group >= per_group - ext2fs_bg_itable_unused(fs, group)))
		return 0;
	ret = ext2fs_read_inode(fs, ino, &inode);
	*yes = !ret && inode.i_links_count; /* I9: so it is in use */
	return ret;
}

int source_stopped(const struct source *src, struct error *err)
{
	if (!src->stop || !*src->stop)
		return 0;
	return error_set(err, ERROR_STOPPED, "%s: stopped while reading metadata",
			 volume_arg(src->v));
}

int want_compare(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* One request with its buffer, and which wants it serves. */
struct slot {
	struct device_request req;
	uint8_t *buf;
	size_t first, n;
};

struct reader {
	const struct source *src;
	const struct want *want;
	size_t n, next;
	block_fn fn;
	void *ctx;
	struct slot *slot;
	struct device_request **idle; /* requests of idle slots; after wait: completed ones */
	size_t n_idle;
	size_t run; /* blocks of the longest request */
	size_t bad; /* lowest want that failed, or n */
	struct error err;
};

static void reader_fill(struct reader *r, struct slot *s)
{
	uint32_t bs = r->src->geo->block_size;

	s->first = r->next;
	s->n = 1;
	while (s->first + s->n < r->n && s->n < r->run &&
	       r->want[s->first + s->n].block == r->want[s->first].block + s->n)
		s->n++;
	r->next += s->n;
	s->req = (struct device_request){ .op = DEVICE_READ,
					  .offset = r->want[s->first].block * bs,
					  .len = s->n * bs,
					  .buf = s->buf,
					  .owner = s };
}

static void reader_failed(struct reader *r, size_t at, const struct error *err)
{
	if (at < r->bad) {
		r->bad = at;
		r->err = *err;
	}
}

static void reader_take(struct reader *r, struct slot *s)
{
	uint32_t bs = r->src->geo->block_size;
	struct error err = ERROR_INIT;

	if (s->req.result) {
		error_sys(&err, ERROR_OPERATION, s->req.result, "%s: cannot read block %llu",
			  volume_arg(r->src->v), (unsigned long long)r->want[s->first].block);
		reader_failed(r, s->first, &err);
		return;
	}
	for (size_t i = 0; i < s->n && s->first + i < r->bad; i++) {
		if (r->fn(r->ctx, r->want[s->first + i].index, s->buf + i * bs, &err)) {
			reader_failed(r, s->first + i, &err);
			return;
		}
	}
}

/* After a failure nothing more is submitted, but all that is in flight, and so all before the
 * failed one, is looked at. */
static int reader_loop(struct reader *r, struct device_queue *q, struct error *err)
{
	while (r->next < r->n || q->in_flight) {
		size_t n = 0, room = device_queue_room(q);

		if (source_stopped(r->src, err))
			return -1;
		while (r->bad == r->n && r->next < r->n && n < r->n_idle && n < room) {
			struct device_request *req = r->idle[r->n_idle - 1 - n];

			reader_fill(r, req->owner);
			n++;
		}
		r->n_idle -= n;
		if (n && device_queue_submit(q, r->idle + r->n_idle, n, err))
			return -1;
		if (!q->in_flight)
			break;
		if (device_queue_wait(q, 1, q->in_flight, r->idle + r->n_idle, &n, err))
			return -1;
		for (size_t i = 0; i < n; i++)
			reader_take(r, r->idle[r->n_idle + i]->owner);
		r->n_idle += n;
	}
	if (r->bad < r->n) {
		*err = r->err;
		return -1;
	}
	return 0;
}

static int reader_slots(struct reader *r, unsigned depth, struct error *err)
{
	r->slot = calloc(depth, sizeof(*r->slot));
	r->idle = calloc(depth, sizeof(struct device_request *));
	if (!r->slot || !r->idle)
		return error_nomem(err, "reading metadata");
	for (unsigned i = 0; i < depth; i++) {
		r->slot[i].buf = device_buffer(r->run * r->src->geo->block_size);
		if (!r->slot[i].buf)
			return error_nomem(err, "reading metadata");
		r->slot[i].req.owner = &r->slot[i];
		r->idle[r->n_idle++] = &r->slot[i].req;
	}
	return 0;
}

int source_read_blocks(const struct source *src, const struct want *want, size_t n, block_fn fn,
		       void *ctx, struct error *err)
{
	struct reader r = { .src = src, .want = want, .n = n, .fn = fn, .ctx = ctx, .bad = n };
	unsigned depth = src->queue_depth;
	struct device_queue *q = NULL;
	int ret = -1;

	if (!n)
		return 0;
	if (depth > READ_DEPTH_MAX)
		depth = READ_DEPTH_MAX;
	if (depth > n)
		depth = (unsigned)n;
	if (!depth)
		depth = 1;
	r.run = RUN_BYTES / src->geo->block_size;
	if (!r.run)
		r.run = 1;
	if (r.run > n)
		r.run = n;
	if (reader_slots(&r, depth, err) || device_queue_open(src->dev, depth, &q, err))
		goto out;
	ret = reader_loop(&r, q, err);
out:
	device_queue_close(q);
	for (unsigned i = 0; r.slot && i < depth; i++)
		free(r.slot[i].buf);
	free(r.slot);
	free(r.idle);
	return ret;
}

static int take_descriptors(void *ctx, size_t index, uint8_t *data, struct error *err)
{
	struct source *src = ctx;

	(void)err;
	memcpy((uint8_t *)src->desc + index * src->geo->block_size, data, src->geo->block_size);
	return 0;
}

static int read_descriptors(struct source *src, struct error *err)
{
	size_t n = src->fs.desc_blocks;
	struct want *want = calloc(n, sizeof(*want));
	int ret = -1;

	src->desc = calloc(n, src->geo->block_size);
	if (!want || !src->desc) {
		error_nomem(err, "reading group descriptors");
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		want[i] = (struct want){
			.block = ext2fs_descriptor_block_loc2(
				&src->fs, src->fs.super->s_first_data_block, (dgrp_t)i),
			.index = i,
		};
		if (want[i].block >= src->geo->blocks ||
		    (i && want[i].block <= want[i - 1].block)) {
			source_damage(src, err, "group descriptor block %zu lies outside", i);
			goto out;
		}
	}
	ret = source_read_blocks(src, want, n, take_descriptors, src, err);
out:
	free(want);
	return ret;
}

int source_open(struct volume *v, unsigned queue_depth, const volatile int *stop,
		struct source *out, struct error *err)
{
	struct source src = { .v = v,
			      .dev = volume_device(v),
			      .geo = volume_geometry(v),
			      .clusters = geometry_in_clusters(volume_geometry(v)),
			      .queue_depth = queue_depth,
			      .stop = stop,
			      .fs = *volume_fs(v) };

	if (read_descriptors(&src, err))
		goto fail;
	src.fs.group_desc = src.desc;
	for (uint32_t g = 0; g < src.geo->groups; g++) {
		if (!ext2fs_group_desc_csum_verify(&src.fs, g)) {
			source_damage(&src, err, "the checksum of group %u's descriptor is wrong",
				      g);
			goto fail;
		}
	}
	*out = src;
	return 0;
fail:
	free(src.desc);
	return -1;
}

void source_close(struct source *src)
{
	free(src->desc);
	src->desc = NULL;
}
