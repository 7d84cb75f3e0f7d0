# symtuner: an NCCL tuner plugin, its companion kernels, and their tools.
#
#   make             libsymtuner.so and the symtuner command (needs only a C compiler)
#   make kernels     libsymtuner_ar.so (needs nvcc and NCCL >= 2.28 headers)
#   make demo        build, then play NCCL's call order against the plugin and show what it decides
#   make test        the tests that need neither GPU nor nvcc nor jax; installs libcheck when it is missing
#   make test-full   most of them under two compilers, sanitizers and valgrind; parsers under libFuzzer
#   make test-kernels  what nvcc made of the kernels, no GPU;  make test-ar-controls  broken kernels are noticed
#   make jax         libsymtuner_ffi.so, JAX's way to the kernels;  make test-jax  its tests, no GPU
#   make mutants     SEED=1 COUNT=20: break the code at random, which tests notice?
#   make test-gpu    tests on real GPUs; where there are none it says so (the script exits 77, make 2)
#   make bench       what one decision costs;  make bench-gpu  the kernels against NCCL and torch
#   make install     PREFIX=/usr/local DESTDIR=
#
#   V=1 shows commands.  SAN=address,undefined builds with sanitizers into a folder of its own.

VERSION := $(shell awk '/define SYMTUNER_VERSION / {gsub(/"/,"",$$3); print $$3}' include/symtuner.h)
PREFIX  ?= /usr/local
CC      ?= cc
NVCC    ?= nvcc
CFLAGS  ?= -O2 -g
# scheduling only, the code still runs on any x86-64: GPU hosts are at least this new, and a decision
# is a nanosecond shorter (make bench)
TUNE    := $(if $(filter x86_64,$(shell uname -m)),-mtune=haswell)
comma   := ,
B       := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))

override CFLAGS  += $(TUNE) -std=c11 -D_GNU_SOURCE -Iinclude -I. -MMD -MP -fPIC -fvisibility=hidden \
                    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
                    $(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
override LDFLAGS += $(if $(SAN),-fsanitize=$(SAN))
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)

