/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who uses the device or image: mounts in every namespace, swap, LVM, MD, LUKS and other stacked
 * devices (sysfs holders), loop devices over an image, FUSE mounts of an image.
 *
 * /sys and /proc are parameters, so that all of it can be tested on fake trees.
 */
#include "internal.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct search {
	const struct target *tg;
	struct mounts mounts;
};

/* " (mounted on /x, seen by process 12)" or "" */
static void say_mount(const struct mount *m, char *out, size_t size)
{
	char where[TEXT_NAME];

	*out = '\0';
	if (!m)
		return;
	text_escape(m->where, strlen(m->where), where, sizeof(where));
	if (m->pid)
		snprintf(out, size, "mounted on %s in the mount namespace of process %ld", where,
			 m->pid);
	else
		snprintf(out, size, "mounted on %s", where);
}

static int refuse_mounted(const struct search *s, const char *what, const struct mount *m,
			  struct error *err)
{
	char said[TEXT_NAME + 64], *quoted = text_quote(m->where);

	say_mount(m, said, sizeof(said));
	if (m->pid)
		error_set(err, ERROR_OPERATION, "%s %s; run: nsenter -t %ld -m umount %.200s", what,
			  said, m->pid, quoted ? quoted : "it");
	else
		error_set(err, ERROR_OPERATION, "%s %s; run: umount %.200s", what, said,
			  quoted ? quoted : "it");
	free(quoted);
	(void)s;
	return -1;
}

/* Numbers of a sysfs device directory. */
static bool device_number(const char *dir, dev_t *out)
{
	char line[64];
	unsigned major, minor;

	if (!text_first_line(line, sizeof(line), "%s/dev", dir) ||
	    sscanf(line, "%u:%u", &major, &minor) != 2)
		return false;
	*out = makedev(major, minor);
	return true;
}

/* One entry of a holders/ directory: say what it is and how to let go. */
static int refuse_holder(const struct search *s, const char *what, const char *holders,
			 const char *entry, struct error *err)
{
	char dir[PATH_MAX], uuid[256] = "", name[128] = "", said[TEXT_NAME + 64] = "",
			    shown[TEXT_NAME];
	dev_t dev;

	snprintf(dir, sizeof(dir), "%.*s/%s", PATH_MAX - NAME_MAX - 2, holders, entry);
	if (device_number(dir, &dev))
		say_mount(mounts_find(&s->mounts, dev), said, sizeof(said));
	text_first_line(uuid, sizeof(uuid), "%s/dm/uuid", dir);
	text_first_line(name, sizeof(name), "%s/dm/name", dir);
	text_escape(*name ? name : entry, 128, shown, sizeof(shown));
	const char *kind = "the device", *cmd = "lsblk shows it";
	char run[TEXT_NAME + 64];
	snprintf(run, sizeof(run), "%s", cmd);
	if (!strncmp(uuid, "LVM-", 4)) {
		kind = "the LVM volume";
		snprintf(run, sizeof(run), "run: lvchange -an /dev/mapper/%s", shown);
	} else if (!strncmp(uuid, "CRYPT-", 6)) {
		kind = "the LUKS mapping";
		snprintf(run, sizeof(run), "run: cryptsetup close %s", shown);
	} else if (!strncmp(uuid, "mpath-", 6)) {
		kind = "the multipath device";
		snprintf(run, sizeof(run), "give /dev/mapper/%s instead", shown);
	} else if (*uuid || !strncmp(entry, "dm-", 3)) {
		kind = "the device mapper volume";
		snprintf(run, sizeof(run), "run: dmsetup remove %s", shown);
	} else if (!strncmp(entry, "md", 2)) {
		kind = "the RAID array";
		snprintf(run, sizeof(run), "run: mdadm --stop /dev/%s", shown);
	} else if (!strncmp(entry, "bcache", 6)) {
		kind = "the bcache device";
	}
	return error_set(err, ERROR_OPERATION, "%s is held by %s %s%s%s%s; %s", what, kind, shown,
			 *said ? " (" : "", said, *said ? ")" : "", run);
}

static int check_swaps(const struct search *s, const char *what, dev_t dev, struct error *err)
{
	char path[PATH_MAX], *line = NULL, *save;
	size_t size = 0;
	int r = 0;

	snprintf(path, sizeof(path), "%s/swaps", s->tg->proc_root);
	FILE *f = fopen(path, "re");
	while (!r && f && getline(&line, &size, f) > 0) {
		char *file = strtok_r(line, " \t\n", &save);
		struct stat st;
		if (!file || *file != '/')
			continue;
		text_unescape_octal(file);
		if (stat(file, &st) < 0)
			continue;
		bool same = s->tg->is_device ? S_ISBLK(st.st_mode) && st.st_rdev == dev
					     : st.st_dev == s->tg->st.st_dev &&
						       st.st_ino == s->tg->st.st_ino;
		if (same) {
			char shown[TEXT_NAME];
			text_escape(file, strlen(file), shown, sizeof(shown));
			r = error_set(err, ERROR_OPERATION,
				      "%s is in use as swap space; run: swapoff %s", what, shown);
		}
	}
	free(line);
	if (f)
		fclose(f);
	return r;
}

