/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler_events.h - every event of NCCL's profiler interface, versions 1 to 7, in our own words.
 *
 * We need all of them, because our plugin can call another profiler (plugin/next/open.h), and
 * translates events if its version differs from NCCL's. An event begins with type, parent and rank,
 * and has a body at offset 24. The type has 8 bits up to v4, and 64 bits from v5 on.
 *
 * version  what is new in the body
 *   v1     functions and types are numbers; Coll has an operator and traffic bytes
 *   v2     functions and types are text
 *   v3     no traffic bytes; KernelCh and NetPlugin events
 *   v4     no name or hash of the communicator; KernelCh has a time
 *   v5     Coll and P2p have the API call as parent, and a member for their group; API events
 *   v6     copy-engine events
 *   v7     a user's tag at the end of five bodies; the kernel's name; KernelPhase events
 *
 * From v4 on a later version only adds members at the end of a body.
 */
#ifndef NCCL_ABI_PROFILER_EVENTS_H_
#define NCCL_ABI_PROFILER_EVENTS_H_

#include <sys/types.h>

#include "nccl_abi/profiler.h"

enum {
    NCCL_ABI_EV_GROUP = 1 << 0,
    NCCL_ABI_EV_P2P = 1 << 2,
    NCCL_ABI_EV_PROXY_OP = 1 << 3,
    NCCL_ABI_EV_PROXY_STEP = 1 << 4,
    NCCL_ABI_EV_PROXY_CTRL = 1 << 5,
    NCCL_ABI_EV_KERNEL_CH = 1 << 6,
    NCCL_ABI_EV_NET_PLUGIN = 1 << 7,
    NCCL_ABI_EV_GROUP_API = 1 << 8,
    NCCL_ABI_EV_P2P_API = 1 << 10,
    NCCL_ABI_EV_KERNEL_LAUNCH = 1 << 11,
    NCCL_ABI_EV_CE_SYNC = 1 << 13,
    NCCL_ABI_EV_CE_BATCH = 1 << 14,
    NCCL_ABI_EV_KERNEL_PHASE = 1 << 15,
};

/* The states that NCCL passes to recordEventState. Only the states of proxy steps (STEP) and of the
 * proxy thread (CTRL) come with arguments. LAST_Vn is the last state that version n knows. */
enum {
    NCCL_ABI_STATE_STEP_FIRST = 8,  /* 8 to 12: a proxy step waits; argument from v4 on: bytes */
    NCCL_ABI_STATE_CTRL_FIRST = 13, /* 13 to 18: state of the proxy thread; argument: number of
                                       operations that it has appended                          */
    NCCL_ABI_STATE_CTRL_LAST = 18,
    NCCL_ABI_STATE_LAST_V4 = 22,
    NCCL_ABI_STATE_LAST_V5 = 24,
    NCCL_ABI_STATE_LAST_V6 = 30,
};

struct nccl_abi_ev_p2p {
    const char *func;
    void *buff;
    const char *datatype;
    size_t count;
    int peer;
    uint8_t channels;
    void *parent_group; /* from v5 on */
    uint64_t tag;       /* from v7 on */
};

struct nccl_abi_ev_proxy_op {
    pid_t pid; /* process that asked for the operation; the event's parent may be a pointer that
                  is valid only in that process */
    uint8_t channel;
    int peer;
    int steps;
    int chunk_size;
    int is_send;
};

struct nccl_abi_ev_proxy_step {
    int step;
};

struct nccl_abi_ev_kernel_ch {
    uint8_t channel;
    uint64_t timer; /* the GPU's clock in nanoseconds; from v4 on */
};

struct nccl_abi_ev_net_plugin {
    int64_t id;
    void *data;
};

struct nccl_abi_ev_coll_full { /* in v5 and v6 parent_group is the last member */
    struct nccl_abi_ev_coll head;
    void *parent_group;
    const char *kernel_variant;
    bool is_sym;
    uint64_t tag;
};

/* An event of v7. An event of v5 or v6 is shorter: it has only the first members. */
struct nccl_abi_event_v7 {
    uint64_t type;
    void *parent;
    int rank;
    union nccl_abi_body {
        struct nccl_abi_ev_coll_full coll;
        struct nccl_abi_ev_p2p p2p;
        struct nccl_abi_ev_proxy_op proxy_op;
        struct nccl_abi_ev_proxy_step proxy_step;
        struct nccl_abi_ev_kernel_ch kernel_ch;
        struct nccl_abi_ev_net_plugin net_plugin;
    } u;
};
enum { NCCL_ABI_EVENT_BYTES_V6 = 112 }; /* size of an event in v5 and v6 */

struct nccl_abi_ev_coll_v1 {
    const char *name;
    uint64_t hash;
    uint64_t seq;
    uint8_t func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    uint8_t datatype;
    uint32_t op;
    size_t traffic;
    uint8_t channels;
    uint8_t warps;
    uint8_t algo;
    uint8_t proto;
    int is_coll_net;
    int is_nvls;
};

