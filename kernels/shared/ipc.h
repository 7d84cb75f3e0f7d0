/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.h - how ranks tell each other where buffers lie that nobody registered.
 *
 * Each rank numbers the allocations that hold its buffers, from 1 on, and its peers map them
 * (kernels/ipc/ipc.h). A place names a byte of a rank's memory by the number of the allocation and
 * the distance from its start, so it means the same on all ranks. In each call the ranks first
 * exchange the places of their buffers, and then whether they have mapped those of all others.
 */
#ifndef AR_IPC_SHARED_H_
#define AR_IPC_SHARED_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/layout.h"

enum {
    AR_IPC_RANKS = 8,         /* the most */
    AR_IPC_ALLOCATIONS = 255, /* that a rank numbers, at most */
};

/* What a rank has mapped, in its GPU's memory. */
struct ar_ipc_map {
    uint32_t calls[2];                            /* that went through scratch, and that did not */
    char *base[AR_IPC_RANKS][AR_IPC_ALLOCATIONS]; /* [r][number - 1]; NULL: not mapped. The host
                                                     sets each once */
};

/* Return the place ${at} bytes into allocation ${number}; 0 is no place. */
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

/* What a block tells the same block of every peer: rows of AR_FLAG_IPC. */
enum ar_ipc_row {
    AR_IPC_SEND,
    AR_IPC_RECV,
    AR_IPC_REACHES, /* a flag: step 2 of the call: not all of the others; step 3: all */
    AR_IPC_ROWS
};

/* The most blocks of a call: so many have rows, and slots in AR_REGION_IPC. */
#define AR_IPC_CTAS 32

/* Slots of scratch that each block has per rank: for what the ranks send, and for sums. */
AR_HD int ar_ipc_slots(int coll)
{
    return coll == AR_ALL_REDUCE ? 2 : 1;
}

/* Return how many tiles of ${tile} bytes a slot has, in a region of ${bytes}. */
AR_HD uint64_t ar_ipc_tiles(uint64_t bytes, int ctas, int ranks, int coll, uint32_t tile)
{
    return bytes / (uint64_t)(ctas * ranks * ar_ipc_slots(coll)) / tile;
}

#endif
