/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_why.c - compares three answers to one question: that of `symtuner decide`, that of
 * `symtuner why`, and what the built plugin answers to a stand-in for NCCL. The questions are
 * recorded calls of every machine in test/data, put to every release, with rules and without.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/nccl.h"

/* ---- recorded calls -------------------------------------------------------------------------- */

#define COLUMNS(X)                                                                                 \
    X(nccl) X(machine) X(ranks) X(nodes) X(multicast) X(coll) X(dtype) X(op) X(count) X(send_reg)  \
    X(recv_reg) X(group) X(graph) X(env) X(tuner_bytes) X(reg_buff) X(pipe_ops) X(tree_ll) X(kind) \
    X(layout)

enum {
#define X(name) COL_##name,
    COLUMNS(X)
#undef X
    N_COLUMNS,
    FIELDS_MAX = 80, LINE_BYTES = 1024, BOXES_MAX = 24, RECORDED = 5, KEPT = 3,
};
static const char *const column_name[] = {
#define X(name) #name,
    COLUMNS(X)
#undef X
};
static int column[N_COLUMNS];

/* A machine, with or without multicast. It has ${KEPT} calls from each recorded release: two of
 * general kernels with their cost tables, and one of a symmetric kernel. */
static struct box {
    char name[32], gpu[96];
    int multicast, nvlink, gpus;
    char line[RECORDED][KEPT][LINE_BYTES];
    /* Of the recorded calls of each kind, the one with the smallest hash is kept. This choice is
     * arbitrary, but always the same. */
    unsigned hash[RECORDED][KEPT];
} boxes[BOXES_MAX];
static int n_boxes;

static const char *const recorded[RECORDED] = {"2.27.7", "2.28.9", "2.29.3", "2.29.7", "2.30.7"};

/* Return an index in ${recorded}. The calls recorded with that release are those that the tests
 * make with release ${nccl}. */
static int recorded_for(int nccl)
{
    return nccl < 22800 ? 0 : nccl < 22900 ? 1 : nccl < 22907 ? 2 : nccl < 23000 ? 3 : 4;
}

static int split(char *line, char *field[FIELDS_MAX])
{
    int n = 0;

    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; at && n < FIELDS_MAX;)
        field[n++] = strsep(&at, ",");
    return n;
}

static unsigned hash_of(const char *text)
{
    unsigned hash = 2166136261u;

    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 16777619u;
    return hash;
}

static struct box *box_of(const char *name, int multicast)
{
    for (int i = 0; i < n_boxes; i++)
        if (strcmp(boxes[i].name, name) == 0 && boxes[i].multicast == multicast)
            return &boxes[i];
    if (n_boxes == BOXES_MAX)
        return NULL;
    snprintf(boxes[n_boxes].name, sizeof boxes->name, "%s", name);
    boxes[n_boxes].multicast = multicast;
    memset(boxes[n_boxes].hash, 0xff, sizeof boxes->hash);
    return &boxes[n_boxes++];
}

static void keep(struct box *box, int release, int slot, const char *line)
{
    unsigned hash = hash_of(line);

    if (hash >= box->hash[release][slot])
        return;
    box->hash[release][slot] = hash;
    snprintf(box->line[release][slot], LINE_BYTES, "%s", line);
}

static void read_row(const char *line)
{
    char copy[LINE_BYTES], *field[FIELDS_MAX];
    struct box *box;
    int release = 0;

    snprintf(copy, sizeof copy, "%s", line);
    if (split(copy, field) <= column[COL_layout] || field[column[COL_env]][0] ||
        strcmp(field[column[COL_group]], "1") != 0 ||
        strcmp(field[column[COL_layout]], "processes") != 0)
        return;
    while (release < RECORDED && strcmp(recorded[release], field[column[COL_nccl]]) != 0)
        release++;
    box = box_of(field[column[COL_machine]], atoi(field[column[COL_multicast]]));
    if (!box || release == RECORDED)
        return;
    if (strcmp(field[column[COL_kind]], "symmetric") == 0)
        keep(box, release, 2, line);
    else if (strcmp(field[column[COL_kind]], "general") == 0 && field[column[COL_tree_ll]][0] &&
             atoi(field[column[COL_pipe_ops]]) > 0)
        keep(box, release, strcmp(field[column[COL_reg_buff]], "1") == 0, line);
}

