/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.h - shared memory of the kernels that move data by TMA (tma.cu, tma_staged.cu).
 *
 * Such a block has rings of stages in shared memory. Bulk copies fill and empty the stages, so few
 * blocks keep many bytes in flight. A tile is what one stage holds of one rank. Host and kernels
 * must agree on the sizes, because the host asks for the memory at launch.
 */
#ifndef AR_TMA_H_
#define AR_TMA_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/layout.h"

#ifdef ST_EMULATE         /* short messages must go around the rings several times */
#define AR_TMA_TILES  256 /* bytes of a stage: a tile of each rank */
#define AR_TMA_STAGES 6
#else
#define AR_TMA_TILES  16384
#define AR_TMA_STAGES 12
#endif

/* tma_staged has three rings: half of the memory is for tiles that are added up, and a quarter each
 * for chunks on their way to the owners and for chunks that come from scratch. */
#define AR_TMA_SUMS  (AR_TMA_STAGES / 2)
#define AR_TMA_MOVES (AR_TMA_STAGES / 2)
#define AR_TMA_CHUNK (AR_TMA_TILES / 2) /* bytes; a whole number of tiles */

#define AR_TMA_MOVERS        2 /* warps of tma that move data */
#define AR_TMA_STAGED_MOVERS 4
#define AR_TMA_TEAMS         2 /* of the warps that add, in tma; divides AR_TMA_STAGES */

#define AR_TMA_THREADS 384 /* the most per block: with more, some kernel would lack registers */

/* Barriers in shared memory, 8 bytes each, behind the stages; and one word for "stop". */
#define AR_TMA_BARRIERS 512

/* A chunk has 1 << this many tiles. */
AR_HD uint32_t ar_tma_parts(int ranks)
{
    return ranks <= 2 ? 0 : ranks <= 4 ? 1 : ranks <= 8 ? 2 : 3;
}

/* Return the bytes of one tile. */
AR_HD uint32_t ar_tma_tile(int ranks)
{
    return AR_TMA_CHUNK >> ar_tma_parts(ranks);
}

/* Return the bytes of a tile of tma. An all-gather has tiles of one rank only. */
AR_HD uint32_t ar_tma_tile_of(int coll, int ranks)
{
    return coll == AR_ALL_GATHER ? AR_TMA_TILES : ar_tma_tile(ranks);
}

/* Return how many tiles of ${bytes} block ${cta} moves: tile ${cta}, then every ${ctas}-th. */
AR_HD uint64_t ar_tma_count(uint64_t bytes, uint32_t tile, int cta, int ctas)
{
    uint64_t tiles = ar_div_up(bytes, tile);

    return tiles <= (uint64_t)cta ? 0 : (tiles - (uint64_t)cta - 1) / (uint64_t)ctas + 1;
}

/* Bytes of shared memory that a block needs. tma_ipc keeps the call's arguments there, too. */
#define AR_TMA_SHARED     (AR_TMA_STAGES * AR_TMA_TILES + AR_TMA_BARRIERS)
#define AR_TMA_IPC_MORE   1024
#define AR_TMA_IPC_SHARED (AR_TMA_SHARED + AR_TMA_IPC_MORE)

#endif
