/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - what `symtuner doctor` measures on the GPUs.
 *
 * Units      bandwidth in GB/s (10^9 bytes per second), latency in microseconds; 0: not measured.
 */
#ifndef ST_DOCTOR_GPU_H_
#define ST_DOCTOR_GPU_H_

#include "cli/gpu/cuda.h"
#include "cli/doctor/doctor.h"

enum { ST_GPUS_MAX = 16 };

/* The results for GPU i using the memory of GPU j. ${peer}: kernels can access that memory.
 * ${arrives}: all bytes that a kernel wrote arrived. ${engine_arrives}: all bytes that the copy
 * engine wrote arrived. */
struct st_pair {
    bool peer, arrives, engine_arrives;
    double store, load, engine; /* bandwidth of kernel stores, kernel loads, copy engine */
    double latency_us;          /* latency of a load by a kernel, in microseconds        */
};

/* Did NCCL register a window? REAL: yes. NULL: it returned success, but a NULL window. FAILED: it
 * returned an error or did not answer. UNKNOWN: not tried. */
enum st_windows { ST_WINDOWS_UNKNOWN, ST_WINDOWS_REAL, ST_WINDOWS_NULL, ST_WINDOWS_FAILED };

struct st_gpu_report {
    /* ${failed}: 1 + the index of the GPU at which the measurement ended early; 0: it did not. The
     * reason is in ${failed_text}, which is "" if that GPU did not start. */
    int gpus, failed;
    char failed_text[164];
    char name[ST_GPUS_MAX][96];
    int multicast[ST_GPUS_MAX];                    /* [i]: 1 supported, 0 unsupported, -1 unknown */
    struct st_pair pair[ST_GPUS_MAX][ST_GPUS_MAX]; /* [i][j]: GPU i uses the memory of GPU j      */
    double together[ST_GPUS_MAX];                  /* [i]: store bandwidth while all GPUs write   */
    enum st_windows windows;
    char windows_text[300];
};

/* Let NCCL register a window on all GPUs, in a child process, because NCCL may hang or crash. Sets
 * report->windows. If the registration fails, sets report->windows_text to the reason. */
void st_doctor_windows(struct st_doctor *doctor, struct st_gpu_report *report);

#endif
