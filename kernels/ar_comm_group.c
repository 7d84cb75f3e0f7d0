/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar_comm_group.c - symtuner_ar_create: ranks of an NCCL communicator.
 *
 * The ranks first tell each other what they are (one small ncclAllGather), so that all of them take
 * the same way from there: peer memory through an NCCL window, pinned host memory, or plain NCCL.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ar_create.h"
#include "ar_links.h"

/* What each rank says about itself. */
struct card {
    char host[64]; /* boot id and mount of /dev/shm: equal means memory can be shared */
    char bus[ST_BUS_ID_SIZE];
    int sms, major, minor, links, failed, transport, probe_mode, kernel, ctas;
    struct st_probe probe;
    uint32_t nonce;
    uint64_t bulk_bytes, first_epoch, rules_hash;
};

struct group {
    symtuner_ar *handles[ST_MAX_RANKS];
    int n; /* handles of this thread */
    const struct st_nccl *nccl;
    struct card mine[ST_MAX_RANKS], all[ST_MAX_RANKS];
    struct card *cards[ST_MAX_RANKS]; /* on each GPU: its own, then all */
};

static void describe_host(char *text, size_t size)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    memset(text, 0, size);
    if (f == NULL || fgets(text, (int)size, f) == NULL)
        gethostname(text, size - 1);
    if (f != NULL)
        fclose(f);
}

/* All ranks' cards on every rank; also a barrier. */
static ncclResult_t exchange(struct group *g)
{
    ncclResult_t result = ncclSuccess;
    cudaError_t error = cudaSuccess;
    int ranks = g->handles[0]->ranks;

    for (int i = 0; i < g->n && error == cudaSuccess; i++) {
        error = cudaSetDevice(g->handles[i]->device);
        if (error == cudaSuccess && g->cards[i] == NULL)
            error = cudaMalloc((void **)&g->cards[i], sizeof **g->cards * (size_t)(ranks + 1));
        if (error == cudaSuccess)
            error = cudaMemcpy(g->cards[i], &g->mine[i], sizeof *g->mine, cudaMemcpyHostToDevice);
    }
    if (error == cudaSuccess)
        result = g->nccl->ncclGroupStart();
    for (int i = 0; i < g->n && error == cudaSuccess && result == ncclSuccess; i++)
        result = g->nccl->ncclAllGather(g->cards[i], g->cards[i] + 1, sizeof(struct card),
                                        ncclUint8, g->handles[i]->comm, g->handles[i]->copy_stream);
    if (error == cudaSuccess && result == ncclSuccess)
        result = g->nccl->ncclGroupEnd();
    for (int i = 0; i < g->n && error == cudaSuccess; i++) {
        error = cudaStreamSynchronize(g->handles[i]->copy_stream);
        if (error == cudaSuccess && i == 0)
            error = cudaMemcpy(g->all, g->cards[0] + 1, sizeof *g->all * (size_t)ranks,
                               cudaMemcpyDeviceToHost);
    }
    if (error != cudaSuccess)
        return st_fail_cuda(g->handles[0], error, "exchange facts with the other ranks");
    return result == ncclSuccess
               ? result
               : st_fail(g->handles[0], result, "exchange facts with the other ranks: %s",
                         g->nccl->ncclGetErrorString(result));
}

static void close_gate(struct group *g, const char *why)
{
    for (int i = 0; i < g->n; i++) {
        snprintf(g->handles[i]->gate_text, sizeof g->handles[i]->gate_text, "%s", why);
        g->handles[i]->gate = g->handles[i]->gate_text;
    }
}

/* Ranks with different rules would run different kernels: then nobody uses any. */
static void compare_rules(struct group *g)
{
    int other = 0;

    for (int r = 1; r < g->handles[0]->ranks && other == 0; r++)
        other = g->all[r].rules_hash != g->all[0].rules_hash ? r : 0;
    if (other != 0)
        st_rules_drop(g->handles, g->n, other);
}

