/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - finds NCCL's functions at run time, and the addresses of its windows. */
#include "kernels/group/nccl.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/choose/rules.h"
#include "kernels/group/endpoint.h"
#include "kernels/shared/dtypes.h"
#include "nccl/hazards.h"

/* What load() finds. */
struct found {
    struct ar_nccl nccl;
    char failure[160]; /* why ${nccl} cannot be used; "": it can */
};

static struct found found;
static void *chosen;      /* the library given to symtuner_ar_use_nccl; NULL: search for NCCL */
static atomic_bool tried; /* ${found} and ${chosen} do not change any more */
/* Held while ${found} or ${chosen} changes, but not while load() runs (load_once). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Is ${library} the NCCL that load() has found? */
static bool is_found(void *library)
{
    return found.nccl.ncclGroupStart != NULL &&
           dlsym(library, "ncclGroupStart") == *(void **)&found.nccl.ncclGroupStart;
}

bool ar_nccl_choose(void *library)
{
    void *used;

    pthread_mutex_lock(&lock);
    if (!atomic_load(&tried) && chosen == NULL)
        chosen = library;
    used = chosen;
    pthread_mutex_unlock(&lock);
    return used != NULL ? used == library : is_found(library);
}

/* Find a function in ${library}. If the program has chosen no NCCL (${any}), prefer the function
 * that the program itself would find. */
static void *find(bool any, void *library, const char *name)
{
    void *symbol = any ? dlsym(RTLD_DEFAULT, name) : NULL;

    return symbol != NULL || library == NULL ? symbol : dlsym(library, name);
}

/* Find NCCL's functions in ${library}; if that is NULL, search for NCCL. */
static void load(void *library, struct found *f)
{
    const bool any = library == NULL;
    struct ar_nccl *nccl = &f->nccl;
    const char *missing = NULL;

    if (any)
        library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL && dlsym(RTLD_DEFAULT, "ncclGetVersion") == NULL)
        library = dlopen("libnccl.so.2", RTLD_NOW);
    if (library == NULL && dlsym(RTLD_DEFAULT, "ncclGetVersion") == NULL) {
        snprintf(f->failure, sizeof f->failure,
                 "libnccl.so.2 is neither loaded nor in the library path");
        return;
    }
    *(void **)&nccl->ncclGetVersion = find(any, library, "ncclGetVersion");
    if (nccl->ncclGetVersion == NULL || nccl->ncclGetVersion(&nccl->version) != ncclSuccess)
        nccl->version = 0;
    if (nccl->version < AR_NCCL_OLDEST) {
        snprintf(f->failure, sizeof f->failure,
                 "NCCL %d.%d.%d has no windows; 2.28.3 or later is needed", nccl->version / 10000,
                 nccl->version / 100 % 100, nccl->version % 100);
        return;
    }
#define X(result, name, args)                                                                      \
    *(void **)&nccl->name = find(any, library, #name);                                             \
    if (nccl->name == NULL)                                                                        \
        missing = #name;
    AR_NCCL_MAP(X)
#undef X
    if (missing != NULL)
        snprintf(f->failure, sizeof f->failure, "this NCCL has no %s", missing);
    *(void **)&nccl->ncclGetLsaDevicePointer = find(any, library, "ncclGetLsaDevicePointer");
    *(void **)&nccl->ncclGetLsaMultimemDevicePointer =
        find(any, library, "ncclGetLsaMultimemDevicePointer");
    *(void **)&nccl->ncclCommSplit = find(any, library, "ncclCommSplit");
    *(void **)&nccl->ncclCommDestroy = find(any, library, "ncclCommDestroy");
    *(void **)&nccl->ncclCommAbort = find(any, library, "ncclCommAbort");
    if (nccl->ncclCommDestroy == NULL || nccl->ncclCommAbort == NULL)
        nccl->ncclCommSplit = NULL;
}

/* Load without our lock. The loader has a lock of its own, which another thread may hold while it
 * runs a constructor that calls us. If two threads load at once, both find the same functions. If a
 * library is chosen meanwhile, load again, from that one. */
