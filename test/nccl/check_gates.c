/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_gates.c - checks that for every gate (condition for a symmetric kernel) there is a call
 * that fails at it first, and that the gate's cure lets that call pass. Also checks that releases
 * differ where they should.
 */
#include <check.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "nccl/hazards.h"
#include "nccl/model/setting_list.h"
#include "nccl/model/symmetric_cost.h"
#include "symtuner_why.h"
#include "test/suites.h"

/* Return a call that runs a symmetric kernel in every release from 2.28 on. */
static struct symtuner_call good(int nccl)
{
    struct symtuner_call call;

    symtuner_call_init(&call, nccl);
    call.count = 1 << 20;
    call.send = call.recv = SYMTUNER_REG_SYMMETRIC;
    return call;
}

static struct symtuner_verdict predict(const struct symtuner_call *call)
{
    struct symtuner_verdict verdict = {.struct_size = sizeof verdict};

    t_check(symtuner_predict(call, &verdict) == SYMTUNER_OK, "refused");
    return verdict;
}

static void spoil_release(struct symtuner_call *c) { c->nccl = 22605; }
static void spoil_fp8(struct symtuner_call *c) { c->dtype = SYMTUNER_FLOAT8E4M3; c->arch = 89; }
static void spoil_ranks(struct symtuner_call *c) { c->ranks = 1; }
static void spoil_nodes(struct symtuner_call *c) { c->nodes = 2; }
static void spoil_windows(struct symtuner_call *c) { c->win_enable = 0; }
static void spoil_peer(struct symtuner_call *c) { c->peer_raw = c->peer_nccl = 0; }
static void spoil_ce(struct symtuner_call *c) { c->coll = SYMTUNER_ALLGATHER; c->cta_policy = 2; }
static void spoil_nvlink(struct symtuner_call *c) { c->nvlink = 0; }
static void spoil_coll(struct symtuner_call *c) { c->coll = SYMTUNER_BROADCAST; }
static void spoil_type(struct symtuner_call *c) { c->dtype = SYMTUNER_INT32; }
static void spoil_algo(struct symtuner_call *c) { c->nccl = 23102; c->algo = "ring"; }
static void spoil_kernel(struct symtuner_call *c) { c->sym_kernel = "AllGather_LL"; }
static void spoil_size(struct symtuner_call *c) { c->count = 1ull << 34; }
static void spoil_reg(struct symtuner_call *c) { c->send = c->recv = SYMTUNER_REG_NONE; }
static void spoil_group(struct symtuner_call *c) { c->nccl = 22707; c->group = 2; }
static void spoil_process(struct symtuner_call *c)
{
    c->nccl = 22903;
    c->count = 64;
    c->one_process = 1;
}
static void spoil_ll(struct symtuner_call *c)
{
    static const float simple[21] = {-1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

    c->send = SYMTUNER_REG_NONE;
    c->table = simple;
}

/* [gate]: how to change a good call so that it fails at this gate. The release is 2.29.7, unless
 * spoil() sets another one. */
static const struct {
    void (*spoil)(struct symtuner_call *);
    enum symtuner_kind kind;
} spoilers[SYMTUNER_GATES] = {
    {spoil_release, SYMTUNER_KIND_GENERAL}, {spoil_fp8, SYMTUNER_KIND_ERROR},
    {spoil_ranks, SYMTUNER_KIND_GENERAL},   {spoil_nodes, SYMTUNER_KIND_GENERAL},
    {spoil_windows, SYMTUNER_KIND_GENERAL}, {spoil_peer, SYMTUNER_KIND_GENERAL},
    {spoil_ce, SYMTUNER_KIND_CE},           {spoil_nvlink, SYMTUNER_KIND_GENERAL},
    {spoil_coll, SYMTUNER_KIND_GENERAL},    {spoil_type, SYMTUNER_KIND_GENERAL},
    {spoil_algo, SYMTUNER_KIND_GENERAL},    {spoil_kernel, SYMTUNER_KIND_GENERAL},
    {spoil_size, SYMTUNER_KIND_GENERAL},    {spoil_reg, SYMTUNER_KIND_GENERAL},
    {spoil_group, SYMTUNER_KIND_GENERAL},   {spoil_process, SYMTUNER_KIND_GENERAL},
    {spoil_ll, SYMTUNER_KIND_GENERAL},
};

START_TEST(test_each_gate_fails_first_when_its_condition_is_broken)
{
    struct symtuner_call call = good(22907);
    struct symtuner_verdict verdict = predict(&call);

    ck_assert_int_eq(verdict.kind, SYMTUNER_KIND_SYMMETRIC);
    ck_assert_int_eq(verdict.gate, SYMTUNER_GATE_NONE);
    spoilers[_i].spoil(&call);
    verdict = predict(&call);
    ck_assert_msg((int)verdict.gate == _i, "gate %s failed first, not %s",
                  verdict.gate < SYMTUNER_GATES ? symtuner_gate_name(verdict.gate) : "none",
                  symtuner_gate_name((enum symtuner_gate)_i));
    ck_assert_int_eq(verdict.state[_i], SYMTUNER_GATE_FAIL);
    ck_assert_int_eq(verdict.kind, spoilers[_i].kind);
    ck_assert_ptr_null(verdict.kernel);
    ck_assert_ptr_nonnull(symtuner_gate_text((enum symtuner_gate)_i));
    ck_assert_ptr_nonnull(symtuner_gate_cure((enum symtuner_gate)_i));
}
END_TEST

START_TEST(test_pcie_runs_symmetric_kernels_only_before_2_29)
{
    static const int release[] = {22707, 22803, 22809, 22903, 22907, 23007, 23102};
    static const int gate_l40s[] = {SYMTUNER_GATE_PEER,   SYMTUNER_GATE_PEER,
                                    SYMTUNER_GATE_NONE,   SYMTUNER_GATE_NVLINK,
                                    SYMTUNER_GATE_NVLINK, SYMTUNER_GATE_NVLINK,
                                    SYMTUNER_GATE_NVLINK};
    struct symtuner_call call = good(release[_i]);

    call.nvlink = call.peer_nccl = 0; /* as on four L40S under two switches */
    ck_assert_int_eq(predict(&call).gate, gate_l40s[_i]);
    call.peer_nccl = 1; /* as on two RTX PRO 6000 on one socket */
    ck_assert_int_eq(predict(&call).gate, _i < 3 ? SYMTUNER_GATE_NONE : SYMTUNER_GATE_NVLINK);
}
END_TEST

START_TEST(test_two_ranks_use_multicast_only_from_2_28_7_to_2_29_3)
{
    static const int release[] = {22707, 22803, 22809, 22903, 22907, 23007};
    struct symtuner_call call = good(release[_i]);

    call.multicast = 1;
    call.ranks = 2;
    ck_assert_str_eq(predict(&call).kernel, _i == 2 || _i == 3 ? "AllReduce_RSxLDMC_AGxSTMC"
                                                               : "AllReduce_RSxLD_AGxST");
}
END_TEST

START_TEST(test_first_unregistered_call_does_not_know_of_multicast_yet)
{
    static const float ll[21] = {-1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1,
                                 -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    struct symtuner_call call = good(23007);

    call.send = call.recv = SYMTUNER_REG_NONE;
    call.sym_nowin = call.multicast = 1;
    call.count = 64;
    call.table = ll;
    ck_assert_str_eq(predict(&call).kernel, "AllReduce_AGxLLMC_R");
    call.first = 1;
    ck_assert_str_eq(predict(&call).kernel, "AllReduce_AGxLL_R");
    call.nccl = 22903;
    ck_assert_str_eq(predict(&call).kernel, "AllReduce_AGxLLMC_R");
}
END_TEST

START_TEST(test_avg_is_symmetric_from_2_30_and_its_allreduce_has_no_kernel)
{
    struct symtuner_call call = good(22907);

    call.op = SYMTUNER_AVG;
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_TYPE);
    call.nccl = 23007;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    ck_assert_int_eq(predict(&call).broken, 1);
    call.coll = SYMTUNER_REDUCESCATTER;
    ck_assert_int_eq(predict(&call).broken, 0);
}
END_TEST

START_TEST(test_copy_engine_threshold_counts_elements)
{
    struct symtuner_call call = good(22903);

    call.coll = SYMTUNER_ALLGATHER;
    call.arch = 100;
    call.count = 8388608;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.count++;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_CE);
    call.dtype = SYMTUNER_INT8;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_CE);
    call.nccl = 23102; /* with TMA kernels, this release's threshold is four times as high */
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.multicast = 1;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_CE);
    call.arch = 90;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
}
END_TEST

