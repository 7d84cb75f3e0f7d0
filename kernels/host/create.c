/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - make and destroy handles. */
#include "kernels/host/create.h"
#include "kernels/host/graph.h"
#include "kernels/group/gpu_wait.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char create_error[256] = "no error";

ncclResult_t st_fail(symtuner_ar *h, ncclResult_t result, const char *format, ...)
{
    va_list args;
    char text[256];

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(h != NULL ? h->error : create_error, text, sizeof text);
    return result;
}

ncclResult_t st_handles_fail(symtuner_ar **handles, int n, ncclResult_t result, const char *format,
                             ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(create_error, sizeof create_error, format, args);
    va_end(args);
    for (int i = 0; i < n; i++)
        if (handles[i] != NULL)
            memcpy(handles[i]->error, create_error, sizeof create_error);
    return result;
}

ncclResult_t st_fail_cuda(symtuner_ar *h, cudaError_t error, const char *what)
{
    cudaGetLastError(); /* do not leave it for the application's next check */
    return st_fail(h, ncclUnhandledCudaError, "%s: %s", what, cudaGetErrorString(error));
}

const char *symtuner_ar_error(const symtuner_ar *h)
{
    return h != NULL ? h->error : create_error;
}

int symtuner_ar_version(void)
{
    return SYMTUNER_AR_VERSION;
}

/* ---- one rank's own resources ---------------------------------------------------------------- */

#define MiB (1ull << 20)

uint64_t st_scratch_bulk(void)
{
    size_t free_bytes = 0, total = 0;

    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && total < 24ull << 30 ? 64 * MiB
                                                                                     : 256 * MiB;
}

/* Scratch per half. The small regions are sized so that the table's kernels take their messages in
 * one piece; bulk decides how large a piece of a long message is. */
void st_scratch_size(symtuner_ar *h, const struct symtuner_ar_config *config, bool host)
{
    uint64_t half[ST_REGIONS] = {MiB / 2, 16 * MiB, 32 * MiB, config->bulk_bytes, 0};

    if (host) {
        half[ST_REGION_LL8] = MiB;
        half[ST_REGION_LL128] = half[ST_REGION_BULK] = 0;
        half[ST_REGION_LAMPORT] =
            (h->ranks < 8 ? 16 / (uint64_t)h->ranks : 2) * MiB; /* of 64 MiB */
    }
    half[ST_REGION_GATHER] = half[ST_REGION_BULK] / 4;
    st_layout_fill(&h->layout, half);
}

/*
 * Programmatic dependent launch needs code for sm_90 or later that waits for the kernel in front,
 * and a driver of CUDA 12.3 or later, which can capture it (NCCL's enqueue.cc asks for that, too).
 * The kernel behind ours may be let go early only if it waits, too, when it is launched that way.
 * NCCL's symmetric kernels of 2.28.3 to 2.30.6 do not (fixed by its commit 2948185): not with them
 * and not with unknown releases.
 */
enum st_start st_overlap_choose(int asked, int arch, int driver, int nccl)
{
    if (arch < 90 || driver < 12030)
        return ST_SERIAL;
    if (asked >= 0)
        return (enum st_start)asked;
    return nccl >= 23007 ? ST_EARLY_BOTH : ST_EARLY;
}

uint64_t st_timeout_ns(const struct symtuner_ar_config *config, const struct st_options *options)
{
    uint32_t ms = config->timeout_ms    ? config->timeout_ms
                  : options->timeout_ms ? options->timeout_ms
                                        : 600000;

    return (uint64_t)ms * 1000000;
}

ncclResult_t st_rank_start(symtuner_ar *h, const struct symtuner_ar_config *config,
                           const struct st_options *options)
{
    uint64_t first = config->first_epoch ? config->first_epoch : 1;
    /* a test that starts near the end of the one counter soon sees the other's, too */
    struct st_state state = {.epoch = first, .base = (uint32_t)first, .arrived = (uint32_t)first};
    cudaError_t error = cudaSetDevice(h->device);
    int arch, driver;

    h->timeout_ns = st_timeout_ns(config, options);
    h->force = options->force;
    h->stall_ns = options->stall_us * 1000;
    h->lag = options->lag;
    h->one_stream = config->one_stream != 0;
    h->on_device = 1;
    h->rules = st_ar_rules_read(h->nccl != NULL ? h->nccl->version : 0, h->ranks, h->rules_note);
    snprintf(h->error, sizeof h->error, "no error");
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&h->sms, cudaDevAttrMultiProcessorCount, h->device);
    h->budget = st_budget(h->sms, config->max_ctas != 0 ? config->max_ctas : options->max_ctas);
    if (error == cudaSuccess)
        error = st_kernels_load(&arch);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess)
        return st_fail_cuda(h, error, "load the kernels (built for this GPU?)");
    h->overlap =
        st_overlap_choose(options->overlap, arch, driver, h->nccl != NULL ? h->nccl->version : 0);
    error = cudaMalloc((void **)&h->state, sizeof *h->state);
    if (error == cudaSuccess)
        error = cudaMemcpy(h->state, &state, sizeof state, cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
        error = cudaHostAlloc((void **)&h->mailbox, sizeof *h->mailbox,
                              cudaHostAllocMapped | cudaHostAllocPortable);
    if (error == cudaSuccess)
        error = cudaHostGetDevicePointer((void **)&h->mailbox_device, h->mailbox, 0);
    if (error != cudaSuccess)
        return st_fail_cuda(h, error, "allocate the counters");
    memset(h->mailbox, 0, sizeof *h->mailbox);
    error = cudaEventCreateWithFlags(&h->eager.done, cudaEventDisableTiming);
    for (int i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&h->copy_event[i], cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&h->copy_stream, cudaStreamNonBlocking);
    return error == cudaSuccess ? ncclSuccess : st_fail_cuda(h, error, "make streams and events");
}

