/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.c - makes random calls on real GPUs. The GPU checks every byte of every result.
 *
 *   ar_fuzz [--ranks N] [--mode local|threads|procs] [--calls 100000] [--seed N] [--kernel NAME]
 *           [--host 0|1] [--gpus N] [--most BYTES] [--timeout MS] [--limit SECONDS] [--say 0|1]
 *           [--fork 0|1] [--nonblocking 0|1] [--reserve 0|1] [--threads MOST]
 *           [--coll all|all_reduce|reduce_scatter|all_gather] [--created 0|1]
 *
 * --mode local makes groups with symtuner_ar_create_local and runs a thread per rank. --mode
 * threads and procs make groups from an ncclComm_t and run threads of one process, or one process
 * per rank. --gpus: use fewer GPUs than ranks, so that ranks share them. This needs --mode local,
 * and --most 4194304, because a longer call may need more launches than CUDA queues. --fork 0: run
 * the threads in this process, for tools that do not follow a fork. --nonblocking 1: make
 * communicators with blocking = 0, and pass them to the library while NCCL is still making them.
 * --threads: most threads of a block, for GPUs on the CPU (test/whole/cuda.c). --created 1: take
 * the memory of plain buffers by cuMemCreate, as XLA does.
 * The library allocates a part of its scratch memory at the first call that needs this part. At a
 * random step all ranks reserve all parts, and from that step on they capture graphs. With
 * --reserve 0 no rank reserves scratch, and graphs are captured from the start. If a capture needs
 * a part that does not exist yet, the library never allocates this part.
 *
 * These are drawn at random, and are the same on all ranks: collective, type, operator (also
 * PreMulSum), count, placement (plain or registered buffers, in place, and with --mode local also
 * calls that pass the addresses of all ranks), alignment (in plain buffers it differs by rank),
 * stream, one call or up to 4 in a row, eager or captured (up to 4 graphs at a time, of 1 to 28
 * calls, replayed in any order), kernel, blocks and threads. Each rank draws for itself: pauses
 * before a call, and kernels that occupy SMs. fuzz.h says how a rank checks a call. Besides, all
 * ranks must get the same bytes, except in a reduce-scatter.
 *
 * The phases are: everything mixed; the library's call counters cross 2^32; these counters start
 * just below the last value that symtuner_ar_create() accepts; a handle made for one stream but
 * used on several; two groups on the same GPUs at the same time. In the last phase calls have few
 * blocks, so that the kernels of both groups fit on a GPU together. Otherwise the ranks could wait
 * for each other for ever. New scratch memory is full of NaN, except flags and the words of LL8 and
 * LL128, because config.first_epoch is set (kernels/scratch/arena.c).
 *
 * The last line counts the calls by kernel. The run fails if no call ran a kernel of ours. With
 * --kernel it fails if that kernel did not run. The transport is peer memory unless --host or
 * SYMTUNER_AR_TRANSPORT says otherwise. Exit 0: all right. 1: wrong. 77: cannot run here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/gpu/ar/fuzz_rank.h"
#include "test/gpu/ipc/created.h"

/* BATCH: how many steps a rank makes before it waits for its streams and checks the results.
 * BATCH_SHARED: the same for ranks that share a GPU. When about 1000 launches are queued on a
 * stream, the next launch waits. Ranks that share a GPU share a CUDA context, so a launch that
 * waits may block the other ranks' launches, although all ranks wait for one of those. */
enum { BATCH = 400, BATCH_SHARED = 4, REPLAYS_MOST = 6 };

static const struct phase {
    const char *name;
    int percent, groups;
    uint64_t first_epoch;
    int one_stream;
} phases[] = {
    {"mixture", 75, 1, 1, 0},
    {"counters cross 2^32", 5, 1, ((uint64_t)1 << 32) - 200, 0},
    {"counters at their end", 5, 1, ((uint64_t)1 << 38) - 200, 0},
    {"one stream, then several", 5, 1, 1, 1},
    {"two groups at once", 10, 2, 1, 0},
};

struct team *team;
char *buffer_of[2][2][MOST_RANKS];
static symtuner_ar *handle_of[2][MOST_RANKS]; /* [group][rank]; only for threads of one process */

/* ---- groups ---------------------------------------------------------------------------------- */

/* Make a PreMulSum operator for each type, with this rank's weight. Odd ranks pass the weight in
 * device memory, even ranks in host memory. */
