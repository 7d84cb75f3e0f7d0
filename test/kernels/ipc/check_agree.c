/* SPDX-License-Identifier: Apache-2.0 */
/* check_agree.c - checks which calls the ranks give to the kernel tma_ipc with
 * SYMTUNER_AR_IPC=auto. All ranks must choose the same calls. They may choose a call only if all of
 * them had mapped its buffers when these buffers were last used. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ipc/agree.h"
#include "test/kernels/suites.h"

enum { RANKS = 2, RANDOM_CALLS = 100000, KINDS = 12 };

static struct ar_ipc_talk *talk;
static struct ar_ipc_past past[RANKS];
static const uint32_t no_abort;

static void clear(void)
{
    free(talk);
    talk = calloc(1, ar_ipc_talk_bytes(RANKS));
    memset(past, 0, sizeof past);
}

static void end(void)
{
    free(talk);
    talk = NULL;
}

static int decide(int me, int number, uint64_t limit_ns)
{
    const struct ar_ipc_call call = {.send = number ? ar_ipc_place(number, 16) : 0,
                                     .recv = number ? ar_ipc_place(number, 16) : 0,
                                     .needs_send = true,
                                     .needs_recv = true,
                                     .bytes = 4096};

    return ar_ipc_decide(talk, &past[me], me, RANKS, &call, limit_ns, &no_abort);
}

/* Let both ranks make a call, rank ${first} first, with allocation ${a} of rank 0 and ${b} of rank
 * 1. Return the decision, which must be the same on both ranks. */
static int both(int first, int a, int b)
{
    const int one = decide(first, first == 0 ? a : b, 1000000000);
    const int other = decide(!first, first == 0 ? b : a, 1000000000);

    ck_assert_int_eq(one, other);
    return one;
}

START_TEST(test_the_kernel_runs_what_all_have_mapped)
{
    ck_assert_int_eq(both(0, 1, 2), 0); /* nothing is known of these buffers */
    ck_assert_int_eq(both(1, 1, 2), 0); /* nobody has mapped them */
    ar_ipc_tell_mapped(talk, 0, 1, 2);
    ck_assert_int_eq(both(_i, 1, 2), 0); /* rank 1 has not mapped the allocation of rank 0 */
    ar_ipc_tell_mapped(talk, 1, 0, 1);
    ck_assert_int_eq(both(_i, 1, 2), 1);
    ck_assert_int_eq(both(!_i, 1, 2), 1);
    /* Rank 0 uses a new buffer. The rank that calls first decides, and rank 1 does not know that
     * the buffer is new. */
    ck_assert_int_eq(both(_i, 3, 2), _i);
    ck_assert_int_eq(both(!_i, 3, 2), 0); /* now both ranks know that the last call was bad */
    /* after the bad call, rank 1 still gives two calls to NCCL, although all ranks have mapped the
     * buffers */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(both(1, 1, 2), 0);
    ck_assert_int_eq(both(1, 1, 2), 1);
}
END_TEST

START_TEST(test_a_buffer_without_a_place_is_never_mapped)
{
    ar_ipc_tell_mapped(talk, 0, 1, 2);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(both(i % 2, 0, 2), 0);
}
END_TEST

/* A rank that is some calls ahead does not know which buffers its peer will use in these calls, so
 * it gives its calls to NCCL. */
