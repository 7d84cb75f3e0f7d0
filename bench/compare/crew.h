/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - crews: groups of processes that run the contenders (the kernels that are compared).
 * protocol.h lists the commands that a crew understands. */
#ifndef AR_COMPARE_CREW_H_
#define AR_COMPARE_CREW_H_

#include <sys/types.h>

#include "bench/compare/protocol.h"

struct crew_kind {
    const char *name;
    int torch, host;        /* torch: run torch_worker.py; host: use no peer memory */
    const char *const *env; /* variables to set, as "NAME=value", with NULL at the end; or NULL */
    const char *peer;       /* path of the peer's library; NULL: the crew runs no peer */
};

struct crew_shape {
    int ranks, apart; /* apart: 1: one process per GPU; 0: one process with a thread per GPU */
    size_t most;
    char *self, *script; /* paths of this program and of torch_worker.py */
};

struct crew {
    char name[48];
    int n, torch;  /* n: number of processes; 0: the crew does not run */
    int timeout_s; /* longest wait for an answer, in seconds */
    pid_t pid[MOST_RANKS];
    int to[MOST_RANKS], from[MOST_RANKS]; /* pipes to and from the processes */
};

/* These functions, except crew_end, return 1 on success. On failure they print the reason to
 * stderr, end the crew, and return 0. crew_ready() waits until a crew has started. Call it only
 * after crew_start() was called for all crews, so that the crews start up at the same time. */
int crew_start(struct crew *c, const struct crew_kind *kind, const struct crew_shape *shape);
int crew_ready(struct crew *c);
int crew_ask(struct crew *c, char *answer, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int crew_time(struct crew *c, int slot, int launches, int samples, int warmup, double *us);
void crew_end(struct crew *c);
int crew_floor(const struct crew_shape *shape, double *gbps, double *us);

#endif