/* The members of Coll in v2 and v3. Only v2 has the traffic bytes. */
#define NCCL_ABI_EV_COLL_MEMBERS(traffic_bytes)                                                    \
    const char *name;                                                                              \
    uint64_t hash;                                                                                 \
    uint64_t seq;                                                                                  \
    const char *func;                                                                              \
    const void *send;                                                                              \
    void *recv;                                                                                    \
    size_t count;                                                                                  \
    int root;                                                                                      \
    const char *datatype;                                                                          \
    traffic_bytes                                                                                  \
    uint8_t channels;                                                                              \
    uint8_t warps;                                                                                 \
    const char *algo;                                                                              \
    const char *proto;

struct nccl_abi_ev_coll_v2 {
    NCCL_ABI_EV_COLL_MEMBERS(size_t traffic;)
};

struct nccl_abi_ev_coll_v3 {
    NCCL_ABI_EV_COLL_MEMBERS()
};

struct nccl_abi_ev_p2p_v1 {
    const char *name;
    uint64_t hash;
    uint8_t func;
    void *buff;
    uint8_t datatype;
    size_t count;
    int peer;
};

struct nccl_abi_ev_p2p_v2 { /* v3 has the same members */
    const char *name;
    uint64_t hash;
    const char *func;
    void *buff;
    const char *datatype;
    size_t count;
    int peer;
};

struct nccl_abi_event_old { /* v1 to v4 */
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct nccl_abi_ev_coll_v1 coll_v1;
        struct nccl_abi_ev_coll_v2 coll_v2;
        struct nccl_abi_ev_coll_v3 coll_v3;
        struct nccl_abi_ev_coll coll_v4;
        struct nccl_abi_ev_p2p_v1 p2p_v1;
        struct nccl_abi_ev_p2p_v2 p2p_v2;
        union nccl_abi_body same; /* bodies that have not changed since v1 */
    } u;
};

/* Arguments of recordEventState. */
struct nccl_abi_state_old { /* v1 to v3 */
    union {
        struct {
            size_t bytes;
            int steps;
        } proxy_op;
        int appended;
    } u;
};

union nccl_abi_state { /* v4 and later */
    size_t bytes;
    int appended;
    void *data;
    uint64_t timer;
};

struct nccl_abi_profiler_old { /* v1 to v3 */
    const char *name;
    nccl_abi_result (*init)(void **ctx, int *mask);
    nccl_abi_result (*start_event)(void *ctx, void **handle, struct nccl_abi_event_old *event);
    nccl_abi_result (*stop_event)(void *handle);
    nccl_abi_result (*record_event_state)(void *handle, int state, struct nccl_abi_state_old *args);
    nccl_abi_result (*finalize)(void *ctx);
};

_Static_assert(offsetof(struct nccl_abi_event_v7, u) == 24, "the body starts after rank");
_Static_assert(offsetof(struct nccl_abi_event_old, u) == 24, "the body starts after rank");
_Static_assert(sizeof(struct nccl_abi_event_v7) == 136, "v7 event");
_Static_assert(offsetof(struct nccl_abi_ev_coll_full, parent_group) == 80, "v5 coll");
_Static_assert(offsetof(struct nccl_abi_ev_coll_full, tag) == 104, "v7 coll");
_Static_assert(offsetof(struct nccl_abi_ev_p2p, parent_group) == 40, "v5 p2p");
_Static_assert(offsetof(struct nccl_abi_ev_p2p, tag) == 48, "v7 p2p");
_Static_assert(offsetof(struct nccl_abi_ev_proxy_op, is_send) == 20, "proxyOp");
_Static_assert(offsetof(struct nccl_abi_ev_kernel_ch, timer) == 8, "kernelCh");
_Static_assert(offsetof(struct nccl_abi_ev_coll_v1, datatype) == 60, "v1 coll");
_Static_assert(offsetof(struct nccl_abi_ev_coll_v1, is_nvls) == 88, "v1 coll");
_Static_assert(offsetof(struct nccl_abi_ev_coll_v2, proto) == 96, "v2 coll");
_Static_assert(offsetof(struct nccl_abi_ev_coll_v3, proto) == 88, "v3 coll");
_Static_assert(offsetof(struct nccl_abi_ev_p2p_v1, peer) == 48, "v1 p2p");
_Static_assert(offsetof(struct nccl_abi_ev_p2p_v2, peer) == 48, "v2 p2p");
_Static_assert(sizeof(struct nccl_abi_state_old) == 16, "v1 state");
_Static_assert(sizeof(union nccl_abi_state) == 8, "v4 state");
_Static_assert(sizeof(struct nccl_abi_profiler_old) == 6 * sizeof(void *), "v1 members");

#endif
