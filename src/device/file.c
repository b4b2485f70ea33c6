/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The real device: an image file or a block device, through one file descriptor, either wholly
 * O_DIRECT or wholly buffered (mixed use of one file can write stale neighbours back).
 */
#include "file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define FUSE_MAGIC     0x65735546
#define FALLBACK_ALIGN 4096		 /* when nobody says what direct I/O needs */
#define MAX_ALIGN      4096		 /* what device_buffer() gives */
#define BOUNCE	       ((size_t)1 << 20) /* bytes of an aligned buffer that stands in */
#define AGAIN_TRIES    1000

static uint64_t round_down(uint64_t n, uint32_t align)
{
	return n & ~((uint64_t)align - 1);
}

/* May the call be repeated? Counts the tries, so that EAGAIN for ever ends. */
static bool again(int sys, int *tries)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	if (sys == EINTR)
		return true;
	if (sys != EAGAIN || ++*tries > AGAIN_TRIES)
		return false;
	nanosleep(&ms, NULL);
	return true;
}

/*
 * Transfers `len` bytes, but is content with `need` of them (a direct read is widened and may meet
 * the end of the file). After a short transfer it goes on from the last aligned byte.
 */
static int transfer(struct file_device *f, enum device_op op, void *buf, uint64_t offset,
		    size_t len, size_t need)
{
	size_t done = 0, reached = 0;
	int tries = 0;

	while (reached < need) {
		char *at = (char *)buf + done;
		off_t pos = (off_t)(f->base + offset + done);
		ssize_t r = op == DEVICE_WRITE ? pwrite(f->fd, at, len - done, pos)
					       : pread(f->fd, at, len - done, pos);

		if (r < 0 && again(errno, &tries))
			continue;
		if (r < 0)
			return errno;
		if (done + (size_t)r <= reached)
			return EIO; /* no progress: the file ends early */
		reached = done + (size_t)r;
		done = (size_t)round_down(reached, f->dev.align);
	}
	return 0;
}

static bool aligned(const struct file_device *f, const void *buf, uint64_t offset, size_t len)
{
	return ((offset | len | (uintptr_t)buf) & (f->dev.align - 1)) == 0;
}

static int file_read(struct device *dev, void *buf, uint64_t offset, size_t len)
{
	struct file_device *f = file_of(dev);
	char *bounce, *to = buf;
	int sys = 0;

	if (aligned(f, buf, offset, len))
		return transfer(f, DEVICE_READ, buf, offset, len, len);
	bounce = device_buffer(len < BOUNCE / 2 ? len + 2 * MAX_ALIGN : BOUNCE);
	if (!bounce)
		return ENOMEM;
	while (len && !sys) {
		uint64_t from = round_down(offset, dev->align);
		size_t lead = (size_t)(offset - from);
		size_t part = len < BOUNCE - lead ? len : BOUNCE - lead;
		size_t wide = (size_t)round_down(lead + part + dev->align - 1, dev->align);

		sys = transfer(f, DEVICE_READ, bounce, from, wide, lead + part);
		if (!sys)
			memcpy(to, bounce + lead, part);
		to += part;
		offset += part;
		len -= part;
	}
	free(bounce);
	return sys;
}

static int file_write(struct device *dev, const void *buf, uint64_t offset, size_t len)
{
	struct file_device *f = file_of(dev);
	const char *from = buf;
	char *bounce;
	int sys = 0;

	if (!aligned(f, NULL, offset, len))
		return EINVAL;
	if (aligned(f, buf, offset, len))
		return transfer(f, DEVICE_WRITE, (void *)(uintptr_t)buf, offset, len, len);
	bounce = device_buffer(len < BOUNCE ? len : BOUNCE);
	if (!bounce)
		return ENOMEM;
	while (len && !sys) {
		size_t part = len < BOUNCE ? len : BOUNCE;

		memcpy(bounce, from, part);
		sys = transfer(f, DEVICE_WRITE, bounce, offset, part, part);
		from += part;
		offset += part;
		len -= part;
	}
	free(bounce);
	return sys;
}

static int file_flush(struct device *dev)
{
	struct file_device *f = file_of(dev);
	int sys = EIO;

	/* One at a time: of two at once, only one is told of a lost write. */
	pthread_mutex_lock(&f->lock);
	if (!f->flush_failed) {
		sys = fdatasync(f->fd) ? errno : 0; /* not repeated for EINTR either */
		f->flush_failed = sys != 0;
	}
	pthread_mutex_unlock(&f->lock);
	return sys;
}

static int file_reserve(struct device *dev, uint64_t offset, uint64_t len)
{
	struct file_device *f = file_of(dev);
	int sys;

	if (!dev->sparse)
		return 0;
	do {
		sys = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)(f->base + offset), (off_t)len)
			      ? errno
			      : 0;
	} while (sys == EINTR);
	/* What can't be had in advance shows when it is written. */
	return sys == ENOSPC || sys == EDQUOT ? sys : 0;
}

static int file_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	struct file_device *f = file_of(dev);
	uint64_t range[2] = { f->base + offset, len };
	int sys, tries = 0;

	do {
		if (f->block_device)
			sys = ioctl(f->fd, BLKDISCARD, range) ? errno : 0;
		else
			sys = fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)range[0], (off_t)len)
				      ? errno
				      : 0;
	} while (sys && again(sys, &tries));
	/* Devices and file systems have more than one way to say that they know no such thing. */
	return sys == ENOSYS || sys == ENOTTY ? EOPNOTSUPP : sys;
}

