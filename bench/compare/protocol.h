/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - the commands and answers between ar_compare and its workers.
 *
 * ar_compare starts "crews": groups of worker processes that live until the end and wait on pipes.
 * So workers can take turns within milliseconds even if they need different environment variables
 * (NCCL reads its CTA count once per process). A command is one line on a worker's stdin. The
 * answer is one line on the worker's descriptor 3:
 *
 *   prepare SLOT WHAT BYTES TYPE OP COLD CALLS SHIFT    ok KERNEL | no REASON
 *   time SLOT LAUNCHES SAMPLES WARMUP                   us T T T ...   microseconds per call, of
 *                                                                      this process's slowest rank
 *   drop                                                ok
 *
 * There are two workers: worker.c (our kernels, NCCL's and peers) and torch_worker.py (torch's
 * symmetric memory).
 */
#ifndef AR_COMPARE_PROTOCOL_H_
#define AR_COMPARE_PROTOCOL_H_

#include <stddef.h>

enum { REPLY_FD = 3, MOST_RANKS = 16, MOST_SLOTS = 4, MOST_SAMPLES = 8 };

/* Run a worker. These words follow "--worker" in ${argv}:
 *   number of ranks
 *   first rank of this process
 *   number of ranks in this process
 *   bytes of the largest call
 *   1: use no peer memory, or 0
 *   for a peer: the path of its library (peer.h) */
int worker_main(int argc, char **argv);

/* Write "GBPS US" to REPLY_FD. GBPS is the GB/s of the slowest GPU while the copy engines of all
 * GPUs copy to their neighbours. US is the microseconds of an empty kernel as a graph node. In
 * ${argv} the number of ranks follows "--floor". */
int floor_main(int argc, char **argv);

#ifdef __cplusplus
extern "C" {
#endif
/* These functions are in gpu.cu. */
int gpu_fill(void *p, unsigned word, size_t bytes, void *stream);
int gpu_empty(void *stream);
#ifdef __cplusplus
}
#endif

#endif
