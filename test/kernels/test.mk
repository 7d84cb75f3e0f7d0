# test.mk - the tests of the kernels, and of the program that compares them with others, without a
# GPU.

# The code that kernels and host share is plain C, and its tests need neither GPU nor CUDA. The
# tests of the host side need CUDA's headers, but run on a fake CUDA that only records its calls
# (test/kernels/fake/cuda.c). AR_NO_CU stands for the compiled kernels.
AR_API    := $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),\
             $(wildcard $(NCCL_HOME)/include/nccl.h))
AR_NONE   := no cuda_runtime_api.h or nccl.h under CUDA_HOME=$(CUDA_HOME), NCCL_HOME=$(NCCL_HOME)
AR_SKIP    = @echo "$@: skipped: $(AR_NONE)"
AR_NO_CU  := test/kernels/threads/kernels.c
AR_FAKE   := cuda capture capture_info event_nodes links memory steps vmm
AR_EMU    := $(wildcard test/kernels/emulated/*.c)
AR_TEST   := $(if $(AR_API),test/dropin/headers.c $(wildcard test/kernels/*.c \
             test/kernels/choose/*.c test/kernels/scratch/*.c test/kernels/ipc/*.c \
             test/kernels/life/*.c test/kernels/order/*.c test/kernels/windows/*.c \
             test/kernels/fake/*.c) $(AR_NO_CU) $(AR_C),$(wildcard test/kernels/choose/*.c) \
             $(patsubst %,test/kernels/%.c,main check_layout check_options fake/capture_stderr) \
             $(wildcard kernels/choose/*.c) kernels/host/options.c $(BOTH))
# The functions that the linker replaces in these tests. dlopen and dlsym find a made-up NCCL
# (check_nccl.c). pthread_create, calloc and shm_open can fail (check_call.c, scratch/check_grow.c).
# getpid returns another number in each thread (ipc/check_ipc.c).
AR_WRAPPED := $(if $(AR_API),dlopen dlsym pthread_create calloc shm_open getpid)
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
# test-ar is split into several targets, so that make -j runs them side by side.
test-ar: test-ar-host $(if $(AR_API),test-ar-kernels test-ar-threads test-nodes test-nodes-emu)
	$(if $(AR_API),,@echo "test-ar: host side and kernels skipped: $(AR_NONE)")
test-ar-host: $(B)/check-ar
	$(Q)$(B)/check-ar
test-ar-kernels: $(B)/check-ar-kernels
	$(Q)$(B)/check-ar-kernels
test-nodes-emu: $(B)/check-nodes-emu
	$(Q)$(B)/check-nodes-emu
.PHONY: test-ar test-ar-host test-ar-kernels test-nodes-emu

# Builds bench/compare/main.c and libraries that it compares, and runs them on fake GPUs in host
# memory (test/bench/fake_gpu.c).
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
	$(if $(AR_API),$(Q)sh test/bench/compare.sh $(B),$(AR_SKIP); exit 77)

# Compiles the kernels themselves as C++. They run on threads of the CPU
# (test/kernels/emulated/emulate.h).
AR_EMU_OBJ := $(patsubst %,$(B)/check-ar-emu$(AR_BREAK)/%.o,\
              $(AR_EMU) $(patsubst %,test/kernels/fake/%.c,$(AR_FAKE)) $(AR_C) $(AR_CU))
$(AR_EMU_OBJ): | need-check
$(B)/check-ar-emu$(AR_BREAK)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -DST_EMULATE $(AR_BREAK) -c -o $@ $<
$(B)/check-ar-emu$(AR_BREAK)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -O1 -g -std=c++17 $(AR_INC) -I. -DST_EMULATE $(AR_BREAK) \
	    -include test/kernels/emulated/emulate.h -MMD -MP -Wall -Wno-unknown-pragmas \
	    -Wno-class-memaccess -Wno-maybe-uninitialized $(if $(SAN),-fsanitize=$(SAN)) \
	    -x c++ -c -o $@ $<
$(B)/check-ar-kernels$(AR_BREAK): $(AR_EMU_OBJ)
	$(call say,LD)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread -lrt

# check-nodes and check-nodes-emu test ranks on several boxes, with a fake NCCL that can split
# communicators (test/kernels/nodes/net.h). check-nodes uses the fake CUDA, which runs no kernels,
# so it tests only the host side. check-nodes-emu tests results: it emulates the kernels, on the
# CUDA runtime of test/whole, where each stream is a thread. Both use the NCCL of test/whole.
WH_CUDA := $(patsubst %,test/whole/%.c,cuda graph gpu memops) \
           $(patsubst %,test/kernels/fake/%.c,links capture_info memory vmm) \
           $(patsubst %,test/kernels/emulated/%.c,emulate emulate_tma)
WH_NCCL := $(patsubst %,test/whole/%.c,nccl team values)
NODES_TEST := $(wildcard test/kernels/nodes/*.c)
NODES_OBJ  := $(patsubst %,$(B)/check-ar-obj/%.o,\
              $(filter-out %_values.c %_lost.c %_turns.c,$(NODES_TEST)) \
              $(patsubst %,test/kernels/fake/%.c,$(AR_FAKE) capture_stderr) $(AR_NO_CU) \
              $(WH_NCCL) $(AR_C))
NODES_EMU  := $(patsubst %,$(B)/check-ar-emu/%.o,$(patsubst %,test/kernels/nodes/%.c,net group \
              check_values check_lost check_turns) test/kernels/fake/steps.c $(WH_CUDA) $(WH_NCCL) \
              $(AR_C) $(AR_CU))
# The functions that the linker replaces in check-nodes: getenv (net.c), the clock, and fake_step,
# which the fakes call at each of their steps (both in check_measure.c).
NODES_WRAPPED := getenv clock_gettime fake_step
$(NODES_OBJ) $(NODES_EMU): | need-check
$(B)/check-nodes: $(NODES_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) $(NODES_WRAPPED:%=-Wl,--wrap=%) -rdynamic -o $@ $^ $(CHECK_LIBS) -lm -ldl \
	    -lpthread -lrt
$(B)/check-nodes-emu: $(NODES_EMU)
	$(call say,LD)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--wrap=getenv -rdynamic -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread -lrt

# Runs check-nodes alone, for ThreadSanitizer.
test-nodes: $(if $(AR_API),$(B)/check-nodes)
	$(if $(AR_API),$(Q)$(B)/check-nodes,$(AR_SKIP))
.PHONY: test-nodes

# check-threads creates, uses and ends handles in many threads at the same time. Its streams are
# threads, too (test/whole/cuda.c), but its kernels only look whether their memory still exists.
THREADS_OBJ := $(patsubst %,$(B)/check-ar-obj/%.o,$(wildcard test/kernels/threads/*.c) \
               $(filter-out test/kernels/emulated/%,$(WH_CUDA)) $(WH_NCCL) $(AR_C))
$(THREADS_OBJ): | need-check
$(B)/check-threads: $(THREADS_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=getenv -rdynamic -o $@ $^ $(CHECK_LIBS) -lm -ldl -lpthread -lrt
test-ar-threads: $(if $(AR_API),$(B)/check-threads)
	$(if $(AR_API),$(Q)$(B)/check-threads,$(AR_SKIP))
.PHONY: test-ar-threads

# Removes the guards of the kernels one at a time. The emulated tests must notice each missing
# guard. Takes ten minutes on two cores.
test-ar-controls:
	$(Q)sh test/kernels/emulated/controls.sh && sh test/whole/controls.sh $(B)

# Checks what nvcc made of the kernels: PTX, registers, and spills. Needs no GPU. AR_ARCHS must name
# the generation 90.
test-kernels: kernels
	$(Q)sh test/kernels/compiled/nvls-ptx.sh $(NVCC) $(AR_INC)
	$(Q)sh test/kernels/compiled/resources.sh $(AR_B) $(NVCC) $(AR_INC) || [ $$? = 77 ]
