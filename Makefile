# symtuner: an NCCL tuner plugin, its companion kernels, and their tools.
#
#   make             libsymtuner.so and the symtuner command (needs only a C compiler)
#   make kernels     libsymtuner_ar.so (needs nvcc and NCCL >= 2.28 headers)
#   make demo        build, then play NCCL's call order against the plugin and show what it decides
#   make test        every test that needs no GPU; installs libcheck when it is missing
#   make test-gpu    tests on real GPUs; exits 77 and says why when there are none
#   make install     PREFIX=/usr/local DESTDIR=
#
#   V=1 shows commands.  SAN=address,undefined builds with sanitizers into a folder of its own.

VERSION := $(shell awk '/define SYMTUNER_VERSION / {gsub(/"/,"",$$3); print $$3}' include/symtuner.h)
PREFIX  ?= /usr/local
CC      ?= cc
NVCC    ?= nvcc
CFLAGS  ?= -O2 -g
comma   := ,
B       := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))

override CFLAGS  += -std=c11 -D_GNU_SOURCE -Iinclude -I. -MMD -MP -fPIC -fvisibility=hidden \
                    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
                    $(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
override LDFLAGS += $(if $(SAN),-fsanitize=$(SAN))
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)

# ---- plugin and command --------------------------------------------------------------------------
MODEL := plugin/symmodel.c plugin/gates.c plugin/why_words.c
CORE := $(filter-out $(MODEL),$(wildcard rules/*.c plugin/*.c))
CLI  := $(wildcard cli/*.c) $(MODEL)
obj   = $(patsubst %,$(B)/%.o,$(1))

all: $(B)/libsymtuner.so $(B)/symtuner

$(B)/libsymtuner.so: $(call obj,$(CORE)) plugin/symtuner.map
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=plugin/symtuner.map \
	    -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.o,$^)

$(B)/symtuner: $(call obj,$(CORE) $(CLI))
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread

$(B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<

# ---- kernels -------------------------------------------------------------------------------------

# ---- tests ---------------------------------------------------------------------------------------

clean:
	rm -rf build build-*

.PHONY: all clean
-include $(shell find $(B) -name '*.d' 2>/dev/null)
