/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the measuring process, with one thread per GPU. The commands tune, bench and doctor
 * start it; users do not.
 *
 *   symtuner worker windows RANKS NCCL|-
 *   symtuner worker measure RANKS NCCL|- MODES COLL LOW HIGH SEED DTYPE [WAYS [BESIDE]]
 *
 * NCCL is a file; "-" means the libnccl.so.2 that the loader finds. LOW and HIGH are NCCL's nBytes;
 * COLL and DTYPE are NCCL's numbers; the operator is sum. The sizes go from LOW to HIGH; each is
 * twice the one before. Each letter of MODES is measured at each size:
 *   g  NCCL on plain buffers, general kernels
 *   s  NCCL on symmetric windows
 *   o  the kernel of libsymtuner_ar.so that the library chooses
 *   k  kernels of libsymtuner_ar.so in several ways (ways.c); WAYS names them
 *
 * `windows` prints "windows real" or "windows null". `measure` prints
 *   nccl RELEASE
 *   floor GBPS             only with mode g; see floor_rate()
 *   plan BYTES WAY RULES   before each line of mode o; RULES: 1 if the user's rules chose the way
 *   MODE BYTES US          for each size and each mode except k
 *   k BYTES WAY US         for each size and way
 *
 * Before the worker times a mode at a size, it fills the output buffer with NaN, makes one call on
 * random data and checks the result. Then it replays a CUDA graph of calls for about 6 ms. Times
 * are those of the slowest rank.
 *
 * With BESIDE, US is what a call adds to the time of GEMMs that run beside it (beside.c). The
 * worker also prints
 *   gemms BYTES US         for each size: how long the GEMMs take without calls
 */
#include "cli/gpu/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "symtuner.h"

enum { CALLS = 20, F16 = 6, F32 = 7, BF16 = 9, SUM = 0, COLL_SYMMETRIC = 1, WINDOW = 1 << 17 };

struct st_job job;

/* Print an error and end the process, which has nothing to save. */
void st_worker_stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why && *why ? why : "failed");
    fflush(NULL);
    _exit(1);
}

void st_worker_cuda(int result, const char *what)
{
    const char *text = NULL;

    if (result) {
        job.cuda.error_text(result, &text);
        st_worker_stop(what, text);
    }
}

void st_worker_nccl(int result, const char *what)
{
    if (result)
        st_worker_stop(what, job.nccl.error_text(result));
}

/* Return element ${i} of the input of ${rank}: an integer below 8, so that sums over 16 ranks are
 * exact in every type. */
static float value(int rank, uint64_t i)
{
    uint64_t x =
        (i + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)rank * 0xbf58476d1ce4e5b9ull + job.seed;

    return (float)((x ^ x >> 29) * 0x94d049bb133111ebull >> 61);
}

/* Write ${f} as element ${i} of ${at}, in the type of the job. bf16 is the upper half of an f32.
 * f16 has a shorter exponent, whose bias is smaller by 112; only normal numbers and 0 occur
 * here. */
static void put(void *at, uint64_t i, float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (job.dtype == F32)
        ((uint32_t *)at)[i] = bits;
    else if (job.dtype == BF16)
        ((uint16_t *)at)[i] = (uint16_t)(bits >> 16);
    else
        ((uint16_t *)at)[i] = (uint16_t)(bits ? (bits - (112u << 23)) >> 13 : 0);
}

static float get(const void *at, uint64_t i)
{
    uint32_t bits = job.dtype == F32 ? ((const uint32_t *)at)[i] : ((const uint16_t *)at)[i];
    float f;

    if (job.dtype == BF16)
        bits <<= 16;
    else if (job.dtype == F16 && bits)
        /* Numbers of the job are finite and not negative, so an f16 from 0x7c00 on counts as
         * NaN. */
        bits = bits >= 0x7c00 ? 0x7fc00000 : (bits << 13) + (112u << 23);
    memcpy(&f, &bits, 4);
    return f;
}

/* Run one call on the kernels of libsymtuner_ar.so. ${part} is the number of elements of one rank's
 * part. */
static void call_own(struct st_rank *r, const char *send, char *recv, size_t count, size_t part)
{
    int result;

    if (job.coll == SYMTUNER_ALLREDUCE)
        result = job.ar.all_reduce(send, recv, count, job.dtype, SUM, r->handle, r->stream);
    else if (job.coll == SYMTUNER_ALLGATHER)
        result = job.ar.all_gather(send, recv, part, job.dtype, r->handle, r->stream);
    else
        result = job.ar.reduce_scatter(send, recv, part, job.dtype, SUM, r->handle, r->stream);
    if (result)
        st_worker_stop("libsymtuner_ar.so", job.ar.error_text(r->handle));
}

