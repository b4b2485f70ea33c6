/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * simclock: simulated time for a program of several threads. Nobody sleeps: whatever threads do
 * takes no time, and when all of them wait, the clock goes on to the next event.
 *
 *   simclock_new()
 *   simclock_at()      something happens at a time: a function is called, under the clock's lock
 *   simclock_wait()    this thread waits until an event wakes it
 *   simclock_free()
 *
 * The clock has to know who runs. The thread that made it does; waiting for it and waking are seen
 * here. Waiting for anything else, and threads that begin and end, have to be told by
 * simclock_left() and simclock_joined(). Programs that are linked with
 * --wrap=pthread_create,pthread_join,pthread_cond_wait,pthread_cond_broadcast,pthread_cond_signal
 * and tests/bench/simthreads.c do so by themselves.
 */
#ifndef SUPPORT_SIMCLOCK_H
#define SUPPORT_SIMCLOCK_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

struct simclock;

/* One waiting thread; zeroed before its first use. */
struct simclock_waiter {
	sem_t woken;
	bool waiting;
};

struct simclock *simclock_new(void);
void simclock_free(struct simclock *c); /* NULL is fine */

void simclock_lock(struct simclock *c);
void simclock_unlock(struct simclock *c);

/* All of these under the lock. Times are nanoseconds from the start. */
uint64_t simclock_now(const struct simclock *c);
/* Events of one time happen in the order in which they were set. */
void simclock_at(struct simclock *c, uint64_t time, void (*event)(void *arg), void *arg);
void simclock_wait(struct simclock *c, struct simclock_waiter *w);
void simclock_wake(struct simclock *c, struct simclock_waiter *w); /* not waiting: nothing */
void simclock_joined(struct simclock *c, unsigned n);		   /* n more threads run */
void simclock_left(struct simclock *c);				   /* one less */

#endif
