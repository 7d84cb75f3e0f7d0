/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the memory of a rank's scratch: peer memory or pinned host memory. Scratch consists of
 * arenas (kernels/choose/arenas.h). One allocation holds one arena, or several in a row: those from
 * ${first} to ${last} - 1. */
#ifndef AR_ARENA_H_
#define AR_ARENA_H_

#include "kernels/group/handle.h"

/* Set the layouts of all arenas of ${h}. config->bulk_bytes must not be 0. ${host}: the scratch
 * will be in host memory. */
void ar_arena_sizes(symtuner_ar *h, const struct symtuner_ar_config *config, bool host);
/* Return the bytes of the arenas from ${first} to ${last} - 1 together. */
uint64_t ar_arena_bytes(const symtuner_ar *h, int first, int last);

/* Fill the arenas at ${memory}, in GPU memory, with values that mean "nothing has arrived". Wait
 * until that is done, but not for other work on the GPU. */
cudaError_t ar_arena_fill(const symtuner_ar *h, char *memory, int first, int last);

/* Store in ${h} that the arenas from ${first} to ${last} - 1 of rank ${r} begin at ${memory}. */
void ar_arena_map(symtuner_ar *h, int r, char *memory, int first, int last);

/* Map the scratch of all ranks, which is one block of pinned host memory, for the ${n} ranks of
 * this thread. ${shared_name} names the POSIX shared memory object that holds the block, or is NULL
 * in a local group. If ${create}, the object is created. handles[0] owns the mapping. */
ncclResult_t ar_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create);
/* ar_arena_free frees one arena in GPU memory. ar_arenas_free frees all scratch of ${h}, including
 * host memory. After a call of NCCL has timed out, neither function frees anything, because NCCL
 * may still use the memory. */
void ar_arena_free(symtuner_ar *h, int arena);
void ar_arenas_free(symtuner_ar *h);

#endif
