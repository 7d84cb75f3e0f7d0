/* SPDX-License-Identifier: Apache-2.0 */
/* check_lint.c - checks what `symtuner check` finds in legal rules: each finding, and rules without
 * a finding. */
#include <stdio.h>
#include <string.h>

#include "rules/rules.h"
#include "test/suites.h"

enum { FINDINGS = 5 };

/* Read ${text} and compare its findings with ${want}. Each finding begins with a place and the
 * rule's name. */
static void findings_are(const char *text, const char *const *want)
{
    char found[SYMTUNER_ERROR_MAX], wrong[SYMTUNER_ERROR_MAX] = "";
    symtuner_rules *rules = NULL;
    int n = 0;

    ck_assert_msg(symtuner_rules_inline(text, &rules, wrong, sizeof wrong) == SYMTUNER_OK,
                  "%s: %s", text, wrong);
    for (; symtuner_rules_lint(rules, n, found, sizeof found); n++) {
        ck_assert_msg(n < FINDINGS && want[n], "%s: also finds %s", text, found);
        ck_assert_msg(strstr(found, want[n]), "%s: \"%s\" is not in: %s", text, want[n], found);
    }
    ck_assert_msg(n == FINDINGS || !want[n], "%s: does not find %s", text, want[n]);
    symtuner_rules_free(rules);
}

/* ---- two rules ------------------------------------------------------------------------------- */

#define HIDDEN "never applies: \"inline:1\" of line 1 takes all its calls"
#define SHARES(lo, hi) "shares bytes " #lo ".." #hi " with \"inline:1\" of line 1, which takes them"
#define RULE    "allreduce prefer=symmetric"
#define LATER   "allreduce prefer=general:*/simple"
#define LOW     "bytes=..64KiB"
#define HIGH    "bytes=64KiB.."
#define ALL     "kernels kernel=one_ll8"
#define KERNELS "kernels kernel=two_ll8"
#define EITHER  "kernels kernel=chunked"

