/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beside.c - measures how much longer GEMMs take if collective calls run beside them, that is, at
 * the same time on the same GPUs. "symtuner worker" (worker.c) does this if it has the argument
 * BESIDE.
 *
 * BESIDE is "BYTES:GEMMS_US:CALLS,...". For calls of BYTES the worker runs as many GEMMs as take
 * about GEMMS_US on the slowest rank, on one stream. At the same time, on a stream of higher
 * priority, it runs CALLS calls without a pause between them. The makespan is the time until GEMMs
 * and calls are done, on the slowest rank. What a call adds is the makespan with the calls minus
 * the makespan of the GEMMs alone, divided by CALLS. It may be below 0, because times vary.
 *
 * The worker times the GEMMs alone, and then the GEMMs beside the calls of each mode. In mode k it
 * does so for each way (ways.c). It repeats all of this ${REPEATS} times, and prints the medians.
 *
 * The matrices hold random numbers, because a GPU multiplies zeros with less power and so faster.
 * cuBLAS gets its workspace before anything is timed. So no GEMM allocates memory while a call
 * waits for a peer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gpu/worker.h"
#include "symtuner.h"

enum {
    REPEATS = 3,
    SIDE = 8192, /* rows and columns of the matrices; halved on slow GPUs */
    LEAST_SIDE = 1024,
    TIMED = 3, /* GEMMs that are timed to find out how long one takes */
    LEAST_GEMMS = 4,
    BLOCK = 8 << 20, /* bytes of random numbers on the host, which are copied several times */
    WORKSPACE = 32 << 20,
    CAPABILITY = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
    AMPERE = 8,      /* major compute capability of the first GPUs that multiply bf16 */
    REAL_16F = 2,    /* cuBLAS's numbers of types */
    REAL_16BF = 14,
    COMPUTE_32F = 68,
    DEFAULT_ALGORITHM = -1
};
static const double longest_gemm_us = 5000; /* halve the matrices if one GEMM takes longer */
/* If one call beside one GEMM takes this many times as long as all GEMMs, the call's kernel is too
 * slow, and st_worker_beside_us() does not time it further. */
static const double far_off = 2;

static void cublas_good(int result, const char *what)
{
    char text[160];

    if (result == 0)
        return;
    snprintf(text, sizeof text,
             "status %d; is the driver too old for this libcublas? LD_LIBRARY_PATH may name the "
             "folder of another",
             result);
    st_worker_stop(what, text);
}

static void gemm(struct st_rank *r)
{
    static const float one = 1, zero = 0;
    struct st_gemms *g = &r->gemms;

    cublas_good(job.cublas.gemm(g->handle, 0, 0, g->side, g->side, g->side, &one,
                                (void *)(uintptr_t)g->a, g->type, g->side, (void *)(uintptr_t)g->b,
                                g->type, g->side, &zero, (void *)(uintptr_t)g->c, g->type, g->side,
                                COMPUTE_32F, DEFAULT_ALGORITHM),
                "cublasGemmEx");
}

/* Run ${gemms} GEMMs and, beside them, ${calls} calls. Returns the makespan in us. */
static double run(struct st_rank *r, char mode, uint64_t bytes, int gemms, int calls)
{
    struct st_gemms *g = &r->gemms;
    float ms;

    CUDA(stream_wait, r->stream);
    CUDA(stream_wait, g->stream);
    pthread_barrier_wait(&job.barrier);
    CUDA(event_record, r->start, g->stream);
    CUDA(stream_behind, r->stream, r->start, 0);
    /* Start GEMMs and calls in turns, so that both streams always have work. */
    for (int i = 0, done = 0; i < gemms; i++) {
        gemm(r);
        for (; done < calls * (i + 1) / gemms; done++)
            st_worker_call(r, mode, bytes);
    }
    CUDA(event_record, g->done, r->stream);
    CUDA(stream_behind, g->stream, g->done, 0);
    CUDA(event_record, r->stop, g->stream);
    CUDA(stream_wait, g->stream);
    CUDA(event_elapsed, &ms, r->start, r->stop);
    return st_worker_slowest(r, (double)ms * 1000);
}

/* Fill ${bytes} at ${to} with random numbers. Each has a sign, 7 random bits of the mantissa, and a
 * magnitude from 0.5 to 1 in bf16, or from 1.75 to 1.87 in f16. */
static void fill(st_address to, uint64_t bytes, unsigned seed)
{
    uint64_t size = bytes < BLOCK ? bytes : BLOCK;
    uint16_t *block = malloc(size);
    uint32_t x = seed * 2654435761u | 1;

    if (!block)
        st_worker_stop("host memory", "out of memory");
    for (uint64_t i = 0; i < size / 2; i++) {
        x = x * 1664525u + 1013904223u;
        block[i] = (uint16_t)((x >> 16 & 0x8000) | 0x3f00 | (x >> 17 & 0x7f));
    }
    for (uint64_t at = 0; at < bytes; at += size)
        CUDA(to_device, to + at, block, bytes - at < size ? bytes - at : size);
    free(block);
}

