/* SPDX-License-Identifier: GPL-2.0-or-later */
/* front: the file of --front-list. What its lines mean is for scan/order.c to say. */
#include "options.h"
#include <errno.h>
#include <stdlib.h>

int front_read(const char *path, char **out, struct error *err)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	int rc = -1;

	if (!f)
		return error_sys(err, ERROR_USAGE, errno, "--front-list: %s", path);
	errno = 0;
	len = getdelim(&text, &size, '\0', f);
	if (len < 0 && !feof(f)) {
		error_sys(err, ERROR_USAGE, errno, "--front-list: %s", path);
		goto out;
	}
	if (len > 0 && !text[len - 1]) {
		error_set(err, ERROR_USAGE, "--front-list: %s is not a text file", path);
		goto out;
	}
	if (len > 0) {
		*out = text;
		text = NULL;
	}
	rc = 0;
out:
	free(text);
	fclose(f);
	return rc;
}

void options_release(struct options *o)
{
	free(o->front);
	o->front = NULL;
}
