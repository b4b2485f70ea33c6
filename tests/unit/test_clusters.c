/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bigalloc: records in blocks and stretches of clusters, through model, planner, verify and commit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* It has a function with the name of CMocka's macro. */
#pragma push_macro("fail")
#undef fail
#define fail ordered_fail
#include "../../src/commit/ordered.c"
#undef fail
#pragma pop_macro("fail")

#include "../../src/commit/proof.h"
#include "scaledefrag/commit.h"
#include "scaledefrag/planner.h"
#include "scaledefrag/scan.h"
#include "support/image.h"
#include "support/plancheck.h"
#include "support/randomvol.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_SIZE 1024u
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

/* lblk, len, pblk, unwritten */
#define REC(l, n, p, u)                                                                            \
	{                                                                                          \
		.pblk = (p), .lblk = (l), .len = (n), .unwritten = (u)                             \
	}

static struct filemap map_of(const struct extent *rec, size_t n)
{
	struct filemap m = { .n_ext = (uint32_t)n, .ext = malloc(n * sizeof(*rec)) };

	assert_non_null(m.ext);
	memcpy(m.ext, rec, n * sizeof(*rec));
	return m;
}

static bool same(const struct extent *a, size_t n, const struct extent *b, size_t n_b)
{
	bool yes = n == n_b;

	for (size_t i = 0; i < n && yes; i++)
		yes = a[i].lblk == b[i].lblk && a[i].pblk == b[i].pblk && a[i].len == b[i].len &&
		      a[i].unwritten == b[i].unwritten;
	return yes;
}

/* Clusters of 4: two records in one; one that ends in a cluster; a hole of whole clusters; a
 * cluster of which a part is written; an unwritten one; then the file goes on elsewhere. */
static const struct extent mixed[] = {
	REC(1, 2, 41, 0),  REC(3, 3, 43, 0),  REC(16, 4, 48, 0), REC(20, 1, 52, 0),
	REC(22, 2, 54, 1), REC(24, 6, 56, 1), REC(32, 8, 80, 0),
};
static const struct extent mixed_stretches[] = {
	REC(0, 2, 10, 0),
	REC(4, 2, 12, 0),
	REC(6, 2, 14, 1),
	REC(8, 2, 20, 0),
};

static struct filemap mixed_map(void)
{
	struct filemap m = map_of(mixed, COUNT(mixed));
	struct tree_node leaf = { .pblk = 200, .count = COUNT(mixed) };
	struct error err = ERROR_INIT;
	const char *wrong = NULL;

	m.depth = 1;
	assert_int_equal(filemap_need_tree(&m, &err), 0);
	m.tree->n_node[0] = 1;
	m.tree->node[0] = malloc(sizeof(leaf));
	assert_non_null(m.tree->node[0]);
	m.tree->node[0][0] = leaf;
	assert_int_equal(filemap_to_clusters(&m, 4, &wrong, &err), 0);
	return m;
}

static void test_filemap_to_clusters__whole_clusters(void **state)
{
	struct filemap m = mixed_map(), blocks;
	struct error err = ERROR_INIT;
	const struct extent *rec;
	size_t n;

	(void)state;
	assert_true(same(m.ext, m.n_ext, mixed_stretches, COUNT(mixed_stretches)));
	assert_int_equal(m.tree->node[0][0].pblk, 50);
	rec = filemap_records(&m, &n);
	assert_true(same(rec, n, mixed, COUNT(mixed)));
	assert_int_equal(filemap_runs(m.ext, m.n_ext), 2);
	assert_null(filemap_check(&m, BLOCK_SIZE));
	assert_int_equal(filemap_in_blocks(&m, &blocks, &err), 0);
	assert_false(blocks.in_clusters);
	assert_true(same(blocks.ext, blocks.n_ext, mixed, COUNT(mixed)));
	assert_int_equal(blocks.tree->node[0][0].pblk, 200);
	filemap_release(&blocks);
	filemap_release(&m);
}

