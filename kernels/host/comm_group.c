/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_group.c - symtuner_ar_create: ranks of an NCCL communicator.
 *
 * The ranks first exchange their properties (one small ncclAllGather), so that all choose the same
 * transport: peer memory through an NCCL window, pinned host memory, or plain NCCL.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/scratch/arena.h"
#include "kernels/group/bootstrap.h"
#include "kernels/group/error.h"
#include "kernels/group/links.h"
#include "kernels/host/create.h"
#include "kernels/scratch/grow.h"
#include "kernels/scratch/peer_arena.h"
#include "kernels/host/rank.h"
#include "kernels/nodes/host_id.h"
#include "kernels/nodes/nodes.h"

/* What each rank tells the others about itself. */
struct peer_info {
    struct ar_box_card box; /* ranks of one box can share memory */
    char bus[AR_BUS_ID_SIZE];
    int sms, budget, beside, multicast, major, minor, links, transport, probe_mode, kernel, ctas;
    struct ar_probe probe;
    uint64_t group;                /* its own proposal; all ranks use rank 0's */
    uint64_t bulk_bytes, bulk_own; /* as configured; as suits its own GPU */
    uint64_t first_epoch, rules_hash;
};

_Static_assert(sizeof(struct peer_info) <= AR_INFO_BYTES, "a card fits where a rank says it");

struct group {
    symtuner_ar *handles[AR_MAX_RANKS];
    int n; /* handles of this thread */
    const struct ar_nccl *nccl;
    struct ar_endpoint endpoint[AR_MAX_RANKS], *endpoints[AR_MAX_RANKS];
    struct peer_info mine[AR_MAX_RANKS], *all; /* ${all}, ${cards}: of every rank */
    struct ar_box_card *cards;
    char why[AR_WHY]; /* why the last step failed, here or on another rank */
    bool lost;        /* the other ranks cannot be reached any more */
    bool probes;      /* there will be a start-up probe, unless scratch is host memory */
};

static ncclResult_t __attribute__((format(printf, 3, 4)))
fail(struct group *g, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(g->why, sizeof g->why, format, args);
    va_end(args);
    return result;
}

/* Send g->mine to all ranks, and receive g->all. The exchange is also a barrier. */
static ncclResult_t exchange(struct group *g)
{
    ncclResult_t result = ar_bootstrap_exchange(g->nccl, g->endpoints, g->n, g->mine, g->all,
                                                sizeof *g->mine, g->why);

    g->lost = g->lost || result != ncclSuccess;
    return result;
}

/* Agree on the outcome of a step: if it failed on any rank, all ranks return an error. ${result}
 * and g->why are the outcome on this rank. */
static ncclResult_t agree(struct group *g, ncclResult_t result)
{
    bool met;

    result = ar_bootstrap_agree(g->nccl, g->endpoints, g->n, result, 0, g->why, &met);
    g->lost = g->lost || !met;
    return result;
}

static void close_gate(struct group *g, const char *why)
{
    for (int i = 0; i < g->n; i++) {
        snprintf(g->handles[i]->gate_text, sizeof g->handles[i]->gate_text, "%s", why);
        g->handles[i]->gate = g->handles[i]->gate_text;
    }
}

/* Ranks with different rules would choose different kernels, so then no rank uses any rules. */
static void compare_rules(struct group *g)
{
    int other = 0;

    for (int r = 1; r < g->handles[0]->ranks && other == 0; r++)
        other = g->all[r].rules_hash != g->all[0].rules_hash ? r : 0;
    if (other != 0)
        ar_rules_drop(g->handles, g->n, other);
}

/* Return the first setting in which ranks a and b differ though they must not, or NULL. */
static const char *unlike(const struct peer_info *a, const struct peer_info *b)
{
    return a->bulk_bytes != b->bulk_bytes     ? "config.bulk_bytes"
           : a->first_epoch != b->first_epoch ? "config.first_epoch"
           : a->transport != b->transport     ? "config.transport or SYMTUNER_AR_TRANSPORT"
           : a->probe_mode != b->probe_mode   ? "SYMTUNER_AR_PROBE"
           : a->kernel != b->kernel           ? "SYMTUNER_AR_KERNEL"
           : a->ctas != b->ctas               ? "SYMTUNER_AR_CTAS"
                                              : NULL;
}

