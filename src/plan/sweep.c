/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sweep: fragmented files in the order of the windows that they empty.
 *
 * Where free space is shattered, what a file leaves behind is of use only if its neighbours go too.
 * So the volume is cut into windows, and the files of one window after the other go to the front:
 * always of the window that is the cheapest to empty, counted as blocks to move (the files whole)
 * for each block of theirs in it. A file that has its place in the order costs the other windows
 * nothing any more, so those that share files with it come next.
 *
 * A heap of windows with O(log) updates: one for each window that a file has blocks in.
 */
#include "plan_internal.h"
#include <stdlib.h>

/* Windows are so many to a volume, but not shorter or longer than this (blocks, as a power of 2);
 * longer only where they would be too many. */
#define WINDOWS	     256u
#define LEAST_WINDOW 7u
#define MOST_WINDOW  13u
#define MOST_WINDOWS (1u << 22)

/* A file has blocks in a window. */
struct link {
	uint32_t window;
	uint32_t file; /* index in the caller's list */
};

struct window {
	uint64_t blocks; /* of the files, in it */
	uint64_t cost;	 /* blocks of those files that have no place in the order yet */
	size_t link;	 /* first of its links */
	size_t at; /* in the heap; SIZE_MAX: taken out. Before: the file met last in it, plus 1 */
};

struct sweep {
	const struct state *st;
	const size_t *list; /* the caller's files */
	unsigned shift;	    /* a window is so many blocks, as a power of 2 */
	struct link *link;  /* by window, then file */
	size_t n_link;
	uint32_t *by_file; /* links by file: indices in `link` */
	size_t *first;	   /* of each file in by_file */
	uint64_t *size;	   /* of each file, in blocks */
	size_t n_file;
	struct window *window; /* one more than there are */
	size_t n_window;
	size_t *heap; /* windows, the cheapest first. Before: by window, its next link */
	size_t n_heap;
};

static unsigned choose_window(const struct geometry *geo)
{
	unsigned shift = LEAST_WINDOW;

	while (shift < MOST_WINDOW && (uint64_t)WINDOWS << shift < geo->blocks)
		shift++;
	while (geo->blocks >> shift >= MOST_WINDOWS)
		shift++;
	return shift;
}

/* The next stretch of the file that lies in one window: where it begins is where it is called
 * with, and it goes on from there. */
static uint64_t stretch(const struct sweep *s, const struct extent *e, uint64_t at, size_t *window)
{
	uint64_t end = e->pblk + e->len, next;

	*window = (size_t)(at >> s->shift);
	next = (uint64_t)(*window + 1) << s->shift;
	return (next < end ? next : end) - at;
}

/* Counts the links of each window, and sizes. */
static void count_links(struct sweep *s)
{
	for (size_t f = 0; f < s->n_file; f++) {
		const struct filemap *map = state_map(s->st, s->list[f]);

		for (size_t i = 0; i < map->n_ext; i++) {
			const struct extent *e = &map->ext[i];
			uint64_t n;
			size_t w;

			for (uint64_t at = e->pblk; at < e->pblk + e->len; at += n) {
				n = stretch(s, e, at, &w);
				s->window[w].link += s->window[w].at != f + 1;
				s->window[w].at = f + 1;
			}
			s->size[f] += e->len;
		}
	}
}

/* The links that were counted get their places. */
static int place_links(struct sweep *s, struct error *err)
{
	for (size_t w = 0; w <= s->n_window; w++) {
		size_t n = s->window[w].link;

		s->window[w].link = s->heap[w] = s->n_link;
		s->window[w].at = 0;
		s->n_link += n;
	}
	if (s->n_link >= UINT32_MAX)
		return error_set(err, ERROR_OPERATION, "plan: too many extents");
	s->link = malloc((s->n_link + 1) * sizeof(*s->link));
	s->by_file = malloc((s->n_link + 1) * sizeof(*s->by_file));
	return s->link && s->by_file ? 0 : error_nomem(err, "planning");
}

