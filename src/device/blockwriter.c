/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scaledefrag/blockwriter.h"
#include <stdlib.h>
#include <string.h>

#define STAGE_BYTES (8u << 20)
#define RUN_BYTES   (1u << 20) /* longest request */

int blockwriter_open(struct blockwriter *w, struct device *dev, size_t block_size, uint64_t most,
		     unsigned depth, struct error *err)
{
	size_t blocks = most < STAGE_BYTES / block_size ? (size_t)most : STAGE_BYTES / block_size;

	*w = (struct blockwriter){
		.dev = dev,
		.block_size = block_size,
		.stage_size = blocks * block_size,
		.depth = depth ? depth : 1,
		.stage = device_buffer(blocks * block_size),
		.request = calloc(blocks, sizeof(*w->request)),
	};
	return w->stage && w->request ? 0 : error_nomem(err, "metadata to be written");
}

void blockwriter_close(struct blockwriter *w)
{
	free(w->stage);
	free(w->request);
	*w = (struct blockwriter){ 0 };
}

static void fill(uint8_t *to, const struct blockwriter_block *b, size_t block_size)
{
	memset(to, 0, b->blank);
	if (b->blank < block_size)
		memcpy(to + b->blank, (const uint8_t *)b->data + b->blank, block_size - b->blank);
}

int blockwriter_write(struct blockwriter *w, const struct blockwriter_block *list, size_t n,
		      struct error *err)
{
	size_t bs = w->block_size, i = 0;

	while (i < n) {
		size_t used = 0, n_req = 0;
		uint64_t next = UINT64_MAX;

		for (; i < n && used + bs <= w->stage_size; i++, used += bs) {
			struct device_request *last = n_req ? &w->request[n_req - 1] : NULL;

			fill(w->stage + used, &list[i], bs);
			if (last && list[i].block == next && last->len + bs <= RUN_BYTES) {
				last->len += bs;
			} else {
				w->request[n_req++] = (struct device_request){
					.op = DEVICE_WRITE,
					.offset = list[i].block * bs,
					.len = bs,
					.buf = w->stage + used,
				};
			}
			next = list[i].block + 1;
		}
		w->writes += n_req;
		if (device_run(w->dev, w->depth, w->request, n_req, err))
			return -1;
	}
	return 0;
}
