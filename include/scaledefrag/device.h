/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * device: the only door to the disk.
 *
 * A device is a small table of functions, so that a fault injector, a recorder or a model of a slow
 * disk can stand in front of the real one (tests/support). Units: bytes, always; offsets are
 * relative to the start of the file system (a partition's or ?offset= start is added inside).
 *
 *   device_open_file()                      the real one: file or block device
 *   device_read(), _write(), _flush()       synchronous, any alignment of the buffer
 *   device_queue_open() ... submit, wait    asynchronous, many requests in flight
 *   device_discard()                        tells that the content of a range is no longer needed
 *   device_close()
 *
 * Alignment: `align` is what asynchronous requests must keep to (offset, length and address of the
 * buffer are multiples of it); 1 when the device is buffered. The synchronous calls bounce
 * unaligned buffers themselves. A synchronous *write* whose offset or length breaks `align` is
 * refused (EINVAL): nothing here ever reads, modifies and writes back somebody else's sectors.
 *
 * Durability: a write is durable only when a flush that was issued after its completion has
 * returned 0. A failed flush is never repeated (invariant I12): after it every further write and
 * flush of this device fails. After a discard the content of the range is undefined (old, zeroes or
 * anything else, flushed or not) until it is written again.
 *
 * Thread rule: read, write, flush and the counters may be used by any thread at once; a queue
 * belongs to the thread that opened it.
 */
#ifndef SCALEDEFRAG_DEVICE_H
#define SCALEDEFRAG_DEVICE_H

#include "scaledefrag/error.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum device_op { DEVICE_READ, DEVICE_WRITE };

/* One asynchronous request. The caller owns it and its buffer until wait hands it back. */
struct device_request {
	enum device_op op;
	uint64_t offset; /* bytes */
	size_t len;	 /* bytes, > 0 */
	void *buf;
	void *owner; /* the caller's, untouched */
	int result;  /* set on completion: 0, or a positive errno; short transfers are completed
			inside */
	size_t done; /* used inside: bytes transferred so far */
};

struct device;
struct device_queue;

struct device_ops {
	/* 0 or a positive errno; all of `len` bytes or an error */
	int (*read)(struct device *dev, void *buf, uint64_t offset, size_t len);
	int (*write)(struct device *dev, const void *buf, uint64_t offset, size_t len);
	int (*flush)(struct device *dev);
	int (*queue_open)(struct device *dev, unsigned depth, struct device_queue **out);
	/* Optional, see device_reserve. 0 or a positive errno. */
	int (*reserve)(struct device *dev, uint64_t offset, uint64_t len);
	/* Optional, see device_discard. 0 or a positive errno. */
	int (*discard)(struct device *dev, uint64_t offset, uint64_t len);
	/* Optional, see device_cold. */
	void (*cold)(struct device *dev, bool on);
	/* Optional, see device_grown. */
	bool (*grown)(struct device *dev, uint64_t *bytes);
	void (*close)(struct device *dev);
};

struct device_queue_ops {
	/* Takes all n requests (n <= room) or none; 0 or a positive errno. */
	int (*submit)(struct device_queue *q, struct device_request **reqs, size_t n);
	/* Blocks until at least `min` (1..in flight) are complete; fills up to max; *n set. */
	int (*wait)(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		    size_t *n);
	void (*close)(struct device_queue *q); /* waits for all in flight, drops them */
};

struct device_counters {
	atomic_uint_fast64_t reads, read_bytes, writes, write_bytes, flushes; /* requests, bytes */
	atomic_uint_fast64_t discards, discard_bytes;
};

/* Implementations embed this first. */
struct device {
	const struct device_ops *ops;
	uint64_t size;	 /* bytes from the start of the file system to the end of file or device */
	uint32_t align;	 /* bytes, a power of two; see above */
	uint32_t sector; /* bytes, logical sector (512 for a file): what the device writes
			    atomically */
	bool direct;	 /* O_DIRECT is in use */
	bool fuse;	 /* lies on FUSE: moves must be read back and compared */
	bool read_only;
	bool sparse;	  /* an image file that had holes when it was opened */
	atomic_bool dead; /* a flush, or a write that a commit rests on, failed: see durability */
	struct device_counters count;
};

struct device_queue {
	const struct device_queue_ops *ops;
	struct device *dev;
	unsigned depth;
	size_t in_flight;
};

/*
 * Takes over `fd` (open read-only or read-write, already locked by the caller; closed by
 * device_close). `base` is the byte offset of the file system in it, `size` the bytes from there to
 * use (0: up to the end). `block_size` (bytes) is what requests will be multiples of: direct I/O is
 * chosen only when the file's direct I/O alignment (statx STATX_DIOALIGN, else BLKSSZGET, else
 * 4096) divides both `base` and `block_size`; else everything is buffered. On failure `fd` stays
 * the caller's.
 */
int device_open_file(int fd, uint64_t base, uint64_t size, uint32_t block_size, bool read_only,
		     struct device **out, struct error *err);
void device_close(struct device *dev); /* NULL is fine */

/* Wrappers that count and check (bounds, read_only, dead). 0, or -1 with "cannot read N bytes at
 * byte X (512-byte sector Y)" and kind ERROR_OPERATION; err->sys holds the errno. */
int device_read(struct device *dev, void *buf, uint64_t offset, size_t len, struct error *err);
int device_write(struct device *dev, const void *buf, uint64_t offset, size_t len,
		 struct error *err);
int device_flush(struct device *dev, struct error *err);

/*
 * Makes sure that a later write to [offset, offset + len) can't fail for want of room below a
 * sparse image: holes are allocated, contents stay. Does nothing where that can't be told or isn't
 * needed.
 */
int device_reserve(struct device *dev, uint64_t offset, uint64_t len, struct error *err);
/*
 * Gives the range back: BLKDISCARD, or a hole in an image file. The caller keeps to whole sectors
 * of a device, and to whole blocks of the file system that holds an image (less would be zeroed,
 * not given back). Where that can't be done at all: -1, err->sys EOPNOTSUPP.
 */
int device_discard(struct device *dev, uint64_t offset, uint64_t len, struct error *err);

/*
 * From here on (`on`), or no longer: reads find nothing in the page cache that has been flushed,
 * and nothing is read ahead. With direct I/O that is so anyway.
 */
void device_cold(struct device *dev, bool on);

/* Bytes that the image takes on its host beyond what it took when it was opened. false: unknown. */
bool device_grown(struct device *dev, uint64_t *bytes);

/* The queue may be shorter than asked (q->depth >= 1) when the kernel has no more to give. */
int device_queue_open(struct device *dev, unsigned depth, struct device_queue **out,
		      struct error *err);
/* Fails only before anything is in flight. A request that the device refuses (EIO, ENOSPC) comes
 * back from wait with its result set. */
int device_queue_submit(struct device_queue *q, struct device_request **reqs, size_t n,
			struct error *err);
int device_queue_wait(struct device_queue *q, size_t min, size_t max, struct device_request **done,
		      size_t *n, struct error *err);
size_t device_queue_room(const struct device_queue *q); /* requests that fit now */
void device_queue_close(struct device_queue *q);	/* NULL is fine */

/*
 * Runs a whole list of independent requests through a queue of `depth` (one by one when that is
 * 1, or a device has no queue); stops at the first failed one (err set; kind ERROR_OPERATION) after
 * all in flight have come back. Used for metadata.
 */
int device_run(struct device *dev, unsigned depth, struct device_request *reqs, size_t n,
	       struct error *err);

/* Buffer of `len` bytes aligned for any device (4096 bytes); free() it. NULL: no memory. */
void *device_buffer(size_t len);

#endif
