# test.mk - builds and runs the tests of the drop-in, which use a fake NCCL and fake kernels.

DI := $(B)/dropin-test
DI_CC = $(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS)

# Copies of the fake NCCL, each in a folder:
#   first, second   two of the same release
#   old, oldest     too old for our kernels; the oldest release that our kernels can use
#   anywhere        its symmetric kernels take any buffers (followers.c)
#   waits           its symmetric kernels wait for the kernel before them
$(DI)/first/libnccl.so.2 $(DI)/second/libnccl.so.2: DI_VERSION := 22809
$(DI)/old/libnccl.so.2: DI_VERSION := 22707
$(DI)/oldest/libnccl.so.2: DI_VERSION := 22803
$(DI)/anywhere/libnccl.so.2: DI_VERSION := 22907
$(DI)/waits/libnccl.so.2: DI_VERSION := 23007
DI_NCCL := $(patsubst %,$(DI)/%/libnccl.so.2,first second old oldest anywhere waits)
$(DI_NCCL): test/dropin/fake/nccl.c test/dropin/fake/collectives.c test/dropin/fake/nccl.h \
            test/dropin/fake/record.h dropin/entry/known.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -DVERSION=$(DI_VERSION) -shared \
	    -Wl,-soname,libnccl.so.2 -o $@ $(filter %.c,$^)
$(DI)/libsymtuner_ar.so: test/dropin/fake/kernels.c test/dropin/fake/record.h dropin/kernels.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -shared -Wl,-soname,libsymtuner_ar.so -o $@ $<
$(patsubst %,$(DI)/%.so,preload gpus box constructor): $(DI)/%.so: test/dropin/fake/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -shared -o $@ $< -ldl
$(DI)/first/libcuda.so.1: test/dropin/fake/cuda.c test/dropin/fake/cuda.h dropin/verify/cuda.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -shared -Wl,-soname,libcuda.so.1 -o $@ $<
# This is libsymtuner_ffi.so without the functions that XLA calls. Only these need jax to be built.
$(DI)/libsymtuner_ffi.so: $(filter-out jax/frame.c jax/handler.c jax/xla.c,$(wildcard jax/*.c)) \
                          $(TALLY) $(wildcard jax/*.h) dropin/tally.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -shared -Wl,-soname,$(@F) $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.c,$^) \
	    -ldl -lpthread
# The drop-in looks for the kernels in the folder from which it is loaded.
$(DI)/libsymtuner_nccl.so: $(B)/libsymtuner_nccl.so
	@mkdir -p $(@D)
	$(Q)ln -sf ../$(<F) $@
DI_PROGRAMS := $(patsubst %,$(DI)/%,cases followers places ranks threads cost random opposite \
               memory loading newer jax)
$(DI)/loading: override LDFLAGS += -rdynamic
$(DI_PROGRAMS): $(DI)/%: test/dropin/%.c test/dropin/play/play.c test/dropin/play/play.h \
                test/dropin/fake/record.h $(TALLY) dropin/tally.h $(DI)/first/libnccl.so.2
	$(call say,CC)
	$(Q)$(DI_CC) -o $@ test/dropin/$*.c test/dropin/play/play.c $(TALLY) \
	    $(DI)/first/libnccl.so.2 -ldl -lpthread
DI_FEW := $(DI)/calls $(DI)/families $(DI)/watchdog
$(DI)/calls: test/dropin/ledger/calls.c
$(DI)/families $(DI)/watchdog: $(DI)/%: test/dropin/ends/%.c
$(DI_FEW): test/dropin/play/play.c test/dropin/play/play.h test/dropin/fake/record.h \
           $(DI)/first/libnccl.so.2
	$(call say,CC)
	$(Q)$(DI_CC) -o $@ $(filter %.c,$^) $(DI)/first/libnccl.so.2 -ldl -lpthread
$(DI)/streams: test/dropin/streams/streams.c test/dropin/play/play.c test/dropin/play/play.h \
               test/dropin/fake/record.h test/dropin/fake/cuda.h $(DI)/first/libnccl.so.2
	$(call say,CC)
	$(Q)$(DI_CC) -o $@ $(filter %.c,$^) $(DI)/first/libnccl.so.2 -ldl
# six libraries, each linked with a copy of the fake NCCL that has a name of its own
DI_CALLERS := $(patsubst %,$(DI)/copies/caller-%.so,1 2 3 4 5 6)
$(DI_CALLERS): $(DI)/copies/caller-%.so: test/dropin/copies/caller.c test/dropin/fake/nccl.c \
               test/dropin/fake/collectives.c test/dropin/fake/record.h dropin/entry/known.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(DI_CC) -DVERSION=22809 -shared -Wl,-soname,libnccl-$*.so -o $(@D)/libnccl-$*.so \
	    $(filter test/dropin/fake/%.c,$^)
	$(Q)$(DI_CC) -shared -Wl,-rpath,'$$ORIGIN' -o $@ $< $(@D)/libnccl-$*.so
$(DI)/copies/copies: test/dropin/copies/copies.c test/dropin/fake/record.h dropin/entry/real.h \
                     $(DI_CALLERS)
	$(call say,CC)
	$(Q)$(DI_CC) -o $@ $< -ldl

TEST_ALSO += test-dropin
test-dropin: $(DI_NCCL) $(patsubst %,$(DI)/%.so,libsymtuner_ar libsymtuner_nccl \
             libsymtuner_ffi preload gpus box constructor) \
             $(DI)/first/libcuda.so.1 $(DI_PROGRAMS) $(DI_FEW) $(DI)/streams \
             $(DI)/copies/copies $(B)/symtuner \
             $(B)/libsymtuner.so
	$(Q)sh test/dropin/ledger/run.sh $(B)
	$(Q)sh test/dropin/run.sh $(B)
