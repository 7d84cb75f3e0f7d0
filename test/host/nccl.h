/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - a stand-in for NCCL: loads the built libsymtuner.so as a given release would, and calls
 * its tables in that release's order. No GPU, no NCCL.
 *
 * The order is that of NCCL's source: env plugin first, then profiler init, then tuner init, per
 * communicator; at its end tuner finalize, then profiler finalize. Every answer is checked on its
 * way: success, no dead entry revived, nothing <= 0 written.
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
    int nccl, tuner, profiler, env; /* the interface versions it asks for; 0 none */
};
extern const struct release releases[];
enum { RELEASES = 11 };
#define t_each_release(tcase, test) tcase_add_loop_test(tcase, test, 0, RELEASES)

#define t_rows(tcase, test, table)                                                                 \
    tcase_add_loop_test(tcase, test, 0, (int)(sizeof table / sizeof *table))

/* The loaded plugin, as this release sees it, and its API. */
extern struct plugin {
    const struct release *release;
    void *library;
    const void *tuner, *profiler, *env;
    const char *(*get_env)(const char *name); /* NULL without an env interface */
    enum symtuner_status (*inline_rules)(const char *, symtuner_rules **, char *, size_t);
    void (*free_rules)(symtuner_rules *);
    enum symtuner_status (*decide)(const symtuner_rules *, const struct symtuner_query *,
                                   struct symtuner_decision *);
    int (*apply)(const struct symtuner_decision *, const struct symtuner_query *, float *, int, int,
                 int *);
    int (*explain)(const symtuner_rules *, const struct symtuner_query *,
                   const struct symtuner_decision *, char *, size_t);
} plugin;

enum { ENV_PLUGIN = 1, QUIET = 2 }; /* QUIET: NCCL gives no logger */

/* Load the library and find the tables that the release looks for; with ENV_PLUGIN (where the
 * release has it) also start its env interface. */
void nccl_load(const struct release *release, int how);

struct comm {
    uint64_t id;
    int ranks, nodes;
    void *tuner, *profiler;
    int mask; /* events that the profiler wants */
    int others;
    void *other[64]; /* tuners of the other ranks, when they live in this process, too */
};

/* The cost constants that NCCL has. If they may change, the test sets and reads them; else they are
 * noise (zeros from 2.31 on) that must not change. */
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

/* Start and end one rank of a communicator; the constants must not change by a bit. nccl_rank
 * returns the tuner's answer. Between the last nccl_rank and the first call NCCL has a barrier. */
int nccl_rank(struct comm *comm, uint64_t id, int ranks, int nodes);
void nccl_comm_end(struct comm *comm);

/* An id that no other run of these tests has: ranks meet under it in shared memory. */
uint64_t nccl_id(uint64_t small);

/* The same for all ranks of one node at once, in this process, under nccl_id(id); calls are then
 * asked of one of them. With tuner v4, which knows no communicators, it is one rank. */
int nccl_comm(struct comm *comm, uint64_t id, int ranks, int nodes);

struct question {
    int func;
    size_t bytes;
    int pipe_ops, registered;
    float table[T_CELLS];
    int channels;
};

/* One getCollInfo. Returns how many bits of the answer's table differ from the question's. */
int nccl_ask(const struct comm *comm, struct question *question);

/* A whole collective of ${bytes} per rank as the release plays it: CollApi event, probes, the real
 * question (in ${last}), Coll event. ${ran_symmetric}: what kernel NCCL then ran. */
void nccl_collective(const struct comm *comm, int func, size_t bytes, int registered,
                     const float table[T_CELLS], int ran_symmetric, struct question *last);

/* What NCCL's logger got. */
extern struct log {
    int warnings, infos;
    char text[16384];
} nccl_log;

/* A folder that the loader searches (LD_LIBRARY_PATH), empty when a test begins: put a link to
 * ${file} into it under ${name}. And one of the libraries of test/host/fakes. */
void nccl_install(const char *name, const char *file);
const char *nccl_fake(const char *name);

/* A temporary file name that is removed when the process ends well; and its content. */
const char *nccl_temp(void);
const char *nccl_read(const char *path);

void nccl_event(const struct comm *comm, int kind, int func, size_t count, int symmetric);

Suite *order_suite(void);
Suite *rules_host_suite(void);
Suite *variables_suite(void);
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