static void make_operators(struct rank *r, int g)
{
    static const struct {
        uint64_t bits[3]; /* the bits of the numbers 1, 2 and 3 in this type */
    } types[TYPES] = {
        {{1, 2, 3}},
        {{1, 2, 3}},
        {{1, 2, 3}},
        {{1, 2, 3}},
        {{1, 2, 3}},
        {{1, 2, 3}},
        {{0x3c00, 0x4000, 0x4200}},
        {{0x3f800000, 0x40000000, 0x40400000}},
        {{0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000}},
        {{0x3f80, 0x4000, 0x4040}},
        {{0x38, 0x40, 0x44}},
        {{0x3c, 0x40, 0x42}},
    };

    if (r->weights == NULL)
        CUDA(cudaMalloc(&r->weights, TYPES * sizeof(uint64_t)));
    for (int type = 0; type < TYPES; type++) {
        uint64_t bits = types[type].bits[fuzz_weight(r->me) - 1];
        char *there = (char *)r->weights + (size_t)type * sizeof bits;

        CUDA(cudaMemcpy(there, &bits, sizeof bits, cudaMemcpyHostToDevice));
        AR(symtuner_ar_op_create_premul_sum(
               &r->premul[g][type], r->me % 2 ? there : (void *)&bits, (ncclDataType_t)type,
               r->me % 2 ? ncclScalarDevice : ncclScalarHostImmediate, r->handle[g]),
           r->handle[g]);
    }
}

static void make_group(struct rank *r, int g, const struct phase *phase)
{
    struct symtuner_ar_config config = {
        .size = sizeof config,
        .timeout_ms = (uint32_t)option.timeout,
        .first_epoch = phase->first_epoch,
        .one_stream = phase->one_stream && option.gpus == option.ranks,
        .bulk_bytes = (size_t)48 << 20,
        .beside = SYMTUNER_AR_ALONE, /* otherwise NCCL would run the long calls */
        /* PEER fails where the GPUs have no peer access; AUTO would use host memory there. With
         * AUTO the library obeys SYMTUNER_AR_TRANSPORT. */
        .transport = option.host                               ? SYMTUNER_AR_HOST
                     : getenv("SYMTUNER_AR_TRANSPORT") != NULL ? SYMTUNER_AR_AUTO
                                                               : SYMTUNER_AR_PEER};
    int devices[MOST_RANKS];

    if (!option.local) {
        AR(symtuner_ar_create(&r->handle[g], &r->comm[g], 1, &config), NULL);
    } else {
        for (int i = 0; i < option.ranks; i++)
            devices[i] = i % option.gpus;
        if (r->me == 0)
            AR(symtuner_ar_create_local(handle_of[g], devices, option.ranks, &config), NULL);
        team_meet(team);
        r->handle[g] = handle_of[g][r->me];
        CUDA(cudaSetDevice(r->me % option.gpus));
    }
    make_operators(r, g);
    for (int role = 0; role < 2; role++) {
        void *p = r->buffer[1][role];

        if (!option.local) {
            AR(symtuner_ar_register(&r->handle[g], &p, NULL, 1, LANES * LANE_BYTES), r->handle[g]);
            continue;
        }
        if (r->me == 0)
            AR(symtuner_ar_register(handle_of[g], (void *const *)buffer_of[1][role], NULL,
                                    option.ranks, LANES * LANE_BYTES),
               handle_of[g][0]);
        team_meet(team);
    }
}

/* With SYMTUNER_AR_IPC=1 kernels access the peers' plain buffers directly. Then print how many
 * calls did so, and how many went through scratch instead. */
static void tell_mapped(struct rank *r, int g)
{
    static char text[16384];
    const char *line;

    symtuner_ar_describe(r->handle[g], text, sizeof text);
    line = strstr(text, "unregistered buffers:");
    if (line != NULL)
        printf("  group %d, %.*s\n", g, (int)strcspn(line, "\n"), line);
}

static void end_group(struct rank *r, int g)
{
    if (r->me == 0)
        tell_mapped(r, g);
    for (int type = 0; type < TYPES; type++)
        AR(symtuner_ar_op_destroy(r->premul[g][type], r->handle[g]), r->handle[g]);
    for (int role = 0; role < 2 && !option.local; role++) {
        void *p = r->buffer[1][role];

        AR(symtuner_ar_deregister(&r->handle[g], &p, 1), r->handle[g]);
    }
    team_meet(team);
    if (!option.local)
        AR(symtuner_ar_destroy(&r->handle[g], 1), NULL);
    else if (r->me == 0)
        AR(symtuner_ar_destroy(handle_of[g], option.ranks), NULL);
    team_meet(team);
    CUDA(cudaSetDevice(r->me % option.gpus));
}

