/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - ranks on several boxes (machines), each a thread, for the fake NCCL of test/whole/nccl.c.
 * A test sets here what is slow or fails in this fake NCCL, and reads what it has counted.
 *
 * getenv is wrapped, so each rank has an environment of its own. For the rank of the calling
 * thread, getenv takes NCCL_HOSTID from ${box_of}, and other variables from ${set} or else from the
 * real environment.
 */
#ifndef ST_TEST_NODES_NET_H_
#define ST_TEST_NODES_NET_H_

#include "test/whole/nccl.h"

enum { NET_RANKS = WHOLE_RANKS };

struct fake_net {
    int ranks;
    int box_of[NET_RANKS];
    /* call number ${no_split} of ncclCommSplit, counted from 1, fails on rank ${split_fails} */
    int no_split, split_fails;
    int no_window; /* the rank that gets no window; -1: all get one */
    /* Each all-reduce of rank ${refuse_on} takes 1 from ${refuse_at}. The one that makes it 0
     * fails. */
    int refuse_at, refuse_on;
    bool adds_nothing;          /* long collectives take time but compute nothing */
    int slow_all_us;            /* us per MiB of an all-reduce of all ranks */
    int slow_some_us;           /* us per MiB of an all-reduce of fewer ranks */
    int slow_rank;              /* the rank on which each all-reduce takes 1 ms more; -1: none */
    const char *set[NET_RANKS]; /* "NAME=value" in the environment of a rank */
    int all_reduces;            /* number of all-reduces of all ranks, counted once per rank */
    int some_reduces;           /* number of all-reduces of fewer ranks, counted once per rank */
    int splits;                 /* number of calls of ncclCommSplit, counted once per rank */
};

extern struct fake_net net;

/* Begin anew with ${ranks} ranks, ${in_a_box} of them in each box. */
void net_reset(int ranks, int in_a_box);

/* Return rank ${rank}'s communicator of all ranks. The rank has GPU ${rank}. Collective. */
ncclComm_t net_comm(int rank);

/* Run ${body}(rank) in a thread for each rank. */
void net_threads(void (*body)(int rank));

#endif
