/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_random.c - random collectives on several communicators and streams: alone, in NCCL groups,
 * and in CUDA graphs.
 *
 * All ranks draw the same batches of calls. A rank makes the calls of a batch, waits for them, and
 * checks each byte. Data are whole numbers from 1 to 3, so that each result is exact in every type.
 */
#include <string.h>
#include <unistd.h>

#include "test/gpu/one/calls.h"
#include "test/random.h"
#include "test/whole/values.h"

enum { COMMS = 3, STREAMS = 3, BATCH = 12, SHIFTS = 1024, GUARD = 64, POISON = 0xa5 };

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, KINDS };

static const char *const kind_name[KINDS] = {"all-reduce", "reduce-scatter", "all-gather",
                                             "broadcast", "reduce"};

int kind_named(const char *name)
{
    int kind = KINDS - 1;

    while (kind >= 0 && strcmp(kind_name[kind], name) != 0)
        kind--;
    return kind;
}

enum { TYPES = ncclBfloat16 + 1 }; /* all types whose numbers come before the 8-bit floats */

struct call {
    enum kind kind;
    int comm, stream, type, root;
    ncclRedOp_t op;
    size_t count; /* number of elements of one part */
    size_t shift; /* index of the first element in the data */
    int in_place, grouped, captured;
    size_t at; /* offset of the output in bytes */
};

struct group {
    ncclComm_t comm;
    int size, rank, member[MAX_RANKS]; /* member: numbers of the ranks in the first communicator */
};

struct place {
    struct group group[COMMS];
    cudaStream_t stream[STREAMS];
    char *data[TYPES];                     /* on the GPU: this rank's values in each type */
    char *out;                             /* on the GPU: ${room} bytes */
    ncclWindow_t window[TYPES + 1][COMMS]; /* with --windows: of ${data} and, last, of ${out} */
    char *host;
    size_t room;
};

static int value(int rank, size_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)rank * 0xbf58476d1ce4e5b9ull;

    return 1 + (int)(((x ^ x >> 31) * 0x94d049bb133111ebull >> 40) % 3);
}

/* ---- what a call computes -------------------------------------------------------------------- */

static double reduced(const struct group *g, ncclRedOp_t op, int type, size_t i)
{
    double result = value(g->member[0], i);

    for (int r = 1; r < g->size; r++)
        result = whole_both(result, value(g->member[r], i), op, type);
    return op == ncclAvg ? result / g->size : result;
}

static size_t parts_out(const struct call *c, const struct group *g)
{
    return c->kind == ALL_GATHER ? (size_t)g->size : 1;
}

static int has_output(const struct call *c, const struct group *g)
{
    return c->kind != REDUCE || g->rank == c->root;
}

static double expected(const struct call *c, const struct group *g, size_t i)
{
    if (c->kind == ALL_GATHER)
        return value(g->member[i / c->count], c->shift + i % c->count);
    if (c->kind == BROADCAST)
        return value(g->member[c->root], c->shift + i);
    return reduced(g, c->op, c->type,
                   c->shift + i + (c->kind == REDUCE_SCATTER ? (size_t)g->rank * c->count : 0));
}

static void wrong(const struct call *c, const struct rank *r, const char *what)
{
    fprintf(stderr,
            "nccl_calls: rank %d, seed %ld, after %ld calls: %s of %zu elements of type %d, "
            "operator %d, %s%s%s, communicator %d, stream %d: %s\n",
            r->rank, job->seed, r->made, kind_name[c->kind], c->count, c->type, c->op,
            c->in_place ? "in place" : "out of place", c->grouped ? ", in a group" : "",
            c->captured ? ", in a graph" : "", c->comm, c->stream, what);
    exit(1);
}

static void check(const struct rank *r, const struct place *p, const struct call *c)
{
    const struct group *g = &p->group[c->comm];
    const size_t size = whole_size(c->type), count = c->count * parts_out(c, g);
    const size_t whole =
        c->in_place && c->kind == REDUCE_SCATTER ? c->count * (size_t)g->size : count;
    const char *from = p->host + c->at + (whole > count ? (size_t)g->rank * c->count * size : 0);
    const char *guard = p->host + c->at + whole * size;
    size_t first = count, differ = 0;
    _Alignas(8) char want[8];
    char what[120];

    for (size_t i = 0; has_output(c, g) && i < count; i++) {
        whole_put(want, 0, c->type, expected(c, g, i));
        if (memcmp(want, from + i * size, size) != 0 && differ++ == 0)
            first = i;
    }
    if (differ) {
        whole_put(want, 0, c->type, expected(c, g, first));
        snprintf(what, sizeof what, "%zu elements are wrong, of them %zu first: %g, not %g", differ,
                 first, whole_get(from, first, c->type), whole_get(want, 0, c->type));
        wrong(c, r, what);
    }
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)guard[i] != POISON)
            wrong(c, r, "a byte behind the output was written");
}

/* ---- drawing and making calls ---------------------------------------------------------------- */

