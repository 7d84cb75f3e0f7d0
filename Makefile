# symtuner: an NCCL tuner plugin, its companion kernels, and their tools.
#
#   make             libsymtuner.so and the symtuner command (needs only a C compiler)
#   make kernels     libsymtuner_ar.so (needs nvcc and NCCL >= 2.28 headers)
#   make demo        build, then call the plugin as NCCL would, and show what it decides
#   make test        the tests that need neither GPU nor nvcc nor jax; installs libcheck if it is
#                    missing
#   make test-full   most of these tests, with two compilers, sanitizers, valgrind and libFuzzer
#   make test-kernels      checks what nvcc made of the kernels; needs no GPU
#   make test-ar-controls  breaks the kernels on purpose, and checks that the tests notice it
#   make jax         libsymtuner_ffi.so, by which JAX calls the kernels
#   make test-jax    the tests of the JAX path; they need no GPU
#   make mutants     SEED=1 COUNT=20: breaks the code at random, and says which tests notice it
#   make test-gpu    tests on real GPUs; without GPUs the script exits with 77, and make with 2
#   make bench       measures what one decision costs
#   make bench-gpu   measures the kernels against NCCL and torch
#   make install     PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR=
#   make uninstall   removes what make install has installed
#   make dist wheel sdist deb   packages, in build/dist;  make test-packages uses them
#
#   V=1 shows commands.  SAN=address,undefined builds with sanitizers into a folder of its own.

VERSION := $(shell awk '/define SYMTUNER_VERSION / {gsub(/"/,"",$$3); print $$3}' \
             include/symtuner.h)
PREFIX  ?= /usr/local
CC      ?= cc
NVCC    ?= nvcc
CFLAGS  ?= -O2 -g
# The compiler orders instructions for Haswell, but the code still runs on any x86-64. Hosts of GPUs
# have Haswell or newer. A decision of the plugin takes a nanosecond less than without -mtune (make
# bench).
TUNE    := $(if $(filter x86_64,$(shell uname -m)),-mtune=haswell)
comma   := ,
B       := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
# If B begins with the path of this tree, drop that path. The compiler writes the names of objects
# into the *.d files, and a later make with a B without the path would not know these objects.
override B := $(if $(filter /%,$(B)),$(patsubst $(CURDIR)/%,%,$(or $(realpath $(B)),$(B))),$(B))
# OUT: the folder for linked files.  LINK: the program that links them.  packaging/ sets both,
# because it links the same objects for older systems.
OUT     := $(B)
LINK    := $(CC)

override CFLAGS  += $(TUNE) -std=c11 -D_GNU_SOURCE -Iinclude -I. -MMD -MP -fPIC \
                    -fvisibility=hidden -Wall -Wextra -Wshadow -Wstrict-prototypes \
                    -Wmissing-prototypes \
                    $(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
override LDFLAGS += $(if $(SAN),-fsanitize=$(SAN))
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)

# ---- plugin and command --------------------------------------------------------------------------
# MODEL works out what NCCL would decide; the command and the tests link it. The plugin and the
# kernels' library link BOTH. TALLY counts a job's NCCL calls; the drop-in and the command link it.
MODEL := $(wildcard nccl/model/*.c)
BOTH  := $(wildcard base/*.c nccl/*.c rules/*.c)
CORE  := $(BOTH) $(wildcard plugin/*.c plugin/*/*.c)
TALLY := dropin/tally.c
CLI   := $(MODEL) $(wildcard cli/*.c cli/*/*.c)
obj    = $(patsubst %,$(B)/%.o,$(1))

all: $(OUT)/libsymtuner.so $(OUT)/libsymtuner_nccl.so $(OUT)/symtuner

$(OUT)/libsymtuner.so: $(call obj,$(CORE)) plugin/symtuner.map
	$(call say,LD)
	$(Q)$(LINK) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=plugin/symtuner.map \
	    -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.o,$^)

$(OUT)/symtuner: $(call obj,$(CORE) $(CLI) $(TALLY))
	$(call say,LD)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread

$(B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<
$(B)/cli/report/report.c.o: cli/report/report.html

# ---- the rest ------------------------------------------------------------------------------------
clean:
	rm -rf build build-*

.PHONY: all kernels jax test-jax demo test-gpu clean

# ---- the makefiles of the folders ----------------------------------------------------------------
# test/test.mk comes last, because the files before it add their tests to TEST_ALSO.
include kernels/kernels.mk dropin/dropin.mk jax/jax.mk packaging/packaging.mk bench/bench.mk \
        test/gpu/one/one.mk test/kernels/test.mk test/dropin/test.mk test/whole/test.mk test/test.mk
-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
