/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meeting.h - memory in which the ranks of a group agree, during calls, to make an arena, which is
 * a part of the scratch (kernels/choose/arenas.h).
 *
 * These functions use neither NCCL nor CUDA, because a rank may be between ncclGroupStart and
 * ncclGroupEnd, or in a stream capture, and because a rank must be able to stop waiting. Each arena
 * has one 64-bit word, which changes atomically:
 *
 *   OPEN ---all ranks came---> MET ---all have memory---> MADE ---all have mapped it---> HERE
 *    |  \                       |                           |
 *    |   a rank waited too      a rank failed               a rank failed
 *    |   long: the next try     v                           v
 *    +---a call was captured--> REFUSED                     UNMAPPED
 *
 * If one rank waits too long and ends a try, the try ends for all ranks: a rank that comes later
 * sees a higher number of tries in the word. So either all ranks get the arena in a call, or none
 * does. After REFUSED and after UNMAPPED no rank ever gets the arena. In phase REFUSED the ranks
 * free their memory at once. In phase UNMAPPED they free it only with the handle (make_in_comm in
 * grow.c says why). From MADE on, every rank must take part in the collective mapping even if
 * another rank has failed.
 */
#ifndef AR_MEETING_H_
#define AR_MEETING_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/choose/arenas.h"

enum ar_phase { AR_OPEN, AR_MET, AR_MADE, AR_HERE, AR_REFUSED, AR_UNMAPPED };

struct ar_meeting {
    uint64_t word[AR_ARENAS]; /* from the upper bits on: number of tries (32 bits), enum ar_phase
                                 (16), number of ranks that came in this phase (16) */
};

/* How long a rank waits for the others. The wait also ends when *abort is not 0. */
struct ar_spin_limit {
    uint64_t limit_ns;
    const uint32_t *abort;
};

static inline enum ar_phase ar_meeting_phase(const struct ar_meeting *m, int arena)
{
    return (enum ar_phase)(__atomic_load_n(&m->word[arena], __ATOMIC_ACQUIRE) >> 16 & 0xffff);
}

/* Tell the other ranks that this rank wants to make the arena now, and wait until all ${ranks}
 * ranks want it. ${number} is the number of this try, counted from 0; it is the same on all ranks.
 * Returns AR_OPEN if a rank waited too long, which ends the try. Otherwise returns the phase that
 * the arena has now. */
enum ar_phase ar_meeting_come(struct ar_meeting *m, int arena, int ranks, uint32_t number,
                              const struct ar_spin_limit *limit);

/* In phase AR_MET each rank allocates memory, in phase AR_MADE each rank maps it. Report whether
 * this went ${well} on this rank in ${phase}. Then wait until all ranks have reported success, or
 * one has failed or waited too long. Returns the phase that follows. *broke says whether it was
 * this rank that failed or waited too long, and so ended the attempt. */
enum ar_phase ar_meeting_step(struct ar_meeting *m, int arena, int ranks, enum ar_phase phase,
                              bool well, const struct ar_spin_limit *limit, bool *broke);

/* If the phase of the arena is AR_OPEN, set it to AR_REFUSED, so that no rank ever makes the arena.
 * Returns whether this call has done so. */
bool ar_meeting_refuse(struct ar_meeting *m, int arena);

/* Set the phase of an arena in a local group; the caller holds the group's lock. */
void ar_meeting_set(struct ar_meeting *m, int arena, enum ar_phase phase);

/* Map the shared memory object ${name}, in which the ranks of several processes meet. Rank 0
 * creates the object first. Returns NULL if that fails. */
struct ar_meeting *ar_meeting_share(const char *name, bool create);
void ar_meeting_unshare(struct ar_meeting *m);

#endif
