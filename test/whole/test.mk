# test.mk - builds and runs the tests of the whole path on the CPU: a program that calls NCCL, the
# drop-in that takes over its calls, and the kernels of libsymtuner_ar.so in the emulation
# (test/kernels/emulated/emulate.h).

WH := $(B)/whole
WH_CC = $(CC) $(filter-out -MMD -MP -fvisibility=hidden,$(CFLAGS)) $(AR_INC) $(LDFLAGS)
WH_OBJ := $(patsubst %,$(B)/check-ar-emu$(AR_BREAK)/%.o,$(AR_C) $(AR_CU))
WH_SO   = -L$(WH) -lwhole_cuda -Wl,-rpath,'$$ORIGIN' -lm -ldl -lpthread -lrt

# This library is CUDA's runtime on the CPU. test/kernels/test.mk sets WH_CUDA and WH_NCCL.
$(WH)/libwhole_cuda.so: $(WH_CUDA) $(wildcard test/kernels/emulated/emulate*.[ch] test/whole/*.h)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(WH_CC) -DST_EMULATE -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)
$(WH)$(AR_BREAK)/libsymtuner_ar.so: $(WH_OBJ) $(WH)/libwhole_cuda.so
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $(WH_OBJ) $(WH_SO)
$(WH)/libnccl.so.2: $(WH_NCCL) $(wildcard test/whole/*.h) $(WH)/libwhole_cuda.so
	$(call say,CC)
	$(Q)$(WH_CC) -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) $(WH_SO)
# The command looks for the drop-in in its own folder, and the drop-in looks there for the kernels.
$(WH)/libsymtuner_nccl.so $(WH)/symtuner: $(WH)/%: $(B)/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
$(WH)/calls: test/whole/calls.c test/whole/boxes.c test/whole/boxes.h $(WH)/libnccl.so.2
	$(call say,CC)
	$(Q)$(WH_CC) -rdynamic -o $@ $(filter %.c,$^) $(WH)/libnccl.so.2 $(WH_SO)

$(WH)/absent: test/whole/absent.c $(WH)/libsymtuner_ar.so
	$(call say,CC)
	$(Q)$(WH_CC) -o $@ $< -L$(WH) -lsymtuner_ar $(WH_SO)

# ar_fuzz runs on the GPUs of cuda.c. The part of ar_fuzz that runs on GPUs is compiled as C++.
WH_FUZZ := $(wildcard test/gpu/ar/fuzz*.c) test/gpu/ipc/created.c
$(WH)/fuzz_gpu.o: test/gpu/ar/fuzz_gpu.cu test/gpu/ar/fuzz.h test/whole/launch.h \
                  test/kernels/reference.h
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -O1 -g -std=c++17 -fPIC $(AR_INC) -I. -DST_EMULATE \
	    -include test/kernels/emulated/emulate.h -Wall -Wno-unknown-pragmas -x c++ -c -o $@ $<
$(WH)/ar_fuzz: $(WH_FUZZ) $(WH)/fuzz_gpu.o $(WH)/libsymtuner_ar.so $(WH)/libnccl.so.2 \
               $(wildcard test/gpu/ar/fuzz*.h bench/number.h)
	$(call say,CC)
	$(Q)$(WH_CC) -o $@ $(WH_FUZZ) $(WH)/fuzz_gpu.o -L$(WH) -lsymtuner_ar $(WH)/libnccl.so.2 \
	    $(WH_SO) -lstdc++

TEST_ALSO += $(if $(AR_API),test-whole)
test-whole: $(patsubst %,$(WH)/%,libsymtuner_ar.so libsymtuner_nccl.so symtuner calls absent \
            ar_fuzz)
	$(Q)sh test/whole/run.sh $(B)