static void misfit(const struct extent *rec, size_t n, uint64_t node, const char *why)
{
	struct filemap m = map_of(rec, n);
	struct error err = ERROR_INIT;
	const char *wrong = NULL;

	if (node) {
		m.depth = 1;
		assert_int_equal(filemap_need_tree(&m, &err), 0);
		m.tree->n_node[0] = 1;
		m.tree->node[0] = calloc(1, sizeof(struct tree_node));
		assert_non_null(m.tree->node[0]);
		m.tree->node[0][0] = (struct tree_node){ .pblk = node, .count = (uint32_t)n };
	}
	assert_int_equal(filemap_to_clusters(&m, 4, &wrong, &err), -1);
	assert_string_equal(wrong, why);
	filemap_release(&m);
}

static void test_filemap_to_clusters__misfits(void **state)
{
	const struct extent shifted[] = { REC(0, 4, 41, 0) };
	const struct extent torn[] = { REC(0, 2, 40, 0), REC(2, 2, 82, 0) };
	const struct extent fine[] = { REC(0, 4, 40, 0) };

	(void)state;
	misfit(shifted, 1, 0, "a record does not fit its cluster");
	misfit(torn, 2, 0, "blocks of one cluster lie in two");
	misfit(fine, 1, 201, "a tree block does not begin a cluster");
}

/* The most records and the most blocks that one stretch has. */
static void test_filemap_to_clusters__long_files_in_stretches(void **state)
{
	struct extent rec[1000];
	struct error err = ERROR_INIT;
	const char *wrong = NULL;
	struct filemap m;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		rec[i] = (struct extent)REC(4 * i, 3, 4000 + 4 * i, 0);
	m = map_of(rec, 1000);
	assert_int_equal(filemap_to_clusters(&m, 4, &wrong, &err), 0);
	assert_true(m.n_ext >= 4 && m.n_ext <= 8);
	assert_int_equal(filemap_runs(m.ext, m.n_ext), 1);
	assert_int_equal(filemap_blocks(m.ext, m.n_ext), 1000);
	filemap_release(&m);
	for (uint32_t i = 0; i < 10; i++)
		rec[i] = (struct extent)REC(32768 * i, 32768, 65536 + 32768 * i, 0);
	m = map_of(rec, 10);
	assert_int_equal(filemap_to_clusters(&m, 1024, &wrong, &err), 0);
	assert_int_equal(m.n_ext, 10);
	assert_int_equal(m.ext[3].len, 32);
	filemap_release(&m);
}

static int try_move(const struct filemap *in, const struct move *m, size_t n, struct filemap *out,
		    struct filemap_delta *d, struct error *err)
{
	size_t need = 0;

	return filemap_move(in, m, n, BLOCK_SIZE, FILEMAP_MINIMAL, NULL, 0, &need, out, d, err);
}

static void test_filemap_move__records_follow(void **state)
{
	/* The second stretch behind the first, and the last one behind that: 4 clusters later. */
	const struct move m[] = { { .from = 12, .to = 30, .lblk = 4, .len = 2 },
				  { .from = 20, .to = 32, .lblk = 8, .len = 2 } };
	const struct extent rec[] = {
		REC(1, 2, 41, 0),   REC(3, 3, 43, 0),  REC(16, 4, 120, 0), REC(20, 1, 124, 0),
		REC(22, 2, 126, 1), REC(24, 6, 56, 1), REC(32, 8, 128, 0),
	};
	struct filemap in = mixed_map(), out;
	struct error err = ERROR_INIT;
	struct filemap_delta d;
	const struct extent *after;
	size_t n;

	(void)state;
	if (try_move(&in, m, 2, &out, &d, &err))
		fail_msg("%s", err.text);
	after = filemap_records(&out, &n);
	/* What adjoins becomes one record. */
	assert_int_equal(n, 5);
	assert_true(same(after, 1, (const struct extent[]){ REC(1, 5, 41, 0) }, 1));
	assert_true(same(after + 1, 1, (const struct extent[]){ REC(16, 5, 120, 0) }, 1));
	assert_true(same(after + 2, 3, rec + 4, 3));
	assert_int_equal(out.ext[1].pblk, 30);
	assert_int_equal(d.n_kept, 1);
	assert_int_equal(d.kept[0], 50);
	filemap_delta_release(&d);
	filemap_release(&out);
	filemap_release(&in);
}

