/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_window.c - registers buffers as NCCL windows, and deregisters them. */
#include "kernels/group/nccl_window.h"

#include <stdio.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"

/* Register the buffers of all ranks of this thread in one NCCL group (ncclGroupStart to
 * ncclGroupEnd). */
ncclResult_t ar_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *const *windows, char *why)
{
    const struct ar_nccl *nccl = handles[0]->nccl;
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    char call[64];
    ncclResult_t result;

    snprintf(call, sizeof call, "ncclCommWindowRegister of %zu bytes", bytes);
    for (int i = 0; i < n; i++) {
        endpoints[i] = &handles[i]->endpoint;
        *windows[i] = NULL;
    }
    result = ar_comms_start(nccl, endpoints, n, call, why);
    if (result != ncclSuccess)
        return result;
    for (int i = 0; i < n && (result == ncclSuccess || result == ncclInProgress); i++)
        result = nccl->ncclCommWindowRegister(handles[i]->comm, buffers[i], bytes, windows[i],
                                              NCCL_WIN_COLL_SYMMETRIC);
    return ar_comms_end(nccl, endpoints, n, result, call, why);
}

ncclResult_t ar_window_drop(symtuner_ar *h, ncclWindow_t window)
{
    static const char call[] = "ncclCommWindowDeregister";
    char why[AR_WHY];
    int device = -1;
    ncclResult_t result;

    if (__atomic_load_n(&h->comm_gone, __ATOMIC_RELAXED))
        return ncclSuccess;
    result = ar_comm_wait(h->nccl, &h->endpoint, ncclInProgress, call, why);
    cudaGetDevice(&device);
    cudaSetDevice(h->device);
    /* Deregister even if the wait ended with an error, because nothing uses the window any more.
     * But after a timeout NCCL must not be called again. */
    if (h->endpoint.timed_out[0] == 0)
        result = ar_comm_wait(h->nccl, &h->endpoint,
                              h->nccl->ncclCommWindowDeregister(h->comm, window), call, why);
    if (device >= 0)
        cudaSetDevice(device); /* back to the GPU that was current before */
    return result == ncclSuccess ? result : ar_fail(h, result, "%s", why);
}
