/* SPDX-License-Identifier: Apache-2.0 */
/* check_meet.c - ranks as threads meet before a run: agree, differ, look alike, stay away. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jax/ffi_meet.h"

#define RANKS 4

static struct st_meet *meet;
static int passed, failed;

static void expect(int right, const char *what)
{
    passed += right;
    failed += !right;
    if (!right)
        printf("FAILED: %s\n", what);
}

/* One rank's way through a run: what it offers at each site, and what it finds afterwards. */
struct rank {
    pthread_t thread;
    int me, sites;
    int64_t run;
    struct st_offer offer[3];
    int agreed[3], found[3];
    struct st_site site[3];
};

static struct st_found latest[RANKS]; /* kept from run to run, as a seat does */

static void *walk(void *arg)
{
    struct rank *r = arg;

    for (int i = 0; i < r->sites; i++)
        r->agreed[i] = st_meet_come(meet, r->run, r->me, &r->offer[i]);
    for (int i = 0; i < 2 * r->sites; i++) { /* each site twice: looked up, then remembered */
        const struct st_site *site =
            st_meet_look(meet, r->run, r->me, &r->offer[i / 2], &latest[r->me]);

        r->found[i / 2] = site != NULL;
        if (site != NULL)
            r->site[i / 2] = *site;
    }
    return NULL;
}

static struct rank ranks[RANKS];

static void *address(int rank, int site, int what)
{
    return (void *)((uintptr_t)1 << 20 | (uintptr_t)rank << 12 | (uintptr_t)site << 8 |
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
            ranks[r].offer[i] = (struct st_offer){address(r, i, 0), address(r, i, 1), 100, 9, 0};
    }
}

static void go(int n)
{
    for (int r = 0; r < n; r++)
        pthread_create(&ranks[r].thread, NULL, walk, &ranks[r]);
    for (int r = 0; r < n; r++)
        pthread_join(ranks[r].thread, NULL);
}

/* Whether every rank found what it should at each site: all of them, or none. */
static int all_found(int want)
{
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ranks[r].sites; i++) {
            if (ranks[r].found[i] != want)
                return 0;
            for (int q = 0; want && q < RANKS; q++)
                if (ranks[r].site[i].sends[q] != ranks[q].offer[i].send ||
                    ranks[r].site[i].recvs[q] != ranks[q].offer[i].recv)
                    return 0;
        }
    return 1;
}

int main(void)
{
    struct timespec from, to;

    meet = st_meet_new(RANKS);
    for (int64_t run = 1; run <= 500; run++) {
        prepare(run, 3);
        go(RANKS);
        expect(all_found(1), "three sites, all agree");
    }
    expect(!st_meet_find(meet, 499, 0, &(struct st_offer){NULL, NULL, 1, 9, 0}, &ranks[0].site[0]),
           "a call that nobody offered");
    expect(!st_meet_find(meet, 9999, 0, &ranks[0].offer[0], &ranks[0].site[0]),
           "a run that nobody knows");
    prepare(501, 1);
    ranks[2].offer[0].count = 99;
    go(RANKS);
    expect(all_found(0), "another count on one rank: no rank agrees");
    prepare(502, 1);
    ranks[3].offer[0].op = -1;
    go(RANKS);
    expect(all_found(0), "one rank cannot be reached: no rank agrees");
    prepare(503, 2); /* both sites the same on rank 1, and only there */
    ranks[1].offer[1] = ranks[1].offer[0];
    go(RANKS);
    expect(all_found(0), "sites that one rank confuses");
    prepare(504, 2);
    for (int r = 0; r < RANKS; r++)
        ranks[r].offer[1] = ranks[r].offer[0];
    go(RANKS);
    expect(all_found(1), "the same call twice on all ranks");
    prepare(505, 1);
    clock_gettime(CLOCK_MONOTONIC, &from);
    go(RANKS - 1);
    clock_gettime(CLOCK_MONOTONIC, &to);
    expect(ranks[0].found[0] + ranks[1].found[0] + ranks[2].found[0] == 0, "a rank stays away");
    expect((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 <
               ST_MEET_MS * 5,
           "nobody waits long for it");
    walk(&ranks[3]);
    expect(ranks[3].found[0] == 0, "it comes after all: no agreement either");
    prepare(506, 3);
    go(RANKS);
    expect(all_found(0), "and the group does not meet again");
    st_meet_free(meet);
    printf("jax meetings: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
