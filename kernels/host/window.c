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

enum { GRAPH_MS = 1000 }; /* how long to wait until CUDA has freed a graph that was destroyed */

static uint64_t bit(const symtuner_ar *h, const struct ar_window *w)
{
    return 1ull << (w - h->windows);
}

/* Write the window ${seen} to entry ${place} of h->windows, where calls look for their buffers. */
static void show(symtuner_ar *h, int place, const struct ar_window *seen)
{
    h->windows[place] = *seen;
    h->windows[place].number = ++h->registrations;
    if (h->windows_top <= place)
        h->windows_top = place + 1;
}

/* Let no call use ${w} any more. A window of our own is dropped on all ranks at once, so its entry
 * becomes free. A window of the caller may still exist on other ranks, so its entry is kept until
 * the ranks compare their windows again (compare()). */
static void forget(symtuner_ar *h, struct ar_window *w)
{
    w->gone = !w->ours;
    if (w->ours)
        w->base = NULL;
    for (struct ar_graph *g = h->graphs; g != NULL; g = g->next)
        g->windows &= ~bit(h, w); /* the graph does not use the next window in this entry */
}

/* Return whether no call of ${h} can use our windows: NCCL runs all calls, or the ranks of a
 * communicator exchange data through host memory. */
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
static ncclResult_t check_buffer(const void *buffer, size_t bytes, int i, char *why)
{
    if (bytes == 0)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "bytes is 0");
    if (buffer == NULL)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "buffers[%d] is NULL", i);
    if ((uintptr_t)buffer % AR_WORD != 0)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "buffers[%d] is not 16-byte aligned", i);
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

/* ---- windows that overlap --------------------------------------------------------------------
 *
 * Programs register memory that already lies in a window: XLA does so for each of its executables.
 * Then a call's buffer may lie in several windows. Each rank knows only where its own buffer lies,
 * but all ranks must choose alike, and must reach the same memory. So when the ranks register a
 * buffer, they compare at what offset it lies in each older window. If the offset is the same on
 * all ranks, calls may use both windows. It does not matter which of the two a rank takes: a call's
 * buffer lies in both on all ranks or on none, and at the same places. If the offset differs, both
 * windows are blocked: if a buffer of a call lies in a blocked window, the call uses no window for
 * the buffer, not even another one.
 *
 * NCCL's function to deregister does not wait for other ranks. So a rank may have deregistered a
 * blocked window that other ranks still have. As long as they do not use a window for buffers in
 * it, this rank must not, either. Therefore a rank remembers the windows that it has deregistered
 * (gone), until the ranks compare their windows again. Then all ranks stop using these windows
 * (ended), because no buffer of a call can lie in a window that one rank has deregistered. */

/* Two results of distance() that are not distances. NOT_HERE: the rank has no such window. APART:
 * the new buffer lies outside of the window. */
static const int64_t NOT_HERE = INT64_MIN, APART = INT64_MAX;

struct distances {
    int64_t from[AR_MAX_WINDOWS]; /* [w]: from the start of window w to the new buffer, in bytes */
};

_Static_assert(sizeof(struct distances) <= AR_INFO_BYTES, "one rank may send all distances");

static int64_t distance(const struct ar_window *w, const char *buffer, size_t bytes)
{
    if (w->base == NULL || w->gone)
        return NOT_HERE;
    return buffer < w->base + w->bytes && w->base < buffer + bytes ? buffer - w->base : APART;
}

/* Update window w: the new buffers do not lie at the same offset in it on all ranks, or no rank has
 * it. ${here} is the number of ranks that still have the window. */
static void judge(symtuner_ar *h, int w, int here)
{
    struct ar_window *window = &h->windows[w];

    if (window->gone)
        window->base = NULL;
    else if (here < h->ranks)
        window->ended = true;
    else
        window->blocked = true;
}

/* Let all ranks compare where the new buffer of each rank lies in the older windows, and update the
 * older windows (judge()). *place becomes an entry of h->windows that is free on all ranks, or -1
 * if there is none. *blocked says whether the new window is blocked. */
static ncclResult_t compare(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                            int *place, bool *blocked, char *why)
{
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    struct distances mine[AR_MAX_RANKS], all[AR_MAX_RANKS];
    const int ranks = handles[0]->ranks;
    ncclResult_t result = ncclSuccess;

    *place = -1;
    *blocked = false;
    for (int i = 0; i < n; i++) {
        endpoints[i] = &handles[i]->endpoint;
        for (int w = 0; w < AR_MAX_WINDOWS; w++)
            mine[i].from[w] = distance(&handles[i]->windows[w], buffers[i], bytes);
    }
    if (handles[0]->comm == NULL)
        memcpy(all, mine, (size_t)n * sizeof *mine); /* the order does not matter */
    else
        result =
            ar_bootstrap_exchange(handles[0]->nccl, endpoints, n, mine, all, sizeof *mine, why);
    for (int w = 0; w < AR_MAX_WINDOWS && result == ncclSuccess; w++) {
        int here = 0, alike = 0;

        for (int r = 0; r < ranks; r++) {
            here += all[r].from[w] != NOT_HERE;
            alike += all[r].from[w] == all[0].from[w];
        }
        if (here == 0 && *place < 0)
            *place = w;
        if (here != 0 && alike == ranks)
            continue;
        *blocked |= here == ranks;
        for (int i = 0; i < n; i++)
            judge(handles[i], w, here);
    }
    return result;
}

