/* SPDX-License-Identifier: Apache-2.0 */
#include "test/host/chain.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tuners --------------------------------------------------------------------------------- */

const float chain_table[T_CELLS] = {8,  9,  10, 6, 7,  12, -1, -1, -1, -1, -1,
                                     -1, -1, -1, 5, -1, -1, -1, -1, -1, -1};

struct tuner_record *chain_fake(const char *name)
{
    void *library = dlopen(nccl_fake(name), RTLD_NOW | RTLD_LOCAL);
    struct tuner_record *record = library ? dlsym(library, "tuner_record") : NULL;

    ck_assert_msg(record, "%s", dlerror());
    return record;
}

struct tuner_record *chain_fake_version(int version)
{
    char name[16];

    snprintf(name, sizeof name, "tuner%d", version);
    setenv("SYMTUNER_NEXT_TUNER", nccl_fake(name), 1);
    return chain_fake(name);
}

void chain_begin(const char *rule)
{
    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    if (rule)
        setenv("SYMTUNER_RULE", rule, 1);
    nccl_constants.may_change = 1;
    for (int i = 0; i < 159; i++)
        nccl_constants.u.number[i] = 1 + i;
}

void chain_said(const char *text)
{
    ck_assert_msg(strstr(nccl_log.text, text), "no \"%s\" in\n%s", text, nccl_log.text);
}

int chain_ask(const struct comm *comm, struct question *q)
{
    return ((const struct nccl_abi_tuner_v5 *)plugin.tuner)
        ->get_coll_info(comm->tuner, q->func, q->bytes, q->pipe_ops, (float **)(void *)q->table,
                        T_ALGOS, T_PROTOS, q->registered, &q->channels);
}

struct question chain_question(int func)
{
    struct question q = {func, 4096, 3, 1, {0}, 2};

    memcpy(q.table, chain_table, sizeof q.table);
    return q;
}

/* ---- profilers ------------------------------------------------------------------------------ */

struct profiler_record *chain_next;
int chain_mask;

void *chain_library(const char *name)
{
    void *library = dlopen(nccl_fake(name), RTLD_NOW | RTLD_LOCAL);

    ck_assert_msg(library, "%s", dlerror());
    return library;
}

void chain_behind(int version, int mask, int ledger)
{
    char name[16];

    snprintf(name, sizeof name, "profiler%d", version);
    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_NEXT_PROFILER", nccl_fake(name), 1);
    if (ledger)
        setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    chain_next = dlsym(chain_library(name), "profiler_record");
    chain_next->mask = mask;
}

void *chain_open(void)
{
    void *ctx = &ctx;
    int wrong;

    if (plugin.release->profiler == 4)
        wrong = ((const struct nccl_abi_profiler_v4 *)plugin.profiler)
                    ->init(&ctx, &chain_mask, "name", 0xbeef, 2, 8, 5, nccl_logger);
    else
        wrong = ((const struct nccl_abi_profiler_v5 *)plugin.profiler)
                    ->init(&ctx, 0xbeef, &chain_mask, "name", 2, 8, 5, nccl_logger);
    ck_assert_int_eq(wrong, 0);
    return ctx;
}

const struct nccl_abi_profiler_v5 *chain_profiler(void)
{
    /* in all versions of the interface this table has the same members at the same offsets; only
     * the layout of events differs */
    return plugin.profiler;
}

void *chain_start(void *ctx, struct nccl_abi_event_v7 *event)
{
    void *handle = &handle;

    if (plugin.release->profiler == 4) /* in v4 the type is one byte, and padding follows */
        memset((char *)event + 1, 0xaa, 7);
    ck_assert_int_eq(chain_profiler()->start_event(ctx, &handle,
                                                   (struct nccl_abi_event_v5 *)(void *)event),
                     0);
    if (plugin.release->profiler == 4)
        memset((char *)event + 1, 0, 7);
    return handle;
}

struct nccl_abi_event_v7 chain_make(int type, void *parent, void *group)
{
    struct nccl_abi_event_v7 e;
    int abi = plugin.release->profiler;
    unsigned char *body = (unsigned char *)&e.u;

    memset(&e, 0xaa, sizeof e);
    memset(&e, 0, abi == 4 ? 104 : abi < 7 ? NCCL_ABI_EVENT_BYTES_V6 : sizeof e);
    e.type = (uint64_t)type;
    e.parent = parent;
    e.rank = 5;
    switch (type) {
    case NCCL_ABI_EV_COLL:
        e.u.coll.head = (struct nccl_abi_ev_coll){11,   "AllReduce", &chain_next,    &chain_mask,
                                                  1024, 3,           "ncclBfloat16", 4,
                                                  16,   "NVLS_TREE", "LL128"};
        if (abi >= 5)
            e.u.coll.parent_group = group;
        else
            e.parent = group;
        if (abi == 7)
            e.u.coll.kernel_variant = "kernel", e.u.coll.is_sym = true, e.u.coll.tag = 77;
        break;
    case NCCL_ABI_EV_COLL_API:
        *(struct nccl_abi_ev_coll_api *)body =
            (struct nccl_abi_ev_coll_api){"AllReduce", 1024, "ncclFloat32", 3, &chain_mask, true};
        break;
    case NCCL_ABI_EV_CE_COLL: /* this event begins like a Coll event */
        e.u.coll.head = (struct nccl_abi_ev_coll){
            .seq = 12, .func = "AllGather", .count = 5, .datatype = "ncclInt8"};
        break;
    case NCCL_ABI_EV_P2P:
        e.u.p2p = (struct nccl_abi_ev_p2p){.func = "Recv",
                                           .buff = &chain_mask,
                                           .datatype = "ncclInt8",
                                           .count = 99,
                                           .peer = 2,
                                           .channels = 6};
        if (abi >= 5)
            e.u.p2p.parent_group = group;
        else
            e.parent = group;
        if (abi == 7)
            e.u.p2p.tag = 78;
        break;
    case NCCL_ABI_EV_PROXY_OP:
        e.u.proxy_op = (struct nccl_abi_ev_proxy_op){getpid(), 3, 2, 9, 4096, 1};
        break;
    case NCCL_ABI_EV_PROXY_STEP:
        e.u.proxy_step.step = 13;
        break;
    case NCCL_ABI_EV_KERNEL_CH:
        e.u.kernel_ch = (struct nccl_abi_ev_kernel_ch){7, 123456789};
        break;
    case NCCL_ABI_EV_NET_PLUGIN:
        e.u.net_plugin = (struct nccl_abi_ev_net_plugin){-5, &chain_mask};
        break;
    default: /* symtuner passes other events on unchanged, or not at all */
        memset(body, 0x5a, 40);
    }
    return e;
}

const int chain_kinds[] = {[4] = 8, [5] = 12, [6] = 15, [7] = 16};
