/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/digest.h"
#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct walk {
	ext2_filsys fs;
	const uint8_t *image; /* the whole image, mapped */
	uint64_t size;
	uint32_t bs;
	char *why;
	size_t n_why;
	/* of the inode at hand */
	ext2_ino_t ino;
	XXH3_state_t *map, *data;
	bool hash_data;
	struct {
		uint64_t lblk, len;
		bool unwritten;
	} piece; /* not hashed yet */
};

static int fail(struct walk *w, const char *what, errcode_t rc)
{
	snprintf(w->why, w->n_why, "digest: inode %u: %s: %s", w->ino, what,
		 rc ? error_message(rc) : "out of bounds");
	return -1;
}

static void end_piece(struct walk *w)
{
	uint64_t v[3] = { w->piece.lblk, w->piece.len, w->piece.unwritten };

	if (w->piece.len)
		XXH3_128bits_update(w->map, v, sizeof(v));
	w->piece.len = 0;
}

static int add_piece(struct walk *w, uint64_t lblk, uint64_t pblk, uint64_t len, bool unwritten)
{
	if (w->piece.len && w->piece.lblk + w->piece.len == lblk &&
	    w->piece.unwritten == unwritten) {
		w->piece.len += len;
	} else {
		end_piece(w);
		w->piece.lblk = lblk;
		w->piece.len = len;
		w->piece.unwritten = unwritten;
	}
	if (unwritten || !w->hash_data)
		return 0;
	if (pblk >= w->size / w->bs || len > w->size / w->bs - pblk)
		return fail(w, "block outside the image", 0);
	XXH3_128bits_update(w->data, w->image + pblk * w->bs, (size_t)(len * w->bs));
	return 0;
}

static int walk_extents(struct walk *w, struct ext2_inode *inode)
{
	struct ext2fs_extent e;
	ext2_extent_handle_t h;
	errcode_t rc = ext2fs_extent_open2(w->fs, w->ino, inode, &h);
	int op = EXT2_EXTENT_ROOT, ret = -1;

	if (rc)
		return fail(w, "extent tree", rc);
	for (;; op = EXT2_EXTENT_NEXT) {
		rc = ext2fs_extent_get(h, op, &e);
		if (rc == EXT2_ET_EXTENT_NO_NEXT || rc == EXT2_ET_NO_CURRENT_NODE) {
			ret = 0;
			break;
		}
		if (rc) {
			fail(w, "extent tree", rc);
			break;
		}
		if (!(e.e_flags & EXT2_EXTENT_FLAGS_LEAF))
			continue;
		if (add_piece(w, e.e_lblk, e.e_pblk, e.e_len, e.e_flags & EXT2_EXTENT_FLAGS_UNINIT))
			break;
	}
	ext2fs_extent_free(h);
	return ret;
}

static int visit_block(ext2_filsys fs, blk64_t *blk, e2_blkcnt_t lblk, blk64_t ref, int off,
		       void *ctx)
{
	struct walk *w = ctx;

	(void)fs, (void)ref, (void)off;
	if (lblk < 0)
		return 0;
	return add_piece(w, (uint64_t)lblk, *blk, 1, false) ? BLOCK_ABORT : 0;
}

static int walk_blocks(struct walk *w)
{
	errcode_t rc;

	w->why[0] = 0;
	rc = ext2fs_block_iterate3(w->fs, w->ino, BLOCK_FLAG_READ_ONLY, NULL, visit_block, w);
	if (rc)
		return fail(w, "block map", rc);
	return w->why[0] ? -1 : 0;
}

/* The inode without what may change, and the content of its xattr block. */
static int hash_meta(struct walk *w, const struct ext2_inode_large *raw, size_t size, bool mapped,
		     XXH3_state_t *meta)
{
	struct ext2_inode_large copy[EXT2_MAX_BLOCK_SIZE / sizeof(struct ext2_inode_large)];
	struct ext2_inode_large *in = copy;
	uint64_t acl = ext2fs_file_acl_block(w->fs, (const struct ext2_inode *)raw);
	uint8_t block[EXT2_MAX_BLOCK_SIZE];

	if (size > sizeof(copy))
		return fail(w, "inode size", 0);
	memcpy(copy, raw, size);
	in->i_blocks = 0;
	in->osd2.linux2.l_i_blocks_hi = 0;
	in->i_file_acl = 0;
	in->osd2.linux2.l_i_file_acl_high = 0;
	in->osd2.linux2.l_i_checksum_lo = 0;
	if (size > EXT2_GOOD_OLD_INODE_SIZE && in->i_extra_isize >= 4)
		in->i_checksum_hi = 0;
	if (mapped)
		memset(in->i_block, 0, sizeof(in->i_block));
	XXH3_128bits_update(meta, copy, size);
	if (!acl)
		return 0;
	if (acl >= w->size / w->bs)
		return fail(w, "xattr block outside the image", 0);
	memcpy(block, w->image + acl * w->bs, w->bs);
	memset(block + offsetof(struct ext2_ext_attr_header, h_checksum), 0, 4);
	XXH3_128bits_update(meta, block, w->bs);
	return 0;
}

static void finish(XXH3_state_t *state, uint64_t out[2])
{
	XXH128_hash_t h = XXH3_128bits_digest(state);

	out[0] = h.high64;
	out[1] = h.low64;
}

