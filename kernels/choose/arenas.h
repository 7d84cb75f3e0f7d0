/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arenas.h - how a rank's scratch is divided into arenas, and which arena a call needs.
 *
 * An arena is a part of the scratch that is allocated separately. Arena SMALL is allocated with the
 * handle. The other arenas are usually allocated when a call first needs them
 * (kernels/scratch/grow.h). The functions below are pure, and all ranks pass the same arguments. So
 * if a call needs an arena on one rank, it needs that arena on all ranks.
 */
#ifndef AR_ARENAS_H_
#define AR_ARENAS_H_

#include "kernels/choose/select.h"

/*
 * The arenas and their sizes on each rank, if the scratch is in GPU memory:
 *
 * SMALL  14.4 MiB, for short messages: over NVLink one launch can move 1 MiB of any type. With
 *        SYMTUNER_AR_IPC=1 or auto the arena has 4 MiB more, for kernel tma_ipc
 * WORDS  96.4 MiB, for longer messages of kernels that send words (kernels/shared/layout.h)
 * BULK   5/4 of config.bulk_bytes, for kernels that send plain data
 */
enum ar_arena_kind { AR_ARENA_SMALL, AR_ARENA_WORDS, AR_ARENA_BULK, AR_ARENAS };

/* Return the bytes of one half of ${region} in ${arena}. A region is a part of an arena; some
 * regions have two halves, which calls use in turn (kernels/shared/layout.h). ${bulk} is
 * config.bulk_bytes. If ${host}, the scratch is host memory, and all of it is in AR_ARENA_SMALL. */
uint64_t ar_scratch_half(int arena, int region, int ranks, uint64_t bulk, bool host);

/* Return the arena that ${choice} needs: the first one in which a piece of the message fits.
 * halves[a][r] is the bytes of one half of region r in arena a. */
int ar_scratch_of(const struct ar_ask *ask, const struct ar_choice *choice,
                  const uint64_t *const halves[AR_ARENAS]);

#endif