START_TEST(test_forced_ll_kernel_in_a_group_is_an_error_in_2_28_only)
{
    struct symtuner_call call = good(22809);

    call.sym_kernel = "AllReduce_AGxLL_R";
    ck_assert_str_eq(predict(&call).kernel, "AllReduce_AGxLL_R");
    call.group = 4;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_ERROR);
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_GROUP);
    call.nccl = 22907;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_GENERAL);
}
END_TEST

START_TEST(test_sym_kernel_of_2_31_fails_what_it_does_not_name)
{
    struct symtuner_call call = good(23102);

    call.sym_kernel = "AllReduce_AGxLL_R";
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.coll = SYMTUNER_ALLGATHER;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_ERROR);
    call.sym_kernel = "allreduce:AllReduce_AGxLL_R";
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.sym_kernel = "AllReduce_AGxLLR";
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_KERNEL_ENV);
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_ERROR);
    call.algo = "allreduce:ring";
    call.sym_kernel = NULL;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.coll = SYMTUNER_ALLREDUCE;
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_ALGO_ENV);
    call.sym_kernel = "AllReduce_RSxLD_AGxST";
    ck_assert_str_eq(predict(&call).kernel, "AllReduce_RSxLD_AGxST");
}
END_TEST

START_TEST(test_without_a_cost_table_an_ll_question_stays_open)
{
    struct symtuner_call call = good(22907);
    struct symtuner_verdict verdict;

    call.recv = SYMTUNER_REG_NONE;
    verdict = predict(&call);
    ck_assert_int_eq(verdict.kind, SYMTUNER_KIND_OPEN);
    ck_assert_int_eq(verdict.state[SYMTUNER_GATE_LL_ASKED], SYMTUNER_GATE_UNKNOWN);
    ck_assert_str_eq(verdict.kernel, "AllReduce_AGxLL_R");
    call.tuner_ll = 1;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.tuner_ll = 0;
    call.nccl = 23102; /* this release's price of LL lacks latency, so LL does not win */
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_LL_ASKED);
    call.proto = "allgather:simple;allreduce:LL"; /* this leaves only LL for an AllReduce */
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.proto = "^simple";
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_LL_ASKED);
}
END_TEST

