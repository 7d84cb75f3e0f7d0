/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_group.h - a fixture that several suites use: the N ranks of a group made with
 * symtuner_ar_create_local on the fake CUDA, with a buffer for each rank.
 */
#ifndef ST_TEST_LOCAL_GROUP_H_
#define ST_TEST_LOCAL_GROUP_H_

#include "symtuner_ar.h"

#define N 4

extern symtuner_ar *handles[N];
extern char *memory[N]; /* each has 1 MiB and begins at a page */
extern const int devices[N];

/* Return a configuration with little scratch memory, and with defaults otherwise. */
struct symtuner_ar_config small(void);

/* For tcase_add_checked_fixture: set_up makes the group, and tear_down ends it. */
void set_up(void);
void tear_down(void);

/* Check that ${got} is ${want}, and that the error text of ${h} contains ${part}. If ${h} is NULL,
 * check the error text of the last creation instead. */
void want_error(ncclResult_t got, ncclResult_t want, const symtuner_ar *h, const char *part);

#endif
