/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - a program that calls NCCL and knows nothing of symtuner. Its ranks are threads. They
 * make random calls on three communicators, one by one and in groups. Some buffers are registered,
 * and windows that overlap them come and go. Each rank checks every byte of its results.
 *
 * usage: calls RANKS ROUNDS SEED. Before the random rounds, the program calls each collective once,
 * in a way that all kernels can run. It prints how many calls were made, counted once for each
 * rank. With BOXES=N in the environment the ranks are on N boxes (boxes.c). The values are small
 * whole numbers, so that every order of addition gives the same sum.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/must.h"
#include "test/whole/boxes.h"

/* nccl.h declares these without (void), so in C they have no prototype there */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* number of collectives that NCCL itself ran, counted once for each rank */
long whole_nccl_ran(void);

enum { SLOTS = 4, SLOT = 32 << 10, MOST_RANKS = 4, POISON = 0x5a, MORE = 3 };
enum coll { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, COLLS };
enum { PREMUL = 4 }; /* stands for a PreMulSum; it is the number of ncclAvg, which is not used */

/* One call. All ranks draw the same call, but ${shift} may differ if the buffers are not
 * registered. */
struct call {
    enum coll coll;
    int slot, comm, type, op, in_place, registered, salt;
    size_t count, shift;
};

struct rank {
    int rank, draws; /* draws: number of calls of this rank */
    unsigned common, own;
    ncclComm_t comm[3];
    int me[3], ranks[3];
    char *window[2], *plain[2]; /* [0: send, 1: receive] */
    /* [w][0]: the window with the calls' buffers; [w][1..]: others, which overlap it */
    ncclWindow_t made[2][1 + MORE];
    double scalar[SLOTS];
};

static int ranks, rounds;
static unsigned seed;
static ncclUniqueId ids[2];

static const struct {
    ncclDataType_t type;
    size_t size;
} types[] = {{ncclFloat32, 4}, {ncclInt32, 4}, {ncclFloat64, 8}, {ncclUint8, 1}};

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static double value(const struct call *c, int rank, size_t i)
{
    unsigned x = (unsigned)i * 2654435761u + (unsigned)(rank * 40503 + c->salt);

    return c->op == ncclProd ? 1 + (x >> 20) % 2 : (x >> 20) % 13;
}

static void store(char *p, size_t i, int type, double x)
{
    if (types[type].type == ncclFloat32)
        ((float *)p)[i] = (float)x;
    else if (types[type].type == ncclInt32)
        ((int *)p)[i] = (int)x;
    else if (types[type].type == ncclFloat64)
        ((double *)p)[i] = x;
    else
        ((unsigned char *)p)[i] = (unsigned char)x;
}

static struct call drawn(struct rank *k, int slot)
{
    struct call c = {.slot = slot};
    int n;

    c.coll = (enum coll)draw(&k->common, COLLS);
    c.comm = (int)draw(&k->common, 3);
    n = k->ranks[c.comm];
    c.type = (int)draw(&k->common, sizeof types / sizeof *types);
    /* the numbers mean sum, product, maximum, minimum and PREMUL */
    c.op = (int)draw(&k->common, 5);
    c.in_place = draw(&k->common, 3) == 0;
    c.registered = draw(&k->common, 2) && c.comm == 0;
    c.salt = (int)draw(&k->common, 1000);
    c.count = draw(&k->common, 4) == 0 ? draw(&k->common, 4) : draw(&k->common, 2000);
    c.count = c.coll == ALL_REDUCE ? c.count : c.count / (size_t)n;
    c.shift = draw(&k->common, 3) == 0 ? draw(&k->common, 9) : 0;
    if (!c.registered && c.shift != 0)
        c.shift = draw(&k->own, 9);
    return c;
}

static struct call plain(enum coll coll)
{
    return (struct call){.coll = coll, .op = ncclSum, .registered = 1, .count = 256};
}

/* Find the addresses that this rank passes to NCCL. */
static void place(const struct rank *k, const struct call *c, char **send, char **recv)
{
    char *const *base = c->registered ? k->window : k->plain;
    size_t at = (size_t)c->slot * SLOT + c->shift * types[c->type].size;
    size_t mine = (size_t)k->me[c->comm] * c->count * types[c->type].size;

    *send = base[0] + at;
    *recv = base[1] + at;
    if (c->in_place && c->coll == REDUCE_SCATTER)
        *recv = *send + mine;
    else if (c->in_place)
        *send = *recv + (c->coll == ALL_GATHER ? mine : 0);
}

