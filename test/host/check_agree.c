/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_agree.c - checks that rules apply only if all ranks agree. Each rank is a process that
 * calls the plugin as NCCL does, in NCCL's order. Together the tests let every input of the plugin
 * differ that may differ between the ranks.
 *
 * NCCL reads NCCL_MIN_CTAS before the first communicator and NCCL_SYM_CTAS at the first symmetric
 * kernel, and keeps both for good. The two set the grid of symmetric kernels. If the grid differs
 * between the ranks of a communicator, they hang. The ranks must also choose the same entry of
 * NCCL's cost table, with the same number of channels.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/host/nccl.h"

enum { PROCESSES = 4, COMMS = 2 };

/* What the plugin of one rank has answered. */
struct told {
    char min_ctas[16], sym_ctas[16];
    float table[COMMS][T_CELLS];
    int channels[COMMS];
    int warnings;
    char text[sizeof nccl_log.text];
};

static struct {
    pthread_barrier_t barrier[1 << PROCESSES]; /* one barrier for each set of processes */
    struct told told[PROCESSES];
} *shared;

static void make_shared(void)
{
    pthread_barrierattr_t attribute;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    pthread_barrierattr_init(&attribute);
    pthread_barrierattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED);
    for (unsigned set = 1; set < 1u << PROCESSES; set++)
        pthread_barrier_init(&shared->barrier[set], &attribute,
                             (unsigned)__builtin_popcount(set));
}

/* Open a communicator of the processes in ${set}, which has one bit for each process. As in NCCL,
 * all ranks use the same id. It is made from the set and from the pid of the ranks' parent. */
static void open_comm(struct comm *comm, unsigned set, bool with_plugin)
{
    *comm = (struct comm){0};
    if (with_plugin)
        ck_assert_int_eq(nccl_rank(comm, 0xabc00 + set + ((uint64_t)getppid() << 32),
                                   __builtin_popcount(set), 1), 0);
    pthread_barrier_wait(&shared->barrier[set]); /* NCCL waits here, in bootstrapIntraNodeBarrier */
}

static void keep(char *out, const char *value)
{
    snprintf(out, 16, "%s", value ? value : "");
}

static const float table[T_CELLS] = {8, 9, 10, 6, 7, 12, -1, -1, -1, -1, -1,
                                     -1, -1, -1, 5, -1, -1, -1, -1, -1, -1};

enum { OTHER_FIRST = 4 }; /* the process first makes a communicator with another copy of NCCL */

/* Do what NCCL does in one process: load the plugin, read NCCL_MIN_CTAS, create the communicators
 * of ${order} (sets of processes, ended by 0), ask the tuner about a call on each, and then read
 * NCCL_SYM_CTAS. */
static void live(const struct release *release, int how, struct told *told, const unsigned *order)
{
    bool with_plugin = how >= 0;
    struct comm comm[COMMS];
    int comms = 0;

    if (with_plugin && how & OTHER_FIRST) {
        nccl_load(&releases[5], how);
        ck_assert_int_eq(nccl_rank(&comm[0], nccl_id(0xa10e), 1, 1), 0);
    }
    if (with_plugin) {
        nccl_load(release, how);
        keep(told->min_ctas, plugin.get_env ? plugin.get_env("NCCL_MIN_CTAS")
                                            : getenv("NCCL_MIN_CTAS"));
    }
    for (; comms < COMMS && order[comms]; comms++)
        open_comm(&comm[comms], order[comms], with_plugin);
    for (int c = 0; c < comms; c++) {
        struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {0}, 0};

        memcpy(question.table, table, sizeof table);
        if (with_plugin)
            nccl_ask(&comm[c], &question);
        memcpy(told->table[c], question.table, sizeof table);
        told->channels[c] = question.channels;
    }
    if (with_plugin) {
        keep(told->sym_ctas, plugin.get_env ? plugin.get_env("NCCL_SYM_CTAS")
                                            : getenv("NCCL_SYM_CTAS"));
        for (int c = 0; c < comms; c++)
            nccl_comm_end(&comm[c]);
        told->warnings = nccl_log.warnings;
        memcpy(told->text, nccl_log.text, sizeof told->text);
    }
}

/* What is special about a rank: its variables, how it loads the plugin, and its communicators. */
struct rank {
    const char *set; /* "NAME=value|NAME=value" */
    int how;         /* ENV_PLUGIN, OTHER_FIRST; 0: as tuner only; -1: no plugin at all */
    unsigned order[COMMS + 1];
};

