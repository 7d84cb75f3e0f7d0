/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - counts for each communicator which calls NCCL asked our tuner about, what the tuner
 * answered, and which kernels ran.
 *
 * Counting is lock-free, allocates nothing and is safe from any thread. All ranks of a communicator
 * in this process share one ledger. Tuner and profiler share it, too, because both find it by the
 * communicator id. docs/ledger.md describes the text that a ledger is written as.
 *
 * An atomic addition costs more than the decision that it counts. So every counter has two halves.
 * The first thread that counts in a ledger owns the half ${owned} of all counters of the ledger. It
 * adds to that half by a plain load and store. All other threads add to the half ${shared}
 * atomically. A reader adds up both halves, so no count is lost.
 *
 * Units      sizes are NCCL's nBytes: bucket b counts calls of 2^b .. 2^(b+1)-1 bytes. Bucket 0
 *            also counts calls of 0 bytes, and the last bucket counts all larger calls.
 * Ownership  every st_ledger_open needs an st_ledger_close. The last st_ledger_close writes the
 *            text and frees the ledger. If the process exits before, the text is written at exit.
 */
#ifndef ST_LEDGER_H_
#define ST_LEDGER_H_

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "plugin/process.h"
#include "plugin/steer.h"

enum { ST_BUCKETS = 48, ST_CELLS = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
enum { ST_VERDICTS_ROOM = 8 }; /* a power of two, so that an index needs only shifts */
_Static_assert((int)ST_VERDICTS <= (int)ST_VERDICTS_ROOM, "one place per verdict");
enum st_ran {
    ST_RAN_CALLED, ST_RAN_CAPTURED, ST_RAN_GENERAL, ST_RAN_SYMMETRIC, ST_RAN_CE, ST_RANS
};

struct st_counter {
    _Atomic uint64_t owned, shared;
};

/* The counters of one communicator. */
struct st_ledger {
    _Atomic uintptr_t owner; /* thread that may write the halves ${owned}; 0: none yet */
    struct st_ledger *next;
    int users;                    /* calls of st_ledger_open minus st_ledger_close */
    uint64_t comm_id;
    uint64_t opened;              /* when the ledger was opened, in ns since 1970 */
    pid_t pid;                    /* the process that opened the ledger   */
    int ranks, nodes;
    int nccl;                     /* the release of the NCCL that has the communicator */
    int local;                    /* how many of its tuners this process has opened so far */
    int tuners;                   /* how many of these tuners are open now  */
    int profilers;                /* how many of its profilers this process has opened so far */
    /* asked[collective][bucket][1: registered buffers][enum st_verdict]: what our tuner answered.
     * picked[collective][bucket][algo * SYMTUNER_PROTOS + proto]: the entry that NCCL chooses.
     * ran[collective][bucket][enum st_ran]: what our profiler saw. */
    struct st_counter asked[SYMTUNER_COLLS][ST_BUCKETS][2][ST_VERDICTS_ROOM];
    struct st_counter picked[SYMTUNER_COLLS][ST_BUCKETS][ST_CELLS];
    struct st_counter ran[SYMTUNER_COLLS][ST_BUCKETS][ST_RANS];
};

/* Find or make the ledger of a communicator. ${nccl}: the release of its NCCL. If ${comm_id} is 0,
 * as with version 4 of the tuner interface, which has no ids, always make a new ledger. Returns
 * NULL if out of memory; then nothing is counted. */
struct st_ledger *st_ledger_open(uint64_t comm_id, int ranks, int nodes, int nccl);
void st_ledger_close(struct st_ledger *ledger);

/* Record that a tuner of this communicator opens or closes, and return whether that tuner should
 * log. Only the first tuner to open and the last one to close should log. If ${ledger} is NULL,
 * every tuner should. */
bool st_ledger_tuner_opens(struct st_ledger *ledger);
bool st_ledger_tuner_closes(struct st_ledger *ledger);

/* Record that a profiler of this communicator opens. */
void st_ledger_profiler_opens(struct st_ledger *ledger);

static inline int st_ledger_bucket(uint64_t bytes)
{
    int bucket = 63 - __builtin_clzll(bytes | 1);

    return bucket < ST_BUCKETS ? bucket : ST_BUCKETS - 1;
}

/* Return a number that no other living thread has. The address of a _Thread_local variable would be
 * such a number, too, but a library loaded by dlopen needs a function call to get that address. */
static inline uintptr_t st_thread(void)
{
#if defined(__x86_64__)
    uintptr_t self;

    __asm__("mov %%fs:0, %0" : "=r"(self)); /* the thread pointer, by the ABI */
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

/* Add 1 to ${counter} from a thread that does not own the ledger. If the ledger has no owner, the
 * thread becomes its owner. */
void st_ledger_add_shared(struct st_ledger *ledger, struct st_counter *counter);

static inline void st_ledger_add(struct st_ledger *ledger, struct st_counter *counter)
{
    if (__builtin_expect(atomic_load_explicit(&ledger->owner, memory_order_relaxed) == st_thread(),
                         1))
        atomic_store_explicit(&counter->owned,
                              atomic_load_explicit(&counter->owned, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    else
        st_ledger_add_shared(ledger, counter);
}

static inline uint64_t st_ledger_read(const struct st_counter *counter)
{
    return atomic_load_explicit(&counter->owned, memory_order_relaxed) +
           atomic_load_explicit(&counter->shared, memory_order_relaxed);
}

/* Fill in how often NCCL asked the tuner, and how often a rule changed the answer. */
void st_ledger_sums(const struct st_ledger *ledger, uint64_t *asked_out, uint64_t *steered_out);

/* Start a thread that writes all open ledgers whenever SYMTUNER_LEDGER_SIGNAL arrives. Later calls
 * do nothing. */
void st_ledger_listen(const struct st_options *options);

#endif
