/* SPDX-License-Identifier: GPL-2.0-or-later */
/* goal: what a mode aims at besides files in few runs. */
#include "layout.h"

uint64_t goal_of(const struct state *st, const struct planner_options *o)
{
	switch (o->mode) {
	case PLAN_FREE:
		return gather_goal(st->free, &st->snap->geo, o);
	case PLAN_SHRINK:
		return shrink_top(st);
	case PLAN_LAYOUT:
		return order_goal(st, o);
	case PLAN_FILES:
		break;
	}
	return 0;
}

int goal_find(const struct state *st, const struct planner_options *o, struct packing *out,
	      bool *found, struct error *err)
{
	*found = false;
	switch (o->mode) {
	case PLAN_FREE:
		return gather_find(st, o, out, found, err);
	case PLAN_SHRINK:
		return shrink_find(st, out, found, err);
	case PLAN_LAYOUT:
		return st->snap->order ? order_find(st, o, out, found, err) : 0;
	case PLAN_FILES:
		break;
	}
	return 0;
}
