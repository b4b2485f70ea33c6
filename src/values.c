/* SPDX-License-Identifier: GPL-2.0-or-later */
/* values: what the arguments of options say. */
#include "options.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int options_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n < min || n > max)
		return -1;
	*out = n;
	return 0;
}

int options_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	unsigned long long n;
	unsigned shift = 0;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -1;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
		if (strcmp(end, "iB") == 0)
			end += 2;
	}
	if (*end || n > UINT64_MAX >> shift)
		return -1;
	*bytes = n << shift;
	return 0;
}

int options_duration(const char *text, unsigned *seconds)
{
	static const char units[] = "smh";
	const char *unit;
	char *end;
	unsigned long long n, factor = 1;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	for (; unit && unit > units; unit--)
		factor *= 60;
	if (errno || (*end && (!unit || end[1])) || n > INT_MAX / factor)
		return -1;
	*seconds = (unsigned)(n * factor);
	return 0;
}
