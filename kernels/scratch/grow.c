/* SPDX-License-Identifier: Apache-2.0 */
/* grow.c - makes the scratch grow when a call needs more. */
#include "kernels/scratch/grow.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/order/capture.h"
#include "kernels/scratch/arena.h"
#include "kernels/scratch/peer_arena.h"

/* What the ranks of a local group (all in this process) share. Several threads may make calls of
 * different ranks at the same time. */
struct ar_local {
    struct ar_meeting meeting;
    pthread_mutex_t lock; /* held while an arena is made or refused */
    symtuner_ar *handles[AR_MAX_RANKS];
    int n, left; /* number of handles; how many of them are not freed yet */
};

/* ---- what a call needs, and what there is ---------------------------------------------------- */

int ar_grow_arena_of(const symtuner_ar *h, const struct ar_ask *ask, const struct ar_choice *choice)
{
    const uint64_t *halves[AR_ARENAS];

    for (int a = 0; a < AR_ARENAS; a++)
        halves[a] = h->arena[a].layout.half;
    return ar_scratch_of(ask, choice, halves);
}

void ar_grow_halves(const symtuner_ar *h, struct ar_ask *ask)
{
    memset(ask->half, 0, sizeof ask->half);
    for (int a = 0; a < AR_ARENAS; a++)
        for (int r = 0; r < AR_REGIONS && (ask->without >> a & 1) == 0; r++)
            if (h->arena[a].layout.half[r] > ask->half[r])
                ask->half[r] = h->arena[a].layout.half[r];
}

enum ar_phase ar_grow_phase(const symtuner_ar *h, int arena)
{
    return arena == AR_ARENA_SMALL || h->meeting == NULL ? AR_HERE
                                                         : ar_meeting_phase(h->meeting, arena);
}

void ar_grow_ask(const symtuner_ar *h, struct ar_ask *ask)
{
    ask->ranks = h->ranks;
    ask->links = h->links;
    ask->has_nccl = h->comm != NULL;
    ask->has_copy = h->on_device == 1 && h->links != AR_LINKS_HOST;
    ask->has_multicast = h->multicast;
    ask->has_tma = h->tma;
    ask->has_ipc = h->ipc != NULL;
    ask->max_ctas = ar_most_ctas(h);
    ask->beside = h->beside;
    ask->probe = h->probe;
    ask->without = 0;
    for (int a = 0; a < AR_ARENAS; a++)
        ask->without |= ar_grow_phase(h, a) > AR_HERE ? 1u << a : 0;
    ar_grow_halves(h, ask);
}

/* ---- ranks of a communicator ----------------------------------------------------------------- */

/* Warn that long messages run in short pieces from now on, and say why. Only the rank that ended
 * the attempt to make the arena calls this function, so that the group warns only once. */
static void say_refused(const symtuner_ar *h, const char *why)
{
    char text[AR_WHY + 120];

    snprintf(text, sizeof text, "rank %d: %s; long messages are cut into short pieces instead",
             h->me, why);
    ar_rules_warn(text);
}

/* Make ${arena} together with the other ranks. If the mapping fails, the memory is not freed before
 * the handle: the caller may be between ncclGroupStart and ncclGroupEnd. Then NCCL has only noted
 * the mapping, and will map the memory at the end of the group. */
static void make_in_comm(symtuner_ar *h, int arena)
{
    const struct ar_spin_limit limit = {h->timeout_ns, &h->mailbox->abort};
    char why[AR_WHY] = "the other ranks did not follow in time";
    ncclResult_t result = ar_comm_arena_make(h, arena, arena + 1, why);
    bool broke;
    enum ar_phase phase =
        ar_meeting_step(h->meeting, arena, h->ranks, AR_MET, result == ncclSuccess, &limit, &broke);

    if (phase == AR_REFUSED) {
        ar_arena_free(h, arena);
    } else {
        result = ar_comm_arena_link(&h, 1, arena, arena + 1, why);
        phase = ar_meeting_step(h->meeting, arena, h->ranks, AR_MADE, result == ncclSuccess, &limit,
                                &broke);
    }
    if (broke)
        say_refused(h, why);
}

static void grow_comm(symtuner_ar *h, int arena, uint64_t limit_ns)
{
    const struct ar_spin_limit limit = {limit_ns, &h->mailbox->abort};
    enum ar_phase phase = ar_meeting_come(h->meeting, arena, h->ranks, h->tries[arena], &limit);

    h->tries[arena]++;
    if (phase == AR_MET)
        make_in_comm(h, arena);
}

static ncclResult_t open_meeting(symtuner_ar *h, const char *name, bool create, char *why)
{
    h->meeting = ar_meeting_share(name, create);
    return h->meeting != NULL ? ncclSuccess
                              : ar_why(why, AR_WHY, ncclSystemError, "shared memory %s", name);
}

