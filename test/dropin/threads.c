/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.c - 64 threads make communicators of their own, make random calls on them, and end them.
 * Meanwhile another thread asks for errors of all these communicators, as torch's watchdog does.
 * Then communicators are aborted while another thread makes calls on them, and threads that begin
 * one after the other open groups. Also runs under ThreadSanitizer.
 *
 * usage: threads ROUNDS
 */
#include <pthread.h>
#include <stdatomic.h>

#include "test/dropin/play/play.h"

enum { THREADS = 64 };

static struct nccl n;
static int rounds;
static _Thread_local float a[16], b[16];
static atomic_long ours, theirs; /* numbers of calls that must reach our kernels, and NCCL */
static _Atomic(void *) watched[THREADS];
static atomic_bool stop;

static void *work(void *self)
{
    _Atomic(void *) *mine = self;
    unsigned seed = (unsigned)(mine - watched) * 2654435761u + 1;

    for (int round = 0; round < rounds; round++) {
        void *comm[2];
        int calls;

        MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
        atomic_fetch_add(&theirs, 2); /* the kernels make one all-gather for each handle */
        atomic_store(mine, comm[0]);
        for (int i = 0; i < 50; i++) {
            bool mixed = rand_r(&seed) % 4 == 0;

            calls = (int)(rand_r(&seed) % 4u);
            n.f.GroupStart();
            for (int k = 0; k < calls; k++)
                MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[k & 1], NULL) == 0);
            if (mixed) {
                n.f.Broadcast(a, b, 4, F32, 0, comm[0], NULL);
                n.f.Broadcast(a, b, 4, F32, 0, comm[1], NULL);
            }
            MUST(n.f.GroupEnd() == 0);
            atomic_fetch_add(mixed ? &theirs : &ours, calls);
            MUST(n.f.AllReduce(a, b, 16, F32, 5, comm[0], NULL) == 0);
            atomic_fetch_add(&theirs, 1 + 2 * mixed);
        }
        while (atomic_exchange(mine, NULL) != comm[0])
            ; /* wait while the other thread asks about this communicator */
        for (int i = 0; i < 2; i++)
            MUST((round % 2 ? n.f.CommDestroy : n.f.CommAbort)(comm[i]) == 0);
    }
    return NULL;
}

static void *watch(void *self)
{
    (void)self;
    while (!atomic_load(&stop))
        for (int i = 0; i < THREADS; i++) {
            void *comm = atomic_exchange(&watched[i], NULL);
            int error = 0;

            if (!comm)
                continue;
            MUST(n.f.CommGetAsyncError(comm, &error) == 0 && error == 0);
            atomic_store(&watched[i], comm);
        }
    return NULL;
}

/* Make calls on a communicator until another thread has aborted it. After that NCCL gets the calls,
 * or they end in an error. */
static void *call_on(void *comm)
{
    while (!atomic_load(&stop))
        n.f.AllReduce(a, b, 16, F32, SUM, comm, NULL);
    return NULL;
}

static void abort_50(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t caller;
        void *comm[2];

        MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
        atomic_store(&stop, false);
        MUST(pthread_create(&caller, NULL, call_on, comm[0]) == 0);
        for (volatile int spin = 0; spin < i * 1000; spin++)
            ;
        for (int k = 0; k < 2; k++)
            MUST(n.f.CommAbort(comm[k]) == 0);
        atomic_store(&stop, true);
        MUST(pthread_join(caller, NULL) == 0);
        MUST(kernels()->handles == 2);
    }
}

static atomic_int step;

static void wait_for(int at)
{
    while (atomic_load(&step) < at)
        sched_yield();
}

static void pause_in_call(void *comm, void *stream)
{
    (void)comm, (void)stream;
    atomic_store(&step, 1);
    wait_for(2);
}

static void *call_once(void *comm)
{
    n.f.AllReduce(a, b, 16, F32, SUM, comm, NULL);
    return NULL;
}

/* ncclCommAbort does not wait for a call that another thread is making. When that call returns, the
 * handle is freed. */
static void abort_in_call(void)
{
    pthread_t caller;
    void *comm[2];

    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    MUST(kernels()->handles == 4);
    kernels()->launch = pause_in_call;
    MUST(pthread_create(&caller, NULL, call_once, comm[0]) == 0);
    wait_for(1);
    for (int k = 0; k < 2; k++)
        MUST(n.f.CommAbort(comm[k]) == 0);
    MUST(kernels()->handles == 3);
    atomic_store(&step, 2);
    MUST(pthread_join(caller, NULL) == 0);
    MUST(kernels()->handles == 2);
    kernels()->launch = NULL;
}

static void *call_in_group(void *comm)
{
    n.f.GroupStart();
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    return NULL;
}

static void *broadcast_in_group(void *comm)
{
    n.f.GroupStart();
    MUST(n.f.Broadcast(a, b, 4, F32, 0, comm, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    return NULL;
}

/* A new thread gets the memory of a thread that has ended. Its group must not be taken for the
 * group of that thread: with the calls of that group, NCCL would run all calls. */
static void groups_of_threads(void *comm)
{
    enum { MANY = 10 };
    const long before = kernels()->collectives;
    pthread_t thread;

    for (int i = 0; i < MANY; i++) {
        MUST(pthread_create(&thread, NULL, i == 0 ? broadcast_in_group : call_in_group, comm) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    }
    MUST(kernels()->collectives - before == MANY - 1);
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS], watchdog;
    void *first[2];
    long nccl_before, ours_before;

    MUST(argc == 2);
    rounds = atoi(argv[1]);
    nccl_linked(&n);
    MUST(n.f.CommInitAll(first, 2, NULL) == 0);
    n.record->quiet = kernels()->quiet = true;
    nccl_before = n.record->collectives;
    ours_before = kernels()->collectives;
    MUST(pthread_create(&watchdog, NULL, watch, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&thread[i], NULL, work, &watched[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    atomic_store(&stop, true);
    MUST(pthread_join(watchdog, NULL) == 0);
    MUST(kernels()->collectives - ours_before == ours);
    MUST(n.record->collectives - nccl_before == theirs);
    MUST(kernels()->handles == 2);
    abort_50();
    abort_in_call();
    groups_of_threads(first[0]);
    printf("threads: %ld calls by the kernels, %ld by NCCL\n", (long)ours, (long)theirs);
    return 0;
}
