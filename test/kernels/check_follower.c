/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_follower.c - tests two functions. With symtuner_ar_followers_wait a program promises that
 * the kernels that follow ours on a stream wait for ours. symtuner_ar_separate puts an operation
 * behind our kernel, so that a following kernel that does not wait cannot overlap ours. Runs on
 * test/kernels/fake/cuda.c. A promise holds for the whole process, so each test runs in a process
 * of its own, which libcheck forks.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/order/first.h"
#include "kernels/order/follower.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

/* Like set_up of local_group.h, but the GPUs are sm_90, where a kernel can start early, that is,
 * before the previous kernel of its stream has ended. */
static void set_up_early(void)
{
    struct symtuner_ar_config config = small();

    set_up();
    symtuner_ar_destroy(handles, N);
    fake.arch = 90;
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, N, &config), ncclSuccess);
}

/* Make a call on ${h} and stream ${number}, and return how its kernel starts. */
static enum ar_start start_of(symtuner_ar *h, uintptr_t number)
{
    const struct fake_launch *l;

    ck_assert_msg(symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, h,
                                         (cudaStream_t)number) == ncclSuccess,
                  "%s", symtuner_ar_error(h));
    l = &fake.launch[(fake.launches - 1) % FAKE_LAUNCHES];
    ck_assert_int_eq(l->early, 1);
    return (enum ar_start)l->args.overlap;
}

static enum ar_start call_on(uintptr_t number)
{
    return start_of(handles[0], number);
}

static void separate(uintptr_t number, int host_functions, int empty_nodes)
{
    ck_assert_int_eq(symtuner_ar_separate((cudaStream_t)number), ncclSuccess);
    ck_assert_int_eq(fake.host_functions, host_functions);
    ck_assert_int_eq(fake.empty_nodes, empty_nodes);
}

START_TEST(test_a_promise_is_taken_back_for_good)
{
    ck_assert_int_eq(call_on(1), AR_EARLY);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    ck_assert_int_eq(call_on(1), AR_EARLY_BOTH);
    ck_assert_int_eq(symtuner_ar_followers_wait(0), ncclSuccess);
    ck_assert_int_eq(call_on(1), AR_EARLY);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    ck_assert_int_eq(call_on(1), AR_EARLY);
    want_error(symtuner_ar_followers_wait(2), ncclInvalidArgument, NULL, "wait is 2");
}
END_TEST

START_TEST(test_streams_are_separated_where_it_is_needed)
{
    separate(1, 0, 0);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    call_on(1);
    separate(1, 0, 0);
    ck_assert_int_eq(symtuner_ar_followers_wait(0), ncclSuccess);
    separate(1, 1, 0);
    separate(1, 1, 0); /* the stream is separated already */
    separate(2, 2, 0);
    separate(1, 2, 0);
    fake.others = 1000; /* from here on stream 1 counts as a new stream */
    separate(1, 3, 0);
    fake.capture = 5;
    separate(1, 3, 1);
    separate(1, 3, 2);
    fake.capture = 0;
    separate(1, 3, 2);
    /* The program has taken its promise back, so the kernel of this captured call lets no other
     * kernel start early. So this graph is no reason to separate streams outside of captures. */
    fake.capture = 6;
    ck_assert_int_eq(call_on(1), AR_EARLY);
    fake.capture = 0;
    separate(1, 3, 2);
    fake_graph_gone(6);
}
END_TEST

START_TEST(test_streams_are_left_alone_if_no_kernel_let_others_start_early)
{
    call_on(1);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_followers_wait(0), ncclSuccess);
    call_on(1);
    separate(1, 0, 0);
    fake.capture = 5;
    separate(1, 0, 0);
    fake.capture = 0;
}
END_TEST

/* The graph was captured while the promise held, so its kernels let others start early. The program
 * may launch the graph on any stream at any time, so each symtuner_ar_separate has to separate its
 * stream. */
