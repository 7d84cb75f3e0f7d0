/* SPDX-License-Identifier: Apache-2.0 */
/* kill.h - the tests of ar_kill that need only one process. Each runs in a child process and
 * returns 1 if all was right. */
#ifndef ST_TEST_AR_KILL_H_
#define ST_TEST_AR_KILL_H_

enum { KILL_TIMEOUT = 300 /* ms */ };

/* Rank 0 makes a call with ${kernel}, rank 1 does not. Check that nobody writes to the registered
 * buffers of rank 1. */
int kill_untouched(const char *kernel);

/* Two ranks make calls on two groups, in different order. Both calls must end and be right. */
int kill_different_order(const char *unused);

/* Replay a graph of ${kernel} after its handles were destroyed. If symtuner_ar_create_local() made
 * them, the replay must work. If they were made from communicators, the replay must fail. */
int kill_graph_of_local(const char *kernel);
int kill_graph_of_comms(const char *kernel);

#endif
