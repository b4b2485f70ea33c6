# SPDX-License-Identifier: GPL-2.0-or-later
# Knobs (make VAR=value):
#   V=1                  show commands
#   SAN=address,undefined | thread   sanitizer build in build-SAN/ (thread: clang and libomp)
#   PREFIX, DESTDIR      for install
#   CC, CFLAGS, LDFLAGS  as usual
#   JOBS                 parallel test jobs (default: processors)
PREFIX  ?= /usr/local
DESTDIR ?=
SAN     ?=
V       ?= 0
JOBS    ?= $(shell nproc)
CFLAGS  ?= -O2 -g

comma := ,
BUILD := build$(if $(SAN),-$(firstword $(subst $(comma), ,$(SAN))))
ifeq ($(SAN),thread)
CC := clang
OMPFLAGS := -fopenmp=libomp
else
OMPFLAGS := -fopenmp
endif
Q := $(if $(filter 1,$(V)),,@)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude $(WARN) $(OMPFLAGS) $(CFLAGS) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
ALL_LDFLAGS := $(OMPFLAGS) $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN))
LIBS := -lext2fs -lcom_err -lblkid -laio -lxxhash -ljansson -lm

MODULES := report commit journal move plan scan volume device model base
lib = $(BUILD)/$(1).a
SRC := $(wildcard src/*.c) $(foreach m,$(MODULES),$(wildcard src/$(m)/*.c))
OBJ := $(SRC:%.c=$(BUILD)/%.o)
BIN := $(BUILD)/scaledefrag-offline

UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
# Modules a unit test links (default: all). Keeps tests of one module independent of the others.
LINK_test_error    := base
LINK_test_rangeset := base
LINK_test_sort     := base
LINK_test_device   := device base
LINK_test_overlay  := device base
LINK_test_aio      := device base
LINK_test_faultdev := device base
LINK_test_filemap  := model base
LINK_test_snapshot := model base
LINK_test_plan     := model base
LINK_test_planner  := plan model base
LINK_test_verify   := plan model base
LINK_test_modes    := plan model base
LINK_test_permute  := plan model base
LINK_test_journal  := journal device base
LINK_test_move     := move model device base
LINK_test_volume   := volume device base
LINK_test_guard    := volume device base
LINK_test_scan     := scan volume model device base
LINK_test_commit   := commit journal volume model device base
LINK_test_report   := report model base
LINK_test_picture  := report model base
LINK_test_json     := report model base
LINK_test_options  := report move model device base
LINK_test_discard  := scan volume model device base
LINK_test_slab     := base

COMPLETIONS := $(foreach s,bash zsh fish,$(BUILD)/completions/$(s))

.PHONY: all
all: $(BIN) $(if $(SAN),,$(COMPLETIONS)) ## build build/scaledefrag-offline

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'knobs:'
	@sed -n 's/^#   /  /p' Makefile

$(BIN): $(OBJ)
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@echo "  CC $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(filter tests/%,$<),-Itests) -MMD -MP -c -o $@ $<

$(BUILD)/completions/generate: $(BUILD)/completions/generate.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(COMPLETIONS): $(BUILD)/completions/%: $(BUILD)/completions/generate
	$(Q)$< $* >$@.new && mv $@.new $@

define module_rule
$$(BUILD)/$(1).a: $$(patsubst %.c,$$(BUILD)/%.o,$$(wildcard src/$(1)/*.c))
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module_rule,$(m))))
$(BUILD)/support.a: $(SUPPORT)
	@rm -f $@
	$(Q)ar rcs $@ $^

.SECONDEXPANSION:
linked = $(foreach m,$(or $(LINK_$(1)),$(MODULES)),$(call lib,$(m)))
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/support.a $$(call linked,$$*)
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(BUILD)/support.a $(call linked,$*) $(LIBS) -lcmocka

# Installs what is missing on a Debian 12; does nothing where all is present.
.PHONY: deps
deps: ## install what the build and the tests need
	$(Q)scripts/install-deps

.PHONY: demo
demo: ## install what is missing, build, defragment a bundled image, show before and after
	$(Q)scripts/install-deps --build
	$(Q)$(MAKE) --no-print-directory all
	$(Q)scripts/demo $(BIN)

# Not part of the tests: pictures are for looking at.
.PHONY: screenshot
screenshot: all ## build/screenshot: report and map of the demo image, drawn by headless Chromium
	$(Q)scripts/screenshot $(BIN)

.PHONY: install
install: all ## install the program, its man page and completions (DESTDIR, PREFIX)
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/sbin/scaledefrag-offline
	install -D -m 644 man/scaledefrag-offline.8 $(DESTDIR)$(PREFIX)/share/man/man8/scaledefrag-offline.8
	install -D -m 644 docs/json.md $(DESTDIR)$(PREFIX)/share/doc/scaledefrag-offline/json.md
	install -D -m 644 $(BUILD)/completions/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/scaledefrag-offline
	install -D -m 644 $(BUILD)/completions/zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_scaledefrag-offline
	install -D -m 644 $(BUILD)/completions/fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/scaledefrag-offline.fish

C_FILES = $(shell git ls-files '*.c' '*.h' 2>/dev/null || find src include tests fixtures completions -name '*.[ch]')
.PHONY: lint
lint: ## clang-format, cppcheck, the man page's own check
	clang-format --dry-run -Werror $(C_FILES)
	cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 \
		--suppress=missingIncludeSystem -D_GNU_SOURCE -Iinclude -Isrc src
	mandoc -T lint -W warning man/scaledefrag-offline.8

# check, check-unit, check-crash, check-fault, check-e2e, check-san, crash-night
-include tests/tests.mk

.PHONY: clean
clean: ## remove build folders
	rm -rf build build-*

-include $(OBJ:.o=.d) $(BUILD)/completions/generate.d $(SUPPORT:.o=.d) $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%.d,$(wildcard tests/unit/*.c))
