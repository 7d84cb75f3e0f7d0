/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - a fake of NCCL for ranks on several boxes: each rank is a thread, communicators can be
 * split, and ncclAllReduce really adds, in the order of the ranks and rounding each time.
 *
 * A collective call blocks until all ranks of its communicator have made it. If they do not come
 * within twenty seconds, ${hung} is set and every call fails from then on.
 *
 * The environment of a rank is that of its own process: getenv is wrapped, and finds there first
 * what ${set} says for the rank of the calling thread, and NCCL_HOSTID by ${box_of}.
 */
#ifndef ST_TEST_NODES_NET_H_
#define ST_TEST_NODES_NET_H_

#include <nccl.h>
#include <stdbool.h>

enum { NET_RANKS = 24, NET_WINDOWS = 8 };

struct fake_net {
    int ranks;
    int box_of[NET_RANKS];
    int gpus;                  /* of each box; 0: each rank has a GPU of its own */
    int no_split, split_fails; /* split ${no_split}, counted from 1, fails on rank ${split_fails} */
    int no_window;             /* this rank gets no window; -1: all do */
    bool splits_late;          /* a communicator does not block */
    bool adds_nothing;         /* an all-reduce only takes time */
    int slow_all_us;           /* an all-reduce of all ranks takes so long per MiB */
    int slow_some_us;          /* one of fewer ranks */
    int slow_rank;             /* ... on this rank another ms; -1: on none */
    const char *set[NET_RANKS]; /* "NAME=value" in the environment of a rank */
    bool hung;
    int live;         /* communicators, memory and windows not given back */
    int all_reduces;  /* by all ranks, counted once per rank */
    int some_reduces; /* by fewer */
    int splits;       /* counted once per rank */
};

extern struct fake_net net;

/* Start again with ${ranks} ranks, ${in_a_box} of them in each box. */
void net_reset(int ranks, int in_a_box);

/* Return the communicator of all ranks for ${rank}. */
ncclComm_t net_comm(int rank);

/* Run ${body}(rank) in a thread for each rank. */
void net_threads(void (*body)(int rank));

#endif
