/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refusals that the content gives: every one has the right kind, names its reason, and leaves the
 * image byte for byte as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scaledefrag/volume.h"
#include "support/image.h"
#include <endian.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define SIZE (8u << 20)
#define SB   1024u

static char *dir_of(void **state)
{
	return *state;
}

static int make_dir(void **state)
{
	char name[] = "/dev/shm/test-guard-XXXXXX";

	*state = mkdtemp(name) ? strdup(name) : NULL;
	return *state ? 0 : -1;
}

static int remove_dir(void **state)
{
	const char *const argv[] = { "rm", "-rf", *state, NULL };

	image_run(argv, -1);
	free(*state);
	return 0;
}

static const char *path_in(void **state, const char *name, char buf[256])
{
	snprintf(buf, 256, "%s/%s", dir_of(state), name);
	return buf;
}

static uint64_t hash_file(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	void *all = malloc((size_t)st.st_size + 1);
	assert_non_null(all);
	if (st.st_size)
		image_read(path, 0, all, (size_t)st.st_size);
	uint64_t h = XXH3_64bits(all, (size_t)st.st_size);
	free(all);
	return h;
}

/* Opening `path` both ways must be refused with `kind` and a line that holds `words`. */
static void assert_refused_at(const char *path, const char *file, unsigned partition,
			      enum error_kind kind, const char *words)
{
	uint64_t before = hash_file(file);

	for (int ro = 0; ro < 2; ro++) {
		struct volume_options o = { .path = path, .read_only = ro, .partition = partition };
		struct error err = ERROR_INIT;
		struct volume *v = NULL;
		if (!volume_open(&o, &v, &err)) {
			volume_close(v);
			fail_msg("%s was not refused; wanted: %s", path, words);
		}
		if (err.kind != kind || !strstr(err.text, words) || strchr(err.text, '\n'))
			fail_msg("got %d '%s'; wanted %d '%s'", err.kind, err.text, kind, words);
		assert_null(v);
	}
	assert_true(hash_file(file) == before);
}

static void assert_refused(const char *path, enum error_kind kind, const char *words)
{
	assert_refused_at(path, path, 0, kind, words);
}

static void assert_opens_at(const char *path, unsigned partition)
{
	for (int ro = 0; ro < 2; ro++) {
		struct volume_options o = { .path = path, .read_only = ro, .partition = partition };
		struct error err = ERROR_INIT;
		struct volume *v = NULL;
		if (volume_open(&o, &v, &err))
			fail_msg("%s: %s", path, err.text);
		volume_close(v);
	}
}

static void assert_opens(const char *path)
{
	assert_opens_at(path, 0);
}

/* ---- superblock fields ---- */

enum change { SET, OR, AND_NOT };

struct mutation {
	uint32_t at, width; /* bytes */
	uint64_t value;
	enum change how;
	enum error_kind kind;
	const char *words;
};

#define COMPAT	 0x5c
#define INCOMPAT 0x60
#define RO	 0x64