/* ---- register -------------------------------------------------------------------------------- */

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

/* Add multicast addresses to ${seen} if the windows of all ranks have them. If one rank's window
 * has none, add none: otherwise ranks could choose different kernels, and would wait for each other
 * for ever. Call this when all windows of the group are mapped. */
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
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        seen[i].multicast = everywhere ? m.rank[i].found : NULL;
        handles[i]->no_multimem = !everywhere;
        for (int w = 0; w < AR_MAX_WINDOWS && !everywhere; w++)
            handles[i]->windows[w].multicast = NULL;
    }
    return result;
}

static ncclResult_t make_windows(symtuner_ar **handles, void *const *buffers,
                                 const ncclWindow_t *windows, int n, size_t bytes)
{
    ncclWindow_t made[AR_MAX_RANKS] = {NULL}, *at[AR_MAX_RANKS];
    struct ar_window seen[AR_MAX_RANKS];
    ncclResult_t result;
    char why[AR_WHY];
    bool ours = windows == NULL, blocked;
    int place;

    result = compare(handles, buffers, n, bytes, &place, &blocked, why);
    if (result == ncclSuccess && place < 0)
        result = ar_why(why, AR_WHY, ncclInvalidUsage, "all %d places for windows are taken",
                        AR_MAX_WINDOWS);
    for (int i = 0; i < n && result == ncclSuccess; i++)
        result = check_buffer(buffers[i], bytes, i, why);
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
        if (result == ncclSuccess && ar_multicast_wanted(handles[0]) && !handles[0]->no_multimem)
            result = add_multicast(handles, n, seen, why);
    }
    for (int i = 0; i < n; i++) {
        seen[i].blocked = blocked;
        if (result == ncclSuccess)
            show(handles[i], place, &seen[i]);
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

/* Find the newest window that begins at ${buffer}, which is buffers[i], and check whether it may be
 * deregistered. As long as a graph uses a window that this library has registered, we must not
 * deregister the window, because that unmaps its addresses. To forget a window of the caller, or
 * the pointers of a local group, unmaps nothing. *ours becomes true if the window is our own on
 * this rank, or may be our own on another rank. */
static ncclResult_t may_drop(symtuner_ar *h, const void *buffer, int i, struct ar_window **found,
                             bool *ours, char *why)
{
    const struct ar_window *w = *found = ar_window_at(h, buffer);

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

/* If one rank may not deregister a window of our own, no rank does. Otherwise later calls would be
 * zero-copy on some ranks only. If the window is the caller's, the ranks do not wait for each
 * other: as NCCL allows, each rank may deregister it at another time. */
static ncclResult_t deregister(symtuner_ar **handles, void *const *buffers, int n)
{
    struct ar_window *w[AR_MAX_RANKS];
    ncclResult_t result = ncclSuccess, latest;
    bool ours = false, usable = true;
    char why[AR_WHY], other[AR_WHY];

    for (int i = 0; i < n; i++) {
        latest =
            may_drop(handles[i], buffers[i], i, &w[i], &ours, result == ncclSuccess ? why : other);
        result = result == ncclSuccess ? latest : result;
        usable = usable && ar_status(handles[i]) == ncclSuccess;
        if (result == ncclSuccess && w[i]->number != w[0]->number)
            result = ar_why(why, AR_WHY, ncclInvalidUsage,
                            "buffers[0] and buffers[%d] were not registered last in one call", i);
    }
    /* If a handle has an error, do not ask the other ranks: no calls follow anyway, and a lost rank
     * would not answer. */
    if (ours && usable)
        result = agree(handles, n, result, w[0] == NULL ? 0 : w[0]->number, why);
    if (result != ncclSuccess)
        return ar_handles_fail(handles, n, result, "%s", why);
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];

        forget(h, w[i]);
        if (!w[i]->ours)
            continue;
        latest = ar_window_drop(h, w[i]->handle);
        if (latest != ncclSuccess)
            result = ar_handles_fail(handles, n, latest, "%.*s", AR_WHY - 1, h->error);
    }
    return result;
}

static ncclResult_t deregister_in_boxes(symtuner_ar *h, void *buffer)
{
    char why[AR_WHY] = "";
    bool ours = false;
    struct ar_window *w;
    ncclResult_t allowed = may_drop(h->nodes->box, buffer, 0, &w, &ours, why);

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

ncclResult_t symtuner_ar_deregister_window(symtuner_ar *h, ncclWindow_t window)
{
    if (h == NULL)
        return ar_fail_null();
    if (needs_none(h))
        return ncclSuccess;
    for (int i = 0; i < h->windows_top; i++) {
        struct ar_window *w = &h->windows[i];

        if (w->base == NULL || w->gone || w->ours || window == NULL || w->handle != window)
            continue;
        forget(h, w);
        return ncclSuccess;
    }
    return ar_fail(h, ncclInvalidUsage, "window %p is not registered", (void *)window);
}

int symtuner_ar_registered(const symtuner_ar *h, const void *buffer, size_t bytes)
{
    if (h != NULL && h->nodes != NULL)
        h = h->nodes->box;
    return h != NULL && ar_window_find(h, buffer, bytes) != NULL;
}