static void run_ranks(const struct release *release, const struct rank *rank, int ranks)
{
    pid_t child[PROCESSES];

    make_shared();
    for (int r = 0; r < ranks; r++) {
        child[r] = fork();
        if (child[r] == 0) {
            char text[512];

            alarm(60); /* a hang is a failure */
            snprintf(text, sizeof text, "%s", rank[r].set ? rank[r].set : "");
            for (char *at = strtok(text, "|"); at; at = strtok(NULL, "|")) {
                char *value = strchr(at, '=');

                *value = '\0';
                setenv(at, value + 1, 1);
            }
            live(release, rank[r].how, &shared->told[r], rank[r].order);
            _exit(0);
        }
    }
    for (int r = 0; r < ranks; r++) {
        int status = -1;

        waitpid(child[r], &status, 0);
        ck_assert_msg(status == 0, "rank %d ended with 0x%x", r, (unsigned)status);
    }
}

/* Return whether NCCL would give symmetric kernels the same grid on both ranks. NCCL_SYM_CTAS sets
 * the grid. If it is not set, NCCL_MIN_CTAS is the grid's minimum. */
static bool same_grid(const struct told *a, const struct told *b)
{
    if (*a->sym_ctas || *b->sym_ctas)
        return strcmp(a->sym_ctas, b->sym_ctas) == 0;
    return strcmp(a->min_ctas, b->min_ctas) == 0;
}

static bool same_tables(const struct told *a, const struct told *b)
{
    return memcmp(a->table, b->table, sizeof a->table) == 0 &&
           memcmp(a->channels, b->channels, sizeof a->channels) == 0;
}

static bool steered(const struct told *told)
{
    return memcmp(told->table[0], table, sizeof table) != 0;
}

static void set_usual(const char *machine)
{
    setenv("SYMTUNER_MACHINE", machine, 1);
    setenv("SYMTUNER_RULE", "allreduce prefer=general:ring/ll channels=4; process sym-ctas=24", 1);
}

static const char two[] = "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2";
static const char four[] = "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=4";

/* ---- two ranks, one input differs ------------------------------------------------------------ */

/* STEERED: the rule must change the cost table. HOLE: the grid may differ, and a warning must say
 * that. */
enum { HOLE = 1, STEERED = 2 };
static const struct {
    const char *what, *set; /* the variables of the rank that differs */
    int how, expect;        /* how this rank loads the plugin; HOLE and STEERED */
    const char *sym_ctas, *says; /* on the other rank: NCCL_SYM_CTAS, and the warning */
} differs[] = {
    {"nothing", "", ENV_PLUGIN, STEERED, "24", NULL},
    {"ledger", "SYMTUNER_LEDGER=/dev/null", ENV_PLUGIN, STEERED, "24", NULL},
    {"log", "SYMTUNER_LOG=warn", ENV_PLUGIN, STEERED, "24", NULL},
    {"rules file missing", "SYMTUNER_RULES=/nonexistent.rules", ENV_PLUGIN, 0, "",
     "differ in rules"},
    {"rules file unreadable", "SYMTUNER_RULES=/proc/self/mem", ENV_PLUGIN, 0, "",
     "differ in rules"},
    {"rules wrong", "SYMTUNER_RULE=allredcue", ENV_PLUGIN, 0, "", "differ in rules"},
    {"rules different", "SYMTUNER_RULE=allreduce prefer=general:tree/ll", ENV_PLUGIN, 0, "",
     "differ in rules"},
    {"rules empty", "SYMTUNER_RULE=", ENV_PLUGIN, 0, "", "differ in rules"},
    {"a file of its own", "SYMTUNER_RULES=test/golden/rules/everything.rules", ENV_PLUGIN, 0, "24",
     "differ in rules"},
    {"rules of another machine", "SYMTUNER_RULES=test/data/provenance.rules", ENV_PLUGIN, 0, "",
     "differ in rules"},
    {"count different",
     "SYMTUNER_RULE=allreduce prefer=general:ring/ll channels=4; process sym-ctas=20", ENV_PLUGIN,
     0, "", "differ in rules"},
    {"mode observe", "SYMTUNER_MODE=observe", ENV_PLUGIN, 0, "8", "differ in rules"},
    {"mode off", "SYMTUNER_MODE=off", ENV_PLUGIN, 0, "8", "differ in rules"},
    {"defaults off", "SYMTUNER_DEFAULTS=0", ENV_PLUGIN, STEERED, "24",
     "different values of NCCL_MIN_CTAS"},
    {"another GPU", "SYMTUNER_MACHINE=gpu=other; links=nvlink; multicast=no; gpus=2", ENV_PLUGIN, 0,
     "24", "differ in rules"},
    {"GPUs seen", "SYMTUNER_MACHINE=gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=1",
     ENV_PLUGIN, 0, "8", "differ in rules"},
    {"no NVML", "SYMTUNER_MACHINE=links=any", ENV_PLUGIN, 0, "8", "differ in rules"},
    {"competition", "NCCL_ENQUEUE_REARCH_ENABLE=1", ENV_PLUGIN, 0, "24", "differ in rules"},
    {"policy", "NCCL_CTA_POLICY=1", ENV_PLUGIN, STEERED, "24", "different values of NCCL_MIN_CTAS"},
    {"no env plugin", "", 0, STEERED | HOLE, "", "different values of NCCL_MIN_CTAS"},
    {"no plugin", "", -1, HOLE, "", "1 of 2 ranks answered"},
};

