/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_emulated.c - tests single calls of kernels on the CPU (emulate.h): ranks that are aborted
 * or never make their call, two handles at the same time, graphs, and which variant of a kernel is
 * chosen.
 */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "kernels/host/launch.h"
#include "test/kernels/emulated/emulate.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/suites.h"

struct rank {
    symtuner_ar *handle;
    int me, coll;
    char *send, *recv;
    char wrong[200];
};

static void *call_once(void *p)
{
    struct rank *k = p;
    /* the parts have whole words, because the kernel tma needs this */
    size_t part = 1000 / (size_t)k->handle->ranks / 4 * 4;
    ncclResult_t result =
        k->coll == AR_ALL_REDUCE
            ? symtuner_ar_all_reduce(k->send, k->recv, 1000, ncclFloat32, ncclSum, k->handle, NULL)
        : k->coll == AR_REDUCE_SCATTER
            ? symtuner_ar_reduce_scatter(k->send, k->recv, part, ncclFloat32, ncclSum, k->handle,
                                         NULL)
            : symtuner_ar_all_gather(k->send, k->recv, part, ncclFloat32, k->handle, NULL);

    if (result != ncclSuccess)
        snprintf(k->wrong, sizeof k->wrong, "%s", symtuner_ar_error(k->handle));
    return NULL;
}

static void start_call(struct rank *k, pthread_t *thread)
{
    for (int i = 0; i < 1000; i++)
        ((float *)k->send)[i] = (float)(k->me + 1);
    pthread_create(thread, NULL, call_once, k);
}

/*
 * Let rank 1 make a call alone, and abort it. Then let rank 0 make the call alone. If the kernel is
 * one-shot (${whole}), rank 0 has already received all that it needs. So its call must be right,
 * and its next call must be an error. With other kernels its first call must be an error.
 */
static void abort_group(const char *kernel, bool whole)
{
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = 300};
    static const int devices[2] = {0, 1};
    static float buffer[2][2][1000];
    symtuner_ar *handles[2];
    struct rank k[2];
    pthread_t thread;

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    fake.arch = 90;
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        k[r] = (struct rank){.handle = handles[r], .me = r};
        k[r].send = (char *)buffer[r][0];
        k[r].recv = (char *)buffer[r][1];
        ck_assert_int_eq(symtuner_ar_force(handles[r], kernel, 1, 64), ncclSuccess);
    }
    start_call(&k[1], &thread);
    usleep(30000);
    ck_assert_int_eq(symtuner_ar_abort(handles[1]), ncclSuccess);
    pthread_join(thread, NULL);
    ck_assert_int_ne(symtuner_ar_status(handles[1]), ncclSuccess);
    for (int again = 0; again < 1 + whole; again++) {
        ck_assert_msg(symtuner_ar_status(handles[0]) == ncclSuccess, "%s: %s", kernel,
                      symtuner_ar_error(handles[0]));
        start_call(&k[0], &thread);
        pthread_join(thread, NULL);
        for (int i = 0; i < 1000 && again < whole; i++)
            ck_assert(buffer[0][1][i] == 3);
    }
    ck_assert_int_eq(symtuner_ar_status(handles[0]), ncclRemoteError);
    for (int r = 0; r < 2; r++)
        ck_assert_int_ne(
            symtuner_ar_all_reduce(k[r].send, k[r].recv, 1, ncclFloat32, ncclSum, handles[r], NULL),
            ncclSuccess);
    symtuner_ar_destroy(handles, 2);
}

START_TEST(test_peers_of_an_aborted_rank_get_right_bytes_or_an_error)
{
    abort_group("one_lamport", true);
    abort_group("one_ll128", true);
    abort_group("one_ll8", true);
    abort_group("two_ll128", false);
    abort_group("chunked", false);
    abort_group("tma_staged", false);
}
END_TEST

/* ---- a destroyed handle ---------------------------------------------------------------------- */

/* If a graph replays a kernel of a destroyed handle, the kernel must stop the program. The memory
 * to which it would write may by now belong to somebody else. */