static void load_once(void)
{
    bool again = true;

    while (again) {
        struct found mine = {0};
        void *library;

        pthread_mutex_lock(&lock);
        library = chosen;
        pthread_mutex_unlock(&lock);
        load(library, &mine);
        pthread_mutex_lock(&lock);
        again = chosen != library;
        if (!again && !atomic_load(&tried)) {
            found = mine;
            atomic_store(&tried, true);
        }
        pthread_mutex_unlock(&lock);
    }
}

const struct ar_nccl *ar_nccl_get(char *why, size_t why_size)
{
    if (!atomic_load_explicit(&tried, memory_order_acquire))
        load_once();
    if (found.failure[0] == 0)
        return &found.nccl;
    snprintf(why, why_size, "%s", found.failure);
    return NULL;
}

void ar_nccl_warn(int version, int dtype, int op, const void *send, const void *recv)
{
    const struct st_hazard *hazard;
    char text[400];

    if (dtype != AR_F16 && dtype != AR_F32 && dtype < AR_BF16)
        return; /* all faults are in symmetric kernels, which NCCL lacks for these types */
    for (int i = 0; (hazard = st_hazard_of_call(version, op, (uintptr_t)send, (uintptr_t)recv, i));
         i++) {
        snprintf(text, sizeof text, "kernel nccl: NCCL %d.%d.%d: %s, or use another kernel",
                 version / 10000, version / 100 % 100, version % 100, hazard->text);
        ar_rules_warn(text);
    }
}

/*
 * The first fields of NCCL's record of a window, which lies in device memory. They are the same in
 * every NCCL from 2.28.3 to 2.31.2: we measured sizes and offsets for each release. We read them
 * only if NCCL lacks ncclGetLsaDevicePointer, which came with 2.29.
 */
struct window_head {
    void *host;
    char *flat; /* the window of LSA rank r starts at flat + r * stride */
    int lsa_rank;
    int world_rank;
    uint32_t stride_4g; /* distance from rank to rank, in units of 4 GiB */
    uint32_t mc_4k;
};

_Static_assert(sizeof(struct window_head) == 32, "window head");
_Static_assert(offsetof(struct window_head, flat) == 8, "window head: flat");
_Static_assert(offsetof(struct window_head, lsa_rank) == 16, "window head: rank");
_Static_assert(offsetof(struct window_head, stride_4g) == 24, "window head: stride");

/* Copy the record of ${window} to ${head}. While a thread captures a graph, CUDA allows the copy
 * only in capture mode relaxed, and not on the legacy stream. */
static cudaError_t read_head(struct window_head *head, ncclWindow_t window)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    cudaError_t error;

    cudaThreadExchangeStreamCaptureMode(&mode);
    error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(head, window, sizeof *head, cudaMemcpyDeviceToHost, stream);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error;
}

ncclResult_t ar_nccl_window_peers(const struct ar_nccl *api, ncclWindow_t window, int ranks, int me,
                                  char **peers_out, char *why, size_t why_size)
{
    if (window == NULL)
        return ar_why(why, why_size, ncclInvalidUsage,
                      "NCCL gave no symmetric window (no peer access, or cuMem is off)");
    if (api->ncclGetLsaDevicePointer != NULL) {
        for (int r = 0; r < ranks; r++) {
            void *p = NULL;

            if (api->ncclGetLsaDevicePointer(window, 0, r, &p) != ncclSuccess || p == NULL)
                return ar_why(why, why_size, ncclInvalidUsage,
                              "NCCL maps no memory of rank %d into rank %d", r, me);
            peers_out[r] = p;
        }
    } else {
        struct window_head head;
        cudaError_t error = read_head(&head, window);

        if (error != cudaSuccess || head.flat == NULL || head.lsa_rank != me) {
            cudaGetLastError(); /* clear the error, or the application would find it later */
            return ar_why(why, why_size, ncclInternalError,
                          "the window record of NCCL %d is not as known from 2.28", api->version);
        }
        for (int r = 0; r < ranks; r++)
            peers_out[r] = head.flat + (uint64_t)r * ((uint64_t)head.stride_4g << 32);
    }
    return ncclSuccess;
}
