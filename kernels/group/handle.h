/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - one rank of one group, as the host sees it.
 *
 * kernels/host/rank.c makes it, window.c adds registered buffers, call.c and copy.c launch kernels
 * with it, destroy.c frees it. Only the thread that owns the handle writes its fields; the mailbox
 * alone is shared.
 */
#ifndef AR_HANDLE_H_
#define AR_HANDLE_H_

#include "symtuner_ar.h"

#include <stdatomic.h>

#include "kernels/shared/args.h"
#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/rules.h"
#include "kernels/choose/arenas.h"
#include "kernels/choose/select.h"

#define AR_MAX_WINDOWS 64

/*
 * A part of a rank's scratch. All ranks have the same layout. A kernel uses one arena, so each
 * arena has its own flags. The small arena is there from the start; the other arenas may be made
 * later (kernels/scratch/grow.h). No arena is moved, or freed before the handle, because captured
 * kernels hold its address.
 */
struct ar_arena {
    struct ar_layout layout;  /* bytes 0: this handle never has it */
    char *peer[AR_MAX_RANKS]; /* that of every rank, as this rank maps it */
    void *memory; /* what to free; NULL: none yet, or this arena lies in the memory of an earlier */
    ncclWindow_t window; /* of ${memory} */
};

/* A registered buffer. peer[r]: where rank r's buffer is mapped here. */
struct ar_window {
    char *base; /* NULL: free entry */
    size_t bytes;
    char *peer[AR_MAX_RANKS];
    char *multicast;
    ncclWindow_t handle; /* NULL in local groups */
    bool ours;           /* registered by this library */
};

/* What the program has said of the kernels that follow ours on their streams
 * (symtuner_ar_followers_wait). */
enum ar_follower {
    AR_FOLLOWER_UNKNOWN,      /* nothing                                  */
    AR_FOLLOWER_WAITS,        /* they wait for our kernel if they start early */
    AR_FOLLOWER_MAY_NOT_WAIT, /* it has taken that back                   */
    AR_FOLLOWERS
};

/* The stream of the latest call, and an event recorded after that call. Streams are told apart by
 * the id that CUDA gives each, because different streams can have the same handle: a new stream
 * that replaces a destroyed one, or cudaStreamPerThread in two threads. */
struct ar_order {
    unsigned long long capture; /* id of the capture it belongs to; 0: calls outside of captures */
    bool used;
    unsigned long long stream;
    cudaEvent_t done;
};

struct ar_graph;
struct ar_ipc;
struct ar_local;
struct ar_nodes;
struct ar_meeting;
struct ar_operator;
struct ar_engines;

struct symtuner_ar {
    int ranks, me, device;
    uint64_t group;     /* unique to the group, the same in all its handles */
    int sms, on_device; /* multiprocessors; ranks of this group on this GPU */
    int budget;         /* most blocks on one GPU; the same on all ranks (ar_budget) */
    int let_go;         /* blocks of the latest kernel if the next may start beside it, else 0 */
    int links;
    int beside;          /* enum ar_beside; the same on all ranks */
    bool beside_differs; /* between ranks: then it is unknown on all */
    bool tma;         /* the kernels that move data by TMA can run */
    bool multicast;   /* NCCL may use NVLink multicast: all ranks say so */
    const char *gate; /* why all calls go to NCCL; NULL: our kernels can run */
    char gate_text[2 * AR_WHY + 64];
    char no_peer[AR_WHY]; /* why peer memory failed; empty: it works, or the user asked for host */
    ncclComm_t comm;      /* NULL in local groups */
    bool comm_gone;       /* ncclCommAbort has ended comm, and its windows with it */
    struct ar_nodes *nodes; /* the ranks span boxes and may add up box by box (kernels/nodes) */
    struct ar_endpoint endpoint;
    const struct ar_nccl *nccl;
    struct ar_arena arena[AR_ARENAS];
    struct ar_meeting *meeting; /* NULL: all arenas of this handle were made with it */
    struct ar_local *local;     /* in a local group that grows; see kernels/scratch/grow.c */
    uint32_t wanted[AR_ARENAS]; /* eager calls that needed the arena before it was there */
    uint32_t tries[AR_ARENAS];  /* to make it; the same on all ranks */
    bool wants_ipc;             /* SYMTUNER_AR_IPC=1, on all ranks */
    struct ar_ipc *ipc;         /* NULL: the peers cannot map unregistered buffers (kernels/ipc) */
    bool nan_scratch;           /* for tests: scratch whose contents do not matter is full of NaN */
    void *host_map;             /* host transport: what to unmap */
    size_t host_map_bytes;
    struct ar_state *state;
    struct ar_mailbox *mailbox;
    struct ar_mailbox *mailbox_device;
    uint64_t timeout_ns;
    struct ar_window windows[AR_MAX_WINDOWS];
    int windows_top;         /* entries from here on were never used, so searches stop here */
    struct ar_operator *ops; /* that the program has created (operator.h) */
    int op_count;
    struct ar_force force;
    symtuner_rules *rules; /* NULL: only the built-in table decides */
    char rules_note[AR_RULES_NOTE];
    struct ar_probe probe;          /* the same on all ranks */
    char probe_from[AR_PROBE_FROM]; /* where its figures come from; empty: no probe ran */
    bool stuck; /* a kernel of the probe or of NCCL does not end, so freeing would wait for ever */
    bool gave_nccl; /* at least one call went to NCCL */
    uint32_t stall_ns;
    int lag;               /* tiles, for chunked; 0: as the table says */
    enum ar_start overlap[AR_FOLLOWERS]; /* what GPU, driver, NCCL and the program allow */
    atomic_bool first;    /* of the handles of this process on this GPU (kernels/order/first.h) */
    symtuner_ar *younger; /* the handle that was made after this one */
    struct ar_order eager; /* calls outside of captures; ${graphs} has one per capture */
    struct ar_graph *graphs;
    bool one_stream; /* the caller promised one stream: no event after each eager call */
    /* copy engines */
    cudaStream_t copy_stream;
    cudaEvent_t copy_event[2];  /* where the streams fork and join */
    struct ar_engines *engines; /* of all-gather by the copy engines; NULL: no call yet */
    char error[256];
};

/* Return the most blocks that one call may have. */
static inline int ar_most_ctas(const symtuner_ar *h)
{
    int most = h->on_device > 1 ? ar_budget_together(h->sms, h->budget) : h->budget;

    return most > h->on_device ? most / h->on_device : 1;
}

/* Return the window that holds ${bytes} at ${p}, or NULL. */
static inline const struct ar_window *ar_window_find(const symtuner_ar *h, const void *p,
                                                     size_t bytes)
{
    const char *at = p;

    for (int i = 0; i < h->windows_top; i++) {
        const struct ar_window *w = &h->windows[i];

        if (w->base != NULL && at >= w->base && at + bytes <= w->base + w->bytes)
            return w;
    }
    return NULL;
}

#endif
