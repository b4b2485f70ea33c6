/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "support/judge.h"
#include "support/image.h"
#include "support/inuse.h"
#include <errno.h>
#include <ext2fs/ext2_fs.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct judge {
	char path[256], mount_dir[256];
	const char *program, *fsck;
	uint64_t size;
	uint8_t *map;
	int out_fd; /* output of the programs that are run */
	struct digest want;
	struct inuse *inuse;
	struct hashset *good;
	char why[8192];
	bool ordered;
	bool no_mounts; /* found out that they are not allowed */
};

struct hashset *hashset_new(size_t n)
{
	size_t slots = 64;
	struct hashset *set;

	while (slots < 2 * n)
		slots *= 2;
	set = mmap(NULL, sizeof(*set) + slots * sizeof(*set->slot), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (set == MAP_FAILED)
		image_die("mmap: %s", strerror(errno));
	set->mask = slots - 1;
	set->slot = (_Atomic uint64_t *)(set + 1);
	return set;
}

bool hashset_has(const struct hashset *set, uint64_t hash)
{
	uint64_t at;

	for (size_t i = hash & set->mask; (at = set->slot[i]); i = (i + 1) & set->mask)
		if (at == hash)
			return true;
	return false;
}

bool hashset_add(struct hashset *set, uint64_t hash)
{
	size_t i = hash & set->mask;

	hash |= !hash;
	if (set->count > set->mask / 4 * 3)
		return false;
	for (;;) {
		uint64_t at = 0;

		if (atomic_compare_exchange_strong(&set->slot[i], &at, hash)) {
			set->count++;
			return true;
		}
		if (at == hash)
			return false;
		i = (i + 1) & set->mask;
	}
}

void hashset_free(struct hashset *set)
{
	munmap(set, sizeof(*set) + (set->mask + 1) * sizeof(*set->slot));
}

struct judge *judge_new(const char *dir, uint64_t size, const char *program, struct hashset *good)
{
	struct judge *j = calloc(1, sizeof(*j));
	int fd;

	if (!j)
		image_die("out of memory");
	j->program = program;
	j->fsck = "e2fsck";
	j->size = size;
	j->good = good;
	snprintf(j->path, sizeof(j->path), "%s/judge-%d.img", dir, (int)getpid());
	snprintf(j->mount_dir, sizeof(j->mount_dir), "%s/judge-%d.mnt", dir, (int)getpid());
	fd = open(j->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		image_die("%s: %s", j->path, strerror(errno));
	j->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	j->out_fd = memfd_create("output", MFD_CLOEXEC);
	if (j->map == MAP_FAILED || j->out_fd < 0)
		image_die("%s: %s", j->path, strerror(errno));
	close(fd);
	return j;
}

void judge_free(struct judge *j)
{
	if (!j)
		return;
	munmap(j->map, j->size);
	close(j->out_fd);
	unlink(j->path);
	rmdir(j->mount_dir);
	digest_release(&j->want);
	inuse_free(j->inuse);
	free(j);
}

void judge_want(struct judge *j, const char *path)
{
	struct ext2_super_block sb;
	char why[512];

	digest_release(&j->want);
	if (digest_image(path, true, &j->want, why, sizeof(why)))
		image_die("%s", why);
	inuse_free(j->inuse);
	j->inuse = inuse_new(path);
	/* The static one starts in half the time; but on one with an MMP block nosleep.so is
	 * wanted, which works on the other only. */
	image_read(path, 1024, &sb, sizeof(sb));
	if (!(sb.s_feature_incompat & EXT4_FEATURE_INCOMPAT_MMP) && image_program("e2fsck.static"))
		j->fsck = "e2fsck.static";
}

void judge_ordered(struct judge *j, bool ordered)
{
	j->ordered = ordered;
}

const char *judge_path(const struct judge *j)
{
	return j->path;
}

const char *judge_why(const struct judge *j)
{
	return j->why;
}

const char *judge_how_name(enum judge_how how)
{
	static const char *const name[JUDGE_HOWS] = { "replay", "preen",  "mount", "rerun",
						      "again",	"in-use", "as-is" };

	return name[how];
}

const uint8_t *judge_image(const struct judge *j)
{
	return j->map;
}

/* Most of it is as before: reading both is less than writing one. */
void judge_load(struct judge *j, const void *image)
{
	const uint64_t page = 4096;

	for (uint64_t at = 0; at < j->size; at += page) {
		const uint8_t *from = (const uint8_t *)image + at;
		uint64_t n = j->size - at < page ? j->size - at : page;

		if (memcmp(j->map + at, from, n) != 0)
			memcpy(j->map + at, from, n);
	}
}

__attribute__((format(printf, 2, 3))) static enum judge_verdict bad(struct judge *j,
								    const char *fmt, ...)
{
	va_list ap;
	size_t n;
	ssize_t got;

	va_start(ap, fmt);
	vsnprintf(j->why, sizeof(j->why) - 1, fmt, ap);
	va_end(ap);
	n = strlen(j->why);
	j->why[n++] = '\n';
	got = pread(j->out_fd, j->why + n, sizeof(j->why) - n - 1, 0);
	j->why[n + (size_t)(got > 0 ? got : 0)] = 0;
	return JUDGE_BAD;
}

/* argv ends with NULL; the output is there for bad(). */
static int run(struct judge *j, const char *const argv[])
{
	if (ftruncate(j->out_fd, 0) || lseek(j->out_fd, 0, SEEK_SET))
		image_die("memfd: %s", strerror(errno));
	return image_run(argv, j->out_fd);
}

static enum judge_verdict check_content(struct judge *j)
{
	const char *const fsck[] = { j->fsck, "-fn", j->path, NULL };
	uint64_t h = j->good ? inuse_hash(j->inuse, j->map) : 0;
	struct digest got;
	char why[512];
	bool same;
	int rc;

