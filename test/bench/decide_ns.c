/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide_ns.c - times one getCollInfo and one CollApi event of our plugin, and compares them with
 * those of a plugin that does nothing.
 *
 *   decide_ns EMPTY.so LIBSYMTUNER.so [ROUNDS]
 *
 * The plugin reads its options once per process, so every variant (a row of the table) is a copy of
 * the library with a name and state of its own. All variants run in turns in one process on one
 * CPU. In a round each variant gets 2000 single calls, which repeat 64 different calls as a
 * training step would. The time-stamp counter times each call, with fences around the call.
 * The first row times nothing at all; its time is part of every other row. The column "added" is
 * the difference from the plugin that does nothing, so it does not contain the time of the first
 * row. mean90 is the mean of the fastest nine tenths of the calls.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi/profiler.h"
#include "nccl_abi/tuner.h"
#include "test/random.h"

enum { POOL = 64, CALLS = 2000, BINS = 1 << 16, CELLS = 21, BLOCKS = 20 };

/* ---- clock ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t ticks(void)
{
    uint64_t now;

    _mm_lfence();
    now = __rdtsc();
    _mm_lfence();
    return now;
}
#elif defined(__aarch64__)
static inline uint64_t ticks(void)
{
    uint64_t now;

    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(now)::"memory");
    return now;
}
#else
#error "no time-stamp counter is known for this architecture"
#endif

static double wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double ns_per_tick(void)
{
    double start = wall_ns(), end;
    uint64_t first = ticks(), last;

    do {
        end = wall_ns();
        last = ticks();
    } while (end - start < 1e8);
    return (end - start) / (double)(last - first);
}

/* ---- variants ------------------------------------------------------------------------------- */

struct variant {
    const char *name;
    int rules;    /* number of rules; -1: not our plugin */
    int profiler; /* 0: no profiler; 1: time the profiler; 2: only set SYMTUNER_LEDGER */
    nccl_abi_get_coll_info ask;
    nccl_abi_result (*event)(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
    void *ctx;
    unsigned bin[BLOCKS][BINS]; /* histograms: ticks of single calls */
};

static struct variant variants[] = {
    {.name = "nothing (the clock itself)", .rules = -1},
    {.name = "empty plugin, getCollInfo", .rules = -1},
    {.name = "no rules", .rules = 0},
    {.name = "16 rules", .rules = 16},
    {.name = "256 rules", .rules = 256},
    {.name = "256 rules, SYMTUNER_LEDGER set", .rules = 256, .profiler = 2},
    {.name = "empty plugin, CollApi event", .rules = -1, .profiler = 1},
    {.name = "CollApi event, SYMTUNER_LEDGER set", .rules = 0, .profiler = 1},
};
enum { VARIANTS = sizeof variants / sizeof *variants, NOTHING = 0, EMPTY = 1, EMPTY_EVENT = 6 };

/* Write ${count} rules as symtuner tune does: for each of three collectives, one rule for each
 * range of sizes, which prefers the best kernel of that range. Each call of this benchmark matches
 * a rule. */
static void write_rules(const char *path, int count)
{
    static const char *const coll[] = {"allreduce", "allgather", "reducescatter"};
    static const char *const prefer[] = {"general:ring/ll", "general:tree/ll128",
                                         "general:*/simple", "general:ring/simple"};
    FILE *file = fopen(path, "w");

    if (!file)
        exit(1);
    for (int i = 0; i < count; i++) {
        int ranges = (count + 2) / 3, range = i / 3;
        unsigned long long lo = (1ull << 30) / (unsigned)ranges * (unsigned)range;

        fprintf(file, "[rule r%d]\ncoll = %s\nbytes = %llu..", i, coll[i % 3], lo);
        if (range + 1 < ranges)
            fprintf(file, "%llu", (1ull << 30) / (unsigned)ranges * (unsigned)(range + 1) - 1);
        fprintf(file, "\nprefer = %s\n", prefer[i % 4]);
    }
    fclose(file);
}

static void copy_file(const char *from, const char *to)
{
    char buffer[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    ssize_t n;

    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)n) != n)
            break;
    if (in < 0 || out < 0 || n != 0) {
        fprintf(stderr, "decide_ns: cannot copy %s to %s\n", from, to);
        exit(1);
    }
    close(in);
    close(out);
}

