/* SPDX-License-Identifier: Apache-2.0 */
/* check_next.c - checks which files NCCL tries for the name of a plugin, and how events are
 * translated for older interface versions. */
#include <stdlib.h>
#include <string.h>

#include "plugin/next/events.h"
#include "plugin/next/open.h"
#include "test/suites.h"

/* The rows follow plugin_open.cc of NCCL 2.27.5 to 2.30.7. */
static const struct {
    const char *name, *file[2]; /* the files that NCCL tries one after the other; NULL: no more */
} files[] = {
    {NULL, {"libnccl-tuner.so", NULL}},
    {"", {"libnccl-tuner.so", NULL}},
    {"ofi", {"ofi", "libnccl-tuner-ofi.so"}},
    {"libofi.so", {"libofi.so", NULL}},
    {"libofi", {"libofi", "libnccl-tuner-libofi.so"}},
    {"ofi.so", {"ofi.so", "libnccl-tuner-ofi.so.so"}},
    {"lib.so", {"lib.so", NULL}},
    {"libofi.so.1", {"libofi.so.1", "libnccl-tuner-libofi.so.1.so"}},
    {"/opt/libofi.so", {"/opt/libofi.so", NULL}},
    {"./ofi", {"./ofi", NULL}},
    {"STATIC_PLUGIN", {"", "libnccl-tuner-STATIC_PLUGIN.so"}},
    {"static", {"", "libnccl-tuner-static.so"}},
    {"s", {"", "libnccl-tuner-s.so"}},
    {"STATIC_PLUGINS", {"STATIC_PLUGINS", "libnccl-tuner-STATIC_PLUGINS.so"}},
};

START_TEST(test_a_name_means_the_files_that_nccl_tries)
{
    char file[256];

    for (int i = 0; i < 2; i++) {
        bool has = st_next_file("libnccl-tuner", files[_i].name, i, file);

        ck_assert_int_eq(has, files[_i].file[i] != NULL);
        if (has)
            ck_assert_str_eq(file, files[_i].file[i]);
    }
    ck_assert(!st_next_file("libnccl-tuner", files[_i].name, 2, file));
}
END_TEST

START_TEST(test_a_long_name_is_cut_and_nothing_overflows)
{
    char name[4096], file[256 + 16];

    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    memset(file, '!', sizeof file);
    ck_assert(st_next_file("libnccl-profiler", name, 0, file));
    ck_assert_uint_eq(strlen(file), 254);
    ck_assert(st_next_file("libnccl-profiler", name, 1, file));
    ck_assert_uint_lt(strlen(file), 256);
    ck_assert_int_eq(file[256], '!');
}
END_TEST

/* Version 1 of the profiler interface has numbers where later versions have words. These are the
 * numbers of NCCL's own conversion (profiler_v1.cc at 2.27.7 and 2.30.7). */
static const struct {
    const char *func, *type, *algo, *proto;
    uint8_t number[4];
} words[] = {
    {"Broadcast", "ncclInt8", "TREE", "LL", {0, 0, 0, 0}},
    {"Reduce", "ncclInt32", "RING", "LL128", {1, 2, 1, 1}},
    {"AllGather", "ncclUint32", "COLLNET_DIRECT", "SIMPLE", {2, 3, 2, 2}},
    {"ReduceScatter", "ncclInt64", "COLLNET_CHAIN", "", {3, 4, 3, 2}},
    {"AllReduce", "ncclUint64", "NVLS", "LL", {4, 5, 4, 0}},
    {"SendRecv", "ncclFloat16", "NVLS_TREE", "LL", {5, 6, 5, 0}},
    {"Recv", "ncclFloat32", "PAT", "LL", {7, 7, 6, 0}},
    {"Send", "ncclBfloat16", "new", "new", {6, 9, 6, 2}},
    {NULL, NULL, NULL, NULL, {6, 8, 6, 2}},
};

/* The bodies of events differ in length. The bytes after a body belong to NCCL and must not be
 * passed on. */
START_TEST(test_no_more_than_the_body_is_copied)
{
    static const struct {
        int type;
        size_t size;
    } bodies[] = {{NCCL_ABI_EV_PROXY_OP, sizeof(struct nccl_abi_ev_proxy_op)},
                  {NCCL_ABI_EV_PROXY_STEP, sizeof(struct nccl_abi_ev_proxy_step)},
                  {NCCL_ABI_EV_KERNEL_CH, sizeof(struct nccl_abi_ev_kernel_ch)},
                  {NCCL_ABI_EV_NET_PLUGIN, sizeof(struct nccl_abi_ev_net_plugin)}};
    struct nccl_abi_event_v7 event = {0};
    struct nccl_abi_event_old old;
    char zero[sizeof old.u] = {0};

    memset(&event.u, 0xff, sizeof event.u);
    for (int version = 1; version <= 4; version++) {
        st_event_write(version, 5, bodies[_i].type, &event, &old);
        ck_assert_int_eq(*(unsigned char *)&old.u, 0xff);
        ck_assert(memcmp((char *)&old.u + bodies[_i].size, zero,
                         sizeof old.u - bodies[_i].size) == 0);
    }
}
END_TEST

START_TEST(test_words_become_numbers)
{
    struct nccl_abi_event_v7 event = {.u.coll.head = {.func = words[_i].func,
                                                      .datatype = words[_i].type,
                                                      .algo = words[_i].algo,
                                                      .proto = words[_i].proto}};
    struct nccl_abi_event_old old;

    st_event_write(1, 5, NCCL_ABI_EV_COLL, &event, &old);
    ck_assert_uint_eq(old.u.coll_v1.func, words[_i].number[0]);
    ck_assert_uint_eq(old.u.coll_v1.datatype, words[_i].number[1]);
    ck_assert_uint_eq(old.u.coll_v1.algo, words[_i].number[2]);
    ck_assert_uint_eq(old.u.coll_v1.proto, words[_i].number[3]);
}
END_TEST

Suite *next_suite(void)
{
    Suite *suite = suite_create("next");
    TCase *names = tcase_create("names"), *events = tcase_create("events");

    t_add_rows(names, test_a_name_means_the_files_that_nccl_tries, files);
    tcase_add_test(names, test_a_long_name_is_cut_and_nothing_overflows);
    t_add_rows(events, test_words_become_numbers, words);
    tcase_add_loop_test(events, test_no_more_than_the_body_is_copied, 0, 4);
    suite_add_tcase(suite, names);
    suite_add_tcase(suite, events);
    return suite;
}