START_TEST(test_setting_lists_are_read_as_nccl_reads_them)
{
    ck_assert_int_eq(st_list_says(NULL, "allreduce", "ring"), ST_SAYS_NOTHING);
    ck_assert_int_eq(st_list_says("", "allreduce", "ring"), ST_SAYS_NOTHING);
    ck_assert_int_eq(st_list_says("Tree,RING", "allreduce", "ring"), ST_SAYS_YES);
    ck_assert_int_eq(st_list_says("tree,rings", "allreduce", "ring"), ST_SAYS_NO);
    ck_assert_int_eq(st_list_says("^ring", "allreduce", "ring"), ST_SAYS_NO);
    ck_assert_int_eq(st_list_says("^ring", "allreduce", "tree"), ST_SAYS_YES);
    ck_assert_int_eq(st_list_says("allgather:ring", "allreduce", "ring"), ST_SAYS_NOTHING);
    ck_assert_int_eq(st_list_says("AllGather:ring", "allgather", "tree"), ST_SAYS_NO);
    ck_assert_int_eq(st_list_says("ring;allreduce:^ring,pat", "allreduce", "ring"), ST_SAYS_NO);
    ck_assert_int_eq(st_list_says("ring;allreduce:^ring,pat", "allgather", "ring"), ST_SAYS_YES);
    ck_assert_int_eq(st_list_says("allreduce:;;:", "allreduce", "ring"), ST_SAYS_NO);
}
END_TEST

