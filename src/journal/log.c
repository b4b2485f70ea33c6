/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening the log: every check of the journal superblock before we may write. The checks are those
 * of kernel fs/jbd2/journal.c (journal_get_superblock) and e2fsprogs e2fsck/journal.c
 * (e2fsck_journal_load), and stricter where a writer can't be sure.
 */
#include "log.h"

#include <stdlib.h>
#include <string.h>

/* Log blocks at the least: a descriptor, one block, its commit and a zeroed one, twice. */
#define MIN_LOG_BLOCKS 8u

static int compare_home(const void *a, const void *b)
{
	const struct log_run *x = a, *y = b;

	return x->block < y->block ? -1 : x->block > y->block;
}

/* Copies the runs and checks that they are sane: inside the device, disjoint. */
static int take_runs(struct journal *j, const struct journal_place *pl, uint64_t *blocks,
		     struct error *err)
{
	uint64_t end = j->dev->size / pl->block_size, at = 0;

	if (end > pl->fs_blocks)
		end = pl->fs_blocks;
	if (pl->n_run == 0)
		return error_set(err, ERROR_FSCK, "the journal of %s is empty; run: e2fsck -f %s",
				 pl->name, pl->name);
	j->run = calloc(pl->n_run, sizeof(*j->run));
	j->home = calloc(pl->n_run, sizeof(*j->home));
	if (!j->run || !j->home)
		return error_nomem(err, "the journal's map");
	for (size_t i = 0; i < pl->n_run; i++) {
		const struct range *r = &pl->run[i];

		if (r->len == 0 || r->start == 0 || r->start >= end || r->len > end - r->start ||
		    at + r->len > UINT32_MAX)
			return error_set(err, ERROR_FSCK,
					 "the journal of %s lies outside the file system at block "
					 "%llu; run: e2fsck -f %s",
					 pl->name, (unsigned long long)r->start, pl->name);
		j->run[i] = (struct log_run){ .log = at, .block = r->start, .len = r->len };
		at += r->len;
	}
	j->n_run = pl->n_run;
	memcpy(j->home, j->run, j->n_run * sizeof(*j->home));
	qsort(j->home, j->n_run, sizeof(*j->home), compare_home);
	for (size_t i = 1; i < j->n_run; i++)
		if (j->home[i - 1].block + j->home[i - 1].len > j->home[i].block)
			return error_set(err, ERROR_FSCK,
					 "the journal of %s has block %llu twice; run: e2fsck -f "
					 "%s",
					 pl->name, (unsigned long long)j->home[i].block, pl->name);
	*blocks = at;
	return 0;
}

uint64_t log_block(const struct journal *j, uint64_t log, uint64_t *left)
{
	size_t lo = 0, hi = j->n_run;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (j->run[mid].log <= log)
			lo = mid;
		else
			hi = mid;
	}
	if (left)
		*left = j->run[lo].len - (log - j->run[lo].log);
	return j->run[lo].block + (log - j->run[lo].log);
}

bool log_owns(const struct journal *j, uint64_t block)
{
	size_t lo = 0, hi = j->n_run;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (j->home[mid].block + j->home[mid].len <= block)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < j->n_run && j->home[lo].block <= block;
}

/* Is the block a journal superblock of the one kind that we write? */
static int check_header(const struct journal *j, struct error *err)
{
	uint32_t type, tid;

	if (!format_header(j->super_buf, &type, &tid))
		return error_set(err, ERROR_FSCK,
				 "the journal of %s has no superblock (wrong magic at block %llu); "
				 "run: e2fsck -f %s",
				 j->name, (unsigned long long)j->run[0].block, j->name);
	if (type == JBD2_SUPER_V1)
		return error_set(err, ERROR_USAGE,
				 "the journal of %s has the old superblock format (version 1), "
				 "which is not supported; make a new one: tune2fs -O ^has_journal "
				 "%s && tune2fs -j %s",
				 j->name, j->name, j->name);
	if (type != JBD2_SUPER_V2)
		return error_set(err, ERROR_FSCK,
				 "the journal superblock of %s has the wrong type %u; run: e2fsck "
				 "-f %s",
				 j->name, type, j->name);
	return 0;
}

static int check_features(const struct journal *j, struct error *err)
{
	const struct jsb *s = &j->super;
	uint32_t unknown = s->incompat & ~JBD2_INCOMPAT_KNOWN;

	if (unknown || s->ro_compat || s->compat & ~JBD2_COMPAT_CHECKSUM)
		return error_set(err, ERROR_USAGE,
				 "the journal of %s has features that are not supported (compat "
				 "%#x, incompat %#x, ro_compat %#x); make a new one: tune2fs -O "
				 "^has_journal %s && tune2fs -j %s",
				 j->name, s->compat & ~JBD2_COMPAT_CHECKSUM, unknown, s->ro_compat,
				 j->name, j->name);
	if ((s->incompat & JBD2_INCOMPAT_CSUM_ANY) == JBD2_INCOMPAT_CSUM_ANY ||
	    (s->incompat & JBD2_INCOMPAT_CSUM_ANY && s->compat & JBD2_COMPAT_CHECKSUM))
		return error_set(err, ERROR_FSCK,
				 "the journal of %s has two kinds of checksums at once; run: "
				 "e2fsck -f %s",
				 j->name, j->name);
	if (s->incompat & JBD2_INCOMPAT_CSUM_ANY) {
		if (s->checksum_type != JBD2_CHECKSUM_CRC32C)
			return error_set(err, ERROR_USAGE,
					 "the journal of %s has checksums of the unknown type %u; "
					 "make a new one: tune2fs -O ^has_journal %s && tune2fs -j "
					 "%s",
					 j->name, s->checksum_type, j->name, j->name);
		if (!format_super_csum_ok(j->super_buf, j->format.crc32c))
			return error_set(err, ERROR_FSCK,
					 "the journal superblock of %s has a wrong checksum; run: "
					 "e2fsck -f %s",
					 j->name, j->name);
	}
	if (s->users > 1)
		return error_set(err, ERROR_USAGE,
				 "the journal of %s is shared by %u file systems, which is not "
				 "supported",
				 j->name, s->users);
	return 0;
}

