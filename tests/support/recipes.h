/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recipes: the small images that the crash, fault and end-to-end tests start from, by name. Each
 * one is made in well under a second, is the same each time, and passes e2fsck -fn.
 */
#ifndef TESTS_RECIPES_H
#define TESTS_RECIPES_H

struct recipe {
	const char *name, *what;
	void (*make)(const char *path);
};

extern const struct recipe recipes[]; /* ends with name NULL */

/* In recipes_mail.c; listed in `recipes` like the others. */
void recipe_tinylog(const char *path);
void recipe_churn(const char *path);
void recipe_demo(const char *path);

/* Makes the image; ends the program where there is no such recipe. */
void recipe_make(const char *name, const char *path);

#endif
