/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_kernels.c - tests the library's own kernels and host code on the CPU (emulate.h): many
 * calls in a row, with every kernel, odd counts and alignments, on ranks that drift apart.
 *
 * Each rank is a host thread that makes the same list of random calls, sometimes with a delay.
 * Inputs differ by rank and position, outputs are filled with garbage first, and inputs are
 * overwritten as soon as the call returns. The epochs (numbers of the calls) begin shortly before
 * 2^32, so that they overflow. The numbers are those of call_values.c.
 */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "test/kernels/emulated/call_list.h"
#include "test/kernels/emulated/call_make.h"
#include "test/kernels/emulated/call_values.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/suites.h"

/* With AddressSanitizer, a kernel that touches a byte beside the message ends the test. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(p, n)   ((void)(p), (void)(n))
#define __asan_unpoison_memory_region(p, n) ((void)(p), (void)(n))
#endif

#define MAX_RANKS 8
#define GUARD     32
/* the size is a multiple of 16, to keep the alignment */
#define BUFFER    (MAX_BYTES / 16 * 16 + 2 * GUARD + 32)

static int calls = 60;
static struct list_kind kind; /* says what the random calls are like */
static const char *kernel;    /* the only kernel that runs; NULL: all kernels */
static unsigned seed = 1;

struct rank {
    symtuner_ar *handle;
    int me, ranks;
    const struct call *list;
    char *send, *recv; /* unregistered buffers lie behind the registered ones */
    pthread_barrier_t *done;
    char wrong[200];
};

static size_t part_bytes(const struct call *c)
{
    return c->count * (size_t)ar_dtype_bytes(c->dtype);
}

static size_t send_bytes(const struct call *c, int ranks)
{
    return part_bytes(c) * (size_t)(c->coll == AR_REDUCE_SCATTER ? ranks : 1);
}

static size_t recv_bytes(const struct call *c, int ranks)
{
    return part_bytes(c) * (size_t)(c->coll == AR_ALL_GATHER ? ranks : 1);
}

/* Return whether element ${i} of what the call has written to ${recv} is right. */
static bool is_right(const struct rank *k, const struct call *c, const char *recv, size_t i)
{
    const char *p = recv + i * (size_t)ar_dtype_bytes(c->dtype);

    return c->coll == AR_ALL_GATHER
               ? values_same(c, p, (int)(i / c->count), i % c->count)
               : values_right(c, k->ranks, p,
                              i + (c->coll == AR_REDUCE_SCATTER ? (size_t)k->me * c->count : 0));
}

/* Check what the call has written to ${recv}. The longest buffer has ${bytes} bytes at ${around};
 * the memory around it must be untouched. In a reduce-scatter in place the other ranks' parts of
 * this buffer must be untouched, too. */
static void check_output(struct rank *k, const struct call *c, const char *recv, const char *around,
                         size_t bytes)
{
    size_t size = (size_t)ar_dtype_bytes(c->dtype), mine = (size_t)k->me * c->count;
    bool in_send = c->coll == AR_REDUCE_SCATTER && around != recv;

    for (size_t i = 0; i < recv_bytes(c, k->ranks) / size && k->wrong[0] == 0; i++)
        if (!is_right(k, c, recv, i))
            snprintf(k->wrong, sizeof k->wrong,
                     "rank %d of %d: call %d, coll %d %s dtype %d op %d count %zu shift %zu, %d x "
                     "%d, %s: element %zu is wrong",
                     k->me, k->ranks, c->salt, c->coll, c->kernel, c->dtype, c->op, c->count,
                     c->shift, c->ctas, c->threads, c->in_place ? "in place" : "out of place", i);
    for (size_t i = 0; in_send && i < bytes / size && k->wrong[0] == 0; i++)
        if ((i < mine || i >= mine + c->count) && !values_same(c, around + i * size, k->me, i))
            snprintf(k->wrong, sizeof k->wrong, "rank %d: coll %d %s writes to send", k->me,
                     c->coll, c->kernel);
    for (size_t i = 1; i <= GUARD && k->wrong[0] == 0; i++)
        if (around[-(long)i] != 0x5a || around[bytes + i - 1] != 0x5a)
            snprintf(k->wrong, sizeof k->wrong,
                     "rank %d: coll %d %s dtype %d count %zu writes outside", k->me, c->coll,
                     c->kernel, c->dtype, c->count);
}

