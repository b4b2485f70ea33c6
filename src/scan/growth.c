/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * growth: which files are likely to grow: a plain rule over what doesn't change when they are moved
 * (so that a second run comes to the same). Those with the name of a log, a mailbox or a database,
 * and those that were written to for most of the time since they were made, up to now. A decision
 * tree that scripts/growth trains on images aged by the kernel is no better: docs/modes.md.
 */
#include "scan_internal.h"

#include <string.h>

/* The last part of the name, behind the last dot if there is one. */
static const char *const growing[] = { "log",	   "db",   "sqlite", "sqlite3", "mdb",	  "ibd",
				       "myd",	   "myi",  "mbox",   "journal", "wal",	  "syslog",
				       "messages", "wtmp", "btmp",   "lastlog", "history" };

bool growth_by_name(const char *name, size_t len)
{
	size_t from = len;

	while (from > 0 && name[from - 1] != '.')
		from--;
	for (size_t i = 0; i < sizeof(growing) / sizeof(growing[0]); i++)
		if (len - from == strlen(growing[i]) &&
		    !strncasecmp(name + from, growing[i], len - from))
			return true;
	return false;
}

struct times {
	int64_t born, changed; /* seconds; born 0: not known */
};

static errcode_t read_times(ext2_filsys fs, uint32_t ino, struct times *t)
{
	struct ext2_inode_large inode;
	errcode_t ret;

	memset(&inode, 0, sizeof(inode));
	ret = ext2fs_read_inode_full(fs, ino, (struct ext2_inode *)&inode, sizeof(inode));
	*t = (struct times){ .changed = inode.i_mtime };
	if (EXT2_INODE_SIZE(fs->super) > EXT2_GOOD_OLD_INODE_SIZE && inode.i_extra_isize >= 20)
		t->born = inode.i_crtime;
	return ret;
}

/*
 * Written to for at least two thirds of the time from its birth to `now`, the last change of any
 * file, and not quite new: a sixteenth of the file system's age.
 */
static bool keeps_changing(const struct times *t, int64_t made, int64_t now)
{
	return t->born && now > t->born && (now - t->born) * 16 >= now - made &&
	       (t->changed - t->born) * 3 >= (now - t->born) * 2;
}

int growth_by_times(const struct source *src, struct snapshot *s, struct error *err)
{
	ext2_filsys fs = volume_fs(src->v);
	int64_t now = 0;

	for (int mark = 0; mark < 2; mark++) {
		for (size_t i = 0; i < s->n_file; i++) {
			struct snapshot_file *f = &s->file[i];
			struct times t;
			errcode_t ret;

			if (f->kind != FILE_REGULAR || source_stopped(src, err))
				continue;
			ret = read_times(fs, f->ino, &t);
			if (ret)
				return library_error(src->v, ret, f->ino, err);
			if (mark)
				f->grows |= keeps_changing(&t, fs->super->s_mkfs_time, now);
			else if (t.changed > now)
				now = t.changed;
		}
	}
	return source_stopped(src, err);
}
