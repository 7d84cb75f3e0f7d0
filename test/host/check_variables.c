/* SPDX-License-Identifier: Apache-2.0 */
/* check_variables.c - checks the NCCL_* variables. The plugin answers only for those that the user
 * has not set, and gives the same answer each time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/nccl.h"

static const struct release *const r227 = &releases[1], *const r228 = &releases[3];

static void set_box(const char *rule)
{
    setenv("SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no; gpus=4", 1);
    if (rule)
        setenv("SYMTUNER_RULE", rule, 1);
}

extern char **environ;

static size_t fingerprint_of_environment(void)
{
    size_t print = 5381;

    for (char **entry = environ; *entry; entry++)
        for (const char *c = *entry; *c; c++)
            print = print * 33 + (unsigned char)*c;
    return print;
}

/* The plugin must set no variable. A child process would take the variable for the user's wish, and
 * setenv races with other threads. */
START_TEST(test_nothing_of_ours_writes_the_environment)
{
    struct comm comm;
    size_t before;

    set_box("process sym-ctas=16; allreduce prefer=general:ring/ll");
    before = fingerprint_of_environment();
    nccl_load(&releases[_i / 2], _i % 2 ? ENV_PLUGIN : 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), 0);
    nccl_comm_end(&comm);
    ck_assert_uint_eq(fingerprint_of_environment(), before);
}
END_TEST

/* ---- the count of [process] rules ------------------------------------------------------------ */

static const struct {
    const char *name, *value, *after; /* what NCCL_SYM_CTAS is afterwards */
} kept[] = {
    {"NCCL_SYM_CTAS", "5", "5"},      {"NCCL_SYM_CTAS", "", ""},
    {"NCCL_MIN_CTAS", "8", NULL},     {"NCCL_MAX_CTAS", "8", NULL},
    {"SYMTUNER_MODE", "off", NULL},   {"SYMTUNER_MODE", "observe", NULL},
    {"SYMTUNER_DEFAULTS", "0", "16"}, {"UNRELATED", "1", "16"},
};

static void check_answer(const char *variable, const char *want)
{
    const char *got = plugin.get_env(variable);

    ck_assert_msg(want ? got && strcmp(got, want) == 0 : !got, "%s is %s, not %s", variable,
                  got ? got : "(unset)", want ? want : "(unset)");
}

START_TEST(test_the_env_interface_never_replaces_what_the_user_set)
{
    struct comm comm;

    set_box("process sym-ctas=16");
    setenv(kept[_i].name, kept[_i].value, 1);
    nccl_load(r228, ENV_PLUGIN);
    ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), 0);
    check_answer("NCCL_SYM_CTAS", kept[_i].after);
    nccl_comm_end(&comm);
}
END_TEST

/* NCCL cuts the name of a plugin at 254 bytes. If the plugin's own path is longer, it gives NCCL a
 * shorter name of the same library. */
START_TEST(test_an_installed_path_of_any_length_is_a_name_that_nccl_can_open)
{
    const int depth[] = {0, 1, 30}; /* numbers of folders, whose names have 10 characters each */
    char path[1024], command[4096];
    const char *name;
    void *opened;
    int at = snprintf(path, sizeof path, "/tmp/symtuner-host-%d", (int)getpid());

    for (int i = 0; i < depth[_i]; i++)
        at += snprintf(path + at, sizeof path - (size_t)at, "/long%05d", i);
    snprintf(command, sizeof command, "mkdir -p %s && cp %s %s/libsymtuner.so", path,
             getenv("SO_UNDER_TEST"), path);
    ck_assert_int_eq(system(command), 0);
    snprintf(path + at, sizeof path - (size_t)at, "/libsymtuner.so");
    setenv("SO_UNDER_TEST", path, 1);
    setenv("SYMTUNER_LEDGER", "/dev/null", 1);
    set_box("allreduce prefer=general:ring/ll");
    nccl_load(r228, ENV_PLUGIN);
    snprintf(command, sizeof command, "rm -r /tmp/symtuner-host-%d", (int)getpid());
    for (int i = 0; i < 2; i++) {
        name = plugin.get_env(i ? "NCCL_TUNER_PLUGIN" : "NCCL_PROFILER_PLUGIN");
        ck_assert_msg(name && strlen(name) <= 254, "%s", name);
        opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(opened, "%s", dlerror());
        ck_assert_ptr_eq(dlsym(opened, "ncclTunerPlugin_v5"), plugin.tuner);
    }
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(test_env_alone_answers_for_the_process)
{
    struct comm comm;

    set_box("process sym-ctas=16");
    nccl_load(&releases[_i], ENV_PLUGIN);
    if (!plugin.get_env)
        return;
    check_answer("NCCL_TUNER_PLUGIN", getenv("SO_UNDER_TEST"));
    /* there is no ledger, so the profiler has nothing to count */
    check_answer("NCCL_PROFILER_PLUGIN", NULL);
    check_answer("NCCL_NO_CACHE", NULL);
    check_answer("NCCL_MIN_CTAS", NULL); /* rules never set it */
    check_answer("NCCL_SYM_KERNEL", NULL);
    ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), 0);
    check_answer("NCCL_SYM_CTAS", "16");
    nccl_comm_end(&comm);
    ck_assert_int_eq(plugin.release->env == 1
                         ? ((const struct nccl_abi_env_v1 *)plugin.env)->finalize()
                         : ((const struct nccl_abi_env_v2 *)plugin.env)->finalize(), 0);
    check_answer("NCCL_SYM_CTAS", "16"); /* the string stays valid after finalize */
}
END_TEST

