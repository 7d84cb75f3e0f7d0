/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - register buffers that the peers may read and write directly. */
#include <stdio.h>
#include <string.h>

#include "kernels/group/bootstrap.h"
#include "kernels/group/error.h"
#include "kernels/group/multicast.h"
#include "kernels/group/nccl_window.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"
#include "kernels/order/follower.h"
#include "kernels/order/graph.h"

static struct ar_window *find_base(symtuner_ar *h, const void *base)
{
    for (int i = 0; i < AR_MAX_WINDOWS; i++)
        if (h->windows[i].base == base)
            return &h->windows[i];
    return NULL;
}

enum { GRAPH_MS = 1000 }; /* how long to wait for CUDA to release a graph */

static uint64_t bit(const symtuner_ar *h, const struct ar_window *w)
{
    return 1ull << (w - h->windows);
}

/* Add the window ${seen} to the table of ${h}, in which calls look for their buffers. */
static void show(symtuner_ar *h, const struct ar_window *seen)
{
    struct ar_window *w = find_base(h, NULL);
    int place = (int)(w - h->windows);

    *w = *seen;
    if (h->windows_top <= place)
        h->windows_top = place + 1;
}

/* Return whether no call of ${h} can use our windows: NCCL runs all calls, or the ranks of a
 * communicator share host memory. */
static bool needs_none(const symtuner_ar *h)
{
    return h->gate != NULL || (h->comm != NULL && h->links == AR_LINKS_HOST);
}

static ncclResult_t check(symtuner_ar **handles, void *const *buffers, int n)
{
    if (buffers == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "buffers is NULL");
    return ar_handles_of_group(handles, n);
}

/* Check those arguments that may be wrong on some ranks and right on others. */
static ncclResult_t check_buffer(symtuner_ar *h, const void *buffer, size_t bytes, int i, char *why)
{
    const char *from = buffer;

    if (bytes == 0)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "bytes is 0");
    if (buffer == NULL)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "buffers[%d] is NULL", i);
    if ((uintptr_t)buffer % AR_WORD != 0)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "buffers[%d] is not 16-byte aligned", i);
    for (int k = 0; k < h->windows_top; k++) {
        const struct ar_window *w = &h->windows[k];

        if (w->base == NULL || from >= w->base + w->bytes || w->base >= from + bytes)
            continue;
        return ar_why(why, AR_WHY, ncclInvalidUsage,
                      "buffers[%d]: %p of %zu bytes is registered already", i, (void *)w->base,
                      w->bytes);
    }
    if (find_base(h, NULL) == NULL)
        return ar_why(why, AR_WHY, ncclInvalidUsage, "all %d places for windows are taken",
                      AR_MAX_WINDOWS);
    return ncclSuccess;
}

/* Agree with all ranks on the outcome of a step (ar_bootstrap_agree). All ranks of a local group
 * are in this thread, so they need not agree. */
static ncclResult_t agree(symtuner_ar **handles, int n, ncclResult_t result, uint64_t alike,
                          char *why)
{
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    bool met;

    for (int i = 0; i < n; i++)
        endpoints[i] = &handles[i]->endpoint;
    return handles[0]->comm == NULL
               ? result
               : ar_bootstrap_agree(handles[0]->nccl, endpoints, n, result, alike, why, &met);
}

/* Fill seen[i] with the addresses at which handles[i] reaches the buffers of all ranks. */
static ncclResult_t look_up(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                            const ncclWindow_t *windows, bool ours, struct ar_window *seen,
                            char *why)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < n && result == ncclSuccess; i++) {
        symtuner_ar *h = handles[i];
        struct ar_window *w = &seen[i];

        *w = (struct ar_window){.base = buffers[i], .bytes = bytes};
        if (h->comm == NULL) {
            for (int r = 0; r < n; r++)
                w->peer[handles[r]->me] = buffers[r];
            continue;
        }
        w->handle = windows[i];
        w->ours = ours;
        cudaSetDevice(h->device);
        result = ar_nccl_window_peers(h->nccl, w->handle, h->ranks, h->me, w->peer, why, AR_WHY);
    }
    return result;
}

/* Add multicast addresses to ${seen} on all ranks or on none. Otherwise ranks could choose
 * different kernels, and would wait for each other. Call it when all windows of the group are
 * mapped. */
static ncclResult_t add_multicast(symtuner_ar **handles, int n, struct ar_window *seen, char *why)
{
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    uint64_t mine[AR_MAX_RANKS], all[AR_MAX_RANKS];
    struct ar_multicast m;
    ncclResult_t result = ar_multicast_begin(&m, handles, seen, n, why);
    bool everywhere = true;

    result = agree(handles, n, result, 0, why);
    ar_multicast_end(&m, result == ncclSuccess);
    for (int i = 0; i < n; i++) {
        endpoints[i] = &handles[i]->endpoint;
        mine[i] = m.rank[i].found != NULL;
    }
    if (result == ncclSuccess)
        result =
            ar_bootstrap_exchange(handles[0]->nccl, endpoints, n, mine, all, sizeof *mine, why);
    for (int r = 0; r < handles[0]->ranks && result == ncclSuccess; r++)
        everywhere &= all[r] != 0;
    for (int i = 0; i < n && result == ncclSuccess && everywhere; i++)
        seen[i].multicast = m.rank[i].found;
    return result;
}

