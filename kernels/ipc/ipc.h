/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.h - buffers that nobody registered: each rank maps the allocations of its peers.
 *
 * A call of tma_ipc looks up in which allocation each buffer lies. A new allocation gets the next
 * number of this rank, and its handle (CUDA IPC) goes to a board in shared memory. The call also
 * maps what its peers have put there so far, and writes the addresses to its GPU (struct
 * ar_ipc_map). It never waits for a peer: as long as a rank has not mapped a buffer, the kernels of
 * all ranks move the data through scratch (kernels/device/tma/tma_ipc.cuh). So the first calls with
 * a buffer are slower. Captured calls do the same, so a graph profits from what is mapped later.
 *
 * Mappings end with the handle, because cudaIpcCloseMemHandle waits for running kernels, which may
 * wait for peers. Until then memory that a peer has mapped is not free, even after cudaFree.
 *
 * Threads    as the handle.
 */
#ifndef AR_IPC_H_
#define AR_IPC_H_

#include "kernels/group/handle.h"

/* Whether this process asks for it: SYMTUNER_AR_IPC=1, and torch is not told to take memory that
 * other processes cannot map. */
bool ar_ipc_wanted(int asked);

/*
 * ar_ipc_open(h, create):
 * Give ${h} a board in the shared memory of its group, which one rank of the group creates before
 * the others open it. Returns 0, or an errno number.
 * ar_ipc_hide removes the name of the board, once all have opened it. ar_ipc_end frees all.
 */
int ar_ipc_open(symtuner_ar *h, bool create);
void ar_ipc_hide(const symtuner_ar *h);
void ar_ipc_end(symtuner_ar *h);

/* Set in ${args} where the buffers of a call of ${coll} lie: args->in, of ${sent} bytes, and
 * args->out, of ${got} bytes. */
void ar_ipc_locate(symtuner_ar *h, int coll, uint64_t sent, uint64_t got, struct ar_args *args);

/* Write a line about what is mapped, and return its length. */
int ar_ipc_describe(const symtuner_ar *h, char *text, size_t size);

#endif
