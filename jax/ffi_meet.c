/* SPDX-License-Identifier: Apache-2.0 */
/* ffi_meet.c - meetings of the ranks of one group. */
#include "ffi_meet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS  64 /* in flight at once; XLA allows 32 per device */
#define SITES 64 /* of one run; further calls are staged */

/* XLA starts the ranks of a run together, and waking up takes longer than all else in a meeting. */
#define SPIN_NS 200000

enum verdict { OPEN, AGREED, REFUSED };

struct meeting {
    struct st_site site;
    int came;
    int verdict; /* enum verdict; written under the lock, read without it while spinning */
};

struct run {
    int64_t id;
    uint64_t age;
    bool used, refused; /* refused: no site of this run counts */
    int sites;
    int next[ST_MEET_RANKS]; /* the meeting that each rank comes to next */
    struct meeting meeting[SITES];
};

struct st_meet {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ranks;
    bool over; /* no more meetings in this group */
    uint64_t clock;
    struct run run[RUNS];
};

struct st_meet *st_meet_new(int ranks)
{
    struct st_meet *m = calloc(1, sizeof *m);
    pthread_condattr_t attr;

    if (m == NULL)
        return NULL;
    m->ranks = ranks;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    return m;
}

void st_meet_free(struct st_meet *m)
{
    if (m == NULL)
        return;
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct run *find_run(struct st_meet *m, int64_t id)
{
    for (int i = 0; i < RUNS; i++)
        if (m->run[i].used && m->run[i].id == id)
            return &m->run[i];
    return NULL;
}

static struct run *make_run(struct st_meet *m, int64_t id)
{
    struct run *oldest = &m->run[0];

    for (int i = 0; i < RUNS; i++)
        if (m->run[i].age < oldest->age)
            oldest = &m->run[i];
    memset(oldest, 0, sizeof *oldest);
    oldest->used = true;
    oldest->id = id;
    oldest->age = ++m->clock;
    return oldest;
}

static bool is_part(const struct st_site *site, int r, const struct st_offer *offer)
{
    return site->sends[r] == offer->send && site->recvs[r] == offer->recv &&
           site->count == offer->count && site->dtype == offer->dtype && site->op == offer->op;
}

/* Whether two sites are the same call on some ranks and different calls on others. */
static bool confusing(const struct st_site *a, const struct st_site *b, int ranks)
{
    int same = 0;

    if (a->count != b->count || a->dtype != b->dtype || a->op != b->op)
        return false;
    for (int r = 0; r < ranks; r++)
        same += a->sends[r] == b->sends[r] && a->recvs[r] == b->recvs[r];
    return same != 0 && same != ranks;
}

static void decide(struct meeting *meeting, enum verdict verdict)
{
    __atomic_store_n(&meeting->verdict, verdict, __ATOMIC_RELEASE);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait a little for others to decide, without the lock. */
static void spin(struct st_meet *m, const struct meeting *meeting)
{
    int64_t until = now_ns() + SPIN_NS;

    pthread_mutex_unlock(&m->lock);
    while (__atomic_load_n(&meeting->verdict, __ATOMIC_ACQUIRE) == OPEN && now_ns() < until)
        ;
    pthread_mutex_lock(&m->lock);
}

static void bring(struct meeting *meeting, int me, const struct st_offer *offer)
{
    struct st_site *site = &meeting->site;

    if (meeting->came == 0) {
        site->count = offer->count;
        site->dtype = offer->dtype;
        site->op = offer->op;
    } else if (site->count != offer->count || site->dtype != offer->dtype ||
               site->op != offer->op) {
        decide(meeting, REFUSED);
    }
    site->sends[me] = offer->send;
    site->recvs[me] = offer->recv;
    meeting->came++;
}

/* All have come and wait here, so no rank runs a kernel of this run yet. */
static void conclude(struct st_meet *m, struct run *run, struct meeting *meeting)
{
    decide(meeting, AGREED);
    for (int i = 0; i < run->sites; i++)
        if (&run->meeting[i] != meeting && run->meeting[i].verdict == AGREED &&
            confusing(&run->meeting[i].site, &meeting->site, m->ranks))
            run->refused = true;
}

int st_meet_come(struct st_meet *m, int64_t id, int me, const struct st_offer *offer)
{
    struct timespec until;
    struct meeting *meeting;
    struct run *run;
    int result, number;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ST_MEET_MS / 1000;
    until.tv_nsec += ST_MEET_MS % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&m->lock);
    run = find_run(m, id);
    if (run == NULL)
        run = make_run(m, id);
    number = run->next[me]++;
    if (number >= SITES) { /* on every rank */
        pthread_mutex_unlock(&m->lock);
        return 0;
    }
    if (number >= run->sites)
        run->sites = number + 1;
    meeting = &run->meeting[number];
    bring(meeting, me, offer);
    if (m->over)
        decide(meeting, REFUSED);
    if (meeting->verdict == OPEN && meeting->came == m->ranks)
        conclude(m, run, meeting);
    if (meeting->verdict != OPEN)
        pthread_cond_broadcast(&m->changed);
    if (meeting->verdict == OPEN)
        spin(m, meeting);
    while (meeting->verdict == OPEN) {
        if (pthread_cond_timedwait(&m->changed, &m->lock, &until) != 0 &&
            meeting->verdict == OPEN) {
            decide(meeting, REFUSED);
            m->over = true;
            pthread_cond_broadcast(&m->changed);
        }
    }
    result = meeting->verdict == AGREED;
    pthread_mutex_unlock(&m->lock);
    return result;
}

int st_meet_find(struct st_meet *m, int64_t id, int me, const struct st_offer *offer,
                 struct st_site *site)
{
    struct run *run;
    int found = 0;

    pthread_mutex_lock(&m->lock);
    run = find_run(m, id);
    for (int i = 0; run != NULL && !run->refused && i < run->sites && !found; i++) {
        if (run->meeting[i].verdict == AGREED && is_part(&run->meeting[i].site, me, offer)) {
            *site = run->meeting[i].site;
            found = 1;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

const struct st_site *st_meet_look(struct st_meet *m, int64_t run, int me,
                                   const struct st_offer *offer, struct st_found *found)
{
    if (!found->known || found->run != run || found->offer.send != offer->send ||
        found->offer.recv != offer->recv || found->offer.count != offer->count ||
        found->offer.dtype != offer->dtype || found->offer.op != offer->op) {
        found->agreed = st_meet_find(m, run, me, offer, &found->site);
        found->run = run;
        found->offer = *offer;
        found->known = 1;
    }
    return found->agreed ? &found->site : NULL;
}
