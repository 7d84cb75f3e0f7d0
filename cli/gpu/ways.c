/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways.c - mode k of "symtuner worker" (worker.c): measures symtuner's kernels in several ways. A
 * way is a kernel with a number of CTAs and of threads, "KERNEL/CTAS/THREADS".
 *
 * If the caller names the ways of a size, the worker measures these ways. Otherwise it measures the
 * way that libsymtuner_ar.so would choose, and the best few ways that a search finds. The search
 * briefly times every kernel that can run the call, with the CTAs and threads that the library
 * would choose for that kernel. Then it briefly times the fastest kernels with half or twice as
 * many CTAs, with half or twice as many threads, and with one of the two numbers doubled and the
 * other halved. Multicast kernels are left out: they run only where a rule or a variable asks for
 * them. Kernels engines and tma_engines are for calls beside computation. They are left out when
 * the worker measures calls alone. When it measures calls beside GEMMs, the search also times every
 * kernel with few CTAs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gpu/worker.h"
#include "symtuner.h"

enum {
    /* The most CTAs of a way, as in the library's table (kernels/choose/rows.c). With this limit a
     * few SMs of the largest GPUs stay free. A kernel on all SMs is a risk: if another kernel kept
     * one of our CTAs from starting, every rank would wait for that CTA. */
    MOST_CTAS = 128,
    LOOKED_AT = 64, /* the most ways that are timed briefly                           */
    REFINED = 3,    /* kernels that are also timed with other CTA and thread counts   */
    KEPT = 3,       /* ways that are measured in full, besides the library's choice   */
    PIECES = 4,     /* a kernel that cuts the message into more pieces is left out    */
    SUM = 0
};
static const double look_us = 1500;  /* how long a brief timing takes, in microseconds */
/* A kernel that takes more than ${hopeless} times as long as the best is not timed with other CTA
 * and thread counts. */
static const double hopeless = 1.25;
/* The same as ${hopeless}, for times beside GEMMs (st_worker_beside_us). It is smaller, because the
 * calls are only a small part of these times. */
static const double hopeless_beside = 1.03;
static const int few_ctas = 16;

struct way {
    char name[ST_WAY_SIZE];
    double us;
    bool base; /* the search may try half and twice its CTAs and threads */
};

bool st_worker_plan(struct st_rank *r, uint64_t bytes, struct symtuner_ar_plan *plan,
                    char way[ST_WAY_SIZE])
{
    const int coll = job.coll == SYMTUNER_ALLREDUCE   ? SYMTUNER_AR_ALL_REDUCE
                     : job.coll == SYMTUNER_ALLGATHER ? SYMTUNER_AR_ALL_GATHER
                                                      : SYMTUNER_AR_REDUCE_SCATTER;
    size_t count = bytes / (size_t)job.size;

    if (coll != SYMTUNER_AR_ALL_REDUCE)
        count /= (size_t)job.ranks;
    *plan = (struct symtuner_ar_plan){.size = sizeof *plan};
    if (job.ar.query(coll, r->send[1], r->recv[1], count, job.dtype, SUM, r->handle, plan) != 0)
        return false;
    snprintf(way, ST_WAY_SIZE, "%.24s/%d/%d", plan->kernel, plan->ctas, plan->threads);
    return true;
}

static void force(struct st_rank *r, const char *kernel, int ctas, int threads)
{
    if (job.ar.force(r->handle, kernel, ctas, threads) != 0)
        st_worker_stop("symtuner_ar_force", job.ar.error_text(r->handle));
}

void st_worker_force_way(struct st_rank *r, const char *way)
{
    char kernel[25];
    int ctas, threads;

    if (!way)
        force(r, NULL, 0, 0);
    else if (sscanf(way, "%24[a-z0-9_]/%d/%d", kernel, &ctas, &threads) != 3)
        st_worker_stop("not a way to run a kernel", way);
    else
        force(r, kernel, ctas, threads);
}

/* Time a way briefly and add it to ${ways}, unless it is there already or cuts the message into too
 * many pieces. The name in ${ways} has the CTAs and threads that the library runs, which may be
 * fewer than ${ctas} and ${threads}. */
static void look(struct st_rank *r, uint64_t bytes, const char *kernel, int ctas, int threads,
                 struct way *ways, int *n)
{
    struct symtuner_ar_plan plan;
    struct way *way = &ways[*n];

    force(r, kernel, ctas, threads);
    if (*n == LOOKED_AT || !st_worker_plan(r, bytes, &plan, way->name) || plan.pieces > PIECES)
        return;
    for (int i = 0; i < *n; i++)
        if (strcmp(ways[i].name, way->name) == 0)
            return;
    way->base = ctas == 0 || (*job.beside && ctas == few_ctas);
    way->us =
        *job.beside ? st_worker_beside_us(r, 'k', bytes) : st_worker_time(r, 'k', bytes, look_us);
    ++*n;
}

static int by_time(const void *a, const void *b)
{
    const struct way *x = a, *y = b;

    return x->us != y->us ? (x->us > y->us) - (x->us < y->us) : strcmp(x->name, y->name);
}

