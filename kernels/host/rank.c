/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - makes and frees what one rank owns on its GPU: scratch, counters, streams and events. */
#include "kernels/host/rank.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/until_exit.h"
#include "kernels/engines/engines.h"
#include "kernels/group/bootstrap.h"
#include "kernels/group/error.h"
#include "kernels/host/launch.h"
#include "kernels/ipc/ipc.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/first.h"
#include "kernels/order/mixing.h"
#include "kernels/order/side.h"
#include "kernels/scratch/arena.h"
#include "kernels/scratch/grow.h"
#include "nccl/release.h"

#define MiB (1ull << 20)

uint64_t ar_scratch_bulk(void)
{
    size_t free_bytes = 0, total = 0;

    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && total < 24ull << 30 ? 64 * MiB
                                                                                     : 256 * MiB;
}

/*
 * Choose how our kernels start. Programmatic dependent launch lets a kernel start before the
 * previous kernel of its stream has ended. It needs kernels compiled for sm_90 or later, because
 * only these can wait for the previous kernel. It needs a driver of CUDA 12.3 or later, because
 * older drivers cannot capture such launches (NCCL's enqueue.cc checks this, too).
 *
 * Our kernel may let the next kernel start early only if the next kernel waits for ours. The
 * symmetric kernels of NCCL 2.28.3 to 2.30.6 do not wait (NCCL's commit 2948185 changed that). So
 * with these releases, and with an unknown release, the program must promise that the next kernel
 * always waits. If the program has taken that promise back, our kernels let no kernel start early.
 * This holds for all releases, because the process may have loaded a second NCCL.
 *
 * ${asked} is the field overlap of struct ar_options: -1, or what the user has chosen. If the user
 * has chosen, the promise does not matter. ${arch} is what the kernels were compiled for, 90 for
 * sm_90. ${driver} and ${nccl} are versions; ${nccl} is 0 if unknown. ${said} is what the program
 * has said about the kernels that follow ours.
 */
static enum ar_start overlap_choose(int asked, int arch, int driver, int nccl,
                                    enum ar_follower said)
{
    const bool waits = nccl != 0 && st_era_of(nccl)->pdl == ST_PDL_WAITS;

    if (arch < 90 || driver < 12030)
        return AR_SERIAL;
    if (asked >= 0)
        return (enum ar_start)asked;
    return said == AR_FOLLOWER_WAITS || (said == AR_FOLLOWER_UNKNOWN && waits) ? AR_EARLY_BOTH
                                                                               : AR_EARLY;
}

uint64_t ar_timeout_ns(const struct symtuner_ar_config *config, const struct ar_options *options)
{
    uint32_t ms = config->timeout_ms    ? config->timeout_ms
                  : options->timeout_ms ? options->timeout_ms
                                        : 600000;

    return (uint64_t)ms * 1000000;
}

/* Return why SYMTUNER_AR_IPC=auto has no effect on ${h}, or NULL if it has one. With auto, NCCL
 * runs a call whose buffers are not mapped, so a group without NCCL cannot use it. The table names
 * tma_ipc only for two ranks. And if nothing runs beside the calls, other kernels are faster, and
 * these need no mapping. If config.beside is ALONE (options->alone), auto has no effect even if
 * SYMTUNER_AR_BESIDE is something else: such a program asks symtuner_ar_query in advance who runs a
 * call, and relies on the answer. */
static const char *no_auto(const symtuner_ar *h, const struct ar_options *options)
{
    return h->nccl == NULL ? "the group was made without NCCL"
           : h->ranks != 2 ? "it is for communicators of two ranks"
           : options->alone || h->beside == AR_BESIDE_NOTHING ? "the calls run alone"
                                                              : NULL;
}

