/* SPDX-License-Identifier: Apache-2.0 */
/* check_chain_profiler.c - checks that a profiler behind symtuner gets events and states in its own
 * version of the interface. */
#include <string.h>
#include <unistd.h>

#include "test/host/chain.h"

enum { VERSIONS = 7 };

static const int known[] = {[1] = 6, [2] = 6, [3] = 8, [4] = 8, [5] = 12, [6] = 15, [7] = 16};

/* Check what the fake profiler of ${version} received, in the layout of that version. */
static void check_body(int version, int type, const struct seen_event *seen,
                       const struct nccl_abi_event_v7 *e, void *group)
{
    const struct nccl_abi_event_old *old;
    struct nccl_abi_event_old whole = {0};
    size_t size = version == 7 ? 112 : version >= 5 ? 88 : 80;
    int abi = plugin.release->profiler;

    ck_assert_uint_eq(seen->type, (uint64_t)type);
    ck_assert_int_eq(seen->rank, 5);
    memcpy(&whole.u, seen->body, sizeof whole.u);
    old = &whole;
    /* Here the profiler's layout is that of the release, or a longer one whose rest is zero. */
    if (version >= 4 && !(version == 4 && abi > 4)) {
        size_t given = abi == 7 ? 112 : abi == 4 ? 80 : 88;

        ck_assert_ptr_eq(seen->parent, e->parent);
        ck_assert(memcmp(seen->body, &e->u, size < given ? size : given) == 0);
        for (size_t i = given; i < size; i++)
            ck_assert_msg(seen->body[i] == 0, "byte %zu of event %d past NCCL's end", i, type);
        return;
    }
    ck_assert_ptr_eq(seen->parent,
                     type == NCCL_ABI_EV_COLL || type == NCCL_ABI_EV_P2P ? group : e->parent);
    switch (type) {
    case NCCL_ABI_EV_COLL:
        if (version == 1) {
            const struct nccl_abi_ev_coll_v1 *c = &old->u.coll_v1;

            ck_assert(!c->name && !c->hash && c->seq == 11 && c->func == 4 &&
                      c->send == &chain_next && c->recv == &chain_mask && c->count == 1024 &&
                      c->root == 3 && c->datatype == 9 && !c->op && !c->traffic &&
                      c->channels == 4 && c->warps == 16 && c->algo == 5 && c->proto == 1);
        } else if (version == 2) {
            const struct nccl_abi_ev_coll_v2 *c = &old->u.coll_v2;

            ck_assert(!c->name && !c->hash && c->seq == 11 && c->count == 1024 && c->root == 3 &&
                      !c->traffic && c->channels == 4 && c->warps == 16 && c->send == &chain_next &&
                      c->recv == &chain_mask && !strcmp(c->func, "AllReduce") &&
                      !strcmp(c->datatype, "ncclBfloat16") && !strcmp(c->algo, "NVLS_TREE") &&
                      !strcmp(c->proto, "LL128"));
        } else if (version == 3) {
            const struct nccl_abi_ev_coll_v3 *c = &old->u.coll_v3;

            ck_assert(!c->name && !c->hash && c->seq == 11 && c->count == 1024 && c->root == 3 &&
                      c->channels == 4 && c->warps == 16 && c->send == &chain_next &&
                      c->recv == &chain_mask && !strcmp(c->func, "AllReduce") &&
                      !strcmp(c->datatype, "ncclBfloat16") && !strcmp(c->algo, "NVLS_TREE") &&
                      !strcmp(c->proto, "LL128"));
        } else {
            ck_assert(memcmp(&old->u.coll_v4, &e->u.coll.head, 80) == 0);
        }
        break;
    case NCCL_ABI_EV_P2P:
        if (version == 1)
            ck_assert(old->u.p2p_v1.func == 7 && old->u.p2p_v1.buff == &chain_mask &&
                      old->u.p2p_v1.datatype == 0 && old->u.p2p_v1.count == 99 &&
                      old->u.p2p_v1.peer == 2);
        else if (version < 4)
            ck_assert(!old->u.p2p_v2.name && !strcmp(old->u.p2p_v2.func, "Recv") &&
                      old->u.p2p_v2.buff == &chain_mask && old->u.p2p_v2.count == 99 &&
                      !strcmp(old->u.p2p_v2.datatype, "ncclInt8") && old->u.p2p_v2.peer == 2);
        else
            ck_assert(!strcmp(old->u.same.p2p.func, "Recv") && old->u.same.p2p.count == 99 &&
                      !strcmp(old->u.same.p2p.datatype, "ncclInt8") &&
                      old->u.same.p2p.buff == &chain_mask && old->u.same.p2p.peer == 2 &&
                      old->u.same.p2p.channels == 6);
        break;
    case NCCL_ABI_EV_PROXY_OP:
        ck_assert(memcmp(seen->body, &e->u, sizeof e->u.proxy_op) == 0);
        break;
    case NCCL_ABI_EV_PROXY_STEP:
        ck_assert_int_eq(old->u.same.proxy_step.step, 13);
        break;
    case NCCL_ABI_EV_KERNEL_CH:
        ck_assert_int_eq(old->u.same.kernel_ch.channel, 7);
        ck_assert_uint_eq(old->u.same.kernel_ch.timer, version >= 4 ? 123456789 : 0);
        break;
    case NCCL_ABI_EV_NET_PLUGIN:
        ck_assert_int_eq((int)old->u.same.net_plugin.id, -5);
        ck_assert_ptr_eq(old->u.same.net_plugin.data, &chain_mask);
        break;
    }
}