START_TEST(test_two_processes_with_one_input_different_do_the_same)
{
    const int row = _i / 2, rank = _i % 2; /* rank: the rank that differs, 0 or 1 */
    struct rank ranks[2] = {{NULL, ENV_PLUGIN, {3}}, {NULL, ENV_PLUGIN, {3}}};
    const struct told *odd, *usual;

    set_usual(two);
    ranks[rank].set = differs[row].set;
    ranks[rank].how = differs[row].how;
    run_ranks(&releases[3], ranks, 2);
    odd = &shared->told[rank];
    usual = &shared->told[!rank];
    ck_assert_msg(same_tables(odd, usual), "%s: tables differ", differs[row].what);
    ck_assert_msg(steered(usual) == !!(differs[row].expect & STEERED), "%s: %ssteered, %s",
                  differs[row].what, steered(usual) ? "" : "not ", usual->text);
    ck_assert_msg(same_grid(odd, usual) || differs[row].expect & HOLE,
                  "%s: NCCL_MIN_CTAS \"%s\" and \"%s\", NCCL_SYM_CTAS \"%s\" and \"%s\"",
                  differs[row].what, odd->min_ctas, usual->min_ctas, odd->sym_ctas,
                  usual->sym_ctas);
    ck_assert_msg(strcmp(usual->sym_ctas, differs[row].sym_ctas) == 0, "%s: NCCL_SYM_CTAS \"%s\"",
                  differs[row].what, usual->sym_ctas);
    ck_assert_str_eq(usual->min_ctas, "16"); /* NCCL_MIN_CTAS does not depend on the other rank */
    ck_assert_msg(!differs[row].says ? usual->warnings == 0
                                     : strstr(usual->text, differs[row].says) != NULL,
                  "%s: %s", differs[row].what, usual->text);
    /* if NCCL_MIN_CTAS differs, the warning also names the consequence */
    if (strstr(usual->text, "different values of NCCL_MIN_CTAS"))
        ck_assert_msg(strstr(usual->text, strcmp(usual->sym_ctas, "8") == 0
                                              ? "; all are told NCCL_SYM_CTAS=8 instead; "
                                              : "; symmetric kernels may hang; "),
                      "%s: %s", differs[row].what, usual->text);
    if (differs[row].how >= 0 && !strstr(differs[row].set, "off"))
        ck_assert_msg(!differs[row].says == (odd->warnings == 0), "%s: %s", differs[row].what,
                      odd->text);
}
END_TEST

/* ---- order of communicators ------------------------------------------------------------------ */

/* Sets of processes out of four, as bits: {0, 1} is 3, {2, 3} is 12, all four are 15. */
static const struct {
    const char *what, *machine;
    unsigned order[PROCESSES][COMMS + 1];
    const char *odd_set; /* variables of process 3 */
    const char *sym_ctas; /* NCCL_SYM_CTAS, which must be the same on all processes */
} orders[] = {
    {"all first", four, {{15, 3}, {15, 3}, {15, 12}, {15, 12}}, "", "24"},
    {"pairs first", four, {{3, 15}, {3, 15}, {12, 15}, {12, 15}}, "", ""},
    {"one pair first, the others wait for all", four, {{3, 15}, {3, 15}, {15}, {15}}, "", ""},
    {"one pair first, the other later", four, {{3, 15}, {3, 15}, {15, 12}, {15, 12}}, "", ""},
    {"a pair of four, one rank without rules", four, {{3, 15}, {3, 15}, {12, 15}, {12, 15}},
     "SYMTUNER_RULE=", ""},
    {"all first, one rank without rules", four, {{15, 3}, {15, 3}, {15, 12}, {15, 12}},
     "SYMTUNER_RULE=", ""},
    {"half of the box's GPUs", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=8",
     {{15, 3}, {15, 3}, {15, 12}, {15, 12}}, "", ""},
};

