/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_run.c - run the steps of the probe (kernels/choose/probe.h) on this thread's GPUs.
 *
 * The probe is made for PCIe, but it has only run on NVLink and in tests. We keep it, because
 * without it the sums would be wrong on a PCIe box where stores never arrive. Do not extend the
 * probe before somebody has measured on PCIe.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/group/error.h"
#include "kernels/host/create.h"
#include "kernels/host/launch.h"

enum {
    BLOCKS = 16, /* largest number of blocks of the probe's kernel */
    THREADS = 256,
    STEP_NS = 10000000, /* how long the probe's kernel runs */
    COPIES = 4,         /* how many copies a rank makes to each peer */
    WAIT_MS = 5000,     /* time limit of a step, because on some hosts loads never return */
};
#define MOST_SLOT (16ull << 20) /* largest number of bytes of a slot */
#define TILE      ((uint64_t)THREADS * AR_WORD * AR_PROBE_UNROLL)

/* Return the arena (part of the scratch) in which the probe works: the bulk arena. So a group that
 * probes allocates all its scratch when it is created. */
static const struct ar_arena *arena_of(const symtuner_ar *h)
{
    return &h->arena[AR_ARENA_BULK];
}

static uint64_t slot_of(const symtuner_ar *h)
{
    uint64_t slot = arena_of(h)->layout.half[AR_REGION_BULK] / (uint64_t)h->ranks / TILE * TILE;

    return slot < MOST_SLOT ? slot : MOST_SLOT;
}

static int blocks_of(const symtuner_ar *h)
{
    uint64_t tiles = slot_of(h) / TILE;
    int most = h->sms / h->on_device;

    most = most < BLOCKS ? most : BLOCKS;
    return tiles < (uint64_t)most ? (int)tiles : most;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static cudaError_t await_stream(cudaStream_t stream, double end)
{
    cudaError_t error = cudaStreamQuery(stream);

    while (error == cudaErrorNotReady && now_us() < end) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        error = cudaStreamQuery(stream);
    }
    return error;
}

static cudaError_t fill(symtuner_ar *h)
{
    uint64_t slot = slot_of(h);
    const struct ar_arena *a = arena_of(h);
    char *first = a->peer[h->me] + a->layout.first[AR_REGION_BULK];
    cudaError_t error = cudaMemsetAsync(first, 0, slot * (uint64_t)h->ranks, h->copy_stream);

    if (error == cudaSuccess)
        error = cudaMemsetAsync(first + slot * (uint64_t)h->me, AR_PROBE_MARK + h->me, slot,
                                h->copy_stream);
    return error == cudaSuccess ? cudaStreamSynchronize(h->copy_stream) : error;
}

static cudaError_t start(symtuner_ar *h, int step, void *seen)
{
    struct ar_args args;
    void *params[] = {&args};
    cudaError_t error = cudaSuccess;
    const struct ar_arena *a = arena_of(h);
    uint64_t slot = slot_of(h), mine = a->layout.first[AR_REGION_BULK] + slot * (uint64_t)h->me;

    for (int i = 0; i < COPIES * (h->ranks - 1) && step == AR_PROBE_COPY; i++) {
        int to = (h->me + 1 + i % (h->ranks - 1)) % h->ranks;

        if (error == cudaSuccess)
            error = cudaMemcpyAsync(a->peer[to] + mine, a->peer[h->me] + mine, slot,
                                    cudaMemcpyDefault, h->copy_stream);
    }
    if (step == AR_PROBE_COPY)
        return error;
    ar_args_start(h, AR_ARENA_BULK, &args);
    args.lag = step;
    args.region = a->layout.first[AR_REGION_BULK];
    args.shard = slot;
    args.timeout_ns = STEP_NS;
    args.out = seen;
    return cudaLaunchKernel(ar_kernel_probe, (dim3){(unsigned)blocks_of(h), 1, 1},
                            (dim3){THREADS, 1, 1}, params, 0, h->copy_stream);
}

static void note(symtuner_ar *h, int step, const struct ar_probe_seen *seen, double us)
{
    uint64_t bytes = 0, ns = 0;
    bool wrong = false;
    double rate;

    for (int b = 0; b < blocks_of(h); b++) {
        bytes += seen[b].bytes;
        ns = seen[b].ns > ns ? seen[b].ns : ns;
        wrong = wrong || seen[b].wrong != 0;
    }
    if (step == AR_PROBE_CHECK) {
        if (wrong)
            h->probe.push = AR_PROBE_BROKEN;
        return;
    }
    if (step == AR_PROBE_COPY)
        rate = (double)(COPIES * slot_of(h) * (uint64_t)(h->ranks - 1)) / us;
    else
        rate = wrong || ns == 0 ? 0 : (double)bytes * 1e3 / (double)ns;
    if (rate > 0 && rate < AR_PROBE_BROKEN + 1)
        rate = AR_PROBE_BROKEN + 1; /* a slow link must not count as broken */
    *(step == AR_PROBE_PUSH   ? &h->probe.push
      : step == AR_PROBE_PULL ? &h->probe.pull
                              : &h->probe.copy) = rate < 4e9 ? (uint32_t)rate : 4000000000u;
}

/* Report that a kernel of the probe does not end. Freeing memory or synchronizing would wait for
 * ever, so the library does neither from now on. */
static ncclResult_t leave_stuck(symtuner_ar **handles, int n)
{
    ar_fail(handles[0], ncclUnhandledCudaError,
            "peer memory did not answer the probe within %d ms; nothing is freed, because freeing "
            "would wait for ever; SYMTUNER_AR_TRANSPORT=host uses no peer memory",
            WAIT_MS);
    ar_rules_warn(handles[0]->error);
    for (int i = 0; i < n; i++)
        handles[i]->stuck = true;
    return ncclUnhandledCudaError;
}

