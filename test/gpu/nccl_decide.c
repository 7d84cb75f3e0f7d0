/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_decide.c - makes random NCCL calls on real GPUs and writes down what NCCL decided.
 *
 *   nccl_decide [--ranks N] [--calls N] [--seed N] [--machine NAME] [--links nvlink|pcie] > rows
 *
 * The rows have the columns that build/check-corpus reads. They hold what NCCL's own log
 * (NCCL_DEBUG_SUBSYS=TUNING) says: kind, kernel, CTAs, algorithm and protocol. One thread drives
 * all ranks, so the column layout is "threads". NVLink multicast stays off (NCCL_NVLS_ENABLE=0). If
 * one of NCCL_SYM_CTAS, NCCL_MIN_CTAS, NCCL_MAX_CTAS and NCCL_SYM_KERNEL is set, it goes into the
 * column env. The program does not check sums. Exit 0: all right. 1: an error. 77: fewer GPUs than
 * ranks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/must.h"

enum { MAX_RANKS = 16, REGS = 4, GROUP = 4, LINE = 2048 };
static const size_t most = 32u << 20; /* largest call, in bytes per rank */

enum coll { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, COLLS };
static const char *const coll_name[COLLS] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                             "Reduce"};
static const char *const reg_name[REGS] = {"none", "comm", "window", "sym"};
static const struct {
    const char *name;
    ncclDataType_t type;
    size_t size;
} types[] = {
    {"f32", ncclFloat32, 4}, {"bf16", ncclBfloat16, 2}, {"f16", ncclFloat16, 2},
    {"i32", ncclInt32, 4},   {"f64", ncclFloat64, 8},   {"i8", ncclInt8, 1},
};
static const struct {
    const char *name;
    ncclRedOp_t op;
} ops[] = {{"sum", ncclSum}, {"max", ncclMax}, {"prod", ncclProd}, {"avg", ncclAvg}};

static struct {
    int ranks, calls, version, cc;
    uint64_t seed;
    const char *machine, *links, *setting;
    char machine_text[64], setting_text[128], log[64];
    ncclComm_t comm[MAX_RANKS];
    cudaStream_t stream[MAX_RANKS];
    void *send[MAX_RANKS][REGS], *recv[MAX_RANKS][REGS];
} job = {.ranks = 2, .calls = 500, .seed = 1, .links = "nvlink"};

static uint64_t draw(uint64_t below)
{
    job.seed ^= job.seed << 13;
    job.seed ^= job.seed >> 7;
    job.seed ^= job.seed << 17;
    return (job.seed >> 11) % below;
}

/* ---- set-up --------------------------------------------------------------------------------- */

/* Turn on NCCL's log and keep multicast off, before the first NCCL call. */
static void prepare_environment(void)
{
    static const char *const settings[] = {"NCCL_SYM_CTAS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
                                           "NCCL_SYM_KERNEL"};

    snprintf(job.log, sizeof job.log, P_tmpdir "/nccl_decide.%ld.log", (long)getpid());
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
    setenv("NCCL_DEBUG_FILE", job.log, 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    job.setting = "";
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i])) {
            snprintf(job.setting_text, sizeof job.setting_text, "%s=%s", settings[i],
                     getenv(settings[i]));
            job.setting = job.setting_text;
        }
}

static void describe_machine(void)
{
    struct cudaDeviceProp prop;

    CUDA(cudaGetDeviceProperties(&prop, 0));
    job.cc = prop.major * 10 + prop.minor;
    snprintf(job.machine_text, sizeof job.machine_text, "%sx%d",
             strstr(prop.name, "H200") ? "h200" : "other", job.ranks);
    if (!job.machine)
        job.machine = job.machine_text;
    NCCL(ncclGetVersion(&job.version));
}

/* On every rank, allocate one buffer for each kind of registration. The first of these buffers
 * stays unregistered. The order is the same on all ranks. */
