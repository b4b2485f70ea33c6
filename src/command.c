/* SPDX-License-Identifier: GPL-2.0-or-later */
/* command: what of the command line a message repeats that says how to run it on a partition. */
#include "options.h"
#include <getopt.h>

/* getopt moves words about, but looks at none that it has read already. */
void command_forget(char **argv)
{
	bool own = argv[optind - 1] == optarg;

	argv[optind - 1] = NULL;
	if (own)
		argv[optind - 2] = NULL;
}

size_t command_words(char **argv)
{
	size_t n = 0;

	for (int i = 0; argv[0] && i < optind; i++)
		if (argv[i])
			argv[n++] = argv[i];
	return n;
}
