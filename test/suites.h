/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suites.h - the suites of build/check, one per module.
 *
 * A new suite is a file test/FOLDER/check_NAME.c that defines NAME_suite, and X(NAME) below. Every
 * suite is declared weak: if its file is not there, the suite is left out.
 */
#ifndef TEST_SUITES_H_
#define TEST_SUITES_H_

#include <check.h>

/* Run ${test} once for each row of ${table}; _i is the row. */
#define t_add_rows(tcase, test, table)                                                             \
    tcase_add_loop_test(tcase, test, 0, (int)(sizeof table / sizeof *table))

/* Like ck_assert_msg, but costs nothing if the condition holds. ck_assert_msg writes its line to a
 * file each time, which is slow in a million rounds. */
#define t_check(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

/* The suites of modules without state. They also run without fork (CK_FORK=no), for valgrind and
 * gdb. */
#define PURE_SUITES(X)                                                                             \
    X(names) X(sizes) X(rules) X(files) X(kernels) X(lint) X(golden) X(match) X(symmodel) \
    X(general_cost) X(gates) X(steer) X(options) X(machine) X(api) X(abi) X(next) \
    X(compare) X(cut)

/* The suites of modules that look something up once per process. Each of their tests runs in a
 * process of its own. */
#define PROCESS_SUITES(X) X(rollcall) X(log) X(profiler) X(ledger) X(ledger_file) X(alloc) \
    X(tally) X(board) X(meet) X(comms) X(process)

#define DECLARE(name) Suite *name##_suite(void) __attribute__((weak));
PURE_SUITES(DECLARE)
PROCESS_SUITES(DECLARE)
#undef DECLARE

#endif
