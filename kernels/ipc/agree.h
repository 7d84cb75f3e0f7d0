/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - with SYMTUNER_AR_IPC=auto, the ranks agree which calls kernel tma_ipc runs.
 *
 * The kernel is fast only if all ranks have mapped the buffers of the call. A rank does not know
 * the buffers that its peers will pass, and must not wait for them. So the first rank that makes a
 * call decides for all ranks. It looks up the latest call with the same buffers of its own that all
 * ranks have made. If they have mapped all buffers of that call by now, the kernel runs the new
 * call: training programs use the same buffers in each step. If a peer passes other buffers this
 * time, the kernel moves the data through scratch, which is right but slow. As soon as the peer has
 * made that call, such calls go to NCCL again.
 *
 * The ranks number the calls that need a decision, in the order that NCCL asks of all ranks. A call
 * that is captured into a graph gets a number once, when it is captured. The decisions, and the
 * buffers of the latest calls, are in memory that the ranks share.
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
    AR_IPC_RECENT = 1024,     /* how many calls of each rank are remembered */
    AR_IPC_DECISIONS = 16384, /* how many decisions are kept; a rank that is so many calls ahead of
                                 another waits for it */
    AR_IPC_SETS = 256,        /* a rank remembers so many sets, by a hash, ... */
    AR_IPC_WAYS = 4           /* ... each of so many kinds of calls */
};

/* Shared by the ranks; zeros at first. */
struct ar_ipc_talk {
    uint32_t decision[AR_IPC_DECISIONS]; /* of call k at k % AR_IPC_DECISIONS: 2 * k + 1 if the
                                            kernel runs it, 2 * k if not, modulo 2^32 */
    struct ar_ipc_said {
        uint64_t decided; /* number of the latest call whose decision this rank has read */
        uint64_t mapped[AR_IPC_RANKS][(AR_IPC_ALLOCATIONS + 63) / 64]; /* bit i % 64 of
                             mapped[r][i / 64]: this rank has mapped allocation i + 1 of rank r */
        struct {
            uint64_t call; /* its number; 0: the other fields are not valid */
            uint64_t send, recv;
        } recent[AR_IPC_RECENT]; /* places (kernels/shared/ipc.h); [k % AR_IPC_RECENT]: of call k */
    } rank[];
};

/* A call of this rank: the places of its buffers, 0 where peers cannot map them; whether the peers
 * need send and recv; and its length. */
struct ar_ipc_call {
    uint64_t send, recv;
    bool needs_send, needs_recv;
    uint64_t bytes;
};

/* What this rank remembers. Zeros at first. */
struct ar_ipc_past {
    uint64_t calls; /* how many calls had a decision */
    struct ar_ipc_kind {
        struct ar_ipc_call what;
        uint64_t call; /* number of a call of this kind that is not judged yet; 0: unused entry */
        bool good;     /* the latest such call that all ranks made: they have mapped its buffers */
    } kind[AR_IPC_SETS][AR_IPC_WAYS];
};

static inline size_t ar_ipc_talk_bytes(int ranks)
{
    return sizeof(struct ar_ipc_talk) + (size_t)ranks * sizeof(struct ar_ipc_said);
}

/* Tell the peers that this rank, ${me}, has mapped allocation ${number} (from 1) of rank ${r}. */
void ar_ipc_tell_mapped(struct ar_ipc_talk *talk, int me, int r, int number);

/* Return 1 if kernel tma_ipc runs the next call, ${call}, 0 if not: the same on all ranks. Returns
 * -1 if a peer was AR_IPC_DECISIONS calls behind for longer than ${limit_ns}, or *abort was not 0. */
int ar_ipc_decide(struct ar_ipc_talk *talk, struct ar_ipc_past *past, int me, int ranks,
                  const struct ar_ipc_call *call, uint64_t limit_ns, const uint32_t *abort);

#endif