void st_worker_gemms_start(struct st_rank *r)
{
    struct st_gemms *g = &r->gemms;
    const uint64_t bytes = (uint64_t)SIDE * SIDE * 2;
    st_address workspace;
    int major;

    CUDA(device_attribute, &major, CAPABILITY, r->device);
    g->type = major < AMPERE ? REAL_16F : REAL_16BF;
    g->side = SIDE;
    CUDA(stream_create, &g->stream, 1);
    CUDA(event_create, &g->done, 0);
    CUDA(alloc, &g->a, bytes);
    CUDA(alloc, &g->b, bytes);
    CUDA(alloc, &g->c, bytes);
    CUDA(alloc, &workspace, WORKSPACE);
    fill(g->a, bytes, 2 * job.seed + 1);
    fill(g->b, bytes, 2 * job.seed + 2);
    cublas_good(job.cublas.create(&g->handle), "cublasCreate");
    cublas_good(job.cublas.set_stream(g->handle, g->stream), "cublasSetStream");
    cublas_good(job.cublas.set_workspace(g->handle, (void *)(uintptr_t)workspace, WORKSPACE),
                "cublasSetWorkspace");
    CUDA(synchronize);
    for (;; g->side /= 2) {
        /* This run is not timed: it loads the kernel. */
        run(r, 0, 0, 1, 0);
        g->us = run(r, 0, 0, TIMED, 0) / TIMED;
        if (g->us <= longest_gemm_us || g->side <= LEAST_SIDE)
            break;
    }
}

/* Look up in BESIDE how many GEMMs and how many calls to run at size ${bytes}. */
static void amounts(const struct st_rank *r, uint64_t bytes, int *gemms, int *calls)
{
    for (const char *at = job.beside; *at; at += strcspn(at, ","), at += *at == ',') {
        unsigned long long size;
        double us;

        if (sscanf(at, "%llu:%lf:%d", &size, &us, calls) != 3 || *calls < 1)
            break;
        *gemms = (int)(us / r->gemms.us + 0.5);
        *gemms = *gemms < LEAST_GEMMS ? LEAST_GEMMS : *gemms;
        if (size == bytes)
            return;
    }
    st_worker_stop("not a list of sizes beside GEMMs", job.beside);
}

double st_worker_beside_us(struct st_rank *r, char mode, uint64_t bytes)
{
    double one = 0;
    int gemms, calls;

    amounts(r, bytes, &gemms, &calls);
    /* Run one call beside one GEMM, twice, because the first run also loads the kernel. If the
     * second run shows that the kernel is far too slow, do not run it beside all GEMMs. */
    for (int i = 0; i < 2; i++)
        one = run(r, mode, bytes, 1, 1);
    if (one > far_off * gemms * r->gemms.us)
        return one;
    return run(r, mode, bytes, gemms, calls) / calls;
}

static double median(double us[REPEATS])
{
    for (int i = 1; i < REPEATS; i++)
        for (int k = i; k > 0 && us[k] < us[k - 1]; k--) {
            double more = us[k];

            us[k] = us[k - 1];
            us[k - 1] = more;
        }
    return us[REPEATS / 2];
}

void st_worker_beside(struct st_rank *r, uint64_t bytes)
{
    char way[ST_WORKER_WAYS][ST_WAY_SIZE];
    double alone[REPEATS], more[ST_WORKER_WAYS][REPEATS];
    const bool ways = strchr(job.modes, 'k') != NULL;
    const int n = ways ? st_worker_names(r, bytes, way) : (int)strlen(job.modes);
    int gemms, calls;

    amounts(r, bytes, &gemms, &calls);
    for (int i = 0; i < n; i++) {
        if (ways)
            st_worker_force_way(r, way[i]);
        st_worker_check(r, job.modes[ways ? 0 : i], bytes);
    }
    for (int turn = 0; turn < REPEATS; turn++) {
        alone[turn] = run(r, 0, bytes, gemms, 0);
        for (int i = 0; i < n; i++) {
            int k = (i + turn + (int)(job.seed % 16)) % n;

            if (ways)
                st_worker_force_way(r, way[k]);
            more[k][turn] = run(r, job.modes[ways ? 0 : k], bytes, gemms, calls) - alone[turn];
        }
    }
    if (ways)
        st_worker_force_way(r, NULL);
    if (r->rank != 0)
        return;
    printf("gemms %llu %.3f\n", (unsigned long long)bytes, median(alone));
    for (int i = 0; i < n; i++)
        printf("%c %llu %s%s%.3f\n", job.modes[ways ? 0 : i], (unsigned long long)bytes,
               ways ? way[i] : "", ways ? " " : "", median(more[i]) / calls);
}