static char folder[] = "/tmp/decide_ns-XXXXXX";

static void remove_folder(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "decide_ns: cannot remove %s\n", folder);
}

static void start(struct variant *variant, const char *so)
{
    char path[256], rules[256], ledger[256];
    const struct nccl_abi_tuner_v5 *tuner;
    const struct nccl_abi_profiler_v5 *profiler;
    void *library;
    int mask = 0, wrong = 0;

    snprintf(path, sizeof path, "%s/%d.so", folder, (int)(variant - variants));
    snprintf(rules, sizeof rules, "%s/%d.rules", folder, (int)(variant - variants));
    snprintf(ledger, sizeof ledger, "%s/ledger", folder);
    copy_file(so, path);
    unsetenv("SYMTUNER_RULES");
    unsetenv("SYMTUNER_LEDGER");
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    setenv("SYMTUNER_LOG", "warn", 1);
    if (variant->rules > 0) {
        write_rules(rules, variant->rules);
        setenv("SYMTUNER_RULES", rules, 1);
    }
    if (variant->profiler)
        setenv("SYMTUNER_LEDGER", ledger, 1);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    tuner = library ? dlsym(library, "ncclTunerPlugin_v5") : NULL;
    profiler = library ? dlsym(library, "ncclProfiler_v5") : NULL;
    if (!tuner || !profiler) {
        fprintf(stderr, "decide_ns: %s\n", dlerror());
        exit(1);
    }
    if (variant->profiler == 1) {
        wrong = profiler->init(&variant->ctx, 1, &mask, "", 1, 8, 0, NULL);
        wrong |= !(mask & NCCL_ABI_EV_COLL_API);
        variant->event = profiler->start_event;
    } else {
        /* The plugin uses rules only once all 8 ranks have a tuner. ctx keeps the last tuner. */
        for (int rank = 0; rank < 8; rank++)
            wrong |= tuner->init(&variant->ctx, 1 + (uint64_t)(variant - variants), 8, 1, NULL,
                                 NULL, NULL);
        variant->ask = tuner->get_coll_info;
    }
    if (wrong) {
        fprintf(stderr, "decide_ns: init of \"%s\" failed\n", variant->name);
        exit(1);
    }
}

/* ---- measuring ------------------------------------------------------------------------------ */

static struct {
    int func;
    size_t bytes;
    struct nccl_abi_event_v5 event;
} pool[POOL];
static float costs[CELLS];

static void make_pool(void)
{
    static const char *const name[] = {"AllGather", "ReduceScatter", "AllReduce"};
    struct t_random random = {t_seed()};

    /* NCCL could choose tree and ring with each protocol, and nvls/simple: these entries get a
     * time, and the others get -1. */
    for (int i = 0; i < CELLS; i++)
        costs[i] = i < 6 ? 20.0f + (float)(i * 7 % 5) : i == 14 ? 24.5f : -1.0f;
    for (int i = 0; i < POOL; i++) {
        int coll = t_below(&random, 3);

        pool[i].func = 2 + coll;
        pool[i].bytes = (size_t)(t_next(&random) >> 34) >> t_below(&random, 22);
        pool[i].event.type = NCCL_ABI_EV_COLL_API;
        pool[i].event.u.api = (struct nccl_abi_ev_coll_api){
            name[coll], pool[i].bytes / 4, "ncclFloat32", 0, NULL, false};
    }
}

static void run(struct variant *variant, int round, int block)
{
    float table[CELLS];
    void *handle;

    for (int i = 0; i < CALLS; i++) {
        int at = (i * 37 + round) % POOL, channels = 0;
        uint64_t before, after;

        memcpy(table, costs, sizeof table);
        before = ticks();
        if (variant->event)
            variant->event(variant->ctx, &handle, &pool[at].event);
        else if (variant->ask)
            variant->ask(variant->ctx, pool[at].func, pool[at].bytes, 1, (float **)(void *)table, 7,
                         3, 0, &channels);
        after = ticks();
        __asm__ volatile("" ::"r"(table) : "memory");
        variant->bin[block][after - before < BINS ? after - before : BINS - 1]++;
    }
}

