/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar_sweep.c - time every kernel of libsymtuner_ar.so over blocks, threads and sizes, to fill the
 * selection table in kernels/choose/select.c.
 *
 *   ar_sweep [-n ranks] [-g gpus] [-t auto|peer|host] [-d bf16|f32|i32] [-iqu] [-b low:high] >
 * sweep.csv
 *
 * One process, rank i on GPU i modulo gpus, bf16 sum unless said, buffers registered, one CUDA
 * graph of 20 calls per rank (fewer above 16 MiB). The graphs are queued 5 times per rank; replay 1
 * absorbs the skew of launching from one thread; of the others the slowest rank counts, and the
 * median of them is the figure. The same buffers are used throughout, so small messages find them
 * in the L2. Each kernel's answer is compared with a sum in double first. -i in place, -q table's
 * choice only, -u buffers not registered.
 *
 * CSV: ranks,bytes,kernel,ctas,threads,us_median,us_best. The best of each size goes to stderr.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/must.h"
#include "bench/number.h"
#include "symtuner_ar.h"

#define REPLAYS 5
#define MOST    ((size_t)4 << 30)

struct rank {
    symtuner_ar *handle;
    int gpu;
    cudaStream_t stream;
    char *send, *recv;
    cudaEvent_t mark[REPLAYS + 1];
    cudaGraphExec_t graph;
};

static struct rank ranks[SYMTUNER_AR_MAX_RANKS];
static int n = 2, in_place, quick, unregistered;
static ncclDataType_t dtype = ncclBfloat16;
static size_t element = 2, most = 256u << 20;

static float as_float(const char *p, size_t i)
{
    uint32_t w;
    float f;

    if (dtype == ncclInt32) {
        int32_t v;

        memcpy(&v, p + 4 * i, 4);
        return (float)v;
    }
    if (dtype == ncclFloat32) {
        memcpy(&f, p + 4 * i, 4);
        return f;
    }
    w = (uint32_t)((const uint16_t *)(const void *)p)[i] << 16;
    memcpy(&f, &w, 4);
    return f;
}

/* Random values whose sum is far from overflow. */
static void fill(char *p, size_t bytes, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 12345;

    for (size_t i = 0; i < bytes / element; i++) {
        float f;
        uint32_t w;

        x = x * 1664525u + 1013904223u;
        f = (float)(int)(x >> 8 & 0xffff) / 4096 - 8;
        memcpy(&w, &f, 4);
        if (dtype == ncclBfloat16)
            ((uint16_t *)(void *)p)[i] = (uint16_t)(w >> 16);
        else if (dtype == ncclFloat32)
            ((uint32_t *)(void *)p)[i] = w;
        else
            ((int32_t *)(void *)p)[i] = (int32_t)(x >> 20) - 2048;
    }
}

/* Compare one call with a sum in double, and all ranks' bytes with each other: up to 1 MiB at both
 * ends of the message. */
static const char *check(size_t bytes, char **host)
{
    size_t window = bytes < (1u << 20) ? bytes : 1u << 20;
    char *got = malloc(window), *first = malloc(window);
    const char *verdict = NULL;

    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaMemcpy(ranks[r].send, host[r], bytes, cudaMemcpyHostToDevice));
        if (!in_place)
            CUDA(cudaMemset(ranks[r].recv, 0xff, bytes));
        CUDA(cudaDeviceSynchronize());
    }
    for (int r = 0; r < n; r++)
        if (symtuner_ar_all_reduce(ranks[r].send, in_place ? ranks[r].send : ranks[r].recv,
                                   bytes / element, dtype, ncclSum, ranks[r].handle,
                                   ranks[r].stream) != ncclSuccess)
            verdict = symtuner_ar_error(ranks[r].handle);
    for (int end = 0; end < 2 && verdict == NULL; end++) {
        size_t at = end ? bytes - window : 0;

        for (int r = 0; r < n && verdict == NULL; r++) {
            CUDA(cudaSetDevice(ranks[r].gpu));
            CUDA(cudaStreamSynchronize(ranks[r].stream));
            if (symtuner_ar_status(ranks[r].handle) != ncclSuccess)
                verdict = symtuner_ar_error(ranks[r].handle);
            CUDA(cudaMemcpy(r == 0 ? first : got, (in_place ? ranks[r].send : ranks[r].recv) + at,
                            window, cudaMemcpyDeviceToHost));
            if (r > 0 && memcmp(first, got, window) != 0)
                verdict = "ranks differ";
        }
        for (size_t i = 0; i < window / element && verdict == NULL; i++) {
            double sum = 0, tolerance = dtype == ncclBfloat16 ? 1.0 / 128 : 1e-5;

            for (int r = 0; r < n; r++)
                sum += as_float(host[r] + at, i);
            if (!(fabs(as_float(first, i) - sum) <= tolerance * (fabs(sum) + 1)))
                verdict = "wrong sum";
        }
    }
    free(got);
    free(first);
    return verdict;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds per call; negative when the kernel cannot run this. */