static void read_recording(void)
{
    FILE *pipe = popen("xz -dc test/data/nccl-decisions.csv.xz", "r");
    char line[LINE_BYTES], *field[FIELDS_MAX];
    int n;

    if (!pipe || !fgets(line, sizeof line, pipe))
        return;
    n = split(line, field);
    for (int c = 0; c < N_COLUMNS; c++)
        for (int i = 0; i < n; i++)
            if (strcmp(field[i], column_name[c]) == 0)
                column[c] = i;
    while (fgets(line, sizeof line, pipe))
        read_row(line);
    pclose(pipe);
}

/* ---- the command ----------------------------------------------------------------------------- */

static const char *command(void)
{
    static char path[512], folder[512];

    snprintf(folder, sizeof folder, "%s", getenv("SO_UNDER_TEST"));
    snprintf(path, sizeof path, "%s/symtuner", dirname(folder));
    return path;
}

/* Run the command with ${words} and store what it prints. It has the environment of this process,
 * but no real box; ${words} describe the box. */
static bool run_it(char *output, size_t size, const char *words)
{
    char line[2048];
    FILE *pipe;
    size_t n;

    snprintf(line, sizeof line, "env -u SYMTUNER_MACHINE %s %s", command(), words);
    pipe = popen(line, "r");
    n = pipe ? fread(output, 1, size - 1, pipe) : 0;
    output[n] = '\0';
    return pipe && pclose(pipe) == 0;
}

static void run(char *output, size_t size, const char *words)
{
    ck_assert_msg(run_it(output, size, words), "symtuner %s: %s", words, output);
}

/* Store the value of "key": in ${json} without quotes, or "null" if there is no such key, and
 * return ${out}. */
static const char *value(const char *json, const char *key, char out[64])
{
    char name[64];
    const char *at;

    snprintf(name, sizeof name, "\"%s\": ", key);
    at = json ? strstr(json, name) : NULL;
    snprintf(out, 64, "null");
    if (at) {
        at += strlen(name);
        at += *at == '"';
        snprintf(out, 64, "%.*s", (int)strcspn(at, "\",}"), at);
    }
    return out;
}

static int number(const char *json, const char *key)
{
    char text[64];

    return atoi(value(json, key, text));
}

static void describe_boxes(void)
{
    char json[8192], text[64], words[256];

    for (int i = 0; i < n_boxes; i++) {
        snprintf(words, sizeof words, "why allreduce 4 --machine %.31s --nccl 2.28.9 --json",
                 boxes[i].name);
        if (!run_it(json, sizeof json, words))
            /* say why the tests of this box are going to fail */
            fprintf(stderr, "symtuner %s fails\n", words);
        snprintf(boxes[i].gpu, sizeof boxes[i].gpu, "%s", value(json, "gpu", text));
        boxes[i].gpus = number(json, "gpus");
        boxes[i].nvlink = strcmp(value(json, "nvlink", text), "true") == 0;
    }
}

/* ---- one box, one release, one set of rules ------------------------------------------------- */

static const char *const rules[] = {
    NULL,
    "# symtuner rules 1\n[process]\nsym-ctas = 24\n"
    "[rule used]\nregistered = yes\nprefer = general:*/simple\n"
    "[rule small]\nbytes = ..256KiB\nprefer = general:ring/ll\n",
    "# symtuner rules 1\n[rule wide]\nranks = 4..\nprefer = general:tree/simple\nchannels = 8\n"
    "[rule reductions]\ncoll = reducescatter\nforbid = ring/ll, ring/simple\n"
    "[rule rest]\nbytes = 64KiB..\nprefer = symmetric\n",
    /* rules that were made for another box; the plugin refuses them all */
    "# symtuner rules 1\n[provenance]\ngpu = NVIDIA A100*\n[process]\nsym-ctas = 24\n"
    "[rule all]\nprefer = general:tree/simple\n",
};
enum { RULES = sizeof rules / sizeof *rules };

