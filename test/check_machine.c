/* SPDX-License-Identifier: Apache-2.0 */
/* check_machine.c - a box described by SYMTUNER_MACHINE, and a box without GPUs. */
#include <stdlib.h>
#include <string.h>

#include "plugin/process.h"
#include "test/suites.h"

static const struct {
    const char *text, *error; /* NULL: fine */
    struct symtuner_machine machine;
} described[] = {
    {"gpu=NVIDIA H200; links=nvlink; multicast=no", NULL, {"NVIDIA H200", 0, 1, 0}},
    {" multicast = yes ;links=pcie;gpu = \"A B\"", NULL, {"A B", 0, 0, 1}},
    {"links=any", NULL, {"", 0, -1, -1}},
    {";;", NULL, {"", 0, -1, -1}},
    {"gpu", "SYMTUNER_MACHINE: \"gpu\" is neither [section] nor key = value", {"", 0, -1, -1}},
    {"gpu=x; lnks=nvlink", "SYMTUNER_MACHINE: unknown key \"lnks\"; did you mean links?",
     {"", 0, -1, -1}},
    {"links=infiniband", "SYMTUNER_MACHINE: unknown value \"infiniband\"; known: pcie, nvlink, any",
     {"", 0, -1, -1}},
};

START_TEST(test_a_description_is_read_or_refused_whole)
{
    struct symtuner_machine machine;
    char error[SYMTUNER_ERROR_MAX] = "";
    int fine = st_machine_read(described[_i].text, &machine, error, sizeof error);

    ck_assert_str_eq(error, described[_i].error ? described[_i].error : "");
    ck_assert_int_eq(fine, described[_i].error == NULL);
    ck_assert_str_eq(machine.gpu, described[_i].machine.gpu);
    ck_assert_int_eq(machine.nvlink, described[_i].machine.nvlink);
    ck_assert_int_eq(machine.multicast, described[_i].machine.multicast);
    setenv("SYMTUNER_MACHINE", described[_i].text, 1);
    ck_assert_int_eq(symtuner_machine_find(&machine), fine);
    unsetenv("SYMTUNER_MACHINE");
    ck_assert_str_eq(machine.gpu, described[_i].machine.gpu);
}
END_TEST

START_TEST(test_a_description_that_is_too_long_is_refused)
{
    struct symtuner_machine machine;
    char text[1024], error[SYMTUNER_ERROR_MAX] = "";

    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert(!st_machine_read(text, &machine, error, sizeof error));
    ck_assert_msg(strncmp(error, "SYMTUNER_MACHINE: longer than ", 30) == 0, "%s", error);
}
END_TEST

START_TEST(test_finding_says_unknown_or_something_sensible)
{
    struct symtuner_machine machine;

    unsetenv("SYMTUNER_MACHINE");
    if (symtuner_machine_find(&machine)) { /* this box has GPUs */
        ck_assert_str_ne(machine.gpu, "");
        ck_assert_int_gt(machine.arch, 0);
        ck_assert_int_ge(machine.nvlink, 0);
    } else {
        ck_assert_str_eq(machine.gpu, "");
        ck_assert_int_eq(machine.arch, 0);
        ck_assert_int_eq(machine.nvlink, -1);
        ck_assert_int_eq(machine.multicast, -1);
    }
}
END_TEST

Suite *machine_suite(void)
{
    Suite *suite = suite_create("machine");
    TCase *text = tcase_create("description"), *box = tcase_create("this box");

    t_add_rows(text, test_a_description_is_read_or_refused_whole, described);
    tcase_add_test(text, test_a_description_that_is_too_long_is_refused);
    tcase_add_test(box, test_finding_says_unknown_or_something_sensible);
    suite_add_tcase(suite, text);
    suite_add_tcase(suite, box);
    return suite;
}