static void test_filemap_move__what_is_not_there(void **state)
{
	const struct move wrong[] = {
		{ .from = 12, .to = 30, .lblk = 2, .len = 2 },		       /* a hole */
		{ .from = 11, .to = 30, .lblk = 1, .len = 2 },		       /* and half of one */
		{ .from = 13, .to = 30, .lblk = 4, .len = 1 },		       /* elsewhere */
		{ .from = 12, .to = 30, .lblk = 4, .len = 2, .unwritten = 1 }, /* written in part */
		{ .from = 14, .to = 30, .lblk = 6, .len = 2 },		       /* unwritten */
	};
	struct filemap in = mixed_map(), out;

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct error err = ERROR_INIT;
		struct filemap_delta d;

		assert_int_equal(try_move(&in, &wrong[i], 1, &out, &d, &err), -1);
		assert_int_equal(err.kind, ERROR_OPERATION);
	}
	filemap_release(&in);
}

/* ---- text, planner, verify, proof ---- */

static int append(void *ctx, const char *text)
{
	char **all = ctx;
	size_t len = *all ? strlen(*all) : 0;

	*all = realloc(*all, len + strlen(text) + 1);
	assert_non_null(*all);
	strcpy(*all + len, text);
	return 0;
}

static void check_text(const struct snapshot *s)
{
	struct error err = ERROR_INIT;
	struct snapshot *again;
	char *a = NULL, *b = NULL;

	assert_int_equal(snapshot_write(s, append, &a), 0);
	if (snapshot_parse(a, &again, &err))
		fail_msg("%s", err.text);
	assert_int_equal(snapshot_write(again, append, &b), 0);
	assert_string_equal(a, b);
	free(a);
	free(b);
	snapshot_free(again);
}

/* The proof of the commit, for the file's new mapping. */
static void check_proof(const struct snapshot *s, const struct plan *p, const struct plan_file *f,
			const struct state *st, uint64_t seed)
{
	size_t index = (size_t)(snapshot_find(s, f->ino) - s->file), need = 0;
	struct filemap after, a, b;
	struct filemap_delta d;
	struct error err = ERROR_INIT;
	const char *wrong;
	const struct move *m = p->move + f->first_move;

	assert_int_equal(filemap_move(state_map(st, index), m, f->n_move, BLOCK_SIZE,
				      plan_how(f, s->geo.ordered), p->node + f->first_taken,
				      f->n_taken, &need, &after, &d, &err),
			 0);
	assert_int_equal(filemap_in_blocks(state_map(st, index), &a, &err), 0);
	assert_int_equal(filemap_in_blocks(&after, &b, &err), 0);
	wrong = proof_mapping(&a, m, f->n_move, s->geo.cluster_blocks, &b);
	if (wrong)
		fail_msg("seed %u, inode %u: %s", (unsigned)seed, f->ino, wrong);
	for (size_t i = 0; i < b.n_ext; i++)
		assert_int_equal(b.ext[i].lblk % s->geo.cluster_blocks,
				 b.ext[i].pblk % s->geo.cluster_blocks);
	/* One record by one cluster, or one block, further on. */
	b.ext[seed % b.n_ext].pblk += seed % 2 ? s->geo.cluster_blocks : 1;
	assert_non_null(proof_mapping(&a, m, f->n_move, s->geo.cluster_blocks, &b));
	filemap_delta_release(&d);
	filemap_release(&after);
	filemap_release(&a);
	filemap_release(&b);
}

static void check_proofs(void *ctx, const struct plan *p, size_t batch, const struct state *before)
{
	const struct plan_batch *b = &p->batch[batch];

	for (uint64_t i = 0; i < b->n_file; i++)
		check_proof(before->snap, p, &p->file[b->first_file + i], before,
			    *(const uint64_t *)ctx);
}

static void check_after(void *ctx, const struct state *st, const struct snapshot *after)
{
	(void)ctx;
	(void)st;
	check_text(after);
}

