/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.c - memory in which the ranks of a group agree, during calls, to make an arena, which is
 * a part of the scratch. */
#include "kernels/scratch/meeting.h"

#include <sys/mman.h>

#include "base/board.h"
#include "kernels/group/nccl_wait.h"

static uint64_t word_of(uint64_t number, enum ar_phase phase)
{
    return number << 32 | (uint64_t)phase << 16;
}

static enum ar_phase phase_of(uint64_t word)
{
    return (enum ar_phase)(word >> 16 & 0xffff);
}

static uint64_t load(const struct ar_meeting *m, int arena)
{
    return __atomic_load_n(&m->word[arena], __ATOMIC_ACQUIRE);
}

/* Replace the word by ${next} if it is still *seen; else set *seen to what the word is now. Returns
 * whether the word was replaced. */
static bool swap(struct ar_meeting *m, int arena, uint64_t *seen, uint64_t next)
{
    return __atomic_compare_exchange_n(&m->word[arena], seen, next, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* Add this rank to the count in the arena's word if the word still has the number of tries and the
 * phase of ${now}. The last rank to come sets the word to ${next} instead. Returns whether this
 * rank was counted. */
static bool join(struct ar_meeting *m, int arena, int ranks, uint64_t now, uint64_t next)
{
    uint64_t seen = load(m, arena);

    while (seen >> 16 == now >> 16)
        if (swap(m, arena, &seen, (seen & 0xffff) + 1 == (uint64_t)ranks ? next : seen + 1))
            return true;
    return false;
}

/* Wait until the number of tries or the phase in the word differs from that in ${now}. If the
 * ${limit} is reached before that, set the word to ${next}. Returns whether this rank has set it.
 */
static bool outwait(struct ar_meeting *m, int arena, uint64_t now, uint64_t next,
                    const struct ar_spin_limit *limit)
{
    uint64_t start = ar_now_ns(), seen;

    while ((seen = load(m, arena)) >> 16 == now >> 16) {
        uint64_t waited = ar_now_ns() - start;

        if (waited >= limit->limit_ns || __atomic_load_n(limit->abort, __ATOMIC_RELAXED)) {
            if (swap(m, arena, &seen, next))
                return true;
        } else {
            ar_pause(waited);
        }
    }
    return false;
}

enum ar_phase ar_meeting_come(struct ar_meeting *m, int arena, int ranks, uint32_t number,
                              const struct ar_spin_limit *limit)
{
    const uint64_t now = word_of(number, AR_OPEN);
    uint64_t seen;

    if (join(m, arena, ranks, now, word_of(number, AR_MET)))
        outwait(m, arena, now, word_of(number + 1ull, AR_OPEN), limit);
    seen = load(m, arena);
    return seen >> 32 == number ? phase_of(seen) : AR_OPEN;
}

enum ar_phase ar_meeting_step(struct ar_meeting *m, int arena, int ranks, enum ar_phase phase,
                              bool well, const struct ar_spin_limit *limit, bool *broke)
{
    const uint64_t now = word_of(load(m, arena) >> 32, phase);
    const uint64_t next = word_of(now >> 32, phase + 1);
    const uint64_t end = word_of(now >> 32, phase == AR_MADE ? AR_UNMAPPED : AR_REFUSED);
    uint64_t seen = now;

    *broke = false;
    if (well && join(m, arena, ranks, now, next))
        *broke = outwait(m, arena, now, end, limit);
    while (!well && !*broke && (seen = load(m, arena)) >> 16 == now >> 16)
        *broke = swap(m, arena, &seen, end);
    return ar_meeting_phase(m, arena);
}

bool ar_meeting_refuse(struct ar_meeting *m, int arena)
{
    uint64_t seen = load(m, arena);

    while (phase_of(seen) == AR_OPEN)
        if (swap(m, arena, &seen, word_of(seen >> 32, AR_REFUSED)))
            return true;
    return false;
}

void ar_meeting_set(struct ar_meeting *m, int arena, enum ar_phase phase)
{
    __atomic_store_n(&m->word[arena], word_of(0, phase), __ATOMIC_RELEASE);
}

struct ar_meeting *ar_meeting_share(const char *name, bool create)
{
    void *m; /* new memory is all zeros, which means AR_OPEN and no tries */

    return st_board_map(name, sizeof(struct ar_meeting), create, &m) == 0 ? m : NULL;
}

void ar_meeting_unshare(struct ar_meeting *m)
{
    munmap(m, sizeof *m);
}
