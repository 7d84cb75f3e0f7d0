/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.c - checks that two processes map each other's memory as kernels/ipc says, on one GPU or on
 * two.
 *
 * usage: ar_ipc [--created] [GPU GPU]
 *
 * In each round each process fills an allocation with words that hold rank, round and position. It
 * calls ar_ipc_locate(), which maps the peer's allocation. Then it reads the peer's words at the
 * addresses that the library's kernels would use. The program runs none of these kernels; ar_fuzz
 * tests them. During ar_ipc_locate() another kernel runs on the GPU. If the function waited for
 * kernels, it would wait until the time limit.
 *
 * --created: the memory comes from cuMemCreate, as in XLA's pool. New memory often has the address
 * of freed memory. First the program prints what the driver says about memory of several kinds.
 * Exit 1 if a process has read a wrong word, or could not map its peer's memory.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/must.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/ipc/allocation.h"
#include "kernels/ipc/ipc.h"
#include "test/gpu/ipc/created.h"

enum { ROUNDS = 20, WORDS = 1 << 20, BYTES = WORDS * 4 };

static int to_peer, from_peer; /* pipes */
static bool created;

/* These functions stand in for other parts of the library, with which this program is not linked.
 * The last three serve SYMTUNER_AR_IPC=auto, which this program does not use. */
void ar_rules_warn(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

ncclResult_t ar_fail(symtuner_ar *h, ncclResult_t result, const char *format, ...)
{
    (void)h, (void)format;
    return result;
}

uint64_t ar_now_ns(void)
{
    return 0;
}

void ar_pause(uint64_t waited_ns)
{
    (void)waited_ns;
}

static void meet(void)
{
    char c = 0;

    if (write(to_peer, &c, 1) != 1 || read(from_peer, &c, 1) != 1)
        exit(1);
}

static uint32_t word(int rank, int round, size_t at)
{
    return (uint32_t)rank << 31 | (uint32_t)round << 24 | (uint32_t)at;
}

/* Return an allocation filled with words of this rank. */
static uint32_t *make(int rank, int round, int device)
{
    static char *at; /* addresses for memory of cuMemCreate */
    uint32_t *here = malloc(BYTES), *p;

    for (size_t i = 0; i < WORDS; i++)
        here[i] = word(rank, round, i);
    if (created) {
        if (round % 3 != 1) /* in every third round, reuse the addresses of the memory that was
                               freed last */
            at = created_reserve(BYTES);
        p = (uint32_t *)created_map(at, BYTES, device);
    } else {
        CUDA(cudaMalloc((void **)&p, BYTES));
    }
    CUDA(cudaMemcpy(p, here, BYTES, cudaMemcpyHostToDevice));
    free(here);
    return p;
}

/* Print what the driver says about memory of several kinds, and whether the library can map it. */
static void print_facts(int device)
{
    enum { PART = CREATED_STEP };
    char *const two = created_reserve(2 * PART);
    struct cudaMemPoolProps kind = {.allocType = cudaMemAllocationTypePinned,
                                    .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                    .location = {cudaMemLocationTypeDevice, device}};
    struct ar_allocation found;
    cudaMemPool_t pool;
    void *p;

    CUDA(cudaMalloc(&p, PART));
    printf("cudaMalloc:          %s\n", created_facts(p));
    CUDA(cudaMemPoolCreate(&pool, &kind));
    CUDA(cudaMallocFromPoolAsync(&p, PART, pool, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    printf("pool:                %s; ours: %s\n", created_facts(p),
           ar_allocation_can_map(p) ? "WRONG, can be mapped" : "cannot be mapped");
    created_map(two, PART, device);
    created_map(two + PART, PART, device);
    printf("cuMemCreate, first:  %s\n", created_facts(two + 4096));
    printf("cuMemCreate, second: %s\n", created_facts(two + PART));
    printf("  ours: %s, %s over both\n",
           ar_allocation_can_map(two) ? "can be mapped" : "WRONG, cannot be mapped",
           ar_allocation_find(two, 2 * PART, device, &found) ? "WRONG, found" : "nothing");
    for (int i = 0; i < 2; i++) {
        created_free(two, PART);
        created_map(two, PART, device);
        printf("freed, made anew:    %s\n", created_facts(two));
    }
}

static int run(int rank, int device, uint64_t group)
{
    symtuner_ar h = {.ranks = 2, .me = rank, .device = device, .group = group};
    static struct ar_mailbox mailbox;
    static struct ar_ipc_map map;
    struct ar_args args = {0};
    char name[64];
    int wrong = 0;

    snprintf(name, sizeof name, "/symtuner-ar-%016llx-ipc", (unsigned long long)group);
    h.mailbox = &mailbox;
    CUDA(cudaSetDevice(device));
    CUDA(cudaFree(NULL)); /* makes the context, which the driver's functions need */
    if (created && rank == 0)
        print_facts(device);
    if (rank == 0 && ar_ipc_open(&h, name, true) != 0)
        return 1;
    meet();
    if (rank == 1 && ar_ipc_open(&h, name, false) != 0)
        return 1;
    meet();
    shm_unlink(name);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t *p = make(rank, round, device), seen = 0;
        const size_t at = 4 * (size_t)(rand() % (WORDS / 8));
        uint64_t theirs;
        const char *base;

        meet();
        created_spin();
        for (int i = 0; i < 2; i++) { /* by the second time, the peer has surely shown its memory */
            args.in = (char *)(p + at);
            args.out = (char *)p;
            ar_ipc_locate(&h, AR_ALL_REDUCE, WORDS, WORDS, &args);
            meet();
        }
        created_spin_end();
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaMemcpy(&map, args.ipc, sizeof map, cudaMemcpyDeviceToHost));
        if (write(to_peer, &args.at_send, 8) != 8 || read(from_peer, &theirs, 8) != 8)
            return 1;
        base = map.base[1 - rank][ar_ipc_number(theirs) - 1];
        if (base == NULL) {
            printf("rank %d, round %d: %llx is not mapped\n", rank, round,
                   (unsigned long long)theirs);
            return 1;
        }
        CUDA(cudaMemcpy(&seen, base + ar_ipc_at(theirs), sizeof seen, cudaMemcpyDeviceToHost));
        wrong += seen != word(1 - rank, round, ar_ipc_at(theirs) / 4);
        meet();
        if (round % 3 == 0 && created) /* a later allocation may get the same address */
            created_free((char *)p, BYTES);
        else if (round % 3 == 0)
            CUDA(cudaFree(p));
    }
    ar_ipc_end(&h);
    printf("rank %d on GPU %d: %d rounds, %d wrong\n", rank, device, ROUNDS, wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const int first = argc > 1 && strcmp(argv[1], "--created") == 0 ? 2 : 1;
    const int devices[2] = {argc > first + 1 ? atoi(argv[first]) : 0,
                            argc > first + 1 ? atoi(argv[first + 1]) : 0};
    const uint64_t group = (uint64_t)getpid() << 20;
    int there[2], back[2], status = 1, failed;
    pid_t child;

    created = first == 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (pipe(there) != 0 || pipe(back) != 0)
        return 1;
    child = fork(); /* before CUDA starts */
    to_peer = child == 0 ? back[1] : there[1];
    from_peer = child == 0 ? there[0] : back[0];
    alarm(60);
    srand(child == 0 ? 1 : 2);
    failed = run(child == 0, devices[child == 0], group);
    if (child == 0)
        exit(failed);
    waitpid(child, &status, 0);
    return failed != 0 || status != 0;
}
