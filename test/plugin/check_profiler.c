/* SPDX-License-Identifier: Apache-2.0 */
/* check_profiler.c - checks that events of every interface version are counted under the right
 * collective and size. */
#include <signal.h>
#include <stdlib.h>

#include "plugin/ledger.h"
#include "plugin/profiler.h"
#include "test/messages.h"
#include "test/suites.h"

static void want_events(void)
{
    setenv("SYMTUNER_LEDGER", "/dev/null", 1);
    setenv("SYMTUNER_MACHINE", "gpu=x", 1);
}

static int open_profiler(int abi, int *mask, void **profiler)
{
    struct st_profiler_init init = {.abi = abi, .comm_id = 7, .nodes = 1, .ranks = 8, .mask = mask};

    return st_profiler_open(&init, profiler);
}

static uint64_t ran(const struct st_ledger *ledger, int coll, uint64_t bytes, enum st_ran what)
{
    return st_ledger_read(&ledger->ran[coll][st_ledger_bucket(bytes)][what]);
}

/* The names of functions and types as NCCL 2.27 to 2.32 write them. */
static const struct {
    const char *func, *datatype;
    size_t count;
    int coll; /* -1: NCCL asks no tuner about this function */
    uint64_t bytes;
} calls[] = {
    {"AllReduce", "ncclFloat32", 1024, SYMTUNER_ALLREDUCE, 4096},
    {"AllReduce", "ncclBfloat16", 1024, SYMTUNER_ALLREDUCE, 2048},
    {"AllReduce", "ncclFloat16", 1024, SYMTUNER_ALLREDUCE, 2048},
    {"AllReduce", "ncclFloat64", 1024, SYMTUNER_ALLREDUCE, 8192},
    {"AllReduce", "ncclInt8", 1024, SYMTUNER_ALLREDUCE, 1024},
    {"AllReduce", "ncclInt32", 1024, SYMTUNER_ALLREDUCE, 4096},
    {"AllReduce", "ncclUint64", 1024, SYMTUNER_ALLREDUCE, 8192},
    {"AllReduce", "ncclFloat8e4m3", 1024, SYMTUNER_ALLREDUCE, 1024},
    {"AllReduce", "ncclFloat8e5m2", 1024, SYMTUNER_ALLREDUCE, 1024},
    {"AllReduce", "Unknown", 1024, SYMTUNER_ALLREDUCE, 1024},
    {"AllReduce", "", 1024, SYMTUNER_ALLREDUCE, 1024},
    {"AllGather", "ncclFloat32", 1024, SYMTUNER_ALLGATHER, 32768},
    {"ReduceScatter", "ncclFloat32", 1024, SYMTUNER_REDUCESCATTER, 32768},
    {"Reduce", "ncclFloat32", 1024, SYMTUNER_REDUCE, 4096},
    {"Broadcast", "ncclFloat32", 1024, SYMTUNER_BROADCAST, 4096},
    {"AllGatherV", "ncclFloat32", 1024, -1, 0},
    {"AlltoAll", "ncclFloat32", 1024, -1, 0},
    {"SendRecv", "ncclFloat32", 1024, -1, 0},
    {"Send", "ncclFloat32", 1024, -1, 0},
    {"Recv", "ncclFloat32", 1024, -1, 0},
    {"Gather", "ncclFloat32", 1024, -1, 0},
    {"Scatter", "ncclFloat32", 1024, -1, 0},
    {"PutSignal", "ncclFloat32", 1024, -1, 0},
    {"WaitSignal", "ncclFloat32", 1024, -1, 0},
    {"A", "ncclFloat32", 1024, -1, 0},
    {"Red", "ncclFloat32", 1024, -1, 0},
    {"", "ncclFloat32", 1024, -1, 0},
    {NULL, "ncclFloat32", 1024, -1, 0},
    {"AllReduce", NULL, 1024, -1, 0},
};

static uint64_t ran_at_all(const struct st_ledger *ledger)
{
    uint64_t sum = 0;

    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int b = 0; b < ST_BUCKETS; b++)
            for (int r = 0; r < ST_RANS; r++)
                sum += st_ledger_read(&ledger->ran[c][b][r]);
    return sum;
}

START_TEST(test_a_call_is_counted_under_its_name_and_size)
{
    struct nccl_abi_event_v5 event = {.type = NCCL_ABI_EV_COLL_API,
                                      .u.api = {calls[_i].func, calls[_i].count,
                                                calls[_i].datatype, 0, NULL, false}};
    struct st_ledger *ledger;
    void *profiler, *handle = &event;
    int mask = 0;

    want_events();
    ck_assert_int_eq(open_profiler(5, &mask, &profiler), 0);
    ledger = st_ledger_open(7, 8, 1, 22809);
    ck_assert_int_eq(st_profiler_event_v5(profiler, &handle, &event), 0);
    ck_assert_ptr_null(handle);
    if (calls[_i].coll >= 0)
        ck_assert_uint_eq(ran(ledger, calls[_i].coll, calls[_i].bytes, ST_RAN_CALLED), 1);
    ck_assert_uint_eq(ran_at_all(ledger), calls[_i].coll >= 0);
    st_ledger_close(ledger);
    st_profiler_close(profiler);
}
END_TEST

