/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * permute: wants that lie on each other's blocks -> batches.
 *
 * A part is a stretch of a file that lies in one piece, and its target. Where blocks become free
 * that are targets, they are claimed (they leave the state's free set for `open`), so the free set
 * holds only what nobody waits for: bounces and tree blocks come from there. A part whose target is
 * all open is ready. Each batch moves what is ready; what it frees makes others ready, so chains
 * run backward from free space by themselves.
 *
 * When little is ready (a "thin" batch: long chains, slides by a few blocks, or nothing but
 * cycles), parts with an open share of their target are split there, and the smallest parts that
 * lie on targets are bounced, that is, moved to free space for the time being. A part is bounced
 * at most once: nobody waits for the place where it lies then. So each batch has an effect, and
 * there is an end.
 *
 * Cost: O(log n) for each part, split and freed range, and what the moves themselves take.
 */
#include "plan_internal.h"
#include <assert.h>
#include <stdlib.h>

#define NONE	UINT32_MAX
#define CLASSES 64
/* What a batch is thin against: free blocks, blocks still to be moved. */
#define THIN 8u
/* Share of the blocks still to be moved that a thin batch may bounce. */
#define BOUNCE 16u
/* Share of the free blocks that is kept for tree blocks. */
#define RESERVE 16u
/* Parts that a thin batch looks at. */
#define LOOK 1024u

struct part {
	uint64_t offset, len; /* data blocks of the file */
	uint64_t from, to;
	uint64_t open; /* blocks of its target that are claimed for it */
	uint64_t dest; /* where it bounces to */
	uint32_t job;
	uint32_t next; /* in a list of the job */
	bool ready;    /* all of its target is open; it is in its job's list */
	bool partial;  /* it is listed, as some of its target is open */
	bool bouncing; /* in the next batch */
	bool away;     /* it has bounced */
	bool done;
};

/* A file, and those of its parts that are ready. */
struct job_file {
	size_t file;
	uint32_t first, bounce; /* parts that are ready, that bounce */
	uint32_t pending;	/* parts */
	bool queued;
};

struct step {
	uint64_t offset;
	uint32_t part;
};

struct list {
	uint32_t *at;
	size_t n, cap;
};

struct permute {
	struct schedule *sc;
	struct part *part;
	size_t n_part, cap_part;
	struct job_file *job;
	size_t n_job, cap_job;
	struct addrmap target; /* of parts that are not there yet */
	struct addrmap source; /* where they lie meanwhile */
	struct rangeset *open;
	struct list queue; /* jobs with parts to move, from `head` on */
	size_t head;
	struct list partial;	   /* parts with a share of their target open */
	struct list size[CLASSES]; /* parts by the logarithm of their length */
	struct ranges lent;	   /* open blocks that bounces may use */
	struct step *step;
	size_t n_step, cap_step;
	struct targets targets;
	struct moves moves;
	struct runs runs;
	uint64_t ready_blocks, pending_blocks;
	uint64_t moved; /* blocks, by the open batch */
	bool starved;	/* the last batch could move nothing */
};

static int push(struct list *l, uint32_t value, struct error *err)
{
	if (plan_reserve(&l->at, &l->cap, l->n + 1, sizeof(*l->at), err))
		return -1;
	l->at[l->n++] = value;
	return 0;
}

static unsigned class_of(uint64_t len)
{
	unsigned c = 0;
	while (len >>= 1)
		c++;
	return c;
}

/* Queues the part when all of its target is open; lists it when some is. */
static int look(struct permute *pm, uint32_t i, struct error *err)
{
	struct part *p = &pm->part[i];
	struct job_file *j = &pm->job[p->job];
	if (p->ready || p->bouncing || !p->open) /* what bounces is looked at again */
		return 0;
	if (p->open < p->len) {
		if (p->partial)
			return 0;
		p->partial = true;
		return push(&pm->partial, i, err);
	}
	p->ready = true;
	pm->ready_blocks += p->len;
	p->next = j->first;
	j->first = i;
	if (j->queued)
		return 0;
	j->queued = true;
	return push(&pm->queue, p->job, err);
}

static int add_part(struct permute *pm, struct part p, uint32_t *index, struct error *err)
{
	struct list *l = &pm->size[class_of(p.len)];
	if (pm->n_part >= NONE - 1)
		return error_set(err, ERROR_OPERATION, "plan: too many pieces");
	if (plan_reserve(&pm->part, &pm->cap_part, pm->n_part + 1, sizeof(p), err) ||
	    addrmap_put(&pm->target, p.to, (uint32_t)pm->n_part, err) ||
	    addrmap_put(&pm->source, p.from, (uint32_t)pm->n_part, err))
		return -1;
	*index = (uint32_t)pm->n_part;
	pm->part[pm->n_part++] = p;
	pm->job[p.job].pending++;
	return p.away ? 0 : push(l, *index, err);
}

/* Blocks of [start, start + len) that are in the set. */
static uint64_t common(const struct rangeset *rs, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, n = 0;
	struct range r;
	for (uint64_t at = start; at < end && rangeset_next(rs, at, &r) && r.start < end;) {
		uint64_t a = r.start > start ? r.start : start;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		n += z - a;
		at = r.start + r.len;
	}
	return n;
}

/* Cuts a part that isn't ready: it keeps the first `at` blocks, the rest becomes a new one. */
static int split(struct permute *pm, uint32_t i, uint64_t at, uint32_t *rest, struct error *err)
{
	struct part *p = &pm->part[i], r = *p;
	assert(at && at < p->len && !p->ready);
	r.offset += at;
	r.from += at;
	r.to += at;
	r.len -= at;
	r.partial = false;
	p->len = at;
	if (p->open) {
		uint64_t open = p->open;
		p->open = common(pm->open, p->to, p->len);
		r.open = open - p->open;
	}
	if (!p->away && push(&pm->size[class_of(at)], i, err))
		return -1;
	return add_part(pm, r, rest, err);
}

/* Gives the waiting parts what they want of the free range [start, start + len). */
static int open_range(struct permute *pm, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t end = start + len, key;
	uint32_t i;
	bool have = addrmap_floor(&pm->target, start, &key, &i);
	if (!have || key + pm->part[i].len <= start)
		have = addrmap_above(&pm->target, start, &key, &i);
	for (; have && key < end; have = addrmap_above(&pm->target, key, &key, &i)) {
		struct part *p = &pm->part[i];
		uint64_t a = key > start ? key : start;
		uint64_t z = key + p->len < end ? key + p->len : end;
		if (rangeset_remove(pm->sc->st->free, a, z - a, err) ||
		    rangeset_add(pm->open, a, z - a, err))
			return -1;
		p->open += z - a;
		if (look(pm, i, err))
			return -1;
	}
	return 0;
}

/* The same for what is free of [start, start + len). */
static int open_free(struct permute *pm, uint64_t start, uint64_t len, struct error *err)
{
	uint64_t at = start, end = start + len;
	struct range r;
	while (rangeset_next(pm->sc->st->free, at, &r) && r.start < end) {
		uint64_t a = r.start > at ? r.start : at;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		if (open_range(pm, a, z - a, err))
			return -1;
		at = z;
	}
	return 0;
}

/* ---- start ---- */

static int by_file(const void *a, const void *b)
{
	const struct want *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The parts of one file: its wants against its runs, both in the order of the file. */
static int add_file(struct permute *pm, const struct want *w, size_t n, struct error *err)
{
	const struct run *r;
	uint32_t index;
	if (runs_of(state_map(pm->sc->st, w->file), &pm->runs, err) ||
	    plan_reserve(&pm->job, &pm->cap_job, pm->n_job + 1, sizeof(*pm->job), err))
		return -1;
	pm->job[pm->n_job++] = (struct job_file){ .file = w->file, .first = NONE, .bounce = NONE };
	r = pm->runs.at;
	for (size_t i = 0; i < n; i++) {
		for (uint64_t done = 0; done < w[i].len;) {
			uint64_t offset = w[i].offset + done;
			while (r->offset + r->blocks <= offset)
				r++;
			uint64_t skip = offset - r->offset, len = r->blocks - skip;
			if (len > w[i].len - done)
				len = w[i].len - done;
			struct part p = { .offset = offset,
					  .len = len,
					  .from = r->pblk + skip,
					  .to = w[i].to + done,
					  .job = (uint32_t)(pm->n_job - 1) };
			done += len;
			if (p.from == p.to)
				continue;
			pm->pending_blocks += len;
			if (add_part(pm, p, &index, err))
				return -1;
		}
	}
	return 0;
}

static int start(struct permute *pm, const struct want *wants, size_t n, struct error *err)
{
	struct want *w = malloc((n + 1) * sizeof(*w));
	int rc = 0;
	if (!w || rangeset_new(&pm->open, err)) {
		free(w);
		return error_nomem(err, "planning");
	}
	for (size_t i = 0; i < n; i++)
		w[i] = wants[i];
	qsort(w, n, sizeof(*w), by_file);
	for (size_t i = 0, k; i < n && !rc; i = k) {
		for (k = i + 1; k < n && w[k].file == w[i].file; k++)
			;
		rc = add_file(pm, w + i, k - i, err);
	}
	free(w);
	for (size_t i = 0; i < pm->n_part && !rc; i++)
		rc = open_free(pm, pm->part[i].to, pm->part[i].len, err);
	return rc;
}

/* ---- a thin batch ---- */

/* Cuts a part where its target is open: those pieces are ready then. */
static int split_open(struct permute *pm, uint32_t i, struct error *err)
{
	struct range r;
	while (pm->part[i].open && pm->part[i].open < pm->part[i].len) {
		struct part *p = &pm->part[i];
		uint32_t rest;
		if (!rangeset_next(pm->open, p->to, &r))
			return 0;
		uint64_t at = r.start > p->to ? r.start - p->to : r.start + r.len - p->to;
		p->partial = false;
		if (split(pm, i, at, &rest, err) || look(pm, i, err))
			return -1;
		i = rest;
	}
	return look(pm, i, err);
}

/* Does the part belong in the list still? It may have become ready since, or have been split. */
static bool still_partial(struct permute *pm, uint32_t i)
{
	struct part *p = &pm->part[i];
	if (p->partial && !p->done && !p->ready && p->open)
		return true;
	p->partial = false;
	return false;
}

/* The parts that have the largest share of their target open are cut there. */
static int split_partials(struct permute *pm, struct error *err)
{
	uint64_t best = 1;
	size_t n = pm->partial.n, kept = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t k = kept = 0; k < n; k++) {
			uint32_t i = pm->partial.at[k];
			const struct part *p = &pm->part[i];
			unsigned share = class_of(p->len) - class_of(p->open);
			if (!still_partial(pm, i))
				continue;
			pm->partial.at[kept++] = i;
			if (!pass) {
				if (p->open > best)
					best = p->open;
			} else if (p->open >= best / 4 || share < 3) {
				kept--;
				pm->part[i].partial = false;
				if (split_open(pm, i, err))
					return -1;
			}
		}
		pm->partial.n = n = kept;
	}
	return 0;
}