START_TEST(test_without_the_env_interface_the_rules_count_is_a_warning)
{
    bool can_ask = releases[_i].env > 0;
    struct comm comm;

    set_box("process sym-ctas=16");
    nccl_load(&releases[_i], 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(nccl_comm(&comm, (uint64_t)i + 1, 4, 1), 0);
        nccl_comm_end(&comm);
    }
    ck_assert_int_eq(nccl_log.warnings, 1);
    ck_assert_msg(strstr(nccl_log.text, "sym-ctas = 16 has no effect") &&
                      strstr(nccl_log.text, can_ask ? "set NCCL_ENV_PLUGIN=libsymtuner.so"
                                                    : "set NCCL_SYM_CTAS yourself"),
                  "%s", nccl_log.text);
}
END_TEST

/* ---- the built-in count ---------------------------------------------------------------------- */

static const char measured_box[] = "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2";

/* ${min_ctas}: the answer for NCCL_MIN_CTAS with this setting. ${held_by}: the variable that, as
 * the log says, keeps the plugin from using the built-in count. */
static const struct {
    const char *name, *value, *min_ctas, *held_by;
} held[] = {
    {"UNRELATED", "1", "16", NULL},
    {"NCCL_CTA_POLICY", "0", "16", NULL},
    {"NCCL_CTA_POLICY", "default", "16", NULL},
    {"NCCL_ENQUEUE_REARCH_ENABLE", "0", "16", NULL},
    {"SYMTUNER_DEFAULTS", "1", "16", NULL},
    {"NCCL_MIN_CTAS", "8", "8", "NCCL_MIN_CTAS"},
    {"NCCL_MAX_CTAS", "8", NULL, "NCCL_MAX_CTAS"},
    {"NCCL_SYM_CTAS", "8", NULL, "NCCL_SYM_CTAS"},
    {"NCCL_CTA_POLICY", "1", NULL, "NCCL_CTA_POLICY"},
    {"NCCL_CTA_POLICY", "EFFICIENCY", NULL, "NCCL_CTA_POLICY"},
    {"NCCL_ENQUEUE_REARCH_ENABLE", "1", NULL, "NCCL_ENQUEUE_REARCH_ENABLE"},
    {"SYMTUNER_DEFAULTS", "0", NULL, "SYMTUNER_DEFAULTS"},
    {"SYMTUNER_MODE", "observe", NULL, "SYMTUNER_MODE"},
    {"SYMTUNER_MODE", "off", NULL, NULL}, /* logs nothing */
    {"SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=8", NULL, NULL},
    {"SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", NULL, NULL},
    {"SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=yes; gpus=2", NULL, NULL},
    /* rules, right or wrong, do not change the built-in count */
    {"SYMTUNER_RULE", "process sym-ctas=24", "16", NULL},
    {"SYMTUNER_RULE", "process sym-ctas=", "16", NULL},
    {"SYMTUNER_RULE", "allredcue", "16", NULL},
    {"SYMTUNER_RULES", "/nonexistent.rules", "16", NULL},
    {"SYMTUNER_RULES", "test/golden/rules/everything.rules", "16", NULL},
    {"NCCL_TUNER_CONFIG_FILE", "/nonexistent.csv", "16", NULL},
};

