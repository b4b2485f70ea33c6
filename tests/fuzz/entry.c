/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What libFuzzer calls. FUZZ_ENTRY: the target's function. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return FUZZ_ENTRY(data, size);
}