/* A courtesy of the kernel: failing is fine. */
static void file_cold(struct device *dev, bool on)
{
	struct file_device *f = file_of(dev);
	off_t from = (off_t)f->base, len = (off_t)dev->size;

	if (dev->direct)
		return;
	posix_fadvise(f->fd, from, len, on ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
	if (on)
		posix_fadvise(f->fd, from, len, POSIX_FADV_DONTNEED);
}

static bool file_grown(struct device *dev, uint64_t *bytes)
{
	struct file_device *f = file_of(dev);
	struct stat st;

	if (f->block_device || fstat(f->fd, &st))
		return false;
	*bytes = st.st_blocks > f->allocated ? (uint64_t)(st.st_blocks - f->allocated) * 512 : 0;
	return true;
}

static void file_close(struct device *dev)
{
	struct file_device *f = file_of(dev);

	aio_free_idle(f);
	close(f->fd);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static const struct device_ops file_ops = {
	.read = file_read,
	.write = file_write,
	.flush = file_flush,
	.queue_open = aio_queue_open,
	.reserve = file_reserve,
	.discard = file_discard,
	.cold = file_cold,
	.grown = file_grown,
	.close = file_close,
};

static int find_size(struct file_device *f, const struct stat *st, uint64_t size, struct error *err)
{
	uint64_t total = (uint64_t)st->st_size;

	if (S_ISBLK(st->st_mode)) {
		if (ioctl(f->fd, BLKGETSIZE64, &total))
			return error_sys(err, ERROR_OPERATION, errno,
					 "cannot get the size of the block device");
	} else if (!S_ISREG(st->st_mode)) {
		return error_set(err, ERROR_USAGE, "neither a block device nor a regular file");
	}
	if (total > INT64_MAX)
		return error_set(err, ERROR_USAGE, "the device is larger than 8 EiB");
	if (f->base >= total || size > total - f->base)
		return error_set(err, ERROR_USAGE,
				 "cannot use %" PRIu64 " bytes from byte %" PRIu64
				 " on: the device or image ends at byte %" PRIu64 " (truncated?)",
				 size ? size : 1, f->base, total);
	f->dev.size = size ? size : total - f->base;
	return 0;
}

/* Alignment that direct I/O needs, for memory, offset and length; 0: no direct I/O at all. */
static uint32_t direct_align(int fd, bool block_device)
{
	int sector;

#ifdef STATX_DIOALIGN
	struct statx stx;

	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    (stx.stx_mask & STATX_DIOALIGN)) {
		uint32_t mem = stx.stx_dio_mem_align, offset = stx.stx_dio_offset_align;

		if (!mem || !offset)
			return 0;
		return mem > offset ? mem : offset;
	}
#endif
	if (block_device && !ioctl(fd, BLKSSZGET, &sector) && sector > 0)
		return (uint32_t)sector;
	return FALLBACK_ALIGN;
}

static int set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Some file systems take the flag and then refuse the I/O: one read tells. */
static bool direct_read_works(struct file_device *f)
{
	void *buf = device_buffer(f->dev.align);
	ssize_t r = -1;

	if (buf) {
		do {
			r = pread(f->fd, buf, f->dev.align, (off_t)f->base);
		} while (r < 0 && errno == EINTR);
		/* A bad sector says nothing about alignment. */
		if (r < 0 && errno == EIO)
			r = 0;
	}
	free(buf);
	return r >= 0;
}

static int choose_access(struct file_device *f, uint32_t block_size, struct error *err)
{
	uint32_t align = direct_align(f->fd, f->block_device);
	bool fits = align && align <= MAX_ALIGN && !(align & (align - 1)) && f->base % align == 0 &&
		    block_size % align == 0;

	if (fits && !set_direct(f->fd, true)) {
		f->dev.align = align;
		f->dev.direct = direct_read_works(f);
	}
	if (f->dev.direct)
		return 0;
	f->dev.align = 1;
	if (set_direct(f->fd, false))
		return error_sys(err, ERROR_OPERATION, errno, "cannot turn direct I/O off");
	return 0;
}

int device_open_file(int fd, uint64_t base, uint64_t size, uint32_t block_size, bool read_only,
		     struct device **out, struct error *err)
{
	struct file_device *f = calloc(1, sizeof(*f));
	struct statfs sfs;
	struct stat st;
	int sector;

	if (!f)
		return error_nomem(err, "opening the device");
	pthread_mutex_init(&f->lock, NULL);
	f->fd = fd;
	f->base = base;
	f->dev.ops = &file_ops;
	f->dev.read_only = read_only;
	f->dev.sector = 512;
	if (fstat(fd, &st)) {
		error_sys(err, ERROR_OPERATION, errno, "cannot examine the device");
		goto fail;
	}
	if (find_size(f, &st, size, err))
		goto fail;
	f->block_device = S_ISBLK(st.st_mode);
	f->allocated = st.st_blocks;
	f->dev.sparse = S_ISREG(st.st_mode) && !read_only &&
			(uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size;
	if (f->block_device && !ioctl(fd, BLKSSZGET, &sector) && sector > 0)
		f->dev.sector = (uint32_t)sector;
	/* A block device's node may lie anywhere: only a file's file system matters. */
	f->dev.fuse =
		S_ISREG(st.st_mode) && !fstatfs(fd, &sfs) && (uint64_t)sfs.f_type == FUSE_MAGIC;
	if (choose_access(f, block_size, err))
		goto fail;
	*out = &f->dev;
	return 0;
fail:
	pthread_mutex_destroy(&f->lock);
	free(f);
	return -1;
}
