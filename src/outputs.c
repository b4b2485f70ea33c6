/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "outputs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An earlier report? One byte would not tell it from an image, whose first 1,024 are anybody's. */
static bool is_earlier(int fd, const char *mark)
{
	char head[OUTPUT_HEAD];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	return n > 0 && (head[0] == '{' || head[0] == '<') &&
	       memmem(head, (size_t)n, mark, strlen(mark));
}

int output_open(struct output *o, struct error *err)
{
	struct stat st;
	bool pipe;
	int fd;

	if (!o->path)
		return 0;
	/* A pipe opened for reading too would not wait for its reader, and lose the report. */
	pipe = stat(o->path, &st) == 0 && S_ISFIFO(st.st_mode);
	fd = open(o->path, (pipe ? O_WRONLY : O_RDWR | O_CREAT) | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0 && (errno == EINVAL || errno == ESPIPE || errno == EACCES))
		fd = open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return error_sys(err, ERROR_USAGE, errno, "%s: cannot write %s", o->option,
				 o->path);
	if (fstat(fd, &st) == 0 && (S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size &&
							    !is_earlier(fd, o->mark)))) {
		close(fd);
		return error_set(err, ERROR_USAGE,
				 "%s: %s is there and is no %s: not replaced; give another name",
				 o->option, o->path, o->what);
	}
	o->file = fdopen(fd, "w"); /* doesn't truncate; output_begin does */
	if (!o->file) {
		close(fd);
		return error_nomem(err, "the report");
	}
	return 0;
}

int output_begin(const struct output *o)
{
	struct stat st;

	if (fstat(fileno(o->file), &st) == 0 && S_ISREG(st.st_mode))
		return ftruncate(fileno(o->file), 0);
	return 0;
}

void output_close(struct output *o)
{
	if (o->file)
		fclose(o->file);
	o->file = NULL;
}
