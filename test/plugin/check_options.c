/* SPDX-License-Identifier: Apache-2.0 */
/* check_options.c - checks how the plugin reads the SYMTUNER_* variables. */
#include <stdlib.h>
#include <string.h>

#include "plugin/options.h"
#include "symtuner.h"
#include "test/suites.h"

static void forget_all(void)
{
    struct symtuner_option row;

    for (int i = 0; symtuner_option_get(i, &row); i++)
        unsetenv(row.name);
}

START_TEST(test_every_row_is_complete_and_its_default_legal)
{
    struct st_options options;
    struct symtuner_option row;
    char error[256] = "";
    int rows = 0;

    for (; symtuner_option_get(rows, &row); rows++) {
        ck_assert_int_eq(strncmp(row.name, "SYMTUNER_", 9), 0);
        ck_assert_uint_gt(strlen(row.help), 20);
        setenv(row.name, row.fallback, 1);
    }
    ck_assert_int_ge(rows, 10);
    ck_assert_int_eq(symtuner_option_get(-1, &row), 0);
    ck_assert_msg(st_options_read(&options, error, sizeof error), "%s", error);
    forget_all();
}
END_TEST

START_TEST(test_without_variables_the_defaults_hold)
{
    struct st_options options;
    char error[256] = "";

    forget_all();
    ck_assert_msg(st_options_read(&options, error, sizeof error), "%s", error);
    ck_assert_int_eq(options.mode, ST_MODE_STEER);
    ck_assert_str_eq(options.rules, "");
    ck_assert(options.defaults);
    ck_assert(!options.strict);
    ck_assert_int_eq(options.ledger_signal, ST_SIGNAL_NONE);
    ck_assert_int_eq(options.log, ST_LOG_INFO);
    ck_assert_str_eq(options.jax_comm, "own");
}
END_TEST

static const struct {
    const char *name, *value, *error; /* error NULL: there is no error */
} settings[] = {
    {"SYMTUNER_MODE", "observe", NULL},
    {"SYMTUNER_MODE", "off", NULL},
    {"SYMTUNER_MODE", "", "SYMTUNER_MODE=: write one of steer|observe|off; using \"steer\""},
    {"SYMTUNER_MODE", "obs", "SYMTUNER_MODE=obs: write one of steer|observe|off; using \"steer\""},
    {"SYMTUNER_MODE", "OFF", "SYMTUNER_MODE=OFF: write one of steer|observe|off; using \"steer\""},
    {"SYMTUNER_STRICT", "yes", "SYMTUNER_STRICT=yes: write one of 1|0; using \"0\""},
    {"SYMTUNER_LEDGER_SIGNAL", "", NULL},
    {"SYMTUNER_LEDGER_SIGNAL", "USR2", NULL},
    {"SYMTUNER_LEDGER_SIGNAL", "9", "SYMTUNER_LEDGER_SIGNAL=9: write one of |USR1|USR2; using "
                                    "\"\""},
    {"SYMTUNER_JAX", "yes", "SYMTUNER_JAX=yes: write one of 0|1|report; JAX stops here, default "
                            "\"0\""},
    {"SYMTUNER_RULES", "any text at all", NULL},
    {"SYMTUNER_AR_ANYTHING", "1", NULL}, /* the kernel library reads this variable */
    {"SYMTUNER_LIB_DIR", "build", NULL}, /* the JAX package reads this variable */
    {"SYMTUNER_JAX_COMMAND_BUFFERS", "1", NULL},
    {"SYMTUNER_JAX_ZERO_CPOY", "0", "SYMTUNER_JAX_ZERO_CPOY: no such variable; did you mean "
                                    "SYMTUNER_JAX_ZERO_COPY; `symtuner env` lists them"},
    {"SYMTUNER", "1", NULL},
    {"SYMTUNER_SETENV", "0",
     "SYMTUNER_SETENV is gone: symtuner writes no variable any more; unset "
     "it, and set NCCL_ENV_PLUGIN=libsymtuner.so so that NCCL asks for the "
     "CTA count (2.28.7 and later)"},
    {"SYMTUNER_MAX_BYTES", "4096",
     "SYMTUNER_MAX_BYTES is gone: the kernels' own table has the limit; unset "
     "it, and set SYMTUNER_AR_BESIDE=alone if nothing runs beside the "
     "collectives"},
    {"SYMTUNER_PERCALL", "1",
     "SYMTUNER_PERCALL is gone: a CTA count per call could reach the wrong "
     "call; unset it, and write one count in [process]"},
    {"SYMTUNER_LEGER", "x",
     "SYMTUNER_LEGER: no such variable; did you mean SYMTUNER_LEDGER; "
     "`symtuner env` lists them"},
    {"SYMTUNER_QWERTZUIOP", "x",
     "SYMTUNER_QWERTZUIOP: no such variable; `symtuner env` lists "
     "them"},
};

