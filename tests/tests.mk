# SPDX-License-Identifier: GPL-2.0-or-later
# Test programs beyond the unit tests; included by the Makefile after its module rules.
.SECONDARY: # keep the objects of tests

MKIMAGE := $(BUILD)/mkimage
CRASH   := $(BUILD)/crash

$(BUILD)/nosleep.so: tests/support/nosleep.c
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -O1 -o $@ $<
$(MKIMAGE): $(BUILD)/fixtures/mkimage.o $(BUILD)/support.a | $(BUILD)/nosleep.so
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(BUILD)/fixtures/%.o: ALL_CFLAGS += -Itests

$(CRASH): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/crash/*.c)) $(BUILD)/support.a $(PRODUCT) | $(BUILD)/nosleep.so
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

BENCH_PLAN := $(BUILD)/bench-plan
$(BENCH_PLAN): $(BUILD)/tests/bench/plan.o $(BUILD)/support.a $(foreach m,plan report model base,$(call lib,$(m)))
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

BENCH := $(foreach b,age limit threads,$(BUILD)/bench-$(b))
SIM_WRAP := $(patsubst %,-Wl$(comma)--wrap=pthread_%,create join cond_wait cond_broadcast cond_signal)
$(BUILD)/bench-threads: $(BUILD)/tests/bench/threads.o $(BUILD)/tests/bench/simthreads.o \
		$(BUILD)/support.a $(foreach m,move model device base,$(call lib,$(m)))
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(SIM_WRAP) -o $@ $^ $(LIBS)
$(BUILD)/bench-%: $(BUILD)/tests/bench/%.o $(foreach m,model base,$(call lib,$(m)))
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

MKSCALE := $(BUILD)/mkscale
$(MKSCALE): $(BUILD)/tests/bench/mkscale.o $(BUILD)/tests/bench/mkscale_files.o $(BUILD)/support.a
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

-include $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/crash/*.c tests/fault/*.c tests/bench/*.c fixtures/*.c))

.PHONY: build-unit check check-unit check-crash check-fault check-e2e check-san crash-night fault-night
build-unit: $(UNIT)
check: deps ## install what is missing, build, run every test (20 minutes on 2 processors)
	+$(Q)JOBS=$(JOBS) scripts/check
check-unit: ## unit tests
	+$(Q)JOBS=$(JOBS) scripts/check unit
check-crash: ## power cuts: 23,000 states, and mutants that must be found (STATES=N)
	+$(Q)JOBS=$(JOBS) scripts/check crash
check-fault: ## every nth operation and allocation fails; SIGKILL at 200 moments (KILLS=N)
	+$(Q)JOBS=$(JOBS) scripts/check fault
check-e2e: ## whole images, end to end (CASES=DIR, SAMPLES=DIR: with the images there, too)
	+$(Q)JOBS=$(JOBS) scripts/check e2e
check-san: ## unit and end-to-end tests with sanitizers
	+$(Q)JOBS=$(JOBS) scripts/check san
fault-night: ## every allocation in all the sweeps of them
	+$(Q)$(MAKE) --no-print-directory all build/fault
	$(Q)build/fault --all
crash-night: ## power cuts: a million states (SEED=N)
	+$(Q)$(MAKE) --no-print-directory all build/crash
	$(Q)build/crash --jobs $(JOBS) --all --states 1000000 --seed $(or $(SEED),$(shell date +%s))
.PHONY: bench bench-threads bench-profile bench-programs bench-plan
bench-programs: all $(BENCH) $(BENCH_PLAN) $(MKIMAGE)
bench: bench-programs ## as root: against e4defrag, copies and limits; docs/bench.md (ARGS="--runs 1 ...")
	$(Q)scripts/bench $(ARGS)
bench-threads: bench-programs ## defraggers and requests in flight, on models of devices (ARGS="--image FILE ...")
	$(Q)scripts/bench-threads $(ARGS)
bench-profile: bench-programs ## instructions by function (valgrind; ARGS="IMAGE")
	$(Q)scripts/bench-profile $(ARGS)
bench-plan: $(BENCH_PLAN) ## seconds and memory of planning, mode by mode (EXTENTS=N)
	$(Q)for m in files free slabs shrink; do $(BENCH_PLAN) --extents $(or $(EXTENTS),155000) --mode $$m; done
.PHONY: bench-scale
bench-scale: $(BIN) $(MKSCALE) ## scan, plan and memory with millions of files (FILES, RUNS, SIZE)
	$(Q)scripts/bench-scale $(BIN) $(MKSCALE)
include tests/fuzz/fuzz.mk
