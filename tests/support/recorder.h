/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recorder: stands in front of a device and logs every completed write and discard and every flush,
 * for tests that cut the power at any point of the log.
 *
 *   recorder_new(), recorder_wrap() (fits volume_options.wrap), work, device_close(),
 *   recorder_trace(), recorder_free()
 *
 * A flush stands where it was *issued*: it covers the writes before it in the log, no others; one
 * that failed covers nothing. Writes that failed are not listed: put a faultdev in front of the
 * recorder, then a torn write is logged as the part that was written.
 * Thread rule: as a device; the trace may be read when no one writes.
 */
#ifndef SUPPORT_RECORDER_H
#define SUPPORT_RECORDER_H

#include "scaledefrag/device.h"

enum recorder_kind { RECORDER_WRITE, RECORDER_FLUSH, RECORDER_DISCARD };

struct recorder_event {
	enum recorder_kind kind;
	uint64_t offset; /* bytes; of writes and discards, as len */
	size_t len;
	void *data;    /* of writes */
	bool failed;   /* of flushes */
	size_t issued; /* events in the log when this was issued: it could reach the disk from then
			  on */
};

struct recorder;

struct recorder *recorder_new(void);
/* `recorder` is a struct recorder. Closing *out closes `inner` too; the trace stays. */
int recorder_wrap(void *recorder, struct device *inner, struct device **out, struct error *err);
/* The log so far; valid until the next write. */
const struct recorder_event *recorder_trace(const struct recorder *rec, size_t *n);
void recorder_free(struct recorder *rec);

#endif
