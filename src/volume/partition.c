/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Partition tables (GPT, MBR, ...), read by libblkid. */
#include "internal.h"
#include <blkid/blkid.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define SECTOR 512u /* bytes: libblkid's unit */

struct table {
	blkid_probe probe;
	blkid_partlist list;
	int n;
};

/* False: no table. The caller closes it. */
static bool table_open(struct table *t, int fd)
{
	*t = (struct table){ .probe = blkid_new_probe() };
	if (!t->probe || blkid_probe_set_device(t->probe, fd, 0, 0) < 0)
		return false;
	blkid_probe_enable_superblocks(t->probe, 0);
	blkid_probe_enable_partitions(t->probe, 1);
	t->list = blkid_probe_get_partitions(t->probe);
	t->n = t->list ? blkid_partlist_numof_partitions(t->list) : 0;
	return t->n > 0;
}

static void table_close(struct table *t)
{
	blkid_free_probe(t->probe);
}

struct part {
	unsigned number;
	uint64_t base, len; /* bytes */
	bool extended;
};

static bool table_part(const struct table *t, int i, struct part *out)
{
	blkid_partition p = blkid_partlist_get_partition(t->list, i);
	if (!p)
		return false;
	blkid_loff_t start = blkid_partition_get_start(p), size = blkid_partition_get_size(p);
	if (start < 0 || size <= 0 || start > INT64_MAX / (int)SECTOR ||
	    size > INT64_MAX / (int)SECTOR)
		return false;
	out->number = (unsigned)blkid_partition_get_partno(p);
	out->base = (uint64_t)start * SECTOR;
	out->len = (uint64_t)size * SECTOR;
	out->extended = blkid_partition_is_extended(p);
	return true;
}

/* /dev/NAME of partition `number` of a disk, from sysfs. */
static bool part_node(const struct target *tg, unsigned number, char *out, size_t size)
{
	char dir[PATH_MAX], line[32];
	struct dirent *de;
	bool found = false;

	snprintf(dir, sizeof(dir), "%s/dev/block/%u:%u", tg->sys_root, major(tg->st.st_rdev),
		 minor(tg->st.st_rdev));
	DIR *d = opendir(dir);
	while (d && !found && (de = readdir(d)))
		if (de->d_name[0] != '.' &&
		    text_first_line(line, sizeof(line), "%s/%s/partition", dir, de->d_name) &&
		    strtoul(line, NULL, 10) == number) {
			snprintf(out, size, "/dev/%.64s", de->d_name);
			found = true;
		}
	if (d)
		closedir(d);
	return found;
}

/* Adds a word, quoted for a shell, and what comes before it. False: it does not fit. */
static bool add_word(char *out, size_t size, const char *before, const char *word)
{
	size_t used = strlen(out);
	char *quoted = text_quote(word);
	int n = quoted ? snprintf(out + used, size - used, "%s%s", before, quoted) : -1;

	free(quoted);
	return n >= 0 && (size_t)n < size - used;
}

/* The command as it was, on "PATH?offset=N" or the partition's own node. */
static bool part_command(const struct target *tg, const struct part *p, char *out, size_t size)
{
	static const char *const plain[] = { "scaledefrag-offline" };
	const char *const *word = tg->n_command ? tg->command : plain;
	size_t n = tg->n_command ? tg->n_command : 1;
	char name[PATH_MAX];

	if (!tg->is_device || !part_node(tg, p->number, name, sizeof(name)))
		snprintf(name, sizeof(name), "%.*s?offset=%llu", PATH_MAX - 40, tg->path,
			 (unsigned long long)p->base);
	for (size_t i = 0; i < n; i++)
		if (!add_word(out, size, i ? " " : "", word[i]))
			return false;
	return add_word(out, size, " ", name);
}

/* One line: every ext4 partition with its command, as many as fit. */
static int refuse_list(const struct target *tg, int fd, const struct table *t, const char *why,
		       struct error *err)
{
	char list[512] = "", item[512];
	unsigned found = 0, left = 0;
	struct part p;

	for (int i = 0; i < t->n; i++) {
		if (!table_part(t, i, &p) || p.extended || !content_has_ext(fd, p.base))
			continue;
		found++;
		snprintf(item, sizeof(item), "%s%u: ", *list ? "; " : "", p.number);
		if (part_command(tg, &p, item, sizeof(item)) &&
		    strlen(list) + strlen(item) + strlen(tg->shown) + strlen(why) < 640 &&
		    strlen(list) + strlen(item) < sizeof(list))
			strcat(list, item);
		else
			left++;
	}
	if (!found)
		return error_set(err, ERROR_USAGE, "%s %s, and none of its %d partitions is ext4",
				 tg->shown, why, t->n);
	if (left == found)
		return error_set(err, ERROR_USAGE, "%s %s; ext4: %u of them (--partition N)",
				 tg->shown, why, found);
	if (left)
		return error_set(err, ERROR_USAGE, "%s %s; ext4: %s; and %u more (--partition N)",
				 tg->shown, why, list, left);
	return error_set(err, ERROR_USAGE, "%s %s; ext4: %s", tg->shown, why, list);
}

int partition_list(const struct target *tg, int fd, bool has_ext, struct error *err)
{
	struct table t;
	struct part p;
	bool any = !has_ext;

	if (!table_open(&t, fd)) {
		table_close(&t);
		return 0;
	}
	/* With a superblock of its own only if a partition holds a file system as well. */
	for (int i = 0; i < t.n && !any; i++)
		any = table_part(&t, i, &p) && p.base && content_has_ext(fd, p.base);
	if (any)
		refuse_list(tg, fd, &t, "is a whole disk with partitions", err);
	table_close(&t);
	return any;
}

int partition_resolve(struct target *tg, int fd, unsigned number, struct error *err)
{
	struct table t;
	struct part p;
	int r = 1;

	if (!table_open(&t, fd))
		r = error_set(err, ERROR_USAGE, "%s has no partition table: leave out --partition",
			      tg->shown);
	for (int i = 0; r > 0 && i < t.n; i++)
		if (table_part(&t, i, &p) && p.number == number && !p.extended)
			r = target_set_base(tg, p.base, p.len, err);
	if (r > 0) {
		char why[64];
		snprintf(why, sizeof(why), "has no partition %u", number);
		r = refuse_list(tg, fd, &t, why, err);
	}
	table_close(&t);
	return r;
}

void partition_limit(struct target *tg, int fd)
{
	struct table t;
	struct part p;

	if (!tg->base)
		return;
	if (table_open(&t, fd)) {
		for (int i = 0; i < t.n; i++)
			if (table_part(&t, i, &p) && p.base == tg->base && p.len < tg->room &&
			    !p.extended)
				tg->room = p.len;
	}
	table_close(&t);
}