/* One block device, by its sysfs directory: mounted, swap, or held by a stacked device. */
static int check_device(const struct search *s, const char *what, const char *dir, dev_t dev,
			struct error *err)
{
	const struct mount *m = mounts_find(&s->mounts, dev);
	char holders[PATH_MAX];
	int r = 0;

	if (m) {
		char is[TEXT_NAME + 128];
		snprintf(is, sizeof(is), "%s is", what);
		return refuse_mounted(s, is, m, err);
	}
	if (check_swaps(s, what, dev, err))
		return -1;
	snprintf(holders, sizeof(holders), "%s/holders", dir);
	DIR *d = opendir(holders);
	struct dirent *de;
	while (!r && d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			r = refuse_holder(s, what, holders, de->d_name, err);
	if (d)
		closedir(d);
	return r;
}

typedef int (*part_fn)(const struct search *s, const char *dir, const char *name, dev_t dev,
		       struct error *err);

/* Calls fn for each partition below a disk's sysfs directory, until one returns non-zero. */
static int each_partition(const struct search *s, const char *disk, part_fn fn, struct error *err)
{
	char dir[PATH_MAX], line[32];
	struct dirent *de;
	dev_t dev;
	int r = 0;

	DIR *d = opendir(disk);
	while (!r && d && (de = readdir(d))) {
		if (de->d_name[0] == '.' ||
		    snprintf(dir, sizeof(dir), "%s/%s", disk, de->d_name) >= (int)sizeof(dir) ||
		    !text_first_line(line, sizeof(line), "%s/partition", dir) ||
		    !device_number(dir, &dev))
			continue;
		r = fn(s, dir, de->d_name, dev, err);
	}
	if (d)
		closedir(d);
	return r;
}

static int check_partition(const struct search *s, const char *dir, const char *name, dev_t dev,
			   struct error *err)
{
	char what[TEXT_NAME + 128], shown[64];

	text_escape(name, strlen(name), shown, sizeof(shown));
	snprintf(what, sizeof(what), "%s: its partition %s", s->tg->shown, shown);
	return check_device(s, what, dir, dev, err);
}

/* The device itself, its partitions if it is a disk, its disk if it is a partition. */
static int check_family(const struct search *s, struct error *err)
{
	const struct target *tg = s->tg;
	char dir[PATH_MAX], disk[PATH_MAX], line[32], what[TEXT_NAME + 128];
	dev_t dev;

	snprintf(dir, sizeof(dir), "%s/dev/block/%u:%u", tg->sys_root, major(tg->st.st_rdev),
		 minor(tg->st.st_rdev));
	if (check_device(s, tg->shown, dir, tg->st.st_rdev, err) ||
	    each_partition(s, dir, check_partition, err))
		return -1;
	if (!text_first_line(line, sizeof(line), "%s/partition", dir))
		return 0;
	snprintf(disk, sizeof(disk), "%.*s/..", PATH_MAX - 8, dir);
	if (!device_number(disk, &dev))
		return 0;
	snprintf(what, sizeof(what), "%s: its whole disk", tg->shown);
	return check_device(s, what, disk, dev, err);
}

/*
 * Is the loop device over the file `st`? sysfs gives its path, which is no proof when the file was
 * renamed, deleted, or lies in another namespace; the ioctl tells device and inode, where we may
 * ask.
 */
static bool loop_is_over(const struct target *tg, const char *name, const char *backing,
			 const struct stat *want)
{
	static const char deleted[] = " (deleted)";
	char path[PATH_MAX];
	struct loop_info64 info = { 0 };
	struct stat st;

	if (!strcmp(tg->sys_root, "/sys")) {
		snprintf(path, sizeof(path), "/dev/%s", name);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		bool known = fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0;
		if (fd >= 0)
			close(fd);
		if (known && info.lo_device == want->st_dev && info.lo_inode == want->st_ino)
			return true;
	}
	snprintf(path, sizeof(path), "%s", backing);
	size_t len = strlen(path), tail = sizeof(deleted) - 1;
	if (stat(path, &st) < 0 && len > tail && !strcmp(path + len - tail, deleted)) {
		path[len - tail] = '\0';
		if (stat(path, &st) < 0)
			return false;
		return st.st_dev == want->st_dev && st.st_ino == want->st_ino;
	}
	return stat(path, &st) == 0 && st.st_dev == want->st_dev && st.st_ino == want->st_ino;
}

static int refuse_loop_part(const struct search *s, const char *dir, const char *name, dev_t dev,
			    struct error *err)
{
	const struct mount *m = mounts_find(&s->mounts, dev);
	char what[TEXT_NAME + 128];

