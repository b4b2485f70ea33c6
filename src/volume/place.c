/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * place: where on its disk the file system lies, and how the disk divides its space (Linux
 * Documentation/ABI/stable/sysfs-block; block/blk-settings.c has the arithmetic).
 */
#include "internal.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* bytes: the unit of a partition's start, whatever the device's sectors are */
#define SECTOR 512u

/* A number of sysfs; 0 if it is not there, negative (the kernel's "misaligned"), or absurd. */
static uint64_t number(const char *dir, const char *name)
{
	char line[32], *end;
	long long n;

	if (!text_first_line(line, sizeof(line), "%s/%s", dir, name))
		return 0;
	errno = 0;
	n = strtoll(line, &end, 10);
	return errno || end == line || *end || n < 0 || n > LLONG_MAX / (int)SECTOR ? 0
										    : (uint64_t)n;
}

/* The folders of a device and of the disk it is a partition of; false: it is that disk. */
static bool find_disk(const struct target *tg, dev_t no, char own[PATH_MAX],
		      char disk[PATH_MAX + 4])
{
	bool partition;

	snprintf(own, PATH_MAX, "%s/dev/block/%u:%u", tg->sys_root, major(no), minor(no));
	partition = number(own, "partition") != 0;
	snprintf(disk, PATH_MAX + 4, "%s%s", own, partition ? "/.." : "");
	return partition;
}

/* Only of SCSI disks, which those on SATA and USB are too: they tell how fast they turn. */
static bool turns(const char *disk)
{
	char kind[16];

	return number(disk, "queue/rotational") == 1 &&
	       text_first_line(kind, sizeof(kind), "%s/device/modalias", disk) &&
	       !strncmp(kind, "scsi:", 5);
}

static void find_on_disk(const struct target *tg, struct volume_place *out)
{
	char own[PATH_MAX], disk[PATH_MAX + 4];

	if (find_disk(tg, tg->st.st_rdev, own, disk))
		out->start += number(own, "start") * SECTOR;
	out->unit = number(disk, "queue/discard_granularity");
	/* Both are the first byte of the disk where a unit begins, of what is discarded and of what
	 * is written; a disk that is shifted against its flash or platters says one or the other.
	 */
	out->align = number(disk, "discard_alignment");
	if (!out->align)
		out->align = number(disk, "alignment_offset");
	out->rotational = turns(disk);
}

static void find_below_image(const struct target *tg, struct volume_place *out)
{
	char own[PATH_MAX], disk[PATH_MAX + 4];

	if (tg->st.st_blksize > 0)
		out->unit = (uint64_t)tg->st.st_blksize;
	find_disk(tg, tg->st.st_dev, own, disk);
	out->rotational = turns(disk);
}

void place_find(const struct target *tg, struct volume_place *out)
{
	*out = (struct volume_place){ .disk = tg->is_device, .start = tg->base };
	if (tg->is_device)
		find_on_disk(tg, out);
	else
		find_below_image(tg, out);
}
