/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guard and block-mapped files: whatever pointer is not what the plan rests on, in the inode or
 * in an indirect block, stops the batch. What a commit does to such files is left to the crash
 * tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/commit.h"
#include "scaledefrag/indirect.h"
#include "scaledefrag/planner.h"
#include "scaledefrag/scan.h"
#include "support/image.h"
#include "support/recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_SIZE 1024u
#define INODE_SIZE 128u
#define AT_FLAGS   32
#define AT_IBLOCK  40

struct rig {
	char path[64];
	struct volume *v;
	struct commit *c;
	struct snapshot *s;
	struct plan *p;
	struct state *st;
	uint64_t inode;	  /* byte where the inode of the file at hand begins */
	uint64_t pointer; /* of an indirect block that the first batch writes: its bytes */
	uint64_t data;	  /* block of the file */
};

static void the_clock(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000100;
	*nsec = 7;
}

/* The first file of the first batch that has an indirect block. */
static void find_file(struct rig *r)
{
	struct image *im = image_open(r->path);
	uint64_t table = image_inode_table(im);

	image_close(im);
	for (uint64_t i = 0; i < r->p->batch[0].n_file; i++) {
		const struct plan_file *f = &r->p->file[i];
		const struct filemap *map = &snapshot_find(r->s, f->ino)->map;

		if (!f->n_kept || !map->indirect || f->ino > 40)
			continue;
		r->inode = table * BLOCK_SIZE + (f->ino - 1) * INODE_SIZE;
		r->pointer = indirect_block(map, 12) * BLOCK_SIZE + 4;
		r->data = indirect_block(map, 14);
		return;
	}
	fail_msg("no file has an indirect block");
}

static int setup(void **state)
{
	static const struct commit_options co = { .queue_depth = 8, .clock = the_clock };
	static const struct planner_options po = { .mode = PLAN_FILES };
	struct scan_options so = { .threads = 1, .queue_depth = 8, .limits = { 200, 4000 } };
	struct rig *r = calloc(1, sizeof(*r));
	struct volume_options o = { .path = r->path };
	struct error err = ERROR_INIT;

	strcpy(r->path, "/dev/shm/test_mapped.XXXXXX");
	close(mkstemp(r->path));
	recipe_make("ext3", r->path);
	if (volume_open(&o, &r->v, &err) || commit_open(r->v, &co, &r->c, &err) ||
	    scan_volume(r->v, &so, &r->s, &err) || planner_make(r->s, &po, &r->p, &err) ||
	    planner_verify(r->s, r->p, 1, &err) || state_new(r->s, &r->st, &err))
		fail_msg("%s", err.text);
	assert_true(r->p->n_batch > 0);
	find_file(r);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	state_free(r->st);
	plan_free(r->p);
	snapshot_free(r->s);
	commit_close(r->c);
	volume_close(r->v);
	unlink(r->path);
	free(r);
	return 0;
}

static void guard_finds(struct rig *r, const char *what)
{
	struct error err = ERROR_INIT;
	int rc = commit_guard(r->c, r->p, 0, false, r->st, &err);

	if (what ? !rc || err.kind != ERROR_OPERATION || !strstr(err.text, what) : rc)
		fail_msg("wanted \"%s\", got \"%s\"", what ? what : "", err.text);
}

/* With these bytes in the image the guard must find something wrong; without them not. */
static void changed(struct rig *r, uint64_t at, const void *bytes, size_t n, const char *what)
{
	uint8_t before[64];

	image_read(r->path, at, before, n);
	assert_memory_not_equal(before, bytes, n);
	image_write(r->path, at, bytes, n);
	guard_finds(r, what);
	image_write(r->path, at, before, n);
	guard_finds(r, NULL);
}

static void test_commit_guard__pointers(void **state)
{
	struct rig *r = *state;
	static const uint32_t none = 0;
	uint32_t flags, last, now;

	guard_finds(r, NULL);
	image_read(r->path, r->pointer, &now, 4);
	assert_int_equal(now, r->data); /* it's where we think it is */
	changed(r, r->pointer, &none, 4, "another pointer");
	now++;
	changed(r, r->pointer, &now, 4, "another pointer");
	/* one more than the file has */
	image_read(r->path, r->inode + AT_IBLOCK + 4 * 14, &last, 4);
	assert_int_equal(last, 0);
	changed(r, r->inode + AT_IBLOCK + 4 * 14, &now, 4, "another pointer");
	changed(r, r->inode + AT_IBLOCK, &now, 4, "another pointer");
	changed(r, r->inode + AT_IBLOCK + 4 * 12, &now, 4, "another pointer");
	image_read(r->path, r->inode + AT_FLAGS, &flags, 4);
	flags |= 0x80000; /* extents */
	changed(r, r->inode + AT_FLAGS, &flags, 4, "mapped in another way");
	flags ^= 0x80000 | 0x10000000; /* inline data */
	changed(r, r->inode + AT_FLAGS, &flags, 4, "mapped in another way");
}

/* The plan's list of indirect blocks is held against the one computed anew. */
static void test_commit_guard__wrong_list(void **state)
{
	struct rig *r = *state;
	struct plan_file *f = r->p->file;

	while (!f->n_kept)
		f++;
	r->p->node[f->first_kept]++;
	guard_finds(r, "differ from the plan's");
	r->p->node[f->first_kept]--;
	f->n_kept--;
	guard_finds(r, "differ from the plan's");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_commit_guard__pointers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_guard__wrong_list, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
