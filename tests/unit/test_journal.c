/* SPDX-License-Identifier: GPL-2.0-or-later */
/* journal: bytes, refusals, and whole transactions cut anywhere, replayed by e2fsck. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/journal/format.h"
#include "scaledefrag/journal.h"
#include "support/faultdev.h"
#include "support/image.h"
#include "support/memdev.h"
#include "support/recorder.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)

/* The definition, bit by bit: shares nothing with libext2fs. */
static uint32_t bitwise_crc32c(uint32_t seed, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		seed ^= p[i];
		for (int k = 0; k < 8; k++)
			seed = seed >> 1 ^ (seed & 1 ? 0x82F63B78u : 0);
	}
	return seed;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

struct variant {
	const char *features, *args;
	uint32_t n;   /* blocks of the transaction */
	bool csum_v2; /* the journal has checksums of version 2 from the start */
};

static const struct variant variants[] = {
	{ "", "-b 1024 -J size=1", 150, false },
	{ "", "-b 4096 -J size=4", 300, false },
	{ "", "-b 1024 -J size=1", 150, true },
	{ "^64bit", "-b 1024 -J size=1", 150, true },
	{ "^64bit", "-b 2048 -J size=2", 130, false },
	{ "^metadata_csum", "-b 1024 -J size=1", 200, false },
	{ "^metadata_csum,^64bit", "-b 1024 -J size=1", 130, false },
	{ "^metadata_csum,^64bit", "-b 4096 -J size=4", 1, false },
};

/* An image in memory with a file whose blocks serve as homes. */
struct rig {
	char dir[64], path[96];
	uint32_t bs, n;
	size_t size;
	uint8_t *mem, *start; /* now, and before the transaction */
	uint64_t *home;
	uint8_t *data; /* new content */
	struct journal_block *block;
	struct range *run;
	struct journal_place place;
	struct recorder *rec;
	struct faultdev *fault;
	struct device *dev;
	struct journal *j;
};

static int add_run(ext2_filsys fs, blk64_t *block, e2_blkcnt_t lblk, blk64_t ref, int off,
		   void *priv)
{
	struct rig *r = priv;

	(void)fs;
	(void)ref;
	(void)off;
	if (lblk < 0)
		return 0;
	/* One run a block: the map is searched more than any real one. */
	r->run = realloc(r->run, (r->place.n_run + 1) * sizeof(*r->run));
	r->run[r->place.n_run++] = (struct range){ .start = *block, .len = 1 };
	return 0;
}

/* needs_recovery, as commit's B does, and where the log lies. */
static void prepare(struct rig *r)
{
	ext2_filsys fs;

	assert_int_equal(
		ext2fs_open(r->path, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs),
		0);
	ext2fs_set_feature_journal_needs_recovery(fs->super);
	ext2fs_mark_super_dirty(fs);
	assert_int_equal(
		ext2fs_block_iterate3(fs, EXT2_JOURNAL_INO, BLOCK_FLAG_READ_ONLY, NULL, add_run, r),
		0);
	r->place.block_size = fs->blocksize;
	r->place.run = r->run;
	r->place.metadata_csum = ext2fs_has_feature_metadata_csum(fs->super);
	r->place.is_64bit = ext2fs_has_feature_64bit(fs->super);
	r->place.fs_blocks = ext2fs_blocks_count(fs->super);
	r->place.name = r->path;
	r->place.crc32c = bitwise_crc32c;
	fs->flags |= EXT2_FLAG_SUPER_ONLY;
	assert_int_equal(ext2fs_close(fs), 0);
}

static void make_file(struct rig *r)
{
	static const struct place where = { .order = PLACE_SHUFFLED, .len = 3, .step = 5 };
	struct image *im = image_open(r->path);
	struct piece *piece;
	size_t n = image_pick(im, &where, r->n, &piece), at = 0;

	image_map(im, image_file(im, IMAGE_ROOT, "file"), piece, n, NULL, 0);
	r->home = calloc(r->n, sizeof(*r->home));
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < piece[i].len; k++)
			r->home[at++] = piece[i].pblk + k;
	assert_int_equal(at, r->n);
	free(piece);
	image_close(im);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void new_data(struct rig *r)
{
	qsort(r->home, r->n, sizeof(*r->home), compare_u64);
	r->data = malloc((size_t)r->n * r->bs);
	r->block = calloc(r->n, sizeof(*r->block));
	for (uint32_t i = 0; i < r->n; i++) {
		uint8_t *p = r->data + (size_t)i * r->bs;

		memset(p, (int)(i * 7 + 1) & 0xff, r->bs);
		if (i % 5 == 0)
			put_be32(p, JBD2_MAGIC);
		r->block[i] = (struct journal_block){ r->home[i], p };
	}
}

