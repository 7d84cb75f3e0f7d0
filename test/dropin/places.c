/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - checks how many communicators of each GPU get handles, made by one thread or several.
 *
 * usage: places            with the default of SYMTUNER_MAX_COMMS, which is 2
 *        places MOST       checks that a GPU gives handles to MOST communicators at a time
 */
#include <pthread.h>

#include "test/dropin/play/play.h"

enum { GPUS = 4 };

static struct nccl n;
static pthread_barrier_t all;

static void meet(void)
{
    pthread_barrier_wait(&all);
}

/* The thread of one GPU makes three communicators with the threads of the other GPUs. */
static void *one_gpu(void *self)
{
    static struct nccl_abi_id id[3];
    int rank = (int)(intptr_t)self;
    void *comm[3];

    for (int i = 0; i < 3; i++) {
        if (rank == 0)
            n.id(&id[i]);
        meet();
        MUST(n.f.CommInitRank(&comm[i], GPUS, id[i], rank) == 0);
        meet();
        MUST(kernels()->handles == GPUS * (i < 2 ? i + 1 : 2));
        meet();
    }
    for (int i = 0; i < 3; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
    return NULL;
}

static void a_thread_for_each_gpu(void)
{
    pthread_t thread[GPUS];

    MUST(pthread_barrier_init(&all, NULL, GPUS) == 0);
    n.record->wait = meet;
    for (int i = 0; i < GPUS; i++)
        MUST(pthread_create(&thread[i], NULL, one_gpu, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < GPUS; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    n.record->wait = NULL;
    MUST(kernels()->handles == 0);
}

/* Make a communicator of ${count} GPUs in this thread, and check that ${handles} handles exist. */
static void make(void **comm, int count, const int *gpus, int handles)
{
    MUST(n.f.CommInitAll(comm, count, gpus) == 0);
    MUST(kernels()->handles == handles);
}

static void end(void **comm, int count)
{
    for (int i = 0; i < count; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
}

/* Check that a communicator of all GPUs gets handles only if no GPU has its two handles yet. The
 * first handle of a GPU has the library's own limit of blocks. The second leaves 32 more
 * multiprocessors free. */
static void sizes(void)
{
    static const int low[] = {0, 1}, high[] = {2, 3};
    void *one[2], *two[2], *three[2], *large[GPUS];

    make(one, 2, low, 2);
    MUST(kernels()->max_ctas == 0);
    make(two, 2, low, 4);
    MUST(kernels()->max_ctas == 96);
    make(large, GPUS, NULL, 4);
    make(three, 2, high, 6); /* the large one got no handles, so it does not count */
    MUST(kernels()->max_ctas == 0);
    end(two, 2);
    end(large, GPUS);
    make(large, GPUS, NULL, 8);
    MUST(kernels()->max_ctas == 96);
    end(one, 2);
    end(three, 2);
    end(large, GPUS);
    MUST(kernels()->handles == 0);
}

/* A group makes three communicators at the same time. */
static void group(void)
{
    struct nccl_abi_id id[3];
    void *comm[3][2];

    n.f.GroupStart();
    for (int i = 0; i < 3; i++) {
        n.id(&id[i]);
        for (int rank = 0; rank < 2; rank++)
            MUST(n.f.CommInitRank(&comm[i][rank], 2, id[i], rank) == 0);
    }
    MUST(n.f.GroupEnd() == 0);
    MUST(kernels()->handles == 4);
    for (int i = 0; i < 3; i++)
        end(comm[i], 2);
    MUST(kernels()->handles == 0);
}

/* Make ${most} + 2 communicators on GPUs that have room for ${most}. */
static void fill(int most)
{
    void *comm[2];

    dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 1; i <= most + 2; i++)
        make(comm, 2, NULL, 2 * (i < most ? i : most));
    /* SYMTUNER_AR_MAX_CTAS is the limit, so the drop-in sets none */
    MUST(kernels()->max_ctas == 0);
}

int main(int argc, char **argv)
{
    nccl_linked(&n);
    if (argc == 2) {
        fill(atoi(argv[1]));
        return 0;
    }
    group();
    sizes();
    a_thread_for_each_gpu();
    return 0;
}
