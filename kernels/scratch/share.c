/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - makes scratch that all ranks of a communicator can reach. */
#include "kernels/scratch/share.h"

#include <stdio.h>
#include <string.h>

#include "kernels/scratch/arena.h"
#include "kernels/scratch/grow.h"
#include "kernels/scratch/peer_arena.h"

static ncclResult_t allocate(struct ar_members *m, int last)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < m->n && result == ncclSuccess; i++)
        result = ar_comm_arena_make(m->handles[i], 0, last, m->why);
    return result;
}

/* Allocate scratch and register it as an NCCL window. If this fails, host memory may still work. */
static ncclResult_t peer_arena(struct ar_members *m, const struct symtuner_ar_config *config,
                               bool probes)
{
    const bool grows =
        m->single && m->handles[0]->ranks > 1 && !probes && ar_grow_in_comm(m) == ncclSuccess;
    const int last = grows ? AR_ARENA_SMALL + 1 : AR_ARENAS;
    ncclResult_t result;
    char text[AR_WHY + 80];

    if (m->lost)
        return ncclRemoteError;
    for (int i = 0; i < m->n; i++)
        ar_arena_sizes(m->handles[i], config, false);
    result = ar_members_agree(m, allocate(m, last));
    if (result == ncclSuccess)
        return ar_members_agree(m, ar_comm_arena_link(m->handles, m->n, 0, last, m->why));
    snprintf(text, sizeof text, "pinned host memory, which is slow, instead of peer memory: %s",
             m->why);
    if (m->handles[0]->me == 0 && config->transport == SYMTUNER_AR_AUTO)
        /* Warn, because the reason may surprise users, for example that a GPU's memory is full. */
        ar_rules_warn(text);
    return result;
}

static ncclResult_t open_host(symtuner_ar *h, const char *name, bool create, char *why)
{
    ncclResult_t result = ar_arena_host(&h, 1, name, create);

    if (result != ncclSuccess)
        snprintf(why, AR_WHY, "%.*s", AR_WHY - 1, h->error);
    return result;
}

static ncclResult_t host_arena(struct ar_members *m, const struct symtuner_ar_config *config)
{
    ncclResult_t result;

    for (int i = 0; i < m->n; i++) {
        ar_arenas_free(m->handles[i]);
        ar_grow_end(m->handles[i]);
        cudaSetDevice(m->handles[i]->device);
        ar_arena_sizes(m->handles[i], config, true);
    }
    result = ar_members_open(m, "", open_host);
    for (int i = 0; i < m->n && result != ncclSuccess; i++)
        ar_arenas_free(m->handles[i]);
    return result;
}

ncclResult_t ar_scratch_share(struct ar_members *m, const struct symtuner_ar_config *config,
                              bool probes, bool *host)
{
    char no_peer[AR_WHY] = "", why[sizeof m->handles[0]->gate_text];
    int at = 0;

    *host = config->transport == SYMTUNER_AR_HOST;
    if (!*host) {
        ncclResult_t result = peer_arena(m, config, probes);

        if (result == ncclSuccess || m->lost)
            return result;
        memcpy(no_peer, m->why, sizeof no_peer);
        at = snprintf(why, sizeof why, "no peer memory (%s)", no_peer);
        *host = config->transport == SYMTUNER_AR_AUTO;
    }
    if (*host) {
        ncclResult_t result = host_arena(m, config);

        for (int i = 0; i < m->n && result == ncclSuccess; i++)
            memcpy(m->handles[i]->no_peer, no_peer, sizeof no_peer);
        if (result == ncclSuccess || m->lost)
            return result;
        snprintf(why + at, sizeof why - (size_t)at, "%sno pinned host memory (%s)",
                 at != 0 ? ", and " : "", m->why);
    }
    ar_members_gate(m, why);
    return ncclSuccess;
}