static uint8_t *log_at(const struct rig *r, uint32_t block)
{
	return r->mem + r->run[block].start * r->bs;
}

static void super_csum(const struct rig *r)
{
	if (be32(log_at(r, 0) + 0x28) & JBD2_INCOMPAT_CSUM_ANY)
		put_be32(log_at(r, 0) + 0xFC, format_super_csum(log_at(r, 0), bitwise_crc32c));
}

static void rig_open(struct rig *r, const struct variant *v)
{
	struct error err = ERROR_INIT;
	struct device *mem, *front;

	*r = (struct rig){ .dir = "/dev/shm/test_journal.XXXXXX", .n = v->n };
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/image", r->dir);
	r->size = strstr(v->args, "4096") ? 16 * MIB : 8 * MIB;
	image_mke2fs(r->path, r->size, v->features, v->args);
	make_file(r);
	prepare(r);
	r->bs = r->place.block_size;
	new_data(r);
	r->mem = malloc(r->size);
	r->start = malloc(r->size);
	image_read(r->path, 0, r->mem, r->size);
	if (v->csum_v2) {
		put_be32(log_at(r, 0) + 0x28, JBD2_INCOMPAT_CSUM_V2);
		log_at(r, 0)[0x50] = JBD2_CHECKSUM_CRC32C;
		super_csum(r);
	}
	mem = memdev_new(r->mem, r->size, 512);
	r->rec = recorder_new();
	assert_int_equal(recorder_wrap(r->rec, mem, &front, &err), 0);
	r->fault = faultdev_new();
	assert_int_equal(faultdev_wrap(r->fault, front, &r->dev, &err), 0);
}

static void rig_close(struct rig *r)
{
	journal_close(r->j);
	device_close(r->dev);
	recorder_free(r->rec);
	faultdev_free(r->fault);
	free(r->mem);
	free(r->start);
	free(r->home);
	free(r->data);
	free(r->block);
	free(r->run);
	unlink(r->path);
	rmdir(r->dir);
}

static int open_journal(struct rig *r, struct error *err)
{
	memcpy(r->start, r->mem, r->size);
	return journal_open(r->dev, &r->place, &r->j, err);
}

static void must_open(struct rig *r)
{
	struct error err = ERROR_INIT;

	if (open_journal(r, &err))
		fail_msg("%s", err.text);
}

static void must_commit(struct rig *r, const struct journal_block *b, size_t n)
{
	struct error err = ERROR_INIT;

	if (journal_commit(r->j, b, n, 1700000000, 5, 8, &err))
		fail_msg("%s", err.text);
}

/* Replays with e2fsck and reads the image back into `into`. */
static void replay(const struct rig *r, uint8_t *into)
{
	image_write(r->path, 0, into, r->size);
	image_fsck(r->path, "-p -E journal_only", 0);
	image_fsck(r->path, "-fn", 0);
	image_read(r->path, 0, into, r->size);
}

/* 1: all homes hold the new data; 0: all the old; -1: something else. */
static int which(const struct rig *r, const uint8_t *image)
{
	int old = 0, new = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		size_t at = r->home[i] * r->bs;

		new += memcmp(image + at, r->block[i].data, r->bs) == 0;
		old += memcmp(image + at, r->start + at, r->bs) == 0;
	}
	return new == (int)r->n ? 1 : old == (int)r->n ? 0 : -1;
}