/* Compare the info of all ranks. Every rank has the same info, so all get the same result. */
static ncclResult_t compare(struct group *g)
{
    int ranks = g->endpoint[0].ranks;

    for (int r = 0; r < ranks; r++) {
        const struct peer_info *a = &g->all[0], *b = &g->all[r];

        if (unlike(a, b) != NULL)
            return fail(g, ncclInvalidUsage, "ranks 0 and %d differ in %s", r, unlike(a, b));
        if (a->major != b->major || a->minor != b->minor)
            close_gate(g, "the ranks run on different GPU models");
    }
    compare_rules(g);
    for (int i = 0; i < g->n; i++)
        g->handles[i]->group = g->all[0].group;
    if (ranks > AR_MAX_RANKS)
        close_gate(g, "more than 16 ranks");
    for (int i = 0; i < g->n && ranks <= AR_MAX_RANKS; i++) {
        symtuner_ar *h = g->handles[i];

        for (int r = 0; r < ranks; r++) {
            int same = 0;

            for (int s = 0; s < ranks; s++)
                same += strcmp(g->all[r].bus, g->all[s].bus) == 0;
            h->on_device = same > h->on_device ? same : h->on_device;
            h->sms = g->all[r].sms < h->sms ? g->all[r].sms : h->sms;
            h->budget = g->all[r].budget < h->budget ? g->all[r].budget : h->budget;
            h->beside_differs = h->beside_differs || g->all[r].beside != g->all[0].beside;
            h->multicast = h->multicast && g->all[r].multicast;
        }
        if (h->beside_differs)
            h->beside = AR_BESIDE_UNKNOWN;
    }
    return ncclSuccess;
}

static void ask_links(struct group *g, int forced)
{
    for (int i = 0; i < g->n; i++) {
        g->mine[i].links = AR_LINKS_NVLINK;
        for (int r = 0; r < g->handles[0]->ranks; r++)
            if (ar_links_between(g->mine[i].bus, g->all[r].bus) != AR_LINKS_NVLINK)
                g->mine[i].links = AR_LINKS_PCIE;
        if (forced >= 0)
            g->mine[i].links = forced;
    }
}

static ncclResult_t allocate(struct group *g, int last)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < g->n && result == ncclSuccess; i++)
        result = ar_comm_arena_make(g->handles[i], 0, last, g->why);
    return result;
}

/* Allocate scratch and register it as an NCCL window. If this fails, host memory may still work. */
static ncclResult_t peer_arena(struct group *g, const struct symtuner_ar_config *config)
{
    bool met = true, grows = g->n == 1 && g->handles[0]->ranks > 1 && !g->probes &&
                             ar_grow_in_comm(g->handles[0], &met, g->why);
    const int last = grows ? AR_ARENA_SMALL + 1 : AR_ARENAS;
    ncclResult_t result;
    char text[AR_WHY + 80];

    g->lost = g->lost || !met;
    if (g->lost)
        return ncclRemoteError;
    for (int i = 0; i < g->n; i++)
        ar_arena_sizes(g->handles[i], config, false);
    result = agree(g, allocate(g, last));
    if (result == ncclSuccess)
        return agree(g, ar_comm_arena_link(g->handles, g->n, 0, last, g->why));
    snprintf(text, sizeof text, "pinned host memory, which is slow, instead of peer memory: %s",
             g->why);
    if (g->handles[0]->me == 0 && config->transport == SYMTUNER_AR_AUTO)
        ar_rules_warn(text); /* the user may not expect it, for instance when the GPU is full */
    return result;
}

