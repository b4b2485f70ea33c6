/* SPDX-License-Identifier: GPL-2.0-or-later */
/* svg: the maps. Colours after Okabe and Ito, and of five lightnesses: they print in grey too. */
#include "draw.h"
#include "names.h"
#include "numbers.h"
#include <stdlib.h>

#define CELL	7u /* width of a cell; as high, less a gap */
#define COLUMNS (DRAW_WIDTH / CELL)
#define LINE	22u /* height of a line of text */

static const char *const colour[LOOKS] = {
	[LOOK_WHOLE] = "#0072b2", [LOOK_FRAGMENTED] = "#e69f00", [LOOK_MIXED] = "#9ad0f0",
	[LOOK_FREE] = "#f0f0f0",  [LOOK_FIXED] = "#333333",
};

void draw_text(FILE *to, const char *text)
{
	char *safe = report_escape(text ? text : "");

	for (const char *c = safe ? safe : "?"; *c; c++)
		switch (*c) {
		case '&':
			fputs("&amp;", to);
			break;
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		case '\'':
			fputs("&#39;", to);
			break;
		default:
			fputc(*c, to);
		}
	free(safe);
}

const char *draw_second(const struct report *r)
{
	return r->has_after ? "after" : "planned";
}

/* All cells of one look, as a path of boxes, each as long as it can be. */
static void draw_look(FILE *to, const struct picture *p, enum cell_look k, unsigned top)
{
	fprintf(to, "<path fill=\"%s\" d=\"", colour[k]);
	for (uint32_t c = 0, n; c < p->n_cells; c += n) {
		n = 1;
		if (picture_look(p, c, 1) != k)
			continue;
		while (c + n < p->n_cells && (c + n) % COLUMNS && picture_look(p, c + n, 1) == k)
			n++;
		fprintf(to, "M%u %uh%uv%uh-%uz", c % COLUMNS * CELL, top + c / COLUMNS * CELL,
			n * CELL, CELL - 1, n * CELL);
	}
	fputs("\"/>\n", to);
}

static unsigned map_height(const struct picture *p)
{
	return p ? LINE + (p->n_cells + COLUMNS - 1) / COLUMNS * CELL + 8 : 0;
}

/* Returns where the next thing goes. */
static unsigned draw_map(FILE *to, const struct picture *p, unsigned top, const char *title)
{
	fprintf(to, "<text x=\"0\" y=\"%u\">%s</text>\n", top + LINE - 6, title);
	for (int i = 0; i < LOOKS; i++)
		draw_look(to, p, i, top + LINE);
	return top + map_height(p);
}

static void draw_legend(FILE *to, unsigned top)
{
	unsigned x = 0;

	for (int i = 0; i < LOOKS; i++) {
		const char *text = name_look(i);
		unsigned len = 0;

		while (text[len])
			len++;
		fprintf(to,
			"<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" fill=\"%s\" "
			"stroke=\"#888\"/><text x=\"%u\" y=\"%u\">%s</text>\n",
			x, top + 5, colour[i], x + 18, top + LINE - 6, text);
		x += 50 + len * 8;
	}
}

void draw_maps(FILE *to, const struct report *r, bool alone)
{
	const struct picture *b = r->picture_before, *a = r->picture_after;
	unsigned margin = alone ? 12 : 0, top = 0, height;
	char n[2][NUMBER_LEN];

	if (!b)
		return;
	height = (alone ? LINE : 0) + map_height(b) + map_height(a) + 2 * LINE;
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-%u -%u %u %u\" role=\"img\" "
		"font-family=\"sans-serif\" font-size=\"14\">\n" REPORT_MARK "\n<title>",
		margin, margin, DRAW_WIDTH + 2 * margin, height + 2 * margin);
	draw_text(to, r->name);
	fputs(": where files and free space are</title>\n", to);
	if (alone) {
		fprintf(to,
			"<rect x=\"-%u\" y=\"-%u\" width=\"100%%\" height=\"100%%\" "
			"fill=\"#fff\"/>\n<text x=\"0\" y=\"%u\" font-weight=\"bold\">",
			margin, margin, LINE - 6);
		draw_text(to, r->name);
		fputs("</text>\n", to);
		top += LINE;
	}
	top = draw_map(to, b, top, a ? "before" : "now");
	if (a)
		top = draw_map(to, a, top, draw_second(r));
	draw_legend(to, top);
	fprintf(to, "<text x=\"0\" y=\"%u\">one cell is %s, %s</text>\n</svg>\n",
		top + 2 * LINE - 6, number_of(b->cell_blocks, "block", n[0]),
		number_size(b->cell_blocks * r->block_size, n[1]));
}

int report_svg(FILE *to, const struct report *r)
{
	fputs(REPORT_MARK "\n", to);
	if (r->picture_before) {
		draw_maps(to, r, true);
	} else {
		fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"40\">"
		      "<text x=\"8\" y=\"24\">no map: ",
		      to);
		draw_text(to, r->error ? r->error : "out of memory");
		fputs("</text></svg>\n", to);
	}
	return fflush(to) || ferror(to) ? -1 : 0;
}
