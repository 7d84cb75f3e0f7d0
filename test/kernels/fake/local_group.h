/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_group.h - a local group of N ranks on the CUDA that runs nothing, with a buffer for each:
 * the fixture of several suites.
 */
#ifndef ST_TEST_LOCAL_GROUP_H_
#define ST_TEST_LOCAL_GROUP_H_

#include "symtuner_ar.h"

#define N 4

extern symtuner_ar *handles[N];
extern char *memory[N]; /* 1 MiB each, page aligned */
extern const int devices[N];

/* Little scratch, else the defaults. */
struct symtuner_ar_config small(void);

/* For tcase_add_checked_fixture. */
void set_up(void);
void tear_down(void);

/* That ${got} is ${want}, and ${part} is in the error of ${h} (NULL: of creation). */
void want_error(ncclResult_t got, ncclResult_t want, const symtuner_ar *h, const char *part);

#endif