/* masks[v]: the events that our profiler must ask for in version v of the interface. Later versions
 * have more types of events. */
static const int masks[] = {
    [4] = NCCL_ABI_EV_COLL,
    [5] = NCCL_ABI_EV_COLL | NCCL_ABI_EV_COLL_API,
    [6] = NCCL_ABI_EV_COLL | NCCL_ABI_EV_COLL_API | NCCL_ABI_EV_CE_COLL,
    [7] = NCCL_ABI_EV_COLL | NCCL_ABI_EV_COLL_API | NCCL_ABI_EV_CE_COLL,
};

START_TEST(test_each_version_asks_for_the_events_that_it_has)
{
    void *profiler;
    int mask = -1;

    want_events();
    ck_assert_int_eq(open_profiler(_i, &mask, &profiler), 0);
    ck_assert_int_eq(mask, masks[_i]);
    st_profiler_close(profiler);
}
END_TEST

START_TEST(test_without_a_ledger_nothing_is_asked_for)
{
    void *profiler = &profiler;
    int mask = -1;

    unsetenv("SYMTUNER_LEDGER");
    ck_assert_int_eq(open_profiler(7, &mask, &profiler), 0);
    ck_assert_int_eq(mask, 0);
    ck_assert_ptr_null(profiler);
    ck_assert_int_eq(st_profiler_close(NULL), 0);
    ck_assert_int_eq(st_profiler_stop(5, NULL), 0);
    ck_assert_int_eq(st_profiler_state(5, NULL, 0, NULL), 0);
}
END_TEST

START_TEST(test_kinds_of_events_are_told_apart)
{
    struct nccl_abi_ev_coll coll = {.func = "AllReduce", .count = 1024, .datatype = "ncclFloat32",
                                    .algo = "RING", .proto = "LL"};
    struct nccl_abi_event_v4 v4 = {.type = NCCL_ABI_EV_COLL, .coll = coll};
    struct nccl_abi_event_v5 event = {.type = NCCL_ABI_EV_COLL, .u.coll = coll};
    struct st_ledger *ledger;
    void *profiler, *handle;
    int mask = 0;

    want_events();
    open_profiler(7, &mask, &profiler);
    ledger = st_ledger_open(7, 8, 1, 22809);
    st_profiler_event_v4(profiler, &handle, &v4);
    st_profiler_event_v5(profiler, &handle, &event);
    event.u.coll_v7 = (struct nccl_abi_ev_coll_v7){coll, NULL, NULL, false};
    st_profiler_event_v7(profiler, &handle, &event);
    ck_assert_uint_eq(ran(ledger, SYMTUNER_ALLREDUCE, 4096, ST_RAN_GENERAL), 3);
    event.u.coll_v7.is_sym = true;
    st_profiler_event_v7(profiler, &handle, &event);
    ck_assert_uint_eq(ran(ledger, SYMTUNER_ALLREDUCE, 4096, ST_RAN_SYMMETRIC), 1);
    event.type = NCCL_ABI_EV_CE_COLL;
    st_profiler_event_v7(profiler, &handle, &event);
    ck_assert_uint_eq(ran(ledger, SYMTUNER_ALLREDUCE, 4096, ST_RAN_CE), 1);
    event.type = NCCL_ABI_EV_COLL_API;
    event.u.api = (struct nccl_abi_ev_coll_api){"AllReduce", 1024, "ncclFloat32", 0, NULL, true};
    st_profiler_event_v7(profiler, &handle, &event);
    ck_assert_uint_eq(ran(ledger, SYMTUNER_ALLREDUCE, 4096, ST_RAN_CAPTURED), 1);
    /* this is a Group event: the plugin did not ask for it, and must not count it */
    event.type = 1;
    st_profiler_event_v7(profiler, &handle, &event);
    ck_assert_uint_eq(ran_at_all(ledger), 6);
    st_ledger_close(ledger);
    st_profiler_close(profiler);
}
END_TEST

/* Without a tuner (NCCL_TUNER_PLUGIN=none) the profiler must handle the signal of
 * SYMTUNER_LEDGER_SIGNAL, which would otherwise end the job. */
START_TEST(test_a_profiler_alone_takes_the_signal)
{
    struct sigaction action;
    void *profiler;
    int events = 0;

    want_events();
    setenv("SYMTUNER_LEDGER_SIGNAL", "USR2", 1);
    ck_assert_int_eq(open_profiler(6, &events, &profiler), 0);
    sigaction(SIGUSR2, NULL, &action);
    ck_assert(action.sa_handler != SIG_DFL);
    raise(SIGUSR2);
    st_profiler_close(profiler);
}
END_TEST

Suite *profiler_suite(void)
{
    Suite *suite = suite_create("profiler");
    TCase *events = tcase_create("events"), *mask = tcase_create("mask");

    t_add_rows(events, test_a_call_is_counted_under_its_name_and_size, calls);
    tcase_add_test(events, test_kinds_of_events_are_told_apart);
    tcase_add_test(events, test_a_profiler_alone_takes_the_signal);
    tcase_add_loop_test(mask, test_each_version_asks_for_the_events_that_it_has, 4, 8);
    tcase_add_test(mask, test_without_a_ledger_nothing_is_asked_for);
    suite_add_tcase(suite, events);
    suite_add_tcase(suite, mask);
    return suite;
}
