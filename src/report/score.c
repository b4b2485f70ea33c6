/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * score: what `e4defrag -c` would say of the whole file system, to compare with. After e2fsprogs
 * misc/e4defrag.c: get_best_count(), CALC_SCORE, main(). It counts the extent records of regular
 * files (not runs, as we do otherwise) and takes for the best a record per flex group's worth of
 * blocks. Not known here and counted in: preallocated files of size 0, and lost+found.
 */
#include "scaledefrag/report.h"

static const char *verdict(double score)
{
	return score > 55 ? "needs defrag" : score > 30 ? "a little bit fragmented" : "no problem";
}

void report_score_state(const struct state *st, struct report_score *out)
{
	const struct geometry *geo = &st->snap->geo;
	uint64_t best_blocks = (uint64_t)geo->blocks_per_group * geo->flex_size;
	uint64_t now = 0, best = 0, blocks = 0;
	double ratio, score;

	for (size_t i = 0; i < st->snap->n_file; i++) {
		const struct filemap *map = state_map(st, i);
		uint64_t n = filemap_blocks(map->ext, map->n_ext);

		if (st->snap->file[i].kind != FILE_REGULAR || n == 0)
			continue;
		now += map->n_ext;
		best += (n - 1) / best_blocks + 1;
		blocks += n;
	}
	ratio = blocks && now > best ? (double)(now - best) * 100 / (double)blocks : 0;
	score = ratio > 10 ? 80 + 20 * ratio / 100 : 8 * ratio;
	out->now = (uint64_t)(score + 0.5);
	out->verdict = verdict(score);
}
