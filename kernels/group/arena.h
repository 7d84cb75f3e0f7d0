/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the memory that holds a rank's scratch: peer memory or pinned host memory. */
#ifndef AR_ARENA_H_
#define AR_ARENA_H_

#include "kernels/group/handle.h"

/* Map the scratch of all ranks, which is one block of pinned host memory, for the ${n} ranks of
 * this thread, and set their h->peer. ${shared_name}: the POSIX shared memory object that holds
 * it, to be created if ${create}; NULL if all ranks are in this process. */
ncclResult_t ar_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create);
/* Free the scratch of ${h}, whatever memory it is; after a timeout of NCCL, nothing. */
void ar_arena_free(symtuner_ar *h);

#endif
