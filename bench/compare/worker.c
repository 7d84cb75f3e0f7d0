/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - one process of a crew. It runs libsymtuner_ar.so and NCCL on the same communicator, or
 * a peer (peer.h) on a communicator of its own.
 *
 * There is one thread per rank of this process. Each rank has two buffers in windows (for zero-copy
 * and NCCL's symmetric kernels) and two plain buffers (for staged and NCCL's general kernels).
 * Every prepared call is checked once: all ranks send the same value, and the head, middle and tail
 * of the result must be exact. The program ar_fuzz checks results more thoroughly.
 *
 * Warm: all calls use the same two buffers. Cold: every call of a graph has buffers of its own, and
 * 128 MiB are overwritten before each graph. That is more than twice an H200's L2 of 60 MB.
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare/coll.h"
#include "bench/compare/protocol.h"
#include "bench/compare/peer.h"
#include "bench/must.h"
#include "symtuner_ar.h"

#define FLUSH ((size_t)128 << 20)

static const struct {
    const char *name;
    ncclDataType_t type;
    size_t bytes;
    /* All ranks send this pattern, repeated: 1 in most types, 3 in i32, about 1 in f64. */
    unsigned one;
} types[] = {
    {"bf16", ncclBfloat16, 2, 0x3f803f80u}, {"f32", ncclFloat32, 4, 0x3f800000u},
    {"f16", ncclFloat16, 2, 0x3c003c00u},   {"i32", ncclInt32, 4, 3},
    {"f64", ncclFloat64, 8, 0x3ff00000u},
};
enum what { OURS_ZC, OURS_STAGED, NCCL_GENERAL, NCCL_SYM, PEER, WHATS = PEER + PEER_KERNELS };
static const char *const what_name[WHATS] = {"zero-copy", "staged", "general", "sym",
                                             "peer0",     "peer1",  "peer2",   "peer3"};

static struct {
    char verb[16];
    int slot, what, type, op, cold, calls, launches, samples, warmup;
    size_t bytes, shift; /* shift: offset of the call in its buffers, in bytes */
    char said[200];
} order;

static struct {
    int ranks, first, local, host;
    size_t most;
    ncclUniqueId id;
    const struct peer_api *peer; /* if not NULL, this process runs only the peer */
    pthread_barrier_t meet, done;
    double us[MOST_RANKS][MOST_SAMPLES];
} job;

struct rank {
    int me, filled;
    ncclComm_t comm;
    symtuner_ar *handle;
    void *peer;
    struct peer_rank view; /* what the peer knows of this rank; must exist as long as the peer */
    cudaStream_t stream;
    cudaEvent_t mark[2 * MOST_SAMPLES];
    char *buffer[2][2]; /* [window, plain][send, recv] */
    char *flush, *host;
    cudaGraphExec_t graph[MOST_SLOTS];
    int cold[MOST_SLOTS], calls[MOST_SLOTS], what[MOST_SLOTS];
};

static void stop(const struct rank *r, const char *what, const char *why)
{
    fprintf(stderr, "ar_compare: rank %d: %s: %s\n", r->me, what, why);
    exit(1);
}

static size_t arena_bytes(void)
{
    size_t least = (size_t)256 << 20;

    return (job.most > least ? job.most : least) + 4096; /* time_it() needs 4096 more */
}

static struct compare_call call_of(int op, int type, size_t bytes)
{
    return (struct compare_call){&compare_ops[op], job.ranks, types[type].type, types[type].bytes,
                                 bytes};
}

static void one_call(struct rank *r, int what, size_t at, size_t bytes, int type, int op)
{
    int plain = what == OURS_STAGED || what == NCCL_GENERAL;
    char *send = r->buffer[plain][0] + at, *recv = r->buffer[plain][1] + at;
    const struct compare_call c = call_of(op, type, bytes);

    if (what >= PEER) {
        const char *why = job.peer->all_reduce(r->peer, what - PEER, at, bytes, types[type].type);

        if (why != NULL)
            stop(r, job.peer->about, why);
    } else if (what == NCCL_GENERAL || what == NCCL_SYM) {
        NCCL(compare_nccl(&c, send, recv, r->comm, r->stream));
    } else if (compare_ours(&c, send, recv, r->handle, r->stream) != ncclSuccess) {
        stop(r, "call", symtuner_ar_error(r->handle));
    }
}