# ---- plugin and command --------------------------------------------------------------------------
MODEL := $(wildcard nccl/model/*.c)# what NCCL would decide: of the command, tested by the suites
BOTH := $(wildcard nccl/*.c rules/*.c)# of the plugin and of the kernels
CORE := $(BOTH) $(wildcard plugin/*.c plugin/*/*.c)
CLI  := $(MODEL) $(wildcard cli/*.c cli/*/*.c)
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
# AR_ARCHS: GPU generations to compile for; the last one also as PTX, for GPUs to come.
#   a development build is quick:  make kernels              (this machine's GPUs are sm_90)
#   a release covers them all:     make kernels AR_ARCHS="80 90 100 120"
# AR_DEFS: -DST_TESTING (pauses in kernels) or -DST_BREAK_NAME (one guard removed, for the negative
#   controls); such a build goes to build/ar-DNAME-90/libsymtuner_ar.so and nowhere else.
CUDA_HOME ?= /usr/local/cuda
# nccl.h: beside CUDA's headers, or in the pip package nvidia-nccl
NCCL_HOME ?= $(if $(wildcard $(CUDA_HOME)/include/nccl.h),$(CUDA_HOME),$(shell python3 -c \
             'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null))
AR_ARCHS  ?= 90
AR_DEFS   ?=
AR_B      := $(B)/ar$(subst $(eval ) ,,$(AR_DEFS))-$(subst $(eval ) ,-,$(strip $(AR_ARCHS)))
AR_INC    := -Iinclude -I. -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include
GENCODE   := $(foreach a,$(AR_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
             $(foreach a,$(lastword $(AR_ARCHS)),-gencode arch=compute_$a,code=compute_$a)
AR_C      := $(wildcard kernels/*/*.c) $(BOTH)
AR_CU     := $(wildcard kernels/device/*.cu)
AR_OBJ    := $(patsubst %,$(AR_B)/%.o,$(AR_C) $(AR_CU))

# Said once and before a compiler says it in its own words.
AR_LACKS = $(strip $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),,cuda_runtime_api.h in CUDA_HOME=$(CUDA_HOME);) \
           $(if $(wildcard $(NCCL_HOME)/include/nccl.h),,nccl.h in NCCL_HOME=$(NCCL_HOME);) \
           $(if $(shell command -v $(NVCC)),,a compiler NVCC=$(NVCC);))
AR_CURE  := install the CUDA toolkit and headers of NCCL 2.28 or newer, or say where they are
.PHONY: need-cuda
need-cuda:
	$(if $(AR_LACKS),@echo 'make kernels: there is no $(AR_LACKS) $(AR_CURE)' >&2; exit 1)
$(AR_OBJ): | need-cuda

kernels: $(AR_B)/libsymtuner_ar.so
	$(if $(AR_DEFS),,$(Q)ln -sf $(patsubst $(B)/%,%,$<) $(B)/libsymtuner_ar.so)

$(AR_B)/libsymtuner_ar.so: $(AR_OBJ) kernels/symtuner_ar.map
	$(call say,LD)
	$(Q)$(CC) -shared -Wl,-soname,libsymtuner_ar.so -Wl,--version-script=kernels/symtuner_ar.map \
	    -Wl,-z,defs -Wl,-z,nodelete -o $@ $(AR_OBJ) -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lpthread -lrt

$(AR_B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -c -o $@ $<

$(AR_B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) -O3 -std=c++17 $(GENCODE) $(AR_INC) $(AR_DEFS) -MMD -MF $@.d -c -o $@ $< \
	    -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-fno-exceptions

# What the kernels and the host share is plain C and tested without a GPU; the host side needs CUDA's
# headers, but runs on a CUDA that only remembers (test/kernels/fake/cuda.c).
AR_API    := $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),$(wildcard $(NCCL_HOME)/include/nccl.h))
AR_NONE   := no cuda_runtime_api.h or nccl.h under CUDA_HOME=$(CUDA_HOME), NCCL_HOME=$(NCCL_HOME)
AR_EMU    := $(wildcard test/kernels/emulated/*.c)
AR_TEST   := $(if $(AR_API),$(wildcard test/kernels/*.c test/kernels/fake/*.c) $(AR_C), test/kernels/main.c test/kernels/check_layout.c \
             test/kernels/fake/capture_stderr.c test/kernels/check_select.c test/kernels/check_rules.c test/kernels/check_probe.c kernels/choose/select.c \
             kernels/host/options.c kernels/choose/probe.c kernels/choose/rules.c $(BOTH))
AR_WRAPPED := $(if $(AR_API),dlopen dlsym pthread_create calloc)# made up, made to fail: test/kernels/check_{nccl,call}.c
AR_CHECK  := $(patsubst %,$(B)/check-ar-obj/%.o,$(AR_TEST))
TEST_ALSO += test-ar

$(AR_CHECK): | need-check
$(B)/check-ar-obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(if $(AR_API),$(AR_INC) -DST_AR_API) -c -o $@ $<
$(B)/check-ar: $(AR_CHECK)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) $(AR_WRAPPED:%=-Wl,--wrap=%) -rdynamic -o $@ $^ $(CHECK_LIBS) -lm -ldl \
	    -lpthread -lrt
test-ar: $(B)/check-ar $(if $(AR_API),$(B)/check-ar-kernels)
	$(Q)$(B)/check-ar
	$(if $(AR_API),$(Q)$(B)/check-ar-kernels,@echo "test-ar: host side and kernels skipped: $(AR_NONE)")

# bench/compare/main.c with its processes and peers, on GPUs made of host memory (test/bench/fake_gpu.c).
CMP_PEERS := good raining hangs wrong
$(B)/peer_raining.so: CMP_DEF := -DNO_CREATE
$(B)/peer_hangs.so:   CMP_DEF := -DHANG_AT=2048
$(B)/peer_wrong.so:   CMP_DEF := -DWRONG_AT=4096
CMP_SRC   := $(wildcard bench/compare/*.c) test/bench/fake_gpu.c
TEST_ALSO += $(if $(AR_API),test-compare)
TEST_NOT  += $(if $(AR_API),,test-compare and half of test-ar: $(AR_NONE).)

$(B)/ar_compare_fake: $(CMP_SRC) $(wildcard bench/compare/*.h) bench/must.h bench/number.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -fvisibility=default -I. $(AR_INC) $(LDFLAGS) -rdynamic -o $@ $(CMP_SRC) \
	    -lm -ldl -lpthread
$(CMP_PEERS:%=$(B)/peer_%.so): test/bench/peer.c bench/compare/peer.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -fvisibility=default -I. $(AR_INC) $(CMP_DEF) -fPIC -shared -o $@ $<
test-compare: $(if $(AR_API),$(B)/ar_compare_fake $(CMP_PEERS:%=$(B)/peer_%.so))
	$(if $(AR_API),$(Q)sh test/bench/compare.sh $(B),@echo "test-compare: skipped: $(AR_NONE)"; exit 77)

# The kernels themselves, compiled as C++ and run on threads of the CPU (test/kernels/emulated/emulate.h).
AR_EMU_OBJ := $(patsubst %,$(B)/check-ar-emu$(AR_BREAK)/%.o,$(AR_EMU) test/kernels/fake/cuda.c $(AR_C) $(AR_CU))
$(AR_EMU_OBJ): | need-check
$(B)/check-ar-emu$(AR_BREAK)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -DST_EMULATE $(AR_BREAK) -c -o $@ $<
$(B)/check-ar-emu$(AR_BREAK)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -O1 -g -std=c++17 $(AR_INC) -I. -DST_EMULATE $(AR_BREAK) -include test/kernels/emulated/emulate.h -MMD -Wall \
	    -Wno-unknown-pragmas -Wno-class-memaccess -Wno-maybe-uninitialized \
	    $(if $(SAN),-fsanitize=$(SAN)) -x c++ -c -o $@ $<
$(B)/check-ar-kernels$(AR_BREAK): $(AR_EMU_OBJ)
	$(call say,LD)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread -lrt

# One guard removed at a time: the emulation must notice (six minutes on two cores).
test-ar-controls:
	$(Q)sh test/kernels/emulated/controls.sh

# What the compiler made of the kernels; needs nvcc but no GPU.
test-kernels:
	$(Q)sh test/kernels/nvls-ptx.sh $(NVCC) $(AR_INC)
	$(Q)sh test/kernels/resources.sh $(NVCC) $(AR_INC) || [ $$? = 77 ]

# First programs for a new box: right bytes? (ar_smoke)  which kernel is fastest? (ar_sweep)
ar-tools: $(B)/ar_smoke $(B)/ar_sweep

$(B)/ar_smoke: bench/ar_smoke_huge.c bench/ar_smoke.h
$(B)/ar_smoke $(B)/ar_sweep: $(B)/%: bench/%.c bench/must.h bench/number.h kernels
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -o $@ $(filter %.c,$^) -L$(B) -lsymtuner_ar -Wl,-rpath,'$$ORIGIN' \
	    -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lpthread -lrt -lm

# ---- JAX -----------------------------------------------------------------------------------------
# libsymtuner_ffi.so: the kernels as an XLA custom call. XLA's one C header comes with the jax that
# JAX_PYTHON has; nothing else of jax, CUDA or NCCL is needed to build.
JAX_PYTHON ?= $(firstword $(wildcard $(B)/jax-venv/bin/python) python3)
FFI_INC     = $(shell $(JAX_PYTHON) -c 'import jax; print(jax.ffi.include_dir())' 2>/dev/null)

jax: $(B)/libsymtuner_ffi.so
$(B)/libsymtuner_ffi.so: $(wildcard jax/*.c jax/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(if $(FFI_INC),,$(error $(JAX_PYTHON) has no jax; JAX_PYTHON=... names one that has))
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) -isystem $(FFI_INC) -shared \
	    -Wl,-soname,$(@F) $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.c,$^) -ldl -lpthread

# handler and package without a GPU; gets jax from PyPI when no Python here has it, else exits 77
test-jax:
	$(Q)JAX_PYTHON=$(if $(filter-out file default,$(origin JAX_PYTHON)),$(JAX_PYTHON)) \
	    CC="$(CC)" CUDA_HOME=$(CUDA_HOME) sh test/jax/run.sh $(B)

# ---- demo and install ----------------------------------------------------------------------------
DEMO := $(call obj,$(wildcard test/demo/*.c))

$(B)/test/demo/demo: $(DEMO)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -rdynamic -o $@ $(DEMO) -ldl

# RULES=FILE plays other rules, GPU=0 never the GPU benchmark
demo: all $(B)/test/demo/demo
	@GPU=$(GPU) RULES=$(RULES) test/demo/run.sh $(B)

# Examples of the pages give what they show, generated pages are fresh, man pages format.
TEST_ALSO += test-docs
test-docs: all $(B)/test/demo/demo | need-check
	$(Q)sh test/docs.sh $(B)

LIB_DIR := $(DESTDIR)$(PREFIX)/lib
install: all
	install -D -m 755 $(B)/libsymtuner.so $(LIB_DIR)/libsymtuner.so
	for role in tuner env profiler; do \
	    ln -sf libsymtuner.so $(LIB_DIR)/libnccl-$$role-symtuner.so; done # NCCL_ENV_PLUGIN=symtuner
	for l in libsymtuner_ar.so libsymtuner_ffi.so; do \
	    if [ -f $(B)/$$l ]; then install -m 755 $(B)/$$l $(LIB_DIR)/$$l; fi; done # kernels, jax
	# headers of what is installed; symtuner_why.h is the command's own
	install -D -m 755 $(B)/symtuner $(DESTDIR)$(PREFIX)/bin/symtuner
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include include/symtuner.h \
	    $(if $(wildcard $(B)/libsymtuner_ar.so),include/symtuner_ar.h)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/symtuner.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 docs/symtuner-rules.5
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/symtuner docs/example.rules
	install -D -m 644 cli/completion.bash \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/symtuner
	$(if $(DESTDIR),,ldconfig 2>/dev/null || true) # so that a bare libsymtuner.so is found

# What the commands print (test/golden/*/*.cmd), predictions of the whole recorded corpus among it.
TEST_ALSO += test-golden
test-golden: $(B)/symtuner | need-check
	$(Q)sh test/golden.sh $(B)/symtuner

# Random words and damaged files against a command; SAN=address,undefined and ROUNDS=100000 for more.
TEST_ALSO += test-cli-fuzz
test-cli-fuzz: $(B)/symtuner $(B)/test/fuzz/cli_fuzz.c.o
	$(Q)$(CC) $(LDFLAGS) -o $(B)/cli_fuzz $(B)/test/fuzz/cli_fuzz.c.o
	$(Q)$(B)/cli_fuzz $(B)/symtuner test/fuzz/why.words test/golden/why/sample.csv $(or $(ROUNDS),300)

# The commands on made-up boxes (files, settings, libraries) and on GPUs made of host memory, and all
# of them but why under random words and damaged files. 77 (no compiler for the libraries) is not a pass.
TEST_ALSO += test-commands
test-commands: all test-cli-fuzz
	$(Q)sh test/cli/doctor.sh $(B)
	$(Q)sh test/cli/gpu.sh $(B)
	$(Q)sh test/cli/completion.sh $(B)
	$(Q)sh test/cli/options.sh $(B)
	$(Q)sh test/cli/install.sh $(B)
	$(Q)sh test/cli/files.sh $(B) || [ $$? = 77 ]
	$(Q)sh test/fuzz/commands.sh $(B) $(or $(ROUNDS),200)

# ---- real GPUs -----------------------------------------------------------------------------------
# NCCL is linked as the shared library that NCCL_HOME has: pip's package ships no libnccl.so link.
NCCL_SO = $(firstword $(wildcard $(NCCL_HOME)/lib64/libnccl.so.2 $(NCCL_HOME)/lib/libnccl.so.2))

NCCL_PROG := nccl_coll nccl_decide nccl_ranks
.SECONDEXPANSION:
$(NCCL_PROG:%=$(B)/%): $(B)/%: $$(wildcard bench/$$*.c test/gpu/$$*.c) bench/must.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O2 -std=gnu11 -Wall -Wextra -I. -isystem $(NCCL_HOME)/include \
	    -isystem $(CUDA_HOME)/include -o $@ $< $(NCCL_SO) -Wl,-rpath,$(dir $(NCCL_SO)) \
	    -L$(CUDA_HOME)/lib64 -lcudart -Wl,-rpath,$(CUDA_HOME)/lib64 -lpthread

# Programs around libsymtuner_ar.so that need NCCL too; LD_LIBRARY_PATH can give them another build of
# it. They link CUDA's shared runtime, as NCCL's users do.
GPU_PROG  := ar_compare ar_fuzz ar_kill ar_late
GPU_SRC    = $(wildcard $(if $(filter ar_compare,$*),bench/compare/*.c bench/compare/*.cu,\
             $(patsubst ar_%,test/gpu/ar/%.c test/gpu/ar/%_*.c test/gpu/ar/%_*.cu,$*)))

$(GPU_PROG:%=$(B)/%): $(B)/%: $$(GPU_SRC) bench/number.h $$(wildcard bench/compare/*.h test/gpu/ar/*.h) | kernels
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) -O2 $(foreach a,$(lastword $(AR_ARCHS)),-gencode arch=compute_$a,code=sm_$a) \
	    -Xcompiler -Wall,-Wextra -I. $(AR_INC) -o $@ $(filter %.c %.cu,$^) -L$(B) -lsymtuner_ar \
	    --cudart shared -lpthread -lm -ldl -Xlinker --no-as-needed,$(NCCL_SO) \
	    -Xlinker -rpath,$(dir $(NCCL_SO)),-rpath,'$$ORIGIN',-rpath,$(CUDA_HOME)/lib64

# Ours against NCCL and torch in turns: BENCH="--quick", "--host", ... (head of bench/compare/main.c)
bench-gpu: $(if $(NCCL_SO),$(B)/ar_compare)
	$(if $(NCCL_SO),$(Q)$(B)/ar_compare --out $(B)/ar_compare.csv $(BENCH),@echo \
	    "bench-gpu: skipped: no libnccl.so.2 under NCCL_HOME=$(NCCL_HOME)"; exit 77)
.PHONY: bench-gpu

# every test/gpu/*.sh: 77 is "cannot run here" and never counts as passed
test-gpu: all $(if $(NCCL_SO),$(NCCL_PROG:%=$(B)/%) \
          $(if $(shell command -v $(NVCC)),$(B)/ar_fuzz $(B)/ar_kill $(B)/ar_late))
	$(Q)sh test/gpu/run.sh $(B)

# ---- tests ---------------------------------------------------------------------------------------
# Further tests: a file test/ROOM/check_NAME.c plus a line in test/suites.h, or a target of your own whose
# name you append to TEST_ALSO above this section; where it cannot run, say so in TEST_NOT instead.
CHECK_LIBS ?= $(shell pkg-config --libs check 2>/dev/null)
SUITES     := $(wildcard test/main.c test/nccl/*.c test/rules/*.c test/plugin/*.c)
HOST       := $(wildcard test/host/*.c)
# the first four are made to fail, one call at a time; the others find libraries that a test made up
WRAPPED    := malloc calloc open open_memstream dlopen dlsym dlclose

$(call obj,$(SUITES) $(HOST)): | need-check
need-check:
	$(Q)sh test/need-check.sh

$(B)/check: $(call obj,$(CORE) $(MODEL) $(SUITES))
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread

# Other people's plugins, for the chaining tests: one library per interface version, and broken ones.
FAKES := $(patsubst %,$(B)/fakes/tuner%.so,2 3 4 5 6 7 _no_init _no_ask _unknown) \
         $(patsubst %,$(B)/fakes/profiler%.so,1 2 3 4 5 6 7) $(B)/fakes/empty.so
fake_version = $(or $(filter 1 2 3 4 5 6 7,$(patsubst tuner%,%,$(patsubst profiler%,%,$*))),5)
fake_def     = -DVERSION=$(fake_version) $(if $(filter %_no_init,$*),-DWITHOUT=1) \
               $(if $(filter %_no_ask,$*),-DWITHOUT=2) \
               $(if $(filter %_unknown,$*),-DncclTunerPlugin_v5=ncclTunerPlugin_v99)
$(B)/fakes/%.so: test/host/fakes/record.h $(wildcard test/host/fakes/*.c include/nccl_abi/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) $(fake_def) -shared -o $@ \
	    test/host/fakes/$(if $(filter profiler%,$*),profiler,$(if $(filter tuner%,$*),tuner,empty)).c

$(B)/check-host: $(call obj,$(HOST)) | $(FAKES)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread

test: test-so $(TEST_ALSO) test-host test-core
	$(if $(strip $(TEST_NOT)),@echo "make test: not run here: $(strip $(TEST_NOT))")
test-core: $(B)/check
	$(Q)$(B)/check
test-host: $(B)/check-host $(B)/libsymtuner.so $(B)/symtuner
	$(Q)$(B)/check-host $(CURDIR)/$(B)/libsymtuner.so
.PHONY: need-check test test-core test-host test-so test-full fuzz bench
test-so: $(B)/libsymtuner.so
	$(Q)sh test/shared-object.sh $(B)/libsymtuner.so

# Plugin, rules and the kernels' host side under sanitizers, the first two also under valgrind and two
# compilers, and the parsers under libFuzzer.
test-full:
	$(Q)sh test/full.sh

# Small changes at random places, one at a time: which suite notices, and which change survives?
# Minutes for a mutant that survives.  SEED=1 COUNT=20 JOBS=1 MUTANTS="--files rules/*.c"
mutants:
	$(Q)python3 test/mutants/mutants.py --seed $(or $(SEED),1) --count $(or $(COUNT),20) \
	    --jobs $(or $(JOBS),1) $(MUTANTS)
.PHONY: mutants

FUZZ_SECONDS ?= 20
FUZZ_FLAGS   := -std=c11 -D_GNU_SOURCE -Iinclude -I. -g -O1 -fsanitize=fuzzer,address,undefined
fuzz: $(B)/fuzz-rules $(B)/fuzz-inline $(B)/fuzz-csv
	$(Q)sh test/fuzz/run.sh $(B) $(FUZZ_SECONDS)
$(B)/fuzz-%: test/fuzz/fuzz.c $(CORE)
	@mkdir -p $(B)/fuzz
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -DFUZZ_$* -o $@ $^ -lpthread -ldl

# ns per decision, beside a plugin that does nothing
bench: $(B)/decide_ns $(B)/empty_tuner.so $(B)/libsymtuner.so
	$(Q)$(B)/decide_ns $(B)/empty_tuner.so $(B)/libsymtuner.so
$(B)/decide_ns: $(B)/bench/decide_ns.c.o
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl
$(B)/empty_tuner.so: $(B)/bench/empty_tuner.c.o
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $^

clean:
	rm -rf build build-*

.PHONY: all kernels jax test-jax demo install test-gpu clean
-include $(shell find $(B) -name '*.d' 2>/dev/null)
