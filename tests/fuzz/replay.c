/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay FOLDER             runs what FOLDER/TARGET.txt lists through each target, and
 *   [--random N] [--seed N]   N more made of them by chance, each
 *   [--target NAME]           only this one
 * replay --unpack FILE FOLDER   one file for each input, for libFuzzer
 * replay --pack FILE FOLDER     and back, shortest first
 *
 * A line is an input: printable characters, \\, \n and \xNN. '#' starts a comment line.
 */
#include "fuzz.h"
#include "support/wrap.h"
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct target {
	const char *name;
	int (*run)(const uint8_t *data, size_t size);
} targets[] = {
	{ "volume", fuzz_volume },   { "engine", fuzz_engine }, { "disk", fuzz_disk },
	{ "journal", fuzz_journal }, { "text", fuzz_text },	{ "options", fuzz_options },
};
enum { N_TARGETS = sizeof(targets) / sizeof(targets[0]), LONGEST = 1 << 20 };

struct input {
	uint8_t *data;
	size_t size;
	unsigned line;
};
struct inputs {
	struct input *in;
	size_t n;
};

static void die(const char *what, const char *name)
{
	fprintf(stderr, "replay: %s %s\n", what, name);
	exit(16);
}

static void add(struct inputs *all, uint8_t *data, size_t size, unsigned line)
{
	all->in = realloc(all->in, (all->n + 1) * sizeof(*all->in));
	if (!all->in)
		abort();
	all->in[all->n++] = (struct input){ data, size, line };
}

static size_t unescape(char *s)
{
	uint8_t *o = (uint8_t *)s, *start = o;
	unsigned byte;

	while (*s) {
		if (*s != '\\') {
			*o++ = (uint8_t)*s++;
		} else if (s[1] == 'x' && sscanf(s + 2, "%2x", &byte) == 1) {
			*o++ = (uint8_t)byte;
			s += 4;
		} else {
			*o++ = s[1] == 'n' ? '\n' : '\\';
			s += 2;
		}
	}
	return (size_t)(o - start);
}

static struct inputs load(const char *file)
{
	struct inputs all = { 0 };
	FILE *f = fopen(file, "r");
	char *line = NULL;
	size_t cap = 0;
	unsigned number = 0;

	if (!f)
		die("cannot open", file);
	while (getline(&line, &cap, f) >= 0) {
		size_t size;
		uint8_t *exact;

		number++;
		line[strcspn(line, "\n")] = '\0';
		if (*line == '#')
			continue;
		size = unescape(line);
		exact = must_alloc(size, 1); /* so that reading behind it shows */
		memcpy(exact, line, size);
		add(&all, exact, size, number);
	}
	free(line);
	fclose(f);
	return all;
}

static void put_line(FILE *f, const struct input *in)
{
	for (size_t i = 0; i < in->size; i++) {
		uint8_t c = in->data[i];

		if (c == '\\')
			fputs("\\\\", f);
		else if (c == '\n')
			fputs("\\n", f);
		else if (isprint(c) && (i || c != '#'))
			fputc(c, f);
		else
			fprintf(f, "\\x%02x", c);
	}
	fputc('\n', f);
}

static int shorter(const void *a, const void *b)
{
	const struct input *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return memcmp(x->data, y->data, x->size);
}

static void pack(const char *file, const char *folder)
{
	struct inputs all = { 0 };
	DIR *d = opendir(folder);
	struct dirent *de;
	FILE *out;

	if (!d)
		die("cannot open", folder);
	while ((de = readdir(d))) {
		char name[512];
		uint8_t *data = must_alloc(LONGEST, 1);
		FILE *f;

		snprintf(name, sizeof(name), "%s/%s", folder, de->d_name);
		f = *de->d_name == '.' ? NULL : fopen(name, "r");
		if (f) {
			add(&all, data, fread(data, 1, LONGEST, f), 0);
			fclose(f);
		} else {
			free(data);
		}
	}
	closedir(d);
	if (all.n)
		qsort(all.in, all.n, sizeof(*all.in), shorter);
	out = fopen(file, "w");
	if (!out)
		die("cannot write", file);
	for (size_t i = 0; i < all.n; i++)
		put_line(out, &all.in[i]);
	fclose(out);
	printf("%zu inputs\n", all.n);
}

