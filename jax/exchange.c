/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - the ranks of one group exchange the addresses of their buffers before a run. */
#include "jax/exchange.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS   64 /* how many runs we remember; XLA has at most 32 in flight on a device */
#define BLOCK  64 /* meetings in a block; blocks are allocated as needed and never move */
#define BLOCKS (FFI_EXCHANGE_SITES / BLOCK)

/* XLA starts all ranks of a run at about the same time. Waking a sleeping thread takes longer than
 * the rest of the exchange, so a rank that waits for the others spins for this long before it
 * sleeps. */
#define SPIN_NS 200000

enum verdict { OPEN, AGREED, REFUSED };

/* The exchange of addresses for one all-reduce of a run. */
struct meeting {
    struct ffi_site site;
    int came;
    int verdict; /* enum verdict; decide() sets it under the lock, spin() reads it without */
};

/* One execution of a program. */
struct run {
    int64_t id;
    uint64_t age;
    bool used, refused; /* refused: no call of this run may use the exchanged addresses */
    bool over;          /* no more meetings in this run */
    int sites;
    int next[FFI_EXCHANGE_RANKS]; /* [r]: number of rank r's next meeting */
    int look[FFI_EXCHANGE_RANKS]; /* [r]: number of the meeting where rank r's next search begins */
    struct meeting *block[BLOCKS];
};

struct ffi_exchange {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ranks;
    int skip;  /* in how many of the next runs the ranks exchange nothing */
    int pause; /* the value that ${skip} gets when a rank is late again */
    uint64_t clock, late;
    struct run run[RUNS];
};

struct ffi_exchange *ffi_exchange_new(int ranks)
{
    struct ffi_exchange *m = calloc(1, sizeof *m);
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

void ffi_exchange_free(struct ffi_exchange *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < RUNS; i++)
        for (int k = 0; k < BLOCKS; k++)
            free(m->run[i].block[k]);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct run *find_run(struct ffi_exchange *m, int64_t id)
{
    for (int i = 0; i < RUNS; i++)
        if (m->run[i].used && m->run[i].id == id)
            return &m->run[i];
    return NULL;
}

/* Store a new run in place of the oldest one. Only the first rank that comes to a run calls this.
 * If this run must be skipped because a rank was late earlier, mark the run as over, so that the
 * ranks exchange nothing in it. */
static struct run *make_run(struct ffi_exchange *m, int64_t id)
{
    struct run *oldest = &m->run[0];

