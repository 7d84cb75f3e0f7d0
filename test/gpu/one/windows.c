/* SPDX-License-Identifier: Apache-2.0 */
/*
 * windows.c - windows for ranks that share one GPU. They replace NCCL's windows, because NCCL makes
 * no windows across hosts, and hosts.c puts each rank on a host of its own. This file is linked
 * into a separate libsymtuner_ar.so with --wrap, so that the library's calls of ar_nccl_get and
 * ar_windows_make come here. After an error, some memory is not freed.
 *
 * The memory of a window comes from cudaMalloc. Each rank writes the address, its process id and an
 * IPC handle into shared memory that is named after the group. A peer in the same process uses the
 * address as it is, and a peer in another process maps the memory by CUDA IPC.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/board.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl.h"
#include "kernels/group/nccl_window.h"

enum { GROUPS = 1024, WINDOWS = 64, WAIT_MS = 30000 };

struct shown {
    atomic_int count; /* how many elements of ${window} have been written */
    struct {
        pid_t process;
        char *at;
        cudaIpcMemHandle_t handle;
    } window[WINDOWS];
};

/* What a ncclWindow_t points to. */
struct one_window {
    struct group *group;
    int ranks;
    bool mapped[AR_MAX_RANKS];
    char *peer[AR_MAX_RANKS];
};

static struct group {
    uint64_t number;
    int windows; /* number of windows of this process's ranks */
    struct st_board board;
} known[GROUPS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Count one more window of group ${number}, and return the group. Returns NULL if there is no
 * shared memory, or if too many groups are open. */
static struct group *enter(uint64_t number)
{
    struct group *g = NULL;
    char name[64];

    snprintf(name, sizeof name, "/symtuner-one-gpu-%016llx", (unsigned long long)number);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GROUPS && (g == NULL || g->number != number); i++)
        if (known[i].number == number || (known[i].number == 0 && g == NULL))
            g = &known[i];
    if (g != NULL && g->number == 0 &&
        st_board_join(&g->board, name, AR_MAX_RANKS * sizeof(struct shown)))
        g->number = number;
    if (g != NULL && g->number == number)
        g->windows++;
    else
        g = NULL;
    pthread_mutex_unlock(&lock);
    return g;
}

static void leave(struct group *g)
{
    pthread_mutex_lock(&lock);
    if (--g->windows == 0) {
        st_board_leave(&g->board);
        g->number = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* An IPC handle names a whole allocation of the driver, and cudaMalloc puts several small buffers
 * into one allocation. So each buffer gets whole units of 2 MiB for itself. */
static ncclResult_t allocate(void **p, size_t bytes)
{
    const size_t unit = 2 << 20;

    return cudaMalloc(p, (bytes + unit - 1) / unit * unit) == cudaSuccess ? ncclSuccess
                                                                          : ncclUnhandledCudaError;
}

static ncclResult_t release(void *p)
{
    return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t deregister(ncclComm_t comm, ncclWindow_t window)
{
    struct one_window *w = (struct one_window *)window;

    (void)comm;
    for (int r = 0; r < w->ranks; r++)
        if (w->mapped[r])
            cudaIpcCloseMemHandle(w->peer[r]);
    leave(w->group);
    free(w);
    return ncclSuccess;
}

static ncclResult_t pointer(ncclWindow_t window, size_t at, int r, void **p)
{
    *p = ((struct one_window *)window)->peer[r] + at;
    return ncclSuccess;
}

const struct ar_nccl *__real_ar_nccl_get(char *why, size_t size);
const struct ar_nccl *__wrap_ar_nccl_get(char *why, size_t size);

const struct ar_nccl *__wrap_ar_nccl_get(char *why, size_t size)
{
    static struct ar_nccl one;
    const struct ar_nccl *real = __real_ar_nccl_get(why, size);

    if (real == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    if (one.version == 0) {
        one = *real;
        one.ncclMemAlloc = allocate;
        one.ncclMemFree = release;
        one.ncclCommWindowDeregister = deregister;
        one.ncclGetLsaDevicePointer = pointer;
    }
    pthread_mutex_unlock(&lock);
    return &one;
}

/* Map window ${number} of rank ${r}. Returns false if the rank does not write the window's address
 * in time. */
static bool map(struct shown *theirs, int number, struct one_window *w, int r)
{
    for (int ms = 0; atomic_load(&theirs->count) <= number; ms++) {
        if (ms == WAIT_MS)
            return false;
        usleep(1000);
    }
    w->peer[r] = theirs->window[number].at;
    if (theirs->window[number].process == getpid())
        return true;
    w->mapped[r] = true;
    return cudaIpcOpenMemHandle((void **)&w->peer[r], theirs->window[number].handle,
                                cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
}

ncclResult_t __wrap_ar_windows_make(symtuner_ar **handles, void *const *buffers, int n,
                                    size_t bytes, ncclWindow_t *const *windows, char *why);

ncclResult_t __wrap_ar_windows_make(symtuner_ar **handles, void *const *buffers, int n,
                                    size_t bytes, ncclWindow_t *const *windows, char *why)
{
    struct shown *board = NULL;
    struct group *group = NULL;
    int number = 0;

    (void)bytes;
    for (int i = 0; i < n; i++) {
        const int me = handles[i]->me;

        group = enter(handles[i]->group);
        board = group != NULL ? group->board.at : NULL;
        number = board != NULL ? atomic_load(&board[me].count) : WINDOWS;
        if (number == WINDOWS)
            return ar_why(why, AR_WHY, ncclSystemError, "no shared memory, or too many windows");
        board[me].window[number].process = getpid();
        board[me].window[number].at = buffers[i];
        if (cudaIpcGetMemHandle(&board[me].window[number].handle, buffers[i]) != cudaSuccess)
            return ar_why(why, AR_WHY, ncclUnhandledCudaError, "no IPC handle");
        atomic_store(&board[me].count, number + 1);
    }
    for (int i = 0; i < n; i++) {
        struct one_window *w = calloc(1, sizeof *w);

        if (w == NULL)
            return ar_why(why, AR_WHY, ncclSystemError, "out of memory");
        w->group = group;
        w->ranks = handles[i]->ranks;
        for (int r = 0; r < w->ranks; r++)
            if (!map(&board[r], number, w, r))
                return ar_why(why, AR_WHY, ncclSystemError, "no memory of rank %d", r);
        *windows[i] = (ncclWindow_t)w;
    }
    return ncclSuccess;
}
