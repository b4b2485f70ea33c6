/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * commit: whole batches on small images, made by a simple planner of the test's own, judged by
 * e2fsck and by the content's digest; also cut anywhere, and with every write failing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/commit.h"
#include "support/faultdev.h"
#include "support/image.h"
#include "support/judge.h"
#include "support/recipes.h"
#include "support/recorder.h"
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUPER_AT 1024

struct rig {
	char dir[64], path[96];
	size_t size;
	uint8_t *start; /* the image before */
	struct recorder *rec;
	struct faultdev *fault;
	struct volume *v;
	const struct geometry *geo;
	struct commit *c;
	struct snapshot *snap;
	struct state *st;
	struct plan *plan;
	struct judge *judge;
	uint32_t align; /* of the device; 0: as it is */
	bool high; /* the test's planner takes the highest free run that fits, not the lowest */
};

static void die(const char *what, const struct error *err)
{
	fail_msg("%s: %s", what, err->text);
}

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000100;
	*nsec = 7;
}

static int wrap(void *ctx, struct device *inner, struct device **out, struct error *err)
{
	struct rig *r = ctx;
	struct device *middle;

	if (recorder_wrap(r->rec, inner, &middle, err))
		return -1;
	if (faultdev_wrap(r->fault, middle, out, err))
		return -1;
	if (r->align)
		(*out)->align = r->align;
	return 0;
}

static const struct commit_options options = { .queue_depth = 8, .clock = the_clock };

static void open_all(struct rig *r)
{
	struct error err = ERROR_INIT;
	const struct volume_options o = { .path = r->path, .wrap = wrap, .wrap_ctx = r };

	r->rec = recorder_new();
	r->fault = faultdev_new();
	if (volume_open(&o, &r->v, &err))
		die("volume_open", &err);
	r->geo = volume_geometry(r->v);
	if (commit_open(r->v, &options, &r->c, &err))
		die("commit_open", &err);
}

static void close_all(struct rig *r)
{
	state_free(r->st);
	snapshot_free(r->snap);
	plan_free(r->plan);
	commit_close(r->c);
	volume_close(r->v);
	recorder_free(r->rec);
	faultdev_free(r->fault);
	r->st = NULL;
	r->snap = NULL;
	r->plan = NULL;
	r->c = NULL;
	r->v = NULL;
}

static uint8_t *load(const struct rig *r)
{
	uint8_t *image = malloc(r->size);

	assert_non_null(image);
	image_read(r->path, 0, image, r->size);
	return image;
}

/* An image made by `recipe`, or (NULL) what lies at r->path already. */
static void rig_make(struct rig *r, const char *recipe)
{
	*r = (struct rig){ .dir = "/dev/shm/test_commit.XXXXXX" };
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/image", r->dir);
	if (recipe)
		recipe_make(recipe, r->path);
}

static void rig_start(struct rig *r)
{
	struct stat st;

	assert_int_equal(stat(r->path, &st), 0);
	r->size = (size_t)st.st_size;
	r->start = load(r);
	r->judge = judge_new(r->dir, r->size, NULL, NULL);
	judge_want(r->judge, r->path);
	open_all(r);
}

static void rig_close(struct rig *r)
{
	close_all(r);
	judge_free(r->judge);
	free(r->start);
	unlink(r->path);
	assert_int_equal(rmdir(r->dir), 0);
}

/* ---- a snapshot, read straight from the image ---- */

static void read_block(const struct rig *r, uint64_t block, uint8_t *buf)
{
	image_read(r->path, block * r->geo->block_size, buf, r->geo->block_size);
}

/* Decodes one level; nodes above are in map->tree->node[level]. */
static void read_level(const struct rig *r, struct filemap *map, uint32_t level)
{
	size_t per = r->geo->block_size / 12 + 1;
	uint8_t *buf = malloc(r->geo->block_size);
	struct tree_child *child = calloc(per, sizeof(*child));
	struct extent *ext = calloc(per, sizeof(*ext));

	for (size_t i = 0; i < map->tree->n_node[level]; i++) {
		struct tree_node *node = &map->tree->node[level][i];
		uint32_t lo;

		read_block(r, node->pblk, buf);
		memcpy(&lo, buf + 12, 4);
		assert_null(filemap_decode(buf, r->geo->block_size, level, lo, 1ull << 32,
					   r->geo->first_data_block, r->geo->blocks, ext, child,
					   &node->count));
		if (level == 0) {
			map->ext = realloc(map->ext, (map->n_ext + node->count) * sizeof(*ext));
			memcpy(map->ext + map->n_ext, ext, node->count * sizeof(*ext));
			map->n_ext += node->count;
			continue;
		}
		map->tree->node[level - 1] = realloc(map->tree->node[level - 1],
						     (map->tree->n_node[level - 1] + node->count) *
							     sizeof(struct tree_node));
		for (uint32_t k = 0; k < node->count; k++)
			map->tree->node[level - 1][map->tree->n_node[level - 1]++] =
				(struct tree_node){ .pblk = child[k].pblk };
	}
	free(buf);
	free(child);
	free(ext);
}

