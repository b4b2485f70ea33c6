# SPDX-License-Identifier: GPL-2.0-or-later
# Test programs beyond the unit tests; included by the Makefile after its module rules.
MKIMAGE := $(BUILD)/mkimage

$(MKIMAGE): $(BUILD)/fixtures/mkimage.o $(BUILD)/support.a
	@echo "  LD $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/fixtures/%.o: ALL_CFLAGS += -Itests