static void test_planner_make__clusters(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		const struct planner_options o = { .mode = (enum plan_mode)(seed / 4 % 4) };
		const struct plancheck look = { .batch = check_proofs,
						.end = check_after,
						.ctx = &seed };
		struct snapshot *s = randomvol_clusters(seed);

		check_text(s);
		plancheck_run(s, &o, seed, &look);
	}
}

/* A file in clusters of 4 blocks: the first one holds written and unwritten blocks and a hole, the
 * second one is unwritten, the others are written in parts. */
static const char *const one_file =
	"geometry block_size 1024 cluster_blocks 4 blocks 100 blocks_per_group 8192 "
	"inodes_per_group 16\n"
	"limits journal_blocks 50 copy_blocks 50\n"
	"file 12 file depth 1\n"
	"ext 0 1 40\next 2 2 42 u\next 4 4 80 u\next 8 1 160\next 10 1 162\next 13 1 181\n"
	"node 0 70 6\n"
	"free 1 4\nfree 50 10\n";

static void plan_is(const struct snapshot *s, const char *lines, const char *why)
{
	char text[400];
	struct error err = ERROR_INIT;
	struct plan *p;
	int rc;

	snprintf(text, sizeof(text),
		 "plan 1\nbatch 0 copy 3 journal 4 rest\nfile 12 last\n%skeep 70\n"
		 "predicted files 1 frag_files 0 dirs 0 frag_dirs 0 runs 1 ideal_runs 1 blocks 4 "
		 "frag_blocks 0 tree_blocks 1 free_blocks 14 free_runs 6 longest_free 6\n",
		 lines);
	if (plan_parse(text, &p, &err))
		fail_msg("%s", err.text);
	rc = planner_verify(s, p, 1, &err);
	if (rc != (why ? -1 : 0))
		fail_msg("%s", rc ? err.text : "accepted");
	if (why && !strstr(err.text, why))
		fail_msg("wanted \"%s\", got \"%s\"", why, err.text);
	plan_free(p);
}

/* A plan can't shift a file within its clusters: it has no number for that. */
static void test_planner_verify__clusters(void **state)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;

	(void)state;
	if (snapshot_parse(one_file, &s, &err))
		fail_msg("%s", err.text);
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51 u\nmove 2 1 40 52\nmove 3 1 45 53\n", NULL);
	plan_is(s, "move 0 1 10 50 u\nmove 1 1 20 51 u\nmove 2 1 40 52\nmove 3 1 45 53\n",
		"inode 12: file block 0 is written");
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51\nmove 2 1 40 52\nmove 3 1 45 53\n",
		"inode 12: file block 1 is unwritten");
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51 u\nmove 2 1 41 52\nmove 3 1 45 53\n",
		"inode 12: file block 2 is at another place than 41");
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51 u\nmove 2 1 40 52\nmove 3 2 45 53\n",
		"inode 12: file block 3 is not mapped like this");
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51 u\nmove 2 1 40 52\nmove 4 1 45 53\n",
		"inode 12: file block 4 is not mapped like this");
	plan_is(s, "move 0 1 10 50\nmove 1 1 20 51 u\nmove 2 1 40 99\nmove 3 1 45 53\n",
		"target 99 is not free");
	snapshot_free(s);
}

static void parse_fails(const char *text, const char *why)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;

	assert_int_equal(snapshot_parse(text, &s, &err), -1);
	if (!strstr(err.text, why))
		fail_msg("wanted \"%s\", got \"%s\"", why, err.text);
}

#define CLUSTERS "geometry block_size 1024 cluster_blocks 4 blocks 100\n"

static void test_snapshot_parse__clusters(void **state)
{
	(void)state;
	parse_fails("geometry cluster_blocks 3 blocks 100\n", "no power of 2");
	parse_fails("geometry cluster_blocks 0 blocks 100\n", "no power of 2");
	parse_fails(CLUSTERS "file 12 file depth 0\next 0 4 41\nfree 50 1\n",
		    "does not fit its cluster");
	parse_fails(CLUSTERS "file 12 file depth 0\next 0 4 40\nfile 13 file depth 0\next 0 1 40\n"
			     "free 50 1\n",
		    "named twice");
	parse_fails(CLUSTERS "file 12 file depth 0\next 0 4 400\nfree 50 1\n", "block");
	parse_fails(CLUSTERS "file 12 file depth 0 indirect\next 0 4 40\nfree 50 1\n",
		    "block-mapped");
}

