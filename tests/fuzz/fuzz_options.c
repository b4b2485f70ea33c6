/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The input: kind (1 byte); then argv, each ended by a zero byte; or one hostile name. */
#include "../../src/options.h"
#include "../../src/volume/internal.h"
#include "fuzz.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_error(const struct error *err)
{
	if (err->kind == ERROR_NONE || !*err->text)
		fuzz_wrong("an error without a text");
}

static void try_argv(struct bytes *in)
{
	enum { MOST = 300 };
	static struct options o;
	char name[] = "scaledefrag-offline", *argv[MOST + 2] = { name };
	size_t left = in->left;
	char *text = bytes_rest(in), *at = text, *end = text + left;
	struct error err = ERROR_INIT;
	int argc = 1;

	while (at < end && argc <= MOST) {
		argv[argc++] = at;
		at += strlen(at) + 1;
	}
	if (options_parse(argc, argv, &o, &err)) {
		check_error(&err);
	} else if (!o.help && !o.version) {
		if (!o.engine.path)
			fuzz_wrong("options without a path");
		if (o.engine.scope != o.scope || o.engine.n_scope > SCOPE_MAX)
			fuzz_wrong("options with a wrong scope");
		options_release(&o);
	}
	free(text);
}

static void try_units(const char *text)
{
	uint64_t bytes;
	unsigned seconds;

	if (!options_size(text, &bytes) && !isdigit((unsigned char)*text))
		fuzz_wrong("a size that is no number");
	if (!options_duration(text, &seconds) && !isdigit((unsigned char)*text))
		fuzz_wrong("a time that is no number");
}

/* Whatever a name holds, a message stays printable. */
static void try_names(char *text)
{
	size_t len = strlen(text);
	char out[48], *copy;

	for (size_t size = 8; size <= sizeof(out); size += 5) {
		char *exact = malloc(size);

		if (!exact)
			abort();
		text_escape(text, len, exact, size);
		for (const char *p = exact; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				fuzz_wrong("an escaped name with controls");
		free(exact);
	}
	copy = text_quote(text);
	if (!copy || strpbrk(copy, "\n\033"))
		fuzz_wrong("a quoted name with controls");
	free(copy);
	text_unescape_octal(text);
	if (strlen(text) > len)
		fuzz_wrong("a decoded name that grew");
}

/* PATH?offset=N, of things that are no images. */
static void try_target(unsigned which, const char *suffix)
{
	static const char *const paths[] = { "/dev/null", "/", "/nonexistent", "/proc/self/exe" };
	struct volume_options vo = { .read_only = true, .partition = which / 4 % 2 };
	char path[64];
	struct error err = ERROR_INIT;
	struct target tg = { 0 };

	snprintf(path, sizeof(path), "%s%s", paths[which % 4], suffix);
	vo.path = path;
	if (target_init(&tg, &vo, &err))
		check_error(&err);
	target_release(&tg);
}

int fuzz_options(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	uint8_t kind = bytes_u8(&in);
	char *text;

	if (kind % 4 == 0) {
		try_argv(&in);
		return 0;
	}
	text = bytes_rest(&in);
	if (kind % 4 == 1)
		try_units(text);
	else if (kind % 4 == 2)
		try_target(kind / 4, text);
	else
		try_names(text);
	free(text);
	return 0;
}