/* Poison the memory around a buffer, or with ${lock} = 0 unpoison it. AddressSanitizer poisons
 * groups of eight bytes. If the buffer begins within such a group, the bytes of this group that lie
 * before the buffer stay unpoisoned. */
static void fence(char *buffer, size_t bytes, int lock)
{
    if (lock) {
        __asan_poison_memory_region(buffer - GUARD, GUARD);
        __asan_poison_memory_region(buffer + bytes, GUARD);
    } else {
        __asan_unpoison_memory_region(buffer - GUARD, GUARD);
        __asan_unpoison_memory_region(buffer + bytes, GUARD);
    }
}

/* Return the address in ${memory} of ${k}'s buffer for call ${c}. ${which} is 0 for send and 1 for
 * recv. */
static char *place(const struct rank *k, const struct call *c, char *memory, unsigned which)
{
    size_t slot = (size_t)c->salt + (c->registered ? 0 : (size_t)calls);
    size_t size = (size_t)ar_dtype_bytes(c->dtype), ways = 16 / size;
    size_t shift = (c->shift / size + (size_t)k->me * 5 + which * 11) % ways * size;

    return memory + slot * BUFFER + GUARD + (c->apart ? shift : c->shift);
}

static void *run_rank(void *p)
{
    struct rank *k = p;
    unsigned mood = seed * 31 + (unsigned)k->me;

    for (int i = 0; i < calls; i++) {
        const struct call *c = &k->list[i];
        const size_t sent = send_bytes(c, k->ranks), got = recv_bytes(c, k->ranks);
        /* no two calls share a buffer, because peers may write recv while this rank is not in the
         * call */
        int in_place = c->in_place && (!c->apart || (i + k->me) % 2 == 0);
        char *first = place(k, c, k->send, 0), *second = place(k, c, k->recv, 1);
        char *send = first, *recv = second;

        if (in_place) { /* the shorter buffer lies in the longer one */
            second = first;
            recv = first + (c->coll == AR_REDUCE_SCATTER ? (size_t)k->me * part_bytes(c) : 0);
            send = first + (c->coll == AR_ALL_GATHER ? (size_t)k->me * part_bytes(c) : 0);
        }

        if (list_draw(&mood, 8) == 0)
            usleep(list_draw(&mood, 3000));
        for (size_t j = 0; j < sent / (size_t)ar_dtype_bytes(c->dtype); j++)
            /* write the input only now, so that a peer that comes too early reads garbage */
            values_put(c, send, k->me, j);
        fence(first, in_place && got > sent ? got : sent, 1);
        fence(second, in_place && sent > got ? sent : got, 1);
        symtuner_ar_force(k->handle, c->kernel, c->ctas, c->threads);
        if (call_make(c, k->handle, k->me, send, recv) != ncclSuccess ||
            symtuner_ar_status(k->handle) != ncclSuccess) {
            snprintf(k->wrong, sizeof k->wrong, "%.60s: %.120s", c->kernel,
                     symtuner_ar_error(k->handle));
            return NULL;
        }
        fence(first, in_place && got > sent ? got : sent, 0);
        fence(second, in_place && sent > got ? sent : got, 0);
        check_output(k, c, recv, second, in_place && sent > got ? sent : got);
        if (!in_place || c->coll == AR_REDUCE_SCATTER)
            memset(send, 0xee, sent);
    }
    return NULL;
}

/* Each rank counts the calls whose data went through scratch memory, and the other calls. Check
 * that all ranks have the same two numbers. If all buffers are unregistered, both numbers must be
 * above 0. */
static void check_mapped(symtuner_ar **handles, int ranks)
{
    const uint32_t *first = handles[0]->mailbox->ipc;

    for (int r = 1; r < ranks; r++)
        ck_assert(memcmp(handles[r]->mailbox->ipc, first, 2 * sizeof *first) == 0);
    if (kind.unregistered)
        ck_assert_msg(first[0] > 0 && first[1] > 0, "%u calls through scratch, %u not", first[0],
                      first[1]);
}

/* Let most of the memory of rank ${me} be in allocations that peers can map. */
static void allocate(char *memory, int me)
{
    const size_t bytes = 8 * BUFFER;

    for (int i = 0; i < 2 * calls / 8; i++)
        if (i % 5 != 4 && i % 11 != me)
            fake_allocation(memory + (size_t)i * bytes, bytes, me);
}

