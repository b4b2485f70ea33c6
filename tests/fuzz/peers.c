/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * peers [--flips N] [--seed N] [--jobs N] [--seconds N] [--resume FILE] IMAGE...
 *
 * Runs the engine on other people's images, as they are and with one byte changed (N times each).
 * Right is: done, and then e2fsck -fn finds no more than before and the content digest is equal; or
 * refused, and then no byte has changed. Where a run has written nothing, comparing bytes is all
 * there is to judge. scripts/peer-images gets the images.
 *
 * A part, some flips of one image, is a process of its own, so that a crash or an endless loop is
 * this part's. The first parts of all images come before the second ones. --resume: FILE has a line
 * for each part that has ended; those are not run again, but counted. --seconds: no part is begun
 * after so many.
 */
#include "images.h"
#include "peer.h"
#include "support/image.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PART = 50, /* flips */
	JOBS_MAX = 64,
};

struct image_sum {
	const char *name;
	uint64_t left; /* parts */
	struct tally sum;
};

struct job {
	pid_t pid;
	struct image_sum *image;
	uint64_t first, last;
};

struct work {
	uint64_t flips, seed, seconds;
	unsigned jobs;
	FILE *resume; /* NULL: not asked for */
	struct image_sum *image;
	size_t n_images;
	struct tally *slot; /* one a job */
	struct job job[JOBS_MAX];
};

static void part_ended(struct image_sum *im, const struct tally *t)
{
	im->sum.run += t->run;
	im->sum.done += t->done;
	im->sum.written += t->written;
	im->sum.refused += t->refused;
	im->sum.worse += t->worse;
	if (!--im->left && !im->sum.worse)
		printf("ok peer %s: %llu done, %llu refused\n", im->name,
		       (unsigned long long)im->sum.done, (unsigned long long)im->sum.refused);
}

static void begin(struct work *w, unsigned k, struct image_sum *im, uint64_t first, uint64_t last)
{
	struct peer p = { .name = im->name, .tally = &w->slot[k] };

	w->slot[k] = (struct tally){ .at = first };
	w->job[k] = (struct job){ .image = im, .first = first, .last = last };
	fflush(NULL);
	w->job[k].pid = fork();
	if (w->job[k].pid < 0)
		image_die("%s", strerror(errno));
	if (w->job[k].pid)
		return;
	peer_load(&p);
	peer_flips(&p, first, last, w->seed);
	fflush(stdout);
	_exit(0);
}

/* Waits until a part ends; returns its slot. */
static unsigned wait_one(struct work *w)
{
	unsigned k = 0;
	int status;
	pid_t pid;

	while ((pid = wait(&status)) < 0)
		if (errno != EINTR)
			image_die("%s", strerror(errno));
	while (w->job[k].pid != pid)
		k++;
	w->job[k].pid = 0;
	if (status) {
		struct peer p = { .name = w->job[k].image->name, .tally = &w->slot[k] };

		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
			peer_worse(&p, "it doesn't end", "");
		else
			peer_worse(&p, "it ends with",
				   WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
						       : "an exit code");
	}
	part_ended(w->job[k].image, &w->slot[k]);
	if (w->resume && !w->slot[k].worse) { /* what is wrong is looked at again */
		const struct tally *t = &w->slot[k];

		fprintf(w->resume, "%s %llu %llu %llu %llu %llu %llu %llu\n", w->job[k].image->name,
			(unsigned long long)w->seed, (unsigned long long)w->job[k].first,
			(unsigned long long)w->job[k].last, (unsigned long long)t->run,
			(unsigned long long)t->done, (unsigned long long)t->written,
			(unsigned long long)t->refused);
		fflush(w->resume);
	}
	return k;
}