static int check_state(const struct journal *j, struct error *err)
{
	if (j->super.start != 0)
		return error_set(err, ERROR_FSCK,
				 "the journal of %s holds transactions that were not replayed; "
				 "run: e2fsck -p %s (or mount it once)",
				 j->name, j->name);
	if (j->super.error != 0)
		return error_set(err, ERROR_FSCK,
				 "the journal of %s has recorded the error %d; run: e2fsck -f %s",
				 j->name, (int32_t)j->super.error, j->name);
	return 0;
}

/* Which log blocks are ours. `blocks`: what the journal inode has. */
static int check_sizes(struct journal *j, const struct journal_place *pl, uint64_t blocks,
		       struct error *err)
{
	const struct jsb *s = &j->super;
	uint32_t fc = s->fc_blocks;

	if (s->block_size != pl->block_size || s->maxlen > blocks || s->first < 1 ||
	    s->first >= s->maxlen)
		return error_set(err, ERROR_FSCK,
				 "the journal superblock of %s does not fit its journal (block "
				 "size %u, blocks %u of %llu, first %u); run: e2fsck -f %s",
				 j->name, s->block_size, s->maxlen, (unsigned long long)blocks,
				 s->first, j->name);
	if (s->incompat & JBD2_INCOMPAT_FAST) {
		if (fc == 0)
			fc = JBD2_DEFAULT_FC_BLOCKS;
		if (fc >= s->maxlen || s->maxlen - fc < JBD2_MIN_BLOCKS)
			return error_set(err, ERROR_FSCK,
					 "the journal of %s has too many fast commit blocks (%u of "
					 "%u); run: e2fsck -f %s",
					 j->name, fc, s->maxlen, j->name);
	} else if (fc >= s->maxlen) {
		fc = 0; /* without the feature nobody reads the field */
	}
	j->first = s->first;
	j->last = s->maxlen - fc;
	if (j->last < j->first || j->last - j->first < MIN_LOG_BLOCKS)
		return error_set(err, ERROR_USAGE,
				 "the journal of %s is too small: %u blocks; make a larger one: "
				 "tune2fs -O ^has_journal %s && tune2fs -J size=4 %s",
				 j->name, s->maxlen, j->name, j->name);
	return 0;
}

/*
 * What the kernel switches on or off when it mounts (fs/ext4/super.c, ext4_load_journal and
 * set_journal_csum_feature_set). Allowed only while the log is empty; E1 writes it.
 */
static void choose_features(struct jsb *s, const struct journal_place *pl)
{
	s->incompat &= ~(JBD2_INCOMPAT_FAST | JBD2_INCOMPAT_ASYNC);
	if (pl->is_64bit)
		s->incompat |= JBD2_INCOMPAT_64BIT;
	if (pl->metadata_csum && !(s->incompat & JBD2_INCOMPAT_CSUM_ANY)) {
		s->incompat |= JBD2_INCOMPAT_CSUM_V3;
		s->compat &= ~JBD2_COMPAT_CHECKSUM;
		s->checksum_type = JBD2_CHECKSUM_CRC32C;
	}
}

static int decode(struct journal *j, const struct journal_place *pl, struct error *err)
{
	uint64_t blocks = 0;

	if (take_runs(j, pl, &blocks, err))
		return -1;
	j->super_buf = device_buffer(pl->block_size);
	if (!j->super_buf)
		return error_nomem(err, "the journal superblock");
	if (device_read(j->dev, j->super_buf, j->run[0].block * pl->block_size, pl->block_size,
			err))
		return -1;
	format_super_decode(j->super_buf, &j->super);
	j->format.crc32c = pl->crc32c;
	if (check_header(j, err) || check_features(j, err) || check_state(j, err) ||
	    check_sizes(j, pl, blocks, err))
		return -1;
	choose_features(&j->super, pl);
	format_init(&j->format, &j->super, pl->crc32c);
	j->newest = j->super.sequence;
	j->scanned = j->first;
	return 0;
}

int journal_open(struct device *dev, const struct journal_place *place, struct journal **out,
		 struct error *err)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return error_nomem(err, "the journal");
	j->dev = dev;
	j->name = place->name;
	j->fs_blocks = place->fs_blocks;
	if (decode(j, place, err)) {
		journal_close(j);
		return -1;
	}
	*out = j;
	return 0;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	free(j->super_buf);
	free(j->run);
	free(j->home);
	free(j);
}

uint64_t log_need(const struct journal *j, uint64_t n)
{
	uint32_t tags = format_tags_per_descriptor(&j->format);

	return n + (n + tags - 1) / tags + 2;
}

uint64_t journal_capacity(const struct journal *j)
{
	/* Half of the log: nothing in the format asks for it, but the kernel keeps its transactions
	 * below that too. The largest n with log_need(n) <= half. */
	uint64_t tags = format_tags_per_descriptor(&j->format);
	uint64_t half = (j->last - j->first) / 2;

	return (half - 2) * tags / (tags + 1);
}

void journal_get_counters(const struct journal *j, struct journal_counters *out)
{
	*out = j->count;
}
