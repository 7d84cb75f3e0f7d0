/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemms.c - runs the GEMMs of "symtuner tune --beside" (cli/gpu/beside.c) on one GPU. Beside them
 * it runs copies within this GPU instead of collectives, so it needs no NCCL.
 *
 *   gemms [MIB]     bytes of a copy (64)
 *
 * It compares some elements of the product with sums that the host computes. Three times it prints
 * how long a GEMM takes, and how much time a copy adds to the GEMMs. Exit 1: something is wrong.
 * 77: no GPU or no cuBLAS here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/gpu/worker.h"

enum { CHECKED = 4, MIB = 1 << 20 };

struct st_job job = {.ranks = 1, .modes = "s", .ways = "", .seed = 1};

void st_worker_stop(const char *what, const char *why)
{
    fprintf(stderr, "gemms: %s: %s\n", what, why && *why ? why : "failed");
    exit(1);
}

void st_worker_cuda(int result, const char *what)
{
    const char *text = NULL;

    if (result) {
        job.cuda.error_text(result, &text);
        st_worker_stop(what, text);
    }
}

double st_worker_slowest(struct st_rank *r, double us)
{
    (void)r;
    return us;
}

void st_worker_call(struct st_rank *r, char mode, uint64_t bytes)
{
    (void)mode;
    CUDA(copy_peer, (st_address)(uintptr_t)r->recv[1], r->context,
         (st_address)(uintptr_t)r->send[1], r->context, bytes, r->stream);
}

void st_worker_check(struct st_rank *r, char mode, uint64_t bytes)
{
    st_worker_call(r, mode, bytes);
    CUDA(stream_wait, r->stream);
}

/* beside.c needs the next two functions for symtuner's kernels only. */
int st_worker_names(struct st_rank *r, uint64_t bytes, char names[ST_WORKER_WAYS][ST_WAY_SIZE])
{
    (void)r, (void)bytes, (void)names;
    return 0;
}

void st_worker_force_way(struct st_rank *r, const char *way)
{
    (void)r, (void)way;
}

/* Return a number of the matrices' type as a double. All numbers of f16 here are normal. */
static double number(uint16_t bits, bool bf16)
{
    const int exponent = bf16 ? bits >> 7 & 0xff : bits >> 10 & 0x1f;
    const double part = bf16 ? (bits & 0x7f) / 128.0 : (bits & 0x3ff) / 1024.0;

    return (bits >> 15 ? -1 : 1) * ldexp(1 + part, exponent - (bf16 ? 127 : 15));
}

/* Compare elements of c = a * b with sums that are computed here. The matrices are stored by
 * columns. */
static void check_product(const struct st_gemms *g)
{
    const size_t n = (size_t)g->side, bytes = n * n * 2;
    const bool bf16 = g->type != 2;
    uint16_t *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);

    if (!a || !b || !c)
        st_worker_stop("host memory", "out of memory");
    CUDA(to_host, a, g->a, bytes);
    CUDA(to_host, b, g->b, bytes);
    CUDA(to_host, c, g->c, bytes);
    if (memcmp(a, b, bytes) == 0)
        st_worker_stop("matrices", "both are the same");
    for (size_t k = 0; k < CHECKED; k++) {
        const size_t i = k * (n - 1) / (CHECKED - 1), j = n - 1 - i / 2;
        double sum = 0, size = 0, got = number(c[i + j * n], bf16);

        for (size_t m = 0; m < n; m++) {
            double product = number(a[i + m * n], bf16) * number(b[m + j * n], bf16);

            sum += product;
            size += product * product;
        }
        /* allow for the rounding of the result (2^-8 in bf16), and of sums in f32 */
        if (!(fabs(got - sum) <= fabs(sum) / 128 + sqrt(size) / 1000)) {
            fprintf(stderr, "gemms: element %zu,%zu is %g, not %g\n", i, j, got, sum);
            exit(1);
        }
    }
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    struct st_rank *r = &job.rank[0];
    const int mib = argc > 1 ? atoi(argv[1]) : 64;
    char error[600], amounts[64];
    int gpus = 0;

    if (mib < 1 || mib > 4096)
        st_worker_stop("usage", "gemms [MIB], 1 to 4096");
    if (!st_cuda_load(&job.cuda, &gpus, error, sizeof error) ||
        !st_cublas_load(&job.cublas, &job.cuda, error, sizeof error)) {
        fprintf(stderr, "gemms: skipped: %s\n", error);
        return 77;
    }
    job.low = job.high = (uint64_t)mib * MIB;
    pthread_barrier_init(&job.barrier, NULL, 1);
    CUDA(device_get, &r->device, 0);
    CUDA(context_retain, &r->context, r->device);
    CUDA(context_set, r->context);
    CUDA(stream_first, &r->stream, 1, -1);
    CUDA(event_create, &r->start, 0);
    CUDA(event_create, &r->stop, 0);
    for (int i = 0; i < 2; i++) {
        st_address at;

        CUDA(alloc, &at, job.high);
        *(i ? &r->recv[1] : &r->send[1]) = (char *)(uintptr_t)at;
    }
    st_worker_gemms_start(r);
    check_product(&r->gemms);
    printf("GEMM of %d rows: %.1f us, %.0f TFLOP/s\n", r->gemms.side, r->gemms.us,
           2 * pow(r->gemms.side, 3) / r->gemms.us / 1e6);
    snprintf(amounts, sizeof amounts, "%llu:12000:20", (unsigned long long)job.high);
    job.beside = amounts;
    for (int i = 0; i < 3; i++)
        st_worker_beside(r, job.high);
    fflush(NULL);
    _exit(0);
}
