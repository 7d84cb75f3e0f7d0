/* SPDX-License-Identifier: Apache-2.0 */
/* check_exchange.c - lets ranks, which are threads, exchange the addresses of their buffers before
 * a run, and checks what each rank finds afterwards: if the ranks agree, if they differ, if calls
 * look alike, and if a rank stays away. A "site" is one all-reduce of a run (jax/exchange.h). */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jax/exchange.h"

#define RANKS 4
#define MANY  (FFI_EXCHANGE_SITES + 6)

static struct ffi_exchange *exchange;
static int passed, failed;

static void expect(int right, const char *what)
{
    passed += right;
    failed += !right;
    if (!right)
        printf("FAILED: %s\n", what);
}

/* What one rank offers for each all-reduce of a run, and what it finds afterwards. */
struct rank {
    pthread_t thread;
    int me, sites;
    int64_t run;
    struct ffi_offer offer[MANY];
    int agreed[MANY], found[MANY];
    struct ffi_site site[MANY];
};

static struct ffi_found latest[RANKS]; /* [rank]: cache for ffi_exchange_look(); survives a run */

static void *walk(void *arg)
{
    struct rank *r = arg;

    for (int i = 0; i < r->sites; i++)
        r->agreed[i] = ffi_exchange_come(exchange, r->run, r->me, &r->offer[i]);
    /* look up each all-reduce twice; the second time the answer comes from latest[] */
    for (int i = 0; i < 2 * r->sites; i++) {
        const struct ffi_site *site =
            ffi_exchange_look(exchange, r->run, r->me, &r->offer[i / 2], &latest[r->me]);

        r->found[i / 2] = site != NULL;
        if (site != NULL)
            r->site[i / 2] = *site;
    }
    return NULL;
}

static struct rank ranks[RANKS];

static void *address(int rank, int site, int what)
{
    return (void *)((uintptr_t)1 << 32 | (uintptr_t)rank << 24 | (uintptr_t)site << 8 |
                    (uintptr_t)what << 4);
}

static void prepare(int64_t run, int sites)
{
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < RANKS; r++) {
        ranks[r].me = r;
        ranks[r].run = run;
        ranks[r].sites = sites;
        for (int i = 0; i < sites; i++)
            ranks[r].offer[i] = (struct ffi_offer){address(r, i, 0), address(r, i, 1), 100, 9, 0};
    }
}

static void go(int n)
{
    for (int r = 0; r < n; r++)
        pthread_create(&ranks[r].thread, NULL, walk, &ranks[r]);
    for (int r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
}

/* Did every rank find the buffers of the first ${n} all-reduces of its run, and of no other? */
static int found_first(int n)
{
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ranks[r].sites; i++) {
            if (ranks[r].found[i] != (i < n))
                return 0;
            for (int q = 0; i < n && q < RANKS; q++)
                if (ranks[r].site[i].sends[q] != ranks[q].offer[i].send ||
                    ranks[r].site[i].recvs[q] != ranks[q].offer[i].recv)
                    return 0;
        }
    return 1;
}

/* With ${want} 1: did every rank find the buffers of all all-reduces? With 0: did no rank find
 * any? */
static int all_found(int want)
{
    return found_first(want ? ranks[0].sites : 0);
}

static void check_many(void)
{
    prepare(400, 160);
    go(RANKS);
    expect(all_found(1), "160 sites of one run all agree");
    prepare(401, 160); /* a new run, in which no rank finds addresses of the previous run */
    ranks[1].offer[100].count = 99;
    go(RANKS);
    expect(ranks[0].found[99] == 1 && ranks[0].found[100] == 0 && ranks[0].found[101] == 1,
           "one of 160 is refused, the others are not");
    prepare(402, MANY);
    go(RANKS);
    expect(found_first(FFI_EXCHANGE_SITES), "above the limit calls are staged, on all ranks");
    prepare(403, 3);
    go(RANKS);
    expect(all_found(1), "the next run meets");
}

/* Return the milliseconds that ranks 0 to 2 take if rank 3 does not come. */
static long go_without_last(void)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    go(RANKS - 1);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

static struct ffi_exchange_state state(void)
{
    struct ffi_exchange_state now;

    ffi_exchange_state(exchange, &now);
    return now;
}

static void check_late(void)
{
    int64_t run = 600;

    prepare(run, 3);
    expect(go_without_last() < FFI_EXCHANGE_MS * 5 && ranks[0].found[0] + ranks[1].found[2] == 0,
           "a rank stays away: nobody waits long, nor twice in a run");
    walk(&ranks[3]);
    expect(ranks[3].found[0] == 0 && state().late == 1, "it comes after all: no agreement either");
    prepare(++run, 3);
    go(RANKS);
    expect(all_found(1) && state().late == 1, "the next run meets again");
    prepare(++run, 1);
    go_without_last();
    prepare(++run, 1);
    go_without_last();
    expect(state().late == 3 && state().skip == 1, "late twice in a row: the next run is left out");
    prepare(++run, 3);
    expect(go_without_last() < FFI_EXCHANGE_MS && ranks[0].found[0] == 0, "without waiting");
    walk(&ranks[3]);
    expect(ranks[3].found[0] == 0 && state().skip == 0, "on all ranks");
    prepare(++run, 3);
    go(RANKS);
    expect(all_found(1), "then they meet again");
    for (int late = 0; late < 3; late++) {
        prepare(++run, 1);
        go_without_last();
        for (int left = state().skip; left > 0; left--) {
            prepare(++run, 1);
            go(RANKS);
            expect(all_found(0), "a run that is left out");
        }
    }
    expect(state().late == 6, "every meeting that was missed is counted");
}

int main(void)
{
    exchange = ffi_exchange_new(RANKS);
    for (int64_t run = 1; run <= 500; run++) {
        prepare(run, 3);
        go(RANKS);
        expect(all_found(1), "three sites, all agree");
    }
    expect(!ffi_exchange_find(exchange, 499, 0, &(struct ffi_offer){NULL, NULL, 1, 9, 0},
                              &ranks[0].site[0]),
           "a call that nobody offered");
    expect(!ffi_exchange_find(exchange, 9999, 0, &ranks[0].offer[0], &ranks[0].site[0]),
           "a run that nobody knows");
    prepare(501, 1);
    ranks[2].offer[0].count = 99;
    go(RANKS);
    expect(all_found(0), "another count on one rank: no rank agrees");
    prepare(502, 1);
    ranks[3].offer[0].op = -1;
    go(RANKS);
    expect(all_found(0), "one rank cannot be reached: no rank agrees");
    prepare(503, 2); /* on rank 1, and only there, both sites have the same buffers */
    ranks[1].offer[1] = ranks[1].offer[0];
    go(RANKS);
    expect(all_found(0), "sites that one rank confuses");
    prepare(504, 2);
    for (int r = 0; r < RANKS; r++)
        ranks[r].offer[1] = ranks[r].offer[0];
    go(RANKS);
    expect(all_found(1), "the same call twice on all ranks");
    check_many();
    check_late();
    ffi_exchange_free(exchange);
    printf("jax meetings: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
