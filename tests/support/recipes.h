/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recipes: the small images that the crash, fault and end-to-end tests start from, by name. Each
 * one is made in well under a second, is the same each time (but for times that e2fsck stores), and
 * passes e2fsck -fn.
 */
#ifndef TESTS_RECIPES_H
#define TESTS_RECIPES_H

#include <stdbool.h>
#include <stdint.h>

struct recipe {
	const char *name, *what;
	void (*make)(const char *path);
};

extern const struct recipe recipes[]; /* ends with name NULL */

/* In recipes_mail.c; listed in `recipes` like the others. */
void recipe_tinylog(const char *path);
void recipe_churn(const char *path);
void recipe_demo(const char *path);

/* In recipes_mapped.c. */
void recipe_blockmapped(const char *path);
void recipe_fewmapped(const char *path);
void recipe_triple(const char *path);
void recipe_ext3(const char *path);
void recipe_ext3dirs(const char *path);
void recipe_upgraded(const char *path);
void recipe_csumv2(const char *path);
void recipe_ext2(const char *path);
void recipe_ext2large(const char *path);
void recipe_ext2dirs(const char *path);
void recipe_nojournal(const char *path);
void recipe_fewordered(const char *path);
void recipe_ordereduninit(const char *path);

/* In recipes_packed.c. */
void recipe_mappedcycles(const char *path);
void recipe_onefree(const char *path);
void recipe_fullmail(const char *path);
void recipe_cycles(const char *path);
void recipe_chain(const char *path);
void recipe_slide(const char *path);
void recipe_treeway(const char *path);
void recipe_packedholes(const char *path);
void recipe_packeddirs(const char *path);
void recipe_tight(const char *path);

/* In recipes_trees.c. */
void recipe_trees(const char *path);
void recipe_treesbare(const char *path);

/* In recipes_kinds.c. */
void recipe_quota(const char *path);
void recipe_quotabare(const char *path);
void recipe_quotaclusters(const char *path);
void recipe_mmp(const char *path);
void recipe_mmpbare(const char *path);

/* In recipes_deep.c. */
void recipe_deepest(const char *path);
void recipe_deepestbare(const char *path);
void recipe_toodeep(const char *path);

/* In recipes_bigalloc.c. */
void recipe_bigalloc(const char *path);
void recipe_bigallocbare(const char *path);
void recipe_bigalloc4k(const char *path);
void recipe_bigallocdirs(const char *path);
void recipe_bigallocuninit(const char *path);
void recipe_bigalloctight(const char *path);

struct image;
struct place;

/* Ways of being fragmented. */
extern const struct place recipe_every_second, recipe_backward, recipe_shuffled;

/* Closes the image; e2fsck finds nothing. */
void recipe_finish(struct image *im, const char *path);
/* A directory with an index and one without, both of blocks far apart, of so many names each. */
void recipe_dirs(const char *path, const char *features, const char *args, int hashed_names,
		 int linear_names, bool xattr);
/* The first block of `len` free ones. */
uint64_t recipe_room(const struct image *im, uint64_t len);
/* Takes every free block outside [from, to), each free run as a file of its own. */
void recipe_wall(struct image *im, uint64_t from, uint64_t to);

/* Makes the image; ends the program where there is no such recipe. */
void recipe_make(const char *name, const char *path);

#endif
