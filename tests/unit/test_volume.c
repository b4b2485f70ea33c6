/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening, who else uses it (on fake /sys and /proc trees and with real locks), e2fsck -p, and
 * libext2fs on a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/volume/internal.h"
#include "scaledefrag/overlay.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
	char dir[64];
	char image[96];
	char sys[96], proc[96]; /* fake trees */
};

static __attribute__((format(printf, 1, 2))) void shell(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	assert_int_equal(system(cmd), 0);
}

/* A file below the fixture's folder, with its folders. */
static __attribute__((format(printf, 3, 4))) void put(const struct fixture *f, const char *text,
						      const char *fmt, ...)
{
	char path[256];
	va_list ap;

	va_start(ap, fmt);
	int n = snprintf(path, sizeof(path), "%s/", f->dir);
	vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, ap);
	va_end(ap);
	shell("mkdir -p \"$(dirname '%s')\"", path);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/dev/shm/test-volume-XXXXXX");
	if (!f || !mkdtemp(f->dir))
		return -1;
	snprintf(f->image, sizeof(f->image), "%s/image", f->dir);
	snprintf(f->sys, sizeof(f->sys), "%s/sys", f->dir);
	snprintf(f->proc, sizeof(f->proc), "%s/proc", f->dir);
	shell("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 -b 1024 -J size=1 %s 8M >/dev/null",
	      f->image);
	shell("mkdir -p %s/block %s/self && : >%s/self/mountinfo", f->sys, f->proc, f->proc);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	shell("rm -rf %s", f->dir);
	free(f);
	return 0;
}

static void assert_opens(const struct volume_options *o)
{
	struct error err = ERROR_INIT;
	struct volume *v = NULL;

	if (volume_open(o, &v, &err))
		fail_msg("%s: %s", o->path, err.text);
	volume_close(v);
}

static void assert_fails(const struct volume_options *o, enum error_kind kind, const char *words)
{
	struct error err = ERROR_INIT;
	struct volume *v = NULL;

	if (!volume_open(o, &v, &err))
		fail_msg("opened; wanted: %s", words);
	assert_null(v);
	if (err.kind != kind || !strstr(err.text, words) || strchr(err.text, '\n'))
		fail_msg("got %d '%s'; wanted %d '%s'", err.kind, err.text, kind, words);
}

/* ---- opening ---- */

static void test_volume_open__good_image(void **state)
{
	const struct fixture *f = *state;
	struct volume_options o = { .path = f->image };
	struct error err = ERROR_INIT;
	struct volume *v;

	assert_int_equal(volume_open(&o, &v, &err), 0);
	const struct geometry *g = volume_geometry(v);
	assert_int_equal(g->block_size, 1024);
	assert_int_equal(g->blocks, 8192);
	assert_int_equal(g->first_data_block, 1);
	assert_int_equal(g->groups, 1);
	assert_int_equal(g->desc_per_block, 16);
	assert_int_equal(g->flex_size, 16);
	assert_true(g->metadata_csum);
	assert_string_equal(volume_arg(v), f->image);
	assert_non_null(strstr(volume_what(v), "ext4, 1 KiB blocks, 8.0 MiB, "));
	assert_int_equal(volume_device(v)->size, 8 << 20);
	assert_int_equal(volume_fs(v)->group_desc_count, 1);
	volume_close(v);
	volume_close(NULL);
}

static void test_volume_open__symlink(void **state)
{
	const struct fixture *f = *state;
	char link[128];

	snprintf(link, sizeof(link), "%s/link", f->dir);
	assert_int_equal(symlink("image", link), 0);
	assert_opens(&(struct volume_options){ .path = link });
}