/* If ${create}, let rank 0 create the shared host memory, else let all other ranks open it. */
static ncclResult_t open_host(struct group *g, const char *name, bool create)
{
    for (int i = 0; i < g->n; i++) {
        symtuner_ar *h = g->handles[i];
        ncclResult_t result = ncclSuccess;

        if ((h->me == 0) == create)
            result = ar_arena_host(&h, 1, name, create);
        if (result != ncclSuccess)
            return fail(g, result, "%.*s", AR_WHY - 1, h->error);
    }
    return ncclSuccess;
}

static ncclResult_t host_arena(struct group *g, const struct symtuner_ar_config *config)
{
    char name[64];
    ncclResult_t result;
    bool maker = false;

    snprintf(name, sizeof name, "/symtuner-ar-%016llx", (unsigned long long)g->all[0].group);
    for (int i = 0; i < g->n; i++) {
        ar_arenas_free(g->handles[i]);
        ar_grow_end(g->handles[i]);
        cudaSetDevice(g->handles[i]->device);
        ar_arena_sizes(g->handles[i], config, true);
        maker |= g->handles[i]->me == 0;
    }
    result = agree(g, open_host(g, name, true));
    if (result == ncclSuccess)
        result = agree(g, open_host(g, name, false));
    if (maker)
        shm_unlink(name); /* all ranks have opened it by now, or none will */
    for (int i = 0; i < g->n && result != ncclSuccess; i++)
        ar_arenas_free(g->handles[i]);
    return result;
}

static ncclResult_t exchange_probes(void *ranks, struct ar_probe *all)
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

static ncclResult_t probe(struct group *g, const struct ar_options *options)
{
    struct ar_probe_group group = {exchange_probes, g, g->all[0].box.host};

    for (int r = 0; r < g->handles[0]->ranks; r++)
        group.key = ar_probe_key(group.key, g->all[r].bus);
    return ar_probe_run(g->handles, g->n, &group, options->probe_file);
}

/* Share scratch in peer memory, or else in host memory (*host), the same on all ranks. If it is not
 * peer memory, h->no_peer keeps the reason. */
static ncclResult_t share_memory(struct group *g, const struct symtuner_ar_config *config,
                                 bool *host)
{
    char no_peer[AR_WHY] = "", why[sizeof g->handles[0]->gate_text];
    int at = 0;

    *host = config->transport == SYMTUNER_AR_HOST;
    if (!*host) {
        ncclResult_t result = peer_arena(g, config);

        if (result == ncclSuccess || g->lost)
            return result;
        memcpy(no_peer, g->why, sizeof no_peer);
        at = snprintf(why, sizeof why, "no peer memory (%s)", no_peer);
        *host = config->transport == SYMTUNER_AR_AUTO;
    }
    if (*host) {
        ncclResult_t result = host_arena(g, config);

        for (int i = 0; i < g->n && result == ncclSuccess; i++)
            memcpy(g->handles[i]->no_peer, no_peer, sizeof no_peer);
        if (result == ncclSuccess || g->lost)
            return result;
        snprintf(why + at, sizeof why - (size_t)at, "%sno pinned host memory (%s)",
                 at != 0 ? ", and " : "", g->why);
    }
    close_gate(g, why);
    return ncclSuccess;
}

/* Return the bytes of bulk scratch: as configured, which is the same on all ranks, or else as suits
 * every GPU. */
static uint64_t bulk(const struct group *g)
{
    uint64_t least = UINT64_MAX;

    for (int r = 0; r < g->endpoint[0].ranks; r++)
        least = g->all[r].bulk_own < least ? g->all[r].bulk_own : least;
    return g->all[0].bulk_bytes != 0 ? g->all[0].bulk_bytes : least;
}

/* NVLink only if every rank says so. */
static void set_links(struct group *g)
{
    for (int i = 0; i < g->n; i++) {
        g->handles[i]->links = AR_LINKS_NVLINK;
        for (int r = 0; r < g->handles[i]->ranks; r++)
            if (g->all[r].links == AR_LINKS_PCIE)
                g->handles[i]->links = AR_LINKS_PCIE;
    }
}

