/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "simthreads.h"
#include "support/wrap.h"

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
int __real_pthread_join(pthread_t t, void **out);
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __real_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
int __wrap_pthread_join(pthread_t t, void **out);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c);

#define CONDITIONS 64

/* Who waits for a condition: those that no broadcast has woken yet. */
struct condition {
	const pthread_cond_t *cond;
	unsigned waiting;
	uint64_t broadcasts;
};

/* The wrapped functions have no other way to know. */
static struct simclock *clock_in_use;
static struct condition condition[CONDITIONS]; /* under the clock's lock */

struct start {
	void *(*f)(void *);
	void *arg;
	struct simclock *clock;
};

void simthreads_use(struct simclock *c)
{
	clock_in_use = c;
	for (size_t i = 0; i < CONDITIONS; i++)
		condition[i] = (struct condition){ 0 };
}

static struct condition *find(const pthread_cond_t *c)
{
	for (size_t i = 0; i < CONDITIONS; i++) {
		if (!condition[i].cond)
			condition[i].cond = c;
		if (condition[i].cond == c)
			return &condition[i];
	}
	abort();
}

static void *thread(void *arg)
{
	struct start s = *(struct start *)arg;
	void *result;

	free(arg);
	result = s.f(s.arg);
	simclock_lock(s.clock);
	simclock_left(s.clock);
	simclock_unlock(s.clock);
	return result;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
	struct simclock *c = clock_in_use;
	struct start *s;
	int rc;

	if (!c)
		return __real_pthread_create(t, a, f, arg);
	s = must_alloc(1, sizeof(*s));
	*s = (struct start){ f, arg, c };
	simclock_lock(c);
	simclock_joined(c, 1);
	simclock_unlock(c);
	rc = __real_pthread_create(t, a, thread, s);
	if (!rc)
		return 0;
	free(s);
	simclock_lock(c);
	simclock_left(c);
	simclock_unlock(c);
	return rc;
}

int __wrap_pthread_join(pthread_t t, void **out)
{
	struct simclock *c = clock_in_use;
	int rc;

	if (!c)
		return __real_pthread_join(t, out);
	simclock_lock(c);
	simclock_left(c);
	simclock_unlock(c);
	rc = __real_pthread_join(t, out);
	simclock_lock(c);
	simclock_joined(c, 1);
	simclock_unlock(c);
	return rc;
}

/* The caller's mutex is held up to the real wait, so no broadcast is missed in between. */
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *m)
{
	struct simclock *c = clock_in_use;
	struct condition *k;
	uint64_t seen;
	int rc;

	if (!c)
		return __real_pthread_cond_wait(cond, m);
	simclock_lock(c);
	k = find(cond);
	seen = k->broadcasts;
	k->waiting++;
	simclock_left(c);
	simclock_unlock(c);
	rc = __real_pthread_cond_wait(cond, m);
	simclock_lock(c);
	if (k->broadcasts == seen) { /* woken for no reason */
		k->waiting--;
		simclock_joined(c, 1);
	}
	simclock_unlock(c);
	return rc;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	struct simclock *c = clock_in_use;
	struct condition *k;

	if (c) {
		simclock_lock(c);
		k = find(cond);
		simclock_joined(c, k->waiting);
		k->waiting = 0;
		k->broadcasts++;
		simclock_unlock(c);
	}
	return __real_pthread_cond_broadcast(cond);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	return __wrap_pthread_cond_broadcast(cond);
}