START_TEST(test_the_built_in_count_gives_way_to_the_user_and_to_no_file)
{
    char held_text[128];
    struct comm comm;

    setenv("SYMTUNER_MACHINE", measured_box, 1);
    setenv(held[_i].name, held[_i].value, 1);
    nccl_load(r228, ENV_PLUGIN);
    check_answer("NCCL_MIN_CTAS", held[_i].min_ctas);
    ck_assert_int_eq(nccl_comm(&comm, 1, 2, 1), 0);
    nccl_comm_end(&comm);
    check_answer("NCCL_MIN_CTAS", held[_i].min_ctas);
    snprintf(held_text, sizeof held_text, "%s holds NCCL_MIN_CTAS=16 (built-in) back",
             held[_i].held_by ? held[_i].held_by : "");
    ck_assert_msg(!held[_i].held_by == !strstr(nccl_log.text, held_text), "%s", nccl_log.text);
}
END_TEST

START_TEST(test_without_the_env_interface_the_built_in_count_is_one_line)
{
    struct comm comm;

    setenv("SYMTUNER_MACHINE", measured_box, 1);
    nccl_load(r228, 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 2, 1), 0);
    nccl_comm_end(&comm);
    ck_assert_int_eq(nccl_log.warnings, 0);
    ck_assert_msg(strstr(nccl_log.text, "set NCCL_ENV_PLUGIN=libsymtuner.so"), "%s", nccl_log.text);
}
END_TEST

/* ${says}: the log's line about the count with this setting; NULL: there is none. */
static const struct {
    const char *name, *value, *says;
} announced[] = {
    {"SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no; gpus=4",
     "no CTA count is known for \"test box\" with NCCL 2.28.9: NCCL's own is kept; measure one "
     "with NCCL_SYM_CTAS, then write [process] sym-ctas"},
    {"SYMTUNER_MACHINE", "links=nvlink",
     "no CTA count is known for \"this GPU\" with NCCL 2.28.9: NCCL's own is kept; measure one "
     "with NCCL_SYM_CTAS, then write [process] sym-ctas"},
    {"SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2",
     "NCCL_MIN_CTAS=16 (built-in, measured on 2 x NVIDIA H200 with NCCL 2.28.9); "
     "SYMTUNER_DEFAULTS=0 keeps NCCL's own"},
    {"SYMTUNER_MODE", "observe", NULL},
    {"SYMTUNER_MODE", "off", NULL},
    {"SYMTUNER_RULE", "process sym-ctas=16", NULL},
};

START_TEST(test_what_becomes_of_the_count_is_said_once)
{
    static const char *const lines[] = {"no CTA count is known", "NCCL_MIN_CTAS=16 (built-in"};
    struct comm comm;
    int said = 0;

    set_box(NULL);
    setenv(announced[_i].name, announced[_i].value, 1);
    nccl_load(r228, ENV_PLUGIN);
    for (uint64_t id = 1; id < 3; id++) {
        ck_assert_int_eq(nccl_comm(&comm, id, 2, 1), 0);
        nccl_comm_end(&comm);
    }
    for (int i = 0; i < 2; i++)
        for (const char *at = nccl_log.text; (at = strstr(at, lines[i])); at++)
            said++;
    ck_assert_msg(said == (announced[_i].says != NULL), "%s", nccl_log.text);
    ck_assert_msg(!said || strstr(nccl_log.text, announced[_i].says), "%s", nccl_log.text);
}
END_TEST

/* ---- when the plugin names itself as tuner and profiler -------------------------------------- */

/* The last two numbers say whether the plugin's path is the answer for NCCL_TUNER_PLUGIN, and for
 * NCCL_PROFILER_PLUGIN, with this setting. */