static const struct mutation mutations[] = {
	/* unclean */
	{ 0x3a, 2, 0, SET, ERROR_FSCK, "e2fsck -p /" },
	{ 0x3a, 2, 2, OR, ERROR_FSCK, "e2fsck -f /" },
	{ 0x3a, 2, 4, OR, ERROR_FSCK, "e2fsck -p /" },
	{ 0x3a, 2, 0x20, OR, ERROR_FSCK, "e2fsck -p /" },
	{ 0xe8, 4, 12, SET, ERROR_FSCK, "orphan inode 12" },
	{ RO, 4, 0x10000, OR, ERROR_FSCK, "orphan_present" },
	/* features */
	{ COMPAT, 4, 0x2, OR, ERROR_USAGE, "imagic_inodes" },
	{ COMPAT, 4, 0x40, OR, ERROR_USAGE, "lazy_bg" },
	{ COMPAT, 4, 0x100, OR, ERROR_USAGE, "snapshot_bitmap" },
	{ COMPAT, 4, 0x80000000, OR, ERROR_USAGE, "FEATURE_C31" },
	{ INCOMPAT, 4, 0x1, OR, ERROR_USAGE, "compression" },
	{ INCOMPAT, 4, 0x8, OR, ERROR_USAGE, "journal_dev" },
	{ INCOMPAT, 4, 0x1000, OR, ERROR_USAGE, "dirdata" },
	{ INCOMPAT, 4, 0x40000, OR, ERROR_USAGE, "FEATURE_I18" },
	{ RO, 4, 0x4, OR, ERROR_USAGE, "btree_dir" },
	{ RO, 4, 0x80, OR, ERROR_USAGE, "snapshot" },
	{ RO, 4, 0x200, OR, ERROR_FSCK, "first data block" },
	{ RO, 4, 0x800, OR, ERROR_USAGE, "replica" },
	{ RO, 4, 0x1000, OR, ERROR_USAGE, "read-only" },
	{ RO, 4, 0x4000, OR, ERROR_USAGE, "shared_blocks" },
	{ RO, 4, 0x20000, OR, ERROR_USAGE, "FEATURE_R17" },
	{ RO, 4, 0x10, OR, ERROR_FSCK, "uninit_bg" },
	{ 0xd0, 4, 1, SET, ERROR_USAGE, "external journal" },
	{ 0xe4, 4, 1, SET, ERROR_USAGE, "external journal" },
	{ 0x48, 4, 1, SET, ERROR_USAGE, "Hurd" },
	{ 0x4c, 4, 2, SET, ERROR_USAGE, "revision 2" },
	{ 0x4c, 4, 0, SET, ERROR_FSCK, "revision 0" },
	{ 0x175, 1, 2, SET, ERROR_USAGE, "checksum type" },
	/* bounds */
	{ 0x18, 4, 7, SET, ERROR_FSCK, "block size" },
	{ 0x18, 4, 0xffffffff, SET, ERROR_FSCK, "block size" },
	{ 0x1c, 4, 3, SET, ERROR_FSCK, "cluster size" },
	{ 0x14, 4, 0, SET, ERROR_FSCK, "first data block" },
	{ 0x14, 4, 0xffffffff, SET, ERROR_FSCK, "first data block" },
	{ 0x20, 4, 0, SET, ERROR_FSCK, "blocks a group" },
	{ 0x20, 4, 8193, SET, ERROR_FSCK, "blocks a group" },
	{ 0x20, 4, 16384, SET, ERROR_FSCK, "blocks a group" },
	{ 0x24, 4, 4096, SET, ERROR_FSCK, "clusters" },
	{ 0x28, 4, 0, SET, ERROR_FSCK, "inodes a group" },
	{ 0x28, 4, 4, SET, ERROR_FSCK, "inodes a group" },
	{ 0x28, 4, 65536, SET, ERROR_FSCK, "inodes a group" },
	{ 0x28, 4, 8, SET, ERROR_FSCK, "number of inodes" },
	{ 0x00, 4, 0, SET, ERROR_FSCK, "number of inodes" },
	{ 0x04, 4, 0, SET, ERROR_FSCK, "number of blocks" },
	{ 0x04, 4, 1, SET, ERROR_FSCK, "number of blocks" },
	{ 0x04, 4, 100, SET, ERROR_FSCK, "free blocks" },
	{ 0x04, 4, 0xffffffff, SET, ERROR_FSCK, "shorter" },
	{ 0x150, 4, 0xffffffff, SET, ERROR_FSCK, "shorter" },
	{ 0x0c, 4, 0xffffffff, SET, ERROR_FSCK, "free blocks" },
	{ 0x158, 4, 1, SET, ERROR_FSCK, "free blocks" },
	{ 0x08, 4, 4097, SET, ERROR_FSCK, "half of the blocks" },
	{ 0x154, 4, 1, SET, ERROR_FSCK, "half of the blocks" },
	{ 0x10, 4, 0xffffffff, SET, ERROR_FSCK, "free inodes" },
	{ 0x54, 4, 5, SET, ERROR_FSCK, "first inode" },
	{ 0x54, 4, 0xffffffff, SET, ERROR_FSCK, "first inode" },
	{ 0x58, 2, 0, SET, ERROR_FSCK, "inode size" },
	{ 0x58, 2, 200, SET, ERROR_FSCK, "inode size" },
	{ 0x58, 2, 2048, SET, ERROR_FSCK, "inode size" },
	{ 0x58, 2, 64, SET, ERROR_FSCK, "inode size" },
	{ 0xce, 2, 0xffff, SET, ERROR_FSCK, "reserved descriptor" },
	{ 0xe0, 4, 0, SET, ERROR_FSCK, "journal" },
	{ 0xe0, 4, 0xffffffff, SET, ERROR_FSCK, "journal" },
	{ 0xfe, 2, 0, SET, ERROR_FSCK, "descriptor size" },
	{ 0xfe, 2, 32, SET, ERROR_FSCK, "descriptor size" },
	{ 0xfe, 2, 96, SET, ERROR_FSCK, "descriptor size" },
	{ 0xfe, 2, 2048, SET, ERROR_FSCK, "descriptor size" },
	{ 0x174, 1, 32, SET, ERROR_FSCK, "flex group" },
	{ 0x60, 4, 0x40, AND_NOT, ERROR_FSCK, "64bit is set without extents" },
};

