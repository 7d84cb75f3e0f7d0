/* SPDX-License-Identifier: Apache-2.0 */
/* check_chain_events.c - checks that a profiler behind symtuner gets the events that it would get
 * without symtuner. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/chain.h"

/* ---- which events NCCL sends to a profiler without symtuner -----------------------------------
 */

static int sends(int type, int mask)
{
    enum {
        G = 1,
        C = 2,
        P = 4,
        OP = 8,
        ST = 16,
        CT = 32,
        KC = 64,
        NP = 128,
        GA = 256,
        CA = 512,
        PA = 1024,
        KL = 2048,
        CE = 7 << 12,
        PH = 1 << 15
    };

    if (mask & PH)
        mask |= KC;
    switch (type) {
    case G:
        return mask & (G | C | P | OP | ST | KC | NP);
    case C:
        return mask & (C | OP | ST | KC | NP);
    case P:
        return mask & (P | OP | ST | KC | NP);
    case OP:
        return mask & (OP | ST | NP);
    case ST:
        return mask & (ST | NP);
    case GA:
        return mask & (GA | PA | CA | KL | G | C | P | OP | ST | KC | NP | CE);
    case CA:
        return mask & (CA | C | OP | ST | KC | NP | CE);
    case PA:
        return mask & (PA | P | OP | ST | KC | NP);
    case 1 << 12:
        return mask & CE;
    default:
        return mask & type;
    }
}

START_TEST(test_it_gets_what_it_asked_for_and_what_that_brings)
{
    int mask = 1 << _i % 16;
    const struct release *release = &releases[_i / 16];
    void *ctx;

    chain_behind(release->profiler, mask, 1);
    nccl_load(release, 0);
    ctx = chain_open();
    ck_assert_int_eq(chain_mask & mask, mask & ((1 << chain_kinds[release->profiler]) - 1));
    ck_assert(chain_mask & NCCL_ABI_EV_COLL);
    for (int bit = 0; bit < chain_kinds[release->profiler]; bit++) {
        struct nccl_abi_event_v7 e = chain_make(1 << bit, NULL, NULL);
        int before = chain_next->events, wanted = sends(1 << bit, mask) != 0;
        void *handle;

        if (!sends(1 << bit, chain_mask))
            continue;
        handle = chain_start(ctx, &e);
        ck_assert_msg(chain_next->events ==
                          before + (wanted && mask < 1 << chain_kinds[release->profiler]),
                      "event %d for mask %#x of NCCL %d", bit, (unsigned)mask, release->nccl);
        if (handle)
            chain_profiler()->stop_event(handle);
    }
    chain_profiler()->finalize(ctx);
    ck_assert_int_eq(chain_next->wrong_handles, 0);
    ck_assert(strstr(nccl_read(getenv("SYMTUNER_LEDGER")), "general=1") ||
              release->profiler == 7); /* symtuner counts the event nevertheless */
}
END_TEST

START_TEST(test_a_mask_written_later_is_in_force_from_the_next_event_on)
{
    struct nccl_abi_event_v7 e;
    void *ctx;
    int own;

    chain_behind(releases[_i].profiler, 0, 1);
    nccl_load(&releases[_i], 0);
    ctx = chain_open();
    own = chain_mask;
    ck_assert_int_ne(own, 0);
    ck_assert_ptr_ne(chain_next->mask_at, &chain_mask);
    *chain_next->mask_at = NCCL_ABI_EV_PROXY_CTRL;
    e = chain_make(NCCL_ABI_EV_COLL, NULL, NULL);
    chain_start(ctx, &e);
    ck_assert_int_eq(chain_mask, own | NCCL_ABI_EV_PROXY_CTRL);
    /* symtuner asked for this event, and the profiler did not */
    ck_assert_int_eq(chain_next->events, 0);
    *chain_next->mask_at = 0;
    chain_start(ctx, &e);
    ck_assert_int_eq(chain_mask, own);
    chain_profiler()->finalize(ctx);
}
END_TEST

