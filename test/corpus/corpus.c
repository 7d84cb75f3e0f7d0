/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corpus.c - compares what nccl/model predicts with recorded decisions of NCCL.
 *
 *   check-corpus FILE [SHOW]     list at most SHOW mismatches (default 10)
 *
 * FILE is CSV with a header line. Its columns may be in any order; docs/design/nccl-model.md
 * describes them under "A corpus". If the name ends in .xz, the xz program decompresses the file.
 * "-" means stdin.
 * Exit status: 0 no mismatch, 1 mismatches, 2 the file cannot be used.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nccl/model/general_cost.h"
#include "nccl/model/machines.h"
#include "nccl/model/settings.h"
#include "nccl/release.h"
#include "symtuner_why.h"
#include "test/corpus/file.h"

/* The columns: id, name, and whether the file must have it. */
#define COLUMN_MAP(X)                                                                              \
    X(NCCL, "nccl", 1) X(MACHINE, "machine", 1) X(CC, "compute_cap", 1) X(LINKS, "links", 1)       \
    X(RANKS, "ranks", 1) X(NODES, "nodes", 1) X(MULTICAST, "multicast", 1) X(COLL, "coll", 1)      \
    X(DTYPE, "dtype", 1) X(OP, "op", 1) X(COUNT, "count", 1) X(SEND, "send_reg", 1)                \
    X(RECV, "recv_reg", 1) X(GROUP, "group", 1) X(GRAPH, "graph", 0) X(ENV, "env", 1)              \
    X(LAYOUT, "layout", 1) X(CALLS, "tuner_calls", 0) X(TREE_LL, "tree_ll", 0) X(KIND, "kind", 1)  \
    X(ALGORITHM, "algorithm", 0) X(PROTOCOL, "protocol", 0) X(KERNEL, "symmetric_kernel", 1)       \
    X(CHANNELS, "channels", 1) X(ERROR, "error", 0) X(INPLACE, "inplace", 0)               \
    X(REGISTERED, "reg_buff", 0)

enum column {
#define X(id, name, needed) COL_##id,
    COLUMN_MAP(X)
#undef X
    COLUMNS
};
static const struct {
    const char *name;
    int needed;
} column[] = {
#define X(id, name, needed) {name, needed},
    COLUMN_MAP(X)
#undef X
};

enum {
    FIELDS_MAX = 128,
    LINE_MAX_BYTES = 1 << 16,
    TABLE = SYMTUNER_ALGOS * SYMTUNER_PROTOS,
    /* The program that recorded the corpus makes a communicator, begins with AllReduce, and goes
     * from this size upwards. So an AllReduce of this size is the first call of its
     * communicator. */
    SWEEP_FIRST_BYTES = 256,
};

enum miss { MISS_KIND, MISS_KERNEL, MISS_CTAS, MISS_ALGORITHM, MISS_BROKEN, MISS_CALLS, MISS_TABLE,
            MISS_CHEAPEST, MISS_CHANNELS, MISS_REGISTERED, MISSES };
static const char *const miss_name[] = {"kind", "kernel", "ctas", "algorithm/protocol",
                                        "missing kernel", "tuner calls", "cost table",
                                        "cheapest of it", "channels", "registered"};

struct corpus {
    const char *path;
    long line;
    int where[COLUMNS]; /* [column]: its field number, -1: absent */
    int fields;
    long rows, checked[MISSES], missed[MISSES], rows_missed;
    long kinds[SYMTUNER_KINDS][SYMTUNER_KINDS]; /* [recorded][predicted]: number of rows */
    long gates[SYMTUNER_GATES + 1][SYMTUNER_KINDS];
    int show;
};

/* ---- reading ------------------------------------------------------------------------------- */

static int refuse(const struct corpus *corpus, const char *what, const char *word)
{
    fprintf(stderr, "check-corpus: %s:%ld: %s \"%s\"\n", corpus->path, corpus->line, what, word);
    return -1;
}