/* ---- scan and commit, on an image ---- */

struct rig {
	char dir[64], path[96];
	struct volume *v;
};

static void open_image(struct rig *r, const char *recipe)
{
	*r = (struct rig){ .dir = "/dev/shm/test_clusters.XXXXXX" };
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/image", r->dir);
	recipe_make(recipe, r->path);
}

static int scan(struct rig *r, struct snapshot **s, struct error *err)
{
	const struct volume_options vo = { .path = r->path };
	const struct scan_options so = {
		.threads = 2,
		.queue_depth = 8,
		.limits = { .journal_blocks = 200, .copy_blocks = 1000 },
	};

	if (volume_open(&vo, &r->v, err))
		return -1;
	return scan_volume(r->v, &so, s, err);
}

static void close_image(struct rig *r)
{
	volume_close(r->v);
	unlink(r->path);
	assert_int_equal(rmdir(r->dir), 0);
}

static void scan_fails(struct rig *r, enum error_kind kind, const char *why)
{
	struct error err = ERROR_INIT;
	struct snapshot *s = NULL;

	assert_int_equal(scan(r, &s, &err), -1);
	if (err.kind != kind || !strstr(err.text, why))
		fail_msg("wanted \"%s\", got \"%s\"", why, err.text);
	close_image(r);
}

/* Changes the bit of a cluster in the bitmap of group 0, and the group's free count: without
 * metadata_csum, so nothing else has to fit. */
static void flip(struct rig *r, uint64_t cluster, bool count)
{
	uint8_t desc[64], byte;
	uint64_t bitmap;
	uint16_t left;

	image_read(r->path, 4096, desc, sizeof(desc));
	bitmap = (desc[0] | desc[1] << 8 | desc[2] << 16) * 4096ull;
	image_read(r->path, bitmap + cluster / 8, &byte, 1);
	byte ^= (uint8_t)(1u << cluster % 8);
	image_write(r->path, bitmap + cluster / 8, &byte, 1);
	if (!count)
		return;
	memcpy(&left, desc + 12, 2);
	left = (uint16_t)(byte >> cluster % 8 & 1 ? left - 1 : left + 1);
	image_write(r->path, 4096 + 12, &left, 2);
}