static double measure(size_t bytes, double *best)
{
    int calls = bytes > (16u << 20) ? (bytes > (64u << 20) ? 4 : 10) : 20, replays = REPLAYS;
    double us[REPLAYS];

    for (int r = 0; r < n; r++) {
        cudaGraph_t graph;

        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaStreamBeginCapture(ranks[r].stream, cudaStreamCaptureModeRelaxed));
        for (int c = 0; c < calls; c++)
            if (symtuner_ar_all_reduce(ranks[r].send, in_place ? ranks[r].send : ranks[r].recv,
                                       bytes / element, dtype, ncclSum, ranks[r].handle,
                                       ranks[r].stream) != ncclSuccess) {
                fprintf(stderr, "ar_sweep: %s\n", symtuner_ar_error(ranks[r].handle));
                exit(1);
            }
        CUDA(cudaStreamEndCapture(ranks[r].stream, &graph));
        CUDA(cudaGraphInstantiate(&ranks[r].graph, graph, 0));
        CUDA(cudaGraphDestroy(graph));
        CUDA(cudaGraphUpload(ranks[r].graph, ranks[r].stream));
    }
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaStreamSynchronize(ranks[r].stream));
    }
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        for (int i = 0; i < replays; i++) {
            CUDA(cudaEventRecord(ranks[r].mark[i], ranks[r].stream));
            CUDA(cudaGraphLaunch(ranks[r].graph, ranks[r].stream));
        }
        CUDA(cudaEventRecord(ranks[r].mark[replays], ranks[r].stream));
    }
    for (int i = 0; i < replays; i++)
        us[i] = 0;
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaStreamSynchronize(ranks[r].stream));
        if (symtuner_ar_status(ranks[r].handle) != ncclSuccess) {
            fprintf(stderr, "ar_sweep: rank %d: %s\n", r, symtuner_ar_error(ranks[r].handle));
            exit(1);
        }
        for (int i = 0; i < replays; i++) {
            float ms;

            CUDA(cudaEventElapsedTime(&ms, ranks[r].mark[i], ranks[r].mark[i + 1]));
            if (ms * 1000 / (float)calls > us[i])
                us[i] = (double)ms * 1000 / calls;
        }
        CUDA(cudaGraphExecDestroy(ranks[r].graph));
    }
    qsort(us + 1, (size_t)replays - 1, sizeof us[0], by_value);
    *best = us[1];
    return (us[replays / 2] + us[(replays + 1) / 2]) / 2;
}

/* Which blocks and threads are worth trying. */
static void sweep_size(size_t bytes, char **host)
{
    static const int ctas[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 132, 264};
    static const int threads[] = {32, 64, 128, 256, 512, 768, 1024};
    double best = 1e30;
    char winner[128] = "nothing", line[1024] = "";
    int at = 0;

    for (int k = quick ? -1 : 0; quick ? k < 0 : symtuner_ar_kernel_name(k) != NULL; k++) {
        const char *name = k < 0 ? NULL : symtuner_ar_kernel_name(k);
        int first = 1, ll8 = name != NULL && strstr(name, "ll8") != NULL;
        int words = name != NULL && strncmp(name, "o", 1) == 0;
        double mine = 1e30;
        char shape[128] = "";
        int big = name != NULL && strchr(name, '_') == NULL;

        if ((ll8 && bytes > (256u << 10)) || (words && !ll8 && bytes > (8u << 20)) ||
            (name != NULL && strncmp(name, "two", 3) == 0 &&
             (bytes > (32u << 20) || bytes < 8192)) ||
            (big && bytes < (256u << 10)) ||
            (name != NULL && strcmp(name, "copy") == 0 && bytes < (8u << 20)))
            continue;
        for (size_t c = 0; c < (quick ? 1 : sizeof ctas / sizeof ctas[0]); c++) {
            for (size_t t = 0; t < (quick ? 1 : sizeof threads / sizeof threads[0]); t++) {
                struct symtuner_ar_plan plan = {.size = sizeof plan};
                double us, low;
                size_t work = bytes / (ll8 ? 8 : 16);
                const char *wrong;

                /* No blocks without a word; no thread with more than 16; big kernels: full blocks.
                 */
                if (!quick && ((size_t)(ctas[c] * threads[t]) > 2 * work + 64 ||
                               (!big && work > 24 * (size_t)(ctas[c] * threads[t]) *
                                                   (words ? 1 : (size_t)n)) ||
                               (big && (threads[t] != 512 || ctas[c] < 16))))
                    continue;
                for (int r = 0; r < n; r++)
                    symtuner_ar_force(ranks[r].handle, name, quick ? 0 : ctas[c],
                                      quick ? 0 : threads[t]);
                if (symtuner_ar_query(ranks[0].send, in_place ? ranks[0].send : ranks[0].recv,
                                      bytes / element, dtype, ncclSum, ranks[0].handle,
                                      &plan) != ncclSuccess ||
                    plan.pieces > 1 + (bytes > (64u << 20)) || (!quick && plan.ctas != ctas[c]) ||
                    strcmp(plan.kernel, "nccl") == 0)
                    continue;
                if (first && (wrong = check(bytes, host)) != NULL) {
                    fprintf(stderr, "WRONG n=%d %s %zu bytes %d x %d: %s\n", n, plan.kernel, bytes,
                            plan.ctas, plan.threads, wrong);
                    break;
                }
                first = 0;
                us = measure(bytes, &low);
                printf("%d,%zu,%s,%d,%d,%.2f,%.2f\n", n, bytes, plan.kernel, plan.ctas,
                       plan.threads, us, low);
                if (us < mine) {
                    mine = us;
                    snprintf(shape, sizeof shape, "%s %dx%d %.2f", plan.kernel, plan.ctas,
                             plan.threads, us);
                }
            }
        }
        if (*shape != 0)
            at += snprintf(line + at, sizeof line - (size_t)at, "  %s", shape);
        if (mine < best) {
            best = mine;
            memcpy(winner, shape, sizeof winner);
        }
    }
    fprintf(stderr, "n=%d %zu KiB: %s |%s\n", n, bytes >> 10, winner, quick ? "" : line);
}

