/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input: base (1 byte), flags (1: enum edit_flags), choices (1), edits: see images.h. Two
 * targets take it: one looks only and is quick, the other one runs the whole engine.
 */
#include "images.h"
#include "scaledefrag/commit.h"
#include "scaledefrag/engine.h"
#include "support/digest.h"
#include "support/wrap.h"
#include <string.h>

enum choice {
	ASK_SCOPE = 1,
	ASK_FREE = 2,
	ASK_SHRINK = 4,
	ASK_READ_ONLY = 8,
	ASK_SMALL = 16,
	ASK_AGAIN = 32
};

static const struct scope_item some[] = {
	{ SCOPE_PATH, "/dir" },
	{ SCOPE_EXCLUDE, "dir/+(a|m)*" },
	{ SCOPE_PIN, "one" },
};

static struct volume_options opening(struct base *b, unsigned ask)
{
	return (struct volume_options){
		.path = b->path,
		.read_only = ask & ASK_READ_ONLY,
		.proc_root = images_roots()->proc,
		.sys_root = images_roots()->sys,
		.wrap = images_wrap,
		.wrap_ctx = b,
	};
}

/* What a refusal has to look like. */
static void check_error(const struct error *err)
{
	fuzz_say("%s", err->text);
	if (err->kind != ERROR_FSCK && err->kind != ERROR_OPERATION && err->kind != ERROR_USAGE)
		fuzz_wrong("an error of kind %d: %s", err->kind, err->text);
	if (!*err->text || strchr(err->text, '\n'))
		fuzz_wrong("an error without a text of one line");
}

/* The same mappings again, read one by one, and every name. */
static int read_again(struct volume *v, const struct snapshot *s, struct error *err)
{
	size_t n = s->n_file;
	uint32_t *ino = must_alloc(n, sizeof(*ino));
	struct filemap *map = must_alloc(n, sizeof(*map));
	char **path = must_alloc(n, sizeof(*path));
	struct rangeset *left = NULL;
	int rc = -1;

	for (size_t i = 0; i < n; i++)
		ino[i] = s->file[i].ino;
	if (scan_free(v, 1, NULL, &left, err) || scan_files(v, ino, n, 4, map, err))
		goto out;
	if (rangeset_blocks(left) != rangeset_blocks(s->free))
		fuzz_wrong("free blocks: %llu, and then %llu",
			   (unsigned long long)rangeset_blocks(s->free),
			   (unsigned long long)rangeset_blocks(left));
	for (size_t i = 0; i < n; i++)
		if (map[i].n_ext != s->file[i].map.n_ext)
			fuzz_wrong("inode %u: other records the second time", ino[i]);
	rc = scan_names(v, ino, n, path, err);
out:
	for (size_t i = 0; i < n; i++) {
		filemap_release(&map[i]);
		free(path[i]);
	}
	free(ino);
	free(map);
	free(path);
	rangeset_free(left);
	return rc;
}

static int look(struct base *b, unsigned ask, struct error *err)
{
	const struct volume_options vo = opening(b, ask);
	const struct commit_options co = { .queue_depth = 4 };
	struct scan_options so = {
		.threads = 1, .queue_depth = 4, .scope = some, .n_scope = ask & ASK_SCOPE ? 3 : 0
	};
	struct snapshot *s = NULL;
	struct volume *v = NULL;
	struct commit *c = NULL;
	int rc = -1;

	if (volume_open(&vo, &v, err))
		return -1;
	if (commit_open(v, &co, &c, err))
		goto out;
	so.limits =
		(struct snapshot_limits){ .journal_blocks = commit_capacity(c), .copy_blocks = 64 };
	if (!scan_volume(v, &so, &s, err))
		rc = ask & ASK_AGAIN ? read_again(v, s, err) : 0;
out:
	snapshot_free(s);
	commit_close(c);
	volume_close(v);
	return rc;
}

static void clock_fixed(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	(void)ctx;
	*seconds = 1700000001;
	*nsec = 0;
}

/* What the scan let pass must come out with the same content, or be left as it is. */
static void run(struct base *b, unsigned ask)
{
	const struct engine_options o = {
		.volume = opening(b, 0),
		.plan.mode = (ask & ASK_FREE) && (ask & ASK_SHRINK) ? PLAN_LAYOUT
			     : ask & ASK_FREE			    ? PLAN_FREE
			     : ask & ASK_SHRINK			    ? PLAN_SHRINK
								    : PLAN_FILES,
		.scope = some,
		.n_scope = ask & ASK_SCOPE ? 3 : 0,
		.names = true,
		.list = 10,
		.threads = 1,
		.queue_depth = 4,
		.memory = 64ull << 20, /* enough for all bases: else nothing would be run */
		.batch_bytes = ask & ASK_SMALL ? ENGINE_BATCH_MIN : 0,
		.clock = clock_fixed,
	};
	struct digest was, is;
	struct error err = ERROR_INIT;
	struct report r;
	char why[512], differ[128];
	bool known = !digest_image(b->path, true, &was, why, sizeof(why));

	memcpy(b->before, b->mem, b->size);
	if (engine_run(&o, &r, &err)) {
		check_error(&err);
		if (memcmp(b->before, b->mem, b->size))
			fuzz_wrong("refused, but written to: %s", err.text);
	} else if (known) {
		fuzz_say("outcome %d, %llu bytes copied", (int)r.outcome,
			 (unsigned long long)r.bytes_moved);
		if (digest_image(b->path, true, &is, why, sizeof(why)))
			fuzz_wrong("no digest afterwards: %s", why);
		if (!digest_equal(&was, &is)) {
			digest_differ(&was, &is, differ, sizeof(differ));
			fuzz_wrong("other content: %s", differ);
		}
		digest_release(&is);
		if (look(b, 0, &err))
			fuzz_wrong("refused after a run: %s", err.text);
	}
	report_release(&r);
	if (known)
		digest_release(&was);
}

static struct base *start(struct bytes *in, unsigned *ask)
{
	struct base *b = images_get(bytes_u8(in));
	uint8_t flags = bytes_u8(in);

	*ask = bytes_u8(in);
	images_edit(b, in, flags);
	return b;
}

static int one(const uint8_t *data, size_t size, bool move)
{
	struct bytes in = { data, size };
	struct error err = ERROR_INIT;
	unsigned ask;
	struct base *b = start(&in, &ask);

	if (look(b, ask, &err))
		check_error(&err);
	else if (move)
		run(b, ask);
	else
		fuzz_say("fine");
	images_restore(b, move);
	return 0;
}

int fuzz_volume(const uint8_t *data, size_t size)
{
	return one(data, size, false);
}

int fuzz_engine(const uint8_t *data, size_t size)
{
	return one(data, size, true);
}
