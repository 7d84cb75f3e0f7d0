/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.c - checks that a rank that starts late costs the group its delay and no more.
 *
 *   ar_late [--ranks 2] [--stop 0|1]
 *
 * A rank that waits must not slow down its own GPU. Otherwise the other ranks would wait for this
 * rank in turn, and the group would never get its speed back. For several sizes and delays, each
 * rank's stream gets:
 *
 *   a kernel that waits until all streams are filled, on rank 0 longer by the delay
 *   EARLY calls, mark, CALLS calls, mark
 *
 * The calls are in graphs. The GPUs get all work before any of it runs, so a busy host does not
 * matter. On the slowest rank, the time between the marks may be at most 1.5 times the best time
 * without a delay. --stop 1: end the test at the first delay that costs more.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu/ar/late.h"
#include "bench/number.h"
#include "symtuner_ar.h"

enum { EARLY = 10, CALLS = 100, MOST_RANKS = 16, NORMAL_RUNS = 7, LATE_RUNS = 4 };
#define BYTES ((size_t)32 << 20)

#define MUST(call, good)                                                                           \
    do {                                                                                           \
        if ((int)(call) != (int)(good)) {                                                          \
            fprintf(stderr, "ar_late: %s failed: %s\n", #call, symtuner_ar_error(handle[0]));      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int ranks = 2, stop;
static symtuner_ar *handle[MOST_RANKS];
static cudaStream_t stream[MOST_RANKS];
static cudaEvent_t mark[MOST_RANKS][2];
static cudaGraphExec_t early[MOST_RANKS], measured[MOST_RANKS];
static void *buffer[MOST_RANKS];
static volatile struct late_gate *gate;

static void capture(int r, size_t bytes, int calls, cudaGraphExec_t *exec)
{
    cudaGraph_t graph;

    MUST(cudaSetDevice(r), cudaSuccess);
    MUST(cudaStreamBeginCapture(stream[r], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    for (int i = 0; i < calls; i++)
        MUST(symtuner_ar_all_reduce(buffer[r], buffer[r], bytes / 2, ncclBfloat16, ncclSum,
                                    handle[r], stream[r]),
             ncclSuccess);
    MUST(cudaStreamEndCapture(stream[r], &graph), cudaSuccess);
    MUST(cudaGraphInstantiate(exec, graph, 0), cudaSuccess);
    MUST(cudaGraphDestroy(graph), cudaSuccess);
    MUST(cudaGraphUpload(*exec, stream[r]), cudaSuccess);
    MUST(cudaStreamSynchronize(stream[r]), cudaSuccess);
}

/* Return the microseconds per call between the marks on the slowest rank. */
static double run(unsigned delay_us)
{
    double worst = 0;

    for (int r = 0; r < ranks; r++) {
        gate[r].open = 0;
        gate[r].delay_us = r == 0 ? delay_us : 0;
    }
    for (int r = 0; r < ranks; r++) {
        MUST(cudaSetDevice(r), cudaSuccess);
        MUST(late_hold((const struct late_gate *)&gate[r], stream[r]), cudaSuccess);
        MUST(cudaGraphLaunch(early[r], stream[r]), cudaSuccess);
        MUST(cudaEventRecord(mark[r][0], stream[r]), cudaSuccess);
        MUST(cudaGraphLaunch(measured[r], stream[r]), cudaSuccess);
        MUST(cudaEventRecord(mark[r][1], stream[r]), cudaSuccess);
    }
    for (int r = 0; r < ranks; r++)
        gate[r].open = 1;
    for (int r = 0; r < ranks; r++) {
        float ms;

        MUST(cudaSetDevice(r), cudaSuccess);
        MUST(cudaStreamSynchronize(stream[r]), cudaSuccess);
        MUST(symtuner_ar_status(handle[r]), ncclSuccess);
        MUST(cudaEventElapsedTime(&ms, mark[r][0], mark[r][1]), cudaSuccess);
        worst = ms > worst ? ms : worst;
    }
    return worst * 1000 / CALLS;
}

/* Test all delays for one size. Returns 1 if a late start slowed down the calls that followed. */
static int one_size(size_t bytes)
{
    static const unsigned delays[] = {100, 500, 2000, 12000, 20000};
    double normal = run(0);
    int bad = 0;

    for (int i = 1; i < NORMAL_RUNS; i++) {
        double t = run(0);

        normal = t < normal ? t : normal;
    }
    printf("%6zu KiB: %.2f us a call; late by", bytes >> 10, normal);
    for (size_t d = 0; d < sizeof delays / sizeof delays[0] && !(bad && stop); d++) {
        double worst = 0;

        for (int i = 0; i < LATE_RUNS; i++) {
            double t = run(delays[d]);

            worst = t > worst ? t : worst;
        }
        printf("%s %u us: %.2f%s", d == 0 ? "" : ",", delays[d], worst,
               worst > 1.5 * normal ? " SLOW" : "");
        bad |= worst > 1.5 * normal;
    }
    printf("\n");
    fflush(stdout);
    return bad;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {(size_t)64 << 10, (size_t)2 << 20, (size_t)8 << 20,
                                   (size_t)16 << 20, BYTES};
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = 20000};
    static const char *const options[] = {"--ranks", "--stop"};
    int devices[MOST_RANKS], gpus = 0, bad = 0;

    for (int i = 1; i < argc; i += 2) {
        int is_stop = word_must("ar_late", "the command line", argv[i], options, 2);

        if (argv[i + 1] == NULL) {
            fprintf(stderr, "ar_late: %s lacks a value\n", argv[i]);
            return 2;
        }
        *(is_stop ? &stop : &ranks) =
            number_must("ar_late", argv[i], argv[i + 1], is_stop ? 0 : 2, is_stop ? 1 : MOST_RANKS);
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < ranks) {
        printf("ar_late: skipped: needs %d GPUs, %d here\n", ranks, gpus);
        return 77;
    }
    alarm(120); /* a hang is a failure */
    for (int r = 0; r < ranks; r++)
        devices[r] = r;
    MUST(symtuner_ar_create_local(handle, devices, ranks, &config), ncclSuccess);
    MUST(symtuner_ar_reserve(handle, ranks, SIZE_MAX), ncclSuccess); /* captures allocate none */
    MUST(cudaHostAlloc((void **)&gate, sizeof *gate * MOST_RANKS, cudaHostAllocPortable),
         cudaSuccess);
    for (int r = 0; r < ranks; r++) {
        MUST(cudaSetDevice(r), cudaSuccess);
        MUST(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking), cudaSuccess);
        MUST(cudaEventCreate(&mark[r][0]), cudaSuccess);
        MUST(cudaEventCreate(&mark[r][1]), cudaSuccess);
        MUST(cudaMalloc(&buffer[r], BYTES), cudaSuccess);
        MUST(cudaMemset(buffer[r], 0, BYTES), cudaSuccess);
        gate[r].open = 1;
        gate[r].delay_us = 0;
        /* this loads the kernel */
        MUST(late_hold((const struct late_gate *)&gate[r], stream[r]), cudaSuccess);
        MUST(cudaDeviceSynchronize(), cudaSuccess);
    }
    MUST(symtuner_ar_register(handle, buffer, NULL, ranks, BYTES), ncclSuccess);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && !(bad && stop); s++) {
        for (int r = 0; r < ranks; r++) {
            capture(r, sizes[s], EARLY, &early[r]);
            capture(r, sizes[s], CALLS, &measured[r]);
        }
        bad |= one_size(sizes[s]);
        for (int r = 0; r < ranks; r++) {
            MUST(cudaGraphExecDestroy(early[r]), cudaSuccess);
            MUST(cudaGraphExecDestroy(measured[r]), cudaSuccess);
        }
    }
    symtuner_ar_destroy(handle, ranks);
    printf("ar_late: %d ranks: %s\n", ranks,
           bad ? "a late start slows down what follows" : "right");
    return bad;
}