uint64_t st_group_number(const symtuner_ar *h)
{
    static atomic_uint groups;

    return (uint64_t)getpid() << 42 ^ (uint64_t)atomic_fetch_add(&groups, 1) << 32 ^
           (uint32_t)time(NULL) ^ (uint32_t)((uintptr_t)h >> 12);
}

/* What every region holds before the first call: "nothing has come", and in tests NaN also where it
 * does not matter. */
cudaError_t st_arena_fill(symtuner_ar *h, const struct symtuner_ar_config *config)
{
    const struct st_layout *l = &h->layout;
    uint64_t first = l->first[ST_REGION_LAMPORT];
    uint64_t end = config->first_epoch != 0 ? l->bytes : first + 2 * l->half[ST_REGION_LAMPORT];
    cudaError_t error = cudaMemset(h->arena, 0, first);

    if (error == cudaSuccess)
        error = cudaMemset(h->arena + first, 0xff, end - first);
    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

uint64_t st_rules_hash(const symtuner_ar *h)
{
    return h->rules != NULL ? symtuner_rules_hash(h->rules) : 0;
}

void st_rules_drop(symtuner_ar **handles, int n, int other)
{
    char text[ST_RULES_NOTE];

    snprintf(text, sizeof text,
             "not used: ranks 0 and %d have different [kernels] rules; give all ranks one file",
             other);
    for (int i = 0; i < n; i++) {
        symtuner_rules_free(handles[i]->rules);
        handles[i]->rules = NULL;
        memcpy(handles[i]->rules_note, text, sizeof text);
        if (handles[i]->me == 0)
            st_ar_rules_warn(text);
    }
}

static void free_gpu(symtuner_ar *h)
{
    cudaSetDevice(h->device);
    st_arena_free(h);
    if (h->voice.late[0] != 0)
        return; /* NCCL may have launched what never ends, and CUDA waits for that to free */
    st_voice_close(&h->voice);
    if (h->copy_stream != NULL)
        cudaStreamDestroy(h->copy_stream);
    for (int i = 0; i < 2; i++)
        if (h->copy_event[i] != NULL)
            cudaEventDestroy(h->copy_event[i]);
    if (h->eager.done != NULL)
        cudaEventDestroy(h->eager.done);
    cudaFree(h->state);
    if (h->mailbox != NULL)
        cudaFreeHost(h->mailbox);
    cudaGetLastError();
}

void st_rank_free(symtuner_ar *h)
{
    if (!h->stuck)
        free_gpu(h);
    symtuner_rules_free(h->rules);
    if (h->voice.late[0] == 0)
        free(h); /* else NCCL may still write a window to it */
}

/* ---- arguments ------------------------------------------------------------------------------- */

ncclResult_t st_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct st_options *options)
{
    char why[200];

    st_graves_sweep();
    memset(config, 0, sizeof *config);
    memset(options, 0, sizeof *options);
    if (given != NULL) {
        if (given->size < sizeof given->size || given->size > sizeof *given)
            return st_fail(NULL, ncclInvalidArgument,
                           "config.size is %zu; set it to sizeof(struct symtuner_ar_config) = %zu",
                           given->size, sizeof *given);
        memcpy(config, given, given->size);
    }
    if (config->transport < SYMTUNER_AR_AUTO || config->transport > SYMTUNER_AR_HOST)
        return st_fail(NULL, ncclInvalidArgument, "config.transport %d is unknown; write 0, 1 or 2",
                       config->transport);
    if (config->max_ctas < 0 || config->max_ctas > ST_MAX_CTAS)
        return st_fail(NULL, ncclInvalidArgument, "config.max_ctas %d; write 1 to %d, or 0",
                       config->max_ctas, ST_MAX_CTAS);
    if (config->first_epoch >> 38 != 0)
        return st_fail(NULL, ncclInvalidArgument, "config.first_epoch must be below 2^38");
    if (st_options_read(options, why, sizeof why) != 0)
        return st_fail(NULL, ncclInvalidArgument, "%s", why);
    if (config->transport == SYMTUNER_AR_AUTO)
        config->transport = options->transport;
    return ncclSuccess;
}

