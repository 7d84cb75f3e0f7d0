/* SPDX-License-Identifier: Apache-2.0 */
/* memops.h - the driver's stream memory operations: with them a stream waits for a word in memory,
 * or writes it. */
#ifndef AR_MEMOPS_H_
#define AR_MEMOPS_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* cuStreamWaitValue64 and cuStreamWriteValue64. They are found at run time, because the library is
 * not linked with the driver. */
struct ar_memops {
    int (*wait)(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags);
    int (*write)(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags);
};

/* Find the operations. Returns false if the driver or the GPU lacks them, or if the driver cannot
 * capture them into graphs. */
bool ar_memops_find(struct ar_memops *ops, int device);

/* Let ${stream} wait until ${word} is not 0, and then set the word to 0. */
cudaError_t ar_memops_await(const struct ar_memops *ops, cudaStream_t stream, void *word);

#endif
