/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - the part of NCCL's profiler interface, versions 4 to 7, that we read.
 *
 * version  loaded by NCCL   what differs for us
 *   v4     2.27             the type has one byte; of the events below there is only Coll
 *   v5     2.28             the type has 64 bits; CollApi events; init takes commId before the mask
 *   v6     2.29, 2.30       copy-engine events; the members below are as in v5
 *   v7     2.31.2 +         symmetric kernels have Coll events, too, with is_sym set
 *
 * An event begins with type, parent and rank. A union follows. We declare only the members that we
 * read, so our structs are shorter than NCCL's. That is safe, because NCCL owns the events and we
 * only read them.
 */
#ifndef NCCL_ABI_PROFILER_H_
#define NCCL_ABI_PROFILER_H_

#include "nccl_abi/base.h"

enum {
    NCCL_ABI_EV_COLL     = 1 << 1,
    NCCL_ABI_EV_COLL_API = 1 << 9,
    NCCL_ABI_EV_CE_COLL  = 1 << 12,
};

/* Coll: one collective that NCCL has scheduled on a kernel. */
struct nccl_abi_ev_coll {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count; /* elements, as the caller passed them to NCCL */
    int root;
    const char *datatype; /* such as "ncclFloat32" */
    uint8_t channels;
    uint8_t warps;
    const char *algo;
    const char *proto; /* "" for a symmetric kernel, from 2.31.2 on */
};

struct nccl_abi_ev_coll_v7 {
    struct nccl_abi_ev_coll head;
    void *parent_group;
    const char *kernel_variant; /* name of a symmetric kernel; NULL for a general kernel */
    bool is_sym;
};

/* CollApi: one call of a collective function, before anything is scheduled. */
struct nccl_abi_ev_coll_api {
    const char *func;
    size_t count;
    const char *datatype;
    int root;
    void *stream;
    bool captured; /* the call is captured into a CUDA graph */
};

struct nccl_abi_event_v4 {
    uint8_t type;
    void *parent;
    int rank;
    struct nccl_abi_ev_coll coll;
};

struct nccl_abi_event_v5 { /* v6 and v7 have the same members */
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct nccl_abi_ev_coll coll;
        struct nccl_abi_ev_coll_v7 coll_v7;
        struct nccl_abi_ev_coll_api api;
    } u;
};

struct nccl_abi_profiler_v4 {
    const char *name;
    nccl_abi_result (*init)(void **ctx, int *mask, const char *comm_name, uint64_t comm_hash,
                            int nodes, int ranks, int rank, nccl_abi_logger logger);
    nccl_abi_result (*start_event)(void *ctx, void **handle, struct nccl_abi_event_v4 *event);
    nccl_abi_result (*stop_event)(void *handle);
    nccl_abi_result (*record_event_state)(void *handle, int state, void *args);
    nccl_abi_result (*finalize)(void *ctx);
};

struct nccl_abi_profiler_v5 { /* v6 and v7 have the same members */
    const char *name;
    nccl_abi_result (*init)(void **ctx, uint64_t comm_id, int *mask, const char *comm_name,
                            int nodes, int ranks, int rank, nccl_abi_logger logger);
    nccl_abi_result (*start_event)(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
    nccl_abi_result (*stop_event)(void *handle);
    nccl_abi_result (*record_event_state)(void *handle, int state, void *args);
    nccl_abi_result (*finalize)(void *ctx);
};

_Static_assert(offsetof(struct nccl_abi_event_v4, coll) == 24, "union starts after rank");
_Static_assert(offsetof(struct nccl_abi_event_v5, u) == 24, "union starts after rank");
_Static_assert(offsetof(struct nccl_abi_ev_coll, datatype) == 48, "coll layout");
_Static_assert(offsetof(struct nccl_abi_ev_coll, proto) == 72, "coll layout");
_Static_assert(offsetof(struct nccl_abi_ev_coll_v7, is_sym) == 96, "v7 coll layout");
_Static_assert(offsetof(struct nccl_abi_ev_coll_api, captured) == 40, "collApi layout");
_Static_assert(sizeof(struct nccl_abi_profiler_v4) == 6 * sizeof(void *), "v4 members");
_Static_assert(sizeof(struct nccl_abi_profiler_v5) == 6 * sizeof(void *), "v5 members");

#endif
