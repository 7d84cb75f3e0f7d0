/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar_late.c - a rank that starts late costs its own delay and nothing after that.
 *
 *   ar_late [--ranks 2]
 *
 * Waiting must not slow down the waiting GPU, or the other rank waits in turn and the group never
 * gets back to its speed. For several sizes and delays: rank 0's first call is issued late, then
 * CALLS more on all ranks; the second half of them may take at most twice as long as without a
 * delay. Exit 0: so it is, 1: not, 77: cannot run here.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"

enum { CALLS = 200, MOST_RANKS = 16 };
#define BYTES ((size_t)16 << 20)

#define MUST(call, good)                                                                           \
    do {                                                                                           \
        if ((call) != (good)) {                                                                    \
            fprintf(stderr, "ar_late: %s failed: %s\n", #call, symtuner_ar_error(handle[0]));      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int ranks = 2;
static symtuner_ar *handle[MOST_RANKS];
static cudaStream_t stream[MOST_RANKS];
static cudaEvent_t mark[MOST_RANKS][2];
static void *buffer[MOST_RANKS];

static void call(int r, size_t bytes)
{
    MUST(cudaSetDevice(r), cudaSuccess);
    MUST(symtuner_ar_all_reduce(buffer[r], buffer[r], bytes / 2, ncclBfloat16, ncclSum, handle[r],
                                stream[r]),
         ncclSuccess);
}

/* Microseconds per call of the second half, slowest rank. */
static double steady(size_t bytes, unsigned delay_us)
{
    double worst = 0;

    for (int r = ranks - 1; r >= 0; r--) {
        if (r == 0 && delay_us > 0)
            usleep(delay_us);
        call(r, bytes);
    }
    for (int i = 0; i < CALLS; i++)
        for (int r = 0; r < ranks; r++) {
            if (i == CALLS / 2) {
                MUST(cudaSetDevice(r), cudaSuccess);
                MUST(cudaEventRecord(mark[r][0], stream[r]), cudaSuccess);
            }
            call(r, bytes);
        }
    for (int r = 0; r < ranks; r++) {
        float ms;

        MUST(cudaSetDevice(r), cudaSuccess);
        MUST(cudaEventRecord(mark[r][1], stream[r]), cudaSuccess);
        MUST(cudaStreamSynchronize(stream[r]), cudaSuccess);
        MUST(symtuner_ar_status(handle[r]), ncclSuccess);
        MUST(cudaEventElapsedTime(&ms, mark[r][0], mark[r][1]), cudaSuccess);
        worst = ms > worst ? ms : worst;
    }
    return worst * 1000 / (CALLS - CALLS / 2);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {(size_t)64 << 10, (size_t)2 << 20, (size_t)8 << 20, BYTES};
    static const unsigned delays[] = {100, 200, 500, 2000, 20000};
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = 5000};
    int devices[MOST_RANKS], gpus = 0, bad = 0;

    if (argc == 3 && strcmp(argv[1], "--ranks") == 0)
        ranks = atoi(argv[2]);
    if (ranks < 2 || ranks > MOST_RANKS || (argc != 1 && argc != 3)) {
        fprintf(stderr, "ar_late: only --ranks N, 2 to %d\n", MOST_RANKS);
        return 2;
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < ranks) {
        printf("ar_late: skipped: needs %d GPUs, %d here\n", ranks, gpus);
        return 77;
    }
    alarm(120); /* what hangs has failed */
    for (int r = 0; r < ranks; r++)
        devices[r] = r;
    MUST(symtuner_ar_create_local(handle, devices, ranks, &config), ncclSuccess);
    for (int r = 0; r < ranks; r++) {
        MUST(cudaSetDevice(r), cudaSuccess);
        MUST(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking), cudaSuccess);
        MUST(cudaEventCreate(&mark[r][0]), cudaSuccess);
        MUST(cudaEventCreate(&mark[r][1]), cudaSuccess);
        MUST(cudaMalloc(&buffer[r], BYTES), cudaSuccess);
        MUST(cudaMemset(buffer[r], 0, BYTES), cudaSuccess);
        MUST(cudaDeviceSynchronize(), cudaSuccess);
    }
    MUST(symtuner_ar_register(handle, buffer, NULL, ranks, BYTES), ncclSuccess);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double normal = steady(sizes[s], 0);

        for (int again = 0; again < 4; again++) { /* the best of five is what "normal" means */
            double t = steady(sizes[s], 0);

            normal = t < normal ? t : normal;
        }
        printf("%zu KiB: %.1f us; after a delay of", sizes[s] >> 10, normal);
        for (size_t d = 0; d < sizeof delays / sizeof delays[0]; d++)
            for (int again = 0; again < 3; again++) {
                double t = steady(sizes[s], delays[d]);

                if (again == 0)
                    printf(" %u us: %.1f", delays[d], t);
                if (t > 2 * normal + 10) { /* eager launches from one thread are not even */
                    printf(" SLOW: %.1f", t);
                    bad = 1;
                }
            }
        printf("\n");
    }
    symtuner_ar_destroy(handle, ranks);
    printf("ar_late: %d ranks: %s\n", ranks,
           bad ? "a late start slows down what follows" : "right");
    return bad;
}
