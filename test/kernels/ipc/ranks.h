/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - two ranks that map each other's memory, in one process or in two. */
#ifndef ST_TEST_RANKS_H_
#define ST_TEST_RANKS_H_

#include "kernels/group/handle.h"
#include "test/kernels/fake/local_group.h"

enum { BYTES = 16 << 20, FLOATS = BYTES / 4 };

extern symtuner_ar *pair[2];
extern char *const place[2]; /* where each rank has an allocation of 4 * BYTES */

/* For tcase_add_checked_fixture: ranks of one process. */
void make_pair(void);
void drop_pair(void);

/* Make a call on rank ${r}, and return the arguments of its kernel. */
const struct ar_args *call(int r, const char *send, char *recv);

/* What getpid returns in this thread; 0: the real number. The threads of the two ranks get
 * different numbers, so each rank believes that the other one is a process of its own. */
extern _Thread_local int fake_pid;

/* Two ranks, each of which believes that the other one is another process. create_in_process makes
 * the handle of_rank[rank]. make_processes makes both handles, and sets ${pair}. */
extern symtuner_ar *of_rank[2];
void create_in_process(int rank);
void destroy_in_process(int rank);
void make_processes(void);
void drop_processes(void);

/* Return how many descriptors this process has open. */
int open_files(void);

#endif