static const struct {
    const char *first, *later, *finding; /* finding is NULL if there must be none */
} pairs[] = {
    /* a rule that covers everything hides the rules after it, whatever their conditions */
    {RULE, LATER, HIDDEN},
    {RULE, LATER " bytes=1KiB", HIDDEN},
    {RULE, LATER " ranks=2", HIDDEN},
    {RULE, LATER " nodes=1", HIDDEN},
    {RULE, LATER " pipe-ops=1", HIDDEN},
    {RULE, LATER " nccl=2.28", HIDDEN},
    {RULE, LATER " gpu=a", HIDDEN},
    {RULE, LATER " links=pcie", HIDDEN},
    {RULE, LATER " multicast=no", HIDDEN},
    {RULE, LATER " registered=yes", HIDDEN},
    {"any prefer=symmetric", LATER, HIDDEN},
    {ALL, KERNELS " dtype=f32", HIDDEN},
    {ALL, KERNELS " op=max", HIDDEN},
    /* a rule does not hide later rules if it leaves them some calls */
    {RULE " bytes=1KiB", LATER, NULL},
    {RULE " bytes=1KiB..4KiB", LATER " bytes=1KiB..4KiB", HIDDEN},
    {RULE " bytes=1KiB..4KiB", LATER " bytes=2KiB..8KiB", SHARES(2048, 4096)},
    {RULE " bytes=2KiB..8KiB", LATER " bytes=1KiB..4KiB", SHARES(2048, 4096)},
    {RULE " bytes=2KiB..8KiB", LATER " bytes=1KiB..8KiB", NULL},
    {RULE " ranks=2", LATER, NULL},
    {RULE " nodes=1", LATER, NULL},
    {RULE " pipe-ops=1", LATER, NULL},
    {RULE " nccl=2.28", LATER, NULL},
    {RULE " gpu=a", LATER " gpu=a", NULL},
    {RULE " links=pcie", LATER " links=pcie", NULL},
    {RULE " multicast=no", LATER " multicast=no", NULL},
    {RULE " registered=yes", LATER, NULL},
    {"reduce prefer=symmetric", LATER, NULL},
    {"allreduce bytes-per-rank=0.. prefer=symmetric", LATER " bytes=1KiB", NULL},
    {ALL " dtype=f32", KERNELS, NULL},
    {ALL " op=max", KERNELS, NULL},
    {ALL " coll=any", EITHER " coll=allgather", HIDDEN},
    {ALL " coll=any", KERNELS, HIDDEN},
    {ALL " coll=allreduce", KERNELS, HIDDEN},
    {ALL, EITHER " coll=allreduce", HIDDEN},
    {ALL, EITHER " coll=any", NULL},
    {ALL, EITHER " coll=allgather", NULL},
    {ALL " coll=allgather", KERNELS, NULL},
    {ALL " coll=allgather", EITHER " coll=allgather,reducescatter", NULL},
    {"kernels kernel=engines", KERNELS, NULL}, /* engines is only for all-gathers */
    {"kernels kernel=engines", EITHER " coll=allgather", HIDDEN},
    {ALL, LATER, NULL},
    {RULE, KERNELS, NULL},
    {RULE, "process sym-ctas=8", NULL},
    {"process sym-ctas=8", LATER, NULL},
    {"process sym-ctas=8", "process sym-ctas=16", HIDDEN},
    {"process nccl=2.28 sym-ctas=8", "process sym-ctas=16", NULL},
    /* for rules that share an edge, the finding says which of them takes it */
    {RULE " " LOW, LATER " " HIGH, SHARES(65536, 65536)},
    {RULE " " HIGH, LATER " " LOW, SHARES(65536, 65536)},
    {RULE " bytes=..65535", LATER " " HIGH, NULL},
    {RULE " " LOW, RULE " " HIGH, NULL}, /* both rules do the same, so sharing does no harm */
    {ALL " " LOW, KERNELS " " HIGH, SHARES(65536, 65536)},
    {ALL " " LOW, ALL " " HIGH, NULL},
    {ALL " " LOW, ALL " " HIGH " ctas=4", SHARES(65536, 65536)},
    {RULE " " LOW, RULE " " HIGH " channels=4", SHARES(65536, 65536)},
    {RULE " " LOW, KERNELS " " HIGH, NULL},
    {ALL " " LOW, LATER " " HIGH, NULL},
    /* there is no finding if no call can match both rules */
    {RULE " " LOW " ranks=2", LATER " " HIGH " ranks=4", NULL},
    {RULE " " LOW " ranks=2..4", LATER " " HIGH " ranks=4..8", SHARES(65536, 65536)},
    {RULE " " LOW " nodes=1", LATER " " HIGH " nodes=2", NULL},
    {RULE " " LOW " nodes=1", LATER " " HIGH " nodes=1", SHARES(65536, 65536)},
    {RULE " " LOW " pipe-ops=1", LATER " " HIGH " pipe-ops=2", NULL},
    {RULE " " LOW " pipe-ops=1", LATER " " HIGH " pipe-ops=1", SHARES(65536, 65536)},
    {RULE " " LOW " nccl=2.28", LATER " " HIGH " nccl=2.29", NULL},
    {RULE " " LOW " nccl=2.28", LATER " " HIGH " nccl=2.28", SHARES(65536, 65536)},
    {RULE " " LOW " links=pcie", LATER " " HIGH " links=nvlink", NULL},
    {RULE " " LOW " links=nvlink", LATER " " HIGH " links=nvlink", SHARES(65536, 65536)},
    {RULE " " LOW " links=pcie", LATER " " HIGH, SHARES(65536, 65536)},
    {RULE " " LOW, LATER " " HIGH " links=pcie", SHARES(65536, 65536)},
    {RULE " " LOW " multicast=no", LATER " " HIGH " multicast=yes", NULL},
    {RULE " " LOW " multicast=yes", LATER " " HIGH " multicast=yes", SHARES(65536, 65536)},
    {RULE " " LOW " multicast=no", LATER " " HIGH, SHARES(65536, 65536)},
    {RULE " " LOW, LATER " " HIGH " multicast=no", SHARES(65536, 65536)},
    {RULE " " LOW " gpu=a", LATER " " HIGH " gpu=b", NULL},
    {RULE " " LOW " gpu=a", LATER " " HIGH " gpu=a", SHARES(65536, 65536)},
    {RULE " " LOW " registered=yes", LATER " " HIGH " registered=no", NULL},
    {RULE " " LOW " registered=yes", LATER " " HIGH, SHARES(65536, 65536)},
    {RULE " " LOW, "reduce prefer=general:*/simple " HIGH, NULL},
    {RULE " bytes-per-rank=..64KiB", LATER " " HIGH, NULL},
    {RULE " bytes-per-rank=..64KiB", LATER " bytes-per-rank=64KiB..", SHARES(65536, 65536)},
    {ALL " " LOW " dtype=f32", KERNELS " " HIGH " dtype=f16", NULL},
    {ALL " " LOW " dtype=f32", KERNELS " " HIGH " dtype=f32", SHARES(65536, 65536)},
    {ALL " " LOW " op=sum", KERNELS " " HIGH " op=max", NULL},
    {ALL " " LOW " op=sum", KERNELS " " HIGH " op=sum", SHARES(65536, 65536)},
    {ALL " " LOW " coll=allgather", EITHER " " HIGH, NULL},
    {ALL " " LOW " coll=allgather", EITHER " " HIGH " coll=reducescatter", NULL},
    {ALL " " LOW " coll=allgather", EITHER " " HIGH " coll=any", SHARES(65536, 65536)},
};