START_TEST(test_without_a_ledger_it_has_nccl_s_own_mask)
{
    void *ctx, *second;

    chain_behind(releases[_i].profiler, NCCL_ABI_EV_COLL, 0);
    nccl_load(&releases[_i], 0);
    ctx = chain_open();
    ck_assert_ptr_eq(chain_next->mask_at, &chain_mask);
    ck_assert_int_eq(chain_mask, NCCL_ABI_EV_COLL);
    chain_mask = NCCL_ABI_EV_GROUP; /* the profiler may change its mask at any time */
    second = chain_open();
    ck_assert_int_eq(chain_mask, NCCL_ABI_EV_GROUP);
    ck_assert_ptr_ne(ctx, second);
    chain_profiler()->finalize(second);
    chain_profiler()->finalize(ctx);
    ck_assert_int_eq(chain_next->ends, 2);
    ck_assert_int_eq(chain_next->wrong_handles, 0);
}
END_TEST

/* 2.27 sends no Coll event inside a Group event to which the profiler gave no handle. So symtuner
 * gives each Group event a handle, even if the profiler behind it does not. */
START_TEST(test_a_group_that_nobody_took_still_brings_our_calls)
{
    struct nccl_abi_event_v7 e;
    void *ctx, *group;

    chain_behind(4, _i ? NCCL_ABI_EV_COLL : 0, 1);
    chain_next->no_handles = 1;
    nccl_load(&releases[1], 0);
    ctx = chain_open();
    e = chain_make(NCCL_ABI_EV_GROUP, NULL, NULL);
    group = chain_start(ctx, &e);
    ck_assert_ptr_nonnull(group);
    ck_assert_int_eq(chain_next->events, _i);
    e = chain_make(NCCL_ABI_EV_COLL, NULL, group);
    ck_assert_ptr_null(chain_start(ctx, &e));
    /* without symtuner, the profiler would not get this event */
    ck_assert_int_eq(chain_next->events, _i);
    chain_profiler()->record_event_state(group, 8, NULL);
    chain_profiler()->stop_event(group);
    ck_assert_int_eq(chain_next->stops + chain_next->states, 0);
    chain_profiler()->finalize(ctx);
    ck_assert_ptr_nonnull(strstr(nccl_read(getenv("SYMTUNER_LEDGER")), "general=1"));
}
END_TEST

/* A proxy may work for another process (PXN). Its events carry that process's context and parent,
 * which are no pointers in this process. */
START_TEST(test_events_of_another_process_are_passed_on_and_never_looked_into)
{
    static void *const foreign[] = {(void *)(uintptr_t)0x7f1234567000, (void *)(uintptr_t)4000,
                                    (void *)(uintptr_t)~0u, NULL};
    int ledger = _i / 4;
    struct nccl_abi_event_v7 e;
    void *ctx, *handle;

    chain_behind(5, 0xfff, ledger);
    nccl_load(&releases[3], 0);
    ctx = chain_open();
    e = chain_make(NCCL_ABI_EV_PROXY_OP, foreign[0], NULL);
    e.u.proxy_op.pid = getpid() + 1;
    handle = chain_start(foreign[_i % 4], &e);
    ck_assert_ptr_eq(handle, chain_next->event[0].handle);
    ck_assert_ptr_null(chain_next->event[0].ctx);
    ck_assert_ptr_eq(chain_next->event[0].parent, foreign[0]);
    e = chain_make(NCCL_ABI_EV_COLL, NULL, NULL); /* NCCL never sends this; the context is not
                                                     symtuner's, so nobody takes it */
    ck_assert_ptr_null(chain_start(foreign[_i % 4], &e));
    chain_profiler()->stop_event(handle);
    chain_profiler()->finalize(foreign[_i % 4]);
    chain_profiler()->finalize(ctx);
    ck_assert_int_eq(chain_next->ends, 1);
    ck_assert_int_eq(chain_next->wrong_handles, 0);
}
END_TEST

