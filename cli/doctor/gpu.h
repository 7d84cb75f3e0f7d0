/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - what `symtuner doctor` measures on the GPUs.
 *
 * Units      GB/s (10^9 bytes), microseconds; 0 is "not measured".
 */
#ifndef ST_DOCTOR_GPU_H_
#define ST_DOCTOR_GPU_H_

#include "cli/gpu/cuda.h"
#include "cli/doctor/doctor.h"

enum { ST_GPUS_MAX = 16 };

struct st_pair {
    bool peer, arrives, engine_arrives;
    double store, load, engine; /* kernel stores, kernel loads, copy engine */
    double latency_us;          /* of a load                                */
};

enum st_windows { ST_WINDOWS_UNKNOWN, ST_WINDOWS_REAL, ST_WINDOWS_NULL, ST_WINDOWS_FAILED };

struct st_gpu_report {
    int gpus, failed; /* failed: the first GPU that does not start, from 1 */
    char name[ST_GPUS_MAX][96];
    int multicast[ST_GPUS_MAX];
    struct st_pair pair[ST_GPUS_MAX][ST_GPUS_MAX];
    double together[ST_GPUS_MAX];
    enum st_windows windows;
    char windows_text[300];
};

/* Register a window on all GPUs through NCCL, in a child process, since NCCL may hang or crash. */
void st_doctor_windows(struct st_doctor *doctor, struct st_gpu_report *report);

#endif
