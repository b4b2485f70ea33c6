/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libext2fs on top of a struct device: an io_manager, its only door to the disk.
 *
 * An io_manager's open() is given a name and nothing else, and a file-scope variable would be a
 * global: so the device's address is passed as the name ("%p"), made and read in this file alone.
 *
 * Writes are passed on only for handles opened as writable, and those are opened on overlays
 * alone. libext2fs never flushes anything durable through here.
 */
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IO                                                                                     \
	(1u << 30) /* bytes of one request; libext2fs reads all group descriptors at once          \
		    */

struct channel {
	struct device *dev;
	bool writable;
};

/* Counts are blocks, or bytes when negative. 0, or errno. */
static errcode_t span(io_channel io, unsigned long long block, int count, uint64_t *offset,
		      size_t *len)
{
	uint64_t bytes = count < 0 ? (uint64_t) - (int64_t)count
				   : (uint64_t)count * (unsigned)io->block_size;
	if (bytes > MAX_IO)
		return EINVAL;
	if (block > INT64_MAX / (unsigned)io->block_size)
		return EXT2_ET_BAD_BLOCK_NUM;
	*offset = block * (unsigned)io->block_size;
	*len = (size_t)bytes;
	return 0;
}

static struct channel *channel_of(io_channel io)
{
	return io->private_data;
}

static errcode_t to_code(const struct error *err)
{
	return err->sys ? err->sys : EIO;
}

static errcode_t channel_read64(io_channel io, unsigned long long block, int count, void *data)
{
	struct error err = ERROR_INIT;
	uint64_t offset;
	size_t len;
	errcode_t code = span(io, block, count, &offset, &len);
	uint64_t size = channel_of(io)->dev->size;

	if (code || !len)
		return code;
	/* The device is as long as the file system: the disk holds a wrong number. */
	if (len > size || offset > size - len)
		return EXT2_ET_BAD_BLOCK_NUM;
	return device_read(channel_of(io)->dev, data, offset, len, &err) ? to_code(&err) : 0;
}

static errcode_t channel_write64(io_channel io, unsigned long long block, int count,
				 const void *data)
{
	struct error err = ERROR_INIT;
	uint64_t offset;
	size_t len;
	errcode_t code = span(io, block, count, &offset, &len);

	if (!channel_of(io)->writable)
		return EROFS;
	if (code || !len)
		return code;
	return device_write(channel_of(io)->dev, data, offset, len, &err) ? to_code(&err) : 0;
}

static errcode_t channel_read(io_channel io, unsigned long block, int count, void *data)
{
	return channel_read64(io, block, count, data);
}

static errcode_t channel_write(io_channel io, unsigned long block, int count, const void *data)
{
	return channel_write64(io, block, count, data);
}

static errcode_t channel_write_byte(io_channel io, unsigned long offset, int count,
				    const void *data)
{
	struct error err = ERROR_INIT;

	if (!channel_of(io)->writable)
		return EROFS;
	if (count < 0)
		return EINVAL;
	return device_write(channel_of(io)->dev, data, offset, (size_t)count, &err) ? to_code(&err)
										    : 0;
}

static errcode_t channel_set_blksize(io_channel io, int size)
{
	if (size < 1024 || size > 65536)
		return EINVAL;
	io->block_size = size;
	return 0;
}

/* What is durable is decided in commit, on the real device. */
static errcode_t channel_flush(io_channel io)
{
	(void)io;
	return 0;
}

static errcode_t channel_set_option(io_channel io, const char *option, const char *arg)
{
	(void)io;
	(void)option;
	(void)arg;
	return EXT2_ET_INVALID_ARGUMENT;
}

static errcode_t channel_no_range(io_channel io, unsigned long long block, unsigned long long count)
{
	(void)io;
	(void)block;
	(void)count;
	return EXT2_ET_UNIMPLEMENTED; /* libext2fs then writes zeros block by block */
}

static errcode_t channel_close(io_channel io)
{
	if (--io->refcount > 0)
		return 0;
	free(io->private_data);
	free(io->name);
	free(io);
	return 0;
}

static errcode_t channel_open(const char *name, int flags, io_channel *out);

static const struct struct_io_manager channel_manager = {
	.magic = EXT2_ET_MAGIC_IO_MANAGER,
	.name = "device",
	.open = channel_open,
	.close = channel_close,
	.set_blksize = channel_set_blksize,
	.read_blk = channel_read,
	.write_blk = channel_write,
	.read_blk64 = channel_read64,
	.write_blk64 = channel_write64,
	.flush = channel_flush,
	.write_byte = channel_write_byte,
	.set_option = channel_set_option,
	.discard = channel_no_range,
	.zeroout = channel_no_range,
};

static errcode_t channel_open(const char *name, int flags, io_channel *out)
{
	void *dev;

	if (sscanf(name, "%p", &dev) != 1)
		return EINVAL;
	io_channel io = calloc(1, sizeof(*io));
	struct channel *ch = calloc(1, sizeof(*ch));
	char *copy = strdup(name);
	if (!io || !ch || !copy) {
		free(io);
		free(ch);
		free(copy);
		return ENOMEM;
	}
	ch->dev = dev;
	ch->writable = flags & IO_FLAG_RW;
	io->magic = EXT2_ET_MAGIC_IO_CHANNEL;
	io->manager = (io_manager)&channel_manager; /* never written to */
	io->name = copy;
	io->block_size = 1024;
	io->refcount = 1;
	io->private_data = ch;
	*out = io;
	return 0;
}

enum error_kind volume_error_kind(long code)
{
	bool ours = (code > 0 && code < 4096) || code == EXT2_ET_SHORT_READ ||
		    code == EXT2_ET_NO_MEMORY;

	return ours ? ERROR_OPERATION : ERROR_FSCK;
}

int channel_open_fs(struct device *dev, bool writable, const char *shown, ext2_filsys *out,
		    struct error *err)
{
	/* The MMP block is ours to look after. */
	int flags = EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP | (writable ? EXT2_FLAG_RW : 0);
	ext2_filsys fs = NULL;
	char name[32];

	initialize_ext2_error_table();
	snprintf(name, sizeof(name), "%p", (void *)dev);
	/* "": with NULL a '?' in the name would start options */
	errcode_t code = ext2fs_open2(name, "", flags, 0, 0, (io_manager)&channel_manager, &fs);
	if (code)
		return error_set(err, volume_error_kind(code),
				 "%s: cannot open the file system: %s", shown, error_message(code));
	fs->default_bitmap_type = EXT2FS_BMAP64_RBTREE;
	*out = fs;
	return 0;
}

void channel_close_fs(ext2_filsys fs)
{
	if (!fs)
		return;
	fs->flags &= ~EXT2_FLAG_DIRTY;
	ext2fs_free(fs);
}