/* Puts part i on its way to free space. `cut`: a piece of it, if there is no room for all.
 * *ok = false: no room. */
static int bounce(struct permute *pm, uint32_t i, bool cut, bool *ok, struct error *err)
{
	struct rangeset *avail = pm->sc->st->free;
	uint32_t rest;
	struct range r;
	*ok = rangeset_best_fit(avail, pm->part[i].len, pm->part[i].to, &r);
	if (!*ok && cut && rangeset_longest(avail, &r)) {
		*ok = true;
		if (split(pm, i, r.len, &rest, err) || look(pm, rest, err) || look(pm, i, err))
			return -1;
		if (pm->part[i].ready)
			return 0;
	}
	if (!*ok)
		return 0;
	struct part *p = &pm->part[i];
	struct job_file *j = &pm->job[p->job];
	p->dest = r.start;
	p->bouncing = true;
	p->next = j->bounce;
	j->bounce = i;
	if (rangeset_remove(avail, r.start, p->len, err))
		return -1;
	if (j->queued)
		return 0;
	j->queued = true;
	return push(&pm->queue, p->job, err);
}

/* The first part, if any, that lies on [at, end) and doesn't leave in the next batch. */
static bool next_blocker(const struct permute *pm, uint64_t *at, uint64_t end, uint32_t *i)
{
	uint64_t key;
	bool have = addrmap_floor(&pm->source, *at, &key, i);
	if (!have || key + pm->part[*i].len <= *at)
		have = addrmap_above(&pm->source, *at, &key, i);
	for (; have && key < end; have = addrmap_above(&pm->source, key, &key, i)) {
		const struct part *b = &pm->part[*i];
		*at = key + b->len;
		if (!b->ready && !b->bouncing)
			return true;
	}
	return false;
}