	(void)dir;
	if (!m)
		return 0;
	snprintf(what, sizeof(what), "%s is in use by /dev/%.40s, which is", s->tg->shown, name);
	return refuse_mounted(s, what, m, err);
}

static int refuse_loop(const struct search *s, const char *dir, const char *name, struct error *err)
{
	dev_t dev;

	if ((device_number(dir, &dev) && refuse_loop_part(s, dir, name, dev, err)) ||
	    each_partition(s, dir, refuse_loop_part, err))
		return -1;
	return error_set(
		err, ERROR_OPERATION,
		"%s is in use by /dev/%.40s (losetup); run: losetup -d /dev/%.40s, or give "
		"/dev/%.40s itself",
		s->tg->shown, name, name, name);
}

/* Loop devices over `st`, except `own`. */
static int check_loops(const struct search *s, const struct stat *st, const char *own,
		       struct error *err)
{
	char dir[PATH_MAX], backing[PATH_MAX];
	struct dirent *de;
	int r = 0;

	snprintf(dir, sizeof(dir), "%s/block", s->tg->sys_root);
	DIR *d = opendir(dir);
	while (!r && d && (de = readdir(d))) {
		if (strncmp(de->d_name, "loop", 4) || (own && !strcmp(own, de->d_name)))
			continue;
		snprintf(dir, sizeof(dir), "%s/block/%s", s->tg->sys_root, de->d_name);
		if (text_first_line(backing, sizeof(backing), "%.*s/loop/backing_file",
				    PATH_MAX - 32, dir) &&
		    loop_is_over(s->tg, de->d_name, backing, st))
			r = refuse_loop(s, dir, de->d_name, err);
	}
	if (d)
		closedir(d);
	return r;
}

/* /dev/loopN given: nobody else may sit on the same file. */
static int check_loop_siblings(const struct search *s, struct error *err)
{
	char dir[PATH_MAX], backing[PATH_MAX], real[PATH_MAX];
	struct stat st;

	snprintf(dir, sizeof(dir), "%s/dev/block/%u:%u", s->tg->sys_root, major(s->tg->st.st_rdev),
		 minor(s->tg->st.st_rdev));
	if (!text_first_line(backing, sizeof(backing), "%.*s/loop/backing_file", PATH_MAX - 32,
			     dir) ||
	    stat(backing, &st) < 0 || !realpath(dir, real))
		return 0;
	const char *own = strrchr(real, '/') + 1;
	return check_loops(s, &st, own, err);
}

/* fuse2fs and its like give the image as the source of the mount. */
static int check_fuse(const struct search *s, struct error *err)
{
	struct stat st;

	for (size_t i = 0; i < s->mounts.n; i++) {
		const struct mount *m = &s->mounts.m[i];
		if (strncmp(m->type, "fuse", 4) || *m->source != '/' || stat(m->source, &st) < 0 ||
		    st.st_dev != s->tg->st.st_dev || st.st_ino != s->tg->st.st_ino)
			continue;
		char what[TEXT_NAME + 64];
		snprintf(what, sizeof(what), "%s is", s->tg->shown);
		return refuse_mounted(s, what, m, err);
	}
	return 0;
}

/* Without /proc and /sys nobody can say who uses what, and "nobody" must not be the answer. */
static int check_sight(const struct target *tg, struct error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/self/mountinfo", tg->proc_root);
	if (access(path, R_OK))
		return error_sys(err, ERROR_OPERATION, errno,
				 "cannot see what is mounted, so %s may be in use; run: mount -t "
				 "proc proc /proc (%s)",
				 tg->shown, path);
	snprintf(path, sizeof(path), "%s/block", tg->sys_root);
	if (access(path, R_OK | X_OK))
		return error_sys(err, ERROR_OPERATION, errno,
				 "cannot see the block devices, so %s may be in use; run: mount "
				 "-t sysfs sysfs /sys (%s)",
				 tg->shown, path);
	return 0;
}

int holders_check(const struct target *tg, struct error *err)
{
	struct search s = { .tg = tg };
	int r;

	if (check_sight(tg, err) || mounts_load(tg->proc_root, &s.mounts, err))
		return -1;
	if (tg->is_device)
		r = check_family(&s, err) || check_loop_siblings(&s, err);
	else
		r = check_loops(&s, &tg->st, NULL, err) || check_swaps(&s, tg->shown, 0, err);
	r = r || check_fuse(&s, err);
	mounts_release(&s.mounts);
	return r ? -1 : 0;
}