static void test_volume_open__what_is_no_image(void **state)
{
	const struct fixture *f = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/none\n\x1b", f->dir);
	assert_fails(&(struct volume_options){ .path = path }, ERROR_USAGE,
		     "none\\x0a\\x1b: No such");
	assert_fails(&(struct volume_options){ .path = "" }, ERROR_USAGE, "empty name");
	assert_fails(&(struct volume_options){ .path = f->dir }, ERROR_USAGE, "is a directory");
	assert_fails(&(struct volume_options){ .path = "/dev/null" }, ERROR_USAGE,
		     "character device");
	snprintf(path, sizeof(path), "%s/fifo", f->dir);
	shell("mkfifo %s", path);
	assert_fails(&(struct volume_options){ .path = path }, ERROR_USAGE, "is a pipe");
	put(f, "", "empty");
	snprintf(path, sizeof(path), "%s/empty", f->dir);
	assert_fails(&(struct volume_options){ .path = path }, ERROR_USAGE, "empty file");
}

static void test_volume_open__no_permission_to_write(void **state)
{
	const struct fixture *f = *state;
	uid_t me = geteuid();

	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(chmod(f->image, 0444), 0);
	if (me == 0)
		assert_int_equal(seteuid(65534), 0); /* root may write anything */
	assert_fails(&(struct volume_options){ .path = f->image }, ERROR_OPERATION, "for writing");
	assert_opens(&(struct volume_options){ .path = f->image, .read_only = true });
	assert_int_equal(seteuid(me), 0);
}

static void test_volume_open__twice(void **state)
{
	const struct fixture *f = *state;
	struct volume_options write = { .path = f->image };
	struct volume_options read = { .path = f->image, .read_only = true };
	struct error err = ERROR_INIT;
	struct volume *v;

	assert_int_equal(volume_open(&write, &v, &err), 0);
	assert_fails(&write, ERROR_OPERATION, "is locked (flock)");
	assert_fails(&read, ERROR_OPERATION, "is locked (flock)");
	volume_close(v);
	assert_int_equal(volume_open(&read, &v, &err), 0);
	assert_fails(&write, ERROR_OPERATION, "is locked (flock)");
	assert_opens(&read);
	volume_close(v);
	assert_opens(&write);
}

static int fail_wrap(void *ctx, struct device *inner, struct device **out, struct error *err)
{
	(void)inner;
	(void)out;
	++*(int *)ctx;
	return error_set(err, ERROR_OPERATION, "no wrap today");
}

static void test_volume_open__failing_wrap(void **state)
{
	const struct fixture *f = *state;
	int calls = 0;
	struct volume_options o = { .path = f->image, .wrap = fail_wrap, .wrap_ctx = &calls };

	assert_fails(&o, ERROR_OPERATION, "no wrap today");
	assert_int_equal(calls, 1);
}

/* ---- locks of others ---- */

static const int qemu_writer[] = { 100, 101, 103, 201, 203, -1 };
static const int qemu_reader[] = { 100, 203, -1 };
static const int libvirt_writer[] = { 0, -1 };

/* A child that holds flock (bytes NULL) or OFD locks until it is killed. */
static pid_t hold(const char *path, const int *bytes, short type)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR);
		if (fd < 0 || (!bytes && flock(fd, LOCK_EX)))
			_exit(1);
		for (; bytes && *bytes >= 0; bytes++) {
			struct flock fl = {
				.l_type = type, .l_whence = SEEK_SET, .l_start = *bytes, .l_len = 1
			};
			if (fcntl(fd, F_OFD_SETLK, &fl))
				_exit(1);
		}
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void release(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_lock__held_by_others(void **state)
{
	const struct fixture *f = *state;
	struct volume_options write = { .path = f->image };
	struct volume_options read = { .path = f->image, .read_only = true };
	char who[64];

	pid_t pid = hold(f->image, NULL, 0);
	snprintf(who, sizeof(who), "by process %d (test_volume)", pid);
	assert_fails(&write, ERROR_OPERATION, who);
	assert_fails(&read, ERROR_OPERATION, who);
	release(pid);

	pid = hold(f->image, qemu_writer, F_RDLCK);
	snprintf(who, sizeof(who), "by process %d (test_volume), which holds qemu's", pid);
	assert_fails(&write, ERROR_OPERATION, who);
	assert_fails(&read, ERROR_OPERATION, who);
	release(pid);

	pid = hold(f->image, qemu_reader, F_RDLCK);
	assert_fails(&write, ERROR_OPERATION, "qemu's image lock");
	assert_opens(&read);
	release(pid);

	pid = hold(f->image, libvirt_writer, F_WRLCK);
	assert_fails(&write, ERROR_OPERATION, "image lock");
	assert_fails(&read, ERROR_OPERATION, "image lock");
	release(pid);
	assert_opens(&write);
}

/* While we have it, a VM can't: qemu asks for these bytes. */
static void test_lock__keeps_a_virtual_machine_out(void **state)
{
	static const int asked[] = { 100, 101, 103, 201, 203 };
	const struct fixture *f = *state;
	struct volume_options o = { .path = f->image };
	struct error err = ERROR_INIT;
	struct volume *v;

	assert_int_equal(volume_open(&o, &v, &err), 0);
	int fd = open(f->image, O_RDWR);
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct flock fl = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = asked[i], .l_len = 1
		};
		assert_int_equal(fcntl(fd, F_OFD_GETLK, &fl), 0);
		assert_int_equal(fl.l_type, F_RDLCK);
	}
	close(fd);
	volume_close(v);
}