/* Run one step on all handles of this thread, and write the result to h->probe of each handle. */
static ncclResult_t run_step(symtuner_ar **handles, int n, int step)
{
    struct ar_probe_seen seen[BLOCKS];
    void *there[AR_MAX_RANKS] = {NULL};
    cudaError_t error = cudaSuccess;
    int started = 0;
    bool stuck = false;
    double begin;

    if (slot_of(handles[0]) == 0 || (step == AR_PROBE_COPY && handles[0]->on_device > 1))
        return ncclSuccess;
    for (int i = 0; i < n && error == cudaSuccess; i++) {
        error = cudaSetDevice(handles[i]->device);
        if (error == cudaSuccess && step == AR_PROBE_FILL)
            error = fill(handles[i]);
        else if (error == cudaSuccess)
            error = cudaMalloc(&there[i], sizeof seen);
    }
    begin = now_us();
    for (; started < n && error == cudaSuccess && step != AR_PROBE_FILL; started++) {
        error = cudaSetDevice(handles[started]->device);
        if (error == cudaSuccess)
            error = start(handles[started], step, there[started]);
    }
    for (int i = 0; i < started;
         i++) { /* wait even after an error: memory that a kernel uses must not be freed */
        cudaError_t ended = await_stream(handles[i]->copy_stream, begin + WAIT_MS * 1e3);
        double us = now_us() - begin;

        stuck = stuck || ended == cudaErrorNotReady;
        if (error == cudaSuccess)
            error = ended;
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(seen, there[i], sizeof seen, cudaMemcpyDeviceToHost,
                                    handles[i]->copy_stream);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(handles[i]->copy_stream);
        if (error == cudaSuccess)
            note(handles[i], step, seen, us);
    }
    if (stuck)
        return leave_stuck(handles, n);
    for (int i = 0; i < n; i++)
        cudaFree(there[i]);
    return error == cudaSuccess ? ncclSuccess
                                : ar_fail_cuda(handles[0], error, "probe the peers' memory");
}

bool ar_probe_wanted(const symtuner_ar *h, const struct ar_options *options)
{
    return h->ranks > 1 && h->gate == NULL && h->links != AR_LINKS_HOST &&
           (options->probe < 0 ? h->links == AR_LINKS_PCIE : options->probe != 0);
}

/* Exchange the probe's figures: write those of all ranks to ${all}. A rank whose ${result} is an
 * error sends AR_PROBE_FAILED or AR_PROBE_STUCK instead, and then all ranks fail. If a rank is
 * stuck, no rank frees anything, for two reasons. The stuck kernel may still access the memory of
 * any rank. And when a rank frees the windows of its scratch, NCCL may wait for all ranks, even the
 * stuck one. */
static ncclResult_t exchange(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                             struct ar_probe *all, ncclResult_t result)
{
    for (int i = 0; i < n && result != ncclSuccess; i++)
        handles[i]->probe.push = handles[i]->stuck ? AR_PROBE_STUCK : AR_PROBE_FAILED;
    if (group->exchange(group->ranks, all) != ncclSuccess)
        return ncclRemoteError;
    for (int r = 0; r < handles[0]->ranks; r++) {
        for (int i = 0; i < n; i++)
            handles[i]->stuck = handles[i]->stuck || all[r].push == AR_PROBE_STUCK;
        if (result == ncclSuccess && all[r].push >= AR_PROBE_STUCK)
            result = ar_fail(handles[0], ncclRemoteError,
                             "rank %d could not probe its peers' memory", r);
    }
    return result;
}

static void settle(symtuner_ar **handles, int n, struct ar_probe figures, const char *from)
{
    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];

        h->probe = figures;
        snprintf(h->probe_from, sizeof h->probe_from, "%s", from);
        if (figures.push != AR_PROBE_BROKEN)
            continue;
        snprintf(h->gate_text, sizeof h->gate_text,
                 "what a GPU stores in a peer's memory does not arrive (SYMTUNER_AR_TRANSPORT=host "
                 "uses no peer memory)");
        h->gate = h->gate_text;
    }
}

ncclResult_t ar_probe_run(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                          const char *file)
{
    symtuner_ar *first = NULL;
    struct ar_probe all[AR_MAX_RANKS], figures;
    char from[AR_PROBE_FROM] = "measured", why[AR_PROBE_FROM];
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < n; i++)
        first = handles[i]->me == 0 ? handles[i] : first;
    if (first != NULL && file != NULL &&
        ar_probe_read(file, group->key, &first->probe, why, sizeof why) < 0)
        result = ar_fail(handles[0], ncclInvalidUsage, "%s", why);
    result = exchange(handles, n, group, all, result);
    if (result != ncclSuccess)
        return result;
    if (all[0].push != 0) {
        settle(handles, n, all[0], "from SYMTUNER_AR_PROBE_FILE of rank 0");
        return ncclSuccess;
    }
    for (int step = 0; step < AR_PROBE_STEPS && result == ncclSuccess; step++)
        result = exchange(handles, n, group, all, run_step(handles, n, step));
    if (result != ncclSuccess)
        return result;
    figures = all[0];
    for (int r = 1; r < handles[0]->ranks; r++)
        figures = ar_probe_slower(figures, all[r]);
    if (first != NULL && file != NULL && figures.push > AR_PROBE_BROKEN &&
        ar_probe_write(file, group->key, &figures, why, sizeof why) != 0)
        snprintf(from, sizeof from, "measured; %.*s", (int)sizeof from - 12, why);
    settle(handles, n, figures, from);
    return handles[0]->gate != NULL && handles[0]->comm == NULL
               ? ar_fail(handles[0], ncclInvalidUsage, "%s", handles[0]->gate)
               : ncclSuccess;
}
