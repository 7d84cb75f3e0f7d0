/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc.c - checks that two processes map each other's memory as kernels/ipc says, on one GPU or on
 * two.
 *
 * usage: ar_ipc [GPU GPU]
 *
 * The processes have allocations whose words hold rank, round and position. Each process locates
 * some of them, until it has mapped those of its peer. Then it reads the peer's words at the
 * addresses that its own kernels would use. The program runs no kernel; ar_fuzz tests those. Exit
 * 77 without a GPU.
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
#include "kernels/ipc/ipc.h"

enum { ROUNDS = 20, WORDS = 1 << 20 };

static int to_peer, from_peer; /* pipes */

/* Replaces the function of kernels/choose, with which this program is not linked. */
void ar_rules_warn(const char *text)
{
    fprintf(stderr, "%s\n", text);
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
static uint32_t *make(int rank, int round)
{
    uint32_t *here = malloc(WORDS * sizeof *here), *p;

    for (size_t i = 0; i < WORDS; i++)
        here[i] = word(rank, round, i);
    CUDA(cudaMalloc((void **)&p, WORDS * sizeof *p));
    CUDA(cudaMemcpy(p, here, WORDS * sizeof *p, cudaMemcpyHostToDevice));
    free(here);
    return p;
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
    if (rank == 0 && ar_ipc_open(&h, name, true) != 0)
        return 1;
    meet();
    if (rank == 1 && ar_ipc_open(&h, name, false) != 0)
        return 1;
    meet();
    shm_unlink(name);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t *p = make(rank, round), seen = 0;
        const size_t at = 4 * (size_t)(rand() % (WORDS / 8));
        uint64_t theirs;
        const char *base;

        meet();
        for (int i = 0; i < 2; i++) { /* by the second time, the peer has surely shown its memory */
            args.in = (char *)(p + at);
            args.out = (char *)p;
            ar_ipc_locate(&h, AR_ALL_REDUCE, WORDS, WORDS, &args);
            meet();
        }
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
        if (round % 3 == 0) /* the address may be used again, under another number */
            CUDA(cudaFree(p));
    }
    ar_ipc_end(&h);
    printf("rank %d on GPU %d: %d rounds, %d wrong\n", rank, device, ROUNDS, wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const int devices[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 0};
    const uint64_t group = (uint64_t)getpid() << 20;
    int there[2], back[2], status = 1, failed;
    pid_t child;

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