/* If the ranks span several boxes, NCCL runs their calls, or at least the part between boxes. */
static ncclResult_t span_boxes(struct group *g, const struct symtuner_ar_config *config)
{
    char gate[2 * AR_WHY] = "";
    ncclResult_t result;

    for (int r = 0; r < g->endpoint[0].ranks; r++) {
        g->cards[r] = g->all[r].box;
        g->cards[r].ruled = ar_rules_network_any(g->handles[0]->rules); /* the same on all ranks */
    }
    result = ar_nodes_span(g->handles[0], g->cards, config, gate, g->why);
    g->lost = g->lost || result != ncclSuccess;
    if (gate[0] != 0)
        close_gate(g, gate);
    return result;
}

static ncclResult_t settle(struct group *g, const struct symtuner_ar_config *given,
                           const struct ar_options *options)
{
    struct symtuner_ar_config config = *given;
    bool host;
    ncclResult_t result;

    for (int i = 0; i < g->n; i++) /* the gathers so far have told */
        g->mine[i].box.unable |= g->endpoints[i]->threaded ? AR_BOX_UNBLOCKED : 0u;
    result = exchange(g);
    if (result == ncclSuccess)
        result = compare(g);
    if (result == ncclSuccess)
        result = span_boxes(g, given);
    if (result != ncclSuccess || g->handles[0]->gate != NULL)
        return result;
    ask_links(g, options->links);
    config.bulk_bytes = bulk(g);
    result = exchange(g);
    if (result != ncclSuccess)
        return result;
    set_links(g);
    g->probes = ar_probe_wanted(g->handles[0], options);
    result = share_memory(g, &config, &host);
    if (result != ncclSuccess || g->handles[0]->gate != NULL)
        return result;
    for (int i = 0; i < g->n && host; i++)
        g->handles[i]->links = AR_LINKS_HOST;
    if (!g->probes || host)
        return ncclSuccess;
    result = probe(g, options);
    if (result == ncclSuccess || g->lost) /* if lost, g->why already says why */
        return result;
    return fail(g, result, "%.*s", AR_WHY - 1, g->handles[0]->error);
}

static ncclResult_t start_rank(struct group *g, int i, const struct symtuner_ar_config *config,
                               const struct ar_options *options)
{
    symtuner_ar *h = calloc(1, sizeof *h);
    struct peer_info *info = &g->mine[i];
    cudaError_t error;

    if (h == NULL)
        return fail(g, ncclSystemError, "out of memory");
    g->handles[i] = h;
    h->endpoint = g->endpoint[i]; /* the handle owns it from here on */
    g->endpoints[i] = &h->endpoint;
    h->comm = h->endpoint.comm;
    h->ranks = h->endpoint.ranks;
    h->device = h->endpoint.device;
    h->nccl = g->nccl;
    if (g->nccl->ncclCommUserRank(h->comm, &h->me) != ncclSuccess)
        return fail(g, ncclInvalidArgument, "comms[%d] is not a usable communicator", i);
    if (ar_rank_start(h, config, options) != ncclSuccess)
        return fail(g, ncclUnhandledCudaError, "%.*s", AR_WHY - 1, h->error);
    h->endpoint.abort = &h->mailbox->abort;
    info->box = ar_box_card(options->nodes, g->n, g->nccl->ncclCommSplit != NULL);
    error = cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, h->device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&info->major, cudaDevAttrComputeCapabilityMajor, h->device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&info->minor, cudaDevAttrComputeCapabilityMinor, h->device);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return fail(g, ncclUnhandledCudaError, "ask GPU %d what it is: %s", h->device,
                    cudaGetErrorString(error));
    }
    info->sms = h->sms;
    info->budget = h->budget;
    info->beside = h->beside;
    info->multicast = h->multicast = h->ranks >= 4 && ar_multicast_here();
    info->transport = config->transport;
    info->probe_mode = options->probe;    /* a rank that probes waits for the others to probe */
    info->kernel = options->force.family; /* ranks in different kernels would wait for each other */
    info->ctas = options->force.ctas;
    info->bulk_bytes = config->bulk_bytes;
    info->bulk_own = ar_scratch_bulk();
    info->first_epoch = config->first_epoch;
    info->rules_hash = ar_rules_hash(h);
    info->group = ar_group_number(h);
    return ncclSuccess;
}

