/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - lets the ranks of a communicator make calls together (team.h). */
#include "test/whole/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/whole/values.h"

enum { LIMIT_S = 100 };

struct whole_nccl whole_nccl;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct team *teams; /* all teams; none is freed, because another rank may still use it */
static long ran;

__attribute__((visibility("default"))) long whole_nccl_ran(void)
{
    return __atomic_load_n(&ran, __ATOMIC_RELAXED);
}

void team_live(int more)
{
    __atomic_add_fetch(&whole_nccl.live, more, __ATOMIC_RELAXED);
}

/* ---- the work of a call, which its last rank does, with the lock held ------------------------ */

static double addend(const struct op *op, size_t i)
{
    const struct scalar *by = &op->scalar;
    double value = whole_get(op->send, i, op->type);

    if (!by->used)
        return value;
    return value * whole_get(by->on_gpu != NULL ? by->on_gpu : by->value, 0, op->type);
}

/* Reduce elements ${first} to ${first} + ${count} - 1 of all ranks. Returns new memory with the
 * result, which the caller frees. */
static void *reduced(const struct team *t, size_t first, size_t count)
{
    const struct op *const *op = t->op;
    const int type = op[0]->type, reduction = op[0]->reduction;
    void *sum = malloc(count * 8 + 8);

    for (size_t i = 0; i < count; i++) {
        double value = addend(op[0], first + i);

        for (int r = 1; r < t->ranks; r++)
            value = whole_both(value, addend(op[r], first + i), reduction, type);
        whole_put(sum, i, type, reduction == ncclAvg ? value / t->ranks : value);
    }
    return sum;
}

static void all_reduce(struct team *t)
{
    void *sum = reduced(t, 0, t->op[0]->count);

    for (int r = 0; r < t->ranks; r++)
        memcpy(t->op[r]->recv, sum, t->op[0]->count * whole_size(t->op[0]->type));
    free(sum);
}

static void reduce_scatter(struct team *t)
{
    const size_t count = t->op[0]->count;
    void *sum[WHOLE_RANKS];

    /* Compute all results before storing any, because in place a result overwrites input. */
    for (int r = 0; r < t->ranks; r++)
        sum[r] = reduced(t, (size_t)r * count, count);
    for (int r = 0; r < t->ranks; r++) {
        memcpy(t->op[r]->recv, sum[r], count * whole_size(t->op[0]->type));
        free(sum[r]);
    }
}

static void all_gather(struct team *t)
{
    const size_t bytes = t->op[0]->count * whole_size(t->op[0]->type);

    for (int r = 0; r < t->ranks; r++)
        for (int s = 0; s < t->ranks; s++)
            memmove((char *)t->op[r]->recv + (size_t)s * bytes, t->op[s]->send, bytes);
}

/* What a ncclWindow_t points to. */
struct window {
    const void *peer[WHOLE_RANKS];
    const struct team *team;
    int rank;
    struct window *next;
};

static struct window *windows; /* all windows that are registered */

static void window(struct team *t)
{
    for (int r = 0; r < t->ranks; r++) {
        struct window *w = NULL;

        if (whole_nccl.window == NULL || whole_nccl.window(t->op[r]->world)) {
            w = calloc(1, sizeof *w);
            *w = (struct window){.team = t, .rank = r, .next = windows};
            windows = w;
            team_live(1);
        }
        for (int s = 0; s < t->ranks && w != NULL; s++)
            w->peer[s] = t->op[s]->send;
        *(struct window **)t->op[r]->recv = w;
    }
}

