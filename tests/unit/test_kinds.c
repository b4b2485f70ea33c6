/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What watches over a file system beside its journal: the MMP block, and quota files; and swap
 * files, which are told where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/commit/internal.h"
#include "scaledefrag/engine.h"
#include "scaledefrag/scan.h"
#include "support/faultdev.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64], dir[64];

/* *state: the recipe's name. */
static int make(void **state)
{
	const char *recipe = *state;

	snprintf(dir, sizeof(dir), "%s/kinds-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%.50s/image", dir);
	recipe_make(recipe, path);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

/* ---- MMP ---- */

static uint64_t mmp_at(void)
{
	struct ext2_super_block sb;

	image_read(path, 1024, &sb, sizeof(sb));
	return sb.s_mmp_block * 1024;
}

static void get_mmp(struct mmp_struct *m)
{
	image_read(path, mmp_at(), m, sizeof(*m));
}

/* As another node would write it. */
static void put_mmp(uint32_t seq, bool ours, const char *node)
{
	struct ext2_super_block sb;
	struct struct_ext2_filsys fs = { .super = &sb };
	struct mmp_struct m;

	image_read(path, 1024, &sb, sizeof(sb));
	fs.csum_seed = ext2fs_crc32c_le(~0u, sb.s_uuid, sizeof(sb.s_uuid));
	get_mmp(&m);
	m.mmp_seq = seq;
	m.mmp_pad2[0] = ours ? VOLUME_MMP_MARK(seq) : 0;
	snprintf((char *)m.mmp_nodename, sizeof(m.mmp_nodename), "%s", node);
	snprintf((char *)m.mmp_bdevname, sizeof(m.mmp_bdevname), "sdq1");
	assert_int_equal(ext2fs_mmp_csum_set(&fs, &m), 0);
	image_write(path, mmp_at(), &m, sizeof(m));
}

struct pauses {
	int n, intrude; /* the pause in which another node writes, from 1; 0: none */
	unsigned seconds;
	struct mmp_struct seen;
};

static void pause_by(void *ctx, unsigned seconds)
{
	struct pauses *p = ctx;

	p->n++;
	p->seconds = seconds;
	get_mmp(&p->seen);
	if (p->n == p->intrude)
		put_mmp(4242, false, "other\n");
}

static int run(struct pauses *p, bool dry, struct report *r, struct error *err)
{
	const struct engine_options o = {
		.volume = { .path = path, .pause = pause_by, .pause_ctx = p, .read_only = dry },
		.threads = 1,
		.queue_depth = 4,
		.clock = the_clock,
		.dry_run = dry,
	};
	int rc;

	*err = ERROR_INIT;
	rc = engine_run(&o, r, err);
	report_release(r);
	return rc;
}

static void *whole_image(size_t *size)
{
	FILE *f = fopen(path, "rb");
	void *data;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	fclose(f);
	data = malloc(*size);
	assert_non_null(data);
	image_read(path, 0, data, *size);
	return data;
}

static void assert_same(const void *before, size_t size)
{
	size_t now;
	void *data = whole_image(&now);

	assert_int_equal(now, size);
	assert_memory_equal(data, before, size);
	free(data);
}

static void test_mmp__a_run_claims_it_and_puts_it_back(void **state)
{
	struct pauses p = { 0 };
	struct mmp_struct before, after;
	struct report r;
	struct error err;

	(void)state;
	get_mmp(&before);
	assert_int_equal(run(&p, false, &r, &err), 0);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.seconds, 200 + 60); /* the recipe's interval */
	assert_true(p.seen.mmp_seq <= EXT4_MMP_SEQ_MAX && p.seen.mmp_seq > 0);
	assert_int_equal(p.seen.mmp_check_interval, 300);
	assert_int_equal(p.seen.mmp_pad2[0], VOLUME_MMP_MARK(p.seen.mmp_seq));
	assert_string_equal((char *)p.seen.mmp_bdevname, "image");
	assert_int_equal(p.seen.mmp_checksum, before.mmp_checksum);
	get_mmp(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* nothing to move: not even looked at twice */
	assert_int_equal(run(&p, false, &r, &err), 0);
	assert_int_equal(p.n, 1);
}

static void test_mmp__what_a_killed_run_left(void **state)
{
	struct pauses p = { 0 };
	struct mmp_struct after;
	struct report r;
	struct error err;
	size_t size;
	void *image;

	(void)state;
	put_mmp(77, true, "dead");
	image = whole_image(&size);
	assert_int_equal(run(&p, true, &r, &err), 0); /* waits, and writes nothing */
	assert_int_equal(p.n, 1);
	assert_same(image, size);
	free(image);
	assert_int_equal(run(&p, false, &r, &err), 0);
	assert_int_equal(p.n, 3);
	get_mmp(&after);
	assert_int_equal(after.mmp_seq, EXT4_MMP_SEQ_CLEAN);
	assert_string_equal((char *)after.mmp_nodename, "dead");
}

/* `seq`: what the block holds at first. */
static void refused(uint32_t seq, bool ours, int intrude, enum error_kind kind, const char *words)
{
	struct pauses p = { .intrude = intrude };
	struct report r;
	struct error err;
	struct mmp_struct m;
	size_t size;
	uint8_t *image;

	put_mmp(seq, ours, "first");
	image = whole_image(&size);
	assert_int_equal(run(&p, false, &r, &err), -1);
	if (err.kind != kind || !strstr(err.text, words))
		fail_msg("got %d '%s'; wanted '%s'", err.kind, err.text, words);
	/* Nothing but the block has changed: by the other node alone, if at all. */
	get_mmp(&m);
	assert_int_equal(m.mmp_seq, intrude ? 4242 : seq);
	memcpy(image + mmp_at(), &m, sizeof(m));
	assert_same(image, size);
	free(image);
}

static void test_mmp__others_use_it(void **state)
{
	(void)state;
	refused(EXT4_MMP_SEQ_FSCK, false, 0, ERROR_OPERATION, "where e2fsck is running");
	refused(123, true, 1, ERROR_OPERATION, "in use by node 'other\\x0a' (device 'sdq1')");
	/* what another program left is not ours to judge */
	refused(123, false, 0, ERROR_OPERATION, "in use by node 'first' (device 'sdq1'), says");
	/* while our own number is there to be seen */
	refused(EXT4_MMP_SEQ_CLEAN, false, 1, ERROR_OPERATION, "in use by node 'other");
}

static void test_mmp__another_node_takes_over(void **state)
{
	struct pauses p = { 0 };
	const struct volume_options vo = { .path = path, .pause = pause_by, .pause_ctx = &p };
	const struct commit_options co = { .queue_depth = 4, .clock = the_clock };
	struct error err = ERROR_INIT;
	struct mmp_struct one, two;
	struct volume *v = NULL;
	struct commit *c = NULL;
	uint8_t byte = 0;

	(void)state;
	assert_int_equal(volume_open(&vo, &v, &err), 0);
	assert_int_equal(commit_open(v, &co, &c, &err), 0);
	assert_int_equal(commit_begin(c, &err), 0);
	get_mmp(&one);
	assert_int_equal(mmp_keep(c->mmp, &err), 0);
	get_mmp(&two);
	assert_int_equal(two.mmp_seq, one.mmp_seq + 1);
	assert_false(commit_lost(c));
	put_mmp(99, true, "other");
	mmp_look_after(c->mmp); /* what the thread does when its time has come */
	assert_true(commit_lost(c));
	assert_int_equal(commit_end(c, &err), -1);
	assert_non_null(strstr(err.text, "node 'other'"));
	assert_int_equal(device_write(volume_device(v), &byte, 0, 1, &err), -1);
	commit_close(c);
	volume_close(v);
	get_mmp(&two);
	assert_int_equal(two.mmp_seq, 99);
}

/* While the run was scanning and planning. */
static void come_and_go(void *ctx, const char *line)
{
	(void)line;
	if (!(*(int *)ctx)++)
		put_mmp(EXT4_MMP_SEQ_CLEAN, false, "guest");
}

static void test_mmp__another_node_came_and_went(void **state)
{
	int lines = 0;
	const struct engine_options o = {
		.volume = { .path = path },
		.threads = 1,
		.queue_depth = 4,
		.clock = the_clock,
		.log = come_and_go,
		.observer_ctx = &lines,
	};
	struct error err = ERROR_INIT;
	struct mmp_struct m;
	struct report r;
	uint8_t *image;
	size_t size;

	(void)state;
	image = whole_image(&size);
	assert_int_equal(engine_run(&o, &r, &err), -1);
	report_release(&r);
	assert_int_equal(err.kind, ERROR_OPERATION);
	assert_non_null(strstr(err.text, "was used by another node meanwhile"));
	get_mmp(&m);
	assert_string_equal((char *)m.mmp_nodename, "guest");
	memcpy(image + mmp_at(), &m, sizeof(m));
	assert_same(image, size);
	free(image);
}

static int cancel_it(void *ctx)
{
	return ((const struct pauses *)ctx)->n > 0;
}

/* A library's caller says so by its own means, not by a signal. */
static void test_mmp__stopped_while_waiting(void **state)
{
	struct pauses p = { 0 };
	const struct engine_options o = {
		.volume = { .path = path, .pause = pause_by, .pause_ctx = &p },
		.threads = 1,
		.queue_depth = 4,
		.clock = the_clock,
		.cancel = cancel_it,
		.observer_ctx = &p,
	};
	struct error err = ERROR_INIT;
	struct mmp_struct before, after;
	struct report r;

	(void)state;
	get_mmp(&before);
	assert_int_equal(engine_run(&o, &r, &err), -1);
	report_release(&r);
	assert_int_equal(p.n, 1);
	assert_int_equal(err.kind, ERROR_STOPPED);
	assert_non_null(strstr(err.text, "stopped while waiting to see"));
	get_mmp(&after);
	assert_memory_equal(&before, &after, sizeof(before));
}

struct watch {
	int discards;	/* reports of progress */
	int given_back; /* those of them at which the block was not ours */
};

static void watch_discard(void *ctx, enum report_phase phase, uint64_t done, uint64_t total,
			  uint64_t so_far)
{
	struct watch *w = ctx;
	struct mmp_struct m;

	(void)done;
	(void)total;
	(void)so_far;
	if (phase != PHASE_DISCARD)
		return;
	get_mmp(&m);
	w->discards++;
	w->given_back += m.mmp_seq == EXT4_MMP_SEQ_CLEAN;
}

/* What is free for us may be in use as soon as another node may mount it. */
static void test_mmp__discards_come_before_it_is_given_back(void **state)
{
	struct pauses p = { 0 };

	(void)state;
	for (int moved = 1; moved >= 0; moved--) { /* and when there is nothing to move */
		struct watch w = { 0 };
		const struct engine_options o = {
			.volume = { .path = path, .pause = pause_by, .pause_ctx = &p },
			.threads = 1,
			.queue_depth = 4,
			.clock = the_clock,
			.discard = DISCARD_ALL,
			.progress = watch_discard,
			.observer_ctx = &w,
		};
		struct error err = ERROR_INIT;
		struct mmp_struct m;
		struct report r;

		assert_int_equal(engine_run(&o, &r, &err), 0);
		assert_int_equal(r.bytes_moved > 0, moved);
		report_release(&r);
		assert_true(w.discards > 0);
		assert_int_equal(w.given_back, 0);
		get_mmp(&m);
		assert_int_equal(m.mmp_seq, EXT4_MMP_SEQ_CLEAN);
	}
	assert_int_equal(p.n, 2); /* claimed twice */
}

static void test_mmp__broken(void **state)
{
	uint32_t zero = 0;

	(void)state;
	put_mmp(EXT4_MMP_SEQ_CLEAN, false, "x");
	image_write(path, mmp_at() + 16, "y", 1); /* the checksum */
	for (int i = 0; i < 2; i++) {
		struct pauses p = { 0 };
		struct report r;
		struct error err;

		assert_int_equal(run(&p, false, &r, &err), -1);
		assert_int_equal(err.kind, ERROR_FSCK);
		assert_non_null(strstr(err.text, "MMP block is broken; run: e2fsck -f"));
		put_mmp(EXT4_MMP_SEQ_CLEAN, false, "x");
		image_write(path, mmp_at(), &zero, 4);
	}
}

/* Nothing that a journal does is needed for it. */
static void test_mmp__no_journal(void **state)
{
	static const struct place second = { 0 };
	struct pauses p = { 0 };
	struct mmp_struct m;
	struct report r;
	struct error err;
	struct image *im;
	uint32_t ino;

	(void)state;
	image_mke2fs(path, 4 << 20, "mmp,^has_journal", "-b 1024 -N 64 -E mmp_update_interval=200");
	im = image_open(path);
	ino = image_put(im, IMAGE_ROOT, "second", &second, 60);
	image_close(im);
	if (run(&p, false, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.seen.mmp_pad2[0], VOLUME_MMP_MARK(p.seen.mmp_seq));
	get_mmp(&m);
	assert_int_equal(m.mmp_seq, EXT4_MMP_SEQ_CLEAN);
	image_fsck(path, "-fn", 0);
	im = image_open(path);
	assert_int_equal(image_file_block(im, ino, 59), image_file_block(im, ino, 0) + 59);
	image_close(im);
	/* and where another node comes in between, nothing is written but by that */
	image_mke2fs(path, 4 << 20, "mmp,^has_journal", "-b 1024 -N 64 -E mmp_update_interval=200");
	im = image_open(path);
	image_put(im, IMAGE_ROOT, "second", &second, 60);
	image_close(im);
	refused(EXT4_MMP_SEQ_CLEAN, false, 1, ERROR_OPERATION, "in use by node 'other");
}

/* ---- quota ---- */

static uint64_t quota_block(uint32_t ino, uint32_t lblk)
{
	struct image *im = image_open(path);
	uint64_t b = image_file_block(im, ino, lblk);

	image_close(im);
	return b;
}

static void broken_quota(uint32_t ino, uint64_t offset, const void *bytes, size_t len,
			 const char *words)
{
	uint64_t at = quota_block(ino, (uint32_t)(offset / 1024)) * 1024 + offset % 1024;
	struct pauses p = { 0 };
	struct report r;
	struct error err;
	uint8_t old[8];
	size_t size;
	void *image;

	image_read(path, at, old, len);
	image_write(path, at, bytes, len);
	image = whole_image(&size);
	assert_int_equal(run(&p, false, &r, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	if (!strstr(err.text, words) || !strstr(err.text, "run: e2fsck -f"))
		fail_msg("got '%s'; wanted '%s'", err.text, words);
	assert_same(image, size);
	free(image);
	image_write(path, at, old, len);
}

static void test_quota__broken_files_are_refused(void **state)
{
	const uint32_t far = 0x7fffffff, root = 1, self = 2, many = 1000;

	(void)state;
	broken_quota(3, 0, &far, 4, "its header is not known");
	broken_quota(4, 4, &far, 4, "its header is not known");
	broken_quota(3, 20, &many, 4, "shorter than its header says");
	broken_quota(3, 1024, &far, 4, "its tree points outside");
	broken_quota(3, 1024, &root, 4, "its tree points outside");
	broken_quota(3, 1024 + 4, &self, 4, "a block of its tree has two parents");
	broken_quota(4, 4 * 1024, &root, 4, "its tree points outside");
	/* an id of the tree that its block of entries does not have */
	broken_quota(3, 4 * 1024 + 255 * 4, &(uint32_t){ 5 }, 4,
		     "an id is not where its tree says");
}

static void test_quota__a_read_error_is_no_damage(void **state)
{
	struct faultdev *fd = faultdev_new();
	const struct engine_options o = {
		.volume = { .path = path,
			    .read_only = true,
			    .wrap = faultdev_wrap,
			    .wrap_ctx = fd },
		.threads = 1,
		.queue_depth = 4,
		.clock = the_clock,
		.dry_run = true,
	};
	uint64_t n = 0, fired;

	(void)state;
	do {
		struct error err = ERROR_INIT;
		struct report r;
		int rc;

		faultdev_set(fd, (struct fault_plan){ .op = FAULT_READ, .nth = ++n });
		rc = engine_run(&o, &r, &err);
		report_release(&r);
		fired = faultdev_fired(fd);
		if (rc && err.kind != ERROR_OPERATION)
			fail_msg("read %llu: %d '%s'", (unsigned long long)n, err.kind, err.text);
		assert_true(fired || rc == 0);
	} while (fired);
	assert_true(n > 20);
	faultdev_free(fd);
}

static void test_quota__usage_follows(void **state)
{
	struct pauses p = { 0 };
	struct report r;
	struct error err;

	(void)state;
	assert_int_equal(run(&p, false, &r, &err), 0);
	image_fsck(path, "-fn", 0);
}

/* A tree block takes a cluster, and so much less is used when it is given back. */
static void test_quota__usage_in_clusters(void **state)
{
	struct pauses p = { 0 };
	struct report r;
	struct error err;

	(void)state;
	assert_int_equal(run(&p, false, &r, &err), 0);
	image_fsck(path, "-fn", 0);
}

/* Neither the feature nor visible files, where a number of tree blocks may change. */
static void test_quota__no_journal(void **state)
{
	static const struct {
		const char *features, *file;
	} rows[] = {
		{ "^has_journal,quota", "a" },
		{ "^has_journal,quota,project", "a" },
		{ "^has_journal", "aquota.user" },
		{ "^has_journal", "aquota.group" },
	};
	static const struct place second = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pauses p = { 0 };
		struct report r;
		struct error err;
		struct image *im;
		size_t size;
		void *before;

		image_mke2fs(path, 4 << 20, rows[i].features, "-b 1024 -N 64");
		im = image_open(path);
		image_put(im, IMAGE_ROOT, rows[i].file, &second, 6);
		image_put(im, IMAGE_ROOT, "second", &second, 60);
		image_close(im);
		before = whole_image(&size);
		assert_int_equal(run(&p, false, &r, &err), -1);
		assert_int_equal(err.kind, ERROR_USAGE);
		if (!strstr(err.text, "not supported: quotas without a journal") ||
		    !strstr(err.text, "tune2fs -j "))
			fail_msg("got '%s'", err.text);
		assert_same(before, size);
		free(before);
	}
}

/* Projects are named in inodes, and nobody counts what they use. */
static void test_quota__no_journal_but_no_quota(void **state)
{
	static const struct place second = { 0 };
	struct pauses p = { 0 };
	struct report r;
	struct error err;
	struct image *im;

	(void)state;
	image_mke2fs(path, 4 << 20, "^has_journal,project", "-b 1024 -N 64");
	im = image_open(path);
	image_owner(im, image_put(im, IMAGE_ROOT, "second", &second, 60), 1, 2, 3);
	image_close(im);
	if (run(&p, false, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.bytes_moved > 0);
	image_fsck(path, "-fn", 0);
}

/* Indirect blocks are as many as before, and so nothing that quotas say changes. */
static void test_quota__no_journal_block_mapped(void **state)
{
	uint64_t at = quota_block(3, 0) * 1024;
	uint8_t before[1024 * 6], after[sizeof(before)];
	struct pauses p = { 0 };
	struct report r;
	struct error err;

	(void)state;
	image_read(path, at, before, sizeof(before));
	if (run(&p, false, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.bytes_moved > 0);
	image_fsck(path, "-fn", 0);
	image_read(path, at, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(before));
}

/* ---- swap files, in clusters ---- */

/* A file of 1 MiB in clusters far apart that says at the end of its page that it is swap. */
static uint32_t make_swap(const char *args, uint32_t cluster, uint32_t page)
{
	struct place apart = { 0 };
	uint8_t *data = calloc(1, 1 << 20);
	uint16_t mode = LINUX_S_IFREG | 0600;
	uint32_t ino, bs, n;
	uint64_t at;
	struct piece *piece;
	struct image *im;
	size_t n_piece;

	assert_non_null(data);
	memcpy(data + page - 10, "SWAPSPACE2", 10);
	image_mke2fs(path, 12 << 20, "bigalloc,^metadata_csum", args);
	im = image_open(path);
	bs = image_block_size(im);
	n = (1u << 20) / bs;
	apart.len = cluster / bs;
	ino = image_file(im, IMAGE_ROOT, "swap");
	n_piece = image_pick(im, &apart, n, &piece);
	image_map(im, ino, piece, n_piece, data, 1 << 20);
	at = image_inode_table(im) * bs + (ino - 1) * 256u;
	image_close(im);
	image_write(path, at, &mode, sizeof(mode));
	image_fsck(path, "-fn", 0);
	free(piece);
	free(data);
	return ino;
}

static uint64_t first_byte(uint32_t ino)
{
	struct image *im = image_open(path);
	uint64_t at = image_file_block(im, ino, 0) * image_block_size(im);

	image_close(im);
	return at;
}

static void test_swap__clusters(void **state)
{
	static const struct {
		const char *args;
		uint32_t cluster, page;
		bool moves;
	} rows[] = {
		{ "-b 1024 -C 8192 -N 64 -J size=1", 8192, 4096, true },
		{ "-b 4096 -C 65536 -N 64 -J size=4", 65536, 4096, true },
		/* Its page is larger than a cluster, and would have to be aligned. */
		{ "-b 1024 -C 2048 -N 64 -J size=1", 2048, 4096, false },
		{ "-b 1024 -C 8192 -N 64 -J size=1", 8192, 16384, false },
		{ "-b 1024 -C 8192 -N 64 -J size=1", 8192, 65536, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t ino = make_swap(rows[i].args, rows[i].cluster, rows[i].page);
		const struct engine_options o = { .volume = { .path = path },
						  .threads = 1,
						  .queue_depth = 4,
						  .clock = the_clock };
		uint64_t before = first_byte(ino), after;
		struct error err = ERROR_INIT;
		struct report r;

		if (engine_run(&o, &r, &err))
			fail_msg("row %zu: %s", i, err.text);
		after = first_byte(ino);
		if ((after != before) != rows[i].moves || r.n_swap != rows[i].moves)
			fail_msg("row %zu: it was at byte %llu, is at %llu; %zu are told", i,
				 (unsigned long long)before, (unsigned long long)after, r.n_swap);
		if (rows[i].moves) {
			assert_int_equal(r.swap[0].ino, ino);
			assert_int_equal(r.swap[0].block, after / 4096);
		}
		report_release(&r);
		image_fsck(path, "-fn", 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ON(recipe, t) cmocka_unit_test_prestate_setup_teardown(t, make, drop, recipe)
#define MMP(t)	      ON("mmp", t)
#define QUOTA(t)      ON("quota", t)
#define BARE(t)	      ON("clean", t) /* its test makes an image itself */
		MMP(test_mmp__a_run_claims_it_and_puts_it_back),
		MMP(test_mmp__what_a_killed_run_left),
		MMP(test_mmp__others_use_it),
		MMP(test_mmp__another_node_takes_over),
		MMP(test_mmp__another_node_came_and_went),
		MMP(test_mmp__stopped_while_waiting),
		MMP(test_mmp__discards_come_before_it_is_given_back),
		MMP(test_mmp__broken),
		QUOTA(test_quota__broken_files_are_refused),
		QUOTA(test_quota__a_read_error_is_no_damage),
		QUOTA(test_quota__usage_follows),
		ON("quotaclusters", test_quota__usage_in_clusters),
		BARE(test_quota__no_journal),
		BARE(test_quota__no_journal_but_no_quota),
		ON("quotabare", test_quota__no_journal_block_mapped),
		BARE(test_mmp__no_journal),
		BARE(test_swap__clusters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
