/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.h - a rank of a group in check-threads. Each rank has a thread. All ranks of a group draw
 * the same steps, from equal random numbers; what only concerns one rank is drawn from its own.
 */
#ifndef ST_TEST_THREADS_MEMBER_H_
#define ST_TEST_THREADS_MEMBER_H_

#include <pthread.h>
#include <stdbool.h>

#include "symtuner_ar.h"
#include "test/random.h"

enum { MOST_RANKS = 4, STREAMS = 2, MEMORY = 32 << 20 };

struct group {
    int ranks, number;
    bool local, boxes; /* a local group; a group whose ranks are on two boxes */
    const char *ipc;   /* SYMTUNER_AR_IPC; NULL: not set */
    int gpu[MOST_RANKS];
    pthread_barrier_t all;
    ncclUniqueId id;                  /* of the communicator that the ranks make next */
    symtuner_ar *handles[MOST_RANKS]; /* only in local groups */
};

struct member {
    struct group *group;
    int rank, lives;
    struct t_random script, own;
    symtuner_ar *h;
    ncclComm_t comm;
    cudaStream_t stream[STREAMS];
    char *memory; /* for the buffers of calls; no kernel uses it */
    pthread_t thread;
};

/* Begin and end what a rank needs besides its handle. */
void member_begin(struct member *m);
void member_end(struct member *m);

/* Make a few calls that any rank may make at any time. */
void member_look(struct member *m);

/* Make one eager call, or capture one to three calls into a graph that ends soon. Returns the first
 * error. */
ncclResult_t member_call(struct member *m, struct t_random *random, size_t most);
ncclResult_t member_capture(struct member *m, struct t_random *random, size_t most);

/* The threads of the ranks of the two kinds of groups. */
void *member_of_comm(void *member);
void *member_of_local(void *member);

/* Wait until all ranks of the group have come. Returns whether this rank is to do what only one
 * rank may do. */
bool member_meet(struct member *m);

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const ncclResult_t result_ = (call);                                                       \
        if (result_ != ncclSuccess)                                                                \
            member_fail(m, __FILE__, __LINE__, #call, (int)result_);                               \
    } while (0)

/* Like MUST, but reserve also fails if a graph captured a call for which scratch was missing. */
#define MUST_RESERVE(call)                                                                         \
    do {                                                                                           \
        const ncclResult_t result_ = (call);                                                       \
        if (result_ != ncclSuccess && result_ != ncclSystemError)                                  \
            member_fail(m, __FILE__, __LINE__, #call, (int)result_);                               \
    } while (0)

void member_fail(const struct member *m, const char *file, int line, const char *call, int result);

#endif
