/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - see share.h. */
#include "kernels/scratch/share.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/group/bootstrap.h"
#include "kernels/scratch/arena.h"
#include "kernels/scratch/grow.h"
#include "kernels/scratch/peer_arena.h"

ncclResult_t ar_members_fail(struct ar_members *m, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
    return result;
}

ncclResult_t ar_members_agree(struct ar_members *m, ncclResult_t result)
{
    bool met;

    result = ar_bootstrap_agree(m->nccl, m->endpoints, m->n, result, 0, m->why, &met);
    m->lost = m->lost || !met;
    return result;
}

void ar_members_gate(struct ar_members *m, const char *why)
{
    for (int i = 0; i < m->n; i++) {
        snprintf(m->handles[i]->gate_text, sizeof m->handles[i]->gate_text, "%s", why);
        m->handles[i]->gate = m->handles[i]->gate_text;
    }
}

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
    bool met = true, grows = m->n == 1 && m->handles[0]->ranks > 1 && !probes &&
                             ar_grow_in_comm(m->handles[0], &met, m->why);
    const int last = grows ? AR_ARENA_SMALL + 1 : AR_ARENAS;
    ncclResult_t result;
    char text[AR_WHY + 80];

    m->lost = m->lost || !met;
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
        ar_rules_warn(text); /* users may not expect host memory, e.g. when the GPU is full */
    return result;
}

/* If ${create}, let rank 0 create the shared host memory; if not, let all other ranks open it. */
static ncclResult_t open_host(struct ar_members *m, const char *name, bool create)
{
    for (int i = 0; i < m->n; i++) {
        symtuner_ar *h = m->handles[i];
        ncclResult_t result = ncclSuccess;

        if ((h->me == 0) == create)
            result = ar_arena_host(&h, 1, name, create);
        if (result != ncclSuccess)
            return ar_members_fail(m, result, "%.*s", AR_WHY - 1, h->error);
    }
    return ncclSuccess;
}

static ncclResult_t host_arena(struct ar_members *m, const struct symtuner_ar_config *config)
{
    char name[64];
    ncclResult_t result;
    bool maker = false;

    snprintf(name, sizeof name, "/symtuner-ar-%016llx", (unsigned long long)m->handles[0]->group);
    for (int i = 0; i < m->n; i++) {
        ar_arenas_free(m->handles[i]);
        ar_grow_end(m->handles[i]);
        cudaSetDevice(m->handles[i]->device);
        ar_arena_sizes(m->handles[i], config, true);
        maker |= m->handles[i]->me == 0;
    }
    result = ar_members_agree(m, open_host(m, name, true));
    if (result == ncclSuccess)
        result = ar_members_agree(m, open_host(m, name, false));
    if (maker)
        shm_unlink(name); /* all ranks have opened it by now, or none will */
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
