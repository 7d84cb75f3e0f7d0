/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_group.c - symtuner_ar_create: make handles for ranks of an NCCL communicator.
 *
 * First the ranks tell each other their properties by a small ncclAllGather. So all ranks choose
 * the same transport (kernels/scratch/share.h), or all leave their calls to NCCL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/bootstrap.h"
#include "kernels/group/error.h"
#include "kernels/group/links.h"
#include "kernels/host/create.h"
#include "kernels/host/destroy.h"
#include "kernels/host/rank.h"
#include "kernels/nodes/host_id.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"
#include "kernels/order/first.h"
#include "kernels/scratch/share.h"

/* What each rank tells the others about itself. */
struct peer_info {
    struct ar_box_card box; /* on which machine the rank is (kernels/nodes/boxes.h) */
    char bus[AR_BUS_ID_SIZE];
    int sms, budget, beside, ipc, multicast, major, minor, links, transport, probe_mode, kernel,
        ctas, share_gpu;
    struct ar_probe probe;
    uint64_t group;                /* proposed number of the group; all ranks use that of rank 0 */
    uint64_t bulk_bytes, bulk_own; /* config.bulk_bytes, and what ar_scratch_bulk() returned */
    uint64_t first_epoch, rules_hash;
    uint64_t place; /* what this rank proposes as the handle's place (order/first.h) */
    uint64_t mixed; /* 1: the thread of this rank passes communicators of several groups */
};

_Static_assert(sizeof(struct peer_info) <= AR_INFO_BYTES, "one rank may send a whole peer_info");

/* While handles are made, a wait for another rank lasts at most this long, even if the handle's own
 * limit is longer: the program has no handle yet that it could abort. */
#define CREATE_NS 600000000000ull

struct group {
    struct ar_members m;
    struct ar_endpoint endpoint[AR_MAX_RANKS];
    struct peer_info mine[AR_MAX_RANKS], *all; /* mine: of this thread's ranks; all: of all ranks */
    struct ar_box_card *cards;                 /* for each rank, on which machine it is */
};

/* Send g->mine to all ranks, and receive g->all. The exchange is also a barrier. */
static ncclResult_t exchange(struct group *g)
{
    ncclResult_t result = ar_bootstrap_exchange(g->m.nccl, g->m.endpoints, g->m.n, g->mine, g->all,
                                                sizeof *g->mine, g->m.why);

    g->m.lost = g->m.lost || result != ncclSuccess;
    return result;
}

/* If the ranks have different rules, drop the rules on all ranks. Otherwise the ranks would choose
 * different kernels. */
static void compare_rules(struct group *g)
{
    int other = 0;

    for (int r = 1; r < g->m.handles[0]->ranks && other == 0; r++)
        other = g->all[r].rules_hash != g->all[0].rules_hash ? r : 0;
    if (other != 0)
        ar_rules_drop(g->m.handles, g->m.n, other);
}

/* Return the name of the first setting that differs between two ranks but must be the same on all
 * ranks, or NULL. timeout_ms and one_stream may differ: each rank waits by its own limit, and
 * orders only its own calls by events. Neither has a part in what the ranks choose. */
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

static int same_gpu(const struct peer_info *a, const struct peer_info *b)
{
    return a->box.host == b->box.host && strcmp(a->bus, b->bus) == 0;
}

/* Compare what the ranks have told each other. All ranks compare the same data, so they get the
 * same result. */
