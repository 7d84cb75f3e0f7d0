/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - what a shared library must export so that ar_compare --peers FOLDER measures another
 * project's all-reduce kernels under the same conditions as ours.
 *
 * This project contains no peer. To make one, build FOLDER/peer-NAME.so from the other project's
 * repository, with one function of C linkage, ar_compare_peer(). main.c lists the NAMEs. Each peer
 * runs in processes of its own, one per GPU, so a peer that fails or hangs is left out without harm
 * to the other contenders.
 */
#ifndef AR_COMPARE_PEER_H_
#define AR_COMPARE_PEER_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stddef.h>

enum { PEER_VERSION = 1, PEER_KERNELS = 4 };

/* What a peer gets to know about one rank. The struct stays valid as long as the peer exists.
 * ar_compare asks a peer only for sums of ncclBfloat16, ncclFloat32 and ncclFloat16. */
struct peer_rank {
    int rank, ranks;
    ncclComm_t comm;
    cudaStream_t stream;
    char *buffer[2]; /* send and recv, from ncclMemAlloc, registered as windows on all ranks */
    ncclWindow_t window[2];
    size_t bytes; /* size of each buffer */
};

struct peer_api {
    int version;
    const char *about;                /* name of the project, and its version or commit */
    const char *kernel[PEER_KERNELS]; /* names of its kernels; NULL ends the list */

    /* Collective: make the peer's state for this rank. Returns NULL if the peer does not work here;
     * then ${why} (${size} bytes) says why. */
    void *(*create)(const struct peer_rank *rank, char *why, size_t size);

    /* Return why kernel ${k} cannot run this call, or NULL if it can. All ranks must get the same
     * answer. */
    const char *(*refuses)(void *peer, int k, size_t bytes, ncclDataType_t type);

    /* Reduce buffer[0] + at into buffer[1] + at on the rank's stream, which may be in a capture.
     * Returns NULL, or what went wrong. ${at} is a multiple of 16. Outside of captures it is 0. */
    const char *(*all_reduce)(void *peer, int k, size_t at, size_t bytes, ncclDataType_t type);

    /* Called after a capture has ended and before its graph runs. Returns NULL, or what went wrong.
     * This member may be NULL. */
    const char *(*captured)(void *peer);
};

#ifdef __cplusplus
extern "C" {
#endif
const struct peer_api *ar_compare_peer(void); /* the peer exports this function */
#ifdef __cplusplus
}
#endif

/* Load a peer. If that fails, prints why to stderr and returns NULL. */
const struct peer_api *peer_load(const char *path);

#endif
