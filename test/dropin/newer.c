/* SPDX-License-Identifier: Apache-2.0 */
/*
 * newer.c - a program that uses functions and flags that NCCL has since 2.27, and checks what the
 * drop-in does with them. One thread drives all ranks of a communicator.
 *
 * usage: newer CASE    under the drop-in, on the fake NCCL and the fake kernels. Exit 1: stderr
 *                      says which line failed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/dropin/play/play.h"

static struct nccl n;

static void make(void **comm, int ranks)
{
    MUST(n.f.CommInitAll(comm, ranks, NULL) == 0);
    MUST(kernels() != NULL);
    said(n.record);
    said(kernels());
}

/* Shrink comm[i] and comm[k], both without ${others}, and check that both ranks get a handle. */
static void shrink(void **comm, int i, int k, int *others, void **child)
{
    n.f.GroupStart();
    MUST(n.f.CommShrink(comm[i], others, 2, &child[i], NULL, 0) == 0);
    MUST(n.f.CommShrink(comm[k], others, 2, &child[k], NULL, 0) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 ");
}

/* The ranks of a child meet only each other, whatever other children its parent has. */
static void shrinks(void)
{
    int first[2] = {0, 1}, last[2] = {2, 3}, tsal[2] = {3, 2}, outer[2] = {0, 3};
    void *comm[4], *child[4];

    make(comm, 4);
    /* ranks 0 and 1 shrink the communicator to themselves, and so do ranks 2 and 3 at the same
     * time; ranks may give the list of left-out ranks in different orders */
    n.f.GroupStart();
    MUST(n.f.CommShrink(comm[0], last, 2, &child[0], NULL, 0) == 0);
    MUST(n.f.CommShrink(comm[1], tsal, 2, &child[1], NULL, 0) == 0);
    MUST(n.f.CommShrink(comm[2], first, 2, &child[2], NULL, 0) == 0);
    MUST(n.f.CommShrink(comm[3], first, 2, &child[3], NULL, 0) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 create:2 ");
    shrink(comm, 0, 1, last, child); /* ranks 2 and 3 do not see this call */
    shrink(comm, 1, 2, outer, child);
    shrink(comm, 2, 3, first, child);
}

static void windows(void)
{
    static float a[64], b[64];
    void *comm[2], *window[4];

    make(comm, 2);
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommWindowRegister(comm[i], a, sizeof a, &window[i], 1) == 0);
    SAID(kernels(), "");
    n.f.GroupEnd();
    SAID(kernels(), "register:2x256 ");
    SAID(n.record, "GroupStart WindowRegister:256 WindowRegister:256 GroupEnd ");
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "query all_reduce:16 all_reduce:16 ");
    /* for a buffer whose address is no multiple of 16, the drop-in asks the kernels again how to
     * run the call */
    MUST(n.f.AllReduce((char *)a + 4, b, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "query all_reduce:16 ");
    /* For buffers in windows, the drop-in remembers answers for calls in place and for other calls
     * separately: in an all-gather in place, the parts of ranks 0 and 1 may be aligned
     * differently. */
    MUST(n.f.AllReduce(a, (char *)a + 128, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, a, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "query all_reduce:16 query all_reduce:16 ");
    MUST(n.f.AllGather((char *)a + 12, a, 3, F32, comm[1], NULL) == 0);
    MUST(n.f.AllGather((char *)a + 204, a, 3, F32, comm[1], NULL) == 0);
    MUST(n.f.AllGather((char *)a + 12, a, 3, F32, comm[1], NULL) == 0);
    SAID(kernels(), "query all_gather:3 query all_gather:3 all_gather:3 ");
    /* the kernels may copy a call through scratch although its buffers lie in a window; then the
     * drop-in asks again at the next call */
    MUST(n.f.AllReduce(a, b, 8, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "query all_reduce:8 ");
    kernels()->stages = 1;
    MUST(n.f.AllReduce(a, b, 8, F32, SUM, comm[0], NULL) == 0);
    kernels()->stages = 0;
    SAID(kernels(), "query all_reduce:8 ");
    /* register windows with the same base, and end them in any order; one is not symmetric */
    MUST(n.f.CommWindowRegister(comm[0], a, 128, &window[2], 1) == 0);
    MUST(n.f.CommWindowRegister(comm[0], a, 192, &window[3], 1) == 0);
    SAID(kernels(), "register:1x128 register:1x192 ");
    MUST(n.f.CommWindowDeregister(comm[0], window[0]) == 0);
    MUST(n.f.CommWindowDeregister(comm[0], window[0]) == 0);
    SAID(kernels(), "deregister:256 ");
    MUST(n.f.CommWindowRegister(comm[0], b, 64, &window[0], 0) == 0);
    MUST(n.f.CommWindowDeregister(comm[0], window[0]) == 0);
    MUST(n.f.CommWindowDeregister(comm[0], window[2]) == 0);
    SAID(kernels(), "deregister:128 ");
    MUST(n.f.AllReduce((char *)a + 128, b, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "all_reduce:16 "); /* the drop-in knows the answer for buffers in windows */
    MUST(n.f.CommWindowDeregister(comm[0], window[3]) == 0);
    SAID(kernels(), "deregister:192 ");
    said(n.record);
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) ==
         0); /* without the window, the drop-in asks the kernels again */
    SAID(kernels(), "query all_reduce:16 ");
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
}

/* The drop-in does not register a window with our kernels if NCCL may not map it for the other
 * ranks. */
static void restricted(void)
{
    enum { SYMMETRIC = 1, STRICT_ORDERING = 2, GIN_ONLY = 4, CFT_COUNTED = 8 };
    static const int alone[] = {0,
                                STRICT_ORDERING,
                                SYMMETRIC | GIN_ONLY,
                                SYMMETRIC | CFT_COUNTED,
                                SYMMETRIC | STRICT_ORDERING | GIN_ONLY,
                                SYMMETRIC | 0x100};
    static float buffer[64];
    void *comm[2], *window;

    make(comm, 2);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        MUST(n.f.CommWindowRegister(comm[0], buffer, sizeof buffer, &window, alone[i]) == 0);
        MUST(n.f.CommWindowDeregister(comm[0], window) == 0);
        SAID(n.record, "WindowRegister:256 WindowDeregister ");
        SAID(kernels(), "");
    }
    MUST(n.f.CommWindowRegister(comm[0], buffer, sizeof buffer, &window,
                                SYMMETRIC | STRICT_ORDERING) == 0);
    SAID(kernels(), "register:1x256 ");
}

/* A suspended communicator keeps its handle, because a graph may hold its calls, and still counts
 * as one of the 8 communicators that may have handles. It can be aborted or freed like others. */
static void suspends(void)
{
    static float a[16], b[16];
    void *comm[2], *other[9][2];

    make(comm, 2);
    for (int i = 0; i < 2; i++) {
        MUST(n.f.CommSuspend(comm[i], 1) == 0);
        MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[i], NULL) == 0);
    }
    SAID(n.record, "Suspend AllReduce:16 Suspend AllReduce:16 ");
    SAID(kernels(), "");
    for (int i = 0; i < 8; i++)
        make(other[i], 2);
    MUST(kernels()->handles == 16);
    MUST(n.f.CommDestroy(comm[0]) == 0);
    SAID(kernels(), "destroy:1 ");
    MUST(n.f.CommAbort(comm[1]) == 0);
    SAID(kernels(), "abort discard:1 ");
    MUST(kernels()->handles == 14);
    make(other[8], 2);
    MUST(kernels()->handles == 16);
}

