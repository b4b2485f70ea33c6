/* SPDX-License-Identifier: GPL-2.0-or-later */
/* names: words and figures that text and JSON share. */
#ifndef REPORT_NAMES_H
#define REPORT_NAMES_H

#include "scaledefrag/report.h"

const char *name_phase(enum report_phase phase); /* "scan" */
const char *name_outcome(enum report_outcome outcome);
const char *name_left(enum leave_reason why);	   /* "block_mapped", a JSON key */
const char *name_left_long(enum leave_reason why); /* "pinned by --pin" */
const char *name_look(enum cell_look k);	   /* "contiguous files" */
/* Excess runs removed per MiB copied. */
double names_gain(const struct summary *before, const struct summary *after, uint64_t bytes);

#endif
