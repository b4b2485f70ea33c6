/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main: options -> signals -> library -> report -> exit code. The only place that prints errors.
 *
 * Standard output has the report (text or JSON) and nothing else; errors and the progress bar go to
 * standard error. Exit codes are those of fsck(8), see enum error_kind; never 1.
 */
#include "library.h"
#include "options.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set by signals, asked for by the library. */
static volatile sig_atomic_t stop, time_over;

struct session {
	const struct options *o;
	struct progress *progress;
	FILE *json; /* --json=FILE */
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

static void catch_signals(const struct options *o)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, old;

	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup */
			sigaction(caught[i], &sa, NULL);
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
			"safe, but may need its journal replayed (e2fsck -p); try --threads 1\n");
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

	progress_clear(ss->progress);
	if (text_wanted(o))
		report_intro(stdout, &r->figures);
	if (o->dump_snapshot)
		snapshot_dump(r->snapshot, stdout);
	if (o->dump_plan || (o->engine.dry_run && o->verbose && text_wanted(o)))
		plan_dump(r->plan, stdout);
	fflush(stdout);
	return 0;
}

static void on_progress(void *ctx, enum scaledefrag_phase phase, uint64_t done, uint64_t total,
			uint64_t bytes)
{
	const struct session *ss = ctx;

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

/* An earlier report? One byte would not tell it from an image, whose first 1,024 are anybody's. */
static bool is_report(int fd)
{
	static const char key[] = "\"schema\"";
	char head[64];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	return n > 0 && head[0] == '{' && memmem(head, (size_t)n, key, sizeof(key) - 1);
}

/*
 * Opened before the run, so that a bad path shows before anything is written. An existing file is
 * replaced only if it looks like a report: a slip must not cost an image.
 */
static int open_json(const char *path, FILE **out, struct error *err)
{
	struct stat st;
	/* A pipe opened for reading too would not wait for its reader, and lose the report. */
	bool pipe = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
	int fd = open(path, (pipe ? O_WRONLY : O_RDWR | O_CREAT) | O_CLOEXEC | O_NOCTTY, 0666);

	if (fd < 0 && (errno == EINVAL || errno == ESPIPE || errno == EACCES))
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return error_sys(err, ERROR_USAGE, errno, "--json: cannot write %s", path);
	if (fstat(fd, &st) == 0 &&
	    (S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size && !is_report(fd)))) {
		close(fd);
		return error_set(err, ERROR_USAGE,
				 "--json: %s is there and is no JSON report: not replaced", path);
	}
	*out = fdopen(fd, "w"); /* doesn't truncate; write_json does */
	if (!*out) {
		close(fd);
		return error_nomem(err, "the JSON report");
	}
	return 0;
}

static int write_json(const struct session *ss, const struct report *r)
{
	struct stat st;
	int rc;

	if (!ss->json)
		return report_json(stdout, r);
	if (fstat(fileno(ss->json), &st) == 0 && S_ISREG(st.st_mode) &&
	    ftruncate(fileno(ss->json), 0))
		return -1;
	rc = report_json(ss->json, r);
	return fflush(ss->json) ? -1 : rc;
}

/* An exit code other than 0 has its reason on standard error, where the text report has not. */
static void complain_dropped(const struct report *r)
{
	char text[80];

	snprintf(text, sizeof(text), "done, but %zu files were dropped for I/O errors",
		 r->n_dropped);
	complain(text);
}

/* The report; -1 if it could not be written. */
static int show(const struct session *ss, const struct report *r)
{
	const struct options *o = ss->o;
	int rc = 0;

	/* After a refusal there is nothing to report but the reason. */
	if (text_wanted(o) && (!r->error || r->transactions))
		report_text(stdout, r, o->verbose);
	if (o->json)
		rc = write_json(ss, r);
	if (fflush(stdout) || ferror(stdout))
		rc = -1;
	return rc;
}

static int run(const struct options *o)
{
	struct session ss = { .o = o };
	struct scaledefrag_options e = o->engine;
	struct error err = ERROR_INIT;
	struct scaledefrag_report *full = NULL;
	struct report *r;
	int code = ERROR_OPERATION;

	if (o->json_path && open_json(o->json_path, &ss.json, &err)) {
		complain(err.text);
		return (int)err.kind;
	}
	if (progress_new(o->quiet || o->no_progress ? -1 : STDERR_FILENO, o->lines_fd, e.path,
			 &ss.progress)) {
		complain("out of memory");
		goto out;
	}
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
	if (ss.json)
		fclose(ss.json);
	return code;
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err = ERROR_INIT;

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
	return run(&o);
}
