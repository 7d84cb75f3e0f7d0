/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the memory that holds a rank's scratch: peer memory or pinned host memory. */
#ifndef AR_ARENA_H_
#define AR_ARENA_H_

#include "kernels/group/handle.h"

/* Scratch of all ranks in one mapping of pinned host memory, for the ${n} ranks of this thread;
 * ${shared_name}: a POSIX shared memory object, NULL for ranks of one process only. */
ncclResult_t ar_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create);
void ar_arena_free(symtuner_ar *h);

#endif
