/* SPDX-License-Identifier: Apache-2.0 */
/* check_chain_which.c - checks which tuner symtuner calls in turn ("chains"): one that is named, or
 * that of NCCL's NET library, but never symtuner itself. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/chain.h"

static void remove_links(void)
{
    static const char *const names[] = {"libnccl-tuner.so", "libnccl-tuner-mine.so",
                                        "libnccl-net.so",   "libnccl-net-ofi.so",
                                        "mine.so",          "libcopy.so"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        nccl_install(names[i], NULL);
}

/* ---- which one --------------------------------------------------------------------------------
 */

static struct comm open_with(const struct release *release)
{
    struct comm comm;

    chain_begin(NULL);
    atexit(remove_links);
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_rank(&comm, 1, 8, 1), 0);
    return comm;
}

START_TEST(test_default_name)
{
    struct comm comm;

    nccl_install("libnccl-tuner.so", nccl_fake("tuner4"));
    comm = open_with(&releases[_i]);
    ck_assert_int_eq(chain_fake("tuner4")->inits, 1);
    nccl_comm_end(&comm);
}
END_TEST

/* The plugin reads the name of the tuner to chain only once. Otherwise ranks that read it at
 * different times could get different names. */
START_TEST(test_later_communicators_get_the_same_one)
{
    struct comm comm, later;

    nccl_install("libnccl-tuner.so", nccl_fake("tuner4"));
    nccl_install("libnccl-tuner-mine.so", nccl_fake("tuner3"));
    comm = open_with(&releases[_i]);
    setenv("NCCL_TUNER_PLUGIN", "mine", 1);
    ck_assert_int_eq(nccl_rank(&later, 2, 8, 1), 0);
    ck_assert_int_eq(chain_fake("tuner4")->inits, 2);
    ck_assert_int_eq(chain_fake("tuner3")->inits, 0);
    nccl_comm_end(&later);
    nccl_comm_end(&comm);
}
END_TEST

/* ${plugin}: NCCL_TUNER_PLUGIN in the environment. ${next}: SYMTUNER_NEXT_TUNER. ${loaded}: the
 * number of the fake that must be chained (tuner2, tuner3 or tuner4); 0 for none. */
static const struct {
    const char *plugin, *next;
    int loaded;
    const char *message;
} names[] = {
    {NULL, NULL, 4, "(v4)"}, /* libnccl-tuner.so is tuner4      */
    {"", NULL, 4, "(v4)"},
    {"mine", NULL, 3, "(v3)"}, /* libnccl-tuner-mine.so is tuner3 */
    {"libnccl-tuner-mine.so", NULL, 3, "(v3)"},
    {"mine.so", NULL, 2, "(v2)"}, /* there is a file of that name */
    {"none", NULL, 0, NULL},
    {"NONE", NULL, 0, NULL},
    {"nobody", NULL, 0, NULL}, /* as in NCCL, a wrong name does not lead to the default */
    {"SELF", NULL, 4, "(v4)"}, /* symtuner's own name counts as unset */
    {"COPY", NULL, 4, "(v4)"},
    {"mine", "libnccl-tuner.so", 4, "(v4)"},
    {"SELF", "mine", 3, "(v3)"},
    {"SELF", "none", 0, NULL},
    {NULL, "none", 0, NULL},
    {NULL, "nobody", 0, "SYMTUNER_NEXT_TUNER=nobody: no such library; no tuner is chained"},
    {NULL, "SELF", 0, "this is symtuner itself; no tuner is chained"},
    {NULL, "COPY", 0, "this is symtuner itself; no tuner is chained"},
    {NULL, "EMPTY", 0, "no tuner that symtuner can chain (ncclTunerPlugin_v2 to v7)"},
    {NULL, "UNKNOWN", 0, "no tuner that symtuner can chain (ncclTunerPlugin_v2 to v7)"},
    {NULL, "NO_INIT", 0, "its ncclTunerPlugin_v5 lacks function 1; the tuner is not chained"},
    {NULL, "NO_ASK", 0, "its ncclTunerPlugin_v5 lacks function 2; the tuner is not chained"},
    {"EMPTY", NULL, 0, "no tuner that symtuner can chain"},
};