static void unpack(const char *file, const char *folder)
{
	struct inputs all = load(file);

	for (size_t i = 0; i < all.n; i++) {
		char name[512];
		FILE *f;

		snprintf(name, sizeof(name), "%s/seed-%04u", folder, all.in[i].line);
		f = fopen(name, "w");
		if (!f || fwrite(all.in[i].data, 1, all.in[i].size, f) != all.in[i].size)
			die("cannot write", name);
		fclose(f);
	}
	printf("%zu inputs\n", all.n);
}

/* xorshift64 */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* One of the inputs, or two spliced, with a few bytes changed. */
static struct input by_chance(const struct inputs *all, uint64_t *random)
{
	static const uint8_t telling[] = { 0, 1, 0x7f, 0x80, 0xff, 0xfe, 4, 0x10 };
	const struct input *a = &all->in[next_random(random) % all->n];
	const struct input *b = &all->in[next_random(random) % all->n];
	size_t head = a->size, tail = 0;
	struct input r;

	if (next_random(random) % 3 == 0) {
		head = next_random(random) % (a->size + 1);
		tail = next_random(random) % (b->size + 1);
	}
	r = (struct input){ must_alloc(head + tail, 1), head + tail, 0 };
	memcpy(r.data, a->data, head);
	memcpy(r.data + head, b->data + b->size - tail, tail);
	for (uint64_t i = next_random(random) % 5; r.size && i; i--) {
		uint8_t *p = &r.data[next_random(random) % r.size];

		*p = next_random(random) % 2 ? telling[next_random(random) % sizeof(telling)]
					     : (uint8_t)next_random(random);
	}
	return r;
}

struct progress {      /* shared with the child */
	unsigned line; /* 0: made by chance */
	uint64_t n, more;
};

static void run_all(const struct target *t, const struct inputs *all, uint64_t more, uint64_t seed,
		    struct progress *p)
{
	for (size_t i = 0; i < all->n; i++, p->n++) {
		p->line = all->in[i].line;
		t->run(all->in[i].data, all->in[i].size);
	}
	p->line = 0;
	for (; all->n && p->more < more; p->more++, p->n++) {
		uint64_t random = (seed + p->more + 1) * 0x9e3779b97f4a7c15u;
		struct input in = by_chance(all, &random);

		t->run(in.data, in.size);
		free(in.data);
	}
}

/* In a process of its own: a crash is one target's. */
static bool replay(const struct target *t, const char *folder, uint64_t more, uint64_t seed)
{
	struct progress *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char file[512];
	int status;
	pid_t pid;

	snprintf(file, sizeof(file), "%s/%s.txt", folder, t->name);
	if (p == MAP_FAILED)
		abort();
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct inputs all = load(file);

		run_all(t, &all, more, seed, p);
		for (size_t i = 0; i < all.n; i++)
			free(all.in[i].data);
		free(all.in);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		abort();
	if (!status)
		printf("ok fuzz %s: %llu inputs\n", t->name, (unsigned long long)p->n);
	else if (p->line)
		printf("not ok fuzz %s: %s:%u\n", t->name, file, p->line);
	else
		printf("not ok fuzz %s: --target %s --random 1 --seed %llu\n", t->name, t->name,
		       (unsigned long long)(seed + p->more));
	munmap(p, sizeof(*p));
	return !status;
}

int main(int argc, char **argv)
{
	const char *folder = NULL, *only = NULL;
	uint64_t more = 0, seed = 0;
	bool good = true;

	if (argc == 4 && !strcmp(argv[1], "--pack"))
		return pack(argv[2], argv[3]), 0;
	if (argc == 4 && !strcmp(argv[1], "--unpack"))
		return unpack(argv[2], argv[3]), 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--random") && i + 1 < argc)
			more = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--target") && i + 1 < argc)
			only = argv[++i];
		else
			folder = argv[i];
	}
	if (!folder)
		die("usage: replay FOLDER [--random N] [--seed N] [--target NAME]", "");
	for (size_t i = 0; i < N_TARGETS; i++)
		if (!only || !strcmp(only, targets[i].name))
			good &= replay(&targets[i], folder, more, seed);
	return good ? 0 : 1;
}