START_TEST(test_two_rules_meet_as_their_conditions_say)
{
    const char *want[FINDINGS] = {pairs[_i].finding};
    char text[256];

    snprintf(text, sizeof text, "%s; %s", pairs[_i].first, pairs[_i].later);
    findings_are(text, want);
}
END_TEST

START_TEST(test_a_rule_is_hidden_by_one_and_shares_with_each)
{
    static const char *const each[FINDINGS] = {
        "\"inline:3\" shares bytes 1024..1024 with \"inline:1\"",
        "\"inline:3\" shares bytes 4096..4096 with \"inline:2\""};
    static const char *const once[FINDINGS] = {"\"inline:4\" never applies: \"inline:2\""};

    findings_are("allreduce bytes=..1KiB prefer=symmetric; "
                 "allreduce bytes=4KiB.. prefer=symmetric; "
                 "allreduce bytes=1KiB..4KiB prefer=general:*/simple", each);
    findings_are("allreduce bytes=..1KiB prefer=symmetric; allreduce prefer=symmetric; "
                 "any prefer=symmetric; allreduce bytes=1KiB..4KiB prefer=general:*/simple", once);
}
END_TEST

/* ---- one rule -------------------------------------------------------------------------------- */

#define NO_TYPE "asks for a kernel that knows only f16, f32 and bf16, but covers only other types"
#define NO_OP   "asks for a kernel that cannot do any of the rule's operators"
#define NO_REG  "asks for a kernel that needs registered buffers, but covers only calls without"
#define NO_MC   "asks for a multicast kernel where multicast is off"
#define NO_LINE "asks for LL128 on PCIe, where a line may arrive in parts"
#define NO_RANK "never applies: the library's kernels take 2 to 16 ranks"
#define PAT     "prefers pat for reducescatter: in NCCL 2.31.2 and later"
#define NO_COLL "asks for a kernel that runs none of the rule's collectives"
#define NO_BOX  "never applies: only all-reduces are added up box by box"
#define NCCL_S  "gives the call to NCCL, whose blocks and threads it cannot set"

