/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - NCCL's functions, which are found at run time, and the addresses of its windows.
 *
 * The library uses the types of NCCL's header nccl.h but is not linked with NCCL. So one binary
 * works with NCCL 2.28.3 to 2.32, and programs without NCCL can call symtuner_ar_create_local().
 */
#ifndef AR_NCCL_H_
#define AR_NCCL_H_

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AR_NCCL_OLDEST 22803

#define AR_NCCL_MAP(X)                                                                             \
    X(ncclResult_t, ncclGetVersion, (int *))                                                       \
    X(ncclResult_t, ncclCommCount, (const ncclComm_t, int *))                                      \
    X(ncclResult_t, ncclCommUserRank, (const ncclComm_t, int *))                                   \
    X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t, int *))                                   \
    X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))                           \
    X(ncclResult_t, ncclGroupStart, (void))                                                        \
    X(ncclResult_t, ncclGroupEnd, (void))                                                          \
    X(ncclResult_t, ncclMemAlloc, (void **, size_t))                                               \
    X(ncclResult_t, ncclMemFree, (void *))                                                         \
    X(ncclResult_t, ncclCommWindowRegister, (ncclComm_t, void *, size_t, ncclWindow_t *, int))     \
    X(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t, ncclWindow_t))                          \
    X(ncclResult_t, ncclAllGather,                                                                 \
      (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))                    \
    X(ncclResult_t, ncclAllReduce,                                                                 \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))       \
    X(ncclResult_t, ncclReduceScatter,                                                             \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))       \
    X(ncclResult_t, ncclRedOpCreatePreMulSum,                                                      \
      (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t))                  \
    X(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t))                                   \
    X(const char *, ncclGetErrorString, (ncclResult_t))

struct ar_nccl {
    int version;
#define X(result, name, args) result(*name) args;
    AR_NCCL_MAP(X)
#undef X
    /* The next two functions are NULL if NCCL is older than 2.29. The second one may wait for all
     * ranks (multicast.h). */
    ncclResult_t (*ncclGetLsaDevicePointer)(ncclWindow_t, size_t, int, void **);
    ncclResult_t (*ncclGetLsaMultimemDevicePointer)(ncclWindow_t, size_t, void **);
    /* The next three functions are for ranks on several boxes (kernels/nodes). If NCCL lacks one of
     * them, ncclCommSplit is NULL. */
    ncclResult_t (*ncclCommSplit)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
    ncclResult_t (*ncclCommDestroy)(ncclComm_t);
    ncclResult_t (*ncclCommAbort)(ncclComm_t);
};

/* Return NCCL's functions, or NULL with the reason in ${why}. Finds them once per process. */
const struct ar_nccl *ar_nccl_get(char *why, size_t why_size);

/* Make ar_nccl_get look for NCCL's functions in ${library}, a handle from dlopen. Returns true if
 * ar_nccl_get will do so, or already uses this NCCL. Returns false if it already uses another NCCL,
 * or if an earlier call has named another library. */
bool ar_nccl_choose(void *library);

/* Warn about each fault of NCCL ${version} (nccl/hazards.h) that an all-reduce with these arguments
 * can trigger. Call this only if both buffers lie in windows. Each warning is printed once. */
void ar_nccl_warn(int version, int dtype, int op, const void *send, const void *recv);

/*
 * ar_nccl_window_peers(nccl, window, ranks, me, peers_out, ...):
 * Set peers_out[r] to the address at which this rank maps the first byte of ${window} of rank r.
 * Fails if this rank cannot reach the windows of all ${ranks} ranks by loads and stores. Does not
 * wait for other ranks.
 */
ncclResult_t ar_nccl_window_peers(const struct ar_nccl *nccl, ncclWindow_t window, int ranks,
                                  int me, char **peers_out, char *why, size_t why_size);

#endif
