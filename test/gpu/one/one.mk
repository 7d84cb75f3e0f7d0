# one.mk - tests on one GPU. For ranks that share the GPU there is a folder $(B)/one. It has
# symtuner, the drop-in, a build of the kernels whose windows come from test/gpu/one/windows.c, and
# the library to preload.
ONE := $(B)/one

$(ONE)/libsymtuner_ar.so: $(AR_OBJ) $(AR_B)/test/gpu/one/windows.c.o kernels/symtuner_ar.map
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(AR_LINK) -Wl,--wrap=ar_nccl_get,--wrap=ar_windows_make

$(ONE)/hosts.so: test/gpu/one/hosts.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $< -ldl

$(ONE)/symtuner $(ONE)/libsymtuner_nccl.so: $(ONE)/%: $(OUT)/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# nccl_calls needs no symtuner, and works on several GPUs, too.
$(B)/nccl_calls: $(wildcard test/gpu/one/calls*.[ch]) test/whole/values.c test/whole/values.h \
                 bench/must.h bench/number.h test/random.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(NCCL_LINK)

# Tests the GEMMs of symtuner tune --beside. The program needs neither NCCL nor nvcc.
$(B)/gemms: $(call obj,test/gpu/one/gemms.c cli/gpu/beside.c cli/gpu/cuda.c)
	$(call say,LD)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread

one-gpu: $(B)/nccl_calls $(ONE)/libsymtuner_ar.so $(ONE)/hosts.so $(ONE)/symtuner \
         $(ONE)/libsymtuner_nccl.so
.PHONY: one-gpu
