/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.c - free handles, at once or when the last graph with their calls is gone. */
#include "kernels/host/destroy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/gpu_wait.h"
#include "kernels/group/nccl_window.h"
#include "kernels/host/launch.h"
#include "kernels/host/rank.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"
#include "kernels/order/first.h"
#include "kernels/order/graph.h"
#include "kernels/scratch/arena.h"

/* How long ar_deferred_free waits for each GPU with discarded handles to become idle. */
enum { IDLE_NS = 100000000 };

struct deferred {
    struct deferred *next;
    symtuner_ar *handles[AR_MAX_RANKS];
    int n;
    bool discarded;
};

/* How long symtuner_ar_destroy waits for the graphs of a handle over several boxes. From 2.31 on,
 * ncclCommDestroy waits for the other ranks of the box. If one rank frees its communicators now and
 * another does so later, because CUDA has not yet released the graphs there, the program can hang:
 * the first rank waits for the second, which may wait for the first in a call of the program. */
enum { GRAPHS_MS = 500 };

static struct deferred *deferred_list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Return whether a graph that still exists contains calls of these handles. */
static bool any_live(symtuner_ar **handles, int n)
{
    bool live = false;

    for (int i = 0; i < n; i++)
        live |= ar_graphs_live(handles[i], ~0ull, 0);
    return live;
}

static void put(struct deferred *g)
{
    pthread_mutex_lock(&lock);
    g->next = deferred_list;
    deferred_list = g;
    pthread_mutex_unlock(&lock);
}

/* Put these handles on the list that ar_deferred_free() frees later. */
static void list(symtuner_ar **handles, int n, bool discarded)
{
    struct deferred *g = calloc(1, sizeof *g);

    if (g == NULL)
        /* Out of memory: these handles are never freed. */
        return;
    memcpy(g->handles, handles, (size_t)n * sizeof *handles);
    g->n = n;
    g->discarded = discarded;
    put(g);
}

/* Take those handles off the list that are all on ${gpus}. */
static struct deferred *take(uint64_t gpus)
{
    struct deferred *taken = NULL;

