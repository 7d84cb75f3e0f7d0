/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.h - direct access to buffers that nobody registered: each rank maps the allocations of its
 * peers.
 *
 * Before a call launches kernel tma_ipc, the host finds out in which allocation each buffer of the
 * call lies. If an allocation is new, the host gives it the next number of this rank, and writes an
 * entry for it on a board in shared memory. The entry has the allocation's CUDA IPC handle. Memory
 * from cuMemCreate has no such handle. For this memory the entry says that the host sends each peer
 * a file descriptor through a socket (post.h). Then the host maps the allocations whose handles or
 * descriptors its peers have published so far. It writes the addresses of the mappings to its GPU
 * (struct ar_ipc_map). The host never waits for a peer. As long as any rank has not mapped a buffer
 * of the call, the kernels of all ranks move the data through scratch
 * (kernels/device/tma/tma_ipc.cuh). So the first calls with a buffer are slower. When a graph is
 * replayed, its kernels look again whether the buffers are mapped. So a graph becomes faster once
 * later calls have mapped its buffers. With AR_IPC_AUTO a rank writes the entry of an allocation
 * only in the third call that uses it, and no entry for memory from cuMemCreate.
 *
 * The mappings of a symtuner_ar end when it is freed. They cannot end earlier, because
 * cudaIpcCloseMemHandle waits for running kernels, which may wait for peers. As long as a peer maps
 * an allocation, cudaFree does not free its memory. Memory from cuMemCreate also stays allocated
 * until the rank that owns it frees its symtuner_ar: until then the rank keeps the memory's handle,
 * so that no other allocation gets the same handle (vmm.h).
 *
 * Threads    one at a time for each symtuner_ar.
 */
#ifndef AR_IPC_H_
#define AR_IPC_H_

#include "kernels/group/handle.h"

/* Return in which mode this process maps its peers' buffers. ${asked} is the mode that the user
 * asked for. Returns AR_IPC_OFF if environment variables make torch or JAX allocate memory that
 * other processes cannot map, or a separate allocation for each buffer. Also returns AR_IPC_OFF if
 * other processes cannot map the memory at ${memory} (NULL: do not check that). If ${asked} is
 * AR_IPC_ON, warn before returning AR_IPC_OFF. */
int ar_ipc_wanted(int asked, const void *memory);

/*
 * ar_ipc_open(h, name, create):
 * Map the board of the group of ${h}, which is the shared memory object ${name}. One rank of the
 * group creates the board before the others open it. Returns 0, or an errno number.
 * ar_ipc_end ends all mappings and frees h->ipc.
 */
int ar_ipc_open(symtuner_ar *h, const char *name, bool create);
void ar_ipc_end(symtuner_ar *h);

/* Set the fields ipc, at_send and at_recv of ${args}, by which the ranks find each other's buffers
 * in a call of ${coll}. This rank's buffers are args->in, of ${sent} bytes, and args->out, of
 * ${got} bytes. */
void ar_ipc_locate(symtuner_ar *h, int coll, uint64_t sent, uint64_t got, struct ar_args *args);

/* With AR_IPC_AUTO, set *runs to whether kernel tma_ipc runs the next call of ${coll}. All ranks
 * get the same answer (agree.h). Call this function once for each call that the kernel could
 * run. */
ncclResult_t ar_ipc_agree(symtuner_ar *h, int coll, const char *send, uint64_t sent,
                          const char *recv, uint64_t got, bool *runs);

/* Write a line about what is mapped, and return its length. */
int ar_ipc_describe(const symtuner_ar *h, char *text, size_t size);

#endif
