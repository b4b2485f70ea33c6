/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening, in order: the name, locks, (checks, e2fsck -p), one descriptor for everything after,
 * exclusive and held to the end, all checks on that descriptor, libext2fs on top.
 *
 * e2fsck opens a device with O_EXCL, so ours comes after it. The locks lie on a descriptor of their
 * own that is open from before e2fsck to the end.
 */
#include "internal.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct volume {
	struct target target;
	struct locks locks;
	struct device *dev;
	ext2_filsys fs;
	struct superblock sb;
	struct geometry geo;
	struct volume_place place;
	char what[128];
};

/* Everything that can be known without libext2fs, read through `fd`. */
static int check(struct volume *v, const struct volume_options *o, int fd, bool before_preen,
		 struct error *err)
{
	struct target *tg = &v->target;

	if (target_measure(tg, fd, err) || lock_probe(&v->locks, tg, err) || holders_check(tg, err))
		return -1;
	if (o->partition ? partition_resolve(tg, fd, o->partition, err)
			 : (partition_limit(tg, fd), 0))
		return -1;
	if (content_check(tg, fd, err) || superblock_read(tg, fd, &v->sb, err))
		return -1;
	return guard_all(tg, fd, &v->sb, before_preen, err);
}

/* The one descriptor. -1 with err set: EBUSY is explained by who holds it. */
static int open_exclusive(const struct target *tg, struct error *err)
{
	int flags = (tg->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;

	int fd = open(tg->path, flags | (tg->is_device ? O_EXCL : 0));
	if (fd >= 0)
		return fd;
	int sys = errno;
	if (sys != EBUSY)
		return target_open_error(tg, sys, err);
	if (holders_check(tg, err))
		return -1;
	return error_set(
		err, ERROR_OPERATION,
		"%s is in use (mounted, swap, RAID, LVM or another program); lsblk and fuser -v "
		"show by what",
		tg->shown);
}

static int open_device(struct volume *v, const struct volume_options *o, int fd, struct error *err)
{
	struct device *real, *front;
	uint64_t size = v->geo.blocks * v->geo.block_size;

	if (device_open_file(fd, v->target.base, size, v->geo.block_size, o->read_only, &real,
			     err)) {
		close(fd);
		return -1;
	}
	if (o->wrap) {
		if (o->wrap(o->wrap_ctx, real, &front, err)) {
			device_close(real);
			return -1;
		}
		real = front;
	}
	v->dev = real;
	return 0;
}

static void describe(struct volume *v)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	const uint32_t ext3_incompat = EXT2_FEATURE_INCOMPAT_FILETYPE |
				       EXT3_FEATURE_INCOMPAT_RECOVER |
				       EXT2_FEATURE_INCOMPAT_META_BG;
	const uint32_t ext3_ro =
		EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER | EXT2_FEATURE_RO_COMPAT_LARGE_FILE;
	bool is_ext3 = !(v->sb.incompat & ~ext3_incompat) && !(v->sb.ro_compat & ~ext3_ro);
	double size = (double)v->geo.blocks * v->geo.block_size;
	uint64_t free_blocks = 0;
	char clusters[40] = "";
	unsigned u = 0;

	for (dgrp_t g = 0; g < v->geo.groups; g++)
		free_blocks += ext2fs_bg_free_blocks_count(v->fs, g);
	for (; size >= 1024 && u < 5; u++)
		size /= 1024;
	free_blocks *= v->geo.cluster_blocks; /* the groups count clusters */
	double used = 100.0 * (double)(v->geo.blocks - free_blocks) / (double)v->geo.blocks;
	if (v->geo.cluster_blocks > 1)
		snprintf(clusters, sizeof(clusters), " in clusters of %u KiB",
			 geometry_cluster_size(&v->geo) / 1024);
	snprintf(v->what, sizeof(v->what), "%s, %u KiB blocks%s, %.1f %s, %.0f %% used",
		 !is_ext3	  ? v->geo.ordered ? "ext4 without a journal" : "ext4"
		 : v->geo.ordered ? "ext2"
				  : "ext3",
		 v->geo.block_size / 1024, clusters, size, unit[u], used);
}

