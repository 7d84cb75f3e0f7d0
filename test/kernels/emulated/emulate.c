/* SPDX-License-Identifier: Apache-2.0 */
/* emulate.c - runs blocks as POSIX threads, and their threads as fibers. */
#include "test/kernels/emulated/emulate.h"
#include "test/kernels/emulated/emulate_tma.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "kernels/shared/args.h"

enum { STACK = 64 << 10 };

/* One CUDA thread. */
struct fiber {
    ucontext_t context;
    int thread, in_step;
    struct team *line, *warp;
    struct emulate_stores *stores;
    struct fiber *next; /* the next fiber that waits in the same team */
};

/* A barrier that also ORs one value of each thread. */
struct team {
    int size, arrived;
    unsigned value, result;
    struct fiber *waiting;
};

struct block {
    void (*kernel)(struct ar_args);
    const struct ar_args *args;
    int index, threads, ctas, device;
    int left;             /* fibers that have not ended */
    int yields;           /* yields of fibers since the POSIX thread itself yielded */
    int count;            /* number of fibers in ${ready} */
    struct fiber **ready; /* fibers that can go on, without the one that runs */
    struct team whole;
    struct team for_first_warp; /* all threads arrive, but only those of the first warp wait */
    ucontext_t end;
    pthread_t person;
};

/* The fibers of one block, and their stacks. They are kept for later blocks. */
struct fibers {
    struct fibers *next;
    int count;
    char *stacks;
    struct fiber of[];
};

__thread struct emulate_index threadIdx, blockIdx, blockDim, gridDim;
__thread int emulate_in_step;

static __thread struct block *my_block;
static __thread struct fiber *self;
static __thread uint32_t random_state = 1;

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fibers *kept;

unsigned emulate_random(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % below;
}

uint64_t emulate_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- fibers ---------------------------------------------------------------------------------- */

/* Take a fiber out of b->ready, at random. */
static struct fiber *draw(struct block *b)
{
    struct fiber **at = &b->ready[b->count > 0 ? emulate_random((unsigned)b->count) : 0];
    struct fiber *drawn = *at;

    if (b->count == 0)
        abort(); /* the threads of the block wait for each other, or for one that has ended */
    *at = b->ready[--b->count];
    return drawn;
}

static void become(struct fiber *f)
{
    self = f;
    threadIdx.x = (unsigned)f->thread;
    emulate_in_step = f->in_step;
    emulate_stores_use(f->stores);
}

/* Let ${next} run on this POSIX thread, until a fiber gives way to the one that runs now. */
static void give_way(struct fiber *next)
{
    struct fiber *me = self;

    me->in_step = emulate_in_step;
    become(next);
    swapcontext(&me->context, &next->context);
}

void emulate_yield(void)
{
    struct block *b = my_block;

    if (b == NULL) { /* this is no kernel */
        sched_yield();
        return;
    }
    if (b->yields++ >= b->count) { /* all fibers may wait for another block */
        b->yields = 0;
        sched_yield();
    }
    if (b->count > 0) {
        struct fiber *next = draw(b);

        b->ready[b->count++] = self;
        give_way(next);
    }
}

void emulate_yield_rarely(void)
{
    if (emulate_random(16) == 0)
        emulate_yield();
}

/* Wait until the last thread of ${t} has arrived. */
static void wait_in(struct team *t)
{
    self->next = t->waiting;
    t->waiting = self;
    give_way(draw(my_block));
}

/* The last thread of ${t} has arrived: let all that wait go on. */
static void wake(struct team *t)
{
    t->arrived = 0;
    for (; t->waiting != NULL; t->waiting = t->waiting->next)
        my_block->ready[my_block->count++] = t->waiting;
    emulate_yield();
}

static unsigned meet(struct team *t, unsigned value)
{
    t->value |= value;
    if (++t->arrived < t->size) {
        wait_in(t);
        return t->result;
    }
    t->result = t->value;
    t->value = 0;
    wake(t);
    return t->result;
}