static uint32_t next_random(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* The disk when the power went out in epoch `cut` (after that many flushes): all before, and of
 * that epoch's sectors a random part. seed 0: none of them. */
static uint8_t *cut_image(const struct rig *r, int cut, uint32_t seed)
{
	uint8_t *image = malloc(r->size);
	size_t n;
	const struct recorder_event *e = recorder_trace(r->rec, &n);
	int flushes = 0;
	/* Sometimes nearly all, sometimes nearly none. */
	uint32_t odds = seed ? next_random(&seed) % 256 : 0;

	memcpy(image, r->start, r->size);
	for (size_t i = 0; i < n && flushes <= cut; i++) {
		if (e[i].kind == RECORDER_FLUSH) {
			flushes++;
			continue;
		}
		for (size_t at = 0; at < e[i].len; at += 512)
			if (flushes < cut || (seed && next_random(&seed) % 256 < odds))
				memcpy(image + e[i].offset + at, (uint8_t *)e[i].data + at, 512);
	}
	return image;
}

static void check_cut(const struct rig *r, int cut, uint32_t seed)
{
	uint8_t *image = cut_image(r, cut, seed);
	int got;

	replay(r, image);
	got = which(r, image);
	if (got < 0 || (cut >= 2 && got != 1) || (cut < 1 && got != 0) ||
	    (cut == 1 && !seed && got != 0))
		fail_msg("cut %d seed %u: %d", cut, seed, got);
	free(image);
}

static void test_journal_commit__cut_anywhere(void **state)
{
	(void)state;
	for (size_t v = 0; v < sizeof(variants) / sizeof(*variants); v++) {
		struct journal_counters c;
		struct rig r;

		rig_open(&r, &variants[v]);
		must_open(&r);
		assert_true(journal_capacity(r.j) >= r.n);
		must_commit(&r, r.block, r.n);
		journal_get_counters(r.j, &c);
		assert_int_equal(c.transactions, 1);
		assert_int_equal(c.blocks_logged, r.n);
		assert_int_equal(c.flushes, 4);
		assert_int_equal(which(&r, r.mem), 1);
		for (int cut = 0; cut <= 4; cut++) {
			check_cut(&r, cut, 0);
			for (uint32_t seed = 1; cut < 4 && seed <= 3; seed++)
				check_cut(&r, cut, seed * 7919 + (uint32_t)v);
		}
		rig_close(&r);
	}
}

/* Up to flush number `cut`; of what follows all but the journal superblock and the first
 * descriptor. */
static uint8_t *cut_without_heads(const struct rig *r, int cut)
{
	uint8_t *image = cut_image(r, cut, 0);
	size_t n;
	const struct recorder_event *e = recorder_trace(r->rec, &n);
	int flushes = 0;

	for (size_t i = 0; i < n && flushes <= cut; i++) {
		if (e[i].kind == RECORDER_FLUSH) {
			flushes++;
			continue;
		}
		for (size_t at = 0; flushes == cut && at < e[i].len; at += r->bs) {
			uint64_t block = (e[i].offset + at) / r->bs;

			if (block != r->run[0].start && block != r->run[1].start)
				memcpy(image + block * r->bs, (uint8_t *)e[i].data + at, r->bs);
		}
	}
	return image;
}

/* What F4 is for: the next transaction's blocks must not be taken for the last one's. */
static void test_journal_commit__next_log_over_old(void **state)
{
	static const size_t some[] = { 0, 5 };

	(void)state;
	for (size_t v = 0; v < 2; v++) {
		uint8_t *old;
		struct rig r;

		rig_open(&r, &variants[some[v]]);
		must_open(&r);
		must_commit(&r, r.block, r.n);
		old = malloc((size_t)r.n * r.bs);
		memcpy(old, r.data, (size_t)r.n * r.bs);
		memset(r.data, 0x5E, (size_t)r.n * r.bs);
		must_commit(&r, r.block, r.n);
		/* up to the second F1: the first transaction or nothing */
		memcpy(r.data, old, (size_t)r.n * r.bs);
		for (int cut = 2; cut <= 4; cut++) {
			uint8_t *image = cut_without_heads(&r, cut);

			replay(&r, image);
			assert_int_equal(which(&r, image), 1);
			free(image);
		}
		free(old);
		rig_close(&r);
	}
}

/* The log is empty and numbered on, and of the superblock only the first sector changed. */
static void test_journal_commit__superblock_after(void **state)
{
	struct rig r;
	size_t at;

	(void)state;
	rig_open(&r, &variants[0]);
	must_open(&r);
	must_commit(&r, r.block, 1);
	at = r.run[0].start * r.bs;
	assert_int_equal(be32(r.mem + at + 0x1C), 0);
	/* s_sequence 1 at first: our tid is 2, the next expected 3 */
	assert_int_equal(be32(r.mem + at + 0x18), 3);
	assert_int_equal(be32(r.mem + at + 0x28), JBD2_INCOMPAT_64BIT | JBD2_INCOMPAT_CSUM_V3);
	assert_memory_equal(r.mem + at + 512, r.start + at + 512, r.bs - 512);
	must_commit(&r, r.block, 1);
	assert_int_equal(be32(log_at(&r, 1) + 8), 4);
	rig_close(&r);
}

/* A whole old transaction behind ours that would be the next one by number. */
static void test_journal_commit__old_transaction_behind(void **state)
{
	static const struct variant plain = { "^metadata_csum", "-b 1024 -J size=1", 4, false };
	struct log_format f = { .block_size = 1024,
				.incompat = JBD2_INCOMPAT_64BIT,
				.crc32c = bitwise_crc32c };
	uint8_t bad[1024], *image;
	struct log_tag tag;
	struct rig r;

	(void)state;
	rig_open(&r, &plain);
	memset(bad, 0xBD, sizeof(bad));
	tag = (struct log_tag){ r.home[3], bad };
	/* Sequence 1: without a look we would use tid 2 in log blocks 1 to 3. */
	format_descriptor(&f, log_at(&r, 4), 3, &tag, 1);
	memcpy(log_at(&r, 5), bad, sizeof(bad));
	format_commit(&f, log_at(&r, 6), 3, 1700000001, 0);
	must_open(&r);
	must_commit(&r, r.block, 1);
	assert_int_equal(be32(log_at(&r, 1) + 8), 4);
	for (int cut = 2; cut <= 4; cut++) {
		image = cut_image(&r, cut, 0);
		replay(&r, image);
		assert_memory_equal(image + r.home[0] * r.bs, r.block[0].data, r.bs);
		assert_memory_equal(image + r.home[3] * r.bs, r.start + r.home[3] * r.bs, r.bs);
		free(image);
	}
	rig_close(&r);
}

static void test_journal_commit__tid_wraps(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, &variants[0]);
	put_be32(log_at(&r, 0) + 0x18, 0xFFFFFFFFu);
	super_csum(&r);
	must_open(&r);
	must_commit(&r, r.block, r.n);
	assert_int_equal(be32(log_at(&r, 1) + 8), 0);
	for (int cut = 0; cut <= 4; cut++)
		check_cut(&r, cut, 0);
	rig_close(&r);
}

