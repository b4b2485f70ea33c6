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
#include "scaledefrag/sort.h"
#include <stdlib.h>

/* Windows are so many to a volume, but not shorter or longer than this (blocks). */
#define WINDOWS	     256u
#define LEAST_WINDOW 128u
#define MOST_WINDOW  8192u

/* A file has blocks in a window. */
struct link {
	uint64_t window; /* its number, to sort by; later its index in `window` */
	uint32_t file;	 /* index in the caller's list */
	uint32_t blocks;
};

struct window {
	uint64_t blocks; /* of the files, in it */
	uint64_t cost;	 /* blocks of those files that have no place in the order yet */
	size_t link;	 /* first of its links */
	size_t at;	 /* in the heap; SIZE_MAX: taken out */
};

struct sweep {
	uint64_t window_blocks;
	struct link *link; /* by window, then file */
	size_t n_link, cap_link;
	uint32_t *by_file; /* links by file: indices in `link` */
	size_t *first;	   /* of each file in by_file */
	uint64_t *size;	   /* of each file, in blocks */
	size_t n_file;
	struct window *window;
	size_t n_window;
	size_t *heap; /* windows, the cheapest first */
	size_t n_heap;
};

static uint64_t choose_window(const struct geometry *geo)
{
	uint64_t blocks = LEAST_WINDOW;

	while (blocks < MOST_WINDOW && blocks * WINDOWS < geo->blocks)
		blocks *= 2;
	return blocks;
}

static int add_link(struct sweep *s, uint64_t window, uint32_t file, uint64_t blocks,
		    struct error *err)
{
	if (array_reserve(&s->link, &s->cap_link, s->n_link + 1, sizeof(*s->link), err))
		return -1;
	s->link[s->n_link++] = (struct link){ window, file, (uint32_t)blocks };
	return 0;
}

static int link_file(struct sweep *s, uint32_t file, const struct filemap *map, struct error *err)
{
	for (size_t i = 0; i < map->n_ext; i++) {
		uint64_t at = map->ext[i].pblk, end = at + map->ext[i].len;

		while (at < end) {
			uint64_t window = at / s->window_blocks;
			uint64_t next = (window + 1) * s->window_blocks;
			uint64_t n = (next < end ? next : end) - at;

			if (add_link(s, window, file, n, err))
				return -1;
			at += n;
		}
		s->size[file] += map->ext[i].len;
	}
	return 0;
}

/* By window; in each, files come as they were listed. Several extents in one make one link. */
static int merge_links(struct sweep *s, struct error *err)
{
	size_t n = 0;

	if (!sort_by_key(s->link, s->n_link, sizeof(*s->link)))
		return error_nomem(err, "planning");
	for (size_t i = 0; i < s->n_link; i++) {
		struct link *last = n ? &s->link[n - 1] : NULL;

		if (last && last->window == s->link[i].window && last->file == s->link[i].file)
			last->blocks += s->link[i].blocks;
		else
			s->link[n++] = s->link[i];
	}
	s->n_link = n;
	return 0;
}

/* From here on a link's window is an index. */
static int make_windows(struct sweep *s, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_link; i++)
		n += i == 0 || s->link[i].window != s->link[i - 1].window;
	s->window = calloc(n + 1, sizeof(*s->window));
	s->heap = calloc(n + 1, sizeof(*s->heap));
	if (!s->window || !s->heap)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < s->n_link; i++) {
		struct link *l = &s->link[i];
		bool fresh = i == 0 || l->window != s->link[i - 1].window;

		if (fresh)
			s->window[s->n_window++] = (struct window){ .link = i };
		s->window[s->n_window - 1].blocks += l->blocks;
		s->window[s->n_window - 1].cost += s->size[l->file];
	}
	s->window[s->n_window].link = s->n_link;
	for (size_t w = 0; w < s->n_window; w++) {
		for (size_t i = s->window[w].link; i < s->window[w + 1].link; i++)
			s->link[i].window = w;
	}
	return 0;
}

static int index_files(struct sweep *s, struct error *err)
{
	size_t sum = 0;

	if (s->n_link >= UINT32_MAX)
		return error_set(err, ERROR_OPERATION, "plan: too many extents");
	s->by_file = malloc((s->n_link + 1) * sizeof(*s->by_file));
	if (!s->by_file)
		return error_nomem(err, "planning");
	for (size_t i = 0; i < s->n_link; i++)
		s->first[s->link[i].file]++;
	for (size_t f = 0; f <= s->n_file; f++) {
		sum += s->first[f];
		s->first[f] = sum; /* behind its last one */
	}
	for (size_t i = s->n_link; i-- > 0;)
		s->by_file[--s->first[s->link[i].file]] = (uint32_t)i;
	return 0;
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
	s->n_heap = s->n_window;
	for (size_t w = 0; w < s->n_window; w++)
		put(s, w, w);
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
	struct sweep s = { .window_blocks = choose_window(&st->snap->geo), .n_file = n };
	int rc = -1;

	s.size = calloc(n + 1, sizeof(*s.size));
	s.first = calloc(n + 2, sizeof(*s.first));
	if (!s.size || !s.first) {
		error_nomem(err, "planning");
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		if (link_file(&s, (uint32_t)i, state_map(st, file[i]), err))
			goto out;
	}
	if (merge_links(&s, err) || make_windows(&s, err) || index_files(&s, err))
		goto out;
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
