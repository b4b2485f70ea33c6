/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main: options -> signals -> library -> report -> exit code. The only place that prints errors.
 *
 * Standard output has the report (text or JSON) and nothing else; errors and the progress bar go to
 * standard error. Exit codes are those of fsck(8), see enum error_kind; never 1.
 */
#include "library.h"
#include "options.h"
#include "outputs.h"
#include "scaledefrag/report.h"
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Set by signals, asked for by the library. */
static volatile sig_atomic_t stop, time_over;

/* Read by main, at the next progress. */
static volatile sig_atomic_t show_asked;
enum { SHOW = 1, HIDE };

enum { OUT_JSON, OUT_PAGE, OUT_SVG, OUTPUTS };

struct session {
	const struct options *o;
	struct progress *progress;
	struct output out[OUTPUTS];
};

static void on_signal(int sig)
{
	(void)sig;
	if (stop < 2) /* once: at the next good place; twice: now */
		stop++;
}

/* The time is over: as one signal; a signal that came before it counts already. */
static void on_alarm(int sig)
{
	(void)sig;
	if (!stop) {
		stop = 1;
		time_over = 1;
	}
}

/* As e2fsck: SIGUSR1 starts, SIGUSR2 stops the display of progress. */
static void on_show(int sig)
{
	show_asked = sig == SIGUSR1 ? SHOW : HIDE;
}

static void catch_signals(const struct options *o)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, old;

	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup */
			sigaction(caught[i], &sa, NULL);
	sa.sa_handler = on_show;
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
	if (o->time_limit)
		alarm(o->time_limit);
	/* Errors of write(), reported as such: a reader that went away, a limit on file sizes. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

/*
 * The OpenMP library ends the program with exit code 1 where it can't start a thread; for fsck that
 * means "errors were corrected". We never use 1, so whoever does is such a library. For the file
 * system this is like a kill at that moment.
 */
static void on_library_exit(int status, void *arg)
{
	(void)arg;
	if (status != EXIT_FAILURE)
		return;
	fprintf(stderr, "scaledefrag-offline: a library gave up, see above; the file system is "
			"safe, but may need a check or its journal replayed (e2fsck -p); try "
			"--threads 1\n");
	fflush(NULL);
	_exit(ERROR_OPERATION);
}

/*
 * Descriptors 0, 1 and 2 must never become the file system's. A closed one is replaced by
 * something that can't be written, so that a closed standard output still shows as an error.
 */
static int reserve_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
			return -1;
	return 0;
}

/* SOURCE_DATE_EPOCH stands in for the clock. */
static void get_epoch(void *ctx, uint64_t *seconds, uint32_t *nsec)
{
	const struct session *ss = ctx;

	*seconds = ss->o->epoch;
	*nsec = 0;
}

/* Does text other than a dump belong on standard output? */
static bool text_wanted(const struct options *o)
{
	return !o->quiet && !(o->json && !o->json_path) && !o->dump_snapshot && !o->dump_plan;
}

static int on_ready(void *ctx, const struct scaledefrag_report *r)
{
	const struct session *ss = ctx;
	const struct options *o = ss->o;

	const struct report *f = &r->figures;
	bool last = f->pass == f->passes || !(o->engine.dry_run || o->engine.report_only);

	progress_clear(ss->progress);
	if (text_wanted(o) && last)
		report_intro(stdout, f);
	if (o->dump_snapshot)
		report_snapshot(stdout, r->snapshot);
	if (o->dump_plan || (o->engine.dry_run && o->verbose && text_wanted(o)))
		report_plan(stdout, r->plan);
	fflush(stdout);
	return 0;
}

static void on_progress(void *ctx, enum scaledefrag_phase phase, uint64_t done, uint64_t total,
			uint64_t bytes)
{
	const struct session *ss = ctx;

	if (show_asked) {
		progress_show(ss->progress, show_asked == SHOW);
		show_asked = 0;
	}
	progress_set(ss->progress, (enum report_phase)phase, done, total, bytes);
}

/* The text may quote names: escaped. */
static void complain(const char *text)
{
	char *safe = report_escape(text);

	fprintf(stderr, "scaledefrag-offline: %s\n", safe ? safe : "out of memory");
	free(safe);
}

/* With -vv; on standard error, as standard output has the report alone. */
static void on_log(void *ctx, const char *line)
{
	const struct session *ss = ctx;

	progress_clear(ss->progress);
	complain(line);
}

static int on_cancel(void *ctx)
{
	(void)ctx;
	return stop;
}

/* How wide a page is, and what may be on it. */
static struct report_map_style map_style(void)
{
	struct report_map_style style = { .columns = 80 };
	const char *columns = getenv("COLUMNS"), *term = getenv("TERM"), *no = getenv("NO_COLOR");
	bool tty = isatty(STDOUT_FILENO);
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	struct winsize ws;
	unsigned long n = columns ? strtoul(columns, NULL, 10) : 0;

