/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/next/events.h"

#include <string.h>

/* A word that v2 and later of the profiler interface use, and the number that v1 uses instead. The
 * last row of each array has no text: its number is for all words that the array does not list. */
struct word {
    const char *text;
    uint8_t number;
};

static uint8_t number_of(const struct word *words, const char *text)
{
    for (; words->text; words++)
        if (text && strcmp(words->text, text) == 0)
            break;
    return words->number;
}

static const struct word funcs[] = {{"AllGather", 2}, {"AllReduce", 4}, {"Broadcast", 0},
                                    {"Recv", 7},      {"Reduce", 1},    {"ReduceScatter", 3},
                                    {"SendRecv", 5},  {NULL, 6}};
static const struct word algos[] = {
    {"TREE", 0},      {"RING", 1}, {"COLLNET_DIRECT", 2}, {"COLLNET_CHAIN", 3}, {"NVLS", 4},
    {"NVLS_TREE", 5}, {NULL, 6}};
static const struct word protos[] = {{"LL", 0}, {"LL128", 1}, {NULL, 2}};
static const struct word types[] = {{"ncclInt8", 0},    {"ncclInt32", 2},    {"ncclUint32", 3},
                                    {"ncclInt64", 4},   {"ncclUint64", 5},   {"ncclFloat16", 6},
                                    {"ncclFloat32", 7}, {"ncclBfloat16", 9}, {NULL, 8}};

/* COLL_NUMBERS has the members that are equal in versions 1 to 3. COLL_WORDS has the members that
 * are words in versions 2 and 3, but numbers in version 1. */
#define COLL_NUMBERS(coll)                                                                         \
    .seq = (coll)->seq, .send = (coll)->send, .recv = (coll)->recv, .count = (coll)->count,        \
    .root = (coll)->root, .channels = (coll)->channels, .warps = (coll)->warps
#define COLL_WORDS(coll)                                                                           \
    .func = (coll)->func, .datatype = (coll)->datatype, .algo = (coll)->algo, .proto = (coll)->proto

static void write_coll(int version, const struct nccl_abi_ev_coll *coll,
                       struct nccl_abi_event_old *old)
{
    if (version == 1)
        old->u.coll_v1 = (struct nccl_abi_ev_coll_v1){COLL_NUMBERS(coll),
                                                      .func = number_of(funcs, coll->func),
                                                      .datatype = number_of(types, coll->datatype),
                                                      .algo = number_of(algos, coll->algo),
                                                      .proto = number_of(protos, coll->proto)};
    else if (version == 2)
        old->u.coll_v2 = (struct nccl_abi_ev_coll_v2){COLL_NUMBERS(coll), COLL_WORDS(coll)};
    else if (version == 3)
        old->u.coll_v3 = (struct nccl_abi_ev_coll_v3){COLL_NUMBERS(coll), COLL_WORDS(coll)};
    else
        old->u.coll_v4 = *coll;
}

static void write_p2p(int version, const struct nccl_abi_ev_p2p *p2p,
                      struct nccl_abi_event_old *old)
{
    if (version == 1)
        old->u.p2p_v1 = (struct nccl_abi_ev_p2p_v1){.func = number_of(funcs, p2p->func),
                                                    .buff = p2p->buff,
                                                    .datatype = number_of(types, p2p->datatype),
                                                    .count = p2p->count,
                                                    .peer = p2p->peer};
    else if (version < 4)
        old->u.p2p_v2 = (struct nccl_abi_ev_p2p_v2){.func = p2p->func,
                                                    .buff = p2p->buff,
                                                    .datatype = p2p->datatype,
                                                    .count = p2p->count,
                                                    .peer = p2p->peer};
    else
        old->u.same.p2p = (struct nccl_abi_ev_p2p){.func = p2p->func,
                                                   .buff = p2p->buff,
                                                   .datatype = p2p->datatype,
                                                   .count = p2p->count,
                                                   .peer = p2p->peer,
                                                   .channels = p2p->channels};
}

void st_event_write(int version, int abi, int type, const struct nccl_abi_event_v7 *event,
                    struct nccl_abi_event_old *old)
{
    const union nccl_abi_body *body = &event->u;

    *old = (struct nccl_abi_event_old){
        .type = (uint8_t)type, .parent = event->parent, .rank = event->rank};
    switch (type) {
    case NCCL_ABI_EV_COLL:
        if (abi >= 5) /* up to v4 ${parent} is the group's event; from v5 on, the API call's */
            old->parent = body->coll.parent_group;
        write_coll(version, &body->coll.head, old);
        break;
    case NCCL_ABI_EV_P2P:
        if (abi >= 5)
            old->parent = body->p2p.parent_group;
        write_p2p(version, &body->p2p, old);
        break;
    case NCCL_ABI_EV_PROXY_OP:
        old->u.same.proxy_op = body->proxy_op;
        break;
    case NCCL_ABI_EV_PROXY_STEP:
        old->u.same.proxy_step = body->proxy_step;
        break;
    case NCCL_ABI_EV_KERNEL_CH:
        old->u.same.kernel_ch.channel = body->kernel_ch.channel;
        if (version >= 4)
            old->u.same.kernel_ch.timer = body->kernel_ch.timer;
        break;
    case NCCL_ABI_EV_NET_PLUGIN:
        old->u.same.net_plugin = body->net_plugin;
        break;
    }
}

bool st_state_write(int version, int state, const union nccl_abi_state *args,
                    struct nccl_abi_state_old *old)
{
    static const int last[] = {[1] = NCCL_ABI_STATE_CTRL_LAST,
                               [2] = NCCL_ABI_STATE_CTRL_LAST,
                               [3] = NCCL_ABI_STATE_CTRL_LAST,
                               [4] = NCCL_ABI_STATE_LAST_V4,
                               [5] = NCCL_ABI_STATE_LAST_V5,
                               [6] = NCCL_ABI_STATE_LAST_V6,
                               [7] = 0x7fffffff};

    *old = (struct nccl_abi_state_old){0};
    if (state > last[version] || (version < 4 && state < NCCL_ABI_STATE_STEP_FIRST))
        return false;
    if (state >= NCCL_ABI_STATE_CTRL_FIRST && state <= NCCL_ABI_STATE_CTRL_LAST && args)
        old->u.appended = args->appended;
    return true;
}