START_TEST(test_a_rank_ahead_gives_its_calls_to_nccl)
{
    ar_ipc_tell_mapped(talk, 0, 1, 2);
    ar_ipc_tell_mapped(talk, 1, 0, 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(decide(0, 1, 0), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(decide(1, 2, 0), 0);
    ck_assert_int_eq(both(0, 1, 2), 1);
}
END_TEST

/* Both ranks have mapped all buffers. But between two uses of a buffer there are more calls than a
 * rank remembers. */
START_TEST(test_old_calls_are_forgotten)
{
    for (int n = 1; n <= AR_IPC_ALLOCATIONS; n++) {
        ar_ipc_tell_mapped(talk, 0, 1, n);
        ar_ipc_tell_mapped(talk, 1, 0, n);
    }
    ck_assert_int_eq(both(0, 1, 1), 0);
    ck_assert_int_eq(both(0, 1, 1), 1);
    for (int i = 0; i < AR_IPC_RECENT; i++)
        both(0, 2, 2);
    ck_assert_int_eq(both(0, 1, 1), 0);
    ck_assert_int_eq(both(0, 1, 1), 1);
}
END_TEST

/* Rank 1 uses two buffers in turn, one of which can never be mapped. If the kernel runs a call on
 * that buffer, the data goes through scratch memory. This may happen at most once. */
START_TEST(test_buffers_that_come_and_go_are_left_to_nccl)
{
    int through_scratch = 0;

    ar_ipc_tell_mapped(talk, 0, 1, 2);
    ar_ipc_tell_mapped(talk, 1, 0, 1);
    for (int i = 0; i < 500; i++)
        through_scratch += both(0, 1, i % 2 ? 2 : 0) && i % 2 == 0;
    ck_assert_int_le(through_scratch, 1);
    for (int i = 0; i < 5; i++)
        both(0, 1, 2);
    ck_assert_int_eq(both(0, 1, 2), 1);
}
END_TEST

/* A program makes the same call again and again, with one rank a call ahead. */
START_TEST(test_a_peer_one_call_behind_does_not_matter)
{
    int decided = 0;

    ar_ipc_tell_mapped(talk, 0, 1, 2);
    ar_ipc_tell_mapped(talk, 1, 0, 1);
    ck_assert_int_eq(decide(0, 1, 0), 0);
    for (int i = 0; i < 10; i++) {
        int ahead = decide(0, 1, 0), behind = decide(1, 2, 0);

        ck_assert_int_eq(behind, decided);
        decided = ahead;
    }
    ck_assert_int_eq(decided, 1);
}
END_TEST

/* A training step has a hundred buckets. The ranks must remember all of them. */
START_TEST(test_many_buffers_are_remembered)
{
    int yes = 0;

    for (int n = 1; n <= 200; n++) {
        ar_ipc_tell_mapped(talk, 0, 1, n);
        ar_ipc_tell_mapped(talk, 1, 0, n);
    }
    for (int n = 1; n <= 200; n++)
        ck_assert_int_eq(both(n % 2, n, n), 0);
    for (int n = 1; n <= 200; n++)
        yes += both(n % 2, n, n);
    ck_assert_int_eq(yes, 200);
}
END_TEST

START_TEST(test_a_lost_rank_ends_the_wait)
{
    for (int i = 0; i < AR_IPC_DECISIONS; i++)
        ck_assert_int_eq(decide(0, 1, 0), 0);
    ck_assert_int_eq(decide(0, 1, 1000000), -1);
}
END_TEST

/* ---- random calls of two threads ------------------------------------------------------------- */

static unsigned char decided[RANKS][RANDOM_CALLS];

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void *make_calls(void *argument)
{
    const int me = argument != NULL;
    unsigned shared = 7, own = 11 + (unsigned)me;

    for (int i = 0; i < RANDOM_CALLS; i++) {
        const uint64_t *behind = &talk->rank[!me].decided;
        int number = (int)(next(&shared) % KINDS) + 1;

        /* In the first half the ranks stay together. In the second half, one may be far ahead. */
        while (i < RANDOM_CALLS / 2 && __atomic_load_n(behind, __ATOMIC_RELAXED) + 5 < (uint64_t)i)
            sched_yield();
        if (next(&own) % 50 == 0)
            /* use another buffer on this rank */
            number = (int)(next(&own) % AR_IPC_ALLOCATIONS) + 1;
        if (next(&own) % 20 == 0)
            ar_ipc_tell_mapped(talk, me, !me, (int)(next(&own) % KINDS) + 1);
        decided[me][i] = (unsigned char)decide(me, number, 20000000000);
    }
    return NULL;
}

START_TEST(test_ranks_agree_on_random_calls)
{
    pthread_t thread[RANKS];
    int yes = 0;

    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(pthread_create(&thread[r], NULL, make_calls, r == 0 ? NULL : thread), 0);
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    for (int i = 0; i < RANDOM_CALLS; i++) {
        ck_assert_msg(decided[0][i] == decided[1][i], "call %d", i);
        ck_assert(decided[0][i] <= 1);
        yes += decided[0][i];
    }
    ck_assert(yes > RANDOM_CALLS / 50 && yes < RANDOM_CALLS);
}
END_TEST

Suite *st_suite_agree(void)
{
    Suite *s = suite_create("ar_agree");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, clear, end);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_the_kernel_runs_what_all_have_mapped, 0, RANKS);
    tcase_add_test(t, test_a_buffer_without_a_place_is_never_mapped);
    tcase_add_test(t, test_a_rank_ahead_gives_its_calls_to_nccl);
    tcase_add_test(t, test_old_calls_are_forgotten);
    tcase_add_test(t, test_buffers_that_come_and_go_are_left_to_nccl);
    tcase_add_test(t, test_a_peer_one_call_behind_does_not_matter);
    tcase_add_test(t, test_many_buffers_are_remembered);
    tcase_add_test(t, test_a_lost_rank_ends_the_wait);
    tcase_add_test(t, test_ranks_agree_on_random_calls);
    suite_add_tcase(s, t);
    return s;
}