static ncclResult_t make_windows(symtuner_ar **handles, void *const *buffers,
                                 const ncclWindow_t *windows, int n, size_t bytes)
{
    ncclWindow_t made[AR_MAX_RANKS] = {NULL}, *at[AR_MAX_RANKS];
    struct ar_window seen[AR_MAX_RANKS];
    ncclResult_t result = ncclSuccess;
    char why[AR_WHY];
    bool ours = windows == NULL;

    for (int i = 0; i < n && result == ncclSuccess; i++)
        result = check_buffer(handles[i], buffers[i], bytes, i, why);
    result = agree(handles, n, result, 2 * (uint64_t)bytes + ours, why);
    if (result == ncclSuccess) {
        if (ours && handles[0]->comm != NULL) {
            for (int i = 0; i < n; i++)
                at[i] = &handles[i]->endpoint.window;
            result = ar_windows_make(handles, buffers, n, bytes, at, why);
            for (int i = 0; i < n; i++)
                made[i] = handles[i]->endpoint.timed_out[0] == 0 ? *at[i] : NULL;
        }
        if (result == ncclSuccess)
            result = look_up(handles, buffers, n, bytes, ours ? made : windows, ours, seen, why);
        result = agree(handles, n, result, 0, why);
        if (result == ncclSuccess && ar_multicast_wanted(handles[0]))
            result = add_multicast(handles, n, seen, why);
    }
    for (int i = 0; i < n; i++) {
        if (result == ncclSuccess)
            show(handles[i], &seen[i]);
        else if (made[i] != NULL)
            ar_window_drop(handles[i], made[i]);
    }
    return result == ncclSuccess ? result : ar_handles_fail(handles, n, result, "%s", why);
}

ncclResult_t symtuner_ar_register(symtuner_ar **handles, void *const *buffers,
                                  const ncclWindow_t *windows, int n, size_t bytes)
{
    enum cudaStreamCaptureMode mode;
    ncclResult_t result = check(handles, buffers, n);
    int device = -1;

    if (result == ncclSuccess && handles[0]->nccl != NULL)
        ar_follower_window(handles[0]->nccl->version);
    if (result != ncclSuccess)
        return result;
    cudaGetDevice(&device);
    /* The program may be capturing one of its streams. While it does, CUDA lets us use other
     * streams only in capture mode relaxed. */
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    if (handles[0]->nodes != NULL && windows == NULL)
        result = ar_nodes_register(handles[0], buffers[0], bytes);
    else if (!needs_none(handles[0]))
        result = make_windows(handles, buffers, windows, n, bytes);
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}

static bool has_ours(const symtuner_ar *h)
{
    bool ours = false;

    for (int i = 0; i < h->windows_top; i++)
        ours |= h->windows[i].base != NULL && h->windows[i].ours;
    return ours;
}

/* Return whether buffers[i] may be deregistered. Graphs must be gone only if the window is ours:
 * plain pointers and the caller's windows stay valid. *ours becomes true if the window is our own,
 * or may be our own on another rank. */
static ncclResult_t may_drop(symtuner_ar *h, const void *buffer, int i, bool *ours, char *why)
{
    const struct ar_window *w = buffer == NULL ? NULL : find_base(h, buffer);

    *ours |= w != NULL ? w->ours : has_ours(h);
    if (w == NULL)
        return ar_why(why, AR_WHY, ncclInvalidUsage, "buffers[%d]: %p is not registered", i,
                      buffer);
    if (w->ours && ar_graphs_live(h, bit(h, w), GRAPH_MS))
        return ar_why(why, AR_WHY, ncclInvalidUsage,
                      "buffers[%d]: a graph holds calls that use %p; destroy it, and its "
                      "executables, before",
                      i, buffer);
    return ncclSuccess;
}

/* If one rank may not deregister our window, no rank does. Otherwise later calls would be zero-copy
 * on some ranks only. Ranks do not wait for each other because of the caller's windows: NCCL's own
 * function need not be called on all ranks at the same time. */
static ncclResult_t deregister(symtuner_ar **handles, void *const *buffers, int n)
{
    ncclResult_t result = ncclSuccess, latest;
    bool ours = false, usable = true;
    char why[AR_WHY], other[AR_WHY];

    for (int i = 0; i < n; i++) {
        latest = may_drop(handles[i], buffers[i], i, &ours, result == ncclSuccess ? why : other);
        result = result == ncclSuccess ? latest : result;
        usable = usable && symtuner_ar_status(handles[i]) == ncclSuccess;
    }
    /* After an error do not agree: there are no later calls, and ranks may be lost. */
    if (ours && usable)
        result = agree(handles, n, result, 0, why);
    if (result != ncclSuccess)
        return ar_handles_fail(handles, n, result, "%s", why);
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];
        struct ar_window *w = find_base(h, buffers[i]);

        w->base = NULL;
        for (struct ar_graph *g = h->graphs; g != NULL; g = g->next)
            g->windows &= ~bit(h, w); /* another window may use this entry next */
        if (!w->ours)
            continue;
        latest = ar_window_drop(h, w->handle);
        if (latest != ncclSuccess)
            result = ar_handles_fail(handles, n, latest, "%.*s", AR_WHY - 1, h->error);
    }
    return result;
}

static ncclResult_t deregister_in_boxes(symtuner_ar *h, void *buffer)
{
    char why[AR_WHY] = "";
    bool ours = false;
    ncclResult_t allowed = may_drop(h->nodes->box, buffer, 0, &ours, why);

    return ar_nodes_deregister(h, buffer, allowed, why);
}

ncclResult_t symtuner_ar_deregister(symtuner_ar **handles, void *const *buffers, int n)
{
    ncclResult_t result = check(handles, buffers, n);
    enum cudaStreamCaptureMode mode;
    int device = -1;

    if (result != ncclSuccess || (needs_none(handles[0]) && handles[0]->nodes == NULL))
        return result;
    cudaGetDevice(&device);
    /* While a thread captures a graph, CUDA lets this thread unmap memory only in capture mode
     * relaxed. */
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    result = handles[0]->nodes != NULL ? deregister_in_boxes(handles[0], buffers[0])
                                       : deregister(handles, buffers, n);
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}