static int served(int version)
{
    return plugin.release->profiler >= 5 || version <= 4;
}

START_TEST(test_every_event_in_the_words_of_every_version)
{
    int version = 1 + _i / 2 % VERSIONS, ledger = _i % 2;
    void *ctx, *group = &ctx;

    chain_behind(version, 0xffff, ledger);
    nccl_load(&releases[_i / 2 / VERSIONS], 0);
    ctx = chain_open();
    if (!served(version)) {
        ck_assert_int_eq(chain_next->inits, 0);
        ck_assert_int_eq(chain_mask != 0, ledger);
        ck_assert_int_eq(chain_profiler()->finalize(ctx), 0);
        return;
    }
    ck_assert_int_eq(chain_next->inits, 1);
    if (version >= 4)
        ck_assert(chain_next->nodes == 2 && chain_next->ranks == 8 && chain_next->rank == 5 &&
                  chain_next->comm_id == 0xbeef && strcmp(chain_next->name, "name") == 0 &&
                  chain_next->logger == nccl_logger);
    ck_assert_int_eq(chain_mask & ((1 << known[version]) - 1), (1 << known[version]) - 1);
    for (int bit = 0; bit < chain_kinds[plugin.release->profiler]; bit++) {
        struct nccl_abi_event_v7 e = chain_make(1 << bit, &e, group);
        int before = chain_next->events;
        void *handle = chain_start(ctx, &e);

        if (bit >= known[version]) {
            ck_assert_ptr_null(handle);
            ck_assert_int_eq(chain_next->events, before);
            continue;
        }
        ck_assert_int_eq(chain_next->events, before + 1);
        ck_assert_ptr_eq(handle, chain_next->event[before].handle);
        check_body(version, 1 << bit, &chain_next->event[before], &e, group);
        ck_assert_int_eq(chain_profiler()->stop_event(handle), 0);
        ck_assert_int_eq(chain_next->event[before].stops, 1);
    }
    ck_assert_int_eq(chain_profiler()->finalize(ctx), 0);
    ck_assert_int_eq(chain_next->ends, 1);
    ck_assert_int_eq(chain_next->wrong_handles, 0);
}
END_TEST

