/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outputs: the files that a report goes to. They are opened before the run, so that a bad path
 * shows before anything is written, and an existing file is replaced only if it looks like an
 * earlier report: a slip must not cost an image.
 */
#ifndef SCALEDEFRAG_OUTPUTS_H
#define SCALEDEFRAG_OUTPUTS_H

#include "scaledefrag/error.h"
#include <stdio.h>

struct output {
	const char *option; /* "--json", for messages */
	const char *what;   /* "JSON report" */
	const char *mark;   /* what an earlier one has in its first OUTPUT_HEAD bytes */
	const char *path;   /* NULL: not asked for */
	FILE *file;	    /* NULL: not open */
};

#define OUTPUT_HEAD 128

int output_open(struct output *o, struct error *err); /* nothing without a path; not truncated */
int output_begin(const struct output *o);	      /* empties a regular file; -1 */
void output_close(struct output *o);

#endif