/* ---- holders, on fake trees ---- */

static void assert_held(const struct target *tg, const char *words)
{
	struct error err = ERROR_INIT;

	assert_int_equal(holders_check(tg, &err), -1);
	if (err.kind != ERROR_OPERATION || !strstr(err.text, words))
		fail_msg("got %d '%s'; wanted '%s'", err.kind, err.text, words);
}

static struct target fake_disk(struct fixture *f, unsigned minor)
{
	struct target tg = {
		.shown = f->image,
		.arg = f->image,
		.sys_root = f->sys,
		.proc_root = f->proc,
		.is_device = true,
		.st = { .st_rdev = makedev(8, minor), .st_mode = S_IFBLK },
	};
	return tg;
}

static void test_holders_check__nothing_to_look_at(void **state)
{
	struct fixture *f = *state;
	struct volume_options o = { .path = f->image, .sys_root = f->sys, .proc_root = f->proc };

	shell("mv %s/block %s/elsewhere", f->sys, f->sys);
	assert_fails(&o, ERROR_OPERATION, "mount -t sysfs sysfs /sys");
	shell("mv %s/elsewhere %s/block", f->sys, f->sys);
	assert_opens(&o);
	shell("rm %s/self/mountinfo", f->proc);
	assert_fails(&o, ERROR_OPERATION, "mount -t proc proc /proc");
}

/* sda (8:0) with sda1 (8:1) and sda2 (8:2), as in sysfs */
static void fake_sda(const struct fixture *f)
{
	put(f, "8:0\n", "sys/devices/sda/dev");
	put(f, "8:1\n", "sys/devices/sda/sda1/dev");
	put(f, "1\n", "sys/devices/sda/sda1/partition");
	put(f, "8:2\n", "sys/devices/sda/sda2/dev");
	put(f, "2\n", "sys/devices/sda/sda2/partition");
	shell("cd %s && mkdir -p dev/block devices/sda/holders devices/sda/sda1/holders "
	      "devices/sda/sda2/holders && ln -s ../../devices/sda dev/block/8:0 && "
	      "ln -s ../../devices/sda/sda1 dev/block/8:1 && ln -s ../../devices/sda/sda2 "
	      "dev/block/8:2",
	      f->sys);
}

static void assert_place(const struct target *tg, uint64_t start, uint64_t align, uint64_t unit)
{
	struct volume_place p;

	place_find(tg, &p);
	assert_true(p.disk);
	assert_int_equal(p.start, start);
	assert_int_equal(p.align, align);
	assert_int_equal(p.unit, unit);
}