static ncclRedOp_t draw_op(struct t_random *random, int type, int ranks)
{
    static const ncclRedOp_t ops[] = {ncclSum, ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    ncclRedOp_t op = ops[t_below(random, 6)];

    if (op == ncclProd && whole_size(type) < 4 && ranks > 4)
        return ncclMax; /* bfloat16 cannot hold 3 to the power of 6, nor int8 3 to the power of 5 */
    /* NCCL from 2.30.3 on cannot average windows ("nccl-avg" in symtuner doctor). NCCL runs some
     * calls of this program, for example some of a group. */
    if (op == ncclAvg && job->windows)
        return ncclSum;
    /* with one rank, averages of NCCL before 2.29.7 leave out elements ("nccl-one-rank" in symtuner
     * doctor) */
    if (op == ncclAvg && ranks == 1)
        return ncclSum;
    return op == ncclAvg && (type < ncclFloat16 || (ranks & (ranks - 1))) ? ncclSum : op;
}

static struct call draw(struct t_random *random, const struct place *p, size_t at, int stream)
{
    struct call c = {.kind = (enum kind)t_below(random, KINDS),
                     .comm = t_below(random, COMMS),
                     .stream = stream,
                     .type = t_below(random, TYPES),
                     .root = t_below(random, job->ranks),
                     .shift = (size_t)t_below(random, SHIFTS)};
    size_t most = job->most / whole_size(c.type);

    /* Make fewer broadcasts and reduces: only NCCL runs them, and it is slow here. */
    if (t_below(random, 3) == 0 && c.kind >= BROADCAST)
        c.kind = ALL_REDUCE;
    if (job->only >= 0)
        c.kind = (enum kind)job->only;
    c.root %= p->group[c.comm].size;
    c.op = draw_op(random, c.type, p->group[c.comm].size);
    c.count = (size_t)(t_next(random) >> 1) % ((most >> t_below(random, 12)) + 1);
    if (c.kind == REDUCE_SCATTER || c.kind == ALL_GATHER)
        c.count /= (size_t)job->ranks;
    c.in_place = t_below(random, 3) == 0 && c.kind != BROADCAST && c.kind != REDUCE;
    c.at = (at + 63) / 64 * 64 + (size_t)t_below(random, 4) * whole_size(c.type);
    return c;
}

static void make(const struct place *p, const struct call *c)
{
    const struct group *g = &p->group[c->comm];
    const ncclDataType_t type = (ncclDataType_t)c->type;
    const size_t size = whole_size(c->type);
    const size_t part = c->count * size;
    const char *send = p->data[c->type] + c->shift * size;
    char *recv = p->out + c->at;
    ncclComm_t comm = g->comm;
    cudaStream_t stream = p->stream[c->stream];

    if (c->in_place) { /* copy the input from ${data}; a graph repeats this copy in each launch */
        char *to = recv + (c->kind == ALL_GATHER ? (size_t)g->rank * part : 0);

        CUDA(cudaMemcpyAsync(to, send, part * (c->kind == REDUCE_SCATTER ? (size_t)g->size : 1),
                             cudaMemcpyDeviceToDevice, stream));
        send = to;
        if (c->kind == REDUCE_SCATTER)
            recv += (size_t)g->rank * part;
    }
    switch (c->kind) {
    case ALL_REDUCE:
        NCCL(ncclAllReduce(send, recv, c->count, type, c->op, comm, stream));
        break;
    case REDUCE_SCATTER:
        NCCL(ncclReduceScatter(send, recv, c->count, type, c->op, comm, stream));
        break;
    case ALL_GATHER:
        NCCL(ncclAllGather(send, recv, c->count, type, comm, stream));
        break;
    case BROADCAST:
        NCCL(ncclBroadcast(send, recv, c->count, type, c->root, comm, stream));
        break;
    default:
        NCCL(ncclReduce(send, recv, c->count, type, c->op, c->root, comm, stream));
    }
}

/* Make the calls, in a group if ${group} is set. */
static void make_all(const struct place *p, const struct call *c, int n, int group)
{
    if (group)
        NCCL(ncclGroupStart());
    for (int i = 0; i < n; i++)
        make(p, &c[i]);
    if (group)
        NCCL(ncclGroupEnd());
}

static void batch(struct rank *r, const struct place *p, struct t_random *random,
                  struct t_random *own)
{
    int n = 1 + t_below(random, BATCH), group = t_below(random, 3) == 0;
    /* number of launches of the graph; 0: no graph */
    int launches = t_below(random, 5) == 0 ? 1 + t_below(random, 3) : 0;
    struct call call[BATCH];
    size_t end = 0;

    for (int i = 0; i < n; i++) {
        call[i] = draw(random, p, end, launches ? 0 : t_below(random, STREAMS));
        /* no call of a group is in place, because make() would copy its input between the group's
         * calls */
        call[i].in_place &= !group;
        call[i].grouped = group;
        call[i].captured = launches > 0;
        end = call[i].at + call[i].count * whole_size(call[i].type) * (size_t)job->ranks + GUARD;
    }
    CUDA(cudaMemsetAsync(p->out, POISON, end, p->stream[0]));
    CUDA(cudaStreamSynchronize(p->stream[0]));
    if (t_below(own, 16) == 0)
        usleep((useconds_t)t_below(own, 300));
    if (launches) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;

        CUDA(cudaStreamBeginCapture(p->stream[0], cudaStreamCaptureModeThreadLocal));
        make_all(p, call, n, group);
        CUDA(cudaStreamEndCapture(p->stream[0], &graph));
        CUDA(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < launches; i++)
            CUDA(cudaGraphLaunch(exec, p->stream[0]));
        CUDA(cudaStreamSynchronize(p->stream[0]));
        CUDA(cudaGraphExecDestroy(exec));
        CUDA(cudaGraphDestroy(graph));
    } else {
        make_all(p, call, n, group);
        for (int s = 0; s < STREAMS; s++)
            CUDA(cudaStreamSynchronize(p->stream[s]));
    }
    CUDA(cudaMemcpy(p->host, p->out, end, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++, r->made++)
        check(r, p, &call[i]);
}

/* Make the communicators. If job->colours is set, the last communicator is split from the first.
 * Then rank r goes into the group r % job->colours, and each group has its ranks in reversed
 * order. */
static void make_comms(const struct rank *r, struct place *p)
{
    for (int c = 0; c < COMMS; c++) {
        struct group *g = &p->group[c];
        int colours = c == COMMS - 1 && job->colours ? job->colours : 0;

        if (colours)
            NCCL(ncclCommSplit(p->group[0].comm, r->rank % colours, job->ranks - r->rank, &g->comm,
                               NULL));
        else
            g->comm = join(r);
        for (int k = 0; k < job->ranks; k++) {
            int rank = colours ? job->ranks - 1 - k : k;

            if (colours && rank % colours != r->rank % colours)
                continue;
            if (rank == r->rank)
                g->rank = g->size;
            g->member[g->size++] = rank;
        }
    }
}

/* Return memory for ${bytes} bytes on the GPU. With --windows it becomes the windows ${k} of all
 * communicators, so all ranks must call this at the same time. */
static char *new_buffer(struct place *p, int k, size_t bytes)
{
    void *memory;

    if (!job->windows) {
        CUDA(cudaMalloc(&memory, bytes));
        return memory;
    }
    NCCL(ncclMemAlloc(&memory, bytes));
    for (int c = 0; c < COMMS; c++)
        NCCL(ncclCommWindowRegister(p->group[c].comm, memory, bytes, &p->window[k][c],
                                    NCCL_WIN_COLL_SYMMETRIC));
    return memory;
}

static void free_buffer(struct place *p, int k, char *memory)
{
    if (!job->windows) {
        CUDA(cudaFree(memory));
        return;
    }
    for (int c = 0; c < COMMS; c++)
        NCCL(ncclCommWindowDeregister(p->group[c].comm, p->window[k][c]));
    NCCL(ncclMemFree(memory));
}

void random_calls(struct rank *r)
{
    struct t_random random = {job->seed * 2 + 1},
                    own = {job->seed * 2 + 1 + 1000u * (unsigned)r->rank};
    struct place p = {.room = BATCH * (job->most * (size_t)job->ranks + 2 * GUARD + 64)};

    make_comms(r, &p);
    for (int s = 0; s < STREAMS; s++)
        CUDA(cudaStreamCreateWithFlags(&p.stream[s], cudaStreamNonBlocking));
    p.out = new_buffer(&p, TYPES, p.room);
    CUDA(cudaMallocHost((void **)&p.host, p.room));
    for (int t = 0; t < TYPES; t++) {
        size_t size = whole_size(t), n = SHIFTS + job->most / size * (size_t)job->ranks;
        char *here = malloc(n * size);

        for (size_t i = 0; i < n; i++)
            whole_put(here, i, t, value(r->rank, i));
        p.data[t] = new_buffer(&p, t, n * size);
        CUDA(cudaMemcpy(p.data[t], here, n * size, cudaMemcpyHostToDevice));
        free(here);
    }
    /* Allocating and freeing memory wait for the calls of all ranks on this GPU. So no rank may
     * make a call before all ranks have allocated their memory. */
    pthread_barrier_wait(&job->all);
    while (r->made < job->calls)
        batch(r, &p, &random, &own);
    pthread_barrier_wait(&job->all);
    for (int t = 0; t < TYPES; t++)
        free_buffer(&p, t, p.data[t]);
    free_buffer(&p, TYPES, p.out);
    CUDA(cudaFreeHost(p.host));
    for (int s = 0; s < STREAMS; s++)
        CUDA(cudaStreamDestroy(p.stream[s]));
    for (int c = 0; c < COMMS; c++)
        NCCL(ncclCommDestroy(p.group[c].comm));
    pthread_barrier_wait(&job->all);
    if (r->rank == 0)
        printf("random: %ld calls right on %d ranks, seed %ld\n", r->made, job->ranks, job->seed);
}
