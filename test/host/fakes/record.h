/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the record that each tuner and profiler in this folder shares with the test.
 *
 * Each library exports one record. The test opens the same file as the plugin under test. It writes
 * into the record what the library is to do, and reads afterwards what the library received.
 */
#ifndef TEST_HOST_FAKES_RECORD_H_
#define TEST_HOST_FAKES_RECORD_H_

#include "nccl_abi/profiler_events.h"
#include "nccl_abi/tuner.h"

enum { FAKE_CELLS = 21, FAKE_EVENTS = 64 };

struct tuner_record {
    /* the test sets these members */
    int fail_init, fail_ask;
    int write; /* if 1, put ${answer} into the table */
    float answer[FAKE_CELLS];
    int algo, proto; /* the answer of v2 */
    int channels;    /* number of channels to write; 0: write none */
    size_t chunk;    /* chunk size to write; 0: write none */
    double bend;     /* added to every constant that is not negative */
    /* the library sets these members */
    int inits, asks, chunks, ends, wrong_ctx;
    size_t ranks, nodes;
    uint64_t comm_id;
    nccl_abi_logger logger;
    struct nccl_abi_nvl_domains domains;
    const void *constants;
    double constant[159]; /* [0] to [n - 1]: all n constants that this version has */
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
    unsigned char body[112]; /* the event's body, in the layout of its version */
    int stops;
};

struct profiler_record {
    /* the test sets these members */
    int fail_init, no_handles;
    int mask; /* the events to ask for */
    /* the library sets these members */
    int inits, ends, events, stops, states, wrong_handles, nodes, ranks, rank;
    uint64_t comm_id;
    const char *name;
    nccl_abi_logger logger;
    int *mask_at; /* where the profiler may write its mask at any time */
    struct seen_event event[FAKE_EVENTS];
    void *state_handle;
    int state;
    union nccl_abi_state args;
    int args_given;
};

#endif