/* Each file's blocks in a window make one link. */
static void link_files(struct sweep *s)
{
	size_t k = 0;

	for (size_t f = 0; f < s->n_file; f++) {
		const struct filemap *map = state_map(s->st, s->list[f]);

		s->first[f] = k;
		for (size_t i = 0; i < map->n_ext; i++) {
			const struct extent *e = &map->ext[i];
			uint64_t n;
			size_t w;

			for (uint64_t at = e->pblk; at < e->pblk + e->len; at += n) {
				struct window *to;

				n = stretch(s, e, at, &w);
				to = &s->window[w];
				if (to->at != f + 1) {
					to->at = f + 1;
					to->cost += s->size[f];
					s->by_file[k++] = (uint32_t)s->heap[w];
					s->link[s->heap[w]++] =
						(struct link){ (uint32_t)w, (uint32_t)f };
				}
				to->blocks += n;
			}
		}
	}
	s->first[s->n_file] = k;
}

/* ---- the heap ---- */

static bool cheaper(const struct sweep *s, size_t a, size_t b)
{
	const struct window *x = &s->window[a], *y = &s->window[b];
	/* cost / blocks; both products fit: a window has few blocks */
	uint64_t left = x->cost * y->blocks, right = y->cost * x->blocks;

	return left != right ? left < right : a < b;
}

static void put(struct sweep *s, size_t at, size_t window)
{
	s->heap[at] = window;
	s->window[window].at = at;
}

static void up(struct sweep *s, size_t at)
{
	size_t window = s->heap[at];

	for (; at && cheaper(s, window, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put(s, at, s->heap[(at - 1) / 2]);
	put(s, at, window);
}

static void down(struct sweep *s, size_t at)
{
	size_t window = s->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < s->n_heap && cheaper(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (child >= s->n_heap || !cheaper(s, s->heap[child], window))
			break;
		put(s, at, s->heap[child]);
		at = child;
	}
	put(s, at, window);
}

static size_t pop(struct sweep *s)
{
	size_t window = s->heap[0], last = s->heap[--s->n_heap];

	if (s->n_heap) {
		s->heap[0] = last;
		down(s, 0);
	}
	s->window[window].at = SIZE_MAX;
	return window;
}

static void make_heap(struct sweep *s)
{
	for (size_t w = 0; w < s->n_window; w++) {
		if (s->window[w].blocks)
			put(s, s->n_heap++, w);
	}
	for (size_t i = s->n_heap / 2; i-- > 0;)
		down(s, i);
}

/* The file has its place: it costs no window anything any more. */
static void placed(struct sweep *s, uint32_t file)
{
	for (size_t i = s->first[file]; i < s->first[file + 1]; i++) {
		struct window *w = &s->window[s->link[s->by_file[i]].window];

		w->cost -= s->size[file];
		if (w->at != SIZE_MAX)
			up(s, w->at);
	}
	s->size[file] = 0;
}

static void list(struct sweep *s, size_t *order)
{
	size_t n = 0;

	make_heap(s);
	while (s->n_heap) {
		size_t w = pop(s);

		for (size_t i = s->window[w].link; i < s->window[w + 1].link; i++) {
			uint32_t file = s->link[i].file;

			if (!s->size[file])
				continue; /* has its place */
			placed(s, file);
			order[n++] = file;
		}
	}
}

int sweep_order(const struct state *st, const size_t *file, size_t n, size_t *order,
		struct error *err)
{
	const struct geometry *geo = &st->snap->geo;
	struct sweep s = { .st = st, .list = file, .n_file = n, .shift = choose_window(geo) };
	int rc = -1;

	s.n_window = (size_t)(geo->blocks >> s.shift) + 1;
	s.size = calloc(n + 1, sizeof(*s.size));
	s.first = calloc(n + 1, sizeof(*s.first));
	s.window = calloc(s.n_window + 1, sizeof(*s.window));
	s.heap = calloc(s.n_window + 1, sizeof(*s.heap));
	if (!s.size || !s.first || !s.window || !s.heap) {
		error_nomem(err, "planning");
		goto out;
	}
	count_links(&s);
	if (place_links(&s, err))
		goto out;
	link_files(&s);
	list(&s, order);
	rc = 0;
out:
	free(s.link);
	free(s.by_file);
	free(s.first);
	free(s.size);
	free(s.window);
	free(s.heap);
	return rc;
}
