/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * progress: a bar on a terminal, and e2fsck's completion lines on a descriptor ("pass done total
 * name\n"; e2fsprogs e2fsck/unix.c, e2fsck_update_progress), and lines of JSON. All of them at most
 * ten times a second.
 */
#include "names.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL     0.1 /* seconds between two updates */
#define BAR_MAX	     40u /* characters */
#define LINE_MAX_LEN 256u

struct progress {
	int bar_fd, lines_fd, json_fd;
	char *name;
	bool hidden, begun, moving, bar_shown;
	enum report_phase phase;
	unsigned pass;
	double start, last, move_start;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Progress is a courtesy: a descriptor that fails is not used again. */
static void put(int *fd, const char *text, size_t len)
{
	while (*fd >= 0 && len) {
		ssize_t n = write(*fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0 || errno != EAGAIN)
				*fd = -1;
			return;
		}
		text += n;
		len -= (size_t)n;
	}
}

static unsigned width(int fd)
{
	struct winsize ws;
	const char *columns = getenv("COLUMNS");
	unsigned long n;

	if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		n = ws.ws_col;
	else
		n = columns ? strtoul(columns, NULL, 10) : 0;
	n = n ? n : 80;
	return n < LINE_MAX_LEN ? (unsigned)n : LINE_MAX_LEN;
}

/*
 * Passes count up, as e2fsck's do: guard, move and commit take turns and are one pass. What comes
 * twice belongs to the one before.
 */
static unsigned pass_of(const struct progress *p, enum report_phase phase)
{
	static const unsigned pass[PHASES] = {
		[PHASE_OPEN] = 1,   [PHASE_SCAN] = 1,	[PHASE_PLAN] = 2,
		[PHASE_VERIFY] = 3, [PHASE_GUARD] = 4,	[PHASE_MOVE] = 4,
		[PHASE_COMMIT] = 4, [PHASE_RESCAN] = 5, [PHASE_DISCARD] = 5,
	};

	return pass[phase] ? pass[phase] : p->pass ? p->pass : 1;
}

/* "123 MB/s  0:12 left", or nothing while there is nothing to say */
static void speed(const struct progress *p, double t, uint64_t done, uint64_t total, char *out,
		  size_t size)
{
	double spent = t - p->move_start, left;

	*out = '\0';
	if (!p->moving || p->pass != 4 || spent < 0.5 || !done)
		return;
	left = total > done ? spent * (double)(total - done) / (double)done : 0;
	left = left < 360000 ? left : 360000;
	snprintf(out, size, "  %.0f MB/s  %u:%02u left", (double)done / spent / 1e6,
		 (unsigned)left / 60, (unsigned)left % 60);
}

static void show_bar(struct progress *p, double t, uint64_t done, uint64_t total)
{
	char tail[64], line[LINE_MAX_LEN + 2], bar[BAR_MAX + 1];
	unsigned cols = width(p->bar_fd) - 1, percent, room;
	int n;

	percent = total ? (unsigned)(100.0 * (double)done / (double)total) : 0;
	percent = percent > 100 ? 100 : percent;
	speed(p, t, done, total, tail, sizeof(tail));
	room = 18 + (unsigned)strlen(tail); /* "rescan [] 100 %" and some air */
	room = cols > room + 4 ? cols - room : 0;
	room = room > BAR_MAX ? BAR_MAX : room;
	memset(bar, '-', room);
	memset(bar, '#', room * percent / 100);
	bar[room] = '\0';
	n = snprintf(line, sizeof(line), "\r%-6s %s%s%s %3u %%%s", name_phase(p->phase),
		     room ? "[" : "", bar, room ? "]" : "", percent, tail);
	n = n > (int)cols + 1 ? (int)cols + 1 : n;
	memset(line + n, ' ', cols + 1 - (unsigned)n); /* wipes what a longer line left */
	put(&p->bar_fd, line, cols + 1);
	p->bar_shown = true;
}

void progress_clear(struct progress *p)
{
	char line[LINE_MAX_LEN + 2];
	unsigned cols;

	if (!p->bar_shown || p->bar_fd < 0)
		return;
	cols = width(p->bar_fd) - 1;
	memset(line, ' ', cols + 1);
	line[0] = line[cols + 1] = '\r';
	put(&p->bar_fd, line, cols + 2);
	p->bar_shown = false;
}

int progress_new(int bar_fd, int lines_fd, const char *name, struct progress **out)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	p->name = report_escape(name);
	if (!p->name) {
		free(p);
		return -1;
	}
	p->bar_fd = bar_fd >= 0 && isatty(bar_fd) ? bar_fd : -1;
	p->lines_fd = lines_fd;
	p->json_fd = -1;
	p->start = now();
	*out = p;
	return 0;
}

void progress_json(struct progress *p, int fd)
{
	p->json_fd = fd;
}

void progress_show(struct progress *p, bool show)
{
	if (!show)
		progress_clear(p);
	p->hidden = !show;
}

static void put_json(struct progress *p, double t, uint64_t done, uint64_t total, uint64_t bytes)
{
	char line[LINE_MAX_LEN];
	int n = snprintf(line, sizeof(line),
			 "{\"phase\": \"%s\", \"pass\": %u, \"done\": %llu, \"total\": %llu, "
			 "\"bytes\": %llu, \"seconds\": %.3f}\n",
			 name_phase(p->phase), p->pass, (unsigned long long)done,
			 (unsigned long long)total, (unsigned long long)bytes, t - p->start);

	put(&p->json_fd, line, (size_t)n);
}

void progress_set(struct progress *p, enum report_phase phase, uint64_t done, uint64_t total,
		  uint64_t bytes)
{
	unsigned pass = pass_of(p, phase);
	double t;

	if (p->hidden || (p->bar_fd < 0 && p->lines_fd < 0 && p->json_fd < 0))
		return;
	t = now();
	if (p->begun && pass == p->pass && done < total && t - p->last < INTERVAL)
		return;
	if (phase == PHASE_MOVE && !p->moving) {
		p->moving = true;
		p->move_start = t;
	}
	p->begun = true;
	p->phase = phase;
	p->pass = pass;
	p->last = t;
	if (p->bar_fd >= 0)
		show_bar(p, t, done, total);
	if (p->json_fd >= 0)
		put_json(p, t, done, total, bytes);
	if (p->lines_fd >= 0 &&
	    dprintf(p->lines_fd, "%u %llu %llu %s\n", pass, (unsigned long long)done,
		    (unsigned long long)total, p->name) < 0)
		p->lines_fd = -1;
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_clear(p);
	free(p->name);
	free(p);
}
