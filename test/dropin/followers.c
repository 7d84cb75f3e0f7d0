/* SPDX-License-Identifier: Apache-2.0 */
/*
 * followers.c - a program that uses NCCL. The drop-in can promise our kernels that every kernel
 * that follows them on a stream waits for their end (dropin/kernels.h). The program checks whether
 * the drop-in gives this promise, and when it takes it back. It also checks for which calls the
 * drop-in then calls symtuner_ar_separate.
 *
 * usage: followers CASE     the variable SECOND holds the path of another NCCL
 *
 * Like cases.c, it runs under the drop-in, on the fake NCCL and the fake kernels. Each case is a
 * process of its own. Exit 1: stderr says which line failed.
 */
#include <pthread.h>
#include <string.h>

#include "test/dropin/play/play.h"

enum { SYMMETRIC = 1, STREAM = 0x50 };

static struct nccl n, second;
static float a[64], b[64];
/* How often the drop-in had taken back the promise when the program asked NCCL for a window. */
static int back_before;

static void *stream(int i)
{
    return (void *)(uintptr_t)(STREAM + i);
}

static void in_window(void)
{
    back_before = kernels() ? kernels()->taken_back : -1;
}

static void open_second(void)
{
    nccl_opened(&second, dlopen(getenv("SECOND"), RTLD_NOW | RTLD_LOCAL));
    second.record->window = in_window;
}

static void make(struct nccl *nccl, void **comm, int ranks)
{
    nccl->record->window = in_window;
    MUST(nccl->f.CommInitAll(comm, ranks, NULL) == 0);
}

static void window(struct nccl *nccl, void *comm, int flags)
{
    void *made = NULL;

    back_before = -2;
    MUST(nccl->f.CommWindowRegister(comm, a, sizeof a, &made, flags) == 0);
    MUST(back_before != -2);
}

static void want(int promises, int taken_back, int separated)
{
    MUST(kernels()->promises == promises);
    MUST(kernels()->taken_back == taken_back);
    MUST(kernels()->separated == separated);
}

static void big(struct nccl *nccl, void *comm, int i)
{
    MUST(nccl->f.AllReduce(a, b, 1 << 20, F32, SUM, comm, stream(i)) == 0);
}

/* With NCCL 2.28 the promise ends at the first symmetric window of any communicator. */
static void until_a_window(void)
{
    void *comm[2], *alone[1], *made;

    make(&n, comm, 2); /* makes windows for the handles' scratch, which do not end the promise */
    make(&n, alone, 1);
    want(1, 0, 0);
    window(&n, comm[0], 0);
    big(&n, comm[0], 1);
    want(1, 0, 0);
    window(&n, alone[0], SYMMETRIC);
    MUST(back_before == 1);
    want(1, 1, 0);
    window(&n, comm[0], SYMMETRIC);
    MUST(n.f.CommWindowRegister(comm[0], b, sizeof b, &made, SYMMETRIC) == 0);
    MUST(n.f.CommWindowDeregister(comm[0], made) == 0);
    want(1, 1, 0);
    /* the drop-in separates calls that go to NCCL, but not those that our kernels run */
    big(&n, comm[0], 2);
    want(1, 1, 1);
    MUST(kernels()->separated_stream == stream(2));
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], stream(3)) == 0);
    want(1, 1, 1);
    MUST(n.f.Broadcast(a, b, 16, F32, 0, alone[0], stream(4)) == 0);
    want(1, 1, 2);
    MUST(kernels()->separated_stream == stream(4));
    MUST(n.f.AllGather(a, b, 16, F32, alone[0], stream(5)) == 0);
    want(1, 1, 3);
    n.f.GroupStart();
    MUST(n.f.Send(a, 16, F32, 1, comm[0], stream(6)) == 0);
    want(1, 1, 4);
    for (int i = 0; i < 5; i++) /* a group with so many calls goes to NCCL */
        MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], stream(7)) == 0);
    want(1, 1, 4);
    n.f.GroupEnd();
    want(1, 1, 9);
    make(&n, comm, 2); /* the drop-in does not give the promise again */
    want(1, 1, 9);
}

/* If the program makes a window before the drop-in loads the kernels, there is never a promise. */
static void window_first(void)
{
    void *comm[2], *alone[1];

    make(&n, alone, 1);
    MUST(kernels() == NULL);
    window(&n, alone[0], SYMMETRIC);
    make(&n, comm, 2);
    big(&n, comm[0], 1);
    want(0, 0, 0);
}

/* A thread makes calls on a communicator of its own while another thread loads the kernels and
 * makes a window. Only ThreadSanitizer can see whether the thread may use what the other one
 * loaded. */
static void *call_on(void *comm)
{
    while (!kernels() || __atomic_load_n(&kernels()->separated, __ATOMIC_RELAXED) == 0)
        MUST(n.f.Broadcast(a, b, 16, F32, 0, comm, stream(1)) == 0);
    return NULL;
}

static void from_a_thread(void)
{
    void *comm[2], *alone[1];
    pthread_t thread;

    n.record->quiet = true; /* so that the two threads share no lock */
    make(&n, alone, 1);
    MUST(pthread_create(&thread, NULL, call_on, alone[0]) == 0);
    make(&n, comm, 2);
    window(&n, comm[0], SYMMETRIC);
    MUST(pthread_join(thread, NULL) == 0);
}

/* With NCCL 2.29 the drop-in never gives the promise, because symmetric kernels may run on any
 * buffers, and do not wait. */
static void never(void)
{
    void *comm[2];

    make(&n, comm, 2);
    big(&n, comm[0], 1);
    want(0, 0, 0);
}

/* With NCCL 2.30.7 the promise stays although there are windows, because symmetric kernels do
 * wait. */
static void always(void)
{
    void *comm[2];

    make(&n, comm, 2);
    window(&n, comm[0], SYMMETRIC);
    big(&n, comm[0], 1);
    want(1, 0, 0);
}

/* NCCL 2.30.7 is in use, with a second NCCL of 2.28.9 in the same process. The promise ends at the
 * first window of the second NCCL. */
static void two(void)
{
    void *comm[2], *foreign[2];

    make(&n, comm, 2);
    open_second();
    make(&second, foreign, 2);
    window(&n, comm[0], SYMMETRIC);
    want(1, 0, 0);
    window(&second, foreign[0], SYMMETRIC);
    MUST(back_before == 1);
    big(&n, comm[0], 1);
    want(1, 1, 0);
    big(&second, foreign[0], 1);
    want(1, 1, 1);
}

/* NCCL 2.28.9 is in use, with a second NCCL of 2.29. The promise ends when the second NCCL makes a
 * communicator. */
static void two_anywhere(void)
{
    void *comm[2], *foreign[1];

    make(&n, comm, 2);
    open_second();
    want(1, 0, 0);
    make(&second, foreign, 1);
    want(1, 1, 0);
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {{"until_a_window", until_a_window},
                 {"window_first", window_first},
                 {"from_a_thread", from_a_thread},
                 {"never", never},
                 {"always", always},
                 {"two", two},
                 {"two_anywhere", two_anywhere}};

    MUST(argc == 2);
    nccl_linked(&n);
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
