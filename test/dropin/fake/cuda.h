/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - what the fake CUDA driver offers to tests. */
#ifndef TEST_DROPIN_CUDA_H_
#define TEST_DROPIN_CUDA_H_

#include <stdint.h>

enum { FAKE_STREAMS = 64 };

/* Put work into ${stream}. The first work has bit 0, the next one bit 1, and so on. Returns the
 * bits of the work that ends before this work begins. */
__attribute__((visibility("default"))) uint64_t fake_work(void *stream);
/* Return how many events, retained contexts and pushed contexts there are. */
__attribute__((visibility("default"))) int fake_left(void);

#endif
