/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - a fake CUDA runtime, which runs no kernel and records all calls. The compiler compares
 * the signatures of its functions with cuda_runtime_api.h. */
#include "test/kernels/fake/cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/choose/families.h"
#include "test/kernels/fake/capture_info.h"
#include "test/kernels/fake/event_nodes.h"
#include "test/kernels/fake/steps.h"

#ifdef ST_EMULATE
#include "test/kernels/emulated/emulate.h"
#define MULTIPROCESSORS 8 /* few, because each block is a thread of the CPU here */
#define TOUCHED         SIZE_MAX
#else
#define MULTIPROCESSORS 132
/* cudaMemset writes only the first bytes, not hundreds of MiB that nobody reads */
#define TOUCHED         4096
#endif

struct fake_cuda fake = {.devices = 4, .peers = 1};

static _Thread_local int current;
/* Add ${more} to ${number} atomically, since each rank may be a thread, and return the sum. */
static int count(int *number, int more)
{
    return __atomic_add_fetch(number, more, __ATOMIC_RELAXED);
}

static _Thread_local cudaError_t last; /* the error that cudaGetLastError returns */

static cudaError_t ends(cudaError_t error)
{
    last = error != cudaSuccess ? error : last;
    return error;
}

cudaError_t fake_named(const char *call)
{
    bool fails = fake.fails != NULL && strcmp(fake.fails, call) == 0;

    return ends(fails ? cudaErrorUnknown : cudaSuccess);
}

/* Calls that allocate memory, or may fail on a real machine, ask this function whether to fail. */
static cudaError_t may_fail(void)
{
    if (fake.fail_on != 0 && current != fake.fail_on - 1)
        return cudaSuccess;
    return ends(count(&fake.calls, 1) == fake.fail_at ? cudaErrorMemoryAllocation : cudaSuccess);
}

static cudaError_t make(void **out, size_t bytes)
{
    if (may_fail() != cudaSuccess)
        return cudaErrorMemoryAllocation;
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*out, 0xa5, bytes < 4096 ? bytes : 4096); /* CUDA does not set new memory to zeros */
    count(&fake.live, 1);
    return cudaSuccess;
}

/* End the test if the host waits for a kernel that never ends. ${for_it} says whether this call
 * would wait for that kernel. */
static void must_end(bool for_it)
{
    if (fake.endless != NULL && for_it) {
        fputs("fake_cuda: the host waits for a kernel that never ends\n", stderr);
        abort();
    }
}

static cudaError_t drop(void *p)
{
    must_end(p != NULL);
    count(&fake.live, -(p != NULL));
    free(p);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = fake.devices;
    return ends(fake.devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    current = device;
    if (device < 4 && fake.rule_of[device] != NULL)
        setenv("SYMTUNER_RULE", fake.rule_of[device], 1);
    return device < fake.devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)device;
    *value = attr == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10
             : attr != cudaDevAttrMultiProcessorCount        ? 9
             : fake.sms != 0                                 ? fake.sms
                                                             : MULTIPROCESSORS;
    return may_fail();
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    (void)func;
    return attr == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= 227 << 10
               ? may_fail()
               : ends(cudaErrorInvalidValue);
}

/* Is it prohibited to wait for the GPU, or to use the legacy stream? CUDA refuses both in mode
 * relaxed, too, and then ends the captures on the GPU. It refuses the legacy stream only while a
 * blocking stream is captured, but here every stream is blocking. */
static bool strictly_prohibited(void)
{
    if (!fake.global_capture && fake.capture == 0)
        return false;
    count(&fake.prohibited, 1);
    return true;
}

bool fake_prohibited(void)
{
    if (fake.meanwhile != NULL)
        fake.meanwhile();
    return !fake_capture_relaxed() && strictly_prohibited();
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    return fake_prohibited() ? ends(cudaErrorStreamCaptureUnsupported) : make(p, bytes);
}

