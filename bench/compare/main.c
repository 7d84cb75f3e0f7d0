/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - compare libsymtuner_ar.so with NCCL, torch and other projects' kernels. One run measures
 * all of them, and they take turns.
 *
 *   ar_compare [--quick] [--host] [--odd] [--odd-count] [--ranks 2,4] [--modes threads,procs]
 *              [--types bf16,f32] [--min 1K] [--max 512M] [--step 2] [--rounds 5] [--only NAME,...]
 *              [--cold 0|1] [--extra 0|1] [--limit SECONDS] [--peers FOLDER] [--out FILE.csv]
 *              [--coll reduce_scatter|all_gather]
 *
 * Method: every contender captures the same call into a CUDA graph (20 times; 8 times above 32 MiB,
 * 4 times above 128 MiB). In each of --rounds rounds the contenders replay their graphs in turn.
 * Each round starts with a different contender. A turn is an untimed warm-up, followed by 3
 * samples (2 above 16 MiB). A sample is the time of 1 to 4 graphs on the slowest rank. Each round
 * gives the median of its samples, and the result is the median of these medians. Calls are out of
 * place. Warm: all calls use the same buffers. Cold: each call has buffers of its own, and 128 MiB
 * are overwritten before each graph.
 *
 * Modes: "threads" is one process with a thread per GPU, "procs" one process per GPU. Torch and the
 * peers run only with one process per GPU; the tables of both modes show the results of these runs.
 * --extra adds sums of int32 and f64, and max and min of bf16, from 1 KiB to 4 MiB; only our
 * kernels and NCCL's general kernels run them. --host measures without peer memory: our kernels
 * through pinned host memory against NCCL with NCCL_P2P_DISABLE=1.
 *
 * Peers are other projects' kernels. Each peer is a shared library FOLDER/peer-NAME.so. You build
 * it from that project's sources and a small adapter (peer.h has the interface); this project has
 * no peer. AR_COMPARE_PEERS can name the folder, too. The output says which peers were found. A
 * peer that fails, hangs or gives wrong sums is reported and left out. The NAMEs:
 *   nccl-tests  its device kernels "lsa" and "vectorized", with 16 CTAs of 512 threads, which is
 *               their default; "vectorized" also with 64 CTAs
 *   vllm        the custom all-reduce, which chooses its kernel itself
 *   trtllm      one-shot Lamport and two-shot, from FlashInfer
 *   mscclpp     its fastest kernel
 *
 * --odd measures our kernels and NCCL's general kernels with one element more than a power of two,
 * in buffers that begin one element after a multiple of 256 bytes. The sizes go from 1 KiB to 32
 * MiB in steps of a factor of 8, warm. The other contenders do not take part. NCCL's symmetric
 * kernels up to 2.29 give wrong sums for such 16-bit buffers (nccl/hazards.h), and a wrong sum
 * would end the run. Torch and the peers do not accept such buffers, or run other kernels for them
 * than for aligned buffers. --odd-count uses the same counts in buffers that begin at multiples of
 * 256 bytes. NCCL's symmetric kernels give right sums for such buffers, so they take part.
 *
 * --coll measures our kernels and NCCL's in another collective than all-reduce; it needs --extra 0.
 * The size is that of the longer buffer: send of a reduce-scatter, recv of an all-gather.
 *
 * The column floor is the sum of two times on n GPUs. The first is 2 * bytes * (n - 1) / n (with
 * --coll half of that), divided by the speed of plain copies. The second is the time of an empty
 * kernel as a graph node. The speed and the second time are measured at the start of the run.
 * NVLink multicast is never used.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/compare/crew.h"
#include "bench/compare/options.h"
#include "bench/compare/table.h"

enum { MODES = 2 };
enum crew_id { FULL, SYM32, SYM64, TORCH, HOST, NT, VL, TRT, MSC, CREWS };

static const char *const env32[] = {"NCCL_SYM_CTAS=32", NULL};
static const char *const env64[] = {"NCCL_SYM_CTAS=64", NULL};
static const char *const env_host[] = {"NCCL_P2P_DISABLE=1", NULL};
static struct crew_kind kinds[CREWS] = {
    [FULL] = {.name = "own"},
    [SYM32] = {.name = "sym32", .env = env32},
    [SYM64] = {.name = "sym64", .env = env64},
    [TORCH] = {.name = "torch", .torch = 1},
    [HOST] = {.name = "host", .host = 1, .env = env_host},
    [NT] = {.name = "nccl-tests"},
    [VL] = {.name = "vllm"},
    [TRT] = {.name = "trtllm"},
    [MSC] = {.name = "mscclpp"},
};