/* Return element ${i} of the result as a double. */
static double element(const char *p, int type, size_t i)
{
    union {
        double f64;
        float f32;
        int i32;
        unsigned word; /* a 16-bit element is in the lower half */
    } x = {.f64 = 0};

    memcpy(&x, p + types[type].bytes * i, types[type].bytes);
    switch (types[type].type) {
    case ncclFloat64: return x.f64;
    case ncclInt32: return x.i32;
    case ncclFloat16:
        return x.word == 0x3c00   ? 1
               : x.word == 0x4000 ? 2
               : x.word == 0x4400 ? 4
               : x.word == 0x4800 ? 8
                                  : -1;
    case ncclBfloat16: /* a bf16 is the upper half of an f32 */
        x.word <<= 16;
        return x.f32;
    default: return x.f32;
    }
}

static const char *called(int what)
{
    return what < PEER ? what_name[what] : job.peer->kernel[what - PEER];
}

static int check(struct rank *r)
{
    const struct compare_call c = call_of(order.op, order.type, order.bytes);
    size_t size = c.size, bytes = compare_received(&c) * size, chunk = bytes < 4096 ? bytes : 4096;
    int plain = order.what == OURS_STAGED || order.what == NCCL_GENERAL;
    char *recv = r->buffer[plain][1] + order.shift;
    double want;

    CUDA(cudaMemcpyAsync(r->host, r->buffer[plain][0] + order.shift, 8, cudaMemcpyDeviceToHost,
                         r->stream));
    CUDA(cudaMemsetAsync(recv, 0xff, bytes, r->stream));
    CUDA(cudaStreamSynchronize(r->stream));
    want = element(r->host, order.type, 0) * compare_times(&c);
    one_call(r, order.what, order.shift, order.bytes, order.type, order.op);
    CUDA(cudaStreamSynchronize(r->stream));
    for (int part = 0; part < 3; part++) {
        size_t at = (bytes - chunk) / 2 * (size_t)part / 256 * 256;

        if (part == 2)
            at = bytes - chunk;
        CUDA(cudaMemcpy(r->host, recv + at, chunk, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < chunk / size; i++)
            if (element(r->host, order.type, i) != want) {
                fprintf(stderr,
                        "ar_compare: %s %s %s %zu bytes, rank %d: element %zu is %g, not %g\n",
                        called(order.what), types[order.type].name, compare_ops[order.op].name,
                        order.bytes, r->me, at / size + i, element(r->host, order.type, i), want);
                return 0;
            }
    }
    return 1;
}

/* Return why this process cannot run the call, or NULL if it can. All ranks get the same answer. */
static const char *refused(struct rank *r)
{
    int k = order.what - PEER;

    if ((order.what >= PEER) != (job.peer != NULL))
        return "not in this process";
    if (k < 0)
        return NULL;
    for (int i = 0; i <= k; i++)
        if (job.peer->kernel[i] == NULL)
            return "no such kernel";
    if (strcmp(compare_ops[order.op].name, "sum") != 0 || types[order.type].type == ncclInt32 ||
        types[order.type].type == ncclFloat64)
        return "float sums only";
    return job.peer->refuses(r->peer, k, order.bytes, types[order.type].type);
}

static void prepare(struct rank *r)
{
    const char *why = refused(r);
    size_t slots = (size_t)256 << 20;
    cudaGraph_t graph;
    int s = order.slot;

    if (why != NULL) {
        if (r->me == job.first)
            snprintf(order.said, sizeof order.said, "no %s", why);
        return;
    }
    if (r->filled != order.type) {
        for (int plain = 0; plain < 2 && r->buffer[plain][0] != NULL; plain++)
            CUDA(gpu_fill(r->buffer[plain][0], types[order.type].one, arena_bytes(), r->stream));
        r->filled = order.type;
    }
    if (r->me == job.first) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};
        const struct compare_call c = call_of(order.op, order.type, order.bytes);
        int plain = order.what == OURS_STAGED;

        snprintf(order.said, sizeof order.said, "ok %s", called(order.what));
        if (order.what <= OURS_STAGED &&
            symtuner_ar_query_coll(c.op->coll, r->buffer[plain][0] + order.shift,
                                   r->buffer[plain][1] + order.shift, compare_count(&c), c.type,
                                   c.op->op, r->handle, &plan) == ncclSuccess)
            snprintf(order.said, sizeof order.said, "ok %s:%dx%d", plan.kernel, plan.ctas,
                     plan.threads);
    }
    if (!check(r)) { /* if a peer's sum is wrong, leave the peer out at this size only */
        if (job.peer == NULL)
            exit(1);
        snprintf(order.said, sizeof order.said, "no WRONG SUM");
        return;
    }
    slots = order.cold ? slots / order.bytes : 1;
    CUDA(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < order.calls; i++)
        one_call(r, order.what, order.shift + (size_t)i % slots * order.bytes, order.bytes,
                 order.type, order.op);
    CUDA(cudaStreamEndCapture(r->stream, &graph));
    if (order.what >= PEER && job.peer->captured != NULL &&
        (why = job.peer->captured(r->peer)) != NULL)
        stop(r, job.peer->about, why);
    CUDA(cudaGraphInstantiate(&r->graph[s], graph, 0));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphUpload(r->graph[s], r->stream));
    CUDA(cudaStreamSynchronize(r->stream));
    r->cold[s] = order.cold;
    r->calls[s] = order.calls;
    r->what[s] = order.what;
}