void st_worker_call(struct st_rank *r, char mode, uint64_t bytes)
{
    int side = mode != 'g';
    size_t count = bytes / (size_t)job.size, part = count / (size_t)job.ranks;
    char *send = r->send[side], *recv = r->recv[side];

    if (mode == 'o' || mode == 'k')
        call_own(r, send, recv, count, part);
    else if (job.coll == SYMTUNER_ALLREDUCE)
        NCCL(all_reduce, send, recv, count, job.dtype, SUM, r->comm, r->stream);
    else if (job.coll == SYMTUNER_ALLGATHER)
        NCCL(all_gather, send, recv, part, job.dtype, r->comm, r->stream);
    else
        NCCL(reduce_scatter, send, recv, part, job.dtype, SUM, r->comm, r->stream);
}

static float expected(const struct st_rank *r, uint64_t i, uint64_t part)
{
    float sum = 0;

    if (job.coll == SYMTUNER_ALLGATHER)
        return value((int)(i / part), i % part);
    if (job.coll == SYMTUNER_REDUCESCATTER)
        i += (uint64_t)r->rank * part;
    for (int k = 0; k < job.ranks; k++)
        sum += value(k, i);
    return sum;
}

/* Fill the plain send buffer and the send window with the same random input. */
static void fill(const struct st_rank *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        put(r->host, i, value(r->rank, i));
    for (int side = 0; side < 2; side++)
        if (r->send[side])
            CUDA(to_device, (st_address)(uintptr_t)r->send[side], r->host,
                 count * (uint64_t)job.size);
}

/* Run a call and check its result: of a large result the head, the middle and the tail. */
void st_worker_check(struct st_rank *r, char mode, uint64_t bytes)
{
    uint64_t size = (uint64_t)job.size, count = bytes / size, part = count / (uint64_t)job.ranks;
    uint64_t out = job.coll == SYMTUNER_REDUCESCATTER ? part
                   : job.coll == SYMTUNER_ALLGATHER   ? part * (uint64_t)job.ranks
                                                      : count;
    uint64_t piece = out < WINDOW ? out : WINDOW;
    st_address recv = (st_address)(uintptr_t)r->recv[mode != 'g'];
    char text[80];

    CUDA(fill, recv, 0xff, out * size); /* all elements become NaN */
    CUDA(synchronize);
    pthread_barrier_wait(&job.barrier);
    st_worker_call(r, mode, bytes);
    CUDA(stream_wait, r->stream);
    for (int third = 0; third < (out > WINDOW ? 3 : 1); third++) {
        uint64_t from = third == 0 ? 0 : third == 1 ? out / 2 - piece / 2 : out - piece;
        char *got = r->host + job.high; /* ${host} has the input first, then what we read back */

        CUDA(to_host, got, recv + from * size, piece * size);
        for (uint64_t i = 0; i < piece; i++)
            if (get(got, i) != expected(r, from + i, part)) {
                snprintf(text, sizeof text, "element %llu of rank %d, %llu bytes, mode %c",
                         (unsigned long long)(from + i), r->rank, (unsigned long long)bytes, mode);
                st_worker_stop("wrong result", text);
            }
    }
    pthread_barrier_wait(&job.barrier);
}

double st_worker_slowest(struct st_rank *r, double us)
{
    double worst = 0;

    job.us[r->rank] = us;
    pthread_barrier_wait(&job.barrier);
    for (int k = 0; k < job.ranks; k++)
        worst = job.us[k] > worst ? job.us[k] : worst;
    pthread_barrier_wait(&job.barrier);
    return worst;
}

double st_worker_time(struct st_rank *r, char mode, uint64_t bytes, double least_us)
{
    int calls = bytes > 16 << 20 ? 4 : CALLS, launches = 1;
    void *graph, *exec;
    double worst = 0;

    CUDA(capture_begin, r->stream, 1); /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */
    for (int i = 0; i < calls; i++)
        st_worker_call(r, mode, bytes);
    CUDA(capture_end, r->stream, &graph);
    CUDA(graph_make, &exec, graph, 0);
    for (int pass = 0; pass < 3; pass++) { /* warm up, find the number of launches, measure */
        float ms;

        CUDA(stream_wait, r->stream);
        pthread_barrier_wait(&job.barrier);
        CUDA(event_record, r->start, r->stream);
        for (int i = 0; i < launches; i++)
            CUDA(graph_launch, exec, r->stream);
        CUDA(event_record, r->stop, r->stream);
        CUDA(stream_wait, r->stream);
        CUDA(event_elapsed, &ms, r->start, r->stop);
        worst = st_worker_slowest(r, (double)ms * 1000 / (launches * calls));
        if (pass == 1)
            launches = worst * calls > least_us ? 1 : (int)(least_us / (worst * calls + 0.01)) + 1;
    }
    CUDA(graph_exec_free, exec);
    CUDA(graph_free, graph);
    return worst;
}

