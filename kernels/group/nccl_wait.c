/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_wait.c - see nccl_wait.h. */
#include "kernels/group/nccl_wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    SPIN_NS = 1000000, /* a launch takes NCCL's thread well below 1 ms */
    NAP_NS = 50000,
    ABORT_NS = 1000000000, /* NCCL may be well, and give windows back in that */
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool aborted(const struct ar_voice *voice)
{
    return voice->abort != NULL && __atomic_load_n(voice->abort, __ATOMIC_RELAXED) != 0;
}

static ncclResult_t late_result(const struct ar_voice *voice)
{
    return aborted(voice) ? ncclInvalidUsage : ncclRemoteError;
}

ncclResult_t ar_comm_linger(struct ar_voice *voice, uint64_t *start, const char *call)
{
    uint64_t now = now_ns(), waited;

    *start = *start == 0 ? now : *start;
    waited = now - *start;
    if (aborted(voice) && waited >= ABORT_NS) {
        snprintf(voice->late, sizeof voice->late,
                 "%s: aborted after %llu ms in progress; ncclCommAbort ends it", call,
                 (unsigned long long)(waited / 1000000));
        return late_result(voice);
    }
    if (waited >= voice->limit_ns) {
        snprintf(voice->late, sizeof voice->late,
                 "%s: still in progress after %llu ms, the time limit; is a rank missing? else "
                 "raise SYMTUNER_AR_TIMEOUT_MS; ncclCommAbort ends it",
                 call, (unsigned long long)(voice->limit_ns / 1000000));
        return late_result(voice);
    }
    if (waited < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return ncclInProgress;
}

ncclResult_t ar_comm_wait(const struct ar_nccl *nccl, struct ar_voice *voice, ncclResult_t result,
                          const char *call, char *why)
{
    uint64_t start = 0;

    if (voice->late[0] != 0) {
        memcpy(why, voice->late, AR_WHY);
        return late_result(voice);
    }
    while (result == ncclInProgress) {
        ncclResult_t state = ncclInProgress, looked;

        looked = nccl->ncclCommGetAsyncError(voice->comm, &state);
        result = looked == ncclSuccess ? state : looked;
        if (result != ncclInProgress)
            break;
        result = ar_comm_linger(voice, &start, call);
    }
    if (voice->late[0] != 0)
        memcpy(why, voice->late, AR_WHY);
    else if (result != ncclSuccess)
        snprintf(why, AR_WHY, "%s: %s", call, nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t ar_comms_start(const struct ar_nccl *nccl, struct ar_voice *const *voices, int n,
                            const char *call, char *why)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < n && result == ncclSuccess; i++)
        result = ar_comm_wait(nccl, voices[i], ncclInProgress, call, why);
    if (result != ncclSuccess)
        return result;
    result = nccl->ncclGroupStart();
    if (result != ncclSuccess)
        snprintf(why, AR_WHY, "%s: ncclGroupStart: %s", call, nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t ar_comms_late(struct ar_voice *const *voices, int n, const struct ar_voice *first,
                           char *why)
{
    for (int i = 0; i < n; i++)
        if (voices[i]->late[0] == 0)
            memcpy(voices[i]->late, first->late, sizeof first->late);
    memcpy(why, first->late, AR_WHY);
    return late_result(first);
}

ncclResult_t ar_comms_end(const struct ar_nccl *nccl, struct ar_voice *const *voices, int n,
                          ncclResult_t result, const char *call, char *why)
{
    ncclResult_t ended = nccl->ncclGroupEnd(); /* always: or the caller's next call were in it */

    if (result != ncclSuccess && result != ncclInProgress)
        snprintf(why, AR_WHY, "%s: %s", call, nccl->ncclGetErrorString(result));
    else
        result = ncclSuccess;
    for (int i = 0; i < n; i++) {
        char trouble[AR_WHY];
        ncclResult_t waited;

        voices[i]->threaded = voices[i]->threaded || ended == ncclInProgress;
        waited = ar_comm_wait(nccl, voices[i], ended, call, trouble);

        if (voices[i]->late[0] != 0)
            ar_comms_late(voices, n, voices[i], trouble);
        if (result == ncclSuccess && waited != ncclSuccess)
            memcpy(why, trouble, AR_WHY);
        result = result == ncclSuccess ? waited : result;
    }
    return result;
}