static void time_it(struct rank *r)
{
    int s = order.slot;

    for (int i = 0; i < order.warmup; i++)
        CUDA(cudaGraphLaunch(r->graph[s], r->stream));
    for (int i = 0; i < order.samples; i++) {
        if (r->cold[s]) { /* empty the L2, then let the ranks wait for each other in a short call */
            CUDA(cudaMemsetAsync(r->flush, i, FLUSH, r->stream));
            one_call(r, job.peer == NULL ? r->what[s] : NCCL_SYM, arena_bytes() - 4096, 64,
                     r->filled, 0);
        }
        CUDA(cudaEventRecord(r->mark[2 * i], r->stream));
        for (int l = 0; l < order.launches; l++)
            CUDA(cudaGraphLaunch(r->graph[s], r->stream));
        CUDA(cudaEventRecord(r->mark[2 * i + 1], r->stream));
    }
    CUDA(cudaStreamSynchronize(r->stream));
    if (r->handle != NULL && symtuner_ar_status(r->handle) != ncclSuccess)
        stop(r, "status", symtuner_ar_error(r->handle));
    for (int i = 0; i < order.samples; i++) {
        float ms;

        CUDA(cudaEventElapsedTime(&ms, r->mark[2 * i], r->mark[2 * i + 1]));
        job.us[r->me - job.first][i] = (double)ms * 1000 / (order.launches * r->calls[s]);
    }
}

static void start_peer(struct rank *r)
{
    struct peer_rank *view = &r->view;
    char why[200] = "no reason given";

    *view = (struct peer_rank){.rank = r->me,
                               .ranks = job.ranks,
                               .comm = r->comm,
                               .stream = r->stream,
                               .buffer = {r->buffer[0][0], r->buffer[0][1]},
                               .bytes = arena_bytes()};
    for (int b = 0; b < 2; b++)
        NCCL(ncclCommWindowRegister(r->comm, view->buffer[b], view->bytes, &view->window[b],
                                    NCCL_WIN_COLL_SYMMETRIC));
    if (view->window[0] == NULL || view->window[1] == NULL)
        snprintf(why, sizeof why, "NCCL has no symmetric windows here");
    else
        r->peer = job.peer->create(view, why, sizeof why);
    if (r->peer == NULL)
        stop(r, job.peer->about, why);
}

static void start(struct rank *r)
{
    struct symtuner_ar_config config = {.size = sizeof config,
                                        .timeout_ms = 20000,
                                        .beside = SYMTUNER_AR_ALONE,
                                        .transport =
                                            job.host ? SYMTUNER_AR_HOST : SYMTUNER_AR_AUTO};

    r->filled = -1;
    CUDA(cudaSetDevice(r->me));
    CUDA(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2 * MOST_SAMPLES; i++)
        CUDA(cudaEventCreate(&r->mark[i]));
    r->host = malloc(4096);
    NCCL(ncclCommInitRank(&r->comm, job.ranks, job.id, r->me));
    CUDA(cudaMalloc((void **)&r->flush, FLUSH));
    for (int b = 0; b < (job.peer == NULL ? 4 : 2); b++) {
        if (b < 2)
            NCCL(ncclMemAlloc((void **)&r->buffer[0][b], arena_bytes()));
        else
            CUDA(cudaMalloc((void **)&r->buffer[1][b - 2], arena_bytes()));
    }
    if (job.peer != NULL)
        return start_peer(r);
    if (symtuner_ar_create(&r->handle, &r->comm, 1, &config) != ncclSuccess)
        stop(r, "create", symtuner_ar_error(NULL));
    /* reserve scratch now, because captured calls cannot reserve it */
    if (symtuner_ar_reserve(&r->handle, 1, SIZE_MAX) != ncclSuccess)
        stop(r, "reserve", symtuner_ar_error(r->handle));
    for (int b = 0; b < 2 && !job.host; b++) {
        ncclWindow_t window = NULL;
        void *p = r->buffer[0][b];

        NCCL(ncclCommWindowRegister(r->comm, p, arena_bytes(), &window, NCCL_WIN_COLL_SYMMETRIC));
        if (window == NULL ||
            symtuner_ar_register(&r->handle, &p, &window, 1, arena_bytes()) != ncclSuccess)
            stop(r, "register", symtuner_ar_error(r->handle));
    }
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;

    start(r);
    pthread_barrier_wait(&job.done);
    for (;;) {
        pthread_barrier_wait(&job.meet);
        if (strcmp(order.verb, "prepare") == 0)
            prepare(r);
        else if (strcmp(order.verb, "time") == 0)
            time_it(r);
        for (int s = 0; s < MOST_SLOTS && strcmp(order.verb, "drop") == 0; s++) {
            if (r->graph[s] != NULL)
                CUDA(cudaGraphExecDestroy(r->graph[s]));
            r->graph[s] = NULL;
        }
        pthread_barrier_wait(&job.done);
    }
    return NULL;
}

