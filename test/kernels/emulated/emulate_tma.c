/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulate_tma.c - bulk copies between global and shared memory.
 *
 * A kernel starts a load, and the emulation does the load while some thread of the block waits. The
 * order of loads is random. A store reads shared memory and writes global memory. The emulation
 * does each of these two steps either at once, or as late as the kernel allows: when the kernel
 * waits for the store's group.
 */
#include "test/kernels/emulated/emulate_tma.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/shared/tma.h"
#include "test/kernels/emulated/emulate.h"

struct load {
    struct load *next;
    void *to;
    const void *from;
    uint32_t bytes;
    struct barrier *barrier;
};

/* The stores of one thread, latest first. */
struct emulate_stores {
    struct emulate_memory *memory;
    struct store *stores;
    int groups;
};

struct emulate_memory {
    char *shared;
    struct load *loads;
    struct emulate_stores of[];
};

/* Stands in for CUDA's mbarrier, and has its size. */
struct barrier {
    uint16_t arrivals : 15;
    uint16_t phase : 1;
    int16_t pending;
    /* number of bytes that are expected and have not come; may be below 0 for a moment */
    int32_t bytes;
};
_Static_assert(sizeof(struct barrier) == 8, "an mbarrier has 8 bytes");

struct store {
    struct store *next;
    void *to;
    const void *from;
    uint32_t bytes;
    int group;
    bool read, written;
    char data[];
};

static __thread struct emulate_memory *mine;
static __thread struct emulate_stores *my;

struct emulate_memory *emulate_memory_new(int threads)
{
    struct emulate_memory *m = calloc(1, sizeof *m + (size_t)threads * sizeof m->of[0]);

    m->shared = aligned_alloc(128, (AR_TMA_IPC_SHARED + 127) / 128 * 128);
    memset(m->shared, 0xa5, AR_TMA_IPC_SHARED);
    return m;
}

void emulate_memory_free(struct emulate_memory *m)
{
    if (m->loads != NULL)
        abort(); /* the block ended while a copy still wrote to its shared memory */
    free(m->shared);
    free(m);
}

struct emulate_stores *emulate_stores(struct emulate_memory *m, int thread)
{
    m->of[thread].memory = m;
    return &m->of[thread];
}

void emulate_stores_use(struct emulate_stores *stores)
{
    mine = stores->memory;
    my = stores;
}

char *emulate_shared(void)
{
    return mine->shared;
}

static void check(const void *global, const void *shared, uint32_t bytes)
{
    size_t at = (size_t)((const char *)shared - mine->shared);

    if ((uintptr_t)global % 16 != 0 || at % 16 != 0 || bytes % 16 != 0 || bytes == 0 ||
        at + bytes > AR_TMA_STAGES * AR_TMA_TILES)
        abort();
}

static void may_end_phase(struct barrier *b)
{
    if (b->pending != 0 || b->bytes != 0)
        return;
    b->phase ^= 1;
    b->pending = (int16_t)b->arrivals;
}

void emulate_barrier_init(void *barrier, int arrivals)
{
    struct barrier *b = barrier;

    *b = (struct barrier){.arrivals = (uint16_t)arrivals & 0x7fff, .pending = (int16_t)arrivals};
}

void emulate_barrier_arrive(void *barrier, uint32_t bytes)
{
    struct barrier *b = barrier;

    b->bytes += (int32_t)bytes;
    if (b->pending-- == 0)
        abort(); /* there are more arrivals than the phase expects */
    may_end_phase(b);
}

static void run_one_load(void)
{
    unsigned skip = emulate_random(4);
    struct load **at = &mine->loads, *load;

    if (*at == NULL)
        return;
    while (skip-- > 0 && (*at)->next != NULL)
        at = &(*at)->next;
    load = *at;
    *at = load->next;
    memcpy(load->to, load->from, load->bytes);
    load->barrier->bytes -= (int32_t)load->bytes;
    may_end_phase(load->barrier);
    free(load);
}

int emulate_barrier_ended(void *barrier, unsigned parity)
{
    struct barrier *b = barrier;
    int ended;

    ended = b->phase != parity;
    if (!ended)
        run_one_load();
    if (!ended)
        emulate_yield();
    return ended;
}

void emulate_bulk_load(void *shared, const void *from, uint32_t bytes, void *barrier)
{
    struct load *load = malloc(sizeof *load);

    check(from, shared, bytes);
    *load = (struct load){mine->loads, shared, from, bytes, barrier};
    mine->loads = load;
}

static void read_store(struct store *s)
{
    if (!s->read)
        memcpy(s->data, s->from, s->bytes);
    s->read = true;
}

static void write_store(struct store *s)
{
    read_store(s);
    if (!s->written)
        memcpy(s->to, s->data, s->bytes);
    s->written = true;
}

void emulate_bulk_store(void *to, const void *shared, uint32_t bytes)
{
    struct store *s = malloc(sizeof *s + bytes);

    check(to, shared, bytes);
    *s = (struct store){my->stores, to, shared, bytes, my->groups, false, false};
    my->stores = s;
    if (emulate_random(3) == 0)
        read_store(s);
    if (emulate_random(6) == 0)
        write_store(s);
}

void emulate_bulk_commit(void)
{
    my->groups++;
}

void emulate_bulk_wait(int pending, int only_read)
{
    struct store **at = &my->stores;

    while (*at != NULL) {
        struct store *s = *at;

        if (s->group >= my->groups - pending) {
            at = &s->next;
        } else if (only_read) {
            read_store(s);
            at = &s->next;
        } else {
            write_store(s);
            *at = s->next;
            free(s);
        }
    }
}

void emulate_memory_leave(void)
{
    if (my->stores != NULL)
        abort(); /* the thread ended before its stores were complete */
}
