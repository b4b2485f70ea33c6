/* SPDX-License-Identifier: GPL-2.0-or-later */
/* html: the report as one page that needs nothing else. */
#include "draw.h"
#include "names.h"
#include "numbers.h"

static const char style[] =
	"body{font:15px/1.45 sans-serif;color:#111;background:#fff;max-width:60em;"
	"margin:1.5em auto;padding:0 1em}"
	"h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.8em 0 .4em}"
	"table{border-collapse:collapse}td,th{padding:.15em .9em .15em 0;text-align:left;"
	"vertical-align:top;overflow-wrap:anywhere}"
	".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
	"tr{border-bottom:1px solid #ddd}svg{width:100%;height:auto;display:block}"
	".b{display:inline-block;width:.8em;height:.8em;margin-right:.3em}";

static const char head[] = "<!DOCTYPE html>\n" REPORT_MARK "\n<html lang=\"en\"><head>"
			   "<meta charset=\"utf-8\">\n"
			   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
			   "'none'; style-src 'unsafe-inline'\">\n"
			   "<meta name=\"viewport\" content=\"width=device-width\">\n<title>";

static void figure(FILE *to, const char *label, uint64_t b, const uint64_t *a)
{
	char n[NUMBER_LEN];

	fprintf(to, "<tr><td>%s</td><td class=\"n\">%s</td>", label, number_grouped(b, n));
	if (a)
		fprintf(to, "<td class=\"n\">%s</td>", number_grouped(*a, n));
	fputs("</tr>\n", to);
}

static void measured(FILE *to, const struct report *r, bool two)
{
	const struct report_measure *b = &r->measured_before, *a = &r->measured_after;

	figure(to, "cold read: requests", b->requests, two && a->known ? &a->requests : NULL);
	fprintf(to, "<tr><td>cold read: seconds</td><td class=\"n\">%.2f</td>", b->seconds);
	if (two && a->known)
		fprintf(to, "<td class=\"n\">%.2f</td>", a->seconds);
	fputs("</tr>\n", to);
}

static void figures(FILE *to, const struct report *r)
{
	const struct summary *b = &r->before, *a = NULL;
	uint64_t excess_b = b->runs - b->ideal_runs, excess_a;

	if (r->has_after || r->outcome == OUTCOME_PLANNED)
		a = r->has_after ? &r->after : &r->predicted;
	excess_a = a ? a->runs - a->ideal_runs : 0;
	fprintf(to, "<h2>Figures</h2>\n<table><tr><th></th><th class=\"n\">%s</th>",
		a ? "before" : "now");
	if (a)
		fprintf(to, "<th class=\"n\">%s</th>", draw_second(r));
	fputs("</tr>\n", to);
#define FIGURE(label, field) figure(to, label, b->field, a ? &a->field : NULL)
	FIGURE("files", files);
	FIGURE("fragmented files", frag_files);
	FIGURE("of these directories", frag_dirs);
	FIGURE("runs", runs);
	figure(to, "excess runs", excess_b, a ? &excess_a : NULL);
	figure(to, "e4defrag score", r->score_before.now,
	       r->has_after ? &r->score_after.now : NULL);
	FIGURE("free blocks", free_blocks);
	FIGURE("free runs", free_runs);
	FIGURE("longest free run (blocks)", longest_free);
#undef FIGURE
	if (r->measured_before.known)
		measured(to, r, a != NULL);
	fputs("</table>\n", to);
}

static void mode_row(FILE *to, const struct report *r, const char *name, const char *bytes,
		     const struct summary *s, uint64_t end)
{
	char n[5][NUMBER_LEN];

	fprintf(to,
		"<tr><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s"
		"</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
		name, bytes, number_grouped(s->frag_files, n[0]),
		number_grouped(s->runs - s->ideal_runs, n[1]), number_grouped(s->free_runs, n[2]),
		number_size(s->longest_free * r->block_size, n[3]),
		number_size(end * r->block_size, n[4]));
}

static void modes(FILE *to, const struct report *r)
{
	char n[NUMBER_LEN];

	if (!r->n_modes)
		return;
	fprintf(to,
		"<h2>What a run would do</h2>\n<p>Recommended: %s.</p>\n<table><tr><th>mode</th>"
		"<th class=\"n\">to copy</th><th class=\"n\">fragmented files</th><th class=\"n\">"
		"excess runs</th><th class=\"n\">free runs</th><th class=\"n\">longest free "
		"run</th>"
		"<th class=\"n\">files end at</th></tr>\n",
		r->recommended ? r->recommended->name : "none; little would be gained");
	mode_row(to, r, "(now)", "", &r->before, r->files_end);
	for (size_t i = 0; i < r->n_modes; i++)
		if (r->modes[i].known)
			mode_row(to, r, r->modes[i].name, number_size(r->modes[i].bytes, n),
				 &r->modes[i].predicted, r->modes[i].files_end);
	fputs("</table>\n", to);
}