static size_t sent(const struct rank *k, const struct call *c)
{
    return c->count * (size_t)(c->coll == REDUCE_SCATTER ? k->ranks[c->comm] : 1);
}

static void fill(const struct rank *k, const struct call *c)
{
    char *send, *recv;

    for (int w = 0; w < 2; w++)
        memset((c->registered ? k->window : k->plain)[w] + (size_t)c->slot * SLOT, POISON, SLOT);
    place(k, c, &send, &recv);
    for (size_t i = 0; i < sent(k, c); i++)
        store(send, i, c->type, value(c, k->me[c->comm], i));
}

static void make(struct rank *k, const struct call *c)
{
    ncclComm_t comm = k->comm[c->comm];
    ncclDataType_t type = types[c->type].type;
    char *send, *recv;
    ncclRedOp_t op = (ncclRedOp_t)c->op;
    ncclResult_t result;

    place(k, c, &send, &recv);
    if (c->op == PREMUL) {
        store((char *)&k->scalar[c->slot], 0, c->type, 1 + k->me[c->comm]);
        MUST(ncclRedOpCreatePreMulSum(&op, &k->scalar[c->slot], type,
                                      draw(&k->own, 2) ? ncclScalarDevice : ncclScalarHostImmediate,
                                      comm) == ncclSuccess);
    }
    result = c->coll == ALL_REDUCE ? ncclAllReduce(send, recv, c->count, type, op, comm, NULL)
             : c->coll == REDUCE_SCATTER
                 ? ncclReduceScatter(send, recv, c->count, type, op, comm, NULL)
                 : ncclAllGather(send, recv, c->count, type, comm, NULL);
    MUST(result == ncclSuccess);
    if (c->op == PREMUL) /* from here on NCCL does not need the operator, even in an open group */
        MUST(ncclRedOpDestroy(op, comm) == ncclSuccess);
    k->draws++;
}

static double addend(const struct call *c, int rank, size_t i)
{
    return value(c, rank, i) * (c->op == PREMUL ? 1 + rank : 1);
}

static double expected(const struct rank *k, const struct call *c, size_t i)
{
    int n = k->ranks[c->comm];
    double x;

    if (c->coll == ALL_GATHER)
        return value(c, (int)(i / c->count), i % c->count);
    if (c->coll == REDUCE_SCATTER)
        i += (size_t)k->me[c->comm] * c->count;
    x = addend(c, 0, i);
    for (int r = 1; r < n; r++) {
        double y = addend(c, r, i);

        x = c->op == ncclProd  ? x * y
            : c->op == ncclMax ? (x > y ? x : y)
            : c->op == ncclMin ? (x < y ? x : y)
                               : x + y;
    }
    return x;
}

/* Check the whole slot of the output, including the bytes in front of the result and behind it. */
static void check(const struct rank *k, const struct call *c)
{
    static _Thread_local char want[SLOT];
    char *const *base = c->registered ? k->window : k->plain;
    size_t size = types[c->type].size, n = (size_t)k->ranks[c->comm];
    size_t count = c->coll == ALL_GATHER ? c->count * n : c->count;
    char *send, *recv, *slot;
    size_t at;

    place(k, c, &send, &recv);
    slot = base[c->in_place && c->coll == REDUCE_SCATTER ? 0 : 1] + (size_t)c->slot * SLOT;
    at = (size_t)(recv - slot);
    memset(want, POISON, sizeof want);
    if (c->in_place && c->coll == REDUCE_SCATTER) /* NCCL may change the other parts */
        memcpy(want, slot, sizeof want);
    for (size_t i = 0; i < count; i++)
        store(want + at, i, c->type, expected(k, c, i));
    for (size_t b = 0; b < SLOT; b++)
        if (want[b] != slot[b]) {
            fprintf(
                stderr,
                "rank %d: byte %zu of %zu + %zu is %d, not %d: collective %d of %zu elements of "
                "%zu bytes, operator %d, communicator %d, in place %d, registered %d, shift %zu\n",
                k->rank, b, at, count * size, slot[b], want[b], c->coll, c->count, size, c->op,
                c->comm, c->in_place, c->registered, c->shift);
            exit(1);
        }
}

