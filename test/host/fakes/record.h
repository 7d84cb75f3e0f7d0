/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the record that the tuners and profilers of this folder share with the test.
 *
 * Each library exports one. The test opens the file that the plugin under test will open, sets what
 * the library is to do, and afterwards reads what it received.
 */
#ifndef TEST_HOST_FAKES_RECORD_H_
#define TEST_HOST_FAKES_RECORD_H_

#include "nccl_abi/profiler_events.h"
#include "nccl_abi/tuner.h"

enum { FAKE_CELLS = 21, FAKE_EVENTS = 64 };

struct tuner_record {
    /* what to do */
    int fail_init, fail_ask;
    int write; /* put ${answer} into the table           */
    float answer[FAKE_CELLS];
    int algo, proto; /* the answer of v2                       */
    int channels;    /* 0: leave                               */
    size_t chunk;    /* 0: leave                               */
    double bend;     /* add to every constant that is not < 0  */
    /* what it was told */
    int inits, asks, chunks, ends, wrong_ctx;
    size_t ranks, nodes;
    uint64_t comm_id;
    nccl_abi_logger logger;
    struct nccl_abi_nvl_domains domains;
    const void *constants;
    double constant[159]; /* as many as its version has             */
    int func, pipe_ops, n_algo, n_proto, reg_buff, coll_net, nvls, given_channels;
    size_t bytes, chunk_bytes, given_chunk;
    int chunk_algo, chunk_proto, chunk_channels, chunk_func;
    float given[FAKE_CELLS];
    void *table;
};

struct seen_event {
    uint64_t type;
    void *ctx, *parent, *handle;
    int rank;
    unsigned char body[112]; /* as its version has it */
    int stops;
};

struct profiler_record {
    /* what to do */
    int fail_init, no_handles;
    int mask; /* to ask for */
    /* what it was told */
    int inits, ends, events, stops, states, wrong_handles, nodes, ranks, rank;
    uint64_t comm_id;
    const char *name;
    nccl_abi_logger logger;
    int *mask_at; /* where it may write its mask at any time */
    struct seen_event event[FAKE_EVENTS];
    void *state_handle;
    int state;
    union nccl_abi_state args;
    int args_given;
};

#endif