START_TEST(test_a_cost_table_without_any_entry_is_a_refusal_unless_symmetric)
{
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    struct symtuner_call call = good(22907);

    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        table[i] = -1.0f;
    call.table = table;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_SYMMETRIC);
    call.recv = SYMTUNER_REG_NONE; /* now the call runs an LL kernel, and NCCL asks the table */
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_ERROR);
    ck_assert_int_eq(predict(&call).gate, SYMTUNER_GATE_LL_ASKED);
    call.send = SYMTUNER_REG_NONE;
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_ERROR);
    call.ranks = 1; /* with one rank NCCL copies, and asks no table */
    ck_assert_int_eq(predict(&call).kind, SYMTUNER_KIND_GENERAL);
}
END_TEST

START_TEST(test_doubts_are_told_where_a_rule_was_not_read)
{
    struct symtuner_call call = good(23203);

    call.coll = SYMTUNER_ALLGATHER;
    ck_assert_int_eq(predict(&call).unsure, 0);
    for (int arch = 90; arch <= 121; arch++) { /* the code of 2.32.3 names only sm_100 and sm_103 */
        call.arch = arch;
        ck_assert_int_eq(predict(&call).unsure, arch == 100 || arch == 103);
    }
    call.arch = 103;
    call.group = 2;
    ck_assert_int_eq(predict(&call).unsure, 0);
    call.nccl = 23206;
    ck_assert_int_eq(predict(&call).unsure, 1);
    call.arch = 90;
    ck_assert_int_eq(predict(&call).unsure, 0);
    call.multicast = 1;
    ck_assert_int_eq(predict(&call).unsure, 1);
    call.send = call.recv = SYMTUNER_REG_NONE; /* NCCL runs a general kernel in any case */
    ck_assert_int_eq(predict(&call).unsure, 0);
    call.nccl = 23300;
    ck_assert_int_eq(predict(&call).unsure, 1);
}
END_TEST

START_TEST(test_calls_out_of_range_are_refused)
{
    struct symtuner_verdict verdict = {.struct_size = sizeof verdict};
    struct symtuner_call call = good(22809);

    ck_assert_int_eq(symtuner_predict(NULL, &verdict), SYMTUNER_EINVAL);
    call.count = 0;
    ck_assert_int_eq(symtuner_predict(&call, &verdict), SYMTUNER_EINVAL);
    call = good(22809);
    call.dtype = (enum symtuner_dtype)99;
    ck_assert_int_eq(symtuner_predict(&call, &verdict), SYMTUNER_EINVAL);
    call = good(22809);
    call.ranks = 0;
    ck_assert_int_eq(symtuner_predict(&call, &verdict), SYMTUNER_EINVAL);
    call = good(22809);
    verdict.struct_size = 8;
    ck_assert_int_eq(symtuner_predict(&call, &verdict), SYMTUNER_EINVAL);
}
END_TEST