static void set_up(const struct box *box, const char *text)
{
    char machine[256];
    const char *path;
    FILE *file;

    snprintf(machine, sizeof machine, "gpu=%s; links=%s; multicast=%s; gpus=%d", box->gpu,
             box->nvlink ? "nvlink" : "pcie", box->multicast ? "yes" : "no", box->gpus);
    setenv("SYMTUNER_MACHINE", machine, 1);
    if (!text)
        return;
    path = nccl_temp();
    file = fopen(path, "w");
    ck_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    setenv("SYMTUNER_RULES", path, 1);
}

static int told(const char *variable)
{
    const char *text = plugin.get_env && !getenv(variable) ? plugin.get_env(variable) : NULL;

    return text ? atoi(text) : 0;
}

/* Write the options that `why` and `decide` share for a recorded call. */
static int common(char *words, size_t size, const struct box *box, char *field[FIELDS_MAX])
{
    int nccl = plugin.release->nccl;

    return snprintf(words, size, " --json --machine %s --multicast %s --nccl %d.%d.%d --ranks %s "
                                 "--nodes %s", box->name, box->multicast ? "yes" : "no",
                    nccl / 10000, nccl / 100 % 100, nccl % 100, field[column[COL_ranks]],
                    field[column[COL_nodes]]);
}

static void table_words(char *words, size_t size, char *field[FIELDS_MAX])
{
    size_t at = (size_t)snprintf(words, size, " --table ");

    for (int i = 0; i < T_CELLS && at < size; i++)
        at += (size_t)snprintf(words + at, size - at, "%s%s", i ? "," : "",
                               field[column[COL_tree_ll] + i]);
}

/* For a general kernel: check that ${decide} and ${why} name the entry that NCCL takes after the
 * plugin has changed the cost table. */
static void check_table(const struct comm *comm, const char *decide, const char *why,
                        char *field[FIELDS_MAX])
{
    int (*pick)(int, const float *, int, int, int *, int *) = NULL;
    const char *(*algo_name)(int) = NULL, *(*proto_name)(int) = NULL;
    struct question question = {.pipe_ops = atoi(field[column[COL_pipe_ops]]),
                                .registered = atoi(field[column[COL_reg_buff]]),
                                .bytes = strtoull(field[column[COL_tuner_bytes]], NULL, 10)};
    char wrote[64], said[64], algo[64], proto[64];
    int (*parse)(const char *) = NULL, a, p;

    *(void **)&pick = dlsym(plugin.library, "symtuner_table_pick");
    *(void **)&algo_name = dlsym(plugin.library, "symtuner_algo_name");
    *(void **)&proto_name = dlsym(plugin.library, "symtuner_proto_name");
    *(void **)&parse = dlsym(plugin.library, "symtuner_coll_parse");
    question.func = parse(field[column[COL_coll]]);
    for (int i = 0; i < T_CELLS; i++)
        question.table[i] = strtof(field[column[COL_tree_ll] + i], NULL);
    nccl_ask(comm, &question);
    ck_assert(pick(plugin.release->nccl, question.table, 7, 3, &a, &p));
    snprintf(wrote, sizeof wrote, "%s/%s", algo_name(a), proto_name(p));
    ck_assert_str_eq(value(decide, "with_symtuner", said), wrote);
    if (strcmp(value(why, "kind", said), "general") != 0)
        return; /* this release takes a symmetric kernel, but the recorded release did not */
    snprintf(said, sizeof said, "%s/%s", value(why, "algorithm", algo),
             value(why, "protocol", proto));
    ck_assert_str_eq(said, wrote);
}

/* For a symmetric kernel: run `symtuner why` again without symtuner, but with the variables that
 * the plugin answers (--set). The kernel and its CTA count must be the same. There is one
 * exception: if a rule prefers symmetric kernels, the second run may find a general kernel. */