static ncclResult_t start(struct group *g, ncclResult_t checked,
                          const struct symtuner_ar_config *config, const struct ar_options *options)
{
    ncclResult_t result = checked;

    if (result != ncclSuccess)
        return fail(g, result, "%.*s", AR_WHY - 1, symtuner_ar_error(NULL));
    if (g->all == NULL || g->cards == NULL)
        return fail(g, ncclSystemError, "out of memory");
    for (int i = 0; i < g->n && result == ncclSuccess; i++)
        result = start_rank(g, i, config, options);
    return result;
}

static ncclResult_t open_endpoints(struct group *g, const ncclComm_t *comms, uint64_t limit_ns)
{
    for (int i = 0; i < g->n; i++) {
        char why[AR_WHY];
        ncclResult_t result = ar_endpoint_open(&g->endpoint[i], g->nccl, comms[i], limit_ns, why);

        g->endpoints[i] = &g->endpoint[i];
        if (result != ncclSuccess)
            return fail(g, result, "comms[%d]: %.*s", i, AR_WHY - 20, why);
    }
    return ncclSuccess;
}

/* Fail if the user asked for one of our transports but only NCCL can run. */
static ncclResult_t insist(struct group *g, int transport)
{
    static const char *const words[] = {"auto", "peer", "host"};

    if (g->handles[0]->gate == NULL || transport == SYMTUNER_AR_AUTO)
        return ncclSuccess;
    return fail(g, ncclInvalidUsage, "transport %s was asked for, but: %.*s", words[transport],
                AR_WHY - 50, g->handles[0]->gate);
}

static ncclResult_t create(struct group *g, const ncclComm_t *comms,
                           const struct symtuner_ar_config *given)
{
    struct symtuner_ar_config config;
    struct ar_options options;
    ncclResult_t checked = ar_config_check(given, &config, &options);
    ncclResult_t result = open_endpoints(g, comms, ar_timeout_ns(&config, &options));

    if (result != ncclSuccess)
        return result;
    g->all = calloc((size_t)g->endpoint[0].ranks, sizeof *g->all);
    g->cards = calloc((size_t)g->endpoint[0].ranks, sizeof *g->cards);
    result = agree(g, start(g, checked, &config, &options));
    if (result == ncclSuccess)
        result = settle(g, &config, &options);
    return result == ncclSuccess ? insist(g, config.transport) : result;
}

ncclResult_t symtuner_ar_create(symtuner_ar **handles_out, const ncclComm_t *comms, int n,
                                const struct symtuner_ar_config *given)
{
    struct group g = {.n = n};
    char why[160];
    int device = -1;
    ncclResult_t result;

    if (handles_out == NULL || comms == NULL || n < 1 || n > AR_MAX_RANKS)
        return ar_fail(NULL, ncclInvalidArgument, "one thread drives 1 to %d communicators, not %d",
                       AR_MAX_RANKS, n);
    g.nccl = ar_nccl_get(why, sizeof why);
    if (g.nccl == NULL)
        return ar_fail(NULL, ncclInvalidUsage, "%s", why);
    cudaGetDevice(&device);
    result = create(&g, comms, given);
    for (int i = 0; i < n; i++) {
        if (result == ncclSuccess)
            handles_out[i] = g.handles[i];
        else if (g.handles[i] != NULL)
            ar_rank_free(g.handles[i]);
        else
            ar_endpoint_close(&g.endpoint[i]);
    }
    free(g.all);
    free(g.cards);
    if (device >= 0)
        cudaSetDevice(device);
    return result == ncclSuccess ? result : ar_fail(NULL, result, "%s", g.why);
}
