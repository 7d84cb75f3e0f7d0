/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_windows.c - tests random registrations and deregistrations, with calls between them. A
 * simple model, which sees all ranks, says which window each rank must take. Each rank runs in a
 * thread of its own, and may deregister windows earlier or later than other ranks.
 *
 * TEST_ROUNDS is the number of rounds of each case (3). TEST_SEED is explained in test/random.h.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"
#include "test/kernels/windows/comms.h"
#include "test/random.h"

enum { STEPS = 4000, MOST = 40 };

/* A window that the program has registered. */
struct model {
    char *base[RANKS];
    size_t bytes;
    uint64_t number;  /* 0: this element is free */
    bool gone[RANKS]; /* whether the rank has deregistered it */
    bool ended;       /* when the ranks last compared their windows, some rank had deregistered
                         it */
    bool blocked;
};

static struct step {
    enum { REGISTER, DEREGISTER, CALL } kind;
    int rank, window; /* the rank that deregisters; the window's index in ${model} */
    char *at[RANKS];  /* the buffer of the call */
    size_t bytes;
    uint64_t want[RANKS]; /* number of the window that the rank should take; 0: none */
} step[STEPS];

static struct model model[MOST];
static int staged, direct, nested, blocks;

static bool overlap(const struct model *a, const struct model *b, int r)
{
    return a->base[r] < b->base[r] + b->bytes && b->base[r] < a->base[r] + a->bytes;
}

static void plan_register(struct t_random *random, struct step *s, int odd, uint64_t number)
{
    struct model *m = &model[s->window];
    int page = t_below(random, 24);

    s->kind = REGISTER;
    s->bytes = (size_t)(1 + t_below(random, 6)) * PAGE;
    *m = (struct model){.bytes = s->bytes, .number = number};
    for (int r = 0; r < RANKS; r++) {
        int shift = odd > 0 && t_below(random, odd) == 0 ? t_below(random, 8) : 0;

        s->at[r] = m->base[r] =
            (char *)(uintptr_t)(((size_t)(r + 1) << 32) + (size_t)(page + shift) * PAGE);
    }
    for (int i = 0; i < MOST; i++) {
        struct model *other = &model[i];
        int touched = 0, alike = 0, here = 0;

        if (other == m || other->number == 0 || other->ended)
            continue;
        for (int r = 0; r < RANKS; r++) {
            here += !other->gone[r];
            touched += overlap(m, other, r);
            alike += m->base[r] - other->base[r] == m->base[0] - other->base[0];
        }
        other->ended = here < RANKS;
        if (here == 0)
            other->number = 0;
        if (other->ended || touched == 0 || (touched == RANKS && alike == RANKS))
            continue;
        other->blocked = m->blocked = true;
        blocks++;
    }
}

/* Return the number of the window that rank ${r} should take for a buffer. */
static uint64_t expected(int r, const char *at, size_t bytes)
{
    const struct model *found = NULL;
    int holders = 0;

    for (int i = 0; i < MOST; i++) {
        const struct model *m = &model[i];

        if (m->number == 0 || m->ended || at < m->base[r] || at + bytes > m->base[r] + m->bytes)
            continue;
        if (m->blocked)
            return 0;
        holders++;
        if (!m->gone[r] && (found == NULL || m->base[r] > found->base[r] ||
                            (m->base[r] == found->base[r] && m->number > found->number)))
            found = m;
    }
    nested += holders > 1;
    return found == NULL ? 0 : found->number;
}

static bool plan_call(struct t_random *random, struct step *s)
{
    const struct model *m = &model[s->window];
    size_t from;
    int taken = 0;

    for (int r = 0; r < RANKS; r++)
        if (m->number == 0 || m->gone[r])
            return false;
    from = (size_t)t_below(random, (int)m->bytes / 16) * 16;
    s->kind = CALL;
    s->bytes = 1 + (size_t)t_below(random, (int)(m->bytes - from));
    for (int r = 0; r < RANKS; r++) {
        s->at[r] = m->base[r] + from;
        s->want[r] = expected(r, s->at[r], s->bytes);
        taken += s->want[r] != 0;
    }
    must(taken == 0 || taken == RANKS); /* otherwise the model itself would be wrong */
    staged += taken == 0;
    direct += taken != 0;
    return true;
}

/* Fill ${step} with random steps. In one of ${odd} registrations, the buffer of one rank lies
 * elsewhere than those of the other ranks; 0: in none. */
static void plan(uint64_t seed, int odd)
{
    struct t_random random = {seed};
    uint64_t number = 0;

    memset(model, 0, sizeof model);
    for (int i = 0; i < STEPS; i++) {
        struct step *s = &step[i];
        int what = t_below(&random, 8);

        *s = (struct step){.window = t_below(&random, MOST), .rank = t_below(&random, RANKS)};
        if (what == 0 && model[s->window].number == 0) {
            plan_register(&random, s, odd, ++number);
        } else if (what == 1 && model[s->window].number != 0 && !model[s->window].gone[s->rank]) {
            struct model *m = &model[s->window];

            s->kind = DEREGISTER;
            m->gone[s->rank] = true;
            if (m->gone[0] && m->gone[1] && m->gone[2] && m->ended)
                m->number = 0;
        } else if (!plan_call(&random, s)) {
            i--;
        }
    }
}

static void play(int rank)
{
    for (int i = 0; i < STEPS; i++) {
        const struct step *s = &step[i];
        const ncclWindow_t window = (ncclWindow_t)object[s->window];
        const struct ar_window *w;

        if (s->kind == REGISTER) {
            void *buffer = s->at[rank];

            object[s->window][rank] = buffer;
            must(symtuner_ar_register(&win_h[rank], &buffer, &window, 1, s->bytes) == ncclSuccess);
        } else if (s->kind == DEREGISTER && s->rank == rank) {
            must(symtuner_ar_deregister_window(win_h[rank], window) == ncclSuccess);
        } else if (s->kind == CALL) {
            w = ar_window_find(win_h[rank], s->at[rank], s->bytes);
            must((w == NULL ? 0 : w->number) == s->want[rank]);
            for (int r = 0; r < RANKS && w != NULL; r++)
                must(w->peer[r] + (s->at[rank] - w->base) == s->at[r]);
        }
    }
}

START_TEST(test_ranks_take_the_windows_of_a_simple_model)
{
    static const int odd[] = {0, 40, 6};
    const long rounds = t_rounds(3);

    staged = direct = nested = blocks = 0;
    for (long i = 0; i < rounds; i++) {
        plan(t_seed() + 2 * (uint64_t)i + 1000 * (uint64_t)_i, odd[_i]);
        fake_nccl_threads(play);
        for (int r = 0; r < RANKS; r++)
            for (int w = 0; w < MOST; w++)
                symtuner_ar_deregister_window(win_h[r], (ncclWindow_t)object[w]);
        tear_down_comms();
        set_up_comms();
    }
    ck_assert(direct > 50 * rounds && nested > 50 * rounds);
    ck_assert((staged > 50 * rounds) == (_i > 0) && (blocks > 0) == (_i > 0));
}
END_TEST

Suite *st_suite_windows(void)
{
    Suite *s = suite_create("ar_windows");
    TCase *random = tcase_create("random");

    tcase_add_checked_fixture(random, set_up_comms, tear_down_comms);
    tcase_set_timeout(random, 120);
    tcase_add_loop_test(random, test_ranks_take_the_windows_of_a_simple_model, 0, 3);
    suite_add_tcase(s, random);
    return s;
}