static const struct {
    const char *text, *finding[FINDINGS];
} single[] = {
    {"allreduce", {NULL}},
    {"process gpu=a", {"[process] sets nothing; give it sym-ctas"}},
    {"process sym-ctas=8", {NULL}},
    {"allreduce prefer=general:nvls multicast=no", {"prefers nvls where multicast is off"}},
    {"allreduce prefer=general:nvls_tree multicast=no", {"where multicast is off"}},
    {"allreduce prefer=general:nvls multicast=yes", {NULL}},
    {"allreduce prefer=general:nvls", {NULL}},
    {"allreduce prefer=general:ring multicast=no", {NULL}},
    {"allreduce prefer=general:nvls/ll multicast=no",
     {"prefers nvls where multicast is off", "prefers nvls/ll, which no release has"}},
    {"allreduce prefer=general:ring/ll128 links=pcie", {"prefers LL128 on PCIe"}},
    {"allreduce prefer=general:ring/ll128 links=nvlink", {NULL}},
    {"allreduce prefer=general:ring/ll128", {NULL}},
    {"allreduce prefer=general:ring/ll links=pcie", {NULL}},
    {"allreduce prefer=general:nvls/ll128 links=pcie",
     {"prefers LL128 on PCIe", "prefers nvls/ll128, which no release has; write nvls/simple"}},
    {"allreduce prefer=general:collnet_direct/ll", {"collnet_direct/ll, which no release has"}},
    {"allreduce prefer=general:collnet_direct/simple", {NULL}},
    {"allreduce prefer=general:nvls/*", {NULL}},
    {"allreduce prefer=general:*/ll", {NULL}},
    {"allreduce prefer=general:tree/ll", {NULL}},
    /* from 2.31.2 on, pat computes some averages wrong */
    {"reducescatter prefer=general:pat/simple", {PAT}},
    {"reducescatter prefer=general:pat", {PAT}},
    {"reducescatter prefer=general:pat nccl=2.32", {PAT}},
    {"reducescatter prefer=general:pat nccl=2.33..", {PAT}},
    {"any prefer=general:pat", {PAT}},
    {"reducescatter prefer=general:pat/ll nccl=..2.31.1", {NULL}},
    {"reducescatter prefer=general:pat nccl=2.30.7", {NULL}},
    {"reducescatter prefer=general:ring", {NULL}},
    {"reducescatter forbid=pat/simple", {NULL}},
    {"allgather prefer=general:pat", {NULL}},
    /* rules for the library's kernels */
    {"kernels bytes=1KiB", {"sets nothing; give it a kernel"}},
    {"kernels ctas=4", {NULL}},
    {"kernels threads=64", {NULL}},
    {"kernels ranks=17..", {"sets nothing; give it a kernel", NO_RANK}},
    {"kernels kernel=one_ll8 ranks=17..", {NO_RANK}},
    {"kernels kernel=one_ll8 ranks=16..", {NULL}},
    {"kernels kernel=one_ll8 ranks=..1", {NO_RANK}},
    {"kernels kernel=one_ll8 ranks=..2", {NULL}},
    {"kernels kernel=nccl", {NULL}},
    {"kernels kernel=nccl ctas=4", {NCCL_S}},
    {"kernels kernel=nccl threads=64 ranks=1", {NO_RANK, NCCL_S}},
    {"kernels kernel=one_ll8 ctas=4 threads=64", {NULL}},
    {"kernels kernel=one_ll128 links=pcie", {NO_LINE}},
    {"kernels kernel=two_ll128 links=pcie ranks=1", {NO_RANK, NO_LINE}},
    {"kernels kernel=one_ll128 links=nvlink", {NULL}},
    {"kernels kernel=one_ll8 links=pcie", {NULL}},
    {"kernels kernel=one_lamport dtype=f64,i8 op=max", {NO_TYPE, NO_OP}},
    {"kernels kernel=two_lamport dtype=f64,i8 op=prod", {NO_TYPE, NO_OP}},
    {"kernels kernel=one_lamport dtype=f64,f16 op=max,avg", {NULL}},
    {"kernels kernel=two_lamport dtype=bf16 op=sum", {NULL}},
    {"kernels kernel=one_lamport dtype=f32", {NULL}},
    {"kernels kernel=pull registered=no", {NO_REG}},
    {"kernels kernel=pull_one registered=no", {NO_REG}},
    {"kernels kernel=copy registered=no", {NO_REG}},
    {"kernels kernel=copy registered=yes", {NULL}},
    {"kernels kernel=chunked registered=no", {NULL}},
    {"kernels kernel=nvls multicast=no registered=no dtype=f64 op=max ranks=1",
     {NO_RANK, NO_MC, NO_REG, NO_TYPE, NO_OP}},
    {"kernels kernel=nvls_one multicast=no registered=no dtype=u8 op=avg",
     {NO_MC, NO_REG, NO_TYPE, NO_OP}},
    {"kernels kernel=nvls multicast=yes registered=yes dtype=f16 op=sum", {NULL}},
    {"kernels kernel=nvls_one dtype=bf16,f64 op=sum,max", {NULL}},
    {"kernels kernel=nvls dtype=f32", {NULL}},
    {"kernels coll=allgather", {"sets nothing; give it a kernel"}},
    {"kernels coll=allgather ctas=4", {NULL}},
    {"kernels coll=allgather kernel=two_ll8", {NO_COLL}},
    {"kernels coll=allgather,reducescatter kernel=nvls multicast=no", {NO_MC, NO_COLL}},
    {"kernels coll=allgather kernel=one_lamport", {NO_COLL}},
    {"kernels coll=reducescatter kernel=one_lamport", {NULL}},
    {"kernels coll=reducescatter kernel=copy", {NO_COLL}},
    {"kernels coll=allreduce kernel=engines", {NO_COLL}},
    {"kernels kernel=engines", {NULL}},
    {"kernels kernel=tma_engines", {NULL}},
    {"kernels kernel=tma_engines registered=no", {NO_REG}},
    {"kernels coll=allgather kernel=tma_engines", {NO_COLL}},
    {"kernels coll=any kernel=engines", {NULL}},
    {"kernels coll=any kernel=two_ll8", {NULL}},
    {"kernels coll=allgather kernel=nccl", {NULL}},
    /* a reduce-scatter with pull needs only its send buffer registered */
    {"kernels coll=reducescatter kernel=pull registered=no", {NULL}},
    {"kernels coll=any kernel=pull registered=no", {NULL}},
    {"kernels coll=allreduce kernel=pull registered=no", {NO_REG}},
    {"kernels coll=allgather network-pieces=2", {NO_BOX}},
    {"kernels coll=allgather,allreduce network-pieces=2", {NULL}},
};

