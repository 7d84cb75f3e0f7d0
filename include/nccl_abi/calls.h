/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.h - what libsymtuner_nccl.so must know of NCCL's own functions, in our own words.
 *
 * Communicators, windows and streams are opaque pointers. The layout is that of NCCL 2.27 to 2.32
 * on 64-bit Linux.
 */
#ifndef NCCL_ABI_CALLS_H_
#define NCCL_ABI_CALLS_H_

#include <stddef.h>

/* ncclUniqueId. NCCL's functions take it by value. */
struct nccl_abi_id {
    char bytes[128];
};
_Static_assert(sizeof(struct nccl_abi_id) == 128, "ncclUniqueId");

/* The first members of ncclConfig_t. New releases of NCCL add members only at its end. */
struct nccl_abi_config {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: non-blocking; 1 or NCCL_ABI_UNSET: blocking */
};
_Static_assert(offsetof(struct nccl_abi_config, blocking) == 16, "ncclConfig_t: blocking");

/* The same struct with the members that NCCL had in 2.27. A program that was built for an older
 * NCCL passes fewer members, as ${size} says. */
struct nccl_abi_config_27 {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share; /* 1: children of ncclCommSplit share resources with the communicator  */
    int traffic_class;
    const char *name;
    int collnet, policy;
    int shrink_share; /* 1: so do children of ncclCommShrink; read only from version 22700 on */
    int nvls_ctas;
};
_Static_assert(offsetof(struct nccl_abi_config_27, split_share) == 40, "ncclConfig_t: splitShare");
_Static_assert(offsetof(struct nccl_abi_config_27, shrink_share) == 64,
               "ncclConfig_t: shrinkShare");

enum {
    NCCL_ABI_UNSET = -0x7fffffff - 1, /* value of an ncclConfig_t member that is not set */
    NCCL_ABI_NO_COLOR = -1,           /* ncclCommSplit: this rank gets no communicator     */
    NCCL_ABI_SHRINK_ABORT = 1,        /* ncclCommShrink: end the parent's work first       */
    NCCL_ABI_SUSPEND_MEMORY = 1,      /* ncclCommSuspend: free NCCL's memory for now       */
    NCCL_ABI_REVOKE_DEFAULT = 0,      /* the only flags that ncclCommRevoke accepts        */
    NCCL_ABI_WINDOW_SYMMETRIC = 1,    /* ncclCommWindowRegister: same offsets on all ranks */
    NCCL_ABI_WINDOW_ORDERED = 2,      /* ncclCommWindowRegister: for one-sided calls only  */
    NCCL_ABI_BUILT_IN_OPS = 5,        /* ncclSum .. ncclAvg; users' operators have numbers from
                                         this one on                                        */
};

/* Values of ncclResult_t that base.h does not have. */
enum {
    NCCL_ABI_CUDA_ERROR = 1, /* ncclUnhandledCudaError */
    NCCL_ABI_INTERNAL_ERROR = 3,
    NCCL_ABI_REMOTE_ERROR = 6,
    NCCL_ABI_IN_PROGRESS = 7,
};

#endif
