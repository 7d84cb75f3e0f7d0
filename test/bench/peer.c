/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - a fake peer for the test of ar_compare: a library as bench/compare/peer.h describes it.
 * It works, unless it is compiled with a macro that breaks it. With NO_CREATE its creation fails.
 * With HANG_AT=N, WRONG_AT=N or FAIL_AT=N a call of N bytes hangs, gives wrong sums or fails.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench/compare/peer.h"

#ifndef HANG_AT
#define HANG_AT 0
#endif
#ifndef WRONG_AT
#define WRONG_AT 0
#endif
#ifndef FAIL_AT
#define FAIL_AT 0
#endif

static struct peer_rank self;

static void *create(const struct peer_rank *rank, char *why, size_t size)
{
#ifdef NO_CREATE
    if (rank->rank == rank->ranks - 1) {
        snprintf(why, size, "it is raining");
        return NULL;
    }
#endif
    (void)why, (void)size;
    self = *rank;
    return &self;
}

static const char *refuses(void *peer, int k, size_t bytes, ncclDataType_t type)
{
    (void)peer, (void)type;
    return k == 1 && bytes > 2048 ? "the second kernel is for 2 KiB" : NULL;
}

static const char *all_reduce(void *peer, int k, size_t at, size_t bytes, ncclDataType_t type)
{
    size_t count = bytes / (type == ncclFloat32 ? 4 : 2);

    (void)k;
    if (bytes == FAIL_AT)
        return "out of luck";
    if (bytes == HANG_AT)
        sleep(60);
    if (bytes == WRONG_AT)
        count--;
    return peer == &self && ncclAllReduce(self.buffer[0] + at, self.buffer[1] + at, count, type,
                                          ncclSum, self.comm, self.stream) == ncclSuccess
               ? NULL
               : "no such peer";
}

static const struct peer_api api = {
    .version = PEER_VERSION,
    .about = "a peer",
    .kernel = {"first", "second"},
    .create = create,
    .refuses = refuses,
    .all_reduce = all_reduce,
};

const struct peer_api *ar_compare_peer(void)
{
    return &api;
}