static const struct {
    const char *name, *what; /* what: WHAT in protocol.h */
    enum crew_id crew;
    int slot, column, anything; /* anything: 1 if it runs i32, f64, max and min, too */
} contenders[] = {
    {"ours", "zero-copy", FULL, 0, OURS, 1},      {"staged", "staged", FULL, 1, STAGED, 1},
    {"general", "general", FULL, 2, GENERAL, 1},  {"sym", "sym", FULL, 3, SYM, 0},
    {"sym32", "sym", SYM32, 0, SYM_32, 0},        {"sym64", "sym", SYM64, 0, SYM_64, 0},
    {"torch1", "one_shot", TORCH, 0, TORCH_1, 0}, {"torch2", "two_shot", TORCH, 1, TORCH_2, 0},
    {"nt_lsa", "peer0", NT, 0, NT_LSA, 0},        {"nt_vec", "peer1", NT, 1, NT_VEC, 0},
    {"nt_vec64", "peer2", NT, 2, NT_VEC_64, 0},   {"vllm", "peer0", VL, 0, VLLM, 0},
    {"trt1", "peer0", TRT, 0, TRT_1, 0},          {"trt2", "peer1", TRT, 1, TRT_2, 0},
    {"mscclpp", "peer0", MSC, 0, MSCCLPP, 0},     {"ours", "staged", HOST, 0, OURS, 1},
    {"general", "general", HOST, 1, GENERAL, 1},
};
enum { CONTENDERS = sizeof contenders / sizeof contenders[0] };

static const char *const mode_name[MODES] = {"threads", "procs"};

static int peers, has_torch; /* peers: how many rival libraries were found; has_torch: 0 or 1 */
static struct crew crews[MODES][CREWS];
static FILE *csv;
static time_t started;
static int lost; /* number of crews that failed, not counting the crews of peers */

static void interrupted(int number)
{
    (void)number;
    for (int m = 0; m < MODES; m++)
        for (int c = 0; c < CREWS; c++)
            for (int k = 0; k < crews[m][c].n; k++)
                kill(crews[m][c].pid[k], SIGKILL);
    _exit(1);
}

/* Does this crew run only with one process per GPU? Torch and the peers do. */
static int guest(enum crew_id crew)
{
    return crew == TORCH || crew >= NT;
}

static void lose(enum crew_id crew)
{
    if (crew < NT) {
        lost++;
    } else if (kinds[crew].peer != NULL) { /* do not try this peer again: a hang costs seconds */
        printf("peer %s failed and is left out from here on, see stderr\n", kinds[crew].name);
        kinds[crew].peer = NULL;
    }
}

static int taking_part(int mode, int k)
{
    enum crew_id crew = contenders[k].crew;

    if (option.coll != NULL && guest(crew))
        return 0;
    if (option.odd && (guest(crew) || (option.shifted && strcmp(contenders[k].what, "sym") == 0)))
        return 0;
    if ((crew >= NT && kinds[crew].peer == NULL) || (crew == TORCH && !has_torch))
        return 0;
    if ((crew == HOST) != option.host || !options_listed(option.only, contenders[k].name))
        return 0;
    return guest(crew) ? mode == 1 : options_listed(option.modes, mode_name[mode]);
}

static void start_crews(int ranks, char *self, char *script)
{
    for (int m = 0; m < MODES; m++) {
        struct crew_shape shape = {.ranks = ranks,
                                   .apart = m,
                                   .most = option.most + (option.odd ? 64 : 0),
                                   .self = self,
                                   .script = script};
        int wanted[CREWS] = {0};

        for (int k = 0; k < CONTENDERS; k++)
            wanted[contenders[k].crew] |= taking_part(m, k);
        for (int c = 0; c < CREWS; c++)
            if (wanted[c])
                crew_start(&crews[m][c], &kinds[c], &shape);
    }
    for (int m = 0; m < MODES; m++)
        for (int c = 0; c < CREWS; c++)
            if (crews[m][c].n > 0)
                if (!crew_ready(&crews[m][c]))
                    lose((enum crew_id)c);
}