START_TEST(test_states_that_the_version_knows)
{
    int version = 1 + _i;
    union nccl_abi_state args = {.bytes = 4711};
    struct nccl_abi_event_v7 e;
    void *ctx, *handle;

    chain_behind(version, 0xffff, 0);
    nccl_load(&releases[10], 0); /* a release whose profiler interface is v7 */
    ctx = chain_open();
    e = chain_make(NCCL_ABI_EV_PROXY_STEP, NULL, NULL);
    handle = chain_start(ctx, &e);
    for (int state = 0; state <= 31; state++) {
        int last = version < 4    ? 18
                   : version == 4 ? 22
                   : version == 5 ? 24
                   : version == 6 ? 30
                                  : 31;
        int passes = state <= last && (version >= 4 || state >= 8);
        int before = chain_next->states, none = state == 23 || state == 24;

        chain_next->args.bytes = 1;
        ck_assert_int_eq(chain_profiler()->record_event_state(handle, state, none ? NULL : &args),
                         0);
        ck_assert_msg(chain_next->states == before + passes, "state %d of v%d", state, version);
        if (!passes)
            continue;
        ck_assert_int_eq(chain_next->state, state);
        ck_assert_ptr_eq(chain_next->state_handle, handle);
        if (version < 4)
            ck_assert_uint_eq(chain_next->args.bytes, state >= 13 ? 4711 : 0);
        else
            ck_assert(none ? !chain_next->args_given : chain_next->args.bytes == 4711);
    }
    ck_assert_int_eq(chain_next->wrong_handles, 0);
}
END_TEST

/* A process can have two copies of NCCL. If the profiler can serve only one of them, it must get
 * that copy's events, whichever copy comes first. */
START_TEST(test_a_second_nccl_does_not_take_the_profiler_away)
{
    const struct release *served_by = &releases[3], *not_served = &releases[1];
    struct nccl_abi_event_v7 e;
    void *ctx, *other = NULL, *handle[2];

    chain_behind(5, 0xffff, _i / 2);
    if (_i % 2) {
        nccl_load(not_served, 0);
        other = chain_open();
    }
    nccl_load(served_by, 0);
    ctx = chain_open();
    e = chain_make(NCCL_ABI_EV_COLL, NULL, NULL);
    handle[0] = chain_start(ctx, &e);
    if (_i % 2 == 0) {
        nccl_load(not_served, 0);
        other = chain_open();
        nccl_load(served_by, 0);
    }
    handle[1] = chain_start(ctx, &e);
    ck_assert_int_eq(chain_next->inits, 1);
    chain_said("which cannot be served by this NCCL's v4; not chained");
    chain_said("behind this profiler: \"fake\" (v5)");
    ck_assert_int_eq(chain_next->events, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(chain_profiler()->stop_event(handle[i]), 0);
        ck_assert_int_eq(chain_next->event[i].stops, 1);
    }
    ck_assert_int_eq(chain_profiler()->finalize(ctx), 0);
    nccl_load(not_served, 0);
    ck_assert_int_eq(chain_profiler()->finalize(other), 0);
    ck_assert_int_eq(chain_next->ends, 1);
    ck_assert_int_eq(chain_next->wrong_handles, 0);
}
END_TEST

START_TEST(test_each_nccl_has_a_mask_of_its_own)
{
    int second = 0, *first_at;
    struct nccl_abi_event_v7 e;
    void *ctx[2];

    chain_behind(5, 0, 1);
    nccl_load(&releases[3], 0);
    ctx[0] = chain_open();
    first_at = chain_next->mask_at;
    nccl_load(&releases[4], 0); /* a release whose profiler interface is v6 */
    ck_assert_int_eq(chain_profiler()->init(&ctx[1], 0xbeef, &second, "name", 2, 8, 5, nccl_logger),
                     0);
    ck_assert_ptr_ne(chain_next->mask_at, first_at);
    *first_at = NCCL_ABI_EV_PROXY_STEP;
    nccl_load(&releases[3], 0);
    e = chain_make(NCCL_ABI_EV_COLL, NULL, NULL);
    chain_start(ctx[0], &e);
    ck_assert_int_ne(chain_mask & NCCL_ABI_EV_PROXY_STEP, 0);
    ck_assert_int_eq(second & NCCL_ABI_EV_PROXY_STEP, 0);
}
END_TEST

Suite *chain_profiler_suite(void)
{
    Suite *suite = suite_create("chain profiler");
    TCase *events = tcase_create("events");

    tcase_add_loop_test(events, test_every_event_in_the_words_of_every_version, 0,
                        RELEASES * VERSIONS * 2);
    tcase_add_loop_test(events, test_states_that_the_version_knows, 0, VERSIONS);
    tcase_add_loop_test(events, test_a_second_nccl_does_not_take_the_profiler_away, 0, 4);
    tcase_add_test(events, test_each_nccl_has_a_mask_of_its_own);
    suite_add_tcase(suite, events);
    return suite;
}
