/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * simthreads: tells a simclock which threads run, for programs that are linked with --wrap (see
 * simclock.h). A condition that is signalled wakes all that wait for it, as POSIX allows.
 */
#ifndef BENCH_SIMTHREADS_H
#define BENCH_SIMTHREADS_H

#include "support/simclock.h"

/* From now on; NULL: no clock. Only one other thread at most may exist then, the caller's. */
void simthreads_use(struct simclock *c);

#endif