static void work(FILE *to, const struct report *r)
{
	char n[4][NUMBER_LEN];

	fprintf(to, "<h2>Moves</h2>\n<p>Plan: %s in %s, %s to copy.",
		number_of(r->plan_moves, "move", n[0]),
		number_of(r->plan_batches, "transaction", n[1]), number_size(r->plan_bytes, n[2]));
	if (r->transactions)
		fprintf(to, " Copied: %s with %s and %s, in %s.", number_size(r->bytes_moved, n[0]),
			number_of(r->data_reads, "read", n[1]),
			number_of(r->data_writes, "write", n[2]),
			number_of(r->transactions, "transaction", n[3]));
	fputs("</p>\n", to);
	if (r->picture_after)
		draw_flow(to, r->picture_after, draw_second(r));
}

static void sizes(FILE *to, const struct report *r)
{
	fputs("<h2>Free runs by size</h2>\n", to);
	if (r->has_free_after)
		fprintf(to,
			"<p><span class=\"b\" style=\"background:#e69f00\"></span>before "
			"<span class=\"b\" style=\"background:#0072b2\"></span>%s; bars show "
			"blocks.</p>\n",
			draw_second(r));
	draw_sizes(to, r);
}

static void file_rows(FILE *to, const struct report_file *f, size_t n, bool dropped)
{
	char runs[NUMBER_LEN];

	for (size_t i = 0; i < n; i++, f++) {
		fprintf(to, "<tr><td class=\"n\">%u</td><td>", f->ino);
		draw_text(to, f->path);
		fprintf(to, "</td><td class=\"n\">%s</td><td class=\"n\">",
			number_grouped(f->runs, runs));
		if (dropped)
			fprintf(to, "block %llu", (unsigned long long)f->block);
		else
			fputs(number_grouped(f->ideal_runs, runs), to);
		fprintf(to, "</td><td>%s</td></tr>\n", f->why ? f->why : "");
	}
}

static void file_table(FILE *to, const char *title, const struct report_file *f, size_t n,
		       uint64_t all, bool dropped)
{
	char count[NUMBER_LEN];

	if (!n)
		return;
	fprintf(to, "<h2>%s</h2>\n", title);
	if (all > n)
		fprintf(to, "<p>%zu of %s</p>\n", n, number_of(all, "file", count));
	fprintf(to,
		"<table><tr><th class=\"n\">inode</th><th>path</th><th class=\"n\">runs</th>"
		"<th class=\"n\">%s</th><th></th></tr>\n",
		dropped ? "failed" : "would do");
	file_rows(to, f, n, dropped);
	fputs("</table>\n", to);
}

static void left_alone(FILE *to, const struct report *r)
{
	fputs("<h2>Left alone</h2>\n<table>\n", to);
	for (int i = LEAVE_NONE + 1; i < LEAVE_REASONS; i++)
		if (r->left[i])
			figure(to, name_left_long((enum leave_reason)i), r->left[i], NULL);
	fputs("</table>\n", to);
}

static void times(FILE *to, const struct report *r)
{
	char n[NUMBER_LEN];

	fputs("<h2>Seconds</h2>\n<table>\n", to);
	for (int i = 0; i < PHASES; i++)
		fprintf(to, "<tr><td>%s</td><td class=\"n\">%.2f</td></tr>\n",
			name_phase((enum report_phase)i), r->seconds[i]);
	fprintf(to,
		"<tr><td>in all</td><td class=\"n\">%.2f</td></tr></table>\n<p>%s I/O, %s, queue "
		"depth %u; memory %s</p>\n",
		r->seconds_total, r->direct ? "Direct" : "Buffered",
		number_of(r->threads, "thread", n), r->queue_depth,
		number_size(r->memory_peak, (char[NUMBER_LEN]){ 0 }));
}

static void body(FILE *to, const struct report *r)
{
	if (r->error) {
		fputs("<p><strong>", to);
		draw_text(to, r->error);
		fputs("</strong></p>\n", to);
	}
	if (r->score_before.verdict) {
		figures(to, r);
		modes(to, r);
		if (r->picture_before)
			fputs("<h2>Map</h2>\n", to);
		draw_maps(to, r, false);
		sizes(to, r);
		work(to, r);
		file_table(to, r->has_after ? "Most fragmented files, before" : "Most fragmented",
			   r->worst, r->n_worst, r->before.frag_files, false);
		if (r->outcome != OUTCOME_REPORTED && r->outcome != OUTCOME_PLANNED)
			file_table(to, "Still fragmented", r->stay, r->n_stay, r->n_stay_all,
				   false);
		file_table(to, "Dropped for I/O errors", r->dropped, r->n_dropped, 0, true);
		left_alone(to, r);
	}
	times(to, r);
}

int report_html(FILE *to, const struct report *r)
{
	fputs(head, to);
	draw_text(to, r->name);
	fprintf(to, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
	draw_text(to, r->name);
	fputs("</h1>\n<p>", to);
	draw_text(to, r->what);
	fprintf(to, "%smode %s; outcome: ", *r->what ? "; " : "", r->mode ? r->mode : "none");
	for (const char *c = name_outcome(r->outcome); *c; c++)
		fputc(*c == '_' ? ' ' : *c, to);
	fprintf(to, "; exit code %d</p>\n", r->exit_code);
	body(to, r);
	fputs("</body></html>\n", to);
	return fflush(to) || ferror(to) ? -1 : 0;
}
