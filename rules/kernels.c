/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - finds the [kernels] rule that covers a call of libsymtuner_ar.so, and says why a
 * [kernels] rule cannot do what it says. */
#include <string.h>

#include "nccl/names.h"
#include "rules/rules.h"
#include "symtuner_why.h"

/* ---- what kernels need ----------------------------------------------------------------------- */

#define BIT(number) (1u << (number))
#define REDUCE  BIT(ST_KERNEL_ALL_REDUCE)
#define SCATTER BIT(ST_KERNEL_REDUCE_SCATTER)
#define GATHER  BIT(ST_KERNEL_ALL_GATHER)

/* What each kernel needs (docs/kernels.md says why): NVLink, registered buffers for all-reduces
 * (${buffers}), multicast. If ${colls}, ${dtypes} or ${ops} is 0, the kernel runs all collectives,
 * types or operators. */
static const struct {
    const char *kernel;
    bool nvlink, buffers, multicast;
    unsigned colls, dtypes, ops;
} wants[] = {
    {"one_ll128", .nvlink = true},
    {"two_ll8", .colls = REDUCE},
    {"two_ll128", .nvlink = true, .colls = REDUCE},
    {"one_lamport", .colls = REDUCE | SCATTER,
     .dtypes = BIT(SYMTUNER_FLOAT16) | BIT(SYMTUNER_FLOAT32) | BIT(SYMTUNER_BFLOAT16),
     .ops = BIT(SYMTUNER_SUM) | BIT(SYMTUNER_AVG)},
    {"two_lamport", .colls = REDUCE,
     .dtypes = BIT(SYMTUNER_FLOAT16) | BIT(SYMTUNER_FLOAT32) | BIT(SYMTUNER_BFLOAT16),
     .ops = BIT(SYMTUNER_SUM) | BIT(SYMTUNER_AVG)},
    {"pull", .buffers = true},
    {"pull_one", .buffers = true, .colls = REDUCE},
    {"copy", .buffers = true, .colls = REDUCE | GATHER},
    {"tma", .buffers = true},
    {"engines", .colls = GATHER},
    {"tma_engines", .buffers = true, .colls = REDUCE},
    {"nvls", .buffers = true, .multicast = true, .colls = REDUCE, .ops = BIT(SYMTUNER_SUM),
     .dtypes = BIT(SYMTUNER_FLOAT16) | BIT(SYMTUNER_FLOAT32) | BIT(SYMTUNER_BFLOAT16)},
    {"nvls_one", .buffers = true, .multicast = true, .colls = REDUCE, .ops = BIT(SYMTUNER_SUM),
     .dtypes = BIT(SYMTUNER_FLOAT16) | BIT(SYMTUNER_FLOAT32) | BIT(SYMTUNER_BFLOAT16)},
};

unsigned st_kernel_runs(int kernel)
{
    for (size_t i = 0; kernel >= 0 && i < sizeof wants / sizeof *wants; i++)
        if (wants[i].colls && strcmp(wants[i].kernel, st_kernel_words.word[kernel]) == 0)
            return wants[i].colls;
    return REDUCE | SCATTER | GATHER;
}

/* ---- find ------------------------------------------------------------------------------------ */

/* Most rules were found by timing all-reduces. So a rule without the key coll is for all-reduces.
 * If its kernel cannot run all-reduces, the rule is for the collectives that the kernel can run. */
unsigned st_kernels_colls(const struct st_rule *rule)
{
    unsigned runs;

    if (rule->kernel_colls)
        return rule->kernel_colls;
    runs = rule->launch.network_pieces >= 0 ? REDUCE : st_kernel_runs(rule->launch.kernel);
    return runs & REDUCE ? REDUCE : runs;
}

bool st_kernels_concern(const struct st_rule *rule, int nccl, int ranks,
                        const struct symtuner_machine *machine)
{
    return rule->kernels && st_span_has(rule->ranks, (uint64_t)ranks) &&
           st_rule_fits(rule, nccl ? nccl : (int)rule->nccl.lo, machine);
}

bool st_kernels_cover(const struct st_rule *rule, int coll, uint64_t bytes, int dtype, int op,
                      bool registered, int beside)
{
    return st_span_has(rule->bytes, bytes) && rule->dtypes >> dtype & 1 && rule->ops >> op & 1 &&
           rule->reg & (registered ? ST_REG_YES : ST_REG_NO) && rule->besides >> beside & 1 &&
           st_kernels_colls(rule) >> coll & 1;
}

enum symtuner_status symtuner_kernel_decide(const symtuner_rules *rules,
                                            const struct symtuner_kernel_query *query,
                                            struct symtuner_kernel_decision *out)
{
    struct symtuner_kernel_query q = {0}; /* members that an older caller's struct lacks stay 0 */
    struct symtuner_kernel_decision d = {
        .struct_size = sizeof d, .rule = -1, .beside = -1, .network_pieces = -1};

