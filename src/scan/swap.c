/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scan: swap files. The kernel finds one by its blocks, and a hibernated system by the number of
 * the first one (resume_offset= on its command line). So one that lies in one run is left, and so
 * is any that holds a hibernation image; another may be moved, and the report says its new number.
 *
 * Candidates are few (may_be_swap): only of those the first page is read. One that can't be read is
 * left, as files are that the mover can't read.
 */
#include "scaledefrag/indirect.h"
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

#define PAGE	  4096u
#define SWAP_MIN  (1u << 20) /* bytes */
#define SIGNATURE 10u	     /* at the end of a page */

bool may_be_swap(const struct ext2_inode *inode)
{
	uint64_t size = EXT2_I_SIZE(inode);

	/* swapon warns of one that is not root's, or that others may read; hardly any is both. */
	return LINUX_S_ISREG(inode->i_mode) && (inode_uid(*inode) == 0 || !(inode->i_mode & 077)) &&
	       size >= SWAP_MIN;
}

static bool has_holes(const struct filemap *m)
{
	uint64_t next = 0;

	for (size_t i = 0; i < m->n_ext; i++) {
		if (m->ext[i].lblk != next)
			return true;
		next += m->ext[i].len;
	}
	return false;
}

static bool is_one_of(const uint8_t *at, const char *const names[])
{
	for (; *names; names++)
		if (!memcmp(at, *names, strlen(*names)))
			return true;
	return false;
}

static enum leave_reason look(const struct source *src, const struct snapshot_file *f, uint8_t *buf)
{
	static const char *const swap[] = { "SWAPSPACE2", "SWAP-SPACE", NULL };
	static const char *const image[] = { "S1SUSPEND", "S2SUSPEND", "ULSUSPEND", "LINHIB0001",
					     NULL };
	static const uint32_t pages[] = { PAGE, 4 * PAGE, 16 * PAGE };
	uint64_t bs = geometry_cluster_size(src->geo); /* as mappings count by now */

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		uint32_t at = pages[i] - SIGNATURE;
		uint64_t number = at / bs;
		struct error ignored = ERROR_INIT;

		if (f->map.indirect && number >= INDIRECT_DIRECT)
			number++; /* the first indirect block counts as well */

		for (size_t k = 0; k < f->map.n_ext; k++) {
			const struct extent *e = &f->map.ext[k];

			if (number < e->lblk || number - e->lblk >= e->len || e->unwritten)
				continue;
			if (device_read(src->dev, buf, (e->pblk + number - e->lblk) * bs, bs,
					&ignored))
				return LEAVE_EXCLUDED;
			if (is_one_of(buf + at % bs, image))
				return LEAVE_HIBERNATED;
			/* Pages have to be aligned, and theirs may be larger than a block. */
			if (is_one_of(buf + at % bs, swap))
				return i || bs < PAGE || filemap_runs(f->map.ext, f->map.n_ext) < 2
					       ? LEAVE_SWAP
					       : LEAVE_NONE;
		}
	}
	return LEAVE_SCOPE; /* none at all */
}

static enum leave_reason decide(const void *ctx, size_t file)
{
	const uint8_t *why = ctx;

	return (enum leave_reason)why[file];
}

int swap_find(const struct source *src, struct harvest *h, struct error *err)
{
	uint8_t *why = calloc(h->n_file + 1, 1),
		*buf = device_buffer(geometry_cluster_size(src->geo));
	int ret = -1;

	if (!why || !buf) {
		error_nomem(err, "swap files");
		goto out;
	}
	for (size_t i = 0; i < h->n_file; i++) {
		struct snapshot_file *f = &h->file[i];

		if (!f->swap)
			continue;
		f->swap = false;
		if (has_holes(&f->map))
			continue;
		why[i] = (uint8_t)look(src, f, buf);
		if (why[i] == LEAVE_SCOPE)
			why[i] = LEAVE_NONE;
		else
			f->swap = true;
	}
	ret = harvest_leave(h, decide, why, err);
out:
	free(why);
	free(buf);
	return ret;
}
