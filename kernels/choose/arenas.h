/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arenas.h - how a rank's scratch is divided into arenas, and which of them a call needs.
 *
 * The functions are pure, and depend only on what all ranks share, so all ranks make an arena in
 * the same call.
 */
#ifndef AR_ARENAS_H_
#define AR_ARENAS_H_

#include "kernels/choose/select.h"

/*
 * SMALL  short messages; over NVLink 1 MiB of any type fits in one piece: 14.25 MiB. tma_ipc has
 *        4 MiB more there, if SYMTUNER_AR_IPC=1 is set
 * WORDS  longer messages of kernels that send words: 96.25 MiB
 * BULK   the kernels that send plain data: 5/4 of config.bulk_bytes
 */
enum ar_arena_kind { AR_ARENA_SMALL, AR_ARENA_WORDS, AR_ARENA_BULK, AR_ARENAS };

/* Return the bytes of one half of ${region} in ${arena}. ${bulk}: config.bulk_bytes; ${host}: the
 * scratch is host memory, all of it in AR_ARENA_SMALL. */
uint64_t ar_scratch_half(int arena, int region, int ranks, uint64_t bulk, bool host);

/* Return the arena that one launch of ${choice} needs: the first in which its pieces fit.
 * halves[a][r]: bytes of one half of region r in arena a. */
int ar_scratch_of(const struct ar_ask *ask, const struct ar_choice *choice,
                  const uint64_t *const halves[AR_ARENAS]);

#endif
