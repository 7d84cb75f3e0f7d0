/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - what a shared library must export so that bench/compare/main.c --peers FOLDER
 * can measure somebody else's all-reduce kernels under the same conditions as ours.
 *
 * None comes with this project. A peer is built beside it, from its own repository, by whoever
 * wants the comparison: FOLDER/peer-NAME.so with one function of C linkage, ar_compare_peer().
 * NAME is one of those that main.c lists. Each runs in processes of its own, one per GPU, so
 * that one that fails or hangs is left out and nothing else suffers.
 */
#ifndef AR_COMPARE_PEER_H_
#define AR_COMPARE_PEER_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stddef.h>

enum { PEER_VERSION = 1, PEER_KERNELS = 4 };

/* One rank, alive as long as the peer is. Float sums only: ncclBfloat16, ncclFloat32, ncclFloat16.
 */
struct peer_rank {
    int rank, ranks;
    ncclComm_t comm;
    cudaStream_t stream;
    char *buffer[2]; /* send, recv: ncclMemAlloc'ed, windows of all ranks */
    ncclWindow_t window[2];
    size_t bytes; /* of each */
};

struct peer_api {
    int version;
    const char *about;                /* project, version or commit */
    const char *kernel[PEER_KERNELS]; /* NULL ends the list */

    /* Collective. NULL: does not work here, and ${why} says so. */
    void *(*create)(const struct peer_rank *rank, char *why, size_t size);

    /* Why kernel ${k} does not do this, the same on all ranks; NULL: it does. */
    const char *(*refuses)(void *peer, int k, size_t bytes, ncclDataType_t type);

    /* Out of place, buffer[0] + at to buffer[1] + at, on the rank's stream, also while that stream
     * is being captured; NULL or what went wrong. ${at} is a multiple of 16, and other than 0 only
     * while capturing. */
    const char *(*all_reduce)(void *peer, int k, size_t at, size_t bytes, ncclDataType_t type);

    /* A capture has ended and its graph has not run yet. May be NULL. */
    const char *(*captured)(void *peer);
};

#ifdef __cplusplus
extern "C" {
#endif
const struct peer_api *ar_compare_peer(void); /* exported by the peer */
#ifdef __cplusplus
}
#endif

/* peer.c: NULL after saying why on stderr. */
const struct peer_api *peer_load(const char *path);

#endif
