/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - ranks on several boxes, each a thread, for the NCCL of test/whole/nccl.c: what a test makes
 * slow there or lets fail, and what it counts.
 *
 * The environment of a rank is that of its own process: getenv is wrapped, and finds there first
 * what ${set} says for the rank of the calling thread, and NCCL_HOSTID by ${box_of}.
 */
#ifndef ST_TEST_NODES_NET_H_
#define ST_TEST_NODES_NET_H_

#include "test/whole/nccl.h"

enum { NET_RANKS = WHOLE_RANKS };

struct fake_net {
    int ranks;
    int box_of[NET_RANKS];
    int no_split, split_fails; /* split ${no_split}, counted from 1, fails on rank ${split_fails} */
    int no_window;             /* this rank gets no window; -1: all do */
    bool adds_nothing;         /* long collectives only take time */
    int slow_all_us;           /* an all-reduce of all ranks takes so long per MiB */
    int slow_some_us;          /* one of fewer ranks */
    int slow_rank;             /* ... on this rank another ms; -1: on none */
    const char *set[NET_RANKS]; /* "NAME=value" in the environment of a rank */
    int all_reduces;            /* by all ranks, counted once per rank */
    int some_reduces;           /* by fewer */
    int splits;                 /* counted once per rank */
};

extern struct fake_net net;

/* Start again with ${ranks} ranks, ${in_a_box} of them in each box. */
void net_reset(int ranks, int in_a_box);

/* Return the communicator of all ranks for ${rank}, which has GPU ${rank}. Collective. */
ncclComm_t net_comm(int rank);

/* Run ${body}(rank) in a thread for each rank. */
void net_threads(void (*body)(int rank));

#endif
