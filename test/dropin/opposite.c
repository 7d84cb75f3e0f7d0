/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opposite.c - two ranks make calls on two communicators in opposite order, each communicator on a
 * stream of its own. The GPU is a fake: a stream is a thread that runs one kernel after the other,
 * and a kernel waits for the same kernel of the other rank. If the drop-in let a call wait on the
 * host for the other rank, this program would never end. Registering a window does wait on
 * the host for the other rank. The ranks also register windows of both communicators in one group,
 * in opposite order, and this must not hang, either.
 *
 * usage: opposite ROUNDS
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/dropin/play/play.h"

enum { RANKS = 2, COMMS = 2, QUEUE = 1024, HANG = 300 /* seconds */ };

static struct nccl n;
static long rounds;
static void *comm[COMMS][RANKS];
static atomic_long launched[RANKS][COMMS], begun[COMMS], ended[RANKS][COMMS];
static _Thread_local float a[16], b[16];

/* The fake kernels call this to launch a kernel. The communicator must belong to the stream. */
static void launch(void *which, void *stream)
{
    int c = (int)(uintptr_t)stream - 1;

    for (int rank = 0; rank < RANKS; rank++)
        if (comm[c][rank] == which) {
            while (atomic_load(&launched[rank][c]) - atomic_load(&ended[rank][c]) >= QUEUE)
                sched_yield(); /* CUDA, too, waits when its queue is full */
            atomic_fetch_add(&launched[rank][c], 1);
            return;
        }
    MUST(!"the communicator of another stream");
}

/* Run the kernels of one stream of one rank. */
static void *stream(void *self)
{
    int rank = (int)(uintptr_t)self % RANKS, c = (int)(uintptr_t)self / RANKS;

    for (long i = 0; i < rounds; i++) {
        while (atomic_load(&launched[rank][c]) <= i)
            sched_yield();
        atomic_fetch_add(&begun[c], 1);
        while (atomic_load(&begun[c]) < RANKS * (i + 1))
            sched_yield();
        atomic_fetch_add(&ended[rank][c], 1);
    }
    return NULL;
}

/* The fake kernels call this to register a window. Each rank waits for the other. */
static void registers(void *which)
{
    static atomic_int come[COMMS];

    for (int c = 0; c < COMMS; c++)
        if (comm[c][0] == which || comm[c][1] == which) {
            int number = atomic_fetch_add(&come[c], 1); /* wait for the other rank */

            while (atomic_load(&come[c]) < number / RANKS * RANKS + RANKS)
                sched_yield();
        }
}

static void *host(void *self)
{
    int rank = (int)(uintptr_t)self;
    void *window[COMMS];

    for (int group = 0; group < 2; group++) {
        MUST(n.f.GroupStart() == 0);
        for (int k = 0; k < COMMS; k++) {
            int c = rank == group ? k : COMMS - 1 - k;

            MUST(n.f.CommWindowRegister(comm[c][rank], group ? a : b, sizeof a, &window[c], 1) ==
                 0);
        }
        MUST(n.f.GroupEnd() == 0);
    }
    for (long i = 0; i < rounds; i++) {
        bool grouped = i % 3 == 0;

        if (grouped)
            MUST(n.f.GroupStart() == 0);
        for (int k = 0; k < COMMS; k++) {
            int c = rank == 0 ? k : COMMS - 1 - k;

            MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[c][rank], (void *)(uintptr_t)(c + 1)) == 0);
        }
        if (grouped)
            MUST(n.f.GroupEnd() == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[RANKS * COMMS + RANKS];
    int threads = 0;

    MUST(argc == 2);
    rounds = atol(argv[1]);
    alarm(HANG);
    nccl_linked(&n);
    for (int c = 0; c < COMMS; c++)
        MUST(n.f.CommInitAll(comm[c], RANKS, NULL) == 0);
    n.record->quiet = kernels()->quiet = true;
    kernels()->launch = launch;
    kernels()->registers = registers;
    for (uintptr_t i = 0; i < RANKS * COMMS; i++)
        MUST(pthread_create(&thread[threads++], NULL, stream, (void *)i) == 0);
    for (uintptr_t i = 0; i < RANKS; i++)
        MUST(pthread_create(&thread[threads++], NULL, host, (void *)i) == 0);
    for (int i = 0; i < threads; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    MUST(kernels()->collectives == rounds * RANKS * COMMS);
    printf("opposite: %ld rounds\n", rounds);
    return 0;
}