START_TEST(test_any_call_gives_a_consistent_verdict)
{
    uint64_t seed = 42;
    int kinds[SYMTUNER_KINDS] = {0};

    for (int i = 0; i < 200000; i++) {
        struct symtuner_call call;
        struct symtuner_verdict one, two;
        uint64_t r;

        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        r = seed >> 8;
        symtuner_call_init(&call, (int[]){22604, 22707, 22809, 22903, 22907, 23007, 23102,
                                          23206}[r % 8]);
        call.coll = (enum symtuner_coll)(r >> 3 & 7) % SYMTUNER_COLLS;
        call.dtype = (enum symtuner_dtype)(r >> 6 & 15) % SYMTUNER_DTYPES;
        call.op = r >> 10 & 3 ? SYMTUNER_SUM : SYMTUNER_AVG;
        call.count = 1 + (seed >> (20 + (r >> 12 & 31)));
        call.send = (enum symtuner_reg)(r >> 17 & 3);
        call.recv = (enum symtuner_reg)(r >> 19 & 3);
        call.group = r >> 21 & 3 ? 1 : 4;
        call.one_process = r >> 23 & 1;
        call.nvlink = (r >> 24 & 3) != 0;
        call.multicast = r >> 26 & 1;
        call.ranks = 1 + (int)(r >> 27 & 15);
        call.sym_nowin = r >> 31 & 1;
        call.arch = r >> 32 & 1 ? 100 : 90;
        call.sym_ctas = r >> 33 & 3 ? 0 : 16;
        call.cta_policy = (int)(r >> 35 & 3);
        call.sym_kernel = r >> 37 & 7 ? NULL : "AllReduce_AGxLL_R";
        one = predict(&call);
        two = predict(&call);
        t_check(memcmp(&one, &two, sizeof one) == 0, "call %d: asked twice, two verdicts", i);
        kinds[one.kind]++;
        if (one.kind == SYMTUNER_KIND_SYMMETRIC || one.kind == SYMTUNER_KIND_OPEN)
            t_check(one.gate == SYMTUNER_GATE_NONE && one.kernel && one.ctas >= 1,
                    "call %d: gate %d, kernel %s, %d CTAs", i, one.gate,
                    one.kernel ? one.kernel : "none", one.ctas);
        else
            t_check(one.gate != SYMTUNER_GATE_NONE &&
                        one.state[one.gate] == SYMTUNER_GATE_FAIL && !one.kernel,
                    "call %d: gate %d, kernel %s", i, one.gate, one.kernel ? one.kernel : "none");
        for (int g = 0; g < (int)one.gate && g < SYMTUNER_GATES; g++)
            t_check(one.state[g] != SYMTUNER_GATE_FAIL, "call %d: gate %d fails before %d", i, g,
                    one.gate);
    }
    for (int k = 0; k < SYMTUNER_KINDS; k++)
        ck_assert_int_gt(kinds[k], 0);
}
END_TEST

/* ---- releases ------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int version;
} releases[] = {
    {"2.28.9", 22809}, {"22809", 22809}, {"2.27", 22703},   {"2.30", 23003},  {"2.32.6", 23206},
    {"2.9.1", 20901},  {"", -1},         {"2", -1},         {"2.", -1},       {"2.28.", -1},
    {"2.28.9.1", -1},  {"3.1.2", -1},    {"2.100.1", -1},   {"2.28.100", -1}, {"v2.28.9", -1},
    {"2.28.9 ", -1},   {"228", -1},      {"999999999", -1}, {"-2.28", -1},
};

START_TEST(test_release_texts_are_read_or_refused)
{
    ck_assert_int_eq(st_release_parse(releases[_i].text), releases[_i].version);
}
END_TEST

START_TEST(test_releases_print_as_they_parse)
{
    char text[16];

    ck_assert_str_eq(st_release_print(22809, text, sizeof text), "2.28.9");
    ck_assert_str_eq(st_release_print(23010, text, sizeof text), "2.30.10");
    for (size_t size = 0; size < sizeof text; size++) { /* the text is cut as by snprintf */
        memset(text, 'z', sizeof text);
        st_release_print(23010, text, size);
        ck_assert_int_eq(text[size], 'z');
        ck_assert(size == 0 || strncmp(text, "2.30.10", size - 1) == 0);
        ck_assert(size == 0 || strlen(text) == (size - 1 < 7 ? size - 1 : 7));
    }
    for (int version = 22700; version < 23300; version++)
        ck_assert_int_eq(st_release_parse(st_release_print(version, text, sizeof text)), version);
}
END_TEST

START_TEST(test_eras_are_in_order_and_cover_every_release)
{
    const struct st_era *era, *before = st_era_of(-1);

    for (int version = 0; version < 99999; version++, before = era) {
        if ((era = st_era_of(version)) == before)
            continue;
        ck_assert_ptr_eq(era, before + 1); /* the search skips no row */
        ck_assert_int_eq(era->first, version);
        ck_assert(era->tuner_abi >= before->tuner_abi && era->table_limit > 0);
        ck_assert(version < 22700 || (era->symmetric && era->model >= 1));
    }
    ck_assert_int_ge(before->first, 23204); /* the last row begins at 2.32.4 or later */
}
END_TEST

/* A release has the fault nccl-no-wait if and only if its symmetric kernels do not wait. From 2.29
 * on they need only one symmetric window, or none (symmetric_one_sided, ST_PDL_ANYWHERE). */
