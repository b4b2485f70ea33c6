/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of image.h that runs other programs or touches raw bytes. */
#include "support/image.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void image_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "image: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(99);
}

/* "LD_PRELOAD=..." with the library that lies beside us, if it does: nosleep.c. */
static bool find_nosleep(char *out, size_t size)
{
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n < 0 ? 0 : n] = 0;
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	snprintf(out, size, "LD_PRELOAD=%.*s/nosleep.so", (int)(slash - self), self);
	return !access(strchr(out, '/'), R_OK);
}

/* Where `name` is, or would be. */
static bool find_program(const char *name, char *path, size_t size)
{
	static const char *const where[] = { "/usr/sbin", "/sbin", "/usr/bin", "/bin" };

	for (size_t i = 0; !strchr(name, '/') && i < sizeof(where) / sizeof(*where); i++) {
		snprintf(path, size, "%s/%s", where[i], name);
		if (!access(path, X_OK))
			return true;
	}
	snprintf(path, size, "%s", name);
	return strchr(name, '/') && !access(name, X_OK);
}

bool image_program(const char *name)
{
	char path[128];

	return find_program(name, path, sizeof(path));
}

int image_run(const char *const argv[], int out_fd)
{
	char *env[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"LC_ALL=C",
			"E2FSCK_CONFIG=/dev/null",
			"MKE2FS_SYNC=0",
			"MKE2FS_CONFIG=/dev/null",
			"E2FSPROGS_FAKE_TIME=1700000000",
			NULL,
			NULL };
	char path[128], preload[300];
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int rc, status;

	find_program(argv[0], path, sizeof(path));
	if (find_nosleep(preload, sizeof(preload)))
		env[sizeof(env) / sizeof(*env) - 2] = preload;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	if (out_fd < 0)
		posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	else
		posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	posix_spawn_file_actions_adddup2(&fa, 1, 2);
	rc = posix_spawn(&pid, path, &fa, NULL, (char *const *)argv, env);
	posix_spawn_file_actions_destroy(&fa);
	if (rc)
		image_die("cannot run %s: %s", path, strerror(rc));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			image_die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* `fixed`, then `args` split at blanks, then `path`; output shown if the code is above `worst`. */
static void run_split(const char *const fixed[], const char *args, const char *path, int worst)
{
	const char *argv[48];
	char *copy = strdup(args), *save = NULL, line[4096];
	size_t n = 0;
	FILE *out = tmpfile();
	int rc;

	if (!copy || !out)
		image_die("%s", strerror(errno));
	while (fixed[n]) {
		argv[n] = fixed[n];
		n++;
	}
	for (char *a = strtok_r(copy, " ", &save); a && n < 46; a = strtok_r(NULL, " ", &save))
		argv[n++] = a;
	argv[n++] = path;
	argv[n] = NULL;
	rc = image_run(argv, fileno(out));
	if (rc > worst) {
		size_t got;

		rewind(out);
		got = fread(line, 1, sizeof(line) - 1, out);
		image_die("%s %s %s: exit %d\n%.*s", argv[0], args, path, rc, (int)got, line);
	}
	fclose(out);
	free(copy);
}

void image_mke2fs(const char *path, uint64_t size, const char *features, const char *args)
{
	char all[512];
	const char *fixed[] = { "mke2fs",
				"-q",
				"-F",
				"-t",
				"ext4",
				"-I",
				"256",
				"-m",
				"0",
				"-U",
				"5ca1ede0-f4a6-4000-8000-000000000001",
				"-O",
				all,
				"-E",
				"hash_seed=5ca1ede0-f4a6-4000-8000-000000000002,"
				"lazy_itable_init=1",
				NULL };
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	snprintf(all, sizeof(all),
		 "none,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,"
		 "extra_isize,sparse_super,filetype,resize_inode,dir_index,ext_attr,"
		 "large_file%s%s",
		 *features ? "," : "", features);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		image_die("%s: %s", path, strerror(errno));
	close(fd);
	run_split(fixed, args, path, 0);
}

void image_fsck(const char *path, const char *args, int worst)
{
	static const char *const fixed[] = { "e2fsck", NULL };

	run_split(fixed, args, path, worst);
}

static void transfer(const char *path, uint64_t offset, void *buf, size_t len, bool write)
{
	int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	ssize_t n = fd < 0  ? -1
		    : write ? pwrite(fd, buf, len, (off_t)offset)
			    : pread(fd, buf, len, (off_t)offset);

	if (n != (ssize_t)len)
		image_die("%s: %s", path, strerror(errno));
	close(fd);
}

void image_read(const char *path, uint64_t offset, void *buf, size_t len)
{
	transfer(path, offset, buf, len, false);
}

void image_write(const char *path, uint64_t offset, const void *buf, size_t len)
{
	transfer(path, offset, (void *)(uintptr_t)buf, len, true);
}
