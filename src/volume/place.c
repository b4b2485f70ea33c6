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

/* Cuts a trailing ?offset=N off pl->path. N as e2fsprogs' unix_io reads it: strtoull, any base. */
static int split_offset(struct place *pl, struct error *err)
{
	char *at = NULL, *end;

	for (char *p = pl->path; (p = strstr(p, offset_word)); p++)
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
				 pl->shown);
	*at = '\0';
	pl->base = n;
	pl->has_offset = true;
	return 0;
}

/* pl->arg for messages; the offset only where there is one. */
static int make_arg(struct place *pl, struct error *err)
{
	char *whole = NULL;
	int n = pl->base || pl->has_offset ? asprintf(&whole, "%s%s%llu", pl->path, offset_word,
						      (unsigned long long)pl->base)
					   : asprintf(&whole, "%s", pl->path);
	if (n < 0)
		return error_nomem(err, "a name");
	char *arg = text_quote(whole);
	free(whole);
	if (!arg)
		return error_nomem(err, "a name");
	free(pl->arg);
	pl->arg = arg;
	return 0;
}

static int make_shown(struct place *pl, struct error *err)
{
	size_t size = strlen(pl->path) * 4 + 8;
	free(pl->shown);
	if (size > TEXT_NAME + 64)
		size = TEXT_NAME + 64; /* room for the rest of the message */
	pl->shown = malloc(size);
	if (!pl->shown)
		return error_nomem(err, "a name");
	text_escape(pl->path, strlen(pl->path), pl->shown, size);
	return 0;
}

static int check_kind(struct place *pl, struct error *err)
{
	mode_t mode = pl->st.st_mode;

	if (S_ISDIR(mode))
		return error_set(err, ERROR_USAGE,
				 "%s is a directory: give the device or image that holds the file "
				 "system (findmnt -T %s names it)",
				 pl->shown, pl->arg);
	if (!S_ISBLK(mode) && !S_ISREG(mode))
		return error_set(err, ERROR_USAGE, "%s is %s, not a block device or an image file",
				 pl->shown,
				 S_ISCHR(mode)	  ? "a character device"
				 : S_ISFIFO(mode) ? "a pipe"
						  : "a socket");
	pl->is_device = S_ISBLK(mode);
	if (!pl->is_device && pl->st.st_size == 0)
		return error_set(err, ERROR_USAGE, "%s is an empty file, not an ext4 image",
				 pl->shown);
	return 0;
}

int place_init(struct place *pl, const struct volume_options *o, struct error *err)
{
	pl->sys_root = o->sys_root ? o->sys_root : "/sys";
	pl->proc_root = o->proc_root ? o->proc_root : "/proc";
	pl->read_only = o->read_only;
	pl->name = strdup(o->path);
	pl->path = strdup(o->path);
	if (!pl->name || !pl->path)
		return error_nomem(err, "a name");
	/* A file whose very name ends so is taken as it is only if nothing else can be meant. */
	if (make_shown(pl, err) || split_offset(pl, err) || make_shown(pl, err) ||
	    make_arg(pl, err))
		return -1;
	if (pl->has_offset && o->partition)
		return error_set(err, ERROR_USAGE,
				 "%s: give either ?offset=N or --partition N, not both", pl->shown);
	if (stat(pl->path, &pl->st) < 0)
		return error_sys(err, ERROR_USAGE, errno, "cannot find %s",
				 *pl->shown ? pl->shown : "a device or image with an empty name");
	return check_kind(pl, err);
}

void place_release(struct place *pl)
{
	free(pl->name);
	free(pl->path);
	free(pl->shown);
	free(pl->arg);
	*pl = (struct place){ 0 };
}

int place_measure(struct place *pl, int fd, struct error *err)
{
	struct stat st;
	uint64_t size = 0;

	if (fstat(fd, &st) < 0 || (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &size) < 0))
		return error_sys(err, ERROR_OPERATION, errno, "cannot tell the size of %s",
				 pl->shown);
	bool same = pl->is_device ? S_ISBLK(st.st_mode) && st.st_rdev == pl->st.st_rdev
				  : st.st_dev == pl->st.st_dev && st.st_ino == pl->st.st_ino;
	if (!same)
		return error_set(err, ERROR_OPERATION,
				 "%s became another file while it was being opened; start again",
				 pl->shown);
	pl->size = S_ISBLK(st.st_mode) ? size : (uint64_t)st.st_size;
	if (pl->base >= pl->size)
		return error_set(
			err, ERROR_USAGE, "%s: offset %llu lies behind the end (it has %llu bytes)",
			pl->shown, (unsigned long long)pl->base, (unsigned long long)pl->size);
	if (!pl->room || pl->room > pl->size - pl->base)
		pl->room = pl->size - pl->base;
	return 0;
}

int place_set_base(struct place *pl, uint64_t base, uint64_t room, struct error *err)
{
	if (base >= pl->size)
		return error_set(err, ERROR_USAGE,
				 "%s: the partition starts behind the end (it has %llu bytes)",
				 pl->shown, (unsigned long long)pl->size);
	pl->base = base;
	pl->room = room < pl->size - base ? room : pl->size - base;
	return make_arg(pl, err);
}

ssize_t place_read(int fd, void *buf, size_t len, uint64_t offset)
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