START_TEST(test_symmetric_kernels_wait_where_no_fault_says_otherwise)
{
    for (int version = 22700; version < 23300; version++) {
        const struct st_era *era = st_era_of(version);
        bool fault = false;

        for (int i = 0; st_hazard_get(version, i) != NULL; i++)
            fault |= strstr(st_hazard_get(version, i)->text, "do not wait") != NULL;
        if (version < 22800 || version >= 22803) /* 2.28.3 is the first release of its line */
            ck_assert_int_eq(era->pdl != ST_PDL_WAITS, fault);
        if (fault)
            ck_assert_int_eq(era->pdl == ST_PDL_ANYWHERE, era->symmetric_one_sided);
    }
}
END_TEST

START_TEST(test_cheapest_entry_is_taken_as_the_release_does)
{
    const struct st_era *old = st_era_of(22809), *new = st_era_of(23102);
    const float shown[6] = {5, 3, -1, 3, 9, 9};
    float table[6] = {5, 3, -1, 3, 9, 9};
    int algo, proto;

    ck_assert(st_table_pick(old, shown, NULL, 2, 3, &algo, &proto));
    ck_assert(algo == 0 && proto == 1);
    ck_assert(st_table_pick(new, shown, NULL, 2, 3, &algo, &proto));
    ck_assert(algo == 1 && proto == 0);
    table[0] = -1; /* a tuner wrote -1: old releases do not take the entry, new ones prefer it */
    table[2] = 0;  /* a tuner wrote 0 into an entry without algorithm: old releases take it */
    ck_assert(st_table_pick(old, table, shown, 2, 3, &algo, &proto));
    ck_assert(algo == 0 && proto == 2);
    ck_assert(st_table_pick(new, table, shown, 2, 3, &algo, &proto));
    ck_assert(algo == 0 && proto == 0);
    for (int i = 0; i < 6; i++)
        table[i] = i % 2 ? -1.0f : FLT_MAX;
    ck_assert(!st_table_pick(old, table, NULL, 2, 3, &algo, &proto));
    ck_assert(!st_table_pick(new, table, NULL, 2, 3, &algo, &proto));
}
END_TEST

#define ROWS(array) (int)(sizeof array / sizeof *array)

Suite *gates_suite(void)
{
    Suite *suite = suite_create("gates");
    TCase *tcase = tcase_create("gates");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_each_gate_fails_first_when_its_condition_is_broken, 0,
                        SYMTUNER_GATES);
    tcase_add_loop_test(tcase, test_pcie_runs_symmetric_kernels_only_before_2_29, 0, 7);
    tcase_add_loop_test(tcase, test_two_ranks_use_multicast_only_from_2_28_7_to_2_29_3, 0, 6);
    tcase_add_test(tcase, test_first_unregistered_call_does_not_know_of_multicast_yet);
    tcase_add_test(tcase, test_avg_is_symmetric_from_2_30_and_its_allreduce_has_no_kernel);
    tcase_add_test(tcase, test_copy_engine_threshold_counts_elements);
    tcase_add_test(tcase, test_forced_ll_kernel_in_a_group_is_an_error_in_2_28_only);
    tcase_add_test(tcase, test_sym_kernel_of_2_31_fails_what_it_does_not_name);
    tcase_add_test(tcase, test_without_a_cost_table_an_ll_question_stays_open);
    tcase_add_test(tcase, test_setting_lists_are_read_as_nccl_reads_them);
    tcase_add_test(tcase, test_a_cost_table_without_any_entry_is_a_refusal_unless_symmetric);
    tcase_add_test(tcase, test_doubts_are_told_where_a_rule_was_not_read);
    tcase_add_test(tcase, test_calls_out_of_range_are_refused);
    tcase_add_test(tcase, test_any_call_gives_a_consistent_verdict);
    tcase_add_loop_test(tcase, test_release_texts_are_read_or_refused, 0, ROWS(releases));
    tcase_add_test(tcase, test_releases_print_as_they_parse);
    tcase_add_test(tcase, test_eras_are_in_order_and_cover_every_release);
    tcase_add_test(tcase, test_symmetric_kernels_wait_where_no_fault_says_otherwise);
    tcase_add_test(tcase, test_cheapest_entry_is_taken_as_the_release_does);
    suite_add_tcase(suite, tcase);
    return suite;
}
