/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - struct symtuner_ar, the handle: what the host stores for one rank of a group of ranks.
 *
 * In kernels/host, rank.c fills a new handle, window.c adds registered buffers to it, call.c runs
 * calls with it, and destroy.c frees it. Only the thread that uses the handle writes its fields.
 * There are three exceptions. Kernels and threads that abort the handle write the mailbox, and such
 * threads also write the fields from ${aborting} to ${drained}. A thread that makes or frees
 * another handle may write ${first} and ${next} (kernels/order/first.c). In a local group, the
 * thread of any rank may write the arenas of all ranks (kernels/scratch/grow.c).
 */
#ifndef AR_HANDLE_H_
#define AR_HANDLE_H_

#include "symtuner_ar.h"

#include <pthread.h>
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
 * An arena is a part of a rank's scratch, the memory through which our kernels exchange data. It
 * has the same layout on all ranks. A kernel uses one arena only, so the flags by which its ranks
 * signal each other lie in that arena, too. The small arena exists from the start. The other arenas
 * may be allocated later (kernels/scratch/grow.h). No arena is moved, and none is freed before the
 * handle, because captured kernels hold its address.
 */
struct ar_arena {
    struct ar_layout layout;  /* if its ${bytes} is 0, this handle never has the arena */
    char *peer[AR_MAX_RANKS]; /* [r]: the address at which this rank maps the arena of rank r */
    /* the allocation to free; NULL: the arena does not exist, or lies in the allocation of another
     * arena or in ${host_map} of struct symtuner_ar */
    void *memory;
    ncclWindow_t window; /* NCCL's window of ${memory} */
};

/* A registered buffer. Each call searches all of them, so the fields that the search reads come
 * first. */
struct ar_window {
    char *base; /* start of the buffer; NULL: this entry is free */
    size_t bytes;
    uint64_t number; /* a newer window has a higher number; the number is the same on all ranks */
    bool ours;       /* whether this library registered the window, not the application */
    /* kernels/host/window.c explains the next three fields. */
    bool blocked;             /* calls treat buffers that lie in it as not registered */
    bool gone;                /* deregistered on this rank, but other ranks may still have it */
    bool ended;               /* deregistered on another rank: calls must not use it any more */
    char *peer[AR_MAX_RANKS]; /* [r]: the address at which this rank maps the buffer of rank r */
    char *multicast;          /* multicast address of the buffers of all ranks; NULL: none */
    ncclWindow_t handle;      /* NCCL's window of the buffer; NULL in local groups */
};

/* What the program has told us by symtuner_ar_followers_wait about the kernels that follow ours on
 * their streams. */
enum ar_follower {
    AR_FOLLOWER_UNKNOWN,      /* the program has told us nothing */
    AR_FOLLOWER_WAITS,        /* they wait for our kernel, even if they start early */
    AR_FOLLOWER_MAY_NOT_WAIT, /* perhaps they do not; no later promise changes this */
    AR_FOLLOWERS
};

/* Keeps the calls of a handle in order, so that they run one after the other. It has the stream of
 * the latest call, and an event that is recorded after that call. All calls outside of captures
 * share one such record, and each stream capture has a record for its own calls. Outside of
 * captures ${stream} is the id that CUDA gives to each stream. The stream's handle would not
 * identify the stream: a new stream may get the handle of a destroyed one, and cudaStreamPerThread
 * is another stream in each thread. In a capture ${stream} is mostly the stream's handle
 * (kernels/order/graph.c says why). */
struct ar_order {
    unsigned long long capture; /* id of the capture that the calls are in; 0: no capture */
    bool used;                  /* whether there was a call */
    bool open;                  /* the latest call has not recorded ${done} */
    unsigned long long stream;
    cudaEvent_t done; /* recorded after the latest call; graphs record h->eager.done, too
                         (kernels/order/mixing.h) */
    int let_go;       /* blocks of the latest kernel if it lets the next one start early, else 0 */
};

/* What SYMTUNER_AR_IPC says: 0, 1 or auto. */
enum ar_ipc_mode { AR_IPC_OFF, AR_IPC_ON, AR_IPC_AUTO };

struct ar_graph;
struct ar_ipc;
struct ar_local;
struct ar_nodes;
struct ar_meeting;
struct ar_operator;
struct ar_engines;
struct ar_side;