/* What two ranks must have alike and have not, or NULL. */
static const char *unlike(const struct card *a, const struct card *b)
{
    return a->bulk_bytes != b->bulk_bytes     ? "config.bulk_bytes"
           : a->first_epoch != b->first_epoch ? "config.first_epoch"
           : a->transport != b->transport     ? "config.transport or SYMTUNER_AR_TRANSPORT"
           : a->probe_mode != b->probe_mode   ? "SYMTUNER_AR_PROBE"
           : a->kernel != b->kernel           ? "SYMTUNER_AR_KERNEL"
           : a->ctas != b->ctas               ? "SYMTUNER_AR_CTAS"
                                              : NULL;
}

/* Same verdict on every rank: it looks at the common cards only. */
static ncclResult_t compare(struct group *g)
{
    int ranks = g->handles[0]->ranks;

    for (int r = 0; r < ranks; r++) {
        const struct card *a = &g->all[0], *b = &g->all[r];

        if (b->failed)
            return st_fail(g->handles[0], ncclRemoteError, "rank %d could not start", r);
        if (unlike(a, b) != NULL)
            return st_fail(g->handles[0], ncclInvalidUsage, "ranks 0 and %d differ in %s", r,
                           unlike(a, b));
        if (strcmp(a->host, b->host) != 0)
            close_gate(g, "the ranks span several nodes");
        else if (a->major != b->major || a->minor != b->minor)
            close_gate(g, "the ranks run on different GPU models");
    }
    compare_rules(g);
    for (int i = 0; i < g->n; i++) {
        symtuner_ar *h = g->handles[i];

        for (int r = 0; r < ranks; r++) {
            int same = 0;

            for (int s = 0; s < ranks; s++)
                same += strcmp(g->all[r].bus, g->all[s].bus) == 0;
            h->on_device = same > h->on_device ? same : h->on_device;
            h->sms = g->all[r].sms < h->sms ? g->all[r].sms : h->sms;
        }
    }
    return ncclSuccess;
}

static void ask_links(struct group *g, int forced)
{
    for (int i = 0; i < g->n; i++) {
        g->mine[i].links = ST_LINKS_NVLINK;
        for (int r = 0; r < g->handles[0]->ranks; r++)
            if (st_links_between(g->mine[i].bus, g->all[r].bus) != ST_LINKS_NVLINK)
                g->mine[i].links = ST_LINKS_PCIE;
        if (forced >= 0)
            g->mine[i].links = forced;
    }
}

/* Scratch in a window. Failing here is not final: host memory may do. Every rank gets the same
 * answer, because a rank that fails says so in the next exchange. */
static ncclResult_t peer_arena(struct group *g, const struct symtuner_ar_config *config)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < g->n && result == ncclSuccess; i++) {
        symtuner_ar *h = g->handles[i];
        void *memory = NULL;

        cudaSetDevice(h->device);
        st_scratch_size(h, config, false);
        result = g->nccl->ncclMemAlloc(&memory, h->layout.bytes);
        h->arena = memory;
        if (result == ncclSuccess && st_arena_fill(h, config) != cudaSuccess)
            result = st_fail_cuda(h, cudaGetLastError(), "fill scratch");
    }
    if (result != ncclSuccess)
        return result;
    result = g->nccl->ncclGroupStart();
    for (int i = 0; i < g->n && result == ncclSuccess; i++) {
        symtuner_ar *h = g->handles[i];

        result = g->nccl->ncclCommWindowRegister(h->comm, h->arena, h->layout.bytes,
                                                 &h->arena_window, NCCL_WIN_COLL_SYMMETRIC);
    }
    if (result == ncclSuccess)
        result = g->nccl->ncclGroupEnd();
    for (int i = 0; i < g->n && result == ncclSuccess; i++) {
        symtuner_ar *h = g->handles[i];
        char *multicast;

        cudaSetDevice(h->device);
        result = st_nccl_window_peers(g->nccl, h->arena_window, h->ranks, h->me, h->peer,
                                      &multicast, h->gate_text, sizeof h->gate_text);
    }
    return result;
}

