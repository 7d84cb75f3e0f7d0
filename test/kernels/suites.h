/* SPDX-License-Identifier: Apache-2.0 */
/* suites.h - the suites of check-ar, a program that tests libsymtuner_ar.so without a GPU. */
#ifndef ST_TEST_AR_SUITES_H_
#define ST_TEST_AR_SUITES_H_

#include <check.h>

/* Like ck_assert, but for long loops. libcheck's own macro also records each assertion that holds,
 * which is slow. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

Suite *st_suite_layout(void);
Suite *st_suite_select(void);
Suite *st_suite_choices(void);
Suite *st_suite_options(void);
Suite *st_suite_rules(void);
Suite *st_suite_rules_coll(void);
Suite *st_suite_probe(void);
Suite *st_suite_probe_file(void);
Suite *st_suite_api(void); /* this suite and those below need CUDA's and NCCL's headers */
Suite *st_suite_abort(void);
Suite *st_suite_destroy(void);
Suite *st_suite_signals(void);
Suite *st_suite_exit(void);
Suite *st_suite_comm(void);
Suite *st_suite_bootstrap(void);
Suite *st_suite_window(void);
Suite *st_suite_overlaps(void);
Suite *st_suite_windows(void);
Suite *st_suite_nccl(void);
Suite *st_suite_call(void);
Suite *st_suite_nccl_wait(void);
Suite *st_suite_alike(void);
Suite *st_suite_graph(void);
Suite *st_suite_mixing(void);
Suite *st_suite_follower(void);
Suite *st_suite_multicast(void);
Suite *st_suite_halves(void);
Suite *st_suite_operator(void);
Suite *st_suite_dropin(void);
Suite *st_suite_grow(void);
Suite *st_suite_grow_local(void);
Suite *st_suite_ipc(void);
Suite *st_suite_agree(void);
Suite *st_suite_ipc_auto(void);
Suite *st_suite_post(void);
Suite *st_suite_vmm(void);
Suite *st_suite_heap(void);

/* Each of these functions adds tests to the program check-ar-kernels. */
void st_add_emulated_tests(TCase *t);
void st_add_engines_tests(TCase *t);

#endif