/* The part is in the file: counted. */
static bool resumed(struct work *w, struct image_sum *im, uint64_t first, uint64_t last)
{
	unsigned long long v[7];
	char name[256], line[512];

	if (!w->resume)
		return false;
	rewind(w->resume);
	while (fgets(line, sizeof(line), w->resume)) {
		struct tally t = { 0 };

		if (sscanf(line, "%255s %llu %llu %llu %llu %llu %llu %llu", name, &v[0], &v[1],
			   &v[2], &v[3], &v[4], &v[5], &v[6]) != 8 ||
		    strcmp(name, im->name) || v[0] != w->seed || v[1] != first || v[2] != last)
			continue;
		t.run = v[3], t.done = v[4], t.written = v[5], t.refused = v[6];
		part_ended(im, &t);
		return true;
	}
	return false;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

/* Returns the runs of this time, without those of the file. */
static uint64_t run_all(struct work *w)
{
	uint64_t end = w->seconds ? now() + w->seconds : UINT64_MAX, runs = 0;
	unsigned busy = 0, k = 0;

	for (uint64_t first = 0; first <= w->flips; first += PART) {
		uint64_t last = first + PART - 1 < w->flips ? first + PART - 1 : w->flips;

		for (size_t i = 0; i < w->n_images; i++) {
			if (resumed(w, &w->image[i], first, last))
				continue;
			if (now() >= end)
				break;
			if (busy == w->jobs) {
				k = wait_one(w);
				runs += w->slot[k].run;
			} else {
				k = busy++;
			}
			begin(w, k, &w->image[i], first, last);
		}
	}
	for (; busy; busy--)
		runs += w->slot[wait_one(w)].run;
	return runs;
}

static uint64_t number(char **argv, int argc, int *i)
{
	if (*i + 1 >= argc)
		image_die("%s needs a value", argv[*i]);
	return strtoull(argv[++*i], NULL, 0);
}

static void arguments(struct work *w, int argc, char **argv)
{
	w->image = calloc((size_t)argc, sizeof(*w->image));
	if (!w->image)
		image_die("out of memory");
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--flips"))
			w->flips = number(argv, argc, &i);
		else if (!strcmp(argv[i], "--seed"))
			w->seed = number(argv, argc, &i);
		else if (!strcmp(argv[i], "--seconds"))
			w->seconds = number(argv, argc, &i);
		else if (!strcmp(argv[i], "--jobs"))
			w->jobs = (unsigned)number(argv, argc, &i);
		else if (!strcmp(argv[i], "--resume") && i + 1 < argc)
			w->resume = fopen(argv[++i], "a+e");
		else
			w->image[w->n_images++].name = argv[i];
		if (!strcmp(argv[i - 1], "--resume") && !w->resume)
			image_die("cannot open %s", argv[i]);
	}
	if (!w->jobs || w->jobs > JOBS_MAX)
		w->jobs = 1;
	for (size_t i = 0; i < w->n_images; i++)
		w->image[i].left = w->flips / PART + 1;
}

int main(int argc, char **argv)
{
	struct work w = { .seed = 1 };
	struct tally all = { 0 };
	uint64_t runs, start = now(), spent;

	arguments(&w, argc, argv);
	images_roots(); /* before there are children */
	w.slot = (struct tally *)(void *)peer_map(-1, JOBS_MAX * sizeof(*w.slot),
						  MAP_SHARED | MAP_ANONYMOUS);
	runs = run_all(&w);
	for (size_t i = 0; i < w.n_images; i++) {
		all.run += w.image[i].sum.run;
		all.done += w.image[i].sum.done;
		all.written += w.image[i].sum.written;
		all.refused += w.image[i].sum.refused;
		all.worse += w.image[i].sum.worse;
	}
	spent = now() - start;
	printf("%llu runs now, %llu s, %llu a second; of all done, %llu have written\n",
	       (unsigned long long)runs, (unsigned long long)spent,
	       (unsigned long long)(runs / (spent ? spent : 1)), (unsigned long long)all.written);
	printf("%llu run, %llu done, %llu refused, %llu worse\n", (unsigned long long)all.run,
	       (unsigned long long)all.done, (unsigned long long)all.refused,
	       (unsigned long long)all.worse);
	if (w.resume)
		fclose(w.resume);
	free(w.image);
	return all.worse ? 1 : 0;
}