static ncclResult_t compare(struct group *g)
{
    int ranks = g->endpoint[0].ranks, share = 1;
    uint64_t place = 0;

    for (int r = 0; r < ranks; r++) {
        const struct peer_info *a = &g->all[0], *b = &g->all[r];

        if (b->mixed)
            return ar_members_fail(&g->m, ncclInvalidUsage,
                                   "the thread of rank %d passes communicators of several groups; "
                                   "make the handles of each group in a call of its own",
                                   r);
        if (unlike(a, b) != NULL)
            return ar_members_fail(&g->m, ncclInvalidUsage, "ranks 0 and %d differ in %s", r,
                                   unlike(a, b));
        if (a->major != b->major || a->minor != b->minor)
            ar_members_gate(&g->m, "the ranks run on different GPU models");
        place = b->place > place ? b->place : place;
    }
    g->m.single = true;
    for (int r = 0; r < ranks; r++)
        g->m.single = g->m.single && g->all[r].box.handles == 1;
    compare_rules(g);
    for (int i = 0; i < g->m.n; i++) {
        g->m.handles[i]->group = g->all[0].group;
        ar_first_place(g->m.handles[i], place);
    }
    if (ranks > AR_MAX_RANKS)
        ar_members_gate(&g->m, "more than 16 ranks");
    for (int i = 0; i < g->m.n && ranks <= AR_MAX_RANKS; i++) {
        symtuner_ar *h = g->m.handles[i];

        for (int r = 0; r < ranks; r++) {
            int same = 0;

            for (int s = 0; s < ranks; s++)
                same += same_gpu(&g->all[r], &g->all[s]);
            share &= g->all[r].share_gpu;
            h->on_device = same > h->on_device ? same : h->on_device;
            h->sms = g->all[r].sms < h->sms ? g->all[r].sms : h->sms;
            h->budget = g->all[r].budget < h->budget ? g->all[r].budget : h->budget;
            h->beside_differs = h->beside_differs || g->all[r].beside != g->all[0].beside;
            h->multicast = h->multicast && g->all[r].multicast;
            if (g->all[r].ipc != g->all[0].ipc) {
                if (h->ipc_mode == AR_IPC_AUTO)
                    h->no_auto = "the ranks have different settings";
                h->ipc_mode = AR_IPC_OFF;
            }
        }
        if (h->beside_differs)
            h->beside = AR_BESIDE_UNKNOWN;
        if (h->on_device > 1 && !share)
            ar_members_gate(&g->m, "several ranks are on one GPU, and not all of them have "
                                   "SYMTUNER_AR_SHARE_GPU=1");
    }
    return ncclSuccess;
}

static void ask_links(struct group *g, int forced)
{
    for (int i = 0; i < g->m.n; i++) {
        g->mine[i].links = AR_LINKS_NVLINK;
        for (int r = 0; r < g->m.handles[0]->ranks; r++)
            if (ar_links_between(g->mine[i].bus, g->all[r].bus) != AR_LINKS_NVLINK)
                g->mine[i].links = AR_LINKS_PCIE;
        if (forced >= 0)
            g->mine[i].links = forced;
    }
}

static ncclResult_t exchange_probes(void *ranks, struct ar_probe *all)
{
    struct group *g = ranks;
    ncclResult_t result;

    for (int i = 0; i < g->m.n; i++)
        g->mine[i].probe = g->m.handles[i]->probe;
    result = exchange(g);
    for (int r = 0; r < g->m.handles[0]->ranks && result == ncclSuccess; r++)
        all[r] = g->all[r].probe;
    return result;
}

static ncclResult_t probe(struct group *g, const struct ar_options *options)
{
    struct ar_probe_group group = {exchange_probes, g, g->all[0].box.host};

    for (int r = 0; r < g->m.handles[0]->ranks; r++)
        group.key = ar_probe_key(group.key, g->all[r].bus);
    return ar_probe_run(g->m.handles, g->m.n, &group, options->probe_file);
}

/* Return how many bytes of bulk scratch to make: config.bulk_bytes, which is the same on all ranks.
 * If config.bulk_bytes is 0, return the largest size that suits every GPU. */
static uint64_t bulk(const struct group *g)
{
    uint64_t least = UINT64_MAX;

    for (int r = 0; r < g->endpoint[0].ranks; r++)
        least = g->all[r].bulk_own < least ? g->all[r].bulk_own : least;
    return g->all[0].bulk_bytes != 0 ? g->all[0].bulk_bytes : least;
}

/* Set the links of the group: NVLink if every rank found NVLink to every other rank, else PCIe. */
static void set_links(struct group *g)
{
    for (int i = 0; i < g->m.n; i++) {
        g->m.handles[i]->links = AR_LINKS_NVLINK;
        for (int r = 0; r < g->m.handles[i]->ranks; r++)
            if (g->all[r].links == AR_LINKS_PCIE)
                g->m.handles[i]->links = AR_LINKS_PCIE;
    }
}

/* Find out whether the ranks are on several boxes (machines). If they are, NCCL runs their calls,
 * or at least the part of each call between the boxes. */
static ncclResult_t span_boxes(struct group *g, const struct symtuner_ar_config *config)
{
    char gate[2 * AR_WHY] = "";
    ncclResult_t result;

    for (int r = 0; r < g->endpoint[0].ranks; r++) {
        g->cards[r] = g->all[r].box;
        g->cards[r].ruled =
            ar_rules_network_any(g->m.handles[0]->rules); /* all ranks have the same rules */
    }
    result = ar_nodes_span(g->m.handles[0], g->cards, config, gate, g->m.why);
    g->m.lost = g->m.lost || result != ncclSuccess;
    if (gate[0] != 0)
        ar_members_gate(&g->m, gate);
    return result;
}