static void make_buffers(void *buffer[MAX_RANKS][REGS], size_t bytes)
{
    ncclWindow_t window[MAX_RANKS];
    void *handle;

    for (int k = 0; k < REGS; k++) {
        for (int r = 0; r < job.ranks; r++) {
            CUDA(cudaSetDevice(r));
            if (k == 0)
                CUDA(cudaMalloc(&buffer[r][k], bytes));
            else
                NCCL(ncclMemAlloc(&buffer[r][k], bytes));
            CUDA(cudaMemset(buffer[r][k], 0, bytes));
        }
        for (int r = 0; r < job.ranks && k == 1; r++)
            NCCL(ncclCommRegister(job.comm[r], buffer[r][k], bytes, &handle));
        NCCL(ncclGroupStart());
        for (int r = 0; r < job.ranks && k > 1; r++)
            NCCL(ncclCommWindowRegister(job.comm[r], buffer[r][k], bytes, &window[r],
                                        k == 3 ? NCCL_WIN_COLL_SYMMETRIC : 0));
        NCCL(ncclGroupEnd());
    }
}

/* ---- one call -------------------------------------------------------------------------------- */

struct row {
    enum coll coll;
    int type, op, send, recv, group;
    size_t count;
};

static struct row draw_row(void)
{
    struct row row = {.coll = draw(12) < 10 ? (enum coll)draw(3) : (enum coll)(3 + draw(2)),
                      .type = draw(4) ? 0 : (int)draw(sizeof types / sizeof *types),
                      .op = draw(4) ? 0 : (int)draw(sizeof ops / sizeof *ops),
                      .group = draw(8) ? 1 : GROUP};
    size_t bytes = (size_t)256 << draw(18);

    /* With this setting, NCCL 2.28 refuses groups. */
    if (strstr(job.setting, "NCCL_SYM_KERNEL"))
        row.group = 1;
    row.send = draw(3) ? 3 * (int)draw(2) : (int)draw(REGS);
    row.recv = draw(2) ? row.send : (int)draw(REGS);
    bytes += draw(2) ? draw(bytes) : 0;
    bytes = bytes > most ? most : bytes;
    row.count = bytes / types[row.type].size;
    return row;
}

static void call_once(const struct row *row, int rank)
{
    const void *send = job.send[rank][row->send];
    void *recv = job.recv[rank][row->recv];
    ncclDataType_t type = types[row->type].type;
    ncclRedOp_t op = ops[row->op].op;
    ncclComm_t comm = job.comm[rank];
    cudaStream_t stream = job.stream[rank];

    switch (row->coll) {
    case ALLREDUCE:
        NCCL(ncclAllReduce(send, recv, row->count, type, op, comm, stream));
        break;
    case ALLGATHER:
        NCCL(ncclAllGather(send, recv, row->count, type, comm, stream));
        break;
    case REDUCESCATTER:
        NCCL(ncclReduceScatter(send, recv, row->count, type, op, comm, stream));
        break;
    case BROADCAST:
        NCCL(ncclBroadcast(send, recv, row->count, type, 0, comm, stream));
        break;
    default:
        NCCL(ncclReduce(send, recv, row->count, type, op, 0, comm, stream));
    }
}

/* Print the first decision that NCCL has written to ${log} since the last call. If there is none,
 * the kind is "ce" (copy engine). */
static void print_decision(FILE *log)
{
    char line[LINE], kernel[128], algo[32], proto[32];
    const char *at;
    int first, last, ctas;

    while (fgets(line, sizeof line, log)) {
        if ((at = strstr(line, "-> Kernel ")) != NULL &&
            sscanf(at, "-> Kernel %127s nchannels %d", kernel, &ctas) == 2) {
            printf("symmetric,,,%s,%d\n", kernel, ctas);
            break;
        }
        if ((at = strstr(line, "-> Algo ")) != NULL &&
            sscanf(at, "-> Algo %31s proto %31s channel{Lo..Hi}={%d..%d}", algo, proto, &first,
                   &last) == 4) {
            printf("general,%s,%s,,%d\n", algo, proto, last - first + 1);
            break;
        }
    }
    if (feof(log))
        printf("ce,,,,\n");
    while (fgets(line, sizeof line, log)) /* skip the lines of a group's other calls */
        ;
}