/* LOW:HIGH, as in 1K:256M. */
static void read_range(const char *text, size_t *low, size_t *high)
{
    const char *colon;

    if (number_bytes(text, &colon, 16, MOST, low) && *colon == ':' &&
        number_bytes(colon + 1, NULL, *low, MOST, high))
        return;
    fprintf(stderr,
            "ar_sweep: -b takes LOW:HIGH in bytes from 16 to 4G, e.g. 1K:256M, not \"%s\"\n", text);
    exit(2);
}

int main(int argc, char **argv)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .timeout_ms = 3000, .max_ctas = 512}; /* all but a few */
    symtuner_ar *handles[SYMTUNER_AR_MAX_RANKS];
    int devices[SYMTUNER_AR_MAX_RANKS], gpus = 0, option;
    void *buffers[SYMTUNER_AR_MAX_RANKS];
    char *host[SYMTUNER_AR_MAX_RANKS];
    size_t low = 1024, high = 256u << 20;
    static const char *const types[] = {"bf16", "f32", "i32"};
    static const ncclDataType_t numbers[] = {ncclBfloat16, ncclFloat32, ncclInt32};
    static const char *const transports[] = {"auto", "peer", "host"};

    while ((option = getopt(argc, argv, "n:g:t:d:b:iqu")) != -1) {
        if (option == 'n')
            n = number_must("ar_sweep", "-n", optarg, 1, SYMTUNER_AR_MAX_RANKS);
        else if (option == 'g')
            gpus = number_must("ar_sweep", "-g", optarg, 1, SYMTUNER_AR_MAX_RANKS);
        else if (option == 't') /* in the order of enum symtuner_ar_transport */
            config.transport = word_must("ar_sweep", "-t", optarg, transports, 3);
        else if (option == 'd')
            dtype = numbers[word_must("ar_sweep", "-d", optarg, types, 3)];
        else if (option == 'b')
            read_range(optarg, &low, &high);
        else if (option == 'i')
            in_place = 1;
        else if (option == 'q')
            quick = 1;
        else if (option == 'u')
            unregistered = 1;
        else
            return 2; /* getopt has named it */
    }
    if (optind < argc) {
        fprintf(stderr, "ar_sweep: \"%s\" is no option\n", argv[optind]);
        return 2;
    }
    element = dtype == ncclBfloat16 ? 2 : 4;
    most = high;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (gpus == 0 && (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)) {
        fputs("ar_sweep: skipped, no GPU here\n", stderr);
        return 77;
    }
    for (int r = 0; r < n; r++)
        devices[r] = r % gpus;
    if (symtuner_ar_create_local(handles, devices, n, &config) != ncclSuccess) {
        fprintf(stderr, "ar_sweep: create: %s\n", symtuner_ar_error(NULL));
        return 1;
    }
    for (int r = 0; r < n; r++) {
        ranks[r].handle = handles[r];
        ranks[r].gpu = devices[r];
        host[r] = malloc(most);
        fill(host[r], most, (unsigned)r + 1);
        CUDA(cudaSetDevice(devices[r]));
        CUDA(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking));
        CUDA(cudaMalloc((void **)&ranks[r].send, most));
        CUDA(cudaMalloc((void **)&ranks[r].recv, most));
        for (int i = 0; i <= REPLAYS; i++)
            CUDA(cudaEventCreate(&ranks[r].mark[i]));
    }
    for (int b = 0; b < 2 && !unregistered; b++) {
        for (int r = 0; r < n; r++)
            buffers[r] = b ? ranks[r].recv : ranks[r].send;
        if (symtuner_ar_register(handles, buffers, NULL, n, most) != ncclSuccess) {
            fprintf(stderr, "ar_sweep: register: %s\n", symtuner_ar_error(handles[0]));
            return 1;
        }
    }
    puts("ranks,bytes,kernel,ctas,threads,us_median,us_best");
    for (size_t bytes = low; bytes <= high; bytes *= 2)
        sweep_size(bytes, host);
    symtuner_ar_destroy(handles, n);
    return 0;
}
