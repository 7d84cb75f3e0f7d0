/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.c - groups whose calls use several streams. Each stream must wait for the others, as with
 * NCCL alone. One thread drives both ranks of a communicator.
 *
 * usage: streams CASE    under the drop-in, on the fake NCCL, CUDA and kernels. Exit 1: stderr says
 *                        which line failed.
 */
#include "test/dropin/fake/cuda.h"
#include "test/dropin/play/play.h"

static struct nccl n;
static float a[64], b[64];
static uint64_t (*work)(void *stream);
static int (*left)(void);
static struct {
    uintptr_t stream;
    uint64_t before; /* the work that ends before our kernel begins */
} ours[8];
static int runs;
static uintptr_t sends; /* ncclGroupEnd puts work into this stream, unless it is 0 */
static uint64_t before_send;

static void launch(void *comm, void *stream)
{
    (void)comm;
    ours[runs].stream = (uintptr_t)stream;
    ours[runs++].before = work(stream);
}

static void launch_send(void)
{
    if (sends)
        before_send = work((void *)sends);
}

static void *stream(int number)
{
    return (void *)(uintptr_t)number;
}

static void make(void **comm)
{
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    MUST(kernels() != NULL);
    kernels()->launch = launch;
    n.record->ends = launch_send;
    said(n.record);
}

static void reduce(void *comm, int on)
{
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm, stream(on)) == 0);
}

/* Two all-reduces on two streams that already have work, in bits 0 and 1. Do they wait for the
 * streams ${first} and ${second}, and do both streams wait for the calls? */
static void pair(int first, int second, bool wait)
{
    void *comm[2];

    make(comm);
    work(stream(first));
    work(stream(second));
    n.f.GroupStart();
    reduce(comm[0], first);
    reduce(comm[0], second);
    MUST(runs == 0);
    MUST(n.f.GroupEnd() == 0);
    MUST(runs == 2 && ours[0].stream == (uintptr_t)first && ours[1].stream == (uintptr_t)second);
    MUST((ours[0].before & 3) == (wait ? 3 : 1) && (ours[1].before & 3) == (wait ? 3 : 2));
    MUST(work(stream(first)) == (wait ? 15 : 5));
    MUST((work(stream(second)) & 15) == (wait ? 15 : 10));
    MUST(left() == 0);
}

static void eager(void)
{
    pair(4, 5, true);
}

static void graph(void)
{
    pair(33, 34, true);
}

static void two_graphs(void)
{
    pair(33, 41, false);
}

static void half_captured(void)
{
    pair(4, 33, false);
}

/* NCCL runs a send on the second stream, and other communicators have calls on more streams. */
static void mixed(void)
{
    void *comm[2], *other[2];

    make(comm);
    make(other);
    for (int i = 0; i < 4; i++)
        work(stream(4 + i));
    sends = 5;
    n.f.GroupStart();
    reduce(other[0], 6);
    reduce(comm[0], 4);
    MUST(n.f.Send(a, 3, F32, 1, comm[0], stream(5)) == 0);
    n.f.GroupStart();
    reduce(comm[0], 4);
    reduce(comm[1], 7);
    MUST(n.f.GroupEnd() == 0);
    MUST(n.f.GroupEnd() == 0);
    sends = 0;
    /* the send is work 4, and our kernels are works 5 to 8 */
    MUST(runs == 4 && before_send == 3);
    MUST(ours[0].stream == 6 && ours[0].before == 4);
    /* our kernel waits for the earlier work of the send's stream, but not for the send */
    MUST(ours[1].stream == 4 && ours[1].before == 3);
    MUST(ours[2].stream == 4 && ours[2].before == (3 | 1 << 6));
    MUST(ours[3].stream == 7 && ours[3].before == 8);
    MUST(work(stream(4)) == (3 | 1 << 4 | 1 << 6 | 1 << 7));
    MUST(work(stream(5)) == (3 | 1 << 4 | 1 << 6 | 1 << 7));
    MUST(work(stream(6)) == (4 | 1 << 5) && work(stream(7)) == (8 | 1 << 8));
    MUST(left() == 0);
}

/* If NCCL runs all calls of a communicator, it lets the streams wait. A refused call has no
 * stream. */
static void not_ours(void)
{
    void *comm[2];

    make(comm);
    for (int i = 0; i < 3; i++)
        work(stream(4 + i));
    n.f.GroupStart();
    reduce(comm[0], 4);
    MUST(n.f.Broadcast(a, a, 5, F32, 0, comm[0], stream(5)) == 0);
    MUST(n.f.GroupEnd() == 0);
    MUST(runs == 0 && work(stream(4)) == 1);
    n.f.GroupStart();
    reduce(comm[1], 5);
    MUST(n.f.AllReduceConfig(a, b, 8, F32, SUM, comm[1], stream(6), "") == 4);
    MUST(n.f.GroupEnd() == 0);
    MUST(runs == 1 && ours[0].before == 2 && work(stream(6)) == 4);
}

/* CUDA fails: the group must not succeed. */
static void fails(void)
{
    void *comm[2];

    make(comm);
    n.f.GroupStart();
    reduce(comm[0], 4);
    reduce(comm[0], 5);
    MUST(n.f.GroupEnd() == 1);
    MUST(runs == 0 && left() == 0);
    n.f.GroupStart();
    reduce(comm[0], 4);
    reduce(comm[0], 4);
    MUST(n.f.GroupEnd() == 0); /* needs no event */
    MUST(runs == 2);
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {{"eager", eager},
                                             {"graph", graph},
                                             {"two_graphs", two_graphs},
                                             {"half_captured", half_captured},
                                             {"mixed", mixed},
                                             {"not_ours", not_ours},
                                             {"fails", fails}};
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    MUST(argc == 2 && cuda);
    *(void **)&work = dlsym(cuda, "fake_work");
    *(void **)&left = dlsym(cuda, "fake_left");
    MUST(work && left);
    nccl_linked(&n);
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
