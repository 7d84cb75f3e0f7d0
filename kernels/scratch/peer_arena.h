/* SPDX-License-Identifier: Apache-2.0 */
/* peer_arena.h - make the arenas (parts of the scratch) from ${first} to ${last} - 1, in GPU memory
 * that the peers can reach. This happens when a group is created and when its scratch grows. */
#ifndef AR_PEER_ARENA_H_
#define AR_PEER_ARENA_H_

#include "kernels/group/handle.h"

/* Allocate and fill the memory of one rank of a communicator. Does not wait for other ranks. After
 * an error ${why} (AR_WHY bytes) says what failed. */
ncclResult_t ar_comm_arena_make(symtuner_ar *h, int first, int last, char *why);

/* Collective: register the memory of this thread's ranks as an NCCL window, and map the memory of
 * the other ranks. ar_comm_arena_make() must have succeeded on all ranks. */
ncclResult_t ar_comm_arena_link(symtuner_ar **handles, int n, int first, int last, char *why);

/* Allocate and fill the memory of all ranks of a local group, and tell each rank the addresses. */
ncclResult_t ar_local_arena_make(symtuner_ar *const *handles, int n, int first, int last,
                                 char *why);

#endif
