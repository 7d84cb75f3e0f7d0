/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - graphs of check-threads, and what its kernels do.
 *
 * A kernel computes nothing. It reads and writes the memory that a kernel of the library would use,
 * so that a sanitizer finds memory that was freed too early.
 */
#ifndef ST_TEST_THREADS_GPU_H_
#define ST_TEST_THREADS_GPU_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* A local group has this time limit. Kernels with it may use the memory of all ranks, because the
 * ranks of a local group end together. Other groups have the default limit. */
enum { LOCAL_MS = 599000 };

/* Give ${graph} to the thread that ends graphs. After ${us} microseconds, or earlier if
 * graphs_stop() is called, that thread destroys the graph and an executable made from it. If
 * ${runs}, it first launches the executable on a stream of GPU ${device}. */
void graph_hand_over(cudaGraph_t graph, int device, int us, bool runs);

/* Start the thread that ends graphs, and stop it after all graphs are gone. */
void graphs_start(void);
void graphs_stop(void);

#endif
