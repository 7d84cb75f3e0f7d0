/* SPDX-License-Identifier: Apache-2.0 */
/* kill.h - the tests of ar_kill within one process; each runs in a child and returns 1 if all was
 * right. */
#ifndef ST_TEST_AR_KILL_H_
#define ST_TEST_AR_KILL_H_

enum { KILL_TIMEOUT = 300 /* ms */ };

/* Rank 1 never calls ${kernel}: nobody writes to its registered buffers. */
int kill_untouched(const char *kernel);

/* Each of two ranks calls another group first: both calls end and are right. */
int kill_different_order(const char *unused);

/* A graph of ${kernel} is replayed after its handles were destroyed: in a local group it works; in
 * one made from communicators the launch fails. */
int kill_graph_of_local(const char *kernel);
int kill_graph_of_comms(const char *kernel);

#endif
