/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MMP block while we write (see volume/mmp.c, which reads it). Before B it gets a number of our
 * own, and after as long a wait as the kernel's it must still be there; then a thread changes it
 * every few seconds, having looked whether it is still ours. After E, and after the last discard
 * (what is free for us may be in use as soon as another node may come), it becomes what it was. A
 * killed run leaves a number that no longer changes: whoever comes next waits a while, and goes on.
 *
 * Nothing of this is part of a transaction: each write is one sector, and leaves the checksum as it
 * is (sector_solve), so the block is good whichever sectors of it reach the disk.
 */
#include "internal.h"

#include <endian.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	SLOT = SECTOR_SIZE - 4, /* of the padding that nobody reads */
	MAX_CHECK_INTERVAL = 300,
};

union block {
	uint8_t bytes[VOLUME_MMP_LEN];
	struct mmp_struct mmp;
};

struct mmp {
	struct commit *c;
	uint64_t at;	 /* bytes: where the block is */
	unsigned update; /* seconds */
	union block before, now;
	bool claimed;
	/* the thread that keeps it alive */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;	   /* with `lock` */
	struct error lost; /* with `lock`; kind 0: it is still ours */
};

static int write_block(struct mmp *m, bool flush, struct error *err)
{
	struct commit *c = m->c;

	if (c->geo->metadata_csum && !sector_solve(m->now.bytes, SLOT, sector_crc(m->before.bytes)))
		return error_set(err, ERROR_OPERATION,
				 "internal error: no checksum for the MMP block of %s", c->name);
	if (sector_write(c, m->at, m->now.bytes, err))
		return -1;
	return flush ? device_flush(c->dev, err) : 0;
}

static int taken_over(struct mmp *m, const union block *b, struct error *err)
{
	return volume_mmp_in_use(m->c->v, b->bytes, err);
}

static int look(struct mmp *m, struct error *err)
{
	union block b;

	if (volume_mmp_read(m->c->v, b.bytes, err))
		return -1;
	return b.mmp.mmp_seq == m->now.mmp.mmp_seq ? 0 : taken_over(m, &b, err);
}

static void put_number(struct mmp *m, uint32_t seq)
{
	m->now.mmp.mmp_seq = htole32(seq);
	m->now.mmp.mmp_pad2[0] = VOLUME_MMP_MARK(m->now.mmp.mmp_seq);
	m->now.mmp.mmp_time = htole64((uint64_t)time(NULL));
}

int mmp_keep(struct mmp *m, struct error *err)
{
	uint32_t seq = le32toh(m->now.mmp.mmp_seq) + 1;

	if (look(m, err))
		return -1;
	put_number(m, seq > EXT4_MMP_SEQ_MAX ? 1 : seq);
	/* Buffered writes reach another node only by a flush. */
	return write_block(m, !m->c->dev->direct, err);
}

/* With `lock`. */
static void keep_or_lose(struct mmp *m)
{
	struct error err = ERROR_INIT;

	if (!mmp_keep(m, &err))
		return;
	/* Where writing has failed before, why is known already. */
	if (atomic_exchange(&m->c->dev->dead, true)) /* I12 */
		return;
	m->lost = err;
}

void mmp_look_after(struct mmp *m)
{
	pthread_mutex_lock(&m->lock);
	keep_or_lose(m);
	pthread_mutex_unlock(&m->lock);
}

