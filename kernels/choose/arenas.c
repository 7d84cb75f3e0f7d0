/* SPDX-License-Identifier: Apache-2.0 */
/* arenas.c - divides a rank's scratch into arenas, and says which arena a call needs. */
#include "kernels/choose/arenas.h"

#include <string.h>

#define KiB (1ull << 10)
#define MiB (1ull << 20)

uint64_t ar_scratch_half(int arena, int region, int ranks, uint64_t bulk, bool host)
{
    /* The sizes follow from the longest message that one launch must be able to move. In arena
     * SMALL, kernel one_lamport must move 2 MiB on two ranks, and kernel two_ll128 must move 1.17
     * MiB on any number of ranks. In arena WORDS, kernel two_lamport must move 12 MiB: for a longer
     * all-reduce, rows.c names no kernel that sends words. (Scratch in host memory has no arena
     * WORDS.) */
    static const uint64_t of[AR_ARENAS][AR_REGIONS] = {
        [AR_ARENA_SMALL] = {[AR_REGION_LL8] = 512 * KiB,
                            [AR_REGION_LL128] = 2560 * KiB,
                            [AR_REGION_LAMPORT] = 4 * MiB,
                            [AR_REGION_IPC] = 4 * MiB},
        [AR_ARENA_WORDS] = {[AR_REGION_LL128] = 16 * MiB, [AR_REGION_LAMPORT] = 32 * MiB},
    };

    /* In host memory the regions are so small that the scratch of ten ranks fits into 64 MiB, which
     * is the usual size of /dev/shm in a container. */
    if (host)
        return arena != AR_ARENA_SMALL       ? 0
               : region == AR_REGION_LL8     ? MiB
               : region != AR_REGION_LAMPORT ? 0
               : ranks < 8                   ? 16 / (uint64_t)ranks * MiB
                                             : 2 * MiB;
    if (arena == AR_ARENA_BULK)
        return region == AR_REGION_BULK ? bulk : region == AR_REGION_GATHER ? bulk / 4 : 0;
    return of[arena][region];
}

int ar_scratch_of(const struct ar_ask *ask, const struct ar_choice *choice,
                  const uint64_t *const halves[AR_ARENAS])
{
    struct ar_ask in = *ask;

    for (int a = 0; a < AR_ARENAS; a++) {
        memcpy(in.half, halves[a], sizeof in.half);
        if (ar_capacity(&in, choice->family) >= choice->piece)
            return a;
    }
    return AR_ARENA_SMALL; /* not reached: ar_select cuts messages into pieces that fit */
}