START_TEST(test_the_order_of_communicators_changes_no_grid)
{
    struct rank ranks[PROCESSES];

    set_usual(orders[_i].machine);
    for (int r = 0; r < PROCESSES; r++) {
        ranks[r] = (struct rank){r == 3 ? orders[_i].odd_set : NULL, ENV_PLUGIN, {0}};
        memcpy(ranks[r].order, orders[_i].order[r], sizeof ranks[r].order);
    }
    run_ranks(&releases[3], ranks, PROCESSES);
    for (int r = 0; r < PROCESSES; r++) {
        ck_assert_msg(strcmp(shared->told[r].sym_ctas, orders[_i].sym_ctas) == 0,
                      "%s: rank %d has NCCL_SYM_CTAS \"%s\"", orders[_i].what, r,
                      shared->told[r].sym_ctas);
        ck_assert_str_eq(shared->told[r].min_ctas, shared->told[0].min_ctas);
        for (int c = 0; c < COMMS; c++) /* all ranks of one communicator have one table */
            for (int d = 0; d < COMMS; d++)
                for (int s = 0; s < r; s++)
                    if (orders[_i].order[r][c] && orders[_i].order[r][c] == orders[_i].order[s][d])
                        ck_assert_msg(memcmp(shared->told[r].table[c], shared->told[s].table[d],
                                             sizeof table) == 0,
                                      "%s: ranks %d and %d", orders[_i].what, r, s);
    }
}
END_TEST

/* A process can have two copies of NCCL, for example torch's and jax's. Here rank 0 first uses a
 * copy that rank 1 does not have. The ranks must agree nevertheless. */
START_TEST(test_another_nccl_of_one_process_lets_the_ranks_agree)
{
    struct rank ranks[2] = {{NULL, ENV_PLUGIN | OTHER_FIRST, {3}}, {NULL, ENV_PLUGIN, {3}}};

    set_usual("gpu=test box; gpus=2");
    setenv("SYMTUNER_RULE", "allreduce nccl=2.28.9 prefer=general:ring/ll", 1);
    run_ranks(&releases[3], ranks, 2);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(steered(&shared->told[r]), "rank %d: %s", r, shared->told[r].text);
}
END_TEST

/* ---- in every release ------------------------------------------------------------------------ */

START_TEST(test_ranks_that_differ_are_steered_in_no_release_with_ids)
{
    struct rank ranks[2] = {{NULL, ENV_PLUGIN, {3}}, {"SYMTUNER_RULE=", ENV_PLUGIN, {3}}};

    set_usual("gpu=test box; gpus=2");
    run_ranks(&releases[_i], ranks, 2);
    /* 2.27 gives its tuner no communicator id. So the plugin cannot compare ranks there, and logs
     * that. */
    ck_assert_int_eq(steered(&shared->told[0]), releases[_i].tuner == 4);
    ck_assert(!steered(&shared->told[1]));
    ck_assert_str_eq(shared->told[0].sym_ctas, "");
    ck_assert_str_eq(shared->told[1].sym_ctas, "");
    if (releases[_i].tuner == 4)
        ck_assert_msg(strstr(shared->told[0].text, "ranks are not compared"), "%s",
                      shared->told[0].text);
}
END_TEST

/* The second of two ranks never comes. The plugin warns once per process, and logs a line for each
 * communicator. */
START_TEST(test_a_missing_rank_is_one_warning_and_a_line_for_each_communicator)
{
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {0}, 0};
    struct comm comm;
    int lines = 0;

    set_usual("gpu=test box; gpus=2");
    setenv("SYMTUNER_RULE", "allreduce prefer=general:ring/ll", 1);
    nccl_load(&releases[3], ENV_PLUGIN);
    for (uint64_t id = 1; id <= 3; id++) {
        ck_assert_int_eq(nccl_rank(&comm, nccl_id(id), 2, 1), 0);
        memcpy(question.table, table, sizeof table);
        nccl_ask(&comm, &question);
        ck_assert_mem_eq(question.table, table, sizeof table);
        nccl_comm_end(&comm);
    }
    for (const char *at = nccl_log.text; (at = strstr(at, "1 of 2 ranks answered")); at++)
        lines++;
    ck_assert_msg(lines == 3 && nccl_log.warnings == 1, "%d warnings: %s", nccl_log.warnings,
                  nccl_log.text);
}
END_TEST