static void test_place_find__disks_and_partitions(void **state)
{
	struct fixture *f = *state;
	struct target disk = fake_disk(f, 0), p1 = fake_disk(f, 1);

	assert_place(&p1, 0, 0, 0); /* no sysfs */
	fake_sda(f);
	put(f, "63\n", "sys/devices/sda/sda1/start");
	assert_place(&disk, 0, 0, 0);
	assert_place(&p1, 63 * 512, 0, 0);
	put(f, "1048576\n", "sys/devices/sda/queue/discard_granularity");
	put(f, "3584\n", "sys/devices/sda/alignment_offset");
	put(f, "0\n", "sys/devices/sda/discard_alignment");
	put(f, "7\n", "sys/devices/sda/sda1/alignment_offset"); /* of the partition: not asked */
	assert_place(&disk, 0, 3584, 1 << 20);
	assert_place(&p1, 63 * 512, 3584, 1 << 20);
	put(f, "512\n", "sys/devices/sda/discard_alignment");
	p1.base = 4096; /* DEVICE?offset=4096 */
	assert_place(&p1, 63 * 512 + 4096, 512, 1 << 20);
	put(f, "-1\n", "sys/devices/sda/alignment_offset");
	put(f, "junk\n", "sys/devices/sda/discard_alignment");
	put(f, "99999999999999999999\n", "sys/devices/sda/queue/discard_granularity");
	put(f, "9223372036854775807\n", "sys/devices/sda/sda1/start");
	assert_place(&p1, 4096, 0, 0);
}

static bool rotational(const struct target *tg)
{
	struct volume_place p;

	place_find(tg, &p);
	return p.rotational;
}

static void test_place_find__disks_that_turn(void **state)
{
	struct fixture *f = *state;
	struct target disk = fake_disk(f, 0), p1 = fake_disk(f, 1), image = p1;

	image.is_device = false;
	image.st.st_dev = p1.st.st_rdev;
	fake_sda(f);
	assert_false(rotational(&disk)); /* nothing is said */
	put(f, "1\n", "sys/devices/sda/queue/rotational");
	assert_false(rotational(&disk));
	put(f, "virtio:d00000002v00001AF4\n", "sys/devices/sda/device/modalias");
	assert_false(rotational(&disk));
	put(f, "scsi:t-0x00\n", "sys/devices/sda/device/modalias");
	assert_true(rotational(&disk));
	assert_true(rotational(&p1));
	assert_true(rotational(&image));
	put(f, "0\n", "sys/devices/sda/queue/rotational");
	assert_false(rotational(&disk));
	assert_false(rotational(&image));
}