ncclResult_t ar_grow_in_comm(struct ar_members *m)
{
    ncclResult_t result = ar_members_open(m, "-grow", open_meeting);

    if (result != ncclSuccess)
        ar_grow_end(m->handles[0]);
    return result;
}

/* ---- a local group --------------------------------------------------------------------------- */

/* Check that all GPUs have enough free memory before anything is allocated. If an allocation failed
 * after others, these would have to be freed, and cudaFree waits for running kernels. These kernels
 * may wait for kernels that other threads have yet to launch. But while cudaFree holds CUDA's lock,
 * no thread can launch kernels, so cudaFree would never return. */
static ncclResult_t check_room(const struct ar_local *l, int arena, char *why)
{
    for (int i = 0; i < l->n; i++) {
        const symtuner_ar *h = l->handles[i];
        uint64_t bytes = ar_arena_bytes(h, arena, arena + 1) * (uint64_t)h->on_device;
        size_t room = 0, total;

        cudaSetDevice(h->device);
        if (cudaMemGetInfo(&room, &total) == cudaSuccess && room >= bytes)
            continue;
        cudaGetLastError();
        snprintf(why, AR_WHY, "%llu MiB of scratch, but GPU %d has %zu MiB free",
                 (unsigned long long)(bytes >> 20), h->device, room >> 20);
        return ncclSystemError;
    }
    return ncclSuccess;
}

static void grow_local(symtuner_ar *h, int arena)
{
    struct ar_local *l = h->local;
    char why[AR_WHY];

    pthread_mutex_lock(&l->lock);
    if (ar_grow_phase(h, arena) == AR_OPEN) {
        ncclResult_t result = check_room(l, arena, why);

        if (result == ncclSuccess)
            result = ar_local_arena_make(l->handles, l->n, arena, arena + 1, why);
        cudaSetDevice(h->device);
        ar_meeting_set(&l->meeting, arena, result == ncclSuccess ? AR_HERE : AR_REFUSED);
        if (result != ncclSuccess)
            say_refused(h, why);
    }
    pthread_mutex_unlock(&l->lock);
}

bool ar_grow_local(symtuner_ar *const *handles, int n)
{
    struct ar_local *l = calloc(1, sizeof *l);

    if (l == NULL)
        return false;
    pthread_mutex_init(&l->lock, NULL);
    memcpy(l->handles, handles, (size_t)n * sizeof *handles);
    l->n = l->left = n;
    for (int i = 0; i < n; i++) {
        handles[i]->local = l;
        handles[i]->meeting = &l->meeting;
    }
    return true;
}

void ar_grow_end(symtuner_ar *h)
{
    if (h->local == NULL) {
        if (h->meeting != NULL)
            ar_meeting_unshare(h->meeting);
    } else if (--h->local->left == 0) {
        pthread_mutex_destroy(&h->local->lock);
        free(h->local);
    }
    h->local = NULL;
    h->meeting = NULL;
}

/* ---- a call ---------------------------------------------------------------------------------- */

void ar_grow_now(symtuner_ar *h, int arena, uint64_t limit_ns)
{
    enum cudaStreamCaptureMode mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);

    if (h->local != NULL)
        grow_local(h, arena);
    else
        grow_comm(h, arena, limit_ns);
    ar_capture_mode(mode);
}

/* A graph captures a call that needs the arena. Make sure that no rank ever makes the arena. */
static void refuse(symtuner_ar *h, int arena)
{
    char why[AR_WHY];
    bool refused;

    if (h->local != NULL)
        pthread_mutex_lock(&h->local->lock); /* wait for a thread that is making the arena */
    refused = ar_meeting_refuse(h->meeting, arena);
    if (h->local != NULL)
        pthread_mutex_unlock(&h->local->lock);
    if (!refused)
        return;
    snprintf(why, sizeof why,
             "a graph captured a call for which %llu MiB of scratch were not there yet "
             "(symtuner_ar_reserve before the capture makes them)",
             (unsigned long long)(h->arena[arena].layout.bytes >> 20));
    say_refused(h, why);
}

bool ar_grow_use(symtuner_ar *h, int arena, bool captured, bool forced)
{
    uint32_t number;

    if (ar_grow_phase(h, arena) != AR_OPEN)
        return ar_grow_phase(h, arena) == AR_HERE;
    number = ++h->wanted[arena];
    if (captured)
        refuse(h, arena);
    else if (forced || h->local != NULL || (number & (number - 1)) == 0)
        ar_grow_now(h, arena, forced ? h->timeout_ns : AR_GROW_WAIT_MS * 1000000ull);
    return ar_grow_phase(h, arena) == AR_HERE;
}