START_TEST(test_several_nodes_are_steered_unchecked_and_told_no_count)
{
    struct comm comm;
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {0}, 0};

    set_usual("gpu=test box; gpus=2");
    nccl_load(&releases[_i], ENV_PLUGIN);
    ck_assert_int_eq(nccl_rank(&comm, nccl_id(1), 2, 2), 0);
    memcpy(question.table, table, sizeof table);
    ck_assert_int_gt(nccl_ask(&comm, &question), 0);
    if (plugin.get_env) {
        ck_assert_ptr_null(plugin.get_env("NCCL_SYM_CTAS"));
        ck_assert_msg(strstr(nccl_log.text, "spans several nodes"), "%s", nccl_log.text);
    }
    nccl_comm_end(&comm);
}
END_TEST

/* ---- leftovers ------------------------------------------------------------------------------- */

/* Return how many names of communicator ${id} are in /dev/shm. Other runs of these tests may have
 * names of other communicators there. */
static int left_in_shm(uint64_t id)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    char text[40];
    int count = 0;

    ck_assert_ptr_nonnull(dir);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)id);
    while ((entry = readdir(dir)))
        count += strstr(entry->d_name, text) != NULL;
    closedir(dir);
    return count;
}

/* A rank that was killed leaves a name in /dev/shm. The next job with the same id (NCCL_COMM_ID)
 * must start afresh. */
START_TEST(test_what_a_killed_job_left_is_emptied)
{
    uint64_t id = nccl_id(0x1ef7);
    int status;
    struct comm comm, again[2];
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {0}, 0};
    pid_t child;

    set_usual("gpu=test box; gpus=2");
    child = fork();
    if (child == 0) {
        nccl_load(&releases[3], ENV_PLUGIN);
        nccl_rank(&comm, id, 2, 1);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, &status, 0);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(left_in_shm(id), 1);
    nccl_load(&releases[3], ENV_PLUGIN);
    ck_assert_int_eq(nccl_rank(&again[0], id, 2, 1), 0);
    ck_assert_int_eq(left_in_shm(id), 1);
    ck_assert_int_eq(nccl_rank(&again[1], id, 2, 1), 0);
    ck_assert_int_eq(left_in_shm(id), 0);
    for (int r = 0; r < 2; r++) {
        memcpy(question.table, table, sizeof table);
        ck_assert_int_gt(nccl_ask(&again[r], &question), 0);
        nccl_comm_end(&again[r]);
    }
    ck_assert_int_eq(nccl_log.warnings, 0);
}
END_TEST

START_TEST(test_a_roll_call_that_nobody_completes_leaves_nothing)
{
    const uint64_t id[] = {nccl_id(0x2ef7), nccl_id(0x2ef8)};
    struct comm comm[2];

    set_usual("gpu=test box; gpus=2");
    nccl_load(&releases[3], ENV_PLUGIN);
    for (int i = 0; i < 2; i++) { /* the first communicator of the process, and a later one */
        ck_assert_int_eq(nccl_rank(&comm[i], id[i], 2, 1), 0);
        ck_assert_int_eq(left_in_shm(id[i]), 1);
    }
    for (int i = 0; i < 2; i++) {
        nccl_comm_end(&comm[i]);
        ck_assert_int_eq(left_in_shm(id[i]), 0);
    }
}
END_TEST

Suite *agree_suite(void)
{
    Suite *suite = suite_create("agreement");
    TCase *two_ranks = tcase_create("two ranks"), *four_ranks = tcase_create("four ranks");
    TCase *each = tcase_create("releases"), *left = tcase_create("leftovers");

    tcase_set_timeout(two_ranks, 120);
    tcase_add_loop_test(two_ranks, test_two_processes_with_one_input_different_do_the_same, 0,
                        2 * (int)(sizeof differs / sizeof *differs));
    t_rows(four_ranks, test_the_order_of_communicators_changes_no_grid, orders);
    tcase_add_test(two_ranks, test_another_nccl_of_one_process_lets_the_ranks_agree);
    t_each_release(each, test_ranks_that_differ_are_steered_in_no_release_with_ids);
    tcase_add_test(each, test_a_missing_rank_is_one_warning_and_a_line_for_each_communicator);
    t_each_release(each, test_several_nodes_are_steered_unchecked_and_told_no_count);
    tcase_add_test(left, test_what_a_killed_job_left_is_emptied);
    tcase_add_test(left, test_a_roll_call_that_nobody_completes_leaves_nothing);
    suite_add_tcase(suite, two_ranks);
    suite_add_tcase(suite, four_ranks);
    suite_add_tcase(suite, each);
    suite_add_tcase(suite, left);
    return suite;
}
