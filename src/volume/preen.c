/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `e2fsck -p` as a child. Our locks stay with us: every descriptor of ours is O_CLOEXEC. */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* PATH plus where e2fsck lives for a plain user, whose PATH often lacks it. */
static bool find_program(const char *name, char *out, size_t size)
{
	if (strchr(name, '/')) {
		snprintf(out, size, "%s", name);
		return access(out, X_OK) == 0;
	}
	const char *path = getenv("PATH");
	char *dirs = NULL, *save, *dir;
	bool found = false;
	if (asprintf(&dirs, "%s:/sbin:/usr/sbin", path ? path : "/usr/bin:/bin") < 0)
		return false;
	for (dir = strtok_r(dirs, ":", &save); dir && !found; dir = strtok_r(NULL, ":", &save))
		found = snprintf(out, size, "%s/%s", dir, name) < (int)size &&
			access(out, X_OK) == 0;
	free(dirs);
	return found;
}

/* The wait status, or -1 with errno. Its output goes to our stderr: stdout is for reports. */
static int run_child(const char *program, char *const argv[])
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int status, nothing[2];

	/* Its standard input has ended. Not /dev/null: an initramfs need not have one. */
	if (pipe2(nothing, O_CLOEXEC))
		return -1;
	close(nothing[1]);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_adddup2(&fa, nothing[0], 0);
	posix_spawn_file_actions_adddup2(&fa, 2, 1);
	int sys = posix_spawn(&pid, program, &fa, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	close(nothing[0]);
	if (sys) {
		errno = sys;
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* e2fsck cuts a name at the first '?', and takes LABEL=x and -x for something else. */
static char *make_target(const struct target *tg)
{
	const char *here = *tg->path == '/' || *tg->path == '.' ? "" : "./";
	char *target;
	int n = tg->base || tg->has_offset ? asprintf(&target, "%s%s?offset=%llu", here, tg->path,
						      (unsigned long long)tg->base)
					   : asprintf(&target, "%s%s", here, tg->path);
	return n < 0 ? NULL : target;
}

int preen_run(const struct target *tg, const char *e2fsck, struct error *err)
{
	char program[PATH_MAX], name[] = "e2fsck", option[] = "-p";

	if (strchr(tg->path, '?'))
		return error_set(
			err, ERROR_USAGE,
			"%s: e2fsck can't open a name with '?' in it; rename it, or leave out -p",
			tg->shown);
	if (!find_program(e2fsck ? e2fsck : name, program, sizeof(program)))
		return error_set(
			err, ERROR_OPERATION,
			"cannot run e2fsck: not found; install e2fsprogs, or leave out -p");
	char *target = make_target(tg);
	if (!target)
		return error_nomem(err, "a name");
	char *argv[] = { name, option, target, NULL };
	int status = run_child(program, argv);
	int sys = errno;
	free(target);
	if (status == -1)
		return error_sys(err, ERROR_OPERATION, sys, "cannot run e2fsck");
	if (WIFSIGNALED(status))
		return error_set(err, ERROR_FSCK,
				 "%s: e2fsck -p died of signal %d; run: e2fsck -f %s", tg->shown,
				 WTERMSIG(status), tg->arg);
	int code = WEXITSTATUS(status);
	if (code > 1)
		return error_set(err, ERROR_FSCK,
				 "%s: e2fsck -p ended with exit code %d; run: e2fsck -f %s",
				 tg->shown, code, tg->arg);
	return 0;
}
