# jax.mk - build and test libsymtuner_ffi.so, the kernels as an XLA custom call.
#
# JAX_PYTHON is a Python that has jax. The build needs the C header of XLA's FFI, which comes with
# jax, and nothing else of jax. It needs neither CUDA nor NCCL.
JAX_PYTHON ?= $(firstword $(wildcard $(B)/jax-venv/bin/python) python3)
FFI_INC     = $(shell $(JAX_PYTHON) -c 'import jax; print(jax.ffi.include_dir())' 2>/dev/null)

jax: $(OUT)/libsymtuner_ffi.so
$(OUT)/libsymtuner_ffi.so: $(wildcard jax/*.c jax/*.h jax/hlo/*.c jax/hlo/*.h) $(TALLY) \
                           dropin/tally.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(if $(FFI_INC),,$(error $(JAX_PYTHON) has no jax; JAX_PYTHON=... names one that has))
	$(Q)$(LINK) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) -isystem $(FFI_INC) -shared \
	    -Wl,-soname,$(@F) $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.c,$^) -ldl -lpthread

# Test the handler and the package without a GPU. If no Python here has jax, the script gets jax
# from PyPI. If that fails, the script exits with 77.
test-jax:
	$(Q)JAX_PYTHON=$(if $(filter-out file default,$(origin JAX_PYTHON)),$(JAX_PYTHON)) \
	    CC="$(CC)" CUDA_HOME=$(CUDA_HOME) sh test/jax/run.sh $(B)

