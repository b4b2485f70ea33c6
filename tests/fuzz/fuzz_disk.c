/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input: kind (1 byte), partition (1), offset (4, in units of 512 bytes; the highest bit:
 * none), then for kind % 4 0, 1  edits to a disk with a GPT or an MBR: offset (3 bytes), length
 * (1), bytes; GPT checksums are repaired unless bit 7 of kind is set 2     the raw bytes of a small
 * file 3     edits to a bare file system
 */
#include "images.h"
#include "support/image.h"
#include "support/wrap.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DISK = 512 << 10, SECTOR = 512, FIRST = 64, SECOND = 320 }; /* bytes, bytes, sectors */

struct disk {
	int fd;
	char path[32];
	uint8_t *mem; /* DISK bytes */
};

static struct disk *the_disk(void)
{
	static struct disk d;

	if (d.mem)
		return &d;
	d.fd = memfd_create("disk", MFD_CLOEXEC);
	if (d.fd < 0 || ftruncate(d.fd, DISK))
		abort();
	snprintf(d.path, sizeof(d.path), "/proc/self/fd/%d", d.fd);
	d.mem = mmap(NULL, DISK, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
	if (d.mem == MAP_FAILED)
		abort();
	return &d;
}

static void put(uint8_t *p, uint64_t v, int len)
{
	for (int i = 0; i < len; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* CRC32 as in UEFI, bit by bit. */
static uint32_t crc32(const uint8_t *p, size_t len)
{
	uint32_t c = ~0u;

	while (len--) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

static void put_mbr_entry(uint8_t *mem, unsigned i, uint8_t type, uint32_t start, uint32_t len)
{
	uint8_t *p = mem + 446 + 16 * i;

	p[4] = type;
	put(p + 8, start, 4);
	put(p + 12, len, 4);
	put(mem + 510, 0xaa55, 2);
}

enum { ENTRIES = 8, ENTRY = 128, HEADER = 92 };

static void repair_gpt(uint8_t *mem)
{
	uint8_t *h = mem + SECTOR;

	put(h + 88, crc32(mem + 2 * SECTOR, ENTRIES * ENTRY), 4);
	put(h + 16, 0, 4);
	put(h + 16, crc32(h, HEADER), 4);
}

/* UEFI specification, chapter 5.3. */
static void make_gpt(uint8_t *mem)
{
	static const uint8_t linux_data[16] = { 0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47,
						0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4 };
	uint8_t *h = mem + SECTOR;

	put_mbr_entry(mem, 0, 0xee, 1, DISK / SECTOR - 1);
	memcpy(h, "EFI PART", 8);
	put(h + 8, 0x10000, 4);
	put(h + 12, HEADER, 4);
	put(h + 24, 1, 8);
	put(h + 32, DISK / SECTOR - 1, 8);
	put(h + 40, 34, 8);
	put(h + 48, DISK / SECTOR - 34, 8);
	h[56] = 1;
	put(h + 72, 2, 8);
	put(h + 80, ENTRIES, 4);
	put(h + 84, ENTRY, 4);
	for (int i = 0; i < 2; i++) {
		uint8_t *e = mem + 2 * SECTOR + i * ENTRY;

		memcpy(e, linux_data, sizeof(linux_data));
		e[16] = (uint8_t)(i + 1);
		put(e + 32, i ? SECOND : FIRST, 8);
		put(e + 40, (i ? DISK / SECTOR - 40 : SECOND) - 1, 8);
	}
}

static void make_mbr(uint8_t *mem)
{
	put_mbr_entry(mem, 0, 0x83, FIRST, SECOND - FIRST);
	put_mbr_entry(mem, 1, 0x05, SECOND, DISK / SECTOR - SECOND);
	put_mbr_entry(mem + SECOND * SECTOR, 0, 0x83, 64, 200);
}

/* The first 4 KiB of a good file system: enough to be taken for one. */
static void put_fs(uint8_t *mem, uint64_t sector)
{
	const struct base *b = images_get(1);

	memcpy(mem + sector * SECTOR + 1024, b->good + 1024, 3072);
}

static void edit(uint8_t *mem, struct bytes *in)
{
	while (in->left) {
		uint32_t at = bytes_u8(in);
		at = (at | (uint32_t)bytes_u16(in) << 8) % DISK;
		size_t len = bytes_u8(in);
		const uint8_t *p = bytes_take(in, &len);

		memcpy(mem + at, p, len < DISK - at ? len : DISK - at);
	}
}

static void try_open(const char *path, unsigned partition)
{
	const struct volume_options vo = {
		.path = path,
		.read_only = true,
		.partition = partition,
		.proc_root = images_roots()->proc,
		.sys_root = images_roots()->sys,
	};
	struct error err = ERROR_INIT;
	struct volume *v;

	if (!volume_open(&vo, &v, &err))
		volume_close(v);
	else if (err.kind == ERROR_NONE || !*err.text || strpbrk(err.text, "\n\033"))
		fuzz_wrong("an error without a text of one line");
	else
		fuzz_say("%s", err.text);
}

int fuzz_disk(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	uint8_t kind = bytes_u8(&in), partition = bytes_u8(&in);
	uint32_t offset = bytes_u32(&in);
	struct disk *d = the_disk();
	size_t len = in.left;
	const uint8_t *raw;
	char path[64];

	memset(d->mem, 0, DISK);
	switch (kind % 4) {
	case 0:
		make_gpt(d->mem);
		break;
	case 1:
		make_mbr(d->mem);
		break;
	case 2:
		if (len > DISK)
			len = DISK;
		raw = bytes_take(&in, &len);
		memcpy(d->mem, raw, len);
		break;
	default:
		put_fs(d->mem, 0);
	}
	if (kind % 4 < 2) {
		put_fs(d->mem, FIRST);
		put_fs(d->mem, SECOND + (kind % 4 ? 64 : 0));
	}
	edit(d->mem, &in);
	if (kind % 4 == 0 && !(kind & 0x80))
		repair_gpt(d->mem);
	/* A small file ends where its bytes do. */
	if (ftruncate(d->fd, kind % 4 == 2 ? (off_t)(len + (kind & 0x40 ? 4096 : 0)) : DISK))
		abort();
	snprintf(path, sizeof(path), offset >> 31 ? "%s" : "%s?offset=%llu", d->path,
		 (unsigned long long)offset * SECTOR);
	try_open(path, partition);
	if (ftruncate(d->fd, DISK))
		abort();
	return 0;
}