/* Every write and flush may fail, and after it nothing is written any more (I12). */
static void test_journal_commit__each_write_fails(void **state)
{
	(void)state;
	for (uint64_t nth = 1;; nth++) {
		struct error err = ERROR_INIT;
		uint8_t *image;
		struct rig r;
		uint64_t fired, ops;
		size_t events;

		rig_open(&r, &variants[6]);
		must_open(&r);
		faultdev_set(r.fault, (struct fault_plan){ .op = FAULT_ANY, .nth = nth });
		if (journal_commit(r.j, r.block, r.n, 1700000000, 0, 4, &err) == 0) {
			assert_int_equal(faultdev_fired(r.fault), 0);
			rig_close(&r);
			assert_true(nth > 10);
			return;
		}
		fired = faultdev_fired(r.fault);
		assert_true(fired > 0);
		assert_int_equal(err.kind, ERROR_OPERATION);
		ops = faultdev_count(r.fault, FAULT_WRITE) + faultdev_count(r.fault, FAULT_FLUSH);
		if (ops) {
			assert_non_null(strstr(err.text, "e2fsck -p"));
			assert_non_null(strstr(err.text, r.path));
			recorder_trace(r.rec, &events);
			faultdev_set(r.fault, (struct fault_plan){ .op = FAULT_NONE });
			assert_int_equal(journal_commit(r.j, r.block, r.n, 1, 0, 4, &err), -1);
			assert_int_equal(faultdev_count(r.fault, FAULT_WRITE), 0);
			assert_int_equal(faultdev_count(r.fault, FAULT_FLUSH), 0);
		}
		image = malloc(r.size);
		memcpy(image, r.mem, r.size);
		replay(&r, image);
		assert_true(which(&r, image) >= 0);
		free(image);
		rig_close(&r);
	}
}

static void refuse_blocks(struct rig *r, const struct journal_block *b, size_t n)
{
	struct error err = ERROR_INIT;

	assert_int_equal(journal_commit(r->j, b, n, 1, 0, 4, &err), -1);
	assert_int_equal(err.kind, ERROR_OPERATION);
	assert_memory_equal(r->mem, r->start, r->size);
}

