# dropin.mk - libsymtuner_nccl.so, which is loaded before NCCL by LD_PRELOAD.

# Files that tests link without the rest of the drop-in.
DROPIN_PURE := dropin/verify/compare.c dropin/comms.c dropin/meet.c
DROPIN_C := $(wildcard base/*.c dropin/*.c dropin/*/*.c) plugin/options.c \
            $(patsubst %,nccl/%.c,names release variables)
# The library is loaded when the program starts. So it can be compiled with
# -ftls-model=initial-exec, and an access to a thread-local variable costs one instruction.
DROPIN_OBJ := $(patsubst %,$(B)/dropin-obj/%.o,$(DROPIN_C))

$(B)/dropin-obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -ftls-model=initial-exec -c -o $@ $<

# symbols.c defines dlsym. A sanitizer calls dlsym before it is ready to check any code. So
# symbols.c is compiled without the sanitizer.
$(if $(SAN),$(B)/dropin-obj/dropin/entry/symbols.c.o: override CFLAGS += -fno-sanitize=all)

$(OUT)/libsymtuner_nccl.so: $(DROPIN_OBJ) dropin/entry/symtuner_nccl.map
	$(call say,LD)
	$(Q)$(LINK) $(LDFLAGS) -shared -Wl,-soname,$(@F) \
	    -Wl,--version-script=dropin/entry/symtuner_nccl.map -Wl,-z,nodelete \
	    $(if $(SAN),,-Wl,-z,defs) -o $@ $(DROPIN_OBJ) -ldl -lpthread -lrt -lm