struct symtuner_ar {
    int ranks, me, device;
    uint64_t group;      /* a number that only the handles of this group have */
    int sms, on_device;  /* multiprocessors of the smallest GPU; ranks on the GPU with most ranks */
    int budget;          /* most blocks that may run at once (ar_budget); the same on all ranks */
    int links;           /* enum ar_links */
    int beside;          /* enum ar_beside; the same on all ranks */
    bool beside_differs; /* the ranks' settings differ, so all of them use AR_BESIDE_UNKNOWN */
    bool tma;            /* whether the kernels that move data by TMA can run */
    bool multicast;      /* whether NCCL can use NVLink multicast; false below 4 ranks */
    /* why all calls go to NCCL, except those that ${nodes} runs; NULL: our kernels can run */
    const char *gate;
    char gate_text[2 * AR_WHY + 64];
    char no_peer[AR_WHY];   /* why peer memory failed; empty: it did not fail, or was not tried */
    ncclComm_t comm;        /* this rank's communicator; NULL in local groups */
    bool comm_gone;         /* whether ncclCommAbort has ended ${comm} and its windows */
    struct ar_nodes *nodes; /* set if the ranks may add up box by box (kernels/nodes), else NULL */
    struct ar_endpoint endpoint;
    const struct ar_nccl *nccl;
    struct ar_arena arena[AR_ARENAS];
    struct ar_meeting *meeting; /* memory in which ranks agree to make arenas; NULL: all exist */
    struct ar_local *local;     /* shared by the ranks of a local group that makes arenas later */
    uint32_t wanted[AR_ARENAS]; /* [a]: how many calls needed arena a before it existed */
    uint32_t tries[AR_ARENAS];  /* [a]: attempts to allocate arena a; the same on all ranks */
    int ipc_mode;               /* enum ar_ipc_mode; the same on all ranks */
    const char *no_auto;        /* why SYMTUNER_AR_IPC=auto has no effect; else NULL */
    struct ar_ipc *ipc;         /* NULL: the peers cannot map unregistered buffers (kernels/ipc) */
    /* set by tests: scratch whose contents do not matter is filled with NaN */
    bool nan_scratch;
    void *host_map; /* pinned host memory to unmap; NULL: this handle has none */
    size_t host_map_bytes;
    struct ar_state *state;
    struct ar_mailbox *mailbox;
    struct ar_mailbox *mailbox_device; /* the same mailbox, as the GPU maps it */
    uint64_t timeout_ns;
    struct ar_window windows[AR_MAX_WINDOWS];
    int windows_top;         /* entries of ${windows} from here on were never used */
    uint64_t registrations;  /* number of the newest window */
    bool no_multimem;        /* a window of some rank got no multicast address: ask no more */
    struct ar_operator *ops; /* operators that the program has created (operator.h) */
    int op_count;
    struct ar_force force;
    symtuner_rules *rules; /* NULL: only the built-in table decides */
    char rules_note[AR_RULES_NOTE];
    struct ar_probe probe;          /* the probe's figures, the same on all ranks */
    char probe_from[AR_PROBE_FROM]; /* where these figures come from; empty: no probe ran */
    bool stuck;        /* a kernel of the probe or of NCCL does not end, so free nothing */
    bool late;         /* symtuner_ar_synchronize has waited in vain up to the time limit */
    bool gave_nccl;    /* whether a call went to NCCL */
    uint32_t decided;  /* for how many of the next calls symtuner_ar_decide has chosen tma_ipc */
    uint32_t stall_ns; /* tests set this: longest pause in kernels, in ns */
    int lag;           /* SYMTUNER_AR_LAG, in tiles; 0: as rows.c says */
    enum ar_start overlap[AR_FOLLOWERS]; /* how kernels start, for each value of enum ar_follower */
    atomic_bool first;       /* whether this handle is the first on its GPU (order/first.h) */
    uint64_t place;          /* position in the order of all handles (order/first.h) */
    bool placed;             /* whether the ranks have agreed on ${place} */
    symtuner_ar *next;       /* another handle of this process; order/first.c has the list */
    struct ar_order eager;   /* the order of the calls outside of captures */
    struct ar_graph *graphs; /* one record for each capture with calls of this handle */
    bool one_stream;         /* config.one_stream: ${eager}.done is not recorded (order/graph.c) */
    bool mixing;             /* graphs and other calls wait for each other (order/mixing.h) */
    /* The next fields are for the copy engines. */
    /* for copies by the host and for the start-up probe; no call runs on this stream */
    cudaStream_t copy_stream;
    struct ar_side *sides;      /* our own streams beside the caller's (order/side.h); or NULL */
    cudaEvent_t copy_event[2];  /* [0]: work on a stream of ${sides} may begin; [1]: it has ended */
    struct ar_engines *engines; /* streams of kernels/engines; NULL: no call yet */
    cudaEvent_t copied;         /* recorded after the latest uncaptured call with copy engines */
    bool has_copied;            /* whether ${copied} was recorded; atomic */
    int copying;                /* number of calls that are submitting copies just now; atomic */
    int aborting;               /* number of threads in symtuner_ar_abort; atomic */
    bool has_marker;            /* whether there is a thread ${marker} */
    pthread_t marker;           /* tells the GPU that the handle was aborted (host/abort.c) */
    bool drained;               /* whether ${marker} has stopped waiting for copies; atomic */
    char error[256];            /* what symtuner_ar_error() returns */
};

/* Return the largest number of blocks that one call may have on each rank. */
static inline int ar_most_ctas(const symtuner_ar *h)
{
    int most = h->on_device > 1 ? ar_budget_together(h->sms, h->budget) : h->budget;

    return most > h->on_device ? most / h->on_device : 1;
}

/* Return the window through which calls use the ${bytes} at ${p}, or NULL if there is none. If
 * several windows hold these bytes, return the one that begins nearest before ${p}. If several
 * begin there, return the newest of them. NCCL makes the same choice (dev_runtime.cc of 2.28.3 to
 * 2.30.7). So a program that keeps the windows that NCCL needs also keeps those that we need. */
static inline const struct ar_window *ar_window_find(const symtuner_ar *h, const void *p,
                                                     size_t bytes)
{
    const struct ar_window *found = NULL;
    const char *at = p;

    for (int i = 0; i < h->windows_top; i++) {
        const struct ar_window *w = &h->windows[i];

        if (w->base == NULL || w->ended || at < w->base || at + bytes > w->base + w->bytes)
            continue;
        if (w->blocked)
            return NULL;
        if (!w->gone && (found == NULL || w->base > found->base ||
                         (w->base == found->base && w->number > found->number)))
            found = w;
    }
    return found;
}

/* Return the newest window that begins at ${base} and was not deregistered, or NULL. */
static inline struct ar_window *ar_window_at(symtuner_ar *h, const void *base)
{
    struct ar_window *found = NULL;

    for (int i = 0; i < h->windows_top && base != NULL; i++) {
        struct ar_window *w = &h->windows[i];

        if (w->base == base && !w->gone && (found == NULL || w->number > found->number))
            found = w;
    }
    return found;
}

#endif
