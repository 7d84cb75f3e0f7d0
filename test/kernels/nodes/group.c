/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - makes and uses the handles of all ranks, each in a thread of its own. */
#include "test/kernels/nodes/group.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/cuda.h"

symtuner_ar *handle[NET_RANKS];
ncclResult_t created[NET_RANKS];
char created_error[NET_RANKS][256];
struct symtuner_ar_config group_config;

void group_reset(int ranks, int each, const char *rule)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = NET_RANKS;
    fake.peers = 1;
    memset(handle, 0, sizeof handle);
    group_config = (struct symtuner_ar_config){.size = sizeof group_config, .bulk_bytes = 1 << 20};
    net_reset(ranks, each);
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    unsetenv("SYMTUNER_AR_NODES");
    unsetenv("SYMTUNER_RULE");
    if (rule != NULL)
        setenv("SYMTUNER_RULE", rule, 1);
}

static ncclComm_t comms[NET_RANKS];

static void create_one(int r)
{
    comms[r] = net_comm(r);
    created[r] = symtuner_ar_create(&handle[r], &comms[r], 1, &group_config);
    strcpy(created_error[r], symtuner_ar_error(NULL));
}

void group_create(void)
{
    net_threads(create_one);
}

static void destroy_one(int r)
{
    symtuner_ar_destroy(&handle[r], 1);
    ncclCommDestroy(comms[r]);
}

void group_destroy(void)
{
    net_threads(destroy_one);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(whole_nccl.live, 0);
    ck_assert(!whole_nccl.hung);
}

void group_abort(int r)
{
    ncclCommAbort(comms[r]);
}

const char *group_describe(int r)
{
    static char text[1 << 16];

    ck_assert_uint_lt(symtuner_ar_describe(handle[r], text, sizeof text), sizeof text);
    return text;
}

void group_must_be_nccls(const char *why)
{
    char memory[1 << 12], first[1 << 12];

    for (int r = 0; r < net.ranks; r++) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};

        ck_assert_msg(created[r] == ncclSuccess, "rank %d: %s", r, created_error[r]);
        ck_assert_ptr_null(handle[r]->nodes);
        ck_assert_int_eq(
            symtuner_ar_query(memory, memory, 1024, ncclFloat, ncclSum, handle[r], &plan),
            ncclSuccess);
        ck_assert_str_eq(plan.kernel, "nccl");
        ck_assert_int_eq(plan.pieces, 1);
        ck_assert_msg(strstr(handle[r]->gate, why) != NULL, "%s", handle[r]->gate);
        if (r == 0)
            strcpy(first, handle[r]->gate);
        ck_assert_str_eq(handle[r]->gate, first);
    }
    ck_assert(!whole_nccl.hung);
}
