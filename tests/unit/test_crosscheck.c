/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of scan/crosscheck: claims of made-up files and metadata, over several windows of blocks,
 * are compared with a plain count for each block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/scan/scan_internal.h"
#include "support/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES  64u
#define FREE   0x80u
#define BLOCKS (3u * (1u << 19) + 12345u) /* four windows where memory is short */

struct world {
	uint64_t seed;
	struct source src;
	struct harvest h;
	struct claim *all; /* every claim, for the count */
	size_t n, cap;
	struct range *gap; /* what is free, before the set is made */
	size_t n_gap, cap_gap;
	uint8_t *claims; /* per block; FREE: it is */
};

static uint32_t pick(struct world *w, uint32_t below)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % below;
}

static void must(int rc)
{
	assert_int_equal(rc, 0);
}

/* Record or tree block of a file, or metadata. */
static void add_claim(struct world *w, uint64_t start, uint64_t len)
{
	struct error err = ERROR_INIT;
	struct claim c = { .start = start, .len = len & CLAIM_MAX_LEN };

	if (pick(w, 4) == 0) {
		c.owner = OWNER_META;
		c.who = 100 + pick(w, 50); /* none is the beginning of another */
	} else {
		c.who = 12 + pick(w, FILES);
	}
	must(array_reserve(&w->all, &w->cap, w->n + 1, sizeof(c), &err));
	w->all[w->n++] = c;
}

/* Every block in one claim or free range. */
static void cover(struct world *w)
{
	struct error err = ERROR_INIT;
	uint64_t at = w->src.clusters.first_data_block;

	for (bool is_free = false; at < BLOCKS; is_free = !is_free && pick(w, 3) == 0) {
		uint64_t len = 1 + pick(w, pick(w, 2) ? 100 : 20000);

		len = len < BLOCKS - at ? len : BLOCKS - at;
		if (is_free) {
			must(array_reserve(&w->gap, &w->cap_gap, w->n_gap + 1, sizeof(*w->gap),
					   &err));
			w->gap[w->n_gap++] = (struct range){ at, len };
		} else {
			add_claim(w, at, len);
		}
		at += len;
	}
}

static void damage(struct world *w)
{
	size_t i = pick(w, (uint32_t)w->n), g = pick(w, (uint32_t)w->n_gap);
	struct claim *c = &w->all[i];

	switch (pick(w, 6)) {
	case 0: /* one block more, of whatever comes next */
		if (c->start + c->len < BLOCKS)
			c->len = (c->len + 1u) & CLAIM_MAX_LEN;
		break;
	case 1: /* one block less */
		if (c->len > 1)
			c->len = (c->len - 1u) & CLAIM_MAX_LEN;
		break;
	case 2: /* the same blocks once more, by anybody */
		add_claim(w, c->start, c->len);
		break;
	case 3:
		w->gap[g].len += w->gap[g].start + w->gap[g].len < BLOCKS;
		if (g + 1 < w->n_gap && w->gap[g].start + w->gap[g].len > w->gap[g + 1].start)
			w->gap[g].len--;
		break;
	case 4:
		if (w->gap[g].len > 1)
			w->gap[g].len--;
		break;
	default: /* anywhere */
		add_claim(w, 1 + pick(w, BLOCKS - 1), 1);
	}
}

/* Hands the claims to files and metadata: some as tree blocks. */
static void fill(struct world *w)
{
	struct error err = ERROR_INIT;
	struct harvest *h = &w->h;

	h->file = calloc(FILES, sizeof(*h->file));
	assert_non_null(h->file);
	h->n_file = FILES;
	must(rangeset_new(&h->space, &err));
	for (size_t i = 0; i < w->n_gap; i++)
		must(rangeset_add(h->space, w->gap[i].start, w->gap[i].len, &err));
	for (uint32_t f = 0; f < FILES; f++) {
		struct filemap *m = &h->file[f].map;
		struct tree_node *node = calloc(w->n + 1, sizeof(*node));

		h->file[f].ino = 12 + f;
		must(filemap_need_tree(m, &err));
		m->depth = 1;
		m->tree->node[0] = node;
		m->ext = calloc(w->n + 1, sizeof(*m->ext));
		assert_true(m->ext && node);
		for (size_t i = 0; i < w->n; i++) {
			const struct claim *c = &w->all[i];

			if (c->owner == OWNER_META || c->who != 12 + f)
				continue;
			if (c->len == 1)
				node[m->tree->n_node[0]++].pblk = c->start;
			else
				m->ext[m->n_ext++] =
					(struct extent){ .pblk = c->start, .len = c->len };
		}
	}
	for (size_t i = 0; i < w->n; i++)
		if (w->all[i].owner == OWNER_META)
			must(claims_add(&h->claims, w->all[i].start, w->all[i].len, OWNER_META,
					w->all[i].who, &err));
}

