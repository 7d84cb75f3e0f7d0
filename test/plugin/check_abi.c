/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_abi.c - compares sizes and offsets of every interface struct with numbers that were
 * measured on a 64-bit machine with NCCL's own headers (2.27.3 to 2.32.6). Also checks the tables
 * that the library exports.
 *
 * The asserts in include/nccl_abi hold wherever the headers are included. This file repeats the
 * numbers as a list that can be read beside NCCL's headers, member by member.
 */
#include "nccl_abi/env.h"
#include "nccl_abi/profiler.h"
#include "nccl_abi/tuner.h"
#include "plugin/ledger.h"
#include "nccl/release.h"
#include "test/suites.h"

#define SIZE(type, bytes)           {"sizeof " #type, sizeof(struct type), bytes}
#define PLACE(type, member, offset) {#type "." #member, offsetof(struct type, member), offset}

static const struct {
    const char *what;
    size_t is, must;
} layout[] = {
    {"int is 4 bytes: ncclResult_t, ncclFunc_t, log level", sizeof(int), 4},
    {"pointers are 8 bytes", sizeof(void *), 8},
    {"ncclResult_t", sizeof(nccl_abi_result), 4},

    SIZE(nccl_abi_nvl_domains, 12),
    PLACE(nccl_abi_nvl_domains, min_ranks, 4),
    PLACE(nccl_abi_nvl_domains, max_ranks, 8),
    SIZE(nccl_abi_constants_v5, 1152),
    PLACE(nccl_abi_constants_v5, base_latency, 0),
    PLACE(nccl_abi_constants_v5, hw_latency, 168),
    PLACE(nccl_abi_constants_v5, ll_max_bw, 672),
    PLACE(nccl_abi_constants_v5, ring_ll128_bw, 768),
    PLACE(nccl_abi_constants_v5, tree_ll128_bw, 864),
    PLACE(nccl_abi_constants_v5, tree_bw, 960),
    PLACE(nccl_abi_constants_v5, nvls_tree_bw, 1056),
    SIZE(nccl_abi_constants_v7, 1272),
    PLACE(nccl_abi_constants_v7, base_latency, 0),
    PLACE(nccl_abi_constants_v7, hw_latency, 168),
    PLACE(nccl_abi_constants_v7, ll_max_bw, 672),
    PLACE(nccl_abi_constants_v7, ring_ll128_bw, 792),
    PLACE(nccl_abi_constants_v7, tree_ll128_bw, 912),
    PLACE(nccl_abi_constants_v7, tree_bw, 1032),
    PLACE(nccl_abi_constants_v7, nvls_tree_bw, 1152),

    SIZE(nccl_abi_tuner_v4, 32),
    PLACE(nccl_abi_tuner_v4, name, 0),
    PLACE(nccl_abi_tuner_v4, init, 8),
    PLACE(nccl_abi_tuner_v4, get_coll_info, 16),
    PLACE(nccl_abi_tuner_v4, destroy, 24),
    SIZE(nccl_abi_tuner_v5, 32),
    PLACE(nccl_abi_tuner_v5, init, 8),
    PLACE(nccl_abi_tuner_v5, get_coll_info, 16),
    PLACE(nccl_abi_tuner_v5, finalize, 24),
    SIZE(nccl_abi_tuner_v6, 40),
    PLACE(nccl_abi_tuner_v6, get_coll_info, 16),
    PLACE(nccl_abi_tuner_v6, finalize, 24),
    PLACE(nccl_abi_tuner_v6, get_chunk_size, 32),
    SIZE(nccl_abi_tuner_v7, 40),
    PLACE(nccl_abi_tuner_v7, get_coll_info, 16),
    PLACE(nccl_abi_tuner_v7, finalize, 24),
    PLACE(nccl_abi_tuner_v7, get_chunk_size, 32),

    SIZE(nccl_abi_env_v1, 32),
    PLACE(nccl_abi_env_v1, init, 8),
    PLACE(nccl_abi_env_v1, finalize, 16),
    PLACE(nccl_abi_env_v1, get_env, 24),
    SIZE(nccl_abi_env_v2, 32),
    PLACE(nccl_abi_env_v2, init, 8),
    PLACE(nccl_abi_env_v2, finalize, 16),
    PLACE(nccl_abi_env_v2, get_env, 24),

    SIZE(nccl_abi_profiler_v4, 48),
    PLACE(nccl_abi_profiler_v4, init, 8),
    PLACE(nccl_abi_profiler_v4, start_event, 16),
    PLACE(nccl_abi_profiler_v4, stop_event, 24),
    PLACE(nccl_abi_profiler_v4, record_event_state, 32),
    PLACE(nccl_abi_profiler_v4, finalize, 40),
    SIZE(nccl_abi_profiler_v5, 48),
    PLACE(nccl_abi_profiler_v5, start_event, 16),
    PLACE(nccl_abi_profiler_v5, finalize, 40),
    PLACE(nccl_abi_event_v4, type, 0),
    PLACE(nccl_abi_event_v4, parent, 8),
    PLACE(nccl_abi_event_v4, rank, 16),
    PLACE(nccl_abi_event_v4, coll, 24),
    PLACE(nccl_abi_event_v5, parent, 8),
    PLACE(nccl_abi_event_v5, rank, 16),
    PLACE(nccl_abi_event_v5, u, 24),
    PLACE(nccl_abi_ev_coll, seq, 0),
    PLACE(nccl_abi_ev_coll, func, 8),
    PLACE(nccl_abi_ev_coll, send, 16),
    PLACE(nccl_abi_ev_coll, recv, 24),
    PLACE(nccl_abi_ev_coll, count, 32),
    PLACE(nccl_abi_ev_coll, root, 40),
    PLACE(nccl_abi_ev_coll, datatype, 48),
    PLACE(nccl_abi_ev_coll, channels, 56),
    PLACE(nccl_abi_ev_coll, warps, 57),
    PLACE(nccl_abi_ev_coll, algo, 64),
    PLACE(nccl_abi_ev_coll, proto, 72),
    PLACE(nccl_abi_ev_coll_v7, parent_group, 80),
    PLACE(nccl_abi_ev_coll_v7, kernel_variant, 88),
    PLACE(nccl_abi_ev_coll_v7, is_sym, 96),
    PLACE(nccl_abi_ev_coll_api, func, 0),
    PLACE(nccl_abi_ev_coll_api, count, 8),
    PLACE(nccl_abi_ev_coll_api, datatype, 16),
    PLACE(nccl_abi_ev_coll_api, root, 24),
    PLACE(nccl_abi_ev_coll_api, stream, 32),
    PLACE(nccl_abi_ev_coll_api, captured, 40),
};