START_TEST(test_behind_graphs_streams_are_separated_each_time)
{
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    fake.capture = 5;
    ck_assert_int_eq(call_on(1), AR_EARLY_BOTH);
    fake.capture = 0;
    ck_assert_int_eq(symtuner_ar_followers_wait(0), ncclSuccess);
    separate(1, 1, 0);
    separate(1, 2, 0);
    fake_graph_gone(5);
}
END_TEST

/* If a second handle also let followers start early, two ranks that start the calls of the two
 * handles in different order could wait for each other for ever (kernels/order/first.h). */
START_TEST(test_only_the_first_handle_of_a_gpu_lets_followers_start_early)
{
    static const int low[] = {0, 1}, high[] = {2, 3};
    struct symtuner_ar_config config = small();
    symtuner_ar *first[2], *second[2], *third[2], *elsewhere[2];

    symtuner_ar_destroy(handles, N);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_create_local(first, low, 2, &config), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_create_local(second, low, 2, &config), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_create_local(third, low, 2, &config), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_create_local(elsewhere, high, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(start_of(first[r], 0), AR_EARLY_BOTH);
        ck_assert_int_eq(start_of(second[r], 0), AR_EARLY);
        ck_assert_int_eq(start_of(elsewhere[r], 0), AR_EARLY_BOTH);
    }
    symtuner_ar_destroy(second, 2);
    ck_assert_int_eq(start_of(third[0], 0), AR_EARLY);
    fake.capture = 5;
    ck_assert_int_eq(start_of(first[0], 0), AR_EARLY_BOTH);
    fake.capture = 0;
    symtuner_ar_destroy(first, 2);
    /* the graph may still run the captured call of the first handle, so no other handle becomes the
     * first */
    ck_assert_int_eq(start_of(third[0], 0), AR_EARLY);
    fake_graph_gone(5);
    ck_assert_int_eq(symtuner_ar_create_local(second, low, 2, &config), ncclSuccess);
    ck_assert_int_eq(start_of(third[1], 0), AR_EARLY_BOTH);
    ck_assert_int_eq(start_of(second[1], 0), AR_EARLY);
    symtuner_ar_destroy(second, 2);
    symtuner_ar_destroy(third, 2);
    symtuner_ar_destroy(elsewhere, 2);
}
END_TEST

enum { GPUS = 4, GROUPS = 12, STEPS = 400 };

/* Groups of handles, with one rank for each GPU. Each GPU stands for a process of its own. */
static struct {
    symtuner_ar *rank[GPUS]; /* NULL: the handle was not made, or was freed */
    bool member[GPUS];
    uint64_t place; /* what ar_first_place gets for all handles of the group; 0: not all ranks have
                       joined */
} groups[GROUPS];

static bool is_first(int g, int gpu)
{
    return groups[g].rank[gpu] != NULL && groups[g].rank[gpu]->first;
}

/* Check that all GPUs agree. Suppose that GPU x takes the handle of group a for its first, and GPU
 * y that of group b. If both GPUs belong to both groups, they could wait for each other for
 * ever. */
static void must_agree(void)
{
    for (int a = 0; a < GROUPS; a++)
        for (int b = 0; b < GROUPS; b++)
            for (int x = 0; x < GPUS && a != b; x++)
                for (int y = 0; y < GPUS; y++)
                    must(!(is_first(a, x) && is_first(b, y) && groups[b].rank[x] != NULL &&
                           groups[a].rank[y] != NULL));
}

/* Let rank ${gpu} of group ${g} take its next step. In its first step the rank joins: it proposes a
 * number, the place of its handle in an order of all handles (kernels/order/first.h). When all
 * ranks of the group have joined, its next step gives the handle the largest number proposed. When
 * all handles of the group have their place, the rank may leave. */
