/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mallocfail: makes the nth allocation fail. Works in programs that are linked with
 * -Wl,--wrap=malloc,--wrap=calloc,... (MALLOC_WRAP in tests/tests.mk); allocations of shared
 * libraries are not seen. Thread rule: any thread; set when no other thread allocates.
 */
#ifndef TESTS_MALLOCFAIL_H
#define TESTS_MALLOCFAIL_H

#include <stdbool.h>
#include <stdint.h>

void mallocfail_set(uint64_t nth); /* 0: none fails; the count starts anew */
uint64_t mallocfail_count(void);   /* allocations since then */
bool mallocfail_fired(void);
int64_t mallocfail_live(void); /* allocations less frees since the program began */

#endif