/* Time all contenders at one size, in turns. */
static void measure(int ranks, const struct floor *floor, const char *type, const char *op,
                    size_t bytes, int cold)
{
    int hops = op == option.coll ? 1 : 2;
    int plain_sum = (strcmp(op, "sum") == 0 || op == option.coll) &&
                    (type[0] == 'b' || strcmp(type, "f32") == 0);
    int calls = bytes > (size_t)128 << 20 ? 4 : bytes > (size_t)32 << 20 ? 8 : 20;
    int samples = bytes > (size_t)16 << 20 ? 2 : 3;
    int launches = cold || bytes > (size_t)4 << 20 ? 1 : bytes > 512 << 10 ? 2 : 4;
    int warmup = bytes > (size_t)16 << 20 ? 1 : 2, total = MODES * CONTENDERS;
    size_t shift = !option.shifted ? 0 : type[0] == 'b' ? 2 : 4;
    double us[MODES][CONTENDERS][MOST_ROUNDS], sample[MOST_SAMPLES];
    char kernel[MODES][CONTENDERS][64] = {{""}}, line[256];
    struct line row = {.ranks = ranks,
                       .bytes = bytes,
                       .type = type,
                       .op = op,
                       .cold = cold,
                       .hops = hops,
                       .floor = floor_us(floor, hops, ranks, bytes)};

    for (int m = 0; m < MODES; m++)
        for (int k = 0; k < CONTENDERS; k++) {
            struct crew *c = &crews[m][contenders[k].crew];

            if (!taking_part(m, k) || c->n == 0 || (!plain_sum && !contenders[k].anything))
                continue;
            if (!crew_ask(c, line, sizeof line, "prepare %d %s %zu %s %s %d %d %zu\n",
                          contenders[k].slot, contenders[k].what, bytes, type, op, cold, calls,
                          shift))
                lose(contenders[k].crew);
            else if (strncmp(line, "ok ", 3) == 0)
                snprintf(kernel[m][k], sizeof kernel[m][k], "%.60s", line + 3);
            else if (strstr(line, "WRONG") != NULL)
                fprintf(stderr, "ar_compare: %s: %s\n", contenders[k].name, line);
        }
    for (int round = 0; round < option.rounds; round++)
        for (int i = 0; i < total; i++) {
            int m = (i + round) % total / CONTENDERS, k = (i + round) % total % CONTENDERS;

            if (kernel[m][k][0] == 0)
                continue;
            if (!crew_time(&crews[m][contenders[k].crew], contenders[k].slot, launches, samples,
                           warmup, sample)) {
                kernel[m][k][0] = 0;
                /* The whole crew has ended, so drop all its contenders. */
                for (int other = 0; other < CONTENDERS; other++)
                    if (contenders[other].crew == contenders[k].crew)
                        kernel[m][other][0] = 0;
                lose(contenders[k].crew);
                continue;
            }
            us[m][k][round] = table_median(sample, samples);
            fprintf(csv, "%d,%s,%s,%s,%s,%s,%zu,%s,%d,%.3f,%.3f,%.3f\n", ranks, mode_name[m],
                    contenders[k].name, kernel[m][k], type, op, bytes, cold ? "cold" : "warm",
                    round, us[m][k][round], sample[0], sample[samples - 1]);
        }
    for (int m = 0; m < MODES; m++)
        for (int c = 0; c < CREWS; c++)
            if (crews[m][c].n > 0)
                crew_ask(&crews[m][c], line, sizeof line, "drop\n");
    for (int m = 0; m < MODES; m++) {
        if (!options_listed(option.modes, mode_name[m]))
            continue;
        row.mode = mode_name[m];
        memset(row.us, 0, sizeof row.us);
        row.kernel[0] = 0;
        for (int k = 0; k < CONTENDERS; k++) {
            int from = guest(contenders[k].crew) ? 1 : m, column = contenders[k].column;
            double copy[MOST_ROUNDS];

            if (kernel[from][k][0] == 0)
                continue;
            memcpy(copy, us[from][k], sizeof copy);
            row.us[column] = table_median(copy, option.rounds);
            row.spread[column] = (copy[option.rounds - 1] - copy[0]) / row.us[column];
            if (column == OURS)
                snprintf(row.kernel, sizeof row.kernel, "%s", kernel[from][k]);
        }
        table_line(&row);
    }
    fflush(csv);
}

static int late(void)
{
    return time(NULL) - started > option.limit;
}

static void compare(int ranks, char *self, char *script)
{
    static const struct {
        const char *type, *op;
    } extra[] = {{"i32", "sum"}, {"f64", "sum"}, {"bf16", "max"}, {"bf16", "min"}};
    static const char *const types[] = {"bf16", "f32"};
    static const size_t sizes[] = {2, 4};
    struct crew_shape shape = {.ranks = ranks, .self = self};
    struct floor floor = {0, 0};

    if (!crew_floor(&shape, &floor.gbps, &floor.node_us))
        return (void)lost++;
    start_crews(ranks, self, script);
    table_head(ranks, &floor, (int)(time(NULL) - started), option.host, peers > 0);
    for (size_t t = 0; t < 2; t++)
        for (int cold = 0;
             cold <= (option.cold && t == 0) && options_listed(option.types, types[t]); cold++)
            for (size_t b = option.least; b <= option.most && !late(); b *= (size_t)option.step)
                if (!cold || b <= (size_t)16 << 20) /* larger messages miss the L2 even when warm */
                    measure(ranks, &floor, types[t], option.coll != NULL ? option.coll : "sum",
                            b + (option.odd ? sizes[t] : 0), cold);
    for (size_t e = 0; e < sizeof extra / sizeof extra[0] && option.extra; e++)
        for (size_t b = option.least; b <= (size_t)4 << 20 && b <= option.most && !late();
             b *= (size_t)option.step)
            measure(ranks, &floor, extra[e].type, extra[e].op, b, 0);
    for (int m = 0; m < MODES; m++)
        for (int c = 0; c < CREWS; c++)
            if (crews[m][c].n > 0)
                crew_end(&crews[m][c]);
    printf("n=%d done after %d s\n", ranks, (int)(time(NULL) - started));
}

