/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * library: what stands behind the public scaledefrag.h. The program, being of the same house, may
 * look into a report; users of the library may not.
 */
#ifndef SCALEDEFRAG_LIBRARY_H
#define SCALEDEFRAG_LIBRARY_H

#include "scaledefrag.h"
#include "scaledefrag/engine.h"

struct scaledefrag_report {
	struct report figures;
	struct error error;
	char *name; /* owned; figures.name is this */
	/* While ready() is called, else NULL. */
	const struct snapshot *snapshot;
	const struct plan *plan;
};

/* Puts the program's defaults where there is a 0. */
void library_defaults(struct scaledefrag_options *o);
/* What no run can do: ERROR_USAGE, in the words of the command line. */
int library_check(const struct scaledefrag_options *o, struct error *err);

#endif
