/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * faultdev: stands in front of a device, counts operations and makes the chosen ones fail.
 *
 *   faultdev_new(), faultdev_set(), faultdev_wrap() (fits volume_options.wrap), work,
 *   device_close(), faultdev_count(), faultdev_fired(), faultdev_free()
 *
 * Each queued request counts as a read or write of its own, in order of submission, and fails as
 * its result; each submit call counts as FAULT_SUBMIT and fails as a whole. Thread rule: as a
 * device.
 */
#ifndef SUPPORT_FAULTDEV_H
#define SUPPORT_FAULTDEV_H

#include "scaledefrag/device.h"

enum fault_op {
	FAULT_NONE,
	FAULT_READ,
	FAULT_WRITE,
	FAULT_FLUSH,
	FAULT_SUBMIT,
	FAULT_DISCARD,
	FAULT_ANY, /* reads, writes, flushes and discards, counted together */
	FAULT_OPS,
};

struct fault_plan {
	enum fault_op op; /* which operations count for nth */
	uint64_t nth;	  /* the nth of them fails, from 1 on; 0: none by count */
	int sys;	  /* with this errno; 0: EIO */
	bool torn;	  /* a write that fails by count first writes its first half */
	bool sticky;	  /* and whatever comes after it, of any kind, fails too */

	/* A bad place: operations of this kind (FAULT_ANY: reads and writes) that touch
	 * [bad_from, bad_from + bad_len) fail always. */
	enum fault_op bad_op;
	uint64_t bad_from, bad_len; /* bytes */
};

struct faultdev;

struct faultdev *faultdev_new(void);
/* Sets what fails from now on; counts start anew. */
void faultdev_set(struct faultdev *fd, struct fault_plan plan);
/* `faultdev` is a struct faultdev. Closing *out closes `inner` too. */
int faultdev_wrap(void *faultdev, struct device *inner, struct device **out, struct error *err);
uint64_t faultdev_count(struct faultdev *fd, enum fault_op op); /* since faultdev_set */
uint64_t faultdev_fired(struct faultdev *fd); /* operations that were made to fail */
void faultdev_free(struct faultdev *fd);

#endif