static struct filemap read_map(const struct rig *r, const uint8_t *root)
{
	struct filemap map = { 0 };
	struct extent ext[4];
	struct tree_child child[4];
	uint32_t n;

	map.depth = (uint8_t)filemap_decode_depth(root);
	assert_true(map.depth < EXTENT_MAX_DEPTH);
	assert_null(filemap_decode(root, 60, map.depth, 0, 1ull << 32, r->geo->first_data_block,
				   r->geo->blocks, ext, child, &n));
	if (map.depth == 0) {
		map.ext = calloc(n + 1, sizeof(*map.ext));
		memcpy(map.ext, ext, n * sizeof(*ext));
		map.n_ext = n;
		return map;
	}
	assert_int_equal(filemap_need_tree(&map, &ERROR_INIT), 0);
	map.tree->node[map.depth - 1] = calloc(n, sizeof(struct tree_node));
	map.tree->n_node[map.depth - 1] = n;
	for (uint32_t i = 0; i < n; i++)
		map.tree->node[map.depth - 1][i].pblk = child[i].pblk;
	for (uint32_t level = map.depth; level-- > 0;)
		read_level(r, &map, level);
	return map;
}

static bool wanted(ext2_filsys fs, uint32_t ino, const struct ext2_inode *inode)
{
	if (ino != EXT2_ROOT_INO && ino < EXT2_FIRST_INODE(fs->super))
		return false;
	if (ino == fs->super->s_orphan_file_inum || !inode->i_links_count)
		return false;
	return inode->i_flags & EXT4_EXTENTS_FL && !(inode->i_flags & EXT4_INLINE_DATA_FL);
}

static void take_snapshot(struct rig *r)
{
	struct error err = ERROR_INIT;
	struct snapshot *s = calloc(1, sizeof(*s));
	ext2_filsys fs;

	assert_int_equal(ext2fs_open(r->path, EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs), 0);
	assert_int_equal(ext2fs_read_bitmaps(fs), 0);
	s->geo = *r->geo;
	s->file = calloc(fs->super->s_inodes_count, sizeof(*s->file));
	assert_int_equal(rangeset_new(&s->free, &err), 0);
	assert_int_equal(rangeset_new(&s->fixed, &err), 0);
	assert_int_equal(rangeset_new(&s->avoid, &err), 0);
	for (uint64_t b = r->geo->first_data_block; b < r->geo->blocks; b++)
		if (!ext2fs_test_block_bitmap2(fs->block_map, b))
			assert_int_equal(rangeset_add(s->free, b, 1, &err), 0);
	for (uint32_t ino = 1; ino <= fs->super->s_inodes_count; ino++) {
		struct ext2_inode inode;

		if (!ext2fs_test_inode_bitmap2(fs->inode_map, ino))
			continue;
		assert_int_equal(ext2fs_read_inode(fs, ino, &inode), 0);
		if (wanted(fs, ino, &inode))
			s->file[s->n_file++] = (struct snapshot_file){
				.ino = ino,
				.map = read_map(r, (const uint8_t *)inode.i_block),
			};
	}
	ext2fs_free(fs);
	r->snap = s;
	if (state_new(s, &r->st, &err))
		die("state_new", &err);
}

/* ---- a plan: each file in turn to one free run that holds it whole ---- */

static bool find_run(const struct rig *r, const struct rangeset *fr, uint64_t len, uint64_t *at)
{
	struct range x;

	if (r->high) {
		for (uint64_t before = r->geo->blocks; rangeset_prev(fr, before, &x);
		     before = x.start)
			if (x.len >= len) {
				*at = x.start + x.len - len;
				return true;
			}
		return false;
	}
	for (uint64_t from = 0; rangeset_next(fr, from, &x); from = x.start + x.len)
		if (x.len >= len) {
			*at = x.start;
			return true;
		}
	return false;
}