START_TEST(test_a_rule_that_cannot_do_what_it_says_is_named)
{
    findings_are(single[_i].text, single[_i].finding);
}
END_TEST

/* ---- the box --------------------------------------------------------------------------------- */

static const struct {
    const char *box, *rule;
    int never;
} boxes[] = {
    {"nccl = 2.28.9", "nccl = 2.28", 0},   {"nccl = 2.28.9", "nccl = 2.29..", 1},
    {"nccl = 2.28.9", "nccl = ..2.28.8", 1}, {"links = pcie", "links = pcie", 0},
    {"links = pcie", "links = nvlink", 1}, {"links = nvlink", "links = pcie", 1},
    {"links = pcie", "ranks = 2", 0},      {"gpu = a", "links = pcie", 0},
    {"multicast = no", "multicast = no", 0}, {"multicast = no", "multicast = yes", 1},
    {"multicast = yes", "multicast = no", 1}, {"multicast = no", "ranks = 2", 0},
    {"gpu = a", "multicast = no", 0},
};

/* Rules are used only with the releases that [provenance] names. So a rule that chooses pat gets a
 * finding only if pat is faulty in one of these releases. */
START_TEST(test_pat_is_no_fault_of_the_releases_of_the_provenance)
{
    static const char *const nccl[] = {"2.30.7", "2.31.2", "2.28.."};
    char text[256], found[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules = NULL;

    snprintf(text, sizeof text, "[provenance]\nlinks = nvlink\nnccl = %s\n[rule a]\n"
             "coll = reducescatter\nprefer = general:pat\n", nccl[_i]);
    ck_assert_int_eq(symtuner_rules_parse(text, "t", &rules, found, sizeof found), SYMTUNER_OK);
    ck_assert_int_eq(symtuner_rules_lint(rules, 0, found, sizeof found), _i > 0);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_a_rule_of_another_box_never_applies)
{
    char text[256], found[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules = NULL;
    int never;

    snprintf(text, sizeof text, "[provenance]\n%s\n[rule a]\ncoll = any\nprefer = symmetric\n%s\n",
             boxes[_i].box, boxes[_i].rule);
    ck_assert_int_eq(symtuner_rules_parse(text, "t", &rules, found, sizeof found), SYMTUNER_OK);
    never = symtuner_rules_lint(rules, 0, found, sizeof found);
    ck_assert_msg(never == boxes[_i].never, "%s: %s", text, never ? found : "nothing is found");
    if (never)
        ck_assert_str_eq(found, "t:3: rule \"a\" never applies: [provenance] excludes its release "
                                "or machine");
    symtuner_rules_free(rules);
}
END_TEST

Suite *lint_suite(void)
{
    Suite *suite = suite_create("lint");
    TCase *two = tcase_create("two rules"), *one = tcase_create("one rule");

    t_add_rows(two, test_two_rules_meet_as_their_conditions_say, pairs);
    tcase_add_test(two, test_a_rule_is_hidden_by_one_and_shares_with_each);
    t_add_rows(one, test_a_rule_that_cannot_do_what_it_says_is_named, single);
    t_add_rows(one, test_a_rule_of_another_box_never_applies, boxes);
    tcase_add_loop_test(one, test_pat_is_no_fault_of_the_releases_of_the_provenance, 0, 3);
    suite_add_tcase(suite, two);
    suite_add_tcase(suite, one);
    return suite;
}
