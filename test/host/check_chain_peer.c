/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_chain_peer.c - tests NCCL's example tuner and profiler behind symtuner. It runs only with
 * CHECK_PEERS=FOLDER, the folder with both libraries, because this repository has nothing of NCCL.
 * test/gpu/chain.sh says how to build them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/chain.h"

static const char *peer(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%s", getenv("CHECK_PEERS"), name);
    return path;
}

static int count(const char *text, const char *word)
{
    int n = 0;

    while ((text = strstr(text, word))) {
        n++;
        text++;
    }
    return n;
}

START_TEST(test_the_example_tuner_is_asked_as_without_us)
{
    const struct release *release = &releases[2 + _i]; /* the example speaks tuner v5 */
    struct comm comm;

    setenv("SYMTUNER_NEXT_TUNER", peer("libnccl-tuner-example.so"), 1);
    chain_begin(NULL);
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 2), 0);
    chain_said("ExamplePlugin: Initializing tuner for 2 nodes, 8 ranks, 2 NVL domains");
    for (int i = 0; i < 20; i++) {
        struct question q = chain_question(i % 5);

        ck_assert_int_eq(chain_ask(&comm, &q), 0);
        ck_assert_int_eq(q.channels, 1); /* the example always answers 1 */
        ck_assert(memcmp(q.table, chain_table, sizeof q.table) == 0);
    }
    ck_assert_int_eq(count(nccl_log.text, "No matching config found"), 20);
    nccl_comm_end(&comm);
}
END_TEST

/* Send the events of one group with two calls, as NCCL 2.28 and later do. NCCL does not stop an
 * event without a handle. */
static void play(void *ctx)
{
    struct nccl_abi_event_v7 e = chain_make(NCCL_ABI_EV_GROUP_API, NULL, NULL);
    void *api, *group, *call[2], *coll[2];

    memset(&e.u, 0, sizeof e.u);
    api = chain_start(ctx, &e);
    for (int i = 0; i < 2; i++) {
        e = chain_make(NCCL_ABI_EV_COLL_API, api, NULL);
        call[i] = chain_start(ctx, &e);
        if (call[i])
            chain_profiler()->stop_event(call[i]);
    }
    e = chain_make(NCCL_ABI_EV_GROUP, NULL, NULL);
    group = chain_start(ctx, &e);
    for (int i = 0; i < 2; i++) {
        e = chain_make(NCCL_ABI_EV_COLL, call[i], group);
        coll[i] = chain_start(ctx, &e);
    }
    for (int i = 0; i < 2; i++)
        if (coll[i])
            chain_profiler()->stop_event(coll[i]);
    if (group)
        chain_profiler()->stop_event(group);
    if (api)
        chain_profiler()->stop_event(api);
}

/* Read what the example profiler recorded, without its event counter and the times, into
 * ${text}. */
static void tell(char *text, size_t size, const char *dump)
{
    char path[4096];
    FILE *file;
    size_t n = 0;

    snprintf(path, sizeof path, "%s_%lu_5.json", dump, 0xbeefUL);
    file = fopen(path, "r");
    ck_assert_msg(file, "no %s", path);
    while (n + 1 < size && fgets(text + n, (int)(size - n), file)) {
        char *rest = strstr(text + n, "\"id\":");

        n += rest ? (size_t)(rest - text) - n : strlen(text + n);
    }
    fclose(file);
    unlink(path);
}

START_TEST(test_the_example_profiler_is_told_what_it_is_told_alone)
{
    const struct release *release = &releases[2 + _i / 2];
    static char alone[16384], behind[16384];
    const char *dump = nccl_temp();
    void *library, *ctx;

    setenv("NCCL_PROFILE_DUMP_FILE", dump, 1);
    setenv("NCCL_PROFILE_EVENT_MASK", "770", 1); /* the events Coll, GroupApi and CollApi */
    /* Each element of a pool takes 755 MB of address space, and hardly any of it is touched. */
    setenv("NCCL_PROFILE_COLL_POOL_SIZE", "4", 1);
    setenv("NCCL_PROFILE_P2P_POOL_SIZE", "4", 1);
    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_NEXT_PROFILER", peer("libnccl-profiler-example.so"), 1);
    if (_i % 2)
        setenv("SYMTUNER_LEDGER", "/dev/null", 1);
    nccl_load(release, 0);
    library = dlopen(getenv("SYMTUNER_NEXT_PROFILER"), RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library, "%s", dlerror());
    for (int turn = 0; turn < 2; turn++) {
        const void *ours = plugin.profiler;

        if (turn == 0)
            plugin.profiler = dlsym(library, "ncclProfiler_v5");
        ctx = chain_open();
        ck_assert_ptr_nonnull(ctx);
        ck_assert_int_eq(chain_mask & 770, 770);
        for (int i = 0; i < 10; i++)
            play(ctx);
        chain_profiler()->finalize(ctx);
        tell(turn ? behind : alone, sizeof alone, dump);
        plugin.profiler = ours;
    }
    ck_assert_int_ge(count(alone, "AllReduce"), 20);
    /* print only the text around the first difference, because libcheck cannot print all of it */
    for (int i = 0; alone[i] || behind[i]; i++)
        ck_assert_msg(alone[i] == behind[i], "alone \"%.200s\", behind ours \"%.200s\"",
                      alone + (i > 100 ? i - 100 : 0), behind + (i > 100 ? i - 100 : 0));
}
END_TEST

Suite *chain_peer_suite(void)
{
    Suite *suite = suite_create("chain peers");
    TCase *peers = tcase_create("NCCL's examples");

    tcase_add_loop_test(peers, test_the_example_tuner_is_asked_as_without_us, 0, RELEASES - 2);
    tcase_add_loop_test(peers, test_the_example_profiler_is_told_what_it_is_told_alone, 0,
                        2 * (RELEASES - 2));
    suite_add_tcase(suite, peers);
    return suite;
}
