/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mmp: broken ways of writing the MMP block; the right one: trace_mmp_wrong(). */
#ifndef TESTS_CRASH_MMP_H
#define TESTS_CRASH_MMP_H

#include "crash/trace.h"

/* mutant_apply() of those that mutant_mmp() names. */
bool mmp_mutant(struct trace *t, enum mutant m);

#endif
