/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - makes communicators of two ranks, which are threads, and ends them in many ways. The
 * heap and the number of mappings must not grow, and no handle may be left.
 *
 * usage: memory ROUNDS    ROUNDS is a multiple of 8. With SYMTUNER_VERIFY=1 each communicator also
 *                         has shared memory for votes
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test/dropin/play/play.h"

enum { WARM = 208 };

enum how { DESTROY, FINALIZE, NO_HANDLE, REVOKE, ABORT, SPLIT, SHRINK, GROUP, HOWS };

static struct nccl n;
static struct nccl_abi_id id;
static pthread_barrier_t both;
static atomic_int lost; /* rounds in which one rank got no handle, and the other gave up its own */

static void wait_for_both(void)
{
    pthread_barrier_wait(&both);
}

static void end(void *comm)
{
    MUST(n.f.CommDestroy(comm) == 0);
}

static void *round_of(int rank, enum how how)
{
    float a[4] = {1}, b[4];
    void *comm, *child;

    MUST(n.f.CommInitRank(&comm, 2, id, rank) == 0);
    MUST(n.f.AllReduce(a, b, 4, F32, SUM, comm, NULL) == 0 && b[0] == 2);
    wait_for_both();
    if (rank == 0 && how == NO_HANDLE)
        atomic_fetch_add(&lost, kernels()->handles == 0);
    if (how == SHRINK && rank == 0) { /* the shrink leaves out rank 1, which calls nothing */
        MUST(n.f.CommShrink(comm, NULL, 1, &child, NULL, 0) == 0);
        end(child);
    }
    if (how == SPLIT || how == SHRINK) {
        MUST(n.f.CommSplit(comm, 1, rank, &child, NULL) == 0);
        wait_for_both();
        MUST(kernels()->handles == 4);
        wait_for_both();
        end(child);
    }
    if (how == FINALIZE)
        MUST(n.f.CommFinalize(comm) == 0);
    if (how == REVOKE)
        MUST(n.f.CommRevoke(comm, 0) == 0);
    if (how == ABORT)
        MUST(n.f.CommAbort(comm) == 0);
    else
        end(comm);
    return NULL;
}

static enum how now;

static void *second(void *self)
{
    (void)self;
    return round_of(1, now);
}

/* One thread makes the communicators of both ranks. */
static void group(void)
{
    void *comm[2];

    MUST(n.f.GroupStart() == 0);
    for (int rank = 0; rank < 2; rank++)
        MUST(n.f.CommInitRank(&comm[rank], 2, id, rank) == 0);
    MUST(n.f.GroupEnd() == 0);
    MUST(kernels()->handles == 2);
    for (int rank = 0; rank < 2; rank++)
        end(comm[rank]);
}

static void play(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        pthread_t thread;

        now = (enum how)(i % HOWS);
        n.id(&id);
        if (now == GROUP) {
            group();
            continue;
        }
        kernels()->create_once = now == NO_HANDLE;
        MUST(pthread_create(&thread, NULL, second, NULL) == 0);
        round_of(0, now);
        MUST(pthread_join(thread, NULL) == 0);
    }
}

/* Return the number of mappings of shared memory. A sanitizer also has other mappings, whose number
 * changes. */
static long mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    long found = 0;
    char line[512];

    while (fgets(line, sizeof line, maps))
        found += strstr(line, " /dev/shm/") != NULL;
    fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    long heap, maps, grown;
    void *first[2];
    int rounds;

    MUST(argc == 2);
    rounds = atoi(argv[1]);
    nccl_linked(&n);
    MUST(dlopen("libcuda.so.1", RTLD_NOW) != NULL && pthread_barrier_init(&both, NULL, 2) == 0);
    /* the first communicator makes the drop-in load the kernels */
    MUST(n.f.CommInitAll(first, 2, NULL) == 0);
    for (int i = 0; i < 2; i++)
        end(first[i]);
    n.record->quiet = kernels()->quiet = true;
    n.record->wait = wait_for_both;
    /* Play some rounds before the measurement, because the drop-in keeps records of ended
     * communicators for a while. */
    play(WARM);
    heap = (long)mallinfo2().uordblks;
    maps = mappings();
    play(rounds);
    MUST(kernels()->handles == 0);
    MUST(lost == WARM / HOWS + rounds / HOWS);
    grown = (long)mallinfo2().uordblks - heap;
    printf("memory: %d communicators, %ld bytes and %ld mappings more\n", rounds,
           grown > 0 ? grown : 0, mappings() - maps);
    return grown > 4096 || mappings() - maps > 4;
}
