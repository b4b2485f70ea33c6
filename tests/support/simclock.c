/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "simclock.h"
#include "wrap.h"
#include <pthread.h>

struct event {
	uint64_t time, number;
	void (*call)(void *arg);
	void *arg;
};

struct simclock {
	pthread_mutex_t lock; /* of all below */
	uint64_t now, number;
	unsigned running;
	struct event *heap; /* the earliest first */
	size_t n, room;
};

struct simclock *simclock_new(void)
{
	struct simclock *c = must_alloc(1, sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	c->running = 1;
	return c;
}

void simclock_free(struct simclock *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c->heap);
	free(c);
}

void simclock_lock(struct simclock *c)
{
	pthread_mutex_lock(&c->lock);
}

void simclock_unlock(struct simclock *c)
{
	pthread_mutex_unlock(&c->lock);
}

uint64_t simclock_now(const struct simclock *c)
{
	return c->now;
}

static bool earlier(const struct event *a, const struct event *b)
{
	return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void swap(struct event *a, struct event *b)
{
	struct event t = *a;

	*a = *b;
	*b = t;
}

void simclock_at(struct simclock *c, uint64_t time, void (*event)(void *arg), void *arg)
{
	size_t i = c->n++;

	if (c->n > c->room) {
		c->room = c->room ? 2 * c->room : 256;
		c->heap = realloc(c->heap, c->room * sizeof(*c->heap));
		if (!c->heap)
			abort();
	}
	c->heap[i] = (struct event){ time, c->number++, event, arg };
	for (; i && earlier(&c->heap[i], &c->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&c->heap[i], &c->heap[(i - 1) / 2]);
}

static struct event take_first(struct simclock *c)
{
	struct event first = c->heap[0];
	size_t i = 0;

	c->heap[0] = c->heap[--c->n];
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < c->n; k++)
			if (earlier(&c->heap[k], &c->heap[least]))
				least = k;
		if (least == i)
			return first;
		swap(&c->heap[i], &c->heap[least]);
		i = least;
	}
}

/* While nobody runs, time goes on. */
static void go_on(struct simclock *c)
{
	while (!c->running && c->n) {
		struct event e = take_first(c);

		c->now = e.time > c->now ? e.time : c->now;
		e.call(e.arg);
	}
}

void simclock_left(struct simclock *c)
{
	c->running--;
	go_on(c);
}

void simclock_joined(struct simclock *c, unsigned n)
{
	c->running += n;
}

/* Semaphores, since conditions may be wrapped. */
void simclock_wait(struct simclock *c, struct simclock_waiter *w)
{
	sem_init(&w->woken, 0, 0);
	w->waiting = true;
	simclock_left(c);
	pthread_mutex_unlock(&c->lock);
	while (sem_wait(&w->woken))
		; /* a signal */
	pthread_mutex_lock(&c->lock);
	sem_destroy(&w->woken);
}

void simclock_wake(struct simclock *c, struct simclock_waiter *w)
{
	if (!w->waiting)
		return;
	w->waiting = false;
	c->running++;
	sem_post(&w->woken);
}
