/* SPDX-License-Identifier: GPL-2.0-or-later */
/* numbers: figures as people read them. `out` holds NUMBER_LEN bytes and is returned. */
#ifndef REPORT_NUMBERS_H
#define REPORT_NUMBERS_H

#include <stdint.h>

#define NUMBER_LEN 64

const char *number_grouped(uint64_t n, char *out);	  /* "12,345" */
const char *number_size(uint64_t bytes, char *out);	  /* "356.2 MiB" */
const char *number_round_size(uint64_t bytes, char *out); /* "64K", for powers of two */
const char *number_lasting(double seconds, char *out);	  /* "about 4 s" */
/* "1 file", "12,345 files"; and "2 batches" */
const char *number_of(uint64_t n, const char *noun, char *out);
const char *number_es(uint64_t n, const char *noun, char *out);

#endif