static const char *meant(const char *word)
{
    static char copy[4096];

    if (word && strcmp(word, "SELF") == 0)
        return getenv("SO_UNDER_TEST");
    if (word && strcmp(word, "COPY") == 0) { /* a copy of symtuner in another file */
        char command[9000];

        snprintf(copy, sizeof copy, "%s/libcopy.so", getenv("CHECK_HOST_LIBRARIES"));
        snprintf(command, sizeof command, "cp '%s' '%s'", getenv("SO_UNDER_TEST"), copy);
        ck_assert_int_eq(system(command), 0);
        return copy;
    }
    return !word                          ? NULL
           : strcmp(word, "EMPTY") == 0   ? nccl_fake("empty")
           : strcmp(word, "UNKNOWN") == 0 ? nccl_fake("tuner_unknown")
           : strcmp(word, "NO_INIT") == 0 ? nccl_fake("tuner_no_init")
           : strcmp(word, "NO_ASK") == 0  ? nccl_fake("tuner_no_ask")
                                          : word;
}

START_TEST(test_the_name_decides_which_one)
{
    struct comm comm;

    nccl_install("libnccl-tuner.so", nccl_fake("tuner4"));
    nccl_install("libnccl-tuner-mine.so", nccl_fake("tuner3"));
    nccl_install("mine.so", nccl_fake("tuner2"));
    if (names[_i].plugin)
        setenv("NCCL_TUNER_PLUGIN", meant(names[_i].plugin), 1);
    if (names[_i].next)
        setenv("SYMTUNER_NEXT_TUNER", meant(names[_i].next), 1);
    comm = open_with(&releases[3]);
    for (int v = 2; v <= 4; v++) {
        char name[24];

        snprintf(name, sizeof name, "tuner%d", v);
        ck_assert_msg(chain_fake(name)->inits == (names[_i].loaded == v), "%s in row %d", name, _i);
    }
    if (names[_i].message)
        chain_said(names[_i].message);
    ck_assert_int_eq(nccl_log.warnings, names[_i].next && names[_i].message && !names[_i].loaded);
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_the_net_library_is_used_where_nccl_has_it_loaded)
{
    static const struct {
        const char *net, *tuner, *file;
        int open, loaded;
    } row[] = {
        {NULL, NULL, "libnccl-net.so", 1, 1},
        {NULL, NULL, "libnccl-net.so", 0, 0}, /* the library exists, but NCCL does not use it */
        {"ofi", NULL, "libnccl-net-ofi.so", 1, 1},
        {"nobody,ofi", NULL, "libnccl-net-ofi.so", 1, 1},
        {"none", NULL, "libnccl-net.so", 1, 0},
        {"ofi", NULL, "libnccl-net.so", 1, 0},
        {NULL, "nobody", "libnccl-net.so", 1, 1}, /* no such library: use NET, as NCCL does */
        {NULL, "none", "libnccl-net.so", 1, 0},
    };
    int r = _i / RELEASES;
    struct comm comm;
    int inits;

    nccl_install(row[r].file, nccl_fake("tuner3"));
    if (row[r].net)
        setenv("NCCL_NET_PLUGIN", row[r].net, 1);
    if (row[r].tuner)
        setenv("NCCL_TUNER_PLUGIN", row[r].tuner, 1);
    if (row[r].open)
        ck_assert_ptr_nonnull(dlopen(row[r].file, RTLD_NOW | RTLD_LOCAL));
    comm = open_with(&releases[_i % RELEASES]);
    inits = chain_fake("tuner3")->inits;
    ck_assert_msg(inits == row[r].loaded, "row %d: %d", r, inits);
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_a_link_to_ourselves_is_not_chained)
{
    struct comm comm;

    nccl_install("libnccl-tuner.so", getenv("SO_UNDER_TEST"));
    comm = open_with(&releases[_i]);
    ck_assert_msg(!strstr(nccl_log.text, "behind this"), "%s", nccl_log.text);
    nccl_comm_end(&comm);
}
END_TEST

/* ---- the env interface ----------------------------------------------------------------------- */

static const struct {
    const char *rule, *ledger, *set;
    /* 1: the answer is symtuner's path; 0: the answer is the variable's value */
    int ours_tuner, ours_profiler;
} asked[] = {
    {NULL, NULL, NULL, 0, 0},
    {NULL, NULL, "mine", 0, 0},
    {"allreduce channels=4", NULL, NULL, 1, 0},
    {"allreduce channels=4", NULL, "mine", 1, 0},
    {"allreduce channels=4", NULL, "none", 0, 0},
    {"allreduce channels=4", NULL, "", 1, 0},
    {NULL, "yes", NULL, 1, 1},
    {NULL, "yes", "mine", 1, 1},
    {NULL, "yes", "None", 0, 0},
};

