/* SPDX-License-Identifier: GPL-2.0-or-later */
/* library: the public door (scaledefrag.h) to the engine: plain options in, an opaque report out.
 */
#include "library.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The public words are those of the modules, in the same order. */
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME(SCALEDEFRAG_FSCK, ERROR_FSCK);
SAME(SCALEDEFRAG_OPERATION, ERROR_OPERATION);
SAME(SCALEDEFRAG_USAGE, ERROR_USAGE);
SAME(SCALEDEFRAG_INCOMPLETE, ERROR_STOPPED);
SAME(SCALEDEFRAG_NOTHING, OUTCOME_NOTHING);
SAME(SCALEDEFRAG_DONE, OUTCOME_DONE);
SAME(SCALEDEFRAG_REPORTED, OUTCOME_REPORTED);
SAME(SCALEDEFRAG_PLANNED, OUTCOME_PLANNED);
SAME(SCALEDEFRAG_STOPPED, OUTCOME_STOPPED);
SAME(SCALEDEFRAG_DROPPED, OUTCOME_DROPPED);
SAME(SCALEDEFRAG_FAILED, OUTCOME_FAILED);
SAME(SCALEDEFRAG_PHASE_OPEN, PHASE_OPEN);
SAME(SCALEDEFRAG_PHASE_SCAN, PHASE_SCAN);
SAME(SCALEDEFRAG_PHASE_PLAN, PHASE_PLAN);
SAME(SCALEDEFRAG_PHASE_VERIFY, PHASE_VERIFY);
SAME(SCALEDEFRAG_PHASE_GUARD, PHASE_GUARD);
SAME(SCALEDEFRAG_PHASE_MOVE, PHASE_MOVE);
SAME(SCALEDEFRAG_PHASE_COMMIT, PHASE_COMMIT);
SAME(SCALEDEFRAG_PHASE_RESCAN, PHASE_RESCAN);
SAME(SCALEDEFRAG_PHASE_DISCARD, PHASE_DISCARD);
SAME(SCALEDEFRAG_PHASE_MEASURE, PHASE_MEASURE);
SAME(SCALEDEFRAG_MODE_FILES, PLAN_FILES);
SAME(SCALEDEFRAG_MODE_FREE, PLAN_FREE);
SAME(SCALEDEFRAG_MODE_SHRINK, PLAN_SHRINK);
SAME(SCALEDEFRAG_MODE_LAYOUT, PLAN_LAYOUT);
SAME(SCALEDEFRAG_PATH, SCOPE_PATH);
SAME(SCALEDEFRAG_INCLUDE, SCOPE_INCLUDE);
SAME(SCALEDEFRAG_EXCLUDE, SCOPE_EXCLUDE);
SAME(SCALEDEFRAG_PIN, SCOPE_PIN);

struct call {
	struct scaledefrag_options o; /* with the defaults put in */
	struct scaledefrag_report *r;
	bool declined; /* ready() said so */
};

static void get_time(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	const struct call *c = ctx;
	struct timespec t;

	if (c->o.clock) {
		c->o.clock(c->o.ctx, seconds, nsec);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &t);
	*seconds = (uint64_t)t.tv_sec;
	*nsec = (uint32_t)t.tv_nsec;
}

static void on_ready(void *ctx, const struct report *r, const struct snapshot *s,
		     const struct plan *p)
{
	struct call *c = ctx;

	(void)r; /* is c->r->figures */
	c->r->snapshot = s;
	c->r->plan = p;
	c->declined = c->o.ready(c->o.ctx, c->r) != 0;
	c->r->snapshot = NULL;
	c->r->plan = NULL;
}

static void on_progress(void *ctx, enum report_phase phase, uint64_t done, uint64_t total,
			uint64_t bytes)
{
	const struct call *c = ctx;

	c->o.progress(c->o.ctx, (enum scaledefrag_phase)phase, done, total, bytes);
}

static void on_log(void *ctx, const char *line)
{
	const struct call *c = ctx;

	c->o.log(c->o.ctx, line);
}

static int on_cancel(void *ctx)
{
	const struct call *c = ctx;

	if (c->declined)
		return 2;
	return c->o.cancel ? c->o.cancel(c->o.ctx) : 0;
}

/* Zero stands for the default here. */
static uint64_t to_slab(uint64_t slab)
{
	if (slab == SCALEDEFRAG_SLAB_NONE)
		return 0;
	return slab ? slab : ENGINE_SLAB_DEVICE;
}

static enum engine_discard to_discard(enum scaledefrag_discard d)
{
	switch (d) {
	case SCALEDEFRAG_DISCARD_NONE:
		return DISCARD_NONE;
	case SCALEDEFRAG_DISCARD_ALL:
		return DISCARD_ALL;
	default:
		return DISCARD_FREED;
	}
}

