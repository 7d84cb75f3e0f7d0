/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what the fake NCCL and the fake kernels record, for a test to read.
 *
 * Each copy of the fake NCCL has a record of its own, which fake_record() returns. The fake kernels
 * have one, too, which fake_kernels() returns. A record is a text with one word per call, such as
 * "AllReduce:64 GroupEnd ".
 */
#ifndef TEST_DROPIN_RECORD_H_
#define TEST_DROPIN_RECORD_H_

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"

/* A call of DECIDED elements needs symtuner_ar_decide. */
enum { DECIDED = 12 };

struct record {
    pthread_mutex_t lock;
    bool quiet; /* do not write the text, only count, because there are many calls */
    long collectives;
    char text[8192];
    /* the test sets these members to say what the fake library does */
    int fail;           /* result of the next collective call or ncclCommSuspend */
    int end;            /* result of the next ncclGroupEnd */
    int status;         /* result of symtuner_ar_status */
    size_t nccl_from;   /* messages of this many bytes or more go to NCCL */
    int wrong;          /* the kernels compute wrong results */
    bool gives;         /* symtuner_ar_decide gives calls to NCCL */
    int stages;         /* the kernels use no window */
    bool stuck;         /* ends of handles wait until the handle is aborted, at most 10 s */
    int create;         /* result of symtuner_ar_create */
    int create_once;    /* result of the next symtuner_ar_create only */
    int async;          /* what ncclCommGetAsyncError reports */
    void (*wait)(void); /* ncclCommInitRank calls it to wait for the other ranks */
    void (*launch)(void *comm, void *stream); /* called to launch a kernel of ours */
    void (*ends)(void);                       /* called in the outermost ncclGroupEnd */
    void (*window)(void);                     /* called in ncclCommWindowRegister */
    void (*registers)(void *comm);            /* called in symtuner_ar_register */
    void (*aborts)(void);                     /* called in symtuner_ar_abort */
    /* the fake library sets these members to say what it has seen */
    void *nccl;             /* what symtuner_ar_use_nccl was given */
    long handles;           /* number of handles that exist */
    long aborted;           /* how many of these handles were aborted */
    int waiting;            /* how many threads wait because of ${stuck} */
    struct timespec met;    /* when all ranks had reached ncclCommInitRank */
    int promises;           /* calls of symtuner_ar_followers_wait(1) */
    int taken_back;         /* calls of symtuner_ar_followers_wait(0) */
    int separated;          /* calls of symtuner_ar_separate */
    void *separated_stream; /* the stream of the latest of these calls */
    uint32_t limit_ms;      /* timeout_ms of the latest symtuner_ar_create */
    int max_ctas;           /* max_ctas of the latest symtuner_ar_create */
    uint64_t hash;          /* hash of all that was written down */
};

static inline void record_add(struct record *r, const char *format, ...)
{
    va_list args;
    size_t used;

    if (__atomic_load_n(&r->quiet, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&r->lock);
    used = strlen(r->text);
    if (used < sizeof r->text - 64) {
        va_start(args, format);
        vsnprintf(r->text + used, sizeof r->text - used, format, args);
        va_end(args);
        r->hash = st_hash(r->hash, r->text + used, strlen(r->text + used));
    }
    pthread_mutex_unlock(&r->lock);
}

/* Compute the all-gather of two ranks that have the same input. */
static inline void gather_of_two(const void *send, void *recv, size_t count, int dtype)
{
    if (!send || !recv || dtype != 7 || count > 64)
        return;
    memmove(recv, send, count * sizeof(float));
    memcpy((float *)recv + count, recv, count * sizeof(float));
}

/* Compute the sum of two ranks that have the same input. */
static inline void sum_of_two(const void *send, void *recv, size_t count, int dtype, int op)
{
    const float *from = send;
    float *to = recv;

    for (size_t i = 0; from && to && dtype == 7 && op == 0 && count <= 64 && i < count; i++)
        to[i] = 2 * from[i];
}

#endif
