/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_engines.c - tests a peer that gives up while this rank fetches its data with the copy
 * engines. The peer's program may then change this data, so the call must fail on this rank, too.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "test/kernels/emulated/emulate.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/suites.h"

extern const struct ar_kernel_row ar_gather_engines;

static void *launch_watch(void *args)
{
    emulate_launch(ar_gather_engines.of[0][AR_NX], args, 1, 32, 0);
    return NULL;
}

/* The peer's flag has arrived, and this rank still fetches the peer's part. If the peer gives up
 * now, its program may change that part. So the rank must look for GAVE_UP after its last fetch. */
START_TEST(test_a_peer_that_gives_up_during_a_fetch_is_noticed)
{
    static uint64_t row[AR_ENGINES_ROWS][AR_FLAG_ROW / sizeof(uint64_t)], told;
    struct ar_state state = {.epoch = 1};
    struct ar_mailbox mailbox = {0};
    struct ar_args args = {.state = &state, .mailbox = &mailbox, .ranks = 2, .me = 1, .staged = 1};
    pthread_t thread;

    memset(row, 0, sizeof row);
    args.in = (const char *)row[AR_ENGINES_FETCHED];
    args.words = 20000; /* the time limit, in ticks */
    for (int r = 0; r < AR_MAX_RANKS; r++) {
        args.dst[r] = (char *)(r == args.me ? (void *)&state.dead : &told);
        args.src[r] = (const char *)(r == args.me ? (void *)&mailbox.error : &told);
    }
    row[AR_ENGINES_FETCHED][0] = 1;
    pthread_create(&thread, NULL, launch_watch, &args);
    while (__atomic_load_n(&row[AR_ENGINES_FETCHED][0], __ATOMIC_ACQUIRE) != 0)
        usleep(100);
    usleep(20000); /* in this time a wrong kernel would look too early */
    __atomic_store_n(&row[AR_ENGINES_GAVE_UP][0], _i, __ATOMIC_RELEASE);
    __atomic_store_n(&row[AR_ENGINES_FETCHED][1], 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(state.dead, _i == 0 ? AR_ALIVE : AR_TIMEOUT);
    ck_assert_uint_eq(mailbox.error, state.dead);
}
END_TEST

/* After an abort, NCCL unmaps the memory of the peers. If the kernel "watch" begins after that, it
 * must store nothing in this memory. It must still end the waits of this rank's streams. */
START_TEST(test_after_an_abort_no_word_of_a_peer_is_written)
{
    struct ar_state state = {.epoch = 1, .dead = _i == 0 ? AR_ABORTED : AR_PEERS_GONE};
    struct ar_mailbox mailbox = {.abort = AR_ABORTED};
    struct ar_args args = {.state = &state, .mailbox = &mailbox, .ranks = 2, .me = 1};
    uint32_t peer[AR_MAX_RANKS] = {0}, entered[AR_MAX_RANKS] = {0};

    for (int r = 0; r < AR_MAX_RANKS; r++) {
        args.dst[r] = (char *)&peer[r];
        args.src[r] = (const char *)&entered[r];
    }
    launch_watch(&args);
    for (int r = 0; r < AR_MAX_RANKS; r++) {
        ck_assert_uint_eq(peer[r], _i == 0 ? AR_ABORTED : 0);
        ck_assert_uint_ne(entered[r], 0);
    }
}
END_TEST

/* In the kernel "tma_engines", rank 0 gives up after it has raised its flags of the last barrier.
 * So rank 1 passes this barrier and fetches from rank 0. Rank 0's copies also tell rank 1 that rank
 * 0 has given up, and rank 1 must notice that. Real copies may arrive long before rank 0 runs the
 * kernel "watch". So here the launch of "watch" fails, and only the copies arrive. */
START_TEST(test_a_peer_that_gives_up_at_the_last_barrier_is_noticed)
{
    enum { BYTES = 4096, COUNT = 1000 };
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = 20000};
    static const int devices[2] = {0, 1};
    symtuner_ar *h[2];
    void *buffer[2];
    char *flags;

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    fake.arch = 90;
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        buffer[r] = aligned_alloc(4096, BYTES);
        memset(buffer[r], 0, BYTES);
        ck_assert_int_eq(symtuner_ar_force(h[r], "tma_engines", 1, 128), ncclSuccess);
    }
    ck_assert_int_eq(symtuner_ar_register(h, buffer, NULL, 2, BYTES), ncclSuccess);
    flags = h[0]->arena[AR_ARENA_SMALL].peer[1];
    for (int kind = AR_FLAG_ENTER; kind <= AR_FLAG_LEAVE; kind++)
        *(uint64_t *)(flags + ar_flag_offset(kind, 0, 0)) = ar_flag_step(h[0]->state->epoch, 1);
    h[0]->state->dead = _i == 0 ? AR_ALIVE : AR_TIMEOUT;
    fake.fails = "cudaLaunchKernel";
    if (_i == 0) /* rank 0 is alive: set all flags of rank 1 for which it would wait */
        for (int kind = AR_FLAG_ENTER; kind <= AR_FLAG_LEAVE; kind++)
            *(uint64_t *)(h[0]->arena[AR_ARENA_SMALL].peer[0] + ar_flag_offset(kind, 0, 1)) =
                ar_flag_step(h[0]->state->epoch, 1);
    ck_assert_int_ne(
        symtuner_ar_all_reduce(buffer[0], buffer[0], COUNT, ncclFloat32, ncclSum, h[0], NULL),
        ncclSuccess);
    fake.fails = NULL;
    ck_assert_int_eq(
        symtuner_ar_all_reduce(buffer[1], buffer[1], COUNT, ncclFloat32, ncclSum, h[1], NULL),
        ncclSuccess);
    ck_assert_int_eq(symtuner_ar_status(h[1]), _i == 0 ? ncclSuccess : ncclRemoteError);
    symtuner_ar_destroy(h, 2);
    ck_assert_int_eq(fake.live, 0);
    for (int r = 0; r < 2; r++)
        free(buffer[r]);
}
END_TEST

void st_add_engines_tests(TCase *t)
{
    tcase_add_loop_test(t, test_a_peer_that_gives_up_during_a_fetch_is_noticed, 0, 2);
    tcase_add_loop_test(t, test_after_an_abort_no_word_of_a_peer_is_written, 0, 2);
    tcase_add_loop_test(t, test_a_peer_that_gives_up_at_the_last_barrier_is_noticed, 0, 2);
}