static void note(uint64_t *key, size_t *n, uint64_t k)
{
	for (size_t i = 0; i < *n; i++)
		if (key[i] == k)
			return;
	key[(*n)++] = k;
}

/* Distinct metadata blocks of a batch, counted the slow way. */
static uint64_t count_blocks(const struct rig *r, const struct plan *p, const struct plan_batch *b)
{
	uint64_t *key = calloc(100000, sizeof(*key));
	size_t n = 0;

	for (uint64_t f = b->first_file; f < b->first_file + b->n_file; f++) {
		const struct plan_file *pf = &p->file[f];
		uint64_t index = (pf->ino - 1) % r->geo->inodes_per_group;

		note(key, &n,
		     1ull << 60 | (uint64_t)geometry_inode_group(r->geo, pf->ino) << 32 |
			     index * r->geo->inode_size / r->geo->block_size);
		for (uint64_t i = 0; i < pf->n_kept; i++)
			note(key, &n, p->node[pf->first_kept + i]);
		for (uint64_t i = 0; i < pf->n_taken; i++)
			note(key, &n, p->node[pf->first_taken + i]);
		for (uint64_t i = 0; i < pf->n_move + pf->n_freed + pf->n_taken; i++) {
			const struct move *m = &p->move[pf->first_move + i];
			uint64_t at[2], len = 1;

			if (i < pf->n_move) {
				at[0] = m->from;
				at[1] = m->to;
				len = m->len;
			} else if (i < pf->n_move + pf->n_freed) {
				at[0] = at[1] = p->node[pf->first_freed + i - pf->n_move];
			} else {
				at[0] = at[1] =
					p->node[pf->first_taken + i - pf->n_move - pf->n_freed];
			}
			for (int k = 0; k < 2; k++)
				for (uint64_t g = geometry_group_of(r->geo, at[k]);
				     g <= geometry_group_of(r->geo, at[k] + len - 1); g++) {
					note(key, &n, 2ull << 60 | g);
					note(key, &n, 3ull << 60 | g / r->geo->desc_per_block);
				}
		}
	}
	free(key);
	return n;
}

static size_t make_moves(const struct filemap *map, uint64_t at, struct move *m)
{
	for (size_t i = 0; i < map->n_ext; i++) {
		const struct extent *e = &map->ext[i];

		m[i] = (struct move){ .from = e->pblk,
				      .to = at,
				      .lblk = e->lblk,
				      .len = e->len,
				      .unwritten = e->unwritten };
		at += e->len;
	}
	return map->n_ext;
}

/* Appends the file to the last batch if there is room; blocks leave `fr`. */
static bool plan_one(struct rig *r, struct rangeset *fr, size_t index)
{
	struct error err = ERROR_INIT;
	const struct filemap *map = state_map(r->st, index);
	uint64_t blocks = filemap_blocks(map->ext, map->n_ext), at, take[64];
	struct move *m = calloc(map->n_ext + 1, sizeof(*m));
	struct filemap_delta d;
	struct filemap after;
	size_t n, need;
	bool ok = false;

	if (map->n_ext == 0 || !find_run(r, fr, blocks + 64, &at))
		goto out;
	for (int i = 0; i < 64; i++)
		take[i] = at + blocks + (uint64_t)i;
	n = make_moves(map, at, m);
	if (filemap_move(map, m, n, r->geo->block_size, true, take, 64, &need, &after, &d, &err))
		die("filemap_move", &err);
	if (plan_add_file(r->plan, r->snap->file[index].ino, true, m, n, &d, &err))
		die("plan_add_file", &err);
	assert_int_equal(rangeset_remove(fr, at, blocks + d.n_taken, &err), 0);
	filemap_release(&after);
	filemap_delta_release(&d);
	ok = true;
out:
	free(m);
	return ok;
}

/* One more batch: every file that finds room. */
static void plan_batch(struct rig *r, size_t max_files)
{
	struct error err = ERROR_INIT;
	struct rangeset *fr;
	struct plan_batch *b;
	size_t files = 0;

	if (!r->plan)
		assert_int_equal(plan_new(&r->plan, &err), 0);
	assert_int_equal(plan_begin_batch(r->plan, &err), 0);
	assert_int_equal(rangeset_clone(r->st->free, &fr, &err), 0);
	for (size_t i = 0; i < r->snap->n_file && files < max_files; i++)
		files += plan_one(r, fr, i);
	rangeset_free(fr);
	assert_true(files > 0);
	b = &r->plan->batch[r->plan->n_batch - 1];
	b->journal_blocks = count_blocks(r, r->plan, b);
	assert_true(b->journal_blocks <= commit_capacity(r->c));
}

