/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * overlay: a device whose writes stay in memory, block by block, in front of a real one.
 *
 * commit runs libext2fs on an overlay, so that nothing it does can reach the disk: the overlay's
 * dirty blocks *are* the transaction. Many small updates merge there by block, in a hash table
 * whose entries also form lists in block order (Qian et al., Science China Inf. Sci. 2022), and
 * leave as few long sequential writes.
 *
 * overlay_device() reads through: dirty block, cached block, else the real device (and caches it).
 * Its flush does nothing; its queue is not supported. Thread rule: one thread.
 */
#ifndef SCALEDEFRAG_OVERLAY_H
#define SCALEDEFRAG_OVERLAY_H

#include "scaledefrag/device.h"

struct overlay;

/* `block_size` in bytes. The real device stays the caller's and must outlive the overlay. */
int overlay_new(struct device *real, uint32_t block_size, struct overlay **out, struct error *err);
void overlay_free(struct overlay *ov);		   /* NULL is fine */
struct device *overlay_device(struct overlay *ov); /* owned by the overlay; never device_close it */

/* Reads the blocks (sorted, unique) that are not cached yet, adjoining ones as one request, `depth`
 * in flight. A hint: blocks past the end of the device are passed over. */
int overlay_prefetch(struct overlay *ov, const uint64_t *blocks, size_t n, unsigned depth,
		     struct error *err);

size_t overlay_dirty_count(const struct overlay *ov);
uint64_t overlay_updates(const struct overlay *ov); /* writes merged since overlay_new */
/* The first dirty block >= `from`, in block order; false at the end. `data` stays the overlay's. */
bool overlay_dirty_next(const struct overlay *ov, uint64_t from, uint64_t *block,
			const void **data);
/* Makes one block clean and uncached: it was freed in this transaction (a freed
 * block must not be journaled: replay would write it over its next owner). */
void overlay_forget(struct overlay *ov, uint64_t block);
/* Drops everything, dirty or not. */
void overlay_reset(struct overlay *ov);

#endif
