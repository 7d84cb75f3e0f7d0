# test.mk - builds and runs the demo, and all tests but those of the kernels and of JAX.

DEMO := $(call obj,$(wildcard test/demo/*.c))

$(B)/test/demo/demo: $(DEMO)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -rdynamic -o $@ $(DEMO) -ldl

# RULES=FILE uses other rules; GPU=0 leaves out the benchmark on GPUs.
demo: all $(B)/test/demo/demo
	@GPU=$(GPU) RULES=$(RULES) test/demo/run.sh $(B)

# Checks that the examples in the docs print what the docs show, that generated pages are up to
# date, and that the man pages format.
TEST_ALSO += test-docs
test-docs: all $(B)/test/demo/demo $(B)/check-corpus | need-check
	$(Q)sh test/docs.sh $(B)

# Compares what the commands print with test/golden/{cli,why}/*.test.
TEST_ALSO += test-golden
test-golden: $(B)/symtuner | need-check
	$(Q)sh test/golden.sh $(B)/symtuner

# Checks that nccl/model predicts every recorded decision of NCCL (test/data/nccl-decisions.csv.xz).
CORPUS := $(wildcard test/corpus/*.c)
$(B)/check-corpus: $(call obj,$(CORPUS) $(MODEL) $(wildcard nccl/*.c))
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm
TEST_ALSO += test-corpus
test-corpus: $(B)/check-corpus | need-check
	$(Q)sh test/corpus/run.sh $(B)

# Runs symtuner why with random words and damaged files. For more: SAN=address,undefined
# ROUNDS=100000.
TEST_ALSO += test-cli-fuzz
test-cli-fuzz: $(B)/symtuner $(B)/check-corpus $(B)/test/fuzz/cli_fuzz.c.o
	$(Q)$(CC) $(LDFLAGS) -o $(B)/cli_fuzz $(B)/test/fuzz/cli_fuzz.c.o
	$(Q)$(B)/cli_fuzz $(B)/symtuner test/fuzz/why.words docs/example.rules $(or $(ROUNDS),300)
	$(Q)$(B)/cli_fuzz $(B)/check-corpus test/fuzz/corpus.words test/corpus/sample.csv \
	    $(or $(ROUNDS),300)

# Tests the benchmark programs without a GPU: bench/scoreboard with workers that report known times
# (test/bench/fake_worker.py), bench/beside.py with a torch that computes nothing,
# bench/torch_steps.py with invented times, and bench/nodes.py and bench/nodes_time.py with invented
# figures.
TEST_ALSO += test-scoreboard
test-scoreboard:
	$(Q)! command -v python3 > /dev/null || python3 test/bench/test_scoreboard.py
	$(Q)! command -v python3 > /dev/null || python3 test/bench/test_beside.py
	$(Q)! command -v python3 > /dev/null || python3 test/bench/test_steps.py
	$(Q)! command -v python3 > /dev/null || python3 test/bench/test_nodes.py

# Runs the commands on made-up boxes (files, settings, libraries) and on fake GPUs in host memory.
# Then runs all commands but why with random words and damaged files (test-cli-fuzz does that for
# why). A script exits with 77 if it lacks a tool for a part of its checks.
TEST_ALSO += test-commands
test-commands: all test-cli-fuzz
	$(Q)sh test/cli/doctor.sh $(B)
	$(Q)sh test/cli/gpu.sh $(B)
	$(Q)sh test/cli/here/here.sh $(B)
	$(Q)sh test/cli/completion.sh $(B)
	$(Q)sh test/cli/options.sh $(B)
	$(Q)sh test/cli/install.sh $(B)
	$(Q)sh test/cli/files.sh $(B) || [ $$? = 77 ]
	$(Q)sh test/cli/run.sh $(B) || [ $$? = 77 ]
	$(Q)sh test/cli/start.sh $(B)
	$(Q)! command -v python3 > /dev/null || python3 test/jax/install/no_jax.py
	$(Q)! command -v python3 > /dev/null || python3 test/cli/build_hook.py
	$(Q)sh test/fuzz/commands.sh $(B) $(or $(ROUNDS),200)

# To add a test, write test/FOLDER/check_NAME.c, and add NAME to test/suites.h. Or write a target of
# your own, and append its name to TEST_ALSO above this line. Where the target cannot run, append
# the reason to TEST_NOT instead.
CHECK_LIBS ?= $(shell pkg-config --libs check 2>/dev/null)
SUITES     := $(wildcard test/main.c test/base/*.c test/nccl/*.c test/rules/*.c test/plugin/*.c \
              test/dropin/check_*.c)
HOST       := $(wildcard test/host/*.c)
# The linker replaces these functions in the tests. The tests make malloc, calloc, open and
# open_memstream fail, one call at a time. The other functions answer for made-up libraries.
WRAPPED    := malloc calloc open open_memstream dlopen dlsym dlclose

$(call obj,$(SUITES) $(HOST)): | need-check
need-check:
	$(Q)sh test/need-check.sh

$(B)/check: $(call obj,$(CORE) $(MODEL) $(TALLY) $(DROPIN_PURE) $(SUITES))
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread

# Some tests let symtuner call another plugin (test/host/chain.h). These are such plugins: one
# library per version of NCCL's interface, and broken ones.
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

# test-commands comes first, because it takes the longest and runs one process at a time.
test: test-commands test-so $(TEST_ALSO) test-host test-core
	$(if $(strip $(TEST_NOT)),@echo "make test: not run here: $(strip $(TEST_NOT))")
test-core: $(B)/check
	$(Q)$(B)/check
test-host: $(B)/check-host $(B)/libsymtuner.so $(B)/symtuner
	$(Q)$(B)/check-host $(CURDIR)/$(B)/libsymtuner.so
.PHONY: need-check test test-core test-host test-so test-full fuzz
test-so: $(B)/libsymtuner.so
	$(Q)sh test/shared-object.sh $(B)/libsymtuner.so

# Runs the plugin, the rules, the drop-in and the host side of the kernels under sanitizers. Also
# runs the plugin and the rules with two compilers and under valgrind, and the parsers under
# libFuzzer.
test-full:
	$(Q)sh test/full.sh

# Makes small random changes of the code, one at a time. Says for each change which suite notices
# it, or that none does. A change that no suite notices takes minutes. Options: SEED=1 COUNT=20
# JOBS=1 MUTANTS="--files rules/*.c"
mutants:
	$(Q)python3 test/mutants/mutants.py --seed $(or $(SEED),1) --count $(or $(COUNT),20) \
	    --jobs $(or $(JOBS),1) $(MUTANTS)
.PHONY: mutants

FUZZ_SECONDS ?= 20
FUZZ_FLAGS   := -std=c11 -D_GNU_SOURCE -Iinclude -I. -g -O1 -fsanitize=fuzzer,address,undefined
fuzz: $(B)/fuzz-rules $(B)/fuzz-inline $(B)/fuzz-csv $(B)/fuzz-hlo
	$(Q)sh test/fuzz/run.sh $(B) $(FUZZ_SECONDS)
$(B)/fuzz-%: test/fuzz/fuzz.c $(CORE)
	@mkdir -p $(B)/fuzz
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -DFUZZ_$* -o $@ $^ -lpthread -ldl
$(B)/fuzz-hlo: test/fuzz/fuzz_hlo.c $(wildcard jax/hlo/*.c)
	@mkdir -p $(B)/fuzz
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -o $@ $^

# Runs every test/gpu/*.sh. The exit status 77 means "cannot run here" and never counts as passed.
test-gpu: all $(B)/gemms $(B)/check-corpus $(if $(NCCL_SO),$(NCCL_PROG:%=$(B)/%) \
          $(if $(shell command -v $(NVCC)),$(B)/ar_fuzz $(B)/ar_kill $(B)/ar_late $(B)/ar_ipc \
          one-gpu))
	$(Q)sh test/gpu/run.sh $(B)
