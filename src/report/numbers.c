/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "numbers.h"
#include <stdio.h>

const char *number_grouped(uint64_t n, char *out)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), k = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[k++] = ',';
		out[k++] = digits[i];
	}
	out[k] = '\0';
	return out;
}

const char *number_size(uint64_t bytes, char *out)
{
	static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double n = (double)bytes;
	unsigned u = 0;

	while (n >= 1024 && u < 6) {
		n /= 1024;
		u++;
	}
	snprintf(out, NUMBER_LEN, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
	return out;
}

const char *number_round_size(uint64_t bytes, char *out)
{
	static const char unit[] = { 0, 'K', 'M', 'G', 'T', 'P', 'E' };
	unsigned u = 0;

	for (; bytes >= 1024 && bytes % 1024 == 0; bytes /= 1024)
		u++;
	snprintf(out, NUMBER_LEN, "%llu%.1s", (unsigned long long)bytes, &unit[u]);
	return out;
}

const char *number_lasting(double seconds, char *out)
{
	if (seconds < 1)
		snprintf(out, NUMBER_LEN, "less than 1 s");
	else if (seconds < 120)
		snprintf(out, NUMBER_LEN, "about %.0f s", seconds);
	else if (seconds < 7200)
		snprintf(out, NUMBER_LEN, "about %.0f min", seconds / 60);
	else
		snprintf(out, NUMBER_LEN, "about %.1f h", seconds / 3600);
	return out;
}

static const char *counted(uint64_t n, const char *noun, const char *many, char *out)
{
	char digits[NUMBER_LEN];

	snprintf(out, NUMBER_LEN, "%.30s %.30s%s", number_grouped(n, digits), noun,
		 n == 1 ? "" : many);
	return out;
}

const char *number_of(uint64_t n, const char *noun, char *out)
{
	return counted(n, noun, "s", out);
}

const char *number_es(uint64_t n, const char *noun, char *out)
{
	return counted(n, noun, "es", out);
}