static void fix_checksum(uint8_t sb[1024])
{
	uint32_t crc = htole32(ext2fs_crc32c_le(~0u, sb, 1020));
	memcpy(sb + 1020, &crc, 4);
}

static void mutate(uint8_t sb[1024], const struct mutation *m)
{
	uint64_t v = 0;

	memcpy(&v, sb + m->at, m->width);
	v = m->how == SET ? m->value : m->how == OR ? v | m->value : v & ~m->value;
	memcpy(sb + m->at, &v, m->width);
	fix_checksum(sb);
}

static void test_superblock_check__each_field_out_of_bounds(void **state)
{
	char path[256];
	uint8_t good[1024], bad[1024];

	image_mke2fs(path_in(state, "fields", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_read(path, SB, good, sizeof(good));
	assert_opens(path);
	for (size_t i = 0; i < sizeof(mutations) / sizeof(*mutations); i++) {
		memcpy(bad, good, sizeof(bad));
		mutate(bad, &mutations[i]);
		image_write(path, SB, bad, sizeof(bad));
		assert_refused(path, mutations[i].kind, mutations[i].words);
	}
	image_write(path, SB, good, sizeof(good));
	assert_opens(path);
}

/* Each of these e2fsck can't get over. */
static void test_superblock_check__descriptor_size_without_64bit(void **state)
{
	static const struct mutation bad[] = {
		{ 0xfe, 2, 96, SET, ERROR_FSCK, "descriptor size" },
		{ 0xfe, 2, 2048, SET, ERROR_FSCK, "descriptor size" },
	};
	char path[256];
	uint8_t sb[1024];

	image_mke2fs(path_in(state, "desc", path), SIZE, "^64bit", "-b 1024 -J size=1");
	assert_opens(path);
	image_read(path, SB, sb, sizeof(sb));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		mutate(sb, &bad[i]);
		image_write(path, SB, sb, sizeof(sb));
		assert_refused(path, bad[i].kind, bad[i].words);
	}
}

static void test_superblock_check__wrong_checksum(void **state)
{
	char path[256];
	uint8_t b = 'x';

	image_mke2fs(path_in(state, "csum", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_write(path, SB + 0x78, &b, 1); /* the volume's name */
	assert_refused(path, ERROR_FSCK, "checksum is wrong; run: e2fsck -f /");
}

static void test_guard_state__needs_recovery_is_the_journals_business(void **state)
{
	static const struct mutation needs_recovery = { INCOMPAT, 4, 4, OR, 0, NULL };
	char path[256];
	uint8_t sb[1024];

	image_mke2fs(path_in(state, "nr", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_read(path, SB, sb, sizeof(sb));
	mutate(sb, &needs_recovery);
	image_write(path, SB, sb, sizeof(sb));
	assert_opens(path);
}

static void test_guard_size__file_cut_short(void **state)
{
	char path[256];

	image_mke2fs(path_in(state, "short", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	assert_int_equal(truncate(path, SIZE / 2), 0);
	assert_refused(path, ERROR_FSCK, "4194304 bytes of 8388608");
	assert_int_equal(truncate(path, SIZE * 2), 0); /* longer is fine */
	assert_opens(path);
}

/* ---- group descriptors ---- */

static void test_guard_groups__each_field_out_of_bounds(void **state)
{
	/* 32-byte descriptors without checksums: block 2 of a 1 KiB file system */
	static const struct mutation bad[] = {
		{ 0, 4, 0, SET, ERROR_FSCK, "group 0: its block bitmap" },
		{ 0, 4, 1, SET, ERROR_FSCK, "group 0: its block bitmap" },
		{ 0, 4, 8192, SET, ERROR_FSCK, "group 0: its block bitmap" },
		{ 4, 4, 0xffffffff, SET, ERROR_FSCK, "group 0: its inode bitmap" },
		{ 8, 4, 0, SET, ERROR_FSCK, "group 0: its inode table" },
		{ 8, 4, 8191, SET, ERROR_FSCK, "group 0: its inode table" },
		{ 12, 2, 0xffff, SET, ERROR_FSCK, "group 0: more free blocks" },
		{ 14, 2, 0xffff, SET, ERROR_FSCK, "group 0: more free inodes" },
	};
	char path[256];
	uint8_t good[1024], changed[1024];

	image_mke2fs(path_in(state, "gdt", path), SIZE, "^metadata_csum,^uninit_bg,^64bit",
		     "-b 1024 -J size=1");
	image_read(path, 2048, good, sizeof(good));
	assert_opens(path);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		memcpy(changed, good, sizeof(good));
		memcpy(changed + bad[i].at, &bad[i].value, bad[i].width);
		image_write(path, 2048, changed, sizeof(changed));
		assert_refused(path, bad[i].kind, bad[i].words);
	}
}

static void test_guard_groups__wrong_checksum(void **state)
{
	char path[256];
	uint16_t dirs;

	image_mke2fs(path_in(state, "gdtcsum", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_read(path, 2048 + 16, &dirs, 2);
	dirs++;
	image_write(path, 2048 + 16, &dirs, 2);
	assert_refused(path, ERROR_FSCK, "group 0: wrong checksum; run: e2fsck -f /");
}

/* ---- MMP ---- */

static void test_guard_mmp__states(void **state)
{
	char path[256], node[64] = "no\x1b\nde";
	uint64_t block;
	uint32_t seq;

	image_mke2fs(path_in(state, "mmp", path), SIZE, "mmp,^metadata_csum", "-b 1024 -J size=1");
	assert_opens(path); /* more of it: test_kinds */
	image_read(path, SB + 0x168, &block, 8);
	image_write(path, block * 1024 + 16, node, sizeof(node));
	seq = htole32(0xe24d4d50);
	image_write(path, block * 1024 + 4, &seq, 4);
	assert_refused(path, ERROR_OPERATION, "node 'no\\x1b\\x0ade'");
	assert_refused(path, ERROR_OPERATION, "e2fsck is running");
	seq = 0;
	image_write(path, block * 1024, &seq, 4);
	assert_refused(path, ERROR_FSCK, "MMP block is broken");
	block = UINT64_MAX;
	image_write(path, SB + 0x168, &block, 8);
	assert_refused(path, ERROR_FSCK, "outside the file system");
}

/* ---- other things ---- */

static void test_content_check__other_kinds(void **state)
{
	static const struct {
		uint32_t at, len;
		const char *bytes, *words;
	} kinds[] = {
		{ 0, 0, "", "only zeros" },
		{ 0, 4, "QFI\xfb", "qcow" },
		{ 0, 4, "KDMV", "VMDK" },
		{ 64, 4, "\x7f\x10\xda\xbe", "VDI" },
		{ 0, 8, "vhdxfile", "VHDX" },
		{ 0, 4, "\x3a\xff\x26\xed",
		  "Android sparse image, not a raw ext4 image: make a raw "
		  "image with simg2img" },
		{ 0, 2, "\x1f\x8b", "gzip" },
		{ 65536 + 64, 8, "_BHRfS_M", "btrfs" },
		{ 0, 5, "hello", "no ext4 file system" },
	};
	char path[256];

	path_in(state, "kinds", path);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, 1 << 20), 0);
		close(fd);
		if (kinds[i].len)
			image_write(path, kinds[i].at, kinds[i].bytes, kinds[i].len);
		/* libblkid knows btrfs only with more of it right */
		if (strcmp(kinds[i].words, "btrfs"))
			assert_refused(path, ERROR_USAGE, kinds[i].words);
		else
			assert_refused(path, ERROR_USAGE, "");
	}
}

static void test_content_check__too_short(void **state)
{
	char path[256];
	int fd = open(path_in(state, "tiny", path), O_RDWR | O_CREAT, 0600);

	assert_int_equal(ftruncate(fd, 100), 0);
	close(fd);
	assert_refused(path, ERROR_USAGE, "only 100 bytes");
}

static void test_content_check__superblock_lost(void **state)
{
	static const uint8_t zero[1024];
	char path[256];

	image_mke2fs(path_in(state, "lost", path), 2 * SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_write(path, SB, zero, sizeof(zero));
	assert_refused(path, ERROR_FSCK, "e2fsck -b 8193 -B 1024 /");
}

/* A RAID1 member with its MD superblock (version 1.0) at the end begins like a file system. */
static void test_content_check__raid_member(void **state)
{
	uint32_t md[64] = { htole32(0xa92b4efc), htole32(1) };
	uint64_t sector = (SIZE + 65536) / 512 - 16;
	char path[256];

	image_mke2fs(path_in(state, "md", path), SIZE, "metadata_csum", "-b 1024 -J size=1");
	assert_int_equal(truncate(path, SIZE + 65536), 0);
	memset(md + 4, 'u', 16);
	memcpy((uint8_t *)md + 0x90, &sector, 8);
	image_write(path, sector * 512, md, sizeof(md));
	assert_refused(path, ERROR_USAGE, "RAID");
}

/* ---- partitions ---- */

static void set_part(uint8_t mbr[512], int i, uint8_t type, uint32_t start, uint32_t n)
{
	uint8_t *p = mbr + 446 + 16 * i;
	p[4] = type;
	memcpy(p + 8, &start, 4);
	memcpy(p + 12, &n, 4);
	mbr[510] = 0x55;
	mbr[511] = 0xaa;
}

/* An MBR, ext4 at sector 63 (p1), swap (p2), ext4 (p3). */
static void make_disk(void **state, char path[256])
{
	char fs[256];
	uint8_t mbr[512] = { 0 };
	uint32_t n = SIZE / 512;
	uint8_t *all = malloc(SIZE);

	image_mke2fs(path_in(state, "part", fs), SIZE, "metadata_csum", "-b 1024 -J size=1");
	image_read(fs, 0, all, SIZE);
	int fd = open(path_in(state, "disk", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)(63 + n + 2048 + n) * 512), 0);
	close(fd);
	set_part(mbr, 0, 0x83, 63, n);
	set_part(mbr, 1, 0x82, 63 + n, 2048);
	set_part(mbr, 2, 0x83, 63 + n + 2048, n);
	image_write(path, 0, mbr, sizeof(mbr));
	image_write(path, 63 * 512, all, SIZE);
	image_write(path, (63 + n + 2048) * 512ull, all, SIZE);
	free(all);
}

static void test_partition__whole_disk(void **state)
{
	char path[256], name[300], words[400];

	make_disk(state, path);
	snprintf(words, sizeof(words),
		 "1: scaledefrag-offline '%s?offset=32256'; 3: scaledefrag-offline", path);
	assert_refused(path, ERROR_USAGE, words);
	assert_refused_at(path, path, 2, ERROR_USAGE, "");
	assert_refused_at(path, path, 7, ERROR_USAGE, "has no partition 7; ext4: 1: ");
	assert_opens_at(path, 1);
	assert_opens_at(path, 3);
	snprintf(name, sizeof(name), "%s?offset=32256", path);
	assert_opens(name);
	assert_refused_at(name, path, 1, ERROR_USAGE, "not both");
	snprintf(name, sizeof(name), "%s?offset=4096", path);
	assert_refused_at(name, path, 0, ERROR_USAGE, "at that offset");
	snprintf(name, sizeof(name), "%s?offset=99999999999", path);
	assert_refused_at(name, path, 0, ERROR_USAGE, "behind the end");
	snprintf(name, sizeof(name), "%s?offset=12k", path);
	assert_refused_at(name, path, 0, ERROR_USAGE, "number of bytes");
}

/* The list has the command as it was given; where that is too long, it says what to add. */
static void test_partition__repeats_the_command(void **state)
{
	static const char *const words[] = { "./prog", "-n", "--exclude", "*.o it's" };
	char path[256], want[600], longest[500];
	const char *const too_long[] = { "./prog", longest };
	struct volume_options o = {
		.path = path, .read_only = true, .command = words, .n_command = 4
	};
	struct volume *v;
	struct error err = ERROR_INIT;

	make_disk(state, path);
	snprintf(want, sizeof(want),
		 "; ext4: 1: ./prog -n --exclude '*.o it'\\''s' '%s?offset=32256'; 3: ./prog",
		 path);
	assert_int_equal(volume_open(&o, &v, &err), -1);
	assert_non_null(strstr(err.text, want));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	o.command = too_long;
	o.n_command = 2;
	assert_int_equal(volume_open(&o, &v, &err), -1);
	assert_non_null(strstr(err.text, "partitions; ext4: 2 of them (--partition N)"));
}

static void test_partition__smaller_than_its_file_system(void **state)
{
	uint8_t mbr[512];
	char path[256];

	make_disk(state, path);
	image_read(path, 0, mbr, sizeof(mbr));
	set_part(mbr, 0, 0x83, 63, SIZE / 512 - 8);
	image_write(path, 0, mbr, sizeof(mbr));
	assert_refused_at(path, path, 1, ERROR_FSCK, "8384512 bytes of 8388608");
}

static void test_partition__stale_superblock_in_front(void **state)
{
	char path[256], name[300], fs[256];
	uint8_t head[1024];

	make_disk(state, path);
	image_read(path_in(state, "part", fs), SB, head, sizeof(head));
	image_write(path, SB, head, sizeof(head));
	assert_refused(path, ERROR_USAGE, "whole disk");
	snprintf(name, sizeof(name), "%s?offset=0", path);
	assert_refused_at(name, path, 0, ERROR_FSCK, "group 0"); /* believed, and found wanting */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_superblock_check__each_field_out_of_bounds),
		cmocka_unit_test(test_superblock_check__descriptor_size_without_64bit),
		cmocka_unit_test(test_superblock_check__wrong_checksum),
		cmocka_unit_test(test_guard_state__needs_recovery_is_the_journals_business),
		cmocka_unit_test(test_guard_size__file_cut_short),
		cmocka_unit_test(test_guard_groups__each_field_out_of_bounds),
		cmocka_unit_test(test_guard_groups__wrong_checksum),
		cmocka_unit_test(test_guard_mmp__states),
		cmocka_unit_test(test_content_check__other_kinds),
		cmocka_unit_test(test_content_check__too_short),
		cmocka_unit_test(test_content_check__superblock_lost),
		cmocka_unit_test(test_content_check__raid_member),
		cmocka_unit_test(test_partition__whole_disk),
		cmocka_unit_test(test_partition__repeats_the_command),
		cmocka_unit_test(test_partition__smaller_than_its_file_system),
		cmocka_unit_test(test_partition__stale_superblock_in_front),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