cudaError_t cudaFree(void *p)
{
    return fake_prohibited() ? ends(cudaErrorStreamCaptureUnsupported) : drop(p);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return fake_prohibited() ? ends(cudaErrorStreamCaptureUnsupported) : make(p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return fake_prohibited() ? ends(cudaErrorStreamCaptureUnsupported) : drop(p);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags, *device = host;
    return may_fail();
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    if (fake.no_pin)
        return ends(cudaErrorMemoryAllocation);
    if (may_fail() != cudaSuccess)
        return cudaErrorMemoryAllocation;
    count(&fake.live, 1);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    must_end(p != NULL);
    count(&fake.live, -1);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    if (strictly_prohibited())
        return ends(cudaErrorStreamCaptureUnsupported);
    memcpy(to, from, bytes);
    return may_fail();
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    memset(p, value, bytes < TOUCHED ? bytes : TOUCHED);
    __atomic_add_fetch(&fake.filled, bytes, __ATOMIC_RELAXED);
    return may_fail();
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = fake.small == current + 1 ? 23ull << 30 : 141ull << 30;
    if (fake.full == current + 1)
        *free_bytes = 5 << 20;
    return cudaSuccess;
}

static cudaError_t await_gpu(bool refused)
{
    if (refused)
        return ends(cudaErrorStreamCaptureUnsupported);
    must_end(true);
    while (__atomic_load_n(&fake.busy, __ATOMIC_ACQUIRE) == current + 1)
        usleep(1000);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    bool refused = strictly_prohibited();

    count(&fake.idles, !refused);
    return await_gpu(refused);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    __atomic_store_n(&fake.synchronized, event, __ATOMIC_RELAXED);
    return await_gpu(fake_prohibited());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (fake_prohibited())
        return ends(cudaErrorStreamCaptureUnsupported);
    must_end(stream == fake.endless);
    count(&fake.syncs, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (fake_prohibited())
        return ends(cudaErrorStreamCaptureUnsupported);
    return fake.endless != NULL && stream == fake.endless ? cudaErrorNotReady : may_fail();
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;

    last = cudaSuccess;
    return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    return make((void **)event, 8);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return drop(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    count(&fake.records, 1);
    fake_step(FAKE_RECORD, stream, event, NULL, 0);
    return fake_named("cudaEventRecord");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    return make((void **)stream, 8);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return drop(stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    count(&fake.waits, 1);
    fake_step(FAKE_WAIT, stream, event, NULL, 0);
    __atomic_store_n(&fake.waited, event, __ATOMIC_RELAXED);
    return fake_named("cudaStreamWaitEvent");
}

/* Fails during a capture, as in CUDA 13.0 with driver 580, where it also ends the capture. */
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    if (fake.capture)
        return cudaErrorStreamCaptureUnsupported;
    *id = (unsigned long long)(uintptr_t)stream + fake.others;
    return fake_named("cudaStreamGetId");
}

/* ---- graphs: the graph of capture N has the address N ---------------------------------------- */

enum { OBJECTS = 64 };
static struct CUuserObject_st {
    void *what;
    cudaHostFn_t drop;
    unsigned long long capture; /* 0: no graph holds it yet */
} objects[OBJECTS];

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *what, cudaHostFn_t dropper,
                                 unsigned refs, unsigned flags)
{
    if (refs != 1 || flags != cudaUserObjectNoDestructorSync || may_fail() != cudaSuccess)
        return cudaErrorMemoryAllocation;
    for (int i = 0; i < OBJECTS; i++)
        /* an atomic exchange, because ranks are threads */
        if (__sync_bool_compare_and_swap(&objects[i].what, NULL, what)) {
            objects[i].drop = dropper;
            objects[i].capture = 0;
            *out = &objects[i];
            count(&fake.live, 1);
            return cudaSuccess;
        }
    return cudaErrorMemoryAllocation;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned refs)
{
    (void)refs;
    object->drop(object->what);
    object->what = NULL;
    count(&fake.live, -1);
    return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned refs,
                                      unsigned flags)
{
    if (refs != 1 || flags != cudaGraphUserObjectMove || may_fail() != cudaSuccess)
        return cudaErrorMemoryAllocation;
    object->capture = (unsigned long long)(uintptr_t)graph;
    return cudaSuccess;
}

void fake_graph_gone(unsigned long long capture)
{
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].what != NULL && objects[i].capture == capture)
            cudaUserObjectRelease(&objects[i], 1);
}

cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph)
{
    (void)stream;
    *graph = (cudaGraph_t)(uintptr_t)fake.capture;
    *status = fake.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    *id = fake.capture;
    return fake_named("cudaStreamGetCaptureInfo");
}

#ifdef ST_EMULATE
/* Blocks start in order, as on a GPU, and each starts when there is room for it. A block's room is
 * free again when all its threads have ended. */
void emulate_take_room(int device)
{
    for (bool mine = fake.sms == 0; !mine;) {
        int taken = __atomic_load_n(&fake.taken[device], __ATOMIC_ACQUIRE);

        mine = taken < fake.sms &&
               __atomic_compare_exchange_n(&fake.taken[device], &taken, taken + 1, false,
                                           __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (!mine)
            usleep(100);
    }
}

void emulate_give_room(int device)
{
    if (fake.sms != 0)
        count(&fake.taken[device], -1);
}
#endif

static cudaError_t remember(const void *kernel, unsigned ctas, unsigned threads, int early,
                            void **params, cudaStream_t stream)
{
    const struct ar_args *told = params[0];

    fake_step(FAKE_LAUNCH, stream, told->in, told->out, told->bytes);
#ifdef ST_EMULATE
    if (fake.capture == 0) { /* a captured launch is only recorded below; the test replays it */
        emulate_launch(kernel, params[0], (int)ctas, (int)threads, current);
        return cudaSuccess;
    }
#endif
    fake_must_be_loaded(kernel);
    if (kernel == ar_kernel_probe)
        fake_probe(told->out, ctas);
    int number = count(&fake.launches, 1);
    struct fake_launch *l = &fake.launch[(number - 1) % FAKE_LAUNCHES];

    __atomic_store_n(&fake.launched_on, current, __ATOMIC_RELAXED);
    l->kernel = kernel;
    l->ctas = (int)ctas;
    l->threads = (int)threads;
    l->early = early;
    l->stream = stream;
    memcpy(&l->args, params[0], sizeof l->args);
    if (number == fake.endless_at)
        fake.endless = stream;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **params)
{
    int early = 0;

    if (config->gridDim.y * config->gridDim.z * config->blockDim.y * config->blockDim.z != 1)
        return ends(cudaErrorInvalidConfiguration);
    if (fake.foreign != NULL && config->stream == fake.foreign)
        return ends(cudaErrorInvalidResourceHandle);
    for (unsigned i = 0; i < config->numAttrs; i++)
        early |= config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                 config->attrs[i].val.programmaticStreamSerializationAllowed;
    return remember(kernel, config->gridDim.x, config->blockDim.x, early, params, config->stream);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **params,
                             size_t shared, cudaStream_t stream)
{
    (void)shared; /* no kernel uses more than one dimension */
    if (grid.y * grid.z * block.y * block.z != 1 || fake_named("cudaLaunchKernel") != cudaSuccess)
        return ends(cudaErrorInvalidConfiguration);
    return remember(kernel, grid.x, block.x, 0, params, stream);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    must_end(stream == fake.endless); /* CUDA may stage this copy, and would then wait */
    if (kind == cudaMemcpyDefault && __atomic_load_n(&fake.launches, __ATOMIC_RELAXED) == 0)
        count(&fake.copies_before_launch, 1);
#ifdef ST_EMULATE
    memcpy(to, from, bytes);
#else
    if (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice) /* nobody reads what other
                                                                          copies write */
        memcpy(to, from, bytes);
#endif
    __atomic_add_fetch(&fake.copied, bytes, __ATOMIC_RELAXED);
    if (kind == cudaMemcpyDefault && may_fail() != cudaSuccess)
        return cudaErrorMemoryAllocation;
    return fake_named("cudaMemcpyAsync");
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    *device = (int)strtol(text + 5, NULL, 16);
    return ends(fake.seen != 0 && *device >= fake.seen ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from, int to)
{
    (void)from, (void)to;
    *value = attr == cudaDevP2PAttrNativeAtomicSupported && !fake.no_atomics;
    return ends(fake.no_p2p_answer ? cudaErrorNotSupported : cudaSuccess);
}