static void test_volume_into__counts_everything_in(void **state)
{
	static const struct {
		uint64_t start, align, size, want;
	} cases[] = {
		{ 0, 0, 1 << 20, 0 },
		{ 1 << 20, 0, 1 << 20, 0 },
		{ 63 * 512, 0, 1 << 20, 63 * 512 },
		{ 63 * 512, 3584, 1 << 20, 63 * 512 - 3584 },
		{ 63 * 512, 3584, 4096, 0 },
		{ 0, 4096, 1 << 20, (1 << 20) - 4096 }, /* the first slab begins behind the start */
		{ 512, 5 << 20, 1 << 20, 512 },
		{ UINT64_MAX - 511, UINT64_MAX, 1 << 30, 0 + (1 << 30) - 511 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct volume_place p = { .start = cases[i].start, .align = cases[i].align };

		assert_int_equal(volume_into(&p, cases[i].size), cases[i].want);
	}
}

static void test_volume_place__image_file(void **state)
{
	struct fixture *f = *state;
	struct volume_options o = { .path = f->image, .sys_root = f->sys, .proc_root = f->proc };
	struct error err = ERROR_INIT;
	struct volume *v;

	assert_int_equal(volume_open(&o, &v, &err), 0);
	assert_false(volume_place(v)->disk);
	assert_int_equal(volume_place(v)->start, 0);
	assert_int_equal(volume_place(v)->align, 0);
	assert_int_equal(volume_place(v)->unit, 4096); /* of the tmpfs that it lies on */
	volume_close(v);
}

static void test_holders_check__mounted(void **state)
{
	struct fixture *f = *state;
	struct target disk = fake_disk(f, 0), p1 = fake_disk(f, 1), p2 = fake_disk(f, 2);
	struct error err = ERROR_INIT;

	fake_sda(f);
	assert_int_equal(holders_check(&p1, &err), 0);
	put(f, "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n", "proc/self/mountinfo");
	put(f,
	    "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
	    "30 22 8:1 /sub /mnt/my\\040disk rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n",
	    "proc/77/mountinfo");
	put(f, "30 22 8:1 / /not/looked/at rw - ext4 /dev/sda1 rw\n", "proc/78/mountinfo");
	shell("cd %s && mkdir self/ns 77/ns 78/ns && ln -s 'mnt:[1]' self/ns/mnt && "
	      "ln -s 'mnt:[2]' 77/ns/mnt && ln -s 'mnt:[1]' 78/ns/mnt",
	      f->proc);
	assert_held(&p1,
		    "is mounted on /mnt/my disk in the mount namespace of process 77; run: nsenter "
		    "-t 77 -m umount '/mnt/my disk'");
	assert_held(&p2, "is mounted on /; run: umount /");
	assert_held(&disk, ": its partition sda");
}

static void test_holders_check__swap(void **state)
{
	struct fixture *f = *state;
	struct target tg = fake_disk(f, 0);
	char line[256];

	/* an image file that is swap: compared by device and inode */
	tg.is_device = false;
	assert_int_equal(stat(f->image, &tg.st), 0);
	snprintf(line, sizeof(line),
		 "Filename\tType\tSize\tUsed\tPriority\n%s\tfile\t8188\t0\t-2\n", f->image);
	put(f, line, "proc/swaps");
	assert_held(&tg, "swapoff /");
}

static void test_holders_check__stacked_devices(void **state)
{
	static const struct {
		const char *name, *dm_name, *dm_uuid, *words;
	} stacks[] = {
		{ "dm-0", "vg-root", "LVM-abc",
		  "LVM volume vg-root (mounted on /srv); run: lvchange -an" },
		{ "dm-0", "secret", "CRYPT-LUKS2-x-secret", "run: cryptsetup close secret" },
		{ "dm-0", "mpatha", "mpath-3600", "give /dev/mapper/mpatha instead" },
		{ "md0", NULL, NULL,
		  "RAID array md0 (mounted on /srv); run: mdadm --stop /dev/md0" },
		{ "bcache0", NULL, NULL, "bcache device" },
		{ "x\x1b", NULL, NULL, "the device x\\x1b" },
	};
	struct fixture *f = *state;
	struct target p1 = fake_disk(f, 1), p2 = fake_disk(f, 2), disk = fake_disk(f, 0);
	struct error err = ERROR_INIT;

	fake_sda(f);
	put(f, "22 1 253:0 / /srv rw - ext4 /dev/mapper/x rw\n", "proc/self/mountinfo");
	for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
		const char *h = stacks[i].name;
		put(f, "253:0\n", "sys/devices/sda/sda1/holders/%s/dev", h);
		if (stacks[i].dm_name) {
			put(f, stacks[i].dm_name, "sys/devices/sda/sda1/holders/%s/dm/name", h);
			put(f, stacks[i].dm_uuid, "sys/devices/sda/sda1/holders/%s/dm/uuid", h);
		}
		assert_held(&p1, stacks[i].words);
		assert_held(&disk, "its partition sda1 is held by");
		assert_int_equal(holders_check(&p2, &err),
				 0); /* a sibling is no business of ours */
		shell("rm -r %s/devices/sda/sda1/holders/*", f->sys);
	}
	put(f, "253:0\n", "sys/devices/sda/holders/md0/dev");
	assert_held(&p2, "its whole disk is held by the RAID array md0");
}

