/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_gpu.c - the parts of CUDA, NCCL and libsymtuner_ar.so that ar_compare calls, made of host
 * memory. With it the processes, the protocol and the tables of ar_compare are tested without a
 * GPU.
 *
 * In ar_compare every rank sends the same values. So a sum is the local buffer times the number of
 * ranks and needs no other rank. Graphs do nothing, and each takes 100 us.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/compare/protocol.h"
#include "symtuner_ar.h"

/* gpu_fill fills at most this many bytes of a buffer, because the test looks at fewer */
#define FILLED ((size_t)1 << 20)

static __thread int capturing;
static int ranks;
static char token[1];

static void *fresh(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static size_t less(size_t bytes)
{
    return bytes < FILLED ? bytes : FILLED;
}

int gpu_fill(void *p, unsigned word, size_t bytes, void *stream)
{
    (void)stream;
    for (size_t i = 0; i < less(bytes) / 4; i++)
        ((unsigned *)p)[i] = word;
    return 0;
}

int gpu_empty(void *stream)
{
    (void)stream;
    return 0;
}

static void reduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    int times = op == ncclSum ? ranks : 1;

    for (size_t i = 0; i < count && !capturing; i++) {
        if (type == ncclFloat32) {
            ((float *)recv)[i] = (float)times * ((const float *)send)[i];
        } else if (type == ncclFloat64) {
            ((double *)recv)[i] = times * ((const double *)send)[i];
        } else if (type == ncclInt32) {
            ((int *)recv)[i] = times * ((const int *)send)[i];
        } else { /* bf16 */
            unsigned word = (unsigned)((const unsigned short *)send)[i] << 16;
            float value;

            memcpy(&value, &word, 4);
            value *= (float)times;
            memcpy(&word, &value, 4);
            ((unsigned short *)recv)[i] = (unsigned short)(word >> 16);
        }
    }
}

static void gather(const void *send, void *recv, size_t count, ncclDataType_t type)
{
    size_t bytes = count * (type == ncclBfloat16 ? 2 : 4);

    for (int r = 0; r < ranks && !capturing; r++)
        memcpy((char *)recv + (size_t)r * bytes, send, bytes);
}

/* ---- CUDA ---- */
#define DOES_NOTHING(name, ...)                                                                    \
    cudaError_t name(__VA_ARGS__)                                                                  \
    {                                                                                              \
        return cudaSuccess;                                                                        \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
DOES_NOTHING(cudaSetDevice, int device)
DOES_NOTHING(cudaDeviceEnablePeerAccess, int device, unsigned flags)
DOES_NOTHING(cudaStreamSynchronize, cudaStream_t stream)
DOES_NOTHING(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
DOES_NOTHING(cudaGraphDestroy, cudaGraph_t graph)
DOES_NOTHING(cudaGraphUpload, cudaGraphExec_t graph, cudaStream_t stream)
DOES_NOTHING(cudaGraphLaunch, cudaGraphExec_t graph, cudaStream_t stream)
DOES_NOTHING(cudaGraphExecDestroy, cudaGraphExec_t graph)
DOES_NOTHING(cudaMemcpyPeerAsync, void *to, int to_device, const void *from, int from_device,
             size_t bytes, cudaStream_t stream)

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return "an error that cannot happen here";
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 4;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = (cudaStream_t)(void *)token;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = (cudaEvent_t)(void *)token;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    *p = fresh(bytes);
    return *p == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    memset(p, value, less(bytes));
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    capturing = 1;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    capturing = 0;
    *graph = (cudaGraph_t)(void *)token;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    *exec = (cudaGraphExec_t)(void *)token;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = 0.1f;
    return cudaSuccess;
}

/* ---- NCCL ---- */
const char *ncclGetErrorString(ncclResult_t result)
{
    return "an error that cannot happen here";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 7, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
    ranks = n;
    *comm = (ncclComm_t)(void *)token;
    return id.internal[0] == 7 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    *p = fresh(bytes);
    return *p == NULL ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes, ncclWindow_t *window,
                                    int flags)
{
    *window = (ncclWindow_t)(void *)token;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    reduce(send, recv, count, type, op);
    return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    reduce(send, recv, count, type, op);
    return ncclSuccess;
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    gather(send, recv, count, type);
    return ncclSuccess;
}

/* ---- libsymtuner_ar.so ---- */
ncclResult_t symtuner_ar_create(symtuner_ar **handles, const ncclComm_t *comms, int n,
                                const struct symtuner_ar_config *config)
{
    *handles = (symtuner_ar *)(void *)token;
    return ncclSuccess;
}

const char *symtuner_ar_error(const symtuner_ar *handle)
{
    return "no error";
}

ncclResult_t symtuner_ar_reserve(symtuner_ar **handles, int n, size_t bytes)
{
    return ncclSuccess;
}

ncclResult_t symtuner_ar_register(symtuner_ar **handles, void *const *buffers,
                                  const ncclWindow_t *windows, int n, size_t bytes)
{
    return ncclSuccess;
}

ncclResult_t symtuner_ar_all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, symtuner_ar *handle, cudaStream_t stream)
{
    reduce(send, recv, count, type, op);
    return ncclSuccess;
}

ncclResult_t symtuner_ar_reduce_scatter(const void *send, void *recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, symtuner_ar *handle,
                                        cudaStream_t stream)
{
    reduce(send, recv, count, type, op);
    return ncclSuccess;
}

ncclResult_t symtuner_ar_all_gather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    symtuner_ar *handle, cudaStream_t stream)
{
    gather(send, recv, count, type);
    return ncclSuccess;
}

ncclResult_t symtuner_ar_status(symtuner_ar *handle)
{
    return ncclSuccess;
}

ncclResult_t symtuner_ar_query_coll(int coll, const void *send, const void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op, symtuner_ar *handle,
                                    struct symtuner_ar_plan *plan)
{
    /* after this error ar_compare prints its own name for the kernel, not that of ${plan} */
    return ncclInvalidUsage;
}
