/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * generate bash|zsh|fish: prints the completion for that shell from the table of options. Run by
 * the Makefile; part of no package.
 */
#include "../src/options.h"
#include <string.h>

#define PROGRAM "scaledefrag-offline"

static bool is_file(const struct option_def *d)
{
	return d->arg && strstr(d->arg, "FILE");
}

static bool is_optional(const struct option_def *d)
{
	return d->arg && *d->arg == '[';
}

static bool is_repeatable(const struct option_def *d)
{
	return strstr(d->help, "may be repeated") || d->id == 'v';
}

/* "-h|--help" */
static void print_pattern(const struct option_def *d)
{
	if (d->id < 256)
		printf("-%c", d->id);
	if (d->name)
		printf("%s--%s", d->id < 256 ? "|" : "", d->name);
}

static void bash(const struct option_def *d, size_t n)
{
	printf("# bash completion of " PROGRAM ", made from its table of options\n"
	       "_scaledefrag_offline()\n{\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\t# --mode=files comes as three words\n"
	       "\tif [[ $cur == = ]]; then\n\t\tcur=\n"
	       "\telif [[ $prev == = ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
	       "\tCOMPREPLY=()\n\tcase $prev in\n");
	for (size_t i = 0; i < n; i++) {
		if (!d[i].arg || is_optional(&d[i]) || is_file(&d[i]))
			continue;
		printf("\t");
		print_pattern(&d[i]);
		if (d[i].values)
			printf(") mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return "
			       ";;\n",
			       d[i].values);
		else
			printf(") return ;;\n");
	}
	printf("\tesac\n\tif [[ $cur == -* ]]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W '");
	for (size_t i = 0; i < n; i++) {
		if (d[i].id < 256)
			printf("-%c ", d[i].id);
		if (d[i].name)
			printf("--%s ", d[i].name);
	}
	printf("' -- \"$cur\")\n\telse\n"
	       "\t\tcompopt -o filenames 2>/dev/null\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\tfi\n}\n"
	       "complete -F _scaledefrag_offline " PROGRAM "\n");
}

/* Inside of '...' of _arguments. */
static void zsh_text(const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			printf("'\\''");
		else
			printf("%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
}

static void zsh_option(const struct option_def *d, const char *option, bool is_long)
{
	printf(" \\\n\t'%s%s", is_repeatable(d) ? "*" : "", option);
	if (d->arg)
		printf("%s", is_optional(d) ? "=-" : is_long ? "=" : "+");
	printf("[");
	zsh_text(d->help);
	printf("]");
	if (d->arg)
		printf("%s%s:", is_optional(d) ? "::" : ":", is_file(d) ? "file" : d->arg);
	if (d->values)
		printf("(%s)", d->values);
	else if (is_file(d))
		printf("_files");
	else if (d->arg)
		printf(" ");
	printf("'");
}

static void zsh(const struct option_def *d, size_t n)
{
	char option[64];

	printf("#compdef " PROGRAM "\n# made from its table of options\n_arguments -s -S");
	for (size_t i = 0; i < n; i++) {
		snprintf(option, sizeof(option), "-%c", d[i].id);
		if (d[i].id < 256)
			zsh_option(&d[i], option, false);
		snprintf(option, sizeof(option), "--%s", d[i].name ? d[i].name : "");
		if (d[i].name)
			zsh_option(&d[i], option, true);
	}
	printf(" \\\n\t'1:device or image:_files'\n");
}

static void fish(const struct option_def *d, size_t n)
{
	printf("# fish completion of " PROGRAM ", made from its table of options\n");
	for (size_t i = 0; i < n; i++) {
		printf("complete -c " PROGRAM);
		if (d[i].id < 256)
			printf(" -s %c", d[i].id);
		if (d[i].name)
			printf(" -l %s", d[i].name);
		if (d[i].values)
			printf(" -x -a '%s'", d[i].values);
		else if (is_file(&d[i]) && !is_optional(&d[i]))
			printf(" -r -F");
		else if (d[i].arg && !is_optional(&d[i]))
			printf(" -x");
		printf(" -d '");
		for (const char *c = d[i].help; *c; c++)
			printf("%s%c", *c == '\'' || *c == '\\' ? "\\" : "", *c);
		printf("'\n");
	}
}

int main(int argc, char **argv)
{
	size_t n;
	const struct option_def *d = options_table(&n);

	if (argc == 2 && strcmp(argv[1], "bash") == 0)
		bash(d, n);
	else if (argc == 2 && strcmp(argv[1], "zsh") == 0)
		zsh(d, n);
	else if (argc == 2 && strcmp(argv[1], "fish") == 0)
		fish(d, n);
	else
		return 16;
	return fflush(stdout) ? 8 : 0;
}