static void check_count(const char *words, const char *decide, const char *why)
{
    char by_hand[8192], line[2048], one[64], other[64];
    const char *verdict;
    int at;

    if (strcmp(value(why, "kind", one), "symmetric") != 0)
        return;
    at = snprintf(line, sizeof line, "%s", words);
    if (told("NCCL_SYM_CTAS"))
        at += snprintf(line + at, sizeof line - (size_t)at, " --set NCCL_SYM_CTAS=%d",
                       told("NCCL_SYM_CTAS"));
    if (told("NCCL_MIN_CTAS"))
        snprintf(line + at, sizeof line - (size_t)at, " --set NCCL_MIN_CTAS=%d",
                 told("NCCL_MIN_CTAS"));
    run(by_hand, sizeof by_hand, line);
    verdict = strstr(by_hand, "\"verdict\"");
    if (strcmp(value(verdict, "kind", other), "symmetric") != 0) {
        ck_assert_str_eq(value(decide, "prefer", other), "symmetric");
        return;
    }
    ck_assert_str_eq(value(why, "kernel", one), value(verdict, "kernel", other));
    ck_assert_str_eq(value(why, "ctas", one), value(verdict, "ctas", other));
}

static void check_call(const struct box *box, const char *line)
{
    char copy[LINE_BYTES], *field[FIELDS_MAX], words[2048], decide[8192], why[8192],
        table[512] = "";
    struct comm comm;
    const char *with;
    int ranks, nodes, at;
    bool stays;

    snprintf(copy, sizeof copy, "%s", line);
    split(copy, field);
    ranks = atoi(field[column[COL_ranks]]);
    nodes = atoi(field[column[COL_nodes]]);
    if (field[column[COL_tree_ll]][0])
        table_words(table, sizeof table, field);
    ck_assert_int_eq(nccl_comm(&comm, 1, ranks, nodes), 0);

    /* `decide` is told whether NCCL regards the buffers as registered; `why` is told how each
     * buffer is registered, and must find out itself what NCCL makes of that */
    at = snprintf(words, sizeof words, "decide %s %s --pipe-ops %s --buffers %s",
                  field[column[COL_coll]],
                  field[column[COL_tuner_bytes]][0] ? field[column[COL_tuner_bytes]] : "1024",
                  field[column[COL_pipe_ops]][0] ? field[column[COL_pipe_ops]] : "1",
                  strcmp(field[column[COL_reg_buff]], "1") == 0 ? "comm" : "none");
    at += common(words + at, sizeof words - (size_t)at, box, field);
    snprintf(words + at, sizeof words - (size_t)at, "%s", table);
    run(decide, sizeof decide, words);

    at = snprintf(words, sizeof words, "why %s %sel %s --op %s --buffers %s/%s%s",
                  field[column[COL_coll]], field[column[COL_count]], field[column[COL_dtype]],
                  field[column[COL_op]][0] ? field[column[COL_op]] : "sum",
                  field[column[COL_send_reg]], field[column[COL_recv_reg]],
                  strcmp(field[column[COL_graph]], "1") == 0 ? " --graph" : "");
    at += common(words + at, sizeof words - (size_t)at, box, field);
    snprintf(words + at, sizeof words - (size_t)at, "%s", table);
    run(why, sizeof why, words);
    with = strstr(why, "\"with_symtuner\"");
    ck_assert_ptr_nonnull(with);

    /* a count that an earlier, larger communicator got stays in use; why knows only this
     * communicator */
    stays = told("NCCL_SYM_CTAS") && ranks != box->gpus;
    if (!stays)
        ck_assert_int_eq(number(with, "process_ctas"), told("NCCL_SYM_CTAS"));
    ck_assert_int_eq(number(with, "min_ctas"), told("NCCL_MIN_CTAS"));
    ck_assert_int_eq(number(decide, "min_ctas"), plugin.get_env ? told("NCCL_MIN_CTAS") : 0);
    if (plugin.get_env && ranks == box->gpus)
        ck_assert_int_eq(number(decide, "process_ctas"), told("NCCL_SYM_CTAS"));
    if (table[0])
        check_table(&comm, decide, strstr(with, "\"verdict\""), field);
    if (!stays)
        check_count(words, decide, strstr(with, "\"verdict\""));
    nccl_comm_end(&comm);
}