static ncclResult_t settle(struct group *g, const struct symtuner_ar_config *given,
                           const struct ar_options *options)
{
    struct symtuner_ar_config config = *given;
    bool host, probes;
    ncclResult_t result;

    /* create() has called ar_members_agree, which exchanged data between the ranks. That exchange
     * has shown which communicators are nonblocking, and which belong to other groups. */
    for (int i = 0; i < g->m.n; i++) {
        g->mine[i].box.unable |= g->m.endpoints[i]->threaded ? AR_BOX_UNBLOCKED : 0u;
        for (int k = 1; k < g->m.n; k++)
            g->mine[i].mixed |= g->m.endpoints[k]->stranger;
    }
    result = exchange(g);
    if (result == ncclSuccess)
        result = compare(g);
    if (result == ncclSuccess)
        result = span_boxes(g, given);
    if (result != ncclSuccess || g->m.handles[0]->gate != NULL)
        return result;
    ask_links(g, options->links);
    config.bulk_bytes = bulk(g);
    result = exchange(g);
    if (result != ncclSuccess)
        return result;
    set_links(g);
    probes = ar_probe_wanted(g->m.handles[0], options);
    result = ar_scratch_share(&g->m, &config, probes, &host);
    if (result != ncclSuccess || g->m.handles[0]->gate != NULL)
        return result;
    for (int i = 0; i < g->m.n && host; i++)
        g->m.handles[i]->links = AR_LINKS_HOST;
    if (!host)
        result = ar_ipc_share(&g->m);
    if (result != ncclSuccess)
        return result;
    if (!probes || host)
        return ncclSuccess;
    result = probe(g, options);
    if (result == ncclSuccess || g->m.lost) /* if ranks are lost, g->m.why already says why */
        return result;
    return ar_members_fail(&g->m, result, "%.*s", AR_WHY - 1, g->m.handles[0]->error);
}

static ncclResult_t start_rank(struct group *g, int i, const struct symtuner_ar_config *config,
                               const struct ar_options *options)
{
    symtuner_ar *h = calloc(1, sizeof *h);
    struct peer_info *info = &g->mine[i];
    cudaError_t error;

    if (h == NULL)
        return ar_members_fail(&g->m, ncclSystemError, "out of memory");
    g->m.handles[i] = h;
    h->endpoint = g->endpoint[i]; /* the handle owns the endpoint from here on */
    g->m.endpoints[i] = &h->endpoint;
    h->comm = h->endpoint.comm;
    h->ranks = h->endpoint.ranks;
    h->device = h->endpoint.device;
    h->nccl = g->m.nccl;
    if (g->m.nccl->ncclCommUserRank(h->comm, &h->me) != ncclSuccess)
        return ar_members_fail(&g->m, ncclInvalidArgument, "comms[%d] is not a usable communicator",
                               i);
    if (ar_rank_start(h, config, options) != ncclSuccess)
        return ar_members_fail(&g->m, ncclUnhandledCudaError, "%.*s", AR_WHY - 1, h->error);
    h->endpoint.abort = &h->mailbox->abort;
    info->box = ar_box_card(options->nodes, g->m.n, g->m.nccl->ncclCommSplit != NULL);
    error = cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, h->device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&info->major, cudaDevAttrComputeCapabilityMajor, h->device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&info->minor, cudaDevAttrComputeCapabilityMinor, h->device);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return ar_members_fail(&g->m, ncclUnhandledCudaError, "ask GPU %d what it is: %s",
                               h->device, cudaGetErrorString(error));
    }
    info->sms = h->sms;
    info->budget = h->budget;
    info->beside = h->beside;
    info->ipc = h->ipc_mode;
    info->multicast = h->multicast = h->ranks >= 4 && ar_multicast_here();
    info->transport = config->transport;
    info->probe_mode = options->probe;    /* must be the same on all ranks: they probe together */
    info->kernel = options->force.family; /* must be the same on all ranks, or calls would hang */
    info->ctas = options->force.ctas;
    info->share_gpu = options->share_gpu;
    info->bulk_bytes = config->bulk_bytes;
    info->bulk_own = ar_scratch_bulk();
    info->first_epoch = config->first_epoch;
    info->rules_hash = ar_rules_hash(h);
    info->group = ar_group_number(h);
    info->place = h->place;
    return ncclSuccess;
}

static ncclResult_t start(struct group *g, ncclResult_t checked,
                          const struct symtuner_ar_config *config, const struct ar_options *options)
{
    ncclResult_t result = checked;

    if (result != ncclSuccess)
        return ar_members_fail(&g->m, result, "%.*s", AR_WHY - 1, symtuner_ar_error(NULL));
    if (g->all == NULL || g->cards == NULL)
        return ar_members_fail(&g->m, ncclSystemError, "out of memory");
    for (int i = 0; i < g->m.n && result == ncclSuccess; i++)
        result = start_rank(g, i, config, options);
    return result;
}

