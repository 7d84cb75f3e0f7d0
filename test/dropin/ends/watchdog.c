/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchdog.c - one thread ends a communicator, and waits for a kernel of ours that waits for a lost
 * rank. Another thread, a watchdog, aborts or revokes it meanwhile.
 *
 * usage: watchdog CASE    under the drop-in, on the fake NCCL and the fake kernels. Exit 1: stderr
 *                         says which line failed.
 */
#include <pthread.h>
#include <sched.h>

#include "test/dropin/play/play.h"

static struct nccl n;
static pthread_t thread;

static void make(void **comm)
{
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    said(n.record);
    said(kernels());
}

static void *finalizer(void *comm)
{
    MUST(n.f.CommFinalize(comm) == 0);
    return NULL;
}

static void *destroyer(void *comm)
{
    MUST(n.f.CommDestroy(comm) == 0);
    return NULL;
}

/* Let a thread end the communicator, until it waits for a kernel of ours. */
static void begin(void *(*ender)(void *), void *comm)
{
    __atomic_store_n(&kernels()->stuck, true, __ATOMIC_RELAXED);
    MUST(pthread_create(&thread, NULL, ender, comm) == 0);
    while (__atomic_load_n(&kernels()->waiting, __ATOMIC_RELAXED) == 0)
        sched_yield();
}

static void join(void)
{
    MUST(pthread_join(thread, NULL) == 0);
    __atomic_store_n(&kernels()->stuck, false, __ATOMIC_RELAXED);
}

/* NCCL must not get the communicator of the other thread after the abort has freed it. */
static void abort_it(void *(*ender)(void *))
{
    void *comm[2];

    make(comm);
    begin(ender, comm[0]);
    MUST(n.f.CommAbort(comm[0]) == 0);
    join();
    SAID(kernels(), "abort discard:1 ");
    SAID(n.record, "Abort:0 ");
    MUST(kernels()->handles == 1);
    MUST(n.f.CommDestroy(comm[1]) == 0);
}

static void finalize(void)
{
    abort_it(finalizer);
}

static void destroy(void)
{
    abort_it(destroyer);
}

/* A revocation ends the wait, but not the communicator. */
static void revoke(void)
{
    void *comm[2];

    make(comm);
    begin(finalizer, comm[0]);
    MUST(n.f.CommRevoke(comm[0], 0) == 0);
    join();
    SAID(kernels(), "abort destroy:1 ");
    MUST(n.f.CommDestroy(comm[0]) == 0 && n.f.CommDestroy(comm[1]) == 0);
    MUST(kernels()->handles == 0);
}

/* So does the abort of another communicator that shares resources. Run with
 * NCCL_COMM_SPLIT_SHARE_RESOURCES=1. */
static void relative(void)
{
    void *comm[2], *child[2];

    make(comm);
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommSplit(comm[i], 0, i, &child[i], NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    said(n.record);
    begin(destroyer, child[0]);
    MUST(n.f.CommAbort(comm[0]) == 0);
    join();
    MUST(strstr(kernels()->text, "late ") == NULL && strstr(n.record->text, "Destroy ") != NULL);
    MUST(kernels()->handles == 2 && kernels()->aborted == 0);
    MUST(n.f.CommDestroy(child[1]) == 0 && n.f.CommDestroy(comm[1]) == 0);
}

static pthread_barrier_t both;
static void *_Atomic victim;

static void *finalize_all(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++) {
        void *comm;

        pthread_barrier_wait(&both);
        comm = victim;
        for (volatile int spin = 0; spin < i % 64 * 50; spin++)
            ;
        n.f.CommFinalize(comm);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

/* Both threads begin at about the same time. No handle may be freed while a thread uses it, and
 * none may be left. */
static void races(void)
{
    int rounds = 10000;
    void *comm[2];

    MUST(pthread_barrier_init(&both, NULL, 2) == 0);
    MUST(pthread_create(&thread, NULL, finalize_all, &rounds) == 0);
    for (int i = 0; i < rounds; i++) {
        make(comm);
        victim = comm[0];
        pthread_barrier_wait(&both);
        for (volatile int spin = 0; spin < i / 64 % 64 * 50; spin++)
            ;
        MUST((i % 2 ? n.f.CommAbort(comm[0]) : n.f.CommRevoke(comm[0], 0)) == 0);
        pthread_barrier_wait(&both);
        MUST(i % 2 || n.f.CommDestroy(comm[0]) == 0);
        MUST(n.f.CommAbort(comm[1]) == 0);
        MUST(kernels()->handles == 0);
    }
    MUST(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {{"finalize", finalize},
                                             {"destroy", destroy},
                                             {"revoke", revoke},
                                             {"relative", relative},
                                             {"races", races}};

    MUST(argc == 2);
    nccl_linked(&n);
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