/* What quota files say changes with the number of tree blocks. By its first bytes. */
static bool is_quota(const struct walk *w, struct ext2_inode *inode)
{
	static const uint32_t magic[] = { 0xd9c01f11, 0xd9c01927, 0xd9c03f14 };
	blk64_t pblk = 0;
	uint32_t first;

	if (!LINUX_S_ISREG(inode->i_mode) || EXT2_I_SIZE(inode) < 1024 ||
	    inode->i_flags & EXT4_INLINE_DATA_FL ||
	    ext2fs_bmap2(w->fs, w->ino, inode, NULL, 0, 0, NULL, &pblk) || !pblk ||
	    pblk >= w->size / w->bs)
		return false;
	memcpy(&first, w->image + pblk * w->bs, sizeof(first));
	return first == magic[0] || first == magic[1] || first == magic[2];
}

static int hash_inode(struct walk *w, struct ext2_inode_large *raw, size_t size, XXH3_state_t *meta,
		      struct digest_inode *out)
{
	struct ext2_inode *inode = (struct ext2_inode *)raw;
	bool extents = inode->i_flags & EXT4_EXTENTS_FL;
	bool mapped = extents || (ext2fs_inode_has_valid_blocks2(w->fs, inode) &&
				  !(inode->i_flags & EXT4_INLINE_DATA_FL));

	out->ino = w->ino;
	w->hash_data = w->ino != w->fs->super->s_journal_inum && w->ino != EXT2_RESIZE_INO &&
		       w->ino != EXT2_BAD_INO && !is_quota(w, inode);
	w->piece.len = 0;
	XXH3_128bits_reset(meta);
	XXH3_128bits_reset(w->map);
	XXH3_128bits_reset(w->data);
	if (hash_meta(w, raw, size, mapped, meta))
		return -1;
	if (mapped && (extents ? walk_extents(w, inode) : walk_blocks(w)))
		return -1;
	end_piece(w);
	finish(meta, out->meta);
	finish(w->map, out->map);
	finish(w->data, out->data);
	return 0;
}

static int walk_inodes(struct walk *w, bool list, struct digest *d)
{
	size_t size = EXT2_INODE_SIZE(w->fs->super), cap = 0;
	struct ext2_inode_large *raw = malloc(size + sizeof(*raw));
	XXH3_state_t *meta = XXH3_createState(), *all = XXH3_createState();
	ext2_inode_scan scan = NULL;
	errcode_t rc = ext2fs_open_inode_scan(w->fs, 64, &scan);
	int ret = -1;

	XXH3_128bits_reset(all);
	while (!rc) {
		struct digest_inode one;

		rc = ext2fs_get_next_inode_full(scan, &w->ino, (struct ext2_inode *)raw, (int)size);
		if (rc || !w->ino)
			break;
		if (!ext2fs_test_inode_bitmap2(w->fs->inode_map, w->ino))
			continue;
		memset(&one, 0, sizeof(one));
		if (hash_inode(w, raw, size, meta, &one))
			goto out;
		XXH3_128bits_update(all, &one, sizeof(one));
		if (!list)
			continue;
		if (d->n_inode == cap) {
			cap = cap ? 2 * cap : 256;
			d->inode = reallocarray(d->inode, cap, sizeof(one));
			if (!d->inode)
				abort();
		}
		d->inode[d->n_inode++] = one;
	}
	if (rc) {
		fail(w, "inode scan", rc);
		goto out;
	}
	finish(all, d->hash);
	ret = 0;
out:
	if (scan)
		ext2fs_close_inode_scan(scan);
	XXH3_freeState(meta);
	XXH3_freeState(all);
	free(raw);
	return ret;
}

int digest_image(const char *path, bool list, struct digest *out, char *why, size_t n_why)
{
	struct walk w = { .why = why, .n_why = n_why };
	struct digest d = { .inode = NULL };
	errcode_t rc;
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = -1;
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	void *map = end <= 0 ? MAP_FAILED : mmap(NULL, (size_t)end, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED) {
		snprintf(why, n_why, "digest: cannot map %s: %s", path, strerror(errno));
		goto out;
	}
	w.image = map;
	w.size = (uint64_t)end;
	w.map = XXH3_createState();
	w.data = XXH3_createState();
	rc = ext2fs_open2(path, "", EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &w.fs);
	if (!rc)
		rc = ext2fs_read_inode_bitmap(w.fs);
	if (rc) {
		fail(&w, "open", rc);
		goto out;
	}
	w.bs = w.fs->blocksize;
	ret = walk_inodes(&w, list, &d);
out:
	if (w.fs)
		ext2fs_free(w.fs);
	XXH3_freeState(w.map);
	XXH3_freeState(w.data);
	if (map != MAP_FAILED)
		munmap(map, (size_t)end);
	if (fd >= 0)
		close(fd);
	if (ret)
		digest_release(&d);
	else
		*out = d;
	return ret;
}

void digest_release(struct digest *d)
{
	free(d->inode);
	memset(d, 0, sizeof(*d));
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
	return !memcmp(a->hash, b->hash, sizeof(a->hash));
}

void digest_differ(const struct digest *a, const struct digest *b, char *text, size_t n_text)
{
	size_t i = 0;

	while (i < a->n_inode && i < b->n_inode &&
	       !memcmp(&a->inode[i], &b->inode[i], sizeof(*a->inode)))
		i++;
	if (i == a->n_inode && i == b->n_inode) {
		snprintf(text, n_text, "no difference");
	} else if (i == a->n_inode || i == b->n_inode || a->inode[i].ino != b->inode[i].ino) {
		snprintf(text, n_text, "the inodes in use differ (number %zu of the list)", i);
	} else {
		const struct digest_inode *x = &a->inode[i], *y = &b->inode[i];

		snprintf(text, n_text, "inode %u:%s%s%s", x->ino,
			 memcmp(x->meta, y->meta, sizeof(x->meta)) ? " inode or xattrs" : "",
			 memcmp(x->map, y->map, sizeof(x->map)) ? " logical map" : "",
			 memcmp(x->data, y->data, sizeof(x->data)) ? " data" : "");
	}
}