static void test_holders_check__loop_over_the_image(void **state)
{
	struct fixture *f = *state;
	struct volume_options o = { .path = f->image, .sys_root = f->sys, .proc_root = f->proc };
	char line[256];

	assert_opens(&o);
	put(f, "/nowhere/else\n", "sys/block/loop1/loop/backing_file");
	assert_opens(&o);
	snprintf(line, sizeof(line), "%s\n", f->image);
	put(f, line, "sys/block/loop7/loop/backing_file");
	put(f, "7:7\n", "sys/block/loop7/dev");
	assert_fails(&o, ERROR_OPERATION,
		     "is in use by /dev/loop7 (losetup); run: losetup -d /dev/loop7");
	put(f, "259:3\n", "sys/block/loop7/loop7p1/dev");
	put(f, "1\n", "sys/block/loop7/loop7p1/partition");
	put(f, "22 1 259:3 / /mnt/p rw - ext4 /dev/loop7p1 rw\n", "proc/self/mountinfo");
	assert_fails(&o, ERROR_OPERATION,
		     "/dev/loop7p1, which is mounted on /mnt/p; run: umount /mnt/p");
	o.read_only = true;
	assert_fails(&o, ERROR_OPERATION,
		     "/dev/loop7p1, which is mounted on /mnt/p; run: umount /mnt/p");
	shell("rm -r %s/block/loop7/loop7p1", f->sys);
	snprintf(line, sizeof(line), "%s (deleted)\n", f->image);
	put(f, line, "sys/block/loop7/loop/backing_file");
	assert_fails(&o, ERROR_OPERATION, "losetup -d /dev/loop7");
}

static void test_holders_check__fuse_mount_of_the_image(void **state)
{
	struct fixture *f = *state;
	struct volume_options o = { .path = f->image, .sys_root = f->sys, .proc_root = f->proc };
	char line[256];

	snprintf(line, sizeof(line), "22 1 0:55 / /mnt/f rw - fuse.ext4 %s rw\n", f->image);
	put(f, line, "proc/self/mountinfo");
	assert_fails(&o, ERROR_OPERATION, "is mounted on /mnt/f");
}

static void test_mounts_load__odd_lines(void **state)
{
	struct fixture *f = *state;
	struct error err = ERROR_INIT;
	struct mounts ms;

	put(f,
	    "\n1 2\nx y z\n1 2 q:r / / rw - a b c\n1 2 3:4 / / rw\n1 2 3:4 / / rw -\n"
	    "1 2 3:4 / /ok rw - t\n",
	    "proc/self/mountinfo");
	assert_int_equal(mounts_load(f->proc, &ms, &err), 0);
	assert_int_equal(ms.n, 1);
	assert_string_equal(mounts_find(&ms, makedev(3, 4))->where, "/ok");
	assert_null(mounts_find(&ms, makedev(3, 5)));
	mounts_release(&ms);
}

/* ---- e2fsck -p ---- */

/* A stand-in for e2fsck that writes down its arguments and descriptors. */
static const char *fake_fsck(const struct fixture *f, const char *body, char path[128])
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "#!/bin/sh\necho \"$@\" >%s/args\nls -l /proc/self/fd >%s/fds\n%s\n", f->dir,
		 f->dir, body);
	put(f, text, "fsck");
	snprintf(path, 128, "%s/fsck", f->dir);
	chmod(path, 0700);
	return path;
}

static void test_preen__exit_codes(void **state)
{
	const struct fixture *f = *state;
	char fsck[128];
	struct volume_options o = { .path = f->image, .preen = true, .e2fsck = fsck };

	fake_fsck(f, "exit 0", fsck);
	assert_opens(&o);
	shell("grep -qxF -- '-p %s' %s/args", f->image, f->dir);
	shell("! grep -q 'image' %s/fds", f->dir); /* our locks are not handed on */
	fake_fsck(f, "exit 1", fsck);
	assert_opens(&o);
	fake_fsck(f, "exit 2", fsck);
	assert_fails(&o, ERROR_FSCK, "exit code 2");
	fake_fsck(f, "exit 4", fsck);
	assert_fails(&o, ERROR_FSCK, "exit code 4; run: e2fsck -f /");
	fake_fsck(f, "kill -9 $$", fsck);
	assert_fails(&o, ERROR_FSCK, "signal 9");
	strcat(fsck, "-is-missing");
	assert_fails(&o, ERROR_OPERATION, "install e2fsprogs");
}

static void test_preen__locks_are_kept_over_it(void **state)
{
	const struct fixture *f = *state;
	char fsck[128], body[128];
	struct volume_options o = { .path = f->image, .preen = true, .e2fsck = fsck };

	snprintf(body, sizeof(body), "flock -n %s true && exit 8; exit 0", f->image);
	fake_fsck(f, body, fsck);
	assert_opens(&o);
}