static void say(const char *text)
{
    if (write(REPLY_FD, text, strlen(text)) < 0 || write(REPLY_FD, "\n", 1) < 0)
        exit(1); /* the write fails if ar_compare has ended */
}

static void say_times(void)
{
    char text[32 * MOST_SAMPLES] = "us";

    for (int i = 0; i < order.samples; i++) {
        double worst = 0;

        for (int k = 0; k < job.local; k++)
            worst = job.us[k][i] > worst ? job.us[k][i] : worst;
        snprintf(text + strlen(text), 32, " %.4f", worst);
    }
    say(text);
}

/* Return the index of ${word} in an array of ${n} rows, or -1 if it is not there. Each row has
 * ${step} bytes and begins with a pointer to its name. */
static int find(const char *word, const void *names, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, *(const char *const *)(const void *)((const char *)names + i * step)) == 0)
            return (int)i;
    return -1;
}

static int understand(const char *line)
{
    char what[32] = "", type[16] = "", op[16] = "";

    if (sscanf(line, "%15s %d %31s %zu %15s %15s %d %d %zu", order.verb, &order.slot, what,
               &order.bytes, type, op, &order.cold, &order.calls, &order.shift) == 9 &&
        strcmp(order.verb, "prepare") == 0) {
        order.what = find(what, what_name, sizeof what_name[0], WHATS);
        order.type = find(type, types, sizeof types[0], sizeof types / sizeof types[0]);
        order.op = find(op, compare_ops, sizeof compare_ops[0], OPS);
        return order.what >= 0 && order.type >= 0 && order.op >= 0 && order.slot < MOST_SLOTS &&
               order.bytes + order.shift <= job.most;
    }
    if (strcmp(order.verb, "time") == 0)
        return sscanf(line, "%*s %d %d %d %d", &order.slot, &order.launches, &order.samples,
                      &order.warmup) == 4 &&
               order.samples <= MOST_SAMPLES;
    return strcmp(order.verb, "drop") == 0;
}

/* Share NCCL's unique id: rank 0 makes it, and ar_compare passes it to the other processes. */
static int share_id(void)
{
    char hex[2 * sizeof job.id + 8] = "";

    if (job.first == 0) {
        NCCL(ncclGetUniqueId(&job.id));
        for (size_t i = 0; i < sizeof job.id; i++)
            snprintf(hex + 2 * i, 3, "%02x", (unsigned char)job.id.internal[i]);
        say(hex);
        return 1;
    }
    if (fgets(hex, sizeof hex, stdin) == NULL)
        return 0;
    for (size_t i = 0; i < sizeof job.id; i++) {
        unsigned byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return 0;
        job.id.internal[i] = (char)byte;
    }
    return 1;
}

int worker_main(int argc, char **argv)
{
    static struct rank ranks[MOST_RANKS];
    pthread_t thread;
    char line[256];

    if (argc != 5 && argc != 6)
        return 2;
    job.ranks = atoi(argv[0]);
    job.first = atoi(argv[1]);
    job.local = atoi(argv[2]);
    job.most = strtoull(argv[3], NULL, 10);
    job.host = atoi(argv[4]);
    if (argc == 6 && (job.peer = peer_load(argv[5])) == NULL)
        return 1;
    if (job.peer != NULL && job.first == 0)
        fprintf(stderr, "ar_compare: %s is %s\n", argv[5], job.peer->about);
    if (job.ranks > MOST_RANKS || !share_id())
        return 2;
    pthread_barrier_init(&job.meet, NULL, (unsigned)job.local + 1);
    pthread_barrier_init(&job.done, NULL, (unsigned)job.local + 1);
    for (int k = 0; k < job.local; k++) {
        ranks[k].me = job.first + k;
        pthread_create(&thread, NULL, run_rank, &ranks[k]);
    }
    pthread_barrier_wait(&job.done);
    say("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (!understand(line)) {
            say("no such command");
            continue;
        }
        snprintf(order.said, sizeof order.said, "ok");
        pthread_barrier_wait(&job.meet);
        pthread_barrier_wait(&job.done);
        if (strcmp(order.verb, "time") == 0)
            say_times();
        else
            say(order.said);
    }
    _exit(0); /* NCCL would take seconds to destroy its communicators, for no benefit */
}
