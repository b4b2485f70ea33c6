/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * map: pictures as characters. What a cell is shows by its shape alone; colours only help, and are
 * of those that the usual kinds of colour blindness tell apart.
 */
#include "names.h"
#include "numbers.h"
#include "scaledefrag/report.h"
#include <string.h>

#define ROWS_MAX 8u /* of one picture */

static const struct {
	const char *ascii, *unicode, *colour;
} look[LOOKS] = {
	[LOOK_WHOLE] = { "#", "\xe2\x96\x88", "36" },
	[LOOK_FRAGMENTED] = { "x", "\xe2\x96\x9e", "1;33" },
	[LOOK_MIXED] = { "+", "\xe2\x96\x91", "36" },
	[LOOK_FREE] = { ".", "\xc2\xb7", "2" },
	[LOOK_FIXED] = { "=", "\xe2\x89\xa1", "35" },
};

static void set_colour(FILE *to, const struct report_map_style *style, const char *colour)
{
	if (style->colour)
		fprintf(to, "\x1b[%sm", colour);
}

static void put(FILE *to, const struct report_map_style *style, enum cell_look k)
{
	fputs(style->unicode ? look[k].unicode : look[k].ascii, to);
}

static void draw(FILE *to, const struct picture *p, const struct report_map_style *style,
		 unsigned width, uint32_t merged, const char *title)
{
	unsigned column = 0;

	fprintf(to, "%s\n", title);
	for (uint32_t c = 0; c < p->n_cells; c += merged) {
		enum cell_look k = picture_look(p, c, merged);

		if (column == 0)
			fputs("  ", to);
		set_colour(to, style, look[k].colour);
		put(to, style, k);
		set_colour(to, style, "0");
		if (++column == width || c + merged >= p->n_cells) {
			fputc('\n', to);
			column = 0;
		}
	}
}

static void legend(FILE *to, const struct report_map_style *style, unsigned width)
{
	unsigned column = 0;

	for (int i = 0; i < LOOKS; i++) {
		unsigned len = (unsigned)strlen(name_look(i)) + 2;

		if (column && column + 2 + len > width) {
			fputc('\n', to);
			column = 0;
		}
		fputs("  ", to);
		set_colour(to, style, look[i].colour);
		put(to, style, i);
		set_colour(to, style, "0");
		fprintf(to, " %s", name_look(i));
		column += len + 2;
	}
	fputc('\n', to);
}

void report_map(FILE *to, const struct report *r, const struct report_map_style *style)
{
	const struct picture *b = r->picture_before, *a = r->picture_after;
	unsigned width = style->columns > 22 ? style->columns - 2 : 20;
	uint32_t merged;
	char n[2][NUMBER_LEN];

	if (!b)
		return;
	merged = (b->n_cells + width * ROWS_MAX - 1) / (width * ROWS_MAX);
	merged = merged ? merged : 1;
	fprintf(to, "map: one cell is %s, %s\n", number_of(b->cell_blocks * merged, "block", n[0]),
		number_size(b->cell_blocks * merged * r->block_size, n[1]));
	draw(to, b, style, width, merged, a ? "before" : "now");
	if (a)
		draw(to, a, style, width, merged, r->has_after ? "after" : "planned");
	legend(to, style, width);
}