START_TEST(test_the_layout_is_nccl_s)
{
    ck_assert_msg(layout[_i].is == layout[_i].must, "%s: %zu, must be %zu", layout[_i].what,
                  layout[_i].is, layout[_i].must);
}
END_TEST

extern const struct nccl_abi_tuner_v4 ncclTunerPlugin_v4;
extern const struct nccl_abi_tuner_v5 ncclTunerPlugin_v5;
extern const struct nccl_abi_tuner_v6 ncclTunerPlugin_v6;
extern const struct nccl_abi_tuner_v7 ncclTunerPlugin_v7;
extern const struct nccl_abi_env_v1 ncclEnvPlugin_v1;
extern const struct nccl_abi_env_v2 ncclEnvPlugin_v2;
extern const struct nccl_abi_profiler_v4 ncclProfiler_v4;
extern const struct nccl_abi_profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

static const struct {
    const void *table;
    int members;
} tables[] = {
    {&ncclTunerPlugin_v4, 4}, {&ncclTunerPlugin_v5, 4}, {&ncclTunerPlugin_v6, 5},
    {&ncclTunerPlugin_v7, 5}, {&ncclEnvPlugin_v1, 4},   {&ncclEnvPlugin_v2, 4},
    {&ncclProfiler_v4, 6},    {&ncclProfiler_v5, 6},    {&ncclProfiler_v6, 6},
    {&ncclProfiler_v7, 6},
};

START_TEST(test_no_exported_table_has_a_hole)
{
    const void *const *member = tables[_i].table;

    for (int m = 0; m < tables[_i].members; m++)
        ck_assert_msg(member[m], "table %d lacks member %d", _i, m);
    ck_assert_str_eq(member[0], "symtuner");
}
END_TEST

/* The newest version of each interface that a release speaks; 0: none. The rows are the first and
 * the last release number of each era, whether published or not. */
static const struct {
    int release;
    const char *era;
    int tuner, env, profiler;
} spoken[] = {
    {22399, "before 2.24", 3, 0, 0}, {22400, "2.24", 4, 0, 0},   {22699, "2.24", 4, 0, 0},
    {22700, "2.27", 4, 0, 4},        {22799, "2.27", 4, 0, 4},
    {22800, "2.28.3", 5, 0, 5},      {22806, "2.28.3", 5, 0, 5}, {22807, "2.28.7", 5, 1, 5},
    {22899, "2.28.7", 5, 1, 5},      {22900, "2.29.2", 5, 1, 6}, {22904, "2.29.2", 5, 1, 6},
    {22905, "2.29.7", 5, 1, 6},      {22999, "2.29.7", 5, 1, 6}, {23000, "2.30", 6, 1, 6},
    {23006, "2.30", 6, 1, 6},        {23007, "2.30.7", 6, 2, 6}, {23099, "2.30.7", 6, 2, 6},
    {23100, "2.31", 6, 2, 7},        {23199, "2.31", 6, 2, 7},   {23200, "2.32", 6, 2, 7},
    {23203, "2.32", 6, 2, 7},        {23204, "2.32.6", 7, 2, 7}, {99999, "2.32.6", 7, 2, 7},
};

START_TEST(test_a_release_speaks_its_interface_versions)
{
    const struct st_era *era = st_era_of(spoken[_i].release);

    ck_assert_str_eq(era->name, spoken[_i].era);
    ck_assert_int_eq(era->tuner_abi, spoken[_i].tuner);
    ck_assert_int_eq(era->env_abi, spoken[_i].env);
    ck_assert_int_eq(era->profiler_abi, spoken[_i].profiler);
}
END_TEST

Suite *abi_suite(void)
{
    Suite *suite = suite_create("abi");
    TCase *structs = tcase_create("structs"), *exported = tcase_create("tables");

    t_add_rows(structs, test_the_layout_is_nccl_s, layout);
    t_add_rows(exported, test_no_exported_table_has_a_hole, tables);
    t_add_rows(exported, test_a_release_speaks_its_interface_versions, spoken);
    suite_add_tcase(suite, structs);
    suite_add_tcase(suite, exported);
    return suite;
}