START_TEST(test_an_init_that_fails_leaves_ours_alone)
{
    struct nccl_abi_event_v7 e;
    void *ctx;

    chain_behind(releases[_i].profiler, 0, 1);
    chain_next->fail_init = 2;
    nccl_load(&releases[_i], 0);
    ctx = chain_open();
    ck_assert_ptr_nonnull(strstr(nccl_log.text, "failed its init with error 2"));
    e = chain_make(NCCL_ABI_EV_COLL, NULL, NULL);
    chain_start(ctx, &e);
    chain_profiler()->finalize(ctx);
    ck_assert_int_eq(chain_next->events + chain_next->ends, 0);
}
END_TEST

START_TEST(test_off_is_the_other_one_alone)
{
    void *ctx;

    chain_behind(releases[_i].profiler, NCCL_ABI_EV_COLL, 1);
    setenv("SYMTUNER_MODE", "off", 1);
    nccl_load(&releases[_i], 0);
    ctx = chain_open();
    ck_assert_int_eq(chain_next->inits, 1);
    ck_assert_ptr_eq(chain_next->mask_at, &chain_mask);
    ck_assert_int_eq(chain_mask, NCCL_ABI_EV_COLL);
    ck_assert_str_eq(nccl_log.text, "");
    chain_profiler()->finalize(ctx);
    ck_assert_int_eq(chain_next->ends, 1);
}
END_TEST

static void remove_links(void)
{
    nccl_install("libnccl-profiler.so", NULL);
    nccl_install("libnccl-net.so", NULL);
}

/* Which profiler is chained? ${kind}: where one can be found. 0: libnccl-profiler.so; 1: the NET
 * library, where NCCL looks from 2.28 on; 2: symtuner itself; 3: NCCL_PROFILER_PLUGIN=none. */
START_TEST(test_which_one)
{
    const struct release *release = &releases[_i / 4];
    int kind = _i % 4, loaded = kind == 0 || (kind == 1 && release->profiler >= 5);
    struct profiler_record *record = dlsym(chain_library("profiler3"), "profiler_record");
    void *ctx;

    atexit(remove_links);
    record->mask = NCCL_ABI_EV_GROUP;
    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    nccl_install(kind == 1 ? "libnccl-net.so" : "libnccl-profiler.so",
                 kind == 2 ? getenv("SO_UNDER_TEST") : nccl_fake("profiler3"));
    if (kind == 3)
        setenv("NCCL_PROFILER_PLUGIN", "none", 1);
    if (kind == 2)
        setenv("NCCL_PROFILER_PLUGIN", getenv("SO_UNDER_TEST"), 1);
    nccl_load(release, 0);
    ctx = chain_open();
    ck_assert_int_eq(record->inits, loaded);
    ck_assert_int_eq(chain_mask, loaded ? NCCL_ABI_EV_GROUP : 0);
    chain_profiler()->finalize(ctx);
}
END_TEST

Suite *chain_events_suite(void)
{
    Suite *suite = suite_create("chain events");
    TCase *events = tcase_create("events"), *which = tcase_create("which");

    tcase_add_loop_test(events, test_it_gets_what_it_asked_for_and_what_that_brings, 0,
                        RELEASES * 16);
    t_each_release(events, test_a_mask_written_later_is_in_force_from_the_next_event_on);
    t_each_release(events, test_without_a_ledger_it_has_nccl_s_own_mask);
    tcase_add_loop_test(events, test_a_group_that_nobody_took_still_brings_our_calls, 0, 2);
    tcase_add_loop_test(events, test_events_of_another_process_are_passed_on_and_never_looked_into,
                        0, 8);
    t_each_release(events, test_an_init_that_fails_leaves_ours_alone);
    t_each_release(events, test_off_is_the_other_one_alone);
    tcase_add_loop_test(which, test_which_one, 0, RELEASES * 4);
    suite_add_tcase(suite, events);
    suite_add_tcase(suite, which);
    return suite;
}
