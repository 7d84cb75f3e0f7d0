/* SPDX-License-Identifier: Apache-2.0 */
/* ar_window.c - buffers that the peers may touch directly. */
#include "ar_handle.h"

#include <stdio.h>
#include <string.h>

const struct st_window *st_window_find(const symtuner_ar *h, const void *p, size_t bytes)
{
    const char *at = p;

    for (int i = 0; i < h->windows_top; i++) {
        const struct st_window *w = &h->windows[i];

        if (w->base != NULL && at >= w->base && at + bytes <= w->base + w->bytes)
            return w;
    }
    return NULL;
}

static struct st_window *find_base(symtuner_ar *h, const void *base)
{
    for (int i = 0; i < ST_MAX_WINDOWS; i++)
        if (h->windows[i].base == base)
            return &h->windows[i];
    return NULL;
}

/* From now on calls find ${w}. */
static void show(symtuner_ar *h, struct st_window *w, void *base)
{
    int place = (int)(w - h->windows);

    w->base = base;
    if (h->windows_top <= place)
        h->windows_top = place + 1;
}

static ncclResult_t check(symtuner_ar **handles, void *const *buffers, int n)
{
    if (handles == NULL || buffers == NULL || n < 1 || n > ST_MAX_RANKS)
        return ncclInvalidArgument;
    for (int i = 0; i < n; i++) {
        if (handles[i] == NULL)
            return ncclInvalidArgument;
        if (buffers[i] == NULL)
            return st_fail(handles[i], ncclInvalidArgument, "buffers[%d] is NULL", i);
    }
    if (handles[0]->comm == NULL && n != handles[0]->ranks)
        return st_fail(handles[0], ncclInvalidUsage,
                       "a local group of %d ranks registers all its buffers in one call, not %d",
                       handles[0]->ranks, n);
    return ncclSuccess;
}

static ncclResult_t register_local(symtuner_ar **handles, void *const *buffers, int n, size_t bytes)
{
    for (int i = 0; i < n; i++)
        if ((uintptr_t)buffers[i] % ST_WORD != 0)
            return st_fail(handles[0], ncclInvalidArgument, "buffers[%d] is not 16-byte aligned",
                           i);
    for (int i = 0; i < n; i++) {
        struct st_window *w = find_base(handles[i], NULL);

        w->bytes = bytes;
        w->handle = NULL;
        w->multicast = NULL;
        w->ours = false;
        for (int r = 0; r < n; r++)
            w->peer[handles[r]->me] = buffers[r];
        show(handles[i], w, buffers[i]);
    }
    return ncclSuccess;
}

/* All of this thread's ranks in one NCCL group. */
ncclResult_t st_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *windows, char *why)
{
    const struct st_nccl *nccl = handles[0]->nccl;
    ncclResult_t result = nccl->ncclGroupStart(), ended;

    if (result == ncclSuccess) {
        for (int i = 0; i < n && result == ncclSuccess; i++)
            result = nccl->ncclCommWindowRegister(handles[i]->comm, buffers[i], bytes, &windows[i],
                                                  NCCL_WIN_COLL_SYMMETRIC);
        ended = nccl->ncclGroupEnd(); /* or the caller's next NCCL call would be in our group */
        result = result == ncclSuccess ? ended : result;
    }
    if (result != ncclSuccess)
        snprintf(why, ST_WHY, "ncclCommWindowRegister of %zu bytes: %s", bytes,
                 nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t symtuner_ar_register(symtuner_ar **handles, void *const *buffers,
                                  const ncclWindow_t *windows, int n, size_t bytes)
{
    ncclWindow_t made[ST_MAX_RANKS] = {NULL};
    ncclResult_t result = check(handles, buffers, n);
    char why[ST_WHY];

    if (result != ncclSuccess)
        return result;
    for (int i = 0; i < n; i++) {
        if (find_base(handles[i], buffers[i]) != NULL)
            return st_fail(handles[i], ncclInvalidUsage, "%p is registered already", buffers[i]);
        if (find_base(handles[i], NULL) == NULL)
            return st_fail(handles[i], ncclInvalidUsage, "all %d places for windows are taken",
                           ST_MAX_WINDOWS);
        if (handles[i]->gate != NULL)
            return ncclSuccess; /* NCCL does everything on this handle, and knows its own windows */
    }
    if (handles[0]->comm == NULL)
        return register_local(handles, buffers, n, bytes);
    if (windows == NULL) {
        result = st_windows_make(handles, buffers, n, bytes, made, why);
        if (result != ncclSuccess)
            return st_fail(handles[0], result, "%s", why);
    }
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];
        struct st_window *w = find_base(h, NULL);

        w->handle = windows != NULL ? windows[i] : made[i];
        w->ours = windows == NULL;
        w->bytes = bytes;
        cudaSetDevice(h->device);
        result = st_nccl_window_peers(h->nccl, w->handle, h->ranks, h->me, w->peer, &w->multicast,
                                      why, sizeof why);
        if (result != ncclSuccess)
            return st_fail(h, result, "%s", why);
        if (w->peer[h->me] == NULL)
            return st_fail(h, ncclInternalError, "the window does not map its own rank");
        show(h, w, buffers[i]);
    }
    return ncclSuccess;
}

ncclResult_t symtuner_ar_deregister(symtuner_ar **handles, void *const *buffers, int n)
{
    ncclResult_t result = check(handles, buffers, n);

    for (int i = 0; i < n && result == ncclSuccess; i++) {
        symtuner_ar *h = handles[i];
        struct st_window *w = find_base(h, buffers[i]);

        if (h->gate != NULL)
            continue;
        if (w == NULL)
            return st_fail(h, ncclInvalidUsage, "%p is not registered", buffers[i]);
        w->base = NULL;
        if (w->ours && w->handle != NULL)
            result = h->nccl->ncclCommWindowDeregister(h->comm, w->handle);
    }
    return result;
}