	if (j->good && hashset_has(j->good, h))
		return JUDGE_GOOD;
	rc = run(j, fsck);
	if (rc)
		return bad(j, "e2fsck -fn exits %d", rc);
	if (digest_image(j->path, false, &got, why, sizeof(why)))
		return bad(j, "%s", why);
	same = digest_equal(&j->want, &got);
	digest_release(&got);
	if (!same) {
		if (digest_image(j->path, true, &got, why, sizeof(why)))
			return bad(j, "%s", why);
		digest_differ(&j->want, &got, why, sizeof(why));
		digest_release(&got);
		return bad(j, "content differs: %s", why);
	}
	if (j->good)
		hashset_add(j->good, h);
	return JUDGE_GOOD;
}

static int attach_loop(struct judge *j, char *name, size_t n_name)
{
	struct loop_config config = { .block_size = 0 };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), loop = -1;
	int file = open(j->path, O_RDWR | O_CLOEXEC);

	for (int i = 0; control >= 0 && file >= 0 && loop < 0 && i < 100; i++) {
		int nr = ioctl(control, LOOP_CTL_GET_FREE);

		if (nr < 0)
			break;
		snprintf(name, n_name, "/dev/loop%d", nr);
		loop = open(name, O_RDWR | O_CLOEXEC);
		config.fd = (uint32_t)file;
		if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config)) { /* someone was faster */
			int e = errno;

			close(loop);
			loop = -1;
			if (e != EBUSY)
				break;
		}
	}
	if (control >= 0)
		close(control);
	if (file >= 0)
		close(file);
	return loop;
}

/* A bit of s_feature_incompat (at 0x60) or s_feature_ro_compat (at 0x64). */
static bool has_feature(const struct judge *j, unsigned at, uint32_t bit)
{
	uint32_t features;

	memcpy(&features, j->map + 1024 + at, sizeof(features));
	return features & bit;
}

static enum judge_verdict mount_once(struct judge *j)
{
	char name[32] = "";
	int loop = j->no_mounts ? -1 : attach_loop(j, name, sizeof(name)), rc;
	uint16_t state;
	uint32_t errors;

