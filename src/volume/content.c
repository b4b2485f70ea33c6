/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What it is, if it is not ext4: image formats by their magic bytes, file systems, RAID, LVM and
 * LUKS by libblkid, partition tables. libblkid also tells an ext4 file system from a RAID member
 * that merely begins with one (MD with its superblock at the end): that must not be written to.
 */
#include "internal.h"
#include <blkid/blkid.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD 4096u /* bytes */

struct magic {
	unsigned at, len;
	const char *bytes, *name, *help;
};

static const struct magic containers[] = {
	{ 0, 4, "QFI\xfb", "a qcow image",
	  "show it as a file with nbdfuse and qemu-nbd, as root attach it with qemu-nbd -c "
	  "/dev/nbd0, or make a raw image with qemu-img convert -O raw" },
	{ 0, 4, "KDMV", "a VMDK image", "make a raw image with qemu-img convert -O raw" },
	{ 0, 4, "COWD", "a VMDK image", "make a raw image with qemu-img convert -O raw" },
	{ 0, 21, "# Disk DescriptorFile", "a VMDK descriptor",
	  "make a raw image with qemu-img convert -O raw" },
	{ 64, 4, "\x7f\x10\xda\xbe", "a VDI image",
	  "make a raw image with qemu-img convert -O raw" },
	{ 0, 8, "vhdxfile", "a VHDX image", "make a raw image with qemu-img convert -O raw" },
	{ 0, 8, "conectix", "a VHD image", "make a raw image with qemu-img convert -O raw" },
	{ 0, 4, "QED\0", "a QED image", "make a raw image with qemu-img convert -O raw" },
	{ 0, 16, "WithoutFreeSpace", "a Parallels image",
	  "make a raw image with qemu-img convert -O raw" },
	{ 0, 16, "WithouFreSpacExt", "a Parallels image",
	  "make a raw image with qemu-img convert -O raw" },
	{ 0, 4, "\x3a\xff\x26\xed", "an Android sparse image", "make a raw image with simg2img" },
	{ 0, 8, "ANDROID!", "an Android boot image", "it holds a kernel, no file system" },
	{ 0, 2, "\x1f\x8b", "compressed (gzip)", "unpack it first" },
	{ 0, 6, "\xfd\x37zXZ\0", "compressed (xz)", "unpack it first" },
	{ 0, 4, "\x28\xb5\x2f\xfd", "compressed (zstd)", "unpack it first" },
	{ 0, 3, "BZh", "compressed (bzip2)", "unpack it first" },
	{ 0, 4, "PK\3\4", "a zip archive", "unpack it first" },
};

struct kind {
	const char *type, *name, *help;
};

/* libblkid's TYPE */
static const struct kind kinds[] = {
	{ "xfs", "XFS", "xfs_fsr defragments it while mounted" },
	{ "btrfs", "btrfs", "btrfs filesystem defragment does it while mounted" },
	{ "crypto_LUKS", "a LUKS container",
	  "open it first with cryptsetup open, and give /dev/mapper/NAME" },
	{ "LVM2_member", "an LVM physical volume",
	  "give one of its logical volumes (lvs lists them)" },
	{ "LVM1_member", "an LVM physical volume",
	  "give one of its logical volumes (lvs lists them)" },
	{ "linux_raid_member", "a member of a RAID array",
	  "give the array (mdadm --assemble --scan, /dev/mdN)" },
	{ "swap", "swap space", "there are no files in it" },
	{ "swsuspend", "swap space with a hibernation image", "there are no files in it" },
	{ "BitLocker", "a BitLocker volume", "only ext4 is supported" },
};

bool content_has_ext(int fd, uint64_t base)
{
	uint16_t magic;
	ssize_t n = target_read(fd, &magic, 2,
				base + SUPERBLOCK_AT + offsetof(struct ext2_super_block, s_magic));
	return n == 2 && le16toh(magic) == EXT2_SUPER_MAGIC;
}

static int check_container(const struct target *tg, const uint8_t *head, size_t len,
			   struct error *err)
{
	for (size_t i = 0; i < sizeof(containers) / sizeof(*containers); i++) {
		const struct magic *m = &containers[i];
		if (m->at + m->len <= len && !memcmp(head + m->at, m->bytes, m->len))
			return error_set(err, ERROR_USAGE, "%s is %s, not a raw ext4 image: %s",
					 tg->shown, m->name, m->help);
	}
	return 0;
}

static bool is_ext(const char *type)
{
	return !strncmp(type, "ext", 3) || !strcmp(type, "jbd");
}

