/* SPDX-License-Identifier: Apache-2.0 */
/* memops.h - the driver's operations by which a stream waits for a word, and writes one. */
#ifndef AR_MEMOPS_H_
#define AR_MEMOPS_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* cuStreamWaitValue64 and cuStreamWriteValue64, without linking the driver. */
struct ar_memops {
    int (*wait)(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags);
    int (*write)(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags);
};

/* Find the operations. Returns false if driver or GPU has none, or none that a capture takes. */
bool ar_memops_find(struct ar_memops *ops, int device);

/* Let ${stream} wait until ${word} is not 0, and then clear it. */
cudaError_t ar_memops_await(const struct ar_memops *ops, cudaStream_t stream, void *word);

#endif