/* Print the "plan" line: what the library would run, and whether a rule chose it. */
static void print_plan(struct st_rank *r, uint64_t bytes)
{
    struct symtuner_ar_plan plan;
    char way[ST_WAY_SIZE];

    if (st_worker_plan(r, bytes, &plan, way))
        printf("plan %llu %s %d\n", (unsigned long long)bytes, way,
               strncmp(plan.why, "rules: ", 7) == 0);
}

/* Print the rate in GB/s of a copy by the copy engine from rank 0 to rank 1. It is an upper bound:
 * we expect no collective to send its bytes faster. */
static void floor_rate(struct st_rank *r)
{
    struct st_rank *other = &job.rank[1];
    uint64_t bytes = job.high < 64 << 20 ? job.high : 64 << 20;
    double best = 0;
    float ms;

    job.cuda.enable_peer(other->context, 0); /* without peer access the copy uses host memory */
    for (int i = 0; i < 4; i++) {
        CUDA(event_record, r->start, r->stream);
        CUDA(copy_peer, (st_address)(uintptr_t)other->recv[0], other->context,
             (st_address)(uintptr_t)r->send[0], r->context, bytes, r->stream);
        CUDA(event_record, r->stop, r->stream);
        CUDA(stream_wait, r->stream);
        CUDA(event_elapsed, &ms, r->start, r->stop);
        if (ms > 0 && (double)bytes / (double)ms / 1e6 > best)
            best = (double)bytes / (double)ms / 1e6;
    }
    printf("floor %.2f\n", best);
}

static bool windows(struct st_rank *r)
{
    NCCL(alloc, (void **)&r->send[1], job.high);
    NCCL(alloc, (void **)&r->recv[1], job.high);
    NCCL(window, r->comm, r->send[1], job.high, &r->window[0], COLL_SYMMETRIC);
    NCCL(window, r->comm, r->recv[1], job.high, &r->window[1], COLL_SYMMETRIC);
    return r->window[0] && r->window[1];
}

static void start(struct st_rank *r)
{
    CUDA(device_get, &r->device, r->rank);
    CUDA(context_retain, &r->context, r->device);
    CUDA(context_set, r->context);
    if (*job.beside) /* a higher priority than the GEMMs get, as in frameworks */
        CUDA(stream_first, &r->stream, 1, -1);
    else
        CUDA(stream_create, &r->stream, 1);
    CUDA(event_create, &r->start, 0);
    CUDA(event_create, &r->stop, 0);
    NCCL(comm_init, &r->comm, job.ranks, job.id, r->rank);
}

static void prepare(struct st_rank *r)
{
    for (int i = 0; i < 2 && strchr(job.modes, 'g'); i++) {
        st_address at;

        CUDA(alloc, &at, job.high);
        *(i ? &r->recv[0] : &r->send[0]) = (char *)(uintptr_t)at;
    }
    r->host = malloc(job.high + (size_t)(WINDOW * job.size) + 64);
    if (!r->host)
        st_worker_stop("host memory", "out of memory");
    if (strpbrk(job.modes, "sok") && !windows(r))
        st_worker_stop("window",
                       "NCCL gave a NULL window: no symmetric memory here (symtuner doctor)");
    if (job.own) {
        if (job.ar.create(&r->handle, &r->comm, 1, NULL))
            st_worker_stop("symtuner_ar_create", job.ar.error_text(NULL));
        if (job.ar.reserve(&r->handle, 1, SIZE_MAX)) /* captured calls cannot reserve scratch */
            st_worker_stop("symtuner_ar_reserve", job.ar.error_text(r->handle));
        for (int i = 0; i < 2; i++) {
            void *buffer = i ? r->recv[1] : r->send[1];

            if (job.ar.add_buffers(&r->handle, &buffer, &r->window[i], 1, job.high))
                st_worker_stop("symtuner_ar_register", job.ar.error_text(r->handle));
        }
    }
    if (*job.beside)
        st_worker_gemms_start(r);
    fill(r, job.high / (uint64_t)job.size /
                (uint64_t)(job.coll == SYMTUNER_ALLGATHER ? job.ranks : 1));
    CUDA(synchronize);
}