	if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		n = ws.ws_col;
	if (n)
		style.columns = n < 400 ? (unsigned)n : 400;
	style.colour = tty && !(no && *no) && term && strcmp(term, "dumb");
	/* Not setlocale: which bytes a glob matches must not depend on it. */
	if (locale) {
		style.unicode = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
		freelocale(locale);
	}
	return style;
}

static int write_json(struct session *ss, const struct report *r)
{
	struct output *json = &ss->out[OUT_JSON];

	if (!json->file)
		return report_json(stdout, r);
	return output_begin(json) || report_json(json->file, r) || fflush(json->file) ? -1 : 0;
}

/* An exit code other than 0 has its reason on standard error, where the text report has not. */
static void complain_dropped(const struct report *r)
{
	char text[80];

	snprintf(text, sizeof(text), "done, but with %zu file%s dropped for I/O errors",
		 r->n_dropped, r->n_dropped == 1 ? "" : "s");
	complain(text);
}

/* The report; -1 if it could not be written. */
static int show(struct session *ss, const struct report *r)
{
	const struct options *o = ss->o;
	struct output *page = &ss->out[OUT_PAGE], *svg = &ss->out[OUT_SVG];
	int rc = 0;

	/* After a refusal there is nothing to report but the reason. */
	if (text_wanted(o) && (!r->error || r->transactions)) {
		if (o->map) {
			struct report_map_style style = map_style();

			report_map(stdout, r, &style);
		}
		report_text(stdout, r, o->verbose);
	}
	if (o->json)
		rc = write_json(ss, r);
	if (page->file && (output_begin(page) || report_html(page->file, r)))
		rc = -1;
	if (svg->file && (output_begin(svg) || report_svg(svg->file, r)))
		rc = -1;
	if (fflush(stdout) || ferror(stdout))
		rc = -1;
	return rc;
}

static int run(const struct options *o)
{
	struct session ss = {
		.o = o,
		.out = { [OUT_JSON] = { "--json", "JSON report", "\"schema\"", o->json_path, NULL },
			 [OUT_PAGE] = { "--report", "report", REPORT_MARK, o->page_path, NULL },
			 [OUT_SVG] = { "--svg", "SVG of this program", REPORT_MARK, o->svg_path,
				       NULL } },
	};
	struct scaledefrag_options e = o->engine;
	struct error err = ERROR_INIT;
	struct scaledefrag_report *full = NULL;
	struct report *r;
	int code = ERROR_OPERATION;

	for (int i = 0; i < OUTPUTS; i++)
		if (output_open(&ss.out[i], &err)) {
			complain(err.text);
			code = (int)err.kind;
			goto out;
		}
	if (progress_new(o->quiet || o->progress_json ? -1 : STDERR_FILENO, o->lines_fd, e.path,
			 &ss.progress)) {
		complain("out of memory");
		goto out;
	}
	if (o->progress_json)
		progress_json(ss.progress, STDERR_FILENO);
	progress_show(ss.progress, !o->no_progress);
	e.clock = o->has_epoch ? get_epoch : NULL;
	e.ready = on_ready;
	e.progress = on_progress;
	e.log = o->verbose > 1 ? on_log : NULL;
	e.cancel = on_cancel;
	e.ctx = &ss;
	code = scaledefrag_run(&e, &full);
	progress_free(ss.progress);
	if (!full) {
		complain("out of memory");
		goto out;
	}
	r = &full->figures;
	if (r->outcome == OUTCOME_STOPPED && time_over)
		r->stopped_by = "the time limit";
	if (show(&ss, r)) {
		complain("the report could not be written");
		code = code ? code : ERROR_OPERATION;
	}
	if (r->error)
		complain(r->error);
	else if (r->outcome == OUTCOME_DROPPED && !text_wanted(o))
		complain_dropped(r);
	scaledefrag_free(full);
out:
	for (int i = 0; i < OUTPUTS; i++)
		output_close(&ss.out[i]);
	return code;
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err = ERROR_INIT;
	int code;

	if (reserve_descriptors() || on_exit(on_library_exit, NULL))
		return ERROR_OPERATION;
	if (options_parse(argc, argv, &o, &err)) {
		complain(err.text);
		fprintf(stderr, "Try 'scaledefrag-offline --help'.\n");
		return (int)err.kind;
	}
	if (o.help || o.version) {
		if (o.help)
			options_help(stdout);
		else
			printf("scaledefrag-offline " VERSION "\n");
		return fflush(stdout) ? ERROR_OPERATION : 0;
	}
	catch_signals(&o);
	/* Whatever a hostile file system made us do: neither we nor e2fsck gain rights by it. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	code = run(&o);
	options_release(&o);
	return code;
}
