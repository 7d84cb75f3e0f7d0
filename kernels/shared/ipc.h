/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.h - how ranks tell each other where their unregistered buffers lie.
 *
 * Each rank numbers the allocations that hold its buffers, from 1 on, and its peers map them
 * (kernels/ipc/ipc.h). A place names a byte of one rank's memory: it has the number of the
 * allocation, and the distance from the start of that allocation. Peers can use a place, but
 * not an address, because each rank maps the allocation at another address. In each call the ranks
 * first exchange the places of their buffers. Then each rank tells the others whether it has mapped
 * all of their buffers.
 */
#ifndef AR_IPC_SHARED_H_
#define AR_IPC_SHARED_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/layout.h"

enum {
    AR_IPC_RANKS = 8,         /* largest number of ranks of a group that exchanges places */
    AR_IPC_ALLOCATIONS = 255, /* largest number of allocations that a rank numbers */
};

/* Where a rank has mapped the allocations of its peers. This struct lies in the rank's GPU memory.
 */
struct ar_ipc_map {
    uint32_t calls[2]; /* number of calls: [0] through scratch, [1] without scratch */
    char *base[AR_IPC_RANKS][AR_IPC_ALLOCATIONS]; /* [r][n - 1]: address of allocation n of
                                                     rank r; NULL if it is not mapped. The host
                                                     sets each address once */
};

/* Return the place of byte ${at} of allocation ${number}. It is never 0. */
AR_HD uint64_t ar_ipc_place(int number, uint64_t at)
{
    return (uint64_t)number << 56 | at;
}

AR_HD int ar_ipc_number(uint64_t place)
{
    return (int)(place >> 56);
}

AR_HD uint64_t ar_ipc_at(uint64_t place)
{
    return place & (((uint64_t)1 << 56) - 1);
}

/* What a block tells the block of the same number on every peer. The block has a row of flags of
 * kind AR_FLAG_IPC (layout.h) for each of these values. */
enum ar_ipc_row {
    AR_IPC_SEND,    /* the place of send; 0: peers cannot or need not map it */
    AR_IPC_RECV,    /* the place of recv; 0: peers cannot or need not map it */
    AR_IPC_REACHES, /* ar_flag_step(epoch, 3) if this rank has mapped all peers' buffers, else
                       ar_flag_step(epoch, 2) */
    AR_IPC_ROWS
};

/* The largest number of blocks of a call of tma_ipc. With more blocks, a slot in the 4 MiB of
 * AR_REGION_IPC would be too short for a tile of an all-gather over 8 ranks. */
#define AR_IPC_CTAS 32

/* Return how many slots of scratch each block has per rank: one for what the rank sends, and in an
 * all-reduce one more for sums. */
AR_HD int ar_ipc_slots(int coll)
{
    return coll == AR_ALL_REDUCE ? 2 : 1;
}

/* Return how many tiles of ${tile} bytes fit into a slot if AR_REGION_IPC has ${bytes}. */
AR_HD uint64_t ar_ipc_tiles(uint64_t bytes, int ctas, int ranks, int coll, uint32_t tile)
{
    return bytes / (uint64_t)(ctas * ranks * ar_ipc_slots(coll)) / tile;
}

#endif