	if (loop < 0) {
		j->no_mounts = true;
		return JUDGE_SKIPPED;
	}
	mkdir(j->mount_dir, 0700);
	rc = mount(name, j->mount_dir, "ext4", MS_NOATIME, "noinit_itable") ? errno : 0;
	/* A kernel without quotas mounts it read-only, and replays the log all the same. */
	if (rc == EINVAL && has_feature(j, 0x64, EXT4_FEATURE_RO_COMPAT_QUOTA))
		rc = mount(name, j->mount_dir, "ext4", MS_RDONLY, NULL) ? errno : 0;
	if (!rc && umount2(j->mount_dir, 0))
		image_die("umount %s: %s", j->mount_dir, strerror(errno));
	ioctl(loop, LOOP_CLR_FD);
	close(loop);
	if (rc == EPERM || rc == ENODEV || rc == EACCES) {
		j->no_mounts = true;
		return JUDGE_SKIPPED;
	}
	if (ftruncate(j->out_fd, 0))
		image_die("memfd: %s", strerror(errno));
	if (rc)
		return bad(j, "the kernel does not mount it: %s", strerror(rc));
	memcpy(&state, j->map + 1024 + 0x3a, sizeof(state));
	memcpy(&errors, j->map + 1024 + 0x194, sizeof(errors));
	if ((state & 3) != 1 || errors)
		return bad(j, "the kernel noted errors: s_state %u, s_error_count %u", state,
			   errors);
	return JUDGE_GOOD;
}

/* What e2fsck would add to the bitmaps: blocks in use that are free there. */
static enum judge_verdict check_in_use(struct judge *j)
{
	const char *const fsck[] = { j->fsck, "-fn", j->path, NULL };
	char text[65536], *at;
	ssize_t n;

	run(j, fsck);
	n = pread(j->out_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "Block bitmap differences:");
	if (!at)
		return JUDGE_GOOD;
	at[strcspn(at, "\n")] = 0;
	return strchr(at, '+') ? bad(j, "blocks in use are free in a bitmap") : JUDGE_GOOD;
}

/* What brings a state back. */
static enum judge_verdict recover(struct judge *j, enum judge_how how)
{
	const char *const replay[] = { j->fsck, "-p", "-E", "journal_only", j->path, NULL };
	const char *const preen[] = { j->fsck, "-p", j->path, NULL };
	int rc = run(j, j->ordered ? preen : replay);
	/* A replay that was cut may have torn the MMP block, which e2fsck writes as two sectors. */
	bool torn = how == JUDGE_AGAIN && has_feature(j, 0x60, EXT4_FEATURE_INCOMPAT_MMP);

	if (rc && !((j->ordered || torn) && rc == 1))
		return bad(j, "e2fsck -p%s exits %d", j->ordered ? "" : " -E journal_only", rc);
	return JUDGE_GOOD;
}

enum judge_verdict judge_check(struct judge *j, enum judge_how how)
{
	const char *const preen[] = { j->fsck, "-p", j->path, NULL };
	const char *const program[] = { j->program, "-q", j->path, NULL };
	enum judge_verdict v;
	int rc;

	j->why[0] = 0;
	if (how == JUDGE_IN_USE)
		return check_in_use(j);
	/* The kernel waits long before it mounts one with an MMP block; e2fsck doesn't here. */
	if (how == JUDGE_MOUNT && has_feature(j, 0x60, EXT4_FEATURE_INCOMPAT_MMP))
		return JUDGE_SKIPPED;
	if (how == JUDGE_MOUNT) {
		v = j->ordered ? recover(j, how) : JUDGE_GOOD;
		if (v == JUDGE_GOOD)
			v = mount_once(j);
		return v == JUDGE_GOOD ? check_content(j) : v;
	}
	if (how == JUDGE_PREEN) {
		rc = run(j, preen);
		return rc <= 1 ? check_content(j) : bad(j, "e2fsck -p exits %d", rc);
	}
	if (how == JUDGE_REPLAY || how == JUDGE_RERUN || how == JUDGE_AGAIN) {
		v = recover(j, how);
		if (v != JUDGE_GOOD)
			return v;
	}
	if (how == JUDGE_RERUN) {
		rc = run(j, program);
		if (rc)
			return bad(j, "%s after replay exits %d", j->program, rc);
	}
	return check_content(j);
}