START_TEST(test_why_decide_and_the_plugin_agree)
{
    const struct box *box = &boxes[_i / RELEASES / RULES];
    const struct release *release = &releases[_i / RULES % RELEASES];
    int lines = recorded_for(release->nccl);

    set_up(box, rules[_i % RULES]);
    if (release->env)
        setenv("NCCL_ENV_PLUGIN", getenv("SO_UNDER_TEST"), 1);
    setenv("NCCL_TUNER_PLUGIN", getenv("SO_UNDER_TEST"), 1);
    nccl_load(release, ENV_PLUGIN);
    /* NCCL asks some questions once; the answers must not depend on which call comes first */
    for (int slot = _i % KEPT, n = 0; n < 2; n++, slot = (slot + 1) % KEPT)
        if (box->line[lines][slot][0])
            check_call(box, box->line[lines][slot]);
}
END_TEST

/* ---- what holds a count back ----------------------------------------------------------------- */

static const char *const held[] = {
    "",
    "NCCL_SYM_CTAS=5",
    "NCCL_MIN_CTAS=4",
    "NCCL_MAX_CTAS=12",
    "NCCL_CTA_POLICY=EFFICIENCY",
    "NCCL_CTA_POLICY=default",
    "NCCL_CTA_POLICY=0",
    "NCCL_ENQUEUE_REARCH_ENABLE=1",
    "NCCL_ENQUEUE_REARCH_ENABLE=0",
    "SYMTUNER_DEFAULTS=0",
    "SYMTUNER_MODE=observe",
    "SYMTUNER_MODE=off",
    "SYMTUNER_RULES=/none",
};
enum { HELD = sizeof held / sizeof *held };

START_TEST(test_why_knows_what_holds_a_count_back)
{
    static const char *const rule[] = {NULL, "# symtuner rules 1\n[process]\nsym-ctas = 24\n"};
    const struct box h200x2 = {.name = "h200x2", .gpu = "NVIDIA H200", .nvlink = 1, .gpus = 2};
    char why[8192];
    const char *with;
    struct comm comm;

    set_up(&h200x2, rule[_i % 2]);
    if (held[_i / 2][0])
        putenv((char *)held[_i / 2]);
    setenv("NCCL_ENV_PLUGIN", getenv("SO_UNDER_TEST"), 1);
    nccl_load(&releases[3], ENV_PLUGIN); /* release 2.28.9 */
    ck_assert_int_eq(nccl_comm(&comm, 1, 2, 1), 0);
    run(why, sizeof why, "why allreduce 4MiB bf16 --buffers sym --nccl 2.28.9 --machine h200x2 "
                         "--multicast no --json");
    with = strstr(why, "\"with_symtuner\"");
    ck_assert_int_eq(number(with, "process_ctas"), told("NCCL_SYM_CTAS"));
    ck_assert_int_eq(number(with, "min_ctas"), told("NCCL_MIN_CTAS"));
    if (_i / 2 == 0) /* if nothing holds the count back, it must be in use */
        ck_assert_int_eq(told(_i % 2 ? "NCCL_SYM_CTAS" : "NCCL_MIN_CTAS"), _i % 2 ? 24 : 16);
    nccl_comm_end(&comm);
}
END_TEST

Suite *why_suite(void)
{
    Suite *suite = suite_create("why");
    TCase *tcase = tcase_create("why, decide, plugin");

    read_recording();
    describe_boxes();
    tcase_set_timeout(tcase, 60);
    tcase_set_tags(tcase, "commands");
    tcase_add_loop_test(tcase, test_why_decide_and_the_plugin_agree, 0,
                        n_boxes * RELEASES * RULES);
    tcase_add_loop_test(tcase, test_why_knows_what_holds_a_count_back, 0, 2 * HELD);
    suite_add_tcase(suite, tcase);
    return suite;
}