START_TEST(test_a_kernel_of_a_destroyed_handle_stops_the_program)
{
    struct ar_state state = {.epoch = 1, .dead = AR_DESTROYED};
    struct ar_args args = {.state = &state, .ranks = 2};
    const pid_t child = fork();
    int status;

    if (child == 0) {
        emulate_launch(ar_kernel_signal, &args, 1, 32, 0);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
}
END_TEST

/* ---- a rank that never calls ----------------------------------------------------------------- */

enum { MOST = 8, COUNT = 1000 };

#define POISON 0x5a

/* A group in which rank ${absent} never makes its call. The buffers of all ranks are registered. */
struct absence {
    symtuner_ar *handles[MOST];
    struct rank k[MOST];
    int ranks, absent;
    size_t bytes;
};

static void make_absence(struct absence *a, int ranks)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .timeout_ms = 60, .bulk_bytes = 1 << 20};
    static const int devices[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    void *buffers[MOST];

    memset(&fake, 0, sizeof fake);
    fake.devices = MOST;
    fake.peers = 1;
    fake.arch = 90;
    *a = (struct absence){.ranks = ranks, .absent = ranks % 2 == 0 ? ranks - 1 : 0, .bytes = 4096};
    ck_assert_int_eq(symtuner_ar_create_local(a->handles, devices, ranks, &config), ncclSuccess);
    for (int b = 0; b < 2; b++) {
        for (int r = 0; r < ranks; r++) {
            a->k[r].handle = a->handles[r];
            a->k[r].me = r;
            buffers[r] = aligned_alloc(4096, a->bytes);
            *(b == 0 ? &a->k[r].send : &a->k[r].recv) = buffers[r];
        }
        ck_assert_int_eq(symtuner_ar_register(a->handles, buffers, NULL, ranks, a->bytes),
                         ncclSuccess);
    }
}

/* Make ${h} usable again after an error. An epoch is the number of a call. One epoch is left out,
 * so all words in the scratch memory of ${h} are of older epochs, or lie where only the absent rank
 * would write. */
static void revive(symtuner_ar *h)
{
    h->state->epoch += 2;
    h->state->dead = AR_ALIVE;
    h->state->arrived = h->state->base;
    h->mailbox->error = h->mailbox->abort = 0;
    for (int a = 0; a < AR_ARENAS; a++)
        /* clear the flags of the kernel "engines", because they do not contain the epoch */
        if (h->arena[a].peer[h->me] != NULL)
            memset(h->arena[a].peer[h->me] + ar_flag_offset(AR_FLAG_ENGINES, 0, 0), 0,
                   AR_ENGINES_ROWS * AR_FLAG_ROW);
}

/* Let all ranks except the absent one call ${kernel}. None may write to the absent rank's
 * buffers. */
static void call_without_it(struct absence *a, int coll, const char *kernel, bool abort)
{
    pthread_t thread[MOST];

    for (int r = 0; r < a->ranks; r++) {
        struct rank *k = &a->k[r];

        revive(k->handle);
        k->wrong[0] = 0;
        k->coll = coll;
        memset(k->send, POISON, a->bytes);
        memset(k->recv, r == a->absent ? POISON : ~POISON, a->bytes);
        ck_assert_int_eq(symtuner_ar_force(k->handle, kernel, 1, 32), ncclSuccess);
    }
    for (int r = 0; r < a->ranks; r++)
        if (r != a->absent)
            start_call(&a->k[r], &thread[r]);
    if (abort)
        usleep(15000);
    for (int r = 0; abort && r < a->ranks; r++)
        ck_assert_int_eq(symtuner_ar_abort(a->handles[r]), ncclSuccess);
    for (int r = 0; r < a->ranks; r++) {
        if (r == a->absent)
            continue;
        pthread_join(thread[r], NULL);
        ck_assert_msg(a->k[r].wrong[0] == 0 || abort, "%s: %s", kernel, a->k[r].wrong);
        ck_assert_int_ne(symtuner_ar_status(a->handles[r]), ncclSuccess);
        if (abort && a->k[r].wrong[0] == 0 && strcmp(kernel, "engines") != 0)
            ck_assert_msg(symtuner_ar_waits(a->handles[r]) != 0, "%s: did not say that it waits",
                          kernel);
    }
    for (size_t i = 0; i < a->bytes; i++)
        ck_assert_msg(a->k[a->absent].send[i] == POISON && a->k[a->absent].recv[i] == POISON,
                      "coll %d, %s, %d ranks, %s: byte %zu of rank %d, which never called, was "
                      "written",
                      coll, kernel, a->ranks, abort ? "aborted" : "too late", i, a->absent);
}

