/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.h - shared memory of the kernels that move data by TMA (kernels/device/tma).
 *
 * A block of these kernels has rings of stages in shared memory. Bulk copies fill and empty the
 * stages, so a few blocks keep many bytes in flight. A tile is the part of a stage that holds data
 * of one rank. Host and kernels must agree on the sizes, because the host asks for the memory at
 * launch.
 */
#ifndef AR_TMA_H_
#define AR_TMA_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/layout.h"

#ifdef ST_EMULATE         /* CPU tests: small stages, which short messages fill several times */
#define AR_TMA_TILES  256 /* bytes of a stage, which holds a tile of each rank */
#define AR_TMA_STAGES 6
#else
#define AR_TMA_TILES  16384
#define AR_TMA_STAGES 12
#endif

/* Kernel tma_staged has three rings. One has half of the memory, for tiles that are added up. The
 * other two have a quarter each: one for chunks that this rank sends to its peers, and one for
 * chunks that it copies from scratch to recv. A stage of these two rings holds one chunk. */
#define AR_TMA_SUMS  (AR_TMA_STAGES / 2)
#define AR_TMA_MOVES (AR_TMA_STAGES / 2)
#define AR_TMA_CHUNK (AR_TMA_TILES / 2) /* bytes of a chunk, which is a whole number of tiles */

#define AR_TMA_MOVERS        2 /* warps that move data in the kernels tma and tma_ipc */
#define AR_TMA_STAGED_MOVERS 4 /* warps that move data in the kernel tma_staged */

/* In the kernels tma and tma_ipc, the warps that add form this number of teams, and each team adds
 * up every AR_TMA_TEAMS-th stage. AR_TMA_STAGES must be a multiple of it. */
#define AR_TMA_TEAMS 2

#define AR_TMA_THREADS 384 /* threads of a block; with more, a kernel would lack registers */

/* Bytes of shared memory after the stages: the barriers, 8 bytes each, and at the end the word by
 * which the warps of a block tell each other to stop. */
#define AR_TMA_BARRIERS 512

/* Return the binary logarithm of the number of tiles in a chunk. */
AR_HD uint32_t ar_tma_parts(int ranks)
{
    return ranks <= 2 ? 0 : ranks <= 4 ? 1 : ranks <= 8 ? 2 : 3;
}

/* Return the bytes of one tile. */
AR_HD uint32_t ar_tma_tile(int ranks)
{
    return AR_TMA_CHUNK >> ar_tma_parts(ranks);
}

/* Return the bytes of a tile of the kernels tma and tma_ipc. In an all-gather a stage holds data of
 * one rank only, so the tile fills the stage. */
AR_HD uint32_t ar_tma_tile_of(int coll, int ranks)
{
    return coll == AR_ALL_GATHER ? AR_TMA_TILES : ar_tma_tile(ranks);
}

/* Return how many tiles block ${cta} moves if all ${ctas} blocks together move ${bytes} bytes. The
 * block moves tile ${cta}, and then every ${ctas}-th tile. */
AR_HD uint64_t ar_tma_count(uint64_t bytes, uint32_t tile, int cta, int ctas)
{
    uint64_t tiles = ar_div_up(bytes, tile);

    return tiles <= (uint64_t)cta ? 0 : (tiles - (uint64_t)cta - 1) / (uint64_t)ctas + 1;
}

/* Bytes of shared memory that a block needs. A block of tma_ipc also has the call's arguments in
 * shared memory, in AR_TMA_IPC_MORE bytes. */
#define AR_TMA_SHARED     (AR_TMA_STAGES * AR_TMA_TILES + AR_TMA_BARRIERS)
#define AR_TMA_IPC_MORE   1024
#define AR_TMA_IPC_SHARED (AR_TMA_SHARED + AR_TMA_IPC_MORE)

#endif
