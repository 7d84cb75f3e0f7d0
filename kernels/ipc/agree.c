/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - with SYMTUNER_AR_IPC=auto, decides which calls kernel tma_ipc runs. The decision about
 * a call is the same on all ranks. */
#include "kernels/ipc/agree.h"

#include "kernels/group/nccl_wait.h"

enum { MOST_WANTED = 1000 };

void ar_ipc_tell_mapped(struct ar_ipc_talk *talk, int me, int r, int number)
{
    __atomic_fetch_or(&talk->rank[me].mapped[r][(number - 1) / 64], 1ull << (number - 1) % 64,
                      __ATOMIC_RELEASE);
}

static bool has_mapped(const struct ar_ipc_talk *talk, int who, int r, uint64_t place)
{
    const int i = ar_ipc_number(place) - 1;

    return i >= 0 &&
           (__atomic_load_n(&talk->rank[who].mapped[r][i / 64], __ATOMIC_ACQUIRE) >> i % 64 & 1);
}

/* Return whether rank ${who} has mapped the buffers that rank ${r} passed in the call ${of}. Only
 * the buffers that the peers need in this call count. */
static bool reaches(const struct ar_ipc_talk *talk, int who, int r, const struct ar_ipc_call *of)
{
    return (!of->needs_send || has_mapped(talk, who, r, of->send)) &&
           (!of->needs_recv || has_mapped(talk, who, r, of->recv));
}

enum recalled { NOT_YET, FORGOTTEN, RECALLED };

/* Look up call ${number} of rank ${r}. RECALLED: found->send and found->recv say where its buffers
 * lie. NOT_YET: the rank has not made the call. FORGOTTEN: a later call has taken its entry. */
static enum recalled recall(const struct ar_ipc_talk *talk, int r, uint64_t number,
                            struct ar_ipc_call *found)
{
    const __typeof__(talk->rank->recent[0]) *at = &talk->rank[r].recent[number % AR_IPC_RECENT];
    const uint64_t call = __atomic_load_n(&at->call, __ATOMIC_ACQUIRE);

    if (call != number)
        return call < number ? NOT_YET : FORGOTTEN;
    found->send = __atomic_load_n(&at->send, __ATOMIC_RELAXED);
    found->recv = __atomic_load_n(&at->recv, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&at->call, __ATOMIC_RELAXED) == number ? RECALLED : FORGOTTEN;
}

/* Let the peers know where the buffers of this rank's call ${number} lie. */
static void show(struct ar_ipc_talk *talk, int me, uint64_t number, const struct ar_ipc_call *call)
{
    __typeof__(talk->rank->recent[0]) *at = &talk->rank[me].recent[number % AR_IPC_RECENT];

    __atomic_store_n(&at->call, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&at->send, call->send, __ATOMIC_RELAXED);
    __atomic_store_n(&at->recv, call->recv, __ATOMIC_RELAXED);
    __atomic_store_n(&at->call, number, __ATOMIC_RELEASE);
}

static bool is_same(const struct ar_ipc_call *a, const struct ar_ipc_call *b)
{
    return a->send == b->send && a->recv == b->recv && a->bytes == b->bytes &&
           a->needs_send == b->needs_send && a->needs_recv == b->needs_recv;
}

static uint64_t mix(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more ^ more >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* Return the entry for calls with the same buffers and length as ${call}. If there is none, make
 * one in place of the set's entry with the oldest call. */
static struct ar_ipc_kind *kind_of(struct ar_ipc_past *past, const struct ar_ipc_call *call)
{
    const uint64_t hash = mix(mix(mix(0, call->send), call->recv), call->bytes);
    struct ar_ipc_kind *set = past->kind[hash % AR_IPC_SETS], *oldest = set;

    for (int i = 0; i < AR_IPC_WAYS; i++) {
        if (set[i].call != 0 && is_same(&set[i].what, call))
            return &set[i];
        if (set[i].call < oldest->call)
            oldest = &set[i];
    }
    *oldest = (struct ar_ipc_kind){.what = *call};
    return oldest;
}

/* Return whether, in one call, every rank has mapped the buffers of all others. ${mine} has this
 * rank's buffers, and of[r] has those of rank r. */
static bool all_reach(const struct ar_ipc_talk *talk, int me, int ranks,
                      const struct ar_ipc_call *of, const struct ar_ipc_call *mine)
{
    for (int r = 0; r < ranks; r++)
        for (int who = 0; who < ranks; who++)
            if (who != r && !reaches(talk, who, r, r == me ? mine : &of[r]))
                return false;
    return true;
}

/* kind->call is the number of an earlier call of this kind. If all ranks have made that call, check
 * whether all of them have mapped its buffers, and set kind->good by the result. Then set
 * kind->call to ${number}, so that the next check is about that call. */
static void judge(const struct ar_ipc_talk *talk, int me, int ranks, struct ar_ipc_kind *kind,
                  uint64_t number)
{
    struct ar_ipc_call of[AR_IPC_RANKS];
    bool forgotten = kind->call == 0;

    for (int r = 0; r < ranks && !forgotten; r++) {
        enum recalled found = RECALLED;

        of[r] = kind->what;
        if (r != me)
            found = recall(talk, r, kind->call, &of[r]);
        if (found == NOT_YET)
            return;
        forgotten = found == FORGOTTEN;
    }
    if (!forgotten && all_reach(talk, me, ranks, of, &kind->what)) {
        kind->in_row++;
        if (kind->in_row >= 8 * (kind->wanted + 1)) /* after so many good checks, demand fewer */
            kind->wanted /= 2;
    } else {
        if (kind->good && !forgotten && kind->wanted < MOST_WANTED)
            kind->wanted = 2 * kind->wanted + 1;
        kind->in_row = 0;
    }
    kind->good = kind->in_row > kind->wanted;
    kind->call = number;
}

/* The decision about call ${number} overwrites an older decision. Wait until all ranks have read
 * the older one. Returns false after ${limit_ns}, or if *abort is not 0. */
static bool outwait(const struct ar_ipc_talk *talk, int ranks, uint64_t number, uint64_t limit_ns,
                    const uint32_t *abort)
{
    const uint64_t start = ar_now_ns();

    for (int r = 0; r < ranks && number > AR_IPC_DECISIONS; r++)
        while (__atomic_load_n(&talk->rank[r].decided, __ATOMIC_ACQUIRE) <
               number - AR_IPC_DECISIONS) {
            const uint64_t waited = ar_now_ns() - start;

            if (waited >= limit_ns || __atomic_load_n(abort, __ATOMIC_RELAXED))
                return false;
            ar_pause(waited);
        }
    return true;
}

int ar_ipc_decide(struct ar_ipc_talk *talk, struct ar_ipc_past *past, int me, int ranks,
                  const struct ar_ipc_call *call, uint64_t limit_ns, const uint32_t *abort)
{
    const uint64_t number = ++past->calls;
    struct ar_ipc_kind *kind = kind_of(past, call);
    uint32_t *const decision = &talk->decision[number % AR_IPC_DECISIONS],
                    no = 2 * (uint32_t)number;
    uint32_t seen, mine;

    show(talk, me, number, call);
    judge(talk, me, ranks, kind, number);
    if (!outwait(talk, ranks, number, limit_ns, abort))
        return -1;
    seen = __atomic_load_n(decision, __ATOMIC_ACQUIRE);
    if (seen >> 1 != no >> 1) {
        mine = no + kind->good;
        if (__atomic_compare_exchange_n(decision, &seen, mine, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            seen = mine;
    }
    __atomic_store_n(&talk->rank[me].decided, number, __ATOMIC_RELEASE);
    return seen & 1;
}
