/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - the processes that run contenders; protocol.h has the commands. */
#ifndef AR_COMPARE_CREW_H_
#define AR_COMPARE_CREW_H_

#include <sys/types.h>

#include "bench/compare/protocol.h"

struct crew_kind {
    const char *name;
    int torch, host;
    const char *const *env; /* "NAME=value" to add, NULL at the end; NULL: none */
    const char *peer;       /* the peer's library, or NULL */
};

struct crew_shape {
    int ranks, apart; /* apart: one process per GPU; else one process with threads */
    size_t most;
    char *self, *script; /* this program, torch_worker.py */
};

struct crew {
    char name[48];
    int n, torch; /* n 0: not running */
    int patience; /* most seconds until an answer */
    pid_t pid[MOST_RANKS];
    int to[MOST_RANKS], from[MOST_RANKS];
};

/* All return 1; or they say why not on stderr, end the crew, and return 0. Start all crews first
 * and then wait for each with crew_ready(), so that they start up at the same time. */
int crew_start(struct crew *c, const struct crew_kind *kind, const struct crew_shape *shape);
int crew_ready(struct crew *c);
int crew_ask(struct crew *c, char *answer, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int crew_time(struct crew *c, int slot, int launches, int samples, int warmup, double *us);
void crew_end(struct crew *c);
int crew_floor(const struct crew_shape *shape, double *gbps, double *us);

#endif
