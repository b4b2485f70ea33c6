/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * schedule: moves into batches, the same for every policy.
 *
 * The open batch's targets and new tree blocks leave the state's free set at once; what it frees
 * comes back when it is closed (I1, I5). A file that is too large for one batch goes in pieces,
 * each in a batch of its own, cut between records where that can be. Tree blocks come from the
 * shortest free runs, so that long ones stay whole.
 */
#include "plan_internal.h"
#include "scaledefrag/sort.h"
#include <stdlib.h>
#include <string.h>

enum fit { FITS, TOO_MANY_JOURNAL_BLOCKS, NO_TREE_BLOCKS };

/* A file on its way into batches. */
struct job {
	size_t file; /* index in the snapshot */
	uint32_t ino;
	const struct move *move;
	size_t n;
	size_t done;	 /* moves that are in batches */
	size_t guess;	 /* moves that the next piece may have */
	bool whole_tree; /* try a minimal tree with the last piece */
	bool more;	 /* others are to follow */
};

int schedule_init(struct schedule *sc, struct state *st, struct plan *p, struct error *err)
{
	size_t n = st->snap->n_file + 1;
	*sc = (struct schedule){
		.snap = st->snap, .st = st, .plan = p, .journal = { .geo = &st->snap->geo }
	};
	sc->runs_before = calloc(n, sizeof(*sc->runs_before));
	sc->worse = calloc(n, sizeof(*sc->worse));
	return sc->runs_before && sc->worse ? 0 : error_nomem(err, "planning");
}

/* Keeps count of the files that are worse than in the snapshot. */
static void note_runs(struct schedule *sc, size_t file, const struct filemap *map)
{
	uint32_t *before = &sc->runs_before[file];
	const struct filemap *was = &sc->snap->file[file].map;
	bool worse;
	if (!*before)
		*before = (uint32_t)filemap_runs(was->ext, was->n_ext) + 1;
	worse = filemap_runs(map->ext, map->n_ext) + 1 > *before;
	sc->n_worse += worse;
	sc->n_worse -= sc->worse[file];
	sc->worse[file] = worse;
}

void schedule_forget(struct schedule *sc)
{
	memset(sc->worse, 0, sc->snap->n_file * sizeof(*sc->worse));
	sc->n_worse = 0;
	sc->freed.n = 0;
}

void schedule_release(struct schedule *sc)
{
	free(sc->freeing.at);
	free(sc->freed.at);
	free(sc->take);
	free(sc->runs_before);
	free(sc->worse);
	journal_count_release(&sc->journal);
	*sc = (struct schedule){ 0 };
}

static int add_range(struct ranges *r, uint64_t start, uint64_t len, struct error *err)
{
	if (array_reserve(&r->at, &r->cap, r->n + 1, sizeof(*r->at), err))
		return -1;
	r->at[r->n++] = (struct range){ start, len };
	return 0;
}

/* What the batch frees is free now; what adjoins is given back at once. */
static int free_old(struct schedule *sc, struct error *err)
{
	const struct range *r = sc->freeing.at;
	if (!sort_by_key(sc->freeing.at, sc->freeing.n, sizeof(*r)))
		return error_nomem(err, "planning");
	for (size_t i = 0; i < sc->freeing.n;) {
		uint64_t start = r[i].start, end = start;
		for (; i < sc->freeing.n && r[i].start == end; i++)
			end += r[i].len;
		if ((!sc->hold && rangeset_add(sc->st->free, start, end - start, err)) ||
		    add_range(&sc->freed, start, end - start, err))
			return -1;
	}
	sc->freeing.n = 0;
	return 0;
}

int schedule_stopped(const struct schedule *sc, struct error *err)
{
	if (!sc->opt || !sc->opt->cancel || !sc->opt->cancel(sc->opt->cancel_ctx))
		return 0;
	return error_set(err, ERROR_STOPPED, "stopped while planning");
}

static struct plan_batch *open_batch(const struct schedule *sc)
{
	return &sc->plan->batch[sc->plan->n_batch - 1];
}

int schedule_close(struct schedule *sc, struct error *err)
{
	if (!sc->n_file)
		return 0;
	if (schedule_stopped(sc, err) || plan_sort_batch(sc->plan, err))
		return -1;
	struct plan_batch *b = open_batch(sc);
	sc->n_file = 0;
	b->journal_blocks = journal_count_blocks(&sc->journal);
	b->rest = !sc->n_worse;
	if (free_old(sc, err))
		return -1;
	journal_count_clear(&sc->journal);
	return 0;
}