static ncclResult_t open_endpoints(struct group *g, const ncclComm_t *comms, uint64_t limit_ns)
{
    for (int i = 0; i < g->m.n; i++) {
        char why[AR_WHY];
        ncclResult_t result = ar_endpoint_open(&g->endpoint[i], g->m.nccl, comms[i], limit_ns, why);

        g->m.endpoints[i] = &g->endpoint[i];
        if (result != ncclSuccess)
            return ar_members_fail(&g->m, result, "comms[%d]: %.*s", i, AR_WHY - 20, why);
        if (g->endpoint[i].ranks != g->endpoint[0].ranks)
            return ar_members_fail(&g->m, ncclInvalidArgument,
                                   "comms[%d] has %d ranks, and comms[0] has %d; make the handles "
                                   "of each communicator in a call of its own",
                                   i, g->endpoint[i].ranks, g->endpoint[0].ranks);
    }
    return ncclSuccess;
}

/* Fail if the user asked for one of our transports but only NCCL can run. */
static ncclResult_t insist(struct group *g, int transport)
{
    static const char *const words[] = {"auto", "peer", "host"};

    if (g->m.handles[0]->gate == NULL || transport == SYMTUNER_AR_AUTO)
        return ncclSuccess;
    return ar_members_fail(&g->m, ncclInvalidUsage, "transport %s was asked for, but: %.*s",
                           words[transport], AR_WHY - 50, g->m.handles[0]->gate);
}

static ncclResult_t create(struct group *g, const ncclComm_t *comms,
                           const struct symtuner_ar_config *given)
{
    struct symtuner_ar_config config;
    struct ar_options options;
    ncclResult_t checked = ar_config_check(given, &config, &options);
    const uint64_t limit = ar_timeout_ns(&config, &options);
    uint64_t gpus = 0;
    ncclResult_t result = open_endpoints(g, comms, limit < CREATE_NS ? limit : CREATE_NS);

    if (result != ncclSuccess)
        return result;
    for (int i = 0; i < g->m.n; i++)
        gpus |= AR_GPU(g->endpoint[i].device);
    ar_deferred_free(gpus);
    g->all = calloc((size_t)g->endpoint[0].ranks, sizeof *g->all);
    g->cards = calloc((size_t)g->endpoint[0].ranks, sizeof *g->cards);
    result = ar_members_agree(&g->m, start(g, checked, &config, &options));
    if (result == ncclSuccess)
        result = settle(g, &config, &options);
    if (result == ncclSuccess)
        result = insist(g, config.transport);
    for (int i = 0; i < g->m.n && result == ncclSuccess; i++)
        g->m.handles[i]->endpoint.limit_ns = limit;
    return result;
}

ncclResult_t symtuner_ar_create(symtuner_ar **handles_out, const ncclComm_t *comms, int n,
                                const struct symtuner_ar_config *given)
{
    struct group g = {.m.n = n};
    enum cudaStreamCaptureMode mode;
    char why[160];
    int device = -1;
    ncclResult_t result;

    if (handles_out == NULL || comms == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "%s is NULL",
                       handles_out == NULL ? "handles_out" : "comms");
    if (n < 1 || n > AR_MAX_RANKS)
        return ar_fail(NULL, ncclInvalidArgument, "one thread drives 1 to %d communicators, not %d",
                       AR_MAX_RANKS, n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (comms[i] == comms[k])
                return ar_fail(NULL, ncclInvalidArgument, "comms[%d] and comms[%d] are the same", k,
                               i);
    g.m.nccl = ar_nccl_get(why, sizeof why);
    if (g.m.nccl == NULL)
        return ar_fail(NULL, ncclInvalidUsage, "%s", why);
    cudaGetDevice(&device);
    /* While another thread captures a graph, CUDA lets this thread allocate and map memory only in
     * capture mode relaxed. */
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    result = create(&g, comms, given);
    for (int i = 0; i < n; i++) {
        const symtuner_ar *h = g.m.handles[i];

        /* a handle that launches no kernel must not be the first of its GPU (order/first.h) */
        if (result == ncclSuccess && h->nodes == NULL && (h->gate != NULL || h->ranks == 1))
            ar_first_leave(g.m.handles[i]);
        if (result == ncclSuccess)
            handles_out[i] = g.m.handles[i];
        else if (g.m.handles[i] != NULL)
            ar_rank_free(g.m.handles[i]);
        else
            ar_endpoint_close(&g.endpoint[i]);
    }
    free(g.all);
    free(g.cards);
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result == ncclSuccess ? result : ar_fail(NULL, result, "%s", g.m.why);
}
