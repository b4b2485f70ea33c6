/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which process holds a lock on the file: only to name it in a message. */
#include "internal.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* fdinfo has one "lock:" line for each lock of the open file (kernel fs/locks.c, show_fd_locks). */
static bool has_lock(const char *proc_root, const char *pid, const char *fd)
{
	char path[PATH_MAX], line[256];
	bool found = false;

	snprintf(path, sizeof(path), "%s/%s/fdinfo/%s", proc_root, pid, fd);
	FILE *f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "lock:", 5);
	if (f)
		fclose(f);
	return found;
}

static bool is_holder(const struct target *tg, const char *pid)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct dirent *de;
	struct stat st;
	bool found = false;

	snprintf(dir, sizeof(dir), "%s/%s/fd", tg->proc_root, pid);
	DIR *d = opendir(dir);
	while (d && !found && (de = readdir(d))) {
		snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - NAME_MAX - 2, dir, de->d_name);
		if (de->d_name[0] == '.' || stat(path, &st) < 0)
			continue;
		bool same = tg->is_device
				    ? S_ISBLK(st.st_mode) && st.st_rdev == tg->st.st_rdev
				    : st.st_dev == tg->st.st_dev && st.st_ino == tg->st.st_ino;
		found = same && has_lock(tg->proc_root, pid, de->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

void holders_process(const struct target *tg, const char *otherwise, char *out, size_t size)
{
	char name[64], shown[128];
	struct dirent *de;

	snprintf(out, size, "%s", otherwise);
	DIR *d = opendir(tg->proc_root);
	while (d && (de = readdir(d))) {
		if (!isdigit((unsigned char)de->d_name[0]) || atol(de->d_name) == getpid() ||
		    !is_holder(tg, de->d_name))
			continue;
		if (!text_first_line(name, sizeof(name), "%s/%s/comm", tg->proc_root, de->d_name))
			strcpy(name, "?");
		text_escape(name, sizeof(name), shown, sizeof(shown));
		snprintf(out, size, "process %.20s (%s)", de->d_name, shown);
		break;
	}
	if (d)
		closedir(d);
}
