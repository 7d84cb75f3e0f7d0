/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - one rank of one group, as the host sees it.
 *
 * kernels/host/rank.c makes it, window.c adds registered buffers, call.c and copy.c launch kernels
 * with it, destroy.c frees it. Only the thread that owns the handle writes its fields; the mailbox
 * alone is shared.
 */
#ifndef ST_AR_HANDLE_H_
#define ST_AR_HANDLE_H_

#include "symtuner_ar.h"

#include "kernels/shared/args.h"
#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/rules.h"
#include "kernels/choose/select.h"

#define ST_MAX_WINDOWS 64

/* A registered buffer and where each rank's copy of it is mapped here. */
struct st_window {
    char *base; /* NULL: free entry */
    size_t bytes;
    char *peer[ST_MAX_RANKS];
    char *multicast;
    ncclWindow_t handle; /* NULL in local groups */
    bool ours;           /* registered by this library */
};

/* The stream of the latest call, and an event behind that call. Streams by the number that CUDA
 * gives each: another thread's cudaStreamPerThread, or a new stream, may have an old one's handle.
 */
struct st_order {
    unsigned long long capture; /* id of the capture it belongs to; 0: eager */
    bool used;
    unsigned long long stream;
    cudaEvent_t done;
};

struct st_graph;

struct symtuner_ar {
    int ranks, me, device;
    uint64_t group;     /* the same in all handles of a group, and only there */
    int sms, on_device; /* multiprocessors; ranks of this group that share them */
    int budget;         /* blocks that these ranks may have, the same on all (st_budget) */
    int let_go;         /* blocks of the latest kernel, if it lets the next be set up beside it */
    int links;
    bool multicast;   /* NCCL may use it: so say all ranks */
    const char *gate; /* why no kernel of ours can run here; NULL when they can */
    char gate_text[2 * ST_WHY];
    char no_peer[ST_WHY]; /* why scratch is in host memory; empty: it is not, or was asked for */
    ncclComm_t comm;      /* NULL in local groups */
    struct st_voice voice;
    const struct st_nccl *nccl;
    struct st_layout layout;
    char *arena;
    char *peer[ST_MAX_RANKS];
    ncclWindow_t arena_window;
    void *host_map; /* host transport: what to unmap */
    size_t host_map_bytes;
    struct st_state *state;
    struct st_mailbox *mailbox;
    struct st_mailbox *mailbox_device;
    uint64_t timeout_ns;
    struct st_window windows[ST_MAX_WINDOWS];
    int windows_top; /* entries from here on were never taken: a call looks at few */
    struct st_force force;
    symtuner_rules *rules; /* NULL: the table alone decides */
    char rules_note[ST_RULES_NOTE];
    struct st_probe probe;          /* the same on all ranks */
    char probe_from[ST_PROBE_FROM]; /* empty: there was none */
    bool stuck;     /* a kernel does not end, the probe's or NCCL's: to free anything would wait */
    bool gave_nccl; /* some call went to NCCL */
    uint32_t stall_ns;
    int lag;               /* 0: the table's */
    enum st_start overlap; /* as far as GPU, driver and NCCL allow: st_start_of() */
    struct st_order eager; /* calls that are captured have an order for each capture, in graphs */
    struct st_graph *graphs;
    bool one_stream; /* no event lies behind the eager calls */
    /* copy engines */
    cudaStream_t copy_stream;
    cudaEvent_t copy_event[2]; /* both streams: begin, end */
    char error[256];
};

/* How its kernels start. Blocks that wait would take the places of another rank on the GPU. */
static inline enum st_start st_start_of(const symtuner_ar *h)
{
    return h->on_device == 1 ? h->overlap : ST_SERIAL;
}

/* Blocks of one call. */
static inline int st_most_ctas(const symtuner_ar *h)
{
    int most = h->on_device > 1 ? st_budget_together(h->sms, h->budget) : h->budget;

    return most > h->on_device ? most / h->on_device : 1;
}

/* The window that holds ${bytes} at ${p}, or NULL. */
static inline const struct st_window *st_window_find(const symtuner_ar *h, const void *p,
                                                     size_t bytes)
{
    const char *at = p;

    for (int i = 0; i < h->windows_top; i++) {
        const struct st_window *w = &h->windows[i];

        if (w->base != NULL && at >= w->base && at + bytes <= w->base + w->bytes)
            return w;
    }
    return NULL;
}

#endif