static void step(int g, int gpu, bool may_leave)
{
    symtuner_ar *h = groups[g].rank[gpu];
    uint64_t place = 0;
    bool all = true;

    if (h == NULL && groups[g].place == 0) {
        h = groups[g].rank[gpu] = calloc(1, sizeof *h);
        h->device = gpu;
        h->group = (uint64_t)(g * 7 % GROUPS);
        ar_first_join(h);
    } else if (h != NULL && !h->placed) {
        for (int r = 0; r < GPUS; r++) {
            all = all && (!groups[g].member[r] || groups[g].rank[r] != NULL);
            if (groups[g].rank[r] != NULL && groups[g].rank[r]->place > place)
                place = groups[g].rank[r]->place;
        }
        if (all && groups[g].place == 0)
            /* some groups get a larger place than these ranks have proposed, as if a rank on
             * another machine had proposed it */
            groups[g].place = place + (g % 4 == 3);
        if (all)
            ar_first_place(h, groups[g].place);
    } else if (h != NULL && may_leave) {
        for (int r = 0; r < GPUS; r++)
            all = all && (groups[g].rank[r] == NULL || groups[g].rank[r]->placed);
        if (all) {
            ar_first_leave(h);
            free(h);
            groups[g].rank[gpu] = NULL;
        }
    }
}

/* The ranks take their steps in random order, as when threads of each process make handles at the
 * same time. No two ranks may disagree on the first handle. */
START_TEST(test_ranks_agree_on_the_first_handle)
{
    unsigned state = 20261124u + (unsigned)_i;
    bool had[GROUPS][GPUS];

    symtuner_ar_destroy(handles, N);
    memset(groups, 0, sizeof groups);
    for (int g = 0; g < GROUPS; g++)
        for (int r = 0; r < GPUS; r++)
            groups[g].member[r] = g < 3 || r == g % GPUS || r == (g * 5 + 1) % GPUS;
    for (int k = 0; k < STEPS; k++) {
        int g, gpu;

        state = state * 1664525u + 1013904223u;
        g = (int)(state >> 8) % GROUPS;
        gpu = (int)(state >> 20) % GPUS;
        for (int a = 0; a < GROUPS; a++)
            for (int r = 0; r < GPUS; r++)
                had[a][r] = is_first(a, r) && !(a == g && r == gpu);
        if (groups[g].member[gpu])
            step(g, gpu, (state >> 28) % 4 == 0);
        must_agree();
        for (int a = 0; a < GROUPS; a++)
            for (int r = 0; r < GPUS; r++)
                must(!had[a][r] || is_first(a, r)); /* calls of a first handle may still run, so it
                                                       stays the first */
    }
    for (int g = 0; g < GROUPS; g++)
        for (int r = 0; r < GPUS; r++)
            if (groups[g].rank[r] != NULL) {
                ar_first_leave(groups[g].rank[r]);
                free(groups[g].rank[r]);
            }
}
END_TEST

enum { RANKS = 2 };

static bool no_memory; /* the ranks of the next pair can share no memory */

static void make_pair(symtuner_ar **h, int nccl)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();

    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(RANKS);
    fake_nccl.version = nccl;
    fake_nccl.no_symmetric = no_memory;
    fake.no_pin = no_memory;
    fake.devices = RANKS;
    fake.peers = 1;
    fake.arch = 90;
    ck_assert_msg(symtuner_ar_create(h, comms, RANKS, &config) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
}

/* The handle that a program makes first often has all ranks of the program. If these are on several
 * machines, NCCL runs the calls of this handle. Then the first handle whose calls run on our
 * kernels must count as the first. */
START_TEST(test_a_handle_without_kernels_is_not_the_first)
{
    static char m[4096];
    static const int one[] = {0};
    struct symtuner_ar_config config = small();
    symtuner_ar *lone, *none[RANKS], *h[RANKS];

    setenv("SYMTUNER_LOG", "off", 1);
    no_memory = true;
    make_pair(none, 23007);
    ck_assert_ptr_nonnull(none[0]->gate);
    ck_assert_int_eq(symtuner_ar_create_local(&lone, one, 1, &config), ncclSuccess);
    no_memory = false;
    make_pair(h, 23007);
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 8, ncclFloat, ncclSum, h[0], NULL), ncclSuccess);
    ck_assert_int_eq(fake.launch[fake.launches - 1].args.overlap, AR_EARLY_BOTH);
    symtuner_ar_destroy(h, RANKS);
    symtuner_ar_destroy(&lone, 1);
    symtuner_ar_destroy(none, RANKS);
}
END_TEST

