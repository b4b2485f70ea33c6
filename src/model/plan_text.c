/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan_text: the text form of a plan. One line a thing:
 *
 *   plan 1                         first: the version of this format
 *   batch N copy BLOCKS journal BLOCKS [rest]   N counts from 0; then its
 *   file INO [last] [together]       files (together: all of the tree anew), each with its
 *   move LBLK LEN FROM TO [u]          moves (u: unwritten), and tree blocks that it
 *   free PBLK                          frees,
 *   take PBLK                          takes anew,
 *   keep PBLK                          rewrites in place; indirect blocks: writes
 *   predicted NAME N ...           last; names as in struct summary
 *
 * Parsing checks the form and nothing else: whether a plan fits a snapshot is planner_verify's.
 */
#include "scaledefrag/array.h"
#include "scaledefrag/plan.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS (1ull << 48)

enum { SUMMARY_FIELDS = 12 };
_Static_assert(sizeof(struct summary) == SUMMARY_FIELDS * sizeof(uint64_t),
	       "a field of struct summary is missing here");

static void summary_fields(const struct summary *s, struct text_field f[SUMMARY_FIELDS])
{
	const struct text_field all[SUMMARY_FIELDS] = {
		{ "files", s->files, MAX_BLOCKS },
		{ "frag_files", s->frag_files, MAX_BLOCKS },
		{ "dirs", s->dirs, MAX_BLOCKS },
		{ "frag_dirs", s->frag_dirs, MAX_BLOCKS },
		{ "runs", s->runs, MAX_BLOCKS },
		{ "ideal_runs", s->ideal_runs, MAX_BLOCKS },
		{ "blocks", s->blocks, MAX_BLOCKS },
		{ "frag_blocks", s->frag_blocks, MAX_BLOCKS },
		{ "tree_blocks", s->tree_blocks, MAX_BLOCKS },
		{ "free_blocks", s->free_blocks, MAX_BLOCKS },
		{ "free_runs", s->free_runs, MAX_BLOCKS },
		{ "longest_free", s->longest_free, MAX_BLOCKS },
	};

	memcpy(f, all, sizeof(all));
}

static void dump_nodes(const struct plan *p, const char *word, uint64_t first, uint64_t n,
		       struct text_out *to)
{
	for (uint64_t i = first; i < first + n; i++)
		text_put(to, "%s %llu\n", word, (unsigned long long)p->node[i]);
}

static void dump_file(const struct plan *p, const struct plan_file *f, struct text_out *to)
{
	text_put(to, "file %lu%s%s\n", (unsigned long)f->ino, f->last ? " last" : "",
		 f->together ? " together" : "");
	for (uint64_t i = f->first_move; i < f->first_move + f->n_move; i++) {
		const struct move *m = &p->move[i];

		text_put(to, "move %lu %lu %llu %llu%s\n", (unsigned long)m->lblk,
			 (unsigned long)m->len, (unsigned long long)m->from,
			 (unsigned long long)m->to, m->unwritten ? " u" : "");
	}
	dump_nodes(p, "free", f->first_freed, f->n_freed, to);
	dump_nodes(p, "take", f->first_taken, f->n_taken, to);
	dump_nodes(p, "keep", f->first_kept, f->n_kept, to);
}

int plan_write(const struct plan *p, text_fn put, void *ctx)
{
	struct text_out to = { .put = put, .ctx = ctx };
	struct text_field sum[SUMMARY_FIELDS];

	text_put(&to, "plan 1\n");
	for (size_t i = 0; i < p->n_batch; i++) {
		const struct plan_batch *b = &p->batch[i];

		text_put(&to, "batch %zu copy %llu journal %llu%s\n", i,
			 (unsigned long long)b->copy_blocks, (unsigned long long)b->journal_blocks,
			 b->rest ? " rest" : "");
		for (uint64_t f = b->first_file; f < b->first_file + b->n_file; f++)
			dump_file(p, &p->file[f], &to);
	}
	summary_fields(&p->predicted, sum);
	text_put_fields(&to, "predicted", sum, SUMMARY_FIELDS);
	return to.failed ? -1 : 0;
}

struct list {
	uint64_t *block;
	size_t n, cap;
};

struct parser {
	struct text t;
	struct plan *p;
	bool in_file, predicted;
	uint64_t copy; /* of the present batch, as the text says */
	/* the present file */
	uint32_t ino;
	bool last, together;
	struct move *move;
	size_t n_move, cap_move;
	struct list freed, taken, kept;
};

static int close_file(struct parser *p, struct error *err)
{
	const struct filemap_delta d = { .freed = p->freed.block,
					 .n_freed = p->freed.n,
					 .taken = p->taken.block,
					 .n_taken = p->taken.n,
					 .kept = p->kept.block,
					 .n_kept = p->kept.n,
					 .together = p->together };

	if (!p->in_file)
		return 0;
	if (plan_add_file(p->p, p->ino, p->last, p->move, p->n_move, &d, err))
		return -1;
	p->n_move = p->freed.n = p->taken.n = p->kept.n = 0;
	p->in_file = false;
	return 0;
}

static int close_batch(struct parser *p, struct error *err)
{
	if (close_file(p, err))
		return -1;
	if (p->p->n_batch)
		p->p->batch[p->p->n_batch - 1].copy_blocks = p->copy;
	return 0;
}

