/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks that keep others out, and tell us who is in: flock() on the file or device (udev's and
 * util-linux' convention; for a partition on the whole disk too), and the byte locks of qemu's
 * block/file-posix.c: shared OFD locks, byte 100+i "I use permission i", byte 200+i "nobody else
 * may"; i: 0 consistent read, 1 write, 2 write unchanged, 3 resize. libvirt uses bytes 0 and 1.
 */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define UDEV_TRIES 30 /* of 100 ms: udev holds a new device for a moment */

struct bytes {
	off_t first, count;
};

int target_open_error(const struct target *tg, int sys, struct error *err)
{
	bool write = !tg->read_only;

	if (sys == EROFS || (write && (sys == EACCES || sys == EPERM || sys == ETXTBSY)))
		return error_sys(
			err, ERROR_OPERATION, sys,
			"cannot open %s for writing (read-only media or no permission; -c and "
			"-n only read)",
			tg->shown);
	if (sys == ENOENT || sys == ENXIO || sys == ENOMEDIUM)
		return error_sys(err, sys == ENOENT ? ERROR_USAGE : ERROR_OPERATION, sys,
				 "cannot open %s", tg->shown);
	return error_sys(err, ERROR_OPERATION, sys, "cannot open %s", tg->shown);
}

/* 0, or errno. A file system that knows no flock() is no reason to stop. */
static int try_flock(int fd, bool shared, bool patient)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };

	for (int i = 0;; i++) {
		if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return 0;
		if (!patient || i >= UDEV_TRIES)
			return EWOULDBLOCK;
		nanosleep(&pause, NULL);
	}
}

/* The whole disk's node, if this is a partition and the node can be opened; else -1. */
static int open_disk(const struct target *tg)
{
	char line[64], name[128], path[160];
	unsigned major, minor, self_major = major(tg->st.st_rdev),
			       self_minor = minor(tg->st.st_rdev);
	struct stat st;

	if (!text_first_line(line, sizeof(line), "%s/dev/block/%u:%u/partition", tg->sys_root,
			     self_major, self_minor) ||
	    !text_first_line(line, sizeof(line), "%s/dev/block/%u:%u/../dev", tg->sys_root,
			     self_major, self_minor) ||
	    sscanf(line, "%u:%u", &major, &minor) != 2)
		return -1;
	snprintf(path, sizeof(path), "/dev/block/%u:%u", major, minor);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		char uevent[PATH_MAX];
		snprintf(uevent, sizeof(uevent), "%s/dev/block/%u:%u/../uevent", tg->sys_root,
			 self_major, self_minor);
		FILE *f = fopen(uevent, "re");
		bool found = false;
		while (f && !found && fgets(name, sizeof(name), f))
			found = !strncmp(name, "DEVNAME=", 8);
		if (f)
			fclose(f);
		if (!found)
			return -1;
		name[strcspn(name, "\n")] = '\0';
		snprintf(path, sizeof(path), "/dev/%s", name + 8);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0 &&
	    (fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode) || st.st_rdev != makedev(major, minor))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* 0, or errno of a conflict. Where OFD locks are not known there is nobody to meet. */
static int announce(int fd, bool read_only)
{
	static const off_t writer[] = { 100, 101, 103, 201, 203 }, reader[] = { 100, 203 };
	const off_t *at = read_only ? reader : writer;
	size_t n = read_only ? 2 : 5;

	for (size_t i = 0; i < n; i++) {
		struct flock fl = {
			.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at[i], .l_len = 1
		};
		if (fcntl(fd, F_OFD_SETLK, &fl) < 0 && (errno == EAGAIN || errno == EACCES))
			return errno;
	}
	return 0;
}

static bool is_held(int fd, short type, struct bytes b)
{
	struct flock fl = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = b.first, .l_len = b.count
	};
	return fcntl(fd, F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

static int refuse_vm(const struct target *tg, struct error *err)
{
	char who[TEXT_NAME];

	holders_process(tg, "a virtual machine or qemu tool", who, sizeof(who));
	return error_set(
		err, ERROR_OPERATION,
		"%s is in use by %s, which holds qemu's image lock; shut it down first (lslocks "
		"shows it)",
		tg->shown, who);
}

int lock_probe(const struct locks *lk, const struct target *tg, struct error *err)
{
	/* Another reader does no harm to a reader, so only writers count then. */
	static const struct bytes libvirt = { 0, 2 }, use = { 100, 4 }, deny = { 200, 4 },
				  use_write = { 101, 3 }, deny_read = { 200, 1 };
	bool held = tg->read_only
			    ? is_held(lk->fd, F_RDLCK, libvirt) ||
				      is_held(lk->fd, F_WRLCK, use_write) ||
				      is_held(lk->fd, F_WRLCK, deny_read)
			    : is_held(lk->fd, F_WRLCK, libvirt) || is_held(lk->fd, F_WRLCK, use) ||
				      is_held(lk->fd, F_WRLCK, deny);
	return held ? refuse_vm(tg, err) : 0;
}

int lock_take(struct locks *lk, struct target *tg, struct error *err)
{
	char who[TEXT_NAME];

	lk->fd = open(tg->path, (tg->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY);
	if (lk->fd < 0) {
		int sys = errno;
		if (sys == EBUSY && holders_check(tg, err))
			return -1;
		return target_open_error(tg, sys, err);
	}
	if (target_measure(tg, lk->fd, err))
		return -1;
	int sys = try_flock(lk->fd, tg->read_only, tg->is_device);
	if (!sys && tg->is_device && (lk->disk_fd = open_disk(tg)) >= 0)
		sys = try_flock(lk->disk_fd, tg->read_only, true);
	if (sys) {
		holders_process(tg, "another process", who, sizeof(who));
		return error_set(
			err, ERROR_OPERATION,
			"%s is locked (flock) by %s; wait until it ends (lslocks shows it)",
			tg->shown, who);
	}
	if (announce(lk->fd, tg->read_only))
		return refuse_vm(tg, err);
	return lock_probe(lk, tg, err);
}

void lock_release(struct locks *lk)
{
	if (lk->disk_fd >= 0)
		close(lk->disk_fd);
	if (lk->fd >= 0)
		close(lk->fd);
	lk->fd = lk->disk_fd = -1;
}