static const struct {
    const char *name, *value;
    int tuner, profiler;
} places[] = {
    {"UNRELATED", "1", 0, 0},
    {"SYMTUNER_RULE", "allreduce prefer=general:ring/ll", 1, 0},
    {"SYMTUNER_RULE", "process sym-ctas=16", 1, 0},
    {"SYMTUNER_RULE", "kernels kernel=nccl", 0, 0}, /* these rules are for the kernel library */
    {"SYMTUNER_RULE", "allredcue", 1, 0},           /* the rule is wrong, and somebody must warn */
    {"SYMTUNER_LOG", "loud", 1, 0},                 /* the value is wrong, and somebody must warn */
    {"SYMTUNER_LEDGER", "/dev/null", 1, 1},
    {"SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2", 1, 0},
    /* a rank without this variable may have a built-in CTA count, and the ranks must compare
     * that */
    {"SYMTUNER_MACHINE", "gpu=NVIDIA A100", 1, 0},
};

START_TEST(test_nccl_is_sent_to_us_only_where_there_is_something_to_do)
{
    int off = _i % 2, row = _i / 2;
    int box = strcmp(places[row].name, "SYMTUNER_MACHINE") == 0;

    unsetenv("SYMTUNER_MACHINE"); /* there is no GPU that the plugin could find */
    setenv(places[row].name, places[row].value, 1);
    if (off)
        setenv("SYMTUNER_MODE", "off", 1);
    nccl_load(r228, ENV_PLUGIN);
    check_answer("NCCL_TUNER_PLUGIN",
                 places[row].tuner && (!off || box) ? getenv("SO_UNDER_TEST") : NULL);
    check_answer("NCCL_PROFILER_PLUGIN",
                 places[row].profiler && !off ? getenv("SO_UNDER_TEST") : NULL);
}
END_TEST

START_TEST(test_the_user_s_variables_pass_through_env)
{
    set_box(NULL);
    setenv("NCCL_TUNER_PLUGIN", "none", 1);
    setenv("NCCL_PROFILER_PLUGIN", "mine.so", 1);
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("NCCL_EMPTY", "", 1);
    nccl_load(&releases[3 + _i], ENV_PLUGIN);
    ck_assert_str_eq(plugin.get_env("NCCL_TUNER_PLUGIN"), "none");
    ck_assert_str_eq(plugin.get_env("NCCL_PROFILER_PLUGIN"), "mine.so");
    ck_assert_str_eq(plugin.get_env("NCCL_ALGO"), "Ring");
    ck_assert_str_eq(plugin.get_env("NCCL_EMPTY"), "");
    ck_assert_str_eq(plugin.get_env("PATH"), getenv("PATH"));
    ck_assert_ptr_null(plugin.get_env("NCCL_NOT_SET"));
    ck_assert_ptr_null(plugin.get_env("NCCL_SYM_CTAS")); /* no count is known for this box */
    setenv("NCCL_ALGO", "Tree", 1); /* the plugin must not keep an old value */
    ck_assert_str_eq(plugin.get_env("NCCL_ALGO"), "Tree");
}
END_TEST

