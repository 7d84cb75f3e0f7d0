/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/meet.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/board.h"

enum { RANKS_MAX = 64 };

enum st_meet_answer st_meet_judge(const struct st_meet_entry *entry, int count, int ranks)
{
    if (count != ranks)
        return ST_MEET_MISSING;
    for (int i = 0; i < count; i++)
        if (entry[i].settings != entry[0].settings)
            return ST_MEET_DIFFER;
    for (int i = 0; i < count; i++)
        if (!entry[i].able)
            return ST_MEET_UNABLE;
    return ST_MEET_ALL;
}

/* The shared object; a new one is all zeros. */
struct board {
    _Atomic uint32_t entered; /* ranks that have entered                            */
    _Atomic uint32_t gone;    /* ranks that have left without coming                */
    _Atomic uint32_t joined;  /* elements of ${entry} that ranks have claimed       */
    _Atomic uint32_t whole;   /* elements of ${entry} that are written              */
    _Atomic uint32_t answer;  /* the answer, an enum st_meet_answer                 */
    _Atomic uint32_t done;    /* ranks that have a handle                           */
    _Atomic uint32_t undone;  /* ranks that have no handle                          */
    _Atomic uint32_t both;    /* do all have a handle? 0: undecided, 1: yes, 2: no  */
    struct st_meet_entry entry[RANKS_MAX];
    struct {
        _Atomic uint32_t yes, no, answer; /* answer: 0: undecided, 1: yes, 2: no */
        _Atomic uint64_t most; /* the bits of a double >= 0; a larger double has larger bits */
    } vote[ST_MEET_VOTES];
};

struct st_meet {
    struct board *board;
    struct st_board shared;
    int count;  /* ranks for which st_meet_enter was called */
    int ranks;  /* ranks of the communicator; 0 before st_meet_come */
    int votes;  /* how often this rank has voted */
    bool first; /* this rank came first */
    atomic_bool given_up;
    uint64_t since; /* when this rank came, in ms */
};

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sleep 20 us in the first 50 rounds, and 1 ms in later ones. Most waits are short, because ranks
 * mostly return from ncclCommInitRank at almost the same time. */
static void doze(int round)
{
    struct timespec t = {.tv_nsec = round < 50 ? 20000 : 1000000};

    nanosleep(&t, NULL);
}

struct st_meet *st_meet_enter(uint64_t key, int count)
{
    struct st_meet *meet = calloc(1, sizeof *meet);
    char name[64];

    if (!meet)
        return NULL;
    snprintf(name, sizeof name, "/symtuner-nccl-2-%u-%016llx", (unsigned)geteuid(),
             (unsigned long long)key);
    if (!st_board_join(&meet->shared, name, sizeof *meet->board)) {
        free(meet);
        return NULL;
    }
    meet->board = meet->shared.at;
    meet->count = count;
    atomic_fetch_add(&meet->board->entered, (uint32_t)count);
    return meet;
}

void st_meet_come(struct st_meet *meet, int ranks, int count, const struct st_meet_entry *entry)
{
    uint32_t own = atomic_fetch_add(&meet->board->joined, (uint32_t)count);

    meet->ranks = ranks;
    meet->since = now();
    meet->first = own == 0;
    for (uint32_t i = own; i < own + (uint32_t)count && i < RANKS_MAX; i++)
        meet->board->entry[i] = *entry;
    atomic_fetch_add_explicit(&meet->board->whole, (uint32_t)count, memory_order_release);
    st_board_hide(&meet->shared); /* no further rank can enter now, so the name is not needed */
}

/* If ${word} is still 0, write ${mine} into it. Return what ${word} holds then. */
static uint32_t decide(_Atomic uint32_t *word, uint32_t mine)
{
    uint32_t open = 0;

    return atomic_compare_exchange_strong(word, &open, mine) ? mine : open;
}

enum st_meet_answer st_meet_wait(struct st_meet *meet, int ms)
{
    struct board *board = meet->board;

    for (int round = 0;; round++) {
        uint32_t answer = atomic_load(&board->answer);
        int come = (int)atomic_load_explicit(&board->whole, memory_order_acquire);

        if (answer != ST_MEET_OPEN)
            return (enum st_meet_answer)answer;
        if (come >= meet->ranks || (int)atomic_load(&board->entered) < meet->ranks ||
            atomic_load(&board->gone) > 0 || now() - meet->since >= (uint64_t)ms)
            return (enum st_meet_answer)decide(&board->answer,
                                               st_meet_judge(board->entry, come, meet->ranks));
        doze(round);
    }
}

/* Wait until all ranks have said yes (${*yes}), one has said no (${*no}), ${ms} have passed, or
 * this rank has given up. Then write the answer, unless another rank has written it. Return whether
 * the answer is yes. */
static bool count(const struct st_meet *meet, _Atomic uint32_t *yes, _Atomic uint32_t *no,
                  _Atomic uint32_t *answer, int ms)
{
    uint64_t since = now();

    for (int round = 0;; round++) {
        if (atomic_load(answer))
            return atomic_load(answer) == 1;
        if ((int)atomic_load(yes) == meet->ranks)
            return decide(answer, 1) == 1;
        if (atomic_load(no) || atomic_load(&meet->given_up) || now() - since >= (uint64_t)ms)
            return decide(answer, 2) == 1;
        doze(round);
    }
}

bool st_meet_done(struct st_meet *meet, int ranks, bool done, int ms)
{
    struct board *board = meet->board;

    atomic_fetch_add(done ? &board->done : &board->undone, (uint32_t)ranks);
    return count(meet, &board->done, &board->undone, &board->both, ms);
}

bool st_meet_vote(struct st_meet *meet, bool yes, double *most, int ms)
{
    uint64_t mine, highest = 0;
    int v = meet->votes++;
    bool all;

    if (v >= ST_MEET_VOTES)
        return false;
    memcpy(&mine, most, sizeof mine);
    highest = atomic_load(&meet->board->vote[v].most);
    while (highest < mine &&
           !atomic_compare_exchange_weak(&meet->board->vote[v].most, &highest, mine))
        ;
    atomic_fetch_add(yes ? &meet->board->vote[v].yes : &meet->board->vote[v].no, 1);
    all = count(meet, &meet->board->vote[v].yes, &meet->board->vote[v].no,
                &meet->board->vote[v].answer, ms);
    highest = atomic_load(&meet->board->vote[v].most);
    memcpy(most, &highest, sizeof highest);
    return all;
}

bool st_meet_single(const struct st_meet *meet)
{
    for (int i = 0; i < meet->ranks; i++)
        if (!meet->board->entry[i].single)
            return false;
    return true;
}

bool st_meet_first(const struct st_meet *meet)
{
    return meet->first;
}

void st_meet_give_up(struct st_meet *meet)
{
    atomic_store(&meet->given_up, true);
}

void st_meet_leave(struct st_meet *meet)
{
    if (!meet)
        return;
    if (meet->ranks == 0)
        atomic_fetch_add(&meet->board->gone, (uint32_t)meet->count);
    st_board_leave(&meet->shared);
    free(meet);
}
