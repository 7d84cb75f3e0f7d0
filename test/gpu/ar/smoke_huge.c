/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smoke_huge.c - makes calls of 2^32 + 5 elements, to find offsets that are kept in 32 bits.
 *
 * The calls are int8 sums, out of place, in plain buffers and in registered ones. In registered
 * buffers the calls run on the kernel that the library chooses, then on the kernels chunked and
 * pull, which cut a long message in different ways. Every byte of every rank's result is compared.
 * The input repeats after PERIOD bytes, so the host needs only one period of the right result. No
 * power of two is a multiple of PERIOD, so the check finds data that were stored 2^31 or 2^32 bytes
 * away from their right place, or as far away as a kernel's piece is long.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "symtuner_ar.h"
#include "test/gpu/ar/smoke.h"

#define COUNT  (((size_t)1 << 32) + 5)
#define PERIOD (((size_t)64 << 20) + 7)
#define GUARD  ((size_t)64)
#define POISON 0x80 /* -128, which is not a sum of what fill() writes */

struct rank {
    symtuner_ar *handle;
    int gpu;
    cudaStream_t stream;
    char *send, *recv; /* each has GUARD bytes before and after it */
};

static struct rank rank[SYMTUNER_AR_MAX_RANKS];
static int n;
static signed char *want, *some; /* one period of the result, and a buffer of the same size */

static size_t part(size_t at)
{
    return COUNT - at < PERIOD ? COUNT - at : PERIOD;
}

/* Write the input of all ranks. Write their sum into ${want}. */
static void fill(void)
{
    int limit = 120 / n;

    memset(want, 0, PERIOD);
    for (int r = 0; r < n; r++) {
        uint32_t x = (uint32_t)r * 2654435761u + 12345;

        for (size_t i = 0; i < PERIOD; i++) {
            x = x * 1664525u + 1013904223u;
            some[i] = (signed char)((int)((x >> 16) % (unsigned)(2 * limit + 1)) - limit);
            want[i] = (signed char)(want[i] + some[i]);
        }
        CUDA(cudaSetDevice(rank[r].gpu));
        CUDA(cudaMemcpy(rank[r].send, some, part(0), cudaMemcpyHostToDevice));
        for (size_t at = PERIOD; at < COUNT; at += PERIOD)
            CUDA(cudaMemcpy(rank[r].send + at, rank[r].send, part(at), cudaMemcpyDeviceToDevice));
        CUDA(cudaMemset(rank[r].recv - GUARD, POISON, COUNT + 2 * GUARD));
        CUDA(cudaDeviceSynchronize());
    }
}

static int check_guard(int r, const char *guard)
{
    CUDA(cudaMemcpy(some, guard, GUARD, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)some[i] != POISON) {
            printf("WROTE OUTSIDE: rank %d, %s the buffer\n", r,
                   guard < rank[r].recv ? "before" : "after");
            return 1;
        }
    return 0;
}

static int check(int r)
{
    CUDA(cudaSetDevice(rank[r].gpu));
    for (size_t at = 0; at < COUNT; at += PERIOD) {
        CUDA(cudaMemcpy(some, rank[r].recv + at, part(at), cudaMemcpyDeviceToHost));
        if (memcmp(some, want, part(at)) != 0)
            for (size_t i = 0; i < part(at); i++)
                if (some[i] != want[i]) {
                    printf("WRONG: rank %d: element %zu is %d, not %d\n", r, at + i, some[i],
                           want[i]);
                    return 1;
                }
    }
    return check_guard(r, rank[r].recv - GUARD) + check_guard(r, rank[r].recv + COUNT);
}

/* Make one call with ${kernel}, or if it is NULL, with the kernel that the library chooses. Returns
 * 0: right, 1: wrong. */