static void check_answer(const char *variable, int ours, const char *set)
{
    const char *got = plugin.get_env(variable), *want = ours ? getenv("SO_UNDER_TEST") : set;

    ck_assert_msg(want ? got && strcmp(got, want) == 0 : !got, "row %s: %s", variable,
                  got ? got : "(unset)");
}

START_TEST(test_the_env_interface_displaces_nobody_for_nothing)
{
    const struct release *release = &releases[3 + _i % (RELEASES - 3)];
    int row = _i / (RELEASES - 3);
    const char *set = asked[row].set;

    unsetenv("SYMTUNER_MACHINE"); /* there is no GPU that the plugin could find */
    if (asked[row].rule)
        setenv("SYMTUNER_RULE", asked[row].rule, 1);
    if (asked[row].ledger)
        setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    if (set) {
        setenv("NCCL_TUNER_PLUGIN", set, 1);
        setenv("NCCL_PROFILER_PLUGIN", set, 1);
    }
    nccl_load(release, ENV_PLUGIN);
    check_answer("NCCL_TUNER_PLUGIN", asked[row].ours_tuner, set);
    check_answer("NCCL_PROFILER_PLUGIN", asked[row].ours_profiler, set);
    if (set) /* the plugin must not change the environment itself */
        ck_assert_str_eq(getenv("NCCL_TUNER_PLUGIN"), set);
}
END_TEST

START_TEST(test_what_the_env_interface_replaced_is_behind_ours)
{
    struct comm comm;

    atexit(remove_links);
    nccl_install("libnccl-tuner-mine.so", nccl_fake("tuner3"));
    setenv("NCCL_TUNER_PLUGIN", "mine", 1);
    chain_begin("allreduce channels=4");
    nccl_load(&releases[3 + _i], ENV_PLUGIN);
    check_answer("NCCL_TUNER_PLUGIN", 1, NULL);
    ck_assert_int_eq(nccl_rank(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_fake("tuner3")->inits, 1);
    nccl_comm_end(&comm);
}
END_TEST

/* ---- NCCL_TUNER_CONFIG_FILE -------------------------------------------------------------------
 */

START_TEST(test_the_config_file_is_the_chained_tuner_s)
{
    struct question q = chain_question(SYMTUNER_ALLREDUCE), before = q;
    const char *csv = nccl_temp();
    FILE *file = fopen(csv, "w");
    struct comm comm;

    fputs("allreduce,0,1073741824,tree,ll,-1,-1,-1,-1,-1\n", file);
    fclose(file);
    setenv("NCCL_TUNER_CONFIG_FILE", csv, 1);
    chain_begin(NULL);
    if (_i)
        chain_fake_version(4);
    nccl_load(&releases[3], 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(chain_ask(&comm, &q), 0);
    ck_assert_int_eq(memcmp(q.table, before.table, sizeof q.table) == 0, _i);
    nccl_comm_end(&comm);
}
END_TEST

Suite *chain_which_suite(void)
{
    Suite *suite = suite_create("chain which");
    TCase *which = tcase_create("which one");

    t_each_release(which, test_default_name);
    t_each_release(which, test_later_communicators_get_the_same_one);
    tcase_add_loop_test(which, test_the_name_decides_which_one, 0,
                        (int)(sizeof names / sizeof *names));
    tcase_add_loop_test(which, test_the_net_library_is_used_where_nccl_has_it_loaded, 0,
                        8 * RELEASES);
    t_each_release(which, test_a_link_to_ourselves_is_not_chained);
    tcase_add_loop_test(which, test_the_env_interface_displaces_nobody_for_nothing, 0,
                        (int)(sizeof asked / sizeof *asked) * (RELEASES - 3));
    tcase_add_loop_test(which, test_what_the_env_interface_replaced_is_behind_ours, 0,
                        RELEASES - 3);
    tcase_add_loop_test(which, test_the_config_file_is_the_chained_tuner_s, 0, 2);
    suite_add_tcase(suite, which);
    return suite;
}