    if (!query || !out || query->struct_size > sizeof q || out->struct_size > sizeof d)
        return SYMTUNER_EINVAL;
    memcpy(&q, query, query->struct_size);
    if (q.ranks < 1 || q.dtype < 0 || q.dtype >= st_dtype_words.count || q.op < 0 ||
        q.op >= st_op_words.count || q.beside < 0 || q.beside >= st_beside_words.count ||
        q.boxes < 0 || q.coll < 0 || q.coll >= st_kernel_coll_words.count)
        return SYMTUNER_EINVAL;
    if (q.coll == ST_KERNEL_ALL_GATHER)
        /* An all-gather has no operator. Use sum, as libsymtuner_ar.so does for its queries. */
        q.op = SYMTUNER_SUM;
    /* For a call over several boxes ignore ${registered} and ${beside}. Ranks may differ in these
     * two members, but all ranks must find the same rule. */
    if (q.boxes > 1)
        q.registered = q.beside = 0;
    for (int i = 0; rules && i < rules->count && d.rule < 0; i++) {
        const struct st_rule *rule = &rules->rule[i];

        if ((rule->launch.network_pieces >= 0) != (q.boxes > 1) ||
            (q.boxes > 1 && q.coll != ST_KERNEL_ALL_REDUCE) ||
            !st_kernels_concern(rule, q.nccl, q.ranks, &q.machine) ||
            !st_kernels_cover(rule, q.coll, q.bytes, q.dtype, q.op, q.registered != 0, q.beside))
            continue;
        d.rule = i;
        d.line = rule->line;
        strcpy(d.name, rule->name);
        d.kernel = rule->launch.kernel < 0 ? NULL : st_kernel_words.word[rule->launch.kernel];
        d.ctas = rule->launch.ctas;
        d.threads = rule->launch.threads;
        d.beside = rule->launch.beside;
        d.network_pieces = rule->launch.network_pieces;
    }
    d.struct_size = out->struct_size;
    memcpy(out, &d, out->struct_size);
    return SYMTUNER_OK;
}

/* ---- lint ------------------------------------------------------------------------------------ */

const char *st_kernels_lint(const struct st_rule *rule, int n)
{
    const struct st_launch *launch = &rule->launch;
    const char *kernel = launch->kernel < 0 ? "" : st_kernel_words.word[launch->kernel];
    const unsigned colls = st_kernels_colls(rule);

    if (launch->network_pieces >= 0) {
        if (!(colls & REDUCE) && n-- == 0)
            return "never applies: only all-reduces are added up box by box";
        if ((*kernel || launch->ctas || launch->threads || launch->beside >= 0) && n-- == 0)
            return "sets kernel, ctas, threads or beside next to network-pieces: a section with "
                   "network-pieces is only for calls over several boxes; write two sections";
        return NULL;
    }
    if (!*kernel && !launch->ctas && !launch->threads && launch->beside < 0 && n-- == 0)
        return "sets nothing; give it a kernel";
    if (*kernel && launch->beside >= 0 && n-- == 0)
        return "sets both kernel and beside: beside has no effect if kernel is set";
    if ((rule->ranks.lo > 16 || rule->ranks.hi < 2) && n-- == 0)
        return "never applies: the library's kernels take 2 to 16 ranks";
    if (colls == GATHER && !(rule->ops & BIT(SYMTUNER_SUM)) && n-- == 0)
        return "never applies: an all-gather has no operator, and counts as sum";
    if (strcmp(kernel, "nccl") == 0 && (launch->ctas || launch->threads) && n-- == 0)
        return "gives the call to NCCL, whose blocks and threads it cannot set";
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        if (strcmp(wants[i].kernel, kernel) != 0)
            continue;
        if (wants[i].nvlink && rule->links == 0 && n-- == 0)
            return "asks for LL128 on PCIe, where a line may arrive in parts: the library's table "
                   "decides";
        if (wants[i].multicast && rule->multicast == 0 && n-- == 0)
            return "asks for a multicast kernel where multicast is off: the library's table "
                   "decides";
        if (wants[i].buffers && colls == REDUCE && rule->reg == ST_REG_NO && n-- == 0)
            return "asks for a kernel that needs registered buffers, but covers only calls without";
        if (wants[i].dtypes && !(wants[i].dtypes & rule->dtypes) && n-- == 0)
            return "asks for a kernel that knows only f16, f32 and bf16, but covers only other "
                   "types";
        if (wants[i].ops && !(wants[i].ops & rule->ops) && n-- == 0)
            return "asks for a kernel that cannot do any of the rule's operators";
        if (!(st_kernel_runs(launch->kernel) & colls) && n-- == 0)
            return "asks for a kernel that runs none of the rule's collectives";
    }
    return NULL;
}