/* Fill ${names} with the library's own choice and then with the best other ways. Returns the number
 * of names. */
static int search(struct st_rank *r, uint64_t bytes, char names[][ST_WAY_SIZE])
{
    struct way ways[LOOKED_AT + 1];
    struct symtuner_ar_plan plan;
    int n = 0, bases, kept = 1;
    const char *kernel;

    force(r, NULL, 0, 0);
    if (!st_worker_plan(r, bytes, &plan, names[0]))
        st_worker_stop("symtuner_ar_query", job.ar.error_text(r->handle));
    for (int k = 0; (kernel = job.ar.kernel_name(k)); k++)
        if (strcmp(kernel, "nccl") != 0 && strncmp(kernel, "nvls", 4) != 0 &&
            (*job.beside ||
             (strcmp(kernel, "engines") != 0 && strcmp(kernel, "tma_engines") != 0))) {
            look(r, bytes, kernel, 0, 0, ways, &n);
            if (*job.beside)
                look(r, bytes, kernel, few_ctas, 0, ways, &n);
        }
    if (strncmp(names[0], "nccl", 4) != 0) {
        char table[25];

        snprintf(table, sizeof table, "%.24s", plan.kernel);
        look(r, bytes, table, plan.ctas, plan.threads, ways, &n);
    }
    qsort(ways, (size_t)n, sizeof *ways, by_time);
    bases = n;
    for (int i = 0, refined = 0; i < bases && refined < REFINED; i++) {
        char name[25];
        int ctas, threads;

        if (!ways[i].base || ways[i].us > (*job.beside ? hopeless_beside : hopeless) * ways[0].us ||
            sscanf(ways[i].name, "%24[a-z0-9_]/%d/%d", name, &ctas, &threads) != 3)
            continue;
        refined++;
        for (int c = 0; c < 3; c++)
            for (int t = 0; t < 3; t++) {
                int blocks = c == 0 ? ctas : c == 1 ? ctas * 2 : (ctas + 1) / 2;
                int size = t == 0 ? threads : t == 1 ? threads * 2 : threads / 2;

                if (c && t && c == t) /* do not double both, or halve both */
                    continue;
                look(r, bytes, name, blocks > MOST_CTAS ? MOST_CTAS : blocks,
                     size > 1024 ? 1024
                     : size < 32 ? 32
                                 : size,
                     ways, &n);
            }
    }
    qsort(ways, (size_t)n, sizeof *ways, by_time);
    for (int i = 0; i < n && kept <= KEPT; i++)
        if (strcmp(ways[i].name, names[0]) != 0)
            memcpy(names[kept++], ways[i].name, ST_WAY_SIZE);
    return kept;
}

/* Fill ${names} with the ways that ${list} names for size ${bytes}. Returns the number of names. */
static int given(const char *list, uint64_t bytes, char names[][ST_WAY_SIZE], int most)
{
    int n = 0;

    for (const char *at = list; *at && n < most; at += strcspn(at, ","), at += *at == ',') {
        unsigned long long size;
        int length = 0;

        if (sscanf(at, "%llu:%n", &size, &length) != 1 || length == 0)
            st_worker_stop("not a list of ways", at);
        if (size == bytes)
            snprintf(names[n++], ST_WAY_SIZE, "%.*s", (int)strcspn(at + length, ","), at + length);
    }
    return n;
}

int st_worker_names(struct st_rank *r, uint64_t bytes, char names[ST_WORKER_WAYS][ST_WAY_SIZE])
{
    char more[ST_WORKER_WAYS - KEPT - 1][ST_WAY_SIZE];
    int n, known;

    if (*job.ways && *job.ways != '+')
        return given(job.ways, bytes, names, ST_WORKER_WAYS);
    n = search(r, bytes, names);
    known = *job.ways ? given(job.ways + 1, bytes, more, ST_WORKER_WAYS - KEPT - 1) : 0;
    for (int i = 0, at; i < known; i++) {
        for (at = 0; at < n && strcmp(names[at], more[i]) != 0; at++)
            ;
        if (at == n)
            memcpy(names[n++], more[i], ST_WAY_SIZE);
    }
    return n;
}

void st_worker_ways(struct st_rank *r, uint64_t bytes)
{
    char names[ST_WORKER_WAYS][ST_WAY_SIZE];
    double us[ST_WORKER_WAYS];
    int n = st_worker_names(r, bytes, names);

    for (int i = 0; i < n; i++) {
        int w = (i + (int)(job.seed % 16)) % n; /* which way is timed first depends on the seed */

        st_worker_force_way(r, names[w]);
        st_worker_check(r, 'k', bytes);
        us[w] = st_worker_time(r, 'k', bytes, 6000);
    }
    force(r, NULL, 0, 0);
    for (int i = 0; i < n && r->rank == 0; i++)
        printf("k %llu %s %.3f\n", (unsigned long long)bytes, names[i], us[i]);
}