static int one_call(const char *kernel, const char *buffers)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    struct timespec start, end;
    int bad = 0;

    fill();
    for (int r = 0; r < n; r++) {
        symtuner_ar *h = rank[r].handle;

        if (symtuner_ar_force(h, kernel, 0, 0) != ncclSuccess ||
            symtuner_ar_query(rank[r].send, rank[r].recv, COUNT, ncclInt8, ncclSum, h, &plan) !=
                ncclSuccess) {
            printf("FAILED: %s, %s buffers: %s\n", kernel == NULL ? "(table)" : kernel, buffers,
                   symtuner_ar_error(h));
            return 1;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(rank[r].gpu));
        if (symtuner_ar_all_reduce(rank[r].send, rank[r].recv, COUNT, ncclInt8, ncclSum,
                                   rank[r].handle, rank[r].stream) != ncclSuccess) {
            printf("FAILED: rank %d: %s\n", r, symtuner_ar_error(rank[r].handle));
            return 1;
        }
        CUDA(cudaMemsetAsync(rank[r].send, 0xee, COUNT, rank[r].stream));
    }
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(rank[r].gpu));
        CUDA(cudaStreamSynchronize(rank[r].stream));
        if (symtuner_ar_status(rank[r].handle) != ncclSuccess) {
            printf("FAILED: rank %d: %s\n", r, symtuner_ar_error(rank[r].handle));
            bad = 1;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (int r = 0; r < n && !bad; r++)
        bad = check(r);
    printf("%zu int8, %d ranks, %s buffers, %s in %d pieces: %.0f ms: %s\n", COUNT, n, buffers,
           plan.kernel, plan.pieces,
           (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6,
           bad ? "WRONG" : "right");
    return bad;
}

static void set_up(int gpus, int transport)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .transport = transport, .timeout_ms = 20000};
    symtuner_ar *handle[SYMTUNER_AR_MAX_RANKS];
    int device[SYMTUNER_AR_MAX_RANKS];

    for (int r = 0; r < n; r++)
        device[r] = rank[r].gpu = r % gpus;
    if (symtuner_ar_create_local(handle, device, n, &config) != ncclSuccess) {
        printf("create: %s\n", symtuner_ar_error(NULL));
        exit(1);
    }
    CUDA(cudaHostAlloc((void **)&want, PERIOD, cudaHostAllocPortable));
    CUDA(cudaHostAlloc((void **)&some, PERIOD, cudaHostAllocPortable));
    for (int r = 0; r < n; r++) {
        rank[r].handle = handle[r];
        CUDA(cudaSetDevice(rank[r].gpu));
        CUDA(cudaStreamCreateWithFlags(&rank[r].stream, cudaStreamNonBlocking));
        CUDA(cudaMalloc((void **)&rank[r].send, COUNT + 2 * GUARD));
        CUDA(cudaMalloc((void **)&rank[r].recv, COUNT + 2 * GUARD));
        rank[r].send += GUARD;
        rank[r].recv += GUARD;
    }
}

static int register_all(void)
{
    symtuner_ar *handle[SYMTUNER_AR_MAX_RANKS];
    void *send[SYMTUNER_AR_MAX_RANKS], *recv[SYMTUNER_AR_MAX_RANKS];

    for (int r = 0; r < n; r++) {
        handle[r] = rank[r].handle;
        send[r] = rank[r].send - GUARD;
        recv[r] = rank[r].recv - GUARD;
    }
    if (symtuner_ar_register(handle, send, NULL, n, COUNT + 2 * GUARD) == ncclSuccess &&
        symtuner_ar_register(handle, recv, NULL, n, COUNT + 2 * GUARD) == ncclSuccess)
        return 1;
    printf("register: %s\n", symtuner_ar_error(handle[0]));
    return 0;
}

int smoke_huge(int ranks, int gpus, int transport)
{
    static const char *const registered[] = {NULL, "chunked", "pull"};
    symtuner_ar *handle[SYMTUNER_AR_MAX_RANKS];
    int bad;

    n = ranks;
    set_up(gpus, transport);
    bad = one_call(NULL, "plain") || !register_all();
    for (size_t k = 0; k < sizeof registered / sizeof registered[0] && !bad; k++)
        bad = one_call(registered[k], "registered");
    for (int r = 0; r < n; r++)
        handle[r] = rank[r].handle;
    symtuner_ar_destroy(handle, n);
    return bad;
}