static int give_back_take(struct schedule *sc, size_t from, size_t n, struct error *err)
{
	for (size_t i = from; i < n; i++) {
		if (rangeset_add(sc->st->free, sc->take[i], 1, err))
			return -1;
	}
	return 0;
}

/* Takes single blocks out of the free set until there are `want` of them. */
static int take_blocks(struct schedule *sc, uint64_t near, size_t want, size_t *n,
		       struct error *err)
{
	struct range r;
	if (array_reserve(&sc->take, &sc->cap_take, want, sizeof(*sc->take), err))
		return -1;
	while (*n < want && rangeset_best_fit(sc->st->free, 1, near, &r)) {
		if (rangeset_remove(sc->st->free, r.start, 1, err))
			return -1;
		sc->take[(*n)++] = r.start;
	}
	return 0;
}

/* The new mapping of a piece. Where it fits, its new tree blocks are out of the free set. */
static int try_move(struct schedule *sc, const struct job *j, size_t n, bool last, enum fit *fit,
		    struct filemap *map, struct filemap_delta *delta, struct error *err)
{
	const struct move *m = j->move + j->done;
	unsigned how = filemap_how(last, sc->snap->geo.ordered);
	size_t have = 0, need = 0;
	for (;;) {
		struct error why = ERROR_INIT;
		if (!filemap_move(state_map(sc->st, j->file), m, n, sc->snap->geo.block_size, how,
				  sc->take, have, &need, map, delta, &why))
			break;
		if (why.kind != ERROR_USAGE || need <= have) {
			*err = why;
			return -1;
		}
		if (take_blocks(sc, m->to, need, &have, err))
			return -1;
		if (have < need) {
			*fit = NO_TREE_BLOCKS;
			return give_back_take(sc, 0, have, err);
		}
	}
	*fit = FITS;
	if (give_back_take(sc, delta->n_taken, have, err))
		return -1;
	return sc->beside && last && !j->more && j->done + n == j->n
		       ? trees_put_beside(sc, j->file, m, n, map, delta, err)
		       : 0;
}

static int drop_move(struct schedule *sc, struct filemap *map, struct filemap_delta *delta,
		     struct error *err)
{
	int rc = 0;
	for (size_t i = 0; i < delta->n_taken && !rc; i++)
		rc = rangeset_add(sc->st->free, delta->taken[i], 1, err);
	filemap_release(map);
	filemap_delta_release(delta);
	return rc;
}

