/* SPDX-License-Identifier: Apache-2.0 */
/* check_copies.c - tests the plugin in a process with several copies of NCCL, for example torch's
 * and jax's. What the plugin answers to one copy must not depend on the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/nccl.h"

static const struct release *const r227 = &releases[1], *const r228 = &releases[3];
static const char measured_box[] = "gpu=NVIDIA H200; links=nvlink; multicast=no; gpus=2";

static void check_answer(const char *variable, const char *want)
{
    const char *got = plugin.get_env(variable);

    ck_assert_msg(want ? got && strcmp(got, want) == 0 : !got, "%s is %s, not %s", variable,
                  got ? got : "(unset)", want ? want : "(unset)");
}

/* The plugin has a built-in CTA count for one of two releases. Only the copy of this release gets
 * the count, whichever copy comes first. */
START_TEST(test_each_nccl_of_a_process_gets_the_count_of_its_release)
{
    /* the count is for the first release */
    const struct release *const both[] = {&releases[3], &releases[4]};

    setenv("SYMTUNER_MACHINE", measured_box, 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    for (int i = 0; i < 2; i++) {
        const struct release *release = both[i ^ _i];
        char line[80];
        struct comm comm;

        nccl_load(release, ENV_PLUGIN);
        check_answer("NCCL_MIN_CTAS", release == both[0] ? "16" : NULL);
        ck_assert_ptr_nonnull(plugin.get_env("NCCL_TUNER_PLUGIN"));
        ck_assert_int_eq(nccl_comm(&comm, 1 + (uint64_t)i, 2, 1), 0);
        nccl_comm_end(&comm);
        snprintf(line, sizeof line, "%s symmetric CTAs (%s)",
                 release == both[0] ? "at least 16" : "NCCL's",
                 release == both[0] ? "built-in" : "NCCL");
        ck_assert_msg(strstr(nccl_log.text, line), "%s", nccl_log.text);
        snprintf(line, sizeof line, "NCCL %s: symmetric kernels do not wait",
                 /* the log names the faults of this release */
                 release == both[0] ? "2.28.9" : "2.29.2");
        ck_assert_msg(strstr(nccl_log.text, line), "%s", nccl_log.text);
        snprintf(line, sizeof line, "nccl=%s rules=0xcbf29ce484222325 mode=steer sym-ctas=%s ",
                 release == both[0] ? "2.28.9" : "2.29.2",
                 release == both[0] ? "16 from=built-in" : "0 from=NCCL");
        ck_assert_msg(strstr(nccl_read(getenv("SYMTUNER_LEDGER")), line), "%s",
                      nccl_read(getenv("SYMTUNER_LEDGER")));
    }
}
END_TEST

/* A rule applies only to the releases that it names, whichever copy of NCCL comes first. NCCL
 * 2.27.7 does not ask the plugin for variables; the other two releases do. */
static const struct {
    const char *rule, *file; /* SYMTUNER_RULE, or the text of SYMTUNER_RULES */
    const char *sym_ctas[3], *rules[3]; /* [copy]: NCCL_SYM_CTAS, and what the log must say */
} apart[] = {
    {"process sym-ctas=12 nccl=2.28.9; process sym-ctas=20 nccl=2.29", NULL, {NULL, "12", "20"},
     {"2 rules", "2 rules", "2 rules"}},
    {"process sym-ctas=12 nccl=2.29.2", NULL, {NULL, NULL, "12"}, {"1 rule", "1 rule", "1 rule"}},
    {NULL, "[provenance]\nnccl = 2.28\n[process]\nsym-ctas = 12\n[rule r]\ncoll = allreduce\n"
           "channels = 3\n", {NULL, "12", NULL}, {"0 rules", "2 rules", "0 rules"}},
    {NULL, "[provenance]\nnccl = 2.27.7\n[rule r]\ncoll = allreduce\nchannels = 3\n",
     {NULL, NULL, NULL}, {"1 rule", "0 rules", "0 rules"}},
};
static const char orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
enum { ORDERS = 3 };

START_TEST(test_rules_are_for_each_nccl_of_a_process_alike)
{
    const struct release *const copies[] = {r227, r228, &releases[4]};
    int row = _i / ORDERS;

    setenv("SYMTUNER_MACHINE", measured_box, 1);
    if (apart[row].rule)
        setenv("SYMTUNER_RULE", apart[row].rule, 1);
    if (apart[row].file) {
        const char *name = nccl_temp();
        FILE *file = fopen(name, "w");

        ck_assert(file && fputs(apart[row].file, file) >= 0 && fclose(file) == 0);
        setenv("SYMTUNER_RULES", name, 1);
    }
    for (int i = 0; i < 3; i++) {
        int n = orders[_i % ORDERS][i];
        struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {1, 2, 3, 4, 5, 6}, 9};
        bool acts = apart[row].file && apart[row].rules[n][0] != '0';
        char line[40];
        struct comm comm;

        nccl_log.text[0] = '\0';
        nccl_load(copies[n], ENV_PLUGIN);
        ck_assert_int_eq(nccl_comm(&comm, 1 + (uint64_t)i, 2, 1), 0);
        if (copies[n]->env) {
            check_answer("NCCL_MIN_CTAS", n == 1 ? "16" : NULL);
            check_answer("NCCL_SYM_CTAS", apart[row].sym_ctas[n]);
        }
        snprintf(line, sizeof line, ": %s (0x", apart[row].rules[n]);
        ck_assert_msg(strstr(nccl_log.text, line), "%s", nccl_log.text);
        ck_assert_int_eq(!strstr(nccl_log.text, "measured on another "), !apart[row].file || acts);
        nccl_ask(&comm, &question);
        ck_assert_int_eq(question.channels, acts ? 3 : 9);
        nccl_comm_end(&comm);
    }
}
END_TEST

Suite *copies_suite(void)
{
    Suite *suite = suite_create("copies");
    TCase *copies = tcase_create("copies");

    tcase_add_loop_test(copies, test_each_nccl_of_a_process_gets_the_count_of_its_release, 0, 2);
    tcase_add_loop_test(copies, test_rules_are_for_each_nccl_of_a_process_alike, 0,
                        ORDERS * (int)(sizeof apart / sizeof *apart));
    suite_add_tcase(suite, copies);
    return suite;
}
