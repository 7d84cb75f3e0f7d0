/* SPDX-License-Identifier: Apache-2.0 */
/* suites.h - the suites of check-nodes, which tests ranks on several boxes (machines). */
#ifndef ST_TEST_NODES_SUITES_H_
#define ST_TEST_NODES_SUITES_H_

#include <check.h>

Suite *nodes_suite_model(void);
Suite *nodes_suite_create(void);
Suite *nodes_suite_measure(void);
Suite *nodes_suite_forced(void);
Suite *nodes_suite_call(void);
Suite *nodes_suite_late(void);
Suite *nodes_suite_lost(void);  /* only in check-nodes-emu */
Suite *nodes_suite_turns(void); /* only in check-nodes-emu */

#endif
