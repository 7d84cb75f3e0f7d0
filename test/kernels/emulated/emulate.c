/* SPDX-License-Identifier: Apache-2.0 */
/* emulate.c - runs grids as teams of POSIX threads. */
#include "test/kernels/emulated/emulate.h"
#include "test/kernels/emulated/emulate_tma.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/shared/args.h"

/* A barrier that also ORs one value of each thread. Threads that wait yield, because there are far
 * more threads than cores. */
struct team {
    int size;
    int arrived;
    unsigned generation, value, result[2];
};

struct member {
    void (*kernel)(struct ar_args);
    const struct ar_args *args;
    int thread, block, threads, ctas, device;
    int *left; /* number of threads of the block that still run */
    struct team *line, *warp, *whole;
    struct emulate_memory *memory;
};

__thread struct emulate_index threadIdx, blockIdx, blockDim, gridDim;
__thread int emulate_in_step;

static __thread struct team *my_line, *my_warp, *my_block;
static __thread uint32_t random_state = 1;

static unsigned meet(struct team *t, unsigned value)
{
    unsigned generation = __atomic_load_n(&t->generation, __ATOMIC_ACQUIRE);

    __atomic_fetch_or(&t->value, value, __ATOMIC_ACQ_REL);
    if (__atomic_add_fetch(&t->arrived, 1, __ATOMIC_ACQ_REL) == t->size) {
        t->result[generation % 2] = __atomic_exchange_n(&t->value, 0, __ATOMIC_ACQ_REL);
        t->arrived = 0;
        __atomic_store_n(&t->generation, generation + 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(&t->generation, __ATOMIC_ACQUIRE) == generation)
            sched_yield();
    }
    return t->result[generation % 2];
}

unsigned emulate_block_or(unsigned value)
{
    return meet(my_block, value);
}

unsigned emulate_warp_or(unsigned value)
{
    return meet(my_warp, value);
}

void emulate_line_barrier(void)
{
    meet(my_line, 0);
}

unsigned emulate_random(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % below;
}

void emulate_yield(void)
{
    sched_yield();
}

uint64_t emulate_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *run_member(void *p)
{
    const struct member *s = p;

    threadIdx.x = (unsigned)s->thread;
    blockIdx.x = (unsigned)s->block;
    blockDim.x = (unsigned)s->threads;
    gridDim.x = (unsigned)s->ctas;
    my_line = s->line;
    my_warp = s->warp;
    my_block = s->whole;
    emulate_memory_use(s->memory);
    random_state = (uint32_t)emulate_now_ns() ^ (uint32_t)(s->thread * 7919 + s->block * 104729);
    s->kernel(*s->args);
    emulate_memory_leave();
    if (__atomic_sub_fetch(s->left, 1, __ATOMIC_ACQ_REL) == 0)
        emulate_give_room(s->device);
    return NULL;
}

void emulate_launch(const void *kernel, const struct ar_args *args, int ctas, int threads,
                    int device)
{
    int all = ctas * threads;
    struct member *members = calloc((size_t)all, sizeof *members);
    struct team *lines = calloc((size_t)all / 8, sizeof *lines);
    struct team *warps = calloc((size_t)all / 32, sizeof *warps);
    struct team *blocks = calloc((size_t)ctas, sizeof *blocks);
    pthread_t *people = calloc((size_t)all, sizeof *people);
    struct emulate_memory **memory = calloc((size_t)ctas, sizeof *memory);
    int *left = calloc((size_t)ctas, sizeof *left);
    pthread_attr_t small;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int i = 0; i < all / 8; i++)
        lines[i].size = 8;
    for (int i = 0; i < all / 32; i++)
        warps[i].size = 32;
    for (int i = 0; i < ctas; i++)
        blocks[i].size = left[i] = threads;
    for (int i = 0; i < ctas; i++)
        memory[i] = emulate_memory_new();
    for (int i = 0; i < all; i++) {
        if (i % threads == 0)
            emulate_take_room(device);
        members[i] = (struct member){.args = args,
                                     .thread = i % threads,
                                     .block = i / threads,
                                     .threads = threads,
                                     .ctas = ctas,
                                     .device = device,
                                     .left = &left[i / threads],
                                     .line = &lines[i / 8],
                                     .warp = &warps[i / 32],
                                     .whole = &blocks[i / threads],
                                     .memory = memory[i / threads]};
        *(const void **)&members[i].kernel = kernel;
        if (pthread_create(&people[i], &small, run_member, &members[i]) != 0)
            abort(); /* the threads that were already started would wait for ever */
    }
    for (int i = 0; i < all; i++)
        pthread_join(people[i], NULL);
    for (int i = 0; i < ctas; i++)
        emulate_memory_free(memory[i]);
    pthread_attr_destroy(&small);
    free(people);
    free(memory);
    free(left);
    free(blocks);
    free(warps);
    free(lines);
    free(members);
}