static void reserve(struct rank *r, int g)
{
    if (!option.local) {
        AR(symtuner_ar_reserve(&r->handle[g], 1, SIZE_MAX), r->handle[g]);
        return;
    }
    team_meet(team);
    if (r->me == 0)
        AR(symtuner_ar_reserve(handle_of[g], option.ranks, SIZE_MAX), handle_of[g][0]);
    team_meet(team);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Make stream ${to} wait for all work that is queued on the other streams of the first group. */
static void gather_lanes(struct rank *r, int to)
{
    for (int l = 0; l < LANES - 1; l++)
        if (l != to) {
            CUDA(cudaEventRecord(r->event, r->stream[l]));
            CUDA(cudaStreamWaitEvent(r->stream[to], r->event, 0));
        }
}

/* Make the other streams of the first group wait for stream ${from}. */
static void spread_lane(struct rank *r, int from)
{
    CUDA(cudaEventRecord(r->event, r->stream[from]));
    for (int l = 0; l < LANES - 1; l++)
        if (l != from)
            CUDA(cudaStreamWaitEvent(r->stream[l], r->event, 0));
}

/* If ranks share a GPU, wait until all ranks are idle. Such ranks share a CUDA context. Some calls
 * of CUDA, such as the first launch of a graph, hold the context while they wait for the GPU. If
 * one rank made such a call while a kernel of its peer waited for this rank's next launch, both
 * ranks would wait for ever. */
static void wait_for_all(struct rank *r)
{
    if (option.gpus == option.ranks)
        return;
    for (int l = 0; l < LANES; l++)
        CUDA(cudaStreamSynchronize(r->stream[l]));
    team_meet(team);
}

static void capture(struct rank *r, int slot)
{
    cudaGraph_t graph;
    int steps = 1 + (int)fuzz_draw(&r->common, 7), calls = 0;

    wait_for_all(r);
    if (r->graph[slot] != NULL) {
        CUDA(cudaStreamSynchronize(r->stream[0]));
        CUDA(cudaGraphExecDestroy(r->graph[slot]));
    }
    CUDA(cudaStreamBeginCapture(r->stream[0], cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < steps; i++)
        calls += fuzz_call_some(r, 0, 1, 0);
    CUDA(cudaStreamEndCapture(r->stream[0], &graph));
    CUDA(cudaGraphInstantiate(&r->graph[slot], graph, 0));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphUpload(r->graph[slot], r->stream[0]));
    wait_for_all(r);
    r->graph_calls[slot] = calls;
}

static void replay(struct rank *r, int slot)
{
    int times = 1 + (int)fuzz_draw(&r->common, REPLAYS_MOST);

    gather_lanes(r, 0);
    for (int i = 0; i < times; i++)
        CUDA(cudaGraphLaunch(r->graph[slot], r->stream[0]));
    spread_lane(r, 0);
    r->issued += (long)times * r->graph_calls[slot];
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Fetch the results that the kernels on stream ${l} have recorded since the last fetch. Returns the
 * number of calls that were verified on this stream so far. */
static unsigned long long fetch_lane(struct rank *r, int l)
{
    unsigned long long counter, first = r->seen[l] % FUZZ_RING, n;

    CUDA(cudaMemcpy(&counter, &r->lane[l]->counter, sizeof counter, cudaMemcpyDeviceToHost));
    n = counter - r->seen[l];
    if (n > FUZZ_RING)
        team_fail(team, "rank %d: %llu calls since the last look, room for %d", r->me, n,
                  FUZZ_RING);
    for (unsigned long long done = 0; done < n;) { /* copy in two parts at the end of the ring */
        unsigned long long some = FUZZ_RING - first < n - done ? FUZZ_RING - first : n - done;
        struct fuzz_record *there = r->lane[l]->record + first;

        CUDA(cudaMemcpy(r->record[l] + first, there, some * sizeof *there, cudaMemcpyDeviceToHost));
        CUDA(cudaMemset(there, 0, some * sizeof *there));
        done += some;
        first = 0;
    }
    for (unsigned long long k = r->seen[l]; k < counter; k++) {
        const struct fuzz_record *p = &r->record[l][k % FUZZ_RING];

        if (p->wrong != 0)
            team_fail(team, "WRONG: rank %d of %d, %u elements, e.g. %lld is %llx, not %llx: %s",
                      r->me, option.ranks, p->wrong, (long long)p->first, p->got, p->want,
                      r->note[p->tag % NOTES]);
        team->hash[r->me][l][k % FUZZ_RING] = p->hash;
    }
    return counter;
}

static void compare_lane(struct rank *r, int l, unsigned long long counter)
{
    for (unsigned long long k = r->seen[l]; k < counter; k++)
        if (team->hash[r->me][l][k % FUZZ_RING] != team->hash[0][l][k % FUZZ_RING])
            team_fail(team, "WRONG: ranks 0 and %d of %d got different bytes: %s", r->me,
                      option.ranks, r->note[r->record[l][k % FUZZ_RING].tag % NOTES]);
    for (unsigned long long k = r->seen[l]; k < counter && r->me == 0; k++) {
        team->verified++;
        team->ran[r->kernel[r->record[l][k % FUZZ_RING].tag % NOTES]]++;
    }
    r->seen[l] = counter;
}

/* Print the latest calls, one of which failed on the GPU. */
static void print_latest(const struct rank *r)
{
    for (unsigned tag = r->tag > 12 ? r->tag - 12 : 0; tag != r->tag; tag++)
        printf("rank %d, call %u: %s\n", r->me, tag, r->note[tag % NOTES]);
}

static void look(struct rank *r, int groups)
{
    unsigned long long counter[LANES];

    for (int l = 0; l < LANES; l++)
        CUDA(cudaStreamSynchronize(r->stream[l]));
    CUDA(cudaStreamSynchronize(r->aside));
    for (int g = 0; g < groups; g++)
        if (symtuner_ar_status(r->handle[g]) != ncclSuccess) {
            print_latest(r);
            team_fail(team, "rank %d: %s", r->me, symtuner_ar_error(r->handle[g]));
        }
    for (int l = 0; l < LANES; l++)
        counter[l] = fetch_lane(r, l);
    /* CUDA allows cudaDeviceSynchronize only while no rank of the process captures. So the ranks
     * wait for each other before and after it. */
    team_meet(team);
    CUDA(cudaDeviceSynchronize());
    team_meet(team);
    for (int l = 0; l < LANES; l++)
        compare_lane(r, l, counter[l]);
    team_meet(team);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void run_phase(struct rank *r, const struct phase *phase)
{
    long some = option.calls * phase->percent / 100, end = r->issued + some;
    long alone = r->issued + some / 2;
    /* a phase for one stream starts with one stream and no graphs; its second half uses all
     * streams, and graphs */
    int one_stream = phase->one_stream;
    int batch = option.gpus < option.ranks ? BATCH_SHARED : BATCH;
    int reserve_at = option.reserve ? (int)fuzz_draw(&r->common, 200) : -1;

    for (int g = 0; g < phase->groups; g++)
        make_group(r, g, phase);
    for (int step = 0; r->issued < end; step++) {
        unsigned what = fuzz_draw(&r->common, 100), slot = fuzz_draw(&r->common, GRAPHS);
        int lane = fuzz_draw(&r->common, 4) ? 0 : (int)fuzz_draw(&r->common, LANES - 1);

        for (int g = 0; g < phase->groups && step == reserve_at; g++)
            reserve(r, g);
        if (fuzz_draw(&r->own, 150) == 0)
            CUDA(fuzz_occupy(1 + (int)fuzz_draw(&r->own, 100), fuzz_draw(&r->own, 200), r->aside));
        if (phase->groups == 2) {
            r->issued += fuzz_call_some(r, fuzz_draw(&r->common, 2) ? LANES - 1 : lane, 0, 1);
        } else if (one_stream) {
            one_stream = r->issued < alone;
            r->issued += fuzz_call_some(r, !one_stream, 0, 0);
        } else if (what < 3 && step >= reserve_at) {
            /* other streams may have eager calls now; the library lets these and the graph's calls
             * run one after the other */
            capture(r, (int)slot);
        } else if (what < 20 && r->graph[slot] != NULL) {
            replay(r, (int)slot);
        } else {
            r->issued += fuzz_call_some(r, lane, 0, 0);
        }
        if (step % batch == batch - 1 || r->issued >= end)
            look(r, phase->groups);
    }
    for (int s = 0; s < GRAPHS; s++) {
        if (r->graph[s] != NULL)
            CUDA(cudaGraphExecDestroy(r->graph[s]));
        r->graph[s] = NULL;
    }
    for (int g = 0; g < phase->groups; g++)
        end_group(r, g);
    if (r->me == 0 && option.say)
        printf("  %s: %llu calls right so far\n", phase->name, team->verified);
}

static void body(int me)
{
    struct rank *r = calloc(1, sizeof *r);

    r->me = me;
    r->common = option.seed * 0x9e3779b97f4a7c15ull | 1;
    r->own = r->common ^ (unsigned long long)(me + 1) << 32;
    CUDA(cudaSetDevice(me % option.gpus));
    for (int g = 0; g < 2 && !option.local; g++) {
        NCCL(team_comm(team, g, me, option.nonblocking, &r->comm[g]));
    }
    for (int role = 0; role < 2; role++) {
        if (option.created)
            r->buffer[0][role] = created_map(created_reserve(LANES * LANE_BYTES),
                                             LANES * LANE_BYTES, me % option.gpus);
        else
            CUDA(cudaMalloc((void **)&r->buffer[0][role], LANES * LANE_BYTES));
        if (option.local)
            CUDA(cudaMalloc((void **)&r->buffer[1][role], LANES * LANE_BYTES));
        else
            NCCL(ncclMemAlloc((void **)&r->buffer[1][role], LANES * LANE_BYTES));
        for (int mapped = 0; mapped < 2; mapped++)
            buffer_of[mapped][role][me] = r->buffer[mapped][role];
    }
    for (int l = 0; l < LANES; l++) {
        unsigned number = (unsigned)l;

        r->record[l] = malloc(sizeof r->lane[l]->record);
        CUDA(cudaMalloc((void **)&r->lane[l], sizeof *r->lane[l]));
        CUDA(cudaMemset(r->lane[l], 0, sizeof *r->lane[l]));
        CUDA(cudaMemcpy(&r->lane[l]->lane, &number, sizeof number, cudaMemcpyHostToDevice));
        CUDA(cudaStreamCreateWithFlags(&r->stream[l], cudaStreamNonBlocking));
    }
    CUDA(cudaStreamCreateWithFlags(&r->aside, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&r->event, cudaEventDisableTiming));
    CUDA(fuzz_load());
    /* Launch a kernel on each stream now. The first launch on a stream may wait for kernels on
     * other streams, and later these may wait for this rank. */
    for (int l = 0; l < LANES; l++)
        CUDA(fuzz_stall(1, r->stream[l]));
    CUDA(fuzz_stall(1, r->aside));
    CUDA(cudaDeviceSynchronize());
    team_meet(team);
    for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
        run_phase(r, &phases[p]);
    team_meet(team);
}

/* Print how many calls each kernel ran. Returns 1 if ${bad} is set, or if the kernel of --kernel
 * (without --kernel: any kernel of symtuner's) did not run; else 0. */
static int report_kernels(int bad)
{
    unsigned long long wanted = 0;

    printf("ar_fuzz: kernels:");
    for (int k = 0; symtuner_ar_kernel_name(k) != NULL; k++) {
        const char *name = symtuner_ar_kernel_name(k);

        if (team->ran[k] != 0)
            printf(" %s %llu", name, team->ran[k]);
        if (option.kernel != NULL ? strcmp(name, option.kernel) == 0 : strcmp(name, "nccl") != 0)
            wanted += team->ran[k];
    }
    printf("\n");
    if (wanted == 0 && !bad)
        printf("ar_fuzz: FAILED: not one call ran %s\n",
               option.kernel != NULL ? option.kernel : "a kernel of symtuner's");
    return wanted == 0 || bad;
}

int main(int argc, char **argv)
{
    struct timespec start, end;
    int gpus, bad;

    if (!fuzz_options_read(argc, argv))
        return 2;
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* never use multicast */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    gpus = team_gpus(option.fork);
    if (gpus < option.gpus) {
        printf("ar_fuzz: skipped: needs %d GPUs, %d here\n", option.gpus, gpus);
        return 77;
    }
    team = team_make(option.ranks, option.apart);
    if (team == NULL)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    bad = team_run(team, body, option.limit, option.fork);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("ar_fuzz: %d ranks on %d GPUs, %s%s%s, seed %u: %llu calls right%s, %.1f s\n",
           option.ranks, option.gpus, option.mode, option.host ? ", host memory" : "",
           option.nonblocking ? ", blocking = 0" : "", option.seed, team->verified,
           bad ? ", then WRONG" : "",
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    return report_kernels(bad);
}