/* Hand a half-made group's error to the caller and free it. */
ncclResult_t st_create_undo(symtuner_ar **handles, int n, int failed, ncclResult_t result)
{
    memcpy(create_error, handles[failed]->error, sizeof create_error);
    for (int i = 0; i < n; i++)
        if (handles[i] != NULL)
            st_rank_free(handles[i]);
    return result;
}

ncclResult_t st_handles_check(symtuner_ar **handles, int n)
{
    for (int i = 0; i < n; i++) {
        int here = 0;

        for (int j = 0; j < n && handles[i] != NULL; j++) {
            if (i != j && handles[i] == handles[j])
                return st_handles_fail(handles, n, ncclInvalidUsage,
                                       "handles[%d] and handles[%d] are the same", i, j);
            here += handles[j] != NULL && handles[j]->group == handles[i]->group;
        }
        if (handles[i] != NULL && handles[i]->comm == NULL && here != handles[i]->ranks)
            return st_handles_fail(handles, n, ncclInvalidUsage,
                                   "the %d handles of a local group go in one call, not %d of them",
                                   handles[i]->ranks, here);
    }
    return ncclSuccess;
}

/* Nothing of ours waits longer than the time limit for a peer that has died. NCCL's kernels do, so
 * where a call was NCCL's the limit is kept here; 2 s at least, for what the application has queued
 * on the GPU. */
static ncclResult_t await_calls(symtuner_ar *h, bool another_is_stuck)
{
    const uint64_t least = 2000000000;
    uint64_t limit = another_is_stuck || h->timeout_ns < least ? least : h->timeout_ns;
    cudaError_t error = cudaSetDevice(h->device);

    if (error == cudaSuccess)
        error = h->gave_nccl ? st_gpu_idle(h->device, limit) : cudaDeviceSynchronize();
    if (error == cudaSuccess)
        return ncclSuccess;
    if (error != cudaErrorNotReady)
        return st_fail_cuda(NULL, error, "what ran before symtuner_ar_destroy");
    h->stuck = true;
    return st_fail(NULL, ncclRemoteError,
                   "rank %d frees nothing: GPU %d is not idle after %llu ms, and NCCL had calls of "
                   "this handle; is a rank missing? ncclCommAbort ends them",
                   h->me, h->device, (unsigned long long)(limit / 1000000));
}

static void drop_windows(symtuner_ar *h)
{
    cudaSetDevice(h->device);
    for (int w = 0; w < ST_MAX_WINDOWS; w++)
        if (h->windows[w].base != NULL && h->windows[w].ours)
            st_window_drop(h, h->windows[w].handle);
    st_arena_free(h);
}

/* Handle ${i}, whose graphs may live, with the others of its local group. */
static bool bury(symtuner_ar **handles, int n, int i)
{
    symtuner_ar *together[ST_MAX_RANKS], *h = handles[i];
    const uint32_t destroyed = ST_DESTROYED;
    int many = 0;

    for (int k = 0; k < n; k++)
        if (handles[k] != NULL && (k == i || (h->comm == NULL && handles[k]->group == h->group)))
            together[many++] = handles[k];
    if (!st_graves_add(together, many))
        return false;
    if (h->comm != NULL) { /* which may end at once, and with it the way to the peers' memory */
        cudaSetDevice(h->device);
        cudaMemcpy(&h->state->dead, &destroyed, sizeof destroyed, cudaMemcpyHostToDevice);
        drop_windows(h);
    }
    for (int k = 0; k < n; k++)
        for (int j = 0; j < many; j++)
            if (handles[k] == together[j])
                handles[k] = NULL;
    return true;
}

ncclResult_t symtuner_ar_destroy(symtuner_ar **handles, int n)
{
    ncclResult_t result;
    bool stuck = false;
    int device = -1;

    if (handles == NULL)
        return st_fail(NULL, ncclInvalidArgument, "handles is NULL");
    if (n < 0 || n > ST_MAX_RANKS)
        return st_fail(NULL, ncclInvalidArgument, "%d handles; write 0 to %d", n, ST_MAX_RANKS);
    result = st_handles_check(handles, n);
    if (result != ncclSuccess)
        return result;
    cudaGetDevice(&device);
    st_graves_sweep();
    /* When our own calls are done every peer's write to our scratch has been seen. */
    for (int i = 0; i < n; i++) {
        ncclResult_t latest;

        if (handles[i] == NULL || handles[i]->voice.late[0] != 0)
            continue; /* what NCCL has launched may never end */
        latest = await_calls(handles[i], stuck);
        result = latest != ncclSuccess ? latest : result;
        stuck = stuck || handles[i]->stuck;
    }
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];

        if (h == NULL)
            continue;
        if (!h->stuck && h->voice.late[0] == 0 && bury(handles, n, i))
            continue;
        if (!h->stuck)
            drop_windows(h);
        if (h->voice.late[0] != 0)
            result =
                st_fail(NULL, ncclRemoteError, "rank %d frees nothing: %s", h->me, h->voice.late);
        st_rank_free(h);
        handles[i] = NULL;
    }
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}