static void to_engine(struct call *c, struct engine_options *e)
{
	const struct scaledefrag_options *o = &c->o;

	*e = (struct engine_options){
		.volume = { .path = o->path,
			    .read_only = o->dry_run || o->report_only,
			    .preen = o->preen,
			    .partition = o->partition,
			    .command = o->command,
			    .n_command = o->n_command },
		.plan.mode = (enum plan_mode)o->mode,
		.plan.reserve = o->reserve,
		.front = o->front,
		.n_scope = o->n_scope,
		.min_extent = o->min_extent,
		.slab = to_slab(o->slab),
		.discard = to_discard(o->discard),
		.min_runs = o->min_runs,
		.budget = o->budget,
		.report_only = o->report_only,
		.dry_run = o->dry_run,
		.verify = o->verify,
		.names = o->names,
		.list = o->list,
		.advise = o->advise,
		.measure = o->measure,
		.pictures = o->pictures,
		.threads = o->threads,
		.queue_depth = o->queue_depth,
		.memory = o->memory,
		.batch_bytes = o->batch_bytes,
		.clock = get_time,
		.clock_ctx = c,
		.ready = o->ready ? on_ready : NULL,
		.progress = o->progress ? on_progress : NULL,
		.log = o->log ? on_log : NULL,
		.cancel = on_cancel,
		.observer_ctx = c,
	};
}

/* The public scope in the scan's own words; free() it. */
static int to_scope(const struct scaledefrag_options *o, struct scope_item **out, struct error *err)
{
	struct scope_item *v = calloc(o->n_scope + 1, sizeof(*v));

	if (!v)
		return error_nomem(err, "the scope");
	for (size_t i = 0; i < o->n_scope; i++)
		v[i] = (struct scope_item){ (enum scope_kind)o->scope[i].kind, o->scope[i].text };
	*out = v;
	return 0;
}

static int run(struct call *c, struct error *err)
{
	struct engine_options e;
	struct scope_item *scope = NULL;
	int rc;

	library_defaults(&c->o);
	if (library_check(&c->o, err) || to_scope(&c->o, &scope, err))
		return -1;
	to_engine(c, &e);
	e.scope = scope;
	rc = engine_run(&e, &c->r->figures, err);
	free(scope);
	return rc;
}

int scaledefrag_run(const struct scaledefrag_options *o, struct scaledefrag_report **out)
{
	struct scaledefrag_report *r = calloc(1, sizeof(*r));
	struct call c = { .o = *o, .r = r };

	*out = r;
	if (!r)
		return SCALEDEFRAG_OPERATION;
	r->figures.name = o->path;
	if (run(&c, &r->error)) {
		r->figures.error = r->error.text;
		r->figures.exit_code = r->error.kind ? (int)r->error.kind : SCALEDEFRAG_OPERATION;
		if (r->figures.outcome != OUTCOME_STOPPED)
			r->figures.outcome = OUTCOME_FAILED;
	}
	/* The report outlives the caller's path. */
	r->name = r->figures.name ? strdup(r->figures.name) : NULL;
	r->figures.name = r->name ? r->name : "";
	return r->figures.exit_code;
}

static void to_figures(const struct summary *s, uint64_t block_size,
		       struct scaledefrag_figures *out)
{
	*out = (struct scaledefrag_figures){
		.files = s->files,
		.fragmented_files = s->frag_files,
		.runs = s->runs,
		.ideal_runs = s->ideal_runs,
		.free_bytes = s->free_blocks * block_size,
		.free_runs = s->free_runs,
		.longest_free_bytes = s->longest_free * block_size,
	};
}

static struct scaledefrag_cold to_cold(const struct report_measure *m)
{
	return (struct scaledefrag_cold){ m->requests, m->bytes, m->seconds };
}

int scaledefrag_result(const struct scaledefrag_report *r, struct scaledefrag_result *out)
{
	const struct report *f;

	if (!r) {
		*out = (struct scaledefrag_result){ .outcome = SCALEDEFRAG_FAILED,
						    .code = SCALEDEFRAG_OPERATION,
						    .error = "out of memory" };
		return -1;
	}
	f = &r->figures;
	*out = (struct scaledefrag_result){
		.outcome = (enum scaledefrag_outcome)f->outcome,
		.code = f->exit_code,
		.error = f->error,
		.bytes_to_move = f->plan_bytes,
		.bytes_moved = f->bytes_moved,
		.estimate_seconds = f->estimate_seconds,
		.cold_before = to_cold(&f->measured_before),
		.cold_after = to_cold(&f->measured_after),
	};
	to_figures(&f->before, f->block_size, &out->before);
	to_figures(&f->predicted, f->block_size, &out->planned);
	to_figures(f->has_after ? &f->after : &f->before, f->block_size, &out->after);
	return f->error ? -1 : 0;
}

int scaledefrag_json(const struct scaledefrag_report *r, FILE *to)
{
	return r ? report_json(to, &r->figures) : -1;
}

int scaledefrag_html(const struct scaledefrag_report *r, FILE *to)
{
	return r ? report_html(to, &r->figures) : -1;
}

int scaledefrag_svg(const struct scaledefrag_report *r, FILE *to)
{
	return r ? report_svg(to, &r->figures) : -1;
}

int scaledefrag_text(const struct scaledefrag_report *r, FILE *to, int detail)
{
	if (!r)
		return -1;
	report_text(to, &r->figures, detail);
	return fflush(to) || ferror(to) ? -1 : 0;
}

void scaledefrag_free(struct scaledefrag_report *r)
{
	if (!r)
		return;
	report_release(&r->figures);
	free(r->name);
	free(r);
}