static uint64_t longest_free(const struct permute *pm)
{
	struct range r = { 0 };
	rangeset_longest(pm->sc->st->free, &r);
	return r.len;
}

/* Blocks that have to bounce so that the target of p is open; UINT64_MAX: it isn't worth it. */
static uint64_t cost_of(const struct permute *pm, const struct part *p)
{
	uint64_t cost = 0, longest = longest_free(pm);
	uint32_t i;
	for (uint64_t at = p->to; next_blocker(pm, &at, p->to + p->len, &i);) {
		const struct part *b = &pm->part[i];
		if (b->away || b->len > 4 * p->len + 16 || b->len > 4 * longest)
			return UINT64_MAX;
		cost += b->len;
	}
	return cost;
}

/* Bounces what lies on the target of part i. */
static int clear_target(struct permute *pm, uint32_t i, uint64_t *budget, bool *any,
			struct error *err)
{
	uint64_t end = pm->part[i].to + pm->part[i].len, cost = cost_of(pm, &pm->part[i]);
	bool ok = true;
	uint32_t k;
	if (!cost || cost > *budget)
		return 0;
	*budget -= cost;
	for (uint64_t at = pm->part[i].to; ok && next_blocker(pm, &at, end, &k);) {
		uint64_t next = at;
		at = pm->part[k].from > pm->part[i].to ? pm->part[k].from : pm->part[i].to;
		if (bounce(pm, k, true, &ok, err))
			return -1;
		*any |= ok;
		if (ok && pm->part[k].from + pm->part[k].len >= next)
			at = next;
	}
	return 0;
}