static uint64_t a_cluster(struct rig *r, bool is_free)
{
	struct error err = ERROR_INIT;
	struct snapshot *s;
	uint64_t at;
	struct range range;

	if (scan(r, &s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(s->geo.blocks, 1024);
	assert_true(rangeset_next(s->free, 0, &range));
	at = is_free ? range.start : s->file[s->n_file - 1].map.ext[0].pblk;
	snapshot_free(s);
	volume_close(r->v);
	r->v = NULL;
	return at;
}

static void test_scan_volume__a_used_cluster_marked_free(void **state)
{
	char why[80];
	struct rig r;
	uint64_t at;

	(void)state;
	open_image(&r, "bigalloc4k");
	at = a_cluster(&r, false);
	flip(&r, at, true);
	snprintf(why, sizeof(why), "block %llu is in use by inode", (unsigned long long)at * 4);
	scan_fails(&r, ERROR_FSCK, why);
}

static void test_scan_volume__a_free_cluster_marked_used(void **state)
{
	char why[80];
	struct rig r;
	uint64_t at;

	(void)state;
	open_image(&r, "bigalloc4k");
	at = a_cluster(&r, true);
	flip(&r, at, true);
	snprintf(why, sizeof(why), "block %llu is marked in use", (unsigned long long)at * 4);
	scan_fails(&r, ERROR_FSCK, why);
}

static void test_scan_volume__a_wrong_count_of_clusters(void **state)
{
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	flip(&r, a_cluster(&r, true), false);
	scan_fails(&r, ERROR_FSCK, "its descriptor counts");
}

/* Writes the first file's first record by hand. */
static void shift_record(struct rig *r, uint32_t by)
{
	struct image *im = image_open(r->path);
	uint64_t table = image_inode_table(im);
	uint32_t block;

	image_close(im);
	/* inode 12 is the directory, 13 "contiguous": its root has one record */
	image_read(r->path, table * 4096 + 12 * 256 + 40 + 12 + 8, &block, 4);
	block += by;
	image_write(r->path, table * 4096 + 12 * 256 + 40 + 12 + 8, &block, 4);
}

static void test_scan_volume__a_record_that_does_not_fit(void **state)
{
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	shift_record(&r, 1);
	scan_fails(&r, ERROR_FSCK, "inode 13: a record does not fit its cluster");
}

/* Two files in one cluster: only whole ones can be shared out. */
static void test_scan_volume__a_cluster_claimed_twice(void **state)
{
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	shift_record(&r, 4);
	scan_fails(&r, ERROR_FSCK, "block");
}

/* Where the first inode with a tree lies in the image; *leaf: the place of its first tree block. */
static uint64_t a_deep_inode(struct rig *r, uint32_t *ino, uint64_t *leaf)
{
	struct error err = ERROR_INIT;
	struct image *im = image_open(r->path);
	uint64_t table = image_inode_table(im);
	struct snapshot *s;
	size_t i = 0;

	image_close(im);
	if (scan(r, &s, &err))
		fail_msg("%s", err.text);
	while (i < s->n_file && s->file[i].map.depth != 1)
		i++;
	assert_true(i < s->n_file);
	*ino = s->file[i].ino;
	*leaf = s->file[i].map.tree->node[0][0].pblk * 4;
	snapshot_free(s);
	volume_close(r->v);
	r->v = NULL;
	return table * 4096 + (*ino - 1) * 256;
}

/* Nobody makes one, so it's refused, though e2fsck finds nothing wrong with it. */
static void test_scan_volume__a_tree_block_inside_a_cluster(void **state)
{
	uint8_t block[4096];
	uint64_t inode, leaf;
	uint32_t ino, moved;
	char why[80];
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	inode = a_deep_inode(&r, &ino, &leaf);
	image_read(r.path, leaf * 4096, block, sizeof(block));
	image_write(r.path, (leaf + 1) * 4096, block, sizeof(block));
	moved = (uint32_t)leaf + 1;
	image_write(r.path, inode + 40 + 12 + 4, &moved, sizeof(moved));
	image_fsck(r.path, "-fn", 0);
	snprintf(why, sizeof(why), "tree block %u of inode %u does not begin a cluster", moved,
		 ino);
	scan_fails(&r, ERROR_USAGE, why);
}

static void test_scan_volume__block_mapped(void **state)
{
	uint32_t ino, flags = 0, none[15] = { 0 };
	uint64_t inode, leaf;
	char why[80];
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	inode = a_deep_inode(&r, &ino, &leaf);
	image_write(r.path, inode + 32, &flags, sizeof(flags));
	none[0] = (uint32_t)leaf;
	image_write(r.path, inode + 40, none, sizeof(none));
	snprintf(why, sizeof(why), "inode %u: it is block-mapped, which bigalloc does not allow",
		 ino);
	scan_fails(&r, ERROR_FSCK, why);
}

static void test_volume_open__a_part_of_a_cluster_at_the_end(void **state)
{
	struct rig r;

	(void)state;
	for (uint32_t less = 0; less <= 4; less++) {
		const struct volume_options vo = { .path = r.path };
		struct error err = ERROR_INIT;
		uint32_t blocks;

		open_image(&r, "bigalloc4k");
		image_read(r.path, 1024 + 4, &blocks, sizeof(blocks));
		blocks -= less;
		image_write(r.path, 1024 + 4, &blocks, sizeof(blocks));
		if (volume_open(&vo, &r.v, &err)) {
			if (less % 4 == 0)
				fail_msg("%u less: %s", less, err.text);
			assert_int_equal(err.kind, ERROR_USAGE);
			assert_non_null(strstr(err.text, "with a last cluster that is not whole"));
			r.v = NULL;
		} else if (less % 4) {
			fail_msg("%u less: not refused", less);
		}
		close_image(&r);
	}
}

/* N2: what the batch takes is written before what leads to it, and it is taken in clusters. */
static void test_share_out__clusters(void **state)
{
	struct change uses[] = { { .start = 10, .len = 2 }, { .start = 20, .len = 1 } };
	struct ordered o = { .uses = { .list = uses, .n = COUNT(uses) } };
	struct geometry geo = { .block_size = BLOCK_SIZE, .cluster_blocks = 4 };
	struct commit c = { .geo = &geo, .ordered = &o };
	static const struct {
		uint64_t block;
		int phase;
	} rows[] = {
		{ 10, SECOND }, { 20, SECOND }, { 39, SECOND }, { 40, FIRST },
		{ 41, FIRST },	{ 47, FIRST },	{ 48, SECOND }, { 79, SECOND },
		{ 80, FIRST },	{ 83, FIRST },	{ 84, SECOND },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct journal_block one = { rows[i].block, NULL };
		struct blockwriter_block list[PHASES_ALL];
		struct phase phase[PHASES_ALL];

		for (int k = 0; k < PHASES_ALL; k++)
			phase[k] = (struct phase){ .list = &list[k] };
		share_out(&c, &one, 1, phase);
		for (int k = 0; k < PHASES_ALL; k++)
			if (phase[k].n != (k == rows[i].phase))
				fail_msg("block %u: not in phase %d", (unsigned)rows[i].block,
					 rows[i].phase);
	}
}

static void clock_of(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000000;
	*nsec = 0;
}

/* I13: the bit of a target is set, or that of a source is clear, behind our back. */
static void test_commit_guard__bits_of_clusters(void **state)
{
	const struct commit_options co = { .queue_depth = 8, .clock = clock_of };
	const struct planner_options po = { .mode = PLAN_FILES };
	struct error err = ERROR_INIT;
	struct snapshot *s;
	struct commit *c;
	struct state *st;
	struct plan *p;
	struct rig r;

	(void)state;
	open_image(&r, "bigalloc4k");
	if (scan(&r, &s, &err) || planner_make(s, &po, &p, &err) || state_new(s, &st, &err) ||
	    commit_open(r.v, &co, &c, &err) || commit_guard(c, p, 0, false, st, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 2; i++) {
		uint64_t at = i ? p->move[0].from : p->move[0].to;

		flip(&r, at, false);
		assert_int_equal(commit_guard(c, p, 0, false, st, &err), -1);
		flip(&r, at, false);
	}
	if (commit_guard(c, p, 0, false, st, &err))
		fail_msg("%s", err.text);
	commit_close(c);
	state_free(st);
	plan_free(p);
	snapshot_free(s);
	close_image(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filemap_to_clusters__whole_clusters),
		cmocka_unit_test(test_filemap_to_clusters__misfits),
		cmocka_unit_test(test_filemap_to_clusters__long_files_in_stretches),
		cmocka_unit_test(test_filemap_move__records_follow),
		cmocka_unit_test(test_filemap_move__what_is_not_there),
		cmocka_unit_test(test_planner_make__clusters),
		cmocka_unit_test(test_planner_verify__clusters),
		cmocka_unit_test(test_snapshot_parse__clusters),
		cmocka_unit_test(test_scan_volume__a_used_cluster_marked_free),
		cmocka_unit_test(test_scan_volume__a_free_cluster_marked_used),
		cmocka_unit_test(test_scan_volume__a_wrong_count_of_clusters),
		cmocka_unit_test(test_scan_volume__a_record_that_does_not_fit),
		cmocka_unit_test(test_scan_volume__a_cluster_claimed_twice),
		cmocka_unit_test(test_scan_volume__a_tree_block_inside_a_cluster),
		cmocka_unit_test(test_scan_volume__block_mapped),
		cmocka_unit_test(test_volume_open__a_part_of_a_cluster_at_the_end),
		cmocka_unit_test(test_share_out__clusters),
		cmocka_unit_test(test_commit_guard__bits_of_clusters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
