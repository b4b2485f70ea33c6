/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/mallocfail.h"
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

/* Test code only: a wrapper has no place for a context. */
static struct {
	atomic_uint_fast64_t count, nth;
	atomic_int_fast64_t live;
	atomic_bool fired;
} state;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void __real_free(void *p);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
void __wrap_free(void *p);

void mallocfail_set(uint64_t nth)
{
	state.count = 0;
	state.fired = false;
	state.nth = nth;
}

uint64_t mallocfail_count(void)
{
	return state.count;
}

bool mallocfail_fired(void)
{
	return state.fired;
}

int64_t mallocfail_live(void)
{
	return state.live;
}

static bool fails(void)
{
	if (++state.count != state.nth)
		return false;
	state.fired = true;
	errno = ENOMEM;
	return true;
}

/* A pointer just allocated. */
static void *counted(void *p)
{
	if (p)
		state.live++;
	return p;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
	if (fails())
		return NULL;
	return p ? __real_realloc(p, n) : counted(__real_malloc(n));
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	if (fails())
		return NULL;
	return p ? __real_reallocarray(p, n, size) : counted(__real_calloc(n, size));
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
	int rc;

	if (fails())
		return ENOMEM;
	rc = __real_posix_memalign(out, align, n);
	if (!rc)
		counted(*out);
	return rc;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return fails() ? NULL : counted(__real_aligned_alloc(align, n));
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : counted(__real_strdup(s));
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : counted(__real_strndup(s, n));
}

void __wrap_free(void *p)
{
	if (p)
		state.live--;
	__real_free(p);
}
