/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - a stand-in for NCCL. It loads the built libsymtuner.so as a given release would, and
 * calls its functions in that release's order. It needs neither a GPU nor NCCL.
 *
 * The order is that of NCCL's source. The env plugin comes first. Each communicator begins with
 * profiler init and tuner init, and ends with tuner finalize and profiler finalize. Every answer is
 * checked: it must be a success. In the cost table, entries below 0 are of algorithms that NCCL
 * cannot use. The plugin must not change these, and must write only values above 0.
 *
 * Each test runs in a process of its own, so that the plugin starts afresh.
 */
#ifndef TEST_HOST_NCCL_H_
#define TEST_HOST_NCCL_H_

#include <check.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_abi/env.h"
#include "nccl_abi/profiler.h"
#include "nccl_abi/tuner.h"
#include "symtuner.h"
#include "test/suites.h"
#include "test/tables.h"

struct release {
    /* NCCL's version; then the versions of the interfaces that it asks for (0: none). */
    int nccl, tuner, profiler, env;
};
extern const struct release releases[];
enum { RELEASES = 11 };
#define t_each_release(tcase, test) tcase_add_loop_test(tcase, test, 0, RELEASES)

#define t_rows(tcase, test, table)                                                                 \
    tcase_add_loop_test(tcase, test, 0, (int)(sizeof table / sizeof *table))

/* The loaded plugin: the tables of functions that this release finds in it, and its API. */
extern struct plugin {
    const struct release *release;
    void *library;
    const void *tuner, *profiler, *env;
    const char *(*get_env)(const char *name); /* NULL if the release has no env interface */
    enum symtuner_status (*inline_rules)(const char *, symtuner_rules **, char *, size_t);
    void (*free_rules)(symtuner_rules *);
    enum symtuner_status (*decide)(const symtuner_rules *, const struct symtuner_query *,
                                   struct symtuner_decision *);
    int (*apply)(const struct symtuner_decision *, const struct symtuner_query *, float *, int, int,
                 int *);
    int (*explain)(const symtuner_rules *, const struct symtuner_query *,
                   const struct symtuner_decision *, char *, size_t);
} plugin;

enum { ENV_PLUGIN = 1, QUIET = 2 }; /* QUIET: NCCL passes no logger */

/* Load the library and find the tables that the release looks for. With ENV_PLUGIN, also start its
 * env interface, if the release has one. */
void nccl_load(const struct release *release, int how);

struct comm {
    uint64_t id;
    int ranks, nodes;
    void *tuner, *profiler;
    int mask; /* the events that the profiler asks for */
    int others;
    void *other[64]; /* tuners of the other ranks that are in this process */
};

/* NCCL's cost constants. If ${may_change} is set, the test writes and reads them; otherwise they
 * are noise (zeros from 2.31 on) that must not change. */
extern struct nccl_constants {
    int may_change;
    union {
        struct nccl_abi_constants_v5 v5;
        struct nccl_abi_constants_v7 v7;
        unsigned char bytes[sizeof(struct nccl_abi_constants_v7)];
        double number[sizeof(struct nccl_abi_constants_v7) / sizeof(double)];
    } u;
} nccl_constants;
extern const nccl_abi_logger nccl_logger;

/* nccl_rank starts one rank of a communicator and returns the tuner's answer. nccl_comm_end ends
 * the rank. The plugin must not change a bit of the constants. NCCL has a barrier between the last
 * nccl_rank and the first call. */
int nccl_rank(struct comm *comm, uint64_t id, int ranks, int nodes);
void nccl_comm_end(struct comm *comm);

/* Return a communicator id that no other run of these tests uses at the same time. Ranks find each
 * other in shared memory by this id. */
uint64_t nccl_id(uint64_t small);

/* Start all ranks of one node at once in this process, under nccl_id(id), and return the tuner's
 * answer. Only one of the ranks is asked about calls. Tuner v4 knows no communicators, so for v4
 * this starts one rank. */
int nccl_comm(struct comm *comm, uint64_t id, int ranks, int nodes);

struct question {
    int func;
    size_t bytes;
    int pipe_ops, registered;
    float table[T_CELLS];
    int channels;
};

/* Call getCollInfo once. Returns how many entries of the table differ from the question's. */
int nccl_ask(const struct comm *comm, struct question *question);

/* Tell the plugin about a whole collective of ${bytes} per rank, as the release does: CollApi
 * event, the questions that some releases ask first, the last question (kept in ${last}), Coll
 * event. ${ran_symmetric}: whether NCCL then runs a symmetric kernel. */
void nccl_collective(const struct comm *comm, int func, size_t bytes, int registered,
                     const float table[T_CELLS], int ran_symmetric, struct question *last);

/* What NCCL's logger received. */
extern struct log {
    int warnings, infos;
    char text[16384];
} nccl_log;

/* nccl_install puts a link to ${file} under ${name} into a folder that the loader searches
 * (LD_LIBRARY_PATH). The folder is empty when a test begins. nccl_fake returns the path of a
 * library of test/host/fakes. */
void nccl_install(const char *name, const char *file);
const char *nccl_fake(const char *name);

/* nccl_temp returns the name of a temporary file. The file is removed when the process ends well.
 * nccl_read returns a file's content. */
const char *nccl_temp(void);
const char *nccl_read(const char *path);

void nccl_event(const struct comm *comm, int kind, int func, size_t count, int symmetric);

Suite *order_suite(void);
Suite *rules_host_suite(void);
Suite *variables_suite(void);
Suite *copies_suite(void);
Suite *threads_suite(void);
Suite *life_suite(void);
Suite *agree_suite(void);
Suite *chain_suite(void);
Suite *chain_which_suite(void);
Suite *chain_profiler_suite(void);
Suite *chain_events_suite(void);
Suite *chain_peer_suite(void);
Suite *why_suite(void);

#endif