static int refuse_type(const struct target *tg, const char *type, struct error *err)
{
	char shown[64];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].type, type))
			return error_set(err, ERROR_USAGE, "%s is %s, not ext4: %s", tg->shown,
					 kinds[i].name, kinds[i].help);
	text_escape(type, strlen(type), shown, sizeof(shown));
	return error_set(err, ERROR_USAGE,
			 "%s is %s, not ext4; see more of it with: blkid -p -O %llu %s", tg->shown,
			 shown, (unsigned long long)tg->base, tg->shown);
}

/* 0: ext or nothing known; -1: something else, or two at once */
static int check_type(const struct target *tg, int fd, bool has_ext, struct error *err)
{
	const char *type = NULL;
	int r = 0;

	blkid_probe pr = blkid_new_probe();
	if (!pr ||
	    blkid_probe_set_device(pr, fd, (blkid_loff_t)tg->base, (blkid_loff_t)tg->room) < 0) {
		blkid_free_probe(pr);
		return error_set(err, ERROR_OPERATION, "%s: cannot look for file systems",
				 tg->shown);
	}
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	int found = blkid_do_safeprobe(pr);
	if (found == 0)
		blkid_probe_lookup_value(pr, "TYPE", &type, NULL);
	if (type && !is_ext(type))
		r = refuse_type(tg, type, err);
	else if (found == -2)
		r = error_set(err, ERROR_USAGE,
			      "%s bears the marks of more than one file system, RAID or LVM%s; see "
			      "them with: "
			      "blkid -p -O %llu %s",
			      tg->shown, has_ext ? ", ext4 among them" : "",
			      (unsigned long long)tg->base, tg->shown);
	blkid_free_probe(pr);
	return r;
}

static bool is_zero(const uint8_t *p, size_t len)
{
	return !len || (!p[0] && !memcmp(p, p + 1, len - 1));
}

/* No magic where it belongs. A backup of the superblock says that one was there. */
static int refuse_unknown(const struct target *tg, int fd, struct error *err)
{
	enum { LOOK = 65536 };
	uint8_t *buf = malloc(LOOK);

	if (!buf)
		return error_nomem(err, "a buffer");
	for (uint32_t bs = 1024; bs <= 65536; bs *= 2) {
		uint64_t block = (uint64_t)bs * 8 + (bs == 1024);
		/* bytes 0.. of the backup's block, not 1024.. */
		if (block * bs + SUPERBLOCK_LEN <= tg->room &&
		    content_has_ext(fd, tg->base + block * bs - SUPERBLOCK_AT)) {
			free(buf);
			return error_set(err, ERROR_FSCK,
					 "%s: the superblock is gone, but a backup may be in block "
					 "%llu; run: "
					 "e2fsck -b %llu -B %u %s",
					 tg->shown, (unsigned long long)block,
					 (unsigned long long)block, bs, tg->arg);
		}
	}
	ssize_t n = target_read(fd, buf, LOOK, tg->base);
	bool zero = n > 0 && is_zero(buf, (size_t)n);
	free(buf);
	if (n < 0)
		return error_sys(err, ERROR_OPERATION, errno, "cannot read %s", tg->shown);
	if (zero)
		return error_set(err, ERROR_USAGE,
				 "%s holds no file system: only zeros in its first %zd bytes",
				 tg->shown, n);
	return error_set(
		err, ERROR_USAGE,
		"%s holds no ext4 file system%s; see what it holds with: blkid -p -O %llu %s",
		tg->shown, tg->base ? " at that offset" : "", (unsigned long long)tg->base,
		tg->shown);
}

int content_check(const struct target *tg, int fd, struct error *err)
{
	uint8_t head[HEAD];

	ssize_t n = target_read(fd, head, HEAD, tg->base);
	if (n < 0)
		return error_sys(err, ERROR_OPERATION, errno, "cannot read %s", tg->shown);
	if (check_container(tg, head, (size_t)n, err))
		return -1;
	if (tg->room < SUPERBLOCK_AT + SUPERBLOCK_LEN)
		return error_set(err, ERROR_USAGE,
				 "%s holds no ext4 file system: it has only %llu bytes", tg->shown,
				 (unsigned long long)tg->room);
	bool has_ext = content_has_ext(fd, tg->base);
	if (check_type(tg, fd, has_ext, err))
		return -1;
	/* A stale superblock in front of partitions is no file system either; ?offset=0 insists. */
	if (!tg->base && !tg->has_offset) {
		int r = partition_list(tg, fd, has_ext, err);
		if (r)
			return -1;
	}
	return has_ext ? 0 : refuse_unknown(tg, fd, err);
}