static void *run_rank(void *argument)
{
    struct st_rank *r = argument;
    int release = 0;

    start(r);
    if (!job.measure) {
        bool real = windows(r);

        if (r->rank == 0)
            printf("windows %s\n", real ? "real" : "null");
        return NULL; /* tearing down might hang, and the process ends anyway */
    }
    prepare(r);
    pthread_barrier_wait(&job.barrier);
    if (r->rank == 0) {
        NCCL(version, &release);
        printf("nccl %d\n", release);
        if (r->send[0] && !*job.beside)
            floor_rate(r);
    }
    pthread_barrier_wait(&job.barrier);
    for (uint64_t bytes = job.low; bytes <= job.high; bytes *= 2) {
        if (*job.beside) {
            st_worker_beside(r, bytes);
            continue;
        }
        for (const char *mode = job.modes; *mode; mode++) {
            double us;

            if (*mode == 'k') {
                st_worker_ways(r, bytes);
                continue;
            }
            if (*mode == 'o' && r->rank == 0)
                print_plan(r, bytes);
            st_worker_check(r, *mode, bytes);
            us = st_worker_time(r, *mode, bytes, 6000);
            if (r->rank == 0)
                printf("%c %llu %.3f\n", *mode, (unsigned long long)bytes, us);
        }
    }
    if (job.own)
        job.ar.destroy(&r->handle, 1);
    for (int i = 0; i < 2 && r->window[i]; i++)
        NCCL(window_free, r->comm, r->window[i]);
    NCCL(comm_free, r->comm);
    return NULL;
}

int st_cmd_worker(int argc, char **argv)
{
    pthread_t thread[ST_RANKS_MAX];
    char error[400];
    int gpus = 0;

    job.measure = argc >= 10 && argc <= 12 && strcmp(argv[1], "measure") == 0;
    if (!job.measure && !(argc == 4 && strcmp(argv[1], "windows") == 0))
        return st_fail(ST_EXIT_USAGE, "symtuner worker is started by tune, bench and doctor\n");
    job.ranks = atoi(argv[2]);
    if (job.measure) {
        job.modes = argv[4];
        job.coll = atoi(argv[5]);
        job.low = strtoull(argv[6], NULL, 10);
        job.high = strtoull(argv[7], NULL, 10);
        job.seed = (unsigned)strtoul(argv[8], NULL, 10);
        job.dtype = atoi(argv[9]);
        job.size = job.dtype == F32 ? 4 : 2;
        job.ways = argc > 10 ? argv[10] : "";
        job.beside = argc > 11 ? argv[11] : "";
        job.own = strpbrk(job.modes, "ok") != NULL;
    } else {
        job.modes = job.beside = "";
        job.high = 4 << 20;
    }
    if (job.ranks < 2 || job.ranks > ST_RANKS_MAX || job.low > job.high ||
        (job.measure &&
         (job.low < 64 || (job.dtype != F16 && job.dtype != F32 && job.dtype != BF16))))
        return ST_EXIT_USAGE;
    if (!st_cuda_load(&job.cuda, &gpus, error, sizeof error) ||
        !st_nccl_load(&job.nccl, strcmp(argv[3], "-") == 0 ? NULL : argv[3], error, sizeof error) ||
        (job.own && !st_ar_load(&job.ar, error, sizeof error)) ||
        (*job.beside && !st_cublas_load(&job.cublas, &job.cuda, error, sizeof error)))
        return st_fail(ST_EXIT_CANNOT, "%s\n", error);
    if (gpus < job.ranks)
        return st_fail(ST_EXIT_CANNOT, "%d GPUs asked for, %d here\n", job.ranks, gpus);
    setenv("SYMTUNER_AR_BESIDE", *job.beside ? "compute" : "alone", 0);
    NCCL(unique_id, &job.id);
    pthread_barrier_init(&job.barrier, NULL, (unsigned)job.ranks);
    for (int k = 0; k < job.ranks; k++) {
        job.rank[k].rank = k;
        if (pthread_create(&thread[k], NULL, run_rank, &job.rank[k]) != 0)
            st_worker_stop("pthread_create", "failed");
    }
    for (int k = 0; k < job.ranks; k++)
        pthread_join(thread[k], NULL);
    fflush(NULL);
    _exit(0); /* do not run the destructors of NCCL and CUDA */
}