START_TEST(test_a_setting_is_taken_or_named)
{
    struct st_options options;
    char error[256] = "";
    int fine;

    forget_all();
    setenv(settings[_i].name, settings[_i].value, 1);
    fine = st_options_read(&options, error, sizeof error);
    unsetenv(settings[_i].name);
    ck_assert_str_eq(error, settings[_i].error ? settings[_i].error : "");
    ck_assert_int_eq(fine, settings[_i].error == NULL);
    if (!fine)
        ck_assert_int_eq(options.mode, ST_MODE_STEER);
}
END_TEST

static const struct {
    const char *name, *value;
    int mode, signal, log, defaults, strict;
} typed[] = {
    {"SYMTUNER_MODE", "observe", ST_MODE_OBSERVE, 0, 0, 1, 0},
    {"SYMTUNER_MODE", "off", ST_MODE_OFF, 0, 0, 1, 0},
    {"SYMTUNER_MODE", "steer", ST_MODE_STEER, 0, 0, 1, 0},
    {"SYMTUNER_LEDGER_SIGNAL", "USR1", 0, ST_SIGNAL_USR1, 0, 1, 0},
    {"SYMTUNER_LEDGER_SIGNAL", "USR2", 0, ST_SIGNAL_USR2, 0, 1, 0},
    {"SYMTUNER_LOG", "warn", 0, 0, ST_LOG_WARN, 1, 0},
    {"SYMTUNER_LOG", "off", 0, 0, ST_LOG_OFF, 1, 0},
    {"SYMTUNER_DEFAULTS", "0", 0, 0, 0, 0, 0},
    {"SYMTUNER_STRICT", "1", 0, 0, 0, 1, 1},
};

START_TEST(test_a_word_becomes_its_value)
{
    struct st_options options;
    char error[256] = "";

    forget_all();
    setenv(typed[_i].name, typed[_i].value, 1);
    ck_assert_msg(st_options_read(&options, error, sizeof error), "%s", error);
    unsetenv(typed[_i].name);
    ck_assert_int_eq(options.mode, typed[_i].mode);
    ck_assert_int_eq(options.ledger_signal, typed[_i].signal);
    ck_assert_int_eq(options.log, typed[_i].log);
    ck_assert_int_eq(options.defaults, typed[_i].defaults);
    ck_assert_int_eq(options.strict, typed[_i].strict);
}
END_TEST

/* The plugin must not fall back to a default silently. Its message must name every wrong value,
 * from the first to the last. */
START_TEST(test_each_wrong_setting_is_named)
{
    struct st_options options;
    char error[512] = "left from before", small[40];

    forget_all();
    setenv("SYMTUNER_MODE", "of", 1);
    setenv("SYMTUNER_STRICT", "2", 1);
    setenv("SYMTUNER_QWERTZUIOP", "x", 1);
    ck_assert(!st_options_read(&options, error, sizeof error));
    ck_assert(!st_options_read(&options, small, sizeof small));
    forget_all();
    unsetenv("SYMTUNER_QWERTZUIOP");
    ck_assert_str_eq(error, "SYMTUNER_QWERTZUIOP: no such variable; `symtuner env` lists them; "
                            "SYMTUNER_MODE=of: write one of steer|observe|off; using \"steer\"; "
                            "SYMTUNER_STRICT=2: write one of 1|0; using \"0\"");
    ck_assert_str_eq(small, "SYMTUNER_QWERTZUIOP: no such variable; ");
}
END_TEST

Suite *options_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *table = tcase_create("table"), *values = tcase_create("values");

    tcase_add_test(table, test_every_row_is_complete_and_its_default_legal);
    tcase_add_test(table, test_without_variables_the_defaults_hold);
    t_add_rows(values, test_a_setting_is_taken_or_named, settings);
    t_add_rows(values, test_a_word_becomes_its_value, typed);
    tcase_add_test(values, test_each_wrong_setting_is_named);
    suite_add_tcase(suite, table);
    suite_add_tcase(suite, values);
    return suite;
}