void team_windows_free(const struct team *t, int rank, const void *only)
{
    pthread_mutex_lock(&lock);
    for (struct window **at = &windows; *at != NULL;) {
        struct window *w = *at;

        if (w->team != t || w->rank != rank || (only != NULL && w != only)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
        team_live(-1);
    }
    pthread_mutex_unlock(&lock);
}

ncclComm_t team_comm(struct team *team, int rank, int device, int world)
{
    ncclComm_t comm = calloc(1, sizeof *comm);

    *comm = (struct ncclComm){.team = team, .rank = rank, .device = device, .world = world};
    team_live(1);
    return comm;
}

static struct team *new_team(void)
{
    struct team *team = calloc(1, sizeof *team);

    if (team == NULL)
        abort();
    team->next = teams;
    teams = team;
    return team;
}

static void split(struct team *t)
{
    for (int r = 0; r < t->ranks; r++) {
        const struct op *op = t->op[r];
        struct team *part = NULL;
        int before = 0;

        *(ncclComm_t *)op->recv = NULL;
        if (op->color == NCCL_SPLIT_NOCOLOR)
            continue;
        for (int s = 0; s < t->ranks; s++) {
            bool same = t->op[s]->color == op->color;

            before += same && (t->op[s]->key < op->key || (t->op[s]->key == op->key && s < r));
            if (same && s < r && part == NULL)
                part = (*(ncclComm_t *)t->op[s]->recv)->team;
        }
        if (part == NULL)
            part = new_team();
        part->ranks = (int)++part->joined;
        *(ncclComm_t *)op->recv = team_comm(part, before, op->device, op->world);
    }
}

static void (*const run[])(struct team *t) = {
    [WHOLE_ALL_REDUCE] = all_reduce, [WHOLE_REDUCE_SCATTER] = reduce_scatter,
    [WHOLE_ALL_GATHER] = all_gather, [WHOLE_WINDOW] = window,
    [WHOLE_SPLIT] = split,
};

static void run_together(struct team *t)
{
    const struct op *first = t->op[0];

    for (int r = 1; r < t->ranks && !whole_nccl.hung; r++) {
        const struct op *op = t->op[r];

        if (op->kind == first->kind && op->count == first->count && op->type == first->type &&
            op->reduction == first->reduction)
            continue;
        fprintf(stderr, "nccl: ranks 0 and %d make different calls\n", r);
        whole_nccl.hung = true; /* the real NCCL would hang or give wrong sums */
    }
    if (first->kind <= WHOLE_ALL_GATHER)
        __atomic_add_fetch(&ran, t->ranks, __ATOMIC_RELAXED);
    if (!whole_nccl.hung && !first->still)
        run[first->kind](t);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Callers hold the lock when they call the next two functions. */

static bool over(const struct team *t)
{
    return whole_nccl.hung || t->aborted;
}

/* Wait until ${*count} is at least ${number}, or can no longer reach ${number}. Returns whether it
 * is at least ${number}. */
static bool await(const unsigned long *count, unsigned long number, const struct team *t)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += whole_nccl.limit_s != 0 ? whole_nccl.limit_s : LIMIT_S;
    while (*count < number && !over(t))
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0) {
            whole_nccl.hung = true;
            pthread_cond_broadcast(&changed);
        }
    return *count >= number;
}

long team_turn(struct team *t, int rank)
{
    return __atomic_fetch_add(&t->turns[rank], 1, __ATOMIC_RELAXED);
}

bool team_run(struct turn *turn)
{
    struct team *t = turn->team;
    bool good;

    if (turn->number < 0)
        turn->number = team_turn(t, turn->rank);
    pthread_mutex_lock(&lock);
    good = await(&t->done, (unsigned long)turn->number, t) && !over(t);
    if (good) {
        t->op[turn->rank] = &turn->op;
        if (++t->here == t->ranks) {
            run_together(t);
            t->here = 0;
            t->done++;
            pthread_cond_broadcast(&changed);
        }
        good = await(&t->done, (unsigned long)turn->number + 1, t) && !whole_nccl.hung;
    }
    pthread_mutex_unlock(&lock);
    return good;
}

struct team *team_join(const ncclUniqueId *id, int ranks)
{
    struct team *team;
    bool good;

    pthread_mutex_lock(&lock);
    team = teams;
    while (team != NULL && memcmp(team->id, id, sizeof *id) != 0)
        team = team->next;
    if (team == NULL) {
        team = new_team();
        memcpy(team->id, id, sizeof *id);
        team->ranks = ranks;
    }
    team->joined++;
    pthread_cond_broadcast(&changed);
    good = await(&team->joined, (unsigned long)ranks, team);
    pthread_mutex_unlock(&lock);
    return good ? team : NULL;
}

void team_abort(struct team *t)
{
    pthread_mutex_lock(&lock);
    t->aborted = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