/* The engine's copying, one block at a time. */
static int copy(struct rig *r, size_t batch, struct error *err)
{
	const struct plan_batch *b = &r->plan->batch[batch];
	uint32_t bs = r->geo->block_size;
	void *buf = device_buffer(bs);
	int rc = 0;

	for (uint64_t f = b->first_file; f < b->first_file + b->n_file; f++) {
		const struct plan_file *pf = &r->plan->file[f];

		for (uint64_t i = 0; i < pf->n_move && !rc; i++) {
			const struct move *m = &r->plan->move[pf->first_move + i];

			for (uint32_t k = 0; k < m->len && !m->unwritten && !rc; k++)
				rc = device_read(volume_device(r->v), buf, (m->from + k) * bs, bs,
						 err) ||
				     device_write(volume_device(r->v), buf, (m->to + k) * bs, bs,
						  err);
		}
	}
	free(buf);
	return rc ? -1 : 0;
}

static int run_batch(struct rig *r, size_t batch, struct error *err)
{
	if (commit_guard(r->c, r->plan, batch, false, r->st, err) || commit_begin(r->c, err) ||
	    (batch % 2 && commit_prepare(r->c, r->plan, batch, r->st, err)) ||
	    copy(r, batch, err) || commit_batch(r->c, r->plan, batch, NULL, r->st, err))
		return -1;
	return plan_apply(r->plan, batch, NULL, r->st, err);
}

static void must_run(struct rig *r, size_t batches, size_t max_files)
{
	struct error err = ERROR_INIT;

	if (!r->snap)
		take_snapshot(r);
	for (size_t i = 0; i < batches; i++) {
		plan_batch(r, max_files);
		if (run_batch(r, i, &err))
			die("batch", &err);
		r->high = !r->high; /* there and back: freed blocks are used again */
	}
	if (commit_end(r->c, &err))
		die("commit_end", &err);
}

static void must_judge(struct rig *r, const uint8_t *image, enum judge_how how, const char *what)
{
	judge_load(r->judge, image);
	if (judge_check(r->judge, how) == JUDGE_BAD)
		fail_msg("%s, %s: %s", what, judge_how_name(how), judge_why(r->judge));
}

/* e2fsck neither complains nor would like a tree to be smaller. */
static void check_minimal(const struct rig *r)
{
	const char *const argv[] = { "e2fsck", "-fn", r->path, NULL };
	char text[16384] = "";
	int fd = memfd_create("output", MFD_CLOEXEC);

	assert_int_equal(image_run(argv, fd), 0);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	close(fd);
	if (strstr(text, "could be") || strstr(text, "wrong"))
		fail_msg("%s", text);
}

static void check_result(struct rig *r, const char *what)
{
	uint8_t *image = load(r);
	size_t moved = 0;

	must_judge(r, image, JUDGE_AS_IS, what);
	check_minimal(r);
	assert_int_equal(image[SUPER_AT + 0x60] & 4, 0); /* needs_recovery */
	for (size_t i = 0; i < r->snap->n_file; i++) {
		const struct filemap *now = state_map(r->st, i);

		moved += now->n_ext && now->ext[0].pblk != r->snap->file[i].map.ext[0].pblk;
	}
	assert_true(moved > 0);
	free(image);
}

static void test_commit_batch__images(void **state)
{
	static const char *const names[] = { "base4k", "base1k", "nocsum2k", "old",    "ext3like",
					     "metabg", "shrink", "dirs",     "sparse", "torn",
					     "escape", "stale",	 "many",     "uninit", "features" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct commit_counters c;
		struct rig r;

		rig_make(&r, names[i]);
		rig_start(&r);
		must_run(&r, 3, 60);
		commit_get_counters(r.c, &c);
		assert_int_equal(c.transactions, 3);
		assert_int_equal(c.flushes, 3 * 4 + 2);
		assert_true(c.updates >= c.blocks_logged);
		check_result(&r, names[i]);
		rig_close(&r);
	}
}

