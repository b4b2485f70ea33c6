/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loaded before other libraries: nobody waits. For programs that would wait for an MMP block. */
#include <time.h>
#include <unistd.h>

unsigned sleep(unsigned seconds)
{
	(void)seconds;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *rest)
{
	(void)t;
	(void)rest;
	return 0;
}
