# test.mk - the whole path on the CPU: a program that knows NCCL only, the drop-in in front of it, and
# the kernels of libsymtuner_ar.so in the emulation (test/kernels/emulated/emulate.h).

WH := $(B)/whole
WH_CC = $(CC) $(filter-out -MMD -MP -fvisibility=hidden,$(CFLAGS)) $(AR_INC) $(LDFLAGS)
WH_OBJ := $(filter-out $(B)/check-ar-emu/test/kernels/emulated/c%,$(AR_EMU_OBJ))

$(WH)/libsymtuner_ar.so: $(WH_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ -lm -ldl -lpthread -lrt
$(WH)/libnccl.so.2: test/whole/nccl.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(WH_CC) -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $<
# The command looks for the drop-in, and this for the kernels, beside the path that it is started by.
$(WH)/libsymtuner_nccl.so $(WH)/symtuner: $(WH)/%: $(B)/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
$(WH)/calls: test/whole/calls.c $(WH)/libnccl.so.2
	$(call say,CC)
	$(Q)$(WH_CC) -o $@ $< $(WH)/libnccl.so.2 -lpthread

TEST_ALSO += $(if $(AR_API),test-whole)
test-whole: $(patsubst %,$(WH)/%,libsymtuner_ar.so libsymtuner_nccl.so symtuner calls)
	$(Q)sh test/whole/run.sh $(B)