/* What e2fsck says is not believed: everything is checked anew. */
static void test_preen__checks_again(void **state)
{
	const struct fixture *f = *state;
	char fsck[128], body[512];
	struct volume_options o = { .path = f->image, .preen = true, .e2fsck = fsck };

	snprintf(body, sizeof(body),
		 "printf '\\000' | dd of=%s bs=1 seek=1082 conv=notrunc status=none; exit 0",
		 f->image);
	fake_fsck(f, body, fsck);
	assert_fails(&o, ERROR_FSCK, "checksum");
	snprintf(body, sizeof(body), "mv %s %s.old; cp %s.old %s; exit 0", f->image, f->image,
		 f->image, f->image);
	fake_fsck(f, body, fsck);
	shell("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 -b 1024 -J size=1 %s 8M >/dev/null",
	      f->image);
	assert_fails(&o, ERROR_OPERATION, "became another file");
}

static void test_preen__not_where_it_can_not_help(void **state)
{
	const struct fixture *f = *state;
	char fsck[128], path[160];
	struct volume_options o = { .path = f->image, .preen = true, .e2fsck = fsck };

	fake_fsck(f, "exit 0", fsck);
	shell("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 -O bigalloc -C 2M %s 128M "
	      ">/dev/null",
	      f->image);
	assert_fails(&o, ERROR_USAGE, "bigalloc");
	snprintf(path, sizeof(path), "%s/od?d", f->dir);
	shell("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 -J size=1 '%s' 8M >/dev/null", path);
	o.path = path;
	assert_fails(&o, ERROR_USAGE, "rename it");
	o.preen = false;
	assert_opens(&o);
	o.preen = o.read_only = true;
	assert_fails(&o, ERROR_USAGE, "give one");
	snprintf(fsck, sizeof(fsck), "%s/args", f->dir);
	assert_int_equal(access(fsck, F_OK), -1); /* never run */
}

static void test_preen__repairs_for_real(void **state)
{
	const struct fixture *f = *state;
	struct volume_options o = { .path = f->image };

	shell("PATH=$PATH:/sbin:/usr/sbin debugfs -w -R 'ssv state 0' %s 2>/dev/null", f->image);
	assert_fails(&o, ERROR_FSCK, "run: e2fsck -p /");
	o.preen = true;
	assert_opens(&o);
	o.preen = false;
	assert_opens(&o);
}

/* ---- libext2fs on a device ---- */

static void test_channel__read_only_handle(void **state)
{
	const struct fixture *f = *state;
	struct volume_options o = { .path = f->image };
	struct error err = ERROR_INIT;
	struct ext2_inode inode;
	struct volume *v;
	char block[1024] = "";

	assert_int_equal(volume_open(&o, &v, &err), 0);
	ext2_filsys fs = volume_fs(v);
	assert_int_equal(ext2fs_read_inode(fs, EXT2_ROOT_INO, &inode), 0);
	assert_true(LINUX_S_ISDIR(inode.i_mode));
	assert_int_equal(io_channel_write_blk64(fs->io, 5000, 1, block), EROFS);
	assert_int_equal(io_channel_write_byte(fs->io, 1024, 1, block), EROFS);
	/* no I/O error: the disk holds a wrong number */
	assert_int_equal(io_channel_read_blk64(fs->io, UINT64_MAX / 2, 1, block),
			 EXT2_ET_BAD_BLOCK_NUM);
	assert_int_equal(io_channel_read_blk64(fs->io, 8192, 1, block), EXT2_ET_BAD_BLOCK_NUM);
	assert_int_equal(volume_error_kind(EXT2_ET_BAD_BLOCK_NUM), ERROR_FSCK);
	assert_int_equal(io_channel_read_blk64(fs->io, 1, -2, block), 0);
	volume_close(v);
}

