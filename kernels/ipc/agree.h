/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - with SYMTUNER_AR_IPC=auto, the ranks agree which calls kernel tma_ipc runs.
 *
 * Kernel tma_ipc reads and writes the buffers of the peers, which nobody has registered. It is fast
 * only if all ranks have mapped all buffers of the call. NCCL runs the other calls. A rank does not
 * know which buffers its peers will pass in a call, and must not wait to find out. So the first
 * rank that makes a call decides for all ranks. This rank looks up an earlier call that all ranks
 * have made, and in which it passed the same buffers as now. If by now all ranks have mapped all
 * buffers of the earlier call, the kernel runs the new call: the peers will probably pass the same
 * buffers again, as training programs do in each step. If a peer passes other buffers this time,
 * the kernel moves the data through scratch, which gives the right result but is slow. Once the
 * decisions take that call into account, NCCL runs the calls with these buffers again.
 *
 * The ranks number the calls that need a decision. All ranks make these calls in the same order, as
 * NCCL demands, too. A call that is captured into a graph gets one number, when it is captured. The
 * decisions, and the buffers of the latest calls, are in memory that the ranks share.
 *
 * Threads    one at a time for each rank.
 */
#ifndef AR_IPC_AGREE_H_
#define AR_IPC_AGREE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/shared/ipc.h"

enum {
    AR_IPC_RECENT = 1024, /* how many of the latest calls of each rank are remembered */
    /* How many decisions are kept. A rank that is this many calls ahead of another rank waits for
     * it, so that it does not overwrite a decision that the other rank has not read yet. */
    AR_IPC_DECISIONS = 16384,
    /* A rank remembers kinds of calls. Calls are of one kind if they have the same buffers and the
     * same length. There are AR_IPC_SETS sets of AR_IPC_WAYS kinds each, and a hash of the call
     * selects the set. */
    AR_IPC_SETS = 256,
    AR_IPC_WAYS = 4
};

/* What the ranks share. It is zeros at first. */
struct ar_ipc_talk {
    /* The decision about call k is at k % AR_IPC_DECISIONS. It is 2 * k + 1 if the kernel runs the
     * call, and 2 * k if not, both modulo 2^32. */
    uint32_t decision[AR_IPC_DECISIONS];
    struct ar_ipc_said {
        uint64_t decided; /* number of the latest call whose decision this rank has read */
        /* Bit i % 64 of mapped[r][i / 64]: this rank has mapped allocation i + 1 of rank r. */
        uint64_t mapped[AR_IPC_RANKS][(AR_IPC_ALLOCATIONS + 63) / 64];
        /* This rank's latest calls. Call k is in recent[k % AR_IPC_RECENT]. ${send} and ${recv} say
         * where the buffers lie: in which allocation, and how far from its start (ar_ipc_place,
         * kernels/shared/ipc.h). */
        struct {
            uint64_t call; /* number of the call; 0: the other members are not valid */
            uint64_t send, recv;
        } recent[AR_IPC_RECENT];
    } rank[];
};

/* A call of this rank. ${send} and ${recv} say where its buffers lie (ar_ipc_place); 0: peers
 * cannot map the buffer. ${needs_send} and ${needs_recv} say whether the peers need the buffer.
 * ${bytes} is the length of the longer buffer. */
struct ar_ipc_call {
    uint64_t send, recv;
    bool needs_send, needs_recv;
    uint64_t bytes;
};

/* What this rank remembers. It is zeros at first. */
struct ar_ipc_past {
    uint64_t calls; /* how many calls had a decision */
    struct ar_ipc_kind {
        struct ar_ipc_call what;
        /* Number of a call of this kind. Once all ranks have made this call, it is checked whether
         * they have mapped its buffers. 0: the entry is unused. */
        uint64_t call;
        /* ${in_row}: how many checks in a row found all buffers mapped. ${good}: kernel tma_ipc
         * runs calls of this kind, because ${in_row} is above ${wanted}. ${wanted} grows each time
         * a check finds a buffer that is not mapped although ${good} was true. So NCCL runs the
         * calls of a program that often passes new buffers. */
        bool good;
        int in_row, wanted;
    } kind[AR_IPC_SETS][AR_IPC_WAYS];
};

static inline size_t ar_ipc_talk_bytes(int ranks)
{
    return sizeof(struct ar_ipc_talk) + (size_t)ranks * sizeof(struct ar_ipc_said);
}

/* Tell the peers that rank ${me}, which is this rank, has mapped allocation ${number} (from 1) of
 * rank ${r}. */
void ar_ipc_tell_mapped(struct ar_ipc_talk *talk, int me, int r, int number);

/* Decide about the next call, ${call}. Returns 1 if kernel tma_ipc runs it, and 0 if not. All ranks
 * get the same result. If a peer is AR_IPC_DECISIONS calls behind, wait for it. Returns -1 if this
 * takes longer than ${limit_ns}, or if *abort is not 0 meanwhile. */
int ar_ipc_decide(struct ar_ipc_talk *talk, struct ar_ipc_past *past, int me, int ranks,
                  const struct ar_ipc_call *call, uint64_t limit_ns, const uint32_t *abort);

#endif