/* ncclCommSuspend without its flag and ncclCommRevoke with a flag do nothing, and so do calls that
 * NCCL refuses. If our kernels then no longer ran the calls of this rank, those of other ranks
 * would wait for it. */
static void no_effect(void)
{
    static float a[16], b[16];
    void *comm[2];

    make(comm, 2);
    MUST(n.f.CommSuspend(comm[0], 0) == 0);
    MUST(n.f.CommRevoke(comm[0], 1) == 4);
    n.record->fail = 5;
    MUST(n.f.CommSuspend(comm[0], 1) == 5);
    SAID(n.record, "Suspend Revoke Suspend ");
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(n.record, "");
    SAID(kernels(), "query all_reduce:16 ");
}

/* One thread suspends a communicator while another thread aborts it. Our kernels must give up, and
 * no handle may be left. */
static pthread_barrier_t both;
static void *_Atomic victim;

static void *suspender(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++) {
        void *comm;

        pthread_barrier_wait(&both);
        comm = victim;
        n.f.CommSuspend(comm, 1);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void races(void)
{
    int rounds = 10000;
    void *comm[2];
    pthread_t thread;

    MUST(pthread_barrier_init(&both, NULL, 2) == 0);
    MUST(pthread_create(&thread, NULL, suspender, &rounds) == 0);
    for (int i = 0; i < rounds; i++) {
        make(comm, 2);
        victim = comm[0];
        pthread_barrier_wait(&both);
        MUST(n.f.CommAbort(comm[0]) == 0);
        pthread_barrier_wait(&both);
        MUST(n.f.CommAbort(comm[1]) == 0);
        MUST(kernels()->handles == 0);
    }
    MUST(pthread_join(thread, NULL) == 0);
}

/* One thread revokes a communicator, and another destroys it in the meantime. The destruction must
 * find the handle, and must not free it while it is being aborted. */
static atomic_int step;

static void pause_in_abort(void)
{
    atomic_store(&step, 1);
    while (atomic_load(&step) < 2)
        sched_yield();
    usleep(100000);
    MUST(kernels()->handles == 2);
}

static void *revoker(void *comm)
{
    MUST(n.f.CommRevoke(comm, 0) == 0);
    return NULL;
}

static void ends(void)
{
    void *comm[2];
    pthread_t thread;

    make(comm, 2);
    kernels()->aborts = pause_in_abort;
    MUST(pthread_create(&thread, NULL, revoker, comm[0]) == 0);
    while (atomic_load(&step) < 1)
        sched_yield();
    atomic_store(&step, 2);
    MUST(n.f.CommDestroy(comm[0]) == 0);
    MUST(kernels()->handles == 1);
    MUST(pthread_join(thread, NULL) == 0);
    kernels()->aborts = NULL;
    SAID(kernels(), "abort destroy:1 ");
    MUST(n.f.CommDestroy(comm[1]) == 0);
}

/* In a group, NCCL refuses a call whose config is wrong, but runs the other calls of the group. */
static void refused(void)
{
    static float a[16], b[16];
    const char *wrong = "";
    void *comm[2];

    make(comm, 2);
    a[0] = 1;
    n.f.GroupStart();
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduceConfig(a, b, 8, F32, SUM, comm[1], NULL, wrong) == 4);
    /* so that rank 1 does what rank 0 does, this call must not go to NCCL */
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[1], NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(n.record, "GroupStart GroupEnd ");
    SAID(kernels(), "query query all_reduce:16 all_reduce:16 ");
    MUST(b[0] == 2);
    /* if NCCL accepts the config, it runs all calls of the communicator */
    n.f.GroupStart();
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduceConfig(a, b, 8, F32, SUM, comm[0], NULL, "config") == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(n.record, "GroupStart AllReduceConfig:8 AllReduce:16 GroupEnd ");
    SAID(kernels(), "");
}