    for (int i = 0; i < RUNS; i++)
        if (m->run[i].age < oldest->age)
            oldest = &m->run[i];
    memset(oldest, 0, offsetof(struct run, block)); /* but keep its blocks */
    oldest->used = true;
    oldest->id = id;
    oldest->age = ++m->clock;
    if (m->skip > 0) {
        m->skip--;
        oldest->over = true;
    }
    return oldest;
}

static struct meeting *at(const struct run *run, int number)
{
    return &run->block[number / BLOCK][number % BLOCK];
}

/* Add meeting ${number} (exchange.h) to the run. Returns false if there is no memory for it. */
static bool make_meeting(struct run *run, int number)
{
    struct meeting **block = &run->block[number / BLOCK];

    if (*block == NULL)
        *block = calloc(BLOCK, sizeof **block);
    if (*block == NULL)
        return false;
    memset(at(run, number), 0, sizeof **block);
    run->sites = number + 1;
    return true;
}

/* A rank did not come in time: end the exchanges of this run, and set how many of the next runs
 * have none. After the first miss the ranks try again in the very next run. But a rank that never
 * comes costs the others FFI_EXCHANGE_MS in each try. So after the second miss they skip one run,
 * and after each further miss twice as many as before, up to FFI_EXCHANGE_PAUSE. */
static void miss(struct ffi_exchange *m, struct run *run)
{
    run->over = true;
    m->late++;
    m->skip = m->pause;
    m->pause = m->pause == 0                   ? 1
               : m->pause < FFI_EXCHANGE_PAUSE ? 2 * m->pause
                                               : FFI_EXCHANGE_PAUSE;
}

static bool is_part(const struct ffi_site *site, int r, const struct ffi_offer *offer)
{
    return site->sends[r] == offer->send && site->recvs[r] == offer->recv &&
           site->count == offer->count && site->dtype == offer->dtype && site->op == offer->op;
}

/* Do ${a} and ${b} have the same buffers on some ranks, but different ones on others? If so, a rank
 * cannot tell which of the two calls another rank means. */
static bool confusing(const struct ffi_site *a, const struct ffi_site *b, int ranks)
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

/* Wait at most SPIN_NS for the other ranks. Drops the lock while it waits. */
static void spin(struct ffi_exchange *m, const struct meeting *meeting)
{
    int64_t until = now_ns() + SPIN_NS;

    pthread_mutex_unlock(&m->lock);
    while (__atomic_load_n(&meeting->verdict, __ATOMIC_ACQUIRE) == OPEN && now_ns() < until)
        ;
    pthread_mutex_lock(&m->lock);
}

static void bring(struct meeting *meeting, int me, const struct ffi_offer *offer)
{
    struct ffi_site *site = &meeting->site;

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

/* The last rank that comes to a meeting calls this: set the verdict to AGREED. If a rank could
 * mistake an earlier meeting of the run for this one (confusing()), refuse all meetings of the run.
 * This is not too late: the other ranks still wait in this meeting, so no rank has started a kernel
 * of this run. */
static void conclude(struct ffi_exchange *m, struct run *run, struct meeting *meeting)
{
    decide(meeting, AGREED);
    m->pause = 0;
    for (int i = 0; i < run->sites; i++)
        if (at(run, i) != meeting && at(run, i)->verdict == AGREED &&
            confusing(&at(run, i)->site, &meeting->site, m->ranks))
            run->refused = true;
}

int ffi_exchange_come(struct ffi_exchange *m, int64_t id, int me, const struct ffi_offer *offer)
{
    struct timespec until;
    struct meeting *meeting;
    struct run *run;
    int result, number;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FFI_EXCHANGE_MS / 1000;
    until.tv_nsec += FFI_EXCHANGE_MS % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&m->lock);
    run = find_run(m, id);
    if (run == NULL)
        run = make_run(m, id);
    number = run->next[me]++;
    /* If no other rank has made this meeting yet, make it. But if the run is over, or if the
     * meeting cannot be made, end the run and return. No rank makes a meeting in a run that is
     * over, so all ranks have the same number of meetings. */
    if (number >= run->sites &&
        (run->over || number >= FFI_EXCHANGE_SITES || !make_meeting(run, number))) {
        run->over = true;
        pthread_mutex_unlock(&m->lock);
        return 0;
    }
    meeting = at(run, number);
    bring(meeting, me, offer);
    if (run->over)
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
            miss(m, run);
            pthread_cond_broadcast(&m->changed);
        }
    }
    result = meeting->verdict == AGREED;
    pthread_mutex_unlock(&m->lock);
    return result;
}

int ffi_exchange_find(struct ffi_exchange *m, int64_t id, int me, const struct ffi_offer *offer,
                      struct ffi_site *site)
{
    struct run *run;
    int found = 0;

    pthread_mutex_lock(&m->lock);
    run = find_run(m, id);
    for (int n = 0; run != NULL && !run->refused && n < run->sites && !found; n++) {
        int i = (run->look[me] + n) % run->sites;

        if (at(run, i)->verdict == AGREED && is_part(&at(run, i)->site, me, offer)) {
            *site = at(run, i)->site;
            run->look[me] = i + 1;
            found = 1;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

void ffi_exchange_state(struct ffi_exchange *m, struct ffi_exchange_state *state)
{
    pthread_mutex_lock(&m->lock);
    state->late = m->late;
    state->skip = m->skip;
    pthread_mutex_unlock(&m->lock);
}

const struct ffi_site *ffi_exchange_look(struct ffi_exchange *m, int64_t run, int me,
                                         const struct ffi_offer *offer, struct ffi_found *found)
{
    if (!found->known || found->run != run || found->offer.send != offer->send ||
        found->offer.recv != offer->recv || found->offer.count != offer->count ||
        found->offer.dtype != offer->dtype || found->offer.op != offer->op) {
        found->agreed = ffi_exchange_find(m, run, me, offer, &found->site);
        found->run = run;
        found->offer = *offer;
        found->known = 1;
    }
    return found->agreed ? &found->site : NULL;
}
