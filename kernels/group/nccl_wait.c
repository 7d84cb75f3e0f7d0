/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_wait.c - waits for NCCL calls on nonblocking communicators. */
#include "kernels/group/nccl_wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    SPIN_NS = 1000000,     /* time to wait without sleep; most waits are shorter */
    NAP_NS = 50000,        /* how long to sleep between two polls after SPIN_NS */
    ABORT_NS = 1000000000, /* how long a wait may last after an abort: NCCL may drop windows */
};

uint64_t ar_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void ar_pause(uint64_t waited_ns)
{
    if (waited_ns < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bool aborted(const struct ar_endpoint *endpoint)
{
    return endpoint->abort != NULL && __atomic_load_n(endpoint->abort, __ATOMIC_RELAXED) != 0;
}

static ncclResult_t timeout_result(const struct ar_endpoint *endpoint)
{
    return aborted(endpoint) ? ncclInvalidUsage : ncclRemoteError;
}

ncclResult_t ar_comm_poll(struct ar_endpoint *endpoint, uint64_t *start, const char *call)
{
    uint64_t now = ar_now_ns(), waited;

    *start = *start == 0 ? now : *start;
    waited = now - *start;
    if (aborted(endpoint) && waited >= ABORT_NS) {
        snprintf(endpoint->timed_out, sizeof endpoint->timed_out,
                 "%s: aborted after %llu ms in progress; ncclCommAbort ends it", call,
                 (unsigned long long)(waited / 1000000));
        return timeout_result(endpoint);
    }
    if (waited >= endpoint->limit_ns) {
        snprintf(endpoint->timed_out, sizeof endpoint->timed_out,
                 "%s: still in progress after %llu ms, the time limit; is a rank missing? else "
                 "raise SYMTUNER_AR_TIMEOUT_MS; ncclCommAbort ends it",
                 call, (unsigned long long)(endpoint->limit_ns / 1000000));
        return timeout_result(endpoint);
    }
    ar_pause(waited);
    return ncclInProgress;
}

ncclResult_t ar_comm_wait(const struct ar_nccl *nccl, struct ar_endpoint *endpoint,
                          ncclResult_t result, const char *call, char *why)
{
    uint64_t start = 0;

    if (endpoint->timed_out[0] != 0) {
        memcpy(why, endpoint->timed_out, AR_WHY);
        return timeout_result(endpoint);
    }
    while (result == ncclInProgress) {
        ncclResult_t state = ncclInProgress, looked;

        looked = nccl->ncclCommGetAsyncError(endpoint->comm, &state);
        result = looked == ncclSuccess ? state : looked;
        if (result != ncclInProgress)
            break;
        result = ar_comm_poll(endpoint, &start, call);
    }
    if (endpoint->timed_out[0] != 0)
        memcpy(why, endpoint->timed_out, AR_WHY);
    else if (result != ncclSuccess)
        snprintf(why, AR_WHY, "%s: %s", call, nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t ar_comms_start(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                            const char *call, char *why)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < n && result == ncclSuccess; i++)
        result = ar_comm_wait(nccl, endpoints[i], ncclInProgress, call, why);
    if (result != ncclSuccess)
        return result;
    result = nccl->ncclGroupStart();
    if (result != ncclSuccess)
        snprintf(why, AR_WHY, "%s: ncclGroupStart: %s", call, nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t ar_comms_timed_out(struct ar_endpoint *const *endpoints, int n,
                                const struct ar_endpoint *first, char *why)
{
    for (int i = 0; i < n; i++)
        if (endpoints[i]->timed_out[0] == 0)
            memcpy(endpoints[i]->timed_out, first->timed_out, sizeof first->timed_out);
    memcpy(why, first->timed_out, AR_WHY);
    return timeout_result(first);
}

ncclResult_t ar_comms_end(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints, int n,
                          ncclResult_t result, const char *call, char *why)
{
    ncclResult_t ended =
        nccl->ncclGroupEnd(); /* even after an error, or the next NCCL call would be in the group */

    if (result != ncclSuccess && result != ncclInProgress)
        snprintf(why, AR_WHY, "%s: %s", call, nccl->ncclGetErrorString(result));
    else
        result = ncclSuccess;
    for (int i = 0; i < n; i++) {
        char trouble[AR_WHY];
        ncclResult_t waited;

        endpoints[i]->threaded = endpoints[i]->threaded || ended == ncclInProgress;
        waited = ar_comm_wait(nccl, endpoints[i], ended, call, trouble);

        if (endpoints[i]->timed_out[0] != 0)
            ar_comms_timed_out(endpoints, n, endpoints[i], trouble);
        if (result == ncclSuccess && waited != ncclSuccess)
            memcpy(why, trouble, AR_WHY);
        result = result == ncclSuccess ? waited : result;
    }
    return result;
}