static void run_group(int ranks, int transport, const char *only)
{
    struct symtuner_ar_config config = {.size = sizeof config,
                                        .transport = transport,
                                        .timeout_ms = 20000,
                                        .bulk_bytes = 1 << 20,
                                        .first_epoch = (1ull << 32) - (unsigned)calls / 2};
    static const int devices[MAX_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct call *list;
    struct rank k[MAX_RANKS];
    symtuner_ar *handles[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    void *buffers[MAX_RANKS];
    size_t bytes = (size_t)calls * BUFFER, room = (2 * bytes + 4095) / 4096 * 4096;

    if (kernel != NULL && only != NULL && strcmp(only, kernel) != 0)
        return;
    memset(&fake, 0, sizeof fake);
    fake.devices = MAX_RANKS;
    fake.peers = 1;
    fake.arch = 90;
    fake_memory_clear();
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, ranks, &config), ncclSuccess);
    list = calloc((size_t)calls, sizeof *list);
    list_make(list, calls, &kind, seed * 2654435761u + (unsigned)ranks, ranks,
              kernel != NULL ? kernel : only);
    for (int r = 0; r < ranks; r++) {
        k[r] = (struct rank){.handle = handles[r], .me = r, .ranks = ranks, .list = list};
        k[r].send = aligned_alloc(4096, room);
        k[r].recv = aligned_alloc(4096, room);
        allocate(k[r].send, r);
        allocate(k[r].recv, r);
        memset(k[r].send, 0x5a, room);
        memset(k[r].recv, 0x5a, room);
    }
    for (int b = 0; b < 2; b++) {
        for (int r = 0; r < ranks; r++)
            buffers[r] = b ? k[r].recv : k[r].send;
        ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, ranks, bytes), ncclSuccess);
    }
    for (int r = 0; r < ranks; r++)
        pthread_create(&threads[r], NULL, run_rank, &k[r]);
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(k[r].wrong[0] == 0, "seed %u: %s", seed, k[r].wrong);
    for (int r = 0; r < ranks; r++) /* all blocks must have counted themselves */
        ck_assert(handles[r]->state->arrived == handles[r]->state->base);
    check_mapped(handles, ranks);
    symtuner_ar_destroy(handles, ranks);
    ck_assert_int_eq(fake.live, 0);
    for (int r = 0; r < ranks; r++) {
        free(k[r].send);
        free(k[r].recv);
    }
    free(list);
}

START_TEST(test_two_ranks_through_peer_memory)
{
    run_group(2, SYMTUNER_AR_PEER, NULL);
}
END_TEST

START_TEST(test_three_ranks_through_peer_memory)
{
    run_group(3, SYMTUNER_AR_PEER, NULL);
}
END_TEST

START_TEST(test_four_ranks_through_peer_memory)
{
    run_group(4, SYMTUNER_AR_PEER, NULL);
}
END_TEST

/* Makes reduce-scatters and all-gathers between all-reduces. All three share scratch memory and
 * flags. */
START_TEST(test_three_collectives_in_any_order)
{
    int all = calls;

    kind.three_colls = true;
    calls = _i > 4 ? (calls + 1) / 2 : 2 * calls;
    run_group(_i, SYMTUNER_AR_PEER, NULL);
    calls = all;
    kind.three_colls = false;
}
END_TEST

START_TEST(test_eight_ranks_through_peer_memory)
{
    int all = calls;

    calls = (calls + 3) / 4;
    run_group(8, SYMTUNER_AR_PEER, "one_lamport");
    run_group(8, SYMTUNER_AR_PEER, "one_ll128");
    run_group(8, SYMTUNER_AR_PEER, "two_lamport");
    run_group(8, SYMTUNER_AR_PEER, "two_ll128");
    calls = all;
}
END_TEST

/* The buffers are unregistered. Peers have mapped some of them, and map more during the calls. */
START_TEST(test_buffers_that_peers_map)
{
    kind.unregistered = true;
    run_group(_i, SYMTUNER_AR_PEER, "tma_ipc");
    kind.unregistered = false;
}
END_TEST