static int parse_batch(struct parser *p, struct error *err)
{
	uint64_t n, journal;

	if (close_batch(p, err) ||
	    text_number(&p->t, "batch", p->p->n_batch, p->p->n_batch, &n, err))
		return -1;
	if (!text_word(&p->t, "copy"))
		return text_error(&p->t, "copy is missing", err);
	if (text_number(&p->t, "copy", 0, MAX_BLOCKS, &p->copy, err))
		return -1;
	if (!text_word(&p->t, "journal"))
		return text_error(&p->t, "journal is missing", err);
	if (text_number(&p->t, "journal", 0, MAX_BLOCKS, &journal, err) ||
	    plan_begin_batch(p->p, err))
		return -1;
	p->p->batch[p->p->n_batch - 1].journal_blocks = journal;
	p->p->batch[p->p->n_batch - 1].rest = text_word(&p->t, "rest");
	return 0;
}

static int parse_file(struct parser *p, struct error *err)
{
	uint64_t ino;

	if (!p->p->n_batch)
		return text_error(&p->t, "a file before the first batch", err);
	if (close_file(p, err) || text_number(&p->t, "inode", 1, UINT32_MAX, &ino, err))
		return -1;
	p->ino = (uint32_t)ino;
	p->last = text_word(&p->t, "last");
	p->together = text_word(&p->t, "together");
	p->in_file = true;
	return 0;
}

static int parse_move(struct parser *p, struct error *err)
{
	uint64_t lblk, len, from, to;

	if (text_number(&p->t, "lblk", 0, UINT32_MAX, &lblk, err) ||
	    text_number(&p->t, "length", 1, UINT32_MAX - lblk, &len, err) ||
	    text_number(&p->t, "from", 0, MAX_BLOCKS, &from, err) ||
	    text_number(&p->t, "to", 0, MAX_BLOCKS, &to, err) ||
	    array_reserve(&p->move, &p->cap_move, p->n_move + 1, sizeof(*p->move), err))
		return -1;
	p->move[p->n_move++] = (struct move){ .from = from,
					      .to = to,
					      .lblk = (uint32_t)lblk,
					      .len = (uint32_t)len,
					      .unwritten = text_word(&p->t, "u") };
	return 0;
}

static int parse_block(struct parser *p, struct list *l, struct error *err)
{
	uint64_t block;

	if (text_number(&p->t, "block", 0, MAX_BLOCKS, &block, err) ||
	    array_reserve(&l->block, &l->cap, l->n + 1, sizeof(*l->block), err))
		return -1;
	l->block[l->n++] = block;
	return 0;
}

static int parse_predicted(struct parser *p, struct error *err)
{
	struct text_field f[SUMMARY_FIELDS];
	struct summary *s = &p->p->predicted;

	if (close_batch(p, err))
		return -1;
	summary_fields(s, f);
	if (text_get_fields(&p->t, f, SUMMARY_FIELDS, err))
		return -1;
	p->predicted = true;
	*s = (struct summary){ .files = f[0].value,
			       .frag_files = f[1].value,
			       .dirs = f[2].value,
			       .frag_dirs = f[3].value,
			       .runs = f[4].value,
			       .ideal_runs = f[5].value,
			       .blocks = f[6].value,
			       .frag_blocks = f[7].value,
			       .tree_blocks = f[8].value,
			       .free_blocks = f[9].value,
			       .free_runs = f[10].value,
			       .longest_free = f[11].value };
	return 0;
}

static int parse_line(struct parser *p, struct error *err)
{
	static const char *const word[] = { "move", "free",  "take",	 "keep",
					    "file", "batch", "predicted" };
	int i = text_choice(&p->t, word, sizeof(word) / sizeof(word[0])), rc;

	if (p->predicted)
		return text_error(&p->t, "a line behind the prediction", err);
	if (i >= 0 && i < 4 && !p->in_file)
		return text_error(&p->t, "it belongs to no file", err);
	switch (i) {
	case 0:
		rc = parse_move(p, err);
		break;
	case 1:
		rc = parse_block(p, &p->freed, err);
		break;
	case 2:
		rc = parse_block(p, &p->taken, err);
		break;
	case 3:
		rc = parse_block(p, &p->kept, err);
		break;
	case 4:
		rc = parse_file(p, err);
		break;
	case 5:
		rc = parse_batch(p, err);
		break;
	case 6:
		rc = parse_predicted(p, err);
		break;
	default:
		return text_error(&p->t, "unknown word", err);
	}
	if (rc)
		return -1;
	return text_end(&p->t) ? 0 : text_error(&p->t, "more words than expected", err);
}

int plan_parse(const char *text, struct plan **out, struct error *err)
{
	struct parser p = { .t = { .next = text } };
	uint64_t version;
	int rc = -1;

	if (plan_new(&p.p, err))
		return -1;
	if (!text_line(&p.t) || !text_word(&p.t, "plan")) {
		text_error(&p.t, "not a plan: it must start with 'plan 1'", err);
		goto out;
	}
	if (text_number(&p.t, "version", 1, 1, &version, err))
		goto out;
	if (!text_end(&p.t)) {
		text_error(&p.t, "more words than expected", err);
		goto out;
	}
	while (text_line(&p.t))
		if (parse_line(&p, err))
			goto out;
	if (close_batch(&p, err))
		goto out;
	*out = p.p;
	p.p = NULL;
	rc = 0;
out:
	plan_free(p.p);
	free(p.move);
	free(p.freed.block);
	free(p.taken.block);
	free(p.kept.block);
	return rc;
}