static void test_journal_commit__wrong_blocks(void **state)
{
	struct journal_block b[2], *many;
	uint64_t capacity;
	struct rig r;

	(void)state;
	rig_open(&r, &variants[0]);
	must_open(&r);
	b[0] = (struct journal_block){ r.run[7].start, r.data };
	refuse_blocks(&r, b, 1); /* in the log */
	b[0].block = r.run[0].start;
	refuse_blocks(&r, b, 1);
	b[0].block = r.place.fs_blocks;
	refuse_blocks(&r, b, 1);
	b[0].block = b[1].block = r.home[0];
	b[1].data = r.data;
	refuse_blocks(&r, b, 2); /* twice */
	refuse_blocks(&r, b, 0);
	capacity = journal_capacity(r.j);
	many = calloc(capacity + 1, sizeof(*many));
	refuse_blocks(&r, many, capacity + 1);
	free(many);
	must_commit(&r, r.block, 1); /* none of it harmed the journal */
	rig_close(&r);
}

static void test_journal_commit__at_capacity(void **state)
{
	static const struct variant full = { "", "-b 1024 -J size=1", 500, false };
	struct rig r;

	(void)state;
	rig_open(&r, &full);
	must_open(&r);
	assert_int_equal(journal_capacity(r.j), 500);
	must_commit(&r, r.block, 500);
	check_cut(&r, 2, 0);
	check_cut(&r, 1, 99);
	rig_close(&r);
}

static void set32(struct rig *r, size_t at, uint32_t v)
{
	put_be32(log_at(r, 0) + at, v);
}

struct refusal {
	size_t at;
	uint32_t value;
	bool csum; /* put the checksum right again */
	enum error_kind kind;
	const char *text;
};

static void test_journal_open__refusals(void **state)
{
	static const struct refusal cases[] = {
		{ 0x1C, 5, true, ERROR_FSCK, "e2fsck -p" },
		{ 0x20, 5, true, ERROR_FSCK, "e2fsck -f" },
		{ 0x00, 0, true, ERROR_FSCK, "magic" },
		{ 0x04, JBD2_SUPER_V1, true, ERROR_USAGE, "version 1" },
		{ 0x04, JBD2_COMMIT, true, ERROR_FSCK, "type" },
		{ 0x0C, 2048, true, ERROR_FSCK, "does not fit" },
		{ 0x10, 5000, true, ERROR_FSCK, "does not fit" },
		{ 0x10, 0xFFFFFFFFu, true, ERROR_FSCK, "does not fit" },
		{ 0x10, 7, true, ERROR_USAGE, "too small" },
		{ 0x14, 0, true, ERROR_FSCK, "does not fit" },
		{ 0x14, 0xFFFFFFFFu, true, ERROR_FSCK, "does not fit" },
		{ 0x24, 2, true, ERROR_USAGE, "features" },
		{ 0x24, 1, true, ERROR_FSCK, "two kinds" },
		{ 0x28, 0x40 | JBD2_INCOMPAT_CSUM_V2, true, ERROR_USAGE, "features" },
		{ 0x28, JBD2_INCOMPAT_CSUM_ANY, true, ERROR_FSCK, "two kinds" },
		{ 0x28, JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_FAST, false, ERROR_FSCK, "checksum" },
		{ 0x2C, 1, true, ERROR_USAGE, "features" },
		{ 0x40, 2, true, ERROR_USAGE, "shared" },
		{ 0x50, 1, true, ERROR_USAGE, "unknown type" },
		{ 0x18, 77, false, ERROR_FSCK, "checksum" },
	};
	uint8_t *whole;
	struct rig r;

	(void)state;
	rig_open(&r, &variants[2]);
	whole = malloc(r.bs);
	memcpy(whole, log_at(&r, 0), r.bs);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct error err = ERROR_INIT;

		memcpy(log_at(&r, 0), whole, r.bs);
		set32(&r, cases[i].at, cases[i].value);
		if (cases[i].csum)
			super_csum(&r);
		if (open_journal(&r, &err) == 0)
			fail_msg("case %zu was not refused", i);
		if (err.kind != cases[i].kind || !strstr(err.text, cases[i].text))
			fail_msg("case %zu: %d %s", i, err.kind, err.text);
		assert_memory_equal(r.mem, r.start, r.size);
	}
	free(whole);
	rig_close(&r);
}