static uint32_t next_random(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* All up to flush number `cut`, and of what follows up to the next one a random part of the
 * sectors (seed 0: none). */
static uint8_t *cut_image(const struct rig *r, size_t cut, uint32_t seed)
{
	uint8_t *image = malloc(r->size);
	size_t n, flushes = 0;
	const struct recorder_event *e = recorder_trace(r->rec, &n);
	uint32_t odds = seed ? next_random(&seed) % 256 : 0;

	assert_non_null(image);
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

static void test_commit_batch__cut_anywhere(void **state)
{
	static const char *const names[] = { "base1k", "nocsum2k", "shrink", "torn" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct rig r;
		char what[64];

		rig_make(&r, names[i]);
		rig_start(&r);
		must_run(&r, 2, 60);
		for (size_t cut = 0; cut <= 10; cut++)
			for (uint32_t seed = 0; seed < 4; seed++) {
				uint8_t *image = cut_image(&r, cut, seed * 104729);

				snprintf(what, sizeof(what), "%s cut %zu seed %u", names[i], cut,
					 seed);
				must_judge(&r, image, seed & 1 ? JUDGE_PREEN : JUDGE_REPLAY, what);
				free(image);
			}
		rig_close(&r);
	}
}

/* Nothing of the superblock is in a transaction, and its own writes change one sector (I4). */
static void test_commit_end__superblock_writes(void **state)
{
	static const char *const names[] = { "base4k", "base4k", "base1k", "ext3like", "torn" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct recorder_event *e;
		size_t n, writes = 0;
		uint8_t *now;
		struct rig r;

		rig_make(&r, names[i]);
		r.align = i == 0 ? 4096 : 0;
		rig_start(&r);
		must_run(&r, 2, 5);
		now = malloc(r.size);
		memcpy(now, r.start, r.size);
		e = recorder_trace(r.rec, &n);
		for (size_t k = 0; k < n; k++) {
			uint64_t end = e[k].offset + e[k].len;

			if (e[k].kind != RECORDER_WRITE)
				continue;
			if (e[k].offset < SUPER_AT + 1024 && end > SUPER_AT) {
				const uint8_t *data = e[k].data;

				writes++;
				for (uint64_t at = e[k].offset; at < end; at++)
					if (at < SUPER_AT || at >= SUPER_AT + 512)
						assert_int_equal(data[at - e[k].offset], now[at]);
			}
			memcpy(now + e[k].offset, e[k].data, e[k].len);
		}
		assert_int_equal(writes, 2);
		free(now);
		rig_close(&r);
	}
}

/* A run that begins and is killed leaves a file system that fsck takes as it is; the next one
 * clears the flag, and one that changes nothing leaves no trace. */
static void test_commit_begin__then_killed(void **state)
{
	static const char *const names[] = { "base1k", "base4k", "nocsum2k", "torn" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct error err = ERROR_INIT;
		uint8_t *image;
		struct rig r;

		rig_make(&r, names[i]);
		rig_start(&r);
		assert_int_equal(commit_end(r.c, &err), 0); /* without begin: nothing */
		if (commit_begin(r.c, &err) || commit_begin(r.c, &err))
			die("begin", &err);
		image = load(&r);
		assert_int_equal(image[SUPER_AT + 0x60] & 4, 4);
		must_judge(&r, image, JUDGE_PREEN, names[i]);
		if (commit_end(r.c, &err))
			die("end", &err);
		free(image);
		image = load(&r);
		assert_memory_equal(image, r.start, r.size);
		free(image);
		if (commit_begin(r.c, &err))
			die("begin", &err);
		close_all(&r); /* killed */
		open_all(&r);
		must_run(&r, 1, 60);
		check_result(&r, names[i]);
		rig_close(&r);
	}
}

static void set_last_mounted(const char *path, char c, size_t n, uint32_t errors)
{
	ext2_filsys fs;

	assert_int_equal(
		ext2fs_open(path, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs), 0);
	memset(fs->super->s_last_mounted, 0, sizeof(fs->super->s_last_mounted));
	memset(fs->super->s_last_mounted, c, n);
	fs->super->s_error_count = errors;
	ext2fs_mark_super_dirty(fs);
	fs->flags |= EXT2_FLAG_SUPER_ONLY;
	assert_int_equal(ext2fs_close(fs), 0);
}

static void test_commit_open__no_room_in_superblock(void **state)
{
	struct error err = ERROR_INIT;
	struct volume_options o = { 0 };
	struct rig r;

	(void)state;
	rig_make(&r, "base1k");
	o.path = r.path;
	set_last_mounted(r.path, 'x', 60, 3);
	if (volume_open(&o, &r.v, &err))
		die("volume_open", &err);
	assert_int_equal(commit_open(r.v, &options, &r.c, &err), -1);
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_non_null(strstr(err.text, "tune2fs -M"));
	volume_close(r.v);
	set_last_mounted(r.path, 'x', 59, 3);
	if (volume_open(&o, &r.v, &err) || commit_open(r.v, &options, &r.c, &err))
		die("commit_open", &err);
	commit_close(r.c);
	volume_close(r.v);
	unlink(r.path);
	rmdir(r.dir);
}

static void expect_guard(struct rig *r, const char *text)
{
	struct error err = ERROR_INIT;
	uint8_t *before = load(r), *after;

	if (commit_guard(r->c, r->plan, 0, false, r->st, &err) == 0)
		fail_msg("not noticed: %s", text);
	assert_int_equal(err.kind, ERROR_OPERATION);
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
	after = load(r);
	assert_memory_equal(before, after, r->size);
	free(before);
	free(after);
}

static void flip_bit(const struct rig *r, uint64_t byte, uint8_t mask)
{
	uint8_t x;

	image_read(r->path, byte, &x, 1);
	x ^= mask;
	image_write(r->path, byte, &x, 1);
}

/* I13, each thing that a plan rests on changed behind its back. */
static void test_commit_guard__notices(void **state)
{
	struct error err = ERROR_INIT;
	struct plan_file *f;
	const struct filemap *map;
	struct extent *ext;
	uint64_t node;
	struct rig r;

	(void)state;
	rig_make(&r, "shrink");
	rig_start(&r);
	take_snapshot(&r);
	plan_batch(&r, 60);
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);

	/* a block of a leaf that is not what the state says */
	f = &r.plan->file[r.plan->n_file - 1];
	map = &snapshot_find(r.snap, f->ino)->map;
	assert_true(map->depth > 0);
	node = map->tree->node[0][0].pblk * r.geo->block_size;
	flip_bit(&r, node + 12 + 8, 1); /* start of the first record */
	expect_guard(&r, "another entry");
	flip_bit(&r, node + 12 + 8, 1);
	flip_bit(&r, node + 2, 1);
	expect_guard(&r, "entries");
	flip_bit(&r, node + 2, 1);
	flip_bit(&r, node + r.geo->block_size - 1, 1);
	expect_guard(&r, "checksum");
	flip_bit(&r, node + r.geo->block_size - 1, 1);

	/* the state is wrong */
	ext = &((struct snapshot_file *)snapshot_find(r.snap, f->ino))->map.ext[3];
	ext->pblk++;
	expect_guard(&r, "inode");
	ext->pblk--;
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);
	rig_close(&r);
}