static ncclResult_t host_arena(struct group *g, const struct symtuner_ar_config *config)
{
    char name[64];
    ncclResult_t result = ncclSuccess;
    bool maker = false;

    snprintf(name, sizeof name, "/symtuner-ar-%08x", g->all[0].nonce);
    for (int i = 0; i < g->n; i++) {
        st_arena_free(g->handles[i]);
        cudaSetDevice(g->handles[i]->device);
        st_scratch_size(g->handles[i], config, true);
        maker |= g->handles[i]->me == 0;
    }
    for (int i = 0; i < g->n && maker && result == ncclSuccess; i++)
        if (g->handles[i]->me == 0)
            result = st_arena_host(&g->handles[i], 1, name, true);
    for (int i = 0; i < g->n; i++)
        g->mine[i].failed = result != ncclSuccess;
    if (exchange(g) != ncclSuccess || g->all[0].failed) {
        if (maker)
            shm_unlink(name);
        return result != ncclSuccess ? result : ncclRemoteError;
    }
    for (int i = 0; i < g->n && result == ncclSuccess; i++)
        if (g->handles[i]->me != 0)
            result = st_arena_host(&g->handles[i], 1, name, false);
    for (int i = 0; i < g->n; i++)
        g->mine[i].failed = result != ncclSuccess;
    if (exchange(g) != ncclSuccess) /* everybody has it open: the name can go */
        result = ncclRemoteError;
    if (maker)
        shm_unlink(name);
    return result;
}

static bool anybody_failed(const struct group *g)
{
    for (int r = 0; r < g->handles[0]->ranks; r++)
        if (g->all[r].failed)
            return true;
    return false;
}

static ncclResult_t meet(void *ranks, struct st_probe *all)
{
    struct group *g = ranks;
    ncclResult_t result;

    for (int i = 0; i < g->n; i++)
        g->mine[i].probe = g->handles[i]->probe;
    result = exchange(g);
    for (int r = 0; r < g->handles[0]->ranks && result == ncclSuccess; r++)
        all[r] = g->all[r].probe;
    return result;
}

static ncclResult_t probe(struct group *g, const struct st_options *options)
{
    struct st_probe_group group = {meet, g, st_probe_key(0, g->all[0].host)};

    for (int r = 0; r < g->handles[0]->ranks; r++)
        group.key = st_probe_key(group.key, g->all[r].bus);
    return st_probe_run(g->handles, g->n, &group, options->probe_file);
}

static ncclResult_t settle(struct group *g, const struct symtuner_ar_config *config,
                           const struct st_options *options)
{
    ncclResult_t result = exchange(g);
    bool host = config->transport == SYMTUNER_AR_HOST;

    if (result == ncclSuccess)
        result = compare(g);
    if (result != ncclSuccess || g->handles[0]->gate != NULL)
        return result;
    ask_links(g, options->links);
    if (!host) {
        result = peer_arena(g, config);
        for (int i = 0; i < g->n; i++)
            g->mine[i].failed = result != ncclSuccess;
        if (exchange(g) != ncclSuccess)
            return ncclRemoteError;
        host = anybody_failed(g);
        if (host && config->transport == SYMTUNER_AR_PEER)
            return st_fail(g->handles[0], ncclInvalidUsage, "no peer memory: %s",
                           g->handles[0]->gate_text);
    }
    if (host) {
        result = host_arena(g, config);
        if (result != ncclSuccess || anybody_failed(g)) {
            close_gate(g, "no peer memory, and pinned host memory could not be shared");
            return ncclSuccess;
        }
    }
    for (int i = 0; i < g->n; i++) {
        g->handles[i]->links = host ? ST_LINKS_HOST : ST_LINKS_NVLINK;
        for (int r = 0; r < g->handles[i]->ranks && !host; r++)
            if (g->all[r].links == ST_LINKS_PCIE)
                g->handles[i]->links = ST_LINKS_PCIE;
    }
    return st_probe_wanted(g->handles[0], options) ? probe(g, options) : ncclSuccess;
}