/* Return the ${share} percentile of blocks ${from} to ${to} - 1, in ticks. */
static double percentile(const struct variant *variant, int from, int to, double share)
{
    uint64_t total = 0, seen = 0;

    for (int b = from; b < to; b++)
        for (int t = 0; t < BINS; t++)
            total += variant->bin[b][t];
    for (int t = 0; t < BINS; t++) {
        for (int b = from; b < to; b++)
            seen += variant->bin[b][t];
        if ((double)seen >= share * (double)total)
            return t;
    }
    return BINS;
}

/* Return the mean of the fastest nine tenths, in ticks. Where the clock counts in steps of 10 ns, a
 * median moves by whole steps, but this mean does not. */
static double mean90(const struct variant *variant)
{
    uint64_t total = 0, seen = 0, here;
    double sum = 0;

    for (int b = 0; b < BLOCKS; b++)
        for (int t = 0; t < BINS; t++)
            total += variant->bin[b][t];
    for (int t = 0; t < BINS && seen < total / 10 * 9; t++, seen += here) {
        here = 0;
        for (int b = 0; b < BLOCKS; b++)
            here += variant->bin[b][t];
        if (here > total / 10 * 9 - seen)
            here = total / 10 * 9 - seen;
        sum += (double)here * t;
    }
    return sum / (double)(total / 10 * 9);
}

static void report(double tick)
{
    printf("%-36s %8s %8s %8s %9s %8s %9s   %s\n", "ns per call", "p50", "p99", "p99.9", "added",
           "mean90", "added", "p50 of the blocks");
    for (int v = 0; v < VARIANTS; v++) {
        int base = variants[v].profiler == 1 ? EMPTY_EVENT : EMPTY;
        double p50 = percentile(&variants[v], 0, BLOCKS, 0.5), lo = 1e9, hi = 0;

        for (int b = 0; b < BLOCKS; b++) {
            double block = percentile(&variants[v], b, b + 1, 0.5);

            lo = block < lo ? block : lo;
            hi = block > hi ? block : hi;
        }
        printf("%-36s %8.1f %8.1f %8.1f ", variants[v].name, p50 * tick,
               percentile(&variants[v], 0, BLOCKS, 0.99) * tick,
               percentile(&variants[v], 0, BLOCKS, 0.999) * tick);
        if (v == NOTHING || v == base)
            printf("%9s %8.1f %9s", "", mean90(&variants[v]) * tick, "");
        else
            printf("%+9.1f %8.1f %+9.1f",
                   (p50 - percentile(&variants[base], 0, BLOCKS, 0.5)) * tick,
                   mean90(&variants[v]) * tick,
                   (mean90(&variants[v]) - mean90(&variants[base])) * tick);
        printf("   %.1f .. %.1f\n", lo * tick, hi * tick);
    }
}

static void print_cpu(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            printf("cpu: %s", strchr(line, ':') + 2);
            break;
        }
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    char date[64];
    int rounds = argc > 3 ? atoi(argv[3]) : 500;
    time_t now = time(NULL);
    cpu_set_t one;
    double tick;

    if (argc < 3 || rounds < BLOCKS) {
        fprintf(stderr, "usage: decide_ns EMPTY.so LIBSYMTUNER.so [ROUNDS >= %d]\n", BLOCKS);
        return 2;
    }
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    if (!mkdtemp(folder))
        return 1;
    /* Register this before the plugins are loaded, so that it runs after their exit handlers, which
     * write into the folder. */
    atexit(remove_folder);
    make_pool();
    for (int v = 1; v < VARIANTS; v++)
        start(&variants[v], argv[variants[v].rules < 0 ? 1 : 2]);
    tick = ns_per_tick();
    for (int v = 0; v < VARIANTS; v++) { /* the first round warms up and does not count */
        run(&variants[v], 0, 0);
        memset(variants[v].bin, 0, sizeof variants[v].bin);
    }
    for (int round = 0; round < rounds; round++)
        for (int v = 0; v < VARIANTS; v++)
            run(&variants[(v + round) % VARIANTS], round, round * BLOCKS / rounds);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    printf("decide_ns: %s, %d single calls of each, in turns of %d, %d blocks, tick %.3f ns\n",
           date, rounds * CALLS, CALLS, BLOCKS, tick);
    print_cpu();
    report(tick);
    return 0;
}