ncclResult_t ar_rank_start(symtuner_ar *h, const struct symtuner_ar_config *config,
                           const struct ar_options *options)
{
    uint64_t first = config->first_epoch ? config->first_epoch : 1;
    /* All counters start with the same number. So a test that starts them shortly before they wrap
     * around sees all of them wrap around. */
    struct ar_state state = {
        .epoch = first, .base = (uint32_t)first, .arrived = (uint32_t)first, .one = 1};
    const int nccl = h->nccl != NULL ? h->nccl->version : 0;
    static const char load[] = "load the kernels (built for this GPU?)";
    static const char counters[] = "allocate the counters", order[] = "make streams and events";
    int arch, driver;

    h->timeout_ns = ar_timeout_ns(config, options);
    h->force = options->force;
    h->stall_ns = options->stall_us * 1000;
    h->lag = options->lag;
    h->ipc_mode = h->ranks > 1 && h->ranks <= AR_IPC_RANKS
                      ? ar_ipc_wanted(options->ipc, config->memory)
                      : AR_IPC_OFF;
    h->beside = config->beside;
    h->no_auto = options->ipc == AR_IPC_AUTO ? no_auto(h, options) : NULL;
    if (h->no_auto != NULL)
        h->ipc_mode = AR_IPC_OFF;
    h->one_stream = config->one_stream != 0;
    h->mixing = options->mixing;
    h->on_device = 1;
    h->nan_scratch = config->first_epoch != 0;
    snprintf(h->error, sizeof h->error, "no error");
    AR_TRY(h, cudaSetDevice(h->device), load);
    h->rules = ar_rules_read(nccl, h->ranks, h->rules_note);
    AR_TRY(h, cudaDeviceGetAttribute(&h->sms, cudaDevAttrMultiProcessorCount, h->device), load);
    h->budget = ar_budget(h->sms, config->max_ctas != 0 ? config->max_ctas : options->max_ctas);
    AR_TRY(h, ar_kernels_load(&arch, &h->tma), load);
    AR_TRY(h, cudaDriverGetVersion(&driver), load);
    for (int said = 0; said < AR_FOLLOWERS; said++)
        h->overlap[said] =
            overlap_choose(options->overlap, arch, driver, nccl, (enum ar_follower)said);
    AR_TRY(h, cudaMalloc((void **)&h->state, sizeof *h->state), counters);
    AR_TRY(h, cudaStreamCreateWithFlags(&h->copy_stream, cudaStreamNonBlocking), order);
    AR_TRY(h,
           cudaMemcpyAsync(h->state, &state, sizeof state, cudaMemcpyHostToDevice, h->copy_stream),
           counters);
    AR_TRY(h, cudaStreamSynchronize(h->copy_stream), counters);
    AR_TRY(h,
           cudaHostAlloc((void **)&h->mailbox, sizeof *h->mailbox,
                         cudaHostAllocMapped | cudaHostAllocPortable),
           counters);
    AR_TRY(h, cudaHostGetDevicePointer((void **)&h->mailbox_device, h->mailbox, 0), counters);
    memset(h->mailbox, 0, sizeof *h->mailbox);
    st_until_exit_begin();
    ar_first_join(h);
    AR_TRY(h, cudaEventCreateWithFlags(&h->eager.done, cudaEventDisableTiming), order);
    if (ar_mixes(h)) /* the graph of the first call may wait for the event */
        AR_TRY(h, cudaEventRecord(h->eager.done, h->copy_stream), order);
    for (int i = 0; i < 2; i++)
        AR_TRY(h, cudaEventCreateWithFlags(&h->copy_event[i], cudaEventDisableTiming), order);
    AR_TRY(h, cudaEventCreateWithFlags(&h->copied, cudaEventDisableTiming), order);
    return ncclSuccess;
}

uint64_t ar_group_number(const symtuner_ar *h)
{
    static atomic_uint groups;

    return (uint64_t)getpid() << 42 ^ (uint64_t)atomic_fetch_add(&groups, 1) << 32 ^
           (uint32_t)time(NULL) ^ (uint32_t)((uintptr_t)h >> 12);
}

static void free_gpu(symtuner_ar *h)
{
    cudaSetDevice(h->device);
    ar_arenas_free(h);
    if (h->endpoint.timed_out[0] != 0)
        return; /* NCCL may have launched a kernel that never ends, and freeing would wait for it */
    ar_nodes_free(h);
    ar_endpoint_close(&h->endpoint);
    if (h->copy_stream != NULL)
        cudaStreamDestroy(h->copy_stream);
    for (int i = 0; i < 2; i++)
        if (h->copy_event[i] != NULL)
            cudaEventDestroy(h->copy_event[i]);
    if (h->copied != NULL)
        cudaEventDestroy(h->copied);
    ar_side_free(h->sides);
    ar_engines_free(h);
    ar_ipc_end(h);
    if (h->eager.done != NULL)
        cudaEventDestroy(h->eager.done);
    cudaFree(h->state);
    if (h->mailbox != NULL)
        cudaFreeHost(h->mailbox);
    cudaGetLastError();
}

void ar_rank_free(symtuner_ar *h)
{
    ar_first_leave(h);
    ar_abort_join(h);
    if (!h->stuck)
        free_gpu(h);
    symtuner_rules_free(h->rules);
    free(h->ops);
    ar_grow_end(h);
    if (h->endpoint.timed_out[0] == 0)
        /* After a timeout NCCL may still write a window into the handle, so do not free it. */
        free(h);
}