static void test_journal_open__bad_map(void **state)
{
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	rig_open(&r, &variants[0]);
	r.run[9].start = r.run[8].start;
	assert_int_equal(open_journal(&r, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	r.run[9].start = UINT64_MAX - 1;
	r.run[9].len = 5;
	assert_int_equal(open_journal(&r, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	r.place.n_run = 0;
	assert_int_equal(open_journal(&r, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	rig_close(&r);
}

/* Fast commits: their area is left alone, and the feature is off while our transaction lies there.
 */
static void test_journal_open__fast_commit(void **state)
{
	static const struct variant large = { "", "-b 1024 -J size=2", 100, true };
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	rig_open(&r, &large);
	set32(&r, 0x28, JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_FAST | JBD2_INCOMPAT_ASYNC);
	set32(&r, 0x54, 1500);
	super_csum(&r);
	assert_int_equal(open_journal(&r, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	set32(&r, 0x54, 500);
	super_csum(&r);
	must_open(&r);
	/* (2048 - 500 - 1) / 2 = 773 log blocks */
	assert_in_range(journal_capacity(r.j), 750, 771);
	must_commit(&r, r.block, r.n);
	assert_int_equal(be32(log_at(&r, 0) + 0x28), JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_64BIT);
	assert_int_equal(be32(log_at(&r, 0) + 0x54), 500);
	for (int cut = 0; cut <= 4; cut++)
		check_cut(&r, cut, 0);
	rig_close(&r);
}

static void test_format_descriptor__tags(void **state)
{
	static const struct {
		uint32_t incompat, size, tags_1k, tags_4k;
	} cases[] = {
		{ 0, 8, 124, 508 },
		{ JBD2_INCOMPAT_64BIT, 12, 83, 339 },
		{ JBD2_INCOMPAT_CSUM_V2, 10, 99, 406 },
		{ JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_64BIT, 14, 70, 290 },
		{ JBD2_INCOMPAT_CSUM_V3, 16, 62, 254 },
		{ JBD2_INCOMPAT_CSUM_V3 | JBD2_INCOMPAT_64BIT, 16, 62, 254 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct log_format f = { .block_size = 1024, .incompat = cases[i].incompat };

		assert_int_equal(format_tag_size(&f), cases[i].size);
		assert_int_equal(format_tags_per_descriptor(&f), cases[i].tags_1k);
		f.block_size = 4096;
		assert_int_equal(format_tags_per_descriptor(&f), cases[i].tags_4k);
	}
}

static void test_format_descriptor__high_blocks(void **state)
{
	struct log_format f = { .block_size = 1024,
				.incompat = JBD2_INCOMPAT_CSUM_V3 | JBD2_INCOMPAT_64BIT,
				.seed = 7,
				.crc32c = bitwise_crc32c };
	uint8_t buf[1024], data[1024] = { 0xC0, 0x3B, 0x39, 0x98 };
	struct log_tag tags[2] = { { 0x123456789Aull, data }, { 5, buf } };
	uint32_t type, tid;

	(void)state;
	memset(f.uuid, 0xAA, sizeof(f.uuid));
	memset(buf, 0, sizeof(buf));
	format_descriptor(&f, buf, 99, tags, 1);
	assert_true(format_header(buf, &type, &tid));
	assert_int_equal(type, JBD2_DESCRIPTOR);
	assert_int_equal(tid, 99);
	assert_int_equal(be32(buf + 12), 0x3456789Au);
	assert_int_equal(be32(buf + 16), JBD2_FLAG_ESCAPE | JBD2_FLAG_LAST_TAG);
	assert_int_equal(be32(buf + 20), 0x12);
	assert_int_equal(buf[28], 0xAA);
	assert_int_equal(buf[43], 0xAA);
	assert_int_equal(buf[44], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_descriptor__tags),
		cmocka_unit_test(test_format_descriptor__high_blocks),
		cmocka_unit_test(test_journal_open__refusals),
		cmocka_unit_test(test_journal_open__bad_map),
		cmocka_unit_test(test_journal_open__fast_commit),
		cmocka_unit_test(test_journal_commit__superblock_after),
		cmocka_unit_test(test_journal_commit__old_transaction_behind),
		cmocka_unit_test(test_journal_commit__tid_wraps),
		cmocka_unit_test(test_journal_commit__wrong_blocks),
		cmocka_unit_test(test_journal_commit__at_capacity),
		cmocka_unit_test(test_journal_commit__cut_anywhere),
		cmocka_unit_test(test_journal_commit__next_log_over_old),
		cmocka_unit_test(test_journal_commit__each_write_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
