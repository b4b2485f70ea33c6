/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scan: names of inodes: the first one found by a breadth-first walk (walk.c). */
#include "scaledefrag/sort.h"
#include "scan_internal.h"

#include <stdlib.h>
#include <string.h>

struct finder {
	const uint32_t *inos;
	size_t n, missing;
	char **paths;
};

static int found(void *ctx, struct named *n, bool *enough, struct error *err)
{
	struct finder *f = ctx;
	const uint32_t *hit = bsearch(&n->ino, f->inos, f->n, sizeof(n->ino), sort_compare_u32);
	bool too_long;
	char *path;

	if (!hit || f->paths[hit - f->inos])
		return 0;
	path = named_path(n, &too_long);
	if (too_long)
		return 0; /* stays unknown */
	if (!path)
		return error_nomem(err, "looking up names");
	f->paths[hit - f->inos] = path;
	*enough = --f->missing == 0;
	return 0;
}

int scan_names(struct volume *v, const uint32_t *inos, size_t n, char **paths, struct error *err)
{
	struct finder f = { .inos = inos, .n = n, .missing = n };
	int ret = -1;

	if (!n)
		return 0;
	f.paths = calloc(n, sizeof(*f.paths));
	if (!f.paths)
		return error_nomem(err, "looking up names");
	if (walk_names(v, found, &f, err))
		goto out;
	memcpy(paths, f.paths, n * sizeof(*paths));
	memset(f.paths, 0, n * sizeof(*f.paths));
	ret = 0;
out:
	for (size_t i = 0; i < n; i++)
		free(f.paths[i]);
	free(f.paths);
	return ret;
}