static void test_volume_fs_on__writes_stay_in_the_overlay(void **state)
{
	const struct fixture *f = *state;
	struct volume_options o = { .path = f->image };
	struct error err = ERROR_INIT;
	struct overlay *ov;
	struct volume *v;
	ext2_filsys fs;
	char block[1024], back[1024], disk[1024];

	memset(block, 'w', sizeof(block));
	assert_int_equal(volume_open(&o, &v, &err), 0);
	assert_int_equal(overlay_new(volume_device(v), 1024, &ov, &err), 0);
	assert_int_equal(volume_fs_on(v, overlay_device(ov), &fs, &err), 0);
	assert_int_equal(overlay_dirty_count(ov), 0); /* opening dirties nothing */
	assert_int_equal(io_channel_write_blk64(fs->io, 5000, 1, block), 0);
	assert_int_equal(io_channel_read_blk64(fs->io, 5000, 1, back), 0);
	assert_memory_equal(block, back, sizeof(block));
	assert_int_equal(overlay_dirty_count(ov), 1);
	assert_int_equal(device_read(volume_device(v), disk, 5000 * 1024, sizeof(disk), &err), 0);
	assert_memory_not_equal(block, disk, sizeof(block));
	fs->flags &= ~EXT2_FLAG_DIRTY;
	ext2fs_free(fs);
	overlay_free(ov);
	volume_close(v);
}

/* ---- texts ---- */

static void test_text_escape__hostile_names(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "a\nb\x1b[0m", "a\\x0ab\\x1b[0m" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xc3", "\\xc3" },
		{ "\xc2\x9b", "\\xc2\\x9b" },
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" },
		{ "\xc0\x8a", "\\xc0\\x8a" },
		{ "\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80" },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		text_escape(cases[i].in, strlen(cases[i].in), out, sizeof(out));
		assert_string_equal(out, cases[i].out);
	}
	text_escape("\x1b\x1b\x1b\x1b\x1b", 5, out, 10); /* cut between characters */
	assert_string_equal(out, "\\x1b\\x1b");
}

static void test_text_quote__for_a_shell(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "/dev/sda1", "/dev/sda1" },	  { "a b", "'a b'" }, { "it's", "'it'\\''s'" },
		{ "i?offset=5", "'i?offset=5'" }, { "", "''" },	      { "a\n'", "$'a\\x0a\\x27'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *out = text_quote(cases[i].in);
		assert_string_equal(out, cases[i].out);
		free(out);
	}
}

#define WITH_IMAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_IMAGE(test_volume_open__good_image),
		WITH_IMAGE(test_volume_open__symlink),
		WITH_IMAGE(test_volume_open__what_is_no_image),
		WITH_IMAGE(test_volume_open__no_permission_to_write),
		WITH_IMAGE(test_volume_open__twice),
		WITH_IMAGE(test_volume_open__failing_wrap),
		WITH_IMAGE(test_lock__held_by_others),
		WITH_IMAGE(test_lock__keeps_a_virtual_machine_out),
		WITH_IMAGE(test_holders_check__nothing_to_look_at),
		WITH_IMAGE(test_place_find__disks_and_partitions),
		WITH_IMAGE(test_place_find__disks_that_turn),
		WITH_IMAGE(test_volume_place__image_file),
		cmocka_unit_test(test_volume_into__counts_everything_in),
		WITH_IMAGE(test_holders_check__mounted),
		WITH_IMAGE(test_holders_check__swap),
		WITH_IMAGE(test_holders_check__stacked_devices),
		WITH_IMAGE(test_holders_check__loop_over_the_image),
		WITH_IMAGE(test_holders_check__fuse_mount_of_the_image),
		WITH_IMAGE(test_mounts_load__odd_lines),
		WITH_IMAGE(test_preen__exit_codes),
		WITH_IMAGE(test_preen__locks_are_kept_over_it),
		WITH_IMAGE(test_preen__checks_again),
		WITH_IMAGE(test_preen__not_where_it_can_not_help),
		WITH_IMAGE(test_preen__repairs_for_real),
		WITH_IMAGE(test_channel__read_only_handle),
		WITH_IMAGE(test_volume_fs_on__writes_stay_in_the_overlay),
		cmocka_unit_test(test_text_escape__hostile_names),
		cmocka_unit_test(test_text_quote__for_a_shell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
