/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Multi-mount protection (kernel fs/ext4/mmp.c): who uses the file system, perhaps on another node
 * that reaches the same disk, writes a new number to the MMP block every few seconds. A number that
 * stays the same for long enough is what a killed program left; but only of a killed run of ours
 * the rest is known to be fine, so with others' numbers it is refused, and e2fsck or the user
 * decide. Here it is only read, past the page cache; a run that writes keeps the number alive
 * itself (commit/mmp.c).
 */
#include "internal.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Any direct I/O is aligned to it. */
#define WINDOW 4096u

static ssize_t read_direct(const struct target *tg, void *buf, uint64_t offset)
{
	uint64_t start = offset / WINDOW * WINDOW, within = offset % WINDOW;
	int fd = open(tg->path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY);
	void *window = NULL;
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	if (!posix_memalign(&window, WINDOW, 2 * WINDOW)) {
		n = pread(fd, window, 2 * WINDOW, (off_t)start);
		n = n >= (ssize_t)(within + VOLUME_MMP_LEN) ? (ssize_t)VOLUME_MMP_LEN : -1;
		if (n > 0)
			memcpy(buf, (const uint8_t *)window + within, VOLUME_MMP_LEN);
	}
	free(window);
	close(fd);
	return n;
}

int mmp_read(const struct target *tg, int fd, uint64_t at, uint8_t *buf, struct error *err)
{
	uint64_t offset = tg->base + at;

	if (read_direct(tg, buf, offset) == VOLUME_MMP_LEN)
		return 0;
	posix_fadvise(fd, (off_t)offset, VOLUME_MMP_LEN, POSIX_FADV_DONTNEED);
	errno = EIO; /* of a short read */
	if (target_read(fd, buf, VOLUME_MMP_LEN, offset) != VOLUME_MMP_LEN)
		return error_sys(err, ERROR_OPERATION, errno, "%s: cannot read the MMP block",
				 tg->shown);
	return 0;
}

static bool is_cancelled(const struct target *tg)
{
	return tg->cancel && tg->cancel(tg->cancel_ctx);
}

int mmp_pause(const struct target *tg, unsigned seconds, struct error *err)
{
	bool cancelled = false;

	if (tg->pause) {
		tg->pause(tg->pause_ctx, seconds);
		cancelled = is_cancelled(tg);
	}
	for (; !tg->pause && seconds && !cancelled; seconds--) {
		struct timespec t = { .tv_sec = 1 };

		/* A signal may mean something else: progress is to be shown, a child ended. */
		do {
			cancelled = is_cancelled(tg);
		} while (!cancelled && nanosleep(&t, &t) && errno == EINTR);
	}
	if (cancelled)
		return error_set(err, ERROR_STOPPED,
				 "%s: stopped while waiting to see whether another node uses it; "
				 "no file was changed",
				 tg->shown);
	return 0;
}

unsigned mmp_patience(const struct mmp_struct *mmp, unsigned update_interval)
{
	unsigned interval = update_interval, block = le16toh(mmp->mmp_check_interval);

	if (interval < EXT4_MMP_MIN_CHECK_INTERVAL)
		interval = EXT4_MMP_MIN_CHECK_INTERVAL;
	if (interval < block)
		interval = block;
	return interval < 60 ? 2 * interval + 1 : interval + 60;
}

int mmp_in_use(const struct target *tg, const struct mmp_struct *mmp, struct error *err)
{
	char node[TEXT_NAME], dev[TEXT_NAME];

	text_escape((const char *)mmp->mmp_nodename, sizeof(mmp->mmp_nodename), node, sizeof(node));
	text_escape((const char *)mmp->mmp_bdevname, sizeof(mmp->mmp_bdevname), dev, sizeof(dev));
	return error_set(err, ERROR_OPERATION,
			 "%s: in use by node '%.128s' (device '%.64s')%s, says its MMP block; if "
			 "that is surely over, run: tune2fs -f -E clear_mmp %s",
			 tg->shown, node, dev,
			 le32toh(mmp->mmp_seq) > EXT4_MMP_SEQ_MAX ? ", where e2fsck is running"
								  : "",
			 tg->arg);
}

/* libext2fs checks it with a handle of which it needs these two fields. */
static bool checksum_fits(const struct superblock *sb, struct mmp_struct *mmp)
{
	struct ext2_super_block raw = sb->raw;
	struct struct_ext2_filsys fs = { .super = &raw };

	fs.csum_seed = raw.s_feature_incompat & EXT4_FEATURE_INCOMPAT_CSUM_SEED
			       ? raw.s_checksum_seed
			       : ext2fs_crc32c_le(~0u, raw.s_uuid, sizeof(raw.s_uuid));
	return ext2fs_mmp_csum_verify(&fs, mmp);
}

int guard_mmp(struct target *tg, int fd, const struct superblock *sb, bool before_preen,
	      struct error *err)
{
	uint64_t block = le64toh(sb->raw.s_mmp_block);
	union {
		uint8_t bytes[VOLUME_MMP_LEN];
		struct mmp_struct mmp;
	} now;
	uint32_t seq;

	tg->mmp_at = 0;
	if (!(sb->incompat & EXT4_FEATURE_INCOMPAT_MMP))
		return 0;
	if (!sb->block_size || block <= le32toh(sb->raw.s_first_data_block) ||
	    block >= sb->blocks || block >= tg->room / sb->block_size)
		return error_set(
			err, ERROR_FSCK,
			"%s: the MMP block %llu lies outside the file system; run: e2fsck -f %s",
			tg->shown, (unsigned long long)block, tg->arg);
	tg->mmp_at = block * sb->block_size;
	if (mmp_read(tg, fd, tg->mmp_at, now.bytes, err))
		return -1;
	if (le32toh(now.mmp.mmp_magic) != EXT4_MMP_MAGIC || !checksum_fits(sb, &now.mmp))
		return error_set(err, ERROR_FSCK, "%s: the MMP block is broken; run: e2fsck -f %s",
				 tg->shown, tg->arg);
	memcpy(tg->mmp, now.bytes, sizeof(tg->mmp));
	seq = le32toh(now.mmp.mmp_seq);
	if (seq == EXT4_MMP_SEQ_CLEAN)
		return 0;
	/* e2fsck -p waits itself, and goes on with a number that stays the same. */
	if (seq > EXT4_MMP_SEQ_MAX ||
	    (!before_preen && now.mmp.mmp_pad2[0] != VOLUME_MMP_MARK(now.mmp.mmp_seq)))
		return mmp_in_use(tg, &now.mmp, err);
	if (mmp_pause(tg, mmp_patience(&now.mmp, le16toh(sb->raw.s_mmp_update_interval)), err) ||
	    mmp_read(tg, fd, tg->mmp_at, now.bytes, err))
		return -1;
	return le32toh(now.mmp.mmp_seq) == seq ? 0 : mmp_in_use(tg, &now.mmp, err);
}