/* Is it an owner that claims the block, by this text? */
static bool names_owner(const struct world *w, uint64_t block, const char *text, unsigned least)
{
	unsigned named = 0;
	char name[48];

	for (size_t i = 0; i < w->n; i++) {
		const struct claim *c = &w->all[i];

		if (block < c->start || block - c->start >= c->len)
			continue;
		snprintf(name, sizeof(name),
			 c->owner == OWNER_META ? "by metadata of group %u" : "by inode %u",
			 c->who);
		named += strstr(text, name) != NULL;
	}
	return named >= least;
}

static void expect(const struct world *w, int rc, const struct error *err)
{
	uint64_t twice = 0, differs = 0;
	char want[64];

	memset(w->claims, 0, BLOCKS);
	for (size_t i = 0; i < w->n; i++)
		for (uint64_t b = w->all[i].start; b < w->all[i].start + w->all[i].len; b++)
			w->claims[b] = (uint8_t)(w->claims[b] + (w->claims[b] < 9));
	for (size_t i = 0; i < w->n_gap; i++)
		for (uint64_t b = w->gap[i].start; b < w->gap[i].start + w->gap[i].len; b++)
			w->claims[b] |= FREE;
	for (uint64_t b = BLOCKS - 1; b >= 1; b--) {
		twice = (w->claims[b] & ~FREE) > 1 ? b : twice;
		differs = w->claims[b] != 1 && w->claims[b] != FREE ? b : differs;
	}
	if (!twice && !differs) {
		assert_int_equal(rc, 0);
		return;
	}
	assert_int_equal(rc, -1);
	assert_int_equal(err->kind, ERROR_FSCK);
	if (twice)
		snprintf(want, sizeof(want), "block %llu is claimed by ",
			 (unsigned long long)twice);
	else
		snprintf(want, sizeof(want), "block %llu is %s", (unsigned long long)differs,
			 w->claims[differs] & ~FREE ? "in use by " : "marked in use");
	if (!strstr(err->text, want) || !names_owner(w, twice ? twice : differs, err->text,
						     twice ? 2 : (w->claims[differs] & ~FREE) != 0))
		fail_msg("wanted \"%s\", got \"%s\"", want, err->text);
}

static void check(struct volume *v, uint64_t seed, unsigned threads, uint64_t memory)
{
	struct world w = { .seed = seed, .claims = malloc(BLOCKS) };
	struct error err = ERROR_INIT, again = ERROR_INIT;
	int rc;

	assert_non_null(w.claims);
	assert_int_equal(source_open(v, 1, NULL, &w.src, &err), 0);
	w.src.clusters.first_data_block = 1;
	w.src.clusters.blocks = BLOCKS;
	w.src.threads = threads;
	w.src.memory = memory;
	cover(&w);
	for (uint32_t n = pick(&w, 3); n; n--)
		damage(&w);
	fill(&w);
	rc = crosscheck(&w.src, &w.h, &err);
	expect(&w, rc, &err);
	/* The same for one window of all. */
	w.src.memory = 0;
	w.src.threads = 3 - threads;
	assert_int_equal(crosscheck(&w.src, &w.h, &again), rc);
	assert_string_equal(again.text, err.text);
	harvest_release(&w.h);
	source_close(&w.src);
	free(w.all);
	free(w.gap);
	free(w.claims);
}

static void test_crosscheck__as_counted(void **state)
{
	char path[] = "/dev/shm/test_crosscheck.XXXXXX";
	struct volume_options o = { .path = path, .read_only = true };
	struct error err = ERROR_INIT;
	struct volume *v = NULL;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	image_mke2fs(path, 8 << 20, "", "-b 1024");
	if (volume_open(&o, &v, &err))
		fail_msg("%s", err.text);
	for (uint64_t seed = 1; seed <= 60; seed++)
		check(v, seed, 1 + seed % 2, seed % 3);
	volume_close(v);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crosscheck__as_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