    pthread_mutex_lock(&lock);
    for (struct deferred **at = &deferred_list; *at != NULL;) {
        struct deferred *g = *at;

        if ((ar_gpus_of(g->handles, g->n) & ~gpus) != 0) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        g->next = taken;
        taken = g;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

/* Return whether the handles were discarded and a kernel may still run on their GPU. Such handles
 * can be freed only if the whole GPU is idle: to free memory, CUDA may wait for all kernels on the
 * GPU, and kernels of NCCL may never end. *busy has a bit for each GPU that was found busy. */
static bool runs(const struct deferred *g, uint64_t *busy)
{
    const int device = g->handles[0]->device;
    const uint64_t bit = AR_GPU(device);

    if (!g->discarded)
        return false;
    if ((*busy & bit) == 0) {
        cudaError_t error = ar_gpu_wait(device, IDLE_NS);

        if (error == cudaErrorNotReady || error == cudaErrorStreamCaptureUnsupported)
            *busy |= bit;
    }
    return (*busy & bit) != 0;
}

uint64_t ar_gpus_of(symtuner_ar *const *handles, int n)
{
    uint64_t gpus = 0;

    for (int i = 0; i < n; i++)
        gpus |= handles[i] != NULL ? AR_GPU(handles[i]->device) : 0;
    return gpus;
}

/* Nothing here waits with the lock held: CUDA may wait for a kernel, and the kernel for a thread
 * that waits for the lock. */
void ar_deferred_free(uint64_t gpus)
{
    uint64_t busy = 0;
    int device = -1;

    for (struct deferred *g = take(gpus), *next; g != NULL; g = next) {
        next = g->next;
        if (any_live(g->handles, g->n) || runs(g, &busy)) {
            put(g);
            continue;
        }
        if (device < 0)
            cudaGetDevice(&device);
        for (int i = 0; i < g->n; i++)
            ar_rank_free(g->handles[i]);
        free(g);
    }
    if (device >= 0)
        cudaSetDevice(device); /* back to the GPU that was current before */
}

/* Return whether the event h->eager.done marks the end of all work of this handle. */
static bool is_marked(symtuner_ar *h)
{
    return !h->gave_nccl && !h->eager.open && !ar_graphs_live(h, ~0ull, 0);
}

/* Wait for the latest call by its event. CUDA allows this while a stream of the GPU is captured. A
 * wait for the whole GPU would fail then, and break the capture. */
static cudaError_t await_mark(const symtuner_ar *h)
{
    return h->eager.used ? cudaEventSynchronize(h->eager.done) : cudaSuccess;
}

/* Wait until this rank's calls have ended. If NCCL ran one of them, wait no longer than the time
 * limit: our kernels give up on a dead peer by themselves, but NCCL's kernels do not. A time limit
 * below 2 s counts as 2 s, because other work may be queued on the GPU. If ${another_is_stuck},
 * this function has already waited for another handle without success. Then it waits no longer than
 * 2 s. */
static ncclResult_t await_calls(symtuner_ar *h, bool another_is_stuck)
{
    const uint64_t least = 2000000000;
    uint64_t limit = another_is_stuck || h->timeout_ns < least ? least : h->timeout_ns;
    cudaError_t error = cudaSetDevice(h->device);

    if (error == cudaSuccess)
        error = is_marked(h)   ? await_mark(h)
                : h->gave_nccl ? ar_gpu_wait(h->device, limit)
                               : cudaDeviceSynchronize();
    if (error == cudaSuccess)
        return ncclSuccess;
    /* If CUDA refuses to wait, nobody knows whether work still runs. */
    h->stuck = error == cudaErrorStreamCaptureUnsupported;
    if (error != cudaErrorNotReady)
        return ar_fail_cuda(NULL, error, "what ran before symtuner_ar_destroy");
    h->stuck = true;
    if (h->nodes != NULL)
        ar_nodes_abort(h); /* the program does not have the communicators of h->nodes */
    return ar_fail(NULL, ncclRemoteError,
                   "rank %d frees nothing: GPU %d is not idle after %llu ms, and NCCL had calls of "
                   "this handle; is a rank missing? ncclCommAbort ends them",
                   h->me, h->device, (unsigned long long)(limit / 1000000));
}

ncclResult_t symtuner_ar_synchronize(symtuner_ar *h)
{
    enum cudaStreamCaptureMode mode;
    ncclResult_t result;
    int device = -1;
    bool stuck;

    if (h == NULL)
        return ar_fail_null();
    if (h->endpoint.timed_out[0] != 0)
        return symtuner_ar_status(h); /* do not wait: NCCL's kernels may never end */
    cudaGetDevice(&device);
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    stuck = h->stuck;
    result = await_calls(h, h->late);
    h->late = h->late || (h->stuck && !stuck);
    h->stuck = stuck; /* whether the handle can be freed is for symtuner_ar_destroy to find out */
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}

static void drop_windows(symtuner_ar *h)
{
    for (int w = 0; w < AR_MAX_WINDOWS; w++)
        if (h->windows[w].base != NULL && h->windows[w].ours)
            ar_window_drop(h, h->windows[w].handle);
    ar_arenas_free(h);
}

/* Return what symtuner_ar_status() reports of a handle whose calls have ended. After an abort
 * return ncclSuccess, as ncclCommAbort does: the caller knows that it has aborted the handle. */
static ncclResult_t report(symtuner_ar *h)
{
    ncclResult_t result = ncclSuccess;

    if (__atomic_load_n(&h->mailbox->abort, __ATOMIC_RELAXED) == 0)
        result = ar_status(h);
    return result == ncclSuccess
               ? result
               : ar_fail(NULL, result, "rank %d is freed: %.220s", h->me, symtuner_ar_error(h));
}

/* Put off the freeing of handles[i] if a graph that still exists contains its calls. In a local
 * group, all handles of the group are put off together if a graph contains calls of any of them.
 * ar_deferred_free() frees them later. Returns whether the freeing was put off; if so, the entries
 * of these handles in ${handles} are now NULL. */
static bool defer_group(symtuner_ar **handles, int n, int i)
{
    symtuner_ar *together[AR_MAX_RANKS], *h = handles[i];
    const uint32_t destroyed = AR_DESTROYED;
    int many = 0;

    for (int k = 0; k < n; k++)
        if (handles[k] != NULL && (k == i || (h->comm == NULL && handles[k]->group == h->group)))
            together[many++] = handles[k];
    if (!any_live(together, many))
        return false;
    if (h->comm != NULL) { /* the program may end h->comm now, which unmaps the peers' memory */
        cudaSetDevice(h->device);
        cudaMemcpyAsync(&h->state->dead, &destroyed, sizeof destroyed, cudaMemcpyHostToDevice,
                        h->copy_stream);
        cudaStreamSynchronize(h->copy_stream);
        drop_windows(h);
    }
    for (int k = 0; k < n; k++)
        for (int j = 0; j < many; j++)
            if (handles[k] == together[j])
                handles[k] = NULL;
    /* This comes last, because from here on another thread may free the handles. */
    list(together, many, false);
    return true;
}

ncclResult_t symtuner_ar_destroy(symtuner_ar **handles, int n)
{
    ncclResult_t result = ar_handles_check(handles, n);
    enum cudaStreamCaptureMode mode;
    bool stuck = false, discarded = false;
    uint64_t gpus;
    int device = -1;

    if (result != ncclSuccess)
        return result;
    gpus = ar_gpus_of(handles, n);
    cudaGetDevice(&device);
    /* While another thread captures a graph, CUDA lets this thread free and unmap memory only in
     * capture mode relaxed. */
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    ar_deferred_free(gpus != 0 ? gpus : ~UINT64_C(0));
    /* Wait for our own calls. Once they have ended, no peer writes to our scratch any more. */
    for (int i = 0; i < n; i++) {
        ncclResult_t latest;

        if (handles[i] == NULL || handles[i]->endpoint.timed_out[0] != 0)
            continue; /* do not wait: NCCL's kernels may never end */
        latest = await_calls(handles[i], stuck || handles[i]->late);
        if (latest == ncclSuccess)
            latest = report(handles[i]);
        result = latest != ncclSuccess ? latest : result;
        stuck = stuck || handles[i]->stuck;
    }
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];
        bool over; /* the calls have ended, and no call of NCCL has timed out */

        if (h == NULL)
            continue;
        ar_abort_join(h); /* another thread may still be in symtuner_ar_abort */
        over = !h->stuck && h->endpoint.timed_out[0] == 0;
        if (over && h->nodes != NULL && h->nodes->aborted) {
            /* NCCL is aborting the communicators of h->nodes. The abort ends only when no graph has
             * calls of this handle any more. Do not wait for that here. */
            symtuner_ar_discard(&handles[i], 1);
            discarded = true;
            continue;
        }
        if (over && h->nodes != NULL)
            ar_graphs_live(h, ~0ull, GRAPHS_MS);
        if (over)
            ar_nodes_close(h);
        if (over && defer_group(handles, n, i))
            continue;
        if (!h->stuck)
            drop_windows(h);
        if (h->endpoint.timed_out[0] != 0)
            result = ar_fail(NULL, ncclRemoteError, "rank %d frees nothing: %s", h->me,
                             h->endpoint.timed_out);
        ar_rank_free(h);
        handles[i] = NULL;
    }
    if (discarded)
        ar_deferred_free(gpus);
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}

ncclResult_t symtuner_ar_discard(symtuner_ar **handles, int n)
{
    ncclResult_t result = ar_handles_check(handles, n);

    for (int i = 0; i < n && result == ncclSuccess; i++)
        if (handles[i] != NULL && handles[i]->comm == NULL)
            result = ar_fail(NULL, ncclInvalidUsage,
                             "handles[%d] is of a local group; symtuner_ar_destroy frees it", i);
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        symtuner_ar *h = handles[i], *all[2];
        int many = 1;

        if (h == NULL)
            continue;
        if (__atomic_load_n(&h->mailbox->abort, __ATOMIC_RELAXED) == 0)
            symtuner_ar_abort(h);
        ar_first_leave(h);
        h->comm_gone = true;
        all[0] = h;
        if (h->nodes != NULL && h->nodes->box != NULL) { /* list the handle of the box, too */
            all[many++] = h->nodes->box;
            ar_first_leave(h->nodes->box);
            h->nodes->box = NULL;
        }
        /* A handle that timed out is never freed, because NCCL may still use it. */
        if (h->endpoint.timed_out[0] == 0)
            list(all, many, true);
        handles[i] = NULL;
    }
    return result;
}