/* A rank that has not yet made the call may still use its buffers, so no peer may touch them. The
 * kernels that send words, those before AR_CHUNKED, are tested with few ranks only. These kernels
 * access only the scratch memory of their peers. */
START_TEST(test_no_kernel_touches_the_buffers_of_a_rank_that_never_calls)
{
    struct absence a;

    make_absence(&a, _i);
    for (int i = 0; i < AR_COLLS * AR_FAMILIES; i++) {
        const int coll = i / AR_FAMILIES, f = i % AR_FAMILIES;

        if (f != AR_NCCL && f != AR_NVLS && f != AR_NVLS_ONE && ar_family_needs(f, coll) != 0 &&
            (f >= AR_CHUNKED || _i <= 4)) {
            call_without_it(&a, coll, ar_family_name(f), false);
            call_without_it(&a, coll, ar_family_name(f), true);
        }
    }
    for (int r = 0; r < a.ranks; r++) {
        revive(a.handles[r]);
        free(a.k[r].send);
        free(a.k[r].recv);
    }
    ck_assert_int_eq(symtuner_ar_destroy(a.handles, a.ranks), ncclSuccess);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

/* ---- two handles ----------------------------------------------------------------------------- */

static const char *wide; /* the kernel of both handles */

/* Make one call on the handle of ${k}, with as many blocks as a call may have. */
static void *call_wide(void *p)
{
    struct rank *k = p;

    if (symtuner_ar_force(k->handle, wide, AR_MAX_CTAS, 32) != ncclSuccess)
        return NULL;
    return call_once(p);
}

static void start_wide(struct rank *k, pthread_t *thread)
{
    for (int i = 0; i < COUNT; i++)
        ((float *)k->send)[i] = (float)(k->me + 1);
    pthread_create(thread, NULL, call_wide, k);
}

/* Wait until GPU ${device} runs blocks. */
static void await_blocks(int device)
{
    while (__atomic_load_n(&fake.taken[device], __ATOMIC_ACQUIRE) == 0)
        usleep(100);
    usleep(5000); /* so that the remaining blocks start, too */
}

/* Two handles on the same two GPUs. Rank 0 begins with one handle, rank 1 with the other. Each
 * rank's first call waits for the peer's second call, so the second calls must find free
 * multiprocessors. */
START_TEST(test_two_handles_in_different_order_find_room)
{
    static const int some[] = {6, 8, 11, 16, 20};
    static const char *const kernel[] = {"one_ll8", "two_ll128", "chunked", "pull", "tma_engines"};
    const int sms = some[_i / 5];
    struct symtuner_ar_config config = {
        .size = sizeof config, .timeout_ms = 4000, .bulk_bytes = 1 << 20};
    static const int devices[2] = {0, 1};
    static float buffer[2][2][2][COUNT];
    symtuner_ar *handles[2][2];
    struct rank k[2][2];
    pthread_t thread[2][2];

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    fake.sms = sms;
    fake.arch = 90;
    wide = kernel[_i % 5];
    for (int g = 0; g < 2; g++) {
        ck_assert_int_eq(symtuner_ar_create_local(handles[g], devices, 2, &config), ncclSuccess);
        for (int r = 0; r < 2; r++)
            k[g][r] = (struct rank){.handle = handles[g][r],
                                    .me = r,
                                    .send = (char *)buffer[g][r][0],
                                    .recv = (char *)buffer[g][r][1]};
        void *buffers[2] = {buffer[g][0], buffer[g][1]}; /* the kernel "pull" needs registered
                                                            buffers */

        ck_assert_int_eq(symtuner_ar_register(handles[g], buffers, NULL, 2, sizeof buffer[g][0]),
                         ncclSuccess);
    }
    start_wide(&k[0][0], &thread[0][0]);
    await_blocks(0);
    start_wide(&k[1][1], &thread[1][1]);
    await_blocks(1);
    start_wide(&k[1][0], &thread[1][0]);
    start_wide(&k[0][1], &thread[0][1]);
    for (int g = 0; g < 2; g++)
        for (int r = 0; r < 2; r++) {
            pthread_join(thread[g][r], NULL);
            ck_assert_msg(symtuner_ar_status(handles[g][r]) == ncclSuccess, "%s, %d SMs: %s", wide,
                          sms, symtuner_ar_error(handles[g][r]));
            for (int i = 0; i < COUNT; i++)
                ck_assert(buffer[g][r][1][i] == 3);
        }
    for (int g = 0; g < 2; g++)
        ck_assert_int_eq(symtuner_ar_destroy(handles[g], 2), ncclSuccess);
}
END_TEST

/* ---- scratch that grows ---------------------------------------------------------------------- */

enum { GROWN = 560000 }; /* a count of f32 that the small arena cannot take in one piece */

/* One rank of a group that replays a graph between other calls. */
struct grower {
    symtuner_ar *handle;
    int me, count, round;             /* used in the next call */
    const struct fake_launch *replay; /* if it is not NULL, replay this instead of making a call */
    float *send, *recv;
};

static void *grow_one(void *p)
{
    struct grower *g = p;

    for (int i = 0; i < g->count; i++)
        g->send[i] = (float)(g->me + 1 + g->round % 7 + i % 5);
    memset(g->recv, 0xff, (size_t)g->count * sizeof *g->recv);
    cudaSetDevice(g->me);
    if (g->replay != NULL)
        emulate_launch(g->replay->kernel, &g->replay->args, g->replay->ctas, g->replay->threads,
                       g->me);
    else if (symtuner_ar_all_reduce(g->send, g->recv, (size_t)g->count, ncclFloat32, ncclSum,
                                    g->handle, NULL) != ncclSuccess)
        g->round = -1;
    return NULL;
}

/* Let both ranks make a call on ${kernel}, or replay the graph if ${replay} is true, and check the
 * sums. */
static void grow_both(struct grower *g, const char *kernel, int count, int round, bool replay)
{
    pthread_t thread[2];

    for (int r = 0; r < 2; r++) {
        g[r].count = count;
        g[r].round = round;
        g[r].replay = replay ? &fake.launch[r] : NULL;
        ck_assert_int_eq(symtuner_ar_force(g[r].handle, kernel, 1, 128), ncclSuccess);
        pthread_create(&thread[r], NULL, grow_one, &g[r]);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(thread[r], NULL);
        ck_assert_msg(g[r].round == round && symtuner_ar_status(g[r].handle) == ncclSuccess,
                      "%s, round %d: %s", kernel, round, symtuner_ar_error(g[r].handle));
        for (int i = 0; i < count; i++)
            ck_assert_msg(g[r].recv[i] == (float)(3 + 2 * (round % 7 + i % 5)),
                          "%s, round %d, rank %d, element %d: %f", kernel, round, r, i,
                          (double)g[r].recv[i]);
    }
}

/* A graph was captured while only the small arena existed. Then the group grows, and the graph is
 * replayed between calls in all arenas. All arenas share the counters. The number of calls between
 * two replays is sometimes odd and sometimes even. So a replay uses sometimes the same half of the
 * scratch memory as the call before it, and sometimes the other half. */
START_TEST(test_a_graph_from_before_the_growth_is_right_after_it)
{
    static const char *const kernel[] = {"one_ll8", "one_ll128", "one_lamport", "two_lamport"};
    static float memory[2][2][GROWN];
    struct symtuner_ar_config config = {
        .size = sizeof config, .bulk_bytes = 1 << 20, .first_epoch = ((uint64_t)1 << 32) - 9};
    static const int devices[2] = {0, 1};
    symtuner_ar *handles[2];
    struct grower g[2];

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, 2, &config), ncclSuccess);
    fake.capture = 3;
    for (int r = 0; r < 2; r++) {
        g[r] = (struct grower){.handle = handles[r],
                               .me = r,
                               .count = 1000,
                               .send = memory[r][0],
                               .recv = memory[r][1]};
        ck_assert_int_eq(symtuner_ar_force(handles[r], kernel[_i], 1, 128), ncclSuccess);
        grow_one(&g[r]);
    }
    fake.capture = 0;
    ck_assert_int_eq(fake.launches, 2);
    grow_both(g, kernel[_i], 1000, 1, true);
    grow_both(g, "chunked", 1000, 2, false); /* the group grows */
    grow_both(g, kernel[_i], 1000, 3, true);
    grow_both(g, "one_lamport", GROWN, 4, false); /* the group grows */
    for (int round = 5; round < 24; round++) {
        grow_both(g, kernel[_i], 1000, round, true);
        for (int i = 0; i < round % 4; i++)
            grow_both(g, i == 1 ? kernel[_i] : "chunked", 1000, round + i, false);
    }
    grow_both(g, "one_lamport", GROWN, 30, false);
    grow_both(g, kernel[_i], 1000, 31, true);
    fake_graph_gone(3);
    ck_assert_int_eq(symtuner_ar_destroy(handles, 2), ncclSuccess);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