static void run_row(const struct row *row, FILE *log)
{
    int reduces = row->coll != ALLGATHER && row->coll != BROADCAST;

    NCCL(ncclGroupStart());
    for (int r = 0; r < job.ranks; r++)
        for (int g = 0; g < row->group; g++)
            call_once(row, r);
    NCCL(ncclGroupEnd());
    for (int r = 0; r < job.ranks; r++) {
        CUDA(cudaSetDevice(r));
        CUDA(cudaStreamSynchronize(job.stream[r]));
    }
    printf("%d.%d.%d,%s,%d.%d,%s,%d,1,0,%s,%s,%s,%zu,%s,%s,%d,%s,threads,", job.version / 10000,
           job.version / 100 % 100, job.version % 100, job.machine, job.cc / 10, job.cc % 10,
           job.links, job.ranks, coll_name[row->coll], types[row->type].name,
           reduces ? ops[row->op].name : "", row->count, reg_name[row->send], reg_name[row->recv],
           row->group, job.setting);
    clearerr(log);
    print_decision(log);
    fflush(stdout);
}

static int usage(const char *word)
{
    fprintf(stderr,
            "nccl_decide: wrong argument \"%s\"\nusage: nccl_decide [--ranks N] [--calls N] "
            "[--seed N] [--machine NAME] [--links nvlink|pcie]\n",
            word);
    return 2;
}

int main(int argc, char **argv)
{
    char line[LINE];
    int gpus = 0;
    FILE *log;

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--ranks") == 0 && atoi(value) >= 2 && atoi(value) <= MAX_RANKS)
            job.ranks = atoi(value);
        else if (strcmp(argv[i], "--calls") == 0 && atoi(value) > 0)
            job.calls = atoi(value);
        else if (strcmp(argv[i], "--seed") == 0 && atoi(value) > 0)
            job.seed = (uint64_t)atoi(value) * 0x9e3779b97f4a7c15ull;
        else if (strcmp(argv[i], "--machine") == 0 && *value)
            job.machine = value;
        else if (strcmp(argv[i], "--links") == 0 && *value)
            job.links = value;
        else
            return usage(argv[i]);
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < job.ranks) {
        fprintf(stderr, "nccl_decide: needs %d GPUs, %d here\n", job.ranks, gpus);
        return 77;
    }
    prepare_environment();
    describe_machine();
    NCCL(ncclCommInitAll(job.comm, job.ranks, NULL));
    for (int r = 0; r < job.ranks; r++) {
        CUDA(cudaSetDevice(r));
        CUDA(cudaStreamCreate(&job.stream[r]));
    }
    make_buffers(job.send, most * (size_t)job.ranks);
    make_buffers(job.recv, most * (size_t)job.ranks);
    log = fopen(job.log, "r");
    if (!log) {
        fprintf(stderr, "nccl_decide: NCCL wrote no log to %s\n", job.log);
        return 1;
    }
    while (fgets(line, sizeof line, log)) /* skip the lines of the start-up */
        ;
    printf("nccl,machine,compute_cap,links,ranks,nodes,multicast,coll,dtype,op,count,send_reg,recv_"
           "reg,"
           "group,env,layout,kind,algorithm,protocol,symmetric_kernel,channels\n");
    for (int i = 0; i < job.calls; i++) {
        struct row row = draw_row();

        run_row(&row, log);
    }
    fclose(log);
    unlink(job.log);
    for (int r = 0; r < job.ranks; r++)
        NCCL(ncclCommDestroy(job.comm[r]));
    return 0;
}
