# SPDX-License-Identifier: GPL-2.0-or-later
# Fuzzing; included by tests.mk. The replay needs no clang. Knobs: FUZZ_SECONDS (per target, 60),
# FUZZ_TARGET (one of them; default all), FUZZ_FLAGS (for libFuzzer).
FUZZ_TARGETS := volume engine disk journal text options
FUZZ_TARGET  ?= $(FUZZ_TARGETS)
FUZZ_SECONDS ?= 60
FUZZ_FLAGS   ?=
export FUZZ_SECONDS FUZZ_FLAGS

FUZZ_SRC := $(filter-out $(patsubst %,tests/fuzz/%.c,entry replay peer peers),$(wildcard tests/fuzz/*.c))
REPLAY   := $(BUILD)/fuzz-replay
$(REPLAY): $(FUZZ_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tests/fuzz/replay.o $(BUILD)/support.a \
		$(filter-out $(BUILD)/src/main.o,$(OBJ))
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/support.a $(LIBS)

PEERS_RUN := $(BUILD)/peers-run
$(PEERS_RUN): $(patsubst %,$(BUILD)/tests/fuzz/%.o,peers peer images edits bytes) $(BUILD)/support.a \
		$(filter-out $(BUILD)/src/main.o $(BUILD)/src/options.o,$(OBJ))
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/support.a $(LIBS)

# libFuzzer: everything of ours anew, by clang, with sanitizers, one thread.
FUZZ_BUILD := build-fuzz
FUZZ_CC    := clang
FUZZ_SAN   ?= -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_CFLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Itests -O1 -g \
	-fno-omit-frame-pointer -Wno-unknown-pragmas $(FUZZ_SAN)
# What guides the fuzzer: the code that reads hostile bytes. Coverage of the rest would only cost time.
FUZZ_GUIDES := src/volume/% src/scan/% src/journal/% src/model/% src/plan/verify% src/commit/% src/options.c src/values.c
fuzz_objects = $(patsubst %.c,$(1)/%.o,$(FUZZ_SRC) $(filter-out src/main.c,$(SRC)) \
	$(patsubst %,tests/support/%.c,digest image image_tools memdev))
$(FUZZ_BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@echo "  CC $<")
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) $(if $(filter $(FUZZ_GUIDES),$<),-fsanitize=fuzzer-no-link) -MMD -MP -c -o $@ $<
$(FUZZ_BUILD)/fuzz-%: $(call fuzz_objects,$(FUZZ_BUILD)) tests/fuzz/entry.c
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -DFUZZ_ENTRY=fuzz_$* -o $@ $^ $(LIBS)
.PRECIOUS: $(FUZZ_BUILD)/fuzz-%
# With a changed copy of one source, DIR/FILE: scripts/fuzz plants bugs so.
fuzz-with: $(filter-out $(FUZZ_BUILD)/$(FILE:.c=.o),$(call fuzz_objects,$(FUZZ_BUILD))) tests/fuzz/entry.c
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -c -o $(DIR)/planted.o $(DIR)/$(FILE)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -DFUZZ_ENTRY=fuzz_$(FUZZ_TARGET) \
		-o $(DIR)/fuzz $^ $(DIR)/planted.o $(LIBS)

-include $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/fuzz/*.c)) \
	$(patsubst %.o,%.d,$(call fuzz_objects,$(FUZZ_BUILD)))

.PHONY: fuzz fuzz-binaries fuzz-with fuzz-planted fuzz-coverage peer-images check-fuzz
fuzz-binaries: $(FUZZ_TARGET:%=$(FUZZ_BUILD)/fuzz-%)
fuzz: ## libFuzzer (FUZZ_SECONDS=N per target, FUZZ_TARGET=volume|engine|disk|journal|text|options)
	+$(Q)$(MAKE) --no-print-directory $(REPLAY) fuzz-binaries
	$(Q)scripts/fuzz run $(FUZZ_TARGET)
fuzz-planted: ## eight planted bugs, each found by its target
	+$(Q)$(MAKE) --no-print-directory $(REPLAY) fuzz-binaries FUZZ_TARGET="$(FUZZ_TARGETS)"
	$(Q)scripts/fuzz planted
fuzz-coverage: ## lines of the parsers that the corpus reaches; 90 % or more
	$(Q)scripts/fuzz coverage
peer-images: ## e2fsprogs' own test images, as they are and with FLIPS=N (1000) bytes changed, each
	+$(Q)$(MAKE) --no-print-directory $(PEERS_RUN)
	$(Q)scripts/peer-images $(or $(FLIPS),1000)
check-fuzz: ## the corpus of the fuzzers, replayed
	+$(Q)JOBS=$(JOBS) scripts/check fuzz