static ncclResult_t start_rank(struct group *g, int i, ncclComm_t comm,
                               const struct symtuner_ar_config *config,
                               const struct st_options *options)
{
    symtuner_ar *h = calloc(1, sizeof *h);
    struct card *card = &g->mine[i];

    if (h == NULL)
        return ncclSystemError;
    g->handles[i] = h;
    h->comm = comm;
    h->nccl = g->nccl;
    if (g->nccl->ncclCommCount(comm, &h->ranks) != ncclSuccess ||
        g->nccl->ncclCommUserRank(comm, &h->me) != ncclSuccess ||
        g->nccl->ncclCommCuDevice(comm, &h->device) != ncclSuccess)
        return st_fail(h, ncclInvalidArgument, "comms[%d] is not a usable communicator", i);
    if (st_rank_start(h, config, options) != ncclSuccess)
        return ncclUnhandledCudaError;
    describe_host(card->host, sizeof card->host);
    cudaDeviceGetPCIBusId(card->bus, sizeof card->bus, h->device);
    cudaDeviceGetAttribute(&card->major, cudaDevAttrComputeCapabilityMajor, h->device);
    cudaDeviceGetAttribute(&card->minor, cudaDevAttrComputeCapabilityMinor, h->device);
    card->sms = h->sms;
    card->transport = config->transport;
    card->probe_mode = options->probe; /* a rank that probes waits for the others to */
    card->kernel = options->force.family; /* ranks in two kernels wait for each other */
    card->ctas = options->force.ctas;
    card->bulk_bytes = config->bulk_bytes;
    card->first_epoch = config->first_epoch;
    card->rules_hash = st_rules_hash(h);
    card->nonce = (uint32_t)getpid() * 2654435761u ^ (uint32_t)time(NULL) ^ (uint32_t)(uintptr_t)h;
    return ncclSuccess;
}

ncclResult_t symtuner_ar_create(symtuner_ar **handles_out, const ncclComm_t *comms, int n,
                                const struct symtuner_ar_config *given)
{
    struct group g = {.n = n};
    struct symtuner_ar_config config;
    struct st_options options;
    char why[160];
    int device = -1, failed = 0;
    ncclResult_t result;

    if (handles_out == NULL || comms == NULL || n < 1 || n > ST_MAX_RANKS)
        return st_fail(NULL, ncclInvalidArgument, "one thread drives 1 to %d communicators, not %d",
                       ST_MAX_RANKS, n);
    result = st_config_check(given, &config, &options);
    if (result != ncclSuccess)
        return result;
    g.nccl = st_nccl_get(why, sizeof why);
    if (g.nccl == NULL)
        return st_fail(NULL, ncclInvalidUsage, "%s", why);
    cudaGetDevice(&device);
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        result = start_rank(&g, i, comms[i], &config, &options);
        failed = i;
    }
    if (result == ncclSuccess) {
        failed = 0;
        if (g.handles[0]->ranks > ST_MAX_RANKS)
            close_gate(&g, "more than 16 ranks");
        else
            result = settle(&g, &config, &options);
        for (int i = 0; i < n && !g.handles[i]->stuck; i++)
            cudaFree(g.cards[i]);
    }
    if (result == ncclSuccess)
        memcpy(handles_out, g.handles, sizeof *handles_out * (size_t)n);
    else if (g.handles[failed] == NULL)
        st_fail(NULL, result, "out of memory");
    else
        st_create_undo(g.handles, n, failed, result);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}
