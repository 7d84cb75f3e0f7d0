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

#include "kernels/shared/args.h"
#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/rules.h"
#include "kernels/choose/select.h"

#define AR_MAX_WINDOWS 64

/* A registered buffer and where each rank's copy of it is mapped here. */
struct ar_window {
    char *base; /* NULL: free entry */
    size_t bytes;
    char *peer[AR_MAX_RANKS];
    char *multicast;
    ncclWindow_t handle; /* NULL in local groups */
    bool ours;           /* registered by this library */
};

/* The stream of the latest call, and an event behind that call. Streams by the number that CUDA
 * gives each: another thread's cudaStreamPerThread, or a new stream, may have an old one's handle.
 */
struct ar_order {
    unsigned long long capture; /* id of the capture it belongs to; 0: eager */
    bool used;
    unsigned long long stream;
    cudaEvent_t done;
};

struct ar_graph;

struct symtuner_ar {
    int ranks, me, device;
    uint64_t group;     /* the same in all handles of a group, and only there */
    int sms, on_device; /* multiprocessors; ranks of this group that share them */
    int budget;         /* blocks that these ranks may have, the same on all (ar_budget) */
    int let_go;         /* blocks of the latest kernel, if it lets the next be set up beside it */
    int links;
    bool multicast;   /* NCCL may use it: so say all ranks */
    const char *gate; /* why no kernel of ours can run here; NULL when they can */
    char gate_text[2 * AR_WHY];
    char no_peer[AR_WHY]; /* why scratch is in host memory; empty: it is not, or was asked for */
    ncclComm_t comm;      /* NULL in local groups */
    struct ar_endpoint endpoint;
    const struct ar_nccl *nccl;
    struct ar_layout layout;
    char *arena;
    char *peer[AR_MAX_RANKS];
    ncclWindow_t arena_window;
    void *host_map; /* host transport: what to unmap */
    size_t host_map_bytes;
    struct ar_state *state;
    struct ar_mailbox *mailbox;
    struct ar_mailbox *mailbox_device;
    uint64_t timeout_ns;
    struct ar_window windows[AR_MAX_WINDOWS];
    int windows_top; /* entries from here on were never taken: a call looks at few */
    struct ar_force force;
    symtuner_rules *rules; /* NULL: the table alone decides */
    char rules_note[AR_RULES_NOTE];
    struct ar_probe probe;          /* the same on all ranks */
    char probe_from[AR_PROBE_FROM]; /* empty: there was none */
    bool stuck;     /* a kernel does not end, the probe's or NCCL's: to free anything would wait */
    bool gave_nccl; /* some call went to NCCL */
    uint32_t stall_ns;
    int lag;               /* 0: the table's */
    enum ar_start overlap; /* as far as GPU, driver and NCCL allow: ar_start_of() */
    struct ar_order eager; /* calls that are captured have an order for each capture, in graphs */
    struct ar_graph *graphs;
    bool one_stream; /* no event lies behind the eager calls */
    /* copy engines */
    cudaStream_t copy_stream;
    cudaEvent_t copy_event[2]; /* both streams: begin, end */
    char error[256];
};

/* How its kernels start. Blocks that wait would take the places of another rank on the GPU. */
static inline enum ar_start ar_start_of(const symtuner_ar *h)
{
    return h->on_device == 1 ? h->overlap : AR_SERIAL;
}

/* Blocks of one call. */
static inline int ar_most_ctas(const symtuner_ar *h)
{
    int most = h->on_device > 1 ? ar_budget_together(h->sms, h->budget) : h->budget;

    return most > h->on_device ? most / h->on_device : 1;
}

/* The window that holds ${bytes} at ${p}, or NULL. */
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
