/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xxHash with the widest vectors that the processor has, where the library can choose. */
#ifndef TESTS_XXH_H
#define TESTS_XXH_H

#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t */
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#endif

#endif