static int read_header(struct corpus *corpus, char *line)
{
    char *field[FIELDS_MAX];
    int n = corpus_split(line, field, FIELDS_MAX);

    if (n < 0)
        return refuse(corpus, "not a CSV header", line);
    corpus->fields = n;
    for (int c = 0; c < COLUMNS; c++) {
        corpus->where[c] = -1;
        for (int i = 0; i < n; i++)
            if (strcmp(field[i], column[c].name) == 0)
                corpus->where[c] = i;
        if (corpus->where[c] < 0 && column[c].needed)
            return refuse(corpus, "no column", column[c].name);
    }
    if (corpus->where[COL_TREE_LL] >= 0 && corpus->where[COL_TREE_LL] + TABLE > n)
        return refuse(corpus, "fewer than 21 columns from", "tree_ll");
    return 0;
}

static const char *text_of(const struct corpus *corpus, char **field, enum column c)
{
    return corpus->where[c] < 0 ? "" : field[corpus->where[c]];
}

static int number_of(const struct corpus *corpus, char **field, enum column c, int64_t low,
                     int64_t high, int64_t *out)
{
    const char *text = text_of(corpus, field, c);
    char *end;
    long long value = strtoll(text, &end, 10);

    if (end == text || *end || value < low || value > high)
        return refuse(corpus, "bad number", text);
    *out = value;
    return 0;
}

static int word_of(const struct corpus *corpus, const char *text, const char *const *word)
{
    for (int i = 0; word[i]; i++)
        if (strcasecmp(text, word[i]) == 0)
            return i;
    return refuse(corpus, "unknown word", text);
}

/* Read a compute capability: "9.0" gives 90. */
static int read_arch(const struct corpus *corpus, const char *text, int *arch)
{
    int major, minor, end = 0;

    if (sscanf(text, "%2d.%1d%n", &major, &minor, &end) != 2 || text[end] || major < 1 || minor < 0)
        return refuse(corpus, "bad compute capability", text);
    *arch = major * 10 + minor;
    return 0;
}

static int read_table(const struct corpus *corpus, char **field, float *table,
                      const float **table_out)
{
    int at = corpus->where[COL_TREE_LL];

    *table_out = NULL;
    if (at < 0 || *field[at] == '\0')
        return 0;
    for (int i = 0; i < TABLE; i++) {
        char *end;

        table[i] = strtof(field[at + i], &end);
        if (end == field[at + i] || *end)
            return refuse(corpus, "bad cost", field[at + i]);
    }
    *table_out = table;
    return 0;
}

static int read_machine(const struct corpus *corpus, char **field, struct symtuner_call *call)
{
    static const char *const links[] = {"pcie", "nvlink", NULL};
    const char *name = text_of(corpus, field, COL_MACHINE);
    const struct st_machine *machine = st_machine_named(name);
    size_t len = strlen(name);
    int64_t ranks, nodes, multicast;
    int nvlink = word_of(corpus, text_of(corpus, field, COL_LINKS), links);

    if (nvlink < 0 || read_arch(corpus, text_of(corpus, field, COL_CC), &call->arch) ||
        number_of(corpus, field, COL_RANKS, 1, 1 << 20, &ranks) ||
        number_of(corpus, field, COL_NODES, 1, ranks, &nodes) ||
        number_of(corpus, field, COL_MULTICAST, 0, 1, &multicast))
        return -1;
    call->nvlink = nvlink;
    call->ranks = (int)ranks;
    call->nodes = (int)nodes;
    call->multicast = (int)multicast;
    /* a machine that is not in the table has peer access, unless its name says otherwise */
    call->peer_raw = machine ? machine->peer_raw
                             : len < 6 || strcmp(name + len - 6, "-nop2p") != 0;
    call->peer_nccl = machine ? machine->peer_nccl : call->peer_raw;
    return 0;
}

