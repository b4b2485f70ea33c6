/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state: a snapshot that batches have been applied to. */
#include "scaledefrag/snapshot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A mapping that states share; most files have one record after a move. */
struct kept {
	struct filemap map; /* the first member: it is what the states point to */
	uint32_t users;
	struct extent one;
};

static struct kept *kept_of(struct filemap *map)
{
	return (struct kept *)map;
}

static struct filemap *take(struct filemap *map)
{
	if (map)
		kept_of(map)->users++;
	return map;
}

static void drop(struct filemap *map)
{
	if (!map || --kept_of(map)->users)
		return;
	filemap_release(map);
	free(map);
}

/* Takes the blocks out of `free` that are also in `avoid`. */
static int take_away(struct rangeset *free_blocks, const struct rangeset *avoid, struct error *err)
{
	struct range bad, r;

	for (uint64_t at = 0; rangeset_next(avoid, at, &bad); at = bad.start + bad.len) {
		uint64_t end = bad.start + bad.len;

		for (uint64_t b = bad.start; rangeset_next(free_blocks, b, &r) && r.start < end;) {
			uint64_t from = r.start > b ? r.start : b;
			uint64_t to = r.start + r.len < end ? r.start + r.len : end;

			if (rangeset_remove(free_blocks, from, to - from, err))
				return -1;
			b = to;
		}
	}
	return 0;
}

int state_new(const struct snapshot *s, struct state **out, struct error *err)
{
	struct state *st = calloc(1, sizeof(*st));

	if (!st)
		return error_nomem(err, "starting from a snapshot");
	st->snap = s;
	st->map = calloc(s->n_file ? s->n_file : 1, sizeof(struct filemap *));
	if (!st->map) {
		error_nomem(err, "starting from a snapshot");
		goto fail;
	}
	if (rangeset_clone(s->free, &st->free, err))
		goto fail;
	if (s->avoid && take_away(st->free, s->avoid, err))
		goto fail;
	*out = st;
	return 0;
fail:
	state_free(st);
	return -1;
}

int state_clone(const struct state *st, struct state **out, struct error *err)
{
	size_t n = st->snap->n_file;
	struct state *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err, "copying a state");
	c->snap = st->snap;
	c->map = calloc(n ? n : 1, sizeof(struct filemap *));
	if (!c->map) {
		error_nomem(err, "copying a state");
		goto fail;
	}
	if (rangeset_clone(st->free, &c->free, err))
		goto fail;
	for (size_t i = 0; i < n; i++)
		c->map[i] = take(st->map[i]);
	*out = c;
	return 0;
fail:
	state_free(c);
	return -1;
}

int state_view(const struct snapshot *s, struct state **out, struct error *err)
{
	struct state *st = calloc(1, sizeof(*st));

	if (!st)
		return error_nomem(err, "looking at a snapshot");
	st->snap = s;
	st->free = s->free;
	*out = st;
	return 0;
}

void state_free(struct state *st)
{
	if (!st)
		return;
	if (!st->map && st->free == st->snap->free) {
		free(st); /* a view */
		return;
	}
	for (size_t i = 0; st->map && i < st->snap->n_file; i++)
		drop(st->map[i]);
	free(st->map);
	rangeset_free(st->free);
	free(st);
}

const struct filemap *state_map(const struct state *st, size_t file_index)
{
	assert(file_index < st->snap->n_file);
	return st->map && st->map[file_index] ? st->map[file_index]
					      : &st->snap->file[file_index].map;
}

int state_set_map(struct state *st, size_t file_index, struct filemap *map, struct error *err)
{
	struct kept *k;

	assert(st->map && file_index < st->snap->n_file);
	k = kept_of(st->map[file_index]);
	if (!k || k->users > 1) {
		k = malloc(sizeof(*k));
		if (!k)
			return error_nomem(err, "keeping a file's new mapping");
		drop(st->map[file_index]);
		st->map[file_index] = &k->map;
		k->users = 1;
	} else {
		filemap_release(&k->map);
	}
	k->map = *map;
	if (map->n_ext == 1 && !map->pooled) {
		k->one = map->ext[0];
		k->map.ext = &k->one;
		k->map.pooled = true;
		free(map->ext);
	}
	memset(map, 0, sizeof(*map));
	return 0;
}

const struct filemap *state_hold(struct state *st, size_t file_index)
{
	take(st->map[file_index]);
	return state_map(st, file_index);
}

/* NULL, if it is the snapshot's. */
static struct filemap *own(const struct state *st, size_t file_index, const struct filemap *held)
{
	return held == &st->snap->file[file_index].map ? NULL : (struct filemap *)held;
}

void state_let_go(struct state *st, size_t file_index, const struct filemap *held)
{
	drop(own(st, file_index, held));
}

void state_set_back(struct state *st, size_t file_index, const struct filemap *held)
{
	struct filemap *was = st->map[file_index];

	st->map[file_index] = take(own(st, file_index, held));
	drop(was);
}

static void add_file(struct summary *sum, const struct snapshot_file *f, const struct filemap *m,
		     const struct ideal *id)
{
	uint64_t blocks = filemap_blocks(m->ext, m->n_ext);
	uint64_t runs = filemap_runs(m->ext, m->n_ext);
	uint64_t ideal = blocks ? ideal_runs(id, blocks) : 0;
	bool dir = f->kind == FILE_DIRECTORY, frag = runs > ideal;

	sum->files++;
	sum->dirs += dir;
	sum->frag_files += frag;
	sum->frag_dirs += dir && frag;
	sum->runs += runs;
	sum->ideal_runs += ideal;
	sum->blocks += blocks;
	sum->frag_blocks += frag ? blocks : 0;
	sum->tree_blocks += filemap_nodes(m);
}

int state_summary(const struct state *st, const struct ideal *id, struct summary *out)
{
	struct summary sum = { .free_blocks = rangeset_blocks(st->free),
			       .free_runs = rangeset_count(st->free) };
	struct range r;

	if (rangeset_longest(st->free, &r))
		sum.longest_free = r.len;
	for (size_t i = 0; i < st->snap->n_file; i++)
		add_file(&sum, &st->snap->file[i], state_map(st, i), id);
	*out = sum;
	return 0;
}