/* Look in --peers for the library of each other project, and print which ones are there. */
static void find_peers(void)
{
    static char path[CREWS][4096];

    for (int c = NT; c < CREWS && option.peers != NULL; c++) {
        char file[4096];

        snprintf(file, sizeof file, "%s/peer-%s.so", option.peers, kinds[c].name);
        if (realpath(file, path[c]) != NULL && access(path[c], R_OK) == 0)
            kinds[c].peer = path[c], peers++;
        printf("peer %s: %s\n", kinds[c].name,
               kinds[c].peer != NULL ? path[c] : "not found, left out");
    }
    if (option.peers == NULL)
        printf("peers: none, --peers and AR_COMPARE_PEERS are not given\n");
}

/* Find torch_worker.py: the file that AR_COMPARE_PY names, or else ../bench/compare/torch_worker.py
 * relative to this program's folder. Without this file torch does not take part. */
static int find_script(const char *self, char *script, size_t size)
{
    const char *given = getenv("AR_COMPARE_PY");
    int found;

    if (given != NULL)
        snprintf(script, size, "%s", given);
    else
        snprintf(script, size, "%.*s../bench/compare/torch_worker.py",
                 (int)(strrchr(self, '/') + 1 - self), self);
    found = access(script, R_OK) == 0;
    if (!found)
        printf("torch: no %s, left out; AR_COMPARE_PY names it\n", script);
    return found;
}

/* Does any contender take part? Prints an error if none does. */
static int check_contenders(void)
{
    int some = 0;

    for (int m = 0; m < MODES; m++)
        for (int k = 0; k < CONTENDERS; k++)
            some |= taking_part(m, k);
    if (!some)
        fprintf(stderr,
                "ar_compare: --only %s: none of these can take part: torch needs torch_worker.py, "
                "peers need --peers FOLDER with their library, and --host leaves ours and "
                "general\n",
                option.only);
    return some;
}

int main(int argc, char **argv)
{
    const char *names[CONTENDERS];
    char self[4096], script[4096 + 32];
    int gpus, ran = 0;

    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return worker_main(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "--floor") == 0)
        return floor_main(argc - 2, argv + 2);
    option.peers = getenv("AR_COMPARE_PEERS");
    for (int k = 0; k < CONTENDERS; k++)
        names[k] = contenders[k].name;
    if (!options_read(argc, argv, names, CONTENDERS))
        return 2;
    gpus = floor_gpus();
    if (gpus < 2) {
        fprintf(stderr, "ar_compare: skipped: needs 2 GPUs, %d here\n", gpus);
        return 77;
    }
    memset(self, 0, sizeof self);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!option.host) {
        find_peers();
        has_torch = find_script(self, script, sizeof script);
    }
    if (!check_contenders())
        return 2;
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* never use multicast */
    setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    csv = fopen(option.out, "w");
    if (csv == NULL) {
        fprintf(stderr, "ar_compare: cannot write %s\n", option.out);
        return 2;
    }
    fprintf(csv, "ranks,mode,contender,kernel,type,op,bytes,cache,round,us,us_low,us_high\n");
    started = time(NULL);
    for (int n = 2; n <= MOST_RANKS; n++) {
        char word[8];

        snprintf(word, sizeof word, "%d", n);
        if (!options_listed(option.ranks, word) || late())
            continue;
        if (n > gpus) {
            printf("n=%d not run: %d GPUs here\n", n, gpus);
            continue;
        }
        compare(n, self, script);
        ran++;
    }
    if (ran == 0) {
        fprintf(stderr, "ar_compare: skipped: --ranks %s, and %d GPUs here\n", option.ranks, gpus);
        fclose(csv);
        return 77;
    }
    table_summary();
    if (late())
        printf("stopped after --limit %d s: not all sizes were measured\n", option.limit);
    if (lost > 0)
        printf("%d contenders were lost on the way, see stderr\n", lost);
    fclose(csv);
    return lost > 0;
}