static int by_weight(const void *a, const void *b)
{
	const struct weighted *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Lets others use what is open of a part's target meanwhile. */
static int lend(struct permute *pm, uint32_t i, struct error *err)
{
	struct part *p = &pm->part[i];
	uint64_t end = p->to + p->len;
	struct range r;
	if (!still_partial(pm, i))
		return 0;
	for (uint64_t at = p->to; p->open && rangeset_next(pm->open, at, &r) && r.start < end;) {
		uint64_t a = r.start > at ? r.start : at;
		uint64_t z = r.start + r.len < end ? r.start + r.len : end;
		if (plan_reserve(&pm->lent.at, &pm->lent.cap, pm->lent.n + 1, sizeof(*pm->lent.at),
				 err) ||
		    rangeset_remove(pm->open, a, z - a, err) ||
		    rangeset_add(pm->sc->st->free, a, z - a, err))
			return -1;
		pm->lent.at[pm->lent.n++] = (struct range){ a, z - a };
		p->open -= z - a;
		at = z;
	}
	return 0;
}

static uint64_t spare_blocks(const struct permute *pm)
{
	return rangeset_blocks(pm->sc->st->free);
}

/*
 * Clears the targets that have the least share still occupied. Where free blocks are short, those
 * that have the largest share occupied lend what is open of them.
 */
static int clear_partials(struct permute *pm, uint64_t reserve, uint64_t *budget, bool *any,
			  struct error *err)
{
	struct weighted w[LOOK];
	size_t kept = 0, n = 0;
	for (size_t k = 0; k < pm->partial.n; k++) {
		uint32_t i = pm->partial.at[k];
		const struct part *p = &pm->part[i];
		if (!still_partial(pm, i))
			continue;
		pm->partial.at[kept++] = i;
		if (n < LOOK)
			w[n++] = (struct weighted){ ((p->len - p->open) << 16) / p->len, i };
	}
	pm->partial.n = kept;
	qsort(w, n, sizeof(*w), by_weight);
	while (spare_blocks(pm) < reserve && n > (pm->starved ? 0 : 1)) {
		if (lend(pm, (uint32_t)w[--n].index, err))
			return -1;
	}
	for (size_t k = 0; k < n && *budget; k++) {
		uint32_t i = (uint32_t)w[k].index;
		uint64_t cost = cost_of(pm, &pm->part[i]);
		if (cost > *budget)
			continue;
		while (spare_blocks(pm) < reserve + cost && n > k + 1) {
			if (lend(pm, (uint32_t)w[--n].index, err))
				return -1;
		}
		if (spare_blocks(pm) >= reserve + cost && clear_target(pm, i, budget, any, err))
			return -1;
	}
	return 0;
}

/* Clears the smallest targets. */
static int clear_small(struct permute *pm, uint64_t *budget, bool *any, struct error *err)
{
	for (unsigned c = 0, looked = 0; c < CLASSES && *budget; c++) {
		struct list *l = &pm->size[c];
		for (size_t k = l->n; k > 0 && *budget && looked < LOOK; k--, looked++) {
			uint32_t i = l->at[k - 1];
			const struct part *p = &pm->part[i];
			if (p->done || class_of(p->len) != c) {
				l->at[k - 1] = l->at[--l->n];
				continue;
			}
			if (!p->ready && clear_target(pm, i, budget, any, err))
				return -1;
		}
	}
	return 0;
}

/* Bounces anything that lies on a target, in pieces if need be. */
static int bounce_any(struct permute *pm, bool *any, struct error *err)
{
	for (unsigned c = 0; c < CLASSES && !*any; c++) {
		struct list *l = &pm->size[c];
		for (size_t k = l->n; k > 0 && !*any; k--) {
			const struct part *p = &pm->part[l->at[k - 1]];
			uint64_t at = p->to;
			uint32_t i;
			bool more = true;
			if (p->done || p->ready || class_of(p->len) != c)
				continue;
			do {
				more = next_blocker(pm, &at, p->to + p->len, &i);
			} while (more && pm->part[i].away);
			if (more && bounce(pm, i, true, any, err))
				return -1;
			if (!*any && !rangeset_count(pm->sc->st->free))
				return 0;
		}
	}
	return 0;
}

/* *any: there is something for the next batch. */
static int prepare(struct permute *pm, bool *any, struct error *err)
{
	uint64_t all = spare_blocks(pm) + rangeset_blocks(pm->open),
		 reserve = all / RESERVE + (all > 2);
	uint64_t thin = all / THIN, budget = pm->pending_blocks / BOUNCE + 1;
	bool bounced = false;
	if (thin > pm->pending_blocks / THIN)
		thin = pm->pending_blocks / THIN;
	if (thin > pm->sc->snap->limits.copy_blocks / 2)
		thin = pm->sc->snap->limits.copy_blocks / 2;
	if ((pm->ready_blocks <= thin || pm->starved) &&
	    clear_partials(pm, reserve, &budget, &bounced, err))
		return -1;
	if (pm->ready_blocks <= thin && !bounced && spare_blocks(pm) > reserve) {
		if (budget > spare_blocks(pm) - reserve)
			budget = spare_blocks(pm) - reserve;
		if (clear_small(pm, &budget, &bounced, err))
			return -1;
	}
	if (!pm->queue.n && split_partials(pm, err))
		return -1;
	if (!pm->queue.n && bounce_any(pm, &bounced, err))
		return -1;
	*any = pm->queue.n > 0;
	return 0;
}

/* ---- a batch ---- */

static int by_offset(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int list_steps(struct permute *pm, struct job_file *j, struct error *err)
{
	pm->n_step = 0;
	for (int k = 0; k < 2; k++) {
		for (uint32_t i = k ? j->bounce : j->first; i != NONE; i = pm->part[i].next) {
			struct part *p = &pm->part[i];
			if (plan_reserve(&pm->step, &pm->cap_step, pm->n_step + 1,
					 sizeof(*pm->step), err))
				return -1;
			pm->step[pm->n_step++] = (struct step){ p->offset, i };
			if (p->ready)
				pm->ready_blocks -= p->len;
			p->ready = false;
		}
	}
	j->first = j->bounce = NONE;
	qsort(pm->step, pm->n_step, sizeof(*pm->step), by_offset);
	return 0;
}

/* What becomes of a part in this batch: all of it has moved, or nothing. */
static int settle(struct permute *pm, uint32_t i, bool moved, struct error *err)
{
	struct part *p = &pm->part[i];
	if (p->bouncing) {
		p->bouncing = false;
		if (moved) {
			addrmap_del(&pm->source, p->from);
			p->from = p->dest;
			p->away = true;
			return addrmap_put(&pm->source, p->from, i, err) || look(pm, i, err) ? -1
											     : 0;
		}
		return rangeset_add(pm->sc->st->free, p->dest, p->len, err) ||
				       push(&pm->size[class_of(p->len)], i, err) || look(pm, i, err)
			       ? -1
			       : 0;
	}
	if (!moved)
		return look(pm, i, err);
	p->done = true;
	pm->pending_blocks -= p->len;
	pm->job[p->job].pending--;
	addrmap_del(&pm->target, p->to);
	addrmap_del(&pm->source, p->from);
	return rangeset_remove(pm->open, p->to, p->len, err);
}

static int settle_all(struct permute *pm, uint64_t done, struct error *err)
{
	for (size_t k = 0; k < pm->n_step; k++) {
		uint32_t i = pm->step[k].part, rest;
		struct part *p = &pm->part[i];
		bool moved = done > 0;
		if (moved && done < p->len) {
			uint64_t dest = p->dest;
			bool bouncing = p->bouncing;
			if (split(pm, i, done, &rest, err))
				return -1;
			pm->part[rest].dest = dest + done;
			if (bouncing && settle(pm, rest, false, err))
				return -1;
			if (!bouncing && look(pm, rest, err))
				return -1;
		}
		done -= pm->part[i].len < done ? pm->part[i].len : done;
		if (settle(pm, i, moved, err))
			return -1;
	}
	return 0;
}

/* Moves what is ready of a file, and what bounces. *full: the batch holds no more. */
static int move_file(struct permute *pm, uint32_t index, bool *full, struct error *err)
{
	struct job_file *j = &pm->job[index];
	size_t finals = 0, n_done;
	uint64_t done = 0;
	j->queued = false;
	if (list_steps(pm, j, err))
		return -1;
	targets_reset(&pm->targets);
	for (size_t k = 0; k < pm->n_step; k++) {
		const struct part *p = &pm->part[pm->step[k].part];
		struct targets *t = &pm->targets;
		if (plan_reserve(&t->at, &t->cap, t->n + 1, sizeof(*t->at), err))
			return -1;
		t->at[t->n++] = (struct target){ p->offset, p->len, p->bouncing ? p->dest : p->to };
		finals += !p->bouncing;
	}
	if (targets_moves(&pm->targets, state_map(pm->sc->st, j->file), &pm->moves, err) ||
	    schedule_some(pm->sc, j->file, pm->moves.at, pm->moves.n, j->pending > finals, &n_done,
			  full, err))
		return -1;
	for (size_t k = 0; k < n_done; k++)
		done += pm->moves.at[k].len;
	pm->moved += done;
	return settle_all(pm, done, err);
}

static int run_batch(struct permute *pm, struct error *err)
{
	struct list *q = &pm->queue;
	size_t end = q->n;
	bool full = false;
	pm->moved = 0;
	/* What is queued again meanwhile is for the next batch: a file moves once in each. */
	while (pm->head < end && !full) {
		if (move_file(pm, q->at[pm->head++], &full, err))
			return -1;
	}
	if (pm->head == q->n)
		pm->head = q->n = 0;
	if (schedule_close(pm->sc, err))
		return -1;
	for (size_t i = 0; i < pm->sc->freed.n; i++) {
		const struct range *r = &pm->sc->freed.at[i];
		if (open_range(pm, r->start, r->len, err))
			return -1;
	}
	pm->sc->freed.n = 0;
	for (size_t i = 0; i < pm->lent.n; i++) {
		if (open_free(pm, pm->lent.at[i].start, pm->lent.at[i].len, err))
			return -1;
	}
	pm->lent.n = 0;
	return 0;
}

static int run(struct permute *pm, bool *done, struct error *err)
{
	bool any = true;
	*done = false;
	while (pm->pending_blocks) {
		if (prepare(pm, &any, err))
			return -1;
		if (!any)
			return 0;
		if (run_batch(pm, err))
			return -1;
		/* Nothing could move, so tree blocks are short: once more with more of them. */
		if (!pm->moved && pm->starved)
			return 0;
		pm->starved = !pm->moved;
	}
	*done = true;
	return 0;
}

/* What was claimed and isn't used is free after all. */
static int give_back(struct permute *pm, struct error *err)
{
	struct range r;
	for (uint64_t at = 0; rangeset_next(pm->open, at, &r); at = r.start + r.len) {
		if (rangeset_add(pm->sc->st->free, r.start, r.len, err))
			return -1;
	}
	return 0;
}

static void release(struct permute *pm)
{
	for (unsigned c = 0; c < CLASSES; c++)
		free(pm->size[c].at);
	addrmap_release(&pm->target);
	addrmap_release(&pm->source);
	rangeset_free(pm->open);
	free(pm->part);
	free(pm->job);
	free(pm->queue.at);
	free(pm->partial.at);
	free(pm->lent.at);
	free(pm->step);
	free(pm->targets.at);
	free(pm->moves.at);
	free(pm->runs.at);
}

int permute(struct schedule *sc, const struct want *wants, size_t n, bool *done, struct error *err)
{
	struct permute pm = { .sc = sc };
	int rc = -1;
	if (!start(&pm, wants, n, err) && !run(&pm, done, err) && !give_back(&pm, err))
		rc = 0;
	release(&pm);
	return rc;
}