/* ar_kernel_find must choose the shortest variant of a kernel that can run a call. A more general
 * variant would give right results, too, so no other test would notice. */
extern const struct ar_kernel_row ar_kernels_two_ll128;

START_TEST(test_the_shortest_kernel_that_does_it_is_taken)
{
    static const struct {
        int ranks, align, reducer;
        uint64_t bytes;
        enum ar_class class;
    } want[] = {
        {2, 8, AR_R_BF16, 1024, AR_N2_WHOLE},  {2, 4, AR_R_BF16, 1024, AR_N2},
        {4, 16, AR_R_BF16, 1024, AR_N4_WHOLE}, {4, 16, AR_R_BF16, 1026, AR_N4},
        {8, 16, AR_R_BF16, 1024, AR_N8_WHOLE}, {8, 2, AR_R_BF16, 1024, AR_NX},
        {3, 16, AR_R_BF16, 1024, AR_NX},       {2, 16, AR_R_WIDE, 1024, AR_NX},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct ar_args args = {.ranks = want[i].ranks,
                               .in_align = want[i].align,
                               .out_align = 16,
                               .bytes = want[i].bytes};

        ck_assert_ptr_eq(ar_kernel_find(AR_ALL_REDUCE, AR_TWO_LL128, want[i].reducer, &args),
                         ar_kernels_two_ll128.of[want[i].reducer][want[i].class]);
    }
}
END_TEST

void st_add_emulated_tests(TCase *t)
{
    tcase_add_test(t, test_peers_of_an_aborted_rank_get_right_bytes_or_an_error);
    tcase_add_loop_test(t, test_no_kernel_touches_the_buffers_of_a_rank_that_never_calls, 2,
                        MOST + 1);
    tcase_add_loop_test(t, test_two_handles_in_different_order_find_room, 0, 5 * 5);
    tcase_add_test(t, test_a_kernel_of_a_destroyed_handle_stops_the_program);
    tcase_add_loop_test(t, test_a_graph_from_before_the_growth_is_right_after_it, 0, 4);
    tcase_add_test(t, test_the_shortest_kernel_that_does_it_is_taken);
}
