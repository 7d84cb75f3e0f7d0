/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - one rank of one group, as the host sees it.
 *
 * Life: kernels/host/create.c makes it, kernels/host/window.c adds registered buffers, kernels/host/call.c and kernels/host/copy.c launch
 * kernels with it. Fields are written by the thread that owns the handle; only the mailbox is
 * shared.
 */
#ifndef ST_AR_HANDLE_H_
#define ST_AR_HANDLE_H_

#include "symtuner_ar.h"

#include "kernels/shared/args.h"
#include "kernels/group/bootstrap.h"
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

/* Set the handle's error sentence and return ${result}. */
ncclResult_t st_fail(symtuner_ar *h, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ncclResult_t st_fail_cuda(symtuner_ar *h, cudaError_t error, const char *what);

/* The same in all of ${handles} and in symtuner_ar_error(NULL). */
ncclResult_t st_handles_fail(symtuner_ar **handles, int n, ncclResult_t result, const char *format,
                             ...) __attribute__((format(printf, 4, 5)));

/* An error when a handle is there twice or one of a local group is missing; skips NULL. */
ncclResult_t st_handles_check(symtuner_ar **handles, int n);

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

/* Fill the fields of ${args} that do not depend on the call. */
void st_args_start(const symtuner_ar *h, struct st_args *args);

/* The kernel for a piece, NULL when there is none. Reads ranks, bytes and alignments of ${args}. */
const void *st_kernel_find(int family, int reducer, const struct st_args *args);

/* Load every kernel now: lazy loading while a peer's kernel spins would deadlock one-GPU groups,
 * and must not happen inside a stream capture. ${arch}: what they were compiled for, 90: sm_90. */
cudaError_t st_kernels_load(int *arch);

/* The window that holds ${bytes} at ${p}, or NULL. */
const struct st_window *st_window_find(const symtuner_ar *h, const void *p, size_t bytes);

/* Collective: a window for each of this thread's buffers; NULL where NCCL made none. */
ncclResult_t st_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *windows, char *why);
/* Not when the communicator is late: then the window stays, and so must the memory. */
ncclResult_t st_window_drop(symtuner_ar *h, ncclWindow_t window);

/* Arena in peer memory or pinned host memory (arena.c). */
ncclResult_t st_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create);
void st_arena_free(symtuner_ar *h);

/* One piece by copy engines (kernels/host/copy.c). In a graph the guard goes in front: copies of a graph that
 * outlives the handle must not run. */
ncclResult_t st_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t st_copy_run(symtuner_ar *h, const struct st_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);

#endif
