# bench.mk - build and run the benchmarks.

# bench: measure how many ns a decision takes in our plugin, and in a plugin that does nothing.
.PHONY: bench bench-gpu
bench: $(B)/decide_ns $(B)/empty_tuner.so $(B)/libsymtuner.so
	$(Q)$(B)/decide_ns $(B)/empty_tuner.so $(B)/libsymtuner.so
$(B)/decide_ns: $(B)/test/bench/decide_ns.c.o
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl
$(B)/empty_tuner.so: $(B)/test/bench/empty_tuner.c.o
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $^

# ar_smoke: the program to run first on a new box. It checks that the results are right.
ar-tools: $(B)/ar_smoke

$(B)/ar_smoke: $(wildcard test/gpu/ar/smoke*.c) test/gpu/ar/smoke.h bench/must.h bench/number.h \
               kernels
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -o $@ $(filter %.c,$^) -L$(B) -lsymtuner_ar -Wl,-rpath,'$$ORIGIN' \
	    -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lpthread -lrt -lm

# Programs for real GPUs; the tests in test/gpu use them, too. They link libnccl.so.2 by its path,
# because pip's package has no libnccl.so.
NCCL_SO = $(firstword $(wildcard $(NCCL_HOME)/lib64/libnccl.so.2 $(NCCL_HOME)/lib/libnccl.so.2))

NCCL_LINK = $(CC) -O2 -std=gnu11 -Wall -Wextra -I. -isystem $(NCCL_HOME)/include \
            -isystem $(CUDA_HOME)/include -o $@ $(filter %.c,$^) $(NCCL_SO) \
            -Wl,-rpath,$(dir $(NCCL_SO)) -L$(CUDA_HOME)/lib64 -lcudart \
            -Wl,-rpath,$(CUDA_HOME)/lib64 -lpthread -lm
NCCL_PROG := nccl_coll nccl_decide nccl_ranks
.SECONDEXPANSION:
$(NCCL_PROG:%=$(B)/%): $(B)/%: test/gpu/%.c bench/must.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(NCCL_LINK)

# Programs that need libsymtuner_ar.so and NCCL. Set LD_LIBRARY_PATH to run them with another build
# of our library. They link CUDA's shared runtime, as NCCL's users do.
GPU_PROG  := ar_compare ar_fuzz ar_kill ar_late
GPU_SRC    = $(wildcard $(if $(filter ar_compare,$*),bench/compare/*.c bench/compare/*.cu,\
             $(patsubst %,test/gpu/ar/$(*:ar_%=%)%,.c _*.c _*.cu) \
             $(if $(filter ar_fuzz,$*),test/gpu/ipc/created.c)))

$(GPU_PROG:%=$(B)/%): $(B)/%: $$(GPU_SRC) bench/number.h \
                      $$(wildcard bench/compare/*.h test/gpu/ar/*.h) | kernels
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) -O2 $(foreach a,$(lastword $(AR_ARCHS)),-gencode arch=compute_$a,code=sm_$a) \
	    -Xcompiler -Wall,-Wextra -I. $(AR_INC) -o $@ $(filter %.c %.cu,$^) -L$(B) -lsymtuner_ar \
	    --cudart shared -lpthread -lm -ldl -Xlinker --no-as-needed,$(NCCL_SO) \
	    -Xlinker -rpath,$(dir $(NCCL_SO)),-rpath,'$$ORIGIN',-rpath,$(CUDA_HOME)/lib64

# ar_ipc: do two processes map each other's memory? It tests kernels/ipc without the rest of the
# library.
$(B)/ar_ipc: test/gpu/ipc/ipc.c test/gpu/ipc/created.c $(wildcard kernels/ipc/*) base/board.c \
    bench/must.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) -o $@ $(filter %.c,$^) -L$(CUDA_HOME)/lib64 -lcudart_static -ldl \
	    -lpthread -lrt

# bench-gpu: time our kernels, NCCL's and torch's in turns. BENCH="--quick" passes options;
# bench/compare/main.c lists them.
bench-gpu: $(if $(NCCL_SO),$(B)/ar_compare)
	$(if $(NCCL_SO),$(Q)$(B)/ar_compare --out $(B)/ar_compare.csv $(BENCH),@echo \
	    "bench-gpu: skipped: no libnccl.so.2 under NCCL_HOME=$(NCCL_HOME)"; exit 77)