static void *keep_alive(void *arg)
{
	struct mmp *m = arg;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	pthread_mutex_lock(&m->lock);
	while (!m->stop && !m->lost.kind) {
		t.tv_sec += m->update;
		while (!m->stop && !pthread_cond_timedwait(&m->wake, &m->lock, &t))
			;
		if (!m->stop)
			keep_or_lose(m);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

static int start(struct mmp *m, struct error *err)
{
	int rc = pthread_create(&m->thread, NULL, keep_alive, m);

	m->running = rc == 0;
	return rc ? error_sys(err, ERROR_OPERATION, rc, "cannot start a thread") : 0;
}

static void stop(struct mmp *m)
{
	if (!m->running)
		return;
	pthread_mutex_lock(&m->lock);
	m->stop = true;
	pthread_cond_signal(&m->wake);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	m->running = false;
}

static int mmp_new(struct commit *c, uint64_t at, struct error *err)
{
	unsigned update = c->fs->super->s_mmp_update_interval;
	struct mmp *m = calloc(1, sizeof(*m));
	pthread_condattr_t attr;

	if (!m)
		return error_nomem(err, "multi-mount protection");
	if (update == 0)
		update = EXT4_MMP_UPDATE_INTERVAL;
	m->update = update < EXT4_MMP_MAX_UPDATE_INTERVAL ? update : EXT4_MMP_MAX_UPDATE_INTERVAL;
	m->c = c;
	m->at = at;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->wake, &attr);
	pthread_condattr_destroy(&attr);
	c->mmp = m;
	return 0;
}

/* Our own number, and who we are. */
static void fill(struct mmp *m)
{
	struct mmp_struct *b = &m->now.mmp;
	unsigned check = 2 * m->update;

	if (check < EXT4_MMP_MIN_CHECK_INTERVAL)
		check = EXT4_MMP_MIN_CHECK_INTERVAL;
	if (check > MAX_CHECK_INTERVAL)
		check = MAX_CHECK_INTERVAL;
	m->now = m->before;
	b->mmp_check_interval = htole16((uint16_t)check);
	memset(b->mmp_nodename, 0, sizeof(b->mmp_nodename));
	gethostname((char *)b->mmp_nodename, sizeof(b->mmp_nodename));
	volume_mmp_name(m->c->v, (char *)b->mmp_bdevname, sizeof(b->mmp_bdevname));
	put_number(m, ext2fs_mmp_new_seq());
}

/* The claim failed; why is known already. */
static int unclaim(struct commit *c)
{
	struct error ignored = ERROR_INIT;

	(void)mmp_release(c, &ignored);
	return -1;
}

int mmp_claim(struct commit *c, struct error *err)
{
	uint64_t at = volume_mmp(c->v);
	struct mmp *m;

	if (!at || (c->mmp && c->mmp->claimed))
		return 0;
	if (!c->mmp && mmp_new(c, at, err))
		return -1;
	m = c->mmp;
	if (volume_mmp_read(c->v, m->before.bytes, err))
		return -1;
	/* Since the volume was opened, nobody else may have come, nor come and gone: what the run
	 * knows of the files would be old. */
	if (!volume_mmp_same(c->v, m->before.bytes))
		return le32toh(m->before.mmp.mmp_seq) == EXT4_MMP_SEQ_CLEAN
			       ? error_set(err, ERROR_OPERATION,
					   "%s was used by another node meanwhile, says its MMP "
					   "block; start again",
					   c->name)
			       : taken_over(m, &m->before, err);
	fill(m);
	if (write_block(m, true, err))
		return -1;
	m->claimed = true;
	if (volume_mmp_wait(c->v, m->before.bytes, err))
		return unclaim(c);
	if (look(m, err)) {
		m->claimed = false;
		return -1;
	}
	return start(m, err) ? unclaim(c) : 0;
}

int mmp_release(struct commit *c, struct error *err)
{
	struct mmp *m = c->mmp;

	if (!m || !m->claimed)
		return 0;
	stop(m);
	m->claimed = false;
	if (look(m, err))
		return -1;
	m->now = m->before;
	m->now.mmp.mmp_seq = htole32(EXT4_MMP_SEQ_CLEAN);
	return write_block(m, true, err);
}

bool mmp_lost(struct commit *c, struct error *err)
{
	struct mmp *m = c->mmp;
	bool lost;

	if (!m)
		return false;
	pthread_mutex_lock(&m->lock);
	lost = m->lost.kind;
	if (lost)
		*err = m->lost;
	pthread_mutex_unlock(&m->lock);
	return lost;
}

void mmp_free(struct mmp *m)
{
	if (!m)
		return;
	stop(m);
	pthread_cond_destroy(&m->wake);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
