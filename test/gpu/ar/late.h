/* SPDX-License-Identifier: Apache-2.0 */
/* late.h - what the host and the GPU side of ar_late share. */
#ifndef AR_LATE_H_
#define AR_LATE_H_

#define LATE_HOLD_MOST_NS 10000000000ull /* ends a gate that is never opened */

/* One per rank, in pinned host memory. */
struct late_gate {
    unsigned open;     /* the host has filled the streams of all ranks */
    unsigned delay_us; /* how long this rank waits after that          */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Returns a cudaError_t. */
int late_hold(const struct late_gate *gate, void *stream);
#ifdef __cplusplus
}
#endif

#endif
