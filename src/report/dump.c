/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dump: snapshot and plan, as they print and parse back. */
#include "scaledefrag/report.h"

static int put(void *ctx, const char *text)
{
	return fputs(text, ctx) < 0 ? -1 : 0;
}

int report_snapshot(FILE *to, const struct snapshot *s)
{
	return snapshot_write(s, put, to);
}

int report_plan(FILE *to, const struct plan *p)
{
	return plan_write(p, put, to);
}