/* Register ${slots} slots of window[w] from slot ${first} on. */
static void add_window(struct rank *k, int w, int i, int first, int slots)
{
    MUST(ncclCommWindowRegister(k->comm[0], k->window[w] + (size_t)first * SLOT,
                                (size_t)slots * SLOT, &k->made[w][i],
                                NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
}

static void drop_window(struct rank *k, int w, int i)
{
    if (k->made[w][i] != NULL)
        MUST(ncclCommWindowDeregister(k->comm[0], k->made[w][i]) == ncclSuccess);
    k->made[w][i] = NULL;
}

/* Register or deregister a window. Some ranks deregister later than others. In one case of eight,
 * rank 1 registers another part of its buffer than the others. */
static void change_windows(struct rank *k)
{
    int w = (int)draw(&k->common, 2), i = (int)draw(&k->common, 1 + MORE);
    int first = (int)draw(&k->common, SLOTS - 1);
    int slots = 1 + (int)draw(&k->common, (unsigned)(SLOTS - 1 - first));
    bool odd = draw(&k->common, 8) == 0 && k->rank == 1, comes = draw(&k->common, 2) || i == 0;

    if (comes || draw(&k->own, 2))
        drop_window(k, w, i);
    if (comes)
        add_window(k, w, i, i == 0 ? 0 : first + odd, i == 0 ? SLOTS : slots);
}

static void open_rank(struct rank *k)
{
    MUST(cudaSetDevice(k->rank) == cudaSuccess);
    for (int i = 0; i < 2; i++)
        MUST(ncclCommInitRank(&k->comm[i], ranks, ids[i], k->rank) == ncclSuccess);
    MUST(ncclCommSplit(k->comm[0], k->rank / 2, -k->rank, &k->comm[2], NULL) == ncclSuccess);
    for (int i = 0; i < 3; i++) {
        MUST(ncclCommUserRank(k->comm[i], &k->me[i]) == ncclSuccess);
        MUST(ncclCommCount(k->comm[i], &k->ranks[i]) == ncclSuccess);
    }
    for (int w = 0; w < 2; w++) {
        MUST(ncclMemAlloc((void **)&k->window[w], SLOTS * SLOT) == ncclSuccess);
        add_window(k, w, 0, 0, SLOTS);
        k->plain[w] = malloc(SLOTS * SLOT);
    }
}

static void *body(void *p)
{
    struct rank *k = p;

    boxes_sit(k->rank, ranks);
    open_rank(k);
    for (int round = -COLLS; round < rounds; round++) {
        bool random = round >= 0;
        int calls = random && draw(&k->common, 3) == 0 ? 1 + (int)draw(&k->common, SLOTS) : 1;
        struct call call[SLOTS];

        if (random && draw(&k->common, 2))
            change_windows(k);
        for (int i = 0; i < calls; i++) {
            call[i] = random ? drawn(k, i) : plain((enum coll)(round + COLLS));
            fill(k, &call[i]);
        }
        if (calls > 1)
            ncclGroupStart();
        for (int i = 0; i < calls; i++)
            make(k, &call[i]);
        if (calls > 1)
            MUST(ncclGroupEnd() == ncclSuccess);
        MUST(cudaStreamSynchronize(NULL) == cudaSuccess);
        for (int i = 0; i < calls; i++)
            check(k, &call[i]);
    }
    for (int i = 0; i < 3; i++)
        MUST(ncclCommDestroy(k->comm[i]) == ncclSuccess);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct rank rank[MOST_RANKS];
    pthread_t thread[MOST_RANKS];
    int calls = 0;

    MUST(argc == 4);
    ranks = atoi(argv[1]);
    rounds = atoi(argv[2]);
    seed = (unsigned)strtoul(argv[3], NULL, 0);
    MUST(ranks >= 2 && ranks <= MOST_RANKS);
    for (int i = 0; i < 2; i++)
        MUST(ncclGetUniqueId(&ids[i]) == ncclSuccess);
    for (int r = 0; r < ranks; r++) {
        rank[r] = (struct rank){.rank = r, .common = seed, .own = seed ^ (unsigned)(r + 1) * 7919u};
        MUST(pthread_create(&thread[r], NULL, body, &rank[r]) == 0);
    }
    for (int r = 0; r < ranks; r++) {
        MUST(pthread_join(thread[r], NULL) == 0);
        calls += rank[r].draws;
    }
    printf("calls: %d made, %ld by NCCL\n", calls, whole_nccl_ran());
    return 0;
}
