/* SPDX-License-Identifier: GPL-2.0-or-later */
/* draw: the drawings of the page besides the maps: where data went, free runs by size. */
#include "draw.h"
#include "numbers.h"

#define LINES_MAX   400u
#define FLOW_HEIGHT 120.0
#define BAR	    16u /* height of a bar, with its gap */
#define LABEL	    150u
#define TAIL	    230u /* room behind the longest bar */

/* The share of the thickest line that a line needs, so that no more than LINES_MAX are drawn. */
static double thinnest(const struct picture *p, uint64_t most)
{
	unsigned lines[101] = { 0 }, sum = 0, percent = 100;

	for (unsigned a = 0; a < PICTURE_BANDS; a++)
		for (unsigned b = 0; b < PICTURE_BANDS; b++)
			lines[(unsigned)((double)p->flow[a][b] / (double)most * 100)]++;
	while (percent > 1 && sum + lines[percent] <= LINES_MAX)
		sum += lines[percent--];
	return percent < 100 ? (percent + 1) / 100.0 : 1;
}

static void draw_lines(FILE *to, const struct picture *p, uint64_t most)
{
	double step = (double)DRAW_WIDTH / PICTURE_BANDS, least = thinnest(p, most);

	for (unsigned a = 0; a < PICTURE_BANDS; a++)
		for (unsigned b = 0; b < PICTURE_BANDS; b++) {
			double share = (double)p->flow[a][b] / (double)most;

			if (share < least)
				continue;
			fprintf(to,
				"<path d=\"M%.1f 20L%.1f %.0f\" stroke-width=\"%.2f\" "
				"stroke-opacity=\"%.2f\"/>\n",
				(a + 0.5) * step, (b + 0.5) * step, FLOW_HEIGHT + 20,
				0.5 + 5 * share, 0.1 + 0.6 * share);
		}
}

/* A line from each band to each other, as thick as what went there; the thickest ones. */
void draw_flow(FILE *to, const struct picture *p, const char *second)
{
	uint64_t most = 0;

	for (unsigned a = 0; a < PICTURE_BANDS; a++)
		for (unsigned b = 0; b < PICTURE_BANDS; b++)
			most = p->flow[a][b] > most ? p->flow[a][b] : most;
	if (!most)
		return;
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" role=\"img\" "
		"font-family=\"sans-serif\" font-size=\"14\">\n<title>where data went</title>\n"
		"<text x=\"0\" y=\"14\">before</text>\n<text x=\"0\" y=\"%u\">%s</text>\n"
		"<path stroke=\"#333\" d=\"M0 20h%uM0 %uh%u\"/>\n<g stroke=\"#0072b2\">\n",
		DRAW_WIDTH, (unsigned)FLOW_HEIGHT + 40, (unsigned)FLOW_HEIGHT + 36, second,
		DRAW_WIDTH, (unsigned)FLOW_HEIGHT + 20, DRAW_WIDTH);
	draw_lines(to, p, most);
	fputs("</g>\n</svg>\n", to);
}

static void bar(FILE *to, unsigned y, uint64_t blocks, uint64_t runs, uint64_t most,
		const char *colour)
{
	unsigned room = DRAW_WIDTH - LABEL - TAIL;
	char n[2][NUMBER_LEN];
	double len = (double)blocks / (double)most * room;

	fprintf(to,
		"<rect x=\"%u\" y=\"%u\" width=\"%.1f\" height=\"%u\" fill=\"%s\"/>"
		"<text x=\"%.1f\" y=\"%u\">%s, %s</text>\n",
		LABEL, y + 2, len, BAR - 4, colour, LABEL + len + 6, y + 13,
		number_of(runs, "run", n[0]), number_of(blocks, "block", n[1]));
}

void draw_sizes(FILE *to, const struct report *r)
{
	const struct free_sizes *b = &r->free_before, *a = &r->free_after;
	unsigned lo = PICTURE_SIZES, hi = 0, bars = r->has_free_after ? 2 : 1, y = 0;
	uint64_t most = 1;
	char n[2][NUMBER_LEN];

	for (unsigned k = 0; k < PICTURE_SIZES; k++) {
		if (!b->runs[k] && !(bars == 2 && a->runs[k]))
			continue;
		lo = k < lo ? k : lo;
		hi = k + 1;
		most = b->blocks[k] > most ? b->blocks[k] : most;
		most = bars == 2 && a->blocks[k] > most ? a->blocks[k] : most;
	}
	if (lo >= hi)
		return;
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" role=\"img\" "
		"font-family=\"sans-serif\" font-size=\"13\">\n<title>free runs by size</title>\n",
		DRAW_WIDTH, (hi - lo) * (bars * BAR + 6));
	for (unsigned k = lo; k < hi; k++, y += bars * BAR + 6) {
		fprintf(to, "<text x=\"0\" y=\"%u\">%s to %s</text>\n", y + 13,
			number_round_size((uint64_t)r->block_size << k, n[0]),
			number_round_size((uint64_t)r->block_size << (k + 1), n[1]));
		bar(to, y, b->blocks[k], b->runs[k], most, "#e69f00");
		if (bars == 2)
			bar(to, y + BAR, a->blocks[k], a->runs[k], most, "#0072b2");
	}
	fputs("</svg>\n", to);
}
