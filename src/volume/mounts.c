/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All mounts of all mount namespaces: /proc/PID/mountinfo, once for each namespace that can be told
 * apart (kernel Documentation/filesystems/proc.rst, section 3.5).
 */
#include "internal.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct namespaces {
	char (*id)[64];
	size_t n, room;
};

/* Was this namespace seen before? Remembers it. -1: no memory. */
static int seen_before(struct namespaces *ns, const char *id)
{
	for (size_t i = 0; i < ns->n; i++)
		if (!strcmp(ns->id[i], id))
			return 1;
	if (ns->n == ns->room) {
		size_t room = ns->room ? ns->room * 2 : 16;
		void *p = realloc(ns->id, room * sizeof(*ns->id));
		if (!p)
			return -1;
		ns->id = p;
		ns->room = room;
	}
	snprintf(ns->id[ns->n++], sizeof(*ns->id), "%s", id);
	return 0;
}

static int add_mount(struct mounts *ms, dev_t dev, const char *where, const char *type,
		     const char *source, long pid)
{
	if (ms->n == ms->room) {
		size_t room = ms->room ? ms->room * 2 : 64;
		struct mount *p = realloc(ms->m, room * sizeof(*p));
		if (!p)
			return -1;
		ms->m = p;
		ms->room = room;
	}
	struct mount m = { dev, strdup(where), strdup(type), strdup(source), pid };
	ms->m[ms->n++] = m;
	if (!m.where || !m.type || !m.source)
		return -1;
	text_unescape_octal(m.where);
	text_unescape_octal(m.source);
	return 0;
}

/* id parent major:minor root where options [optional]... - type source options */
static int parse_line(struct mounts *ms, char *line, long pid)
{
	char *save, *field[5], *word = strtok_r(line, " \n", &save);
	unsigned major, minor;

	for (int i = 0; i < 5; i++, word = strtok_r(NULL, " \n", &save)) {
		if (!word)
			return 0;
		field[i] = word;
	}
	while (word && strcmp(word, "-"))
		word = strtok_r(NULL, " \n", &save);
	char *type = word ? strtok_r(NULL, " \n", &save) : NULL;
	char *source = type ? strtok_r(NULL, " \n", &save) : NULL;
	if (!type || sscanf(field[2], "%u:%u", &major, &minor) != 2)
		return 0;
	return add_mount(ms, makedev(major, minor), field[4], type, source ? source : "", pid);
}

/* 0: read, or not there; -1: no memory */
static int load_one(struct mounts *ms, const char *proc_root, const char *who, long pid)
{
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	int r = 0;

	snprintf(path, sizeof(path), "%s/%s/mountinfo", proc_root, who);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (!r && getline(&line, &size, f) > 0)
		r = parse_line(ms, line, pid);
	free(line);
	fclose(f);
	return r;
}

static bool namespace_of(const char *proc_root, const char *who, char id[64])
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/ns/mnt", proc_root, who);
	ssize_t n = readlink(path, id, 63);
	if (n <= 0)
		return false;
	id[n] = '\0';
	return true;
}

int mounts_load(const char *proc_root, struct mounts *out, struct error *err)
{
	struct namespaces ns = { 0 };
	struct mounts ms = { 0 };
	char id[64];
	int r = 0;

	if (namespace_of(proc_root, "self", id))
		r = seen_before(&ns, id);
	if (r >= 0)
		r = load_one(&ms, proc_root, "self", 0);
	DIR *dir = opendir(proc_root);
	struct dirent *de;
	while (r >= 0 && dir && (de = readdir(dir))) {
		if (!isdigit((unsigned char)de->d_name[0]) ||
		    !namespace_of(proc_root, de->d_name, id))
			continue;
		r = seen_before(&ns, id);
		if (r == 0)
			r = load_one(&ms, proc_root, de->d_name, atol(de->d_name));
	}
	if (dir)
		closedir(dir);
	free(ns.id);
	if (r < 0) {
		mounts_release(&ms);
		return error_nomem(err, "the list of mounts");
	}
	*out = ms;
	return 0;
}

void mounts_release(struct mounts *ms)
{
	for (size_t i = 0; i < ms->n; i++) {
		free(ms->m[i].where);
		free(ms->m[i].type);
		free(ms->m[i].source);
	}
	free(ms->m);
	*ms = (struct mounts){ 0 };
}

const struct mount *mounts_find(const struct mounts *ms, dev_t dev)
{
	for (size_t i = 0; i < ms->n; i++)
		if (ms->m[i].dev == dev)
			return &ms->m[i];
	return NULL;
}