/* ---- wrong input ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *value, *warning;
} wrong[] = {
    {"SYMTUNER_RULE", "allredcue", "SYMTUNER_RULE:1:1: unknown collective \"allredcue\"; did you "
                                   "mean allreduce?; no rule is applied"},
    {"SYMTUNER_RULES", "/nonexistent.rules", "/nonexistent.rules: No such file or directory; no "
                                             "rule is applied"},
    {"SYMTUNER_RULES", "test/golden/bad/unknown_key.rules",
     "test/golden/bad/unknown_key.rules:2:1: unknown key \"col\"; did you mean coll?; no rule"},
    {"NCCL_TUNER_CONFIG_FILE", "test/golden/bad/few_fields.csv",
     "test/golden/bad/few_fields.csv:1:1: a row has 8 to 10 fields"},
    {"SYMTUNER_RULES", "test/golden/rules/everything.rules",
     "test/golden/rules/everything.rules:3:1: these rules were measured on another machine"},
    {"SYMTUNER_MODE", "Steer", "SYMTUNER_MODE=Steer: write one of steer|observe|off; using"},
    {"SYMTUNER_RULS", "x",
     "SYMTUNER_RULS: no such variable; did you mean SYMTUNER_RULES; "
     "`symtuner env`"},
    {"SYMTUNER_SETENV", "1", "SYMTUNER_SETENV is gone: symtuner writes no variable any more"},
    {"SYMTUNER_PERCALL", "0", "SYMTUNER_PERCALL is gone: a CTA count per call could reach"},
    {"SYMTUNER_RULE", "allreduce sym-ctas=8",
     "SYMTUNER_RULE:1:11: \"sym-ctas\" is gone from a "
     "rule: NCCL reads the CTA count of symmetric kernels "
     "once per process; write it in [process]"},
    {"SYMTUNER_RULE", "allreduce chunk=64KiB",
     "SYMTUNER_RULE:1:11: \"chunk\" is gone from a rule: "
     "NCCL names the bytes of one channel"},
    {"SYMTUNER_MACHINE", "gpu=x; lnks=nvlink",
     "SYMTUNER_MACHINE: unknown key \"lnks\"; did you "
     "mean links?"},
};

START_TEST(test_wrong_input_is_named_once_and_nothing_fails)
{
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {1, 2, 3, 4, 5, 6}, 0}, before;
    struct comm comm;

    set_box(NULL);
    setenv(wrong[_i].name, wrong[_i].value, 1);
    nccl_load(r227, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), 0);
        before = question;
        nccl_ask(&comm, &question);
        ck_assert(memcmp(&question, &before, sizeof before) == 0);
        nccl_comm_end(&comm);
    }
    ck_assert_msg(strstr(nccl_log.text, wrong[_i].warning), "%s", nccl_log.text);
    ck_assert_int_eq(nccl_log.warnings, 1);
}
END_TEST

START_TEST(test_three_wrong_things_are_all_named)
{
    struct comm comm;

    set_box("allredcue");
    setenv("SYMTUNER_LOG", "loud", 1);
    setenv("SYMTUNER_MACHINE", "lnks=nvlink", 1);
    nccl_load(r228, 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), 0);
    nccl_comm_end(&comm);
    ck_assert_msg(strstr(nccl_log.text, "allredcue") &&
                      strstr(nccl_log.text, "SYMTUNER_LOG=loud") && strstr(nccl_log.text, "lnks"),
                  "%s", nccl_log.text);
}
END_TEST

START_TEST(test_strict_fails_the_init_and_the_cleanup_after_it_works)
{
    struct comm comm = {0};

    set_box("allredcue");
    setenv("SYMTUNER_STRICT", "1", 1);
    nccl_load(&releases[_i], 0);
    for (int i = 0; i < 3; i++) {
        comm.tuner = &comm; /* a value that the plugin must overwrite */
        ck_assert_int_eq(nccl_comm(&comm, 1, 4, 1), NCCL_ABI_INVALID_USAGE);
        ck_assert_ptr_null(comm.tuner);
        nccl_comm_end(&comm);
    }
}
END_TEST

Suite *variables_suite(void)
{
    Suite *suite = suite_create("variables");
    TCase *ctas = tcase_create("CTAs"), *input = tcase_create("wrong input");

    tcase_add_loop_test(ctas, test_nothing_of_ours_writes_the_environment, 0, 2 * RELEASES);
    t_rows(ctas, test_the_env_interface_never_replaces_what_the_user_set, kept);
    tcase_add_loop_test(ctas, test_an_installed_path_of_any_length_is_a_name_that_nccl_can_open, 0,
                        3);
    t_each_release(ctas, test_env_alone_answers_for_the_process);
    t_each_release(ctas, test_without_the_env_interface_the_rules_count_is_a_warning);
    t_rows(ctas, test_the_built_in_count_gives_way_to_the_user_and_to_no_file, held);
    t_rows(ctas, test_what_becomes_of_the_count_is_said_once, announced);
    tcase_add_test(ctas, test_without_the_env_interface_the_built_in_count_is_one_line);
    tcase_add_loop_test(ctas, test_nccl_is_sent_to_us_only_where_there_is_something_to_do, 0,
                        2 * (int)(sizeof places / sizeof *places));
    tcase_add_loop_test(ctas, test_the_user_s_variables_pass_through_env, 0, RELEASES - 3);
    tcase_add_loop_test(input, test_wrong_input_is_named_once_and_nothing_fails, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(input, test_three_wrong_things_are_all_named);
    t_each_release(input, test_strict_fails_the_init_and_the_cleanup_after_it_works);
    suite_add_tcase(suite, ctas);
    suite_add_tcase(suite, input);
    return suite;
}