/* Takes the piece into the open batch, and into the state. */
static int accept(struct schedule *sc, struct job *j, size_t n, bool last, struct filemap *map,
		  struct filemap_delta *delta, struct error *err)
{
	const struct move *m = n ? j->move + j->done : NULL;
	if (!sc->n_file)
		sc->first_node = sc->plan->n_node;
	if ((!sc->n_file && plan_begin_batch(sc->plan, err)) ||
	    journal_count_add(&sc->journal, err) ||
	    plan_add_file(sc->plan, j->ino, last, m, n, delta, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (add_range(&sc->freeing, m[i].from, m[i].len, err))
			return -1;
	}
	for (size_t i = 0; i < delta->n_freed; i++) {
		if (add_range(&sc->freeing, delta->freed[i], 1, err))
			return -1;
	}
	sc->n_file++;
	j->done += n;
	note_runs(sc, j->file, map);
	return state_set_map(sc->st, j->file, map, err);
}

/* Takes the piece, whose new mapping is given, if its metadata fit. */
static int take_in(struct schedule *sc, struct job *j, size_t n, bool last, enum fit *fit,
		   struct filemap *map, struct filemap_delta *delta, struct error *err)
{
	const struct move *m = n ? j->move + j->done : NULL;
	uint64_t fresh;
	if (journal_count_look(&sc->journal, j->ino, m, n, delta, &fresh, err))
		return -1;
	if (fresh > sc->snap->limits.journal_blocks - journal_count_blocks(&sc->journal)) {
		*fit = TOO_MANY_JOURNAL_BLOCKS;
		return drop_move(sc, map, delta, err);
	}
	*fit = FITS;
	return accept(sc, j, n, last, map, delta, err);
}

/* Puts the next n moves into the open batch, if they fit. */
static int try_piece(struct schedule *sc, struct job *j, size_t n, bool last, enum fit *fit,
		     struct error *err)
{
	struct filemap map = { 0 };
	struct filemap_delta delta = { 0 };
	int rc = try_move(sc, j, n, last, fit, &map, &delta, err);
	if (!rc && *fit == FITS)
		rc = take_in(sc, j, n, last, fit, &map, &delta, err);
	filemap_release(&map);
	filemap_delta_release(&delta);
	return rc;
}

int schedule_tree(struct schedule *sc, size_t file, uint64_t start, size_t n, bool *done,
		  struct error *err)
{
	struct job j = { .file = file, .ino = sc->snap->file[file].ino };
	struct filemap map = { 0 };
	struct filemap_delta delta = { 0 };
	enum fit fit = TOO_MANY_JOURNAL_BLOCKS;
	int rc;
	do {
		bool any = sc->n_file;
		rc = trees_remake(sc, file, NULL, 0, start, n, &map, &delta, err);
		if (!rc)
			rc = take_in(sc, &j, 0, true, &fit, &map, &delta, err);
		filemap_release(&map);
		filemap_delta_release(&delta);
		if (rc || fit == FITS || !any)
			break;
		rc = schedule_close(sc, err);
	} while (!rc);
	*done = fit == FITS;
	return rc;
}

static bool same_record(const struct move *a, const struct move *b)
{
	return a->lblk + a->len == b->lblk && a->from + a->len == b->from &&
	       a->unwritten == b->unwritten;
}

/* How many of the job's next moves the copy limit allows; 0: none beside what the batch has. */
static size_t cut(const struct schedule *sc, const struct job *j)
{
	uint64_t limit = sc->snap->limits.copy_blocks,
		 has = sc->n_file ? open_batch(sc)->copy_blocks : 0;
	uint64_t room = limit > has ? limit - has : 0;
	size_t i = j->done, whole = 0;
	for (; i < j->n && i - j->done < j->guess; i++) {
		uint64_t copy = j->move[i].unwritten ? 0 : j->move[i].len;
		if (copy > room)
			break;
		room -= copy;
		if (i + 1 == j->n || !same_record(&j->move[i], &j->move[i + 1]))
			whole = i + 1 - j->done;
	}
	if (whole)
		return whole;
	if (i > j->done)
		return i - j->done;
	return sc->n_file ? 0 : 1; /* a single record may exceed the limit */
}

/* One piece of the job into a batch. *ok = false: nothing of it can be done. */
static int next_piece(struct schedule *sc, struct job *j, bool *ok, struct error *err)
{
	*ok = true;
	for (;;) {
		size_t n = cut(sc, j), left = j->n - j->done;
		enum fit fit = TOO_MANY_JOURNAL_BLOCKS;
		/* A file that must be cut begins in a batch of its own. */
		bool try = n == left || (n && !sc->n_file);
		bool last = n == left && j->whole_tree;
		if (try && try_piece(sc, j, n, last, &fit, err))
			return -1;
		if (try && fit == FITS) {
			j->guess = n > SIZE_MAX / 2 ? n : 2 * n;
			j->whole_tree = true;
			return 0;
		}
		if (sc->n_file) {
			if (schedule_close(sc, err))
				return -1;
		} else if (last) {
			j->whole_tree = false;
		} else if (n > 1) {
			j->guess = n / 2;
		} else {
			*ok = false;
			return 0;
		}
	}
}

/* Few tree blocks are kept minimal after each piece: so they come free early. */
#define FEW_NODES 8u

int schedule_some(struct schedule *sc, size_t file, const struct move *moves, size_t n, bool more,
		  size_t *n_done, bool *full, struct error *err)
{
	bool few = filemap_nodes(state_map(sc->st, file)) <= FEW_NODES;
	struct job j = { .file = file,
			 .ino = sc->snap->file[file].ino,
			 .move = moves,
			 .n = n,
			 .guess = n,
			 .whole_tree = true,
			 .more = more };
	*n_done = 0;
	*full = false;
	while (!j.done) {
		size_t k = cut(sc, &j);
		bool last = j.whole_tree && (few || (k == n && !more));
		enum fit fit = TOO_MANY_JOURNAL_BLOCKS;
		if (k && try_piece(sc, &j, k, last, &fit, err))
			return -1;
		if (k && fit == FITS)
			break;
		if (sc->n_file && (!k || fit == TOO_MANY_JOURNAL_BLOCKS)) {
			*full = true;
			return 0;
		}
		if (last)
			j.whole_tree = false;
		else if (k > 1)
			j.guess = k / 2;
		else
			return 0;
	}
	*n_done = j.done;
	*full = j.done < n;
	return 0;
}

static uint64_t *sorted_nodes(const struct filemap *map, size_t *n)
{
	uint64_t *at = malloc((filemap_nodes(map) + 1) * sizeof(*at));
	*n = 0;
	for (uint32_t l = 0; at && l < map->depth; l++) {
		for (size_t i = 0; i < map->tree->n_node[l]; i++)
			at[(*n)++] = map->tree->node[l][i].pblk;
	}
	if (at && *n > 1)
		qsort(at, *n, sizeof(*at), sort_compare_u64);
	return at;
}

/* The tree blocks of `now` that `then` lacks become free; those that it had before are used. */
static int swap_nodes(struct schedule *sc, const struct filemap *now, const struct filemap *then,
		      bool give, struct error *err)
{
	size_t n_now, n_then, k = 0;
	uint64_t *a = sorted_nodes(now, &n_now), *b = sorted_nodes(then, &n_then);
	int rc = a && b ? 0 : error_nomem(err, "planning");
	for (size_t i = 0; i < n_now && !rc; i++) {
		while (k < n_then && b[k] < a[i])
			k++;
		if (k < n_then && b[k] == a[i])
			continue;
		rc = give ? rangeset_add(sc->st->free, a[i], 1, err)
			  : rangeset_remove(sc->st->free, a[i], 1, err);
	}
	free(a);
	free(b);
	return rc;
}

/* Takes the batches back that hold pieces of this job alone, the last of them still open. */
static int undo(struct schedule *sc, struct job *j, const struct plan *mark,
		const struct filemap *before, struct error *err)
{
	const struct filemap *now = state_map(sc->st, j->file);
	struct plan *p = sc->plan;
	if (schedule_close(sc, err) || swap_nodes(sc, now, before, true, err))
		return -1;
	for (size_t i = 0; i < j->done; i++) {
		if (rangeset_add(sc->st->free, j->move[i].to, j->move[i].len, err))
			return -1;
	}
	for (size_t i = 0; i < j->done; i++) {
		if (rangeset_remove(sc->st->free, j->move[i].from, j->move[i].len, err))
			return -1;
	}
	if (swap_nodes(sc, before, now, false, err))
		return -1;
	p->n_batch = mark->n_batch;
	p->n_file = mark->n_file;
	p->n_move = mark->n_move;
	p->n_node = mark->n_node;
	note_runs(sc, j->file, before);
	state_set_back(sc->st, j->file, before);
	return 0;
}

/* The plan without the open batch. */
static void set_mark(struct schedule *sc, struct plan *mark)
{
	const struct plan_batch *b = open_batch(sc);
	*mark = (struct plan){ .n_batch = sc->plan->n_batch - 1,
			       .n_file = b->first_file,
			       .n_move = sc->plan->file[b->first_file].first_move,
			       .n_node = sc->first_node };
}

/* What is left of the job can't be done: keeps what is done if the file is better for it. */
static int give_up(struct schedule *sc, struct job *j, const struct plan *mark,
		   const struct filemap *before, bool *done, struct error *err)
{
	const struct filemap *now = state_map(sc->st, j->file);
	for (size_t i = j->done; i < j->n; i++) {
		if (rangeset_add(sc->st->free, j->move[i].to, j->move[i].len, err))
			return -1;
	}
	*done = j->done &&
		filemap_runs(now->ext, now->n_ext) < filemap_runs(before->ext, before->n_ext);
	return j->done && !*done ? undo(sc, j, mark, before, err) : 0;
}

int schedule_file(struct schedule *sc, size_t file, const struct move *moves, size_t n, bool *done,
		  struct error *err)
{
	struct job j = { .file = file,
			 .ino = sc->snap->file[file].ino,
			 .move = moves,
			 .n = n,
			 .guess = n,
			 .whole_tree = true };
	const struct filemap *before = state_hold(sc->st, file);
	struct plan mark = { 0 };
	bool ok = true;
	int rc = -1;
	while (ok && j.done < n) {
		bool first = !j.done;
		if (!first && schedule_close(sc, err))
			goto out;
		if (next_piece(sc, &j, &ok, err))
			goto out;
		if (first && ok) /* if it goes in pieces, the open batch holds this one alone */
			set_mark(sc, &mark);
	}
	*done = ok;
	rc = ok ? 0 : give_up(sc, &j, &mark, before, done, err);
out:
	state_let_go(sc->st, file, before);
	return rc;
}