static void test_commit_guard__target_in_use(void **state)
{
	struct error err = ERROR_INIT;
	uint64_t to, table;
	struct rig r;

	(void)state;
	rig_make(&r, "base1k");
	rig_start(&r);
	take_snapshot(&r);
	plan_batch(&r, 60);
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);
	to = r.plan->move[0].to;
	r.plan->move[0].to = r.plan->move[0].from; /* in use, and used twice */
	expect_guard(&r, "internal error");
	r.plan->move[0].to = r.geo->first_data_block;
	expect_guard(&r, "should be free");
	r.plan->move[0].to = r.geo->blocks;
	expect_guard(&r, "outside");
	r.plan->move[0].to = UINT64_MAX;
	expect_guard(&r, "inode");
	r.plan->move[0].to = to;
	/* descriptors that changed on the disk */
	table = (r.geo->first_data_block + 1) * (uint64_t)r.geo->block_size;
	flip_bit(&r, table + 0x12, 4);
	expect_guard(&r, "descriptors");
	flip_bit(&r, table + 0x12, 4);
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);
	rig_close(&r);
}

/* Copies of the next batch that would be written while this one is committed. */
static void test_commit_guard__early_target(void **state)
{
	struct move m = { .lblk = 0, .len = 1, .from = 1 };
	struct filemap_delta none = { 0 };
	struct error err = ERROR_INIT;
	struct range r0;
	struct rig r;
	uint64_t *to;

	(void)state;
	rig_make(&r, "base1k");
	rig_start(&r);
	take_snapshot(&r);
	plan_batch(&r, 60);
	assert_int_equal(plan_begin_batch(r.plan, &err), 0);
	assert_int_equal(plan_add_file(r.plan, 12, true, &m, 1, &none, &err), 0);
	to = &r.plan->move[r.plan->n_move - 1].to;

	*to = r.geo->first_data_block; /* in use */
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);
	assert_int_equal(commit_guard(r.c, r.plan, 0, true, r.st, &err), -1);
	assert_non_null(strstr(err.text, "should be free"));
	*to = r.plan->move[0].to; /* this batch takes it */
	assert_int_equal(commit_guard(r.c, r.plan, 0, true, r.st, &err), -1);
	assert_non_null(strstr(err.text, "twice"));
	*to = r.plan->move[0].from; /* it gives it back, so that the copy is not early */
	assert_int_equal(commit_guard(r.c, r.plan, 0, true, r.st, &err), 0);
	assert_true(rangeset_longest(r.st->free, &r0));
	*to = r0.start + r0.len - 1;
	assert_int_equal(commit_guard(r.c, r.plan, 0, true, r.st, &err), 0);
	rig_close(&r);
}