unsigned emulate_block_or(unsigned value)
{
    return meet(&my_block->whole, value);
}

unsigned emulate_warp_or(unsigned value)
{
    return meet(self->warp, value);
}

void emulate_meet_first_warp(void)
{
    struct team *t = &my_block->for_first_warp;

    if (++t->arrived == t->size)
        wake(t);
    else if (self->thread < 32)
        wait_in(t);
}

void emulate_line_barrier(void)
{
    meet(self->line, 0);
}

static struct fibers *take_fibers(int count)
{
    struct fibers **at = &kept, *f;

    pthread_mutex_lock(&kept_lock);
    while (*at != NULL && (*at)->count < count)
        at = &(*at)->next;
    f = *at;
    if (f != NULL)
        *at = f->next;
    pthread_mutex_unlock(&kept_lock);
    if (f != NULL)
        return f;
    f = calloc(1, sizeof *f + (size_t)count * sizeof f->of[0]);
    f->count = count;
    f->stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stacks == MAP_FAILED)
        abort();
    return f;
}

static void keep_fibers(struct fibers *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->stacks[(size_t)i * STACK] != 0)
            abort(); /* a stack was too small */
    pthread_mutex_lock(&kept_lock);
    f->next = kept;
    kept = f;
    pthread_mutex_unlock(&kept_lock);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void run_fiber(void)
{
    struct block *b = my_block;

    b->kernel(*b->args);
    emulate_memory_leave();
    if (--b->left == 0)
        setcontext(&b->end);
    become(draw(b));
    setcontext(&self->context);
}

/* This is a function of its own, because getcontext may return twice. */
static __attribute__((noinline)) void prepare(ucontext_t *context, char *stack)
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK;
    makecontext(context, run_fiber, 0);
}

static void *run_block(void *p)
{
    struct block *b = p;
    const size_t threads = (size_t)b->threads;
    struct fibers *fibers = take_fibers(b->threads);
    struct team *lines = calloc(threads / 8, sizeof *lines);
    struct team *warps = calloc(threads / 32, sizeof *warps);
    struct emulate_memory *memory = emulate_memory_new(b->threads);

    b->ready = calloc(threads, sizeof *b->ready);
    b->left = b->whole.size = b->for_first_warp.size = b->threads;
    my_block = b;
    blockIdx.x = (unsigned)b->index;
    blockDim.x = (unsigned)b->threads;
    gridDim.x = (unsigned)b->ctas;
    random_state = (uint32_t)emulate_now_ns() ^ (uint32_t)(b->index * 104729);
    for (int i = 0; i < b->threads; i++) {
        struct fiber *f = b->ready[b->count++] = &fibers->of[i];

        f->thread = i;
        f->in_step = 0;
        f->line = &lines[i / 8];
        f->line->size = 8;
        f->warp = &warps[i / 32];
        f->warp->size = 32;
        f->stores = emulate_stores(memory, i);
        prepare(&f->context, fibers->stacks + (size_t)i * STACK);
    }
    become(draw(b));
    swapcontext(&b->end, &self->context);
    emulate_memory_free(memory);
    keep_fibers(fibers);
    free(b->ready);
    free(warps);
    free(lines);
    emulate_give_room(b->device);
    return NULL;
}

void emulate_launch(const void *kernel, const struct ar_args *args, int ctas, int threads,
                    int device)
{
    struct block *blocks = calloc((size_t)ctas, sizeof *blocks);
    pthread_attr_t small;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int i = 0; i < ctas; i++) {
        emulate_take_room(device);
        blocks[i] = (struct block){
            .args = args, .index = i, .threads = threads, .ctas = ctas, .device = device};
        *(const void **)&blocks[i].kernel = kernel;
        if (pthread_create(&blocks[i].person, &small, run_block, &blocks[i]) != 0)
            abort(); /* the blocks that were started would wait for ever */
    }
    for (int i = 0; i < ctas; i++)
        pthread_join(blocks[i].person, NULL);
    pthread_attr_destroy(&small);
    free(blocks);
}
