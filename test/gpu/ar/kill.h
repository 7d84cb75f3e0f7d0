/* SPDX-License-Identifier: Apache-2.0 */
/* kill.h - what ar_kill does in one process, each in a child of its own (kill_one.c): 1 when
 * all was right. */
#ifndef ST_TEST_AR_KILL_H_
#define ST_TEST_AR_KILL_H_

enum { KILL_TIMEOUT = 300 /* ms */ };

/* Rank 1 never calls ${kernel}: nobody writes to its registered buffers. */
int kill_untouched(const char *kernel);

/* Two groups, and each rank begins with another: both calls end, and right. */
int kill_different_order(const char *unused);

/* A graph of ${kernel} is replayed when its handles are destroyed: a local group's works, that of
 * communicators is a launch failure. */
int kill_graph_of_local(const char *kernel);
int kill_graph_of_comms(const char *kernel);

#endif
