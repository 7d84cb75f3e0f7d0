# kernels.mk - build libsymtuner_ar.so.
#
# AR_ARCHS: the GPU generations to compile for. The last one is also compiled to PTX, which later
#   GPUs can run.
#   quick, for development:            make kernels
#   for a release, all generations:    make kernels AR_ARCHS="80 90 100 120"
# AR_DEFS: -DST_TESTING puts pauses into the kernels. -DST_BREAK_NAME breaks one thing in them, so
#   that make test-ar-controls can check that the tests notice it. A build with AR_DEFS goes to
#   build/ar-DNAME-90/libsymtuner_ar.so and nowhere else.
CUDA_HOME ?= /usr/local/cuda
# nccl.h is beside CUDA's headers, or in a pip package of NVIDIA that has the module nvidia.nccl.
NCCL_HOME ?= $(if $(wildcard $(CUDA_HOME)/include/nccl.h),$(CUDA_HOME),$(shell python3 -c \
             'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null))
AR_ARCHS  ?= 90
AR_DEFS   ?=
AR_B      := $(B)/ar$(subst $(eval ) ,,$(AR_DEFS))-$(subst $(eval ) ,-,$(strip $(AR_ARCHS)))
AR_OUT    := $(if $(filter-out $(B),$(OUT)),$(OUT),$(AR_B))
AR_INC    := -Iinclude -I. -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include
GENCODE   := $(foreach a,$(AR_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
             $(foreach a,$(lastword $(AR_ARCHS)),-gencode arch=compute_$a,code=compute_$a)
AR_C      := $(wildcard kernels/*/*.c) $(BOTH)
AR_CU     := $(wildcard kernels/device/*.cu kernels/device/*/*.cu)
AR_OBJ    := $(patsubst %,$(AR_B)/%.o,$(AR_C) $(AR_CU))

# Programs that are linked with the library find it by this name. The number in it is the major
# version of the C API.
AR_SONAME := libsymtuner_ar.so.$(firstword $(subst ., ,$(VERSION)))

# AR_LACKS is what is missing to build the kernels. The target need-cuda reports it in one line,
# before a compiler can fail with many lines.
AR_LACKS = $(strip $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),,cuda_runtime_api.h in \
           CUDA_HOME=$(CUDA_HOME);) \
           $(if $(wildcard $(NCCL_HOME)/include/nccl.h),,nccl.h in NCCL_HOME=$(NCCL_HOME);) \
           $(if $(shell command -v $(NVCC)),,a compiler NVCC=$(NVCC);))
AR_CURE  := install the CUDA toolkit and headers of NCCL 2.28 or newer, or say where they are
.PHONY: need-cuda
need-cuda:
	$(if $(AR_LACKS),@echo 'make kernels: there is no $(AR_LACKS) $(AR_CURE)' >&2; exit 1)
$(AR_OBJ): | need-cuda

kernels: $(AR_OUT)/libsymtuner_ar.so
	$(if $(AR_DEFS)$(filter-out $(AR_B),$(AR_OUT)),,$(Q)for l in libsymtuner_ar.so $(AR_SONAME); do \
	    ln -sf $(patsubst $(B)/%,%,$<) $(B)/$$l; done)

AR_LINK = $(LINK) -shared -Wl,--version-script=kernels/symtuner_ar.map -Wl,-z,defs -Wl,-z,nodelete \
          -o $@ $(filter %.o,$^) -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lpthread -lrt
$(AR_OUT)/libsymtuner_ar.so: $(AR_OBJ) kernels/symtuner_ar.map
	$(call say,LD)
	$(Q)$(AR_LINK) -Wl,-soname,$(AR_SONAME)
	$(Q)ln -sf $(@F) $(@D)/$(AR_SONAME)

$(AR_B)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) $(AR_INC) $(AR_DEFS) -c -o $@ $<

# With -v ptxas says how many registers each kernel needs. The output is kept in *.said, which
# test/kernels/compiled/resources.sh reads. Everything else that nvcc says is shown.
$(AR_B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC) -O3 -std=c++17 $(GENCODE) $(AR_INC) $(AR_DEFS) -MMD -MF $@.d -c -o $@ $< -Xptxas -v \
	    -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-fno-exceptions 2> $@.said; \
	    status=$$?; grep -v -e '^ptxas info' -e 'bytes stack frame' $@.said >&2; exit $$status