/* A tree shrinks, but the inode says that it has no blocks at all. */
static void test_commit_guard__wrong_count(void **state)
{
	struct error err = ERROR_INIT;
	struct rig r;

	(void)state;
	rig_make(&r, "shrink");
	assert_int_equal(image_run((const char *const[]){ "debugfs", "-w", "-R",
							  "sif deep blocks 0", r.path, NULL },
				   -1),
			 0);
	rig_start(&r);
	take_snapshot(&r);
	plan_batch(&r, 60);
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), -1);
	assert_int_equal(err.kind, ERROR_FSCK);
	assert_non_null(strstr(err.text, "its count of blocks is wrong"));
	rig_close(&r);
}

static size_t count_writes(const struct rig *r)
{
	size_t n, writes = 0;
	const struct recorder_event *e = recorder_trace(r->rec, &n);

	for (size_t i = 0; i < n; i++)
		writes += e[i].kind == RECORDER_WRITE;
	return writes;
}

static void test_commit_batch__skipped_files(void **state)
{
	struct error err = ERROR_INIT;
	bool skip[64];
	uint8_t *image;
	size_t before;
	struct rig r;

	(void)state;
	rig_make(&r, "base1k");
	rig_start(&r);
	take_snapshot(&r);
	plan_batch(&r, 60);
	assert_true(r.plan->n_file > 2 && r.plan->n_file <= 64);
	assert_int_equal(commit_guard(r.c, r.plan, 0, false, r.st, &err), 0);
	assert_int_equal(commit_begin(r.c, &err), 0);
	assert_int_equal(copy(&r, 0, &err), 0);
	before = count_writes(&r);
	memset(skip, 1, sizeof(skip));
	assert_int_equal(commit_batch(r.c, r.plan, 0, skip, r.st, &err), 0);
	assert_int_equal(count_writes(&r), before);
	skip[1] = false;
	if (commit_batch(r.c, r.plan, 0, skip, r.st, &err) ||
	    plan_apply(r.plan, 0, skip, r.st, &err) || commit_end(r.c, &err))
		die("batch", &err);
	image = load(&r);
	must_judge(&r, image, JUDGE_AS_IS, "one of many");
	free(image);
	rig_close(&r);
}

/* What was made ahead for all files is of no use when one is left out, or the run stops. */
static void test_commit_prepare__forgotten(void **state)
{
	static const char *const names[] = { "base1k", "old", "metabg", "shrink", "uninit" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct error err = ERROR_INIT;
		struct commit_counters c;
		bool skip[64] = { false, true };
		uint8_t *image;
		struct rig r;

		rig_make(&r, names[i]);
		rig_start(&r);
		take_snapshot(&r);
		plan_batch(&r, 60);
		assert_true(r.plan->n_file > 1 && r.plan->n_file <= 64);
		if (commit_guard(r.c, r.plan, 0, false, r.st, &err) || commit_begin(r.c, &err) ||
		    copy(&r, 0, &err) || commit_prepare(r.c, r.plan, 0, r.st, &err) ||
		    commit_batch(r.c, r.plan, 0, skip, r.st, &err) ||
		    plan_apply(r.plan, 0, skip, r.st, &err))
			die("batch", &err);
		commit_get_counters(r.c, &c);
		assert_int_equal(c.transactions, 1);
		r.high = !r.high;
		plan_batch(&r, 60);
		if (commit_prepare(r.c, r.plan, 1, r.st, &err) ||
		    commit_prepare(r.c, r.plan, 1, r.st, &err) || commit_end(r.c, &err))
			die("stopped", &err);
		check_result(&r, names[i]);
		image = load(&r);
		must_judge(&r, image, JUDGE_PREEN, names[i]);
		free(image);
		rig_close(&r);
	}
}