/* Every kernel must give the bits of reference.h, at every length and address. */
START_TEST(test_one_order_of_addition)
{
    int all = calls;

    calls = 4 * LIST_KERNELS;
    kind.every_sum = true;
    run_group(_i, SYMTUNER_AR_PEER, NULL);
    calls = all;
    kind.every_sum = false;
}
END_TEST

/* Checks PreMulSum in every type, with every kernel that can run it. */
START_TEST(test_products_are_rounded_and_summed)
{
    int all = calls;

    calls = 2 * calls;
    kind.every_product = kind.three_colls = true;
    run_group(_i, SYMTUNER_AR_PEER, NULL);
    kind.every_product = kind.three_colls = false;
    calls = all;
}
END_TEST

START_TEST(test_buffers_that_begin_anywhere)
{
    int all = calls;

    calls = 48;
    kind.every_way = true;
    run_group(2 + _i % 2, SYMTUNER_AR_PEER, list_kernels[_i / 2]);
    calls = all;
    kind.every_way = false;
}
END_TEST

START_TEST(test_two_ranks_through_host_memory)
{
    run_group(2, SYMTUNER_AR_HOST, "one_lamport");
    run_group(2, SYMTUNER_AR_HOST, "two_ll8");
}
END_TEST

/* The start-up probe moves real bytes here. It must find them right, and the calls after it must be
 * right, too. */
START_TEST(test_the_probe_finds_stores_and_loads_in_order)
{
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};
    static const int devices[3] = {0, 1, 2};
    symtuner_ar *handles[3];
    char text[4096];
    unsigned push = 0, pull = 0;
    const char *at;

    setenv("SYMTUNER_AR_LINKS", "pcie", 1);
    memset(&fake, 0, sizeof fake);
    fake.devices = 3;
    fake.peers = 1;
    ck_assert_int_eq(symtuner_ar_create_local(handles, devices, 3, &config), ncclSuccess);
    symtuner_ar_describe(handles[2], text, sizeof text);
    at = strstr(text, "push ");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "push %u, pull %u", &push, &pull), 2);
    ck_assert_msg(push > 1 && pull > 1, "%s", text);
    symtuner_ar_destroy(handles, 3);
    run_group(3, SYMTUNER_AR_PEER, "chunked");
    unsetenv("SYMTUNER_AR_LINKS");
}
END_TEST

/* Usage: check-ar-kernels [CALLS [SEED [KERNEL]]]. With KERNEL, all random calls run on that
 * kernel. */
int main(int argc, char **argv)
{
    Suite *s = suite_create("ar_kernels on the CPU");
    TCase *t = tcase_create("all"), *one = tcase_create("one"), *m = tcase_create("products"),
          *engines = tcase_create("engines");
    SRunner *runner;
    int failed;

    if (argc > 1)
        calls = atoi(argv[1]);
    setenv("SYMTUNER_AR_IPC", "1", 1);
    if (argc > 2)
        seed = (unsigned)strtoul(argv[2], NULL, 10);
    if (argc > 3)
        kernel = argv[3];
    tcase_set_timeout(t, 600);
    tcase_add_test(t, test_two_ranks_through_peer_memory);
    tcase_add_test(t, test_three_ranks_through_peer_memory);
    tcase_add_test(t, test_four_ranks_through_peer_memory);
    tcase_add_loop_test(t, test_three_collectives_in_any_order, 2, 7);
    tcase_add_test(t, test_eight_ranks_through_peer_memory);
    tcase_add_loop_test(m, test_buffers_that_peers_map, 2, 5);
    tcase_add_loop_test(t, test_one_order_of_addition, 2, MAX_RANKS + 1);
    tcase_set_timeout(m, 600);
    tcase_add_loop_test(m, test_products_are_rounded_and_summed, 2, MAX_RANKS + 1);
    tcase_add_loop_test(t, test_buffers_that_begin_anywhere, 0, 2 * LIST_ANYWHERE);
    tcase_add_test(t, test_two_ranks_through_host_memory);
    tcase_add_test(t, test_the_probe_finds_stores_and_loads_in_order);
    tcase_set_timeout(one, 600);
    st_add_emulated_tests(one);
    st_add_engines_tests(engines);
    suite_add_tcase(s, t);
    suite_add_tcase(s, one);
    suite_add_tcase(s, engines);
    suite_add_tcase(s, m);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