static int read_call(const struct corpus *corpus, char **field, struct symtuner_call *call,
                     float *table)
{
    static const char *const reg[] = {"none", "comm", "window", "sym", NULL};
    static const char *const layout[] = {"processes", "threads", NULL};
    const char *op = text_of(corpus, field, COL_OP), *env = text_of(corpus, field, COL_ENV);
    int64_t count, group, graph = 0, inplace = 0;
    char error[SYMTUNER_ERROR_MAX];
    int release = st_release_parse(text_of(corpus, field, COL_NCCL));
    int coll = symtuner_coll_parse(text_of(corpus, field, COL_COLL));
    int dtype = symtuner_dtype_parse(text_of(corpus, field, COL_DTYPE));
    int send = word_of(corpus, text_of(corpus, field, COL_SEND), reg);
    int recv = word_of(corpus, text_of(corpus, field, COL_RECV), reg);
    int threads = word_of(corpus, text_of(corpus, field, COL_LAYOUT), layout);

    if (release < 0)
        return refuse(corpus, "bad release", text_of(corpus, field, COL_NCCL));
    if (coll < 0)
        return refuse(corpus, "unknown collective", text_of(corpus, field, COL_COLL));
    if (dtype < 0)
        return refuse(corpus, "unknown type", text_of(corpus, field, COL_DTYPE));
    if (*op && symtuner_op_parse(op) < 0)
        return refuse(corpus, "unknown operation", op);
    symtuner_call_init(call, release);
    if (send < 0 || recv < 0 || threads < 0 ||
        number_of(corpus, field, COL_COUNT, 1, (int64_t)1 << 48, &count) ||
        number_of(corpus, field, COL_GROUP, 1, 1 << 20, &group) ||
        (corpus->where[COL_GRAPH] >= 0 && number_of(corpus, field, COL_GRAPH, 0, 1, &graph)) ||
        (corpus->where[COL_INPLACE] >= 0 &&
         number_of(corpus, field, COL_INPLACE, 0, 1, &inplace)) ||
        read_machine(corpus, field, call) || read_table(corpus, field, table, &call->table))
        return -1;
    call->coll = (enum symtuner_coll)coll;
    call->dtype = (enum symtuner_dtype)dtype;
    call->op = *op ? (enum symtuner_op)symtuner_op_parse(op) : SYMTUNER_SUM;
    call->count = (uint64_t)count;
    call->send = (enum symtuner_reg)send;
    call->recv = (enum symtuner_reg)recv;
    call->group = (int)group;
    call->graph = (int)graph;
    call->inplace = (int)inplace;
    call->one_process = threads;
    call->first = coll == SYMTUNER_ALLREDUCE &&
                  call->count * (uint64_t)symtuner_dtype_size(dtype) == SWEEP_FIRST_BYTES;
    if (*env && st_setting_apply(call, env, error, sizeof error))
        return refuse(corpus, error, env);
    return 0;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void describe(const struct symtuner_verdict *verdict, char *text, size_t size)
{
    const char *algo = symtuner_algo_name(verdict->algo);

    if (verdict->kernel)
        snprintf(text, size, "%s %s %d CTAs", symtuner_kind_name(verdict->kind), verdict->kernel,
                 verdict->ctas);
    else
        snprintf(text, size, "%s%s%s%s%s (%s)", symtuner_kind_name(verdict->kind), algo ? " " : "",
                 algo ? algo : "", algo ? "/" : "", algo ? symtuner_proto_name(verdict->proto) : "",
                 symtuner_gate_name(verdict->gate) ? symtuner_gate_name(verdict->gate) : "-");
}

static void print_miss(struct corpus *corpus, char **field, const struct symtuner_verdict *verdict,
                       enum miss miss)
{
    char predicted[160];

    if (corpus->show <= 0)
        return;
    corpus->show--;
    describe(verdict, predicted, sizeof predicted);
    printf("line %ld: %s %s ranks %s mc %s %s %s %s count %s %s/%s group %s %s %s\n",
            corpus->line, text_of(corpus, field, COL_NCCL), text_of(corpus, field, COL_MACHINE),
            text_of(corpus, field, COL_RANKS), text_of(corpus, field, COL_MULTICAST),
            text_of(corpus, field, COL_COLL), text_of(corpus, field, COL_DTYPE),
            text_of(corpus, field, COL_OP), text_of(corpus, field, COL_COUNT),
            text_of(corpus, field, COL_SEND), text_of(corpus, field, COL_RECV),
            text_of(corpus, field, COL_GROUP), text_of(corpus, field, COL_ENV),
            text_of(corpus, field, COL_LAYOUT));
    printf("  %s differs: recorded %s %s%s%s%s %s, predicted %s\n", miss_name[miss],
            text_of(corpus, field, COL_KIND), text_of(corpus, field, COL_KERNEL),
            text_of(corpus, field, COL_ALGORITHM),
            *text_of(corpus, field, COL_PROTOCOL) ? "/" : "", text_of(corpus, field, COL_PROTOCOL),
            text_of(corpus, field, COL_CHANNELS), predicted);
}

static void check(struct corpus *corpus, enum miss miss, bool right, bool *wrong, enum miss *first)
{
    corpus->checked[miss]++;
    if (right)
        return;
    corpus->missed[miss]++;
    if (!*wrong)
        *first = miss;
    *wrong = true;
}

/* Return whether two costs are equal in the six digits that the corpus has. */
static bool same_cost(float a, float b)
{
    return fabsf(a - b) <= 2e-5f * fabsf(b);
}

/* Compare the computed cost table with the recorded one. Also compare which entries NCCL would
 * choose from the two tables: both entries must have the same recorded cost. */
static void check_table(struct corpus *corpus, const struct symtuner_call *call, const float *ours,
                        bool *wrong, enum miss *first)
{
    const struct st_era *era = st_era_of(call->nccl);
    int algo, proto, best_algo, best_proto;
    bool equal = true;

    for (int i = 0; i < TABLE; i++)
        equal &= same_cost(ours[i], call->table[i]);
    check(corpus, MISS_TABLE, equal, wrong, first);
    if (!st_table_pick(era, ours, NULL, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &algo, &proto) ||
        !st_table_pick(era, call->table, NULL, SYMTUNER_ALGOS, SYMTUNER_PROTOS, &best_algo,
                       &best_proto))
        return;
    check(corpus, MISS_CHEAPEST,
          same_cost(call->table[algo * SYMTUNER_PROTOS + proto],
                    call->table[best_algo * SYMTUNER_PROTOS + best_proto]),
          wrong, first);
}

static int compare_row(struct corpus *corpus, char **field)
{
    static const char *const kinds[] = {"general", "symmetric", "ce", "error", NULL};
    int kind = word_of(corpus, text_of(corpus, field, COL_KIND), kinds);
    const char *algorithm = text_of(corpus, field, COL_ALGORITHM);
    const char *calls = text_of(corpus, field, COL_CALLS);
    const char *registered = text_of(corpus, field, COL_REGISTERED);
    struct symtuner_verdict verdict = {.struct_size = sizeof verdict};
    struct symtuner_call call;
    float table[TABLE], ours[TABLE];
    enum miss first = MISSES;
    const char *family = st_general_family(text_of(corpus, field, COL_MACHINE));
    bool wrong = false, same, computed;
    int channels;

    if (kind < 0 || read_call(corpus, field, &call, table))
        return -1;
    computed = st_general_table(&call, family, ours);
    if (computed && call.table)
        check_table(corpus, &call, ours, &wrong, &first);
    else if (computed)
        call.table = ours; /* no table was recorded, so use the computed one */
    if (symtuner_predict(&call, &verdict) != SYMTUNER_OK)
        return refuse(corpus, "a value is out of range in the row of", text_of(corpus, field,
                                                                               COL_MACHINE));
    same = (int)verdict.kind == kind;
    corpus->rows++;
    corpus->kinds[kind][verdict.kind]++;
    corpus->gates[verdict.gate][kind]++;
    check(corpus, MISS_KIND, same, &wrong, &first);
    if (same && kind == SYMTUNER_KIND_SYMMETRIC) {
        check(corpus, MISS_KERNEL, strcmp(verdict.kernel, text_of(corpus, field, COL_KERNEL)) == 0,
              &wrong, &first);
        check(corpus, MISS_CTAS, atoi(text_of(corpus, field, COL_CHANNELS)) == verdict.ctas,
              &wrong, &first);
    }
    if (same && corpus->where[COL_ERROR] >= 0 && kind == SYMTUNER_KIND_SYMMETRIC)
        check(corpus, MISS_BROKEN,
              verdict.broken == (strncmp(text_of(corpus, field, COL_ERROR), "warning:", 8) == 0),
              &wrong, &first);
    if (same && kind == SYMTUNER_KIND_GENERAL && call.table && *algorithm)
        check(corpus, MISS_ALGORITHM,
              verdict.algo == symtuner_algo_parse(algorithm) &&
                  verdict.proto == symtuner_proto_parse(text_of(corpus, field, COL_PROTOCOL)),
              &wrong, &first);
    channels = st_general_channels(&call, family, verdict.algo, verdict.proto);
    if (same && kind == SYMTUNER_KIND_GENERAL && channels > 0)
        check(corpus, MISS_CHANNELS, atoi(text_of(corpus, field, COL_CHANNELS)) == channels, &wrong,
              &first);
    if (same && *calls && kind != SYMTUNER_KIND_ERROR && verdict.tuner_calls >= 0 &&
        call.group == 1)
        check(corpus, MISS_CALLS, atoi(calls) == verdict.tuner_calls, &wrong, &first);
    if (same && kind == SYMTUNER_KIND_GENERAL && call.group == 1 && *registered)
        check(corpus, MISS_REGISTERED, atoi(registered) == st_general_registered(&call), &wrong,
              &first);
    corpus->rows_missed += wrong;
    if (wrong)
        print_miss(corpus, field, &verdict, first);
    return 0;
}

/* ---- reporting ----------------------------------------------------------------------------- */

static void report(const struct corpus *corpus)
{
    printf("%ld rows, %ld mismatches\n\n", corpus->rows, corpus->rows_missed);
    printf("%-20s %10s %10s\n", "predicted", "checked", "wrong");
    for (int m = 0; m < MISSES; m++)
        printf("%-20s %10ld %10ld\n", miss_name[m], corpus->checked[m], corpus->missed[m]);
    printf("\n%-20s %10s %10s %10s %10s %10s\n", "recorded \\ predicted", "general",
            "symmetric", "ce", "error", "open");
    for (int k = 0; k < SYMTUNER_KIND_OPEN; k++) {
        printf("%-20s", symtuner_kind_name((enum symtuner_kind)k));
        for (int p = 0; p < SYMTUNER_KINDS; p++)
            printf(" %10ld", corpus->kinds[k][p]);
        printf("\n");
    }
    printf("\n%-20s %10s %10s %10s %10s   %s\n", "first failing gate", "general", "symmetric",
            "ce", "error", "(recorded kind)");
    for (int g = 0; g <= SYMTUNER_GATES; g++) {
        const long *row = corpus->gates[g];
        const char *name = symtuner_gate_name((enum symtuner_gate)g);

        if (row[0] + row[1] + row[2] + row[3])
            printf("%-20s %10ld %10ld %10ld %10ld\n", name ? name : "none", row[0], row[1],
                    row[2], row[3]);
    }
}

static int run(const char *path, int show)
{
    struct corpus corpus = {.path = path, .show = show};
    char *line = malloc(LINE_MAX_BYTES);
    long child;
    FILE *file = corpus_open(path, &child);
    bool bad = !line || !file, whole;

    if (!file)
        fprintf(stderr, "check-corpus: %s: %s\n", path, strerror(errno));
    while (!bad && fgets(line, LINE_MAX_BYTES, file)) {
        char *field[FIELDS_MAX];
        size_t len = strcspn(line, "\r\n");

        corpus.line++;
        if (line[len] == '\0' && !feof(file)) {
            bad = refuse(&corpus, "line longer than", "65535 bytes") != 0;
            break;
        }
        line[len] = '\0';
        if (corpus.line == 1)
            bad = read_header(&corpus, line) != 0;
        else if (corpus_split(line, field, FIELDS_MAX) != corpus.fields)
            bad = refuse(&corpus, "not as many fields as the header in", line) != 0;
        else
            bad = compare_row(&corpus, field) != 0;
    }
    if (file && file != stdin)
        fclose(file); /* close before waiting for xz, which may still be writing */
    whole = corpus_close(path, child, bad);
    free(line);
    if (!bad && whole && corpus.rows == 0) {
        fprintf(stderr, "check-corpus: %s: no rows\n", path);
        bad = true;
    }
    if (bad || !whole)
        return 2;
    report(&corpus);
    return corpus.rows_missed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 || argc == 3)
        return run(argv[1], argc == 3 ? atoi(argv[2]) : 10);
    fputs("usage: check-corpus FILE.csv[.xz] [SHOW]\n", stderr);
    return 2;
}