/* The plan's own numbers are wrong: found before anything of the batch is written. */
static void test_commit_batch__wrong_plan(void **state)
{
	(void)state;
	for (int what = 0; what < 3; what++) {
		struct error err = ERROR_INIT;
		uint8_t *image;
		size_t before;
		struct rig r;

		rig_make(&r, "shrink");
		rig_start(&r);
		take_snapshot(&r);
		plan_batch(&r, 60);
		if (what == 0)
			r.plan->batch[0].journal_blocks--;
		else if (what == 1)
			r.plan->file[r.plan->n_file - 1].n_freed--;
		else
			r.plan->move[0].from++;
		assert_int_equal(commit_begin(r.c, &err), 0);
		before = count_writes(&r);
		assert_int_equal(commit_batch(r.c, r.plan, 0, NULL, r.st, &err), -1);
		assert_int_equal(err.kind, ERROR_OPERATION);
		assert_int_equal(count_writes(&r), before);
		if (commit_end(r.c, &err)) /* nothing happened, and so it says */
			die("commit_end", &err);
		image = load(&r);
		must_judge(&r, image, JUDGE_AS_IS, "wrong plan");
		free(image);
		rig_close(&r);
	}
}

/* I12: whatever fails, nothing is written after it, and fsck -p puts it in order. */
static void test_commit_batch__each_operation_fails(void **state)
{
	static const enum fault_op ops[] = { FAULT_WRITE, FAULT_FLUSH, FAULT_READ };
	static const char *const op_names[] = { "write", "flush", "read" };

	(void)state;
	for (size_t o = 0; o < 3; o++) {
		bool failed = true;

		for (uint64_t nth = 1; failed; nth += o == 2 || nth > 20 ? 7 : 1) {
			struct error err = ERROR_INIT, end = ERROR_INIT;
			uint8_t *image;
			char what[64];
			size_t before;
			struct rig r;

			rig_make(&r, "base1k");
			rig_start(&r);
			take_snapshot(&r);
			plan_batch(&r, 3);
			faultdev_set(r.fault,
				     (struct fault_plan){ .op = ops[o], .nth = nth, .torn = true });
			failed = run_batch(&r, 0, &err) != 0;
			snprintf(what, sizeof(what), "%s %d fails", op_names[o], (int)nth);
			if (failed) {
				assert_int_equal(err.kind, ERROR_OPERATION);
				assert_true(strlen(err.text) > 10);
				before = count_writes(&r);
				/* A copy or a read for the guard is no reason to stop here. */
				if (commit_begin(r.c, &end) == -1) {
					assert_int_equal(commit_end(r.c, &end), -1);
					assert_non_null(strstr(end.text, "e2fsck -p"));
					assert_int_equal(count_writes(&r), before);
					/* nor do those who copy ahead write any more */
					if (ops[o] != FAULT_READ)
						assert_true(atomic_load(&volume_device(r.v)->dead));
				}
				image = load(&r);
				must_judge(&r, image, JUDGE_PREEN, what);
				free(image);
			}
			rig_close(&r);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commit_open__no_room_in_superblock),
		cmocka_unit_test(test_commit_begin__then_killed),
		cmocka_unit_test(test_commit_guard__notices),
		cmocka_unit_test(test_commit_guard__target_in_use),
		cmocka_unit_test(test_commit_guard__early_target),
		cmocka_unit_test(test_commit_guard__wrong_count),
		cmocka_unit_test(test_commit_batch__images),
		cmocka_unit_test(test_commit_batch__skipped_files),
		cmocka_unit_test(test_commit_prepare__forgotten),
		cmocka_unit_test(test_commit_batch__wrong_plan),
		cmocka_unit_test(test_commit_end__superblock_writes),
		cmocka_unit_test(test_commit_batch__cut_anywhere),
		cmocka_unit_test(test_commit_batch__each_operation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
