# SPDX-License-Identifier: GPL-2.0-or-later
# Knobs (make VAR=value):
#   V=1                  show commands
#   SAN=address,undefined | thread   sanitizer build in build-SAN/ (thread: clang and libomp)
#   PREFIX, DESTDIR      for install; LIBDIR for install-lib
#   SOURCE_DATE_EPOCH    dist: time of its files (default: of the last commit)
#   CC, CFLAGS, LDFLAGS  as usual
#   JOBS                 parallel test jobs (default: processors)
#   FUZZ_SECONDS, FUZZ_TARGET   seconds for each target (60), and which; FLIPS for peer-images (1000),
#                        RESUME=FILE and LIMIT=SECONDS to do it in several goes
PREFIX  ?= /usr/local
DESTDIR ?=
LIBDIR  ?= $(PREFIX)/lib
SAN     ?=
V       ?= 0
JOBS    ?= $(shell nproc)
# Sanitizers name files and lines; more than that takes a third of the compiler's time.
CFLAGS  ?= -O2 $(if $(SAN),-g1,-g)

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
# These are the program; all else is the library.
PROGRAM := $(patsubst %,$(BUILD)/src/%.o,main options command values outputs front)
PRODUCT := $(filter-out $(PROGRAM),$(OBJ))
VERSION := $(shell sed -n 's/^.define SCALEDEFRAG_VERSION "\(.*\)"/\1/p' include/scaledefrag.h)

UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# nosleep.c is a library of its own: linked in, it would take the time from the tests themselves.
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/support/nosleep.c,$(wildcard tests/support/*.c)))
# Modules a unit test links (default: all). Keeps tests of one module independent of the others.
LINK_test_error    := base
LINK_test_rangeset := base
LINK_test_sort     := base
LINK_test_device   := device base
LINK_test_overlay  := device base
LINK_test_aio      := device base
LINK_test_faultdev := device base
LINK_test_slowdev  := device base
LINK_test_filemap  := model base
LINK_test_snapshot := report model base
LINK_test_plan     := report model base
LINK_test_planner  := report plan model base
LINK_test_verify   := plan model base
LINK_test_layout   := plan model base
LINK_test_modes    := plan model base
LINK_test_permute  := report plan model base
LINK_test_journal  := journal device base
LINK_test_move     := move model device base
LINK_test_volume   := volume device base
LINK_test_guard    := volume device base
LINK_test_scan     := report scan volume model device base
LINK_test_crosscheck := scan volume model device base
LINK_test_commit   := commit journal volume model device base
LINK_test_report   := report model base
LINK_test_library  := library
LINK_test_kinds    := product
LINK_test_dropped  := product
LINK_test_passes   := product
LINK_test_worse    := product
LINK_test_picture  := report model base
LINK_test_progress := report model base
LINK_test_json     := report model base
LINK_test_options  := report move model device base
LINK_test_discard  := scan volume model device base
LINK_test_slab     := base
LINK_test_measure  := model device base

COMPLETIONS := $(foreach s,bash zsh fish,$(BUILD)/completions/$(s))

.PHONY: all
all: $(BIN) $(if $(SAN),,$(COMPLETIONS)) ## build build/scaledefrag-offline

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'knobs:'
	@sed -n 's/^#   /  /p' Makefile

$(BIN): $(PROGRAM) $(BUILD)/library.o
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# Runs without any library, in an initramfs, so every kilobyte counts: objects of its own, without
# what only a debugger needs. OpenMP's plugins for other processors (dlopen) are not used, so the
# linker's warning about them says nothing.
STATIC_CFLAGS := -Os -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
STATIC_OBJ := $(SRC:%.c=$(BUILD)/static/%.o)
.PHONY: static
static: $(BIN)-static ## build the static program, for rescue systems
$(BIN)-static: $(STATIC_OBJ)
	$(if $(filter 1,$(V)),,@echo "  LD $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -static -s -Wl,--gc-sections -o $@ $^ $(LIBS) 2>$@.log || \
		{ cat $@.log >&2; exit 1; }
$(BUILD)/static/%.o: %.c
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@echo "  CC $< (static)")
	$(Q)$(CC) $(ALL_CFLAGS) $(STATIC_CFLAGS) -MMD -MP -c -o $@ $<

# libscaledefrag: one object, so that the names the modules share stay inside of it.
.PHONY: lib
lib: $(BUILD)/libscaledefrag.a $(BUILD)/scaledefrag.pc ## build the library
$(BUILD)/library.o: $(PRODUCT)
	$(Q)$(LD) -r -o $@ $^
$(BUILD)/libscaledefrag.a: $(BUILD)/library.o
	@rm -f $@
	$(Q)objcopy -w --keep-global-symbol='scaledefrag_*' $< $(BUILD)/scaledefrag.o
	$(Q)ar rcsD $@ $(BUILD)/scaledefrag.o
# Installed under another prefix, it is another file.
.PHONY: FORCE
$(BUILD)/scaledefrag.pc: src/scaledefrag.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' \
		-e 's|@OPENMP@|$(if $(findstring clang,$(CC)),-lomp,-lgomp)|' $< >$@

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
linked = $(if $(filter library,$(LINK_$(1))),$(BUILD)/libscaledefrag.a,$(if $(filter \
	product,$(LINK_$(1))),$(PRODUCT),$(foreach m,$(or $(LINK_$(1)),$(MODULES)),$(call lib,$(m)))))
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

.PHONY: install-lib
install-lib: lib ## install the library: archive, header, pkg-config file
	install -D -m 644 $(BUILD)/libscaledefrag.a $(DESTDIR)$(LIBDIR)/libscaledefrag.a
	install -D -m 644 $(BUILD)/scaledefrag.pc $(DESTDIR)$(LIBDIR)/pkgconfig/scaledefrag.pc
	install -D -m 644 include/scaledefrag.h $(DESTDIR)$(PREFIX)/include/scaledefrag.h

.PHONY: dist
dist: ## make a source archive in build/; the same bytes each time
	$(Q)scripts/dist $(VERSION)

.PHONY: deb check-chroot check-boot
deb: ## make Debian packages in build/deb/, and let lintian look at them
	+$(Q)scripts/build-deb
check-chroot: ## as root: install them in a clean Debian chroot, run the demo and more (10 minutes)
	+$(Q)scripts/check-chroot
check-boot: ## boot a virtual machine with the example hook in its initramfs (2 minutes)
	+$(Q)$(MAKE) --no-print-directory all static build/mkimage
	$(Q)scripts/check-boot

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

-include $(OBJ:.o=.d) $(STATIC_OBJ:.o=.d) $(BUILD)/completions/generate.d $(SUPPORT:.o=.d) $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%.d,$(wildcard tests/unit/*.c))