/* A call with a config goes to NCCL. Without one it is the same as the plain call, which another
 * rank may have made. */
static void configs(void)
{
    static float a[16], b[16];
    void *comm[2];

    make(comm, 2);
    a[0] = 1;
    for (int grouped = 0; grouped < 2; grouped++) {
        b[0] = 0;
        if (grouped)
            n.f.GroupStart();
        MUST(n.f.AllReduceConfig(a, b, 8, F32, SUM, comm[0], NULL, NULL) == 0);
        MUST(n.f.ReduceScatterConfig(a, b, 8, F32, SUM, comm[0], NULL, NULL) == 0);
        MUST(n.f.AllGatherConfig(a, b, 8, F32, comm[0], NULL, NULL) == 0);
        if (grouped)
            MUST(n.f.GroupEnd() == 0);
        SAID(n.record, grouped ? "GroupStart GroupEnd " : "");
        SAID(kernels(), grouped ? "all_reduce:8 reduce_scatter:8 all_gather:8 "
                                : "query all_reduce:8 query reduce_scatter:8 query all_gather:8 ");
        MUST(b[0] == 1 && b[8] == 1);
    }
    MUST(n.f.AllReduceConfig(a, b, 8, F32, SUM, comm[0], NULL, "config") == 0);
    MUST(n.f.ReduceScatterConfig(a, b, 8, F32, SUM, comm[0], NULL, "config") == 0);
    MUST(n.f.AllGatherConfig(a, b, 8, F32, comm[0], NULL, "config") == 0);
    SAID(n.record, "AllReduceConfig:8 ReduceScatterConfig:8 AllGatherConfig:8 ");
    SAID(kernels(), "");
    /* an error of the plain call is the result */
    n.record->fail = 4;
    MUST(n.f.AllReduceConfig(a, b, 0, F32, SUM, comm[0], NULL, NULL) == 4);
    SAID(n.record, "AllReduce:0 ");
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {
        {"shrinks", shrinks},   {"windows", windows},     {"restricted", restricted},
        {"suspends", suspends}, {"no_effect", no_effect}, {"races", races},
        {"ends", ends},         {"refused", refused},     {"configs", configs}};

    MUST(argc == 2);
    nccl_linked(&n);
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
