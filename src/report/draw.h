/* SPDX-License-Identifier: GPL-2.0-or-later */
/* draw: drawings as SVG, for an image of its own or inside of a page. */
#ifndef REPORT_DRAW_H
#define REPORT_DRAW_H

#include "scaledefrag/report.h"

#define DRAW_WIDTH 896u /* of each drawing, in its own units */

/* Text from elsewhere, escaped for markup: report_escape, then & < > and quotes. */
void draw_text(FILE *to, const char *text);
/* What the second of two columns, maps or bars is: "after" or "planned". */
const char *draw_second(const struct report *r);
/* The pictures of the report. `alone`: an image by itself, with the name of the volume. */
void draw_maps(FILE *to, const struct report *r, bool alone);
/* Where data went, from above to below; `second` names what is below. */
void draw_flow(FILE *to, const struct picture *p, const char *second);
void draw_sizes(FILE *to, const struct report *r); /* free runs by size */

#endif
