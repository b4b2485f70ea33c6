# SPDX-License-Identifier: GPL-2.0-or-later
# Test programs beyond the unit tests; included by the Makefile after its module rules.
MKIMAGE := $(BUILD)/mkimage
CRASH   := $(BUILD)/crash
PRODUCT := $(filter-out $(BUILD)/src/main.o $(BUILD)/src/options.o,$(OBJ))

$(MKIMAGE): $(BUILD)/fixtures/mkimage.o $(BUILD)/support.a
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/fixtures/%.o: ALL_CFLAGS += -Itests

$(CRASH): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/crash/*.c)) $(BUILD)/support.a $(PRODUCT)
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/support.a $(LIBS)

FAULT := $(BUILD)/fault
MALLOC_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc reallocarray posix_memalign \
	aligned_alloc strdup strndup free)
# The test devices' own allocations must not fail: they call the real functions.
UNWRAPPED := $(foreach o,recorder faultdev,$(BUILD)/unwrapped/$(o).o)
$(BUILD)/unwrapped/%.o: $(BUILD)/tests/support/%.o
	@mkdir -p $(@D)
	$(Q)objcopy $(foreach f,malloc calloc realloc reallocarray free,--redefine-sym $(f)=__real_$(f)) $< $@
$(FAULT): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/fault/*.c)) $(UNWRAPPED) $(PRODUCT) \
		$(BUILD)/support.a
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(MALLOC_WRAP) -o $@ $(filter %.o,$^) $(BUILD)/support.a $(LIBS)

-include $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/crash/*.c tests/fault/*.c fixtures/*.c))