/* Before a handle gives a call to NCCL, it must separate the stream (symtuner_ar_separate), because
 * NCCL's kernel may directly follow a kernel of ours. */
START_TEST(test_what_goes_to_nccl_is_separated)
{
    static char m[4096];
    symtuner_ar *h[RANKS];

    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    make_pair(h, 22809);
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 8, ncclFloat, ncclSum, h[0], NULL), ncclSuccess);
    symtuner_ar_force(h[0], "nccl", 0, 0);
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 8, ncclFloat, ncclSum, h[0], NULL), ncclSuccess);
    ck_assert_int_eq(fake.host_functions, 0);
    ck_assert_int_eq(symtuner_ar_followers_wait(0), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 8, ncclFloat, ncclSum, h[0], NULL), ncclSuccess);
    ck_assert_int_eq(fake.host_functions, 1);
    fake.fails = "cudaLaunchHostFunc";
    fake.others = 1000; /* the stream now counts as a new one, which is not separated yet */
    ck_assert_int_ne(symtuner_ar_all_reduce(m, m, 8, ncclFloat, ncclSum, h[0], NULL), ncclSuccess);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(h[0]), "separate a stream"));
    fake.fails = NULL;
    fake.others = 0;
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

/* Registering a buffer lets NCCL run its symmetric kernels. Before 2.30.7 these do not wait for the
 * previous kernel, so the library then takes the program's promise back. */
static const struct window {
    int nccl;
    enum ar_follower want;
} windows[] = {{22803, AR_FOLLOWER_MAY_NOT_WAIT}, {22809, AR_FOLLOWER_MAY_NOT_WAIT},
               {22907, AR_FOLLOWER_MAY_NOT_WAIT}, {23006, AR_FOLLOWER_MAY_NOT_WAIT},
               {23007, AR_FOLLOWER_WAITS},        {23206, AR_FOLLOWER_WAITS}};

START_TEST(test_registering_takes_the_promise_back)
{
    void *buffer[RANKS];
    symtuner_ar *h[RANKS];

    make_pair(h, windows[_i].nccl);
    for (int r = 0; r < RANKS; r++)
        buffer[r] = aligned_alloc(4096, 4096);
    ck_assert_int_eq(symtuner_ar_followers_wait(1), ncclSuccess);
    /* The handles have registered their scratch, too, but no symmetric kernel runs on scratch. */
    ck_assert_int_eq(ar_follower_said(), AR_FOLLOWER_WAITS);
    ck_assert_int_eq(symtuner_ar_register(h, buffer, NULL, RANKS, 4096), ncclSuccess);
    ck_assert_int_eq(ar_follower_said(), windows[_i].want);
    symtuner_ar_destroy(h, RANKS);
    for (int r = 0; r < RANKS; r++)
        free(buffer[r]);
}
END_TEST

Suite *st_suite_follower(void)
{
    Suite *suite = suite_create("ar_follower");
    TCase *local = tcase_create("local"), *nccl = tcase_create("nccl");

    tcase_add_checked_fixture(local, set_up_early, tear_down);
    tcase_add_test(local, test_a_promise_is_taken_back_for_good);
    tcase_add_test(local, test_streams_are_separated_where_it_is_needed);
    tcase_add_test(local, test_streams_are_left_alone_if_no_kernel_let_others_start_early);
    tcase_add_test(local, test_behind_graphs_streams_are_separated_each_time);
    tcase_add_test(local, test_only_the_first_handle_of_a_gpu_lets_followers_start_early);
    suite_add_tcase(suite, local);
    tcase_add_test(nccl, test_what_goes_to_nccl_is_separated);
    tcase_add_test(nccl, test_a_handle_without_kernels_is_not_the_first);
    tcase_add_loop_test(local, test_ranks_agree_on_the_first_handle, 0, 40);
    tcase_add_loop_test(nccl, test_registering_takes_the_promise_back, 0,
                        sizeof windows / sizeof *windows);
    suite_add_tcase(suite, nccl);
    return suite;
}
