/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.c - measures what the drop-in adds to a call that it forwards, in ns.
 *
 * usage: cost LIBRARY    times direct calls of that NCCL, and calls of functions that the program
 *                        gets from the linker or from dlsym, and prints the differences. Each
 *                        time is the median of 21 rounds of 20000 calls. Exit 1: even the fastest
 *                        round adds more than 100 ns per call. Run it without the drop-in to see
 *                        what the measurement itself adds.
 */
#include <time.h>

#include "test/dropin/play/play.h"

enum { ROUNDS = 21, CALLS = 20000, MOST = 100 /* most ns per call */ };

static struct nccl n;
static float a[16], b[16];

static int by_size(const void *x, const void *y)
{
    double a_ = *(const double *)x, b_ = *(const double *)y;

    return (a_ > b_) - (a_ < b_);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

typedef int call(const void *, void *, size_t, int, int, void *, void *);

/* Times of one call in ns. On a busy machine the fastest round tells more than the median. */
struct cost {
    double median, fastest;
};

static struct cost cost(call *function, void *comm, size_t count)
{
    double round[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        double start = now();

        for (int i = 0; i < CALLS; i++)
            function(a, b, count, F32, SUM, comm, NULL);
        round[r] = (now() - start) / CALLS;
    }
    qsort(round, ROUNDS, sizeof *round, by_size);
    return (struct cost){round[ROUNDS / 2], round[0]};
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *comm[2], *one;
    struct nccl opened;
    call *direct;
    static const char *const what[] = {"linked, no handle", "dlsym, no handle",
                                       "linked, NCCL is faster"};
    struct cost bare;
    bool cheap = true;

    MUST(library != NULL);
    *(void **)&direct = dlsym(library, "fake_direct");
    nccl_linked(&n);
    nccl_opened(&opened, library);
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0 && n.f.CommInitAll(&one, 1, NULL) == 0);
    n.record->quiet = opened.record->quiet = true;
    bare = cost(direct, one, 16);
    printf("cost: NCCL's own call %.1f ns (fastest round %.1f)", bare.median, bare.fastest);
    for (int i = 0; i < 3; i++) {
        struct cost c = cost(i == 1 ? opened.f.AllReduce : n.f.AllReduce, i == 2 ? comm[0] : one,
                             i == 2 ? 1 << 20 : 16);

        printf("; %s +%.1f (%.1f)", what[i], c.median - bare.median, c.fastest - bare.fastest);
        cheap &= c.fastest - bare.fastest <= MOST;
    }
    printf("\n");
    return cheap ? 0 : 1;
}