int volume_open(const struct volume_options *o, struct volume **out, struct error *err)
{
	struct volume *v = calloc(1, sizeof(*v));
	int fd;

	if (!v)
		return error_nomem(err, "a volume");
	v->locks = (struct locks){ -1, -1 };
	if (target_init(&v->target, o, err))
		goto fail;
	if (o->preen && o->read_only) {
		error_set(err, ERROR_USAGE,
			  "-p repairs the file system, -n and -c only read it: give one");
		goto fail;
	}
	if (lock_take(&v->locks, &v->target, err))
		goto fail;
	if (o->preen &&
	    (check(v, o, v->locks.fd, true, err) || preen_run(&v->target, o->e2fsck, err)))
		goto fail;
	fd = open_exclusive(&v->target, err);
	if (fd < 0)
		goto fail;
	if (check(v, o, fd, false, err)) {
		close(fd);
		goto fail;
	}
	superblock_geometry(&v->sb, &v->geo);
	place_find(&v->target, &v->place);
	if (open_device(v, o, fd, err) ||
	    channel_open_fs(v->dev, false, v->target.shown, &v->fs, err) ||
	    guard_groups(&v->target, v->fs, &v->geo, err))
		goto fail;
	describe(v);
	*out = v;
	return 0;
fail:
	volume_close(v);
	return -1;
}

void volume_close(struct volume *v)
{
	if (!v)
		return;
	channel_close_fs(v->fs);
	device_close(v->dev);
	lock_release(&v->locks);
	target_release(&v->target);
	free(v);
}

const char *volume_arg(const struct volume *v)
{
	return v->target.arg;
}

const char *volume_what(const struct volume *v)
{
	return v->what;
}

const struct volume_place *volume_place(const struct volume *v)
{
	return &v->place;
}

struct device *volume_device(struct volume *v)
{
	return v->dev;
}

const struct geometry *volume_geometry(const struct volume *v)
{
	return &v->geo;
}

struct struct_ext2_filsys *volume_fs(struct volume *v)
{
	return v->fs;
}

int volume_fs_on(struct volume *v, struct device *dev, struct struct_ext2_filsys **out,
		 struct error *err)
{
	return channel_open_fs(dev, true, v->target.shown, out, err);
}

uint64_t volume_mmp(const struct volume *v)
{
	return v->target.mmp_at;
}

bool volume_mmp_same(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN])
{
	return memcmp(buf, v->target.mmp, VOLUME_MMP_LEN) == 0;
}

int volume_mmp_read(const struct volume *v, uint8_t buf[VOLUME_MMP_LEN], struct error *err)
{
	return mmp_read(&v->target, v->locks.fd, v->target.mmp_at, buf, err);
}

int volume_mmp_wait(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN], struct error *err)
{
	return mmp_pause(&v->target,
			 mmp_patience((const struct mmp_struct *)buf,
				      le16toh(v->sb.raw.s_mmp_update_interval)),
			 err);
}

int volume_mmp_in_use(const struct volume *v, const uint8_t buf[VOLUME_MMP_LEN], struct error *err)
{
	return mmp_in_use(&v->target, (const struct mmp_struct *)buf, err);
}

void volume_mmp_name(const struct volume *v, char *name, size_t len)
{
	const char *slash = strrchr(v->target.path, '/');

	strncpy(name, slash ? slash + 1 : v->target.path, len);
}

int volume_refresh(struct volume *v, struct error *err)
{
	ext2_filsys fs = NULL;

	if (channel_open_fs(v->dev, false, v->target.shown, &fs, err))
		return -1;
	channel_close_fs(v->fs);
	v->fs = fs;
	return 0;
}
