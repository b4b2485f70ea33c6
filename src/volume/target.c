/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the user named: DEVICE, IMAGE, or either with ?offset=N as e2fsprogs' tools take it. */
#include "internal.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char offset_word[] = "?offset=";

/* Cuts a trailing ?offset=N off tg->path. N as e2fsprogs' unix_io reads it: strtoull, any base. */
static int split_offset(struct target *tg, struct error *err)
{
	char *at = NULL, *end;

	for (char *p = tg->path; (p = strstr(p, offset_word)); p++)
		at = p;
	if (!at)
		return 0;
	char *digits = at + strlen(offset_word);
	errno = 0;
	unsigned long long n = strtoull(digits, &end, 0);
	if (!isdigit((unsigned char)*digits) || *end || errno || n > INT64_MAX)
		return error_set(err, ERROR_USAGE,
				 "%s: the offset must be a number of bytes, as in "
				 "'IMAGE?offset=1048576'",
				 tg->shown);
	*at = '\0';
	tg->base = n;
	tg->has_offset = true;
	return 0;
}

/* tg->arg for messages; the offset only where there is one. */
static int make_arg(struct target *tg, struct error *err)
{
	char *whole = NULL;
	int n = tg->base || tg->has_offset ? asprintf(&whole, "%s%s%llu", tg->path, offset_word,
						      (unsigned long long)tg->base)
					   : asprintf(&whole, "%s", tg->path);
	if (n < 0)
		return error_nomem(err, "a name");
	char *arg = text_quote(whole);
	free(whole);
	if (!arg)
		return error_nomem(err, "a name");
	free(tg->arg);
	tg->arg = arg;
	return 0;
}

static int make_shown(struct target *tg, struct error *err)
{
	size_t size = strlen(tg->path) * 4 + 8;
	free(tg->shown);
	if (size > TEXT_NAME + 64)
		size = TEXT_NAME + 64; /* room for the rest of the message */
	tg->shown = malloc(size);
	if (!tg->shown)
		return error_nomem(err, "a name");
	text_escape(tg->path, strlen(tg->path), tg->shown, size);
	return 0;
}

static int check_kind(struct target *tg, struct error *err)
{
	mode_t mode = tg->st.st_mode;

	if (S_ISDIR(mode))
		return error_set(err, ERROR_USAGE,
				 "%s is a directory: give the device or image that holds the file "
				 "system (findmnt -T %s names it)",
				 tg->shown, tg->arg);
	if (!S_ISBLK(mode) && !S_ISREG(mode))
		return error_set(err, ERROR_USAGE, "%s is %s, not a block device or an image file",
				 tg->shown,
				 S_ISCHR(mode)	  ? "a character device"
				 : S_ISFIFO(mode) ? "a pipe"
						  : "a socket");
	tg->is_device = S_ISBLK(mode);
	if (!tg->is_device && tg->st.st_size == 0)
		return error_set(err, ERROR_USAGE, "%s is an empty file, not an ext4 image",
				 tg->shown);
	return 0;
}

int target_init(struct target *tg, const struct volume_options *o, struct error *err)
{
	tg->sys_root = o->sys_root ? o->sys_root : "/sys";
	tg->pause = o->pause;
	tg->pause_ctx = o->pause_ctx;
	tg->cancel = o->cancel;
	tg->cancel_ctx = o->cancel_ctx;
	tg->proc_root = o->proc_root ? o->proc_root : "/proc";
	tg->read_only = o->read_only;
	tg->command = o->command;
	tg->n_command = o->n_command;
	tg->name = strdup(o->path);
	tg->path = strdup(o->path);
	if (!tg->name || !tg->path)
		return error_nomem(err, "a name");
	if (make_shown(tg, err) || split_offset(tg, err) || make_shown(tg, err) ||
	    make_arg(tg, err))
		return -1;
	if (tg->has_offset && o->partition)
		return error_set(err, ERROR_USAGE,
				 "%s: give either ?offset=N or --partition N, not both", tg->shown);
	if (stat(tg->path, &tg->st) < 0)
		return error_sys(err, errno == EACCES ? ERROR_OPERATION : ERROR_USAGE, errno,
				 "cannot find %s",
				 *tg->shown ? tg->shown : "a device or image with an empty name");
	return check_kind(tg, err);
}

void target_release(struct target *tg)
{
	free(tg->name);
	free(tg->path);
	free(tg->shown);
	free(tg->arg);
	*tg = (struct target){ 0 };
}

int target_measure(struct target *tg, int fd, struct error *err)
{
	struct stat st;
	uint64_t size = 0;
	int frozen = 0;

	if (fstat(fd, &st) < 0 || (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &size) < 0))
		return error_sys(err, ERROR_OPERATION, errno, "cannot tell the size of %s",
				 tg->shown);
	bool same = tg->is_device ? S_ISBLK(st.st_mode) && st.st_rdev == tg->st.st_rdev
				  : st.st_dev == tg->st.st_dev && st.st_ino == tg->st.st_ino;
	if (!same)
		return error_set(err, ERROR_OPERATION,
				 "%s became another file while it was being opened; start again",
				 tg->shown);
	/* Root may open a read-only device for writing; the writes fail. */
	if (tg->is_device && !tg->read_only && !ioctl(fd, BLKROGET, &frozen) && frozen)
		return target_open_error(tg, EROFS, err);
	tg->size = S_ISBLK(st.st_mode) ? size : (uint64_t)st.st_size;
	if (tg->base >= tg->size)
		return error_set(
			err, ERROR_USAGE, "%s: offset %llu lies behind the end (it has %llu bytes)",
			tg->shown, (unsigned long long)tg->base, (unsigned long long)tg->size);
	if (!tg->room || tg->room > tg->size - tg->base)
		tg->room = tg->size - tg->base;
	return 0;
}

int target_set_base(struct target *tg, uint64_t base, uint64_t room, struct error *err)
{
	if (base >= tg->size)
		return error_set(err, ERROR_USAGE,
				 "%s: the partition starts behind the end (it has %llu bytes)",
				 tg->shown, (unsigned long long)tg->size);
	tg->base = base;
	tg->room = room < tg->size - base ? room : tg->size - base;
	return make_arg(tg, err);
}

ssize_t target_read(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}
