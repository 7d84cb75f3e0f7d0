/* SPDX-License-Identifier: Apache-2.0 */
/* late.h - what the host and the GPU side of ar_late share. */
#ifndef AR_LATE_H_
#define AR_LATE_H_

#define LATE_HOLD_MOST_NS 10000000000ull /* a gate that is never opened ends after this time */

/* With a gate the host holds back the stream of one rank. The gate is in pinned host memory. */
struct late_gate {
    unsigned open;     /* 1: the host has filled the streams of all ranks */
    unsigned delay_us; /* how long this rank waits after the gate is open */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Launch the kernel that holds back ${stream} as ${gate} says. Returns a cudaError_t. */
int late_hold(const struct late_gate *gate, void *stream);
#ifdef __cplusplus
}
#endif

#endif
